"""Views: results that lie in the memory of an input, so that they take no memory, and keep that of the input alive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from plugrad.graph.graph import Call, Graph, Value
from plugrad.kernels import movement, unary

if TYPE_CHECKING:
    from collections.abc import Set

    from plugrad.contract.kernel import Kernel

PACKED_VIEWS: Final[frozenset[Kernel[..., Any]]] = frozenset(
    {unary.identity, movement.reshape, movement.expand_dims}
)
"""The kernels whose results have the elements of their first input in the same order, one after the other."""
STRIDED_VIEWS: Final[frozenset[Kernel[..., Any]]] = PACKED_VIEWS | {
    movement.broadcast_to,
    movement.slice,
    movement.split,
    movement.strided_slice,
    movement.transpose,
    movement.unpack,
}
"""The kernels whose results are views of their first input where each axis has a stride, as in NumPy."""


def find_storage(graph: Graph, views: Set[Kernel[..., Any]] = STRIDED_VIEWS) -> dict[Value, Value]:
    """Return for each value the value that owns its memory: itself, or the base of a chain of views.

    >>> from plugrad.extend import find_storage
    >>> graph = plugrad.make_graph(lambda x: plugrad.exp(x.reshape(2, 2).T))(plugrad.ones(4))
    >>> find_storage(graph)
    {0: 0, 1: 0, 2: 0, 3: 3}

    Args:
        graph: the graph.
        views: the kernels whose results are views of their first input.
    """
    storage: dict[Value, Value] = {
        v: v for v in (*graph.arguments, *graph.constants, *graph.variables)
    }
    for step in graph.steps:
        first = step.inputs[0] if isinstance(step, Call) and step.kernel in views else None
        for value in step.outputs:
            storage[value] = value if first is None else storage[first]
    return storage
