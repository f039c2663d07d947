"""Indexing by position."""

import math

import numpy as np

from plugrad.extend import DType, Scalar, TensorIndexError
from plugrad.kernels import indexing
from plugrad_cpu.declare import Array, table


@table.implements(indexing.gather)
def gather(x: Array, indices: Array, *, axis: int, batch_dims: int) -> Array:
    """Return the elements at the given positions.

    Raises:
        TensorIndexError: a position is outside the axis.
    """
    size = x.shape[axis]
    if indices.size and not (indices.min() >= 0 and indices.max() < size):
        worst = indices.min() if indices.min() < 0 else indices.max()
        raise TensorIndexError(
            f"GatherV2: index {worst} is out of range for axis {axis} of size {size}"
        )
    if batch_dims == 0:
        return np.take(x, indices, axis)
    batch = x.shape[:batch_dims]
    rows = x.reshape(-1, *x.shape[batch_dims:])
    taken = [
        np.take(row, ids, axis - batch_dims)
        for row, ids in zip(rows, indices.reshape(-1, *indices.shape[batch_dims:]), strict=True)
    ]
    shape = (*x.shape[:axis], *indices.shape[batch_dims:], *x.shape[axis + 1 :])
    return np.stack(taken).reshape(shape) if 0 not in batch else np.empty(shape, x.dtype)


@table.implements(indexing.one_hot)
def one_hot(
    indices: Array, *, depth: int, on_value: Scalar, off_value: Scalar, dtype: DType
) -> Array:
    """Return on_value where the position along the last axis is the index."""
    is_hot = indices[..., None] == np.arange(depth)
    return np.where(is_hot, np.asarray(on_value, str(dtype)), np.asarray(off_value, str(dtype)))


@table.implements(indexing.unsorted_segment_sum)
def unsorted_segment_sum(x: Array, segment_ids: Array, *, num_segments: int) -> Array:
    """Return the sums; sorting by segment and adding runs is faster than adding one row at a time."""
    shape = (num_segments, *x.shape[segment_ids.ndim :])
    rows = x.reshape(segment_ids.size, math.prod(shape[1:]))
    sums = np.zeros((num_segments, rows.shape[1]), x.dtype)
    ids = segment_ids.reshape(-1)
    order = np.argsort(ids, kind="stable")
    order = order[(ids[order] >= 0) & (ids[order] < num_segments)]
    if order.size and rows.shape[1]:
        used, starts = np.unique(ids[order], return_index=True)
        sums[used] = np.add.reduceat(rows[order], starts, axis=0, dtype=x.dtype)
    return sums.reshape(shape)
