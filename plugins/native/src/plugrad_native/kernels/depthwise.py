"""Depthwise convolutions and their gradients; the functions in C have one filter for each channel."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from plugrad.extend import count_elements
from plugrad.kernels import depthwise
from plugrad_cpu.extend import empty, numpy_implementation, thread_pool, zeros
from plugrad_native.declare import (
    FLOAT32,
    FLOAT_DTYPES,
    MAX_ELEMENTS,
    Array,
    as_contiguous,
    find_c_functions,
    table,
)
from plugrad_native.kernels.convolution import NO_CLIPPING
from plugrad_native.windows import (
    describe_window,
    reverse_window,
    run_windows,
    with_filter_rows,
)

if TYPE_CHECKING:
    from plugrad.extend import Shape, Window
    from plugrad_cpu.extend import Call

C_DEPTHWISE = find_c_functions("depthwise", *FLOAT_DTYPES)
"""The C functions of depthwise convolutions, by dtype."""
C_DEPTHWISE_INPUT_GRADIENT = find_c_functions("depthwise_input_gradient", *FLOAT_DTYPES)
"""The C functions of the gradient of a depthwise convolution with respect to its images, by dtype."""
C_DEPTHWISE_FILTER_GRADIENT = find_c_functions("depthwise_filter_gradient", *FLOAT_DTYPES)
"""The C functions of the gradient of a depthwise convolution with respect to its filters, by dtype."""

DEPTHWISE_PRODUCTS_PER_ADDITION: Final = 4
"""How many products with filters take as long as one elementwise addition."""

numpy_depthwise_conv2d: Final = numpy_implementation(depthwise.depthwise_conv2d)
"""NumPy's implementation of the kernel `depthwise_conv2d`."""
numpy_input_gradient: Final = numpy_implementation(depthwise.depthwise_conv2d_input_gradient)
"""NumPy's implementation of the kernel `depthwise_conv2d_input_gradient`."""
numpy_filter_gradient: Final = numpy_implementation(depthwise.depthwise_conv2d_filter_gradient)
"""NumPy's implementation of the kernel `depthwise_conv2d_filter_gradient`."""


def describe_depthwise(
    image_shape: Shape, filter_shape: Shape, window: Window, dtype: np.dtype[Any]
) -> Array | None:
    """Return C's descriptor of a `Window` over images with repeated channels, or None if C does not support it."""
    repeated = (*image_shape[:-1], image_shape[-1] * filter_shape[-1])
    sizes = (*repeated, *window.out, *filter_shape)
    largest = (
        repeated[0] * repeated[3] * max(count_elements(repeated[1:3]), count_elements(window.out))
    )
    if (
        dtype not in C_DEPTHWISE
        or 0 in sizes
        or max(largest, count_elements(filter_shape)) >= MAX_ELEMENTS
    ):
        return None
    return describe_window(repeated, window)


def repeat_channels(x: Array, multiplier: int) -> Array:
    """Return contiguous images with each channel repeated `multiplier` times."""
    return as_contiguous(x) if multiplier == 1 else np.repeat(x, multiplier, axis=-1)


def depthwise_channels_last(
    x: Array,
    filter: Array,
    window: Window,
    descriptor: Array,
    bias: Array | None = None,
    limits: tuple[float, float] = NO_CLIPPING,
) -> Array:
    """Return the convolution of images with repeated channels, for a `Window`, plus a bias, clamped to two limits."""
    filter = as_contiguous(filter)
    bias = bias if bias is None else as_contiguous(bias)
    out = empty((x.shape[0], *window.out, x.shape[3]), x.dtype)

    def make_c_call(part_descriptor: Array, x: Array, out: Array, scratch: Array) -> Call:
        """Return the call of C for a part of the window positions, whose geometry the descriptor holds as an array."""
        return C_DEPTHWISE[x.dtype], x, filter, out, part_descriptor, bias, *limits, scratch

    cells = count_elements(window.size)
    pointers = window.size[0] + cells + 1
    scratch = 2 * pointers + x[0, 0].nbytes // FLOAT32.itemsize
    work = out.size * cells // DEPTHWISE_PRODUCTS_PER_ADDITION
    run_windows(make_c_call, descriptor, [x], [out], work=work, scratch_floats=scratch)
    return out


