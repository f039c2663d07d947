"""Normalizations. Both softmaxes subtract the largest element first, so that exp does not overflow."""

import math
from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from plugrad.kernels import normalization
from plugrad_cpu.declare import Array, accumulation_dtype, table
from plugrad_cpu.kernels.reduction import sum_accurately
from plugrad_cpu.memory import empty, empty_like
from plugrad_cpu.sharing import run_in_ranges

BLOCK_ELEMENTS = 65_536
"""The number of elements computed at a time: intermediate results stay in the cache, and calls are few."""


@table.implements(normalization.softmax)
def softmax(logits: Array, *, dim: int) -> Array:
    """Return exp(x) / sum(exp(x))."""
    if logits.size == 0:
        return logits
    y = np.subtract(logits, logits.max(axis=dim, keepdims=True), out=empty_like(logits))
    np.exp(y, out=y)
    y /= sum_accurately(y, (dim,), keep_dims=True)
    return y


@table.implements(normalization.log_softmax)
def log_softmax(logits: Array, *, axis: int) -> Array:
    """Return x - log(sum(exp(x)))."""
    if logits.size == 0:
        return logits
    y = np.subtract(logits, logits.max(axis=axis, keepdims=True), out=empty_like(logits))
    total = sum_accurately(np.exp(y, out=empty_like(y)), (axis,), keep_dims=True)
    y -= np.log(total).astype(logits.dtype, copy=False)
    return y


@table.implements(normalization.batch_norm)
def batch_norm(
    x: Array,
    mean: Array,
    variance: Array,
    offset: Array | None,
    scale: Array | None,
    *,
    variance_epsilon: float,
) -> Array:
    """Return (x - mean) * factor + offset, where the factor is scale / sqrt(variance + variance_epsilon)."""
    factor = 1 / np.sqrt(variance + variance_epsilon)
    if scale is not None:
        factor = factor * scale
    y = np.subtract(x, mean, out=empty_like(x))
    y *= factor
    if offset is not None:
        y += offset
    return y


# --- layers: a few rows at a time, whose intermediate results stay in the cache --------------------


@table.implements(normalization.layer_norm)
def layer_norm(
    x: Array, offset: Array | None, scale: Array | None, *, axis: int, variance_epsilon: float
) -> Array:
    """Return the standardized rows, times the scale, plus the offset."""
    length = math.prod(x.shape[axis:])
    y = np.empty(x.shape, x.dtype)  # not in the layout of x: its rows are written
    rows, out = x.reshape(-1, max(length, 1)), y.reshape(-1, max(length, 1))
    for few in _iter_row_groups(rows):
        h, _ = _standardize_rows(
            rows[few].astype(accumulation_dtype(x.dtype), copy=False), variance_epsilon
        )
        if scale is not None:
            h *= scale.reshape(-1)
        if offset is not None:
            h += offset.reshape(-1)
        out[few] = h
    return y


@table.implements(normalization.layer_norm_gradient)
def layer_norm_gradient(
    dy: Array, x: Array, scale: Array | None, *, axis: int, variance_epsilon: float
) -> list[Array]:
    """Return the gradients for x, offset and scale: for x, s (g - mean(g) - h mean(g h)), where g = dy * scale.

    The other gradients are the sums of dy and of dy h over all rows.
    """
    wide = accumulation_dtype(x.dtype)
    row = x.shape[axis:]
    length = math.prod(row)
    dx = np.empty(x.shape, x.dtype)
    rows, dys, out = (array.reshape(-1, max(length, 1)) for array in (x, dy, dx))
    sums = np.zeros((2, length))
    for few in _iter_row_groups(rows):
        h, inverse = _standardize_rows(rows[few].astype(wide, copy=False), variance_epsilon)
        g = dys[few].astype(wide, copy=False)
        ones = np.ones(len(g), wide)
        product = g * h
        sums += ones @ g, ones @ product
        if scale is not None:
            g = g * scale.reshape(-1)
            np.multiply(g, h, out=product)
        h *= _mean_of_rows(product)
        g = np.subtract(g, _mean_of_rows(g), out=product)
        g -= h
        g *= inverse
        out[few] = g
    return [dx, *(total.reshape(row).astype(x.dtype) for total in sums)]


