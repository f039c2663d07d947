"""Dead code: steps whose outputs nobody uses."""

from __future__ import annotations

from dataclasses import replace

from plugrad.graph.graph import Call, Graph, HostValue, Step, Value


def remove_dead_steps(graph: Graph, *, keeps_effects: bool = True) -> Graph:
    """Return the graph without steps that contribute to neither a result nor a variable.

    Host values stay unless `keeps_effects` is False, because their functions count: the next random number depends on
    how many were drawn.
    """
    live: set[Value | None] = {*graph.results, *(value for _, value in graph.updates)}
    kept: list[Step] = []
    for step in reversed(graph.steps):
        if not live.isdisjoint(step.outputs) or (keeps_effects and has_effect(step)):
            live.update(step.inputs)
            kept.append(step)
    live.update(graph.arguments)
    return replace(
        graph,
        steps=tuple(reversed(kept)),
        constants={v: x for v, x in graph.constants.items() if v in live},
        variables={v: x for v, x in graph.variables.items() if v in live},
    )


def has_effect(step: Step) -> bool:
    """Return whether a step is or contains a `HostValue`, whose function must run even if nothing reads it."""
    if type(step) is Call:
        return False
    return isinstance(step, HostValue) or any(map(has_effect, inner_steps(step)))


def inner_steps(step: Step) -> tuple[Step, ...]:
    """Return all steps in the subgraphs of a step."""
    return tuple(inner for graph in step.graphs for inner in graph.steps)
