"""Linear memory: blocks of the one large array that all kernels see, and the arrays that own them.

A block has a size class. When its array dies, the block goes to the list of returned blocks, where
the next array of its class finds it, and from there to the free list of the class. The counters are
exact: they count the bytes of the classes.

Threads and interrupts: Python lets other threads run, and raises `KeyboardInterrupt`, only after a
call and at the end of a loop's body; trace functions raise where a line begins. Where a block moves
from one place to another, one statement therefore does it all, and calls nothing. The death of an
array runs no Python code either: an interrupt would be lost there. Whatever finds no free block
takes the lock of the store.

Garbage collection: Python 3.11 may collect wherever it makes a tuple or a slice, also within a statement.
Arrays and cached blocks that die then lengthen the lists. So nothing is made between the look at
the last block of a list and its removal: otherwise another block would be removed, and two arrays would
share the first one. An assignment of up to three values makes no tuple.
"""

from __future__ import annotations

import ctypes
import struct
from collections import defaultdict
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from plugrad.extend import DType, Memory, OutOfMemory, ShapeError, count_elements, uint32

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from plugrad_wasm.runtime import Runtime

ADDRESS_SPACE_BYTES: Final = 1 << 32
"""The bytes that 32-bit WebAssembly can address."""
MAX_BLOCK_BYTES: Final = (1 << 31) - 1
"""The largest block: beyond it, C's pointer differences overflow."""
PAGE_BYTES: Final = 1 << 16
"""The bytes of a page of WebAssembly."""
ALIGNMENT_BYTES: Final = 64
"""The alignment of blocks, in bytes."""
MAX_AXES: Final = 64
"""The most axes of an array of NumPy."""
HOST_COPY_MAX_BYTES: Final = 4096
"""The bytes up to which the host fills or copies neighbouring elements itself: a call takes longer."""
LARGE_BLOCK_MIN_BYTES: Final = 1 << 20
"""The bytes above which a block is large."""
LARGE_BLOCK_SKEW_BYTES: Final = 320
"""The bytes by which large blocks are longer, so that neighbours do not begin at the same offset of a page.

The first level of the cache finds numbers by their place in a page: one pass over several arrays was slower. A pass
whose result begins 256 to 960 or 1216 to 1600 bytes further on in its page than the input takes least time, so the next
few blocks do; exp takes 1.4 times as long with a result 1800 to 3600 bytes further on.
"""
HOST_VIEW_MIN_BYTES: Final = 1 << 16
"""The bytes from which a view on the host takes less time than a copy."""
MAX_UNTRIMMED_FREE_BYTES: Final = 64 << 20
"""The bytes of free memory that are worth keeping."""
MERGE_MIN_FREE_BYTES: Final = 1 << 22
"""The bytes of free blocks from which it is worth the time to join them."""
TRIM_AFTER_ALLOCATIONS: Final = 1000
"""The number of preparations of free blocks after which memory that nothing needed is given back."""
LAST: Final = slice(-1, None)
"""The slice of a list that has only its last element; ``[-1:]`` makes a new one."""


def round_up_to_size_class(nbytes: int) -> int:
    """Return the bytes of the block for `size` bytes: a multiple of 64, at most an eighth larger.

    >>> (
    ...     round_up_to_size_class(0),
    ...     round_up_to_size_class(1000),
    ...     round_up_to_size_class(1025),
    ...     round_up_to_size_class(4_000_000),
    ... )
    (64, 1024, 1152, 4194624)
    """
    if nbytes <= 1024:
        return (nbytes + 63) & -64 or 64
    skew = LARGE_BLOCK_SKEW_BYTES if nbytes > LARGE_BLOCK_MIN_BYTES else 0
    step = 1 << ((nbytes - skew).bit_length() - 4)
    return ((nbytes - skew + step - 1) & -step) + skew


@lru_cache(maxsize=1024)
def measure_block(shape: tuple[int, ...], itemsize: int) -> tuple[int, int]:
    """Return the number of elements of an array, and the size of its block in bytes.

    >>> measure_block((100, 10), 4)
    (1000, 4096)
    """
    size = count_elements(shape)
    return size, round_up_to_size_class(size * itemsize)


