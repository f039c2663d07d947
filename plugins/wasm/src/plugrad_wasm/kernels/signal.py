"""Fourier transforms of the last axis."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from plugrad.kernels import signal
from plugrad_wasm.declare import ExportNames, run_items, table

if TYPE_CHECKING:
    from plugrad_wasm.memory import WasmArray

FFT = ExportNames("fft")
LARGEST_RADIX: Final = 31


class Plan(NamedTuple):
    """How rows of a length are transformed: the fields of ``plan`` in csrc/signal.c, and their table's size."""

    size: int
    descriptor: tuple[int, ...]
    table_bytes: int


def radices_of(n: int) -> list[int]:
    """Return the factors of `n`: fours first, which make the following loops multiples of a vector.

    >>> radices_of(360)
    [4, 2, 3, 3, 5]
    """
    radices: list[int] = []
    for radix in (4, 2, *range(3, LARGEST_RADIX + 1, 2)):
        while n % radix == 0:
            radices.append(radix)
            n //= radix
    return radices if n == 1 else [*radices, n]


def convenient(least: int) -> int:
    """Return a number from `least` on whose factors are small.

    >>> convenient(73), convenient(2 * 1009 - 1)
    (80, 2048)
    """
    return min(odd << max(0, (-(-least // odd) - 1).bit_length()) for odd in (1, 3, 5, 9, 15))


@lru_cache(maxsize=1024)
def plan_of(row: int) -> Plan:
    """Return how rows of a length are transformed."""
    size, radices = row, radices_of(row)
    if radices and radices[-1] > LARGEST_RADIX:
        size = convenient(2 * row - 1)
        radices = radices_of(size)
    floats = 0 if size == row else 2 * row + 4 * size
    rest = size
    for radix in radices:
        rest //= radix
        floats += 2 * (radix - 1) * rest + 2 * radix
    return Plan(size, (row, size, len(radices), *radices), 4 * floats)


def transformed(x: WasmArray, is_inverse: bool) -> WasmArray:
    """Return the transforms of the rows of an array."""
    memory, row = x.memory, x.shape[-1]
    plan = plan_of(row)
    out = memory.like(x)
    descriptor = memory.store.descriptor(plan.descriptor)
    factors = memory.store.table("fft_table", plan.descriptor, plan.table_bytes)
    run_items(
        x,
        FFT[x.dtype],
        x.size // row,
        ((x, row), (out, row)),
        descriptor.address,
        factors.address,
        is_inverse,
        work=x.size // row * plan.size * 2 * len(plan.descriptor),
        scratch=16 * plan.size,  # four planes of floats
        held=(descriptor, factors),
    )
    return out


@table.implements(signal.fft)
def fft(input: WasmArray) -> WasmArray:
    """Return the transform of each row."""
    return transformed(input, is_inverse=False)


@table.implements(signal.ifft)
def ifft(input: WasmArray) -> WasmArray:
    """Return the inverse transform of each row."""
    return transformed(input, is_inverse=True)
