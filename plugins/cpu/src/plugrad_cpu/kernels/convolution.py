"""Convolutions as matrix products: every window of an image becomes a row (im2col).

The functions take any number of spatial axes. They make rows for a few images at a time, so that the
rows stay in the processor's cache.
"""

import math
from collections.abc import Iterator

import numpy as np

from plugrad.extend import Shape, Window
from plugrad.kernels import convolution
from plugrad_cpu.declare import Array, accumulation_dtype, table
from plugrad_cpu.memory import empty, zeros
from plugrad_cpu.windows import crop_padding, iter_cells, pad_images, padded_size, window_patches


def iter_window_rows(x: Array, window: Window) -> Iterator[tuple[slice, Array]]:
    """Yield slices of the batch, each with a matrix that has one row of cells for each window of the images in it.

    The next rows overwrite these.
    """
    stops, length = math.prod(window.out), math.prod(window.size) * x.shape[-1]
    room = None
    for few in iter_batch_blocks(x, window):
        found = window_patches(pad_images(x[few], window, 0), window)
        count = len(found) * stops
        if found.flags.c_contiguous:
            yield few, found.reshape(count, length)
            continue
        if room is None:
            room = empty((count, length), x.dtype)  # the last images may be fewer
        rows = room[:count]
        rows.reshape(found.shape)[...] = found
        yield few, rows


def iter_batch_blocks(x: Array, window: Window) -> Iterator[slice]:
    """Yield slices of the batch, so small that the windows of a `Window` over them are computed with at once."""
    row = math.prod(window.size) * x.shape[-1] * x.itemsize
    count = max(1, MAX_BLOCK_BYTES // max(1, math.prod(window.out) * row))
    for start in range(0, x.shape[0], count):
        yield slice(start, start + count)


MAX_BLOCK_BYTES = 2**20
"""The maximum bytes of the window rows that are made at a time."""


def filter_columns(filter: Array) -> Array:
    """Return the filters as the columns of a matrix."""
    return filter.reshape(math.prod(filter.shape[:-1]), filter.shape[-1])


def correlate(x: Array, filter: Array, *, window: Window) -> Array:
    """Return the cross-correlation of images with filters: windows as rows, times a column for each filter."""
    y = multiply_windows(x, window, filter_columns(filter))
    return y.reshape(x.shape[0], *window.out, filter.shape[-1])


def multiply_windows(x: Array, window: Window, columns: Array) -> Array:
    """Return the cells of all windows of a `Window` over images, as rows, times a matrix of columns."""
    y = empty((x.shape[0], math.prod(window.out), columns.shape[1]), x.dtype)
    for few, rows in iter_window_rows(x, window):
        np.matmul(rows, columns, out=y[few].reshape(len(rows), columns.shape[1]))
    return y


def filter_gradient(x: Array, dy: Array, *, filter_shape: Shape, window: Window) -> Array:
    """Return the gradient for the filters: the transposed rows of windows times dy."""
    total = zeros((math.prod(filter_shape[:-1]), filter_shape[-1]), accumulation_dtype(x.dtype))
    for few, rows in iter_window_rows(x, window):
        total += rows.T @ dy[few].reshape(rows.shape[0], filter_shape[-1])
    return total.reshape(filter_shape).astype(x.dtype, copy=False)


def input_gradient(dy: Array, filter: Array, *, input_shape: Shape, window: Window) -> Array:
    """Return the gradient for the images: dy times the filters, added to the pixel under each cell of a window."""
    batch, *size, channels = input_shape
    if max(window.strides) == 1:
        return _input_gradient_stride_1(dy, filter, window, tuple(size))
    dx = zeros((batch, *padded_size(tuple(size), window)[0], channels), dy.dtype)
    for cell, place in iter_cells(window):
        dx[place] += dy @ filter[cell].T
    return np.ascontiguousarray(crop_padding(dx, tuple(size), window))


def _input_gradient_stride_1(dy: Array, filter: Array, window: Window, image_size: Shape) -> Array:
    """Return the input gradient for a `Window` of stride 1: dy correlated with the reversed filters."""
    margins: list[tuple[int, int]] = []
    kept = [slice(None)]
    for n, out, (start, _), length, step in zip(
        image_size, window.out, window.padding, window.size, window.dilations, strict=True
    ):
        before = (length - 1) * step - start
        after = n - out + start
        margins.append((max(before, 0), max(after, 0)))
        # If the padding is wider than the filter, the outermost windows cover no pixel.
        kept.append(slice(max(-before, 0), out - max(-after, 0)))
    back = Window(window.size, (1,) * len(image_size), tuple(margins), window.dilations, image_size)
    reversed_filter = filter[(slice(None, None, -1),) * len(image_size)].swapaxes(-1, -2)
    y = multiply_windows(dy[tuple(kept)], back, filter_columns(reversed_filter))
    return y.reshape(dy.shape[0], *image_size, filter.shape[-2])


table.update(
    {
        convolution.conv2d: correlate,
        convolution.conv2d_input_gradient: input_gradient,
        convolution.conv2d_filter_gradient: filter_gradient,
    }
)
