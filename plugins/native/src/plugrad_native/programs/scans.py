"""Loops of a known length as one program: the calls of the body are a part that runs several times."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from plugrad.extend import PACKED_VIEWS, Scan, count_elements, plan_memory
from plugrad_native.declare import MAX_ELEMENTS
from plugrad_native.programs.calls import c_function
from plugrad_native.programs.writer import ALIGNMENT, Place, Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from plugrad.extend import Graph, Shaped, Step, Value

COPY_BYTES = c_function("expand_1")


class ScanProgram(NamedTuple):
    """The program of a loop: it takes the carry, the sliced and the captured values, and then its outputs."""

    program: Callable[..., None]
    output_bytes: int
    arena_bytes: int


def can_loop(step: Scan, specs: Mapping[Value, Shaped]) -> bool:
    """Return whether a loop has what a program needs: rounds, arrays neither empty nor very large, computed results."""
    sizes = [_nbytes(specs[v]) for v in (*step.inputs, *step.outputs)]
    if step.length < 1 or not all(0 < size < MAX_ELEMENTS for size in sizes):
        return False
    storage = plan_memory(step.body, views=PACKED_VIEWS, in_place=False).storage
    return not any(storage.get(v, v) in step.body.constants for v in step.body.results)


def write_scan(
    step: Scan, body: Graph, specs: Mapping[Value, Shaped], write: Callable[[Writer, Step], None]
) -> ScanProgram:
    """Return the program of a loop.

    The outputs hold the carry while the loop runs. What is stacked is written to its place in the output.

    Args:
        step: the loop.
        body: its body, whose steps are calls that C runs and groups of elementwise ones.
        specs: the shapes and dtypes outside.
        write: writes such a step.
    """
    plan = plan_memory(body, views=PACKED_VIEWS, in_place=False)
    sizes = {v: _nbytes(spec) for v, spec in body.specs.items()}
    carries, slices = len(step.carry), len(step.slices)
    inputs = len(step.inputs)
    places = {v: Place(0, offset, sizes[v]) for v, offset in plan.offsets.items()}
    state = [Place(1 + inputs + i, 0, sizes[v]) for i, v in enumerate(body.arguments[:carries])]

    def turning(slot: int, nbytes: int) -> Place:
        if step.is_reversed:
            return Place(slot, (step.length - 1) * nbytes, nbytes, -nbytes)
        return Place(slot, 0, nbytes, nbytes)

    for i, value in enumerate(body.arguments):
        if i < carries:
            places[value] = state[i]
        elif i < carries + slices:
            places[value] = turning(1 + i, sizes[value])
        else:
            places[value] = Place(1 + i, 0, sizes[value])
    stacked = [
        (value, turning(1 + inputs + carries + i, sizes[value]))
        for i, value in enumerate(body.results[carries:])
    ]
    made = {v for s in body.steps for v in s.outputs if plan.storage[v] == v}
    for value, target in stacked:
        owner = plan.storage[value]
        if owner in made and places[owner].slot == 0:
            places[owner] = target
    constants = dict(body.constants)
    for value, owner in plan.storage.items():
        if owner not in constants:
            places[value] = places[owner]
        elif value != owner:
            constants[value] = np.reshape(constants[owner], body.specs[value].shape)
    copied, end = _copies(body, plan.storage, places, state, plan.arena_bytes)
    given = [_nbytes(specs[v]) for v in step.inputs], [_nbytes(specs[v]) for v in step.outputs]
    writer = Writer(body.specs, places, *given, end, constants)
    for i, target in enumerate(state):
        writer.write_copy(COPY_BYTES, Place(1 + i, 0, target.nbytes), target)
    writer.end_part()
    for each in body.steps:
        write(writer, each)
    for value, target in stacked:
        if places[value] != target:
            writer.write_copy(COPY_BYTES, places[value], target)
    for source, target in copied:
        writer.write_copy(COPY_BYTES, source, target)
    writer.end_part(step.length)
    return ScanProgram(writer.finish(), sum(given[1]), writer.arena_bytes)


def _copies(
    body: Graph,
    storage: Mapping[Value, Value],
    places: Mapping[Value, Place],
    state: Sequence[Place],
    end: int,
) -> tuple[list[tuple[Place, Place]], int]:
    """Return what is copied to become the next carry, and where the arena ends.

    A part of the carry that takes another part's place is put aside before that is overwritten.
    """
    first: list[tuple[Place, Place]] = []
    then: list[tuple[Place, Place]] = []
    for target, value in zip(state, body.results, strict=False):
        source = places[storage[value]]
        if source == target:
            continue
        if source in state:
            aside = Place(0, end, source.nbytes)
            end += -(-source.nbytes // ALIGNMENT) * ALIGNMENT
            first.append((source, aside))
            source = aside
        then.append((source, target))
    return [*first, *then], end


def _nbytes(spec: Shaped) -> int:
    return count_elements(spec.shape) * spec.dtype.itemsize
