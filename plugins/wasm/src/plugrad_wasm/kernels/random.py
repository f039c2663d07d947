"""Random numbers: words and normal numbers are made in the sandbox, classes are drawn on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from plugrad.extend import float32, host_implementations, int32
from plugrad.kernels import random
from plugrad_wasm.declare import (
    ELEMENTWISE_PART_STEPS,
    RELEASE_GIL_MIN_ELEMENTS,
    choose_items_per_part,
    run_call_chains,
    select_export,
    table,
)

if TYPE_CHECKING:
    from plugrad.extend import DType
    from plugrad_wasm.memory import WasmArray

STEPS_PER_RANDOM_NUMBER: Final = 8
"""The cost of a random number, in elementary steps."""
PART_SIZE_MULTIPLE: Final = 1024
"""The number of random numbers of which each part has a multiple: whole blocks of Philox."""
PHILOX_BLOCK_WORDS: Final = 4
"""The words of 32 bits that Philox makes from one counter."""


@table.implements(random.random_bits)
def random_bits(state: WasmArray, *, shape: tuple[int, ...]) -> WasmArray:
    """Return random words of 32 bits, given a key and a counter as `state`."""
    return _fill_with_random_numbers("random_bits", state, shape, int32)


@table.implements(random.random_normal)
def random_normal(state: WasmArray, *, shape: tuple[int, ...]) -> WasmArray:
    """Return normally distributed random numbers, given a key and a counter as `state`."""
    return _fill_with_random_numbers("random_normal_float32", state, shape, float32)


def _fill_with_random_numbers(
    export: str, state: WasmArray, shape: tuple[int, ...], dtype: DType
) -> WasmArray:
    """Return an array that the export with this name fills with random numbers, part by part."""
    out = state.memory.empty(shape, dtype)
    count = out.size
    work = STEPS_PER_RANDOM_NUMBER * count
    if work < RELEASE_GIL_MIN_ELEMENTS:
        select_export(state, export, work)(state.address, out.address, count, 0)
        return out
    length = choose_items_per_part(
        state.memory.store, count, work, ELEMENTWISE_PART_STEPS, PART_SIZE_MULTIPLE
    )
    chains = [
        [
            (
                *(state.address, out.address + first * dtype.itemsize),
                *(min(length, count - first), first // PHILOX_BLOCK_WORDS),
            )
        ]
        for first in range(0, count, length)
    ]
    run_call_chains(state, export, chains, (state, out), work)
    return out


table.update({random.multinomial: host_implementations(random)[random.multinomial]}, on_host=True)
