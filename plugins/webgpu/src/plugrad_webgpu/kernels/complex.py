"""Parts of complex numbers, which are pairs of floats in a buffer."""

from __future__ import annotations

from plugrad.extend import complex64, float32
from plugrad.kernels import complex
from plugrad_webgpu.algorithms.expressions import elementwise
from plugrad_webgpu.declare import table

real_part = elementwise({complex64: "x.x"}, result=float32)
"""The implementation that returns the real parts of complex numbers."""
conjugate = elementwise({complex64: "vec2f(x.x, -x.y)"})
"""The implementation that returns the complex conjugates."""

table.update(
    {
        complex.complex: elementwise("vec2f(real, imag)", ("real", "imag"), result=complex64),
        complex.real: real_part,
        complex.imag: elementwise({complex64: "x.y"}, result=float32),
        complex.complex_abs: elementwise({complex64: "hypotenuse(x.x, x.y)"}, result=float32),
        complex.conj: conjugate,
    }
)
