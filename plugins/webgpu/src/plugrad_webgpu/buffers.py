"""Device memory: a pool of buffers in size classes, and the array that owns one of them.

The driver fills a new buffer with zeros on its first use, which takes a hundred times as long as
reusing a buffer. So nothing is destroyed. A buffer goes back to the pool when its last owner dies,
and it may be used again at once, because the queue runs everything in the order of recording.
"""

from __future__ import annotations

from collections import defaultdict, deque
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol
from weakref import ref

from plugrad.extend import Memory, OutOfMemory, complex64, float32
from plugrad_webgpu.forks import Refusal
from plugrad_webgpu.interrupts import whole
from plugrad_webgpu.limits import REMEDY

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    from plugrad.extend import DType
    from plugrad_webgpu.layout import Shape
    from plugrad_webgpu.native import Handle
    from plugrad_webgpu.program import Plan


class Storage:
    """One buffer of the device, which outlives the arrays that take turns to use it."""

    __slots__ = ("freed_in", "handle", "is_kept", "serial", "size")

    def __init__(self, handle: Handle, serial: int, size: int) -> None:
        self.handle = handle
        self.serial = serial
        self.size = size
        self.is_kept = False
        """Whether the device keeps a table here, which is not counted as memory in use."""
        self.freed_in = 0
        """The batch that was being recorded when it became free: it may still use the buffer."""


class Recorder(Protocol):
    """What arrays and kernels use of a device: its pool, the recording of calls, and transfers."""

    is_software: bool
    """Whether the device computes on the CPU."""
    batch: int
    """The number of the batch that is being recorded."""
    pool: Pool

    def empty(self, shape: Shape, dtype: DType) -> GpuArray:
        """Return an array of undefined values."""
        ...

    def constant(self, make: Callable[..., NDArray[Any]], *sizes: int) -> GpuArray:
        """Return an array of what a function makes of some sizes, kept for the next time."""
        ...

    def launch(self, plan: Plan, *inputs: GpuArray) -> GpuArray:
        """Record one call and return its output."""
        ...

    def launch_into(self, plan: Plan, output: GpuArray, *inputs: GpuArray) -> None:
        """Record a call that writes some elements of an array."""
        ...

    def upload(self, data: object, nbytes: int, shape: Shape, dtype: DType) -> GpuArray:
        """Return a new array with a copy of host memory."""
        ...

    def download(self, array: GpuArray, out: object, nbytes: int) -> None:
        """Copy an array to host memory, waiting for its values."""
        ...


class Buffer:
    """The right to use a storage, which returns to the pool when the last array that shares it dies."""

    __slots__ = ("__weakref__", "device", "lease", "storage")

    device: Recorder
    lease: Lease
    storage: Storage


class Lease(ref[Buffer]):
    """What is left of a buffer when it has died: the storage that is to be taken back, if it had one."""

    __slots__ = ("storage",)

    storage: Storage | None


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
    """Where the buffers of a pool come from."""

    batch: int
    """The number of the batch that is being recorded."""

    def create_buffer(self, size: int) -> Handle | None:
        """Return a new buffer, or None if there is no memory."""
        ...

    def release_buffer(self, handle: Handle) -> None:
        """Give a buffer back to the driver."""
        ...


@dataclass
class Usage:
    """What a pool counts, in bytes of whole buffers."""

    buffers: int = 0
    in_use: int = 0
    pooled: int = 0
    peak: int = 0
    created: int = 0


