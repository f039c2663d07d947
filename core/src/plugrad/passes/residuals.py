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
from plugrad.passes.common import find_call, find_or_record_call
from plugrad.passes.dead import remove_dead_steps
from plugrad.types.specs import Shaped

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from plugrad.contract.kernel import Kernel

KEPT_VALUES_MAX_BYTES: Final = 1 << 24
"""The most bytes of values that one loop stores for a later loop."""
_COMPARED_CONSTANTS_MAX_BYTES: Final = 4096
"""The most bytes of a constant that is compared by its elements; larger ones are compared by identity."""
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
"""The kernels that take about as long as reading their stored results would."""


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
    loops = [index for index, step in enumerate(graph.steps) if isinstance(step, Scan)]
    if len(loops) < 2:
        return graph
    steps, specs = [*graph.steps], dict(graph.specs)
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
    earlier_loop: Scan, later_loop: Scan, specs: dict[Value, Shaped]
) -> tuple[Scan, Scan] | None:
    """Return both loops, changed so that the earlier one stores what the later one would recompute, or None."""
    if earlier_loop.length != later_loop.length:
        return None
    carries = len(earlier_loop.carry)
    stacked = dict(
        zip(earlier_loop.body.results[carries:], earlier_loop.outputs[carries:], strict=True)
    )
    same = _match_loop_inputs(earlier_loop, later_loop, stacked)
    repeated = _find_recomputed_calls(earlier_loop.body, later_loop.body, same) if same else {}
    body = later_loop.body
    needed = {
        v for step in body.steps if repeated.keys().isdisjoint(step.outputs) for v in step.inputs
    }
    needed.update(body.results)
    kept = sorted(_choose_stored_values(repeated, needed, body.specs))
    sizes = [prod(body.specs[v].shape) * body.specs[v].dtype.itemsize for v in kept]
    if not kept or earlier_loop.length * sum(sizes) > KEPT_VALUES_MAX_BYTES:
        return None
    added: dict[Value, Value] = {}
    """The values that the first loop did not stack, and what they are stacked to."""
    for value in kept:
        if same[value] not in stacked:
            shape, dtype = body.specs[value]
            stacked[same[value]] = added[same[value]] = max(specs) + 1
            specs[added[same[value]]] = Shaped((earlier_loop.length, *shape), dtype)
    ends = len(later_loop.carry) + len(later_loop.slices)
    arguments = (*body.arguments[:ends], *kept, *body.arguments[ends:])
    steps = tuple([step for step in body.steps if {*kept}.isdisjoint(step.outputs)])
    return (
        replace(
            earlier_loop,
            body=replace(earlier_loop.body, results=(*earlier_loop.body.results, *added)),
            outputs=(*earlier_loop.outputs, *added.values()),
        ),
        replace(
            later_loop,
            body=remove_dead_steps(replace(body, arguments=arguments, steps=steps)),
            slices=(*later_loop.slices, *[stacked[same[v]] for v in kept]),
        ),
    )


def _match_loop_inputs(
    earlier_loop: Scan, later_loop: Scan, stacked_outputs: Mapping[Value, Value]
) -> dict[Value, Value]:
    """Map values of the later loop's body to the values of the earlier one's body that they equal in each iteration.

    `stacked_outputs` maps values of the earlier body to the outputs that stack them.
    """
    carries, ends = len(earlier_loop.carry), len(earlier_loop.carry) + len(earlier_loop.slices)
    in_rounds = dict(
        zip(earlier_loop.slices, earlier_loop.body.arguments[carries:ends], strict=True)
    )
    in_rounds.update((outer, inner) for inner, outer in stacked_outputs.items())
    captured = dict(zip(earlier_loop.captured, earlier_loop.body.arguments[ends:], strict=True))
    carries, ends = len(later_loop.carry), len(later_loop.carry) + len(later_loop.slices)
    same = {
        argument: in_rounds[value]
        for value, argument in zip(
            later_loop.slices, later_loop.body.arguments[carries:ends], strict=True
        )
        if value in in_rounds
    }
    if not same:
        return same
    for value, argument in zip(later_loop.captured, later_loop.body.arguments[ends:], strict=True):
        if value in captured:
            same[argument] = captured[value]
    known = {_constant_key(x): value for value, x in earlier_loop.body.constants.items()}
    for value, x in later_loop.body.constants.items():
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
    earlier_body: Graph, later_body: Graph, equal_values: dict[Value, Value]
) -> dict[Value, Call]:
    """Return the calls of the later body that the earlier one also makes, by output; add these to `equal_values`."""
    known: dict[Any, Call] = {}
    for step in earlier_body.steps:
        if isinstance(step, Call):
            find_or_record_call(step, known)
    repeated: dict[Value, Call] = {}
    for step in later_body.steps:
        if (
            not isinstance(step, Call)
            or step.returns_list
            or not equal_values.keys() >= {*step.inputs} - {None}
        ):
            continue
        inputs = tuple([None if v is None else equal_values[v] for v in step.inputs])
        call = find_call(replace(step, inputs=inputs), known)
        if call is not None:
            equal_values[step.outputs[0]] = call.outputs[0]
            repeated[step.outputs[0]] = step
    return repeated


def _choose_stored_values(
    recomputed_calls: Mapping[Value, Call],
    needed_values: Iterable[Value | None],
    specs: Mapping[Value, Shaped],
) -> frozenset[Value]:
    """Choose the values to store so that no costly call is recomputed, with as few bytes as possible."""
    chosen: dict[Value, frozenset[Value]] = {}

    def nbytes(values: Iterable[Value]) -> int:
        return sum(prod(specs[v].shape) * specs[v].dtype.itemsize for v in values)

    for value, call in recomputed_calls.items():
        own = frozenset([value])
        if call.kernel in _CHEAP_KERNELS:
            before = frozenset[Value]().union(
                *[chosen.get(v, ()) for v in call.inputs if v is not None]
            )
            chosen[value] = before if nbytes(before) <= nbytes(own) else own
        else:
            chosen[value] = own
    return frozenset[Value]().union(*[chosen.get(v, ()) for v in needed_values if v is not None])
