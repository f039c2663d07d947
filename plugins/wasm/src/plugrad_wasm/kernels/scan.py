"""Running sums and products along an axis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugrad.extend import count_elements
from plugrad.kernels import scan
from plugrad_wasm.declare import ExportNames, run_over_items, table

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad_wasm.memory import WasmArray


def make_scan(kernel: str) -> Callable[..., WasmArray]:
    """Return the implementation of the cumulative sum or product with this name by its exports."""
    names = ExportNames(kernel)

    def implementation(x: WasmArray, *, axis: int, exclusive: bool, reverse: bool) -> WasmArray:
        """Return the running sums or products along an axis."""
        out = x.memory.empty_like(x)
        outer, inner = count_elements(x.shape[:axis]), count_elements(x.shape[axis + 1 :])
        places = (x, x.shape[axis] * inner), (out, x.shape[axis] * inner)
        attributes = x.shape[axis], inner, exclusive, reverse
        run_over_items(x, names[x.dtype], outer, places, *attributes, work=2 * x.size)
        return out

    return implementation


table.update({scan.cumsum: make_scan("cumsum"), scan.cumprod: make_scan("cumprod")})
