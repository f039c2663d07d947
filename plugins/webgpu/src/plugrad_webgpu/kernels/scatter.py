"""Kernels that write elements at positions. A position out of range writes nothing."""

from __future__ import annotations

import math
from functools import cache, partial
from typing import TYPE_CHECKING

from plugrad.extend import uint32
from plugrad.kernels import scatter
from plugrad_webgpu.declare import table
from plugrad_webgpu.kernels.indexing import SUMMABLE_DTYPES, flatten_coordinates, sum_segments
from plugrad_webgpu.memory.buffers import reinterpret
from plugrad_webgpu.memory.copying import BufferView, copy_view, full
from plugrad_webgpu.shaders.elements import require_dtype, vector_type, words_per_element
from plugrad_webgpu.shaders.layout import broadcast_strides
from plugrad_webgpu.shaders.program import Program, plan
from plugrad_webgpu.shaders.sources import shader

if TYPE_CHECKING:
    from plugrad.extend import Shape
    from plugrad_webgpu.memory.buffers import GpuArray
    from plugrad_webgpu.shaders.program import Plan


@table.implements(scatter.scatter_nd)
def scatter_nd(indices: GpuArray, updates: GpuArray, *, shape: Shape) -> GpuArray:
    """Return zeros with the updates added at coordinates."""
    require_dtype(updates.dtype, SUMMABLE_DTYPES, "the webgpu kernel ScatterNd")
    rows = _coordinate_rows(indices)
    size = math.prod(shape[: rows.shape[-1]])
    return sum_segments(updates, flatten_coordinates(rows, shape), shape, size)


@table.implements(scatter.tensor_scatter_update)
def tensor_scatter_update(tensor: GpuArray, indices: GpuArray, updates: GpuArray) -> GpuArray:
    """Return a copy with the updates at coordinates; the last update of an element wins."""
    return _write_updates(_copy_broadcast(tensor, tensor.shape), _coordinate_rows(indices), updates)


@table.implements(scatter.sparse_to_dense)
def sparse_to_dense(
    sparse_indices: GpuArray,
    sparse_values: GpuArray,
    default_value: GpuArray,
    *,
    output_shape: Shape,
) -> GpuArray:
    """Return the values at coordinates, and the default value elsewhere."""
    output = _copy_broadcast(default_value, output_shape)
    return _write_updates(output, _coordinate_rows(sparse_indices), sparse_values)


def _coordinate_rows(indices: GpuArray) -> GpuArray:
    """Return rows of coordinates; a 1-d array of positions becomes rows of one coordinate."""
    if len(indices.shape) > 1:
        return indices
    return reinterpret(indices, (math.prod(indices.shape), 1))


def _copy_broadcast(x: GpuArray, shape: Shape) -> GpuArray:
    """Return a copy of the array, broadcast to a shape."""
    return copy_view(x, shape, BufferView(0, broadcast_strides(x.shape, shape)))


def _write_updates(output: GpuArray, indices: GpuArray, updates: GpuArray) -> GpuArray:
    """Write updates to `output` at rows of coordinates, and return it; a single update is repeated."""
    device, shape = output.buffer.device, output.shape
    depth = indices.shape[-1]
    size = math.prod(shape[:depth])
    inner = math.prod(shape[depth:]) * words_per_element(output.dtype)
    width = 4 if inner % 4 == 0 else 1
    places = flatten_coordinates(indices, shape)
    rows = math.prod(places.shape)
    last = full(device, (size,), 0, uint32)

    def make_plan(entry_point: str, invocations: int) -> Plan:
        """Return the plan of the dispatch of an entry point."""
        parameters = (invocations, inner // width, size, int(bool(updates.shape)))
        return plan(
            _scatter_program(entry_point, width), parameters, invocations, shape, output.dtype
        )

    device.launch_into(make_plan("last_updates", rows), last, places)
    device.launch_into(make_plan("write", rows * inner // width), output, places, last, updates)
    return output


@cache
def _scatter_program(entry_point: str, vector_width: int) -> Program:
    """Return the program that finds the last update of each element, or writes the updates."""
    source = partial(shader, "scatter", element=vector_type("u32", vector_width))
    return Program(entry_point, source, entry_point=entry_point)
