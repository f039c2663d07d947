"""Residuals of loops: values of each iteration that a later loop over the same iterations would recompute.

Such a later one is the gradient of a `scan`. Its body begins with the rounds of the `scan`, from the carry that was
kept. What is costly there, such as products, is kept instead, as far as it takes little memory.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from plugrad.graph.graph import Call, Graph, Scan, Value
from plugrad.kernels import activation, binary, creation, movement, unary
from plugrad.passes.common import find_call, record_call_by_key
from plugrad.passes.dead import remove_dead_steps
from plugrad.types.specs import Shaped

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from plugrad.contract.kernel import Kernel

KEPT_VALUES_MAX_BYTES: Final = 1 << 24
"""The most bytes that a loop keeps for a later one."""
_COMPARED_CONSTANTS_MAX_BYTES: Final = 4096
"""The most bytes of constants whose elements are compared."""
_CHEAP_KERNELS: Final[frozenset[Kernel[..., Any]]] = frozenset(
    {
        *(unary.identity, unary.cast, unary.negative, unary.abs, unary.square, unary.sign),
        *(unary.sqrt, unary.reciprocal, unary.step, unary.logical_not),
        *(binary.add, binary.subtract, binary.multiply, binary.divide, binary.select),
        *(binary.maximum, binary.minimum, binary.squared_difference),
        *(binary.equal, binary.not_equal, binary.greater, binary.greater_equal),
        *(binary.less, binary.less_equal),
        *(binary.logical_and, binary.logical_or, binary.logical_xor),
        *(activation.relu, activation.relu6, activation.leaky_relu),
        *(creation.fill, creation.ones_like, creation.zeros_like),
        *(movement.broadcast_to, movement.reshape, movement.expand_dims, movement.transpose),
        *(movement.slice, movement.reverse, movement.concat, movement.pad),
    }
)
"""The kernels that take about as long as reading what they have made."""


def keep_residuals(graph: Graph) -> Graph:
    """Return the graph with loops that store values which later loops over the same iterations would recompute.

    Only what is costly is kept, of one loop for another at most 16 MB.

    >>> from plugrad.extend import keep_residuals
    >>> step = lambda x, _: (plugrad.tanh(x), None)
    >>> grow = plugrad.grad(lambda x: plugrad.scan(step, x, length=3)[0])
    >>> graph = plugrad.make_graph(grow)(plugrad.asarray(1.0))
    >>> [call.kernel.name for call in graph.steps[-1].body.steps]
    ['Multiply', 'Sub', 'Multiply']
    """
    steps = [*graph.steps]
    specs = dict(graph.specs)
    loops = [index for index, step in enumerate(steps) if isinstance(step, Scan)]
    has_changed = False
    for place, index in enumerate(loops):
        for earlier in loops[:place]:
            first, then = steps[earlier], steps[index]
            assert isinstance(first, Scan)
            assert isinstance(then, Scan)
            changed = _keep_residuals_for(first, then, specs)
            if changed is not None:
                steps[earlier], steps[index] = changed
                has_changed = True
    return replace(graph, steps=tuple(steps), specs=specs) if has_changed else graph


def _keep_residuals_for(
    first: Scan, then: Scan, specs: dict[Value, Shaped]
) -> tuple[Scan, Scan] | None:
    """Return two loops, the first of which stores values that the second would recompute; None if there are none."""
    if first.length != then.length:
        return None
    carries = len(first.carry)
    stacked = dict(zip(first.body.results[carries:], first.outputs[carries:], strict=True))
    same = _match_loop_inputs(first, then, stacked)
    repeated = _find_recomputed_calls(first.body, then.body, same) if same else {}
    body = then.body
    needed = {
        v for step in body.steps if repeated.keys().isdisjoint(step.outputs) for v in step.inputs
    }
    needed.update(body.results)
    kept = sorted(_choose_stored_values(repeated, needed, body.specs))
    sizes = [prod(body.specs[v].shape) * body.specs[v].dtype.itemsize for v in kept]
    if not kept or first.length * sum(sizes) > KEPT_VALUES_MAX_BYTES:
        return None
    added: dict[Value, Value] = {}
    """The values that the first loop did not stack, and what they are stacked to."""
    for value in kept:
        if same[value] not in stacked:
            shape, dtype = body.specs[value]
            stacked[same[value]] = added[same[value]] = max(specs) + 1
            specs[added[same[value]]] = Shaped((first.length, *shape), dtype)
    ends = len(then.carry) + len(then.slices)
    arguments = (*body.arguments[:ends], *kept, *body.arguments[ends:])
    steps = tuple([step for step in body.steps if {*kept}.isdisjoint(step.outputs)])
    return (
        replace(
            first,
            body=replace(first.body, results=(*first.body.results, *added)),
            outputs=(*first.outputs, *added.values()),
        ),
        replace(
            then,
            body=remove_dead_steps(replace(body, arguments=arguments, steps=steps)),
            slices=(*then.slices, *[stacked[same[v]] for v in kept]),
        ),
    )


def _match_loop_inputs(
    first: Scan, then: Scan, stacked: Mapping[Value, Value]
) -> dict[Value, Value]:
    """Map inputs of the later loop's body to the values of the first loop's body that they equal in every round."""
    carries, ends = len(first.carry), len(first.carry) + len(first.slices)
    in_rounds = dict(zip(first.slices, first.body.arguments[carries:ends], strict=True))
    in_rounds.update((outer, inner) for inner, outer in stacked.items())
    captured = dict(zip(first.captured, first.body.arguments[ends:], strict=True))
    carries, ends = len(then.carry), len(then.carry) + len(then.slices)
    same = {
        argument: in_rounds[value]
        for value, argument in zip(then.slices, then.body.arguments[carries:ends], strict=True)
        if value in in_rounds
    }
    if not same:
        return same
    for value, argument in zip(then.captured, then.body.arguments[ends:], strict=True):
        if value in captured:
            same[argument] = captured[value]
    known = {_constant_key(x): value for value, x in first.body.constants.items()}
    for value, x in then.body.constants.items():
        key = _constant_key(x)
        if key in known:
            same[value] = known[key]
    return same


def _constant_key(x: Any) -> tuple[Any, ...]:
    """Return a key that equal constants share: the bytes of small NumPy arrays, else the identity."""
    if isinstance(x, np.ndarray):
        array = cast("NDArray[Any]", x)  # whose dtype the test does not tell
        if array.nbytes <= _COMPARED_CONSTANTS_MAX_BYTES and not array.dtype.hasobject:
            return array.shape, array.dtype.str, array.tobytes()
    return (id(x),)


def _find_recomputed_calls(
    first: Graph, then: Graph, same: dict[Value, Value]
) -> dict[Value, Call]:
    """Return the calls of the second body that the first also makes, by output; they are added to `same`."""
    known: dict[Any, Call] = {}
    for step in first.steps:
        if isinstance(step, Call):
            record_call_by_key(step, known)
    repeated: dict[Value, Call] = {}
    for step in then.steps:
        if (
            not isinstance(step, Call)
            or step.returns_list
            or not same.keys() >= {*step.inputs} - {None}
        ):
            continue
        inputs = tuple([None if v is None else same[v] for v in step.inputs])
        call = find_call(replace(step, inputs=inputs), known)
        if call is not None:
            same[step.outputs[0]] = call.outputs[0]
            repeated[step.outputs[0]] = step
    return repeated


def _choose_stored_values(
    repeated: Mapping[Value, Call],
    needed: Iterable[Value | None],
    specs: Mapping[Value, Shaped],
) -> frozenset[Value]:
    """Choose the values to store so that no costly call is recomputed, with as few bytes as possible."""
    chosen: dict[Value, frozenset[Value]] = {}

    def nbytes(values: Iterable[Value]) -> int:
        return sum(prod(specs[v].shape) * specs[v].dtype.itemsize for v in values)

    for value, call in repeated.items():
        own = frozenset([value])
        if call.kernel in _CHEAP_KERNELS:
            before = frozenset[Value]().union(
                *[chosen.get(v, ()) for v in call.inputs if v is not None]
            )
            chosen[value] = before if nbytes(before) <= nbytes(own) else own
        else:
            chosen[value] = own
    return frozenset[Value]().union(*[chosen.get(v, ()) for v in needed if v is not None])
