"""Groups: elementwise calls that one loop over the elements can make, without writing what only they read."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from plugrad.graph.graph import Call, Graph, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from plugrad.types.specs import Shape


@dataclass(frozen=True, slots=True)
class Group:
    """Calls that are one step, with all that they need from outside and give to it; by default elementwise ones."""

    steps: tuple[int, ...]
    """The positions of the calls among the steps of the graph, in their order."""
    shape: Shape
    """The shape of the first result; by default that of all, to which inputs from outside broadcast."""
    inputs: tuple[Value, ...]
    """What the calls read and none of them makes."""
    outputs: tuple[Value, ...]
    """What the calls make, and a step outside the group, a result or a variable reads."""


def find_groups(
    graph: Graph,
    *,
    is_included: Callable[[Call], bool] | None = None,
    fits: Callable[[Call, Sequence[Call]], bool] | None = None,
    min_calls: int = 2,
) -> tuple[Group, ...]:
    """Return the largest groups of elementwise calls that may run at one point of the program.

    A call belongs to at most one group. Each group can run as one step: none of its calls needs what another step, or
    another group, makes of the results of the group.

    >>> from plugrad.extend import find_groups
    >>> graph = plugrad.make_graph(lambda x: plugrad.sum(plugrad.exp(x * 2) + x))(plugrad.ones(3))
    >>> find_groups(graph)
    (Group(steps=(0, 1, 2), shape=(3,), inputs=(0, 1), outputs=(4,)),)

    Args:
        graph: the graph.
        is_included: says whether a call with one output may belong to a group; by default, elementwise ones may.
        fits: says whether a call may join others, one of which makes an input of it; by default, the results of all
            calls of a group have one shape.
        min_calls: the least number of calls in a group.
    """
    included = is_included or _is_elementwise
    specs = graph.specs
    groups: list[list[int]] = []
    group_of: dict[Value, int] = {}
    """The group that makes a value."""
    needed: dict[Value, set[int]] = {}
    """The groups without whose results a value cannot be made; for one that a group makes, this group."""
    needed_by_group: list[set[int]] = []

    def needs(group: int, other: int) -> bool:
        """Return whether a group needs another one, be it through a third."""
        seen, left = {group}, [group]
        while left:
            for each in needed_by_group[left.pop()] - seen:
                seen.add(each)
                left.append(each)
        return other in seen

    for index, step in enumerate(graph.steps):
        values = [value for value in step.inputs if value is not None]
        behind = set[int]().union(*[needed.get(value, ()) for value in values])
        if not isinstance(step, Call) or step.returns_list or not included(step):
            needed.update((value, behind) for value in step.outputs)
            continue
        (output,) = step.outputs
        shape = specs[output].shape
        chosen = len(groups)
        for group in sorted({group_of[v] for v in values if v in group_of}, reverse=True):
            others = [needed.get(v, set()) for v in values if group_of.get(v) != group]
            is_fitting = (
                specs[graph.steps[groups[group][0]].outputs[0]].shape == shape
                if fits is None
                else fits(step, [s for i in groups[group] if isinstance(s := graph.steps[i], Call)])
            )
            if is_fitting and not any(needs(g, group) for g in set[int]().union(*others)):
                chosen = group
                break
        else:
            groups.append([])
            needed_by_group.append(set())
        groups[chosen].append(index)
        needed_by_group[chosen] |= behind - {chosen}
        group_of[output] = chosen
        needed[output] = {chosen}
    read = find_readers(graph)
    return tuple([_group(graph, steps, read) for steps in groups if len(steps) >= min_calls])


def _is_elementwise(call: Call) -> bool:
    return call.kernel.is_elementwise


def sort_units(before: Mapping[int, set[int]]) -> list[int]:
    """Return numbers in an order in which those before each come first, the lowest first; none that is in a circle."""
    after: dict[int, list[int]] = {}
    for index, others in before.items():
        for other in others:
            after.setdefault(other, []).append(index)
    missing = {index: len(others) for index, others in before.items()}
    ready = [index for index, count in missing.items() if not count]
    heapify(ready)
    order: list[int] = []
    while ready:
        order.append(heappop(ready))
        for index in after.get(order[-1], ()):
            missing[index] -= 1
            if not missing[index]:
                heappush(ready, index)
    return order


def find_readers(graph: Graph) -> dict[Value, set[int]]:
    """Return the positions of the steps that read each value; results and variables read after the last one."""
    read: dict[Value, set[int]] = {}
    for index, step in enumerate(graph.steps):
        for value in step.inputs:
            if value is not None:
                read.setdefault(value, set()).add(index)
    for value in (*graph.results, *(value for _, value in graph.updates)):
        read.setdefault(value, set()).add(len(graph.steps))
    return read


def _group(graph: Graph, steps: Sequence[int], read: dict[Value, set[int]]) -> Group:
    made = [graph.steps[i].outputs[0] for i in steps]
    inputs = dict.fromkeys(v for i in steps for v in graph.steps[i].inputs if v is not None)
    return Group(
        tuple(steps),
        graph.specs[made[0]].shape,
        tuple([value for value in inputs if value not in made]),
        tuple([value for value in made if read.get(value, set()) - set(steps)]),
    )
