"""Linear memory: blocks of the one large array that all kernels see, and the arrays that own them.

A block has a size class. When its array is freed, the block goes to the free list of its class,
where the next array of that class finds it. The counters are exact: they count the bytes of the
classes.

Threads: taking and returning a block is atomic under the interpreter's lock. Whatever finds no block
on its free list takes the lock of the store.
"""

from __future__ import annotations

import ctypes
from collections import defaultdict
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from plugrad.extend import DType, Memory, OutOfMemory, ShapeError, size_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from plugrad_wasm.runtime import Runtime

ADDRESS_SPACE: Final = 1 << 32  # of 32-bit WebAssembly
LARGEST_BLOCK: Final = (1 << 31) - 1  # beyond it, C's pointer differences overflow
PAGE: Final = 1 << 16
ALIGNMENT: Final = 64
MOST_AXES: Final = 64  # of an array of NumPy


def size_class(size: int) -> int:
    """Return the size of the block for `size` bytes: a multiple of 64, at most an eighth larger.

    >>> size_class(0), size_class(1000), size_class(1025)
    (64, 1024, 1152)
    """
    if size <= 1024:
        return (size + 63) & -64 or 64
    step = 1 << (size.bit_length() - 4)
    return (size + step - 1) & -step


class WasmArray:
    """A dense array in linear memory that owns its block.

    `capacity` is the size class of the block, so that a result like it needs no arithmetic.
    """

    __slots__ = ("address", "capacity", "dtype", "memory", "shape", "size")

    address: int
    capacity: int
    dtype: DType
    memory: LinearMemory
    shape: tuple[int, ...]
    size: int

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
        self.capacity = 0  # while there is no block, `__del__` returns none
        used = memory.used + capacity
        if used > memory.threshold:
            memory.admit(used, capacity)
        try:
            self.address = memory.free[capacity].pop()
        except IndexError:
            self.address = memory.carve(capacity)
        self.capacity = capacity
        memory.used += capacity  # not `used`: the garbage collector may have run meanwhile
        memory.buffers += 1

    def __del__(self) -> None:
        capacity = self.capacity
        if capacity:
            memory = self.memory
            memory.free[capacity].append(self.address)
            memory.used -= capacity
            memory.buffers -= 1

    def __repr__(self) -> str:
        return f"WasmArray(shape={self.shape}, dtype={self.dtype}, address={self.address:#x})"


class WasmView(WasmArray):
    """Another shape for the block of an array, which it keeps alive."""

    __slots__ = ("owner",)

    owner: WasmArray

    def __init__(self, owner: WasmArray, shape: tuple[int, ...]) -> None:
        """Share the block of `owner`; `shape` has as many elements."""
        self.shape = shape
        self.dtype = owner.dtype
        self.size = owner.size
        self.memory = owner.memory
        self.capacity = owner.capacity
        self.address = owner.address
        self.owner = owner

    def __del__(self) -> None:
        """Leave the block to its owner."""


class Descriptor:
    """A few 32-bit integers in linear memory that describe shapes and strides to a kernel.

    The store caches descriptors. They belong to no tensor and are not counted as used.
    """

    __slots__ = ("address", "capacity", "memory")

    def __init__(self, memory: LinearMemory, values: tuple[int, ...]) -> None:
        """Write `values` to a new block."""
        self.memory = memory
        self.capacity = size_class(4 * len(values))
        try:
            self.address = memory.free[self.capacity].pop()
        except IndexError:
            self.address = memory.carve(self.capacity)
        memory.window((len(values),), np.dtype(np.int32), self.address)[...] = values

    def __del__(self) -> None:
        self.memory.free[self.capacity].append(self.address)


