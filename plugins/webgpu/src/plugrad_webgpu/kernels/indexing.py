"""Kernels that select elements by position, or add elements at positions."""

from __future__ import annotations

import math
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, Literal

from plugrad.extend import complex64, float32, host_implementations, int32, int64, uint32
from plugrad.kernels import indexing
from plugrad_webgpu.algorithms.expressions import elementwise
from plugrad_webgpu.algorithms.ordering import argsort_labels
from plugrad_webgpu.declare import table
from plugrad_webgpu.kernels.unary import cast
from plugrad_webgpu.memory.buffers import as_complex, as_float_pairs, reinterpret
from plugrad_webgpu.memory.copying import full, permute_axes, value_words
from plugrad_webgpu.shaders.elements import (
    NUMBER_DTYPES,
    SHADER_DTYPES,
    WGSL_STORAGE_TYPES,
    WORD_DTYPES_BY_NARROW_DTYPE,
    require_dtype,
    vector_type,
    words_per_element,
)
from plugrad_webgpu.shaders.program import Program, plan
from plugrad_webgpu.shaders.sources import shader

if TYPE_CHECKING:
    from plugrad.extend import DType, Scalar, Shape
    from plugrad_webgpu.memory.buffers import GpuArray
    from plugrad_webgpu.shaders.program import Plan

INDEX_DTYPES = (int32, uint32)
"""The dtypes of indices in shaders."""
INTEGER_DTYPES = (int32, uint32, int64)
"""The dtypes of integers, whose sums do not depend on the order of additions."""
SUMMABLE_DTYPES = (*NUMBER_DTYPES, int64, complex64)
"""The dtypes of elements that shaders can add."""
# Positions of a block: a GPU has an invocation for each of many short ones, and waits for memory at every position.
SOFTWARE_MIN_BLOCK_POSITIONS = 32
"""The least number of positions in a block that one invocation of a software device sums."""
GPU_MIN_BLOCK_POSITIONS = 8
"""The least number of positions in a block that one invocation of a GPU sums."""
MAX_BLOCKS_ON_GPU = 30_000
"""The largest number of blocks, which may all have the same label, so that a loop goes through them."""

_saturate_to_int32 = elementwise({int64: "saturated_i32_of_i64(x)"}, result=int32)
"""The elementwise kernel that casts int64 to int32, clipped to its range."""


def as_32_bit_indices(indices: GpuArray, subject: str) -> GpuArray:
    """Cast indices to 32 bits, clipped, so that none comes into range; errors call the indices `subject`.

    Raises:
        UnsupportedDtype: they are not integers.
    """
    if indices.dtype == int64:
        return _saturate_to_int32(indices)
    if indices.dtype in WORD_DTYPES_BY_NARROW_DTYPE:
        indices = cast(indices, dtype=WORD_DTYPES_BY_NARROW_DTYPE[indices.dtype])
    require_dtype(indices.dtype, INDEX_DTYPES, subject)
    return indices


@cache
def _gather_program(
    entry_point: Literal["gather", "one_hot"], vector_width: int = 1, index_dtype: DType = int32
) -> Program:
    """Return the program that gathers vectors of elements, or makes one-hot vectors."""
    element = vector_type("u32", vector_width)
    word = "vec2<u32>" if vector_width == 2 else "u32"
    source = partial(
        shader, "indexing", element=element, word=word, T=WGSL_STORAGE_TYPES[index_dtype]
    )
    return Program(entry_point, source, entry_point=entry_point)


