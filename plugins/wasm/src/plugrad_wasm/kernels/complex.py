"""Parts of complex numbers, which are pairs of floats in linear memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from plugrad.extend import complex64, complex128, float32, float64
from plugrad.kernels import complex
from plugrad_wasm.declare import Unary, binary, declare_exports, table, unary

if TYPE_CHECKING:
    from plugrad_wasm.memory import WasmArray

narrow_complex: Final = binary("complex", dtype=complex64)
wide_complex: Final = binary("complex", dtype=complex128)


def declare_part(kernel: str) -> Unary:
    """Declare a kernel whose results are floats as wide as the parts of x, such as `real`."""
    narrow, wide = unary(kernel, dtype=float32), unary(kernel, dtype=float64)
    return lambda x: narrow(x) if x.dtype is complex64 else wide(x)


@table.implements(complex.complex)
def join(real: WasmArray, imag: WasmArray) -> WasmArray:
    """Return complex numbers made from their parts."""
    return (narrow_complex if real.dtype is float32 else wide_complex)(real, imag)


real: Final = declare_part("real")

table.update(
    {
        complex.real: real,
        complex.imag: declare_part("imag"),
        complex.complex_abs: declare_part("complex_abs"),
    }
)
declare_exports(complex)
