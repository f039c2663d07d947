"""Fusion: steps of a graph are joined to steps that a device can run as one."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING

from plugrad.errors import ArgumentValueError
from plugrad.graph.graph import Call, Fused, Graph, Step, Value
from plugrad.passes.dead import has_effect
from plugrad.passes.groups import find_groups, find_readers, sort_by_dependencies

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Sequence


def fuse_groups(
    graph: Graph,
    *,
    is_included: Callable[[Call], bool] | None = None,
    loop_key: Callable[[Call], Hashable] | None = None,
    fits: Callable[[Call, Sequence[Call]], bool] | None = None,
    min_calls: int = 2,
) -> Graph:
    """Return the graph with each group of calls as one step; the arguments choose the groups, as in `find_groups`.

    Steps with effects, such as host values, stay in their order, and groups that would change it as they are.

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
    """
    found = find_groups(
        graph, is_included=is_included, loop_key=loop_key, fits=fits, min_calls=min_calls
    )
    return fuse_steps(graph, _drop_cyclic_groups(graph, [group.steps for group in found]))


def _drop_cyclic_groups(
    graph: Graph, groups: Sequence[tuple[int, ...]]
) -> Sequence[tuple[int, ...]]:
    """Return the groups whose fusion would not reorder steps with effects."""
    unit = {index: group[-1] for group in groups for index in group}
    makers = {v: unit.get(i, i) for i, step in enumerate(graph.steps) for v in step.outputs}
    before: dict[int, set[int]] = {}
    for index, step in enumerate(graph.steps):
        own = unit.get(index, index)
        needed = {makers[v] for v in step.inputs if v in makers}
        before.setdefault(own, set()).update(needed - {own})
    for earlier, later in pairwise([i for i, step in enumerate(graph.steps) if has_effect(step)]):
        before[later].add(earlier)
    stuck = set(unit.values()) - set(sort_by_dependencies(before))
    if not stuck:
        return groups
    return _drop_cyclic_groups(graph, [group for group in groups if group[-1] != min(stuck)])


def fuse_steps(graph: Graph, groups: Sequence[Sequence[int]]) -> Graph:
    """Return the graph with each group of steps fused into one.

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
    read = find_readers(graph)
    units: list[tuple[int, Step]] = []
    for index, step in enumerate(graph.steps):
        number = group_of.get(index)
        if number is None:
            units.append((index, step))
        elif index == groups[number][-1]:
            units.append((index, _fuse_calls(graph, groups[number], read)))
    return replace(graph, steps=tuple(_sort_topologically(units)))


def fuse_regions(graph: Graph, is_included: Callable[[Step], bool]) -> Graph:
    """Return the graph with all included steps fused into as few steps as their order allows.

    Steps with effects, such as host values, stay in their order; others keep no order but that of what they need.

    >>> from plugrad.extend import Call, fuse_regions
    >>> graph = plugrad.make_graph(lambda x: plugrad.sum(plugrad.exp(x * 2) + x))(plugrad.ones(3))
    >>> (step,) = fuse_regions(graph, lambda step: isinstance(step, Call)).steps
    >>> len(step.body.steps)
    4
    """
    makers = {value: index for index, step in enumerate(graph.steps) for value in step.outputs}
    before = [{makers[v] for v in step.inputs if v in makers} for step in graph.steps]
    for earlier, later in pairwise([i for i, step in enumerate(graph.steps) if has_effect(step)]):
        before[later].add(earlier)
    left = list(range(len(graph.steps)))
    included = [is_included(step) for step in graph.steps]
    order: list[int] = []
    done: set[int] = set()
    regions: list[list[int]] = []
    is_region = False
    while left:
        taken: list[int] = []
        for index in left:
            if included[index] is is_region and before[index] <= done:
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


def _fuse_calls(
    graph: Graph, step_indices: Collection[int], readers: dict[Value, set[int]]
) -> Fused:
    """Return several steps as one fused step; constants that they read become part of its body."""
    steps = [graph.steps[i] for i in step_indices]
    made = dict.fromkeys(value for step in steps for value in step.outputs)
    inputs = dict.fromkeys(v for step in steps for v in step.inputs if v is not None)
    constants = {v: graph.constants[v] for v in inputs if v in graph.constants}
    own_steps = set(step_indices)
    return Fused(
        Graph(
            graph.backend,
            graph.specs,
            tuple([v for v in inputs if v not in made and v not in constants]),
            tuple(steps),
            tuple([v for v in made if readers.get(v, set()) - own_steps]),
            MappingProxyType(constants),
        ),
        steps[-1].line,
    )


def _sort_topologically(indexed_steps: Sequence[tuple[int, Step]]) -> list[Step]:
    """Return (index, step) pairs as topologically sorted steps; of several possible next steps, the earliest is first.

    Those with effects stay in their order.
    """
    step_at = dict(indexed_steps)
    makers = {v: index for index, step in indexed_steps for v in step.outputs}
    before = {i: {makers[v] for v in step.inputs if v in makers} - {i} for i, step in indexed_steps}
    for earlier, later in pairwise(sorted(i for i, step in indexed_steps if has_effect(step))):
        before[later].add(earlier)
    order = sort_by_dependencies(before)
    if len(order) < len(indexed_steps):
        stuck = next(step for i, step in indexed_steps if i not in order)
        raise ArgumentValueError(
            f"fuse_steps: the steps cannot be joined, because they need each other: {stuck}"
        )
    return [step_at[index] for index in order]
