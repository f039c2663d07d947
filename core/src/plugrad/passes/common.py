"""Common subexpressions: a kernel that is called twice with the same inputs and attributes runs once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from plugrad.graph.graph import Call, Graph, Step, Value
from plugrad.passes.rewriting import rename_inputs, with_steps

if TYPE_CHECKING:
    from collections.abc import Mapping


def merge_common_calls(graph: Graph) -> Graph:
    """Return the graph with equal calls replaced by the first of them (common subexpression elimination).

    A kernel is a function of its inputs and attributes, so the others would compute the same bits. Host values are not
    calls of kernels: two of them stay two.
    """
    names: dict[Value, Value] = {}
    steps: list[Step] = []
    first: dict[Any, Call] = {}
    for original in graph.steps:
        step = rename_inputs(original, names)
        if isinstance(step, Call):
            known = find_or_record_call(step, first)
            if known is not step:
                names.update(zip(step.outputs, known.outputs, strict=True))
                continue
        steps.append(step)
    return with_steps(graph, steps, names) if names else graph


def find_call(step: Call, known_calls: Mapping[Any, Call]) -> Call | None:
    """Return the earlier call that computes the same as a step, or None; `known_calls` has the calls by their keys."""
    try:
        found = known_calls.get(_call_key(step))
    except TypeError:  # an attribute of a graph that was made by hand is not hashable
        return None
    return (
        found if found is not None and _are_identical_attributes(step.attrs, found.attrs) else None
    )


def find_or_record_call(step: Call, known_calls: dict[Any, Call]) -> Call:
    """Return the earlier call that computes the same as a step, or else the step itself, which becomes a known call."""
    try:
        found = known_calls.setdefault(_call_key(step), step)
    except TypeError:
        return step
    return found if found is step or _are_identical_attributes(step.attrs, found.attrs) else step


def _call_key(step: Call) -> tuple[Any, ...]:
    """Return a key that is equal for calls of one computation: the kernel, the inputs and the attributes."""
    return (step.kernel, step.inputs, *step.attrs.items())


def _are_identical_attributes(attrs: Mapping[str, Any], other_attrs: Mapping[str, Any]) -> bool:
    """Return whether equal attributes are also identical: 1, 1.0 and True differ, and so do 0.0 and -0.0."""
    return attrs is other_attrs or all(
        x is y or (type(x) is type(y) and repr(x) == repr(y))
        for x, y in zip(attrs.values(), other_attrs.values(), strict=True)
    )
