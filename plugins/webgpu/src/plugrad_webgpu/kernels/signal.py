"""Fourier transforms of the last axis, rounded once, at the end.

Between the passes each number is two complex ones: its value, and what that lacks. Rows are twice as long there.
"""

from __future__ import annotations

import math
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from plugrad.extend import complex64, plan_fft_stages
from plugrad.kernels import signal
from plugrad_webgpu.declare import table
from plugrad_webgpu.kernels.complex import conjugate, real_part
from plugrad_webgpu.kernels.movement import reverse
from plugrad_webgpu.kernels.unary import cast
from plugrad_webgpu.memory.copying import concatenate, slice_block
from plugrad_webgpu.shaders.program import Program, plan
from plugrad_webgpu.shaders.sources import shader

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from plugrad_webgpu.memory.buffers import GpuArray
    from plugrad_webgpu.shaders.layout import Shape
    from plugrad_webgpu.shaders.program import Plan

PREFERRED_RADICES: Final = (8, 4, 2)
"""The radices that are chosen first, the fastest at the beginning; 3 and 5 have programs of their own, too."""

_write_fft_source = partial(shader, "signal")
"""The function that returns the WGSL of all FFT programs."""
_PROGRAMS_BY_RADIX = {
    r: Program(f"fft radix {r}", _write_fft_source, entry_point=f"radix_{r}")
    for r in (2, 3, 4, 5, 8)
}
"""The programs of FFT passes that have a fixed radix."""
_ANY_RADIX_PROGRAM = Program("fft any radix", _write_fft_source, entry_point="any_radix")
"""The program of an FFT pass whose radix is a parameter."""
_ROW_MULTIPLICATION_PROGRAM = Program("fft modulate", _write_fft_source, entry_point="modulate")
"""The program that multiplies rows by factors."""


class FftPassOptions(NamedTuple):
    """Options of FFT passes: which pass it is, whether it swaps real and imaginary parts, and its divisor."""

    is_first: bool = True
    """Whether the pass reads complex64 numbers, not sums of two of them."""
    is_last: bool = True
    """Whether the pass writes complex64 numbers, not sums of two of them."""
    swaps_parts_of_input: bool = False
    """Whether the pass swaps real and imaginary parts of the numbers that it reads."""
    swaps_parts_of_output: bool = False
    """Whether the pass swaps real and imaginary parts of the numbers that it writes."""
    divisor: int = 1
    """The number by which the results are divided."""

    def as_parameters(self) -> tuple[int | float, ...]:
        """Return the options as parameters of the shader."""
        scale = split_into_two_floats(np.float64(1 / self.divisor))
        return (*self[:-1], *scale.tolist(), 0)


# ---- tables: computed in double precision, and kept by the device ----


def split_into_two_floats(numbers: NDArray[np.float64] | np.float64) -> NDArray[np.float32]:
    """Split numbers into sums of two float32 numbers, of which the first has 12 bits, along a new axis."""
    leading = (np.asarray(numbers, np.float32).view(np.uint32) & np.uint32(0xFFFFF000)).view(
        np.float32
    )
    return np.stack([leading, (numbers - leading).astype(np.float32)], axis=-1)


def split_complex_into_two(numbers: NDArray[np.complex128]) -> NDArray[np.complex64]:
    """Split complex numbers into sums of two complex64 numbers, stored one after the other."""
    real, imaginary = split_into_two_floats(numbers.real), split_into_two_floats(numbers.imag)
    return (real + 1j * imaginary).astype(np.complex64).reshape(-1)


def split_roots_of_unity(n: int) -> NDArray[np.complex64]:
    """Return the roots of unity exp(-2 pi i t / n), each as the sum of two complex64 numbers."""
    return split_complex_into_two(np.exp(-2j * np.pi / n * np.arange(n)))


def split_chirp(n: int) -> NDArray[np.complex64]:
    """Return the factors exp(-pi i t^2 / n) of Bluestein's algorithm, each as the sum of two complex64 numbers."""
    return split_complex_into_two(_bluestein_chirp(n))


def split_chirp_filter(n: int, size: int) -> NDArray[np.complex64]:
    """Return Bluestein's filter of length `size`, transformed and divided by `size`, as sums of two complex64s."""
    circle = np.zeros(size, np.complex128)
    circle[:n] = _bluestein_chirp(n).conj()
    circle[size - n + 1 :] = circle[n - 1 : 0 : -1]
    return split_complex_into_two(np.fft.fft(circle) / size)


def _bluestein_chirp(n: int) -> NDArray[np.complex128]:
    """Return the factors exp(-pi i t^2 / n) of Bluestein's algorithm."""
    return np.exp(-1j * np.pi / n * (np.arange(n) ** 2 % (2 * n)))


# ---- the dispatches ----


