"""Windows that slide over images: what convolution and pooling share."""

import numpy as np
from numpy.lib.stride_tricks import as_strided

from plugrad.extend import Pair, Window
from plugrad_cpu.declare import Array


def margins(size: Pair, window: Window) -> tuple[Pair, Pair]:
    """Return the (before, after) cells that the windows reach beyond an image, for each axis."""
    pairs: list[Pair] = []
    for axis in (0, 1):
        before, after = window.pad[axis]
        reach = (
            (window.out[axis] - 1) * window.strides[axis]
            + (window.filter[axis] - 1) * window.dilations[axis]
            + 1
        )
        pairs.append((before, max(after, reach - before - size[axis])))
    return pairs[0], pairs[1]


def padded(x: Array, window: Window, value: float) -> Array:
    """Return NHWC images with margins of `value`."""
    (top, bottom), (left, right) = margins((x.shape[1], x.shape[2]), window)
    if not (top or bottom or left or right):
        return x
    batch, height, width, channels = x.shape
    y = np.empty((batch, top + height + bottom, left + width + right, channels), x.dtype)
    y[:, :top] = y[:, top + height :] = value
    y[:, :, :left] = y[:, :, left + width :] = value
    y[:, top : top + height, left : left + width] = x
    return y


def patches(x: Array, window: Window) -> Array:
    """Return a view (batch, rows, columns, filter height, filter width, channels) of padded NHWC images."""
    by_batch, by_row, by_column, by_channel = x.strides
    (stride_y, stride_x), (step_y, step_x) = window.strides, window.dilations
    return as_strided(
        x,
        (x.shape[0], *window.out, *window.filter, x.shape[3]),
        (
            by_batch,
            by_row * stride_y,
            by_column * stride_x,
            by_row * step_y,
            by_column * step_x,
            by_channel,
        ),
        writeable=False,
    )


def cells(window: Window) -> list[tuple[Pair, tuple[slice, slice, slice]]]:
    """Return each cell of the filter with the slice of the padded images that it meets in all windows."""
    found: list[tuple[Pair, tuple[slice, slice, slice]]] = []
    for i in range(window.filter[0]):
        for j in range(window.filter[1]):
            starts = i * window.dilations[0], j * window.dilations[1]
            rows, columns = (
                slice(start, start + (out - 1) * stride + 1, stride)
                for start, out, stride in zip(starts, window.out, window.strides, strict=True)
            )
            found.append(((i, j), (slice(None), rows, columns)))
    return found
