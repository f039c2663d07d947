"""Arithmetic, comparisons and logic, element by element."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

import plugrad
from plugrad_onnx.elements import as_array, as_tensor
from plugrad_onnx.operators.common import cast_like_input, is_string, number_like
from plugrad_onnx.registry import operator

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad import Tensor
    from plugrad_onnx.registry import HostArray

UNARY_OPS = {
    "Abs": plugrad.abs,
    "Acos": plugrad.acos,
    "Acosh": plugrad.acosh,
    "Asin": plugrad.asin,
    "Asinh": plugrad.asinh,
    "Atan": plugrad.atan,
    "Atanh": plugrad.atanh,
    "BitwiseNot": plugrad.bitwise_invert,
    "Ceil": plugrad.ceil,
    "Cos": plugrad.cos,
    "Cosh": plugrad.cosh,
    "Erf": plugrad.erf,
    "Exp": plugrad.exp,
    "Floor": plugrad.floor,
    "IsNaN": plugrad.isnan,
    "Log": plugrad.log,
    "Neg": plugrad.negative,
    "Not": plugrad.logical_not,
    "Reciprocal": plugrad.reciprocal,
    "Round": plugrad.round,
    "Sign": plugrad.sign,
    "Sin": plugrad.sin,
    "Sinh": plugrad.sinh,
    "Sqrt": plugrad.sqrt,
    "Tan": plugrad.tan,
}
"""plugrad's op for each ONNX operator of one input."""
BINARY_OPS = {
    "Add": plugrad.add,
    "And": plugrad.logical_and,
    "BitwiseAnd": plugrad.bitwise_and,
    "BitwiseOr": plugrad.bitwise_or,
    "BitwiseXor": plugrad.bitwise_xor,
    "Greater": plugrad.greater,
    "GreaterOrEqual": plugrad.greater_equal,
    "Less": plugrad.less,
    "LessOrEqual": plugrad.less_equal,
    "Mul": plugrad.multiply,
    "Or": plugrad.logical_or,
    "Sub": plugrad.subtract,
    "Xor": plugrad.logical_xor,
}
"""plugrad's op for each ONNX operator of two inputs."""
VARIADIC_OPS = {"Max": plugrad.maximum, "Min": plugrad.minimum, "Sum": plugrad.add}
"""plugrad's op of two inputs for each ONNX operator of any number of inputs."""


def _declare_operator(operator_name: str, function: Callable[..., Any]) -> None:
    """Register an operator that is a single op."""
    if operator_name in UNARY_OPS:

        @operator(operator_name, layout="elementwise")
        def unary(x: Tensor) -> Tensor:
            return function(x)

    elif operator_name in BINARY_OPS:

        @operator(operator_name)
        def legacy_binary(
            a: Tensor, b: Tensor, *, axis: int | None = None, broadcast: int = 0
        ) -> Tensor:
            return function(a, _align_first_axis(b, a.ndim, axis))

        @operator(operator_name, since=7, layout="elementwise")
        def binary(a: Tensor, b: Tensor) -> Tensor:
            return function(a, b)

    else:

        @operator(operator_name, layout="elementwise")
        def fold(*inputs: Tensor) -> Tensor:
            return reduce(function, inputs)


for _name, _compute in {**UNARY_OPS, **BINARY_OPS, **VARIADIC_OPS}.items():
    _declare_operator(_name, _compute)


@operator("Equal", layout="elementwise")
def equal(a: Tensor, b: Tensor) -> Tensor:
    """Compare elements; strings are compared on the host."""
    if is_string(a):
        return as_tensor(as_array(a) == as_array(b), a.device)
    return plugrad.equal(a, b)


@operator("Div")
def legacy_div(a: Tensor, b: Tensor, *, axis: int | None = None, broadcast: int = 0) -> Tensor:
    """Divide; the axes of b are aligned with those of a from `axis` on."""
    return div(a, _align_first_axis(b, a.ndim, axis))


