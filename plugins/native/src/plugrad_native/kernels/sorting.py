"""Sorting by a stable radix sort; the largest elements are first selected by their leading bits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from plugrad.kernels import sorting
from plugrad_cpu.extend import empty, mark_results_tracked, numpy_implementation, track_allocation
from plugrad_native.declare import (
    FLOAT32,
    INT32,
    INTEGER_DTYPES,
    MAX_ELEMENTS,
    UNTRACKED_MAX_ELEMENTS,
    as_contiguous,
    find_c_functions,
    parallel_for,
    register_small_result_functions,
    table,
)

if TYPE_CHECKING:
    from plugrad_native.declare import Array

C_ARGSORT = find_c_functions("argsort", "float16", "float32", "float64", *INTEGER_DTYPES)
"""The C functions that sort indices by elements, by dtype."""

SORT_COST_IN_ADDITIONS: Final = 8
"""The cost of sorting one element, in additions."""

LONG_ROW_MIN_ELEMENTS: Final = 1 << 13
"""The minimum elements of a vector for which C's radix sort is faster than NumPy, twice as fast for a million."""

numpy_sort: Final = numpy_implementation(sorting.sort)
"""NumPy's implementation of the kernel `sort`."""
numpy_argsort: Final = numpy_implementation(sorting.argsort)
"""NumPy's implementation of the kernel `argsort`."""
numpy_top_k: Final = numpy_implementation(sorting.top_k)
"""NumPy's implementation of the kernel `top_k`."""


@table.implements(sorting.argsort)
@mark_results_tracked
def argsort(x: Array, *, axis: int, descending: bool, stable: bool) -> Array:
    """Return the indices that sort an axis; the sort is always stable."""
    run = C_ARGSORT.get(x.dtype)
    if run is None or not 0 < x.size < MAX_ELEMENTS:
        return track_allocation(numpy_argsort(x, axis=axis, descending=descending, stable=stable))
    if x.size < UNTRACKED_MAX_ELEMENTS and axis == x.ndim - 1:
        count = x.shape[axis]
        places, scratch = np.empty(x.shape, INT32), np.empty(4 * count, FLOAT32)
        run(as_contiguous(x), places, x.size // count, count, count, descending, True, scratch)
        return places
    rows = as_contiguous(np.moveaxis(x, axis, -1))
    count = rows.shape[-1]
    places = empty(rows.shape, INT32)
    parallel_for(
        run,
        ((rows, count), (places, count)),
        x.size // count,
        *(count, count, descending, True),
        work=SORT_COST_IN_ADDITIONS * x.size,
        scratch_floats=4 * count,
    )
    return np.moveaxis(places, -1, axis)


@table.implements(sorting.sort)
@mark_results_tracked
def sort(x: Array, *, axis: int, descending: bool) -> Array:
    """Return the elements in order along an axis; a long vector is ordered by the indices that sort it."""
    is_long = LONG_ROW_MIN_ELEMENTS <= x.size == x.shape[axis] < MAX_ELEMENTS
    if not is_long or x.itemsize == 1 or x.dtype not in C_ARGSORT:  # NumPy counts bytes
        return track_allocation(numpy_sort(x, axis=axis, descending=descending))
    row = x.reshape(-1)
    places = argsort(row, axis=0, descending=descending, stable=True)
    return row.take(places, out=empty(row.shape, x.dtype), mode="clip").reshape(x.shape)


@table.implements(sorting.top_k)
@mark_results_tracked
def top_k(x: Array, *, k: int, sorted: bool) -> tuple[Array, Array]:
    """Return the k largest elements along the last axis and their indices."""
    run = C_ARGSORT.get(x.dtype)
    if run is None or k < 2 or not 0 < x.size < MAX_ELEMENTS:  # NumPy's argmax is fast
        values, places = numpy_top_k(x, k=k, sorted=sorted)
        return track_allocation(values), track_allocation(places)
    *lead, count = x.shape
    rows = x.size // count
    places = empty((*lead, k), INT32)
    parts = (as_contiguous(x), count), (places, k)
    how = count, k, True, sorted
    parallel_for(run, parts, rows, *how, work=2 * x.size, scratch_floats=4 * count)
    if not lead:
        return track_allocation(x.take(places)), places
    return track_allocation(np.take_along_axis(x, places, -1)), places


register_small_result_functions(
    sorting.top_k, "largest", C_ARGSORT, "k", "sorted", result_dtype=INT32
)
