"""Replacements of the store and its memory, which record the exports that an implementation calls.

What an implementation does follows from shapes, dtypes and attributes; only kernels on the host look at values.
Its calls are therefore the same each time, but for the addresses. Arrays of a recording have addresses beyond
those of WebAssembly, from which one sees in which block they lie.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from plugrad.extend import uint32
from plugrad_wasm.memory import Block, LinearMemory, WasmArray, WasmView

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from plugrad.extend import DType, Shaped
    from plugrad_wasm.runtime import CallChain, ExportFunction, HasMemoryAddress, Runtime

BLOCK_ADDRESS_BITS = 40
"""The number of bits of a recorded address below the number of its memory block."""
BLOCK_START_OFFSET = 1 << BLOCK_ADDRESS_BITS - 1
"""The offset of a block's first byte in its addresses; addresses below it still belong to the block."""


class BlockOffset(NamedTuple):
    """A place in a recording: the number of a memory block, and an offset in bytes."""

    block_number: int
    """The number of the memory block."""
    offset: int
    """The bytes before the place in the block."""


CallArgument: TypeAlias = "float | BlockOffset"
"""An argument of a recorded call: a number, or an address in a block."""


def encode_address(location: BlockOffset) -> int:
    """Return the place of a byte in a block as one integer, which serves as its address."""
    return (location.block_number + 1 << BLOCK_ADDRESS_BITS) + BLOCK_START_OFFSET + location.offset


def decode_address(address: int) -> BlockOffset | int:
    """Return the place for an address of a recording, and numbers that are no addresses unchanged."""
    if address < BLOCK_START_OFFSET:
        return int(address)
    block, offset = divmod(int(address), 1 << BLOCK_ADDRESS_BITS)
    return BlockOffset(block - 1, offset - BLOCK_START_OFFSET)


def decode_arguments(arguments: Sequence[Any], type_letters: str) -> tuple[CallArgument, ...]:
    """Return the arguments of a call, with a `BlockOffset` for each 32-bit integer that is an address."""
    return tuple(
        [
            decode_address(x) if kind == "i" else x
            for x, kind in zip(arguments, type_letters, strict=True)
        ]
    )


class ExportCall(NamedTuple):
    """A call of an export."""

    export: str
    """The name of the export."""
    arguments: tuple[CallArgument, ...]
    """The arguments: numbers and places in memory blocks."""
    releases_gil: bool
    """Whether the call releases the GIL."""


class ThreadedChains(NamedTuple):
    """Chains of calls that threads share, in the form of `Workers.run_in_threads`."""

    export: str
    """The name of the export."""
    call_chains: tuple[tuple[tuple[CallArgument, ...], ...], ...]
    """By chain and call: the arguments."""
    scratch_arguments: tuple[CallArgument, ...]
    """The addresses of scratch memory, one for each thread."""


class NumberWrite(NamedTuple):
    """A recorded write of numbers and addresses to memory, before an export reads them."""

    target_address: CallArgument
    """The address to which the numbers are written."""
    written_numbers: tuple[CallArgument, ...]
    """The numbers, each of 32 bits."""


class AdvancingArgument(NamedTuple):
    """An address or number that grows by a step for each element of earlier blocks."""

    start: CallArgument
    """The argument for the first block."""
    step: int
    """The growth per element, in bytes for an address."""


class ScratchOffset(NamedTuple):
    """An offset, in bytes, in the scratch memory that the loops of a program share."""

    offset: int
    """The bytes from the start of the scratch memory."""


class BlockLength(NamedTuple):
    """An argument: the number of elements in the current block."""


BlockArgument: TypeAlias = "CallArgument | AdvancingArgument | ScratchOffset | BlockLength"
"""An argument of a call that runs block by block."""
BlockCall: TypeAlias = "tuple[str, tuple[BlockArgument, ...]]"
"""A call that runs block by block: the export and its arguments."""


