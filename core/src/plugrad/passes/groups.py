"""Groups: elementwise calls that one loop over the elements can make, without writing what only they read."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from plugrad.graph.graph import Call, Graph, Step, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

    from plugrad.types.specs import Shape


@dataclass(frozen=True, slots=True)
class Group:
    """Calls that can be fused into one step, with their external inputs and outputs; elementwise calls by default."""

    steps: tuple[int, ...]
    """The positions of the calls among the steps of the graph, in their order."""
    shape: Shape
    """The shape of the first result; by default the shape of all results, to which external inputs broadcast."""
    inputs: tuple[Value, ...]
    """The values that the calls read and that none of them computes."""
    outputs: tuple[Value, ...]
    """The values that the calls compute and that are read by a step outside the group, a result or a variable."""


def find_groups(
    graph: Graph,
    *,
    is_included: Callable[[Call], bool] | None = None,
    loop_key: Callable[[Call], Hashable] | None = None,
    fits: Callable[[Call, Sequence[Call]], bool] | None = None,
    min_calls: int = 2,
) -> tuple[Group, ...]:
    """Return the largest groups of elementwise calls that can run at one point of the program.

    A call belongs to at most one group. Each group can run as one step: none of its calls needs what another step, or
    another group, makes of the results of the group.

    >>> from plugrad.extend import find_groups
    >>> graph = plugrad.make_graph(lambda x: plugrad.sum(plugrad.exp(x * 2) + x))(plugrad.ones(3))
    >>> find_groups(graph)
    (Group(steps=(0, 1, 2), shape=(3,), inputs=(0, 1), outputs=(4,)),)

    Args:
        graph: the graph.
        is_included: says whether a call with one output may belong to a group; by default, elementwise ones may.
        loop_key: returns a key of the loop that can make a call, so that calls with one key may share a group; None if
            only `fits` can decide. By default, the key is the shape of the result.
        fits: says whether a call may join others of another loop, one of which makes an input of it; by default, it
            may not.
        min_calls: the least number of calls in a group.
    """
    included = is_included or _is_elementwise
    found = _GroupBuilder(graph, loop_key, fits)
    for index, step in enumerate(graph.steps):
        if isinstance(step, Call) and not step.returns_list and included(step):
            found.add_call(index, step)
        else:
            found.skip_step(step)
    read = find_readers(graph)
    return tuple(
        [_make_group(graph, steps, read) for steps in found.steps() if len(steps) >= min_calls]
    )


class _GroupBuilder:
    """Groups that grow while the steps of a graph are visited in order; a call can merge the groups that it reads."""

    def __init__(
        self,
        graph: Graph,
        loop_key: Callable[[Call], Hashable] | None,
        fits: Callable[[Call, Sequence[Call]], bool] | None,
    ) -> None:
        self._graph = graph
        self._loop_key = loop_key or self._result_shape
        self._fits = fits
        self._members: dict[int, list[int]] = {}
        """The positions of the calls of each group, under that of its first call."""
        self._last: dict[int, int] = {}
        """The position of the last call of each group."""
        self._starts: list[int] = []
        """The first positions of the stretches over which merged groups extend; overlapping ones are one."""
        self._ends: list[int] = []
        """The last positions of these stretches."""
        self._loops: dict[int, set[Hashable]] = {}
        """The keys of the loops that can make the calls of each group."""
        self._made: dict[Value, int] = {}
        """The group that makes a value; it may have become a part of another one."""
        self._needed: dict[Value, set[int]] = {}
        """The groups that a value needs which no group makes."""
        self._read: dict[int, set[int]] = {}
        """The groups whose results each group reads."""
        self._behind: dict[int, set[int]] = {}
        """The groups that each group needs by way of a step outside."""
        self._parts: dict[int, int] = {}
        """The group of which each one that was joined has become a part."""

    def steps(self) -> list[list[int]]:
        """Return the step indices of each group, ordered by their first steps."""
        return sorted(sorted(members) for members in self._members.values())

    def skip_step(self, step: Step) -> None:
        """Visit a step that belongs to no group."""
        needed = self._groups_needed_by(step.inputs)
        self._needed.update((value, needed) for value in step.outputs)

    def add_call(self, step_index: int, call: Call) -> None:
        """Add a call to a group that it reads, after merging such groups if possible, or start a new group."""
        makers = {self._find_merged_group(self._made[v]) for v in call.inputs if v in self._made}
        needed = self._groups_needed_by(v for v in call.inputs if v not in self._made)
        chosen = step_index
        self._members[step_index], self._last[step_index] = [step_index], step_index
        self._loops[step_index] = {self._loop_key(call)}
        self._read[step_index], self._behind[step_index] = makers, needed
        self._made[call.outputs[0]] = step_index
        for maker in sorted(makers, reverse=True):
            if self._can_join(chosen, maker):
                chosen = self._merge_groups(maker, chosen)

    def _find_merged_group(self, group: int) -> int:
        """Return the group into which a group was merged."""
        while group in self._parts:
            group = self._parts[group]
        return group

    def _groups_needed_by(self, values: Iterable[Value | None]) -> set[int]:
        """Return the groups that compute the values, directly or by way of steps outside of groups."""
        needed: set[int] = set()
        for value in values:
            if value in self._made:
                needed.add(self._find_merged_group(self._made[value]))
            elif value is not None:
                needed |= self._needed.get(value, set())
        return needed

    def _groups_before(self, group: int) -> set[int]:
        """Return the groups that must run before a group."""
        return {self._find_merged_group(g) for g in self._read[group] | self._behind[group]} - {
            group
        }

    def _can_join(self, later_group: int, earlier_group: int) -> bool:
        """Return whether two groups can be merged: the later one needs nothing that runs between them.

        The earlier one does not need the later one: when a call reads both, it has not joined one that the other needs.
        """
        if later_group == earlier_group or earlier_group in map(
            self._find_merged_group, self._behind[later_group]
        ):
            return False
        if not self._may_share_group(later_group, earlier_group):
            return False
        left = [group for group in self._groups_before(later_group) if group != earlier_group]
        seen = {*left}
        while left:
            group = left.pop()
            if self._find_last_needed_position(self._last[group]) < earlier_group:
                continue  # what it needs, directly or not, has no call behind the first one of `earlier`
            for other in self._groups_before(group) - seen:
                if other == earlier_group:
                    return False
                seen.add(other)
                left.append(other)
        return True

    def _may_share_group(self, later_group: int, earlier_group: int) -> bool:
        """Return whether each call of the later group that reads from the earlier one may share a group with it."""
        loops = self._loops[earlier_group] | self._loops[later_group]
        if len(loops) == 1 and None not in loops:
            return True
        fits = self._fits
        if fits is None:
            return False
        both = sorted((*self._members[earlier_group], *self._members[later_group]))
        calls = [step for i in both if isinstance(step := self._graph.steps[i], Call)]
        made = {self._graph.steps[i].outputs[0] for i in self._members[earlier_group]}
        later_ones = {*self._members[later_group]}
        return all(
            fits(call, calls[:place])
            for place, (i, call) in enumerate(zip(both, calls, strict=True))
            if i in later_ones and not made.isdisjoint(call.inputs)
        )

    def _merge_groups(self, earlier_group: int, later_group: int) -> int:
        """Merge a group into an earlier one, which is returned."""
        self._members[earlier_group] += self._members.pop(later_group)
        self._last[earlier_group] = max(self._last[earlier_group], self._last.pop(later_group))
        self._loops[earlier_group] |= self._loops.pop(later_group)
        self._read[earlier_group] |= self._read.pop(later_group)
        self._behind[earlier_group] |= self._behind.pop(later_group)
        self._parts[later_group] = earlier_group
        self._add_position_range(earlier_group, self._last[earlier_group])
        return earlier_group

    def _add_position_range(self, first_position: int, last_position: int) -> None:
        """Record the range of positions of a group's calls, joined with the ranges that overlap it."""
        first = bisect_left(self._ends, first_position)
        behind = bisect_right(self._starts, last_position)
        if first < behind:
            first_position = min(first_position, self._starts[first])
            last_position = max(last_position, self._ends[behind - 1])
        self._starts[first:behind], self._ends[first:behind] = [first_position], [last_position]

    def _find_last_needed_position(self, position: int) -> int:
        """Return an upper bound on the positions of all calls that a group ending at `position` needs or contains."""
        place = bisect_right(self._starts, position) - 1
        return max(position, self._ends[place]) if place >= 0 else position

    def _result_shape(self, call: Call) -> Shape:
        return self._graph.specs[call.outputs[0]].shape


