"""How a replay runs the steps that hold graphs: loops and choices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from plugrad.errors import TracingError

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad.graph.graph import Cond, Graph, Scan, While
    from plugrad.tensor.backend import Backend


def compile_loop(
    step: Scan | Cond | While,
    backend: Backend,
    compile_graph: Callable[[Graph], Callable[..., list[Any]]],
) -> Callable[..., list[Any]]:
    """Return a function of the arrays that a step reads, which returns its outputs."""
    raise TracingError(f"{step} on {backend.label} by {compile_graph.__name__}")
