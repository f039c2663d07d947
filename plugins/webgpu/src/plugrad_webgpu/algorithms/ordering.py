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

RadixEntryPointName = Literal["rank", "count_digits", "sum_digit_counts", "reorder"]
"""The entry points of the shader that sorts by digits; "rank" sorts short rows by comparing all pairs."""

KEY_BITS = 32
"""The number of bits of a sort key."""
RADIX_DIGIT_BITS = 8
"""The number of bits of a digit of the radix sort."""
SHORT_ROW_DIGIT_BITS = 4
"""The bits of a digit in short rows, where more counts would take more memory than the elements."""
SHORT_ROW_MAX_ELEMENTS = 2048
"""The largest number of elements in rows that are sorted by short digits."""
RANK_SORT_MAX_ELEMENTS = (
    128  # elements: comparing all pairs of a longer row takes longer than sorting by digits
)
"""The largest number of elements of rows that are sorted by comparing all pairs."""
# Elements of a block: more, with their order, take more than 16 KiB of shared memory. Where there are too few large
# blocks for all of a GPU, small ones are sorted in less time, and to merge them takes little.
LARGE_SORT_BLOCK_ELEMENTS = 2048
"""The number of elements of a large block of the merge sort."""
SMALL_SORT_BLOCK_ELEMENTS = 512
"""The number of elements of a small block of the merge sort."""
MIN_LARGE_SORT_BLOCKS = 128
"""The least number of large blocks in an array that is sorted in large blocks."""
MAX_SELECTED_ELEMENTS = 1024
"""The largest number of selected elements of a row, which are sorted in shared memory."""
SELECT_MIN_SEGMENT_ELEMENTS = (
    4096  # elements: to select from shorter segments saves less than another dispatch costs
)
"""The least number of elements in a segment of which the largest elements are selected."""
SELECT_MAX_SEGMENT_ELEMENTS = 1 << 19  # with 256 sorters and eight digits, loops of 18,432 steps
"""The largest number of elements in a segment of which the largest elements are selected."""
SELECT_MAX_WORKGROUPS = 512
"""The largest number of workgroups that select elements, one segment each."""
RADIX_MIN_BLOCK_ELEMENTS = 512
"""The least number of elements in a block: shorter ones spend most of their time on counts."""
RADIX_MAX_BLOCKS = 1024
"""The largest number of blocks into which the radix sort divides a row."""
RADIX_WORKGROUP_SIZE = 32
"""The number of invocations in a workgroup of the radix sort."""
MERGE_WORKGROUP_SIZE = 64
"""The number of invocations in a workgroup that merges sorted blocks."""
BLOCK_SORT_WORKGROUP_SIZE = 256  # of a block in shared memory
"""The number of invocations in a workgroup that sorts a block in shared memory."""

# Numbers whose order is that of the elements, or the opposite one
_SORT_KEY_EXPRESSIONS = {
    float32: "order_key(x)",
    int32: "(bitcast<u32>(x) ^ 0x80000000u)",
    uint32: "x",
    bool_: "u32(x)",
}
"""The WGSL sort key, a u32 in the order of the elements, of an element `x`, by dtype."""
_ascending_keys_kernel = elementwise(_SORT_KEY_EXPRESSIONS, result=uint32)
"""The elementwise kernel that computes the sort keys of elements in ascending order."""
_descending_keys_kernel = elementwise(
    {dtype: f"~{key}" for dtype, key in _SORT_KEY_EXPRESSIONS.items()}, result=uint32
)
"""The elementwise kernel that computes the sort keys of elements in descending order."""
_INT64_KEY_WORD_KERNELS = (  # the lower one first, as keys
    elementwise({int64: "x.x"}, result=uint32),
    elementwise({int64: "x.y ^ 0x80000000u"}, result=uint32),
)
"""The elementwise kernels that compute the lower and the upper word of the sort keys of int64."""
_invert_bits_kernel = elementwise({uint32: "~x"})
"""The elementwise kernel that inverts all bits of sort keys, for a descending order."""
_clamp_labels_kernel = elementwise(
    dict.fromkeys((int32, uint32), "min(bitcast<u32>(x), u32(parameters.limit))"),
    result=uint32,
    attributes=["limit"],
)
"""The elementwise kernel that replaces labels outside of a range by the end of the range."""


