"""Kernels that are one operator of ONNX, and operands in a dtype that an operator takes."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import onnx

from plugrad_onnx.elements import element_type
from plugrad_onnx.exporting.writer import EXPORT_RULES, CallPair, Writer, export_rule

if TYPE_CHECKING:
    from collections.abc import Sequence

DIRECT_OPERATORS: Final = {
    "Abs": "Abs", "Acos": "Acos", "Acosh": "Acosh", "Add": "Add", "AddN": "Sum", "Asin": "Asin",
    "Asinh": "Asinh", "Atan": "Atan", "Atanh": "Atanh", "BitwiseAnd": "BitwiseAnd",
    "BitwiseOr": "BitwiseOr", "BitwiseXor": "BitwiseXor", "Ceil": "Ceil", "Cos": "Cos", "Cosh": "Cosh",
    "Elu": "Elu", "Equal": "Equal", "Erf": "Erf", "Exp": "Exp", "Floor": "Floor", "Gelu": "Gelu",
    "Greater": "Greater", "GreaterEqual": "GreaterOrEqual", "Identity": "Identity",
    "Invert": "BitwiseNot", "IsInf": "IsInf", "IsNan": "IsNaN", "Less": "Less",
    "LessEqual": "LessOrEqual", "Log": "Log", "LogicalAnd": "And", "LogicalNot": "Not",
    "LogicalOr": "Or", "LogicalXor": "Xor", "Maximum": "Max", "Minimum": "Min", "Multiply": "Mul",
    "Neg": "Neg", "Pow": "Pow", "RealDiv": "Div", "Reciprocal": "Reciprocal", "Relu": "Relu",
    "Round": "Round", "Select": "Where", "Sigmoid": "Sigmoid", "Sign": "Sign", "Sin": "Sin",
    "Sinh": "Sinh", "Softplus": "Softplus", "Sqrt": "Sqrt", "Sub": "Sub", "Tan": "Tan", "Tanh": "Tanh",
}  # fmt: skip
"""The operators of kernels that are one operator with the same inputs, by kernel name."""
OPERATORS_OF_BOOLS: Final = {
    "BitwiseAnd": "And",
    "BitwiseOr": "Or",
    "BitwiseXor": "Xor",
    "Invert": "Not",
}
"""The operators of kernels that are another operator for bools, by kernel name."""
ROUNDING_KERNELS: Final = frozenset(["Ceil", "Floor", "Round"])
"""The names of kernels that leave integers as they are, which their operators do not take."""
FIRST_OPSET: Final = 20
"""The oldest opset that is written; later opsets take the same dtypes, or more."""
WIDER_DTYPES: Final = {
    "bool": ("int32", "float32"),
    "int8": ("int32", "float32"),
    "int16": ("int32", "float32"),
    "int32": ("int64", "float32"),
    "int64": ("float32",),
    "uint8": ("int32", "float32"),
    "uint16": ("int32", "float32"),
    "uint32": ("int64", "float32"),
    "uint64": ("int64", "float32"),
    "float16": ("float32",),
    "bfloat16": ("float32",),
}
"""The wider dtypes of each dtype, of which operands are cast to the first one that an operator takes.

Integers wrap around in the cast back. Of 64-bit integers, only tests for NaN and infinity see float32.
"""
ONNX_DTYPE_NAMES: Final = {"float32": "float", "float64": "double"}
"""ONNX's names of dtypes, where they differ from plugrad's."""


@cache
def find_wider_dtype(operator_name: str, dtype_name: str) -> str | None:
    """Return the dtype to which an operator's operands must be cast, or None if it takes them, or no wider dtype."""
    schema = onnx.defs.get_schema(operator_name, FIRST_OPSET)
    kind = schema.inputs[0].type_str
    taken = {
        name
        for constraint in schema.type_constraints
        if constraint.type_param_str == kind
        for name in constraint.allowed_type_strs
    } or {kind}

    def is_taken(name: str) -> bool:
        """Return whether the operator takes the dtype of a name."""
        return f"tensor({ONNX_DTYPE_NAMES.get(name, name)})" in taken

    if is_taken(dtype_name):
        return None
    return next(filter(is_taken, WIDER_DTYPES.get(dtype_name, ())), None)


def emit_widened(
    writer: Writer,
    call: CallPair,
    operator_name: str,
    inputs: Sequence[str],
    outputs: Sequence[str] = (),
    operand_count: int | None = None,
    **attrs: Any,
) -> str:
    """Write a node, with casts around it if the operator does not take the dtype of the call's first input.

    The first `operand_count` inputs are cast, by default all of them. Return the name of the result.
    """
    wider = find_wider_dtype(operator_name, call.dtype(out=False).name)
    if wider is None:
        return writer.emit(operator_name, inputs, outputs, **attrs)
    kind = element_type(np.dtype(wider))
    end = len(inputs) if operand_count is None else operand_count
    operands = [writer.emit("Cast", [name], to=kind) for name in inputs[:end]]
    result = writer.emit(operator_name, [*operands, *inputs[end:]], **attrs)
    return writer.emit("Cast", [result], outputs, to=element_type(call.dtype()))


def write_direct(writer: Writer, call: CallPair, inputs: list[str], outputs: list[str]) -> None:
    """Write a kernel that is one operator."""
    kernel, dtype = call.calls[0].kernel.name, call.dtype(out=False)
    is_integer, is_unsigned = dtype.kind in ("signed", "unsigned"), dtype.kind == "unsigned"
    if (is_integer and kernel in ROUNDING_KERNELS) or (is_unsigned and kernel == "Relu"):
        writer.emit("Identity", inputs, outputs)
    elif dtype.name == "bool" and kernel in OPERATORS_OF_BOOLS:
        writer.emit(OPERATORS_OF_BOOLS[kernel], inputs, outputs)
    else:
        emit_widened(writer, call, DIRECT_OPERATORS[kernel], inputs, outputs)


EXPORT_RULES.update(dict.fromkeys(DIRECT_OPERATORS, write_direct))


@export_rule("IsFinite")
def write_is_finite(writer: Writer, call: CallPair, inputs: list[str], outputs: list[str]) -> None:
    """Write Not of IsInf or IsNaN."""
    tests = [emit_widened(writer, call, name, inputs) for name in ("IsInf", "IsNaN")]
    writer.emit("Not", [writer.emit("Or", tests)], outputs)
