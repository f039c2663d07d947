"""Convolutions of float32 over up to three axes, and their gradients: products with packed patches of images."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from plugrad.extend import geometry, size_of
from plugrad.kernels import convolution
from plugrad_cpu.memory import empty, zeros
from plugrad_native.declare import FLOAT32, LANES, LIMIT, Array, dense, in_numpy, table
from plugrad_native.variants import variant
from plugrad_native.windows import (
    channels_last,
    descriptor_of,
    formatted,
    image_of,
    reversed_window,
    window_attributes,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from plugrad.extend import DataFormat, Kernel, Padding, Rounding, Shape, Window

FORWARD = variant().kernel("convolution_float32")
FILTER_GRADIENT = variant().kernel("convolution_filter_gradient_float32")
INPUT_GRADIENT = variant().kernel("convolution_input_gradient_float32")
PACKED_SCRATCH = variant().kernel("packed_scratch")
CHUNK_SCRATCH = variant().kernel("chunk_scratch")
LEAST_RUN = 8
"""The numbers in a row of a patch from which on C gathers many patches faster than NumPy."""
MANY = 1024


def is_served(image: Shape, filter: Shape, window: Window, dtype: np.dtype[Any]) -> bool:
    """Return whether C is to convolve channels-last images: the others are empty, large, or plain products."""
    positions = image[0] * size_of(window.out)
    largest = max(size_of(image), size_of(filter), positions * filter[-1])
    return (
        dtype == FLOAT32
        and 0 < largest < LIMIT
        and 0 not in (*image, *window.out, *filter)
        and not is_pointwise(image, window)
    )


def is_pointwise(image: Shape, window: Window) -> bool:
    """Return whether each window is one pixel, so that images are multiplied as matrices, which BLAS does."""
    is_dense = window.out == image[1:-1] and not any(before for before, _ in window.pad)
    return is_dense and size_of(window.filter) == 1


def has_short_runs(image: Shape, window: Window) -> bool:
    """Return whether the rows of patches are so short, and so many, that NumPy gathers them faster."""
    is_short = image[-1] * window.filter[-1] < LEAST_RUN
    return is_short and image[0] * size_of(window.out) >= MANY


def correlated(x: Array, filter: Array, window: Window, descriptor: Array) -> Array:
    """Return the cross-correlation of channels-last images with filters."""
    out = empty((x.shape[0], *window.out, filter.shape[-1]), x.dtype)
    scratch = empty((PACKED_SCRATCH(descriptor, filter.shape[-1]),), x.dtype)
    FORWARD(dense(x), dense(filter), out, descriptor, filter.shape[-1], scratch)
    return out


def correlation(kernel: Kernel[..., Any]) -> Callable[..., Array]:
    """Return the implementation of a convolution."""
    numpy_correlate = in_numpy(kernel)

    def implementation(
        x: Array,
        filter: Array,
        *,
        strides: Shape,
        pad: Padding,
        data_format: DataFormat,
        dilations: Shape,
        dim_rounding_mode: Rounding,
    ) -> Array:
        attributes = strides, pad, data_format, dilations, dim_rounding_mode
        _, _, window = geometry(x.shape, filter.shape, *attributes)
        image = image_of(x.shape, data_format)
        descriptor = descriptor_of(image, window)
        if (
            descriptor is None
            or has_short_runs(image, window)
            or not is_served(image, filter.shape, window, x.dtype)
        ):
            return numpy_correlate(x, filter, **window_attributes(attributes))
        y = correlated(channels_last(x, data_format), filter, window, descriptor)
        return formatted(y, data_format)

    return implementation


def input_gradient(kernel: Kernel[..., Any]) -> Callable[..., Array]:
    """Return the implementation of the gradient of a convolution with respect to its images."""
    numpy_gradient = in_numpy(kernel)

    def implementation(
        dy: Array,
        filter: Array,
        *,
        input_shape: Shape,
        strides: Shape,
        pad: Padding,
        data_format: DataFormat,
        dilations: Shape,
        dim_rounding_mode: Rounding,
    ) -> Array:
        attributes = strides, pad, data_format, dilations, dim_rounding_mode
        _, _, window = geometry(input_shape, filter.shape, *attributes)
        image = image_of(input_shape, data_format)
        descriptor = descriptor_of(image, window)
        if descriptor is None or not is_served(image, filter.shape, window, dy.dtype):
            return numpy_gradient(
                dy, filter, input_shape=input_shape, **window_attributes(attributes)
            )
        dy = channels_last(dy, data_format)
        if max(strides) == 1 and is_better_reversed(size_of(window.filter), image[-1]):
            back = reversed_window(image[1:-1], window)
            there = descriptor_of(dy.shape, back)
            if there is not None:
                turned = filter[(slice(None, None, -1),) * len(strides)].swapaxes(-1, -2)
                return formatted(correlated(dy, turned, back, there), data_format)
        dx = empty(image, dy.dtype)
        scratch = empty((CHUNK_SCRATCH(descriptor, filter.shape[-1]),), dy.dtype)
        INPUT_GRADIENT(dense(dy), dense(filter), dx, descriptor, filter.shape[-1], scratch)
        return formatted(dx, data_format)

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
    numpy_gradient = in_numpy(kernel)

    def implementation(
        x: Array,
        dy: Array,
        *,
        filter_shape: Shape,
        strides: Shape,
        pad: Padding,
        data_format: DataFormat,
        dilations: Shape,
        dim_rounding_mode: Rounding,
    ) -> Array:
        attributes = strides, pad, data_format, dilations, dim_rounding_mode
        _, _, window = geometry(x.shape, filter_shape, *attributes)
        image = image_of(x.shape, data_format)
        descriptor = descriptor_of(image, window)
        if (
            descriptor is None
            or has_short_runs(image, window)
            or not is_served(image, filter_shape, window, x.dtype)
        ):
            return numpy_gradient(x, dy, filter_shape=filter_shape, **window_attributes(attributes))
        x, dy = channels_last(x, data_format), channels_last(dy, data_format)
        dfilter = zeros(filter_shape, x.dtype)
        scratch = empty((CHUNK_SCRATCH(descriptor, filter_shape[-1]),), x.dtype)
        FILTER_GRADIENT(dense(x), dense(dy), dfilter, descriptor, filter_shape[-1], scratch)
        return dfilter

    return implementation


table.update(
    {
        convolution.conv2d: correlation(convolution.conv2d),
        convolution.conv2d_input_gradient: input_gradient(convolution.conv2d_input_gradient),
        convolution.conv2d_filter_gradient: filter_gradient(convolution.conv2d_filter_gradient),
    }
)
