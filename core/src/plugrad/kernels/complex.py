"""Kernels that take complex numbers apart and put them together.

Args:
    input: complex numbers of any shape.

Returns:
    a tensor of the shape of the input, in the dtype of its parts: float32 for complex64, float64 for complex128.
"""

from plugrad.contract.kernel import check_same_dtype, kernel
from plugrad.errors import ShapeError
from plugrad.types.dtype import COMPLEX, complex64, complex128, float32, float64
from plugrad.types.specs import Shaped, Spec

REAL_DTYPE_OF_COMPLEX = {complex64: float32, complex128: float64}
"""The dtype of the real and imaginary parts, by complex dtype."""
COMPLEX_DTYPE_OF_REAL = {part: whole for whole, part in REAL_DTYPE_OF_COMPLEX.items()}
"""The complex dtype, by that of its real and imaginary parts."""


# Not elementwise to the engine, which leaves the shapes of such kernels to broadcasting.
@kernel("Complex", accepts=frozenset(COMPLEX_DTYPE_OF_REAL))
def complex(real: Spec, imag: Spec) -> Spec:
    """Return the complex numbers with these real and imaginary parts, which have one shape.

    Args:
        real: the real parts, float32 or float64.
        imag: the imaginary parts, of the shape and the dtype of the real parts.

    Returns:
        a tensor of their shape: complex64 for float32, complex128 for float64.
    """
    if real.shape != imag.shape:
        raise ShapeError(f"real has shape {real.shape} and imag {imag.shape}; they must be equal")
    return Shaped(real.shape, COMPLEX_DTYPE_OF_REAL[check_same_dtype("Complex", real, imag)])


@kernel("Real", is_elementwise=True, accepts=COMPLEX)
def real(input: Spec) -> Spec:
    """Return the real parts."""
    return Shaped(input.shape, REAL_DTYPE_OF_COMPLEX[input.dtype])


@kernel("Imag", is_elementwise=True, accepts=COMPLEX)
def imag(input: Spec) -> Spec:
    """Return the imaginary parts."""
    return Shaped(input.shape, REAL_DTYPE_OF_COMPLEX[input.dtype])


@kernel("ComplexAbs", is_elementwise=True, accepts=COMPLEX)
def complex_abs(x: Spec) -> Spec:
    """Return the absolute values, ``sqrt(real**2 + imag**2)`` without overflow.

    Args:
        x: complex numbers of any shape.
    """
    return Shaped(x.shape, REAL_DTYPE_OF_COMPLEX[x.dtype])


@kernel("Conj", is_elementwise=True, accepts=COMPLEX)
def conj(input: Spec) -> Spec:
    """Return the complex conjugates.

    Returns:
        a tensor of the shape and the dtype of the input.
    """
    return Shaped(input.shape, input.dtype)
