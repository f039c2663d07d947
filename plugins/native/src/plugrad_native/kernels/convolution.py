"""Convolutions over up to three axes, and their gradients: products with patches of images.

Those of float32 read patches where they are. Those of float64 copy them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from plugrad.extend import size_of
from plugrad.kernels import convolution
from plugrad_cpu.extend import empty, numpy_implementation, zeros
from plugrad_native.declare import (
    FLOAT32,
    FLOATS,
    LANES,
    LIMIT,
    Array,
    dense,
    exports,
    in_parts,
    table,
)
from plugrad_native.kernels.linalg import PRODUCTS, matmul
from plugrad_native.variants import variant
from plugrad_native.windows import descriptor_of, of_images, reversed_window

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from plugrad.extend import Kernel, Shape, Window

FORWARD = variant().kernel("convolution_direct_float32")
FORWARD_FLOAT64 = variant().kernel("convolution_float64")
FILTER_GRADIENT = variant().kernel("convolution_direct_filter_gradient_float32")
FILTER_GRADIENT_FLOAT64 = variant().kernel("convolution_filter_gradient_float64")
INPUT_GRADIENT = exports("convolution_input_gradient", *FLOATS)
DIRECT_SCRATCH = variant().kernel("direct_scratch")
CHUNK_SCRATCH = variant().kernel("chunk_scratch")


UNLIMITED: Final = -math.inf, math.inf


def is_served(image: Shape, filter: Shape, window: Window, dtype: np.dtype[Any]) -> bool:
    """Return whether C is to convolve channels-last images: it takes none that are empty or very large."""
    positions = image[0] * size_of(window.out)
    largest = max(size_of(image), size_of(filter), positions * filter[-1])
    return (
        dtype in INPUT_GRADIENT and 0 < largest < LIMIT and 0 not in (*image, *window.out, *filter)
    )


def is_pointwise(image: Shape, window: Window) -> bool:
    """Return whether each window is one pixel, so that the gradients are products of matrices."""
    is_dense = window.out == image[1:-1] and not any(before for before, _ in window.padding)
    return is_dense and size_of(window.size) == 1


def matrix(x: Array) -> Array:
    """Return the channels of all pixels as rows."""
    return dense(x).reshape(-1, x.shape[-1])


def correlated(
    x: Array,
    filter: Array,
    window: Window,
    descriptor: Array,
    bias: Array | None = None,
    limits: tuple[float, float] = UNLIMITED,
) -> Array:
    """Return the cross-correlation of channels-last images with filters; of float32, plus a bias, within limits."""
    filter = dense(filter)
    bias = bias if bias is None else dense(bias)
    batch, channels = x.shape[0], filter.shape[-1]
    out = empty((batch, *window.out, channels), x.dtype)

    def some(x: Array, out: Array, count: int, scratch: Array) -> None:
        images = descriptor if count == batch else of_images(descriptor, count)
        if is_direct:
            FORWARD(x, filter, bias, out, images, channels, *limits, scratch)
        else:
            FORWARD_FLOAT64(x, filter, out, images, channels, scratch)

    is_direct = x.dtype == FLOAT32
    places = (dense(x), x.size // batch), (out, out.size // batch)
    work = out.size * (filter.size // channels) // PRODUCTS
    scratch = DIRECT_SCRATCH(descriptor) if is_direct else 2 * CHUNK_SCRATCH(descriptor, channels)
    in_parts(some, places, batch, work=work, scratch=scratch)
    return out


def convolved(
    x: Array,
    filter: Array,
    window: Window,
    bias: Array | None = None,
    limits: tuple[float, float] = UNLIMITED,
) -> Array | None:
    """Return a convolution plus a bias for each channel, within limits; None if NumPy is to compute it."""
    descriptor = descriptor_of(x.shape, window)
    if descriptor is None or not is_served(x.shape, filter.shape, window, x.dtype):
        return None
    if x.dtype != FLOAT32 and (bias is not None or limits != UNLIMITED):
        return None
    return correlated(x, filter, window, descriptor, bias, limits)


def correlation(kernel: Kernel[..., Any]) -> Callable[..., Array]:
    """Return the implementation of a convolution."""
    numpy_correlate = numpy_implementation(kernel)

    def implementation(x: Array, filter: Array, *, window: Window) -> Array:
        y = convolved(x, filter, window)
        if y is None:
            return numpy_correlate(x, filter, window=window)
        return y

    return implementation


def input_gradient(kernel: Kernel[..., Any]) -> Callable[..., Array]:
    """Return the implementation of the gradient of a convolution with respect to its images."""
    numpy_gradient = numpy_implementation(kernel)

    def implementation(dy: Array, filter: Array, *, input_shape: Shape, window: Window) -> Array:
        descriptor = descriptor_of(input_shape, window)
        if descriptor is None or not is_served(input_shape, filter.shape, window, dy.dtype):
            return numpy_gradient(dy, filter, input_shape=input_shape, window=window)
        is_direct = dy.dtype == FLOAT32
        if is_direct and is_pointwise(input_shape, window):
            dx = matmul(matrix(dy), matrix(filter), transpose_a=False, transpose_b=True)
            return dx.reshape(input_shape)
        is_dense = is_direct and max(window.strides) == 1
        if is_dense and is_better_reversed(size_of(window.size), input_shape[-1]):
            back = reversed_window(input_shape[1:-1], window)
            there = descriptor_of(dy.shape, back)
            if there is not None:
                turned = filter[(slice(None, None, -1),) * len(window.size)].swapaxes(-1, -2)
                return correlated(dy, turned, back, there)
        dx = empty(input_shape, dy.dtype)
        scratch = empty((CHUNK_SCRATCH(descriptor, filter.shape[-1]),), dy.dtype)
        run = INPUT_GRADIENT[dy.dtype]
        run(dense(dy), dense(filter), dx, descriptor, filter.shape[-1], scratch)
        return dx

    return implementation


def is_better_reversed(cells: int, channels: int) -> bool:
    """Return whether dy is better correlated with reversed filters than multiplied by them and scattered.

    The first is a product with `channels` columns for each cell, the second with all of them at a time.
    Columns are filled up to whole vectors.
    """
    vectors, all_vectors = -(-channels // LANES), -(-cells * channels // LANES)
    return cells * vectors <= 2 * all_vectors


def filter_gradient(kernel: Kernel[..., Any]) -> Callable[..., Array]:
    """Return the implementation of the gradient of a convolution with respect to its filters."""
    numpy_gradient = numpy_implementation(kernel)

    def implementation(x: Array, dy: Array, *, filter_shape: Shape, window: Window) -> Array:
        descriptor = descriptor_of(x.shape, window)
        if descriptor is None or not is_served(x.shape, filter_shape, window, x.dtype):
            return numpy_gradient(x, dy, filter_shape=filter_shape, window=window)
        is_direct = x.dtype == FLOAT32
        if is_direct and is_pointwise(x.shape, window):
            dfilter = matmul(matrix(x), matrix(dy), transpose_a=True, transpose_b=False)
            return dfilter.reshape(filter_shape)
        dfilter = zeros(filter_shape, x.dtype)
        channels = filter_shape[-1]
        run = FILTER_GRADIENT if is_direct else FILTER_GRADIENT_FLOAT64
        size = DIRECT_SCRATCH(descriptor) if is_direct else CHUNK_SCRATCH(descriptor, channels)
        run(dense(x), dense(dy), dfilter, descriptor, channels, empty((size,), x.dtype))
        return dfilter

    return implementation


table.update(
    {
        convolution.conv2d: correlation(convolution.conv2d),
        convolution.conv2d_input_gradient: input_gradient(convolution.conv2d_input_gradient),
        convolution.conv2d_filter_gradient: filter_gradient(convolution.conv2d_filter_gradient),
    }
)
