"""Elements at positions, and sums of segments; those of floats are computed in double precision."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from plugrad.extend import size_of
from plugrad.kernels import indexing
from plugrad_cpu.memory import empty
from plugrad_native.declare import (
    FLOAT64,
    INT32,
    INTEGERS,
    LIMIT,
    dense,
    exports,
    in_numpy,
    in_parts,
    table,
)
from plugrad_native.variants import variant

if TYPE_CHECKING:
    from plugrad.extend import Shape
    from plugrad_native.declare import Array

GATHER: Final = {size: variant().kernel(f"gather_{size}") for size in (1, 2, 4, 8)}
"""Functions by the size of elements."""
LEAST_GATHERED: Final = 256
"""The number of positions from which on C is faster than NumPy: in batches, with few elements for each."""
LONG: Final = 16

numpy_gather = in_numpy(indexing.gather)


@table.implements(indexing.gather)
def gather(x: Array, indices: Array, *, axis: int, batch_dims: int) -> Array:
    """Return the elements at the given positions."""
    size, inner = x.shape[axis], size_of(x.shape[axis + 1 :])
    lead, others, picked = (
        x.shape[:batch_dims],
        x.shape[batch_dims:axis],
        indices.shape[batch_dims:],
    )
    shape = (*lead, *others, *picked, *x.shape[axis + 1 :])
    if (
        x.dtype.hasobject
        or x.dtype.kind == "T"
        or x.itemsize not in GATHER
        or indices.size < LEAST_GATHERED
        or inner > LONG
        or size_of(lead) == 1
        or not 0 < size_of(shape) < LIMIT
        or x.size >= LIMIT
        or not x.flags.c_contiguous
        or indices.min() < -size
        or indices.max() >= size
    ):
        return numpy_gather(x, indices, axis=axis, batch_dims=batch_dims)
    places = dense(indices.astype(INT32, copy=False))
    out = empty(shape, x.dtype)
    outer, count = size_of(others), size_of(picked)
    in_parts(
        GATHER[x.itemsize],
        ((x, outer * size * inner), (places, count), (out, outer * count * inner)),
        size_of(lead),
        *(outer, size, inner, count),
        work=2 * out.size,
    )
    return out


SEGMENT_SUM = exports("segment_sum", "float64", *INTEGERS)
SEGMENT_SUM_IN_DOUBLE = exports("segment_sum_in_double", "float32")
SEGMENT_SUM_OF_ROWS = variant().kernel("segment_sum_of_rows_float32")
LONG_ROW: Final = 8
"""The length from which on rows of a segment are listed before they are added."""

numpy_segment_sum = in_numpy(indexing.unsorted_segment_sum)


def is_served(x: Array, ids: Array, shape: Shape) -> bool:
    """Return whether C is to add the parts of x with each id; the result has a shape."""
    has_function = x.dtype in SEGMENT_SUM or x.dtype in SEGMENT_SUM_IN_DOUBLE
    return has_function and ids.size > 0 and max(x.size, ids.size, size_of(shape)) < LIMIT


def segment_sums(x: Array, ids: Array, shape: Shape) -> Array:
    """Return the sums of the parts of x with each id, which are the first axis of `shape`; other ids are ignored."""
    counts = 1, ids.size, size_of(shape[1:]), shape[0]
    if x.dtype in SEGMENT_SUM:
        out = empty(shape, x.dtype)
        SEGMENT_SUM[x.dtype](dense(x), ids, out, *counts)
        return out
    if counts[2] >= LONG_ROW:
        out = empty(shape, x.dtype)
        SEGMENT_SUM_OF_ROWS(dense(x), ids, out, *counts, empty((ids.size + shape[0],), INT32))
        return out
    sums = empty(shape, FLOAT64)
    SEGMENT_SUM_IN_DOUBLE[x.dtype](dense(x), ids, sums, *counts)
    return sums.astype(x.dtype)


@table.implements(indexing.unsorted_segment_sum)
def unsorted_segment_sum(x: Array, segment_ids: Array, *, num_segments: int) -> Array:
    """Return the sums of the elements with equal segment ids; ids out of range are ignored."""
    shape = (num_segments, *x.shape[segment_ids.ndim :])
    if segment_ids.dtype != np.int32 or not is_served(x, segment_ids, shape):
        return numpy_segment_sum(x, segment_ids, num_segments=num_segments)
    return segment_sums(x, dense(segment_ids), shape)
