"""Pooling. Images have their channels last in inputs and outputs, unless a function says otherwise."""

from __future__ import annotations

import math
from functools import reduce
from itertools import product
from typing import TYPE_CHECKING, Any, Final

import numpy as np

import plugrad
from plugrad_onnx.elements import as_tensor
from plugrad_onnx.errors import InvalidModel
from plugrad_onnx.operators.common import integers_from_either, number_like
from plugrad_onnx.operators.convolution import ConvolutionWindow, make_window
from plugrad_onnx.registry import operator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plugrad import Tensor
    from plugrad_onnx.registry import HostArray


@operator("MaxPool", layout="images")
def max_pool(
    x: Tensor,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Sequence[int] | None = None,
    kernel_shape: Sequence[int],
    pads: Sequence[int] | None = None,
    storage_order: int = 0,
    strides: Sequence[int] | None = None,
    output_count: int,
) -> Any:
    """Return the maximum of each window, and its index if that output is used."""
    given = make_window(x.shape[1:-1], kernel_shape, strides, dilations, pads, auto_pad)
    if _always_covers_pixels(x, given):
        how = given.size, given.strides, given.pads
        attrs: Any = {
            "dilations": given.dilations,
            "dim_rounding_mode": "ceil" if ceil_mode else "floor",
        }
        if output_count == 1:
            return plugrad.pool(x, how[0], "max", *how[1:], **attrs)
        if len(given.size) <= _MAX_KERNEL_SPATIAL_AXES:
            largest, places = plugrad.max_pool_with_argmax(x, *how, **attrs)
            return largest, _convert_indices(places, x, storage_order)
    window = _extend_to_ceiling(x.shape[1:-1], given) if ceil_mode else given
    lowest = -math.inf if x.dtype.is_inexact else plugrad.iinfo(x.dtype).min
    taps = _extract_cells(x, window, lowest)
    if output_count == 1:
        return reduce(plugrad.maximum, taps)
    raise InvalidModel(
        f"MaxPool gives no positions with a window of {window.size}, pads {window.pads} and dilations "
        f"{window.dilations} over images of {tuple(x.shape[1:-1])}."
    )


