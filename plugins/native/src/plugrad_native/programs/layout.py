"""Where the values of a program lie: in its inputs and outputs, and in an arena."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from plugrad.extend import PACKED_VIEWS, count_elements, pack_memory, plan_memory
from plugrad_native.programs.epilogues import find_accumulated_products
from plugrad_native.programs.reuse import (
    find_overwritten_values,
    find_reusable_arguments,
    merge_storage,
    place_in_results,
)
from plugrad_native.programs.table import Location

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence, Set

    from plugrad.extend import Graph, Value


class ProgramMemory(NamedTuple):
    """The memory of a program: the values that are passed to it, and the locations of all."""

    sizes: Mapping[Value, int]
    """The bytes of each value."""
    storage: Mapping[Value, Value]
    """By value: the value in whose memory it lies."""
    inputs: Sequence[Value]
    """The arguments that the program reads."""
    outputs: Sequence[Value]
    """The results that own memory; others are views of them."""
    reused_arguments: Mapping[Value, Value]
    """By output: the argument in whose memory it may lie, if nothing else refers to that array."""
    locations: Mapping[Value, Location]
    """The locations of all values that are not constants."""
    arena_bytes: int
    """The bytes of the arena."""

    def input_sizes(self) -> list[int]:
        """Return the bytes of each input."""
        return [self.sizes[v] for v in self.inputs]

    def output_sizes(self) -> list[int]:
        """Return the bytes of each output."""
        return [self.sizes[v] for v in self.outputs]

    def find_owners(self, results: Sequence[Value]) -> dict[Value, Value]:
        """Return by result the value in whose memory it lies, without results that have memory of their own."""
        storage = self.storage
        names = {storage[v]: v for v in reversed(results) if v in storage}
        owners = {v: names[storage[v]] for v in results if storage.get(v) in self.outputs}
        owners |= {v: storage[v] for v in results if storage.get(v) in self.inputs}
        return {**owners, **self.reused_arguments}


def lay_out_values(body: Graph, dying_arguments: Set[Value]) -> ProgramMemory:
    """Return the memory of a graph whose steps are in order; results may overwrite the dying arguments."""
    plan = plan_memory(
        body,
        views=PACKED_VIEWS,
        in_place=False,
        are_results_apart=True,
        places=find_accumulated_products(body),
    )
    steps, specs, storage = body.steps, body.specs, dict(plan.storage)
    sizes = {v: count_elements(specs[v].shape) * specs[v].dtype.itemsize for v in specs}
    births = {v: i for i, step in enumerate(steps) for v in step.outputs if storage[v] == v}
    inputs = [v for v in body.arguments if v in storage]
    found = find_reusable_arguments(body, dying_arguments) if dying_arguments else {}
    reused = {v: x for v, x in found.items() if storage[v] == v and x in inputs}
    outputs = [v for v in births if v in reused or plan.last_uses[v] == len(steps)]
    last_uses = {v: last for v, last in plan.last_uses.items() if v in births and v not in outputs}
    merge_storage(storage, last_uses, find_overwritten_values(body, storage, last_uses))
    guests = place_in_results(sizes, births, last_uses, [v for v in outputs if v not in reused])
    alone = {v: sizes[v] for v in last_uses if v not in guests}
    offsets, arena_bytes = pack_memory(alone, births, last_uses)
    slots = {v: 1 + i for i, v in enumerate([*inputs, *outputs])}
    locations: dict[Value, Location] = {}
    for value, owner in storage.items():
        host = guests.get(owner, owner)
        if host in slots:
            locations[value] = Location(slots[host], 0, sizes[value])
        elif owner in offsets:
            locations[value] = Location(0, offsets[owner], sizes[value])
    return ProgramMemory(sizes, storage, inputs, outputs, reused, locations, arena_bytes)
