"""Morphology: one pass over the images for each cell of the filter."""

from collections.abc import Iterator

import torch

from plugrad.extend import Window
from plugrad.kernels import morphology
from plugrad_torch.declare import Array, implements
from plugrad_torch.windows import frame_images, iter_cells, lowest_value, unframe_images


def iter_cell_sums(x: Array, filter: Array, window: Window) -> Iterator[tuple[Array, Array]]:
    """Yield, for each cell of the filter, its sums with all windows, and a mask that is False in the padding."""
    image = frame_images(x, window)
    is_pixel = frame_images(torch.ones((1, *x.shape[1:3], 1), dtype=torch.uint8), window) > 0
    for cell, place in iter_cells(window):
        yield image[place] + filter[cell], is_pixel[place]


def argmax_cells(x: Array, filter: Array, window: Window) -> Array:
    """Return, for each window, the number of the first cell with the largest sum; -1 if all are padding."""
    shape = x.shape[0], *window.out, x.shape[3]
    best, winner = torch.zeros(shape, dtype=x.dtype), torch.full(shape, -1)
    for i, (total, counts) in enumerate(iter_cell_sums(x, filter, window)):
        is_better = counts & ((winner < 0) | (total > best))
        best, winner = torch.where(is_better, total, best), torch.where(is_better, i, winner)
    return winner


@implements(morphology.dilation2d)
def dilation2d(x: Array, filter: Array, *, window: Window) -> Array:
    """Return the largest sum of each window."""
    y = torch.full((x.shape[0], *window.out, x.shape[3]), lowest_value(x), dtype=x.dtype)
    for total, counts in iter_cell_sums(x, filter, window):
        y = torch.where(counts, torch.maximum(y, total), y)
    return y


@implements(morphology.dilation2d_input_gradient)
def dilation2d_input_gradient(x: Array, filter: Array, dy: Array, *, window: Window) -> Array:
    """Return dy at the first pixel with the largest sum of each window."""
    dx = torch.zeros_like(frame_images(x, window))
    winner = argmax_cells(x, filter, window)
    for i, (_, place) in enumerate(iter_cells(window)):
        dx[place] += torch.where(winner == i, dy, 0)
    return unframe_images(dx, x.shape[1:3], window)


@implements(morphology.dilation2d_filter_gradient)
def dilation2d_filter_gradient(x: Array, filter: Array, dy: Array, *, window: Window) -> Array:
    """Return the sums of dy at the first cell with the largest sum of each window."""
    winner = argmax_cells(x, filter, window)
    parts = [
        torch.where(winner == i, dy, 0).sum((0, 1, 2), dtype=dy.dtype)
        for i in range(len(iter_cells(window)))
    ]
    return torch.stack(parts).reshape(filter.shape)
