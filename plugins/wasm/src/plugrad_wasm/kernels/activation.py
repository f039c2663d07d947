"""Activations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugrad.kernels import activation
from plugrad_wasm.bits import converter
from plugrad_wasm.declare import ExportNames, declare_exports, run_elements, table

if TYPE_CHECKING:
    from plugrad_wasm.memory import WasmArray

LEAKY_RELU = ExportNames("leaky_relu")


@table.implements(activation.leaky_relu)
def leaky_relu(x: WasmArray, *, alpha: float) -> WasmArray:
    """Return x where it is positive, else ``alpha * x``."""
    out = x.memory.empty_like(x)
    places = ((x, 1), (out, 1))
    run_elements(x, LEAKY_RELU[x.dtype], x.size, places, converter(x.dtype)(alpha))
    return out


declare_exports(activation)
