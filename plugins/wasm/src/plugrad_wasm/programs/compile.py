"""The compiler of the backend: recordable steps of a graph become programs, and Python makes the other calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from plugrad import config
from plugrad.extend import (
    PACKED_VIEWS,
    Call,
    Fused,
    active_functions,
    compile_replay,
    float32,
    float64,
    fuse_epilogues,
    fuse_groups,
    fuse_regions,
    get_kernel,
    is_interruption,
    string,
)
from plugrad_wasm.deferred import LazyImplementation
from plugrad_wasm.kernels.fused import BIAS_AND_ACTIVATION_EXPORTS
from plugrad_wasm.programs.blocks import as_elementwise_calls
from plugrad_wasm.programs.caller import compile_region
from plugrad_wasm.programs.images import fits_in_image_group, is_image_group
from plugrad_wasm.programs.recorder import ExportCall, RecordingMemory, ThreadedChains
from plugrad_wasm.programs.recording import run_on_stand_ins

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad.extend import Graph, Step, Value
    from plugrad_wasm.memory import LinearMemory
    from plugrad_wasm.programs.recorder import RecordedCall

    Run = Callable[..., list[Any]]
    """The type of a function of arrays that returns the arrays of results."""


def compile_graph(graph: Graph, linear_memory: LinearMemory) -> Run | None:
    """Return a function from arrays in linear memory, of arguments and variables, to results and updates, or None.

    None if there is nothing that can be recorded, or if the setting ``debug`` checks the values of each call.
    """
    if config.get("debug"):
        return None
    recordable = RecordabilityCheck(graph, linear_memory)
    graph = fuse_epilogues(graph, recordable.is_single_pass)
    grouped = fuse_groups(
        graph,
        is_included=recordable.is_groupable,
        loop_key=lambda call: (
            None if is_image_group([call]) else graph.specs[call.outputs[0]].shape
        ),
        fits=lambda call, others: fits_in_image_group((*others, call), graph.specs),
    )
    fused = fuse_regions(grouped, recordable)
    bodies = [step.body for step in fused.steps if isinstance(step, Fused)]
    if not bodies and not any(step.graphs for step in fused.steps):
        return None

    def compile_inner(inner_graph: Graph) -> Run:
        """Return a function of the body of a fused step or of control flow."""
        run = None
        if not any(inner_graph is body for body in bodies):
            run = compile_graph(inner_graph, linear_memory)
        elif not all(isinstance(s, Call) and s.kernel in PACKED_VIEWS for s in inner_graph.steps):
            run = compile_region(inner_graph, linear_memory, active_functions(graph.backend))
        return run or compile_replay(inner_graph)

    return compile_replay(fused, compile_body=compile_inner)


def fuse_calls(graph: Graph, linear_memory: LinearMemory) -> Graph:
    """Return the graph with biases and activations fused into the matrix products and convolutions before them."""
    return fuse_epilogues(graph, RecordabilityCheck(graph, linear_memory).is_single_pass)


class RecordabilityCheck:
    """Decides which kernel calls can be recorded: those of this backend's implementations that read no values."""

    def __init__(self, graph: Graph, linear_memory: LinearMemory) -> None:
        """Look at the steps of a graph."""
        self._graph = graph
        self._linear_memory = linear_memory
        self._own: dict[str, Any] = {}
        """The implementations of this backend, without those who watch calls; None for those of others."""
        self._calls: dict[tuple[str, tuple[Value, ...]], list[RecordedCall] | None] = {}

    def __call__(self, step: Step) -> bool:
        """Return whether a step can be recorded: a call, or a group of such."""
        if isinstance(step, Fused):
            return True
        return isinstance(step, Call) and self._record_calls(step) is not None

    def is_groupable(self, call: Call) -> bool:
        """Return whether a call can be a part of a group, block by block or image by image."""
        if is_image_group([call]):
            return self._record_calls(call) is not None
        return self.is_elementwise(call)

    def is_elementwise(self, call: Call) -> bool:
        """Return whether a call can run block by block."""
        if not call.kernel.is_elementwise:
            return False
        calls = self._record_calls(call)
        return (
            calls is not None
            and as_elementwise_calls(calls, self._linear_memory.store.functions) is not None
        )

    def is_single_pass(self, call: Call) -> bool:
        """Return whether a call can be recorded, and its implementation adds a bias and activates in the same pass.

        Halves are left alone: joined calls compute them in float32, and round once where separate ones round each time.
        """
        if self._graph.specs[call.outputs[0]].dtype not in (float32, float64):
            return False
        calls = self._record_calls(call)
        finish = BIAS_AND_ACTIVATION_EXPORTS.values()
        return calls is not None and not any(
            isinstance(each, ExportCall | ThreadedChains) and each.export in finish
            for each in calls
        )

    def _record_calls(self, call: Call) -> list[RecordedCall] | None:
        """Return the recorded calls of a kernel's call, or None if it cannot be recorded."""
        key = call.kernel.name, call.outputs
        if key not in self._calls:
            self._calls[key] = self._record_uncached(call)
        return self._calls[key]

    def _record_uncached(self, call: Call) -> list[RecordedCall] | None:
        """Record the calls of a kernel's call; return None if that is not possible."""
        specs = self._graph.specs
        values = [v for v in (*call.inputs, *call.outputs) if v is not None]
        if self._find_own_implementation(call.kernel.name) is None or any(
            specs[v].dtype is string for v in values
        ):
            return None
        memory = RecordingMemory(self._linear_memory)
        arrays = {v: memory.create_variable_input(specs[v]) for v in call.inputs if v is not None}
        try:
            run_on_stand_ins(call, memory, arrays, self._own)
        except (
            Exception
        ) as error:  # it needs values, or has an error to raise, which the call itself does
            if is_interruption(error):
                raise
            return None
        return memory.store.calls

    def _find_own_implementation(self, kernel_name: str) -> Any:
        """Return the implementation in effect if it is one of this backend's, in the sandbox."""
        if kernel_name not in self._own:
            entry = get_kernel(kernel_name, self._graph.backend.name)
            is_own = (
                entry is not None
                and isinstance(entry.kernel_func, LazyImplementation)
                and not entry.on_host
            )
            self._own[kernel_name] = entry.kernel_func if entry is not None and is_own else None
        return self._own[kernel_name]
