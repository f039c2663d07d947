"""Delayed elementwise calls, whose results would otherwise fill memory until the backward pass reads them.

The derivative of an activation is such a call. It reads what the backward pass needs anyway, so it is made there, in
the loop that multiplies by it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from plugrad.extend import PACKED_VIEWS, Call, count_elements, find_storage

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from plugrad.extend import Graph, Step, Value

DELAYED_STEP_MIN_BYTES: Final = 1 << 14
"""The minimum bytes of a result for which its call is delayed."""


def find_delayed_results(graph: Graph, is_in_group: Callable[[Step], bool]) -> frozenset[Value]:
    """Return the results of calls that are better computed later, by groups that read them; they fill less memory.

    A *stage* is the number of steps on the way to a value that are in no group over elements. A call waits if all its
    readers have later stages, and its inputs are in memory until then anyway.
    """
    specs = graph.specs
    stages: dict[Value, int] = {}
    for step in graph.steps:
        stage = max((stages.get(v, 0) for v in step.inputs if v is not None), default=0)
        stages.update((v, stage + (not is_in_group(step))) for v in step.outputs)
    end = max(stages.values(), default=0) + 1
    ends = (*graph.results, *(v for _, v in graph.updates))
    first, last = dict.fromkeys(ends, end), dict.fromkeys(ends, end)
    """The first and the last stage in which something reads a value."""
    for step in graph.steps:
        for value in step.inputs:
            if value is not None:
                last[value] = max(last.get(value, 0), stages[step.outputs[0]])
    for value, owner in find_storage(
        graph, PACKED_VIEWS
    ).items():  # as long as a view, its memory is needed
        last[owner] = max(last.get(owner, 0), last.get(value, 0))
    given = {*graph.arguments, *graph.variables, *graph.constants}
    waiting: dict[Value, Call] = {}

    def can_delay(call: Call, last_stage: int, delayed_results: Container[Value]) -> bool:
        """Return whether a call's inputs still exist at a later stage, or are results of delayed calls."""
        return all(
            x in given
            or x in delayed_results
            or last[x] >= last_stage
            or count_elements(specs[x].shape) == 1
            for x in call.inputs
            if x is not None
        )

    makers = {
        step.outputs[0]: step
        for step in graph.steps
        if isinstance(step, Call) and step.kernel.is_elementwise and is_in_group(step)
    }
    for step in reversed(graph.steps):
        stage = stages[step.outputs[0]]
        call = makers.get(step.outputs[0])
        if call is not None and _has_large_result(call, graph):
            until = first.get(call.outputs[0], end)
            if stage < until < end and can_delay(call, until, makers):
                waiting[call.outputs[0]] = call
                stage = until
        for value in step.inputs:
            if value is not None:
                first[value] = min(first.get(value, end), stage)
    delayed: set[Value] = set()
    for value, call in reversed(waiting.items()):
        if can_delay(call, first[value], delayed):
            delayed.add(value)
    return frozenset(delayed)


def _has_large_result(call: Call, graph: Graph) -> bool:
    """Return whether the result of a call has so many bytes that delaying it pays."""
    shape, dtype = graph.specs[call.outputs[0]]
    return count_elements(shape) * dtype.itemsize >= DELAYED_STEP_MIN_BYTES
