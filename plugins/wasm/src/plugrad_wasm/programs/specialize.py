"""Implementations specialized for fixed shapes: whatever they derive from the shapes is computed once.

An implementation runs on stand-ins, which say which exports it calls. A function of a few lines then makes the same
calls, each with new memory for what it writes first.
"""

from __future__ import annotations

from functools import partial
from struct import Struct
from sys import getrefcount
from typing import TYPE_CHECKING, Any, Final, cast

from plugrad.extend import KERNELS, count_elements, is_interruption, uint8
from plugrad_wasm.kernels.movement import VIEW_MIN_ELEMENTS
from plugrad_wasm.memory import WasmArray, WasmStridedView, WasmView, round_up_to_size_class
from plugrad_wasm.programs.layout import iter_accessed_blocks
from plugrad_wasm.programs.recorder import BlockOffset, ExportCall, NumberWrite, RecordingMemory
from plugrad_wasm.programs.recording import (
    ResultLocation,
    list_gradient_positions,
    locate_result,
    view_at_offset,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from plugrad.extend import Implementation, Shaped
    from plugrad_wasm.memory import LinearMemory
    from plugrad_wasm.programs.recorder import CallArgument


def _measure_unshared_reference_count() -> int:
    """Return the reference count that a function sees for an argument held only by its caller's variable."""

    def count_references(x: object) -> int:
        """Return the reference count of an argument."""
        return getrefcount(x)

    x = object()
    return count_references(x)


UNSHARED_REFERENCE_COUNT: Final = _measure_unshared_reference_count()
"""The reference count that a function sees for an argument held only by a variable of its caller."""


def specialize(
    kernel_name: str,
    function: Implementation,
    specs: Sequence[Shaped | None],
    attrs: Mapping[str, Any],
    free: Sequence[int],
    linear_memory: LinearMemory,
) -> Implementation | None:
    """Return a version of an implementation for fixed shapes, which may reuse inputs at `free` positions, or None.

    `Backend.specialize` describes the arguments.

    None if that needs values, work that threads share, or nothing new: all results must lie in memory that is made.
    A lazy array is left to the implementation, which may read it where it lies.
    """
    memory = RecordingMemory(linear_memory)
    arrays = [None if spec is None else memory.create_variable_input(spec) for spec in specs]
    given = len(memory.capacities)
    try:
        made = function(*arrays, **attrs)
    except Exception as error:  # of values, or what the call itself will raise
        if is_interruption(error):
            raise
        return None
    calls = [call for call in memory.store.calls if isinstance(call, ExportCall | NumberWrite)]
    returns_list = isinstance(made, list)
    results = cast("list[WasmArray]", made if returns_list else [made])
    if len(calls) < len(memory.store.calls) or any(
        type(x) not in (WasmArray, WasmView) for x in results
    ):
        return None
    ends = [locate_result(x, memory) for x in results]
    inner = [end for end in ends if isinstance(end, ResultLocation) and end.block_number >= given]
    if not calls or len(inner) < len(ends):
        return None
    writer = _FunctionSource(memory, [x is not None for x in arrays], calls, inner)
    if sum(isinstance(call, ExportCall) for call in calls) == 1:
        for position, result in _list_in_place_pairs(kernel_name, len(specs)):
            if position in free and _has_spec(specs[position], inner[result]):
                writer.reuse_input(position, inner[result].block_number)
    may_be_lazy = [i for i, x in enumerate(arrays) if x is not None and x.size >= VIEW_MIN_ELEMENTS]
    return writer.compile(partial(function, **attrs), may_be_lazy, returns_list=returns_list)


def _list_in_place_pairs(kernel_name: str, input_count: int) -> list[tuple[int, int]]:
    """Return pairs of positions: an input and a result that may share memory."""
    kernel = KERNELS.get(kernel_name)
    if kernel is not None and kernel.is_elementwise:
        return [(i, 0) for i in range(input_count)]
    return list_gradient_positions(kernel_name, input_count)


def _has_spec(input_spec: Shaped | None, result: ResultLocation) -> bool:
    """Return whether a result has the shape and dtype of an input; `input_spec` is None without an input."""
    return input_spec is not None and (input_spec.shape, input_spec.dtype) == (
        result.shape,
        result.dtype,
    )


class _FunctionSource:
    """Writes the Python source of a specialized function, with the objects that it refers to."""

    def __init__(
        self,
        memory: RecordingMemory,
        is_given: Sequence[bool],
        calls: Sequence[ExportCall | NumberWrite],
        ends: Sequence[ResultLocation],
    ) -> None:
        """Begin with the objects to which every generated function refers; absent inputs have no block."""
        self.memory, self.calls, self.results = memory, calls, ends
        self.store = memory.linear_memory.store
        self.parameters = [f"x{i}" for i in range(len(is_given))]
        given = [name for name, is_there in zip(self.parameters, is_given, strict=True) if is_there]
        self.owners = dict(enumerate(given))
        """The names of the arrays to which the blocks belong."""
        self.last = {
            block: i for i, call in enumerate(calls) for block in iter_accessed_blocks(call)
        }
        self.whole_block_results: dict[int, ResultLocation] = {}
        """For each block, the first result that has all of its elements."""
        for end in ends:
            nbytes = count_elements(end.shape) * end.dtype.itemsize
            if (
                not end.offset
                and round_up_to_size_class(nbytes) == memory.capacities[end.block_number]
            ):
                self.whole_block_results.setdefault(end.block_number, end)
        self.reused: dict[int, list[str]] = {}
        """The inputs whose memory a block may take."""
        self.names: dict[str, Any] = {
            "OWN": UNSHARED_REFERENCE_COUNT,
            "WasmArray": WasmArray,
            "WasmStridedView": WasmStridedView,
            "getrefcount": getrefcount,
            "held": (memory.store.held, memory.fixed),
            "host": self.store.host_view(),
            "memory": memory.linear_memory,
            "uint8": uint8,
            "view_at_offset": view_at_offset,
        }

    def reuse_input(self, input_position: int, block_number: int) -> None:
        """Let a memory block reuse the memory of an input if at run time nobody else refers to it."""
        if block_number in self.whole_block_results:
            self.reused.setdefault(block_number, []).append(f"x{input_position}")

    def compile(
        self, fallback: Implementation, lazy_positions: Sequence[int], *, returns_list: bool
    ) -> Implementation:
        """Compile the function; it calls `fallback` if an input at one of the lazy positions is a strided view."""
        parameters = ", ".join(self.parameters)
        lines = [f"def call({parameters}):"]
        if lazy_positions:
            self.names["fallback"] = fallback
            are_lazy = " or ".join(f"type(x{i}) is WasmStridedView" for i in lazy_positions)
            lines.append(f"    if {are_lazy}: return fallback({parameters})")
        kept = {end.block_number for end in self.results}
        for number, call in enumerate(self.calls):
            lines += self._make_blocks(iter_accessed_blocks(call))
            lines.append(f"    {self._format_call(number, call)}")
            lines += [
                f"    del y{block}"
                for block, last in self.last.items()
                if last == number and self.owners.get(block) == f"y{block}" and block not in kept
            ]
        lines += self._make_blocks(kept)  # those without elements, which no call writes
        results = ", ".join(map(self._format_result, range(len(self.results)), self.results))
        lines.append(f"    return [{results}]" if returns_list else f"    return {results}")
        exec("\n".join(lines), self.names)
        return self.names.pop("call")  # so that it is no part of a circle

    def _make_blocks(self, block_numbers: Iterable[int]) -> list[str]:
        """Return the Python source that allocates memory blocks, by number, except those that exist already."""
        known = {*self.owners, *self.memory.fixed}
        missing = [block for block in dict.fromkeys(block_numbers) if block not in known]
        self.owners |= {block: f"y{block}" for block in missing}
        lines: list[str] = []
        for block in missing:
            word = "if"
            for x in self.reused.get(block, ()):
                lines.append(
                    f"    {word} type({x}) is WasmArray and getrefcount({x}) == OWN: y{block} = {x}"
                )
                word = "elif"
            indent = "    else: " if word == "elif" else "    "
            lines.append(f"{indent}y{block} = {self._format_block(block)}")
        return lines

    def _format_block(self, block_number: int) -> str:
        """Return the Python source that allocates the memory block with a number."""
        capacity = self.memory.capacities[block_number]
        end = self.whole_block_results.get(block_number)
        if end is None:
            return f"WasmArray(memory, ({capacity},), uint8, {capacity}, {capacity})"
        self.names |= {f"shape{block_number}": end.shape, f"dtype{block_number}": end.dtype}
        size = count_elements(end.shape)
        return f"WasmArray(memory, shape{block_number}, dtype{block_number}, {size}, {capacity})"

    def _format_call(self, call_number: int, call: ExportCall | NumberWrite) -> str:
        """Return the Python source of a call of an export, or of a write of numbers."""
        if isinstance(call, NumberWrite):
            arguments = [
                "host",
                *self._format_arguments(call_number, (call.target_address, *call.written_numbers)),
            ]
            self.names[f"run{call_number}"] = Struct(f"<{len(call.written_numbers)}I").pack_into
        else:
            arguments = self._format_arguments(call_number, call.arguments)
            functions = (
                self.store.exports_releasing_gil
                if call.releases_gil
                else self.store.exports_holding_gil
            )
            self.names[f"run{call_number}"] = functions[call.export]
        return f"run{call_number}({', '.join(arguments)})"

    def _format_arguments(
        self, call_number: int, arguments: Sequence[CallArgument]
    ) -> Iterator[str]:
        """Yield the Python source of each argument: a number, or an address in an array."""
        for position, argument in enumerate(arguments):
            if not isinstance(argument, BlockOffset):
                name = f"n{call_number}_{position}"
                self.names[name] = argument
                yield repr(argument) if type(argument) is int else name
                continue
            block, offset = argument
            fixed = self.memory.fixed.get(block)
            if fixed is not None:
                yield str(fixed.address + offset)
            else:
                yield f"{self.owners[block]}.address{f' + {offset}' if offset else ''}"

    def _format_result(self, index: int, result: ResultLocation) -> str:
        """Return the Python source of the result number `index`: the array that fills its block, or a view of it."""
        if self.whole_block_results.get(result.block_number) == result:
            return self.owners[result.block_number]
        self.names |= {f"shape{index}_": result.shape, f"dtype{index}_": result.dtype}
        return f"view_at_offset({self.owners[result.block_number]}, shape{index}_, dtype{index}_, {result.offset})"
