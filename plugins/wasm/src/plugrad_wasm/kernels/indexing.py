"""Kernels that pick elements by position. One out of range reads zeros and writes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugrad.extend import DType, Scalar, host_bodies, int32, size_of
from plugrad.kernels import indexing
from plugrad_wasm.bits import bits_of
from plugrad_wasm.declare import ExportNames, call, table
from plugrad_wasm.dtypes import supported
from plugrad_wasm.kernels.unary import cast

if TYPE_CHECKING:
    from plugrad_wasm.memory import WasmArray

SEGMENT_SUM = ExportNames("segment_sum")


@table.implements(indexing.gather)
def gather(x: WasmArray, indices: WasmArray, *, axis: int, batch_dims: int) -> WasmArray:
    """Return the slices of `x` at `indices` along an axis."""
    shape, picked = x.shape, indices.shape[batch_dims:]
    out = x.memory.empty((*shape[:axis], *picked, *shape[axis + 1 :]), x.dtype)
    if out.size:
        indices = cast(indices, dtype=int32)
        outer, inner = size_of(shape[batch_dims:axis]), size_of(shape[axis + 1 :])
        call(x, f"gather_{x.dtype.itemsize}", out.size)(
            *(x.address, indices.address, out.address, size_of(shape[:batch_dims])),
            *(outer, shape[axis], inner, size_of(picked)),
        )
    return out


@table.implements(indexing.one_hot)
def one_hot(
    indices: WasmArray, *, depth: int, on_value: Scalar, off_value: Scalar, dtype: DType
) -> WasmArray:
    """Return `on_value` at each index along a new last axis, `off_value` elsewhere."""
    dtype = supported(dtype)
    out = indices.memory.empty((*indices.shape, depth), dtype)
    indices = cast(indices, dtype=int32)
    on, off = bits_of(on_value, dtype), bits_of(off_value, dtype)
    call(indices, f"one_hot_{dtype.itemsize}", out.size)(
        *(indices.address, out.address, indices.size, depth, on, off)
    )
    return out


@table.implements(indexing.unsorted_segment_sum)
def unsorted_segment_sum(x: WasmArray, segment_ids: WasmArray, *, num_segments: int) -> WasmArray:
    """Return the sums of the elements with equal ids."""
    shape = x.shape[len(segment_ids.shape) :]
    out = x.memory.empty((num_segments, *shape), x.dtype)
    ids = cast(segment_ids, dtype=int32)
    call(x, SEGMENT_SUM[x.dtype], x.size + out.size)(
        *(x.address, ids.address, out.address, ids.size, size_of(shape), num_segments)
    )
    return out


table.update(host_bodies(indexing), on_host=True)
