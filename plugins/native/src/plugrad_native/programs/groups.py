"""Groups of elementwise calls as calls of C: repeated numbers are not written out, products with 1 are left out."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from plugrad.extend import Call, Shaped, count_elements
from plugrad.kernels import binary, movement, unary
from plugrad_native.declare import describe_broadcast
from plugrad_native.programs.calls import (
    AnyCall,
    CCall,
    ConstantOperand,
    CountOperand,
    InputOperand,
    OutputOperand,
    StepOperand,
    StridedView,
    UfuncCall,
    get_inputs,
)
from plugrad_native.programs.elementwise import lower_elementwise
from plugrad_native.programs.lowering import C_EXPAND

if TYPE_CHECKING:
    from collections.abc import Mapping

    from plugrad.extend import Graph, Value
    from plugrad_native.programs.calls import Operand

    Specs = Mapping[Value, Shaped]
    """The type of the shapes and dtypes of a graph's values, by value."""

_BITWISE_EQUAL_KERNELS: Final = frozenset(
    {unary.negative, binary.add, binary.subtract, binary.multiply, binary.divide}
)
"""The kernels whose result has the same bits for a single number as for an element of an array."""


def is_repeated_number(call: Call, specs: Specs) -> bool:
    """Return whether a kernel call broadcasts a single number, which loops can read directly."""
    if call.kernel is not movement.broadcast_to:
        return False
    (x,), (y,) = get_inputs(call), call.outputs
    dtype = specs[y].dtype
    is_known = dtype.itemsize in C_EXPAND and dtype.name != "string"
    return is_known and count_elements(specs[x].shape) == 1 and count_elements(specs[y].shape) > 0


def can_join_loop(step: object, specs: Specs) -> bool:
    """Return whether a step can be part of an elementwise loop: an elementwise call, or a broadcast number."""
    return isinstance(step, Call) and (
        step.kernel.is_elementwise or is_repeated_number(step, specs)
    )


NO_VIEWS: Final[Mapping[Value, StridedView]] = MappingProxyType({})
"""An empty mapping from values to slices."""


class GroupCalls(NamedTuple):
    """The C calls of a group."""

    setup_calls: list[AnyCall]
    """The calls that compute single numbers, which run once, before the loop over the elements."""
    loop_calls: list[AnyCall]
    """The calls that run for each block of elements."""
    number_specs: dict[Value, Shaped]
    """The shapes and dtypes of the numbers that the setup calls compute, by value."""
    views: Mapping[Value, StridedView]
    """The slices that the calls read where they lie, by value."""


def lower_group(
    body: Graph, specs: Specs, views: Mapping[Value, StridedView] = NO_VIEWS
) -> GroupCalls:
    """Return the C calls of a group of elementwise calls and broadcast numbers, which read slices as `views` says."""
    lowering = _GroupLowering(body, specs, views)
    for step in body.steps:
        assert isinstance(step, Call)
        if step.outputs[0] not in views:
            lowering.add(step)
    return lowering.found


class _GroupLowering:
    """Collects the C calls of a group."""

    def __init__(self, body: Graph, specs: Specs, views: Mapping[Value, StridedView]) -> None:
        self.body, self.specs = body, specs
        self.found = GroupCalls([], [], {}, views)
        self.numbers: dict[Value, Value] = {}
        """The number that all elements of a value are."""
        self.written: set[Value] = set()
        """The values that the loop makes."""
        self.names: dict[Value, Value] = {}
        """What stands for a value that is equal to it."""

    def add(self, call: Call) -> None:
        """Add the C calls of a kernel call to the group."""
        (y,), inputs = call.outputs, get_inputs(call)
        is_kept = y in self.body.results
        if is_repeated_number(call, self.specs):
            self.numbers[y] = self.numbers.get(inputs[0], inputs[0])
            if is_kept:
                self._expand_number(y)
            return
        made = lower_elementwise(call, self.specs)
        assert made is not None
        is_number = any(v in self.numbers for v in inputs) and all(map(self._is_scalar, inputs))
        if is_number and call.kernel in _BITWISE_EQUAL_KERNELS:
            number = self.numbers[y] = min(*self.specs, *self.found.number_specs, 0) - 1
            self.found.number_specs[number] = Shaped((), self.specs[y].dtype)
            self.found.setup_calls.extend(_rename_values(each, self.numbers) for each in made)
            if is_kept:
                self._expand_number(y)
            return
        same = None if is_kept else self._find_unit_product_factor(call)
        if same is not None:
            self.names[y] = same
            return
        for each in made:
            has_steps = isinstance(each, UfuncCall) or any(
                isinstance(o, StepOperand) for o in each.operands
            )
            if has_steps and not is_number:
                self.found.loop_calls.append(_rename_values(each, self.names | self.numbers))
                continue
            for v in inputs:  # which are read element by element
                if v in self.numbers and v not in self.written:
                    self._expand_number(v)
            self.found.loop_calls.append(_rename_values(each, self.names))
        self.written.add(y)

    def _is_scalar(self, value: Value) -> bool:
        """Return whether a value is one number for all elements."""
        return value in self.numbers or (
            value not in self.written and count_elements(self.specs[value].shape) == 1
        )

    def _expand_number(self, value: Value) -> None:
        """Write a number to all elements of a value's array, for calls that read it element by element."""
        shape, dtype = self.specs[value]
        descriptor = ConstantOperand(describe_broadcast(shape, ()))
        operands = (
            InputOperand(self.numbers[value]),
            OutputOperand(value),
            CountOperand(),
            0,
            descriptor,
        )
        self.found.loop_calls.append(CCall(C_EXPAND[dtype.itemsize], operands))
        self.written.add(value)

    def _find_unit_product_factor(self, call: Call) -> Value | None:
        """Return the other factor if a call multiplies by 1 and the loop has computed that factor, else None.

        An argument of the group is no such factor: a result may take its memory after the last call that reads it. A
        product of complex numbers with 1 is not always the other factor: -0 times 1 and 0 times 0 add up to 0.
        """
        is_complex = self.specs[call.outputs[0]].dtype.kind == "complex"
        if call.kernel is not binary.multiply or is_complex:
            return None
        a, b = get_inputs(call)
        for one, x in ((a, b), (b, a)):
            number = self.body.constants.get(self.numbers.get(one, one))
            is_one = number is not None and np.size(number) == 1 and bool(np.all(number == 1))
            name = self.names.get(x, x)
            if is_one and name in self.written and x not in self.numbers:
                return name
        return None


def _rename_values(call: AnyCall, replacements: Mapping[Value, Value]) -> AnyCall:
    """Return a C call in which operands refer to other values, as `replacements` says."""
    operands = [_rename_operand_value(operand, replacements) for operand in call.operands]
    return call._replace(operands=tuple(operands))


def _rename_operand_value(operand: Operand, replacements: Mapping[Value, Value]) -> Operand:
    """Return an operand that refers to another value, if `replacements` has one for its value."""
    if isinstance(operand, InputOperand | OutputOperand | StepOperand):
        return type(operand)(replacements.get(operand.value, operand.value))
    return operand
