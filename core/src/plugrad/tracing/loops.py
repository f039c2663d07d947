"""How a replay runs the steps that hold graphs: loops and choices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from plugrad.errors import TracingError

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad.graph.graph import Cond, Graph, Scan, While


def runner(step: Scan | Cond | While, graph: Graph) -> Callable[..., Any]:
    """Return a function of the arrays that a step reads, which returns its outputs."""
    raise TracingError(f"{step} in {graph.backend}")
