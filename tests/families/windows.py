"""Convolution and pooling written as loops over windows, from their definitions.

An image of any number of spatial axes is padded, then a window of (possibly dilated) cells stops
every stride cells; what it sees goes to a function. The gradients are the transposes, written as
loops as well.
"""

import math
from functools import cache, partial

import numpy as np

import plugrad

ROUNDED = {"ceil": math.ceil, "round": lambda steps: math.floor(steps + 0.5)}


def stops(size, length, stride, dilation, padding, axis, rounding):
    """Return (number of stops, cells before the image) along one axis."""
    extent = (length - 1) * dilation + 1
    if padding == "same":
        count = math.ceil(size / stride)
        return count, max((count - 1) * stride + extent - size, 0) // 2
    before, after = (0, 0) if padding == "valid" else padding[axis]
    steps = (size + before + after - extent) / stride
    return ROUNDED.get(rounding, math.floor)(steps) + 1, before


@cache
def windows(shape, window_size, strides, padding, dilations=None, rounding=None):
    """Return the numbers of stops, and for each stop the cells inside the image with their filter cells.

    The second result maps a stop, such as (row, column), to a list of ((i, j), (y, x)). It is made once for
    all calls with the same arguments, and so nobody changes it.
    """
    dilations = dilations or (1,) * len(shape)
    sides = list(zip(shape, window_size, strides, dilations, strict=True))
    along = [stops(*side, padding, axis, rounding) for axis, side in enumerate(sides)]
    out = tuple(count for count, _ in along)
    seen = {}
    for stop in np.ndindex(*out):
        seen[stop] = []
        for cell in np.ndindex(*window_size):
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
    return (value,) * count if isinstance(value, int) else tuple(value)


def pairs(padding, count=2):
    """Return (before, after) for each spatial axis, or a word."""
    if isinstance(padding, int):
        return ((padding, padding),) * count
    return padding if isinstance(padding, str) else tuple([tuple(pair) for pair in padding])


def slid(image, filter, strides, padding, dilations, rounding):
    """Return `windows` of images with the channels last and filters of a shape."""
    count = image.ndim - 2
    sliding = each(strides, count), pairs(padding, count), each(dilations, count), rounding
    return windows(image.shape[1:-1], filter[:count], *sliding)


def convolve(
    x, filter, *, strides=1, padding="valid", data_format="C", dilations=1, dim_rounding_mode=None
):
    x = in_order(x, data_format)
    out, seen = slid(x, filter.shape, strides, padding, dilations, dim_rounding_mode)
    y = np.zeros((x.shape[0], *out, filter.shape[-1]))
    for stop, cells in seen.items():
        for cell, place in cells:
            y[:, *stop] += x[:, *place] @ filter[cell]
    return as_asked(y, data_format)


def convolve_input_gradient(
    dy,
    filter,
    *,
    input_shape,
    strides,
    padding,
    data_format="C",
    dilations=1,
    dim_rounding_mode=None,
):
    dy, dx = in_order(dy, data_format), in_order(np.zeros(input_shape), data_format)
    _, seen = slid(dx, filter.shape, strides, padding, dilations, dim_rounding_mode)
    for stop, cells in seen.items():
        for cell, place in cells:
            dx[:, *place] += dy[:, *stop] @ filter[cell].T
    return as_asked(dx, data_format)


def convolve_filter_gradient(
    x, dy, *, filter_shape, strides, padding, data_format="C", dilations=1, dim_rounding_mode=None
):
    x, dy, dw = in_order(x, data_format), in_order(dy, data_format), np.zeros(filter_shape)
    _, seen = slid(x, filter_shape, strides, padding, dilations, dim_rounding_mode)
    for stop, cells in seen.items():
        for cell, place in cells:
            dw[cell] += x[:, *place].T @ dy[:, *stop]
    return dw


def pool_windows(x, window_size, strides, padding, rounding, dilations=1):
    """Return `windows` of images, without those that see nothing because rounding led them beyond."""
    size = each(window_size, x.ndim - 2)
    _, seen = slid(x, size, strides or size, padding, dilations, rounding)
    seen = {stop: cells for stop, cells in seen.items() if cells}
    return tuple(max(along) + 1 for along in zip(*seen, strict=True)), seen


def pool(
    x,
    *,
    window_size,
    pooling_type,
    strides=None,
    padding="valid",
    data_format="C",
    dilations=1,
    dim_rounding_mode=None,
):
    summary = np.max if pooling_type == "max" else np.mean
    x = in_order(x, data_format)
    out, seen = pool_windows(x, window_size, strides, padding, dim_rounding_mode, dilations)
    y = np.zeros((x.shape[0], *out, x.shape[-1]))
    for stop, cells in seen.items():
        y[:, *stop] = summary([x[:, *place] for _, place in cells], axis=0)
    return as_asked(y, data_format)


max_pool, avg_pool = partial(pool, pooling_type="max"), partial(pool, pooling_type="avg")


def max_pool_with_argmax(
    x, *, window_size, strides=None, padding="valid", include_batch_in_index=False
):
    """Return the largest elements, and the places of the first of them in each image, or in all."""
    out, seen = pool_windows(x, window_size, strides, padding, None)
    y = np.zeros((x.shape[0], *out, x.shape[-1]))
    found = np.zeros(y.shape, int)
    for stop, cells in seen.items():
        for batch, channel in np.ndindex(x.shape[0], x.shape[-1]):
            values = [x[batch, *place, channel] for _, place in cells]
            place = (batch * include_batch_in_index, *cells[int(np.argmax(values))][1], channel)
            y[batch, *stop, channel] = np.max(values)
            found[batch, *stop, channel] = np.ravel_multi_index(place, x.shape)
    return [y, found]


def max_pool_gradient(dy, x, y, *, window_size, strides, padding, dim_rounding_mode=None):
    """Return dy at the first largest element of each window."""
    dx = np.zeros(x.shape)
    for stop, cells in pool_windows(x, window_size, strides, padding, dim_rounding_mode)[1].items():
        for batch, channel in np.ndindex(x.shape[0], x.shape[-1]):
            values = [x[batch, *place, channel] for _, place in cells]
            place = cells[int(np.argmax(values))][1]
            dx[batch, *place, channel] += dy[batch, *stop, channel]
    return dx


def avg_pool_gradient(dy, x, *, window_size, strides, padding, dim_rounding_mode=None):
    """Return dy, divided by the size of its window, at each element of the window."""
    dx = np.zeros(x.shape)
    for stop, cells in pool_windows(x, window_size, strides, padding, dim_rounding_mode)[1].items():
        for _, place in cells:
            dx[:, *place] += dy[:, *stop] / len(cells)
    return dx


def by_name(kernel):
    """Return a function that runs a kernel by its name, with TensorFlow.js's attributes instead of a window."""
    spelled = {"window_size": "filter_size", "padding": "pad"}

    def run(*inputs, **attrs):
        attrs = {spelled.get(name, name): value for name, value in attrs.items()}
        return plugrad.run_kernel(kernel.name, dict(zip(kernel.inputs, inputs, strict=True)), attrs)

    run.__name__ = kernel.name
    return run
