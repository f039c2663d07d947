"""Morphology: one pass over the images for each cell of the filter, on strided slices."""

from collections.abc import Iterator

import numpy as np

from plugrad.extend import Window
from plugrad.kernels import morphology
from plugrad_cpu.declare import Array, table
from plugrad_cpu.windows import crop_padding, iter_cells, pad_images, padded_size


def iter_cell_sums(x: Array, filter: Array, window: Window) -> Iterator[tuple[Array, Array]]:
    """Yield for each cell of the filter the pixels under it in all windows plus its weight, and a mask of padding."""
    image = pad_images(x, window, 0)
    is_pixel = pad_images(np.ones((1, *x.shape[1:3], 1), bool), window, False)
    for cell, place in iter_cells(window):
        yield image[place] + filter[cell], is_pixel[place]


def argmax_cells(x: Array, filter: Array, window: Window) -> Array:
    """Return for each window the index of the first cell with the largest sum; -1 if all are padding."""
    shape = x.shape[0], *window.out, x.shape[3]
    best, winner = np.zeros(shape, x.dtype), np.full(shape, -1)
    for i, (total, counts) in enumerate(iter_cell_sums(x, filter, window)):
        is_better = counts & ((winner < 0) | (total > best))
        best, winner = np.where(is_better, total, best), np.where(is_better, i, winner)
    return winner


@table.implements(morphology.dilation2d)
def dilation2d(x: Array, filter: Array, *, window: Window) -> Array:
    """Return the largest sum of each window."""
    lowest = x.dtype.type(-np.inf) if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    y = np.full((x.shape[0], *window.out, x.shape[3]), lowest, x.dtype)
    for total, counts in iter_cell_sums(x, filter, window):
        np.maximum(y, total, out=y, where=counts)
    return y


@table.implements(morphology.dilation2d_input_gradient)
def dilation2d_input_gradient(x: Array, filter: Array, dy: Array, *, window: Window) -> Array:
    """Return dy at the first pixel with the largest sum of each window."""
    size = x.shape[1:3]
    dx = np.zeros((x.shape[0], *padded_size(size, window)[0], x.shape[3]), x.dtype)
    winner = argmax_cells(x, filter, window)
    for i, (_, place) in enumerate(iter_cells(window)):
        dx[place] += np.where(winner == i, dy, 0)
    return crop_padding(dx, size, window)


@table.implements(morphology.dilation2d_filter_gradient)
def dilation2d_filter_gradient(x: Array, filter: Array, dy: Array, *, window: Window) -> Array:
    """Return the sums of dy at the first cell with the largest sum of each window."""
    winner = argmax_cells(x, filter, window)
    parts = [
        np.where(winner == i, dy, 0).sum((0, 1, 2), dtype=dy.dtype)
        for i in range(len(iter_cells(window)))
    ]
    return np.stack(parts).reshape(filter.shape)
