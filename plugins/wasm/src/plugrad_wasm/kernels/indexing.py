"""Kernels that pick elements by position. A position out of range reads zeros and writes nothing."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from plugrad.extend import (
    DType,
    Scalar,
    Shape,
    count_elements,
    float32,
    float64,
    host_implementations,
    int32,
    int64,
    uint32,
    uint64,
)
from plugrad.kernels import indexing
from plugrad_wasm.bits import scalar_to_int64_bits
from plugrad_wasm.declare import (
    ELEMENTWISE_PART_STEPS,
    RELEASE_GIL_MIN_ELEMENTS,
    ExportNames,
    iter_part_ranges,
    run_call_chains,
    run_over_items,
    table,
)
from plugrad_wasm.dtypes import as_supported_dtype
from plugrad_wasm.kernels.movement import transpose
from plugrad_wasm.kernels.unary import cast, clip_by_value
from plugrad_wasm.memory import WasmView

if TYPE_CHECKING:
    from plugrad_wasm.memory import WasmArray

GATHER_EXPORTS: Final = {size: f"gather_{size}" for size in (1, 2, 4, 8, 16)}
"""The exports that gather with int32 indices, by the bytes of an element."""
GATHER_BY_INT64_EXPORTS: Final = {size: f"gather_by_int64_{size}" for size in GATHER_EXPORTS}
"""The exports that gather with int64 indices, by the bytes of an element."""
SEGMENT_SUM_EXPORTS = ExportNames("segment_sum")
"""The exports that sum slices by segment, by dtype."""
MAX_FLOAT32_SUM_TERMS: Final = 1024
"""The maximum number of float32 that are added in float32; more are added in float64."""
INT32_LIMITS = np.iinfo(np.int32)
"""NumPy's description of int32, with its smallest and largest number."""


def as_int32_positions(indices: WasmArray) -> WasmArray:
    """Return indices as int32; those that do not fit become out of range for every axis."""
    if indices.dtype in (int64, uint32, uint64):
        indices = clip_by_value(
            indices, clip_value_min=int(INT32_LIMITS.min), clip_value_max=int(INT32_LIMITS.max)
        )
    return cast(indices, dtype=int32)


def flat_positions(indices: WasmArray, shape: tuple[int, ...]) -> WasmArray:
    """Return the index of each row of coordinates after the first axes of `shape` are flattened.

    Rows with a coordinate out of range get an index out of range.
    """
    depth = indices.shape[-1]
    memory = indices.memory
    out = memory.empty(indices.shape[:-1], int32)
    name = "flat_places_by_int64" if indices.dtype is int64 else "flat_places"
    indices = indices if indices.dtype is int64 else as_int32_positions(indices)
    descriptor = memory.store.descriptor((depth, *shape[:depth]))
    places = (indices, depth), (out, 1)
    run_over_items(
        *(indices, name, out.size, places, descriptor.address),
        work=indices.size,
        kept_objects=[descriptor],
    )
    return out


@table.implements(indexing.gather_nd)
def gather_nd(params: WasmArray, indices: WasmArray) -> WasmArray:
    """Return the slices of `params` at coordinates, by a gather along the flattened axes."""
    depth = indices.shape[-1]
    rest = params.shape[depth:]
    rows = WasmView(params, (count_elements(params.shape[:depth]), *rest))
    return gather(rows, flat_positions(indices, params.shape), axis=0, batch_dims=0)


class GatherPlan(NamedTuple):
    """The geometry of a gather: x is (batch, outer, size, inner), the indices (batch, picked)."""

    result_shape: Shape
    """The shape of the result."""
    batch_size: int
    """The number of batch elements."""
    outer_size: int
    """The number of elements of x before the axis, in one batch element."""
    axis_size: int
    """The length of the axis."""
    inner_size: int
    """The number of elements of x after the axis: the size of a slice."""
    index_count: int
    """The number of indices of one batch element."""


@lru_cache(maxsize=1024)
def plan_gather(x_shape: Shape, indices_shape: Shape, axis: int, batch_dims: int) -> GatherPlan:
    """Return the geometry of a gather along an axis."""
    picked = indices_shape[batch_dims:]
    return GatherPlan(
        (*x_shape[:axis], *picked, *x_shape[axis + 1 :]),
        count_elements(x_shape[:batch_dims]),
        count_elements(x_shape[batch_dims:axis]),
        x_shape[axis],
        count_elements(x_shape[axis + 1 :]),
        count_elements(picked),
    )


