"""Calls of C as data: the function, and an operand for each of its arguments."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from plugrad_native.variants import current_variant

if TYPE_CHECKING:
    from plugrad.extend import Call, Shape, Value
    from plugrad_native.declare import Array


class InputOperand(NamedTuple):
    """An operand of a C call: the array of a value that the call reads."""

    value: Value
    """The value of the graph."""


class OutputOperand(NamedTuple):
    """An operand of a C call: the array of a value that the call writes."""

    value: Value
    """The value of the graph."""


class OffsetOperand(NamedTuple):
    """An operand of a C call: the part of a value's array after an offset."""

    value: Value
    """The value of the graph."""
    offset_bytes: int
    """The bytes of the array before the part."""


class StridedView(NamedTuple):
    """Where the elements of a slice lie in the array of another value."""

    base: Value
    """The value whose array has the elements."""
    offset_bytes: int
    """The bytes of the array before the first element."""
    shape: Shape
    """The shape of the slice."""
    strides: tuple[int, ...]
    """The elements of the array from one element of the slice to the next, along each axis."""
    is_contiguous: bool
    """Whether the elements follow each other."""


class StepOperand(NamedTuple):
    """An operand of a C call: 1 if a value has an element for each element of the result, 0 if it is one number."""

    value: Value
    """The value of the graph."""


class ConstantOperand(NamedTuple):
    """An operand of a C call: a constant array of the program."""

    array: Array
    """The array, which the program keeps alive."""


class ScratchOperand(NamedTuple):
    """An operand of a C call: scratch memory."""

    nbytes: int
    """The size of the scratch memory."""


class CountOperand(NamedTuple):
    """An operand: the number of elements of an elementwise call, or the number of items times a factor."""

    factor: int = 0
    """The factor of the number of items, or 0 for the number of elements."""


SymbolicOperand: TypeAlias = (
    InputOperand
    | OutputOperand
    | OffsetOperand
    | StepOperand
    | ConstantOperand
    | ScratchOperand
    | CountOperand
)
"""An operand that becomes an address or a number when the call is written to a program."""
Operand: TypeAlias = SymbolicOperand | tuple[InputOperand | OutputOperand, ...] | int | float | None
"""Any operand of a C call."""


class CCall(NamedTuple):
    """A call of a C function of the extension."""

    function: str
    """The name of the function."""
    operands: tuple[Operand, ...]
    """The operands, one for each argument of the function."""


class UfuncCall(NamedTuple):
    """A call of an inner loop of a NumPy ufunc: elementwise, or generalized with sizes and steps in bytes."""

    ufunc: np.ufunc
    """The ufunc of NumPy."""
    loop_index: int
    """The index of the loop for the dtypes among the ufunc's loops."""
    operands: tuple[InputOperand | ConstantOperand | OutputOperand, ...]
    """The inputs, followed by the results."""
    loop_sizes: tuple[int, ...] = ()
    """The core dimensions of a generalized ufunc, such as rows and columns."""
    step_bytes: tuple[int, ...] = ()
    """The strides of a generalized ufunc's operands, in bytes."""


AnyCall: TypeAlias = CCall | UfuncCall
"""A call of a C function or of a ufunc's loop."""


def get_inputs(call: Call) -> list[Value]:
    """Return the inputs of a call of a kernel without optional inputs."""
    return [value for value in call.inputs if value is not None]


@cache
def find_ufunc_loop(ufunc: np.ufunc, *dtypes: np.dtype[Any]) -> int | None:
    """Return the index of a ufunc's inner loop for given input and result dtypes, or None."""
    for number, types in enumerate(ufunc.types):
        inputs, _, outputs = types.partition("->")
        characters = inputs + outputs
        if len(characters) == len(dtypes) and all(
            c == d.char or (c not in "OMmV" and np.dtype(c) == d)
            for c, d in zip(characters, dtypes, strict=True)
        ):
            return number
    return None


def check_c_function(name: str) -> str:
    """Return the name after a check that the extension has such a function.

    Raises:
        AttributeError: it has none.
    """
    current_variant().kernel(name)
    return name
