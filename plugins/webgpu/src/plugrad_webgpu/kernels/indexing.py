"""Kernels that select elements by position, or add elements at positions."""

from __future__ import annotations

import math
from functools import cache, partial
from typing import TYPE_CHECKING, Literal

from plugrad.extend import float32, host_bodies, int32, uint32
from plugrad.kernels import indexing
from plugrad_webgpu.copying import filled, word_of
from plugrad_webgpu.declare import table
from plugrad_webgpu.elements import DTYPES, require, vector
from plugrad_webgpu.program import Program, plan
from plugrad_webgpu.shaders import shader

if TYPE_CHECKING:
    from plugrad.extend import DType, Scalar
    from plugrad_webgpu.buffers import GpuArray

INDEX_DTYPES = (int32, uint32)
# How to add `value` to `sums[at]`; WGSL does not have an atomic addition for floats.
ADDITIONS = {
    int32: "atomicAdd(&sums[at], value);",
    uint32: "atomicAdd(&sums[at], value);",
    float32: (
        "var old = atomicLoad(&sums[at]);"
        " loop { let sum = bitcast<u32>(bitcast<f32>(old) + bitcast<f32>(value));"
        " let swap = atomicCompareExchangeWeak(&sums[at], old, sum);"
        " if (swap.exchanged) { break; } old = swap.old_value; }"
    ),
}


@cache
def _program(
    entry_point: Literal["gather", "one_hot", "segment_sum"], width: int = 1, add: str = ""
) -> Program:
    source = partial(shader, "indexing", element=vector("u32", width), add=add)
    return Program(entry_point, source, entry_point=entry_point)


@table.implements(indexing.gather)
def gather(x: GpuArray, indices: GpuArray, *, axis: int, batch_dims: int) -> GpuArray:
    """Return the elements at `indices` along an axis; 0 for an index out of range."""
    require(indices.dtype, INDEX_DTYPES, "the webgpu kernel GatherV2")
    inner = math.prod(x.shape[axis + 1 :])
    width = 4 if inner % 4 == 0 else 1
    outer = math.prod(x.shape[batch_dims:axis])
    positions = math.prod(indices.shape[batch_dims:])
    shape = (*x.shape[:axis], *indices.shape[batch_dims:], *x.shape[axis + 1 :])
    count = math.prod(shape) // width
    parameters = (count, inner // width, positions, x.shape[axis], outer, 0, 0)
    step = plan(_program("gather", width), parameters, count, shape, x.dtype)
    return x.buffer.device.launch(step, indices, x)


@table.implements(indexing.one_hot)
def one_hot(
    indices: GpuArray, *, depth: int, on_value: Scalar, off_value: Scalar, dtype: DType
) -> GpuArray:
    """Return `on_value` at each index along a new last axis, `off_value` elsewhere."""
    require(dtype, DTYPES)
    require(indices.dtype, INDEX_DTYPES, "the webgpu kernel OneHot")
    shape = (*indices.shape, depth)
    count = math.prod(shape)
    words = word_of(on_value.real, dtype), word_of(off_value.real, dtype)
    step = plan(_program("one_hot"), (count, 1, 1, depth, 1, *words), count, shape, dtype)
    return indices.buffer.device.launch(step, indices)


@table.implements(indexing.unsorted_segment_sum)
def unsorted_segment_sum(x: GpuArray, segment_ids: GpuArray, *, num_segments: int) -> GpuArray:
    """Return the sum of the elements of each segment; the order of the additions varies."""
    require(segment_ids.dtype, INDEX_DTYPES, "the webgpu kernel UnsortedSegmentSum")
    require(x.dtype, ADDITIONS, "the webgpu kernel UnsortedSegmentSum")
    row = x.shape[len(segment_ids.shape) :]
    device = x.buffer.device
    output = filled(device, (num_segments, *row), 0, x.dtype)
    count = math.prod(x.shape) if num_segments else 0
    parameters = (count, math.prod(row), 1, num_segments, 1, 0, 0)
    program = _program("segment_sum", 1, ADDITIONS[x.dtype])
    device.launch_into(plan(program, parameters, count, x.shape, x.dtype), output, segment_ids, x)
    return output


table.update(host_bodies(indexing), on_host=True)
