"""Convolution and pooling written as loops over windows, from their definitions.

An image of any number of spatial axes is padded, then a window of (possibly dilated) cells stops
every stride cells; what it sees goes to a function. The gradients are the transposes, written as
loops as well.
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


def windows(shape, filter_size, strides, pad, dilations=None, rounding=None):
    """Return the numbers of stops, and for each stop the cells inside the image with their filter cells.

    The second result maps a stop, such as (row, column), to a list of ((i, j), (y, x)).
    """
    dilations = dilations or (1,) * len(shape)
    sides = list(zip(shape, filter_size, strides, dilations, strict=True))
    along = [stops(*side, pad, axis, rounding) for axis, side in enumerate(sides)]
    out = tuple(count for count, _ in along)
    seen = {}
    for stop in np.ndindex(*out):
        seen[stop] = []
        for cell in np.ndindex(*filter_size):
            place = tuple(
                s * stride + i * dilation - before
                for s, i, stride, dilation, (_, before) in zip(
                    stop, cell, strides, dilations, along, strict=True
                )
            )
            if all(0 <= p < n for p, n in zip(place, shape, strict=True)):
                seen[stop].append((cell, place))
    return out, seen


def in_order(x, data_format):
    """Return images with the channels last, whatever the order."""
    return x if data_format.endswith("C") else np.moveaxis(x, 1, -1)


def as_asked(x, data_format):
    """Return images with the channels last in the asked order."""
    return x if data_format.endswith("C") else np.moveaxis(x, -1, 1)


def each(value, count=2):
    """Return one number for each spatial axis."""
    return (value,) * count if isinstance(value, int) else value


def pairs(pad, count=2):
    """Return (before, after) for each spatial axis, or a word."""
    return ((pad, pad),) * count if isinstance(pad, int) else pad


def slid(image, filter, strides, pad, dilations, rounding):
    """Return `windows` of images with the channels last and filters of a shape."""
    count = image.ndim - 2
    sliding = each(strides, count), pairs(pad, count), each(dilations, count), rounding
    return windows(image.shape[1:-1], filter[:count], *sliding)


def convolve(
    x, filter, *, strides=1, pad="valid", data_format="C", dilations=1, dim_rounding_mode=None
):
    x = in_order(x, data_format)
    out, seen = slid(x, filter.shape, strides, pad, dilations, dim_rounding_mode)
    y = np.zeros((x.shape[0], *out, filter.shape[-1]))
    for stop, cells in seen.items():
        for cell, place in cells:
            y[:, *stop] += x[:, *place] @ filter[cell]
    return as_asked(y, data_format)


def convolve_input_gradient(
    dy, filter, *, input_shape, strides, pad, data_format="C", dilations=1, dim_rounding_mode=None
):
    dy, dx = in_order(dy, data_format), in_order(np.zeros(input_shape), data_format)
    _, seen = slid(dx, filter.shape, strides, pad, dilations, dim_rounding_mode)
    for stop, cells in seen.items():
        for cell, place in cells:
            dx[:, *place] += dy[:, *stop] @ filter[cell].T
    return as_asked(dx, data_format)


def convolve_filter_gradient(
    x, dy, *, filter_shape, strides, pad, data_format="C", dilations=1, dim_rounding_mode=None
):
    x, dy, dw = in_order(x, data_format), in_order(dy, data_format), np.zeros(filter_shape)
    _, seen = slid(x, filter_shape, strides, pad, dilations, dim_rounding_mode)
    for stop, cells in seen.items():
        for cell, place in cells:
            dw[cell] += x[:, *place].T @ dy[:, *stop]
    return dw


def pool_windows(x, filter_size, strides, pad, rounding, dilations=1):
    """Return `windows` of images, without those that see nothing because rounding led them beyond."""
    size = each(filter_size, x.ndim - 2)
    _, seen = slid(x, size, strides or size, pad, dilations, rounding)
    seen = {stop: cells for stop, cells in seen.items() if cells}
    return tuple(max(along) + 1 for along in zip(*seen, strict=True)), seen


def pooled(summary, x, filter_size, strides, pad, rounding, dilations=1):
    out, seen = pool_windows(x, filter_size, strides, pad, rounding, dilations)
    y = np.zeros((x.shape[0], *out, x.shape[-1]))
    for stop, cells in seen.items():
        y[:, *stop] = summary([x[:, *place] for _, place in cells], axis=0)
    return y


def max_pool(x, *, filter_size, strides=None, pad="valid", dim_rounding_mode=None):
    return pooled(np.max, x, filter_size, strides, pad, dim_rounding_mode)


def avg_pool(x, *, filter_size, strides=None, pad="valid", dim_rounding_mode=None):
    return pooled(np.mean, x, filter_size, strides, pad, dim_rounding_mode)


def pool(
    x, *, window_shape, pooling_type, pad="valid", dilations=1, strides=1, dim_rounding_mode=None
):
    summary = np.max if pooling_type == "max" else np.mean
    return pooled(summary, x, window_shape, strides, pad, dim_rounding_mode, dilations)


def max_pool_with_argmax(
    x, *, filter_size, strides=None, pad="valid", include_batch_in_index=False
):
    """Return the largest elements, and the places of the first of them in each image, or in all."""
    out, seen = pool_windows(x, filter_size, strides, pad, None)
    y = np.zeros((x.shape[0], *out, x.shape[-1]))
    found = np.zeros(y.shape, int)
    for stop, cells in seen.items():
        for batch, channel in np.ndindex(x.shape[0], x.shape[-1]):
            values = [x[batch, *place, channel] for _, place in cells]
            place = (batch * include_batch_in_index, *cells[int(np.argmax(values))][1], channel)
            y[batch, *stop, channel] = np.max(values)
            found[batch, *stop, channel] = np.ravel_multi_index(place, x.shape)
    return [y, found]


def max_pool_gradient(dy, x, y, *, filter_size, strides, pad, dim_rounding_mode=None):
    """Return dy at the first largest element of each window."""
    dx = np.zeros(x.shape)
    for stop, cells in pool_windows(x, filter_size, strides, pad, dim_rounding_mode)[1].items():
        for batch, channel in np.ndindex(x.shape[0], x.shape[-1]):
            values = [x[batch, *place, channel] for _, place in cells]
            place = cells[int(np.argmax(values))][1]
            dx[batch, *place, channel] += dy[batch, *stop, channel]
    return dx


def avg_pool_gradient(dy, x, *, filter_size, strides, pad, dim_rounding_mode=None):
    """Return dy, divided by the size of its window, at each element of the window."""
    dx = np.zeros(x.shape)
    for stop, cells in pool_windows(x, filter_size, strides, pad, dim_rounding_mode)[1].items():
        for _, place in cells:
            dx[:, *place] += dy[:, *stop] / len(cells)
    return dx
