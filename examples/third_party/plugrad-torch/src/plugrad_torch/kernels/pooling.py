"""Pooling over any number of axes: one pass over the images for each cell of the window."""

import math

import torch

from plugrad.extend import Window
from plugrad.kernels import pooling, pooling3d
from plugrad_torch.declare import Array, implements, update
from plugrad_torch.windows import frame_images, iter_cells, lowest_value, unframe_images


def window_maximum(x: Array, window: Window) -> Array:
    """Return the largest element of each window."""
    image = frame_images(x, window, lowest_value(x))
    (_, first), *rest = iter_cells(window)
    y = image[first].clone()
    for _, place in rest:
        torch.maximum(y, image[place], out=y)
    return y


def window_average(x: Array, window: Window) -> Array:
    """Return the average over the cells of each window that lie in the image."""
    image = frame_images(x, window)
    return sum(image[place] for _, place in iter_cells(window)) / count_valid_cells(x, window)


def count_valid_cells(x: Array, window: Window) -> Array:
    """Return the number of cells of each window that lie in the image."""
    inside = frame_images(torch.ones((1, *x.shape[1:-1], 1), dtype=x.dtype), window)
    return sum((inside[place] for _, place in iter_cells(window)), torch.zeros((), dtype=x.dtype))


def max_pool(x: Array, *, window: Window) -> Array:
    """Return the largest element of each window."""
    return window_maximum(x, window)


def max_pool_gradient(
    dy: Array,
    input: Array,
    output: Array,
    *,
    window: Window,
) -> Array:
    """Return dy at the first cell of each window that is equal to the window's maximum."""
    image = frame_images(input, window, -math.inf)
    dx = torch.zeros_like(image)
    is_free = torch.ones_like(output, dtype=torch.bool)
    for _, place in iter_cells(window):
        is_first = (image[place] == output) & is_free
        is_free &= ~is_first
        dx[place] += dy * is_first
    return unframe_images(dx, input.shape[1:-1], window)


def avg_pool(x: Array, *, window: Window) -> Array:
    """Return the average over the cells of each window that lie in the image."""
    return window_average(x, window)


def avg_pool_gradient(
    dy: Array,
    input: Array,
    *,
    window: Window,
) -> Array:
    """Return dy divided by the number of cells in its window, added to each of them."""
    dx = torch.zeros_like(frame_images(input, window))
    share = dy / count_valid_cells(input, window)
    for _, place in iter_cells(window):
        dx[place] += share
    return unframe_images(dx, input.shape[1:-1], window)


update(
    {
        pooling.max_pool: max_pool,
        pooling.max_pool_gradient: max_pool_gradient,
        pooling.avg_pool: avg_pool,
        pooling.avg_pool_gradient: avg_pool_gradient,
        pooling3d.max_pool3d: max_pool,
        pooling3d.max_pool3d_gradient: max_pool_gradient,
        pooling3d.avg_pool3d: avg_pool,
        pooling3d.avg_pool3d_gradient: avg_pool_gradient,
    }
)


@implements(pooling.max_pool_with_argmax)
def max_pool_with_argmax(x: Array, *, window: Window, include_batch_in_index: bool) -> list[Array]:
    """Return the largest elements and the position of the first cell with each; NaN is the largest."""
    shape = tuple(x.shape) if include_batch_in_index else (1, *x.shape[1:])
    numbers = torch.arange(math.prod(shape), dtype=torch.int32).reshape(shape)
    positions, image = frame_images(numbers, window, -1), frame_images(x, window, lowest_value(x))
    y = window_maximum(x, window)
    found = torch.full(y.shape, -1, dtype=torch.int32)
    for _, place in iter_cells(window):
        is_largest = (image[place] == y) | image[place].isnan()
        found = torch.where(is_largest & (found < 0), positions[place], found)
    return [y, found]


@implements(pooling.pool)
def pool(
    input: Array,
    *,
    window: Window,
    pooling_type: pooling.PoolingType,
) -> Array:
    """Return the largest elements or the averages of windows of dilated cells."""
    return window_maximum(input, window) if pooling_type == "max" else window_average(input, window)
