"""The passes that every program gets, in their order."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from plugrad.passes.algebra import simplify_algebra
from plugrad.passes.common import merge_common_calls
from plugrad.passes.constants import fold_constants
from plugrad.passes.dead import remove_dead_steps
from plugrad.passes.rewriting import map_bodies

if TYPE_CHECKING:
    from plugrad.graph.graph import Graph

PASSES: Final = (remove_dead_steps, simplify_algebra, merge_common_calls, fold_constants)
"""What `simplify_graph` applies in turn."""
MAX_ROUNDS: Final = 4
"""How often the passes run at most: what one of them finds may give another one something to do."""


def simplify_graph(graph: Graph) -> Graph:
    """Return a graph that computes the same bits in fewer steps.

    >>> from plugrad.extend import simplify_graph
    >>> graph = plugrad.make_graph(lambda x: (x * x) + (x * x))(plugrad.ones(3))
    >>> print(simplify_graph(graph))
    graph on cpu:0 (%0: float32[3])
      %1 = Multiply(%0, %0)  float32[3]
      %3 = Add(%1, %1)  float32[3]
    return %3
    """
    steps = [map_bodies(step, simplify_graph) for step in graph.steps]
    if any(new is not old for new, old in zip(steps, graph.steps, strict=True)):
        graph = replace(graph, steps=tuple(steps))
    for _ in range(MAX_ROUNDS):
        before = graph
        for simplify in PASSES:
            graph = simplify(graph)
        if graph.steps == before.steps:
            break
    return graph
