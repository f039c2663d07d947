"""Reductions, made of the expression that combines two elements."""

from __future__ import annotations

import math
from functools import cache, lru_cache, partial
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Literal, NamedTuple

from plugrad.extend import int32, reduced_shape
from plugrad_webgpu.algorithms.subgroups import (
    subgroup_size_substitutions,
    uses_subgroups,
    workgroup_reduction_function,
)
from plugrad_webgpu.memory.buffers import reinterpret
from plugrad_webgpu.shaders.chains import plain_store_substitutions
from plugrad_webgpu.shaders.elements import (
    WGSL_STORAGE_TYPES,
    WORD_DTYPES_BY_NARROW_DTYPE,
    as_parameter,
    narrow_expression,
    require_dtype,
    vector_type,
    words_per_element,
)
from plugrad_webgpu.shaders.program import Program, plan
from plugrad_webgpu.shaders.sources import shader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from plugrad.extend import DType
    from plugrad_webgpu.memory.buffers import GpuArray
    from plugrad_webgpu.shaders.layout import Shape
    from plugrad_webgpu.shaders.program import Plan

MAX_LOOP_STEPS = 16_384
"""The longest loop of one invocation: all its loops together must stay below 65,535 steps."""

SUM_BLOCK_ELEMENTS = 32
"""The number of elements, and of sums of elements, that are added one after the other."""

SOFTWARE_WORKGROUP_SIZE = 8  # a vector of the processor: its threads share the work more evenly
"""The number of invocations in a workgroup on a software device."""
GPU_WORKGROUP_SIZE = 64
"""The number of invocations in a workgroup on a GPU."""
SOFTWARE_MAX_INVOCATIONS = 256
"""The largest number of invocations of a reduction on a software device."""
GPU_MAX_INVOCATIONS = 262_144  # as many as a large GPU runs at a time
"""The largest number of invocations of a reduction on a GPU."""
# Shorter loops do not justify another dispatch, which takes a software device 20 microseconds.
SOFTWARE_MIN_LOOP_STEPS = 256
"""The least number of steps in a loop over a segment on a software device."""
GPU_MIN_LOOP_STEPS = 16
"""The least number of steps in a loop over a segment on a GPU."""
GPU_UNSPLIT_MAX_STEPS = 64  # of what the dispatch before has left
"""The longest loop over columns that a GPU does not divide into segments."""
# A software device reads columns 16 at a time, a line of the cache: reading 4, it comes back to each line from memory.
CACHE_LINE_ELEMENTS = 16
"""The number of columns that a software device reads at a time, which fill a line of the cache."""
# The lanes of a vector of the processor read a segment each. Where they reach the end of a page of memory at the same
# time, a sum of 10,000,000 elements takes two thirds of the time that it takes where they do so one after the other.
PAGE_BYTES = 4096
"""The size of a page of memory."""
MIN_SEGMENT_PAGES = 8  # of a segment: to fill up the last one leaves some invocations without work
"""The least number of pages of a segment whose length is rounded up to whole pages."""
GPU_MIN_COALESCED_SEGMENTS = 32
"""The least number of segments of a contiguous row, whose elements neighbouring invocations read, on a GPU."""


def reduction(
    combine: str | Mapping[DType, str],
    identity: Mapping[DType, complex],
    *,
    finish: str = "value",
) -> Callable[..., GpuArray]:
    """Return a function that reduces an array over axes by the WGSL expressions `combine` and `finish`.

    Args:
        combine: WGSL that combines the elements `a` and `b`, associative and commutative; or a
            mapping from dtypes to such expressions.
        identity: For each supported dtype that is not narrow, the value that leaves the other one unchanged when it is
            combined with it.
        finish: WGSL that computes the result from the total, called `value`;
            ``parameters.divisor`` is the number of elements.

    Returns:
        A function ``(x, axes, keep_dims) -> array``, where the axes are sorted and non-negative.
    """
    combines = dict.fromkeys(identity, combine) if isinstance(combine, str) else dict(combine)

    @lru_cache(maxsize=1024)
    def find_plans(
        shape: Shape, dtype: DType, axes: tuple[int, ...], is_software: bool, has_subgroups: bool
    ) -> tuple[Plan, ...]:
        """Return the plans of a reduction in order."""
        wide = WORD_DTYPES_BY_NARROW_DTYPE.get(dtype, dtype)
        require_dtype(wide, identity, f"the webgpu reduction {combine!r}")
        rule = _ReductionRule(dtype, combines[wide], as_parameter(identity[wide], dtype), finish)
        return tuple(_iter_reduction_plans(rule, shape, axes, is_software, has_subgroups))

    def reduce(x: GpuArray, axes: tuple[int, ...], keep_dims: bool) -> GpuArray:
        """Reduce an array over axes, which are sorted and not negative."""
        out = reduced_shape(x.shape, axes, keep_dims)
        device = x.buffer.device
        is_software = device.is_software
        has_subgroups = uses_subgroups(device)
        for stage in find_plans(x.shape, x.dtype, axes, is_software, has_subgroups):
            x = device.launch(stage, x)
        return reinterpret(x, out)

    return reduce


