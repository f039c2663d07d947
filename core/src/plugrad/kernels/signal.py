"""Discrete Fourier transforms of the last axis."""

from plugrad.contract.kernel import kernel
from plugrad.errors import ShapeError
from plugrad.types.dtype import COMPLEX
from plugrad.types.specs import Shaped, Spec


@kernel("FFT", accepts=COMPLEX)
def fft(input: Spec) -> Spec:
    """Return the discrete Fourier transform, without a normalization factor."""
    return _transformed(input)


@kernel("IFFT", accepts=COMPLEX)
def ifft(input: Spec) -> Spec:
    """Return the inverse transform, divided by the length of the axis."""
    return _transformed(input)


def _transformed(input: Spec) -> Spec:
    if not input.shape or not input.shape[-1]:
        raise ShapeError(
            f"shape {input.shape} must have a last axis with at least one element to transform"
        )
    return Shaped(input.shape, input.dtype)