@lru_cache(maxsize=1024)
def _fft_pass_plan(
    leading_shape: Shape,
    row_length: int,
    transformed_length: int,
    radix: int,
    options: FftPassOptions,
) -> Plan:
    """Return the plan of one pass, which makes transforms of a length `radix` times as long."""
    program = _PROGRAMS_BY_RADIX.get(radix, _ANY_RADIX_PROGRAM)
    count = math.prod(leading_shape) * row_length // radix
    return _fft_plan(
        program, (count, row_length, transformed_length, radix), leading_shape, row_length, options
    )


@lru_cache(maxsize=1024)
def _row_multiplication_plan(
    leading_shape: Shape, new_row_length: int, row_length: int, options: FftPassOptions
) -> Plan:
    """Return the plan that multiplies rows by factors, and cuts or pads them to a new length."""
    return _fft_plan(
        _ROW_MULTIPLICATION_PROGRAM,
        (math.prod(leading_shape) * new_row_length, new_row_length, row_length, 1),
        leading_shape,
        new_row_length,
        options,
    )


def _fft_plan(
    program: Program,
    parameters: tuple[int, ...],
    leading_shape: Shape,
    row_length: int,
    options: FftPassOptions,
) -> Plan:
    """Return the plan of a program whose output has complex64 numbers, or before the last pass sums of two of them."""
    shape = (*leading_shape, row_length if options.is_last else 2 * row_length)
    return plan(program, (*parameters, *options.as_parameters()), parameters[0], shape, complex64)


def fft_small_factors(x: GpuArray, row_length: int, options: FftPassOptions) -> GpuArray:
    """Return the transforms of rows whose length has only small factors."""
    device, lead = x.buffer.device, x.shape[:-1]
    factors = device.constant(split_roots_of_unity, row_length)
    radices = plan_fft_stages(row_length, PREFERRED_RADICES)[1] or (1,)
    span = 1
    for number, radix in enumerate(radices):
        is_first, is_last = number == 0, number == len(radices) - 1
        ends_here = FftPassOptions(
            options.is_first and is_first,
            options.is_last and is_last,
            options.swaps_parts_of_input and is_first,
            options.swaps_parts_of_output and is_last,
            options.divisor,
        )
        x = device.launch(_fft_pass_plan(lead, row_length, span, radix, ends_here), x, factors)
        span *= radix
    return x


def multiply_rows(
    x: GpuArray, factors: GpuArray, row_length: int, new_row_length: int, options: FftPassOptions
) -> GpuArray:
    """Return rows multiplied by factors, cut or padded with zeros to a new length."""
    step = _row_multiplication_plan(x.shape[:-1], new_row_length, row_length, options)
    return x.buffer.device.launch(step, x, factors)


def fft_rows(x: GpuArray, *, is_inverse: bool) -> GpuArray:
    """Return the transforms of the rows of an array, by Bluestein's convolution if a factor is large."""
    row = x.shape[-1]
    ends = FftPassOptions(
        swaps_parts_of_input=is_inverse,
        swaps_parts_of_output=is_inverse,
        divisor=row if is_inverse else 1,
    )
    device, (size, _) = x.buffer.device, plan_fft_stages(row, PREFERRED_RADICES)
    if size == row:
        return fft_small_factors(x, row, ends)
    around = device.constant(split_chirp, row)
    first = ends._replace(is_last=False, swaps_parts_of_output=False)
    between = FftPassOptions(is_first=False, is_last=False)
    last = ends._replace(is_first=False, swaps_parts_of_input=False)
    x = fft_small_factors(multiply_rows(x, around, row, size, first), size, between)
    x = multiply_rows(x, device.constant(split_chirp_filter, row, size), size, size, between)
    x = fft_small_factors(
        x, size, between._replace(swaps_parts_of_input=True, swaps_parts_of_output=True)
    )
    return multiply_rows(x, around, size, row, last)


@table.implements(signal.fft)
def fft(input: GpuArray) -> GpuArray:
    """Return the Fourier transform of each row."""
    return fft_rows(input, is_inverse=False)


@table.implements(signal.ifft)
def ifft(input: GpuArray) -> GpuArray:
    """Return the inverse Fourier transform of each row."""
    return fft_rows(input, is_inverse=True)


@table.implements(signal.rfft)
def rfft(input: GpuArray) -> GpuArray:
    """Return the non-negative frequencies of the Fourier transform of each row."""
    whole = fft_rows(cast(input, dtype=complex64), is_inverse=False)
    *lead, count = input.shape
    return slice_block(whole, (0,) * len(whole.shape), (*lead, count // 2 + 1))


@table.implements(signal.irfft)
def irfft(input: GpuArray, *, length: int) -> GpuArray:
    """Return real rows, given the non-negative frequencies of their Fourier transforms."""
    *lead, _ = input.shape
    axis = len(lead)
    inner = slice_block(input, (*(0 for _ in lead), 1), (*lead, (length + 1) // 2 - 1))
    mirrored = reverse(conjugate(inner), dims=(axis,))
    return real_part(fft_rows(concatenate([input, mirrored], axis), is_inverse=True))
