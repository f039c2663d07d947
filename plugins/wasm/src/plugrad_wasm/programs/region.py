"""One program: the calls of some steps of a graph, where their arrays lie, and the function that runs them."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import numpy as np

from plugrad.extend import Call, count_elements, pack_memory, uint8
from plugrad_wasm.declare import RELEASE_LOCK_MIN_ELEMENTS
from plugrad_wasm.memory import (
    ALIGNMENT,
    CachedBlock,
    WasmArray,
    WasmView,
    size_class,
)
from plugrad_wasm.programs.recorder import (
    Argument,
    Numbers,
    Once,
    Place,
    Recorded,
    RecordingMemory,
    Shared,
    locate,
)
from plugrad_wasm.programs.table import FRAME, NUMBER, Operand, TableCall, write_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from plugrad.extend import DType, Graph, Shape, Value
    from plugrad_wasm.memory import LinearMemory
    from plugrad_wasm.runtime import Function

    Run = Callable[..., list[Any]]
    Functions = Mapping[str, Callable[..., Any]]

MAX_ARENA_BYTES: Final = 1 << 30
"""The bytes from which on one block is harder to find than several."""


class Home(NamedTuple):
    """What kernels without inputs get in the place of the backend."""

    linear: LinearMemory


@dataclass(slots=True)
class Recording:
    """What the implementations of steps have asked for."""

    memory: RecordingMemory
    arrays: dict[Value, WasmArray]
    inputs: list[Value]
    """The values of the first blocks, in their order."""
    calls: list[Recorded] = field(init=False)

    def __post_init__(self) -> None:
        """Share the list of the store."""
        self.calls = self.memory.store.calls


def record(graph: Graph, home: LinearMemory, functions: Functions) -> Recording:
    """Return a recording of all steps of a graph, which are calls.

    Raises:
        NotRecorded: an implementation needs values. Others raise what they raise untraced.
    """
    memory = RecordingMemory(home)
    arrays = {v: memory.given(graph.specs[v]) for v in graph.arguments}
    arrays |= {v: memory.stand_in(x) for v, x in graph.constants.items()}
    for step in graph.steps:
        assert isinstance(step, Call)
        inputs: list[Any] = [None if v is None else arrays[v] for v in step.inputs]
        if not step.kernel.inputs:
            inputs = [Home(memory)]
        made = functions[step.kernel.name](*inputs, **step.attrs)
        results = cast("list[WasmArray]", made if step.returns_list else [made])
        arrays |= zip(step.outputs, results, strict=True)
    return Recording(memory, arrays, list(graph.arguments))


class End(NamedTuple):
    """A result: the elements of a block from an offset on, in a shape and dtype."""

    block: int
    offset: int
    shape: Shape
    dtype: DType


class Piece(NamedTuple):
    """What one call from Python runs: a table, in one module."""

    module: str
    loops: list[tuple[int, int, list[TableCall]]]
    is_long: bool


def compile_region(graph: Graph, home: LinearMemory, functions: Functions) -> Run | None:
    """Return a function of the arrays of a graph's arguments, which returns those of its results.

    None if there is nothing to call, or the program would need too large a block.
    """
    recording = record(graph, home, functions)
    ends = [_end_of(recording, graph, v, home) for v in graph.results]
    if not recording.calls:
        return None
    layout = Layout(recording, [e.block for e in ends if isinstance(e, End)])
    if layout.frame_bytes > MAX_ARENA_BYTES:
        return None
    return _Caller(recording, layout, ends).compile(graph)


def _end_of(
    recording: Recording, graph: Graph, value: Value, home: LinearMemory
) -> End | WasmArray:
    """Return what a result of the program is; an array if it is the same each time."""
    array = recording.arrays[value]
    place = locate(array.address)  # which copies the elements of a lazy array
    if isinstance(place, Place):
        return End(*place, array.shape, array.dtype)
    owner = array
    while isinstance(owner, WasmView) and owner.memory is not home:
        owner = owner.owner
    return view_of(owner, array.shape, array.dtype, array.address - owner.address)


def view_of(owner: WasmArray, shape: Shape, dtype: DType, offset: int) -> WasmView:
    """Return the elements of an array from an offset in bytes on, in a shape and dtype."""
    view = WasmView(owner, shape, dtype)
    view.address += offset
    view.capacity = size_class(view.size * dtype.itemsize)
    return view


class Layout:
    """Where the blocks of a recording lie: in arrays that are given or made, or in the memory of a call."""

    def __init__(self, recording: Recording, results: Sequence[int]) -> None:
        """Plan the memory that results do not need."""
        capacities = recording.memory.capacities
        given = len(recording.inputs)
        self.outputs = sorted({block for block in results if block >= given})
        """The blocks that results need."""
        self.bases = {
            block: FRAME + 1 + i for i, block in enumerate([*range(given), *self.outputs])
        }
        first: dict[int, int] = {}
        last: dict[int, int] = {}
        for index, call in enumerate(recording.calls):
            for block in _blocks_of(call):
                first.setdefault(block, index)
                last[block] = index
        inner = {block: capacities[block] for block in first if block not in self.bases}
        self._offsets, arena_bytes = pack_memory(inner, first, last)
        head = 8 * (FRAME + 1 + len(self.bases))
        self._start = -(-head // ALIGNMENT) * ALIGNMENT
        self.frame_bytes = self._start + arena_bytes
        """The bases, and then what the calls need in between."""

    def operand(self, argument: Argument) -> Operand:
        """Return the operand of an argument."""
        if not isinstance(argument, Place):
            return Operand(NUMBER, argument)
        block, offset = argument
        base = self.bases.get(block)
        if base is None:
            return Operand(FRAME, self._start + self._offsets[block] + offset)
        return Operand(base, offset)


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


def _blocks_of(call: Recorded) -> Iterator[int]:
    """Yield the blocks in which a call reads or writes."""
    return (x.block for x in _arguments_of(call) if isinstance(x, Place))


class SharedCalls:
    """Chains of calls that several threads share, with the operands of a program."""

    def __init__(self, call: Shared, layout: Layout, perform: Callable[..., None]) -> None:
        """Say where the operands lie."""
        self.export = call.export
        self.chains = [
            [[layout.operand(x)[:2] for x in arguments] for arguments in chain]
            for chain in call.chains
        ]
        self.scratch = [layout.operand(x)[:2] for x in call.scratch]
        self.perform = perform

    def __call__(self, bases: Sequence[int], *held: object) -> None:
        """Make the calls; late threads keep what is held."""
        chains = [
            [tuple([bases[base] + number for base, number in each]) for each in chain]
            for chain in self.chains
        ]
        scratch = [_Address(int(bases[base] + number)) for base, number in self.scratch]
        self.perform(self.export, chains, held, scratch)


class _Address(NamedTuple):
    address: int


def pieces_of(
    calls: Sequence[Recorded], layout: Layout, functions: Mapping[str, Function]
) -> list[Piece | Shared]:
    """Return the calls as pieces, each of which one call from Python runs.

    A long call ends a piece, because Python raises Ctrl-C between two of them.
    """
    pieces: list[Piece | Shared] = []
    waiting: list[TableCall] = []
    for call in calls:
        if isinstance(call, Numbers):
            waiting.append(TableCall(None, [*map(layout.operand, (call.target, *call.numbers))]))
            continue
        module = functions[call.export].module
        last = pieces[-1] if pieces else None
        if isinstance(call, Shared):
            if waiting:
                pieces.append(Piece(module, [(1, 1, waiting)], is_long=False))
                waiting = []
            pieces.append(call)
            continue
        if not isinstance(last, Piece) or last.module != module or last.is_long:
            last = Piece(module, [(1, 1, [])], is_long=False)
            pieces.append(last)
        last.loops[-1][2].extend(
            (*waiting, TableCall(call.export, [*map(layout.operand, call.arguments)]))
        )
        waiting = []
        if call.is_long:
            pieces[-1] = last._replace(is_long=True)
    return pieces


class _Caller:
    """Writes the function that calls a program: it makes the arrays of results, and the memory in between."""

    def __init__(
        self, recording: Recording, layout: Layout, ends: Sequence[End | WasmArray]
    ) -> None:
        """Take the parts together."""
        self.recording, self.layout, self.ends = recording, layout, ends
        self.home = recording.memory.home
        self.store = self.home.store

    def compile(self, graph: Graph) -> Run:
        """Return the function."""
        layout, recording = self.layout, self.recording
        arguments = [f"v{v}" for v in graph.arguments]
        names: dict[str, Any] = {
            "memory": self.home,
            "WasmArray": WasmArray,
            "view_of": view_of,
            "uint8": uint8,
            "host": self.store.host_view(),
            "write": Struct(f"<{FRAME + 1 + len(layout.bases)}q").pack_into,
            "held": recording.memory.store.held,
        }
        lines = [f"def run({', '.join(arguments)}):"]
        for block in layout.outputs:
            lines.append(f"    o{block} = {self._array_of(block, names)}")
        size = size_class(layout.frame_bytes)
        lines.append(f"    frame = WasmArray(memory, ({size},), uint8, {size}, {size})")
        arrays = [*arguments, *(f"o{block}" for block in layout.outputs)]
        addresses = ", ".join(["at", *(f"{array}.address" for array in arrays)])
        lines += [
            "    at = frame.address",
            f"    bases = 0, 0, {addresses}",
            "    write(host, at, *bases)",
        ]
        for number, piece in enumerate(pieces_of(recording.calls, layout, self.store.functions)):
            if isinstance(piece, Shared):
                names[f"shared{number}"] = SharedCalls(piece, layout, self.store.perform)
                lines.append(f"    shared{number}(bases, held, {', '.join(['frame', *arrays])})")
                continue
            calls = self.store.long if piece.is_long else self.store.short
            names[f"run{number}"] = calls[f"program_{piece.module}"]
            code = write_table(
                piece.loops, piece.module, self.store.functions, FRAME + 1 + len(layout.bases)
            )
            names[f"table{number}"] = table = Table(self.home, code)
            lines.append(f"    run{number}({table.address}, {len(code)}, at)")
        lines.append(
            f"    return [{', '.join(self._text_of(i, names) for i in range(len(self.ends)))}]"
        )
        exec("\n".join(lines), names)
        return names["run"]

    def _array_of(self, block: int, names: dict[str, Any]) -> str:
        """Return the text of a new array for a block: in the shape of the first result that has all of it."""
        capacity = self.recording.memory.capacities[block]
        for end in self.ends:
            if self._is_whole(end, block):
                assert isinstance(end, End)
                names |= {f"s{block}": end.shape, f"d{block}": end.dtype}
                size = count_elements(end.shape)
                return f"WasmArray(memory, s{block}, d{block}, {size}, {capacity})"
        return f"WasmArray(memory, ({capacity},), uint8, {capacity}, {capacity})"

    def _is_whole(self, end: End | WasmArray, block: int) -> bool:
        """Return whether a result has all elements of a block."""
        if not isinstance(end, End) or end.block != block or end.offset:
            return False
        nbytes = count_elements(end.shape) * end.dtype.itemsize
        return size_class(nbytes) == self.recording.memory.capacities[block]

    def _text_of(self, index: int, names: dict[str, Any]) -> str:
        """Return the text of a result: an array that was given or made, or a view of it."""
        end = self.ends[index]
        if isinstance(end, WasmArray):
            names[f"e{index}"] = end
            return f"e{index}"
        inputs = self.recording.inputs
        is_given = end.block < len(inputs)
        owner = f"v{inputs[end.block]}" if is_given else f"o{end.block}"
        array = self.recording.arrays[inputs[end.block]] if is_given else None
        shape, dtype = (
            (array.shape, array.dtype)
            if array is not None
            else (names.get(f"s{end.block}"), names.get(f"d{end.block}"))
        )
        if (end.shape, end.dtype, end.offset) == (shape, dtype, 0):
            return owner
        names |= {f"s{index}_": end.shape, f"d{index}_": end.dtype}
        return f"view_of({owner}, s{index}_, d{index}_, {end.offset})"


class Table(CachedBlock):
    """The table of a program in linear memory."""

    __slots__ = ()

    def __init__(self, memory: LinearMemory, code: bytes) -> None:
        """Write the table to a new block."""
        super().__init__(memory, len(code))
        memory.window((len(code),), np.dtype(np.uint8), self.address)[...] = np.frombuffer(
            code, np.uint8
        )