class LinearMemory:
    """The pool of blocks in the linear memory of one store."""

    def __init__(self, store: Runtime, base: int) -> None:
        """Manage the addresses from `base` upwards."""
        self.store = store
        self.limit: int | None = None
        self.used = 0
        self.peak = 0
        self.buffers = 0
        self.threshold = 0  # up to here, neither the limit nor the peak needs attention
        self.free: defaultdict[int, list[int]] = defaultdict(list)
        self._spans: list[tuple[int, int]] = []  # (address, size) of merged free blocks
        self._top = -(-base // ALIGNMENT) * ALIGNMENT
        self._host = store.host_view()

    # ---- arrays ----

    def empty(self, shape: tuple[int, ...], dtype: DType) -> WasmArray:
        """Return an array whose elements are not set."""
        size = size_of(shape)
        return WasmArray(self, shape, dtype, size, size_class(size * dtype.itemsize))

    def like(self, x: WasmArray) -> WasmArray:
        """Return an array of the shape and dtype of `x` whose elements are not set."""
        return WasmArray(self, x.shape, x.dtype, x.size, x.capacity)

    def window(self, shape: tuple[int, ...], dtype: np.dtype[Any], address: int) -> NDArray[Any]:
        """Return a NumPy view of linear memory. It keeps the store alive, but not the block."""
        return np.ndarray(shape, dtype, self._host, address)

    def from_numpy(self, values: NDArray[Any], dtype: DType) -> WasmArray:
        """Return a copy of a host array."""
        array = self.empty(values.shape, dtype)
        self.window(values.shape, values.dtype, array.address)[...] = values
        return array

    def to_numpy(self, array: WasmArray) -> NDArray[Any]:
        """Return a copy on the host.

        Raises:
            ShapeError: the array has more axes than NumPy's arrays can have.
        """
        if len(array.shape) > MOST_AXES:
            raise ShapeError(
                f"wasm: a tensor with {len(array.shape)} axes cannot be copied to the host, where "
                f"arrays have at most {MOST_AXES}; reshape it first"
            )
        return self.window(array.shape, np.dtype(array.dtype), array.address).copy()

    # ---- accounting ----

    def set_limit(self, limit: int | None) -> None:
        """Refuse to use more than `limit` bytes from now on."""
        self.limit = limit
        self.threshold = self.peak if limit is None else min(self.peak, limit)

    def admit(self, used: int, capacity: int) -> None:
        """Raise the peak to `used`.

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
        self.set_limit(self.limit)

    def report(self) -> Memory:
        """Return the blocks and bytes that arrays hold, and the extent of linear memory."""
        details = {"pooled": self._pooled(), "linear_memory": self.store.memory_size()}
        return Memory(self.buffers, self.used, self.peak, self.limit, details)

    # ---- blocks ----

    def carve(self, capacity: int) -> int:
        """Return the address of a block of a class whose free list is empty.

        Raises:
            OutOfMemory: the address space is exhausted.
        """
        if capacity > LARGEST_BLOCK:
            raise OutOfMemory(
                f"wasm: one array cannot have {capacity} bytes; the largest has {LARGEST_BLOCK}. "
                "Split it, or use the cpu backend"
            )
        with self.store.lock:
            address = self._from_spans(capacity)
            if address is None and self._is_worth_merging(capacity):
                self._merge()
                address = self._from_spans(capacity)
            if address is None:
                address = self._from_top(capacity)
            if address is None:
                self._merge()
                address = self._from_spans(capacity) or self._from_top(capacity)
        if address is None:
            raise OutOfMemory(
                f"wasm: there is no room for {capacity} bytes besides the {self.used} in use; the "
                "address space of 32-bit WebAssembly is 4 GiB. Use smaller batches, release tensors, "
                "or use the cpu backend"
            )
        return address

    def _pooled(self) -> int:
        """Return the bytes of all free blocks."""
        blocks = sum(size * len(addresses) for size, addresses in list(self.free.items()))
        return blocks + sum(size for _, size in self._spans)

    def _is_worth_merging(self, capacity: int) -> bool:
        """Return whether memory would grow although more than a quarter of it is free."""
        extent = self.store.memory_size()
        return self._top + capacity > extent and self._pooled() > max(capacity, extent // 4)

    def _from_top(self, capacity: int) -> int | None:
        """Take a block above all others; grow linear memory if it ends below."""
        address, extent = self._top, self.store.memory_size()
        missing = address + capacity - extent
        if missing > 0:
            room = ADDRESS_SPACE - PAGE - extent  # a block must not end at 2^32, which is 0
            generous = min(max(missing, extent // 8), room)
            if missing > room or not (self.store.grow(generous) or self.store.grow(missing)):
                return None
            self._host = self.store.host_view()
        self._top += capacity
        return address

    def _from_spans(self, capacity: int) -> int | None:
        """Take a block from the first merged span that is large enough."""
        for i, (address, size) in enumerate(self._spans):
            if size >= capacity:
                self._spans[i : i + 1] = (
                    [(address + capacity, size - capacity)] if size > capacity else []
                )
                return address
        return None

    def _merge(self) -> None:
        """Join all free blocks into spans as long as possible, from which blocks of any size are taken."""
        blocks = list(self._spans)
        for size, addresses in list(self.free.items()):
            # Other threads may take and return blocks meanwhile; each pop yields a block only once.
            with suppress(IndexError):
                while True:
                    blocks.append((addresses.pop(), size))
        spans: list[tuple[int, int]] = []
        for address, size in sorted(blocks):
            if spans and sum(spans[-1]) == address:
                spans[-1] = spans[-1][0], spans[-1][1] + size
            else:
                spans.append((address, size))
        if spans and sum(spans[-1]) == self._top:
            self._top = spans.pop()[0]
        self._spans = spans


def host_buffer(address: int, owner: object) -> memoryview:
    """Return the address space from a host address on as a buffer that keeps `owner` alive."""
    buffer = _AddressSpace.from_address(address)
    buffer.owner = owner
    return memoryview(buffer)


class _AddressSpace(ctypes.c_char * ADDRESS_SPACE):
    """The reservation of linear memory. Only the part up to its present extent may be accessed."""

    owner: object
