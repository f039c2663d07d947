"""The compiler of the pack: steps of a graph that C can run become programs, and Python runs the other steps."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from sys import getrefcount
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from plugrad.extend import (
    Call,
    Cond,
    Fused,
    Scan,
    While,
    compile_replay,
    count_elements,
    find_storage,
    fuse_regions,
    fuse_steps,
    plan_memory,
)
from plugrad.kernels import fused as fused_kernels
from plugrad_cpu.extend import empty, make_room, thread_pool
from plugrad_native.declare import PART_SIZE_MULTIPLE, UNTRACKED_MAX_ELEMENTS
from plugrad_native.programs.calls import get_inputs
from plugrad_native.programs.control import write_control
from plugrad_native.programs.element_loops import write_element_loop
from plugrad_native.programs.elementwise import lower_elementwise
from plugrad_native.programs.groups import lower_group
from plugrad_native.programs.images import is_image_group, write_image_group
from plugrad_native.programs.layout import lay_out_values
from plugrad_native.programs.lowering import (
    VIEW_KERNELS,
    lower_call,
)
from plugrad_native.programs.order import order_steps
from plugrad_native.programs.reuse import (
    MemoryUses,
    find_reusable_arguments,
    is_overwritable,
    is_slice_update,
)
from plugrad_native.programs.row_loops import ROW_BLOCK_MULTIPLE, write_row_loop
from plugrad_native.programs.rows import RowStep, lower_rows
from plugrad_native.programs.scratch import count_scratch_bytes
from plugrad_native.programs.selection import CompiledStepSelector
from plugrad_native.programs.table import Location, ProgramTable
from plugrad_native.programs.updates import CompiledGraphWithUpdates, plan_updates
from plugrad_native.programs.views import find_elementwise_shape, find_group_views
from plugrad_native.programs.writer import LARGE_ARENA_BYTES, ProgramWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence, Set

    from plugrad.extend import Graph, Shaped, Step, Value
    from plugrad_native.declare import Array

    GraphFunction = Callable[..., list[Any]]
    """The type of a function of arrays that runs a graph, and returns the arrays of its results."""


def compile_graph(graph: Graph) -> GraphFunction | None:
    """Return a function from the arrays of arguments and variables to those of results and updates, or None.

    None if there is nothing that C can run.
    """
    own = CompiledStepSelector(graph)
    if graph.updates and (plan := plan_updates(graph, own.can_update_in_place, _compile_or_replay)):
        return CompiledGraphWithUpdates(graph, plan, _compile_without_in_place_updates)
    return _compile(graph)


def _compile_or_replay(graph: Graph) -> GraphFunction:
    """Return a function that runs a graph by programs, or call by call from Python if C can run none of it."""
    return compile_graph(graph) or compile_replay(graph)


def _compile_without_in_place_updates(graph: Graph) -> GraphFunction:
    """Return a function that runs a graph and returns updated variables as new arrays."""
    return _compile(graph) or compile_replay(graph)


def _compile(graph: Graph) -> GraphFunction | None:
    """Return a function that runs a graph with its updates as new arrays, or None if C can run none of it."""
    own = CompiledStepSelector(graph)
    grouped = own.prepare(graph)
    groups = [step.body for step in grouped.steps if isinstance(step, Fused)]
    fused = order_steps(fuse_regions(grouped, own.is_compiled), is_effect_free=own.has_own_kernel)
    bodies = [step.body for step in fused.steps if isinstance(step, Fused)]
    groups = [body for body in bodies if any(body is group for group in groups)]
    regions = [body for body in bodies if body not in groups]
    if not bodies and not any(step.graphs for step in fused.steps):
        return None
    if len(fused.steps) == 1 and regions:
        ends = (*graph.results, *(value for _, value in graph.updates))
        region = compile_region(
            regions[0], (*graph.arguments, *graph.variables), ends, graph.constants
        )
        return _attach_memory_plan(region.run, fused, {regions[0]: region}, own)

    memory = MemoryUses(fused)
    compiled: dict[Graph, Region] = {}

    def compile_inner(inner_graph: Graph) -> GraphFunction:
        """Return a function that runs the body of a fused step or of control flow."""
        if not any(inner_graph is body for body in bodies):
            return _compile_or_replay(inner_graph)
        dying = memory.find_dying_values(inner_graph)
        if any(inner_graph is region for region in regions):
            made = compile_region(
                inner_graph, inner_graph.arguments, inner_graph.results, dying_arguments=dying
            )
        else:
            made = compile_shared_group(inner_graph, dying)
        memory.add_owners(made.memory_owners)
        compiled[inner_graph] = made
        return made.run

    run = compile_replay(fused, compile_body=compile_inner)
    return _attach_memory_plan(run, fused, compiled, own)


def _attach_memory_plan(
    graph_function: GraphFunction,
    fused_graph: Graph,
    regions: Mapping[Graph, Region],
    selector: CompiledStepSelector,
) -> GraphFunction:
    """Return the compiled function of a graph, with the attribute `graph`: the fused graph and its peak memory."""
    places = {v: x for region in regions.values() for v, x in region.memory_owners.items()}

    def scratch_bytes(step: Step) -> int:
        """Return the bytes that a step takes beside its results."""
        if isinstance(step, Call):
            return (
                count_scratch_bytes(step, fused_graph.specs) if selector.has_own_kernel(step) else 0
            )
        return regions[step.body].scratch_bytes if isinstance(step, Fused) else 0

    plan = plan_memory(fused_graph, in_place=False, places=places, scratch_bytes=scratch_bytes)
    graph = replace(fused_graph, peak_bytes=plan.peak_bytes)
    graph_function.graph = graph  # type: ignore[attr-defined] # pyright: ignore[reportFunctionMemberAccess]
    return graph_function


NO_CONSTANTS: Final[Mapping[Value, Array]] = MappingProxyType({})
"""An empty mapping from values to constant arrays."""

# --- one program ------------------------------------------------------------------------------------


class Region(NamedTuple):
    """The function that runs a fused step of a graph, and its memory use."""

    run: GraphFunction
    """The function from the arrays of the step's inputs to those of its results."""
    memory_owners: Mapping[Value, Value]
    """By result: the value in whose memory it lies; other results have memory of their own."""
    scratch_bytes: int
    """The bytes that it allocates beside its results while it runs; memory kept between calls does not count."""


