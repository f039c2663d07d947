"""Stable orders of rows of elements, found on the device."""

from __future__ import annotations

import math
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, Literal, NamedTuple

from plugrad.extend import bool_, float32, int32, int64, uint32
from plugrad_webgpu.algorithms.expressions import elementwise
from plugrad_webgpu.memory.buffers import reinterpret
from plugrad_webgpu.shaders.program import Program, plan
from plugrad_webgpu.shaders.sources import shader

if TYPE_CHECKING:
    from plugrad.extend import Shape
    from plugrad_webgpu.memory.buffers import GpuArray
    from plugrad_webgpu.shaders.program import Plan

Entry = Literal["rank", "count_digits", "add_up", "reorder"]

KEY_BITS = 32
DIGIT_BITS = 8
FEW_DIGIT_BITS = 4  # where the counts of more digits would take more memory than the elements
MEDIUM_ROW_ELEMENTS = 2048  # elements of a row: it has few digits
SHORT_ROW_ELEMENTS = (
    128  # elements: comparing all pairs of a longer row takes longer than sorting by digits
)
# Elements of a block: more, with their order, take more than 16 KiB of shared memory. Where there are too few large
# blocks for all of a GPU, small ones are sorted in less time, and to merge them takes little.
BLOCK_ELEMENTS = 2048
SMALL_BLOCK_ELEMENTS = 512
MIN_LARGE_BLOCKS = 128
MAX_SELECTED = 1024  # of a row: what is selected is sorted in shared memory
MIN_SEGMENT_ELEMENTS = (
    4096  # elements: to select from shorter segments saves less than another dispatch costs
)
MAX_SEGMENT_ELEMENTS = 1 << 19  # with 256 sorters and eight digits, loops of 18,432 steps
BUSY_WORKGROUPS = 512
MIN_BLOCK_ELEMENTS = 512  # elements: shorter blocks spend most of their time on counts
MAX_BLOCKS = 1024
WORKGROUP = 32
MERGERS = 64
SORTERS = 256  # of a block in shared memory

# Numbers whose order is that of the elements, or the opposite one
_KEYS = {
    float32: "order_key(x)",
    int32: "(bitcast<u32>(x) ^ 0x80000000u)",
    uint32: "x",
    bool_: "u32(x)",
}
_ascending = elementwise(_KEYS, result=uint32)
_descending = elementwise({dtype: f"~{key}" for dtype, key in _KEYS.items()}, result=uint32)
_WORDS = (  # the lower one first, as keys
    elementwise({int64: "x.x"}, result=uint32),
    elementwise({int64: "x.y ^ 0x80000000u"}, result=uint32),
)
_inverted = elementwise({uint32: "~x"})
_clamp_positions = elementwise(
    dict.fromkeys((int32, uint32), "min(bitcast<u32>(x), u32(parameters.limit))"),
    result=uint32,
    attributes=["limit"],
)


def sorting_positions(x: GpuArray, *, descending: bool = False) -> GpuArray:
    """Return the int32 indices that sort the last axis stably.

    NaN counts as the largest number.
    """
    if x.dtype == int64:
        low, high = (_inverted(word(x)) if descending else word(x) for word in _WORDS)
        return _sort_in_order(high, KEY_BITS, _sort_in_order(low, KEY_BITS))
    keys = _descending(x) if descending else _ascending(x)
    return _sort_keys(keys, 1 if x.dtype == bool_ else KEY_BITS)


def can_select(x: GpuArray, count: int) -> bool:
    """Return whether `largest_positions` takes an array, and less time than to sort it."""
    return x.dtype != int64 and 0 < count <= MAX_SELECTED and x.shape[-1] > SHORT_ROW_ELEMENTS


def largest_positions(x: GpuArray, count: int, *, by_place: bool) -> GpuArray:
    """Return the positions of the largest elements of the last axis, as int32; of equal elements, of the first.

    NaN counts as the largest number. The positions are in the order of the elements, or their own one.
    """
    keys = found = _descending(x)
    for step in _selections(x.shape, count, by_place):
        found = keys.buffer.device.launch(step, keys, found)
    return found


def label_sorting_positions(labels: GpuArray, limit: int) -> GpuArray:
    """Return the int32 indices that sort all labels; labels outside ``[0, limit)`` come last."""
    keys = _clamp_positions(labels, limit=limit)
    return _sort_keys(reinterpret(keys, (math.prod(keys.shape),)), limit.bit_length())


def _sort_keys(keys: GpuArray, bits: int) -> GpuArray:
    """Return the indices that sort keys of which the lowest `bits` bits differ."""
    if keys.shape[-1] <= SHORT_ROW_ELEMENTS:
        return keys.buffer.device.launch(_rank_plan(keys.shape), keys)
    return _sort_in_order(keys, bits)


def _sort_in_order(keys: GpuArray, bits: int, before: GpuArray | None = None) -> GpuArray:
    """Return the same; positions with equal keys stay in the order that is given, if there is one."""
    device = keys.buffer.device
    if device.is_software:
        return _radix_sort(keys, bits, before)
    first, *merges = _block_plans(keys.shape, before is not None)
    found = device.launch(first, keys, before or keys)
    for step in merges:
        found = device.launch(step, found)
    return found