@operator("AveragePool", layout="images")
def average_pool(
    x: Tensor,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    dilations: Sequence[int] | None = None,
    kernel_shape: Sequence[int],
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Tensor:
    """Return the mean of each window, with or without padded elements."""
    spatial = x.shape[1:-1]
    given_window = make_window(spatial, kernel_shape, strides, dilations, pads, auto_pad)
    if _always_covers_pixels(x, given_window):
        return plugrad.pool(
            *(x, given_window.size, "avg", given_window.strides, given_window.pads),
            dilations=given_window.dilations,
            dim_rounding_mode="ceil" if ceil_mode else "floor",
            count_include_pad=bool(count_include_pad),
        )
    window = _extend_to_ceiling(spatial, given_window) if ceil_mode else given_window
    total = reduce(plugrad.add, _extract_cells(x, window, 0))
    return plugrad.divide(total, _count_elements(x, given_window, window, bool(count_include_pad)))


@operator("LpPool", layout="images")
def lp_pool(
    x: Tensor,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Sequence[int] | None = None,
    kernel_shape: Sequence[int],
    p: int = 2,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Tensor:
    """Return the p-norm of each window."""
    window = make_window(x.shape[1:-1], kernel_shape, strides, dilations, pads, auto_pad)
    window = _extend_to_ceiling(x.shape[1:-1], window) if ceil_mode else window
    powers = plugrad.pow(plugrad.abs(x), number_like(p, x))
    return plugrad.pow(
        reduce(plugrad.add, _extract_cells(powers, window, 0)), number_like(1 / p, x)
    )


@operator("GlobalAveragePool", layout="images")
def global_average_pool(x: Tensor) -> Tensor:
    """Return the mean of each channel."""
    return plugrad.mean(x, axis=tuple(range(1, x.ndim - 1)), keepdims=True)


@operator("GlobalMaxPool", layout="images")
def global_max_pool(x: Tensor) -> Tensor:
    """Return the maximum of each channel."""
    return plugrad.max(x, axis=tuple(range(1, x.ndim - 1)), keepdims=True)


@operator("GlobalLpPool", layout="images")
def global_lp_pool(x: Tensor, *, p: int = 2) -> Tensor:
    """Return the p-norm of each channel."""
    powers = plugrad.pow(plugrad.abs(x), number_like(p, x))
    total = plugrad.sum(powers, axis=tuple(range(1, x.ndim - 1)), keepdims=True)
    return plugrad.pow(total, number_like(1 / p, x))


@operator("MaxUnpool")
def max_unpool(
    x: Tensor,
    indices: Tensor,
    output_shape: HostArray | None = None,
    *,
    kernel_shape: Sequence[int],
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Tensor:
    """Write elements back to the positions that MaxPool returned, and 0 elsewhere."""
    spatial = x.shape[2:]
    window = make_window(spatial, kernel_shape, strides, None, pads, "NOTSET")
    inner = [
        (n - 1) * step + size - low - high
        for n, step, size, (low, high) in zip(
            spatial, window.strides, window.size, window.pads, strict=True
        )
    ]
    shape = (*x.shape[:2], *inner)
    places = plugrad.reshape(indices, (-1, 1))
    empty = plugrad.zeros((math.prod(shape),), dtype=x.dtype, device=x.device)
    flat = plugrad.tensor_scatter_update(empty, places, plugrad.reshape(x, (-1,)))
    wanted = integers_from_either(None, output_shape) or shape
    sides = [(0, more - size) for size, more in zip(shape, wanted, strict=True)]
    return plugrad.pad(plugrad.reshape(flat, shape), sides)


_MAX_KERNEL_SPATIAL_AXES: Final = 3
"""The largest number of spatial axes of images in which a kernel of plugrad finds the positions of maxima."""


def _always_covers_pixels(x: Tensor, window: ConvolutionWindow) -> bool:
    """Whether every position of a window contains a pixel, as the pooling kernels require."""
    return all(
        max(sides) <= (n - 1) * gap < size + max(sides) and gap <= size
        for sides, n, gap, size in zip(
            window.pads, window.size, window.dilations, x.shape[1:-1], strict=True
        )
    )


def _extend_to_ceiling(image_size: Sequence[int], window: ConvolutionWindow) -> ConvolutionWindow:
    """Return a window with more padding at the end, so that a partial last window is included."""
    pads: list[tuple[int, int]] = []
    for size, extent, step, (low, high) in zip(
        image_size, window.extent, window.strides, window.pads, strict=True
    ):
        count = -(-(size + low + high - extent) // step) + 1
        if (count - 1) * step >= size + low:
            count -= 1
        pads.append((low, max(high, (count - 1) * step + extent - size - low)))
    return ConvolutionWindow(window.size, window.strides, window.dilations, tuple(pads))


def _extract_cells(x: Tensor, window: ConvolutionWindow, padding_value: float) -> list[Tensor]:
    """Return for each cell of the window the elements that it covers at all window positions."""
    padded = plugrad.pad(x, [(0, 0), *window.pads, (0, 0)], padding_value)
    count = [
        (size - extent) // step + 1
        for size, extent, step in zip(
            padded.shape[1:-1], window.extent, window.strides, strict=True
        )
    ]
    taps: list[Tensor] = []
    for place in product(*map(range, window.size)):
        cut = [
            slice(p * d, p * d + (n - 1) * s + 1, s)
            for p, d, n, s in zip(place, window.dilations, count, window.strides, strict=True)
        ]
        taps.append(padded[(slice(None), *cut)])
    return taps


def _count_elements(
    x: Tensor, unextended_window: ConvolutionWindow, window: ConvolutionWindow, counts_padding: bool
) -> Tensor:
    """Return the number of elements in each mean; the padding by which a window is extended is never counted."""
    ones = plugrad.ones((1, *x.shape[1:-1], 1), dtype=x.dtype, device=x.device)
    pads = window.pads
    if counts_padding:
        ones = plugrad.pad(ones, [(0, 0), *unextended_window.pads, (0, 0)], 1)
        pads = tuple(
            (0, after[1] - before[1])
            for before, after in zip(unextended_window.pads, window.pads, strict=True)
        )
    rest = ConvolutionWindow(window.size, window.strides, window.dilations, pads)
    return reduce(plugrad.add, _extract_cells(ones, rest, 0))


def _convert_indices(flat_indices: Tensor, x: Tensor, storage_order: int) -> Tensor:
    """Convert flat indices of channels-last images to ONNX's flat indices.

    ONNX has the channels second, and counts the elements of all images.
    """
    spatial, channels = x.shape[1:-1], x.shape[-1]
    size = math.prod(spatial)
    pixel, channel = (
        plugrad.floor_divide(flat_indices, channels),
        plugrad.remainder(flat_indices, channels),
    )
    if storage_order:  # the first spatial axis is the fastest
        rest, pixel, step = pixel, plugrad.zeros_like(pixel), size
        for n in reversed(spatial):
            step //= n
            pixel = pixel + plugrad.remainder(rest, n) * step
            rest = plugrad.floor_divide(rest, n)
    images = np.arange(x.shape[0], dtype=np.int32).reshape(-1, *(1,) * (x.ndim - 1)) * channels
    first = (channel + as_tensor(images, x.device)) * size
    return plugrad.astype(first + pixel, "int64")
