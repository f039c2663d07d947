"""Kernels that combine tensors of one dtype element by element."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from plugrad.extend import bool_, broadcast
from plugrad.kernels import binary
from plugrad_wasm.declare import binary as paired, call, swapped, table
from plugrad_wasm.kernels.movement import broadcast_to

if TYPE_CHECKING:
    from plugrad_wasm.memory import WasmArray

add = paired("add")
less = paired("less", dtype=bool_)
less_equal = paired("less_equal", dtype=bool_)

table.update(
    {
        # arithmetic
        binary.add: add,
        binary.subtract: paired("subtract"),
        binary.multiply: paired("multiply"),
        binary.divide: paired("divide"),
        binary.floor_divide: paired("floor_divide"),
        binary.remainder: paired("remainder"),
        binary.power: paired("power"),
        binary.squared_difference: paired("squared_difference"),
        binary.maximum: paired("maximum"),
        binary.minimum: paired("minimum"),
        binary.atan2: paired("atan2"),
        binary.prelu: paired("prelu"),
        binary.elu_gradient: paired("elu_gradient"),
        # comparison
        binary.equal: paired("equal", dtype=bool_),
        binary.not_equal: paired("not_equal", dtype=bool_),
        binary.greater: swapped(less),
        binary.greater_equal: swapped(less_equal),
        binary.less: less,
        binary.less_equal: less_equal,
        # logic
        binary.logical_and: paired("logical_and"),
        binary.logical_or: paired("logical_or"),
        binary.logical_xor: paired("logical_xor"),
    }
)


@table.implements(binary.add_n)
def add_n(*inputs: WasmArray) -> WasmArray:
    """Return the sum of arrays of one shape."""
    return reduce(add, inputs)


@table.implements(binary.select)
def select(condition: WasmArray, t: WasmArray, e: WasmArray) -> WasmArray:
    """Return `t` where the condition holds, else `e`."""
    if condition.dtype is not bool_ or t.dtype is not e.dtype:
        binary.select.infer(condition, t, e)  # raises
    shape = broadcast(condition.shape, t.shape, e.shape)
    out = t.memory.empty(shape, t.dtype)
    operands = [x if x.size == 1 else broadcast_to(x, shape=shape) for x in (condition, t, e)]
    call(t, f"select_{t.dtype.itemsize}", out.size)(
        *(x.address for x in operands), out.address, out.size, *(int(x.size > 1) for x in operands)
    )
    return out
