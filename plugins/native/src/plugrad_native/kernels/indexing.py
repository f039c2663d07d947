"""Sums of segments; those of floats are computed in double precision."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from plugrad.extend import size_of
from plugrad.kernels import indexing
from plugrad_native.declare import LIMIT, dense, exports, in_numpy, table

if TYPE_CHECKING:
    from plugrad.extend import Shape
    from plugrad_native.declare import Array

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
SEGMENT_SUM = exports("segment_sum", "float64", *INTEGERS)
SEGMENT_SUM_IN_DOUBLE = exports("segment_sum_in_double", "float32")

numpy_segment_sum = in_numpy(indexing.unsorted_segment_sum)


def is_served(x: Array, ids: Array, shape: Shape) -> bool:
    """Return whether C is to add the parts of x with each id; the result has a shape."""
    has_function = x.dtype in SEGMENT_SUM or x.dtype in SEGMENT_SUM_IN_DOUBLE
    return has_function and ids.size > 0 and max(x.size, ids.size, size_of(shape)) < LIMIT


def segment_sums(x: Array, ids: Array, shape: Shape) -> Array:
    """Return the sums of the parts of x with each id, which are the first axis of `shape`; other ids are ignored."""
    counts = 1, ids.size, size_of(shape[1:]), shape[0]
    if x.dtype in SEGMENT_SUM:
        out = np.empty(shape, x.dtype)
        SEGMENT_SUM[x.dtype](dense(x), ids, out, *counts)
        return out
    sums = np.empty(shape, np.float64)
    SEGMENT_SUM_IN_DOUBLE[x.dtype](dense(x), ids, sums, *counts)
    return sums.astype(x.dtype)


@table.implements(indexing.unsorted_segment_sum)
def unsorted_segment_sum(x: Array, segment_ids: Array, *, num_segments: int) -> Array:
    """Return the sums of the elements with equal segment ids; ids out of range are ignored."""
    shape = (num_segments, *x.shape[segment_ids.ndim :])
    if segment_ids.dtype != np.int32 or not is_served(x, segment_ids, shape):
        return numpy_segment_sum(x, segment_ids, num_segments=num_segments)
    return segment_sums(x, dense(segment_ids), shape)
