"""Discrete Fourier transforms of the last axis.

Args:
    input: a tensor whose last axis is transformed; the axis is not empty.

Returns:
    a tensor of the shape and the dtype of the input.
"""

from plugrad.contract.kernel import kernel
from plugrad.errors import ShapeError
from plugrad.types.dtype import COMPLEX, FLOATING, complex64, complex128, float16, float32, float64
from plugrad.types.specs import Shaped, Spec


@kernel("FFT", accepts=COMPLEX)
def fft(input: Spec) -> Spec:
    """Return the discrete Fourier transform, without a normalization factor."""
    _check_axis(input)
    return Shaped(input.shape, input.dtype)


@kernel("IFFT", accepts=COMPLEX)
def ifft(input: Spec) -> Spec:
    """Return the inverse transform, divided by the length of the axis."""
    _check_axis(input)
    return Shaped(input.shape, input.dtype)


@kernel("RFFT", accepts=FLOATING - {float16})
def rfft(input: Spec) -> Spec:
    """Return the first ``n // 2 + 1`` elements of the transform of `n` real numbers.

    Returns:
        a tensor (…, n // 2 + 1): complex64 for float32, complex128 for float64.
    """
    _check_axis(input)
    dtype = complex128 if input.dtype is float64 else complex64
    return Shaped((*input.shape[:-1], input.shape[-1] // 2 + 1), dtype)


@kernel("IRFFT", accepts=COMPLEX)
def irfft(input: Spec, *, length: int) -> Spec:
    """Return the inverse of the transform of `length` real numbers.

    Imaginary parts that the transform of real numbers does not have make no difference: that of the first
    element and, if `length` is even, of the last one.

    Args:
        input: a transform (…, length // 2 + 1).
        length: the size of the last axis of the result, at least 1.

    Returns:
        a tensor (…, length): float32 for complex64, float64 for complex128.
    """
    _check_axis(input)
    if length < 1 or input.shape[-1] != length // 2 + 1:
        raise ShapeError(
            f"shape {input.shape} must end with {max(length, 1) // 2 + 1}, for the transform of "
            f"length={length} real numbers"
        )
    dtype = float64 if input.dtype is complex128 else float32
    return Shaped((*input.shape[:-1], length), dtype)


def _check_axis(input: Spec) -> None:
    """Raise unless the last axis has elements to transform."""
    if not input.shape or not input.shape[-1]:
        raise ShapeError(
            f"shape {input.shape} must have a last axis with at least one element to transform"
        )
