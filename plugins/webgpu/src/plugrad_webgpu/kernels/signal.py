"""Fourier transforms of the last axis."""

from __future__ import annotations

import math
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from plugrad.extend import complex64, fourier_stages
from plugrad.kernels import signal
from plugrad_webgpu.declare import table
from plugrad_webgpu.kernels.complex import conj, real
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

RADICES: Final = (8, 4, 2)
"""The factors that have a pass of their own, the fastest first; so have 3 and 5."""

_SOURCE = partial(shader, "signal")
_PASSES = {r: Program(f"fft radix {r}", _SOURCE, entry_point=f"radix_{r}") for r in (2, 3, 4, 5, 8)}
_ANY_RADIX = Program("fft any radix", _SOURCE, entry_point="any_radix")
_MODULATE = Program("fft modulate", _SOURCE, entry_point="modulate")


class PassOptions(NamedTuple):
    """What the first and the last step of a transform do besides."""

    is_first_swapped: bool = False
    is_last_swapped: bool = False
    scale: float = 1.0


# ---- tables: computed in double precision, and kept by the device ----


def roots_of_unity(n: int) -> NDArray[np.complex64]:
    """Return the roots of unity exp(-2 pi i t / n) that the passes of a transform need."""
    return np.exp(-2j * np.pi / n * np.arange(n)).astype(np.complex64)


def chirp(n: int) -> NDArray[np.complex64]:
    """Return the factors exp(-pi i t^2 / n) of the numbers of a row."""
    return _chirp(n).astype(np.complex64)


def chirp_filter(n: int, size: int) -> NDArray[np.complex64]:
    """Return the transform of what the products with the chirp are convolved with, divided by its size."""
    circle = np.zeros(size, np.complex128)
    circle[:n] = _chirp(n).conj()
    circle[size - n + 1 :] = circle[n - 1 : 0 : -1]
    return (np.fft.fft(circle) / size).astype(np.complex64)


def _chirp(n: int) -> NDArray[np.complex128]:
    return np.exp(-1j * np.pi / n * (np.arange(n) ** 2 % (2 * n)))


# ---- the dispatches ----


@lru_cache(maxsize=1024)
def _pass(shape: Shape, span: int, radix: int, ends: PassOptions) -> Plan:
    program = _PASSES.get(radix, _ANY_RADIX)
    count = math.prod(shape) // radix
    return plan(program, (count, shape[-1], span, radix, *ends), count, shape, complex64)


@lru_cache(maxsize=1024)
def _modulation(shape: Shape, row: int, ends: PassOptions) -> Plan:
    count = math.prod(shape)
    return plan(_MODULATE, (count, shape[-1], row, 1, *ends), count, shape, complex64)


def transform_small_factors(x: GpuArray, ends: PassOptions) -> GpuArray:
    """Return the transforms of rows whose length has small factors."""
    device, size = x.buffer.device, x.shape[-1]
    factors = device.constant(roots_of_unity, size)
    radices = fourier_stages(size, RADICES)[1] or (1,)
    span = 1
    for number, radix in enumerate(radices):
        is_last = number == len(radices) - 1
        ends_here = PassOptions(
            ends.is_first_swapped and number == 0,
            ends.is_last_swapped and is_last,
            ends.scale if is_last else 1.0,
        )
        x = device.launch(_pass(x.shape, span, radix, ends_here), x, factors)
        span *= radix
    return x


def multiply_rows(x: GpuArray, factors: GpuArray, size: int, ends: PassOptions) -> GpuArray:
    """Return the products of rows with factors, as rows of another size."""
    step = _modulation((*x.shape[:-1], size), x.shape[-1], ends)
    return x.buffer.device.launch(step, x, factors)


def transform_rows(x: GpuArray, *, is_inverse: bool) -> GpuArray:
    """Return the transforms of the rows of an array, by Bluestein's convolution if a factor is large."""
    row = x.shape[-1]
    scale = 1 / row if is_inverse else 1.0
    device, (size, _) = x.buffer.device, fourier_stages(row, RADICES)
    if size == row:
        return transform_small_factors(x, PassOptions(is_inverse, is_inverse, scale))
    around = device.constant(chirp, row)
    x = transform_small_factors(
        multiply_rows(x, around, size, PassOptions(is_first_swapped=is_inverse)), PassOptions()
    )
    x = multiply_rows(x, device.constant(chirp_filter, row, size), size, PassOptions())
    x = transform_small_factors(x, PassOptions(is_first_swapped=True, is_last_swapped=True))
    return multiply_rows(x, around, row, PassOptions(is_last_swapped=is_inverse, scale=scale))


@table.implements(signal.fft)
def fft(input: GpuArray) -> GpuArray:
    """Return the transform of each row."""
    return transform_rows(input, is_inverse=False)


@table.implements(signal.ifft)
def ifft(input: GpuArray) -> GpuArray:
    """Return the inverse transform of each row."""
    return transform_rows(input, is_inverse=True)


@table.implements(signal.rfft)
def rfft(input: GpuArray) -> GpuArray:
    """Return the first half of the transform of each row."""
    whole = transform_rows(cast(input, dtype=complex64), is_inverse=False)
    *lead, count = input.shape
    return slice_block(whole, (0,) * len(whole.shape), (*lead, count // 2 + 1))


@table.implements(signal.irfft)
def irfft(input: GpuArray, *, length: int) -> GpuArray:
    """Return the rows whose transforms have these first halves; the others are their mirror images."""
    *lead, _ = input.shape
    axis = len(lead)
    inner = slice_block(input, (*(0 for _ in lead), 1), (*lead, (length + 1) // 2 - 1))
    mirrored = reverse(conj(inner), dims=(axis,))
    return real(transform_rows(concatenate([input, mirrored], axis), is_inverse=True))