def argsort_rows(x: GpuArray, *, descending: bool = False) -> GpuArray:
    """Return the int32 indices that sort the last axis stably.

    NaN counts as the largest number.
    """
    if x.dtype == int64:
        low, high = (
            _invert_bits_kernel(word(x)) if descending else word(x)
            for word in _INT64_KEY_WORD_KERNELS
        )
        return _argsort_keys_stably(high, KEY_BITS, _argsort_keys_stably(low, KEY_BITS))
    keys = _descending_keys_kernel(x) if descending else _ascending_keys_kernel(x)
    return _argsort_keys(keys, 1 if x.dtype == bool_ else KEY_BITS)


def can_select_largest(x: GpuArray, count: int) -> bool:
    """Return whether `largest_indices` supports an array and takes less time than sorting it."""
    return (
        x.dtype != int64
        and 0 < count <= MAX_SELECTED_ELEMENTS
        and x.shape[-1] > RANK_SORT_MAX_ELEMENTS
    )


def largest_indices(x: GpuArray, count: int, *, sort_by_index: bool) -> GpuArray:
    """Return the int32 indices of the `count` largest elements along the last axis; of equal elements, the first ones.

    NaN counts as the largest number. The positions are in the order of the elements, or their own one.
    """
    keys = found = _descending_keys_kernel(x)
    for step in _selection_plans(x.shape, count, sort_by_index):
        found = keys.buffer.device.launch(step, keys, found)
    return found


def argsort_labels(labels: GpuArray, limit: int) -> GpuArray:
    """Return the int32 indices that sort all labels; labels outside ``[0, limit)`` come last."""
    keys = _clamp_labels_kernel(labels, limit=limit)
    return _argsort_keys(reinterpret(keys, (math.prod(keys.shape),)), limit.bit_length())


def _argsort_keys(keys: GpuArray, key_bits: int) -> GpuArray:
    """Return the indices that sort keys, of which only the lowest `key_bits` bits differ."""
    if keys.shape[-1] <= RANK_SORT_MAX_ELEMENTS:
        return keys.buffer.device.launch(_plan_ranking(keys.shape), keys)
    return _argsort_keys_stably(keys, key_bits)


def _argsort_keys_stably(
    keys: GpuArray, key_bits: int, initial_order: GpuArray | None = None
) -> GpuArray:
    """Return the indices that sort keys stably: positions with equal keys keep `initial_order`, if it is given."""
    device = keys.buffer.device
    if device.is_software:
        return _radix_argsort(keys, key_bits, initial_order)
    first, *merges = _block_sort_plans(keys.shape, initial_order is not None)
    found = device.launch(first, keys, initial_order or keys)
    for step in merges:
        found = device.launch(step, found)
    return found


def _radix_argsort(keys: GpuArray, key_bits: int, initial_order: GpuArray | None) -> GpuArray:
    """Return the indices that sort keys by digits; equal keys keep `initial_order`, if it is given."""
    device = keys.buffer.device
    for step in _radix_passes(keys.shape, key_bits, initial_order is not None):
        initial_order = initial_order or keys  # the first pass does not read it
        counts = device.launch(step.count_digits, keys, initial_order)
        device.launch_into(step.sum_digit_counts, counts)
        initial_order = device.launch(step.reorder, keys, initial_order, counts)
    assert initial_order is not None  # there is at least one digit
    return initial_order


@lru_cache(maxsize=1024)
def _plan_ranking(shape: Shape) -> Plan:
    """Return the plan that sorts short rows: each key is placed by the number of keys that come before it."""
    count = math.prod(shape)
    return plan(_radix_program("rank"), (count, shape[-1], 1, 0, 0, 0), count, shape, int32)


