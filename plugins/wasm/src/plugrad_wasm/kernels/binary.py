"""Kernels that combine tensors of one dtype elementwise."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Final

from plugrad.extend import bool_, broadcast, float16, float32
from plugrad.kernels import binary
from plugrad_wasm.bits import converter
from plugrad_wasm.declare import (
    ExportNames,
    binary as paired,
    declare_exports,
    run_elements,
    swapped,
    table,
)
from plugrad_wasm.kernels.movement import broadcast_to

if TYPE_CHECKING:
    from plugrad_wasm.memory import WasmArray

AXPBY: Final = ExportNames("axpby")

add: Final = paired("add")
multiply: Final = paired("multiply")

table.update(
    {
        binary.add: add,
        binary.multiply: multiply,
        binary.greater: swapped(paired("less", dtype=bool_)),
        binary.greater_equal: swapped(paired("less_equal", dtype=bool_)),
    }
)


@table.implements(binary.add_n)
def add_n(*inputs: WasmArray) -> WasmArray:
    """Return the sum of arrays of one shape."""
    return reduce(add, inputs)


@table.implements(binary.axpby)
def axpby(a: WasmArray, b: WasmArray, *, alpha: float, beta: float) -> WasmArray:
    """Return ``alpha * a + beta * b``."""
    if a.dtype is float16:
        from plugrad_wasm.kernels.unary import cast  # not at the top: an addition does not need it

        wide = axpby(cast(a, dtype=float32), cast(b, dtype=float32), alpha=alpha, beta=beta)
        return cast(wide, dtype=float16)
    out = a.memory.like(a)
    number = converter(a.dtype)
    places = ((a, 1), (b, 1), (out, 1))
    run_elements(a, AXPBY[a.dtype], a.size, places, number(alpha), number(beta))
    return out


@table.implements(binary.select)
def select(condition: WasmArray, t: WasmArray, e: WasmArray) -> WasmArray:
    """Return `t` where the condition is True, else `e`."""
    if condition.dtype is not bool_ or t.dtype is not e.dtype:
        binary.select.infer(condition, t, e)  # raises
    shape = broadcast(condition.shape, t.shape, e.shape)
    out = t.memory.empty(shape, t.dtype)
    operands = [x if x.size == 1 else broadcast_to(x, shape=shape) for x in (condition, t, e)]
    steps = [int(x.size > 1) for x in operands]
    places = (*zip(operands, steps, strict=True), (out, 1))
    run_elements(t, f"select_{t.dtype.itemsize}", out.size, places, *steps)
    return out


declare_exports(binary)
