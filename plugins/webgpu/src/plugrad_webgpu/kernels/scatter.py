"""Kernels that write elements at positions. A position out of range writes nothing."""

from __future__ import annotations

import math
from functools import cache, partial
from typing import TYPE_CHECKING

from plugrad.extend import uint32
from plugrad.kernels import scatter
from plugrad_webgpu.buffers import shared
from plugrad_webgpu.copying import filled
from plugrad_webgpu.declare import table
from plugrad_webgpu.elements import NUMBERS, require, vector
from plugrad_webgpu.kernels.indexing import flat_places, segment_sums
from plugrad_webgpu.program import Program, plan
from plugrad_webgpu.shaders import shader

if TYPE_CHECKING:
    from plugrad.extend import Shape
    from plugrad_webgpu.buffers import GpuArray


@table.implements(scatter.scatter_nd)
def scatter_nd(indices: GpuArray, updates: GpuArray, *, shape: Shape) -> GpuArray:
    """Return the sums of the updates for each place."""
    require(updates.dtype, NUMBERS, "the webgpu kernel ScatterNd")
    rows = _rows_of(indices)
    size = math.prod(shape[: rows.shape[-1]])
    return segment_sums(updates, flat_places(rows, shape), shape, size)


@table.implements(scatter.tensor_scatter_update)
def tensor_scatter_update(tensor: GpuArray, indices: GpuArray, updates: GpuArray) -> GpuArray:
    """Return a copy with the updates; of several updates for one place, the last one stays."""
    return _updated(tensor, _rows_of(indices), updates, tensor.shape)


@table.implements(scatter.sparse_to_dense)
def sparse_to_dense(
    sparse_indices: GpuArray,
    sparse_values: GpuArray,
    default_value: GpuArray,
    *,
    output_shape: Shape,
) -> GpuArray:
    """Return the values at the given places, and the default value elsewhere."""
    return _updated(default_value, _rows_of(sparse_indices), sparse_values, output_shape)


def _rows_of(indices: GpuArray) -> GpuArray:
    """Return rows of coordinates; without rows, each position is one."""
    if len(indices.shape) > 1:
        return indices
    return shared(indices, (math.prod(indices.shape), 1))


def _updated(tensor: GpuArray, indices: GpuArray, updates: GpuArray, shape: Shape) -> GpuArray:
    """Return an array of a shape with updates at rows of coordinates; the tensor or the updates may be one element."""
    device = tensor.buffer.device
    depth = indices.shape[-1]
    size, inner = math.prod(shape[:depth]), math.prod(shape[depth:])
    places = flat_places(indices, shape)
    count = math.prod(places.shape)
    last = filled(device, (size,), 0, uint32)
    find = plan(_program("last_updates", 1), (count, 1, size, 1, 1), count, (size,), uint32)
    device.launch_into(find, last, places)
    steps = int(bool(updates.shape)), int(bool(tensor.shape))
    width = 4 if inner % 4 == 0 else 1
    parameters = (size * inner // width, inner // width, size, *steps)
    write = plan(_program("update", width), parameters, parameters[0], shape, tensor.dtype)
    return device.launch(write, last, updates, tensor)


@cache
def _program(entry_point: str, width: int) -> Program:
    source = partial(shader, "scatter", element=vector("u32", width))
    return Program(entry_point, source, entry_point=entry_point)
