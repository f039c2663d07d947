"""The passes that every program gets, in their order."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from plugrad.graph.graph import Call
from plugrad.passes.algebra import simplify_algebra
from plugrad.passes.common import merge_common_calls
from plugrad.passes.constants import fold_constants
from plugrad.passes.dead import remove_dead_steps
from plugrad.passes.pads import concatenate_padded
from plugrad.passes.residuals import keep_residuals
from plugrad.passes.rewriting import map_bodies

if TYPE_CHECKING:
    from plugrad.graph.graph import Graph

SIMPLIFICATION_PASSES: Final = (
    concatenate_padded,
    simplify_algebra,
    merge_common_calls,
    fold_constants,
    keep_residuals,
)
"""The passes that `simplify_graph` applies to a graph without dead steps, in this order.

Each goes from the first step to the last, and none finds more to do because of one that comes after it, so one round is
enough: the tests run a second one on random programs, and it changes nothing.
"""


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
    steps = tuple(
        [step if type(step) is Call else map_bodies(step, simplify_graph) for step in graph.steps]
    )
    if steps != graph.steps:
        graph = replace(graph, steps=steps)
    graph = simplified = remove_dead_steps(graph)
    for simplify in SIMPLIFICATION_PASSES:
        simplified = simplify(simplified)
    return graph if simplified is graph else remove_dead_steps(simplified)