@table.implements(indexing.gather)
def gather(x: WasmArray, indices: WasmArray, *, axis: int, batch_dims: int) -> WasmArray:
    """Return the slices of `x` at `indices` along an axis."""
    shape, batch, outer, size, inner, count = plan_gather(x.shape, indices.shape, axis, batch_dims)
    out = x.memory.empty(shape, x.dtype)
    if out.size:
        itemsize = x.dtype.itemsize
        if indices.dtype is int64:
            export = GATHER_BY_INT64_EXPORTS[itemsize]
        else:
            export, indices = GATHER_EXPORTS[itemsize], as_int32_positions(indices)
        if out.size < RELEASE_GIL_MIN_ELEMENTS:
            run = x.memory.store.exports_holding_gil[export]
            run(x.address, indices.address, out.address, batch, outer, size, inner, count)
            return out
        chains = [
            [
                (
                    x.address + (b * outer + o) * size * inner * itemsize,
                    indices.address + (b * count + c) * indices.dtype.itemsize,
                    out.address + ((b * outer + o) * count + c) * inner * itemsize,
                    *(batches, outers, size, inner, counts),
                )
            ]
            for (b, batches), (o, outers), (c, counts) in iter_part_ranges(
                (batch, outer, count), out.size, ELEMENTWISE_PART_STEPS.maximum
            )
        ]
        run_call_chains(x, export, chains, (x, indices, out), out.size)
    return out


@table.implements(indexing.gather_gradient)
def gather_gradient(
    dy: WasmArray, indices: WasmArray, *, shape: Shape, axis: int, batch_dims: int
) -> WasmArray:
    """Return zeros of `shape` with the slices of `dy` added at `indices`."""
    size, lead, others, after = (
        shape[axis],
        *(shape[:batch_dims], shape[batch_dims:axis], shape[axis + 1 :]),
    )
    places = flat_positions(WasmView(indices, (*indices.shape, 1)), (size,))
    batch, before, inner = count_elements(lead), count_elements(others), count_elements(after)
    if before != 1:
        parts = WasmView(dy, (batch, before, count_elements(indices.shape[batch_dims:]), inner))
        dy = transpose(parts, perm=(0, 2, 1, 3))
    sums = compute_segment_sums(dy, places, (batch, size, before, inner), size, batch)
    return WasmView(transpose(sums, perm=(0, 2, 1, 3)) if before != 1 else sums, shape)


@table.implements(indexing.one_hot)
def one_hot(
    indices: WasmArray, *, depth: int, on_value: Scalar, off_value: Scalar, dtype: DType
) -> WasmArray:
    """Return `on_value` at each index along a new last axis, `off_value` elsewhere."""
    dtype = as_supported_dtype(dtype)
    out = indices.memory.empty((*indices.shape, depth), dtype)
    indices = as_int32_positions(indices)
    on, off = scalar_to_int64_bits(on_value, dtype), scalar_to_int64_bits(off_value, dtype)
    places = (indices, 1), (out, depth)
    run_over_items(
        indices, f"one_hot_{dtype.itemsize}", indices.size, places, depth, *on, *off, work=out.size
    )
    return out


@table.implements(indexing.unsorted_segment_sum)
def unsorted_segment_sum(x: WasmArray, segment_ids: WasmArray, *, num_segments: int) -> WasmArray:
    """Return the sums of the slices with equal segment ids."""
    shape = x.shape[len(segment_ids.shape) :]
    return compute_segment_sums(
        x, as_int32_positions(segment_ids), (num_segments, *shape), num_segments
    )


def compute_segment_sums(
    x: WasmArray,
    segment_ids: WasmArray,
    result_shape: tuple[int, ...],
    num_segments: int,
    batch_size: int = 1,
) -> WasmArray:
    """Return the sums of slices with equal segment ids; the result's first axes are the batch and the segments."""
    count = segment_ids.size // (batch_size or 1)
    if x.dtype is float32 and count > MAX_FLOAT32_SUM_TERMS:
        sums = compute_segment_sums(
            cast(x, dtype=float64), segment_ids, result_shape, num_segments, batch_size
        )
        return cast(sums, dtype=float32)
    out = x.memory.empty(result_shape, x.dtype)
    inner = out.size // (batch_size * num_segments or 1)
    places = (x, count * inner), (segment_ids, count), (out, num_segments * inner)
    attributes = count, inner, num_segments
    run_over_items(
        x, SEGMENT_SUM_EXPORTS[x.dtype], batch_size, places, *attributes, work=x.size + out.size
    )
    return out


table.update(host_implementations(indexing), on_host=True)
