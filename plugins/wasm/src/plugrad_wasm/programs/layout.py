"""The memory of a recording's numbered blocks: given arrays, new arrays, or the memory of a call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugrad.extend import pack_memory
from plugrad_wasm.memory import ALIGNMENT_BYTES
from plugrad_wasm.programs.recorder import (
    AdvancingArgument,
    BlockLength,
    BlockOffset,
    BlockwiseCalls,
    CompiledLoop,
    ExportCall,
    NumberWrite,
    ScratchOffset,
    ThreadedChains,
)
from plugrad_wasm.programs.recording import ResultLocation
from plugrad_wasm.programs.table import (
    FIRST_ARRAY_BASE,
    FRAME_BASE,
    ITEMS_BASE,
    NUMBER_BASE,
    SCRATCH_BASE,
    Operand,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from plugrad_wasm.programs.recorder import BlockArgument, RecordedCall
    from plugrad_wasm.programs.recording import Recording


class OperandLayout:
    """Assigns memory to the blocks of a recording, and translates arguments of its calls to operands of a program."""

    def __init__(self, recording: Recording, given: int) -> None:
        """Plan the memory of what is neither one of the first blocks, which are given, nor needed by a result."""
        self._capacities = capacities = recording.memory.capacities
        ends = {end.block_number for end in recording.results if isinstance(end, ResultLocation)}
        self.outputs: list[int] = sorted(block for block in ends if block >= given)
        """The blocks that results need."""
        arrays = [*range(given), *self.outputs]
        self._bases = {block: FIRST_ARRAY_BASE + i for i, block in enumerate(arrays)}
        self.bases: int = FIRST_ARRAY_BASE + len(arrays)
        """The number of bases."""
        first: dict[int, int] = {}
        last: dict[int, int] = {}
        for index, call in enumerate(recording.calls):
            for block in iter_accessed_blocks(call):
                first.setdefault(block, index)
                last[block] = index
        self._fixed = recording.memory.fixed
        for block, result in recording.in_place_blocks:
            is_inner = block not in self._bases and block not in self._fixed
            is_fresh = last.get(block) == first.get(result)  # nobody needs both at another time
            if (
                result in self.outputs
                and is_inner
                and is_fresh
                and capacities[block] == capacities[result]
            ):
                self._bases[block] = self._bases[result]
        inner = {b: capacities[b] for b in first if b not in self._bases and b not in self._fixed}
        self._offsets, arena_bytes = pack_memory(inner, first, last)
        self.head_bytes: int = -(-8 * self.bases // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        """The bytes of the bases, which begin the memory of a call."""
        self.scratch: int = self.head_bytes + arena_bytes
        """The offset of the memory that loops use in turn, in the memory of a call."""
        blocks = [
            call for call in recording.calls if isinstance(call, BlockwiseCalls | CompiledLoop)
        ]
        self.frame_bytes: int = self.scratch + max([c.scratch_bytes for c in blocks], default=0)

    def estimate_elements(self, call: ExportCall) -> int:
        """Estimate the largest number of elements that a call reads or writes, at four bytes each."""
        return (
            max([self._capacities[block] for block in iter_accessed_blocks(call)], default=0) // 4
        )

    def to_operand(self, argument: BlockArgument, first_element: int = 0) -> Operand:
        """Return the program operand for an argument of a recorded call that begins at an element of a block."""
        match argument:
            case AdvancingArgument(start, step):
                base, number, _ = self.to_operand(start)
                return Operand(base, number + first_element * step, step)
            case BlockLength():
                return Operand(ITEMS_BASE, 0)
            case ScratchOffset(offset):
                return Operand(SCRATCH_BASE, offset)
            case BlockOffset(block, offset):
                return self._make_operand(block, offset)
            case _:
                return Operand(NUMBER_BASE, argument)

    def _make_operand(self, block_number: int, offset: int) -> Operand:
        """Return the program operand for an offset, in bytes, in a memory block."""
        fixed = self._fixed.get(block_number)
        if fixed is not None:
            return Operand(NUMBER_BASE, fixed.address + offset)
        base = self._bases.get(block_number)
        if base is None:
            return Operand(FRAME_BASE, self.head_bytes + self._offsets[block_number] + offset)
        return Operand(base, offset)


def iter_accessed_blocks(call: RecordedCall) -> Iterator[int]:
    """Yield the numbers of the memory blocks that a recorded call reads or writes."""
    for argument in _iter_block_arguments(call):
        place = argument.start if isinstance(argument, AdvancingArgument) else argument
        if isinstance(place, BlockOffset):
            yield place.block_number


def _iter_block_arguments(call: RecordedCall) -> Iterator[BlockArgument]:
    """Yield all arguments of a recorded call."""
    match call:
        case BlockwiseCalls(_, _, _, once, each, _):
            for _, arguments in (*once, *each):
                yield from arguments
        case CompiledLoop():
            yield from (*call.number_addresses, *call.array_addresses)
        case ExportCall(_, arguments, _):
            yield from arguments
        case NumberWrite(target, numbers):
            yield target
            yield from numbers
        case ThreadedChains(_, chains, scratch):
            yield from scratch
            for chain in chains:
                for arguments in chain:
                    yield from arguments