class BlockwiseCalls(NamedTuple):
    """Elementwise calls of one module that run block by block over their arrays."""

    module: str
    """The name of the module."""
    element_count: int
    """The number of elements of the arrays."""
    block_length: int
    """The number of elements of a block."""
    setup_calls: tuple[BlockCall, ...]
    """The calls whose results are the same for all blocks, which run before the first one."""
    block_calls: tuple[BlockCall, ...]
    """The calls that run for each block."""
    scratch_bytes: int
    """The bytes of scratch memory that the calls use."""


class CompiledLoop(NamedTuple):
    """A loop over the elements that is compiled for its group of calls."""

    wat_source: str
    """A module in text form that takes addresses of numbers and arrays, the element count, and scratch memory."""
    element_count: int
    """The number of elements of the arrays."""
    elements_multiple: int
    """The number of elements of which the module computes a multiple in one call."""
    number_addresses: tuple[BlockOffset, ...]
    """The addresses of single numbers that it reads."""
    array_addresses: tuple[BlockOffset, ...]
    """The addresses of the arrays of 32-bit elements that it reads or writes."""
    scratch_bytes: int
    """The bytes of scratch memory that the module uses."""


RecordedCall: TypeAlias = ExportCall | ThreadedChains | NumberWrite | BlockwiseCalls | CompiledLoop
"""The type of a recorded call."""


def move_blocks(call: RecordedCall, new_locations: Mapping[int, BlockOffset]) -> RecordedCall:
    """Return a recorded call in which some memory blocks, by number, have become places in other blocks."""

    def move(arguments: Sequence[CallArgument]) -> tuple[CallArgument, ...]:
        """Return arguments with the new places."""
        return tuple(
            [
                place._replace(offset=place.offset + x.offset)
                if isinstance(x, BlockOffset)
                and (place := new_locations.get(x.block_number)) is not None
                else x
                for x in arguments
            ]
        )

    match call:
        case ExportCall():
            return call._replace(arguments=move(call.arguments))
        case ThreadedChains(_, chains, scratch):
            made = tuple([tuple(map(move, chain)) for chain in chains])
            return call._replace(call_chains=made, scratch_arguments=move(scratch))
        case NumberWrite(_, numbers):
            return call._replace(written_numbers=move(numbers))
        case _:
            return call


class CannotRecordError(Exception):
    """Raised when an implementation needs values, or exports that programs cannot call."""


class RecordingExports(dict[str, "ExportFunction"]):
    """Exports whose calls are recorded instead of made."""

    def __init__(self, store: RecordingStore, *, releases_gil: bool) -> None:
        """Create exports that append their calls to the list of a recording store."""
        super().__init__()
        self._store = store
        self._is_long = releases_gil

    def __missing__(self, name: str) -> ExportFunction:
        function = self._store.functions.get(name)
        if function is None:
            raise CannotRecordError(name)
        calls, releases_gil, types = (
            self._store.calls,
            self._is_long,
            function.parameter_type_letters,
        )

        def record_call(*arguments: float) -> None:
            """Record a call with these arguments."""
            calls.append(ExportCall(name, decode_arguments(arguments, types), releases_gil))

        self[name] = record_call
        return record_call


