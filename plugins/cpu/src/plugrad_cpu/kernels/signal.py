"""Fourier transforms in the precision of their input."""

from collections.abc import Callable

import numpy as np

from plugrad.kernels import signal
from plugrad_cpu.declare import Array, table
from plugrad_cpu.memory import empty


@table.implements(signal.fft)
def fft(input: Array) -> Array:
    """Return the transform of each row."""
    return _transform_rows(np.fft.fft, input, empty(input.shape, input.dtype))


@table.implements(signal.ifft)
def ifft(input: Array) -> Array:
    """Return the inverse transform of each row."""
    return np.fft.ifft(input, out=empty(input.shape, input.dtype))


@table.implements(signal.rfft)
def rfft(input: Array) -> Array:
    """Return the first half of the transform of each row."""
    shape, dtype = signal.rfft.infer(input)
    return _transform_rows(np.fft.rfft, input, empty(shape, dtype.numpy))


@table.implements(signal.irfft)
def irfft(input: Array, *, length: int) -> Array:
    """Return the rows whose transforms have these first halves."""
    shape, dtype = signal.irfft.infer(input, length=length)
    return np.fft.irfft(input, length, out=empty(shape, dtype.numpy))


def _transform_rows(transform: Callable[..., Array], x: Array, out: Array) -> Array:
    """Write the transform of each row to `out`, and return it.

    Without a factor, NumPy takes the function for long doubles where single precision would do, and ten times
    as long. So it divides by the length, which is multiplied again.
    """
    if out.dtype == np.complex128:
        return transform(x, out=out)
    transform(x, norm="forward", out=out)
    out *= x.shape[-1]
    return out
