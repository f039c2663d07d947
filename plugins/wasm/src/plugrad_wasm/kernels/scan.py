"""Running sums and products along an axis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugrad.extend import size_of
from plugrad.kernels import scan
from plugrad_wasm.declare import ExportNames, run_items, table

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad_wasm.memory import WasmArray


def scanned(kernel: str) -> Callable[..., WasmArray]:
    """Return an implementation that accumulates with an export of the module."""
    names = ExportNames(kernel)

    def implementation(x: WasmArray, *, axis: int, exclusive: bool, reverse: bool) -> WasmArray:
        out = x.memory.like(x)
        outer, inner = size_of(x.shape[:axis]), size_of(x.shape[axis + 1 :])
        places = (x, x.shape[axis] * inner), (out, x.shape[axis] * inner)
        attributes = x.shape[axis], inner, exclusive, reverse
        run_items(x, names[x.dtype], outer, places, *attributes, work=2 * x.size)
        return out

    return implementation


table.update({scan.cumsum: scanned("cumsum"), scan.cumprod: scanned("cumprod")})
