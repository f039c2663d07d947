"""The removal of `stop_gradient` steps, which programs do not run."""

from __future__ import annotations

from plugrad.graph.graph import Call, Graph, Step, Value
from plugrad.passes.rewriting import map_bodies, rename_inputs, with_steps


def remove_stop_gradients(graph: Graph) -> Graph:
    """Return the graph without `stop_gradient` steps, which are replaced by their inputs."""
    names: dict[Value, Value] = {}
    steps: list[Step] = []
    has_changed = False
    for original in graph.steps:
        step = map_bodies(rename_inputs(original, names), remove_stop_gradients)
        if isinstance(step, Call) and step.stops_gradient:
            (value,) = step.inputs
            assert value is not None
            names[step.outputs[0]] = value
            continue
        steps.append(step)
        has_changed = has_changed or step is not original
    return with_steps(graph, steps, names) if has_changed or names else graph
