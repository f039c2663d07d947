"""Device memory: a pool of buffers in size classes, and the array that owns one of them.

A new buffer is filled with zeros by the driver on its first use, which takes a hundred times as
long as reusing one. So nothing is destroyed: a buffer goes back to the pool when its last owner
dies and may be used again at once, because the queue runs everything in the order in which it was
recorded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from plugrad.extend import Memory, OutOfMemory

if TYPE_CHECKING:
    from collections.abc import Callable
    from threading import RLock

    from plugrad.extend import DType
    from plugrad_webgpu.device import Device
    from plugrad_webgpu.native import Handle

Shape = tuple[int, ...]

SMALLEST = 256
STEP = 1 << 20


def size_class(nbytes: int) -> int:
    """Return the size of the buffer that holds so many bytes: powers of two, then whole MiB.

    >>> size_class(0), size_class(1000), size_class(3_000_000)
    (256, 1024, 3145728)
    """
    if nbytes <= SMALLEST:
        return SMALLEST
    if nbytes <= STEP:
        return 1 << (nbytes - 1).bit_length()
    return -(-nbytes // STEP) * STEP


class Storage:
    """One buffer of the device, which outlives the arrays that take turns to use it."""

    __slots__ = ("freed_in", "handle", "serial", "size")

    def __init__(self, handle: Handle, serial: int, size: int) -> None:
        self.handle = handle
        self.serial = serial
        self.size = size
        self.freed_in = 0
        """The batch being recorded when the last owner died: it may still use the buffer."""


class Buffer:
    """The right to use a storage, which returns to the pool when the last sharer dies."""

    __slots__ = ("device", "serial", "storage")

    def __init__(self, device: Device, storage: Storage) -> None:
        self.device = device
        self.storage = storage
        self.serial = storage.serial

    def __del__(self) -> None:
        self.device.pool.give_back(self.storage, self.device.batch)


class GpuArray:
    """A dense row-major array on the device; arrays of other shapes may share its buffer."""

    __slots__ = ("buffer", "dtype", "shape")

    def __init__(self, shape: Shape, dtype: DType, buffer: Buffer) -> None:
        self.shape = shape
        self.dtype = dtype
        self.buffer = buffer

    def __repr__(self) -> str:
        return f"<webgpu array {self.shape} {self.dtype}>"


class Allocator(Protocol):
    """Where the pool's buffers come from."""

    def create_buffer(self, size: int) -> Handle | None:
        """Return a new buffer, or None when there is no memory."""
        ...

    def release_buffer(self, handle: Handle) -> None:
        """Give a buffer back to the device."""
        ...


@dataclass
class Usage:
    """What the pool counts, in bytes of whole buffers."""

    buffers: int = 0
    in_use: int = 0
    pooled: int = 0
    peak: int = 0
    created: int = 0


class Pool:
    """Free buffers by size class, and the accounts."""

    def __init__(
        self, allocator: Allocator, largest: int, before_trim: Callable[[], None], lock: RLock
    ) -> None:
        """Take buffers from `allocator`; call `before_trim` before giving any back to it.

        The lock is the device's. It is reentrant because the garbage collector may call give_back
        in the middle of take.
        """
        self.limit: int | None = None
        self.usage = Usage()
        self._allocator = allocator
        self._largest = largest
        self._before_trim = before_trim
        self._free: dict[int, list[Storage]] = {}
        self._lock = lock

    def take(self, size: int, *, oldest: bool = False) -> Storage:
        """Return a free storage of one size class; the oldest free one is likely to be idle.

        Raises:
            OutOfMemory: the limit or the device does not allow it.
        """
        with self._lock:
            usage = self.usage
            if self.limit is not None and usage.in_use + size > self.limit:
                raise OutOfMemory(
                    f"webgpu: {size} bytes more than the {usage.in_use} in use exceed the memory "
                    f"limit of {self.limit} bytes; release arrays or raise the limit with "
                    "set_memory_limit"
                )
            free = self._free.get(size)
            if free:
                storage = free.pop(0) if oldest else free.pop()
                usage.pooled -= size
            else:
                storage = self._create(size)
            usage.buffers += 1
            usage.in_use += size
            usage.peak = max(usage.peak, usage.in_use)
            return storage

    def give_back(self, storage: Storage, batch: int) -> None:
        """Make a storage free; `batch` is the number of the batch that may still use it."""
        with self._lock:
            storage.freed_in = batch
            size = storage.size
            usage = self.usage
            usage.buffers -= 1
            usage.in_use -= size
            usage.pooled += size
            free = self._free.get(size)
            if free is None:
                free = self._free[size] = []
            free.append(storage)

    def trim(self) -> None:
        """Give all free buffers back to the device."""
        with self._lock:
            self._before_trim()
            for free in self._free.values():
                for storage in free:
                    self._allocator.release_buffer(storage.handle)
            self._free.clear()
            self.usage.pooled = 0

    def memory(self) -> Memory:
        """Return the accounts as plugrad's report."""
        usage = self.usage
        details = {"pooled_bytes": usage.pooled, "created_buffers": usage.created}
        return Memory(usage.buffers, usage.in_use, usage.peak, self.limit, details)

    def _create(self, size: int) -> Storage:
        if size > self._largest:
            raise OutOfMemory(
                f"webgpu: an array of {size} bytes exceeds the {self._largest} bytes that this "
                "device can bind at once; split it into smaller arrays or use the cpu backend"
            )
        usage = self.usage
        if self.limit is not None and usage.in_use + usage.pooled + size > self.limit:
            self.trim()
        handle = self._allocator.create_buffer(size)
        if handle is None:
            self.trim()
            handle = self._allocator.create_buffer(size)
        if handle is None:
            raise OutOfMemory(
                f"webgpu: the device has no memory for {size} bytes besides the {usage.in_use} in "
                "use; release arrays or use smaller batches"
            )
        usage.created += 1
        return Storage(handle, usage.created, size)


def shared(array: GpuArray, shape: Shape) -> GpuArray:
    """Return the same values under another shape; nothing is copied."""
    return GpuArray(shape, array.dtype, array.buffer)


def nbytes_of(shape: Shape) -> int:
    """Return the bytes of an array: every element, a bool too, takes four."""
    count = 4
    for size in shape:
        count *= size
    return count