class _ReductionRule(NamedTuple):
    """The expressions of a reduction for one dtype."""

    dtype: DType
    """The dtype of the elements."""
    combine_expression: str
    """The WGSL combination of the elements `a` and `b`."""
    identity_value: int | float | complex
    """The value that leaves an element unchanged when the two are combined."""
    finish_expression: str
    """The WGSL that computes the result from the total `value`."""


def _iter_reduction_plans(
    rule: _ReductionRule,
    shape: Shape,
    axes: tuple[int, ...],
    is_software: bool,
    has_subgroups: bool,
) -> Iterator[Plan]:
    """Yield the dispatches of a reduction: one or several for each group of reduced axes, the last group first."""
    groups = _reduced_axis_groups(shape, axes)
    if not groups and rule.finish_expression != "value":
        groups = [(math.prod(shape), 1, 1)]
    count = math.prod(shape[axis] for axis in axes)
    workgroup = SOFTWARE_WORKGROUP_SIZE if is_software else GPU_WORKGROUP_SIZE
    for number, (outer, size, inner) in enumerate(groups):
        is_last_group = number == len(groups) - 1
        while True:
            d = _divide_reduction(rule.dtype, outer, size, inner, is_software)
            parts = d.segments // d.joined_segments
            is_whole = parts == 1 and is_last_group
            finish = narrow_expression(rule.dtype, rule.finish_expression) if is_whole else "value"
            prepare = "whole" if size % d.row_elements == 0 else "filled_up"
            kind = (rule.dtype, rule.combine_expression, finish, d.columns, d.row_elements)
            join = "" if d.joined_segments == 1 else "subgroups" if has_subgroups else "memory"
            program = _reduction_program(*kind, d.loop_function, prepare, workgroup, join)
            vectors = inner // d.columns
            distances = (
                (d.segment_steps, 1, d.segment_steps) if is_software else (1, d.segments, d.steps)
            )
            invocations = outer * d.segments * vectors
            parameters = (
                invocations,
                d.segments,
                vectors,
                *[n * vectors for n in (d.steps, *distances)],
                size,
                rule.identity_value,
                float(count),
            )
            yield plan(program, parameters, invocations, (outer, parts, inner), rule.dtype)
            if parts == 1:
                break
            size = parts


class _ReductionDivision(NamedTuple):
    """How one dispatch divides its work among invocations, each of which reduces a segment of a row or of columns."""

    columns: int
    """The number of adjacent columns that an invocation reduces side by side."""
    row_elements: int
    """The number of adjacent elements of a row that an invocation reads in a step."""
    steps: int
    """The number of steps for a whole row."""
    segments: int
    """The number of segments of a row."""
    joined_segments: int
    """The number of segments that a workgroup combines."""
    segment_steps: int
    """The number of steps for a segment."""
    loop_function: str
    """The name of the template's WGSL function that loops over a segment."""


