"""Indexing by position."""

import math
from typing import Final

import numpy as np

from plugrad.extend import DType, Scalar, Shape, TensorIndexError, host_implementations
from plugrad.kernels import indexing
from plugrad_cpu.declare import Array, mark_results_tracked, table
from plugrad_cpu.kernels.creation import cached_arange
from plugrad_cpu.memory import empty, track_allocation, zeros

POSITION_DTYPE: Final = np.dtype(np.intp)
"""The dtype of indices that NumPy takes as they are."""


@table.implements(indexing.gather)
@mark_results_tracked
def gather(x: Array, indices: Array, *, axis: int, batch_dims: int) -> Array:
    """Return the slices of x at the given indices along an axis.

    Raises:
        TensorIndexError: a position is outside the axis.
    """
    positions = (
        indices if indices.dtype is POSITION_DTYPE else indices.astype(POSITION_DTYPE, copy=False)
    )
    try:
        if batch_dims == 0:
            y = x.take(positions, axis)
            return track_allocation(y if type(y) is np.ndarray else np.asarray(y, x.dtype))
        return track_allocation(_gather_in_batches(x, positions, axis, batch_dims))
    except IndexError:
        raise out_of_range_error("GatherV2", positions, axis, x.shape[axis]) from None


def _gather_in_batches(x: Array, positions: Array, axis: int, batch_dims: int) -> Array:
    """Return the elements at the positions of each batch; x is reshaped to (batch, before, axis size, after)."""
    shape, picked = x.shape, positions.shape[batch_dims:]
    batch, before = math.prod(shape[:batch_dims]), math.prod(shape[batch_dims:axis])
    size = shape[axis]
    if before == 1 and positions.size and size:
        least, most = positions.min(), positions.max()
        if -size <= least and most < size:
            rows = positions.reshape(batch, -1)
            rows = np.where(rows < 0, rows + size, rows) if least < 0 else rows
            rows = rows + np.arange(batch)[:, None] * size
            taken = x.reshape(batch * size, *shape[axis + 1 :]).take(rows.reshape(-1), 0)
            return taken.reshape(*shape[:axis], *picked, *shape[axis + 1 :])
    parts = x.reshape(batch, before, shape[axis], math.prod(shape[axis + 1 :]))
    taken = parts[
        np.arange(batch)[:, None, None],
        np.arange(before)[:, None],
        positions.reshape(batch, 1, math.prod(picked)),
    ]
    return taken.reshape(*shape[:axis], *picked, *shape[axis + 1 :])


def out_of_range_error(kernel: str, indices: Array, axis: int, axis_size: int) -> TensorIndexError:
    """Return the error for the first index that is out of range for an axis, in a call of `kernel`."""
    worst = indices[(indices < -axis_size) | (indices >= axis_size)].flat[0]
    return TensorIndexError(
        f"{kernel}: index {worst} is out of range for axis {axis} of size {axis_size}; "
        + (
            f"indices run from {-axis_size} to {axis_size - 1}"
            if axis_size
            else "an empty axis has no elements"
        )
    )


def flat_positions(kernel: str, indices: Array, shape: Shape) -> Array:
    """Return the index of each row of coordinates after the first axes of `shape` are flattened.

    Raises:
        TensorIndexError: a coordinate is outside its axis.
    """
    if not indices.size:
        return np.zeros(indices.shape[:-1], np.intp)
    flat: Array = np.zeros((), np.intp)
    for axis in range(indices.shape[-1]):
        size, positions = shape[axis], indices[..., axis].astype(np.intp, "C")
        least = positions.min()
        if not (-size <= least and positions.max() < size):
            raise out_of_range_error(kernel, positions, axis, size)
        if least < 0:
            positions[positions < 0] += size
        flat = flat * size + positions if axis else positions
    return flat


