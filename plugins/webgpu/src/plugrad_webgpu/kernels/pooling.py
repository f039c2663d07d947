"""Kernels that summarize windows of an image."""

from __future__ import annotations

import math
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING

from plugrad.extend import ArgumentValueError, float32, int32, pool_window, uint32
from plugrad.kernels import pooling
from plugrad_webgpu.declare import table
from plugrad_webgpu.elements import NUMBERS, STORED, require
from plugrad_webgpu.limits import MOST_LOOPS, REMEDY
from plugrad_webgpu.program import Program, plan
from plugrad_webgpu.shaders import shader

if TYPE_CHECKING:
    from plugrad.extend import DType, Padding, Pair, Rounding
    from plugrad_webgpu.buffers import GpuArray
    from plugrad_webgpu.layout import Shape
    from plugrad_webgpu.program import Plan

LARGER = {
    float32: "value > best || (is_nan(value) && !is_nan(best))",
    int32: "value > best",
    uint32: "value > best",
}
LOWEST = {float32: "-infinity()", int32: "bitcast<i32>(0x80000000u)", uint32: "0u"}


@cache
def _largest_program(entry_point: str, dtype: DType) -> Program:
    names = ("pooling_windows", "pooling_largest")
    substitutions = {"T": STORED[dtype], "is_better": LARGER[dtype], "lowest": LOWEST[dtype]}
    return Program(entry_point, partial(shader, *names, **substitutions), entry_point=entry_point)


def _float_program(entry_point: str) -> Program:
    source = partial(shader, "pooling_windows", "pooling_average")
    return Program(entry_point, source, entry_point=entry_point)


_AVERAGE = _float_program("avg_pool")
_AVERAGE_GRADIENT = _float_program("avg_pool_gradient")
_LARGEST_GRADIENT = _float_program("max_pool_gradient")


@table.implements(pooling.max_pool)
def max_pool(
    x: GpuArray, *, filter_size: Pair, strides: Pair, pad: Padding, dim_rounding_mode: Rounding
) -> GpuArray:
    """Return the largest element of each window; NaN if the window contains NaN."""
    require(x.dtype, NUMBERS, "the webgpu kernel MaxPool")
    program = _largest_program("max_pool", x.dtype)
    step = _forward(program, x.shape, x.dtype, filter_size, strides, pad, dim_rounding_mode)
    return x.buffer.device.launch(step, x)


@table.implements(pooling.max_pool_gradient)
def max_pool_gradient(
    dy: GpuArray,
    input: GpuArray,
    output: GpuArray,
    *,
    filter_size: Pair,
    strides: Pair,
    pad: Padding,
    dim_rounding_mode: Rounding,
) -> GpuArray:
    """Return the gradient for the images: that of each window goes to its first largest element."""
    device = dy.buffer.device
    window = (filter_size, strides, pad, dim_rounding_mode)
    found = device.launch(
        _forward(_largest_program("max_position", input.dtype), input.shape, int32, *window), input
    )
    return device.launch(_backward(_LARGEST_GRADIENT, input.shape, *window), dy, found)


@table.implements(pooling.avg_pool)
def avg_pool(
    x: GpuArray, *, filter_size: Pair, strides: Pair, pad: Padding, dim_rounding_mode: Rounding
) -> GpuArray:
    """Return the average of each window, over the cells that are not padding."""
    step = _forward(_AVERAGE, x.shape, float32, filter_size, strides, pad, dim_rounding_mode)
    return x.buffer.device.launch(step, x)


@table.implements(pooling.avg_pool_gradient)
def avg_pool_gradient(
    dy: GpuArray,
    input: GpuArray,
    *,
    filter_size: Pair,
    strides: Pair,
    pad: Padding,
    dim_rounding_mode: Rounding,
) -> GpuArray:
    """Return the gradient for the images: that of each window is spread evenly over its cells."""
    step = _backward(_AVERAGE_GRADIENT, input.shape, filter_size, strides, pad, dim_rounding_mode)
    return dy.buffer.device.launch(step, dy)


@lru_cache(maxsize=1024)
def _forward(
    program: Program,
    image: Shape,
    dtype: DType,
    filter_size: Pair,
    strides: Pair,
    pad: Padding,
    rounding: Rounding,
) -> Plan:
    """Return the plan with an invocation for each stop of the window."""
    out, parameters = _geometry(image, filter_size, strides, pad, rounding)
    shape = (image[0], *out, image[3])
    count = math.prod(shape)
    return plan(program, (count, *parameters), count, shape, dtype)


@lru_cache(maxsize=1024)
def _backward(
    program: Program,
    image: Shape,
    filter_size: Pair,
    strides: Pair,
    pad: Padding,
    rounding: Rounding,
) -> Plan:
    """Return the plan with an invocation for each cell of the image."""
    _, parameters = _geometry(image, filter_size, strides, pad, rounding)
    count = math.prod(image)
    return plan(program, (count, *parameters), count, image, float32)


def _geometry(
    image: Shape, filter_size: Pair, strides: Pair, pad: Padding, rounding: Rounding
) -> tuple[Shape, tuple[int, ...]]:
    """Return the number of stops on each axis, and the parameters after `count`.

    Raises:
        ArgumentValueError: the windows are too large for the loops of a shader.
    """
    _, height, width, channels = image
    window = pool_window(image, filter_size, strides, pad, rounding)
    # A window never visits cells outside the image. Rows and their cells both count as steps of
    # a loop.
    rows, columns = min(filter_size[0], height), min(filter_size[1], width)
    if rows * (columns + 1) > MOST_LOOPS:
        raise ArgumentValueError(
            f"pooling on webgpu: a window of {rows} x {columns} cells takes {rows * (columns + 1)} steps of a loop, "
            f"more than the {MOST_LOOPS} of a shader; pool in two steps, reduce over the axes, or {REMEDY}"
        )
    (top, _), (left, _) = window.pad
    parameters = (
        height,
        width,
        *window.out,
        channels,
        *filter_size,
        *strides,
        top,
        left,
    )
    return window.out, parameters
