"""Activations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugrad.extend import float16
from plugrad.kernels import activation
from plugrad_wasm.declare import ExportNames, call, declare_exports, table
from plugrad_wasm.kernels.unary import converter, in_float32

if TYPE_CHECKING:
    from plugrad_wasm.memory import WasmArray

LEAKY_RELU = ExportNames("leaky_relu")


@table.implements(activation.leaky_relu)
def leaky_relu(x: WasmArray, *, alpha: float) -> WasmArray:
    """Return x where it is positive, else ``alpha * x``."""
    if x.dtype is float16:
        return in_float32(leaky_relu, x, alpha=alpha)
    out = x.memory.like(x)
    call(x, LEAKY_RELU[x.dtype], x.size)(x.address, out.address, x.size, converter(x.dtype)(alpha))
    return out


declare_exports(activation)
