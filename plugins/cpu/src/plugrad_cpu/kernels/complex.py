"""Parts of complex numbers."""

import numpy as np

from plugrad.kernels import complex as kernels
from plugrad_cpu.declare import Array, table

table.update({kernels.complex_abs: np.abs, kernels.conj: np.conj})


@table.implements(kernels.real)
def real(input: Array) -> Array:
    """Return the real parts as a contiguous array."""
    return np.array(np.real(input))


@table.implements(kernels.imag)
def imag(input: Array) -> Array:
    """Return the imaginary parts as a contiguous array."""
    return np.array(np.imag(input))


@table.implements(kernels.complex)
def complex(real: Array, imag: Array) -> Array:
    """Return the numbers with these parts; real + 1j * imag would turn infinite parts into NaN."""
    whole = np.empty(real.shape, np.result_type(real, np.complex64))
    whole.real = real
    whole.imag = imag
    return whole
