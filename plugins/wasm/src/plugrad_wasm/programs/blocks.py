"""Elementwise calls that run block by block: what only they read lies in memory that stays in the first cache."""

from __future__ import annotations

from math import lcm
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from plugrad.extend import count_elements
from plugrad_wasm.declare import PART_MULTIPLE_ELEMENTS
from plugrad_wasm.memory import ALIGNMENT, size_class
from plugrad_wasm.programs.recorder import (
    Blocks,
    Items,
    Moving,
    Once,
    Place,
    Scratch,
    Shared,
)
from plugrad_wasm.strides import broadcast_strides, merge_axes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from plugrad.extend import Shape, Shaped
    from plugrad_wasm.programs.recorder import (
        Argument,
        BlockArgument,
        BlockCall,
        Recorded,
        RecordingMemory,
    )

MODULE: Final = "elementwise"
BROADCAST: Final = "_broadcast"
L1_BYTES: Final = 32_768
"""What the blocks of a loop may take of the first cache."""
MIN_BLOCK, MAX_BLOCK = 512, 2048
"""Elements. With 256, the calls take a tenth of the time."""
ITEM_SIZES: Final = (1, 2, 4, 8, 16)
ITEMS: Final = Items()


class ElementwiseCall(NamedTuple):
    """A call of an export that computes elements independently."""

    export: str
    places: list[Place]
    """The inputs, and then the result."""
    rest: tuple[Argument, ...]
    """What comes after the number of elements."""


def elementwise_calls(
    recorded: Sequence[Recorded], functions: Mapping[str, Any]
) -> list[ElementwiseCall] | None:
    """Return an implementation's recorded calls if all can run by blocks, else None."""
    calls = [_elementwise_call(call, functions) for call in recorded]
    found = [call for call in calls if call is not None]
    return found if found and len(found) == len(calls) else None


def _elementwise_call(call: Recorded, functions: Mapping[str, Any]) -> ElementwiseCall | None:
    """Return a call of the form (places, number of elements, more numbers) or of two broadcast operands, else None."""
    match call:
        case Once(export, arguments, _):
            pass
        case Shared(export, chains, ()):  # in parts, the first of which begins with the arrays
            arguments = chains[0][0]
        case _:
            return None
    places = _leading_places(arguments)
    rest = arguments[len(places) :]
    if functions[export].module != MODULE or any(isinstance(x, Place) for x in rest):
        return None
    if export.endswith(BROADCAST):
        return ElementwiseCall(export.removesuffix(BROADCAST), places, (1, 1))
    moves_only = export.startswith(("copy_", "expand_"))
    return None if moves_only or not rest else ElementwiseCall(export, places, rest[1:])


def _leading_places(arguments: Sequence[Argument]) -> list[Place]:
    places: list[Place] = []
    for argument in arguments:
        if not isinstance(argument, Place):
            break
        places.append(argument)
    return places


class Operands(NamedTuple):
    """The inputs and outputs of a group of calls."""

    shape: Shape
    """That of all results."""
    specs: Mapping[Place, Shaped]
    """The shapes and dtypes of what is known outside."""
    kept: frozenset[int]
    """The blocks that are needed later."""
    first_block: int
    """From this number on, blocks are made by the group."""


def as_blocks(
    calls: Sequence[ElementwiseCall], operands: Operands, memory: RecordingMemory
) -> Blocks:
    """Return a group of calls as one call that runs block by block."""
    return _Group(calls, operands, memory).blocks()


