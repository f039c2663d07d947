"""The function that runs a graph: what the device of the graph compiles, or a replay of its calls."""

from __future__ import annotations

import sys
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from plugrad.engine import watching
from plugrad.settings.layers import config
from plugrad.tensor.backend import Backend, mark_device_lost, must_propagate
from plugrad.tracing.replay import compile_replay, kernel_names, watch_fused_steps

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from plugrad.graph.graph import Graph
    from plugrad.tracing.in_place import InPlacePlan

    Compiler = Callable[[Graph], Callable[..., list[Any]] | None]
    """A function that compiles a graph, or returns None if it does not accept the graph."""


def compile_graph(graph: Graph) -> Callable[..., list[Any]]:
    """Return a function of argument arrays followed by variable arrays that returns results followed by updates.

    A kernel pack, or else the device, compiles the graph at the first call. While somebody watches the calls of
    kernels, as `plugrad.profile` does, they are made one by one; and always if the setting `check_finite` looks at each
    one, or `jit` says so. With that, and without compilers, `Backend.fuse_calls` may join some of them.
    """
    backend = graph.backend
    packs = [backend.compilers[o] for o in backend.kernels if o in backend.compilers]
    if config.get("check_finite"):
        return compile_replay(graph)
    is_replayed = config.get("jit") != "compile"
    if is_replayed or (not packs and type(backend).compile is Backend.compile):
        return compile_replay(backend.fuse_calls(graph))
    return CompiledGraph(graph, (*packs, backend.compile))


_HAS_GIL: Final = getattr(sys, "_is_gil_enabled", lambda: True)()
"""Whether this Python runs with the global interpreter lock."""


class CompiledGraph:
    """A graph compiled by the first compiler that accepts it, or replayed."""

    def __init__(self, graph: Graph, compilers: Sequence[Compiler]) -> None:
        self.graph = graph
        self.compilers = compilers

    @cached_property
    def replay(self) -> Callable[..., list[Any]]:
        """The replay, which runs the calls one by one."""
        return compile_replay(self.graph)

    @cached_property
    def instrumented(self) -> Callable[..., list[Any]]:
        """The compiled graph with every fused step reported to watchers."""
        run, graph = self.compiled, self.fused
        if graph is not self.graph and len(graph.steps) > 1:
            with watch_fused_steps():
                return self._compile()
        return watching.with_watchers_of_fused_steps(
            run, kernel_names(self.graph), self.graph.backend
        )

    @property
    def fused(self) -> Graph:
        """The graph with its fused steps, as it runs, if the compiler reports it."""
        return getattr(self.compiled, "graph", self.graph)

    @cached_property
    def compiled(self) -> Callable[..., list[Any]]:
        """The compiled graph, or the replay if no compiler accepts the graph."""
        return self._compile()

    @property
    def in_place(self) -> InPlacePlan | None:
        """The plan that updates variables in place, or None if the compiler has none or a profiler watches the calls.

        Without Python's lock, another thread may take an array between the count of its references and the writing.
        """
        if watching.watchers or not _HAS_GIL:
            return None
        return getattr(self.compiled, "in_place", None)

    def _compile(self) -> Callable[..., list[Any]]:
        """Return what the first compiler that accepts the graph makes of it, or the replay."""
        made = (compiler(self.graph) for compiler in self.compilers)
        return next((function for function in made if function is not None), self.replay)

    def __call__(self, *arrays: Any) -> list[Any]:
        """Run the graph."""
        if watching.watchers:
            is_fused = all(watcher.allows_fused_steps for watcher in watching.watchers)
            return (self.instrumented if is_fused else self.replay)(*arrays)
        try:
            return self.compiled(*arrays)
        except BaseException as failure:
            self.record_device_loss(failure)
            raise

    def record_device_loss(self, failure: BaseException) -> None:
        """Mark the device as lost if the exception that a run raised shows that it is."""
        if not must_propagate(failure, self.graph.backend):
            mark_device_lost(failure, self.graph.backend)
