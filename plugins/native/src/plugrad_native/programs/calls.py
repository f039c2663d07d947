"""Calls of C as data: the function, and what stands for each of its arguments."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from plugrad_native.variants import current_variant

if TYPE_CHECKING:
    from plugrad.extend import Call, Value
    from plugrad_native.declare import Array


class Read(NamedTuple):
    """The array of a value."""

    value: Value


class Written(NamedTuple):
    """The array of a value that the call makes."""

    value: Value


class Part(NamedTuple):
    """What lies behind an offset in the array of a value, which a call reads or makes."""

    value: Value
    offset: int


class Step(NamedTuple):
    """1 if a value has an element for each one of the result, 0 if it is one number."""

    value: Value


class Constant(NamedTuple):
    """An array that is a part of the program."""

    array: Array


class Scratch(NamedTuple):
    """Memory that the call may use."""

    nbytes: int


class Count(NamedTuple):
    """The number of elements that an elementwise call computes at a time, or of items times a factor."""

    factor: int = 0


Special: TypeAlias = "Read | Written | Part | Step | Constant | Scratch | Count"
Operand: TypeAlias = "Special | tuple[Read | Written, ...] | int | float | None"


class CCall(NamedTuple):
    """A call of a function of the extension."""

    function: str
    operands: tuple[Operand, ...]


class UfuncCall(NamedTuple):
    """A call of a loop of a ufunc of NumPy: an elementwise one, or a generalized one with sizes and steps in bytes."""

    ufunc: np.ufunc
    loop: int
    operands: tuple[Read | Constant | Written, ...]
    sizes: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()


AnyCall: TypeAlias = CCall | UfuncCall


def inputs_of(call: Call) -> list[Value]:
    """Return the inputs of a call of a kernel that has no optional ones."""
    return [value for value in call.inputs if value is not None]


@cache
def find_loop(ufunc: np.ufunc, *dtypes: np.dtype[Any]) -> int | None:
    """Return the number of the loop of a ufunc for the dtypes of its inputs and its result, or None."""
    for number, types in enumerate(ufunc.types):
        inputs, _, outputs = types.partition("->")
        characters = inputs + outputs
        if len(characters) == len(dtypes) and all(
            c == d.char or (c not in "OMmV" and np.dtype(c) == d)
            for c, d in zip(characters, dtypes, strict=True)
        ):
            return number
    return None


def c_function(name: str) -> str:
    """Return a name, after making sure that the extension has the function.

    Raises:
        AttributeError: it has none.
    """
    current_variant().kernel(name)
    return name
