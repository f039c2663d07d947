"""The order of steps in which less memory is needed at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from plugrad.extend import PACKED_VIEWS, Call, count_elements, find_storage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence, Set

    from plugrad.extend import Graph, Step, Value


def order_steps(
    graph: Graph,
    preallocated_values: Set[Value] = frozenset(),
    is_effect_free: Callable[[Call], bool] = lambda call: True,
) -> Graph:
    """Return the graph with its steps in an order of lower peak memory, or as it is if none is found.

    Steps depend on each other by values only, so these remain the same. Host values, and calls that are not free of
    effects, such as other processes, stay in their order. The preallocated values have memory before the first step.
    """
    steps = _describe_steps(graph, preallocated_values, is_effect_free)
    orders = (range(len(steps)), _order_from_start(steps), _order_from_end(steps))
    best = min(orders, key=lambda order: _compute_peak_bytes(steps, order))
    return (
        graph if best is orders[0] else replace(graph, steps=tuple([graph.steps[i] for i in best]))
    )


class _StepDependencies(NamedTuple):
    """The data by which a step is ordered: the steps that it requires and reads, and its memory."""

    required_steps: frozenset[int]
    """The indices of the steps that must come before it."""
    read_steps: frozenset[int]
    """The indices of the steps whose memory it reads."""
    nbytes: int
    """The bytes of its outputs, which are freed after the last step that reads them, unless they are kept."""
    is_kept: bool
    """Whether its outputs are results of the graph, which are never freed."""


def _describe_steps(
    graph: Graph, preallocated_values: Set[Value], is_effect_free: Callable[[Call], bool]
) -> list[_StepDependencies]:
    """Return for each step of a graph the steps that it requires and reads, and its memory."""
    storage, specs = find_storage(graph, PACKED_VIEWS), graph.specs
    ends = {storage.get(v, v) for v in (*graph.results, *(v for _, v in graph.updates))}
    makers = {v: index for index, step in enumerate(graph.steps) for v in step.outputs}
    described: list[_StepDependencies] = []
    last_host: int | None = None
    for index, step in enumerate(graph.steps):
        read = {v for v in step.inputs if v is not None}
        needs = {makers[v] for v in read if v in makers}
        if _has_effect(step, is_effect_free):
            needs |= set() if last_host is None else {last_host}
            last_host = index
        reads = {makers[owner] for v in read if (owner := storage[v]) in makers}
        own = [v for v in step.outputs if storage[v] == v and v not in preallocated_values]
        nbytes = sum(count_elements(specs[v].shape) * specs[v].dtype.itemsize for v in own)
        is_kept = not ends.isdisjoint(own)
        described.append(_StepDependencies(frozenset(needs), frozenset(reads), nbytes, is_kept))
    return described


def _has_effect(step: Step, is_effect_free: Callable[[Call], bool]) -> bool:
    """Return whether a step, or a step inside it, is a host value or runs a function that may have effects."""
    if isinstance(step, Call):
        return not is_effect_free(step)
    inner = [each for graph in step.graphs for each in graph.steps]
    return not step.graphs or any(_has_effect(each, is_effect_free) for each in inner)


def _count_readers(steps: Sequence[_StepDependencies]) -> list[int]:
    """Return the number of steps that read the memory of each step, plus 1 where the memory is never freed."""
    left = [int(step.is_kept) for step in steps]
    for step in steps:
        for made in step.read_steps:
            left[made] += 1
    return left


def _order_from_start(steps: Sequence[_StepDependencies]) -> list[int]:
    """Return an order of the steps, as indices, that always continues with the step that increases memory least.

    So what reads a large value last, such as the gradient of weights, comes early.
    """
    left = _count_readers(steps)

    def get_memory_growth(step_index: int) -> tuple[int, int]:
        """Return how many more bytes are in use after a step, and its index for ties."""
        freed = sum(steps[made].nbytes for made in steps[step_index].read_steps if left[made] == 1)
        return steps[step_index].nbytes - freed, step_index

    order: list[int] = []
    for index in _order_greedily([step.required_steps for step in steps], get_memory_growth):
        order.append(index)
        for made in steps[index].read_steps:
            left[made] -= 1
    return order


def _order_from_end(steps: Sequence[_StepDependencies]) -> list[int]:
    """Return an order of the steps, as indices, built from the end, where the last step needs least memory before.

    So what is read much later, such as a table of labels, comes late.
    """
    is_alive = [step.is_kept for step in steps]
    followers: list[set[int]] = [set() for _ in steps]
    for index, step in enumerate(steps):
        for needed in step.required_steps:
            followers[needed].add(index)

    def get_memory_growth(step_index: int) -> tuple[int, int]:
        """Return how many more bytes must be in use before a step than after it, and a number for ties."""
        needed = sum(
            steps[made].nbytes for made in steps[step_index].read_steps if not is_alive[made]
        )
        return needed - steps[step_index].nbytes, -step_index

    order: list[int] = []
    for index in _order_greedily(followers, get_memory_growth):
        order.append(index)
        for made in steps[index].read_steps:
            is_alive[made] = True
    return order[::-1]


def _order_greedily(
    required_steps: Sequence[Set[int]], get_memory_growth: Callable[[int], tuple[int, int]]
) -> Iterator[int]:
    """Yield the indices of all steps in topological order, the one with the smallest memory growth first."""
    waiting = [len(each) for each in required_steps]
    followers: list[list[int]] = [[] for _ in required_steps]
    for index, each in enumerate(required_steps):
        for needed in each:
            followers[needed].append(index)
    ready = {index for index, count in enumerate(waiting) if not count}
    while ready:
        index = min(ready, key=get_memory_growth)
        ready.remove(index)
        yield index
        for follower in followers[index]:
            waiting[follower] -= 1
            if not waiting[follower]:
                ready.add(follower)


def _compute_peak_bytes(steps: Sequence[_StepDependencies], order: Sequence[int]) -> int:
    """Return the most bytes that are in use at a time if steps run in an order of indices."""
    left = _count_readers(steps)
    used = most = 0
    for index in order:
        used += steps[index].nbytes
        most = max(most, used)
        for made in steps[index].read_steps:
            left[made] -= 1
            used -= 0 if left[made] else steps[made].nbytes
        used -= 0 if left[index] else steps[index].nbytes
    return most
