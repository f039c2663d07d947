"""Gradients of complex numbers, as plain transposes: see docs/notes/0006.

For a complex number x + iy, dy is therefore ∂/∂x - i ∂/∂y, the conjugate of what users see.
"""

from plugrad.kernels import complex as kernels
from plugrad.ops.binary import div_no_nan
from plugrad.ops.complex import conj
from plugrad.ops.creation import zeros_like
from plugrad.tape.rules import gradient
from plugrad.tensor.tensor import Tensor


def _along_radius(dy: Tensor, x: Tensor, out: Tensor) -> Tensor:
    """Return ``dy * conj(x) / out``, which has the direction of x; at 0, where there is no direction, 0."""
    scale = div_no_nan(dy, out)
    return kernels.complex(scale, zeros_like(scale)) * conj(x)


gradient(kernels.complex, real=lambda dy: kernels.real(dy), imag=lambda dy: -kernels.imag(dy))
gradient(kernels.real, input=lambda dy: kernels.complex(dy, zeros_like(dy)))
gradient(kernels.imag, input=lambda dy: kernels.complex(zeros_like(dy), -dy))
gradient(kernels.complex_abs, x=_along_radius)
gradient(kernels.conj, input=lambda dy: conj(dy))
