"""Fourier transforms. Those of float32 are computed in double precision, and rounded once."""

from collections.abc import Callable
from functools import partial

import numpy as np

from plugrad.kernels import signal
from plugrad_cpu.declare import Array, table
from plugrad_cpu.memory import empty


@table.implements(signal.fft)
def fft(input: Array) -> Array:
    """Return the Fourier transform of each row."""
    return _transform_rows(np.fft.fft, input, empty(input.shape, input.dtype))


@table.implements(signal.ifft)
def ifft(input: Array) -> Array:
    """Return the inverse Fourier transform of each row."""
    return _transform_rows(np.fft.ifft, input, empty(input.shape, input.dtype))


@table.implements(signal.rfft)
def rfft(input: Array) -> Array:
    """Return the non-negative frequencies of the Fourier transform of each row."""
    shape, dtype = signal.rfft.infer(input)
    return _transform_rows(np.fft.rfft, input, empty(shape, dtype.numpy))


@table.implements(signal.irfft)
def irfft(input: Array, *, length: int) -> Array:
    """Return real rows of a length, given the non-negative frequencies of their Fourier transforms."""
    shape, dtype = signal.irfft.infer(input, length=length)
    return _transform_rows(partial(np.fft.irfft, n=length), input, empty(shape, dtype.numpy))


def _transform_rows(transform: Callable[..., Array], x: Array, out: Array) -> Array:
    """Write the result of a NumPy function such as `np.fft.fft` for each row to `out`, and return it.

    In single precision, the error would grow with the length.
    """
    if out.dtype == np.complex128 or out.dtype == np.float64:
        return transform(x, out=out)
    wide, result = (empty(y.shape, np.result_type(y, np.float64)) for y in (x, out))
    wide[...] = x
    out[...] = transform(wide, out=result)
    return out