def _radix_sort(keys: GpuArray, bits: int, before: GpuArray | None) -> GpuArray:
    """Return the indices that sort keys by digits; equal keys keep the order `before`, if it is given."""
    device = keys.buffer.device
    for step in _passes(keys.shape, bits, before is not None):
        before = before or keys  # the first pass does not read it
        counts = device.launch(step.count_digits, keys, before)
        device.launch_into(step.add_up, counts)
        before = device.launch(step.reorder, keys, before, counts)
    assert before is not None  # there is at least one digit
    return before


@lru_cache(maxsize=1024)
def _rank_plan(shape: Shape) -> Plan:
    count = math.prod(shape)
    return plan(_program("rank"), (count, shape[-1], 1, 0, 0, 0), count, shape, int32)


@lru_cache(maxsize=1024)
def _block_plans(shape: Shape, has_order: bool) -> tuple[Plan, ...]:
    """Return the plan that sorts blocks of rows, and those that merge them."""
    rows, size = math.prod(shape[:-1]), shape[-1]
    has_many = rows * size >= MIN_LARGE_BLOCKS * BLOCK_ELEMENTS
    most = BLOCK_ELEMENTS if has_many else SMALL_BLOCK_ELEMENTS
    run = min(most, 1 << max(size - 1, 0).bit_length())
    blocks = -(-size // run)
    parameters = (rows * blocks, size, run, blocks, has_order)
    program = _block_program("sort_blocks" if blocks > 1 else "sort_rows", run)
    pairs = int64  # of a key and a position
    plans = [
        plan(program, parameters, rows * blocks * SORTERS, shape, pairs if blocks > 1 else int32)
    ]
    while run < size:
        is_last = 2 * run >= size
        program = _block_program("merge_last" if is_last else "merge")
        count = rows * size
        plans.append(
            plan(program, (count, size, run, 1, 0), count, shape, int32 if is_last else pairs)
        )
        run *= 2
    return tuple(plans)


@cache
def _block_program(
    entry_point: Literal["sort_rows", "sort_blocks", "merge", "merge_last"], places: int = 2
) -> Program:
    source = partial(shader, "sorting_memory", "sorting_blocks", places=str(places))
    workgroup = SORTERS if entry_point.startswith("sort") else MERGERS
    return Program(f"order: {entry_point}", source, entry_point=entry_point, workgroup=workgroup)


@lru_cache(maxsize=1024)
def _selections(shape: Shape, count: int, by_place: bool) -> tuple[Plan, ...]:
    """Return the plans that select from segments of rows, then from what these have left, until there is one."""
    rows, size = math.prod(shape[:-1]), shape[-1]
    program = _selection_program(1 << (count - 1).bit_length())
    passes = 4 + -(-(size - 1).bit_length() // 8)
    plans: list[Plan] = []
    length, segments = size, 0
    while segments != 1:
        most = length // max(MIN_SEGMENT_ELEMENTS, 4 * count)
        segments = max(
            min(most, BUSY_WORKGROUPS // max(rows, 1)), -(-length // MAX_SEGMENT_ELEMENTS), 1
        )
        is_last = segments == 1
        parameters = (
            rows * segments,
            size,
            length,
            segments,
            count,
            passes,
            bool(plans),
            by_place and is_last,
        )
        found = (*shape[:-1], segments * count)
        plans.append(plan(program, parameters, rows * segments * SORTERS, found, int32))
        length = segments * count
    return tuple(plans)


@cache
def _selection_program(places: int) -> Program:
    source = partial(shader, "sorting_memory", "sorting_select", places=str(places))
    return Program("order: select", source, entry_point="select_first", workgroup=SORTERS)


class _Pass(NamedTuple):
    """The dispatches of one digit of a radix sort."""

    count_digits: Plan
    add_up: Plan
    reorder: Plan


@lru_cache(maxsize=1024)
def _passes(shape: Shape, bits: int, has_order: bool) -> tuple[_Pass, ...]:
    size = shape[-1]
    rows = math.prod(shape[:-1])
    run = max(MIN_BLOCK_ELEMENTS, -(-size // MAX_BLOCKS))
    blocks = -(-size // run)
    digit_bits = FEW_DIGIT_BITS if size <= MEDIUM_ROW_ELEMENTS else DIGIT_BITS
    counts = (rows, 1 << digit_bits, blocks + 1)

    def step(entry_point: Entry, invocations: int, shift: int) -> Plan:
        parameters = (invocations, size, blocks, run, shift, has_order or shift > 0)
        result = (shape, int32) if entry_point == "reorder" else (counts, uint32)
        return plan(_program(entry_point, digit_bits), parameters, invocations, *result)

    return tuple(
        _Pass(
            step("count_digits", rows * blocks, shift),
            step("add_up", rows << digit_bits, shift),
            step("reorder", rows * blocks, shift),
        )
        for shift in range(0, max(bits, 1), digit_bits)
    )


@cache
def _program(entry_point: Entry, digit_bits: int = DIGIT_BITS) -> Program:
    source = partial(shader, "sorting", digits=str(1 << digit_bits))
    return Program(f"order: {entry_point}", source, entry_point=entry_point, workgroup=WORKGROUP)
