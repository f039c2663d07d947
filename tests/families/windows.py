"""Convolution and pooling written as loops over windows, from their definitions.

An image is padded, then a window of (possibly dilated) cells stops every stride cells; what it sees
goes to a function. The gradients are the transposes, written as loops as well.
"""

import math

import numpy as np

ROUNDED = {"ceil": math.ceil, "round": lambda steps: math.floor(steps + 0.5)}


def stops(size, length, stride, dilation, pad, axis, rounding):
    """Return (number of stops, cells before the image) along one axis."""
    extent = (length - 1) * dilation + 1
    if pad == "same":
        count = math.ceil(size / stride)
        return count, max((count - 1) * stride + extent - size, 0) // 2
    before, after = (0, 0) if pad == "valid" else pad[axis]
    steps = (size + before + after - extent) / stride
    return ROUNDED.get(rounding, math.floor)(steps) + 1, before


def windows(shape, filter_size, strides, pad, dilations=(1, 1), rounding=None):
    """Return the numbers of stops, and for each stop the cells inside the image with their filter cells.

    The second result maps a stop (row, column) to a list of ((i, j), (y, x)).
    """
    (rows, top), (columns, left) = (
        stops(shape[axis], filter_size[axis], strides[axis], dilations[axis], pad, axis, rounding)
        for axis in (0, 1)
    )
    seen = {}
    for row in range(rows):
        for column in range(columns):
            cells = []
            for i in range(filter_size[0]):
                for j in range(filter_size[1]):
                    y = row * strides[0] + i * dilations[0] - top
                    x = column * strides[1] + j * dilations[1] - left
                    if 0 <= y < shape[0] and 0 <= x < shape[1]:
                        cells.append(((i, j), (y, x)))
            seen[row, column] = cells
    return (rows, columns), seen


def in_order(x, data_format):
    """Return NHWC images, whatever the order; its own inverse is `as_asked`."""
    return x if data_format == "NHWC" else x.transpose(0, 2, 3, 1)


def as_asked(x, data_format):
    return x if data_format == "NHWC" else x.transpose(0, 3, 1, 2)


def both(value):
    return (value, value) if isinstance(value, int) else value


def four(pad):
    return ((pad, pad), (pad, pad)) if isinstance(pad, int) else pad


def conv2d(
    x, filter, *, strides=1, pad="valid", data_format="NHWC", dilations=1, dim_rounding_mode=None
):
    x = in_order(x, data_format)
    out, seen = windows(
        x.shape[1:3], filter.shape[:2], both(strides), four(pad), both(dilations), dim_rounding_mode
    )
    y = np.zeros((x.shape[0], *out, filter.shape[3]))
    for (row, column), cells in seen.items():
        for (i, j), (v, u) in cells:
            y[:, row, column] += x[:, v, u] @ filter[i, j]
    return as_asked(y, data_format)


def conv2d_input_gradient(
    dy, filter, *, input_shape, strides, pad, data_format="NHWC", dilations=(1, 1), **rounding
):
    dy, dx = in_order(dy, data_format), in_order(np.zeros(input_shape), data_format)
    rounding = rounding.get("dim_rounding_mode")
    _, seen = windows(dx.shape[1:3], filter.shape[:2], strides, pad, dilations, rounding)
    for (row, column), cells in seen.items():
        for (i, j), (v, u) in cells:
            dx[:, v, u] += dy[:, row, column] @ filter[i, j].T
    return as_asked(dx, data_format)


def conv2d_filter_gradient(
    x, dy, *, filter_shape, strides, pad, data_format="NHWC", dilations=(1, 1), **rounding
):
    x, dy = in_order(x, data_format), in_order(dy, data_format)
    dw = np.zeros(filter_shape)
    rounding = rounding.get("dim_rounding_mode")
    _, seen = windows(x.shape[1:3], filter_shape[:2], strides, pad, dilations, rounding)
    for (row, column), cells in seen.items():
        for (i, j), (v, u) in cells:
            dw[i, j] += x[:, v, u].T @ dy[:, row, column]
    return dw


def pooled(summary, x, filter_size, strides, pad, rounding):
    size, steps = both(filter_size), both(strides or filter_size)
    out, seen = windows(x.shape[1:3], size, steps, four(pad), (1, 1), rounding)
    y = np.zeros((x.shape[0], *out, x.shape[3]))
    for (row, column), cells in seen.items():
        y[:, row, column] = summary([x[:, v, u] for _, (v, u) in cells])
    return y


def max_pool(x, *, filter_size, strides=None, pad="valid", dim_rounding_mode=None):
    return pooled(
        lambda seen: np.max(seen, axis=0),
        *(x, filter_size, strides, pad, dim_rounding_mode),
    )


def avg_pool(x, *, filter_size, strides=None, pad="valid", dim_rounding_mode=None):
    return pooled(
        lambda seen: np.mean(seen, axis=0),
        *(x, filter_size, strides, pad, dim_rounding_mode),
    )


def max_pool_gradient(dy, x, y, *, filter_size, strides, pad, dim_rounding_mode=None):
    """Return dy at the first largest element of each window."""
    dx = np.zeros(x.shape)
    _, seen = windows(x.shape[1:3], filter_size, strides, pad, (1, 1), dim_rounding_mode)
    for (row, column), cells in seen.items():
        for batch in range(x.shape[0]):
            for channel in range(x.shape[3]):
                values = [x[batch, v, u, channel] for _, (v, u) in cells]
                v, u = cells[int(np.argmax(values))][1]
                dx[batch, v, u, channel] += dy[batch, row, column, channel]
    return dx


def avg_pool_gradient(dy, x, *, filter_size, strides, pad, dim_rounding_mode=None):
    """Return dy, divided by the size of its window, at each element of the window."""
    dx = np.zeros(x.shape)
    _, seen = windows(x.shape[1:3], filter_size, strides, pad, (1, 1), dim_rounding_mode)
    for (row, column), cells in seen.items():
        for _, (v, u) in cells:
            dx[:, v, u] += dy[:, row, column] / len(cells)
    return dx