def convolve(
    x: Array,
    filter: Array,
    window: Window,
    bias: Array | None = None,
    limits: tuple[float, float] = NO_CLIPPING,
) -> Array | None:
    """Return the convolution for a `Window` plus a bias, clamped to two limits, or None if C does not support it."""
    descriptor = describe_depthwise(x.shape, filter.shape, window, x.dtype)
    if descriptor is None:
        return None
    x = repeat_channels(x, filter.shape[3])
    return depthwise_channels_last(x, filter, window, descriptor, bias, limits)


@table.implements(depthwise.depthwise_conv2d)
def depthwise_conv2d(x: Array, filter: Array, *, window: Window) -> Array:
    """Return the cross-correlation of each channel of images with its own filters, for a `Window`."""
    y = convolve(x, filter, window)
    return numpy_depthwise_conv2d(x, filter, window=window) if y is None else y


@table.implements(depthwise.depthwise_conv2d_input_gradient)
def depthwise_conv2d_input_gradient(
    dy: Array, filter: Array, *, input_shape: Shape, window: Window
) -> Array:
    """Return the gradient of `depthwise_conv2d`, for a `Window`, with respect to its images."""
    batch, height, width, channels = input_shape
    descriptor = describe_depthwise(input_shape, filter.shape, window, dy.dtype)
    if descriptor is None:
        return numpy_input_gradient(dy, filter, input_shape=input_shape, window=window)
    dy = as_contiguous(dy)
    back = reverse_window((height, width), window)
    there = describe_window(dy.shape, back) if window.strides == (1, 1) else None
    if there is not None:  # dy slides under the reversed filters, which is faster
        dx = depthwise_channels_last(dy, filter[::-1, ::-1], back, there)
    else:
        dx = empty((batch, height, width, dy.shape[3]), dy.dtype)
        run, weights = C_DEPTHWISE_INPUT_GRADIENT[dy.dtype], as_contiguous(filter)
        run_windows(
            lambda part, dx, dy: (run, dy, weights, dx, part),
            descriptor,
            [dx],
            [dy],
            work=dy.size * count_elements(window.size) // DEPTHWISE_PRODUCTS_PER_ADDITION,
            keeps_images_whole=True,
        )
    if filter.shape[3] != 1:
        dx = dx.reshape(batch, height, width, channels, filter.shape[3]).sum(-1)
    return dx


@table.implements(depthwise.depthwise_conv2d_filter_gradient)
def depthwise_conv2d_filter_gradient(
    x: Array, dy: Array, *, filter_shape: Shape, window: Window
) -> Array:
    """Return the gradient of `depthwise_conv2d`, for a `Window`, with respect to its filters."""
    descriptor = describe_depthwise(x.shape, filter_shape, window, x.dtype)
    if descriptor is None:
        return numpy_filter_gradient(x, dy, filter_shape=filter_shape, window=window)
    x = repeat_channels(x, filter_shape[3])
    dfilter = zeros(filter_shape, x.dtype)
    run, dy, row = C_DEPTHWISE_FILTER_GRADIENT[x.dtype], as_contiguous(dy), dfilter[0].size
    height = window.size[0]
    work = dy.size * count_elements(window.size) // DEPTHWISE_PRODUCTS_PER_ADDITION
    parts = thread_pool.count_parts(work, height)
    bounds = [height * i // parts for i in range(parts + 1)]
    flat = dfilter.reshape(-1)
    thread_pool.run(
        [
            (run, x, dy, flat[first * row :], with_filter_rows(descriptor, first, last))
            for first, last in pairwise(bounds)
        ]
    )
    return dfilter
