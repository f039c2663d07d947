"""Running sums and products along an axis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugrad.extend import float16, size_of
from plugrad.kernels import scan
from plugrad_wasm.declare import ExportNames, call, table
from plugrad_wasm.kernels.unary import in_float32

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad_wasm.memory import WasmArray


def scanned(kernel: str) -> Callable[..., WasmArray]:
    """Return an implementation that accumulates with an export of the module."""
    names = ExportNames(kernel)

    def implementation(x: WasmArray, *, axis: int, exclusive: bool, reverse: bool) -> WasmArray:
        if x.dtype is float16:
            return in_float32(implementation, x, axis=axis, exclusive=exclusive, reverse=reverse)
        out = x.memory.like(x)
        outer, inner = size_of(x.shape[:axis]), size_of(x.shape[axis + 1 :])
        call(x, names[x.dtype], x.size)(
            x.address, out.address, outer, x.shape[axis], inner, exclusive, reverse
        )
        return out

    return implementation


table.update({scan.cumsum: scanned("cumsum"), scan.cumprod: scanned("cumprod")})