class Block:
    """A block of linear memory.

    `release` puts it on the list of returned blocks. It is a function of C, and an array has it in its
    slot ``__del__``, so that Python calls it when the array dies. `free` is the free list of its class.
    """

    __slots__ = ("address", "capacity", "free", "release")

    def __init__(self, memory: LinearMemory, address: int, capacity: int) -> None:
        """Describe the `capacity` bytes from `address` on."""
        self.address: int = address
        self.capacity: int = capacity
        self.free: list[Block] = memory.free[capacity]
        self.release: Callable[[], None] = partial(memory.returned.append, self)


class WasmArray:
    """A contiguous array in linear memory that owns its block.

    `capacity` is the size class of the block, so that a result like it needs no arithmetic.
    """

    __slots__ = ("__del__", "address", "capacity", "dtype", "memory", "shape", "size")

    __del__: Callable[[], object]
    address: int
    """The address of the first element in linear memory."""
    capacity: int
    """The bytes of the block."""
    dtype: DType
    """The dtype of the elements."""
    memory: LinearMemory
    """The linear memory in which the block lies."""
    shape: tuple[int, ...]
    """The shape."""
    size: int
    """The number of elements."""

    def __init__(
        self, memory: LinearMemory, shape: tuple[int, ...], dtype: DType, size: int, capacity: int
    ) -> None:
        """Take a block; the elements are not initialised.

        Raises:
            OutOfMemory: the limit or the address space is exhausted.
        """
        self.shape = shape
        self.dtype = dtype
        self.size = size
        self.memory = memory
        self.capacity = capacity
        returned = memory.returned
        if returned and (block := returned[-1]).capacity == capacity:
            # it was in use, so the counters are right
            self.__del__, self.address, returned[LAST] = block.release, block.address, ()
            return
        free = memory.free[capacity]
        while not free or memory.used + capacity > memory.threshold:
            memory.make_free_block(capacity)
        block = free[-1]
        memory.used, memory.buffers = memory.used + capacity, memory.buffers + 1
        self.__del__, self.address, free[LAST] = block.release, block.address, ()

    def __repr__(self) -> str:
        return f"WasmArray(shape={self.shape}, dtype={self.dtype}, address={self.address:#x})"


class WasmView(WasmArray):
    """An array of another shape or dtype on an array's block, which it keeps alive."""

    __slots__ = ("owner",)

    owner: WasmArray
    """The array whose block this view keeps alive."""

    def __init__(
        self, owner: WasmArray, shape: tuple[int, ...], dtype: DType | None = None
    ) -> None:
        """Share the block of `owner`, whose elements have the new shape and dtype."""
        self.__del__: Callable[[], object] = (
            bool  # Python calls it, too: it must be a function of C that does nothing
        )
        self.shape = shape
        self.dtype: DType = owner.dtype if dtype is None else dtype
        self.size: int = owner.size if dtype is None else count_elements(shape)
        self.memory: LinearMemory = owner.memory
        self.capacity: int = owner.capacity
        self.address: int = owner.address
        self.owner = owner


class WasmSlice(WasmView):
    """A contiguous part of an array, whose block it keeps alive."""

    __slots__ = ()

    def __init__(self, owner: WasmArray, shape: tuple[int, ...], start: int) -> None:
        """Share the elements of `owner` from position `start` on."""
        super().__init__(owner, shape, owner.dtype)
        itemsize = owner.dtype.itemsize
        self.capacity: int = round_up_to_size_class(self.size * itemsize)
        self.address += start * itemsize


class StridedView(NamedTuple):
    """A strided view of an array; strides and start count elements."""

    owner: WasmArray
    """The array."""
    sizes: tuple[int, ...]
    """The shape of the view."""
    strides: tuple[int, ...]
    """The elements between neighbours along each axis."""
    start: int
    """The elements of the array before the first one of the view."""


