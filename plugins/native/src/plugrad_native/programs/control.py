"""Loops and choices as parts of a program: the calls of their bodies run several times, or as a flag decides."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from plugrad.extend import PACKED_VIEWS, Call, Cond, Fused, Scan, While, count_elements, plan_memory
from plugrad_native.declare import MAX_ELEMENTS
from plugrad_native.programs.epilogues import find_accumulated_products
from plugrad_native.programs.reuse import can_overwrite_argument, is_slice_update
from plugrad_native.programs.table import ALIGNMENT_BYTES, EncodedNodes, Location
from plugrad_native.programs.writer import ProgramWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from plugrad.extend import Graph, Shaped, Step, Value

    StepWriter = Callable[[ProgramWriter, Step], None]
    """A function that writes a step of a body to a program."""

ControlFlow: TypeAlias = Scan | Cond | While
"""A step that is a loop or a conditional."""


def has_supported_sizes(step: ControlFlow, specs: Mapping[Value, Shaped]) -> bool:
    """Return whether the arrays of a control-flow step are neither empty nor very large."""
    if isinstance(step, Scan) and step.length < 1:
        return False
    found = [specs[v] for v in (*step.inputs, *step.outputs)]
    found += [body.specs[v] for body in step.graphs for v in (*body.arguments, *body.results)]
    return all(s.dtype.name != "string" and 0 < _count_bytes(s) < MAX_ELEMENTS for s in found)


def write_control(writer: ProgramWriter, step: ControlFlow, write_step: StepWriter) -> None:
    """Write a control-flow step whose bodies have only steps that `write_step` can write."""
    if isinstance(step, Scan):
        _write_scan(writer, step, write_step)
    elif isinstance(step, Cond):
        _write_cond(writer, step, write_step)
    else:
        _write_while(writer, step, write_step)


# --- the three kinds ------------------------------------------------------------------------------


def _write_scan(writer: ProgramWriter, step: Scan, write_step: StepWriter) -> None:
    """Write a step that is a loop of known length.

    The places of the outputs hold the carry while it runs. What is stacked is written to its place in the output.
    """
    carries = len(step.carry)
    aside = _FixedSliceCopies(writer)
    sources = [aside.copy_input(writer.locate(v)) for v in step.inputs]
    targets = [aside.reserve_output(writer.locations[v]) for v in step.outputs]
    writer = aside.make_inner_writer()
    state = _copy_initial_carry(writer, sources[:carries], targets[:carries])

    def locate_first_slice(location: Location) -> Location:
        """Return the location of the first iteration's slice of a stacked array, which moves on in later iterations."""
        nbytes = location.nbytes // step.length
        if step.is_reversed:
            return Location(
                location.slot, location.offset + location.nbytes - nbytes, nbytes, -nbytes
            )
        return Location(location.slot, location.offset, nbytes, nbytes)

    end = carries + len(step.slices)
    slices, captured = map(locate_first_slice, sources[carries:end]), sources[end:]
    body = _BodyWriter(writer, step.body, [*state, *slices, *captured], carries)
    nexts, stacked = step.body.results[:carries], step.body.results[carries:]
    places = [*map(locate_first_slice, targets[carries:])]
    for value, place in zip(stacked, places, strict=True):
        body.write_result_to(value, place)
    body.overwrite_arguments(nexts)

    def write_iteration() -> None:
        """Write the steps of one iteration, and the copies of its results."""
        of_state = [value in body.find_views(step.body.arguments[:carries]) for value in stacked]
        pairs = [*zip(of_state, stacked, places, strict=True)]
        body.copy([(v, place) for is_early, v, place in pairs if is_early])
        body.write_steps(write_step)
        body.copy([(v, place) for is_early, v, place in pairs if not is_early])
        body.copy_carry(nexts)

    table = writer.table
    table.add_repeat(step.length, table.collect_nodes(write_iteration))
    aside.copy_back()


