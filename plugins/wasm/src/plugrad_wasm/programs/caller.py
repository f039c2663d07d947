"""Generated functions that call programs: they allocate the arrays of results and the memory of intermediate values."""

from __future__ import annotations

from itertools import groupby
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import numpy as np

from plugrad.extend import OutOfMemory, compile_replay, count_elements, uint8
from plugrad_wasm.memory import CachedBlock, WasmArray, round_up_to_size_class
from plugrad_wasm.programs.layout import OperandLayout
from plugrad_wasm.programs.pieces import (
    CompiledLoopCalls,
    TablePiece,
    ThreadedChainCalls,
    ThreadedLoop,
    ThreadedTableCalls,
    divide_into_pieces,
)
from plugrad_wasm.programs.recorder import CompiledLoop
from plugrad_wasm.programs.recording import ResultLocation, record_graph, view_at_offset
from plugrad_wasm.programs.table import encode_table
from plugrad_wasm.runtime import TableRun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from plugrad.extend import Graph
    from plugrad_wasm.memory import LinearMemory
    from plugrad_wasm.programs.recorder import ThreadedChains
    from plugrad_wasm.programs.recording import Functions, Recording
    from plugrad_wasm.programs.table import TableLoops

    Run = Callable[..., list[Any]]
    """The type of a function of arrays that returns the arrays of results."""
    ThreadedPiece: TypeAlias = "ThreadedLoop | ThreadedChains | CompiledLoop"
    """A piece of a program that threads share."""

MAX_CALL_MEMORY_BYTES: Final = 1 << 30
"""The maximum bytes of intermediate values in one call: larger blocks are hard to find in 4 GiB."""


def compile_region(
    graph: Graph, linear_memory: LinearMemory, kernel_functions: Functions
) -> Run | None:
    """Return a function from the arrays of a graph's arguments to its results, or None; `functions` run its kernels.

    None if there is nothing to call, or if the program would need too large a block.
    """
    recording = record_graph(graph, linear_memory, kernel_functions)
    layout = OperandLayout(recording, len(graph.arguments))
    if not recording.calls or layout.frame_bytes > MAX_CALL_MEMORY_BYTES:
        return None
    return _FunctionSource(graph, recording, layout, linear_memory).compile()


