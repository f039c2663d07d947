"""The pieces of a program: each is a table of one module, or work that threads share, run by one call."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from plugrad.extend import uint8
from plugrad_wasm.declare import (
    ELEMENTWISE_PART_STEPS,
    RELEASE_GIL_MIN_ELEMENTS,
    choose_items_per_part,
)
from plugrad_wasm.memory import WasmArray, round_up_to_size_class
from plugrad_wasm.programs.blocks import ELEMENTWISE_MODULE
from plugrad_wasm.programs.recorder import (
    BlockwiseCalls,
    CompiledLoop,
    ExportCall,
    NumberWrite,
    ThreadedChains,
)
from plugrad_wasm.programs.table import FRAME_BASE, SCRATCH_BASE, TableCall

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from plugrad_wasm.memory import LinearMemory
    from plugrad_wasm.programs.layout import OperandLayout
    from plugrad_wasm.programs.recorder import BlockCall, RecordedCall
    from plugrad_wasm.programs.table import TableLoops
    from plugrad_wasm.runtime import Runtime


class TablePiece(NamedTuple):
    """A piece of a program: loops of calls in one module, run as one table."""

    module: str
    """The name of the module."""
    loops: TableLoops
    """The loops of the table."""
    releases_gil: bool = False
    """Whether other threads of Python may run during the call."""


class ThreadedLoop(NamedTuple):
    """The parts of one loop in one module, which threads share."""

    module: str
    """The name of the module."""
    loops: list[TableLoops]
    """The loops of each part."""
    scratch_bytes: int
    """The bytes of scratch memory of each thread."""


def divide_into_pieces(
    calls: Sequence[RecordedCall], operand_layout: OperandLayout, store: Runtime
) -> list[TablePiece | ThreadedLoop | ThreadedChains | CompiledLoop]:
    """Divide recorded calls into pieces; a piece ends after long work, because Ctrl-C is raised between pieces."""
    pieces = _PieceCollector()
    for call in calls:
        match call:
            case NumberWrite(target, numbers):
                operands = [operand_layout.to_operand(x) for x in (target, *numbers)]
                pieces.defer_call(TableCall(None, operands))
            case BlockwiseCalls():
                parts = _split_parts(call, operand_layout, store)
                if len(parts) > 1:
                    pieces.all.append(ThreadedLoop(call.module, parts, call.scratch_bytes))
                else:
                    pieces.add_loops(
                        call.module, parts[0], call.element_count * len(call.block_calls)
                    )
            case CompiledLoop():
                pieces.add_loops(ELEMENTWISE_MODULE, [], 0)
                pieces.all.append(call)
            case ThreadedChains(export):
                pieces.add_loops(store.functions[export].module, [], 0)
                pieces.all.append(call)
            case ExportCall(export, arguments, releases_gil):
                now = TableCall(export, [operand_layout.to_operand(x) for x in arguments])
                work = (
                    RELEASE_GIL_MIN_ELEMENTS
                    if releases_gil
                    else operand_layout.estimate_elements(call)
                )
                pieces.add_loops(store.functions[export].module, [(1, 1, [now])], work)
    return pieces.all


class _PieceCollector:
    """Collects the pieces of a program in order."""

    def __init__(self) -> None:
        self.all: list[TablePiece | ThreadedLoop | ThreadedChains | CompiledLoop] = []
        self._work = 0
        """The elementary steps of the last piece, as far as its calls do not say that they are long."""
        self._waiting: list[TableCall] = []

    def defer_call(self, call: TableCall) -> None:
        """Defer a call that any module can make, so that it joins the piece of the next call."""
        self._waiting.append(call)

    def add_loops(self, module: str, loops: TableLoops, work: int) -> None:
        """Add loops of calls in one module, after the deferred calls; `work` is the number of elementary steps."""
        if self._waiting:
            loops = [(1, 1, self._waiting), *loops]
            self._waiting = []
        if not loops:
            return
        last = self.all[-1] if self.all else None
        if not isinstance(last, TablePiece) or last.module != module or last.releases_gil:
            last = TablePiece(module, [])
            self.all.append(last)
            self._work = 0
        for loop in loops:
            if last.loops and loop[:2] == last.loops[-1][:2] == (1, 1):
                last.loops[-1][2].extend(loop[2])
            else:
                last.loops.append(loop)
        self._work += work
        if self._work >= RELEASE_GIL_MIN_ELEMENTS:
            self.all[-1] = last._replace(releases_gil=True)


def _split_parts(
    call: BlockwiseCalls, operand_layout: OperandLayout, store: Runtime
) -> list[TableLoops]:
    """Return the loops of each part of a blockwise call, for threads or so that Ctrl-C is raised in time."""
    work = call.element_count * len(call.block_calls)
    length = choose_items_per_part(
        store, call.element_count, work, ELEMENTWISE_PART_STEPS, call.block_length
    )
    parts: list[TableLoops] = []
    for first in range(0, call.element_count, length):
        loops: TableLoops = []
        if call.setup_calls:
            loops.append(
                (
                    call.block_length,
                    call.block_length,
                    _make_table_calls(call.setup_calls, operand_layout, first),
                )
            )
        items = min(length, call.element_count - first)
        loops.append(
            (items, call.block_length, _make_table_calls(call.block_calls, operand_layout, first))
        )
        parts.append(loops)
    return parts


def _make_table_calls(
    calls: Sequence[BlockCall], operand_layout: OperandLayout, first_element: int
) -> list[TableCall]:
    """Return calls for a program table, whose addresses, by the memory layout of operands, begin at an element."""
    return [
        TableCall(export, [operand_layout.to_operand(x, first_element) for x in arguments])
        for export, arguments in calls
    ]


class ThreadedChainCalls:
    """The function of a program piece whose chains of calls are divided among threads."""

    def __init__(
        self, call: ThreadedChains, operand_layout: OperandLayout, perform: Callable[..., None]
    ) -> None:
        """Translate the arguments of the calls to operands."""
        self._export = call.export
        self._chains = [
            [[operand_layout.to_operand(x)[:2] for x in arguments] for arguments in chain]
            for chain in call.call_chains
        ]
        self._scratch = [operand_layout.to_operand(x)[:2] for x in call.scratch_arguments]
        self._perform = perform

    def __call__(self, bases: Sequence[int], *held: object) -> None:
        """Make the calls, given the bases of the operands; threads keep the `held` objects alive until they end."""
        chains = [
            [tuple([bases[base] + number for base, number in each]) for each in chain]
            for chain in self._chains
        ]
        scratch = [_FixedAddress(int(bases[base] + number)) for base, number in self._scratch]
        self._perform(self._export, chains, held, scratch)


class CompiledLoopCalls:
    """The function of a program piece whose compiled loop is divided by elements among threads."""

    def __init__(
        self, loop: CompiledLoop, operand_layout: OperandLayout, memory: LinearMemory
    ) -> None:
        """Compile the loop."""
        store = memory.store
        self._numbers = [operand_layout.to_operand(place)[:2] for place in loop.number_addresses]
        self._arrays = [operand_layout.to_operand(place)[:2] for place in loop.array_addresses]
        rest = loop.element_count % loop.elements_multiple
        whole = loop.element_count - rest
        work = loop.element_count * len(loop.array_addresses)
        length = choose_items_per_part(
            store, whole, work, ELEMENTWISE_PART_STEPS, loop.elements_multiple
        )
        self._parts = [(n, min(length, whole - n)) for n in range(0, whole, length)]
        # A last round computes some elements a second time.
        self._rest = (
            [(loop.element_count - loop.elements_multiple, loop.elements_multiple)] if rest else []
        )
        self._memory = memory
        self._size = round_up_to_size_class(loop.scratch_bytes)
        self._runs = store.compile_wat_copies(loop.wat_source, min(len(self._parts), store.threads))

    def __call__(self, bases: Sequence[int], *held: object) -> None:
        """Make the calls, given the bases of the operands; threads keep the `held` objects alive until they end."""
        numbers = [int(bases[base] + offset) for base, offset in self._numbers]
        arrays = [int(bases[base] + offset) for base, offset in self._arrays]
        parts = [
            (*numbers, *(at + 4 * first for at in arrays), count)
            for first, count in (*self._parts, *self._rest)
        ]
        if len(self._runs) == 1:
            for part in parts:
                self._runs[0](*part, bases[SCRATCH_BASE])
            return
        memory, size = self._memory, self._size
        frames = [WasmArray(memory, (size,), uint8, size, size) for _ in self._runs]
        chains = [[part] for part in parts[: len(self._parts)]]
        chains[-1] += parts[len(self._parts) :]  # by one thread: both write the same elements
        memory.store.run_in_threads(self._runs, chains, held, frames)


class ThreadedTableCalls:
    """The function of a program piece whose tables are divided among threads, each with scratch memory of its own."""

    def __init__(
        self,
        tables: Sequence[tuple[int, int]],
        parts: ThreadedLoop,
        operand_layout: OperandLayout,
        memory: LinearMemory,
    ) -> None:
        """Take the addresses and the bytes of the tables."""
        self._export = f"program_{parts.module}"
        self._chains = [[table] for table in tables]
        self._memory = memory
        self._head_bytes = operand_layout.head_bytes
        self._size = round_up_to_size_class(operand_layout.head_bytes + parts.scratch_bytes)
        self._bases = Struct(f"<{operand_layout.bases}q")
        self._host = memory.store.host_view()

    def __call__(self, bases: Sequence[int], *held: object) -> None:
        """Run the tables, given the bases of the operands; threads keep the `held` objects alive until they end."""
        memory, size = self._memory, self._size
        count = min(len(self._chains), memory.store.threads)
        frames = [WasmArray(memory, (size,), uint8, size, size) for _ in range(count)]
        for frame in frames:
            at = frame.address
            own = at + self._head_bytes
            self._bases.pack_into(self._host, at, 0, 0, own, *bases[FRAME_BASE:])
        memory.store.run_in_threads(self._export, self._chains, held, frames)


class _FixedAddress(NamedTuple):
    """An object with an address in linear memory, used in place of an array."""

    address: int
    """The address in linear memory, in bytes."""
