"""Pooling: one pass over the images for each cell of the filter, on strided slices, for any number of axes."""

import math

import numpy as np

from plugrad.extend import Window, position_dtype
from plugrad.kernels import pooling
from plugrad_cpu.declare import Array, accumulation_dtype, table
from plugrad_cpu.memory import empty, zeros
from plugrad_cpu.windows import crop_padding, iter_cells, pad_images


@table.implements(pooling.max_pool)
def max_pool(x: Array, *, window: Window) -> Array:
    """Return the largest element of each window."""
    return window_maximum(x, window)


@table.implements(pooling.max_pool_gradient)
def max_pool_gradient(dy: Array, input: Array, output: Array, *, window: Window) -> Array:
    """Return dy at the first cell of each window that equals the window's maximum `output`, or is NaN like it."""
    image = pad_images(input, window, -math.inf)
    size = input.shape[1:-1]
    do_windows_tile = (
        window.strides == window.size
        and image is input
        and all(o * s == n for o, s, n in zip(window.out, window.strides, size, strict=True))
    )
    dx = (empty if do_windows_tile else zeros)(image.shape, image.dtype)
    is_free, is_first = (empty(output.shape, np.dtype(bool)) for _ in range(2))
    is_free.fill(True)
    has_nan = bool((output != output).any())
    for _, place in iter_cells(window):
        np.equal(image[place], output, out=is_first)
        if has_nan:
            is_first |= image[place] != image[place]
        is_first &= is_free
        is_free ^= is_first
        if do_windows_tile:
            np.multiply(dy, is_first, out=dx[place])
        else:
            dx[place] += dy * is_first
    return crop_padding(dx, size, window)


@table.implements(pooling.avg_pool)
def avg_pool(x: Array, *, window: Window) -> Array:
    """Return the average over the cells of each window that lie in the image."""
    return window_average(x, window)


@table.implements(pooling.avg_pool_gradient)
def avg_pool_gradient(dy: Array, input: Array, *, window: Window) -> Array:
    """Return the gradient for the images: dy of each window, divided by its number of cells, added to each cell."""
    image = pad_images(input, window, 0)
    dx = zeros(image.shape, image.dtype)
    share = dy / count_valid_cells(input, window)
    for _, place in iter_cells(window):
        dx[place] += share
    return crop_padding(dx, input.shape[1:-1], window)


@table.implements(pooling.max_pool_with_argmax)
def max_pool_with_argmax(
    x: Array, *, window: Window, include_batch_in_index: bool
) -> tuple[Array, Array]:
    """Return the maximum of each window, and the flat index of its first cell; NaN counts as the maximum."""
    shape = x.shape if include_batch_in_index else (1, *x.shape[1:])
    count = math.prod(shape)
    dtype = position_dtype(count).numpy
    positions = pad_images(np.arange(count, dtype=dtype).reshape(shape), window, -1)
    image = pad_images(x, window, lowest_value(x))
    y = window_maximum(x, window)
    found = np.full(y.shape, -1, dtype)
    for _, place in iter_cells(window):
        is_largest = (image[place] == y) | (image[place] != image[place])
        np.copyto(found, positions[place], where=is_largest & (found < 0))
    return y, found


@table.implements(pooling.pool)
def pool(input: Array, *, window: Window, pooling_type: pooling.PoolingType) -> Array:
    """Return the maxima or the averages of windows with dilated cells."""
    return window_maximum(input, window) if pooling_type == "max" else window_average(input, window)


def window_maximum(x: Array, window: Window) -> Array:
    """Return the maximum of each window of a `Window` over images."""
    image = pad_images(x, window, lowest_value(x))
    (_, first), *rest = iter_cells(window)
    y = empty((x.shape[0], *window.out, x.shape[-1]), x.dtype)
    y[...] = image[first]
    for _, place in rest:
        np.maximum(y, image[place], out=y)
    return y


def window_average(x: Array, window: Window) -> Array:
    """Return the average over the cells of each window of a `Window` that lie in the image."""
    image = pad_images(x, window, 0)
    y = zeros((x.shape[0], *window.out, x.shape[-1]), accumulation_dtype(x.dtype))
    for _, place in iter_cells(window):
        y += image[place]
    return (y / count_valid_cells(x, window)).astype(x.dtype, copy=False)


def count_valid_cells(x: Array, window: Window) -> Array:
    """Return the number of cells of each window of a `Window` that lie in the image."""
    inside = pad_images(np.ones((1, *x.shape[1:-1], 1), accumulation_dtype(x.dtype)), window, 0)
    found = np.zeros((1, *window.out, 1), inside.dtype)
    for _, place in iter_cells(window):
        found += inside[place]
    return found


def lowest_value(x: Array) -> float:
    """Return the lowest number of the dtype of x."""
    return -math.inf if x.dtype.kind == "f" else int(np.iinfo(x.dtype).min)
