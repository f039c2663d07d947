"""The compiler of the pack: all that C can run of a graph becomes programs, and the rest is called back."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from plugrad.extend import (
    PACKED_VIEWS,
    Call,
    Fused,
    KernelNotFound,
    compile_replay,
    count_elements,
    fuse_groups,
    fuse_regions,
    get_kernel,
    plan_memory,
)
from plugrad_cpu.extend import empty, make_room, numpy_implementation, thread_pool
from plugrad_native.declare import PARALLEL_MIN_WORK, UNTRACKED_MAX_ELEMENTS, table
from plugrad_native.programs.elementwise import elementwise_calls
from plugrad_native.programs.lowering import VIEWS, calls_of
from plugrad_native.programs.writer import LARGE_ARENA, Place, Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from plugrad.extend import Graph, Step, Value
    from plugrad_native.declare import Array
    from plugrad_native.programs.calls import AnyCall

    Run = Callable[..., list[Any]]


def compile_graph(graph: Graph) -> Run | None:
    """Return a function of the arrays of arguments and variables, which returns results and updates.

    None if there is nothing that C can run.
    """
    own = _OwnKernels(graph)
    fused = fuse_groups(graph, is_included=own.is_elementwise, min_calls=1)
    fused = fuse_regions(fused, own.is_included)
    regions = [step.body for step in fused.steps if isinstance(step, Fused)]
    if not regions and not any(step.graphs for step in fused.steps):
        return None
    if len(fused.steps) == 1 and regions:
        ends = (*graph.results, *(value for _, value in graph.updates))
        return compile_region(
            regions[0], (*graph.arguments, *graph.variables), ends, graph.constants
        )

    def compile_inner(inner: Graph) -> Run:
        if any(inner is region for region in regions):
            return compile_region(inner, inner.arguments, inner.results)
        return compile_graph(inner) or compile_replay(inner)

    return compile_replay(fused, compile_body=compile_inner)


class _OwnKernels:
    """Which steps of a graph C can run: calls whose implementation is that of this pack, or of the backend."""

    def __init__(self, graph: Graph) -> None:
        self.backend = graph.backend.name
        self.specs = graph.specs
        self.known: dict[str, bool] = {}
        self.max_work = PARALLEL_MIN_WORK if thread_pool.count > 1 else None
        """The elements from which on several threads share a call, which Python gives them."""

    def is_elementwise(self, call: Call) -> bool:
        """Return whether C computes an elementwise call."""
        return (
            self._is_own(call)
            and not self._is_shared(call)
            and elementwise_calls(call, self.specs) is not None
        )

    def is_included(self, step: Step) -> bool:
        """Return whether a step is a group of such calls, a call that C runs, or one that takes no time."""
        if isinstance(step, Fused):
            return True
        if not isinstance(step, Call) or not self._is_own(step):
            return False
        if step.kernel in VIEWS:
            return self.specs[step.outputs[0]].dtype.name != "string"
        return not self._is_shared(step) and calls_of(step, self.specs) is not None

    def _is_own(self, call: Call) -> bool:
        kernel = call.kernel
        is_own = self.known.get(kernel.name)
        if is_own is None:
            config = get_kernel(kernel.name, self.backend)
            is_own = self.known[kernel.name] = config is not None and (
                config in table or config.kernel_func is _numpy_function(kernel)
            )
        return is_own

    def _is_shared(self, call: Call) -> bool:
        if self.max_work is None:
            return False
        values = [v for v in (*call.inputs, *call.outputs) if v is not None]
        return max(count_elements(self.specs[v].shape) for v in values) >= self.max_work


def _numpy_function(kernel: Any) -> Any:
    try:
        return numpy_implementation(kernel)
    except KernelNotFound:
        return None


NO_CONSTANTS: Final[Mapping[Value, Array]] = MappingProxyType({})

# --- one program ------------------------------------------------------------------------------------


def compile_region(
    body: Graph,
    arguments: Sequence[Value],
    ends: Sequence[Value],
    constants: Mapping[Value, Array] = NO_CONSTANTS,
) -> Run:
    """Return a function of the arrays of some values, which returns those of others.

    Args:
        body: calls of kernels, and groups of elementwise ones.
        arguments: the values that are given; the body reads some of them.
        ends: what is returned: arguments, constants, and results of the body.
        constants: more of them than the body has.
    """
    steps = body.steps
    if all(isinstance(step, Call) and step.kernel in VIEWS for step in steps):
        return compile_replay(
            replace(
                body,
                arguments=tuple(arguments),
                results=tuple(ends),
                constants={**constants, **body.constants},
            )
        )
    plan = plan_memory(body, views=PACKED_VIEWS, in_place=False, are_results_apart=True)
    storage, specs = plan.storage, body.specs
    sizes = {v: count_elements(specs[v].shape) * specs[v].dtype.itemsize for v in specs}
    made = [v for step in steps for v in step.outputs if storage[v] == v]
    outputs = [v for v in made if plan.last_uses[v] == len(steps)]
    inputs = [v for v in body.arguments if v in storage]
    slots = {v: 1 + i for i, v in enumerate([*inputs, *outputs])}
    constants = {**constants, **body.constants}
    for step in steps:
        if isinstance(step, Fused):
            constants |= step.body.constants
    places: dict[Value, Place] = {}
    for value in specs:
        owner = storage.get(value)
        if owner in slots:
            places[value] = Place(slots[owner], 0, sizes[value])
        elif owner in plan.offsets:
            places[value] = Place(0, plan.offsets[owner], sizes[value])
    writer = Writer(
        specs,
        places,
        [sizes[v] for v in inputs],
        [sizes[v] for v in outputs],
        plan.arena_bytes,
        constants,
    )
    for step in steps:
        _write(writer, step)
    return _Caller(body, arguments, ends, inputs, outputs, storage, constants).compile(writer)


def _write(writer: Writer, step: Step) -> None:
    """Write a step of a region."""
    if isinstance(step, Fused):
        calls: list[AnyCall] = []
        for call in step.body.steps:
            assert isinstance(call, Call)
            calls += elementwise_calls(call, writer.specs) or []
        writer.write_loop(writer.specs[step.outputs[0]].shape, calls, step.outputs)
        return
    assert isinstance(step, Call)
    if step.kernel not in VIEWS:
        writer.write_calls(calls_of(step, writer.specs) or [])


class _Caller(NamedTuple):
    """What calls a program: it makes the results, and replays the calls where an array is not contiguous.

    For the order in which elements lie in memory decides in which order they are added, and on the last bits of some
    functions.
    """

    body: Graph
    arguments: Sequence[Value]
    ends: Sequence[Value]
    inputs: Sequence[Value]
    outputs: Sequence[Value]
    """Those that own memory; others are views of them."""
    storage: Mapping[Value, Value]
    constants: Mapping[Value, Array]

    def compile(self, writer: Writer) -> Run:
        """Return the function."""
        specs, storage = self.body.specs, self.storage
        names: dict[str, Any] = {
            "program": writer.finish(),
            "replay": _Replay(self),
            "make_room": make_room,
        }
        names |= {f"v{v}": array for v, array in self.constants.items()}
        lines = [f"def run({', '.join(f'v{v}' for v in self.arguments)}):"]
        total = sum(writer.outputs)
        is_large = writer.arena_bytes >= LARGE_ARENA
        total += writer.arena_bytes if is_large else 0
        lines.append(f"    make_room({total})")
        ends = {storage[v]: v for v in reversed(self.ends) if v in storage}
        for value in self.outputs:
            shape, dtype = specs[ends.get(value, value)]
            new = np.empty if count_elements(shape) < UNTRACKED_MAX_ELEMENTS else empty
            names |= {f"n{value}": new, f"s{value}": shape, f"d{value}": dtype.numpy}
            lines.append(f"    o{value} = n{value}(s{value}, d{value})")
        if is_large:
            names |= {"new_arena": empty, "arena_shape": (writer.arena_bytes,), "bytes_": _BYTES}
            lines.append("    arena = new_arena(arena_shape, bytes_)")
        given = [f"v{v}" for v in self.inputs]
        made = [*[f"o{v}" for v in self.outputs], *["arena"] * is_large]
        lines += [
            "    try:",
            f"        program({', '.join([*given, *made])})",
            "    except BufferError:",
            f"        return replay({', '.join(f'v{v}' for v in self.arguments)})",
            f"    return [{', '.join(self._text_of(v, names, ends) for v in self.ends)}]",
        ]
        exec("\n".join(lines), names)
        return names["run"]

    def _text_of(self, value: Value, names: dict[str, Any], ends: Mapping[Value, Value]) -> str:
        """Return the text of a result: an array that was given or made, or a view of it."""
        owner = self.storage.get(value, value)
        if value in self.arguments or value in self.constants:
            return f"v{value}"
        name = f"o{owner}" if owner in self.outputs else f"v{owner}"
        if ends.get(owner) == value and owner in self.outputs:
            return name
        names[f"s{value}_"] = self.body.specs[value].shape
        return f"{name}.reshape(s{value}_)"


_BYTES = np.dtype(np.uint8)


class _Replay:
    """The same calls, one by one; compiled when it is first needed."""

    def __init__(self, caller: _Caller) -> None:
        self.caller = caller
        self.run: Run | None = None

    def __call__(self, *arrays: Any) -> list[Any]:
        if self.run is None:
            caller = self.caller
            constants = {v: x for v, x in caller.constants.items() if v not in caller.arguments}
            graph = replace(
                caller.body,
                arguments=tuple(caller.arguments),
                results=tuple(caller.ends),
                constants=constants,
            )
            self.run = compile_replay(graph)
        return self.run(*arrays)
