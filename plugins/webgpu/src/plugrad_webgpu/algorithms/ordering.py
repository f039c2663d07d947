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

Entry = Literal["rank", "merge", "count_digits", "add_up", "reorder"]

KEY_BITS = 32
DIGIT_BITS = 8
FEW_DIGIT_BITS = 4  # where the counts of more digits would take more memory than the elements
MEDIUM_ROW_ELEMENTS = 2048  # elements of a row: it has few digits
SHORT_ROW_ELEMENTS = (
    128  # elements: comparing all pairs of a longer row takes longer than sorting by digits
)
MERGED_ROW_ELEMENTS = (
    2048  # elements: a longer row with its order takes more than 16 KiB of shared memory
)
MIN_BLOCK_ELEMENTS = 512  # elements: shorter blocks spend most of their time on counts
MAX_BLOCKS = 1024
WORKGROUP = 32
SORTERS = 256  # of a row in shared memory

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
        return _radix_sort(high, KEY_BITS, _radix_sort(low, KEY_BITS))
    keys = _descending(x) if descending else _ascending(x)
    return _sort_keys(keys, 1 if x.dtype == bool_ else KEY_BITS)


def label_sorting_positions(labels: GpuArray, limit: int) -> GpuArray:
    """Return the int32 indices that sort all labels; labels outside ``[0, limit)`` come last."""
    keys = _clamp_positions(labels, limit=limit)
    return _sort_keys(reinterpret(keys, (math.prod(keys.shape),)), limit.bit_length())


def _sort_keys(keys: GpuArray, bits: int) -> GpuArray:
    """Return the indices that sort keys of which the lowest `bits` bits differ."""
    size, device = keys.shape[-1], keys.buffer.device
    if size <= SHORT_ROW_ELEMENTS:
        return device.launch(_rank_plan(keys.shape), keys)
    if size <= MERGED_ROW_ELEMENTS and not device.is_software:
        return device.launch(_merge_plan(keys.shape), keys)
    return _radix_sort(keys, bits)


def _radix_sort(keys: GpuArray, bits: int, before: GpuArray | None = None) -> GpuArray:
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
def _merge_plan(shape: Shape) -> Plan:
    rows, size = math.prod(shape[:-1]), shape[-1]
    program = _program("merge", places=1 << (size - 1).bit_length())
    return plan(program, (rows, size, 1, 0, 0, 0), rows * SORTERS, shape, int32)


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
def _program(entry_point: Entry, digit_bits: int = DIGIT_BITS, places: int = 2) -> Program:
    source = partial(shader, "sorting", digits=str(1 << digit_bits), places=str(places))
    workgroup = SORTERS if entry_point == "merge" else WORKGROUP
    return Program(f"order: {entry_point}", source, entry_point=entry_point, workgroup=workgroup)