def _iter_row_groups(rows: Array) -> Iterator[slice]:
    """Yield slices of the rows of a matrix, with about `BLOCK_ELEMENTS` elements each."""
    count = max(1, BLOCK_ELEMENTS // rows.shape[1])
    return (slice(first, first + count) for first in range(0, len(rows), count))


def _standardize_rows(x: Array, variance_epsilon: float) -> tuple[Array, Array]:
    """Return (x - mean) / sqrt(variance + variance_epsilon) for each row, and 1 / sqrt(variance + variance_epsilon)."""
    h = x - _mean_of_rows(x)
    inverse = 1 / np.sqrt(_mean_of_rows(h * h) + variance_epsilon)
    h *= inverse
    return h, inverse


def _mean_of_rows(x: Array) -> Array:
    """Return the mean of each row, as a column."""
    return np.add.reduce(x, axis=1, keepdims=True) / x.dtype.type(x.shape[1])


# --- batches in training: x as (outer, channels, inner), a few of the outer ones at a time -----------


@table.implements(normalization.batch_norm_training)
def batch_norm_training(
    x: Array, offset: Array | None, scale: Array | None, *, axis: int, variance_epsilon: float
) -> list[Array]:
    """Return the standardized channels, times the scale, plus the offset; and the means and the variances."""
    batch = _ChannelView(x, axis)
    parts = batch.parts
    y = np.empty(x.shape, x.dtype)  # not in the layout of x: its parts are written
    mean = batch.means(lambda few: parts[few])
    column = mean.astype(batch.dtype)[:, None]
    variance = batch.means(lambda few: np.square(parts[few] - column))
    factor = 1 / np.sqrt(variance + variance_epsilon)
    if scale is not None:
        factor = factor * scale
    factor = factor.astype(batch.dtype)[:, None]
    shift = None if offset is None else offset.astype(batch.dtype)[:, None]
    out = y.reshape(parts.shape)
    for few in batch.groups():
        h = parts[few] - column
        h *= factor
        if shift is not None:
            h += shift
        out[few] = h
    return [y, mean.astype(x.dtype), variance.astype(x.dtype)]


@table.implements(normalization.batch_norm_gradient)
def batch_norm_gradient(
    dy: Array,
    x: Array,
    mean: Array,
    variance: Array,
    scale: Array | None,
    *,
    axis: int,
    variance_epsilon: float,
) -> list[Array]:
    """Return the gradients of x, of the offset and of the scale.

    That of x is a (dy - mean(dy) - h mean(dy h)) = a dy + b (x - mean) + c, with one a, b and c for each channel and
    h, the normalized x.

    The other gradients are the sums of dy and of dy h.
    """
    batch = _ChannelView(x, axis)
    parts, dys = batch.parts, dy.reshape(batch.parts.shape)
    dx = np.empty(x.shape, x.dtype)
    column = mean.astype(batch.dtype)[:, None]
    inverse = 1 / np.sqrt(variance.astype(batch.dtype) + variance_epsilon)
    a = inverse if scale is None else inverse * scale
    along = inverse * batch.means(lambda few: (parts[few] - column) * dys[few])
    average = batch.means(lambda few: dys[few])
    b, c = -a * inverse * along, -a * average
    a, b, c = (vector.astype(batch.dtype)[:, None] for vector in (a, b, c))
    out = dx.reshape(parts.shape)
    for few in batch.groups():
        h = parts[few] - column
        h *= b
        h += dys[few] * a
        h += c
        out[few] = h
    return [dx, *((batch.size * each).astype(x.dtype) for each in (average, along))]


class _ChannelView:
    """An array reshaped to (outer, channels, inner), and its averages over outer and inner."""

    def __init__(self, x: Array, axis: int) -> None:
        channels, inner = x.shape[axis], math.prod(x.shape[axis + 1 :])
        outer = math.prod(x.shape[:axis])
        self.dtype = accumulation_dtype(x.dtype)
        self.parts = x.reshape(outer, channels, inner)
        self.size = outer * inner
        self.count = max(1, BLOCK_ELEMENTS // max(channels * inner, 1))

    def groups(self) -> Iterator[slice]:
        """Yield slices of the outer axis with about `BLOCK_ELEMENTS` elements each."""
        return (slice(i, i + self.count) for i in range(0, len(self.parts), self.count))

    def means(self, compute_values: Callable[[slice], Array]) -> Array:
        """Return averages by channel of the values that a function returns for each slice of the outer axis."""
        total = np.zeros(self.parts.shape[1])
        for few in self.groups():
            part = compute_values(few)
            if part.shape[2] == 1:
                total += sum_accurately(part[:, :, 0], (0,), keep_dims=False)
            else:
                rows = np.add.reduce(part, axis=2, dtype=self.dtype)
                total += np.add.reduce(rows, axis=0)
        return total / np.float64(self.size)


# --- neighbours -------------------------------------------------------------------------------------


@table.implements(normalization.local_response_normalization)
def local_response_normalization(
    x: Array, *, depth_radius: int, bias: float, alpha: float, beta: float
) -> Array:
    """Return x divided by a power of the sum of squares of neighbouring channels."""

    def normalize(x: Array) -> Array:
        """Return some images, normalized."""
        return x * (bias + alpha * _sum_neighbours(x * x, depth_radius)) ** -beta

    return _map_images(normalize, x)


@table.implements(normalization.local_response_normalization_gradient)
def local_response_normalization_gradient(
    x: Array,
    y: Array,
    dy: Array,
    *,
    depth_radius: int,
    bias: float,
    alpha: float,
    beta: float,
) -> Array:
    """Return the gradient for x, given the result y and its gradient dy."""

    def differentiate(x: Array, y: Array, dy: Array) -> Array:
        """Return the gradient for some images."""
        norm = bias + alpha * _sum_neighbours(x * x, depth_radius)
        through_norms = _sum_neighbours(dy * y / norm, depth_radius)
        return dy * norm**-beta - 2 * alpha * beta * x * through_norms

    return _map_images(differentiate, x, y, dy)


RESPONSE_COST_IN_ADDITIONS: Final = 32
"""The cost of normalizing an element by its neighbours, in additions."""


def _map_images(function: Callable[..., Array], *arrays: Array) -> Array:
    """Return the results of a function for all images in arrays; threads compute some images each."""
    out = empty(arrays[0].shape, arrays[0].dtype)

    def compute(first_image: int, end_image: int) -> None:
        """Write the results for the images from `first_image` to before `end_image`."""
        out[first_image:end_image] = function(*[x[first_image:end_image] for x in arrays])

    run_in_ranges(compute, len(out), RESPONSE_COST_IN_ADDITIONS * out.size)
    return out


def _sum_neighbours(x: Array, radius: int) -> Array:
    """Return, for each element, the sum of the elements at most `radius` away along the last axis."""
    total = x.copy()
    for distance in range(1, min(radius + 1, x.shape[-1])):
        total[..., distance:] += x[..., :-distance]
        total[..., :-distance] += x[..., distance:]
    return total
