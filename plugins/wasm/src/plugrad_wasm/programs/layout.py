"""Where the blocks of a recording lie: in arrays that are given or made, or in the memory of a call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugrad.extend import pack_memory
from plugrad_wasm.memory import ALIGNMENT
from plugrad_wasm.programs.recorder import Numbers, Once, Place, Shared
from plugrad_wasm.programs.recording import End
from plugrad_wasm.programs.table import FRAME, NUMBER, Operand

if TYPE_CHECKING:
    from collections.abc import Iterator

    from plugrad_wasm.programs.recorder import Argument, Recorded
    from plugrad_wasm.programs.recording import Recording


class Layout:
    """The places of the arguments of calls, as operands of a program."""

    def __init__(self, recording: Recording, given: int) -> None:
        """Plan the memory of what is neither one of the first blocks, which are given, nor needed by a result."""
        capacities = recording.memory.capacities
        ends = {end.block for end in recording.ends if isinstance(end, End)}
        self.outputs: list[int] = sorted(block for block in ends if block >= given)
        """The blocks that results need."""
        arrays = [*range(given), *self.outputs]
        self._bases = {block: FRAME + 1 + i for i, block in enumerate(arrays)}
        self.bases: int = FRAME + 1 + len(arrays)
        """Their number."""
        first: dict[int, int] = {}
        last: dict[int, int] = {}
        for index, call in enumerate(recording.calls):
            for block in _blocks_of(call):
                first.setdefault(block, index)
                last[block] = index
        inner = {block: capacities[block] for block in first if block not in self._bases}
        self._offsets, arena_bytes = pack_memory(inner, first, last)
        self._start = -(-8 * self.bases // ALIGNMENT) * ALIGNMENT
        self.frame_bytes: int = self._start + arena_bytes
        """The bytes of the bases, and then of what the calls need in between."""

    def operand(self, argument: Argument) -> Operand:
        """Return the operand of an argument."""
        if not isinstance(argument, Place):
            return Operand(NUMBER, argument)
        block, offset = argument
        base = self._bases.get(block)
        if base is None:
            return Operand(FRAME, self._start + self._offsets[block] + offset)
        return Operand(base, offset)


def _blocks_of(call: Recorded) -> Iterator[int]:
    """Yield the blocks in which a call reads or writes."""
    return (x.block for x in _arguments_of(call) if isinstance(x, Place))


def _arguments_of(call: Recorded) -> Iterator[Argument]:
    match call:
        case Once(_, arguments, _):
            yield from arguments
        case Numbers(target, numbers):
            yield target
            yield from numbers
        case Shared(_, chains, scratch):
            yield from scratch
            for chain in chains:
                for arguments in chain:
                    yield from arguments
