"""Kernels that take complex numbers apart and put them together."""

from plugrad.contract.kernel import accepted, agreed, kernel
from plugrad.errors import ShapeError
from plugrad.types.dtype import COMPLEX, complex64, complex128, float32, float64
from plugrad.types.specs import Shaped, Spec

PARTS = {complex64: float32, complex128: float64}
WHOLES = {part: whole for whole, part in PARTS.items()}


@kernel("Complex", is_elementwise=True, accepts=frozenset(WHOLES))
def complex(real: Spec, imag: Spec) -> Spec:
    """Return the complex numbers with these parts, which have one shape."""
    if real.shape != imag.shape:
        raise ShapeError(
            f"Complex: real has shape {real.shape} and imag {imag.shape}; they must be equal"
        )
    accepted("Complex", real, frozenset(WHOLES))
    return Shaped(real.shape, WHOLES[agreed("Complex", real, imag)])


@kernel("Real", is_elementwise=True, accepts=COMPLEX)
def real(input: Spec) -> Spec:
    """Return the real parts."""
    return Shaped(input.shape, PARTS[accepted("Real", input, COMPLEX)])


@kernel("Imag", is_elementwise=True, accepts=COMPLEX)
def imag(input: Spec) -> Spec:
    """Return the imaginary parts."""
    return Shaped(input.shape, PARTS[accepted("Imag", input, COMPLEX)])


@kernel("ComplexAbs", is_elementwise=True, accepts=COMPLEX)
def complex_abs(x: Spec) -> Spec:
    """Return the absolute values, ``sqrt(real**2 + imag**2)`` without overflow."""
    return Shaped(x.shape, PARTS[accepted("ComplexAbs", x, COMPLEX)])


@kernel("Conj", is_elementwise=True, accepts=COMPLEX)
def conj(input: Spec) -> Spec:
    """Return the numbers with the opposite imaginary part."""
    return Shaped(input.shape, accepted("Conj", input, COMPLEX))
