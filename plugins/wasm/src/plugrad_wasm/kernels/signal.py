"""Fourier transforms of the last axis."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from plugrad.extend import plan_fft_stages
from plugrad.kernels import signal
from plugrad_wasm.declare import ExportNames, run_over_items, table

if TYPE_CHECKING:
    from plugrad_wasm.memory import WasmArray

FFT_EXPORTS = ExportNames("fft")
"""The exports of the Fourier transform, by dtype."""
RFFT_EXPORTS = ExportNames("rfft")
"""The exports of the Fourier transform of real rows, by dtype."""
IRFFT_EXPORTS = ExportNames("irfft")
"""The exports of real rows from their Fourier transforms, by dtype."""


class FftPlan(NamedTuple):
    """The FFT of rows of one length, with the fields of ``plan`` in csrc/signal.c."""

    transform_length: int
    """The number of complex numbers of a transform: more than in a row if its length has a large prime factor."""
    descriptor: tuple[int, ...]
    """The fields of the struct."""


@lru_cache(maxsize=1024)
def plan_complex_fft(row_length: int, real_row_length: int = 0) -> FftPlan:
    """Plan the FFT of complex rows, which may be real rows of length `real_row_length` seen as pairs; 0 if not."""
    size, radices = plan_fft_stages(row_length)
    return FftPlan(size, (row_length, size, real_row_length, len(radices), *radices))


def plan_real_fft(row_length: int) -> FftPlan:
    """Plan the FFT of real rows; a row of even length becomes half as many complex numbers."""
    return plan_complex_fft(row_length if row_length % 2 else row_length // 2, row_length)


def run_fft_over_rows(
    export: str, plan: FftPlan, x: WasmArray, out: WasmArray, *flags: bool
) -> WasmArray:
    """Write planned transforms of the rows of x, by an export and its flags, to `out`, and return `out`."""
    row, store = x.shape[-1], x.memory.store
    descriptor = store.descriptor(plan.descriptor)
    table_bytes = 8 * store.scratch_size("fft_table_size", plan.descriptor, 0)
    factors = store.filled_block("fft_table", plan.descriptor, table_bytes)
    run_over_items(
        x,
        export,
        x.size // row,
        ((x, row), (out, out.shape[-1])),
        descriptor.address,
        factors.address,
        *flags,
        work=x.size // row * plan.transform_length * 2 * len(plan.descriptor),
        scratch_bytes=32 * plan.transform_length + 16,  # four planes of doubles
        kept_objects=(descriptor, factors),
    )
    return out


@table.implements(signal.fft)
def fft(input: WasmArray) -> WasmArray:
    """Return the Fourier transform of each row."""
    return run_fft_over_rows(
        FFT_EXPORTS[input.dtype],
        plan_complex_fft(input.shape[-1]),
        input,
        input.memory.empty_like(input),
        False,
    )


@table.implements(signal.ifft)
def ifft(input: WasmArray) -> WasmArray:
    """Return the inverse Fourier transform of each row."""
    return run_fft_over_rows(
        FFT_EXPORTS[input.dtype],
        plan_complex_fft(input.shape[-1]),
        input,
        input.memory.empty_like(input),
        True,
    )


@table.implements(signal.rfft)
def rfft(input: WasmArray) -> WasmArray:
    """Return the non-negative frequencies of the Fourier transform of each row."""
    out = input.memory.empty(*signal.rfft.infer(input))
    return run_fft_over_rows(RFFT_EXPORTS[input.dtype], plan_real_fft(input.shape[-1]), input, out)


@table.implements(signal.irfft)
def irfft(input: WasmArray, *, length: int) -> WasmArray:
    """Return real rows of a length, given the non-negative frequencies of their Fourier transforms."""
    out = input.memory.empty(*signal.irfft.infer(input, length=length))
    return run_fft_over_rows(IRFFT_EXPORTS[input.dtype], plan_real_fft(length), input, out)