class WasmStridedView(WasmArray):
    """A lazy array: a strided view of another array, such as its transpose.

    It has no address until a kernel asks for it: then the elements are copied into a block of its own.
    Until then it keeps the array alive.
    """

    __slots__ = ("owner", "read", "strided_view")

    owner: WasmArray
    """The array with the copied elements, once there is one."""
    read: Callable[[StridedView], WasmArray]
    """The function that copies a strided view to a contiguous array."""
    strided_view: StridedView | None
    """The view, until its elements are copied."""

    def __init__(self, strided_view: StridedView, read: Callable[[StridedView], WasmArray]) -> None:
        """Represent the elements of a strided view; `read` copies them to a contiguous array when it is needed."""
        self.__del__ = bool
        self.shape: tuple[int, ...] = strided_view.sizes
        self.dtype: DType = strided_view.owner.dtype
        self.size: int = count_elements(strided_view.sizes)
        self.memory: LinearMemory = strided_view.owner.memory
        self.capacity: int = round_up_to_size_class(self.size * self.dtype.itemsize)
        self.strided_view = strided_view
        self.read = read

    def __getattr__(self, name: str) -> Any:
        """Copy the elements to contiguous memory when the address is read for the first time."""
        if name != "address":
            raise AttributeError(name, name=name, obj=self)
        strided_view = self.strided_view
        if strided_view is not None:
            dense = self.read(strided_view)
            if (
                self.strided_view is not None
            ):  # no other thread has copied them meanwhile, and now none can
                self.owner, self.address, self.strided_view = dense, dense.address, None
        return self.address


class CachedBlock:
    """A block that the store caches for kernels; it belongs to no tensor and does not count as used."""

    __slots__ = ("__del__", "address")

    __del__: Callable[[], None]

    def __init__(self, memory: LinearMemory, nbytes: int) -> None:
        """Take a block of `nbytes` bytes, which are not set."""
        free = memory.free[round_up_to_size_class(nbytes)]
        while not free:
            memory.carve_free_block(round_up_to_size_class(nbytes))
        block = free[-1]
        del free[-1]
        self.address: int = block.address
        self.__del__ = partial(free.append, block)


class DescriptorBlock(CachedBlock):
    """A few 32-bit integers in linear memory that describe shapes and strides to a kernel."""

    __slots__ = ()

    def __init__(self, memory: LinearMemory, values: tuple[int, ...]) -> None:
        """Write `values` to a new block."""
        super().__init__(memory, 4 * len(values))
        memory.numpy_view((len(values),), np.dtype(np.int32), self.address)[...] = values


