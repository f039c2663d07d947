"""Depthwise convolutions: one multiplication and addition of images for each cell of the filters.

First, each channel of an image is repeated once for each of its filters.
"""

import numpy as np

from plugrad.extend import Shape, Window
from plugrad.kernels import depthwise
from plugrad_cpu.declare import Array, accumulation_dtype, table
from plugrad_cpu.memory import empty, empty_like, zeros
from plugrad_cpu.windows import crop_padding, iter_cells, pad_images, padded_size


def repeat_channels(x: Array, multiplier: int) -> Array:
    """Return channels-last images in which each channel is repeated `multiplier` times."""
    return x if multiplier == 1 else np.repeat(x, multiplier, axis=-1)


def merge_channel_axes(filter: Array) -> Array:
    """Return filters whose last axis counts the channels of the result."""
    return filter.reshape(*filter.shape[:-2], filter.shape[-2] * filter.shape[-1])


@table.implements(depthwise.depthwise_conv2d)
def depthwise_conv2d(x: Array, filter: Array, *, window: Window) -> Array:
    """Return the convolution of each channel with its own filters: the sum over cells of weights times pixels."""
    image = repeat_channels(pad_images(x, window, 0), filter.shape[-1])
    weights = merge_channel_axes(filter)
    y = zeros((x.shape[0], *window.out, weights.shape[-1]), accumulation_dtype(x.dtype))
    product = empty_like(y)
    for cell, place in iter_cells(window):
        y += np.multiply(image[place], weights[cell], out=product, dtype=y.dtype)
    return y.astype(x.dtype, copy=False)


@table.implements(depthwise.depthwise_conv2d_input_gradient)
def depthwise_conv2d_input_gradient(
    dy: Array, filter: Array, *, input_shape: Shape, window: Window
) -> Array:
    """Return the gradient for the images and a `Window`: dy times the filters, summed over copies of channels."""
    weights = merge_channel_axes(filter)
    batch, height, width, channels = input_shape
    size = height, width
    sizes = padded_size(size, window)[0]
    dx = zeros((batch, *sizes, weights.shape[-1]), accumulation_dtype(dy.dtype))
    product = empty(dy.shape, dx.dtype)
    for cell, place in iter_cells(window):
        dx[place] += np.multiply(dy, weights[cell], out=product, dtype=dx.dtype)
    dx = crop_padding(dx, size, window)
    dx = dx.reshape(batch, *size, channels, filter.shape[-1]).sum(-1)
    return dx.astype(dy.dtype, copy=False)


@table.implements(depthwise.depthwise_conv2d_filter_gradient)
def depthwise_conv2d_filter_gradient(
    x: Array, dy: Array, *, filter_shape: Shape, window: Window
) -> Array:
    """Return, for each cell of the filters, the sum of dy times the pixels that the cell covers in all windows."""
    image = repeat_channels(pad_images(x, window, 0), filter_shape[-1])
    dtype = accumulation_dtype(x.dtype)
    sums = [
        np.einsum("byxc,byxc->c", image[place], dy, dtype=dtype) for _, place in iter_cells(window)
    ]
    return np.stack(sums).reshape(filter_shape).astype(x.dtype, copy=False)
