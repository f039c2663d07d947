"""Kernels that write elements at positions. A position out of range writes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugrad.extend import count_elements
from plugrad.kernels import scatter
from plugrad_wasm.declare import ELEMENTWISE_PART_STEPS, iter_part_ranges, run_call_chains, table
from plugrad_wasm.kernels.indexing import compute_segment_sums, flat_positions
from plugrad_wasm.kernels.movement import copy_array, read_strided
from plugrad_wasm.memory import WasmView
from plugrad_wasm.strides import broadcast_strides

if TYPE_CHECKING:
    from plugrad_wasm.memory import WasmArray

Sizes = tuple[int, ...]
"""The type of shapes and other integers, one for each axis."""

SCATTER_STEPS_PER_POSITION = 4
"""The cost of computing one position, in elementary steps."""


def as_coordinate_rows(indices: WasmArray) -> WasmArray:
    """Return indices as rows of coordinates; a vector becomes rows of one coordinate."""
    return indices if len(indices.shape) > 1 else WasmView(indices, (indices.size, 1))


def write_updates(out: WasmArray, indices: WasmArray, updates: WasmArray) -> WasmArray:
    """Write updates to `out` at coordinates, and return `out`; a single update is written to all places."""
    if updates.size:
        depth = indices.shape[-1]
        inner = count_elements(out.shape[depth:])
        places = flat_positions(indices, out.shape)
        step = inner if updates.size == places.size * inner else 0
        export, size = f"scatter_{out.dtype.itemsize}", count_elements(out.shape[:depth])
        work = places.size * (inner + SCATTER_STEPS_PER_POSITION)
        calls = [
            (
                updates.address + first * step * out.dtype.itemsize,
                places.address + first * places.dtype.itemsize,
                *(out.address, count, inner, size, step),
            )
            for ((first, count),) in iter_part_ranges(
                (places.size,), work, ELEMENTWISE_PART_STEPS.maximum
            )
        ]
        run_call_chains(updates, export, [calls], (updates, places, out), work)
    return out


@table.implements(scatter.scatter_nd)
def scatter_nd(indices: WasmArray, updates: WasmArray, *, shape: Sizes) -> WasmArray:
    """Return zeros with the updates added at coordinates."""
    rows = as_coordinate_rows(indices)
    size = count_elements(shape[: rows.shape[-1]])
    return compute_segment_sums(updates, flat_positions(rows, shape), shape, size)


@table.implements(scatter.tensor_scatter_update)
def tensor_scatter_update(tensor: WasmArray, indices: WasmArray, updates: WasmArray) -> WasmArray:
    """Return a copy with the updates at coordinates; the last update of an element wins."""
    return write_updates(copy_array(tensor), as_coordinate_rows(indices), updates)


@table.implements(scatter.sparse_to_dense)
def sparse_to_dense(
    sparse_indices: WasmArray,
    sparse_values: WasmArray,
    default_value: WasmArray,
    *,
    output_shape: Sizes,
) -> WasmArray:
    """Return the values at coordinates, and the default value elsewhere."""
    strides = broadcast_strides(default_value.shape, output_shape)
    out = read_strided(default_value, output_shape, strides)
    return write_updates(out, as_coordinate_rows(sparse_indices), sparse_values)
