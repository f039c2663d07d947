"""Graphs as segments, which a device runs, and the steps in between, which the host runs.

The kernels of a graph run once, on a recorder. Those that look at values, such as the ones that compute on the host,
run at each call, as they do untraced, and so do loops and choices.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from plugrad.extend import (
    Call,
    HostValue,
    active_functions,
    compile_replay,
    is_interruption,
)
from plugrad_webgpu.memory.buffers import GpuArray
from plugrad_webgpu.recording.epilogues import attach_epilogues
from plugrad_webgpu.recording.recorder import PlaceholderBuffer, Recorder
from plugrad_webgpu.recording.segment import HostComputation, Segment
from plugrad_webgpu.shaders.elements import STORED_DTYPES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from plugrad.extend import Graph, Step, Value
    from plugrad_webgpu.device.device import Device
    from plugrad_webgpu.memory.buffers import Buffer

    GraphFunction = Callable[..., list[Any]]
    """A function that runs a graph: it maps arrays to a list of arrays."""


def record_graph(
    graph: Graph, device: Device, compile_body: Callable[[Graph], GraphFunction]
) -> GraphFunction:
    """Return a function from arguments and variables to results and updates; `compile_body` compiles loop bodies."""
    graph = attach_epilogues(graph)
    return RecordedGraph(graph, _SegmentBuilder(graph, device, compile_body).build_parts())


class HostSteps:
    """Consecutive steps that the host runs."""

    def __init__(
        self,
        graph: Graph,
        steps: Sequence[Step],
        outputs: Sequence[Value],
        compile_body: Callable[[Graph], GraphFunction],
    ) -> None:
        """Compile some steps of a graph, which compute `outputs`, to a replay."""
        read = dict.fromkeys(v for step in steps for v in step.inputs if v is not None)
        made = {v for step in steps for v in step.outputs}
        self.inputs = tuple([v for v in read if v not in made and v not in graph.constants])
        self.outputs = tuple(outputs)
        constants = {v: array for v, array in graph.constants.items() if v in read}
        part = replace(
            graph,
            arguments=self.inputs,
            steps=tuple(steps),
            results=self.outputs,
            constants=constants,
            variables={},
            updates=(),
        )
        self._run = compile_replay(part, compile_body=compile_body)

    def __call__(self, values: dict[Value, Any]) -> None:
        """Run the steps on the arrays of the inputs, and add those of the outputs."""
        values.update(zip(self.outputs, self._run(*[values[v] for v in self.inputs]), strict=True))


class RecordedGraph:
    """A function that runs the parts of a graph: recorded segments and host steps."""

    def __init__(self, graph: Graph, parts: Sequence[Segment | HostSteps]) -> None:
        """Plan which arrays are kept until when."""
        self.parameters = (*graph.arguments, *graph.variables)
        self.ends = (*graph.results, *[value for _, value in graph.updates])
        self.constants = {v: x for v, x in graph.constants.items() if v in self.ends}
        last = {v: i for i, part in enumerate(parts) for v in (*part.outputs, *part.inputs)}
        self.parts = [
            (part, [v for v, i in last.items() if i == index and v not in self.ends])
            for index, part in enumerate(parts)
        ]

    def __call__(self, *arrays: Any) -> list[Any]:
        """Run the graph."""
        values: dict[Value, Any] = dict(zip(self.parameters, arrays, strict=True))
        values.update(self.constants)
        for part, dying in self.parts:
            part(values)
            for value in dying:
                values.pop(value, None)
        return [values[value] for value in self.ends]


class _SegmentBuilder:
    """Divides a graph into segments that are recorded once and steps that run as they are."""

    def __init__(
        self, graph: Graph, device: Device, compile_body: Callable[[Graph], GraphFunction]
    ) -> None:
        self.graph = graph
        self.device = device
        self.compile_body = compile_body
        self.functions = active_functions(graph.backend)
        self.recorder = Recorder(device)
        self.parts: list[Segment | HostSteps] = []
        self.arrays: dict[Value, GpuArray] = {
            v: self.recorder.create_constant_placeholder(x)
            for v, x in graph.constants.items()
            if isinstance(x, GpuArray)
        }
        """The arrays that stand for the values that there are so far; none for strings."""
        self.value_of: dict[Buffer, Value] = {}
        """The values, among those that earlier parts give, whose arrays have certain buffers."""
        self.made: dict[Value, GpuArray] = {}
        """The values that the segment which is being recorded makes."""
        self.hosts: list[HostComputation] = []
        self.waiting: list[Step] = []
        """The steps for the host that come next."""
        self.last = _find_last_uses(graph)

    def build_parts(self) -> list[Segment | HostSteps]:
        """Return the parts of the graph."""
        for value in (*self.graph.arguments, *self.graph.variables):
            self._add_placeholder(value)
        for index, step in enumerate(self.graph.steps):
            if not self._may_run_on_device(step):
                self._end_segment(index)
            else:
                self._end_host_steps(index)
                if self._record(step):
                    continue
                self._end_segment(index)
            self.waiting.append(step)
        self._end_segment(len(self.graph.steps))
        self._end_host_steps(len(self.graph.steps))
        return self.parts

    def _add_placeholder(self, value: Value) -> None:
        """Create a placeholder for the array of a value that comes from outside."""
        shape, dtype = self.graph.specs[value]
        if dtype in STORED_DTYPES:
            array = self.arrays[value] = self.recorder.empty(shape, dtype)
            self.value_of[array.buffer] = value

    def _may_run_on_device(self, step: Step) -> bool:
        """Return whether the device may run a step, judged by the type of the step and its dtypes."""
        values = [v for v in (*step.inputs, *step.outputs) if v is not None]
        has_dtypes = all(self.graph.specs[v].dtype in STORED_DTYPES for v in values)
        return has_dtypes and isinstance(step, Call | HostValue)

    def _record(self, step: Step) -> bool:
        """Record a step; return whether the host must run it instead."""
        specs, recorder = self.graph.specs, self.recorder
        if isinstance(step, HostValue):
            (value,) = step.outputs
            array = self.arrays[value] = recorder.empty(*specs[value])
            assert isinstance(array.buffer, PlaceholderBuffer)
            self.hosts.append(HostComputation(step, specs[value], array.buffer))
            return True
        assert isinstance(step, Call)
        done = len(recorder.work)
        inputs = [None if v is None else self.arrays[v] for v in step.inputs]
        try:
            function = self.functions[step.kernel.name]
            found = function(*(inputs if step.kernel.inputs else [recorder]), **step.attrs)
        except Exception as failure:
            if is_interruption(failure):
                raise
            found = None  # it needs values; or it fails, and has to fail when the program runs
        outputs: list[Any] = [*found] if step.returns_list and found is not None else [found]
        if not all(isinstance(getattr(x, "buffer", None), PlaceholderBuffer) for x in outputs):
            del recorder.work[done:]
            return False
        made: dict[Value, GpuArray] = dict(zip(step.outputs, outputs, strict=True))
        self.made |= made
        self.arrays |= made
        return True

    def _end_segment(self, index: int) -> None:
        """Make a segment from the work recorded before the step number `index`."""
        work, self.recorder.work = self.recorder.work, []
        hosts, self.hosts = self.hosts, []
        made, self.made = self.made, {}
        if not work and not hosts and not made:
            return
        drawn = {host.step.outputs[0]: host for host in hosts}
        if any(self.last.get(value, -1) >= index for value in drawn):
            # Others need one, so all become arrays, in their order.
            self.parts.append(
                HostSteps(self.graph, [h.step for h in hosts], [*drawn], self.compile_body)
            )
            self.value_of |= {host.buffer: value for value, host in drawn.items()}
            hosts = []
        outputs = {v: array for v, array in made.items() if self.last.get(v, -1) >= index}
        used = [x for each in work for x in each.reads] + [x.buffer for x in outputs.values()]
        inputs = {self.value_of[x]: x for x in used if x in self.value_of}
        self.parts.append(Segment(self.device, work, inputs, outputs, hosts))
        for value, array in outputs.items():
            self.value_of.setdefault(array.buffer, value)

    def _end_host_steps(self, index: int) -> None:
        """Make a part of the graph from the host steps before step `index`."""
        steps, self.waiting = self.waiting, []
        if not steps:
            return
        made = [v for step in steps for v in step.outputs]
        outputs = [v for v in made if self.last.get(v, -1) >= index]
        self.parts.append(HostSteps(self.graph, steps, outputs, self.compile_body))
        for value in outputs:
            self._add_placeholder(value)


def _find_last_uses(graph: Graph) -> dict[Value, int]:
    """Return for each value the index of the last step that reads it; the number of steps if it outlives the run."""
    last = {v: i for i, step in enumerate(graph.steps) for v in step.inputs if v is not None}
    ends = (*graph.results, *[value for _, value in graph.updates])
    return last | dict.fromkeys(ends, len(graph.steps))
