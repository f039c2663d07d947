"""Convolutions over up to three axes, and their gradients: products with patches of images.

Those of float32 read patches where they are. Those of float64 copy them.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from plugrad.extend import count_elements
from plugrad.kernels import convolution
from plugrad_cpu.extend import empty, numpy_implementation, thread_pool, zeros
from plugrad_native.declare import (
    FLOAT32,
    FLOAT32_LANES,
    FLOAT_DTYPES,
    MAX_ELEMENTS,
    Array,
    as_contiguous,
    find_c_functions,
    table,
)
from plugrad_native.kernels.linalg import INTEGER_PRODUCTS_PER_ADDITION, matmul
from plugrad_native.variants import current_variant
from plugrad_native.windows import describe_window, reverse_window, run_windows, split_evenly

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from plugrad.extend import Kernel, Shape, Window
    from plugrad_cpu.extend import Call

C_CONVOLUTION_FLOAT32 = current_variant().kernel("convolution_direct_float32")
"""The C function that convolves images and filters of float32."""
C_CONVOLUTION_FLOAT64 = current_variant().kernel("convolution_float64")
"""The C function that convolves images and filters of float64."""
C_FILTER_GRADIENT_FLOAT32 = current_variant().kernel("convolution_direct_filter_gradient_float32")
"""The C function of the gradient of a convolution with respect to its filters in float32."""
C_FILTER_GRADIENT_FLOAT64 = current_variant().kernel("convolution_filter_gradient_float64")
"""The C function of the gradient of a convolution with respect to its filters in float64."""
C_INPUT_GRADIENT = find_c_functions("convolution_input_gradient", *FLOAT_DTYPES)
"""The C functions of the gradient of a convolution with respect to its images, by dtype."""
C_GET_DIRECT_SCRATCH_SIZE = current_variant().kernel("direct_scratch")
"""The C function that returns how many float32 of scratch memory a convolution of float32 needs."""
C_GET_CHUNK_SCRATCH_SIZE = current_variant().kernel("chunk_scratch")
"""The C function that returns how many elements of scratch memory other convolutions and gradients need."""


NO_CLIPPING: Final = -math.inf, math.inf
"""The lower and the upper limit with which results are not clamped: minus and plus infinity."""


def is_in_range(image_shape: Shape, filter_shape: Shape, window: Window) -> bool:
    """Return whether images and filters of these shapes, and the results for a `Window`, are of a size for C."""
    positions = image_shape[0] * count_elements(window.out)
    largest = max(
        count_elements(image_shape), count_elements(filter_shape), positions * filter_shape[-1]
    )
    return 0 < largest < MAX_ELEMENTS and 0 not in (*image_shape, *window.out, *filter_shape)


def is_supported(
    image_shape: Shape, filter_shape: Shape, window: Window, dtype: np.dtype[Any]
) -> bool:
    """Return whether C supports a convolution of images and filters of these shapes for a `Window` and a dtype."""
    return dtype in C_INPUT_GRADIENT and is_in_range(image_shape, filter_shape, window)


def is_pointwise(image_shape: Shape, window: Window) -> bool:
    """Return whether each window of a `Window` over images is one pixel, so that gradients are matrix products."""
    is_dense = window.out == image_shape[1:-1] and not any(before for before, _ in window.padding)
    return is_dense and count_elements(window.size) == 1


def as_pixel_rows(x: Array) -> Array:
    """Reshape images to a matrix with one row per pixel."""
    return as_contiguous(x).reshape(-1, x.shape[-1])


def estimate_work(image_size: int, result_size: int, product_count: int) -> int:
    """Return about how many additions take as long as products and reading and writing images and results."""
    return product_count // INTEGER_PRODUCTS_PER_ADDITION + image_size + result_size


def correlate_channels_last(
    x: Array,
    filter: Array,
    window: Window,
    descriptor: Array,
    bias: Array | None = None,
    limits: tuple[float, float] = NO_CLIPPING,
) -> Array:
    """Return the cross-correlation for a `Window` and C's descriptor of it, plus a bias, clamped to two limits."""
    filter = as_contiguous(filter)
    bias = bias if bias is None else as_contiguous(bias)
    channels = filter.shape[-1]
    out = empty((x.shape[0], *window.out, channels), x.dtype)

    def make_c_call(part_descriptor: Array, x: Array, out: Array, scratch: Array) -> Call:
        """Return the call of C for a part of the window positions, whose geometry the descriptor holds as an array."""
        if is_direct:
            return (
                C_CONVOLUTION_FLOAT32,
                x,
                filter,
                bias,
                out,
                part_descriptor,
                channels,
                *limits,
                scratch,
            )
        return C_CONVOLUTION_FLOAT64, x, filter, out, part_descriptor, channels, scratch

    is_direct = x.dtype == FLOAT32
    work = estimate_work(x.size, out.size, out.size * (filter.size // channels))
    scratch = count_scratch_floats(descriptor, channels, x.dtype, is_direct=is_direct)
    run_windows(
        make_c_call, descriptor, [as_contiguous(x)], [out], work=work, scratch_floats=scratch
    )
    return out


def count_scratch_floats(
    descriptor: Array, channels: int, dtype: np.dtype[Any], *, is_direct: bool
) -> int:
    """Return how many float32 of scratch memory one thread needs for a convolution or a gradient."""
    if is_direct:
        return C_GET_DIRECT_SCRATCH_SIZE(descriptor)
    return dtype.itemsize // FLOAT32.itemsize * C_GET_CHUNK_SCRATCH_SIZE(descriptor, channels)


def convolve(
    x: Array,
    filter: Array,
    window: Window,
    bias: Array | None = None,
    limits: tuple[float, float] = NO_CLIPPING,
) -> Array | None:
    """Return a convolution for a `Window` plus a bias, clamped to two limits, or None if C does not support it."""
    descriptor = describe_window(x.shape, window)
    if descriptor is None or not is_supported(x.shape, filter.shape, window, x.dtype):
        return None
    if x.dtype != FLOAT32 and (bias is not None or limits != NO_CLIPPING):
        return None
    return correlate_channels_last(x, filter, window, descriptor, bias, limits)


def make_convolution(kernel: Kernel[..., Any]) -> Callable[..., Array]:
    """Return the implementation of a kernel of convolution, such as `conv2d`."""
    numpy_correlate = numpy_implementation(kernel)

    def implementation(x: Array, filter: Array, *, window: Window) -> Array:
        """Return the cross-correlation of images with filters, for a `Window`."""
        y = convolve(x, filter, window)
        if y is None:
            return numpy_correlate(x, filter, window=window)
        return y

    return implementation


def make_input_gradient(kernel: Kernel[..., Any]) -> Callable[..., Array]:
    """Return the implementation of the gradient of a convolution with respect to its images."""
    numpy_gradient = numpy_implementation(kernel)

    def implementation(dy: Array, filter: Array, *, input_shape: Shape, window: Window) -> Array:
        """Return the gradient, for a `Window`, with respect to images of shape `input_shape`."""
        descriptor = describe_window(input_shape, window)
        if descriptor is None or not is_supported(input_shape, filter.shape, window, dy.dtype):
            return numpy_gradient(dy, filter, input_shape=input_shape, window=window)
        is_direct = dy.dtype == FLOAT32
        # A single channel of results makes products of a column and a row, at which BLAS is slow.
        if is_direct and filter.shape[-1] > 1 and is_pointwise(input_shape, window):
            dx = matmul(
                as_pixel_rows(dy), as_pixel_rows(filter), transpose_a=False, transpose_b=True
            )
            return dx.reshape(input_shape)
        back = find_reversed_window(dy.shape, dy.dtype, input_shape, window)
        if back is not None and (there := describe_window(dy.shape, back)) is not None:
            turned = filter[(slice(None, None, -1),) * len(window.size)].swapaxes(-1, -2)
            return correlate_channels_last(dy, turned, back, there)
        dx = empty(input_shape, dy.dtype)
        run, weights, channels = C_INPUT_GRADIENT[dy.dtype], as_contiguous(filter), filter.shape[-1]
        run_windows(
            lambda part, dx, dy, scratch: (run, dy, weights, dx, part, channels, scratch),
            descriptor,
            [dx],
            [as_contiguous(dy)],
            work=estimate_work(dx.size, dy.size, dy.size * (filter.size // channels)),
            scratch_floats=count_scratch_floats(descriptor, channels, dy.dtype, is_direct=False),
            keeps_images_whole=True,
        )
        return dx

    return implementation


def find_reversed_window(
    dy_shape: Shape, dtype: np.dtype[Any], input_shape: Shape, window: Window
) -> Window | None:
    """Return the `Window` to correlate dy with reversed filters, or None if a product and a scatter are faster."""
    is_dense = dtype == FLOAT32 and max(window.strides) == 1
    if not is_dense or not prefers_reversed_filters(count_elements(window.size), input_shape[-1]):
        return None
    back = reverse_window(input_shape[1:-1], window)
    return back if describe_window(dy_shape, back) is not None else None


def prefers_reversed_filters(window_cells: int, channels: int) -> bool:
    """Return whether correlation of dy with reversed filters is faster than a product followed by a scatter.

    The first is a product with `channels` columns for each cell, the second with all of them at a time.
    Columns are filled up to whole vectors.
    """
    vectors, all_vectors = (
        -(-channels // FLOAT32_LANES),
        -(-window_cells * channels // FLOAT32_LANES),
    )
    return window_cells * vectors <= 2 * all_vectors


MAX_IMAGE_GROUPS: Final = 8
"""The maximum number of groups of images whose filter gradients are added."""
GROUP_MIN_ELEMENTS: Final = 1 << 16
"""The minimum number of elements of images and gradients in a group."""


def count_image_groups(batch: int, element_count: int, filter_size: int) -> int:
    """Return the number of groups of images whose filter gradients are computed apart, for any number of threads.

    A thread that takes whole images leaves the others in the caches of other threads. The gradients of the groups take
    at most a quarter of the memory of all images and gradients, which have `element_count` elements. The number is a
    power of two, and no group has many more images than another, so that two threads take about as long.
    """
    most = min(MAX_IMAGE_GROUPS, element_count // max(GROUP_MIN_ELEMENTS, 4 * filter_size))
    groups = 1
    while 2 * groups <= most and (batch % (2 * groups) == 0 or 4 * groups <= batch):
        groups *= 2
    return groups


def divide_filter_gradient(
    image_shape: Shape, result_shape: Shape, filter_shape: Shape
) -> tuple[int, int]:
    """Return the numbers of groups of images and of parts of the weights into which a filter gradient is divided."""
    image_size, result_size = count_elements(image_shape), count_elements(result_shape)
    filter_size = count_elements(filter_shape)
    depth = filter_size // filter_shape[-1]
    groups = count_image_groups(image_shape[0], image_size + result_size, filter_size)
    work = estimate_work(image_size, result_size, result_size * depth)
    return groups, -(-thread_pool.count_parts(work, groups * depth) // groups)


def sum_filter_gradient(x: Array, dy: Array, filter_shape: Shape, descriptor: Array) -> Array:
    """Return the gradient for the filters, by C's descriptor of windows; threads share images, then weights."""
    groups, parts = divide_filter_gradient(x.shape, dy.shape, filter_shape)
    dfilter, channels = zeros(filter_shape, FLOAT32), filter_shape[-1]
    depth, scratch_size = dfilter.size // channels, C_GET_DIRECT_SCRATCH_SIZE(descriptor)
    scratch = empty((scratch_size,), FLOAT32)
    if groups == parts == 1:
        C_FILTER_GRADIENT_FLOAT32(x, dy, dfilter, descriptor, channels, 0, depth, scratch)
        return dfilter
    others = zeros((groups - 1, *filter_shape), FLOAT32)
    calls: list[Call] = []
    for (first, last), out in zip(
        pairwise(split_evenly(x.shape[0], groups)), (dfilter, *others), strict=True
    ):
        images = descriptor.copy()
        images[0] = last - first
        arrays = x[first:last], dy[first:last], out, images, channels
        for begin, end in pairwise(split_evenly(depth, parts)):
            if calls and thread_pool.count > 1:
                scratch = empty((scratch_size,), FLOAT32)
            calls.append((C_FILTER_GRADIENT_FLOAT32, *arrays, begin, end, scratch))
    thread_pool.run(calls)
    for other in others:
        dfilter += other
    return dfilter


def make_filter_gradient(kernel: Kernel[..., Any]) -> Callable[..., Array]:
    """Return the implementation of the gradient of a convolution with respect to its filters."""
    numpy_gradient = numpy_implementation(kernel)

    def implementation(x: Array, dy: Array, *, filter_shape: Shape, window: Window) -> Array:
        """Return the gradient, for a `Window`, with respect to filters of shape `filter_shape`."""
        descriptor = describe_window(x.shape, window)
        if descriptor is None or not is_supported(x.shape, filter_shape, window, x.dtype):
            return numpy_gradient(x, dy, filter_shape=filter_shape, window=window)
        is_direct = x.dtype == FLOAT32
        if is_direct and is_pointwise(x.shape, window):
            dfilter = matmul(
                as_pixel_rows(x), as_pixel_rows(dy), transpose_a=True, transpose_b=False
            )
            return dfilter.reshape(filter_shape)
        x, dy = as_contiguous(x), as_contiguous(dy)
        if is_direct:
            return sum_filter_gradient(x, dy, filter_shape, descriptor)
        dfilter, channels = zeros(filter_shape, x.dtype), filter_shape[-1]
        scratch = empty((C_GET_CHUNK_SCRATCH_SIZE(descriptor, channels),), x.dtype)
        C_FILTER_GRADIENT_FLOAT64(x, dy, dfilter, descriptor, channels, scratch)
        return dfilter

    return implementation


table.update(
    {
        convolution.conv2d: make_convolution(convolution.conv2d),
        convolution.conv2d_input_gradient: make_input_gradient(convolution.conv2d_input_gradient),
        convolution.conv2d_filter_gradient: make_filter_gradient(
            convolution.conv2d_filter_gradient
        ),
    }
)
