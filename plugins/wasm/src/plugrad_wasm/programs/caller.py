"""The function that calls a program: it makes the arrays of results, and the memory for what is in between."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from plugrad.extend import OutOfMemory, compile_replay, count_elements, uint8
from plugrad_wasm.memory import CachedBlock, WasmArray, size_class
from plugrad_wasm.programs.layout import Layout
from plugrad_wasm.programs.pieces import (
    LoopCalls,
    Parts,
    Piece,
    SharedCalls,
    SharedTables,
    pieces_of,
)
from plugrad_wasm.programs.recorder import Loop
from plugrad_wasm.programs.recording import End, record, view_of
from plugrad_wasm.programs.table import write_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad.extend import Graph
    from plugrad_wasm.memory import LinearMemory
    from plugrad_wasm.programs.recorder import Shared
    from plugrad_wasm.programs.recording import Functions, Recording
    from plugrad_wasm.programs.table import Loops

    Run = Callable[..., list[Any]]

MAX_FRAME_BYTES: Final = 1 << 30
"""The bytes beyond which one block is hard to find in 4 GiB."""


def compile_region(graph: Graph, home: LinearMemory, functions: Functions) -> Run | None:
    """Return a function from the arrays of a graph's arguments to those of its results.

    None if there is nothing to call, or if the program would need too large a block.
    """
    recording = record(graph, home, functions)
    layout = Layout(recording, len(graph.arguments))
    if not recording.calls or layout.frame_bytes > MAX_FRAME_BYTES:
        return None
    return _Writer(graph, recording, layout, home).compile()


class _Writer:
    """Writes the source of the function, with the objects that it refers to."""

    def __init__(
        self, graph: Graph, recording: Recording, layout: Layout, home: LinearMemory
    ) -> None:
        """Begin with what each function names."""
        self.graph, self.recording, self.layout, self.home = graph, recording, layout, home
        self.store = home.store
        self.held: list[object] = [recording.memory.store.held, recording.memory.fixed]
        """What the program reads."""
        self.whole: dict[int, End] = {}
        """For each block, the first result that has all of its elements."""
        for end in recording.ends:
            if isinstance(end, End) and self._is_whole(end):
                self.whole.setdefault(end.block, end)
        self.names: dict[str, Any] = {
            "OutOfMemory": OutOfMemory,
            "WasmArray": WasmArray,
            "held": self.held,
            "host": self.store.host_view(),
            "memory": home,
            "replay": _Replay(graph),
            "uint8": uint8,
            "view_of": view_of,
            "write": Struct(f"<{layout.bases}q").pack_into,
        }

    def compile(self) -> Run:
        """Compile the function; it makes the calls one by one if memory for all at once is not available."""
        arguments = ", ".join(f"v{v}" for v in self.graph.arguments)
        outputs = [f"o{block}" for block in self.layout.outputs]
        arrays = [*(f"v{v}" for v in self.graph.arguments), *outputs]
        made = [*map(self._format_block, self.layout.outputs), _bytes(self.layout.frame_bytes)]
        lines = [
            f"def run({arguments}):",
            "    try:",
            *(
                f"        {name} = {text}"
                for name, text in zip([*outputs, "frame"], made, strict=True)
            ),
            "    except OutOfMemory:",
            f"        {' = '.join([*outputs, 'frame'])} = None",
            f"        return replay({arguments})",
            "    at = frame.address",
            f"    bases = 0, 0, at + {self.layout.scratch}, at, {''.join(f'{array}.address, ' for array in arrays)}",
            "    write(host, at, *bases)",
        ]
        for number, piece in enumerate(pieces_of(self.recording.calls, self.layout, self.store)):
            lines.append(f"    {self._format_piece(number, piece, arrays)}")
        results = [self._format_end(index, end) for index, end in enumerate(self.recording.ends)]
        lines.append(f"    return [{', '.join(results)}]")
        exec("\n".join(lines), self.names)
        return self.names["run"]

    def _format_piece(
        self, number: int, piece: Piece | Parts | Shared | Loop, arrays: list[str]
    ) -> str:
        """Return the source of the call that runs a piece."""
        if isinstance(piece, Piece):
            calls = self.store.long if piece.is_long else self.store.short
            self.names[f"run{number}"] = calls[f"program_{piece.module}"]
            address, nbytes = self._table(piece.module, piece.loops)
            return f"run{number}({address}, {nbytes}, at)"
        if isinstance(piece, Parts):
            tables = [self._table(piece.module, loops) for loops in piece.loops]
            self.names[f"run{number}"] = SharedTables(tables, piece, self.layout, self.home)
        elif isinstance(piece, Loop):
            self.names[f"run{number}"] = LoopCalls(piece, self.layout, self.home)
        else:
            self.names[f"run{number}"] = SharedCalls(piece, self.layout, self.store.perform)
        return f"run{number}(bases, {', '.join(['held', 'frame', *arrays])})"

    def _table(self, module: str, loops: Loops) -> tuple[int, int]:
        """Return the address and the size of a new table in bytes."""
        code = write_table(loops, module, self.store.functions, self.layout.bases)
        table = Table(self.home, code)
        self.held.append(table)
        return table.address, len(code)

    def _is_whole(self, end: End) -> bool:
        nbytes = count_elements(end.shape) * end.dtype.itemsize
        return not end.offset and size_class(nbytes) == self.recording.memory.capacities[end.block]

    def _format_block(self, block: int) -> str:
        """Return the source that allocates a block."""
        capacity = self.recording.memory.capacities[block]
        end = self.whole.get(block)
        if end is None:
            return _bytes(capacity)
        self.names |= {f"s{block}": end.shape, f"d{block}": end.dtype}
        size = count_elements(end.shape)
        return f"WasmArray(memory, s{block}, d{block}, {size}, {capacity})"

    def _format_end(self, index: int, end: End | WasmArray) -> str:
        """Return the source of a result: an argument, a new array, or a view of one."""
        if isinstance(end, WasmArray):
            self.names[f"e{index}"] = end
            return f"e{index}"
        arguments = self.graph.arguments
        if end.block < len(arguments):
            owner, spec = f"v{arguments[end.block]}", self.graph.specs[arguments[end.block]]
            is_owner = (end.offset, end.shape, end.dtype) == (0, *spec)
        else:
            owner, is_owner = f"o{end.block}", self.whole.get(end.block) == end
        if is_owner:
            return owner
        self.names |= {f"s{index}_": end.shape, f"d{index}_": end.dtype}
        return f"view_of({owner}, s{index}_, d{index}_, {end.offset})"


def _bytes(count: int) -> str:
    """Return the source that allocates an array of bytes."""
    size = size_class(count)
    return f"WasmArray(memory, ({size},), uint8, {size}, {size})"


class _Replay:
    """A replay of the graph, compiled on first use."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.run: Run | None = None

    def __call__(self, *arrays: Any) -> list[Any]:
        if self.run is None:
            self.run = compile_replay(self.graph)
        return self.run(*arrays)


class Table(CachedBlock):
    """The table of a program in linear memory."""

    __slots__ = ()

    def __init__(self, memory: LinearMemory, code: bytes) -> None:
        """Write the table to a new block."""
        super().__init__(memory, len(code))
        window = memory.window((len(code),), np.dtype(np.uint8), self.address)
        window[...] = np.frombuffer(code, np.uint8)
