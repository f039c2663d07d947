"""Poolings: one pass over the image for each cell of the filter, on strided slices."""

import math

import numpy as np

from plugrad.extend import Padding, Pair, Rounding, Shape, Window, sliding_window
from plugrad.kernels import pooling
from plugrad_cpu.declare import Array, table
from plugrad_cpu.windows import cells, margins, padded


def windows_of(
    image: Shape, filter_size: Pair, strides: Pair, pad: Padding, rounding: Rounding
) -> Window:
    """Return the windows of an NHWC image."""
    return sliding_window((image[1], image[2]), filter_size, strides, pad, (), rounding)


@table.implements(pooling.max_pool)
def max_pool(
    x: Array, *, filter_size: Pair, strides: Pair, pad: Padding, dim_rounding_mode: Rounding
) -> Array:
    """Return the largest element of each window."""
    window = windows_of(x.shape, filter_size, strides, pad, dim_rounding_mode)
    lowest = -math.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    image = padded(x, window, lowest)
    (_, first), *rest = cells(window)
    y = image[first].copy()
    for _, place in rest:
        np.maximum(y, image[place], out=y)
    return y


@table.implements(pooling.max_pool_gradient)
def max_pool_gradient(
    dy: Array,
    input: Array,
    output: Array,
    *,
    filter_size: Pair,
    strides: Pair,
    pad: Padding,
    dim_rounding_mode: Rounding,
) -> Array:
    """Return dy at the first cell of each window that is equal to the window's maximum."""
    window = windows_of(input.shape, filter_size, strides, pad, dim_rounding_mode)
    image = padded(input, window, -math.inf)
    do_windows_tile = (
        strides == filter_size
        and image is input
        and all(o * s == n for o, s, n in zip(window.out, strides, input.shape[1:3], strict=True))
    )
    dx = np.empty_like(image) if do_windows_tile else np.zeros_like(image)
    is_free = np.ones(output.shape, bool)
    for _, place in cells(window):
        is_first = image[place] == output
        is_first &= is_free
        is_free ^= is_first
        if do_windows_tile:
            np.multiply(dy, is_first, out=dx[place])
        else:
            dx[place] += dy * is_first
    return _inner(dx, input.shape, window)


@table.implements(pooling.avg_pool)
def avg_pool(
    x: Array, *, filter_size: Pair, strides: Pair, pad: Padding, dim_rounding_mode: Rounding
) -> Array:
    """Return the average over the cells of each window that are in the image."""
    window = windows_of(x.shape, filter_size, strides, pad, dim_rounding_mode)
    image = padded(x, window, 0)
    y = np.zeros((x.shape[0], *window.out, x.shape[3]), x.dtype)
    for _, place in cells(window):
        y += image[place]
    return y / _counts(x, window)


@table.implements(pooling.avg_pool_gradient)
def avg_pool_gradient(
    dy: Array,
    input: Array,
    *,
    filter_size: Pair,
    strides: Pair,
    pad: Padding,
    dim_rounding_mode: Rounding,
) -> Array:
    """Return dy, divided by the cells of its window, added to each of them."""
    window = windows_of(input.shape, filter_size, strides, pad, dim_rounding_mode)
    dx = np.zeros_like(padded(input, window, 0))
    share = dy / _counts(input, window)
    for _, place in cells(window):
        dx[place] += share
    return _inner(dx, input.shape, window)


def _counts(x: Array, window: Window) -> Array:
    """Return how many cells of each window are in the image."""
    inside = padded(np.ones((1, *x.shape[1:3], 1), x.dtype), window, 0)
    counts = np.zeros((1, *window.out, 1), x.dtype)
    for _, place in cells(window):
        counts += inside[place]
    return counts


def _inner(image: Array, shape: Shape, window: Window) -> Array:
    """Return an image without its margins."""
    (top, _), (left, _) = margins((shape[1], shape[2]), window)
    return image[:, top : top + shape[1], left : left + shape[2]]
