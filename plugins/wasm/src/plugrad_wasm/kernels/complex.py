"""Parts of complex numbers, which are pairs of floats in linear memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from plugrad.extend import complex64, complex128, float32, float64
from plugrad.kernels import complex
from plugrad_wasm.declare import (
    UnaryImplementation,
    declare_elementwise_exports,
    make_binary,
    make_unary,
    table,
)

if TYPE_CHECKING:
    from plugrad_wasm.memory import WasmArray

make_complex64: Final = make_binary("complex", dtype=complex64)
"""The function that returns complex64 from two arrays of float32."""
make_complex128: Final = make_binary("complex", dtype=complex128)
"""The function that returns complex128 from two arrays of float64."""


def make_complex_part(kernel: str) -> UnaryImplementation:
    """Return the implementation of `real` or another kernel, given by name, with results as wide as parts of x."""
    narrow, wide = make_unary(kernel, dtype=float32), make_unary(kernel, dtype=float64)
    return lambda x: narrow(x) if x.dtype is complex64 else wide(x)


@table.implements(complex.complex)
def complex_from_parts(real: WasmArray, imag: WasmArray) -> WasmArray:
    """Return complex numbers made from their parts."""
    return (make_complex64 if real.dtype is float32 else make_complex128)(real, imag)


real: Final = make_complex_part("real")
"""The implementation of `real`: the real parts."""

table.update(
    {
        complex.real: real,
        complex.imag: make_complex_part("imag"),
        complex.complex_abs: make_complex_part("complex_abs"),
    }
)
declare_elementwise_exports(complex)
