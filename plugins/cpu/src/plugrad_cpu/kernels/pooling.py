"""Pooling: one pass over the images for each cell of the filter, on strided slices, for any number of axes."""

import math

import numpy as np

from plugrad.extend import Window
from plugrad.kernels import pooling
from plugrad_cpu.declare import Array, roomy, table
from plugrad_cpu.memory import empty, zeros
from plugrad_cpu.windows import cells, padded, unpadded


@table.implements(pooling.max_pool)
def max_pool(x: Array, *, window: Window) -> Array:
    """Return the largest element of each window."""
    return largest(x, window)


@table.implements(pooling.max_pool_gradient)
def max_pool_gradient(dy: Array, input: Array, output: Array, *, window: Window) -> Array:
    """Return dy at the first cell of each window that is equal to the window's maximum."""
    image = padded(input, window, -math.inf)
    size = input.shape[1:-1]
    do_windows_tile = (
        window.strides == window.size
        and image is input
        and all(o * s == n for o, s, n in zip(window.out, window.strides, size, strict=True))
    )
    dx = (empty if do_windows_tile else zeros)(image.shape, image.dtype)
    is_free, is_first = (empty(output.shape, np.dtype(bool)) for _ in range(2))
    is_free.fill(True)
    for _, place in cells(window):
        np.equal(image[place], output, out=is_first)
        is_first &= is_free
        is_free ^= is_first
        if do_windows_tile:
            np.multiply(dy, is_first, out=dx[place])
        else:
            dx[place] += dy * is_first
    return unpadded(dx, size, window)


@table.implements(pooling.avg_pool)
def avg_pool(x: Array, *, window: Window) -> Array:
    """Return the average over the cells of each window that lie in the image."""
    return average(x, window)


@table.implements(pooling.avg_pool_gradient)
def avg_pool_gradient(dy: Array, input: Array, *, window: Window) -> Array:
    """Return dy divided by the number of cells in its window, added to each of them."""
    image = padded(input, window, 0)
    dx = zeros(image.shape, image.dtype)
    share = dy / counts(input, window)
    for _, place in cells(window):
        dx[place] += share
    return unpadded(dx, input.shape[1:-1], window)


@table.implements(pooling.max_pool_with_argmax)
def max_pool_with_argmax(
    x: Array, *, window: Window, include_batch_in_index: bool
) -> tuple[Array, Array]:
    """Return the largest elements and the position of the first cell with each; NaN is the largest."""
    shape = x.shape if include_batch_in_index else (1, *x.shape[1:])
    positions = padded(np.arange(math.prod(shape), dtype=np.int32).reshape(shape), window, -1)
    image = padded(x, window, lowest(x))
    y = largest(x, window)
    found = np.full(y.shape, -1, np.int32)
    for _, place in cells(window):
        is_largest = (image[place] == y) | (image[place] != image[place])
        np.copyto(found, positions[place], where=is_largest & (found < 0))
    return y, found


@table.implements(pooling.pool)
def pool(input: Array, *, window: Window, pooling_type: pooling.PoolingType) -> Array:
    """Return the largest elements or the averages of windows of dilated cells."""
    return largest(input, window) if pooling_type == "max" else average(input, window)


def largest(x: Array, window: Window) -> Array:
    """Return the largest element of each window."""
    image = padded(x, window, lowest(x))
    (_, first), *rest = cells(window)
    y = empty((x.shape[0], *window.out, x.shape[-1]), x.dtype)
    y[...] = image[first]
    for _, place in rest:
        np.maximum(y, image[place], out=y)
    return y


def average(x: Array, window: Window) -> Array:
    """Return the average over the cells of each window that lie in the image."""
    image = padded(x, window, 0)
    y = zeros((x.shape[0], *window.out, x.shape[-1]), roomy(x.dtype))
    for _, place in cells(window):
        y += image[place]
    return (y / counts(x, window)).astype(x.dtype, copy=False)


def counts(x: Array, window: Window) -> Array:
    """Return the number of cells of each window that lie in the image."""
    inside = padded(np.ones((1, *x.shape[1:-1], 1), roomy(x.dtype)), window, 0)
    found = np.zeros((1, *window.out, 1), inside.dtype)
    for _, place in cells(window):
        found += inside[place]
    return found


def lowest(x: Array) -> float:
    """Return the least number of the dtype of x."""
    return -math.inf if x.dtype.kind == "f" else int(np.iinfo(x.dtype).min)
