"""Implementations for arrays of known shapes: what they decide follows from those, so it is decided once.

An implementation runs on stand-ins, which say which exports it calls. A function of a few lines then makes the same
calls, each with new memory for what it writes first.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any, cast

from plugrad.extend import MOVING_KERNELS, count_elements, is_interruption, uint8
from plugrad_wasm.kernels.movement import VIEW_MIN_ELEMENTS
from plugrad_wasm.memory import WasmArray, WasmView, size_class
from plugrad_wasm.programs.layout import iter_blocks
from plugrad_wasm.programs.recorder import Numbers, Once, Place, RecordingMemory
from plugrad_wasm.programs.recording import End, describe_end, view_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from plugrad.extend import Implementation, Shaped
    from plugrad_wasm.memory import LinearMemory
    from plugrad_wasm.programs.recorder import Argument


def may_read_lazily(kernel_name: str, specs: Sequence[Shaped | None]) -> bool:
    """Return whether a kernel reads a few elements of an array that may be a walk over another one."""
    return kernel_name in MOVING_KERNELS and any(
        spec is not None and count_elements(spec.shape) >= VIEW_MIN_ELEMENTS for spec in specs
    )


def specialize(
    function: Implementation,
    specs: Sequence[Shaped | None],
    attrs: Mapping[str, Any],
    home: LinearMemory,
) -> Implementation | None:
    """Return a function that does what an implementation does with arrays of some shapes and dtypes.

    None if that needs values, work that threads share, or nothing new: all results must lie in memory that is made.
    """
    memory = RecordingMemory(home)
    arrays = [None if spec is None else memory.new_input(spec) for spec in specs]
    given = len(memory.capacities)
    try:
        made = function(*arrays, **attrs)
    except Exception as error:  # of values, or what the call itself will raise
        if is_interruption(error):
            raise
        return None
    calls = [call for call in memory.store.calls if isinstance(call, Once | Numbers)]
    returns_list = isinstance(made, list)
    results = cast("list[WasmArray]", made if returns_list else [made])
    if len(calls) < len(memory.store.calls) or any(
        type(x) not in (WasmArray, WasmView) for x in results
    ):
        return None
    ends = [describe_end(x, memory) for x in results]
    inner = [end for end in ends if isinstance(end, End) and end.block >= given]
    if not calls or len(inner) < len(ends):
        return None
    writer = _Writer(memory, [x is not None for x in arrays], calls, inner)
    return writer.compile(returns_list=returns_list)


class _Writer:
    """Writes the text of the function, with the objects that it names."""

    def __init__(
        self,
        memory: RecordingMemory,
        is_given: Sequence[bool],
        calls: Sequence[Once | Numbers],
        ends: Sequence[End],
    ) -> None:
        """Begin with what each function names; absent inputs have no block."""
        self.memory, self.calls, self.ends = memory, calls, ends
        self.store = memory.home.store
        self.parameters = [f"x{i}" for i in range(len(is_given))]
        given = [name for name, is_there in zip(self.parameters, is_given, strict=True) if is_there]
        self.owners = dict(enumerate(given))
        """The names of the arrays to which the blocks belong."""
        self.last = {block: i for i, call in enumerate(calls) for block in iter_blocks(call)}
        self.whole: dict[int, End] = {}
        """For each block, the first result that has all of its elements."""
        for end in ends:
            nbytes = count_elements(end.shape) * end.dtype.itemsize
            if not end.offset and size_class(nbytes) == memory.capacities[end.block]:
                self.whole.setdefault(end.block, end)
        self.names: dict[str, Any] = {
            "WasmArray": WasmArray,
            "held": (memory.store.held, memory.fixed),
            "host": self.store.host_view(),
            "memory": memory.home,
            "uint8": uint8,
            "view_of": view_of,
        }

    def compile(self, *, returns_list: bool) -> Implementation:
        """Return the function."""
        lines = [f"def call({', '.join(self.parameters)}):"]
        kept = {end.block for end in self.ends}
        for number, call in enumerate(self.calls):
            lines += self._make_blocks(iter_blocks(call))
            lines.append(f"    {self._format_call(number, call)}")
            lines += [
                f"    del y{block}"
                for block, last in self.last.items()
                if last == number and self.owners.get(block) == f"y{block}" and block not in kept
            ]
        lines += self._make_blocks(kept)  # those without elements, which no call writes
        results = ", ".join(map(self._format_end, range(len(self.ends)), self.ends))
        lines.append(f"    return [{results}]" if returns_list else f"    return {results}")
        exec("\n".join(lines), self.names)
        return self.names.pop("call")  # so that it is no part of a circle

    def _make_blocks(self, blocks: Iterable[int]) -> list[str]:
        """Return the lines that make arrays for those of some blocks that there are not yet."""
        known = {*self.owners, *self.memory.fixed}
        missing = [block for block in dict.fromkeys(blocks) if block not in known]
        self.owners |= {block: f"y{block}" for block in missing}
        return [f"    y{block} = {self._format_block(block)}" for block in missing]

    def _format_block(self, block: int) -> str:
        """Return the text of a new array for a block."""
        capacity = self.memory.capacities[block]
        end = self.whole.get(block)
        if end is None:
            return f"WasmArray(memory, ({capacity},), uint8, {capacity}, {capacity})"
        self.names |= {f"shape{block}": end.shape, f"dtype{block}": end.dtype}
        size = count_elements(end.shape)
        return f"WasmArray(memory, shape{block}, dtype{block}, {size}, {capacity})"

    def _format_call(self, number: int, call: Once | Numbers) -> str:
        if isinstance(call, Numbers):
            arguments = ["host", *self._format_arguments(number, (call.target, *call.numbers))]
            self.names[f"run{number}"] = Struct(f"<{len(call.numbers)}I").pack_into
        else:
            arguments = self._format_arguments(number, call.arguments)
            functions = self.store.long if call.is_long else self.store.short
            self.names[f"run{number}"] = functions[call.export]
        return f"run{number}({', '.join(arguments)})"

    def _format_arguments(self, number: int, arguments: Sequence[Argument]) -> Iterator[str]:
        """Yield the texts of numbers, and of addresses in arrays."""
        for position, argument in enumerate(arguments):
            if not isinstance(argument, Place):
                name = f"n{number}_{position}"
                self.names[name] = argument
                yield repr(argument) if type(argument) is int else name
                continue
            block, offset = argument
            fixed = self.memory.fixed.get(block)
            if fixed is not None:
                yield str(fixed.address + offset)
            else:
                yield f"{self.owners[block]}.address{f' + {offset}' if offset else ''}"

    def _format_end(self, index: int, end: End) -> str:
        """Return the text of a result: the array that has its block, or a view of it."""
        if self.whole.get(end.block) == end:
            return self.owners[end.block]
        self.names |= {f"shape{index}_": end.shape, f"dtype{index}_": end.dtype}
        return f"view_of({self.owners[end.block]}, shape{index}_, dtype{index}_, {end.offset})"
