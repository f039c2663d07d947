"""Discrete Fourier transforms."""

from plugrad.contract.kernel import accepted, kernel
from plugrad.errors import ShapeError
from plugrad.types.dtype import COMPLEX
from plugrad.types.specs import Shaped, Spec


@kernel("FFT", accepts=COMPLEX)
def fft(input: Spec) -> Spec:
    """Return the discrete Fourier transform of the last axis, without a factor."""
    return _transformed("FFT", input)


@kernel("IFFT", accepts=COMPLEX)
def ifft(input: Spec) -> Spec:
    """Return the inverse transform of the last axis, divided by its length."""
    return _transformed("IFFT", input)


def _transformed(name: str, input: Spec) -> Spec:
    accepted(name, input, COMPLEX)
    if not input.shape or not input.shape[-1]:
        raise ShapeError(
            f"{name}: shape {input.shape} has no elements along the last axis to transform"
        )
    return Shaped(input.shape, input.dtype)