def _divide_reduction(
    dtype: DType, outer: int, size: int, inner: int, is_software: bool
) -> _ReductionDivision:
    """Return the division of a dispatch that reduces the middle axis of an array of shape (outer, size, inner)."""
    has_vectors = words_per_element(dtype) == 1
    # Narrow results are narrowed one by one.
    has_vector_results = has_vectors and dtype not in WORD_DTYPES_BY_NARROW_DTYPE
    columns = 4 if inner % 4 == 0 and has_vector_results else 1
    is_wide = (
        inner % CACHE_LINE_ELEMENTS == 0
        and outer * inner >= CACHE_LINE_ELEMENTS * SOFTWARE_WORKGROUP_SIZE
    )
    if is_software and columns == 4 and is_wide:
        columns = CACHE_LINE_ELEMENTS
    row_elements = 4 if inner == 1 and has_vectors and (outer == 1 or size % 4 == 0) else 1
    steps = -(-size // row_elements)
    segments = count_segments(outer * inner // columns, steps, inner == 1, is_software)
    joined = 1
    min_joined_steps = GPU_WORKGROUP_SIZE if outer > 1 else GPU_MIN_LOOP_STEPS
    if not is_software and inner == 1 and steps >= min_joined_steps:
        joined = GPU_WORKGROUP_SIZE
        segments = -(-segments // joined) * joined
    segment_steps = -(-steps // segments)
    if segment_steps <= 2 * SUM_BLOCK_ELEMENTS:
        loop_function = "one_by_one"
    else:
        # Segments that begin with a line of the cache of a CPU are read a sixth faster.
        page = PAGE_BYTES // (4 * row_elements * words_per_element(dtype))
        is_paged = is_software and segment_steps >= MIN_SEGMENT_PAGES * page
        unit = page if is_paged else SUM_BLOCK_ELEMENTS
        loop_function, segment_steps = "row_by_row", -(-segment_steps // unit) * unit
    return _ReductionDivision(
        columns, row_elements, steps, segments, joined, segment_steps, loop_function
    )


def _reduced_axis_groups(shape: Shape, axes: tuple[int, ...]) -> list[tuple[int, int, int]]:
    """Return the sizes (outer, reduced, inner) of each group of adjacent reduced axes, the last group first."""
    sizes = [(axis in axes, size) for axis, size in enumerate(shape) if size != 1]
    runs = [
        (is_reduced, math.prod(size for _, size in run))
        for is_reduced, run in groupby(sizes, key=itemgetter(0))
    ]
    groups: list[tuple[int, int, int]] = []
    inner = 1
    for i in reversed(range(len(runs))):
        is_reduced, size = runs[i]
        if is_reduced:
            groups.append((math.prod(n for _, n in runs[:i]), size, inner))
        else:
            inner *= size
    return groups


def count_segments(
    output_count: int, reduced_length: int, is_contiguous: bool, is_software: bool
) -> int:
    """Return into how many segments to divide a reduced axis, for enough parallel work and bounded loops."""
    invocations, min_steps = (
        (SOFTWARE_MAX_INVOCATIONS, SOFTWARE_MIN_LOOP_STEPS)
        if is_software
        else (GPU_MAX_INVOCATIONS, GPU_MIN_LOOP_STEPS)
    )
    if not is_software and not is_contiguous and reduced_length <= GPU_UNSPLIT_MAX_STEPS:
        return 1
    segments = min(invocations // max(output_count, 1), reduced_length // min_steps)
    if is_contiguous and not is_software:
        # Neighbouring invocations should read neighbouring elements.
        segments = max(segments, min(GPU_MIN_COALESCED_SEGMENTS, reduced_length // 4))
    return max(segments, -(-reduced_length // MAX_LOOP_STEPS), 1)


def count_splits(
    loop_steps: int, tile_count: int, min_tiles_to_fill_device: int, min_steps: int
) -> int:
    """Return into how many parts to divide the sums of a product, for enough parallel work and bounded loops."""
    wanted = min(min_tiles_to_fill_device // max(tile_count, 1), loop_steps // min_steps)
    return max(wanted, -(-loop_steps // MAX_LOOP_STEPS), 1)


@cache
def _reduction_program(
    dtype: DType,
    combine_expression: str,
    finish_expression: str,
    outputs_per_invocation: int,
    elements_per_step: int,
    loop_function: str,
    row_end_function: str,
    workgroup_size: int,
    invocation_combining: Literal["", "memory", "subgroups"],
) -> Program:
    """Return the program of a dispatch, whose loops and ends of rows are named functions of the template."""
    stored = WGSL_STORAGE_TYPES[dtype]
    has_subgroups = invocation_combining == "subgroups"
    size = subgroup_size_substitutions(has_subgroups)
    width = max(outputs_per_invocation, elements_per_step)
    is_line = outputs_per_invocation == CACHE_LINE_ELEMENTS
    suffix = "_lines" if is_line else "_vectors" if width > 1 else ""
    names = ["reduction", *(["reduction_lanes"] * (width > 1))]
    names += ["reduction_lines"] * is_line
    element = (
        f"array<vec4<{stored}>, {CACHE_LINE_ELEMENTS // 4}>"
        if is_line
        else vector_type(stored, width)
    )
    stored_elements = 4 if is_line else outputs_per_invocation
    reduced = "combine_lanes(total)" if elements_per_step > 1 else "total"
    if invocation_combining:
        reduced = f"joined({reduced}, place, {size['lanes']})"
    is_written = "place == 0u && index < parameters.count" if invocation_combining else "true"
    at = f"index / {workgroup_size}u" if invocation_combining else "index"
    source = partial(
        shader,
        *names,
        T=stored,
        element=element,
        **plain_store_substitutions(1, vector_type(stored, stored_elements)),
        lines=str(CACHE_LINE_ELEMENTS // 4),
        identity="identity_line()" if is_line else f"{element}(parameters.identity)",
        combine=combine_expression,
        walk=loop_function,
        workgroup=str(workgroup_size),
        block=str(SUM_BLOCK_ELEMENTS),
        combine_elements=f"combine{suffix}",
        prepare=row_end_function,
        # What waits for others may not return early.
        guard="" if invocation_combining else "if (index >= parameters.count) { return; }",
        store_total=f"store_line(index, {reduced});"
        if is_line
        else f"let value = {reduced};\n  if ({is_written}) {{ store({at}, {finish_expression}); }}",
        joined=workgroup_reduction_function(
            "joined", "combine(a, b)", stored, has_subgroups, workgroup_size
        )
        if invocation_combining
        else "",
        lanes_given=size["lanes_given"],
        finish=finish_expression,
    )
    return Program(
        f"reduction {combine_expression}",
        source,
        workgroup=workgroup_size,
        stored_elements=stored_elements,
    )


def arg_reduction(is_better: Mapping[DType, str]) -> Callable[[GpuArray, int], GpuArray]:
    """Return a function that finds the first position of the best element along an axis by a WGSL comparison.

    Args:
        is_better: For each supported dtype that is not narrow, WGSL that says whether `value` is better than `best`.
    """

    def find_position(x: GpuArray, axis: int) -> GpuArray:
        """Return the first position of the best element along an axis."""
        dtype = WORD_DTYPES_BY_NARROW_DTYPE.get(x.dtype, x.dtype)
        require_dtype(dtype, is_better, "the webgpu search for a position")
        size = length = x.shape[axis]
        outer = math.prod(x.shape[:axis])
        inner = math.prod(x.shape[axis + 1 :])
        device = x.buffer.device
        found: GpuArray | None = None
        while True:
            segments = count_segments(outer * inner, length, inner == 1, device.is_software)
            segments = -(-length // -(-length // segments))  # none of them is empty
            outputs = outer * segments * inner
            program = _arg_reduction_program(dtype, is_better[dtype], found is not None)
            parameters = (outputs, length, segments, inner, size)
            stage = plan(program, parameters, outputs, (outer, segments, inner), int32)
            found = device.launch(stage, x) if found is None else device.launch(stage, x, found)
            if segments == 1:
                return reinterpret(found, x.shape[:axis] + x.shape[axis + 1 :])
            length = segments

    return find_position


@cache
def _arg_reduction_program(
    dtype: DType, is_better_expression: str, has_candidates: bool
) -> Program:
    """Return the program that finds the best element of each segment, among all or, with candidates, some positions."""
    bindings = ["var<storage, read_write> output: array<i32>;"]
    if has_candidates:
        bindings.insert(0, "var<storage, read> found: array<i32>;")
    position = "found[choices + {} * parameters.inner]" if has_candidates else "i32({})"
    source = partial(
        shader,
        "reduction_position",
        T=WGSL_STORAGE_TYPES[dtype],
        is_better=is_better_expression,
        bindings="\n".join(f"@group(0) @binding({i}) {b}" for i, b in enumerate(bindings, start=1)),
        position_of_first=position.format("first"),
        position=position.format("k"),
    )
    return Program(f"position {is_better_expression}", source)
