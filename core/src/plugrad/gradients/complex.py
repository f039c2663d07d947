"""Gradients of complex numbers, as plain transposes: see docs/notes/0006.

For a complex number x + iy, dy is therefore ∂/∂x - i ∂/∂y, the conjugate of what users see.
"""

from plugrad.kernels import complex as kernels
from plugrad.ops.binary import div_no_nan
from plugrad.ops.complex import conj
from plugrad.ops.creation import zeros_like
from plugrad.tape.rules import gradient
from plugrad.tensor.tensor import Tensor


def _abs_vjp(dy: Tensor, x: Tensor, out: Tensor) -> Tensor:
    """Gradient of the absolute value: ``dy * conj(x) / out``, and 0 where x is 0."""
    scale = div_no_nan(dy, out)
    return kernels.complex(scale, zeros_like(scale)) * conj(x)


gradient(kernels.complex, real=lambda dy: kernels.real(dy), imag=lambda dy: -kernels.imag(dy))
gradient(kernels.real, input=lambda dy: kernels.complex(dy, zeros_like(dy)))
gradient(kernels.imag, input=lambda dy: kernels.complex(zeros_like(dy), -dy))
gradient(kernels.complex_abs, x=_abs_vjp)
gradient(kernels.conj, input=lambda dy: conj(dy))