@table.implements(indexing.gather)
def gather(x: GpuArray, indices: GpuArray, *, axis: int, batch_dims: int) -> GpuArray:
    """Return the elements at `indices` along an axis; 0 for an index out of range."""
    indices = as_32_bit_indices(indices, "the webgpu kernel GatherV2")
    words = words_per_element(x.dtype)
    inner = math.prod(x.shape[axis + 1 :]) * words
    width = 4 if inner % 4 == 0 else 1
    outer = math.prod(x.shape[batch_dims:axis])
    positions = math.prod(indices.shape[batch_dims:])
    shape = (*x.shape[:axis], *indices.shape[batch_dims:], *x.shape[axis + 1 :])
    count = math.prod(shape) * words // width
    parameters = (count, inner // width, positions, x.shape[axis], outer, 0, 0, 0)
    step = plan(_gather_program("gather", width, indices.dtype), parameters, count, shape, x.dtype)
    return x.buffer.device.launch(step, indices, x)


@table.implements(indexing.gather_gradient)
def gather_gradient(
    dy: GpuArray, indices: GpuArray, *, shape: Shape, axis: int, batch_dims: int
) -> GpuArray:
    """Return zeros of `shape` with the slices of `dy` added at `indices`."""
    require_dtype(dy.dtype, SUMMABLE_DTYPES, "the webgpu kernel GatherV2Grad")
    size = shape[axis]
    batch, before = math.prod(shape[:batch_dims]), math.prod(shape[batch_dims:axis])
    inner = math.prod(shape[axis + 1 :])
    places = flatten_coordinates(reinterpret(indices, (*indices.shape, 1)), (size,))
    if before != 1:
        parts = (batch, before, math.prod(indices.shape[batch_dims:]), inner)
        dy = permute_axes(reinterpret(dy, parts), (0, 2, 1, 3))
    sums = sum_segments(dy, places, (batch, size, before, inner), size, batch)
    return reinterpret(permute_axes(sums, (0, 2, 1, 3)) if before != 1 else sums, shape)


@table.implements(indexing.one_hot)
def one_hot(
    indices: GpuArray, *, depth: int, on_value: Scalar, off_value: Scalar, dtype: DType
) -> GpuArray:
    """Return `on_value` at each index along a new last axis, `off_value` elsewhere."""
    require_dtype(dtype, SHADER_DTYPES)
    indices = as_32_bit_indices(indices, "the webgpu kernel OneHot")
    shape = (*indices.shape, depth)
    count = math.prod(shape)
    words = *value_words(on_value, dtype), *value_words(off_value, dtype)
    program = _gather_program("one_hot", words_per_element(dtype))
    step = plan(program, (count, 1, 1, depth, 1, 0, *words), count, shape, dtype)
    return indices.buffer.device.launch(step, indices)


@table.implements(indexing.gather_nd)
def gather_nd(params: GpuArray, indices: GpuArray) -> GpuArray:
    """Return the slices at coordinates, by a gather along the flattened axes."""
    depth = indices.shape[-1]
    rows = reinterpret(params, (math.prod(params.shape[:depth]), *params.shape[depth:]))
    return gather(rows, flatten_coordinates(indices, params.shape), axis=0, batch_dims=0)


def flatten_coordinates(indices: GpuArray, shape: Shape) -> GpuArray:
    """Return the flat index of each coordinate row along the flattened first axes of `shape`.

    Rows with a coordinate out of range have a place that is out of range.
    """
    indices = as_32_bit_indices(indices, "webgpu, for coordinates,")
    depth = indices.shape[-1]
    places = indices.shape[:-1]
    count = math.prod(places)
    sizes = shape[:depth] or (1,)
    program = _coordinates_program(depth, indices.dtype)
    step = plan(program, (count, *sizes), count, places, int32)
    return indices.buffer.device.launch(step, indices)


@cache
def _coordinates_program(depth: int, dtype: DType) -> Program:
    """Return the program that computes flat indices of rows of `depth` coordinates."""
    substitutions = {
        "depth": str(depth),
        "sizes": str(max(depth, 1)),
        "T": WGSL_STORAGE_TYPES[dtype],
    }
    return Program("places", partial(shader, "indexing_places", **substitutions))


@table.implements(indexing.unsorted_segment_sum)
def unsorted_segment_sum(x: GpuArray, segment_ids: GpuArray, *, num_segments: int) -> GpuArray:
    """Return the sums of the slices with equal segment ids."""
    segment_ids = as_32_bit_indices(segment_ids, "the webgpu kernel UnsortedSegmentSum")
    require_dtype(x.dtype, SUMMABLE_DTYPES, "the webgpu kernel UnsortedSegmentSum")
    shape = (num_segments, *x.shape[len(segment_ids.shape) :])
    return sum_segments(x, segment_ids, shape, num_segments)


def sum_segments(
    x: GpuArray, labels: GpuArray, shape: Shape, segment_count: int, row_count: int = 1
) -> GpuArray:
    """Return the sums of the slices of `x` with equal labels, for each row of labels, as an array of a shape.

    There is a part for each label, and each of the rows of labels has segments of its own. Labels
    outside ``[0, segments)`` are dropped.
    """
    if x.dtype == complex64:
        return as_complex(
            sum_segments(as_float_pairs(x), labels, (*shape, 2), segment_count, row_count)
        )
    device = x.buffer.device
    count, positions = math.prod(x.shape), math.prod(labels.shape)
    if not count or not segment_count:
        return full(device, shape, 0, x.dtype)
    inner = count // positions
    if x.dtype in INTEGER_DTYPES:
        output = full(device, shape, 0, x.dtype)
        parameters = (count, inner, positions // row_count, segment_count)
        program = _segment_program("add_longs" if x.dtype == int64 else "add_elements")
        step = plan(program, parameters, count, x.shape, x.dtype)
        device.launch_into(step, output, labels, x)
        return output
    if row_count > 1:
        parameters = (positions, 1, positions // row_count, segment_count)
        program = _segment_program("segments_of_rows")
        labels = device.launch(plan(program, parameters, positions, labels.shape, int32), labels)
        segment_count *= row_count
    last_runs, sums = _segment_sum_plans(positions, inner, segment_count, shape, device.is_software)
    order = argsort_labels(labels, segment_count)
    output = full(device, shape, 0, x.dtype)
    device.launch_into(sums, output, labels, order, x, device.launch(last_runs, labels, order, x))
    return output


def count_labels(
    labels: GpuArray, shape: Shape, segment_count: int, row_count: int, *, is_binary: bool
) -> GpuArray:
    """Return as int32 how often each label occurs in each row of labels, or with `is_binary` whether it does."""
    device = labels.buffer.device
    output = full(device, shape, 0, int32)
    count = math.prod(labels.shape) if segment_count else 0
    parameters = (count, 1, count // (row_count or 1), segment_count)
    program = _segment_program("find_labels" if is_binary else "count_labels")
    device.launch_into(plan(program, parameters, count, shape, int32), output, labels)
    return output


@cache
def _segment_program(
    entry_point: Literal[
        "segments_of_rows", "add_elements", "add_longs", "count_labels", "find_labels"
    ],
) -> Program:
    """Return a program that goes through labels in any order."""
    return Program(entry_point, partial(shader, "indexing_labels"), entry_point=entry_point)


@lru_cache(maxsize=1024)
def _segment_sum_plans(
    label_count: int, slice_elements: int, segment_count: int, shape: Shape, is_software: bool
) -> tuple[Plan, Plan]:
    """Return the plans that sum the last run of equal labels in each block, and those that sum all runs."""
    width = 4 if slice_elements % 4 == 0 else 1
    # The shortest loops, over the positions of a block and over the blocks of a run, if there is only one label; with
    # many labels, which a GPU waits for, over positions alone
    root = math.isqrt(label_count)
    run = (
        max(SOFTWARE_MIN_BLOCK_POSITIONS, root)
        if is_software
        else max(GPU_MIN_BLOCK_POSITIONS, root // 8, -(-label_count // MAX_BLOCKS_ON_GPU))
    )
    blocks = -(-label_count // run)
    count = blocks * slice_elements // width
    parameters = (count, slice_elements // width, label_count, run, segment_count)
    return (
        plan(
            _segment_sum_program("sums_of_last_runs", width),
            parameters,
            count,
            (blocks, slice_elements),
            float32,
        ),
        plan(_segment_sum_program("sums_of_runs", width), parameters, count, shape, float32),
    )


@cache
def _segment_sum_program(entry_point: str, vector_width: int) -> Program:
    """Return a program that sums runs of slices with equal labels."""
    source = partial(shader, "indexing_segments", element=vector_type("f32", vector_width))
    return Program(entry_point, source, entry_point=entry_point)


table.update(host_implementations(indexing), on_host=True)
