"""Gradients of the Fourier transforms. Their matrices are symmetric, so the transpose is the transform itself."""

from plugrad.kernels import creation, movement, signal
from plugrad.ops.complex import conj
from plugrad.tape.rules import gradient
from plugrad.tensor.tensor import Tensor
from plugrad.types.dtype import DType
from plugrad.types.specs import Spec


def _counted(x: Tensor, length: int, once: float, twice: float, dtype: DType) -> Tensor:
    """Return the conjugate of half a spectrum, times `twice`, or times `once` where it has no mirror image."""
    inner = creation.fill.on(x.backend, shape=((length + 1) // 2 - 1,), value=twice, dtype=dtype)
    return conj(x) * movement.pad(inner, paddings=((1, 1 - length % 2),), constant_value=once)


def _of_half(dy: Tensor, input_spec: Spec) -> Tensor:
    """Return the real part of the transform of dy, filled up with zeros, for `rfft`."""
    length = input_spec.shape[-1]
    return signal.irfft(_counted(dy, length, length, length / 2, input_spec.dtype), length=length)


def _of_inverse(dy: Tensor, length: int) -> Tensor:
    """Return what `irfft` makes of half a spectrum, transposed."""
    return _counted(signal.rfft(dy), length, 1 / length, 2 / length, dy.dtype)


gradient(signal.fft, input=lambda dy: signal.fft(dy))
gradient(signal.ifft, input=lambda dy: signal.ifft(dy))
gradient(signal.rfft, input=_of_half)
gradient(signal.irfft, input=_of_inverse)