def _write_cond(writer: ProgramWriter, step: Cond, write_step: StepWriter) -> None:
    """Write a step that is a conditional: both branches write to the memory of the outputs."""
    operands = [writer.locate(v) for v in step.operands]
    targets = [writer.locations[v] for v in step.outputs]

    def write_branch(branch: Graph) -> EncodedNodes:
        """Return the nodes of a branch, which write its results to the locations of the outputs."""
        body = _BodyWriter(writer, branch, operands)
        results = [*zip(branch.results, targets, strict=True)]
        for value, place in results:
            body.write_result_to(value, place)

        def write_steps_and_results() -> None:
            """Write the steps of the branch, and copy results that are elsewhere."""
            body.write_steps(write_step)
            body.copy(results)

        return writer.table.collect_nodes(write_steps_and_results)

    yes, no = map(write_branch, step.branches)
    writer.table.add_conditional(writer.locate(step.flag), yes, no)


def _write_while(writer: ProgramWriter, step: While, write_step: StepWriter) -> None:
    """Write a step that is a loop of unknown length, which keeps its carry in the memory of its outputs."""
    state = _copy_initial_carry(
        writer, [writer.locate(v) for v in step.carry], [writer.locations[v] for v in step.outputs]
    )
    given = [*state, *[writer.locate(v) for v in step.captured]]
    test = _BodyWriter(writer, step.condition, given)
    body = _BodyWriter(writer, step.body, given, len(step.carry))
    body.overwrite_arguments(step.body.results)

    def write_iteration() -> None:
        """Write the steps of one iteration, and the copies of the carry."""
        body.write_steps(write_step)
        body.copy_carry(step.body.results)

    table = writer.table
    condition = table.collect_nodes(lambda: test.write_steps(write_step))
    table.add_while(
        condition, test.locate(step.condition.results[0]), table.collect_nodes(write_iteration)
    )


def _copy_initial_carry(
    writer: ProgramWriter, sources: Sequence[Location], targets: Sequence[Location]
) -> Sequence[Location]:
    """Copy the initial carry to the locations that hold the carry during the loop, and return these locations."""
    for source, target in zip(sources, targets, strict=True):
        writer.write_copy(source, target)
    return targets


# --- places ---------------------------------------------------------------------------------------


class _FixedSliceCopies:
    """Copies of an outer loop's slices at fixed addresses, because an address can change with only one loop."""

    def __init__(self, writer: ProgramWriter) -> None:
        self.writer = writer
        self.end = writer.scratch_offset
        self.back: list[tuple[Location, Location]] = []

    def copy_input(self, location: Location) -> Location:
        """Copy a slice of an outer loop to a fixed location, which the inner loop reads, and return that location."""
        stand_in = self._reserve_scratch(location)
        if stand_in != location:
            self.writer.write_copy(location, stand_in)
        return stand_in

    def reserve_output(self, location: Location) -> Location:
        """Return a fixed location for the inner loop to write, which `copy_back` copies to the slice at `location`."""
        stand_in = self._reserve_scratch(location)
        if stand_in != location:
            self.back.append((stand_in, location))
        return stand_in

    def copy_back(self) -> None:
        """Copy the inner loop's results from their fixed addresses to the outer loop's slices."""
        for source, target in self.back:
            self.writer.write_copy(source, target)

    def make_inner_writer(self) -> ProgramWriter:
        """Return a writer for the inner loop, which keeps the fixed locations reserved."""
        return replace(self.writer, scratch_offset=self.end)

    def _reserve_scratch(self, location: Location) -> Location:
        """Return scratch memory in place of a location that moves with the outer loop, else the location itself."""
        if not location.bytes_per_iteration:
            return location
        start, self.end = self.end, self.end + _round_up_to_alignment(location.nbytes)
        return self.writer.table.reserve(start, location.nbytes)


