"""Exact algebraic simplification: calls that return an input are dropped, and pairs of calls are merged.

Not a bit may change: ``x + 0`` is no case, because -0.0 + 0 is 0.0. Nor may the layout of an array in memory, because
sums over it and products with it add in the order of the memory on some backends. So where a call copies what it is
given, as ``-(-x)`` does, x must be a *packed* array: one that lies in memory as the copy would, in the order of its
elements and without gaps.
"""

from __future__ import annotations

from dataclasses import replace
from math import copysign, prod
from typing import TYPE_CHECKING, Any, Final

from plugrad.graph.graph import Call, Graph, Step, Value
from plugrad.kernels import binary, complex as complex_numbers, creation, linalg, movement, unary
from plugrad.passes.rewriting import rename_inputs, with_steps

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad.contract.kernel import Kernel
    from plugrad.types.specs import Shape, Shaped

    RewriteRule = Callable[["_KnownValues", Call], Call | Value]
    """A function of a call; it returns a value equal to its output, or a call to make instead, or the call itself."""


def simplify_algebra(graph: Graph) -> Graph:
    """Return the graph without calls that return their input unchanged, and with pairs of movements merged."""
    known_values = _KnownValues(graph)
    steps: list[Step] = []
    for original in graph.steps:
        step = rename_inputs(original, known_values.names)
        if isinstance(step, Call):
            rule = REWRITE_RULES.get(step.kernel)
            if rule is not None:
                result = rule(known_values, step)
                if isinstance(result, Value):
                    known_values.names[step.outputs[0]] = result
                    continue
                step = result
            known_values.record_call(step)
        steps.append(step)
        known_values.has_changed = known_values.has_changed or step is not original
    return (
        with_steps(graph, steps, known_values.names)
        if known_values.has_changed or known_values.names
        else graph
    )


class _KnownValues:
    """The facts known about the values of a graph up to the current step."""

    def __init__(self, graph: Graph) -> None:
        self.specs = graph.specs
        self.names: dict[Value, Value] = {}
        self.makers: dict[Value, Call] = {}
        """The calls that make the values, with one output each."""
        self.contiguous_values: set[Value] = set()
        self.has_changed = False

    def record_call(self, call: Call) -> None:
        """Record a call as the maker of its outputs."""
        if call.returns_list:
            return
        (output,) = call.outputs
        self.makers[output] = call
        kernel = call.kernel
        if kernel.is_elementwise:
            is_contiguous = kernel not in _COMPLEX_PART_KERNELS and all(
                map(self.is_contiguous, call.inputs)
            )
        elif kernel is linalg.matmul:
            is_contiguous = len(self.specs[output].shape) == 2
        else:
            is_contiguous = kernel is creation.fill
        if is_contiguous:
            self.contiguous_values.add(output)

    def is_contiguous(self, value: Value | None) -> bool:
        """Return whether a value is known to be contiguous in memory."""
        return value in self.contiguous_values or (
            value is not None and prod(self.specs[value].shape) == 1
        )

    def find_maker(self, value: Value | None, kernel: Kernel[..., Any]) -> Call | None:
        """Return the call that computes a value if it is a call of `kernel`, else None."""
        step = None if value is None else self.makers.get(value)
        return step if step is not None and step.kernel is kernel else None

    def is_filled(self, value: Value | None, number: int) -> bool:
        """Return whether all elements of a value are known to equal a non-negative number."""
        step = None if value is None else self.makers.get(value)
        if step is None:
            return False
        if step.kernel is creation.fill:
            filled: Any = step.attrs["value"]
            return filled == number and copysign(1, filled) > 0  # x - -0.0 is 0.0 for -0.0
        if step.kernel in _VALUE_PRESERVING_KERNELS:
            return self.is_filled(step.inputs[0], number)
        return step.kernel is (creation.ones_like if number else creation.zeros_like)


_VALUE_PRESERVING_KERNELS: Final = frozenset(
    {movement.broadcast_to, movement.reshape, movement.transpose, movement.expand_dims}
)
"""The kernels whose results hold only elements of their input."""
_COMPLEX_PART_KERNELS: Final = frozenset({complex_numbers.real, complex_numbers.imag})
"""The elementwise kernels whose results may be views that skip every other number in memory."""


# --- what is given back --------------------------------------------------------------------------


def _drop_copy(known_values: _KnownValues, call: Call) -> Call | Value:
    """Replace a call by its input, unless it stops gradients."""
    return call if call.stops_gradient else _first_input(call)


