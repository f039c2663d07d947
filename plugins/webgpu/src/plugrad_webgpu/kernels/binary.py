"""Elementwise kernels of two or three inputs, with broadcasting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from plugrad.extend import BFLOAT16, bool_, complex64, float16, float32, int32, int64, uint32
from plugrad.kernels import binary
from plugrad_webgpu.algorithms.bodies import integers_only, maximum, minimum
from plugrad_webgpu.algorithms.expressions import (
    elementwise,
    per_inexact_dtype,
    per_number_dtype,
    per_real_dtype,
)
from plugrad_webgpu.declare import table
from plugrad_webgpu.shaders.elements import NUMBER_DTYPES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from plugrad.extend import DType
    from plugrad_webgpu.algorithms.bodies import HostFunction
    from plugrad_webgpu.memory.buffers import GpuArray

PRODUCT_EXPRESSIONS = per_number_dtype("a * b") | {
    int64: "product_i64(a, b)",
    complex64: "complex_product(a, b)",
}
"""The WGSL product of the elements `a` and `b`, by dtype."""
MAXIMUM_EXPRESSIONS = per_real_dtype("maximum(a, b)", "max(a, b)", "max(a, b)", "maximum_i64(a, b)")
"""The WGSL maximum of the elements `a` and `b`, by dtype."""
MINIMUM_EXPRESSIONS = per_real_dtype("minimum(a, b)", "min(a, b)", "min(a, b)", "minimum_i64(a, b)")
"""The WGSL minimum of the elements `a` and `b`, by dtype."""


def make_arithmetic(
    expression: str | dict[DType, str],
    body: HostFunction | Mapping[DType, HostFunction] | None = None,
) -> Callable[..., GpuArray]:
    """Return the implementation of a WGSL expression in `a` and `b`; `body` is its NumPy function."""
    table_of = per_number_dtype(expression) if isinstance(expression, str) else expression
    return elementwise(table_of, ("a", "b"), body=body)


def make_comparison(
    operator: str, body: HostFunction, other_expressions: Mapping[DType, str] | None = None
) -> Callable[..., GpuArray]:
    """Return the implementation of a comparison by a WGSL operator, by expressions for other dtypes, and by NumPy."""
    table_of = (
        per_number_dtype(f"a {operator} b")
        | {bool_: f"u32(a) {operator} u32(b)"}
        | dict(other_expressions or {})
    )
    return elementwise(table_of, ("a", "b"), result=bool_, body=body)


def make_logical(expression: str, body: HostFunction) -> Callable[..., GpuArray]:
    """Return the implementation of a WGSL expression in the bools `a` and `b`; `body` is its NumPy function."""
    return elementwise({bool_: expression}, ("a", "b"), body=body)


add: Final = make_arithmetic(
    per_number_dtype("a + b") | {int64: "sum_i64(a, b)", complex64: "a + b"}, np.add
)
"""The implementation that adds two arrays with broadcasting."""

table.update(
    {
        # arithmetic
        binary.add: add,
        binary.subtract: make_arithmetic(
            per_number_dtype("a - b") | {int64: "difference_i64(a, b)", complex64: "a - b"},
            np.subtract,
        ),
        binary.multiply: make_arithmetic(PRODUCT_EXPRESSIONS, np.multiply),
        binary.divide: make_arithmetic(per_inexact_dtype("divide(a, b)", "complex_quotient(a, b)")),
        binary.floor_divide: make_arithmetic(
            {
                float32: "floor_divide(a, b)",
                int32: "floor_divide_i32(a, b)",
                uint32: "floor_divide_u32(a, b)",
                int64: "floor_divide_i64(a, b)",
            },
            integers_only(np.floor_divide),
        ),
        binary.remainder: make_arithmetic(
            {
                float32: "remainder(a, b)",
                int32: "remainder_i32(a, b)",
                uint32: "remainder_u32(a, b)",
                int64: "remainder_i64(a, b)",
            },
            integers_only(np.remainder),
        ),
        binary.power: make_arithmetic(
            per_inexact_dtype("power(a, b)", "complex_power(a, b)")
            | {int32: "power_i32(a, b)", uint32: "power_u32(a, b)", int64: "power_i64(a, b)"}
        ),
        binary.squared_difference: make_arithmetic(
            per_number_dtype("(a - b) * (a - b)")
            | {int64: "square_i64(difference_i64(a, b))", complex64: "complex_square(a - b)"}
        ),
        binary.maximum: make_arithmetic(MAXIMUM_EXPRESSIONS, maximum),
        binary.minimum: make_arithmetic(MINIMUM_EXPRESSIONS, minimum),
        binary.atan2: make_arithmetic({float32: "atan2_accurate(a, b)"}),
        binary.hypot: make_arithmetic({float32: "hypotenuse(a, b)"}),
        binary.log_add_exp: make_arithmetic({float32: "log_add_exp(a, b)"}),
        binary.next_after: make_arithmetic(
            {
                float32: "next_after(a, b)",
                float16: "next_half_after(a, b)",
                BFLOAT16: "next_brain_after(a, b)",
            }
        ),
        # comparison
        binary.equal: make_comparison(
            "==", np.equal, {int64: "is_equal_i64(a, b)", complex64: "a.x == b.x && a.y == b.y"}
        ),
        # In a shader, != is false where one side is NaN.
        binary.not_equal: elementwise(
            per_number_dtype("a != b")
            | {
                float32: "a != b || is_nan(a) || is_nan(b)",
                bool_: "a != b",
                int64: "!is_equal_i64(a, b)",
                complex64: "a.x != b.x || a.y != b.y || complex_is_nan(a) || complex_is_nan(b)",
            },
            ("a", "b"),
            result=bool_,
            body=np.not_equal,
        ),
        binary.greater: make_comparison(">", np.greater, {int64: "is_less_i64(b, a)"}),
        binary.greater_equal: make_comparison(
            ">=", np.greater_equal, {int64: "!is_less_i64(a, b)"}
        ),
        binary.less: make_comparison("<", np.less, {int64: "is_less_i64(a, b)"}),
        binary.less_equal: make_comparison("<=", np.less_equal, {int64: "!is_less_i64(b, a)"}),
        # logic
        binary.logical_and: make_logical("a && b", np.logical_and),
        binary.logical_or: make_logical("a || b", np.logical_or),
        binary.logical_xor: make_logical("a != b", np.logical_xor),
        # choices
        binary.select: elementwise(
            dict.fromkeys((*NUMBER_DTYPES, bool_, int64, complex64), "select(e, t, condition)"),
            ("condition", "t", "e"),
            body=np.where,
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
