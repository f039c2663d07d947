"""Sorting and searching: positions are computed in the sandbox, other results by the core on the host.

NumPy sorts values faster with the vectors of the host than a copy to it costs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugrad.extend import (
    COMPLEX,
    bool_,
    count_elements,
    float16,
    host_implementations,
    int32,
    uint8,
)
from plugrad.kernels import sorting
from plugrad_wasm.declare import ExportNames, run_over_items, table
from plugrad_wasm.kernels.indexing import gather
from plugrad_wasm.kernels.movement import transpose
from plugrad_wasm.kernels.reduction import make_arg_reduction
from plugrad_wasm.memory import WasmView

if TYPE_CHECKING:
    from plugrad.kernels.sorting import Side
    from plugrad_wasm.memory import WasmArray

ARGSORT_EXPORTS = ExportNames("argsort", bool_as=uint8)
"""The exports that sort indices by elements, by dtype."""
argmax_rows = make_arg_reduction("argmax")
"""The implementation of `argmax` by its exports."""
DTYPES_WITHOUT_ARGMAX = (*COMPLEX, bool_, float16)
"""The dtypes for which there is no export of `argmax`."""
SORT_STEPS_PER_ELEMENT = 32
"""The cost of sorting one element, in elementary steps."""


@table.implements(sorting.argsort)
def argsort(x: WasmArray, *, axis: int, descending: bool, stable: bool) -> WasmArray:
    """Return the indices that sort an axis; the sort is always stable."""
    rank = len(x.shape)
    if axis == rank - 1:
        return argsort_first_in_rows(x, x.shape[-1], descending=descending)
    axes = (*(i for i in range(rank) if i != axis), axis)
    moved = argsort_first_in_rows(transpose(x, perm=axes), x.shape[axis], descending=descending)
    return transpose(moved, perm=tuple(axes.index(i) for i in range(rank)))


@table.implements(sorting.top_k)
def top_k(x: WasmArray, *, k: int, sorted: bool) -> tuple[WasmArray, WasmArray]:
    """Return the k largest elements along the last axis and their indices."""
    shape = (*x.shape[:-1], k)
    if k == 1 and x.dtype not in DTYPES_WITHOUT_ARGMAX:
        places = WasmView(argmax_rows(x, axis=len(shape) - 1), shape)
    else:
        places = argsort_first_in_rows(x, k, descending=True, is_sorted=sorted)
    batch = count_elements(x.shape[:-1])
    rows, picked = WasmView(x, (batch, x.shape[-1])), WasmView(places, (batch, k))
    return WasmView(gather(rows, picked, axis=1, batch_dims=1), shape), places


def argsort_first_in_rows(
    x: WasmArray, kept_count: int, *, descending: bool, is_sorted: bool = True
) -> WasmArray:
    """Return the indices of the first `kept_count` elements of each sorted row, in order or in that of x."""
    *lead, count = x.shape
    out = x.memory.empty((*lead, kept_count), int32)
    places = (x, count), (out, kept_count)
    attributes = count, kept_count, descending, is_sorted
    entries = 16 * count  # bytes: two for each element
    rows, work = count_elements(tuple(lead)), SORT_STEPS_PER_ELEMENT * x.size
    run_over_items(
        x, ARGSORT_EXPORTS[x.dtype], rows, places, *attributes, work=work, scratch_bytes=entries
    )
    return out


SEARCH_SORTED_EXPORTS = ExportNames("search_sorted", bool_as=uint8)
"""The exports that search sorted rows, by dtype."""


@table.implements(sorting.search_sorted)
def search_sorted(sorted_sequence: WasmArray, values: WasmArray, *, side: Side) -> WasmArray:
    """Return the indices at which to insert values before or after equal elements."""
    out = values.memory.empty(values.shape, int32)
    length, (*lead, count) = sorted_sequence.shape[-1], values.shape
    places = (sorted_sequence, length), (values, count), (out, count)
    attributes = length, count, side == "right"
    rows, work = count_elements(tuple(lead)), values.size * length.bit_length()
    run_over_items(
        values, SEARCH_SORTED_EXPORTS[values.dtype], rows, places, *attributes, work=work
    )
    return out


@table.implements(sorting.lower_bound)
def lower_bound(sorted_sequence: WasmArray, values: WasmArray) -> WasmArray:
    """Return the indices at which to insert values before equal elements."""
    return search_sorted(sorted_sequence, values, side="left")


@table.implements(sorting.upper_bound)
def upper_bound(sorted_sequence: WasmArray, values: WasmArray) -> WasmArray:
    """Return the indices at which to insert values after equal elements."""
    return search_sorted(sorted_sequence, values, side="right")


HOST_SORTING_KERNELS = (sorting.sort, sorting.unique)
"""The kernels of sorting that the core computes on the host."""

table.update(
    {k: v for k, v in host_implementations(sorting).items() if k in HOST_SORTING_KERNELS},
    on_host=True,
)
