"""Kernels that combine tensors of one dtype elementwise."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Final

from plugrad.extend import bool_, broadcast
from plugrad.kernels import binary
from plugrad_wasm.declare import (
    declare_elementwise_exports,
    make_binary as paired,
    run_elementwise,
    swap_operands,
    table,
)
from plugrad_wasm.kernels.movement import broadcast_to

if TYPE_CHECKING:
    from plugrad_wasm.memory import WasmArray

add: Final = paired("add")
"""The implementation of `add`, which broadcasts."""
multiply: Final = paired("multiply")
"""The implementation of `multiply`, which broadcasts."""

table.update(
    {
        binary.add: add,
        binary.multiply: multiply,
        binary.greater: swap_operands(paired("less", dtype=bool_)),
        binary.greater_equal: swap_operands(paired("less_equal", dtype=bool_)),
    }
)


@table.implements(binary.add_n)
def add_n(*inputs: WasmArray) -> WasmArray:
    """Return the sum of arrays of one shape."""
    return reduce(add, inputs)


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
    run_elementwise(t, f"select_{t.dtype.itemsize}", out.size, places, *steps)
    return out


declare_elementwise_exports(binary)