def _drop_if_unchanged(known_values: _KnownValues, call: Call) -> Call | Value:
    """Replace a call by its input if the input already has the result's shape and dtype."""
    x = _first_input(call)
    is_same = known_values.specs[x] == known_values.specs[call.outputs[0]]
    return x if is_same and known_values.is_contiguous(x) else call


def _cancel_inverse(known_values: _KnownValues, call: Call) -> Call | Value:
    """Replace f(f(x)) by x, for an f that is its own inverse."""
    inner = known_values.find_maker(call.inputs[0], call.kernel)
    return (
        _first_input(inner)
        if inner is not None and known_values.is_contiguous(inner.inputs[0])
        else call
    )


def _drop_division_by_one(known_values: _KnownValues, call: Call) -> Call | Value:
    """Replace ``x / 1`` by x."""
    return _drop_identity_element(known_values, call, 1, (1,))


def _drop_product_with_one(known_values: _KnownValues, call: Call) -> Call | Value:
    """Replace ``1 * x`` and ``x * 1`` by x."""
    return _drop_identity_element(known_values, call, 1, (1, 0))


def _drop_difference_with_zero(known_values: _KnownValues, call: Call) -> Call | Value:
    """Replace ``x - 0`` by x."""
    return _drop_identity_element(known_values, call, 0, (1,))


def _drop_identity_element(
    known_values: _KnownValues, call: Call, identity_element: int, input_positions: tuple[int, ...]
) -> Call | Value:
    """Replace a call by its other input if an input at one of the positions is filled with the identity element.

    Complex numbers are left alone: the product of inf and 1 + 0j has a part that is NaN.
    """
    spec = known_values.specs[call.outputs[0]]
    if spec.dtype.kind == "complex":
        return call
    for place in input_positions:
        x = call.inputs[1 - place]
        is_kept = x is not None and known_values.specs[x] == spec and known_values.is_contiguous(x)
        if (
            x is not None
            and is_kept
            and known_values.is_filled(call.inputs[place], identity_element)
        ):
            return x
    return call


# --- movements, which are views where arrays have strides ----------------------------------------


def _merge_reshapes(known_values: _KnownValues, call: Call) -> Call | Value:
    """Merge two reshapes if one only adds or removes axes of size 1, which is a view of any array."""
    x = _first_input(call)
    shape: Shape = call.attrs["shape"]
    specs = known_values.specs
    if specs[x].shape == shape:
        return x
    inner = known_values.find_maker(x, movement.reshape) or known_values.find_maker(
        x, movement.expand_dims
    )
    if inner is None:
        return call
    start, middle = specs[_first_input(inner)], specs[x]
    if _sizes_other_than_1(middle) not in (
        _sizes_other_than_1(start),
        _sizes_other_than_1(specs[call.outputs[0]]),
    ):
        return call
    return _first_input(inner) if start.shape == shape else replace(call, inputs=inner.inputs)


def _sizes_other_than_1(spec: Shaped) -> list[int]:
    return [size for size in spec.shape if size != 1]


def _merge_transposes(known_values: _KnownValues, call: Call) -> Call | Value:
    """Merge two transposes; replace an identity permutation by its input."""
    perm: Shape = call.attrs["perm"]
    inner = known_values.find_maker(call.inputs[0], movement.transpose)
    if inner is not None:
        perm = tuple([inner.attrs["perm"][axis] for axis in perm])
    x = _first_input(inner or call)
    if perm == tuple(range(len(perm))):
        return x
    return call if inner is None else replace(call, inputs=(x,), attrs={"perm": perm})


def _drop_full_slice(known_values: _KnownValues, call: Call) -> Call | Value:
    """Replace a slice of everything by its input."""
    x = _first_input(call)
    return x if known_values.specs[x] == known_values.specs[call.outputs[0]] else call


def _first_input(call: Call) -> Value:
    value = call.inputs[0]
    assert value is not None
    return value


REWRITE_RULES: Final[dict[Kernel[..., Any], RewriteRule]] = {
    unary.identity: _drop_copy,
    unary.cast: _drop_if_unchanged,
    unary.negative: _cancel_inverse,
    unary.logical_not: _cancel_inverse,
    binary.multiply: _drop_product_with_one,
    binary.divide: _drop_division_by_one,
    binary.subtract: _drop_difference_with_zero,
    movement.broadcast_to: _drop_if_unchanged,
    movement.reshape: _merge_reshapes,
    movement.transpose: _merge_transposes,
    movement.slice: _drop_full_slice,
}
"""The rewrite rule to try on a call, by its kernel."""
