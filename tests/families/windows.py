"""Convolution and pooling written as loops over windows, from their definitions.

An image of any number of spatial axes is padded, then a window of (possibly dilated) cells stops
every stride cells; what it sees goes to a function. The gradients are the transposes, written as
loops as well.
"""

import math
from functools import cache, partial

import numpy as np

import plugrad

ROUNDING_FUNCTIONS = {"ceil": math.ceil, "round": lambda steps: math.floor(steps + 0.5)}


def count_windows(size, length, stride, dilation, padding, axis, rounding):
    """Return (number of windows, padding before the image) along one axis."""
    extent = (length - 1) * dilation + 1
    if padding == "same":
        count = math.ceil(size / stride)
        return count, max((count - 1) * stride + extent - size, 0) // 2
    before, after = (0, 0) if padding == "valid" else padding[axis]
    steps = (size + before + after - extent) / stride
    return ROUNDING_FUNCTIONS.get(rounding, math.floor)(steps) + 1, before


@cache
def find_windows(shape, window_size, strides, padding, dilations=None, rounding=None):
    """Return the number of windows along each axis, and for each window its (image, filter) element pairs.

    The second result maps a stop, such as (row, column), to a list of ((i, j), (y, x)). It is made once for
    all calls with the same arguments, and so nobody changes it.
    """
    dilations = dilations or (1,) * len(shape)
    sides = list(zip(shape, window_size, strides, dilations, strict=True))
    along = [count_windows(*side, padding, axis, rounding) for axis, side in enumerate(sides)]
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


def to_channels_last(x, data_format):
    """Return images with the channels last."""
    return x if data_format.endswith("C") else np.moveaxis(x, 1, -1)


def from_channels_last(x, data_format):
    """Return channels-last images in the given data format."""
    return x if data_format.endswith("C") else np.moveaxis(x, -1, 1)


def per_axis(value, count=2):
    """Return one number for each spatial axis."""
    return (value,) * count if isinstance(value, int) else tuple(value)


def padding_pairs(padding, count=2):
    """Return (before, after) for each spatial axis, or the name of the padding."""
    if isinstance(padding, int):
        return ((padding, padding),) * count
    return padding if isinstance(padding, str) else tuple([tuple(pair) for pair in padding])


def windows_of_images(image, filter, strides, padding, dilations, rounding):
    """Return `find_windows` for channels-last images and filters of a spatial shape."""
    count = image.ndim - 2
    sliding = (
        per_axis(strides, count),
        padding_pairs(padding, count),
        per_axis(dilations, count),
        rounding,
    )
    return find_windows(image.shape[1:-1], filter[:count], *sliding)


def convolve(
    x, filter, *, strides=1, padding="valid", data_format="C", dilations=1, dim_rounding_mode=None
):
    x = to_channels_last(x, data_format)
    out, seen = windows_of_images(x, filter.shape, strides, padding, dilations, dim_rounding_mode)
    y = np.zeros((x.shape[0], *out, filter.shape[-1]))
    for stop, cells in seen.items():
        for cell, place in cells:
            y[:, *stop] += x[:, *place] @ filter[cell]
    return from_channels_last(y, data_format)


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
    dy, dx = to_channels_last(dy, data_format), to_channels_last(np.zeros(input_shape), data_format)
    _, seen = windows_of_images(dx, filter.shape, strides, padding, dilations, dim_rounding_mode)
    for stop, cells in seen.items():
        for cell, place in cells:
            dx[:, *place] += dy[:, *stop] @ filter[cell].T
    return from_channels_last(dx, data_format)


def convolve_filter_gradient(
    x, dy, *, filter_shape, strides, padding, data_format="C", dilations=1, dim_rounding_mode=None
):
    x, dy, dw = (
        to_channels_last(x, data_format),
        to_channels_last(dy, data_format),
        np.zeros(filter_shape),
    )
    _, seen = windows_of_images(x, filter_shape, strides, padding, dilations, dim_rounding_mode)
    for stop, cells in seen.items():
        for cell, place in cells:
            dw[cell] += x[:, *place].T @ dy[:, *stop]
    return dw


def pool_windows(x, window_size, strides, padding, rounding, dilations=1):
    """Return `find_windows` for pooling, without windows that lie in the padding because of rounding."""
    size = per_axis(window_size, x.ndim - 2)
    _, seen = windows_of_images(x, size, strides or size, padding, dilations, rounding)
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
    x = to_channels_last(x, data_format)
    out, seen = pool_windows(x, window_size, strides, padding, dim_rounding_mode, dilations)
    y = np.zeros((x.shape[0], *out, x.shape[-1]))
    for stop, cells in seen.items():
        y[:, *stop] = summary([x[:, *place] for _, place in cells], axis=0)
    return from_channels_last(y, data_format)


max_pool, avg_pool = partial(pool, pooling_type="max"), partial(pool, pooling_type="avg")


def max_pool_with_argmax(
    x, *, window_size, strides=None, padding="valid", include_batch_in_index=False
):
    """Return the maximum of each window, and the index of the first of them in its image, or in the batch."""
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
    """Return dy at the first maximum of each window, added up."""
    dx = np.zeros(x.shape)
    for stop, cells in pool_windows(x, window_size, strides, padding, dim_rounding_mode)[1].items():
        for batch, channel in np.ndindex(x.shape[0], x.shape[-1]):
            values = [x[batch, *place, channel] for _, place in cells]
            place = cells[int(np.argmax(values))][1]
            dx[batch, *place, channel] += dy[batch, *stop, channel]
    return dx


def avg_pool_gradient(dy, x, *, window_size, strides, padding, dim_rounding_mode=None):
    """Return dy divided by the window size, at each element of the window, added up."""
    dx = np.zeros(x.shape)
    for stop, cells in pool_windows(x, window_size, strides, padding, dim_rounding_mode)[1].items():
        for _, place in cells:
            dx[:, *place] += dy[:, *stop] / len(cells)
    return dx


def run_kernel_by_name(kernel):
    """Return a function that runs a kernel by its name, with TensorFlow.js's attributes instead of a window."""
    spelled = {"window_size": "filter_size", "padding": "pad"}

    def run(*inputs, **attrs):
        attrs = {spelled.get(name, name): value for name, value in attrs.items()}
        return plugrad.run_kernel(kernel.name, dict(zip(kernel.inputs, inputs, strict=True)), attrs)

    run.__name__ = kernel.name
    return run
