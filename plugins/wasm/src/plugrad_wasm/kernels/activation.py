"""Activations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugrad.kernels import activation
from plugrad_wasm.bits import attribute_converter
from plugrad_wasm.declare import ExportNames, declare_elementwise_exports, run_elementwise, table

if TYPE_CHECKING:
    from plugrad_wasm.memory import WasmArray

LEAKY_RELU_EXPORTS = ExportNames("leaky_relu")
"""The exports of `leaky_relu`, by dtype."""


@table.implements(activation.leaky_relu)
def leaky_relu(x: WasmArray, *, alpha: float) -> WasmArray:
    """Return x where it is positive, else ``alpha * x``."""
    out = x.memory.empty_like(x)
    places = ((x, 1), (out, 1))
    run_elementwise(
        x, LEAKY_RELU_EXPORTS[x.dtype], x.size, places, attribute_converter(x.dtype)(alpha)
    )
    return out


declare_elementwise_exports(activation)
