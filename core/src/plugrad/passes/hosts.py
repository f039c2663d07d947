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
            more = _new_values(specs, [Shaped((step.length, *s.shape), s.dtype) for s in drawn])
            step = replace(step, body=body, outputs=(*step.outputs, *more))
            found += more
        elif isinstance(step, Cond):
            branches = return_host_values_from_branches(*step.branches, step.line)
            drawn = [branches[0].specs[v] for v in branches[0].results[len(step.outputs) :]]
            more = _new_values(specs, drawn)
            step = replace(step, branches=branches, outputs=(*step.outputs, *more))
            found += more
        else:
            found += step.outputs
        steps.append(step)
    return replace(graph, specs=specs, steps=tuple(steps), results=(*graph.results, *found))


def return_host_values_from_branches(
    yes: Graph, no: Graph, line: SourceLine
) -> tuple[Graph, Graph]:
    """Return both branches of a conditional with the host values of the first and then of the second as results."""
    first, second = return_host_values(yes), return_host_values(no)
    of_first = [first.specs[value] for value in first.results[len(yes.results) :]]
    of_second = [second.specs[value] for value in second.results[len(no.results) :]]
    return (
        _insert_zero_results(first, of_second, len(first.results), line),
        _insert_zero_results(second, of_first, len(no.results), line),
    )


def _insert_zero_results(
    graph: Graph, zeros: Iterable[Shaped], place: int, line: SourceLine
) -> Graph:
    """Return a graph with zeros inserted among its results from an index on."""
    zeros, specs = list(zeros), dict(graph.specs)
    values = _new_values(specs, zeros)
    steps = list(graph.steps)
    for value, spec in zip(values, zeros, strict=True):
        number = False if spec.dtype is bool_ else 0
        attrs = {"shape": spec.shape, "value": number, "dtype": spec.dtype}
        steps.append(Call(creation.fill, (), attrs, (value,), False, line))
    results = (*graph.results[:place], *values, *graph.results[place:])
    return replace(graph, specs=specs, steps=tuple(steps), results=results)


def _new_values(specs: dict[Value, Shaped], added: Iterable[Shaped]) -> list[Value]:
    """Append specs of new values to `specs`, and return the new values."""
    start = max(specs, default=-1) + 1
    new = dict(enumerate(added, start))
    specs.update(new)
    return [*new]