class LinearMemory:
    """The pool of blocks in the linear memory of one store."""

    def __init__(self, store: Runtime, base_address: int) -> None:
        """Manage the addresses from `base_address` upwards."""
        self.store = store
        self.limit: int | None = None
        self.used: int = 0
        self.peak: int = 0
        self.buffers: int = 0
        self.threshold: int = 0  # up to here, neither the limit nor what is needed wants attention
        self.returned: list[Block] = []  # by arrays that have died; they still count as used
        self.free: defaultdict[int, list[Block]] = defaultdict(list)
        self._spans: list[tuple[int, int]] = []  # (address, size) of merged free blocks
        self._discarded = 0  # bytes of spans that were given back to the system and not used since
        self._top = -(-base_address // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        self.host: memoryview | None = store.host_view()
        """All bytes, for copies of few of them; None in a recording."""
        self._needed = 0  # the most bytes in use at one time, and the number of preparations, since
        self._preparations = 0  # the free blocks were last looked at

    # ---- arrays ----

    def empty(self, shape: tuple[int, ...], dtype: DType) -> WasmArray:
        """Return an uninitialized array."""
        return WasmArray(self, shape, dtype, *measure_block(shape, dtype.itemsize))

    def empty_like(self, x: WasmArray) -> WasmArray:
        """Return an uninitialized array with the shape and dtype of `x`."""
        return WasmArray(self, x.shape, x.dtype, x.size, x.capacity)

    def numpy_view(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], address: int
    ) -> NDArray[Any]:
        """Return a NumPy view of linear memory from an address on, which keeps the store alive, but not the block."""
        return np.ndarray(shape, dtype, self.host, address)

    def from_numpy(self, values: NDArray[Any], dtype: DType) -> WasmArray:
        """Return a copy of a host array of values in linear memory."""
        shape = values.shape
        array = WasmArray(self, shape, dtype, *measure_block(shape, dtype.itemsize))
        np.ndarray(shape, values.dtype, self.host, array.address)[...] = values
        return array

    def write_numbers(self, numbers: Sequence[int]) -> WasmArray:
        """Write 32-bit numbers, such as addresses of other arrays, to a new array, and return it."""
        out = self.empty((len(numbers),), uint32)
        host = self.host
        assert host is not None
        host[out.address : out.address + 4 * len(numbers)] = struct.pack(
            f"<{len(numbers)}I", *numbers
        )
        return out

    def to_numpy(self, array: WasmArray) -> NDArray[Any]:
        """Return the elements on the host: a view that keeps a large array alive, or a copy of a small one.

        Raises:
            ShapeError: the array has more axes than NumPy's arrays can have.
        """
        if len(array.shape) > MAX_AXES:
            raise ShapeError(
                f"wasm: a tensor with {len(array.shape)} axes cannot be copied to the host, where "
                f"arrays have at most {MAX_AXES}; reshape it first"
            )
        if array.capacity < HOST_VIEW_MIN_BYTES:
            return self.numpy_view(array.shape, np.dtype(array.dtype), array.address).copy()
        buffer = view_host_memory(self.store.host_address() + array.address, array)
        return np.ndarray(array.shape, np.dtype(array.dtype), buffer)

    # ---- accounting ----

    def set_limit(self, limit: int | None) -> None:
        """Limit the memory of arrays to `limit` bytes."""
        # The next array may not take a block that is beyond the limit without being asked.
        self.reclaim_returned_blocks()
        self.limit = limit
        self.threshold = self._needed if limit is None else min(self._needed, limit)

    def check_and_record_usage(self, used: int, capacity: int) -> None:
        """Raise if `used` bytes exceed the limit; else record them, among which are `capacity` new bytes.

        Raises:
            OutOfMemory: `used` exceeds the limit.
        """
        if self.limit is not None and used > self.limit:
            raise OutOfMemory(
                f"wasm: {capacity} more bytes than the {self.used} in use would exceed the limit of "
                f"{self.limit}; use smaller batches, release tensors, or raise the limit with "
                "plugrad.set_memory_limit"
            )
        self.peak = max(self.peak, used)
        self._needed = max(self._needed, used)
        self.set_limit(self.limit)

    def memory_usage(self) -> Memory:
        """Return the number and the bytes of arrays, and the size of linear memory in bytes."""
        self.reclaim_returned_blocks()
        details = {"pooled": self._free_bytes(), "linear_memory": self.store.memory_size()}
        return Memory(self.buffers, self.used, self.peak, self.limit, details)

    # ---- blocks ----

    def reclaim_returned_blocks(self) -> None:
        """Move returned blocks to the free lists."""
        returned = self.returned
        while True:
            if not returned:  # as a condition of the loop, it would be tested before others may run
                break
            block = returned[-1]
            free = block.free
            del returned[-1]
            free += (block,)
            self.used -= block.capacity
            self.buffers -= 1

    def make_free_block(self, capacity: int) -> None:
        """Add a block of `capacity` bytes to the free list of its size, growing or trimming memory if necessary.

        Raises:
            OutOfMemory: the limit or the address space is exhausted.
        """
        self.reclaim_returned_blocks()
        self._preparations += 1
        if self._preparations > TRIM_AFTER_ALLOCATIONS:
            self._trim()
        used = self.used + capacity
        if used > self.threshold:
            self.check_and_record_usage(used, capacity)
        free = self.free[capacity]
        while not free:
            self.carve_free_block(capacity)

    def _trim(self) -> None:
        """Return free memory to the system if much of it has not been needed for a while."""
        resident = self.used + self._free_bytes() - self._discarded
        if resident > self._needed + max(MAX_UNTRIMMED_FREE_BYTES, self._needed // 2):
            with self.store.lock:
                self._merge()
                above = self._top, self.store.memory_size() - self._top
                for address, size in (*self._spans, above):
                    self.store.release_pages(address, size)
                self._discarded = sum(size for _, size in self._spans)
        self._preparations = self._needed = 0
        self.set_limit(self.limit)

    def carve_free_block(self, capacity: int) -> None:
        """Cut a new block of `capacity` bytes from unused memory, and add it to the free list of its size.

        Raises:
            OutOfMemory: the address space is exhausted.
        """
        if capacity > MAX_BLOCK_BYTES:
            raise OutOfMemory(
                f"wasm: one array cannot have {capacity} bytes; the largest has {MAX_BLOCK_BYTES}. "
                "Split it, or use the cpu backend"
            )
        with self.store.lock:
            if self._carve_from_spans(capacity):
                return
            if self._is_worth_merging(capacity):
                self._merge()
                if self._carve_from_spans(capacity):
                    return
            if self._carve_at_end(capacity):
                return
            self._merge()
            if self._carve_from_spans(capacity) or self._carve_at_end(capacity):
                return
        raise OutOfMemory(
            f"wasm: there is no room for {capacity} bytes besides the {self.used} in use; the "
            "address space of 32-bit WebAssembly is 4 GiB. Use smaller batches, release tensors, "
            "or use the cpu backend"
        )

    def _free_bytes(self) -> int:
        """Return the bytes of all free blocks."""
        blocks = sum(size * len(free) for size, free in list(self.free.items()))
        return blocks + sum(size for _, size in self._spans)

    def _is_worth_merging(self, capacity: int) -> bool:
        """Return whether to merge free blocks: memory would grow although more than half of recent use is free."""
        extent = self.store.memory_size()
        return self._top + capacity > extent and self._free_bytes() > max(
            capacity, self._needed // 2, MERGE_MIN_FREE_BYTES
        )

    def _carve_at_end(self, capacity: int) -> bool:
        """Cut a block of `capacity` bytes from memory above all blocks; return whether there was room."""
        address, extent = self._top, self.store.memory_size()
        missing = address + capacity - extent
        if missing > 0:
            room = (
                ADDRESS_SPACE_BYTES - PAGE_BYTES - extent
            )  # a block must not end at 2^32, which is 0
            generous = min(max(missing, extent // 8), room)
            if missing > room or not (
                self.store.grow_memory(generous) or self.store.grow_memory(missing)
            ):
                return False
            self.host = self.store.host_view()
        block = Block(self, address, capacity)
        free = block.free
        self._top = address + capacity
        free += (block,)
        return True

    def _carve_from_spans(self, capacity: int) -> bool:
        """Cut a block of `capacity` bytes from a span of merged free memory; return whether one was large enough."""
        spans = self._spans
        for i, (address, size) in enumerate(spans):
            if size >= capacity:
                block = Block(self, address, capacity)
                free = block.free
                spans[i : i + 1] = (
                    [(address + capacity, size - capacity)] if size > capacity else []
                )
                self._discarded = max(0, self._discarded - capacity)
                free += (block,)
                return True
        return False

    def _merge(self) -> None:
        """Merge all free blocks into spans, from which blocks of any size can be made."""
        spans = self._spans
        for size, free in list(self.free.items()):
            while True:
                if not free:
                    break
                block = free[-1]
                del free[-1]
                spans += ((block.address, size),)
        joined: list[tuple[int, int]] = []
        for address, size in sorted(spans):
            if joined and sum(joined[-1]) == address:
                joined[-1] = joined[-1][0], joined[-1][1] + size
            else:
                joined.append((address, size))
        top = self._top
        if joined and sum(joined[-1]) == top:
            top = joined.pop()[0]
        self._spans = joined
        self._top = top
        self._discarded = min(self._discarded, sum(size for _, size in joined))


def view_host_memory(address: int, owner: object) -> memoryview:
    """Return the memory of the host from an address on as a buffer that keeps `owner` alive."""
    buffer = _AddressSpace.from_address(address)
    buffer.owner = owner
    return np.frombuffer(memoryview(buffer), np.uint8).data  # to whose parts bytes can be assigned


class _AddressSpace(ctypes.c_char * ADDRESS_SPACE_BYTES):
    """The address range reserved for linear memory, of which only the first `memory_size` bytes may be accessed."""

    owner: object
    """An object that must live as long as the memory."""
