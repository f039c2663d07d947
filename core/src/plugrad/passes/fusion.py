"""Fusion: steps of a graph are joined to steps that a device can run as one."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from plugrad.errors import ArgumentValueError
from plugrad.graph.graph import Call, Fused, Graph, HostValue, Step, Value
from plugrad.passes.groups import find_groups

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence


def fuse_groups(
    graph: Graph, *, is_included: Callable[[Call], bool] | None = None, min_calls: int = 2
) -> Graph:
    """Return the graph with each group of elementwise calls, see `find_groups`, as one step.

    >>> from plugrad.extend import fuse_groups
    >>> graph = plugrad.make_graph(lambda x: plugrad.sum(plugrad.exp(x * 2) + x))(plugrad.ones(3))
    >>> print(fuse_groups(graph))
    graph on cpu:0 (%0: float32[3])
      %1 = constant 2.0  float32[]
      %4 = 3 steps as one, of (%0)  float32[3]
        do (%0: float32[3])
          %1 = constant 2.0  float32[]
          %2 = Multiply(%0, %1)  float32[3]
          %3 = Exp(%2)  float32[3]
          %4 = Add(%3, %0)  float32[3]
        give %4
      %5 = Sum(%4, axis=(0,), keep_dims=False)  float32[]
    return %5

    Args:
        graph: the graph.
        is_included: says whether an elementwise call may belong to a group; by default, all may.
        min_calls: the least number of calls in a group.
    """
    found = find_groups(graph, is_included=is_included, min_calls=min_calls)
    return fuse_steps(graph, [group.steps for group in found])


def fuse_steps(graph: Graph, groups: Sequence[Sequence[int]]) -> Graph:
    """Return the graph with some of its steps joined, each time several to one.

    >>> from plugrad.extend import fuse_steps
    >>> graph = plugrad.make_graph(lambda x: plugrad.sum(plugrad.exp(x * 2) + x))(plugrad.ones(3))
    >>> [len(step.outputs) for step in fuse_steps(graph, [[1, 3]]).steps]
    Traceback (most recent call last):
    plugrad.errors.ArgumentValueError: fuse_steps: the steps cannot be joined, because they need each other: ...

    Args:
        graph: the graph.
        groups: the positions of the steps that become one, in their order; a step is in one group at most.

    Raises:
        ArgumentValueError: a group needs what a step outside it makes of its results.
    """
    group_of = {index: number for number, group in enumerate(groups) for index in group}
    if not group_of:
        return graph
    read = _readers(graph)
    units: list[tuple[tuple[int, ...], Step]] = []
    for index, step in enumerate(graph.steps):
        number = group_of.get(index)
        if number is None:
            units.append(((index,), step))
        elif index == groups[number][-1]:
            units.append((tuple(groups[number]), _fused(graph, groups[number], read)))
    return replace(graph, steps=tuple(_sorted(units)))


def fuse_regions(graph: Graph, is_included: Callable[[Step], bool]) -> Graph:
    """Return the graph with all steps of a kind joined to as few steps as their order allows.

    Host values come first, in their order; other steps keep no order but that of what they need.

    >>> from plugrad.extend import Call, fuse_regions
    >>> graph = plugrad.make_graph(lambda x: plugrad.sum(plugrad.exp(x * 2) + x))(plugrad.ones(3))
    >>> (step,) = fuse_regions(graph, lambda step: isinstance(step, Call)).steps
    >>> len(step.body.steps)
    4
    """
    makers = {value: index for index, step in enumerate(graph.steps) for value in step.outputs}
    left = list(range(len(graph.steps)))
    order = [i for i in left if isinstance(graph.steps[i], HostValue)]
    done = set(order)
    left = [i for i in left if i not in done]
    regions: list[list[int]] = []
    is_region = False
    while left:
        taken: list[int] = []
        for index in left:
            step = graph.steps[index]
            needs = {makers[v] for v in step.inputs if v is not None and v in makers}
            if is_included(step) is is_region and needs <= done:
                taken.append(index)
                done.add(index)
        if is_region and taken:
            regions.append(taken)
        order += taken
        left = [i for i in left if i not in done]
        is_region = not is_region
    positions = {index: place for place, index in enumerate(order)}
    sorted_graph = replace(graph, steps=tuple([graph.steps[i] for i in order]))
    return fuse_steps(sorted_graph, [[positions[i] for i in region] for region in regions])


def _readers(graph: Graph) -> dict[Value, set[int]]:
    """Return the positions of the steps that read each value; results and variables read after the last one."""
    read: dict[Value, set[int]] = {}
    for index, step in enumerate(graph.steps):
        for value in step.inputs:
            if value is not None:
                read.setdefault(value, set()).add(index)
    for value in (*graph.results, *(value for _, value in graph.updates)):
        read.setdefault(value, set()).add(len(graph.steps))
    return read


def _fused(graph: Graph, indices: Collection[int], read: dict[Value, set[int]]) -> Fused:
    """Return some steps as one; constants that they read are the body's own."""
    steps = [graph.steps[i] for i in indices]
    made = dict.fromkeys(value for step in steps for value in step.outputs)
    inputs = dict.fromkeys(v for step in steps for v in step.inputs if v is not None)
    constants = {v: graph.constants[v] for v in inputs if v in graph.constants}
    return Fused(
        Graph(
            graph.backend,
            graph.specs,
            tuple([v for v in inputs if v not in made and v not in constants]),
            tuple(steps),
            tuple([v for v in made if read.get(v, set()) - set(indices)]),
            MappingProxyType(constants),
        ),
        steps[-1].line,
    )


def _sorted(units: Sequence[tuple[tuple[int, ...], Step]]) -> list[Step]:
    """Return steps in an order in which each comes after those that make its inputs, the first possible one first."""
    makers = {v: n for n, (_, step) in enumerate(units) for v in step.outputs}
    order: list[int] = []
    state: dict[int, bool] = {}
    """Whether a unit is done; False while what it needs is being sorted."""

    def visit(number: int) -> None:
        stack = [(number, iter(units[number][1].inputs))]
        state[number] = False
        while stack:
            number, inputs = stack[-1]
            for value in inputs:
                other = makers.get(value) if value is not None else None
                if other is None or state.get(other):
                    continue
                if other in state:
                    raise ArgumentValueError(
                        "fuse_steps: the steps cannot be joined, because they need each other: "
                        f"{units[number][1]} and {units[other][1]}"
                    )
                state[other] = False
                stack.append((other, iter(units[other][1].inputs)))
                break
            else:
                stack.pop()
                state[number] = True
                order.append(number)

    for number in sorted(range(len(units)), key=lambda n: units[n][0][0]):
        if number not in state:
            visit(number)
    return [units[number][1] for number in order]