class _BodyWriter:
    """Writes the body of a loop or branch to a program, and knows the locations of its values."""

    def __init__(
        self,
        writer: ProgramWriter,
        graph: Graph,
        arguments: Sequence[Location],
        carry_count: int = 0,
    ) -> None:
        self.outer, self.graph = writer, graph
        places = find_accumulated_products(graph, carry_count)
        plan = plan_memory(graph, views=PACKED_VIEWS, in_place=False, places=places)
        self.storage = plan.storage
        self.owners = dict(zip(graph.arguments, arguments, strict=True))
        """Where the memory of values lies, by the values that own it."""
        for value, offset in plan.offsets.items():
            nbytes = _count_bytes(graph.specs[value])
            self.owners[value] = writer.table.reserve(writer.scratch_offset + offset, nbytes)
        self.end = writer.scratch_offset + _round_up_to_alignment(plan.arena_bytes)
        self.makers = {
            v: index
            for index, step in enumerate(graph.steps)
            for v in step.outputs
            if plan.storage[v] == v
        }
        self.aimed: set[Value] = set()
        constants: dict[Value, Any] = {**graph.constants}
        for step in graph.steps:
            if isinstance(step, Fused):
                constants |= step.body.constants
        for value, owner in plan.storage.items():
            if owner in constants:
                constants[value] = np.reshape(constants[owner], graph.specs[value].shape)
        self.constants = constants

    @property
    def writer(self) -> ProgramWriter:
        """The writer of the body's steps."""
        places = {v: self.owners[o] for v, o in self.storage.items() if o in self.owners}
        return ProgramWriter(self.outer.table, self.graph.specs, places, self.end, self.constants)

    def write_steps(self, write_step: StepWriter) -> None:
        """Write all steps of the body by the function `write_step`."""
        writer = self.writer
        for step in self.graph.steps:
            write_step(writer, step)

    def locate(self, value: Value) -> Location:
        """Return the location of a value in memory."""
        if value in self.constants:
            return self.outer.table.add_constant(self.constants[value])
        return self.owners[self.storage[value]]

    def find_views(self, values: Iterable[Value]) -> frozenset[Value]:
        """Return the values and all views of them."""
        owners = frozenset(values)
        return frozenset([v for v, owner in self.storage.items() if owner in owners])

    def write_result_to(self, value: Value, location: Location) -> None:
        """Make a step write a value to a location, unless the value has one already."""
        owner = self.storage[value]
        if owner in self.makers and owner not in self.aimed:
            self.aimed.add(owner)
            self.owners[owner] = location

    def overwrite_arguments(self, results: Sequence[Value]) -> None:
        """Make steps write results over the arguments that they replace, where no step reads those later."""
        for argument, value in zip(self.graph.arguments, results, strict=False):
            is_kept = any(self.storage[v] == argument for v in results)
            if not is_kept and self._can_overwrite(argument, self.storage[value]):
                self.write_result_to(value, self.owners[argument])

    def _can_overwrite(self, argument: Value, value: Value) -> bool:
        """Return whether no step reads an argument after a value is written, except in the same loop."""
        maker = self.makers.get(value)
        if maker is None:
            return False
        views = self.find_views([argument])
        steps = self.graph.steps
        last = max((i for i, s in enumerate(steps) if not views.isdisjoint(s.inputs)), default=-1)
        if last < maker:
            return True
        step = steps[maker]
        if last > maker:
            return False
        if isinstance(step, Call):
            return is_slice_update(step) and views.isdisjoint(step.inputs[1:])
        return (
            isinstance(step, Fused)
            and views.intersection(step.inputs) == frozenset([argument])
            and can_overwrite_argument(argument, value, step.body)
        )

    def copy(self, values_and_locations: Iterable[tuple[Value, Location]]) -> None:
        """Copy each value to the location beside it, unless it is already there."""
        for value, target in values_and_locations:
            self.outer.write_copy(self.locate(value), target)

    def copy_carry(self, results: Sequence[Value]) -> None:
        """Copy the results, which are the carry of the next iteration, to the locations of the carry.

        A part that another part overwrites is copied to scratch memory before.
        """
        state = [self.owners[v] for v, _ in zip(self.graph.arguments, results, strict=False)]
        end = self.end
        then: list[tuple[Location, Location]] = []
        for target, value in zip(state, results, strict=True):
            source = self.locate(value)
            if source == target:
                continue
            if source in state:
                aside = self.outer.table.reserve(end, source.nbytes)
                end += _round_up_to_alignment(source.nbytes)
                self.outer.write_copy(source, aside)
                source = aside
            then.append((source, target))
        for source, target in then:
            self.outer.write_copy(source, target)


def _round_up_to_alignment(nbytes: int) -> int:
    """Return a number of bytes, rounded up to a multiple of the alignment."""
    return -(-nbytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES


def _count_bytes(spec: Shaped) -> int:
    """Return the bytes of an array with a given shape and dtype."""
    return count_elements(spec.shape) * spec.dtype.itemsize
