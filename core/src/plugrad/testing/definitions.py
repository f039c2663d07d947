"""Reference implementations of windows, interpolation and transposes in NumPy, which several tables use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad.types.specs import Shape
    from plugrad.types.windows import Window

Array = NDArray[Any]
"""A NumPy array of any dtype and shape."""


def extract_windows(x: Array, window: Window, *, padding_value: Any = 0) -> Array:
    """Return the cells of each position of a sliding `Window`, as (batch, positions …, channels, cells …)."""
    axes = len(window.size)
    places: list[Array] = []  # of each axis: where the cells (second axis) of the stops (first) lie
    margins = [(0, 0)]
    for axis, (length, stride, (before, after), dilation, stops) in enumerate(
        zip(*window, strict=True)
    ):
        within = np.add.outer(np.arange(stops) * stride, np.arange(length) * dilation)
        places.append(within.reshape(*(1, 1) * axis, stops, length, *(1, 1) * (axes - axis - 1)))
        margins.append((before, after))
    x = np.pad(x, [*margins, (0, 0)], constant_values=padding_value)
    seen = x[(slice(None), *places)]  # (batch, stops and cells of each axis in turn …, channels)
    stops_first = (0, *range(1, 2 * axes, 2), 2 * axes + 1, *range(2, 2 * axes + 1, 2))
    return seen.transpose(stops_first)


def convolve(x: Array, filter: Array, *, window: Window, is_depthwise: bool = False) -> Array:
    """Return x convolved with a filter over a sliding `Window`; if `is_depthwise`, channels are not summed."""
    seen = extract_windows(x, window)  # (batch, stops …, channels, cells …)
    axes = len(window.size)
    cells = tuple(range(seen.ndim - axes, seen.ndim))
    if is_depthwise:
        filters = np.moveaxis(filter, (-2, -1), (0, 1))  # (channels, multiplier, cells …)
        product = (seen[..., None, *[slice(None)] * axes] * filters).sum(
            tuple(range(-axes, 0))
        )  # (batch, stops …, channels, multiplier)
        return product.reshape(*product.shape[:-2], -1)
    return np.tensordot(seen, filter, ((seen.ndim - axes - 1, *cells), (axes, *range(axes))))


def transpose_linear_map(forward: Callable[[Array], Array], shape: Shape, dy: Array) -> Array:
    """Return the gradient of a linear function: the inner products of dy with the image of each unit array."""
    result = np.zeros(shape)
    for place in np.ndindex(*shape):
        alone = np.zeros(shape)
        alone[place] = 1
        result[place] = np.sum(forward(alone) * dy)
    return result


def apply_activation(z: Array, activation: str, slopes: Array | None, alpha: float) -> Array:
    """Return z after the activation called `activation`; `slopes` are those of prelu, `alpha` is that of leakyrelu."""
    return {
        "linear": lambda: z,
        "relu": lambda: np.maximum(z, 0),
        "relu6": lambda: np.clip(z, 0, 6),
        "elu": lambda: np.where(z > 0, z, np.expm1(np.minimum(z, 0))),
        "sigmoid": lambda: 1 / (1 + np.exp(-z)),
        "leakyrelu": lambda: np.where(z > 0, z, alpha * z),
        "prelu": lambda: np.where(z > 0, z, np.asarray(slopes) * z),
    }[activation]()


def fill_mode_index(i: Array, n: int, mode: str) -> Array:
    """Return the index among n pixels that a fill mode assigns to position i, which may be outside."""
    if mode == "wrap":
        return i % n
    if mode == "reflect":
        return np.minimum(i % (2 * n), 2 * n - 1 - i % (2 * n))
    return np.clip(i, 0, n - 1)


def sample_image(
    image: Array, rows: Array, columns: Array, method: str, mode: str, fill_value: Any = 0
) -> Array:
    """Return samples of an image (height, width, channels) at the points (rows, columns)."""
    height, width, channels = image.shape
    known = np.isfinite(rows) & np.isfinite(columns)
    rows, columns = np.where(known, rows, 0), np.where(known, columns, 0)
    fill_value = np.broadcast_to(np.asarray(fill_value, float), channels)

    def pixel(i: Array, j: Array) -> Array:
        i, j = i.astype(int), j.astype(int)
        values = image[fill_mode_index(i, height, mode), fill_mode_index(j, width, mode)]
        inside = (i >= 0) & (i < height) & (j >= 0) & (j < width)
        return values if mode != "constant" else np.where(inside[..., None], values, fill_value)

    if method == "nearest":
        found = pixel(np.floor(rows + 0.5), np.floor(columns + 0.5))
    else:
        top, left = np.floor(rows), np.floor(columns)
        down, right = (rows - top)[..., None], (columns - left)[..., None]
        found = (1 - down) * (1 - right) * pixel(top, left)
        found = found + (1 - down) * right * pixel(top, left + 1)
        found = found + down * (1 - right) * pixel(top + 1, left)
        found = found + down * right * pixel(top + 1, left + 1)
    return np.where(known[..., None], found, fill_value)


def resize_positions(
    input_size: int, output_size: int, align_corners: bool, half_pixel_centers: bool
) -> Array:
    """Return for each new position along a resized axis the position in the original."""
    i = np.arange(output_size)
    if align_corners and output_size > 1:
        return i * (input_size - 1) / (output_size - 1)
    return (
        (i + 0.5) * input_size / output_size - 0.5
        if half_pixel_centers
        else i * input_size / output_size
    )
