"""Parts of complex numbers, which are pairs of floats in linear memory."""

from typing import Final

from plugrad.extend import complex64, float32
from plugrad.kernels import complex
from plugrad_wasm.declare import binary, declare_exports, table, unary

real: Final = unary("real", dtype=float32)

table.update({complex.real: real, complex.complex: binary("complex", dtype=complex64)})
declare_exports(complex)