class _FunctionSource:
    """Writes the Python source of the function that runs a program, with the objects that it refers to."""

    def __init__(
        self, graph: Graph, recording: Recording, layout: OperandLayout, linear_memory: LinearMemory
    ) -> None:
        """Begin with the objects to which every generated function refers."""
        self.graph, self.recording, self.layout, self.linear_memory = (
            graph,
            recording,
            layout,
            linear_memory,
        )
        self.store = linear_memory.store
        self.held: list[object] = [recording.memory.store.held, recording.memory.fixed]
        """What the program reads."""
        self.whole_block_results: dict[int, ResultLocation] = {}
        """For each block, the first result that has all of its elements."""
        for end in recording.results:
            if isinstance(end, ResultLocation) and self._is_result_of_whole_block(end):
                self.whole_block_results.setdefault(end.block_number, end)
        self.names: dict[str, Any] = {
            "OutOfMemory": OutOfMemory,
            "WasmArray": WasmArray,
            "held": self.held,
            "host": self.store.host_view(),
            "memory": linear_memory,
            "replay": _LazyReplay(graph),
            "uint8": uint8,
            "view_at_offset": view_at_offset,
            "write": Struct(f"<{layout.bases}q").pack_into,
        }

    def compile(self) -> Run:
        """Compile the function; it makes the calls one by one if memory for all at once is not available."""
        arguments = ", ".join(f"v{v}" for v in self.graph.arguments)
        outputs = [f"o{block}" for block in self.layout.outputs]
        arrays = [*(f"v{v}" for v in self.graph.arguments), *outputs]
        made = [
            *map(self._format_block, self.layout.outputs),
            _format_byte_allocation(self.layout.frame_bytes),
        ]
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
        pieces = divide_into_pieces(self.recording.calls, self.layout, self.store)
        for number, (is_table, group) in enumerate(
            groupby(pieces, lambda piece: isinstance(piece, TablePiece))
        ):
            if is_table:
                lines += self._format_tables(number, cast("list[TablePiece]", [*group]))
            else:
                lines += [
                    f"    {self._format_piece(f'{number}_{i}', piece, arrays)}"
                    for i, piece in enumerate(cast("Iterator[ThreadedPiece]", group))
                ]
        results = [
            self._format_result(index, end) for index, end in enumerate(self.recording.results)
        ]
        lines.append(f"    return [{', '.join(results)}]")
        exec("\n".join(lines), self.names)
        return self.names["run"]

    def _format_tables(self, run_number: int, pieces: Sequence[TablePiece]) -> list[str]:
        """Return the Python source that runs tables, in one call that releases the GIL if one of them is long."""
        tables = [
            TableRun(
                piece.module, *self._allocate_table(piece.module, piece.loops), piece.releases_gil
            )
            for piece in pieces
        ]
        if any(table.releases_gil for table in tables):
            self.names[f"run{run_number}"] = self.store.bind_tables(tables)
            return [f"    run{run_number}(at)"]
        self.names |= {
            f"run_{table.module}": self.store.exports_holding_gil[f"program_{table.module}"]
            for table in tables
        }
        return [f"    run_{table.module}({table.address}, {table.nbytes}, at)" for table in tables]

    def _format_piece(self, run_name: str, piece: ThreadedPiece, array_names: list[str]) -> str:
        """Return the Python source that runs a piece, which threads share, under a name for its function."""
        if isinstance(piece, ThreadedLoop):
            tables = [self._allocate_table(piece.module, loops) for loops in piece.loops]
            self.names[f"run{run_name}"] = ThreadedTableCalls(
                tables, piece, self.layout, self.linear_memory
            )
        elif isinstance(piece, CompiledLoop):
            self.names[f"run{run_name}"] = CompiledLoopCalls(piece, self.layout, self.linear_memory)
        else:
            self.names[f"run{run_name}"] = ThreadedChainCalls(
                piece, self.layout, self.store.run_in_threads
            )
        return f"run{run_name}(bases, {', '.join(['held', 'frame', *array_names])})"

    def _allocate_table(self, module: str, loops: TableLoops) -> tuple[int, int]:
        """Encode loops of calls of a module in linear memory; return the table's address and its bytes."""
        code = encode_table(loops, module, self.store.functions, self.layout.bases)
        table = ProgramTable(self.linear_memory, code)
        self.held.append(table)
        return table.address, len(code)

    def _is_result_of_whole_block(self, result: ResultLocation) -> bool:
        """Return whether a result has all elements of its block."""
        nbytes = count_elements(result.shape) * result.dtype.itemsize
        return (
            not result.offset
            and round_up_to_size_class(nbytes)
            == self.recording.memory.capacities[result.block_number]
        )

    def _format_block(self, block_number: int) -> str:
        """Return the Python source that allocates a memory block."""
        capacity = self.recording.memory.capacities[block_number]
        end = self.whole_block_results.get(block_number)
        if end is None:
            return _format_byte_allocation(capacity)
        self.names |= {f"s{block_number}": end.shape, f"d{block_number}": end.dtype}
        size = count_elements(end.shape)
        return f"WasmArray(memory, s{block_number}, d{block_number}, {size}, {capacity})"

    def _format_result(self, index: int, result: ResultLocation | WasmArray) -> str:
        """Return the Python source of the result number `index`: an argument, a new array, or a view of one."""
        if isinstance(result, WasmArray):
            self.names[f"e{index}"] = result
            return f"e{index}"
        arguments = self.graph.arguments
        if result.block_number < len(arguments):
            owner, spec = (
                f"v{arguments[result.block_number]}",
                self.graph.specs[arguments[result.block_number]],
            )
            is_owner = (result.offset, result.shape, result.dtype) == (0, *spec)
        else:
            owner, is_owner = (
                f"o{result.block_number}",
                self.whole_block_results.get(result.block_number) == result,
            )
        if is_owner:
            return owner
        self.names |= {f"s{index}_": result.shape, f"d{index}_": result.dtype}
        return f"view_at_offset({owner}, s{index}_, d{index}_, {result.offset})"


def _format_byte_allocation(nbytes: int) -> str:
    """Return the Python source that allocates an array of bytes."""
    size = round_up_to_size_class(nbytes)
    return f"WasmArray(memory, ({size},), uint8, {size}, {size})"


class _LazyReplay:
    """A function that runs the graph call by call, prepared on first use."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.run: Run | None = None

    def __call__(self, *arrays: Any) -> list[Any]:
        if self.run is None:
            self.run = compile_replay(self.graph)
        return self.run(*arrays)


class ProgramTable(CachedBlock):
    """A block of linear memory that holds a program table."""

    __slots__ = ()

    def __init__(self, memory: LinearMemory, code: bytes) -> None:
        """Write the table to a new block."""
        super().__init__(memory, len(code))
        window = memory.numpy_view((len(code),), np.dtype(np.uint8), self.address)
        window[...] = np.frombuffer(code, np.uint8)
