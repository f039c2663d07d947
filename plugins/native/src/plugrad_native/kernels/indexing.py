"""Elements at positions, and sums of segments; those of floats are computed in double precision."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from plugrad.extend import size_of
from plugrad.kernels import indexing
from plugrad_cpu.extend import empty, numpy_implementation
from plugrad_native.declare import (
    FLOAT32,
    INT32,
    INTEGERS,
    LIMIT,
    dense,
    exports,
    in_parts,
    table,
)
from plugrad_native.variants import variant

if TYPE_CHECKING:
    from plugrad.extend import Shape
    from plugrad_native.declare import Array

GATHER: Final = {size: variant().kernel(f"gather_{size}") for size in (1, 2, 4, 8)}
PICK: Final = {size: variant().kernel(f"pick_{size}") for size in (1, 2, 4, 8)}
"""Functions by the size of elements; the second is for single elements."""
WRAPPED: Final = exports("wrapped", "int32", "int64")
LEAST_GATHERED: Final = 256
"""The number of positions from which on C is faster than NumPy: in batches, with few elements for each."""
LONG: Final = 16

numpy_gather: Final = numpy_implementation(indexing.gather)


@table.implements(indexing.gather)
def gather(x: Array, indices: Array, *, axis: int, batch_dims: int) -> Array:
    """Return the elements at the given positions."""
    if batch_dims == 0 or indices.size < LEAST_GATHERED:
        return numpy_gather(x, indices, axis=axis, batch_dims=batch_dims)
    size, inner = x.shape[axis], size_of(x.shape[axis + 1 :])
    lead, others, picked = (
        x.shape[:batch_dims],
        x.shape[batch_dims:axis],
        indices.shape[batch_dims:],
    )
    shape = (*lead, *others, *picked, *x.shape[axis + 1 :])
    places = None
    if (
        not x.dtype.hasobject
        and x.dtype.kind != "T"
        and x.itemsize in GATHER
        and inner <= LONG
        and size_of(lead) != 1
        and 0 < size_of(shape) < LIMIT
        and x.size < LIMIT
        and x.flags.c_contiguous
    ):
        places = from_the_front(indices, size)
    if places is None:
        return numpy_gather(x, indices, axis=axis, batch_dims=batch_dims)
    out = empty(shape, x.dtype)
    outer, count = size_of(others), size_of(picked)
    run = PICK[x.itemsize] if inner == 1 else GATHER[x.itemsize]
    counts = (outer, size, count) if inner == 1 else (outer, size, inner, count)
    parts = (x, outer * size * inner), (places, count), (out, outer * count * inner)
    in_parts(run, parts, size_of(lead), *counts, work=2 * out.size)
    return out


def from_the_front(indices: Array, size: int) -> Array | None:
    """Return positions on an axis of a size as int32, counted from its front; None if one is out of range."""
    if indices.dtype not in WRAPPED:
        indices = indices.astype(np.int64)
    places = empty(indices.shape, INT32)
    return None if WRAPPED[indices.dtype](dense(indices), places, indices.size, size) else places


SEGMENT_SUM = exports("segment_sum", "float64", *INTEGERS)
SEGMENT_SUM_OF_ELEMENTS = variant().kernel("segment_sum_of_elements_float32")
SEGMENT_SUM_OF_ROWS = variant().kernel("segment_sum_of_rows_float32")

numpy_segment_sum: Final = numpy_implementation(indexing.unsorted_segment_sum)
numpy_gather_gradient: Final = numpy_implementation(indexing.gather_gradient)


def is_served(x: Array, ids: Array, shape: Shape) -> bool:
    """Return whether C is to add the parts of x with each id; the result has a shape."""
    has_function = x.dtype in SEGMENT_SUM or x.dtype == FLOAT32
    size = size_of(shape)
    return has_function and min(ids.size, size) > 0 and max(x.size, ids.size, size) < LIMIT


def segment_sums(x: Array, ids: Array, shape: Shape, batch: int = 1) -> Array:
    """Return the sums of the parts of x with each id; other ids are ignored.

    The first axis of `shape` are the segments, all those of the first batch before all those of the next one.
    """
    count, segments, inner = ids.size // batch, shape[0] // batch, size_of(shape[1:])
    run, counts, scratch = SEGMENT_SUM.get(x.dtype), (count, inner, segments), 0
    if run is None and inner == 1:
        run, counts = SEGMENT_SUM_OF_ELEMENTS, (count, segments)
        scratch = 3 * (segments if batch > 1 else min(count, segments))
    elif run is None:
        run, scratch = SEGMENT_SUM_OF_ROWS, count + segments
    out = empty(shape, x.dtype)
    places = (dense(x), count * inner), (ids, count), (out, segments * inner)
    in_parts(run, places, batch, *counts, work=x.size + out.size, scratch=scratch)
    return out


@table.implements(indexing.unsorted_segment_sum)
def unsorted_segment_sum(x: Array, segment_ids: Array, *, num_segments: int) -> Array:
    """Return the sums of the elements with equal segment ids; ids out of range are ignored."""
    shape = (num_segments, *x.shape[segment_ids.ndim :])
    if segment_ids.dtype != np.int32 or not is_served(x, segment_ids, shape):
        return numpy_segment_sum(x, segment_ids, num_segments=num_segments)
    return segment_sums(x, dense(segment_ids), shape)


@table.implements(indexing.gather_gradient)
def gather_gradient(
    dy: Array, indices: Array, *, shape: Shape, axis: int, batch_dims: int
) -> Array:
    """Return the sums of the parts of dy that were taken from each place."""
    size = shape[axis]
    places = from_the_front(indices, size) if is_served(dy, indices, shape) else None
    if places is None:
        return numpy_gather_gradient(dy, indices, shape=shape, axis=axis, batch_dims=batch_dims)
    batch, before = size_of(shape[:batch_dims]), size_of(shape[batch_dims:axis])
    inner = size_of(shape[axis + 1 :])
    sums = (batch * size, before, inner)
    if before == 1:
        return segment_sums(dy, places, sums, batch).reshape(shape)
    parts = dy.reshape(batch, before, places.size // batch, inner)
    turned = segment_sums(parts.swapaxes(1, 2), places, sums, batch)
    return dense(turned.reshape(batch, size, before, inner).swapaxes(1, 2)).reshape(shape)
