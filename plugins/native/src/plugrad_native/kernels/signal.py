"""Fourier transforms in single precision; NumPy computes double precision."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from plugrad.extend import plan_fft_stages
from plugrad.kernels import signal
from plugrad_cpu.extend import empty, numpy_implementation
from plugrad_native.declare import (
    COMPLEX64,
    FLOAT32,
    FLOAT64,
    INT32,
    MAX_ELEMENTS,
    as_contiguous,
    parallel_for,
    table,
)
from plugrad_native.variants import current_variant

if TYPE_CHECKING:
    from plugrad_native.declare import Array, CFunction

C_FILL_FFT_TABLE: Final = current_variant().kernel("fft_table")
"""The C function that writes the twiddle factors of a transform."""
C_GET_FFT_TABLE_SIZE: Final = current_variant().kernel("fft_table_size")
"""The C function that returns how many float64 the twiddle factors take."""
C_FFT: Final = current_variant().kernel("fft_complex64")
"""The C function of the Fourier transform of rows of complex64."""
C_RFFT: Final = current_variant().kernel("rfft_float32")
"""The C function of the Fourier transform of rows of float32."""
C_IRFFT: Final = current_variant().kernel("irfft_complex64")
"""The C function that returns rows of float32 from their Fourier transforms."""
MAX_ROW_ELEMENTS: Final = 1 << 24
"""The maximum length of a row; longer rows would need large tables of twiddle factors."""

numpy_fft: Final = numpy_implementation(signal.fft)
"""NumPy's implementation of the kernel `fft`."""
numpy_ifft: Final = numpy_implementation(signal.ifft)
"""NumPy's implementation of the kernel `ifft`."""
numpy_rfft: Final = numpy_implementation(signal.rfft)
"""NumPy's implementation of the kernel `rfft`."""
numpy_irfft: Final = numpy_implementation(signal.irfft)
"""NumPy's implementation of the kernel `irfft`."""


class FftPlan(NamedTuple):
    """The FFT of rows of one length: the struct ``plan`` of csrc/signal.c, and the twiddle factors."""

    descriptor: Array
    """The fields of the struct, as an array of int32."""
    twiddle_factors: Array
    """Roots of unity, as pairs of float64."""
    transform_length: int
    """The number of complex numbers of a transform: more than in a row if its length has a large prime factor."""


@lru_cache(maxsize=32)
def plan_complex_fft(row_length: int, real_row_length: int = 0) -> FftPlan:
    """Plan the FFT of complex rows, which may be real rows of length `real_row_length` seen as pairs; 0 if not."""
    size, radices = plan_fft_stages(row_length)
    descriptor = np.array([row_length, size, real_row_length, len(radices), *radices], INT32)
    factors = np.empty(C_GET_FFT_TABLE_SIZE(descriptor, 0), FLOAT64)
    C_FILL_FFT_TABLE(factors, descriptor)
    return FftPlan(descriptor, factors, size)


def plan_real_fft(row_length: int) -> FftPlan:
    """Plan the FFT of real rows; a row of even length becomes half as many complex numbers."""
    return plan_complex_fft(row_length if row_length % 2 else row_length // 2, row_length)


def transform_rows(
    c_function: CFunction, plan: FftPlan, x: Array, out: Array, *flags: bool
) -> Array:
    """Write the planned transforms of the rows of x, by a C function and its flags, to `out`, and return `out`."""
    row = x.shape[-1]
    parallel_for(
        c_function,
        ((as_contiguous(x), row), (out, out.shape[-1])),
        x.size // row,
        *(plan.descriptor, plan.twiddle_factors, *flags),
        work=x.size // row * plan.transform_length * len(plan.descriptor),
        scratch_floats=2 * (4 * plan.transform_length + 2),  # of double precision
    )
    return out


def is_supported(x: Array, row_length: int, dtype: np.dtype[Any]) -> bool:
    """Return whether C supports x: its dtype is `dtype`, and its rows are not too long."""
    return x.dtype == dtype and row_length <= MAX_ROW_ELEMENTS and x.size < MAX_ELEMENTS // 2


@table.implements(signal.fft)
def fft(input: Array) -> Array:
    """Return the Fourier transform of each row."""
    row = input.shape[-1]
    if not is_supported(input, row, COMPLEX64):
        return numpy_fft(input)
    return transform_rows(C_FFT, plan_complex_fft(row), input, empty(input.shape, COMPLEX64), False)


@table.implements(signal.ifft)
def ifft(input: Array) -> Array:
    """Return the inverse Fourier transform of each row."""
    row = input.shape[-1]
    if not is_supported(input, row, COMPLEX64):
        return numpy_ifft(input)
    return transform_rows(C_FFT, plan_complex_fft(row), input, empty(input.shape, COMPLEX64), True)


@table.implements(signal.rfft)
def rfft(input: Array) -> Array:
    """Return the non-negative frequencies of the Fourier transform of each row."""
    row = input.shape[-1]
    if not is_supported(input, row, FLOAT32):
        return numpy_rfft(input)
    out = empty((*input.shape[:-1], row // 2 + 1), COMPLEX64)
    return transform_rows(C_RFFT, plan_real_fft(row), input, out)


@table.implements(signal.irfft)
def irfft(input: Array, *, length: int) -> Array:
    """Return real rows of a length, given the non-negative frequencies of their Fourier transforms."""
    if not is_supported(input, length, COMPLEX64):
        return numpy_irfft(input, length=length)
    out = empty((*input.shape[:-1], length), FLOAT32)
    return transform_rows(C_IRFFT, plan_real_fft(length), input, out)
