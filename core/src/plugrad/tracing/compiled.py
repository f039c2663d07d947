"""The function that runs a graph: what the device of the graph compiles, or a replay of its calls."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from plugrad.engine import watching
from plugrad.tensor.backend import Backend, note_loss, passes
from plugrad.tracing.replay import compile_replay

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad.graph.graph import Graph


def compile_graph(graph: Graph) -> Callable[..., list[Any]]:
    """Return a function of the arguments' arrays and then the variables', which returns results and then updates.

    The device compiles the graph at the first call. While somebody watches the calls of kernels, as `plugrad.profile`
    does, they are made one by one.
    """
    if type(graph.backend).compile is Backend.compile:
        return compile_replay(graph)
    return _Compiled(graph)


class _Compiled:
    """A graph that its device compiles."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    @cached_property
    def replay(self) -> Callable[..., list[Any]]:
        """The calls one by one."""
        return compile_replay(self.graph)

    @cached_property
    def compiled(self) -> Callable[..., list[Any]]:
        """What the device makes of the graph."""
        return self.graph.backend.compile(self.graph) or self.replay

    def __call__(self, *arrays: Any) -> list[Any]:
        """Run the graph."""
        if watching.watchers:
            return self.replay(*arrays)
        try:
            return self.compiled(*arrays)
        except BaseException as failure:
            if not passes(failure, self.graph.backend):
                note_loss(failure, self.graph.backend)
            raise