@lru_cache(maxsize=1024)
def _block_sort_plans(shape: Shape, has_initial_order: bool) -> tuple[Plan, ...]:
    """Return the plans of a merge sort of rows: one that sorts blocks, and those that merge them."""
    rows, size = math.prod(shape[:-1]), shape[-1]
    has_many = rows * size >= MIN_LARGE_SORT_BLOCKS * LARGE_SORT_BLOCK_ELEMENTS
    most = LARGE_SORT_BLOCK_ELEMENTS if has_many else SMALL_SORT_BLOCK_ELEMENTS
    run = min(most, 1 << max(size - 1, 0).bit_length())
    blocks = -(-size // run)
    parameters = (rows * blocks, size, run, blocks, has_initial_order)
    program = _block_sort_program("sort_blocks" if blocks > 1 else "sort_rows", run)
    pairs = int64  # of a key and a position
    plans = [
        plan(
            program,
            parameters,
            rows * blocks * BLOCK_SORT_WORKGROUP_SIZE,
            shape,
            pairs if blocks > 1 else int32,
        )
    ]
    while run < size:
        is_last = 2 * run >= size
        program = _block_sort_program("merge_last" if is_last else "merge")
        count = rows * size
        plans.append(
            plan(program, (count, size, run, 1, 0), count, shape, int32 if is_last else pairs)
        )
        run *= 2
    return tuple(plans)


@cache
def _block_sort_program(
    entry_point: Literal["sort_rows", "sort_blocks", "merge", "merge_last"], block_size: int = 2
) -> Program:
    """Return a program of the merge sort, which sorts blocks of `block_size` keys or merges sorted ones."""
    source = partial(shader, "sorting_memory", "sorting_blocks", places=str(block_size))
    workgroup = (
        BLOCK_SORT_WORKGROUP_SIZE if entry_point.startswith("sort") else MERGE_WORKGROUP_SIZE
    )
    return Program(f"order: {entry_point}", source, entry_point=entry_point, workgroup=workgroup)


@lru_cache(maxsize=1024)
def _selection_plans(shape: Shape, count: int, sort_by_index: bool) -> tuple[Plan, ...]:
    """Return the plans that select the largest elements of segments of a row, until a single segment is left."""
    rows, size = math.prod(shape[:-1]), shape[-1]
    program = _selection_program(1 << (count - 1).bit_length())
    passes = 4 + -(-(size - 1).bit_length() // 8)
    plans: list[Plan] = []
    length, segments = size, 0
    while segments != 1:
        most = length // max(SELECT_MIN_SEGMENT_ELEMENTS, 4 * count)
        segments = max(
            min(most, SELECT_MAX_WORKGROUPS // max(rows, 1)),
            -(-length // SELECT_MAX_SEGMENT_ELEMENTS),
            1,
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
            sort_by_index and is_last,
        )
        found = (*shape[:-1], segments * count)
        plans.append(
            plan(program, parameters, rows * segments * BLOCK_SORT_WORKGROUP_SIZE, found, int32)
        )
        length = segments * count
    return tuple(plans)


@cache
def _selection_program(block_size: int) -> Program:
    """Return the program that selects the largest elements, up to `block_size` of each segment, in shared memory."""
    source = partial(shader, "sorting_memory", "sorting_select", places=str(block_size))
    return Program(
        "order: select", source, entry_point="select_first", workgroup=BLOCK_SORT_WORKGROUP_SIZE
    )


class _RadixPass(NamedTuple):
    """The three dispatches of one digit of a radix sort."""

    count_digits: Plan
    """The plan that counts the values of the digit in each block."""
    sum_digit_counts: Plan
    """The plan that sums the counts to the position of each value in the sorted row."""
    reorder: Plan
    """The plan that moves the elements to their positions."""


@lru_cache(maxsize=1024)
def _radix_passes(shape: Shape, key_bits: int, has_initial_order: bool) -> tuple[_RadixPass, ...]:
    """Return the dispatches of a radix sort for each digit of the keys, the lowest digit first."""
    size = shape[-1]
    rows = math.prod(shape[:-1])
    run = max(RADIX_MIN_BLOCK_ELEMENTS, -(-size // RADIX_MAX_BLOCKS))
    blocks = -(-size // run)
    digit_bits = SHORT_ROW_DIGIT_BITS if size <= SHORT_ROW_MAX_ELEMENTS else RADIX_DIGIT_BITS
    counts = (rows, 1 << digit_bits, blocks + 1)

    def plan_step(entry_point: RadixEntryPointName, invocations: int, lowest_bit: int) -> Plan:
        """Return the plan of an entry point for the digit that begins at `lowest_bit`."""
        parameters = (
            invocations,
            size,
            blocks,
            run,
            lowest_bit,
            has_initial_order or lowest_bit > 0,
        )
        result = (shape, int32) if entry_point == "reorder" else (counts, uint32)
        return plan(_radix_program(entry_point, digit_bits), parameters, invocations, *result)

    return tuple(
        _RadixPass(
            plan_step("count_digits", rows * blocks, shift),
            plan_step("sum_digit_counts", rows << digit_bits, shift),
            plan_step("reorder", rows * blocks, shift),
        )
        for shift in range(0, max(key_bits, 1), digit_bits)
    )


@cache
def _radix_program(entry_point: RadixEntryPointName, digit_bits: int = RADIX_DIGIT_BITS) -> Program:
    """Return the program of an entry point of the radix sort, for digits of `digit_bits` bits."""
    source = partial(shader, "sorting", digits=str(1 << digit_bits))
    return Program(
        f"order: {entry_point}", source, entry_point=entry_point, workgroup=RADIX_WORKGROUP_SIZE
    )