class RecordingStore:
    """Replaces the store during a recording: calls of exports are recorded instead of made."""

    def __init__(self, store: Runtime) -> None:
        """Create a recording store with the exports, threads and scratch size of a real store."""
        self._store = store
        self.functions = store.functions
        self.threads = store.threads
        self.scratch_size = store.scratch_size
        self.calls: list[RecordedCall] = []
        self.held: list[object] = []
        """The blocks of linear memory that the calls read, kept alive."""
        self.exports_holding_gil: RecordingExports = RecordingExports(self, releases_gil=False)
        self.exports_releasing_gil: RecordingExports = RecordingExports(self, releases_gil=True)

    def descriptor(self, values: tuple[int, ...]) -> HasMemoryAddress:
        """Return a memory block with integers, kept alive by the recording."""
        self.held.append(block := self._store.descriptor(values))
        return block

    def filled_block(
        self, export_name: str, descriptor: tuple[int, ...], nbytes: int
    ) -> HasMemoryAddress:
        """Return a block of `nbytes` bytes of linear memory that an export has filled."""
        self.held.append(block := self._store.filled_block(export_name, descriptor, nbytes))
        return block

    def run_in_threads(
        self,
        export: str,
        chains: Sequence[CallChain],
        kept_objects: Sequence[object],
        scratch_blocks: Sequence[HasMemoryAddress] = (),
    ) -> None:
        """Record chains of calls of an export."""
        function = self.functions.get(export)
        if function is None:
            raise CannotRecordError(export)
        self.held += kept_objects
        types = function.parameter_type_letters[
            : len(function.parameter_type_letters) - bool(scratch_blocks)
        ]
        located = [tuple([decode_arguments(each, types) for each in chain]) for chain in chains]
        blocks = tuple([decode_address(block.address) for block in scratch_blocks])
        self.calls.append(ThreadedChains(export, tuple(located), blocks))

    def compile_wat(self, source: str, *, releases_gil: bool = False) -> ExportFunction:
        """Refuse a custom expression, because programs call only exports."""
        raise CannotRecordError(source)


class _EmptyFreeList(list[Block]):
    """A list of free blocks that stays empty, so that a recording reuses no block; a memory plan does so later."""

    def append(self, block: Block) -> None:
        """Ignore a released block."""


class RecordingMemory(LinearMemory):
    """A linear memory for recordings: it numbers blocks instead of allocating them."""

    def __init__(self, linear_memory: LinearMemory) -> None:
        """Create a replacement of a linear memory for recordings."""
        self.linear_memory = linear_memory
        self.store: Any = RecordingStore(linear_memory.store)
        self.capacities: list[int] = []
        """The bytes of the blocks."""
        self.fixed: dict[int, WasmArray] = {}
        """The arrays of linear memory for which blocks stand."""
        self.host: memoryview | None = None
        self.used: int = 0
        self.buffers: int = 0
        self.threshold: Any = math.inf
        self.returned: list[Block] = _EmptyFreeList()
        self.free: defaultdict[int, list[Block]] = defaultdict(list)

    def make_free_block(self, capacity: int) -> None:
        """Add a block of `capacity` bytes, which gets the next number, to its free list."""
        self.free[capacity].append(
            Block(self, encode_address(self.number_block(capacity)), capacity)
        )

    def number_block(self, nbytes: int) -> BlockOffset:
        """Return the address of a new block of `nbytes` bytes, which gets the next number."""
        self.capacities.append(nbytes)
        return BlockOffset(len(self.capacities) - 1, 0)

    def create_constant_input(self, array: WasmArray) -> WasmArray:
        """Return a recorded array that represents an existing array, the same in each call."""
        block = self.number_block(array.capacity)
        self.fixed[block.block_number] = array
        view = WasmView(array, array.shape)
        view.memory = self
        view.address = encode_address(block)
        return view

    def create_variable_input(self, spec: Shaped) -> WasmArray:
        """Return a recorded array for an input of a shape and dtype, which is another array in each call."""
        return self.empty(spec.shape, spec.dtype)

    def from_numpy(self, values: NDArray[Any], dtype: DType) -> WasmArray:
        """Return a constant, which the program keeps alive."""
        return self.create_constant_input(self.linear_memory.from_numpy(values, dtype))

    def write_numbers(self, numbers: Sequence[int]) -> WasmArray:
        """Return an array of 32-bit numbers; each call of the program writes the addresses among the numbers again."""
        array = self.empty((len(numbers),), uint32)
        places = tuple([decode_address(number) for number in numbers])
        self.store.calls.append(NumberWrite(decode_address(array.address), places))
        return array

    def numpy_view(self, shape: tuple[int, ...], dtype: Any, address: int) -> NDArray[Any]:
        """Raise, because a recording has no values."""
        raise CannotRecordError

    def to_numpy(self, array: WasmArray) -> NDArray[Any]:
        """Raise, because a recording has no values."""
        raise CannotRecordError