def _is_elementwise(call: Call) -> bool:
    return call.kernel.is_elementwise


def sort_by_dependencies(dependencies: Mapping[int, set[int]]) -> list[int]:
    """Sort indices so that each comes after its dependencies; indices in a cycle, or after one, are left out."""
    after: dict[int, list[int]] = {}
    for index, others in dependencies.items():
        for other in others:
            after.setdefault(other, []).append(index)
    missing = {index: len(others) for index, others in dependencies.items()}
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
    """Return for each value the indices of the steps that read it; results count as read after the last step."""
    read: dict[Value, set[int]] = {}
    for index, step in enumerate(graph.steps):
        for value in step.inputs:
            if value is not None:
                read.setdefault(value, set()).add(index)
    for value in (*graph.results, *(value for _, value in graph.updates)):
        read.setdefault(value, set()).add(len(graph.steps))
    return read


def _make_group(graph: Graph, step_indices: Sequence[int], readers: dict[Value, set[int]]) -> Group:
    """Return the group of the steps at these positions."""
    made = dict.fromkeys(graph.steps[i].outputs[0] for i in step_indices)
    inputs = dict.fromkeys(v for i in step_indices for v in graph.steps[i].inputs if v is not None)
    own_steps = set(step_indices)
    return Group(
        tuple(step_indices),
        graph.specs[graph.steps[step_indices[0]].outputs[0]].shape,
        tuple([value for value in inputs if value not in made]),
        tuple([value for value in made if readers.get(value, set()) - own_steps]),
    )