class Pool:
    """The free buffers by size class, and a count of the memory in use."""

    def __init__(
        self,
        allocator: Allocator,
        largest: int,
        before_trim: Callable[[], None],
        lock: AbstractContextManager[object],
    ) -> None:
        """Create an empty pool.

        Args:
            allocator: Where new buffers come from.
            largest: The size in bytes of the largest buffer that the device can bind.
            before_trim: A function to call before buffers are given back to the allocator.
            lock: The lock of the device.
        """
        self.limit: int | None = None
        self.largest = largest
        self.usage = Usage()
        self._allocator = allocator
        self._before_trim = before_trim
        self._free: defaultdict[int, list[Storage]] = defaultdict(list)
        self._dead: deque[Lease] = deque()
        self._lock = lock

    def take(self, device: Recorder, size: int, *, oldest: bool = False) -> Buffer:
        """Return a buffer of a size class: the newest free one, or the oldest, which is likely to be idle.

        Raises:
            OutOfMemory: the limit or the device does not allow it.
        """
        with self._lock:
            self._settle()
            usage = self.usage
            if self.limit is not None and usage.in_use + size > self.limit:
                raise OutOfMemory(
                    f"webgpu: {size} bytes in addition to the {usage.in_use} bytes in use exceed the memory limit of "
                    f"{self.limit} bytes; release arrays, or raise the limit with set_memory_limit"
                )
            # The callback is C code, in which no signal arrives: an interrupt there would be lost. Nor is
            # the hand-over below interrupted, which calls no function.
            buffer = Buffer()
            lease = Lease(buffer, self._dead.append)
            lease.storage = None
            buffer.lease = lease
            buffer.device = device
            if not self._free[size]:
                with whole:
                    self._free[size] += [self._create(size)]
                    usage.pooled += size
            free, place = self._free[size], 0 if oldest else -1
            storage = free[place]
            del free[place]
            lease.storage = buffer.storage = storage
            usage.pooled -= size
            usage.buffers += 1
            usage.in_use += size
            if usage.in_use > usage.peak:
                usage.peak = usage.in_use
            return buffer

    def keep(self, buffer: Buffer) -> None:
        """Stop counting a buffer as memory in use, until it dies: it holds a table of the device."""
        with self._lock, whole:
            buffer.storage.is_kept = True
            self.usage.buffers -= 1
            self.usage.in_use -= buffer.storage.size

    def _settle(self) -> None:
        """Take back the storages of the buffers that have died.

        No statement of the loop calls a function. So threads and signals come between two rounds and
        never within one, and each storage is taken back once.
        """
        dead, usage = self._dead, self.usage
        with suppress(IndexError):
            while True:
                storage = dead[0].storage
                del dead[0]
                if storage is not None:
                    size = storage.size
                    storage.freed_in = self._allocator.batch
                    if not storage.is_kept:
                        usage.buffers -= 1
                        usage.in_use -= size
                    storage.is_kept = False
                    usage.pooled += size
                    self._free[size] += [storage]

    def trim(self) -> None:
        """Give all free buffers back to the driver."""
        with self._lock, whole:
            self._before_trim()
            self._settle()
            unused = [storage for free in self._free.values() for storage in free]
            self._free.clear()
            self.usage.pooled = 0
            for storage in unused:
                self._allocator.release_buffer(storage.handle)

    def abandon(self) -> None:
        """Refuse all further work: this process is a forked child."""
        self._lock = Refusal()

    def memory(self) -> Memory:
        """Return the memory in use as plugrad reports it."""
        self._settle()
        usage = self.usage
        details = {"pooled_bytes": usage.pooled, "created_buffers": usage.created}
        return Memory(usage.buffers, usage.in_use, usage.peak, self.limit, details)

    def _create(self, size: int) -> Storage:
        if size > self.largest:
            raise OutOfMemory(
                f"webgpu: an array of {size} bytes exceeds the {self.largest} bytes that this device can bind at once; "
                f"split it into smaller arrays, or {REMEDY}"
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
                f"webgpu: the device has no memory for {size} bytes in addition to the {usage.in_use} bytes in use; "
                "release arrays, or use smaller batches"
            )
        usage.created += 1
        return Storage(handle, usage.created, size)


def shared(array: GpuArray, shape: Shape, dtype: DType | None = None) -> GpuArray:
    """Return the same buffer under another shape, and under another dtype if one is given."""
    return GpuArray(shape, dtype or array.dtype, array.buffer)


def in_parts(array: GpuArray) -> GpuArray:
    """Return complex numbers as floats: an axis of real and imaginary parts is added at the end."""
    return shared(array, (*array.shape, 2), float32)


def of_parts(array: GpuArray) -> GpuArray:
    """Return floats as complex numbers, the parts of which are on the last axis."""
    return shared(array, array.shape[:-1], complex64)
