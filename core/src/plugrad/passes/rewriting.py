"""Helpers of passes that replace values: renamed inputs, new steps, changed subgraphs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from plugrad.graph.graph import Call, Cond, Fused, Graph, HostValue, Scan, Step, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


def rename_inputs(step: Step, replacements: Mapping[Value, Value]) -> Step:
    """Return a step whose inputs are exchanged for their replacements, if they have one."""
    if (
        not replacements
        or isinstance(step, HostValue)
        or replacements.keys().isdisjoint(step.inputs)
    ):
        return step

    def rename_values(values: tuple[Value, ...]) -> tuple[Value, ...]:
        return tuple([replacements.get(value, value) for value in values])

    if isinstance(step, Call):
        inputs = tuple(
            [None if value is None else replacements.get(value, value) for value in step.inputs]
        )
        return replace(step, inputs=inputs)
    if isinstance(step, Fused):
        body = step.body
        specs = {**body.specs, **{replacements.get(v, v): body.specs[v] for v in body.arguments}}
        steps = [rename_inputs(each, replacements) for each in body.steps]
        changed = replace(body, specs=specs, arguments=rename_values(body.arguments))
        return replace(step, body=with_steps(changed, steps, replacements))
    if isinstance(step, Cond):
        flag = replacements.get(step.flag, step.flag)
        return replace(step, flag=flag, operands=rename_values(step.operands))
    carry, captured = rename_values(step.carry), rename_values(step.captured)
    if isinstance(step, Scan):
        return replace(step, carry=carry, slices=rename_values(step.slices), captured=captured)
    return replace(step, carry=carry, captured=captured)


def with_steps(graph: Graph, steps: Sequence[Step], replacements: Mapping[Value, Value]) -> Graph:
    """Return the graph with new steps, and with replaced values in its results and updates."""
    return replace(
        graph,
        steps=tuple(steps),
        results=tuple([replacements.get(value, value) for value in graph.results]),
        updates=tuple(
            [(variable, replacements.get(value, value)) for variable, value in graph.updates]
        ),
    )


def map_bodies(step: Step, function: Callable[[Graph], Graph]) -> Step:
    """Return a step with a function applied to each of its subgraphs."""
    if isinstance(step, Call | HostValue):
        return step
    if isinstance(step, Cond):
        first, second = step.branches
        return replace(step, branches=(function(first), function(second)))
    if isinstance(step, Scan | Fused):
        return replace(step, body=function(step.body))
    return replace(step, condition=function(step.condition), body=function(step.body))
