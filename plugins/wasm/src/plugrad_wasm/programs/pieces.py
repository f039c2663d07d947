"""The pieces of a program, each of which one call from Python runs: a table in one module, or what threads share."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from plugrad.extend import uint8
from plugrad_wasm.declare import ELEMENTWISE_PART, RELEASE_LOCK_MIN_ELEMENTS, items_per_part
from plugrad_wasm.memory import WasmArray, size_class
from plugrad_wasm.programs.blocks import MODULE
from plugrad_wasm.programs.recorder import Blocks, Loop, Numbers, Once, Shared
from plugrad_wasm.programs.table import FRAME, SCRATCH, TableCall

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from plugrad_wasm.memory import LinearMemory
    from plugrad_wasm.programs.layout import Layout
    from plugrad_wasm.programs.recorder import BlockCall, Recorded
    from plugrad_wasm.programs.table import Loops
    from plugrad_wasm.runtime import Runtime


class Piece(NamedTuple):
    """Loops of calls in one module."""

    module: str
    loops: Loops
    is_long: bool = False
    """Whether other threads run meanwhile."""


class Parts(NamedTuple):
    """The parts of one loop in one module, which threads share."""

    module: str
    loops: list[Loops]
    scratch_bytes: int


def pieces_of(
    calls: Sequence[Recorded], layout: Layout, store: Runtime
) -> list[Piece | Parts | Shared | Loop]:
    """Divide the calls into pieces. A piece ends after long work, because Ctrl-C is raised between pieces."""
    pieces = _Pieces()
    for call in calls:
        match call:
            case Numbers(target, numbers):
                operands = [layout.operand(x) for x in (target, *numbers)]
                pieces.wait(TableCall(None, operands))
            case Blocks():
                parts = _split_parts(call, layout, store)
                if len(parts) > 1:
                    pieces.all.append(Parts(call.module, parts, call.scratch_bytes))
                else:
                    pieces.write(call.module, parts[0], call.items * len(call.each))
            case Loop():
                pieces.write(MODULE, [], 0)
                pieces.all.append(call)
            case Shared(export):
                pieces.write(store.functions[export].module, [], 0)
                pieces.all.append(call)
            case Once(export, arguments, is_long):
                now = TableCall(export, [layout.operand(x) for x in arguments])
                work = RELEASE_LOCK_MIN_ELEMENTS if is_long else layout.elements(call)
                pieces.write(store.functions[export].module, [(1, 1, [now])], work)
    return pieces.all


class _Pieces:
    """Collects pieces."""

    def __init__(self) -> None:
        self.all: list[Piece | Parts | Shared | Loop] = []
        self._work = 0
        """The elementary steps of the last piece, as far as its calls do not say that they are long."""
        self._waiting: list[TableCall] = []

    def wait(self, call: TableCall) -> None:
        """Hold back a call that any module can make, for the module of the next call."""
        self._waiting.append(call)

    def write(self, module: str, loops: Loops, work: int) -> None:
        """Add loops of a module after the held-back calls; `work` is their number of elementary steps."""
        if self._waiting:
            loops = [(1, 1, self._waiting), *loops]
            self._waiting = []
        if not loops:
            return
        last = self.all[-1] if self.all else None
        if not isinstance(last, Piece) or last.module != module or last.is_long:
            last = Piece(module, [])
            self.all.append(last)
            self._work = 0
        for loop in loops:
            if last.loops and loop[:2] == last.loops[-1][:2] == (1, 1):
                last.loops[-1][2].extend(loop[2])
            else:
                last.loops.append(loop)
        self._work += work
        if self._work >= RELEASE_LOCK_MIN_ELEMENTS:
            self.all[-1] = last._replace(is_long=True)


def _split_parts(call: Blocks, layout: Layout, store: Runtime) -> list[Loops]:
    """Split a loop of blocks into parts for threads, or for timely Ctrl-C."""
    work = call.items * len(call.each)
    length = items_per_part(store, call.items, work, ELEMENTWISE_PART, call.block)
    parts: list[Loops] = []
    for first in range(0, call.items, length):
        loops: Loops = []
        if call.once:
            loops.append((call.block, call.block, _table_calls(call.once, layout, first)))
        items = min(length, call.items - first)
        loops.append((items, call.block, _table_calls(call.each, layout, first)))
        parts.append(loops)
    return parts


def _table_calls(calls: Sequence[BlockCall], layout: Layout, first: int) -> list[TableCall]:
    """Return table calls that start at element `first`."""
    return [
        TableCall(export, [layout.operand(x, first) for x in arguments])
        for export, arguments in calls
    ]


class SharedCalls:
    """Chains of calls that threads share."""

    def __init__(self, call: Shared, layout: Layout, perform: Callable[..., None]) -> None:
        """Say where the arguments lie."""
        self._export = call.export
        self._chains = [
            [[layout.operand(x)[:2] for x in arguments] for arguments in chain]
            for chain in call.chains
        ]
        self._scratch = [layout.operand(x)[:2] for x in call.scratch]
        self._perform = perform

    def __call__(self, bases: Sequence[int], *held: object) -> None:
        """Make the calls, with the bases of the operands; late threads keep what is held."""
        chains = [
            [tuple([bases[base] + number for base, number in each]) for each in chain]
            for chain in self._chains
        ]
        scratch = [_Address(int(bases[base] + number)) for base, number in self._scratch]
        self._perform(self._export, chains, held, scratch)


class LoopCalls:
    """The calls of a compiled loop, each for a part of the elements, which threads share."""

    def __init__(self, loop: Loop, layout: Layout, memory: LinearMemory) -> None:
        """Compile the loop."""
        store = memory.store
        self._numbers = [layout.operand(place)[:2] for place in loop.numbers]
        self._arrays = [layout.operand(place)[:2] for place in loop.arrays]
        rest = loop.items % loop.round
        whole = loop.items - rest
        work = loop.items * len(loop.arrays)
        length = items_per_part(store, whole, work, ELEMENTWISE_PART, loop.round)
        self._parts = [(n, min(length, whole - n)) for n in range(0, whole, length)]
        # A last round computes some elements a second time.
        self._rest = [(loop.items - loop.round, loop.round)] if rest else []
        self._memory = memory
        self._size = size_class(loop.scratch_bytes)
        self._runs = store.compile_copies(loop.source, min(len(self._parts), store.threads))

    def __call__(self, bases: Sequence[int], *held: object) -> None:
        """Make the calls, with the bases of the operands; late threads keep what is held."""
        numbers = [int(bases[base] + offset) for base, offset in self._numbers]
        arrays = [int(bases[base] + offset) for base, offset in self._arrays]
        parts = [
            (*numbers, *(at + 4 * first for at in arrays), count)
            for first, count in (*self._parts, *self._rest)
        ]
        if len(self._runs) == 1:
            for part in parts:
                self._runs[0](*part, bases[SCRATCH])
            return
        memory, size = self._memory, self._size
        frames = [WasmArray(memory, (size,), uint8, size, size) for _ in self._runs]
        chains = [[part] for part in parts[: len(self._parts)]]
        chains[-1] += parts[len(self._parts) :]  # by one thread: both write the same elements
        memory.store.perform(self._runs, chains, held, frames)


class SharedTables:
    """Tables that threads share, each with its own bases and scratch memory."""

    def __init__(
        self, tables: Sequence[tuple[int, int]], parts: Parts, layout: Layout, memory: LinearMemory
    ) -> None:
        """Take the addresses and the bytes of the tables."""
        self._export = f"program_{parts.module}"
        self._chains = [[table] for table in tables]
        self._memory = memory
        self._head_bytes = layout.head_bytes
        self._size = size_class(layout.head_bytes + parts.scratch_bytes)
        self._bases = Struct(f"<{layout.bases}q")
        self._host = memory.store.host_view()

    def __call__(self, bases: Sequence[int], *held: object) -> None:
        """Run the tables, with the bases of the operands; late threads keep what is held."""
        memory, size = self._memory, self._size
        count = min(len(self._chains), memory.store.threads)
        frames = [WasmArray(memory, (size,), uint8, size, size) for _ in range(count)]
        for frame in frames:
            at = frame.address
            own = at + self._head_bytes
            self._bases.pack_into(self._host, at, 0, 0, own, *bases[FRAME:])
        memory.store.perform(self._export, self._chains, held, frames)


class _Address(NamedTuple):
    address: int