@table.implements(indexing.gather_gradient)
def gather_gradient(
    dy: Array, indices: Array, *, shape: Shape, axis: int, batch_dims: int
) -> Array:
    """Return zeros of a shape with each slice of dy added at its index.

    Raises:
        TensorIndexError: a position is outside the axis.
    """
    size, inner = shape[axis], math.prod(shape[axis + 1 :])
    batch, before = math.prod(shape[:batch_dims]), math.prod(shape[batch_dims:axis])
    places = flat_positions("GatherV2Grad", indices[..., None], (size,))
    places = places.reshape(batch, 1, math.prod(indices.shape[batch_dims:]))
    if batch * before != 1:
        places = places + size * np.arange(batch * before).reshape(batch, before, 1)
    if inner != 1:
        places = places[..., None] * inner + np.arange(inner)
    return scatter_sums(places.reshape(-1), dy.reshape(-1), math.prod(shape)).reshape(shape)


@table.implements(indexing.gather_nd)
def gather_nd(params: Array, indices: Array) -> Array:
    """Return the slices of `params` at the given coordinates."""
    depth = indices.shape[-1]
    parts = params.reshape(math.prod(params.shape[:depth]), *params.shape[depth:])
    return parts[(flat_positions("GatherNd", indices, params.shape), ...)]


ONE_HOT_COMPARISON_MAX_ELEMENTS: Final = 1024
"""The maximum elements of a result that is made by comparing every position with the index."""


@table.implements(indexing.one_hot)
def one_hot(
    indices: Array, *, depth: int, on_value: Scalar, off_value: Scalar, dtype: DType
) -> Array:
    """Return `on_value` where the position along the last axis is the index, else `off_value`."""
    elements = (
        max(indices.size, 1) * depth
    )  # a large depth is not to be cached, even if there are no indices
    if elements <= ONE_HOT_COMPARISON_MAX_ELEMENTS and not dtype.numpy.hasobject:
        is_on = indices[..., None] == cached_arange(depth, POSITION_DTYPE)
        if type(on_value) is type(off_value) is int and (on_value, off_value) == (1, 0):
            return is_on.astype(dtype.numpy)
        y = np.empty(is_on.shape, dtype.numpy)
        y.fill(off_value)
        y[is_on] = on_value
        return y
    positions = indices.reshape(-1)
    size, wanted = positions.size * depth, np.dtype(str(dtype))  # NumPy refuses a dtype 'string'
    if type(off_value) is int and not off_value:
        y = zeros((size,), wanted)
    else:
        y = empty((size,), wanted)
        y.fill(off_value)
    inside = np.flatnonzero((positions >= 0) & (positions < depth))
    y[inside * depth + positions[inside].astype(np.intp)] = on_value
    return y.reshape(*indices.shape, depth)


@table.implements(indexing.unsorted_segment_sum)
def unsorted_segment_sum(x: Array, segment_ids: Array, *, num_segments: int) -> Array:
    """Return the sums of the segments; ids outside ``[0, num_segments)`` are ignored."""
    shape = (num_segments, *x.shape[segment_ids.ndim :])
    rows = x.reshape(segment_ids.size, math.prod(shape[1:]))
    return segment_sums(rows, segment_ids.reshape(-1), num_segments).reshape(shape)


def segment_sums(rows: Array, segment_ids: Array, segment_count: int) -> Array:
    """Return a row for each segment: the sum of the rows with its id; other ids are ignored.

    NumPy adds at the positions of elements far faster than at those of rows.
    """
    is_inside = (segment_ids >= 0) & (segment_ids < segment_count)
    if not is_inside.all():
        rows, segment_ids = rows[is_inside], segment_ids[is_inside]
    width = rows.shape[1]
    starts = segment_ids.astype(np.intp, copy=False) * width
    places = np.add.outer(starts, np.arange(width)).reshape(-1)
    return scatter_sums(places, rows.reshape(-1), segment_count * width).reshape(
        segment_count, width
    )


def scatter_sums(positions: Array, values: Array, position_count: int) -> Array:
    """Return the sum of the values at each of `position_count` positions; floats are added in double precision."""
    if values.dtype.kind == "f":
        return np.bincount(positions, values, position_count).astype(values.dtype)
    sums = np.zeros(position_count, values.dtype)
    np.add.at(sums, positions, values)
    return sums


table.update(host_implementations(indexing))
