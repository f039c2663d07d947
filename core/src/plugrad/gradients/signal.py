"""Gradients of the Fourier transforms. Their matrices are symmetric, so the transpose is the transform itself."""

from plugrad.kernels import creation, movement, signal
from plugrad.ops.complex import conj
from plugrad.tape.rules import gradient
from plugrad.tensor.tensor import Tensor
from plugrad.types.dtype import DType
from plugrad.types.specs import Spec


def _weight_half_spectrum(
    x: Tensor, length: int, self_conjugate_factor: float, paired_factor: float, dtype: DType
) -> Tensor:
    """Conjugate half a spectrum of `length` numbers; multiply by `paired_factor` where a mirror image exists."""
    inner = creation.fill.on(
        x.backend, shape=((length + 1) // 2 - 1,), value=paired_factor, dtype=dtype
    )
    return conj(x) * movement.pad(
        inner, paddings=((1, 1 - length % 2),), constant_value=self_conjugate_factor
    )


def _rfft_gradient(dy: Tensor, input_spec: Spec) -> Tensor:
    """Return the gradient of `rfft`: the real part of the transform of dy, padded with zeros."""
    length = input_spec.shape[-1]
    return signal.irfft(
        _weight_half_spectrum(dy, length, length, length / 2, input_spec.dtype), length=length
    )


def _irfft_gradient(dy: Tensor, length: int) -> Tensor:
    """Return the gradient of `irfft`: the transposed transform of dy."""
    return _weight_half_spectrum(signal.rfft(dy), length, 1 / length, 2 / length, dy.dtype)


gradient(signal.fft, input=lambda dy: signal.fft(dy))
gradient(signal.ifft, input=lambda dy: signal.ifft(dy))
gradient(signal.rfft, input=_rfft_gradient)
gradient(signal.irfft, input=_irfft_gradient)
