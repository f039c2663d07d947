"""Elementwise kernels of two or three inputs, with broadcasting."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugrad.extend import bool_, float32, int32, uint32
from plugrad.kernels import binary
from plugrad_webgpu.declare import table
from plugrad_webgpu.expressions import elementwise, numbers

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad.extend import DType
    from plugrad_webgpu.buffers import GpuArray


def arithmetic(expression: str | dict[DType, str]) -> Callable[..., GpuArray]:
    """Return the implementation of an expression in `a` and `b`, the same for all dtypes or one for each."""
    return elementwise(
        numbers(expression) if isinstance(expression, str) else expression, ("a", "b")
    )


def comparison(operator: str) -> Callable[..., GpuArray]:
    """Return the implementation of a comparison; bools, which WGSL does not order, are compared as 0 and 1."""
    table_of = numbers(f"a {operator} b") | {bool_: f"u32(a) {operator} u32(b)"}
    return elementwise(table_of, ("a", "b"), result=bool_)


def logic(expression: str) -> Callable[..., GpuArray]:
    """Return the implementation of an expression in the bools `a` and `b`."""
    return elementwise({bool_: expression}, ("a", "b"))


add = arithmetic("a + b")

table.update(
    {
        # arithmetic
        binary.add: add,
        binary.subtract: arithmetic("a - b"),
        binary.multiply: arithmetic("a * b"),
        binary.divide: arithmetic({float32: "a / b"}),
        binary.floor_divide: arithmetic(
            {
                float32: "floor_divide(a, b)",
                int32: "floor_divide_i32(a, b)",
                uint32: "floor_divide_u32(a, b)",
            }
        ),
        binary.remainder: arithmetic(
            {
                float32: "remainder(a, b)",
                int32: "remainder_i32(a, b)",
                uint32: "remainder_u32(a, b)",
            }
        ),
        binary.power: arithmetic(
            {float32: "power(a, b)", int32: "power_i32(a, b)", uint32: "power_u32(a, b)"}
        ),
        binary.squared_difference: arithmetic("(a - b) * (a - b)"),
        binary.maximum: arithmetic(
            {float32: "maximum(a, b)", int32: "max(a, b)", uint32: "max(a, b)"}
        ),
        binary.minimum: arithmetic(
            {float32: "minimum(a, b)", int32: "min(a, b)", uint32: "min(a, b)"}
        ),
        binary.atan2: arithmetic({float32: "atan2_accurate(a, b)"}),
        binary.hypot: arithmetic({float32: "hypotenuse(a, b)"}),
        binary.log_add_exp: arithmetic({float32: "log_add_exp(a, b)"}),
        binary.next_after: arithmetic({float32: "next_after(a, b)"}),
        # comparison
        binary.equal: comparison("=="),
        # In a shader, != is false where one side is NaN.
        binary.not_equal: elementwise(
            numbers("a != b") | {float32: "a != b || is_nan(a) || is_nan(b)", bool_: "a != b"},
            ("a", "b"),
            result=bool_,
        ),
        binary.greater: comparison(">"),
        binary.greater_equal: comparison(">="),
        binary.less: comparison("<"),
        binary.less_equal: comparison("<="),
        # logic
        binary.logical_and: logic("a && b"),
        binary.logical_or: logic("a || b"),
        binary.logical_xor: logic("a != b"),
        # choices
        binary.select: elementwise(
            numbers("select(e, t, condition)") | {bool_: "select(e, t, condition)"},
            ("condition", "t", "e"),
        ),
    }
)


@table.implements(binary.add_n)
def add_n(*inputs: GpuArray) -> GpuArray:
    """Return the sum of arrays of the same shape."""
    total = inputs[0]
    for x in inputs[1:]:
        total = add(total, x)
    return total
