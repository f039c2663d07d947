"""Convolutions over up to three axes, and their gradients: products with patches of images.

Those of float32 read patches where they are. Those of float64 copy them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from plugrad.extend import count_elements
from plugrad.kernels import convolution
from plugrad_cpu.extend import empty, numpy_implementation, zeros
from plugrad_native.declare import (
    FLOAT32,
    FLOATS,
    LANES,
    MAX_ELEMENTS,
    Array,
    as_contiguous,
    exports,
    parallel_for,
    table,
)
from plugrad_native.kernels.linalg import INTEGER_PRODUCTS_PER_STEP, matmul
from plugrad_native.variants import current_variant
from plugrad_native.windows import reversed_window, window_descriptor, with_batch_size

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from plugrad.extend import Kernel, Shape, Window

FORWARD = current_variant().kernel("convolution_direct_float32")
FORWARD_FLOAT64 = current_variant().kernel("convolution_float64")
FILTER_GRADIENT = current_variant().kernel("convolution_direct_filter_gradient_float32")
FILTER_GRADIENT_FLOAT64 = current_variant().kernel("convolution_filter_gradient_float64")
INPUT_GRADIENT = exports("convolution_input_gradient", *FLOATS)
DIRECT_SCRATCH = current_variant().kernel("direct_scratch")
CHUNK_SCRATCH = current_variant().kernel("chunk_scratch")


UNLIMITED: Final = -math.inf, math.inf


def is_in_range(image: Shape, filter: Shape, window: Window) -> bool:
    """Return whether channels-last images and filters are neither empty nor too large for C."""
    positions = image[0] * count_elements(window.out)
    largest = max(count_elements(image), count_elements(filter), positions * filter[-1])
    return 0 < largest < MAX_ELEMENTS and 0 not in (*image, *window.out, *filter)


def is_supported(image: Shape, filter: Shape, window: Window, dtype: np.dtype[Any]) -> bool:
    """Return whether C supports these channels-last images in this dtype."""
    return dtype in INPUT_GRADIENT and is_in_range(image, filter, window)


def is_pointwise(image: Shape, window: Window) -> bool:
    """Return whether each window is one pixel, so that the gradients are products of matrices."""
    is_dense = window.out == image[1:-1] and not any(before for before, _ in window.padding)
    return is_dense and count_elements(window.size) == 1


def as_pixel_rows(x: Array) -> Array:
    """Return the channels of all pixels as rows."""
    return as_contiguous(x).reshape(-1, x.shape[-1])


def correlate_channels_last(
    x: Array,
    filter: Array,
    window: Window,
    descriptor: Array,
    bias: Array | None = None,
    limits: tuple[float, float] = UNLIMITED,
) -> Array:
    """Return the cross-correlation of channels-last images with filters; of float32, plus a bias, within limits."""
    filter = as_contiguous(filter)
    bias = bias if bias is None else as_contiguous(bias)
    batch, channels = x.shape[0], filter.shape[-1]
    out = empty((batch, *window.out, channels), x.dtype)

    def correlate_part(x: Array, out: Array, count: int, scratch: Array) -> None:
        images = descriptor if count == batch else with_batch_size(descriptor, count)
        if is_direct:
            FORWARD(x, filter, bias, out, images, channels, *limits, scratch)
        else:
            FORWARD_FLOAT64(x, filter, out, images, channels, scratch)

    is_direct = x.dtype == FLOAT32
    places = (as_contiguous(x), x.size // batch), (out, out.size // batch)
    work = out.size * (filter.size // channels) // INTEGER_PRODUCTS_PER_STEP
    scratch = DIRECT_SCRATCH(descriptor) if is_direct else 2 * CHUNK_SCRATCH(descriptor, channels)
    parallel_for(correlate_part, places, batch, work=work, scratch=scratch)
    return out


def convolve(
    x: Array,
    filter: Array,
    window: Window,
    bias: Array | None = None,
    limits: tuple[float, float] = UNLIMITED,
) -> Array | None:
    """Return a convolution plus a bias, clamped to `limits`; None if it must be left to NumPy."""
    descriptor = window_descriptor(x.shape, window)
    if descriptor is None or not is_supported(x.shape, filter.shape, window, x.dtype):
        return None
    if x.dtype != FLOAT32 and (bias is not None or limits != UNLIMITED):
        return None
    return correlate_channels_last(x, filter, window, descriptor, bias, limits)


def make_convolution(kernel: Kernel[..., Any]) -> Callable[..., Array]:
    """Return the implementation of a convolution."""
    numpy_correlate = numpy_implementation(kernel)

    def implementation(x: Array, filter: Array, *, window: Window) -> Array:
        y = convolve(x, filter, window)
        if y is None:
            return numpy_correlate(x, filter, window=window)
        return y

    return implementation


def make_input_gradient(kernel: Kernel[..., Any]) -> Callable[..., Array]:
    """Return the implementation of the gradient of a convolution with respect to its images."""
    numpy_gradient = numpy_implementation(kernel)

    def implementation(dy: Array, filter: Array, *, input_shape: Shape, window: Window) -> Array:
        descriptor = window_descriptor(input_shape, window)
        if descriptor is None or not is_supported(input_shape, filter.shape, window, dy.dtype):
            return numpy_gradient(dy, filter, input_shape=input_shape, window=window)
        is_direct = dy.dtype == FLOAT32
        if is_direct and is_pointwise(input_shape, window):
            dx = matmul(
                as_pixel_rows(dy), as_pixel_rows(filter), transpose_a=False, transpose_b=True
            )
            return dx.reshape(input_shape)
        is_dense = is_direct and max(window.strides) == 1
        if is_dense and prefers_reversed_filters(count_elements(window.size), input_shape[-1]):
            back = reversed_window(input_shape[1:-1], window)
            there = window_descriptor(dy.shape, back)
            if there is not None:
                turned = filter[(slice(None, None, -1),) * len(window.size)].swapaxes(-1, -2)
                return correlate_channels_last(dy, turned, back, there)
        dx = empty(input_shape, dy.dtype)
        scratch = empty((CHUNK_SCRATCH(descriptor, filter.shape[-1]),), dy.dtype)
        run = INPUT_GRADIENT[dy.dtype]
        run(as_contiguous(dy), as_contiguous(filter), dx, descriptor, filter.shape[-1], scratch)
        return dx

    return implementation


def prefers_reversed_filters(cells: int, channels: int) -> bool:
    """Return whether correlating dy with reversed filters is faster than multiplying and scattering.

    The first is a product with `channels` columns for each cell, the second with all of them at a time.
    Columns are filled up to whole vectors.
    """
    vectors, all_vectors = -(-channels // LANES), -(-cells * channels // LANES)
    return cells * vectors <= 2 * all_vectors


def make_filter_gradient(kernel: Kernel[..., Any]) -> Callable[..., Array]:
    """Return the implementation of the gradient of a convolution with respect to its filters."""
    numpy_gradient = numpy_implementation(kernel)

    def implementation(x: Array, dy: Array, *, filter_shape: Shape, window: Window) -> Array:
        descriptor = window_descriptor(x.shape, window)
        if descriptor is None or not is_supported(x.shape, filter_shape, window, x.dtype):
            return numpy_gradient(x, dy, filter_shape=filter_shape, window=window)
        is_direct = x.dtype == FLOAT32
        if is_direct and is_pointwise(x.shape, window):
            dfilter = matmul(
                as_pixel_rows(x), as_pixel_rows(dy), transpose_a=True, transpose_b=False
            )
            return dfilter.reshape(filter_shape)
        dfilter = zeros(filter_shape, x.dtype)
        channels = filter_shape[-1]
        run = FILTER_GRADIENT if is_direct else FILTER_GRADIENT_FLOAT64
        size = DIRECT_SCRATCH(descriptor) if is_direct else CHUNK_SCRATCH(descriptor, channels)
        run(
            as_contiguous(x),
            as_contiguous(dy),
            dfilter,
            descriptor,
            channels,
            empty((size,), x.dtype),
        )
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
