"""Depthwise convolutions and their gradients; the shaders have one filter for each channel."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Final

from plugrad.extend import float32
from plugrad.kernels import depthwise
from plugrad_webgpu.algorithms.reduce import reduction
from plugrad_webgpu.algorithms.windows import (
    SUM_INITIAL_STATEMENT,
    WindowReduction,
    reduce_covering_windows,
    reduce_each_window,
    reduce_to_filter_gradient,
    split_filter,
)
from plugrad_webgpu.declare import table
from plugrad_webgpu.kernels.binary import add
from plugrad_webgpu.memory.buffers import reinterpret
from plugrad_webgpu.memory.copying import BufferView, copy_view
from plugrad_webgpu.shaders.layout import contiguous_strides

if TYPE_CHECKING:
    from plugrad.extend import Window
    from plugrad_webgpu.memory.buffers import GpuArray
    from plugrad_webgpu.shaders.layout import Shape

FORWARD_WINDOW_REDUCTION = WindowReduction(
    SUM_INITIAL_STATEMENT, "sum += input[at] * filters[weight];", "sum", ("input", "filters")
)
"""The reduction that sums the pixels of a window times the filter."""
INPUT_GRADIENT_WINDOW_REDUCTION = WindowReduction(
    SUM_INITIAL_STATEMENT, "sum += dy[at] * filters[weight];", "sum", ("dy", "filters")
)
"""The reduction that sums the gradients of the windows over a pixel times the filter."""
FILTER_GRADIENT_WINDOW_REDUCTION = WindowReduction(
    SUM_INITIAL_STATEMENT, "sum += input[at] * dy[stop];", "sum", ("input", "dy")
)
"""The reduction that sums the pixels under a cell of the filter times the gradients."""

sum_over_axes: Final = reduction("a + b", {float32: 0})
"""The function that sums an array over some of its axes."""


def repeat_channels(x: GpuArray, multiplier: int) -> GpuArray:
    """Repeat each channel of channels-last images."""
    if multiplier == 1:
        return x
    copies = copy_view(x, (*x.shape, multiplier), BufferView(0, (*contiguous_strides(x.shape), 0)))
    return reinterpret(copies, (*x.shape[:-1], x.shape[-1] * multiplier))


@table.implements(depthwise.depthwise_conv2d)
def depthwise_conv2d(x: GpuArray, filter: GpuArray, *, window: Window) -> GpuArray:
    """Return the cross-correlation of each channel of images with its own filters."""
    x = repeat_channels(x, filter.shape[3])
    parts = split_filter(filter, window, x.shape[1:-1], "cells")
    return reduce(
        add,
        (
            reduce_each_window(FORWARD_WINDOW_REDUCTION, (x, own), part, x.dtype)
            for part, own in parts
        ),
    )


@table.implements(depthwise.depthwise_conv2d_input_gradient)
def depthwise_conv2d_input_gradient(
    dy: GpuArray, filter: GpuArray, *, input_shape: Shape, window: Window
) -> GpuArray:
    """Return the gradient for the images, summed over the copies of each channel."""
    batch, height, width, channels = input_shape
    size = height, width
    image = (batch, *size, dy.shape[3])
    parts = split_filter(filter, window, size, "stops")
    dx = reduce(
        add,
        (
            reduce_covering_windows(INPUT_GRADIENT_WINDOW_REDUCTION, (dy, own), part, image)
            for part, own in parts
        ),
    )
    if filter.shape[3] != 1:
        copies = reinterpret(dx, (batch, *size, channels, filter.shape[3]))
        dx = sum_over_axes(copies, (4,), False)
    return dx


@table.implements(depthwise.depthwise_conv2d_filter_gradient)
def depthwise_conv2d_filter_gradient(
    x: GpuArray, dy: GpuArray, *, filter_shape: Shape, window: Window
) -> GpuArray:
    """Return the gradient for the filters: sums of dy times the pixels under each cell."""
    x = repeat_channels(x, filter_shape[3])
    return reinterpret(
        reduce_to_filter_gradient(FILTER_GRADIENT_WINDOW_REDUCTION, (x, dy), window, x.shape),
        filter_shape,
    )
