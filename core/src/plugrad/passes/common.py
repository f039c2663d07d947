"""Common subexpressions: a kernel that is called twice with the same inputs and attributes runs once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from plugrad.graph.graph import Call, Graph, Step, Value
from plugrad.passes.rewriting import rename_inputs, rewritten

if TYPE_CHECKING:
    from collections.abc import Mapping


def merge_common_calls(graph: Graph) -> Graph:
    """Return the graph in which the first of several equal calls stands for all of them.

    A kernel is a function of its inputs and attributes, so the others would compute the same bits. Host values are not
    calls of kernels: two of them stay two.
    """
    names: dict[Value, Value] = {}
    steps: list[Step] = []
    first: dict[Any, Call] = {}
    for original in graph.steps:
        step = rename_inputs(original, names)
        if isinstance(step, Call):
            known = _known_call(step, first)
            if known is not None:
                names.update(zip(step.outputs, known.outputs, strict=True))
                continue
        steps.append(step)
    return rewritten(graph, steps, names) if names else graph


def _known_call(step: Call, first: dict[Any, Call]) -> Call | None:
    """Return the call that a step repeats; if there is none, remember the step."""
    attrs = step.attrs
    key = (step.kernel, step.inputs, *attrs.items())
    try:
        known = first.setdefault(key, step)
    except TypeError:  # an attribute of a graph that was made by hand is not hashable
        return None
    return None if known is step or not _are_same(attrs, known.attrs) else known


def _are_same(attrs: Mapping[str, Any], others: Mapping[str, Any]) -> bool:
    """Return whether equal attributes are the same to the bit: 1, 1.0 and True are equal, and so are 0.0 and -0.0."""
    return attrs is others or all(
        x is y or (type(x) is type(y) and repr(x) == repr(y))
        for x, y in zip(attrs.values(), others.values(), strict=True)
    )
