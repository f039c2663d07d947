"""Sorting and searching: positions in order come from the device, and the rest from the core's host bodies.

NumPy sorts values faster with the vectors of the host than a copy to it costs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugrad.extend import host_bodies, int32, size_of, uint8, uint64
from plugrad.kernels import sorting
from plugrad_wasm.declare import ExportNames, call, table
from plugrad_wasm.kernels.indexing import gather
from plugrad_wasm.kernels.movement import transpose
from plugrad_wasm.memory import WasmView

if TYPE_CHECKING:
    from plugrad_wasm.memory import WasmArray

ARGSORT = ExportNames("argsort", bool_as=uint8)


@table.implements(sorting.argsort)
def argsort(x: WasmArray, *, axis: int, descending: bool, stable: bool) -> WasmArray:
    """Return the positions that sort an axis; equal elements always stay in their order."""
    rank = len(x.shape)
    if axis == rank - 1:
        return order(x, x.shape[-1], descending=descending)
    axes = (*(i for i in range(rank) if i != axis), axis)
    moved = order(transpose(x, perm=axes), x.shape[axis], descending=descending)
    return transpose(moved, perm=tuple(axes.index(i) for i in range(rank)))


@table.implements(sorting.top_k)
def top_k(x: WasmArray, *, k: int, sorted: bool) -> tuple[WasmArray, WasmArray]:
    """Return the largest elements along the last axis and their positions."""
    shape = (*x.shape[:-1], k)
    places = order(x, k, descending=True, is_sorted=sorted)
    batch = size_of(x.shape[:-1])
    rows, picked = WasmView(x, (batch, x.shape[-1])), WasmView(places, (batch, k))
    return WasmView(gather(rows, picked, axis=1, batch_dims=1), shape), places


def order(x: WasmArray, kept: int, *, descending: bool, is_sorted: bool = True) -> WasmArray:
    """Return the positions of the first elements of each row in order, or in that of x."""
    *lead, count = x.shape
    out = x.memory.empty((*lead, kept), int32)
    scratch = x.memory.empty((2 * count,), uint64)
    run = call(x, ARGSORT[x.dtype], x.size)
    rows = size_of(tuple(lead))
    run(x.address, out.address, scratch.address, rows, count, kept, descending, is_sorted)
    return out


ON_DEVICE = (sorting.argsort, sorting.top_k)

table.update(
    {k: body for k, body in host_bodies(sorting).items() if k not in ON_DEVICE}, on_host=True
)
