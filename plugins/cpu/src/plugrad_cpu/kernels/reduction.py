"""Reductions by NumPy, with results in the dtype of the input."""

import math

import numpy as np

from plugrad.extend import position_dtype
from plugrad.kernels import reduction
from plugrad_cpu.declare import Array, accumulation_dtype, table
from plugrad_cpu.kernels.indexing import scatter_sums

PAIRWISE_MAX_ELEMENTS = 4096
"""The maximum elements that are added one after the other, so that rounding errors stay small."""
BLAS_ROW_MAX_ELEMENTS = 1024
"""The maximum elements of a row that is summed by a product with ones; longer rows are divided."""
MAX_HALVED_ELEMENTS = 16
"""The maximum factors of a product that are left after one half of an axis is multiplied by the other."""


@table.implements(reduction.sum)
def sum(x: Array, *, axis: tuple[int, ...], keep_dims: bool) -> Array:
    """Return the sum of the elements along axes."""
    if (
        x.size <= BLAS_ROW_MAX_ELEMENTS and x.dtype.char in "fd"
    ):  # few elements: no way is faster than the shortest
        return np.add.reduce(x, axis=axis, keepdims=keep_dims)
    return sum_accurately(x, axis, keep_dims).astype(x.dtype, copy=False)


def sum_accurately(x: Array, axis: tuple[int, ...], keep_dims: bool) -> Array:
    """Return sums along axes, in float32 for float16; rows and columns are summed by products with ones.

    NumPy uses pairwise summation only along the last axes. Along other axes it adds one element after the
    other, and rounding errors accumulate, so that long axes are split in halves first.
    """
    if x.size > PAIRWISE_MAX_ELEMENTS and x.dtype.kind in "fc":
        kept = next((i for i in reversed(range(x.ndim)) if i not in axis), 0)
        early = sorted((i for i in axis if i < kept), key=lambda i: x.shape[i])
        if math.prod(x.shape[i] for i in early) > PAIRWISE_MAX_ELEMENTS:
            lead, half = (slice(None),) * early[-1], x.shape[early[-1]] // 2
            first, second = x[(*lead, slice(half))], x[(*lead, slice(half, None))]
            return sum_accurately(first, axis, keep_dims) + sum_accurately(second, axis, keep_dims)
    leading = tuple(range(x.ndim - 1))
    is_for_blas = x.dtype.char in "fd" and x.flags.c_contiguous and x.size > 0
    is_large = (
        x.size > MAX_HALVED_ELEMENTS * BLAS_ROW_MAX_ELEMENTS
    )  # else NumPy's own calls take less time
    if is_large and is_for_blas and axis == tuple(range(x.ndim - len(axis), x.ndim)):
        total = _sum_rows(x, math.prod(x.shape[i] for i in axis))
        kept = x.shape[: x.ndim - len(axis)]
        return total.reshape(kept + (1,) * len(axis) * keep_dims)
    if axis == leading and leading and is_for_blas:
        columns = x.shape[-1]
        total = np.ones(x.size // columns, x.dtype) @ x.reshape(-1, columns)
        return total.reshape((1,) * len(leading) + (columns,)) if keep_dims else total
    return np.asarray(
        np.add.reduce(x, axis=axis, dtype=accumulation_dtype(x.dtype), keepdims=keep_dims)
    )


def _sum_rows(x: Array, length: int) -> Array:
    """Return the sums of x, reshaped to rows of `length` elements; long rows are summed in parts."""
    if length <= PAIRWISE_MAX_ELEMENTS:
        return x.reshape(-1, length) @ np.ones(length, x.dtype)
    whole = length - length % BLAS_ROW_MAX_ELEMENTS
    if x.size > length and whole < length:
        return np.add.reduce(x.reshape(-1, length), axis=1)
    rows = x.reshape(-1, length)
    parts = rows[:, :whole].reshape(-1, BLAS_ROW_MAX_ELEMENTS) @ np.ones(
        BLAS_ROW_MAX_ELEMENTS, x.dtype
    )
    totals = np.add.reduce(parts.reshape(len(rows), -1), axis=1)
    return totals + np.add.reduce(rows[:, whole:], axis=1)


@table.implements(reduction.prod)
def prod(x: Array, *, axis: tuple[int, ...], keep_dims: bool) -> Array:
    """Return the product of the elements along axes."""
    factors = x.astype(accumulation_dtype(x.dtype), copy=False)
    if len(axis) == x.ndim and x.flags.c_contiguous and x.size > BLAS_ROW_MAX_ELEMENTS:
        whole = x.size - x.size % BLAS_ROW_MAX_ELEMENTS
        flat = factors.reshape(-1)
        parts = np.multiply.reduce(flat[:whole].reshape(-1, BLAS_ROW_MAX_ELEMENTS), axis=0)
        product = np.multiply.reduce(np.concatenate([parts, flat[whole:]]))
        return np.asarray(product, x.dtype).reshape((1,) * x.ndim * keep_dims)
    if x.ndim and axis == (x.ndim - 1,):
        factors = _multiply_pairs(factors)
    return np.asarray(np.multiply.reduce(factors, axis=axis, keepdims=keep_dims), x.dtype)


def _multiply_pairs(x: Array) -> Array:
    """Multiply one half of the last axis by the other, again and again, until few factors are left."""
    while (half := x.shape[-1] // 2) > MAX_HALVED_ELEMENTS:
        rest = x[..., 2 * half :]
        x = x[..., :half] * x[..., half : 2 * half]
        if rest.size:
            x[..., :1] *= rest
    return x


@table.implements(reduction.mean)
def mean(x: Array, *, axis: tuple[int, ...], keep_dims: bool) -> Array:
    """Return the average of the elements along axes; NaN if there are none."""
    total = sum_accurately(x, axis, keep_dims)
    count = np.prod([x.shape[i] for i in axis], dtype=int)
    with np.errstate(invalid="ignore"):
        return np.divide(total, np.asarray(count, total.dtype)).astype(x.dtype, copy=False)


@table.implements(reduction.variance)
def variance(x: Array, *, axis: tuple[int, ...], keep_dims: bool) -> Array:
    """Return the average of the squared differences from the mean along axes; NaN if there are no elements."""
    wide = x.astype(accumulation_dtype(x.dtype), copy=False)
    if x.size:
        # The average of large numbers is rounded; that of their differences from one of them hardly is.
        wide = wide - wide[tuple([slice(1) if i in axis else slice(None) for i in range(x.ndim)])]
    squares = np.square(wide - mean(wide, axis=axis, keep_dims=True))
    return np.asarray(mean(squares, axis=axis, keep_dims=keep_dims), x.dtype)


MAX_SAFE_SQUARE_SUM = 2.0**800
"""The maximum sum of float64 squares that is taken without scaling; the minimum is its inverse."""
SQUARE_SUM_SCALE = 2.0**700
"""The factor of float64 numbers whose squares are too small, and the divisor of those too large to square."""


@table.implements(reduction.euclidean_norm)
def euclidean_norm(x: Array, *, axis: tuple[int, ...], keep_dims: bool) -> Array:
    """Return the root of the sum of squares along axes, which are added in float64, or float32 if x is float16."""
    wide = x.astype(np.float32 if x.dtype.itemsize < 4 else np.float64, copy=False)
    squares = sum_accurately(np.square(wide), axis, True)
    scale = 1.0
    if x.dtype == np.float64:
        too_small, too_large = squares < 1 / MAX_SAFE_SQUARE_SUM, squares > MAX_SAFE_SQUARE_SUM
        scale = np.where(
            too_small, SQUARE_SUM_SCALE, np.where(too_large, 1 / SQUARE_SUM_SCALE, 1.0)
        )
        squares = sum_accurately(np.square(wide * scale), axis, True)
    norm = np.asarray(np.sqrt(squares) / scale, x.dtype)
    return norm if keep_dims else norm.squeeze(axis)


@table.implements(reduction.max)
def max(x: Array, *, reduction_indices: tuple[int, ...], keep_dims: bool) -> Array:
    """Return the largest element along axes."""
    return np.maximum.reduce(x, axis=reduction_indices, keepdims=keep_dims)


@table.implements(reduction.min)
def min(x: Array, *, axis: tuple[int, ...], keep_dims: bool) -> Array:
    """Return the smallest element along axes."""
    return np.minimum.reduce(x, axis=axis, keepdims=keep_dims)


@table.implements(reduction.all)
def all(x: Array, *, axis: tuple[int, ...], keep_dims: bool) -> Array:
    """Return whether every element along axes is True."""
    return np.logical_and.reduce(x, axis=axis, keepdims=keep_dims)


@table.implements(reduction.any)
def any(x: Array, *, axis: tuple[int, ...], keep_dims: bool) -> Array:
    """Return whether any element along axes is True."""
    return np.logical_or.reduce(x, axis=axis, keepdims=keep_dims)


@table.implements(reduction.argmax)
def argmax(x: Array, *, axis: int) -> Array:
    """Return the index of the first largest element along an axis."""
    return x.argmax(axis).astype(position_dtype(x.shape[axis]).numpy)


@table.implements(reduction.argmin)
def argmin(x: Array, *, axis: int) -> Array:
    """Return the index of the first smallest element along an axis."""
    return x.argmin(axis).astype(position_dtype(x.shape[axis]).numpy)


@table.implements(reduction.bincount)
def bincount(x: Array, weights: Array | None, *, size: int) -> Array:
    """Return how often each integer below `size` occurs among all elements, or the sums of their weights."""
    return _weighted_bincount(x.reshape(-1), None if weights is None else weights.reshape(-1), size)


@table.implements(reduction.dense_bincount)
def dense_bincount(x: Array, weights: Array | None, *, size: int, binary_output: bool) -> Array:
    """Return counts, or sums of weights, of each integer below `size` in each row, or whether it occurs."""
    if not binary_output:
        return _weighted_bincount(x, weights, size)
    return (_weighted_bincount(x, None, size) > 0).astype(
        position_dtype(x.size + 1).numpy if weights is None else weights.dtype
    )


def _weighted_bincount(x: Array, weights: Array | None, size: int) -> Array:
    """Return the sums of the weights along the last axis for each integer below `size`, row by row."""
    shape, counts = (*x.shape[:-1], size), position_dtype(x.size + 1).numpy
    if x.ndim == 1 and weights is None and x.size and x.min() >= 0 and x.max() < size:
        return np.bincount(x, minlength=size).astype(counts)
    is_inside = (x >= 0) & (x < size)
    rows = np.arange(math.prod(x.shape[:-1])).reshape(*x.shape[:-1], 1)
    bins = (rows * size + x)[is_inside]
    if weights is None:
        return np.bincount(bins, minlength=math.prod(shape)).reshape(shape).astype(counts)
    return scatter_sums(bins, weights[is_inside], math.prod(shape)).reshape(shape)
