"""Convolutions as matrix products: every window of an image becomes a row (im2col)."""

import math

import numpy as np

from plugrad.extend import DataFormat, Padding, Pair, Rounding, Shape, Window, geometry
from plugrad.kernels import convolution
from plugrad_cpu.declare import Array, table
from plugrad_cpu.windows import cells, margins, padded, patches


def channels_last(x: Array, data_format: DataFormat) -> Array:
    """Return a view in NHWC order."""
    return x if data_format == "NHWC" else x.transpose(0, 2, 3, 1)


def as_asked(x: Array, data_format: DataFormat) -> Array:
    """Return an NHWC array in the asked order."""
    return x if data_format == "NHWC" else np.ascontiguousarray(x.transpose(0, 3, 1, 2))


def rows_of(x: Array, window: Window) -> Array:
    """Return one row for each window, with the cells of the window next to each other."""
    count = x.shape[0] * math.prod(window.out)
    length = math.prod(window.filter) * x.shape[3]
    return patches(padded(x, window, 0), window).reshape(count, length)


@table.implements(convolution.conv2d)
def conv2d(
    x: Array,
    filter: Array,
    *,
    strides: Pair,
    pad: Padding,
    data_format: DataFormat,
    dilations: Pair,
    dim_rounding_mode: Rounding,
) -> Array:
    """Return rows of windows times a column for each filter."""
    batch, _, window = geometry(
        x.shape, filter.shape, strides, pad, data_format, dilations, dim_rounding_mode
    )
    y = rows_of(channels_last(x, data_format), window) @ filter.reshape(-1, filter.shape[3])
    return as_asked(y.reshape(batch, *window.out, filter.shape[3]), data_format)


@table.implements(convolution.conv2d_filter_gradient)
def conv2d_filter_gradient(
    x: Array,
    dy: Array,
    *,
    filter_shape: Shape,
    strides: Pair,
    pad: Padding,
    data_format: DataFormat,
    dilations: Pair,
    dim_rounding_mode: Rounding,
) -> Array:
    """Return the windows' columns times dy."""
    _, _, window = geometry(
        x.shape, filter_shape, strides, pad, data_format, dilations, dim_rounding_mode
    )
    rows = rows_of(channels_last(x, data_format), window)
    return (rows.T @ channels_last(dy, data_format).reshape(-1, filter_shape[3])).reshape(
        filter_shape
    )


@table.implements(convolution.conv2d_input_gradient)
def conv2d_input_gradient(
    dy: Array,
    filter: Array,
    *,
    input_shape: Shape,
    strides: Pair,
    pad: Padding,
    data_format: DataFormat,
    dilations: Pair,
    dim_rounding_mode: Rounding,
) -> Array:
    """Return dy times the filters, each cell of a window added where it came from."""
    batch, channels, window = geometry(
        input_shape, filter.shape, strides, pad, data_format, dilations, dim_rounding_mode
    )
    dy = channels_last(dy, data_format)
    height, width = input_shape[1:3] if data_format == "NHWC" else input_shape[2:]
    (top, bottom), (left, right) = margins((height, width), window)
    if strides == (1, 1):
        return as_asked(
            _correlated_back(dy, filter, window, (height, width), (top, left)), data_format
        )
    dx = np.zeros((batch, top + height + bottom, left + width + right, channels), dy.dtype)
    for (i, j), place in cells(window):
        dx[place] += dy @ filter[i, j].T
    return as_asked(
        np.ascontiguousarray(dx[:, top : top + height, left : left + width]), data_format
    )


def _correlated_back(dy: Array, filter: Array, window: Window, size: Pair, start: Pair) -> Array:
    """Return the input gradient for stride 1: dy correlated with the filters turned around."""
    extent = [(n - 1) * step for n, step in zip(window.filter, window.dilations, strict=True)]
    before = [e - s for e, s in zip(extent, start, strict=True)]
    after = [n + e - out - b for n, e, out, b in zip(size, extent, window.out, before, strict=True)]
    if (
        min(*before, *after) < 0
    ):  # more padding than the filter can reach: the outer stops see no pixel
        dy = dy[
            :,
            max(0, -before[0]) : dy.shape[1] - max(0, -after[0]),
            max(0, -before[1]) : dy.shape[2] - max(0, -after[1]),
        ]
        before, after = [max(0, b) for b in before], [max(0, a) for a in after]
    back = Window(
        size,
        ((before[0], after[0]), (before[1], after[1])),
        window.filter,
        (1, 1),
        window.dilations,
    )
    rows = rows_of(dy, back)
    turned = filter[::-1, ::-1].swapaxes(2, 3).reshape(rows.shape[1], filter.shape[2])
    return (rows @ turned).reshape(dy.shape[0], *size, filter.shape[2])
