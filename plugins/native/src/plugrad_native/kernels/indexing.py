"""Elements at positions, and sums of segments; sums of floats are computed in double precision."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from plugrad.extend import count_elements
from plugrad.kernels import indexing
from plugrad_cpu.extend import (
    PARTS_PER_THREAD,
    empty,
    mark_results_tracked,
    numpy_implementation,
    thread_pool,
)
from plugrad_native.declare import (
    FLOAT32,
    INT32,
    INTEGER_DTYPES,
    MAX_ELEMENTS,
    as_contiguous,
    find_c_functions,
    parallel_for,
    table,
)
from plugrad_native.variants import current_variant

if TYPE_CHECKING:
    from plugrad.extend import Shape
    from plugrad_native.declare import Array, CFunction

C_GATHER_BY_ITEM_SIZE: Final = {
    size: current_variant().kernel(f"gather_{size}") for size in (1, 2, 4, 8)
}
"""The C functions that gather slices, by the bytes of an element."""
C_GATHER_ELEMENTS_BY_ITEM_SIZE: Final = {
    size: current_variant().kernel(f"pick_{size}") for size in (1, 2, 4, 8)
}
"""The C functions that gather single elements, by the bytes of an element."""
C_NORMALIZE_INDICES: Final = find_c_functions("wrapped", "int32", "int64")
"""The C functions that make negative indices non-negative and check them, by dtype."""
GATHER_MIN_INDICES: Final = 256
"""The minimum number of indices for which C gathers faster than NumPy, from batches of short slices."""
LONG_SLICE_MIN_ELEMENTS: Final = 16
"""The minimum elements of a slice for which NumPy gathers as fast as C, and threads share the sums of segments."""

numpy_gather: Final = numpy_implementation(indexing.gather)
"""NumPy's implementation of the kernel `gather`."""


@table.implements(indexing.gather)
@mark_results_tracked
def gather(x: Array, indices: Array, *, axis: int, batch_dims: int) -> Array:
    """Return the slices of x at `indices` along an axis."""
    if indices.size < GATHER_MIN_INDICES:
        return numpy_gather(x, indices, axis=axis, batch_dims=batch_dims)
    if batch_dims == 0:
        found = gather_in_threads(x, indices, axis)
        return (
            numpy_gather(x, indices, axis=axis, batch_dims=batch_dims) if found is None else found
        )
    size, inner = x.shape[axis], count_elements(x.shape[axis + 1 :])
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
        and x.itemsize in C_GATHER_BY_ITEM_SIZE
        and inner <= LONG_SLICE_MIN_ELEMENTS
        and count_elements(lead) != 1
        and 0 < count_elements(shape) < MAX_ELEMENTS
        and x.size < MAX_ELEMENTS
        and x.flags.c_contiguous
    ):
        places = normalize_indices(indices, size)
    if places is None:
        return numpy_gather(x, indices, axis=axis, batch_dims=batch_dims)
    out = empty(shape, x.dtype)
    outer, count = count_elements(others), count_elements(picked)
    run = (
        C_GATHER_ELEMENTS_BY_ITEM_SIZE[x.itemsize]
        if inner == 1
        else C_GATHER_BY_ITEM_SIZE[x.itemsize]
    )
    counts = (outer, size, count) if inner == 1 else (outer, size, inner, count)
    parts = (x, outer * size * inner), (places, count), (out, outer * count * inner)
    parallel_for(run, parts, count_elements(lead), *counts, work=2 * out.size)
    return out


def gather_in_threads(x: Array, indices: Array, axis: int) -> Array | None:
    """Return the slices of x at `indices` along an axis, copied by several threads, or None if NumPy is as fast."""
    shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
    size, count = count_elements(shape), indices.size
    parts = thread_pool.count_parts(2 * size, count, PARTS_PER_THREAD)
    if (
        parts == 1
        or count_elements(x.shape[:axis]) != 1
        or max(size, x.size) >= MAX_ELEMENTS
        or x.dtype.hasobject
        or x.dtype.kind == "T"
        or x.itemsize not in C_GATHER_BY_ITEM_SIZE
        or not x.flags.c_contiguous
    ):
        return None
    places = normalize_indices(indices, x.shape[axis])
    if places is None:
        return None
    out, inner = empty(shape, x.dtype), size // count
    run = (
        C_GATHER_ELEMENTS_BY_ITEM_SIZE[x.itemsize]
        if inner == 1
        else C_GATHER_BY_ITEM_SIZE[x.itemsize]
    )
    sizes = (1, 1, x.shape[axis], *(() if inner == 1 else (inner,)), count)
    arguments = x, places, out, *sizes
    steps = 0, 1, inner, *(0 for _ in sizes)
    place = len(arguments) - 1
    thread_pool.run_in_parts(run, arguments, steps, place, count, parts=parts)
    return out


def normalize_indices(indices: Array, axis_size: int) -> Array | None:
    """Return indices as non-negative int32, or None if one is out of range."""
    if indices.dtype not in C_NORMALIZE_INDICES:
        indices = indices.astype(np.int64)
    places = empty(indices.shape, INT32)
    return (
        None
        if C_NORMALIZE_INDICES[indices.dtype](
            as_contiguous(indices), places, indices.size, axis_size
        )
        else places
    )