def compile_region(
    body: Graph,
    arguments: Sequence[Value],
    results: Sequence[Value],
    constants: Mapping[Value, Array] = NO_CONSTANTS,
    dying_arguments: Set[Value] = frozenset(),
) -> Region:
    """Compile a fused step to a function from the arrays of the values `arguments` to the arrays of `results`.

    The results may be arguments, constants, and results of the body. The graph around the body has made the dying
    arguments, and no longer needs them.
    """
    if all(isinstance(step, Call) and step.kernel in VIEW_KERNELS for step in body.steps):
        viewed = replace(
            body,
            arguments=tuple(arguments),
            results=tuple(results),
            constants={**constants, **body.constants},
        )
        return Region(compile_replay(viewed), find_storage(viewed), 0)
    body = order_steps(body, preallocated_values=frozenset(body.results))
    memory = lay_out_values(body, dying_arguments)
    constants = _collect_constants(body, constants, memory.storage)
    table = ProgramTable(memory.input_sizes(), memory.output_sizes(), memory.arena_bytes)
    writer = ProgramWriter(table, body.specs, memory.locations, memory.arena_bytes, constants)
    for step in body.steps:
        _write_step(writer, step)
    caller = _ProgramCaller(
        body,
        arguments,
        results,
        memory.inputs,
        memory.outputs,
        memory.storage,
        constants,
        memory.reused_arguments,
    )
    run = caller.compile(table.make_function(), sum(table.outputs), table.arena_bytes)
    return Region(run, memory.find_owners(results), _count_allocated_bytes(table))


def _collect_constants(
    body: Graph, outer_constants: Mapping[Value, Array], storage: Mapping[Value, Value]
) -> Mapping[Value, Array]:
    """Return the constants of a graph, its fused steps and what is around it, and the views of constants."""
    constants = {**outer_constants, **body.constants}
    for step in body.steps:
        if isinstance(step, Fused):
            constants |= step.body.constants
    for value, owner in storage.items():
        if value != owner and owner in constants:
            constants[value] = np.reshape(constants[owner], body.specs[value].shape)
    return constants


def _count_allocated_bytes(program: ProgramTable) -> int:
    """Return the bytes of the scratch memory that each call allocates; the program keeps small scratch memory."""
    return program.arena_bytes if program.arena_bytes >= LARGE_ARENA_BYTES else 0


