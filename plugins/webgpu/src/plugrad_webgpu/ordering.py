"""Stable orders of rows of elements, found on the device."""

from __future__ import annotations

import math
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from plugrad.extend import bool_, float32, int32, uint32
from plugrad_webgpu.elements import STORED
from plugrad_webgpu.program import Program, plan
from plugrad_webgpu.shaders import shader

if TYPE_CHECKING:
    from plugrad.extend import DType, Shape
    from plugrad_webgpu.buffers import GpuArray
    from plugrad_webgpu.program import Plan

KEYS: Final = {
    float32: "order_key(x)",
    int32: "bitcast<u32>(x) ^ 0x80000000u",
    uint32: "x",
    bool_: "x",
}
LABEL: Final = "bitcast<u32>(x)"
"""The key of integers from 0 to a limit; others count as the limit."""

Entry = Literal["rank", "count_digits", "add_up", "reorder"]

DIGIT_BITS = 8
DIGITS = 1 << DIGIT_BITS
SHORT = 256  # elements: comparing all pairs of a longer row takes longer than sorting by digits
FEW_PAIRS = 1 << 20  # unless there are so few pairs that a single dispatch is faster
LEAST_RUN = 512  # elements: shorter blocks spend most of their time on counts
MOST_BLOCKS = 1024


def order(x: GpuArray, *, descending: bool = False) -> GpuArray:
    """Return the positions that sort the last axis, as int32; equal elements stay in their order.

    NaN counts as the largest number.
    """
    limit = 1 if x.dtype == bool_ else 2**32 - 1
    return _ordered(x, KEYS[x.dtype], limit, limit if descending else 0, x.shape)


def order_of_labels(labels: GpuArray, limit: int) -> GpuArray:
    """Return the positions that sort all integers, as int32; those outside ``[0, limit)`` come last."""
    return _ordered(labels, LABEL, limit, 0, (math.prod(labels.shape),))


def _ordered(x: GpuArray, key: str, limit: int, flip: int, shape: Shape) -> GpuArray:
    device = x.buffer.device
    size = shape[-1]
    if size <= SHORT or math.prod(shape) * size <= FEW_PAIRS:
        return device.launch(_rank(x.dtype, key, limit, flip, shape), x)
    before = x  # in the first pass, which does not read it
    for step in _passes(x.dtype, key, limit, flip, shape):
        counts = device.launch(step.count_digits, x, before)
        device.launch_into(step.add_up, counts)
        before = device.launch(step.reorder, x, before, counts)
    return before


@lru_cache(maxsize=1024)
def _rank(dtype: DType, key: str, limit: int, flip: int, shape: Shape) -> Plan:
    count = math.prod(shape)
    parameters = (count, shape[-1], 1, 0, 0, limit, flip)
    return plan(_program("rank", dtype, key), parameters, count, shape, int32)


class _Pass(NamedTuple):
    """The dispatches that sort by one digit."""

    count_digits: Plan
    add_up: Plan
    reorder: Plan


@lru_cache(maxsize=1024)
def _passes(dtype: DType, key: str, limit: int, flip: int, shape: Shape) -> tuple[_Pass, ...]:
    size = shape[-1]
    rows = math.prod(shape[:-1])
    run = max(LEAST_RUN, -(-size // MOST_BLOCKS))
    blocks = -(-size // run)
    counts = (rows, DIGITS, blocks + 1)

    def step(name: Entry, invocations: int, shift: int, out: Shape, out_dtype: DType) -> Plan:
        parameters = (invocations, size, blocks, run, shift, limit, flip)
        return plan(_program(name, dtype, key), parameters, invocations, out, out_dtype)

    return tuple(
        _Pass(
            step("count_digits", rows * blocks, shift, counts, uint32),
            step("add_up", rows * DIGITS, shift, counts, uint32),
            step("reorder", rows * blocks, shift, shape, int32),
        )
        for shift in range(0, max(limit.bit_length(), 1), DIGIT_BITS)
    )


@cache
def _program(entry_point: Entry, dtype: DType, key: str) -> Program:
    source = partial(shader, "sorting", T=STORED[dtype], key=key)
    return Program(f"order: {entry_point}", source, entry_point=entry_point, workgroup=32)