C_SEGMENT_SUM = find_c_functions("segment_sum", "float64", *INTEGER_DTYPES)
"""The C functions that add slices by segment, by dtype."""
C_SEGMENT_SUM_OF_ELEMENTS = current_variant().kernel("segment_sum_of_elements_float32")
"""The C function that adds single float32 by segment."""
C_SEGMENT_SUM_OF_ROWS = current_variant().kernel("segment_sum_of_rows_float32")
"""The C function that adds rows of float32 by segment."""

numpy_segment_sum: Final = numpy_implementation(indexing.unsorted_segment_sum)
"""NumPy's implementation of the kernel `unsorted_segment_sum`."""
numpy_gather_gradient: Final = numpy_implementation(indexing.gather_gradient)
"""NumPy's implementation of the kernel `gather_gradient`."""


def is_segment_sum_supported(x: Array, segment_ids: Array, result_shape: Shape) -> bool:
    """Return whether C supports this sum of segments."""
    has_function = x.dtype in C_SEGMENT_SUM or x.dtype == FLOAT32
    size = count_elements(result_shape)
    return (
        has_function
        and min(segment_ids.size, size) > 0
        and max(x.size, segment_ids.size, size) < MAX_ELEMENTS
    )


def compute_segment_sums(
    x: Array, segment_ids: Array, result_shape: Shape, batch_size: int = 1
) -> Array:
    """Return the sums of the slices of x with equal segment ids; ids out of range are ignored.

    The first axis of `result_shape` has the segments, batch by batch.
    """
    count, segments, inner = (
        segment_ids.size // batch_size,
        result_shape[0] // batch_size,
        count_elements(result_shape[1:]),
    )
    run, counts, scratch = C_SEGMENT_SUM.get(x.dtype), (count, inner, segments), 0
    if run is None and inner == 1:
        run, counts = C_SEGMENT_SUM_OF_ELEMENTS, (count, segments)
        scratch = 3 * (segments if batch_size > 1 else min(count, segments))
    elif run is None:
        run, scratch = C_SEGMENT_SUM_OF_ROWS, count + segments
    out = empty(result_shape, x.dtype)
    if batch_size == 1 and inner >= LONG_SLICE_MIN_ELEMENTS:
        run_segment_sum(run, as_contiguous(x), segment_ids, out, (count, inner), scratch)
        return out
    places = (as_contiguous(x), count * inner), (segment_ids, count), (out, segments * inner)
    parallel_for(run, places, batch_size, *counts, work=x.size + out.size, scratch_floats=scratch)
    return out


def run_segment_sum(
    c_function: CFunction,
    x: Array,
    segment_ids: Array,
    out: Array,
    id_count_and_slice_size: tuple[int, int],
    scratch_floats: int,
) -> None:
    """Write the sums of the slices of each segment to `out`; threads share the segments, and each reads all ids."""
    segments = out.shape[0]
    parts = thread_pool.count_parts(x.size + out.size, segments)
    bounds = [segments * i // parts for i in range(parts + 1)]

    def sum_part(first_segment: int, end_segment: int) -> tuple[object, ...]:
        """Return the call that sums the segments from `first_segment` to before `end_segment`."""
        others = (empty((scratch_floats,), FLOAT32),) if scratch_floats else ()
        some = segment_ids - np.int32(first_segment) if first_segment else segment_ids
        return (
            c_function,
            x,
            some,
            out[first_segment:end_segment],
            1,
            *id_count_and_slice_size,
            end_segment - first_segment,
            *others,
        )

    thread_pool.run([sum_part(first, last) for first, last in pairwise(bounds)])


@table.implements(indexing.unsorted_segment_sum)
def unsorted_segment_sum(x: Array, segment_ids: Array, *, num_segments: int) -> Array:
    """Return the sums of the slices with equal segment ids; ids out of range are ignored."""
    shape = (num_segments, *x.shape[segment_ids.ndim :])
    if not is_segment_sum_supported(x, segment_ids, shape):
        return numpy_segment_sum(x, segment_ids, num_segments=num_segments)
    return compute_segment_sums(
        x, as_contiguous(cast_ids_to_int32(segment_ids, num_segments)), shape
    )


def cast_ids_to_int32(ids: Array, segment_count: int) -> Array:
    """Cast segment ids to int32; ids out of [0, segment_count) stay out of range."""
    if ids.itemsize >= INT32.itemsize and ids.dtype != INT32:
        ids = ids.clip(0 if ids.dtype.kind == "u" else -1, segment_count)
    return ids.astype(INT32, copy=False)


@table.implements(indexing.gather_gradient)
def gather_gradient(
    dy: Array, indices: Array, *, shape: Shape, axis: int, batch_dims: int
) -> Array:
    """Return zeros of `shape` with the slices of dy added at `indices`."""
    size = shape[axis]
    places = (
        normalize_indices(indices, size) if is_segment_sum_supported(dy, indices, shape) else None
    )
    if places is None:
        return numpy_gather_gradient(dy, indices, shape=shape, axis=axis, batch_dims=batch_dims)
    batch, before = count_elements(shape[:batch_dims]), count_elements(shape[batch_dims:axis])
    inner = count_elements(shape[axis + 1 :])
    sums = (batch * size, before, inner)
    if before == 1:
        return compute_segment_sums(dy, places, sums, batch).reshape(shape)
    parts = dy.reshape(batch, before, places.size // batch, inner)
    turned = compute_segment_sums(parts.swapaxes(1, 2), places, sums, batch)
    return as_contiguous(turned.reshape(batch, size, before, inner).swapaxes(1, 2)).reshape(shape)
