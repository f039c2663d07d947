"""Arithmetic, comparisons, logic and activations, element by element."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from plugrad.graph_models.registry import register_operator
from plugrad.ops import activation, binary, bitwise, complex as complex_ops, unary

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad.graph_models.registry import HostArray
    from plugrad.tensor.tensor import Tensor

UNARY_OPS: dict[str, Callable[[Any], Any]] = {
    "Abs": unary.abs, "Acos": unary.acos, "Acosh": unary.acosh, "Asin": unary.asin, "Asinh": unary.asinh,
    "Atan": unary.atan, "Atanh": unary.atanh, "Ceil": unary.ceil, "ComplexAbs": unary.abs, "Cos": unary.cos,
    "Cosh": unary.cosh, "Elu": activation.elu, "Erf": unary.erf, "Exp": unary.exp, "Expm1": unary.expm1,
    "Floor": unary.floor, "Imag": complex_ops.imag, "IsFinite": unary.isfinite, "IsInf": unary.isinf,
    "IsNan": unary.isnan, "Log": unary.log, "Log1p": unary.log1p, "LogicalNot": unary.logical_not,
    "Neg": unary.negative, "Real": complex_ops.real, "Reciprocal": unary.reciprocal, "Relu": activation.relu,
    "Relu6": activation.relu6, "Round": unary.round, "Rsqrt": unary.rsqrt, "Selu": activation.selu,
    "Sigmoid": activation.sigmoid, "Sign": unary.sign, "Sin": unary.sin, "Sinh": unary.sinh,
    "Softplus": activation.softplus, "Sqrt": unary.sqrt, "Square": unary.square, "Tan": unary.tan,
    "Tanh": unary.tanh,
}  # fmt: skip
"""The op for each elementwise operator of one input."""
BINARY_OPS: dict[str, Callable[[Any, Any], Any]] = {
    "Add": binary.add, "AddV2": binary.add, "Atan2": binary.atan2, "BiasAdd": binary.add,
    "BitwiseAnd": bitwise.bitwise_and, "Complex": complex_ops.complex, "DivNoNan": binary.div_no_nan,
    "Equal": binary.equal, "FloorDiv": binary.floor_divide, "FloorMod": binary.remainder,
    "Greater": binary.greater, "GreaterEqual": binary.greater_equal, "Less": binary.less,
    "LessEqual": binary.less_equal, "LogicalAnd": binary.logical_and, "LogicalOr": binary.logical_or,
    "Maximum": binary.maximum, "Minimum": binary.minimum, "Mod": binary.remainder, "Mul": binary.multiply,
    "NotEqual": binary.not_equal, "Pow": binary.pow, "Prelu": activation.prelu,
    "SquaredDifference": binary.squared_difference, "Sub": binary.subtract,
}  # fmt: skip
"""The op for each elementwise operator of two inputs."""


def _declare_unary(operator_name: str, compute: Callable[[Any], Any]) -> None:
    """Register an op as the implementation of an operator of one input."""

    @register_operator(operator_name)
    def apply(x: Tensor) -> Tensor:
        return compute(x)


def _declare_binary(operator_name: str, compute: Callable[[Any, Any], Any]) -> None:
    """Register an op as the implementation of an operator of two inputs."""

    @register_operator(operator_name)
    def apply(a: Tensor, b: Tensor) -> Tensor:
        return compute(a, b)


for _operator_name, _unary in UNARY_OPS.items():
    _declare_unary(_operator_name, _unary)
for _operator_name, _binary in BINARY_OPS.items():
    _declare_binary(_operator_name, _binary)


@register_operator("AddN")
def add_n(*tensors: Tensor) -> Tensor:
    """Return the sum of the inputs."""
    return binary.add_n(tensors)


@register_operator("Div", "RealDiv")
def divide(a: Tensor, b: Tensor) -> Tensor:
    """Return the quotient; integer quotients are rounded down, as in TensorFlow.js."""
    both = a.dtype.is_integer and b.dtype.is_integer
    return binary.floor_divide(a, b) if both else binary.divide(a, b)


@register_operator("ClipByValue")
def clip(x: Tensor, low: HostArray, high: HostArray) -> Tensor:
    """Clip the elements to a range."""
    return binary.clip(x, low.item(), high.item())


@register_operator("LeakyRelu")
def leaky_relu(x: Tensor, *, alpha: float = 0.2) -> Tensor:
    """Multiply negative elements by a slope."""
    return activation.leaky_relu(x, alpha)


@register_operator("SelectV2")
def where(condition: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Select elements of a or b."""
    return binary.where(condition, a, b)


@register_operator("Select")
def where_rows(condition: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Select elements of a or b, or rows if the condition has one dimension."""
    if condition.ndim == 1 and a.ndim > 1:
        condition = condition.reshape((condition.shape[0], *(1,) * (a.ndim - 1)))
    return binary.where(condition, a, b)
