"""Convolutions as matrix products: every window of an image becomes a row (im2col).

The functions take any number of spatial axes. They make rows for a few images at a time, so that the
rows stay in the processor's cache.
"""

import math
from collections.abc import Iterator

import numpy as np

from plugrad.extend import DataFormat, Padding, Rounding, Shape, Window, geometry
from plugrad.kernels import convolution
from plugrad_cpu.declare import Array, roomy, table
from plugrad_cpu.memory import empty, zeros
from plugrad_cpu.windows import cells, framed, padded, patches, unpadded


def channels_last(x: Array, data_format: DataFormat) -> Array:
    """Return a view with the channels at the end."""
    return x if data_format.endswith("C") else np.moveaxis(x, 1, -1)


def formatted(x: Array, data_format: DataFormat) -> Array:
    """Return images with the channels at the end in a data format."""
    return x if data_format.endswith("C") else np.ascontiguousarray(np.moveaxis(x, -1, 1))


def rows_of(x: Array, window: Window) -> Iterator[tuple[slice, Array]]:
    """Yield a few images at a time, as a slice of the batch, and one row for each of their windows with its cells.

    The next rows overwrite these.
    """
    stops, length = math.prod(window.out), math.prod(window.filter) * x.shape[-1]
    room = None
    for few in blocks(x, window):
        found = patches(padded(x[few], window, 0), window)
        count = len(found) * stops
        if found.flags.c_contiguous:
            yield few, found.reshape(count, length)
            continue
        if room is None:
            room = empty((count, length), x.dtype)  # the last images may be fewer
        rows = room[:count]
        rows.reshape(found.shape)[...] = found
        yield few, rows


def blocks(x: Array, window: Window) -> Iterator[slice]:
    """Yield slices of the batch: the images to compute with at a time."""
    row = math.prod(window.filter) * x.shape[-1] * x.itemsize
    count = max(1, BLOCK // max(1, math.prod(window.out) * row))
    for start in range(0, x.shape[0], count):
        yield slice(start, start + count)


BLOCK = 2**20  # bytes


def columns_of(filter: Array) -> Array:
    """Return one column for each filter."""
    return filter.reshape(math.prod(filter.shape[:-1]), filter.shape[-1])


def correlate(
    x: Array,
    filter: Array,
    *,
    strides: Shape,
    pad: Padding,
    data_format: DataFormat,
    dilations: Shape,
    dim_rounding_mode: Rounding,
) -> Array:
    """Return the rows of windows times one column for each filter."""
    batch, _, window = geometry(
        x.shape, filter.shape, strides, pad, data_format, dilations, dim_rounding_mode
    )
    y = products(channels_last(x, data_format), window, columns_of(filter))
    return formatted(y.reshape(batch, *window.out, filter.shape[-1]), data_format)


def products(x: Array, window: Window, columns: Array) -> Array:
    """Return the rows of all windows times columns."""
    y = empty((x.shape[0], math.prod(window.out), columns.shape[1]), x.dtype)
    for few, rows in rows_of(x, window):
        np.matmul(rows, columns, out=y[few].reshape(len(rows), columns.shape[1]))
    return y


def filter_gradient(
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
    """Return the transposed rows of windows times dy."""
    _, _, window = geometry(
        x.shape, filter_shape, strides, pad, data_format, dilations, dim_rounding_mode
    )
    x, dy = channels_last(x, data_format), channels_last(dy, data_format)
    total = zeros((math.prod(filter_shape[:-1]), filter_shape[-1]), roomy(x.dtype))
    for few, rows in rows_of(x, window):
        total += rows.T @ dy[few].reshape(rows.shape[0], filter_shape[-1])
    return total.reshape(filter_shape).astype(x.dtype, copy=False)


def input_gradient(
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
    """Return dy times the filters, with each cell of a window added to its pixel."""
    batch, channels, window = geometry(
        input_shape, filter.shape, strides, pad, data_format, dilations, dim_rounding_mode
    )
    dy = channels_last(dy, data_format)
    size = input_shape[1:-1] if data_format.endswith("C") else input_shape[2:]
    if max(strides) == 1:
        return formatted(_correlated_back(dy, filter, window, size), data_format)
    dx = zeros((batch, *framed(size, window)[0], channels), dy.dtype)
    for cell, place in cells(window):
        dx[place] += dy @ filter[cell].T
    return formatted(np.ascontiguousarray(unpadded(dx, size, window)), data_format)


def _correlated_back(dy: Array, filter: Array, window: Window, size: Shape) -> Array:
    """Return the input gradient for stride 1: dy correlated with the reversed filters."""
    margins: list[tuple[int, int]] = []
    kept = [slice(None)]
    for n, out, (start, _), length, step in zip(
        size, window.out, window.pad, window.filter, window.dilations, strict=True
    ):
        before = (length - 1) * step - start
        after = n - out + start
        margins.append((max(before, 0), max(after, 0)))
        # If the padding is wider than the filter, the outermost windows cover no pixel.
        kept.append(slice(max(-before, 0), out - max(-after, 0)))
    back = Window(size, tuple(margins), window.filter, (1,) * len(size), window.dilations)
    reversed_filter = filter[(slice(None, None, -1),) * len(size)].swapaxes(-1, -2)
    y = products(dy[tuple(kept)], back, columns_of(reversed_filter))
    return y.reshape(dy.shape[0], *size, filter.shape[-2])


table.update(
    {
        convolution.conv2d: correlate,
        convolution.conv2d_input_gradient: input_gradient,
        convolution.conv2d_filter_gradient: filter_gradient,
    }
)
