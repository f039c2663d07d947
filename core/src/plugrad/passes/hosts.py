"""Host values as additional results of a graph, so that a backward pass that recomputes parts reuses them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from plugrad.graph.graph import Call, Cond, Graph, HostValue, Scan, Step, Value
from plugrad.kernels import creation
from plugrad.passes.dead import has_effect
from plugrad.types.dtype import bool_
from plugrad.types.specs import Shaped

if TYPE_CHECKING:
    from collections.abc import Iterable

    from plugrad.graph.graph import SourceLine


def return_host_values(graph: Graph) -> Graph:
    """Return a graph whose additional results are the values of its host functions, in order.

    Those in the body of a loop are stacked by round. A choice gives those of both functions, zeros for the one that
    has not run. A loop of unknown length gives its last carry, because the number of its rounds is not known.
    """
    specs = dict(graph.specs)
    steps: list[Step] = []
    found: list[Value] = []
    for step in graph.steps:
        if isinstance(step, HostValue) or not has_effect(step):
            found += step.outputs if isinstance(step, HostValue) else ()
        elif isinstance(step, Scan):
            body = return_host_values(step.body)
            drawn = [body.specs[value] for value in body.results[len(step.body.results) :]]
            more = _add_values(specs, [Shaped((step.length, *s.shape), s.dtype) for s in drawn])
            step = replace(step, body=body, outputs=(*step.outputs, *more))
            found += more
        elif isinstance(step, Cond):
            branches = return_host_values_from_branches(*step.branches, step.line)
            drawn = [branches[0].specs[v] for v in branches[0].results[len(step.outputs) :]]
            more = _add_values(specs, drawn)
            step = replace(step, branches=branches, outputs=(*step.outputs, *more))
            found += more
        else:
            found += step.outputs
        steps.append(step)
    return replace(graph, specs=specs, steps=tuple(steps), results=(*graph.results, *found))


def return_host_values_from_branches(
    yes_branch: Graph, no_branch: Graph, source_line: SourceLine
) -> tuple[Graph, Graph]:
    """Return both branches of a conditional, with the host values of the yes and then of the no branch as results."""
    first, second = return_host_values(yes_branch), return_host_values(no_branch)
    of_first = [first.specs[value] for value in first.results[len(yes_branch.results) :]]
    of_second = [second.specs[value] for value in second.results[len(no_branch.results) :]]
    return (
        _insert_zero_results(first, of_second, len(first.results), source_line),
        _insert_zero_results(second, of_first, len(no_branch.results), source_line),
    )


def _insert_zero_results(
    graph: Graph, zero_specs: Iterable[Shaped], result_index: int, source_line: SourceLine
) -> Graph:
    """Return a graph with zeros of the given specs inserted among its results at an index."""
    zero_specs, specs = list(zero_specs), dict(graph.specs)
    values = _add_values(specs, zero_specs)
    steps = list(graph.steps)
    for value, spec in zip(values, zero_specs, strict=True):
        number = False if spec.dtype is bool_ else 0
        attrs = {"shape": spec.shape, "value": number, "dtype": spec.dtype}
        steps.append(Call(creation.fill, (), attrs, (value,), False, source_line))
    results = (*graph.results[:result_index], *values, *graph.results[result_index:])
    return replace(graph, specs=specs, steps=tuple(steps), results=results)


def _add_values(specs: dict[Value, Shaped], new_specs: Iterable[Shaped]) -> list[Value]:
    """Add new values with the given specs to `specs`, and return the values."""
    start = max(specs, default=-1) + 1
    new = dict(enumerate(new_specs, start))
    specs.update(new)
    return [*new]