@operator("Div", since=7, layout="elementwise")
def div(a: Tensor, b: Tensor) -> Tensor:
    """Divide; integer quotients are rounded towards zero."""
    if not a.dtype.is_integer:
        return plugrad.divide(a, b)
    quotient = plugrad.floor_divide(a, b)
    if str(a.dtype).startswith("u"):
        return quotient
    inexact = plugrad.not_equal(plugrad.multiply(quotient, b), a)
    negative = plugrad.not_equal(
        plugrad.less(a, number_like(0, a)), plugrad.less(b, number_like(0, b))
    )
    below = plugrad.logical_and(inexact, negative)
    return plugrad.add(quotient, plugrad.astype(below, a.dtype))


@operator("Mod", layout="elementwise")
def mod(a: Tensor, b: Tensor, *, fmod: int = 0) -> Tensor:
    """Return the remainder with the sign of the divisor, or with `fmod` the sign of the dividend."""
    if not fmod:
        return plugrad.remainder(a, b)
    size = plugrad.remainder(plugrad.abs(a), plugrad.abs(b))
    return plugrad.where(plugrad.less(a, number_like(0, a)), plugrad.negative(size), size)


@operator("Pow", layout="elementwise")
def power(x: Tensor, exponent: Tensor) -> Tensor:
    """Raise to a power; the result has the dtype of the base."""
    if not x.dtype.is_inexact and exponent.dtype.is_inexact:
        return plugrad.astype(plugrad.pow(plugrad.astype(x, exponent.dtype), exponent), x.dtype)
    return plugrad.pow(x, cast_like_input(exponent, x))


@operator("Mean", layout="elementwise")
def mean(*inputs: Tensor) -> Tensor:
    """Return the mean of the inputs."""
    total = reduce(plugrad.add, inputs)
    return plugrad.divide(total, number_like(len(inputs), total))


@operator("Where")
def where(condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Select elements of x or y; strings are selected on the host."""
    if is_string(x):
        return as_tensor(np.where(as_array(condition), as_array(x), as_array(y)), x.device)
    return plugrad.where(condition, x, y)


@operator("IsInf", layout="elementwise")
def is_inf(x: Tensor, *, detect_negative: int = 1, detect_positive: int = 1) -> Tensor:
    """Whether elements are infinite, for one sign or both."""
    found = plugrad.isinf(x)
    if not detect_positive:
        found = plugrad.logical_and(found, plugrad.less(x, number_like(0, x)))
    if not detect_negative:
        found = plugrad.logical_and(found, plugrad.greater(x, number_like(0, x)))
    return found


@operator("BitShift", layout="elementwise")
def bit_shift(x: Tensor, shift_count: Tensor, *, direction: str) -> Tensor:
    """Shift bits to the left or to the right."""
    shift = plugrad.bitwise_left_shift if direction == "LEFT" else plugrad.bitwise_right_shift
    return shift(x, shift_count)


@operator("Clip", layout="elementwise")
def clip_by_attributes(x: Tensor, *, min: float | None = None, max: float | None = None) -> Tensor:
    """Clip elements to a range given by attributes."""
    return plugrad.clip(x, min, max)


@operator("Clip", since=11, layout="elementwise")
def clip(x: Tensor, min: Tensor | None = None, max: Tensor | None = None) -> Tensor:
    """Clip elements to a range; if min > max, the result is max."""
    x = x if min is None else plugrad.maximum(x, min)
    return x if max is None else plugrad.minimum(x, max)


@operator("CumSum")
def cumulative_sum(x: Tensor, axis: HostArray, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
    """Return the cumulative sum along an axis."""
    where = int(axis.ravel()[0])
    total = plugrad.cumulative_sum(x, axis=where, exclusive=bool(exclusive), reverse=bool(reverse))
    return cast_like_input(total, x)


@operator("CumProd")
def cumulative_product(
    x: Tensor, axis: HostArray, *, exclusive: int = 0, reverse: int = 0
) -> Tensor:
    """Return the cumulative product along an axis."""
    where = int(axis.ravel()[0])
    total = plugrad.cumulative_prod(x, axis=where, exclusive=bool(exclusive), reverse=bool(reverse))
    return cast_like_input(total, x)


def _align_first_axis(b: Tensor, rank: int, axis: int | None) -> Tensor:
    """Reshape b so that its first axis broadcasts with `axis` of a tensor of `rank`, as before opset 7."""
    if axis is None:
        return b
    return plugrad.reshape(b, b.shape + (1,) * (rank - axis % rank - b.ndim))
