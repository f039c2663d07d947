"""Lookups whose positions the graph itself keeps in range, so that a program needs no error for them.

Labels of a loss are such: they are clipped before they are looked up, or are constants.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from plugrad.extend import Call
from plugrad.kernels import indexing, unary
from plugrad_native.programs.lowering import VIEW_KERNELS

if TYPE_CHECKING:
    from plugrad.extend import Graph, Value

LOOKUP_KERNELS: Final = frozenset({indexing.gather, indexing.gather_gradient})
"""The kernels that read or write at positions, and must check them."""


def find_unproven_lookups(graph: Graph) -> frozenset[Value]:
    """Return the results of lookups, such as gathers, at positions that may be out of range."""
    makers = {y: step for step in graph.steps if isinstance(step, Call) for y in step.outputs}
    return frozenset(
        step.outputs[0]
        for step in graph.steps
        if isinstance(step, Call)
        and step.kernel in LOOKUP_KERNELS
        and not _is_in_range(step, graph, makers)
    )


def _is_in_range(lookup: Call, graph: Graph, makers: dict[Value, Call]) -> bool:
    """Return whether all positions of a lookup are certainly in range, by the steps that make them (`makers`)."""
    x, indices = lookup.inputs
    assert x is not None
    assert indices is not None
    shape = lookup.attrs.get("shape", graph.specs[x].shape)
    size = shape[lookup.attrs["axis"]]
    while (maker := makers.get(indices)) is not None:
        if maker.kernel is unary.clip_by_value:
            attrs = maker.attrs
            return attrs["clip_value_min"] >= 0 and attrs["clip_value_max"] < size
        if maker.kernel not in VIEW_KERNELS:
            return False
        (indices,) = maker.inputs
        assert indices is not None
    array = graph.constants.get(indices)
    return array is not None and array.size > 0 and array.min() >= 0 and array.max() < size
