"""Bypassed broadcasts: elementwise calls read the input of a broadcast, so that no program writes its repetitions.

The gradient of a sum is such a repetition, of one number.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from plugrad.extend import Call, Kernel, broadcast, remove_dead_steps
from plugrad.kernels import binary, movement

if TYPE_CHECKING:
    from plugrad.extend import Graph, Step, Value

BROADCASTING_KERNELS: Final[frozenset[Kernel[..., Any]]] = frozenset(
    [k for k in vars(binary).values() if isinstance(k, Kernel) and k.is_elementwise]
)
"""The kernels that broadcast their inputs themselves."""


def bypass_broadcasts(graph: Graph) -> Graph:
    """Return the graph with elementwise calls that read the inputs of broadcasts, where results stay the same."""
    sources: dict[Value, Value] = {}
    steps: list[Step] = []
    for step in graph.steps:
        if isinstance(step, Call):
            if step.kernel is movement.broadcast_to:
                (source,) = step.inputs
                assert source is not None
                sources[step.outputs[0]] = source
            elif step.kernel in BROADCASTING_KERNELS and not sources.keys().isdisjoint(step.inputs):
                step = _replace_broadcast_inputs(step, graph, sources)
        steps.append(step)
    if all(new is old for new, old in zip(steps, graph.steps, strict=True)):
        return graph
    # What calls the program gives it all variables, also those that no step reads.
    return replace(remove_dead_steps(replace(graph, steps=tuple(steps))), variables=graph.variables)


def _replace_broadcast_inputs(
    step: Call, graph: Graph, broadcast_sources: dict[Value, Value]
) -> Call:
    """Return a call that reads the sources of broadcasts, as far as its result keeps its shape."""
    shape, inputs = graph.specs[step.outputs[0]].shape, [*step.inputs]
    for place, value in enumerate(step.inputs):
        source = broadcast_sources.get(value) if value is not None else None
        if source is not None:
            changed = [*inputs[:place], source, *inputs[place + 1 :]]
            if broadcast(*[graph.specs[v].shape for v in changed if v is not None]) == shape:
                inputs = changed
    return replace(step, inputs=tuple(inputs)) if inputs != [*step.inputs] else step