def compile_shared_group(body: Graph, dying_arguments: Set[Value]) -> Region:
    """Compile a group of calls to a function that runs in several threads, with a program for each thread's part."""
    specs, inputs, outputs = body.specs, body.arguments, body.results
    sizes = {v: count_elements(specs[v].shape) * specs[v].dtype.itemsize for v in specs}
    places = {v: Location(1 + i, 0, sizes[v]) for i, v in enumerate([*inputs, *outputs])}
    given = [sizes[v] for v in inputs], [sizes[v] for v in outputs]
    shape = find_elementwise_shape(body)
    count = count_elements(shape) if shape is not None else specs[outputs[0]].shape[0]
    multiple = PART_SIZE_MULTIPLE if shape is not None else ROW_BLOCK_MULTIPLE
    multiple = 1 if is_image_group(body.steps) else multiple
    work = sum(count_elements(specs[v].shape) for step in body.steps for v in step.outputs)
    parts = thread_pool.count_parts(work, count // multiple)
    bounds = [*(count * i // parts // multiple * multiple for i in range(parts)), count]
    programs: list[tuple[Callable[..., None], int]] = []
    scratch_bytes = 0
    for first, last in pairwise(bounds):
        part = ProgramTable(*given)
        _write_group(ProgramWriter(part, specs, places, 0, body.constants), body, first, last)
        programs.append((part.make_function(), part.arena_bytes))
        scratch_bytes += _count_allocated_bytes(part)

    def run_programs(*arrays: Array) -> None:
        """Run the programs of all parts, in several threads."""
        thread_pool.run(
            [
                (run, *arrays, empty((arena,), _BYTE_DTYPE))
                if arena >= LARGE_ARENA_BYTES
                else (run, *arrays)
                for run, arena in programs
            ]
        )

    storage = {v: v for v in places}
    whole = replace(body, steps=(Fused(body, body.steps[-1].line),))
    reused = find_reusable_arguments(whole, dying_arguments)
    caller = _ProgramCaller(body, inputs, outputs, inputs, outputs, storage, body.constants, reused)
    return Region(caller.compile(run_programs, sum(given[1]), 0), reused, scratch_bytes)


def _write_group(
    writer: ProgramWriter, body: Graph, first_item: int = 0, end_item: int | None = None
) -> None:
    """Write a group to a program, for the elements or rows from `first_item` to before `end_item`."""
    shape = find_elementwise_shape(body)
    if shape is not None:
        calls = lower_group(body, writer.specs, find_group_views(body))
        write_element_loop(writer, shape, calls, body.results, first_item, end_item)
    elif is_image_group(body.steps):
        write_image_group(writer, body, first_item, end_item)
    else:
        rows = writer.specs[body.results[0]].shape[0]
        write_row_loop(
            writer, rows, _make_row_steps(body, writer.specs), body.results, first_item, end_item
        )


def _is_control_flow(step: Step) -> bool:
    """Return whether a step of a graph is a loop or a conditional."""
    return isinstance(step, Scan | Cond | While)


def _make_row_steps(body: Graph, specs: Mapping[Value, Shaped]) -> list[RowStep]:
    """Return the steps of a group of calls that are independent along the first axis."""
    steps: list[RowStep] = []
    for call in body.steps:
        assert isinstance(call, Call)
        (y,) = call.outputs
        calls = lower_elementwise(call, specs) or lower_rows(call, specs)
        if calls is None:
            is_repeated = call.kernel not in VIEW_KERNELS
            steps.append(RowStep(y, (), call.inputs[0], is_repeated))
        else:
            steps.append(RowStep(y, calls))
    return steps


def _write_step(writer: ProgramWriter, step: Step) -> None:
    """Write a step of a graph to a program."""
    if isinstance(step, Fused):
        _write_group(writer, step.body)
        return
    if isinstance(step, Scan | Cond | While):
        write_control(writer, step, _write_step)
        return
    assert isinstance(step, Call)
    if step.kernel not in VIEW_KERNELS:
        calls = lower_call(step, writer.specs)
        assert calls is not None
        if step.kernel is fused_kernels.matmul:
            bias = step.inputs[2]
            assert bias is not None
            writer.write_copy(writer.locate(bias), writer.locate(step.outputs[0]))
        is_in_place = is_slice_update(step) and (
            writer.locate(get_inputs(step)[0]) == writer.locate(step.outputs[0])
        )
        writer.write_calls(calls[1:] if is_in_place else calls)


class _ProgramCaller(NamedTuple):
    """The caller of a program: it allocates the results, and replays the calls if an array is not contiguous.

    For the order in which elements lie in memory decides in which order they are added, and on the last bits of some
    functions.
    """

    body: Graph
    """The graph that the program runs."""
    arguments: Sequence[Value]
    """The arguments of the caller, as values of the graph."""
    results: Sequence[Value]
    """The results of the caller, as values of the graph."""
    inputs: Sequence[Value]
    """The arguments that the program reads."""
    outputs: Sequence[Value]
    """The results that own memory; others are views of them."""
    storage: Mapping[Value, Value]
    """By value: the value in whose memory it lies."""
    constants: Mapping[Value, Array]
    """The arrays of the values that are constants."""
    reused_arguments: Mapping[Value, Value] = MappingProxyType({})
    """By output: the argument in whose memory it may lie, if nothing else refers to that array."""

    def compile(
        self, program: Callable[..., None], output_bytes: int, arena_bytes: int
    ) -> GraphFunction:
        """Return a function that calls a program, given the bytes of all its outputs and of its scratch memory."""
        specs, storage = self.body.specs, self.storage
        names: dict[str, Any] = {
            "program": program,
            "replay": _LoopwiseReplay(self),
            "make_room": make_room,
            "is_overwritable": is_overwritable,
            "getrefcount": getrefcount,
        }
        names |= {f"v{v}": array for v, array in self.constants.items()}
        lines = [f"def run({', '.join(f'v{v}' for v in self.arguments)}):"]
        is_large = arena_bytes >= LARGE_ARENA_BYTES
        few = [count_elements(specs[v].shape) < UNTRACKED_MAX_ELEMENTS for v in self.outputs]
        if is_large or not all(few):
            lines.append(f"    make_room({output_bytes + is_large * arena_bytes})")
        ends = {storage[v]: v for v in reversed(self.results) if v in storage}
        for value in self.outputs:
            shape, dtype = specs[ends.get(value, value)]
            new = np.empty if count_elements(shape) < UNTRACKED_MAX_ELEMENTS else empty
            names |= {f"n{value}": new, f"s{value}": shape, f"d{value}": dtype.numpy}
            made = f"n{value}(s{value}, d{value})"
            if value in self.reused_arguments:
                place = f"v{self.reused_arguments[value]}"
                made = f"{place} if is_overwritable({place}, getrefcount({place})) else {made}"
            lines.append(f"    o{value} = {made}")
        if is_large:
            names |= {"new_arena": empty, "arena_shape": (arena_bytes,), "bytes_": _BYTE_DTYPE}
            lines.append("    arena = new_arena(arena_shape, bytes_)")
        given = [f"v{v}" for v in self.inputs]
        made = [*[f"o{v}" for v in self.outputs], *["arena"] * is_large]
        lines += [
            "    try:",
            f"        program({', '.join([*given, *made])})",
            "    except BufferError:",
            *[f"        del {', '.join(new)}" for new in (made,) if new],
            f"        return replay({', '.join(f'v{v}' for v in self.arguments)})",
            f"    return [{', '.join(self._format_result(v, names, ends) for v in self.results)}]",
        ]
        exec("\n".join(lines), names)
        return names["run"]

    def _format_result(
        self, value: Value, namespace: dict[str, Any], results_by_owner: Mapping[Value, Value]
    ) -> str:
        """Return the Python expression of a result; the objects that it refers to by name are added to `namespace`."""
        owner = self.storage.get(value, value)
        if value in self.arguments or value in self.constants:
            return f"v{value}"
        name = f"o{owner}" if owner in self.outputs else f"v{owner}"
        if results_by_owner.get(owner) == value and owner in self.outputs:
            return name
        namespace[f"s{value}_"] = self.body.specs[value].shape
        return f"{name}.reshape(s{value}_)"


_BYTE_DTYPE = np.dtype(np.uint8)
"""The dtype of scratch memory: bytes."""


class _LoopwiseReplay:
    """A replay of the graph with each loop as a program of its own, compiled on first use."""

    def __init__(self, caller: _ProgramCaller) -> None:
        self.caller = caller
        self.run: GraphFunction | None = None

    def __call__(self, *arrays: Any) -> list[Any]:
        if self.run is None:
            caller = self.caller
            constants = {v: x for v, x in caller.constants.items() if v not in caller.arguments}
            graph = replace(
                caller.body,
                arguments=tuple(caller.arguments),
                results=tuple(caller.results),
                constants=constants,
            )
            loops = [[i] for i, step in enumerate(graph.steps) if _is_control_flow(step)]
            graph = fuse_steps(graph, loops) if len(graph.steps) > 1 else graph
            bodies = [step.body for step in graph.steps if isinstance(step, Fused)]

            def compile_body(inner_graph: Graph) -> GraphFunction:
                """Return a function of the graph of a loop or of one iteration, for arrays of any layout."""
                if any(inner_graph is body for body in bodies):
                    if _is_control_flow(inner_graph.steps[0]):
                        return compile_region(
                            inner_graph, inner_graph.arguments, inner_graph.results
                        ).run
                    return compile_replay(inner_graph)
                return _compile_or_replay(inner_graph)

            self.run = compile_replay(graph, compile_body=compile_body)
        return self.run(*arrays)
