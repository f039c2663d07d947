"""Linear algebra: BLAS through NumPy, which takes transposed views without copying them."""

import math
from functools import lru_cache
from typing import Final

import numpy as np

from plugrad.extend import OperandPreparation, broadcast, plan_contractions
from plugrad.kernels import linalg
from plugrad_cpu.declare import Array, accumulation_dtype, mark_results_tracked, table
from plugrad_cpu.memory import TRACKED_MIN_BYTES, empty, track_allocation
from plugrad_cpu.products import multiply_matrices


@table.implements(linalg.matmul)
@mark_results_tracked
def matmul(a: Array, b: Array, *, transpose_a: bool, transpose_b: bool) -> Array:
    """Return the products of the matrices in the last two axes."""
    a = a.swapaxes(-1, -2) if transpose_a else a
    b = b.swapaxes(-1, -2) if transpose_b else b
    is_matrix = a.ndim == b.ndim == 2 and a.dtype.char in "fd"
    if is_matrix and len(a) * b.shape[1] * a.itemsize < TRACKED_MIN_BYTES:
        # It calls BLAS as well, but takes a third of the time of `np.matmul` before that.
        return a.dot(b)
    is_small = a.nbytes < TRACKED_MIN_BYTES and b.nbytes < TRACKED_MIN_BYTES
    has_terms = a.size and b.size
    if a.dtype.kind in "iu" and has_terms and is_exact_in_float64(a, b, a.shape[-1]):
        product = np.matmul(a, b, dtype=np.float64, casting="unsafe")
        return track_allocation(product.astype(np.int64).astype(a.dtype))
    if b.ndim == 2 and a.ndim > 2 and has_terms and a.flags.c_contiguous:
        # One large product is faster than many.
        rows, shape = a.reshape(-1, a.shape[-1]), (*a.shape[:-1], b.shape[1])
        if is_small and a.dtype.char in "fd":
            return track_allocation(rows.dot(b).reshape(shape))
        y = empty(shape, a.dtype)
        np.matmul(rows, b, out=y.reshape(-1, b.shape[1]))
        return y
    if is_small:
        return track_allocation(np.matmul(a, b))
    batch, others = a.shape[:-2], b.shape[:-2]
    if batch != others:
        batch = broadcast(batch, others)
    return np.matmul(a, b, out=empty((*batch, a.shape[-2], b.shape[-1]), a.dtype))


def is_exact_in_float64(a: Array, b: Array, depth: int) -> bool:
    """Return whether a product of integer matrices is exact in double precision, for which there is BLAS."""
    largest = [max(abs(int(x.min())), abs(int(x.max()))) for x in (a, b)]
    return math.prod(largest) * depth < 2**53


@table.implements(linalg.einsum)
def einsum(*inputs: Array, equation: str) -> Array:
    """Return the sums of products, computed by matrix products where possible."""
    dtype = inputs[0].dtype
    operands = [x.astype(accumulation_dtype(dtype), copy=False) for x in inputs]
    if dtype.kind in "iu":  # NumPy has no fast products of matrices of integers
        return np.asarray(np.einsum(equation, *operands, optimize=len(inputs) > 1), dtype)
    steps, last = plan_contractions(equation, tuple([x.shape for x in inputs]))
    for step in steps:
        right, left = (operands.pop(place) for place in reversed(step.places))
        a, b = _prepare_operand(left, step.left), _prepare_operand(right, step.right)
        if step.is_transposed is None:
            product = a * b
        else:
            transpose_a, transpose_b = step.is_transposed
            a = a.swapaxes(-1, -2) if transpose_a else a
            b = b.swapaxes(-1, -2) if transpose_b else b
            product = multiply_matrices(a, b)
        operands.append(product.reshape(step.shape))
    found = np.ascontiguousarray(_prepare_operand(operands[0], last), dtype)
    return found.reshape(last.shape)  # a number has got an axis


def _prepare_operand(x: Array, steps: OperandPreparation) -> Array:
    """Return an operand of `einsum` after sums, a transposition and a reshape, as `steps` says."""
    if steps.summed:
        x = np.add.reduce(x, axis=steps.summed)
    if steps.order:
        x = x.transpose(steps.order)
    return x if x.shape == steps.shape else x.reshape(steps.shape)


@table.implements(linalg.band_part)
def band_part(input: Array, num_lower: Array, num_upper: Array) -> Array:
    """Return the matrices with zeros outside a band around the diagonal."""
    lower, upper = int(num_lower), int(num_upper)
    rows, columns = input.shape[-2:]
    if input.size <= BAND_MASK_MAX_ELEMENTS and not input.dtype.hasobject:
        return np.where(_band_mask(rows, columns, lower, upper), input, np.zeros((), input.dtype))
    y = np.zeros(input.shape, input.dtype)
    below, above = lower if lower >= 0 else rows, upper if upper >= 0 else columns
    if rows <= columns:
        for i in range(rows):
            kept = slice(max(0, i - below), i + above + 1)
            y[..., i, kept] = input[..., i, kept]
    else:
        for j in range(columns):
            kept = slice(max(0, j - above), j + below + 1)
            y[..., kept, j] = input[..., kept, j]
    return y


BAND_MASK_MAX_ELEMENTS: Final = 1024
"""The maximum elements of a matrix whose band is chosen by a mask of bools, faster than by copies of rows."""


@lru_cache(maxsize=64)
def _band_mask(
    row_count: int, column_count: int, lower_diagonals: int, upper_diagonals: int
) -> Array:
    """Return a matrix of bools: whether each element is in a band; a negative number of diagonals means all."""
    offset = np.arange(column_count) - np.arange(row_count)[:, None]
    return ((lower_diagonals < 0) | (-offset <= lower_diagonals)) & (
        (upper_diagonals < 0) | (offset <= upper_diagonals)
    )


@table.implements(linalg.diag)
def diag(x: Array) -> Array:
    """Return zeros with x on the diagonal."""
    return np.diag(x.reshape(-1)).reshape((*x.shape, *x.shape))


@table.implements(linalg.diag_part)
def diag_part(input: Array) -> Array:
    """Return the diagonal of tensors whose first half of axes equals the second half."""
    shape = input.shape[: input.ndim // 2]
    size = math.prod(shape)
    return np.diagonal(input.reshape(size, size)).reshape(shape)