class _Group:
    """Assigns each operand of a group a moving place in an array, or a register in scratch memory."""

    def __init__(
        self, calls: Sequence[ElementwiseCall], operands: Operands, memory: RecordingMemory
    ) -> None:
        self.calls, self.operands, self.memory = calls, operands, memory
        self.count = count_elements(operands.shape)
        self.places = [*dict.fromkeys(place for call in calls for place in call.places)]
        self.sizes = {place: self._itemsize(place) for place in self.places}
        self.expanded = [p for p in self.places if self._is_expanded(p)]
        self.periods = {p: n for p in self.expanded if (n := self._period(p))}

    def blocks(self) -> Blocks:
        """Return the calls, preceded by calls that expand broadcast operands block by block."""
        registers = self._registers()
        count = max(registers.values(), default=-1) + 1
        width = max(self.sizes.values())
        moving = [p for p in self.places if p not in registers and self._elements(p) > 1]
        block = self._block(width * (count + len(moving)))
        nbytes = -(-block * width // ALIGNMENT) * ALIGNMENT
        found: dict[Place, BlockArgument] = {
            p: Scratch(registers[p] * nbytes) if p in registers else self._advance_unless_scalar(p)
            for p in self.places
        }
        once: list[BlockCall] = []
        each: list[BlockCall] = []
        for place in self.expanded:
            (once if place in self.periods else each).append(self._expand(place, found[place]))
        for export, places, rest in self.calls:
            each.append((export, (*(found[p] for p in places), ITEMS, *rest)))
        return Blocks(MODULE, self.count, block, tuple(once), tuple(each), count * nbytes)

    def _registers(self) -> dict[Place, int]:
        """Return register numbers for the values in scratch memory; values share a register one after another."""
        registers = {place: number for number, place in enumerate(self.expanded)}
        free: list[int] = []
        count = len(registers)
        last = {p: i for i, call in enumerate(self.calls) for p in call.places if self._is_inner(p)}
        for index, call in enumerate(self.calls):
            for place in dict.fromkeys(call.places):
                if place in last and place not in registers:
                    if not free:
                        free.append(count)
                        count += 1
                    registers[place] = free.pop()
            free += [registers[p] for p in dict.fromkeys(call.places) if last.get(p) == index]
        return registers

    def _block(self, width: int) -> int:
        """Return the number of elements per block, if an element of all registers takes `width` bytes.

        Operands that are the same for all blocks are so only if a block has them a whole number of times.
        """
        fitting = min(max(L1_BYTES // width, MIN_BLOCK), MAX_BLOCK)
        common = lcm(PART_MULTIPLE_ELEMENTS, *self.periods.values())
        if common > MAX_BLOCK:
            self.periods.clear()
            common = PART_MULTIPLE_ELEMENTS
        return min(self.count, max(fitting // common, 1) * common)

    def _is_inner(self, place: Place) -> bool:
        """Return whether a value is read only inside the group."""
        block = place.block
        return block >= self.operands.first_block and block not in self.operands.kept

    def _itemsize(self, place: Place) -> int:
        """Return the size of an element, derived from the total size if no other step knows it."""
        spec = self.operands.specs.get(place)
        if spec is not None:
            return spec.dtype.itemsize
        capacity = self.memory.capacities[place.block]
        return next(n for n in reversed(ITEM_SIZES) if size_class(n * self.count) <= capacity)

    def _elements(self, place: Place) -> int:
        spec = self.operands.specs.get(place)
        return self.count if spec is None else count_elements(spec.shape)

    def _is_expanded(self, place: Place) -> bool:
        return self._elements(place) not in (1, self.count)

    def _advance_unless_scalar(self, place: Place) -> BlockArgument:
        """Return a place as an argument that advances with the blocks, or stays if it holds one element."""
        is_number = self._elements(place) == 1
        return place if is_number else Moving(place, self.sizes[place])

    def _period(self, place: Place) -> int:
        """Return the period of a value that repeats, such as a broadcast row, else 0."""
        shape, own = self.operands.shape, self.operands.specs[place].shape
        while own[:1] == (1,):
            own = own[1:]
        return count_elements(own) if own == shape[len(shape) - len(own) :] else 0

    def _expand(self, place: Place, target: BlockArgument) -> BlockCall:
        """Return the call that writes a block of a broadcast operand."""
        shape = self.operands.shape
        strides = broadcast_strides(self.operands.specs[place].shape, shape)
        axes = merge_axes(shape, strides)
        descriptor = self.memory.store.descriptor((len(axes[0]), *axes[0], *axes[1]))
        arguments = (place, target, ITEMS, Moving(0, 1), descriptor.address)
        return f"expand_{self.sizes[place]}", arguments
