"""Device memory: a pool of buffers in size classes, and the array that owns one of them.

The driver fills a new buffer with zeros on its first use, which takes a hundred times as long as
reusing a buffer. So a buffer goes back to the pool when its last owner dies, and it may be used again
at once, because the queue runs everything in the order of recording. Free buffers beyond a budget go
back to the driver, those first that have been free for the longest.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass
from itertools import accumulate, count
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar
from weakref import ref

from plugrad.extend import Memory, OutOfMemory, complex64, float32
from plugrad_webgpu.driver.forks import RefusingLock
from plugrad_webgpu.driver.interrupts import uninterruptible
from plugrad_webgpu.driver.limits import CPU_REMEDY
from plugrad_webgpu.shaders.elements import WORD_DTYPES_BY_NARROW_DTYPE

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

    import numpy as np
    from numpy.typing import NDArray

    from plugrad.extend import DType, PlugradError
    from plugrad_webgpu.driver.interface import Handle
    from plugrad_webgpu.shaders.chains import ElementwiseCall
    from plugrad_webgpu.shaders.layout import Shape
    from plugrad_webgpu.shaders.program import Plan, Program


SOFTWARE_MAX_POOLED_BYTES: Final = 1 << 28
"""The size of free buffers that a software device may always keep."""


def max_pooled_bytes(max_buffer_bytes: int, *, is_software: bool) -> int:
    """Return how many bytes free buffers may always take; above that, at most as many as are in use.

    A step of a large network uses gigabytes for a moment, and new buffers are filled with zeros. How much memory a
    device has is unknown; a GPU has more than its largest buffer takes.
    """
    return (
        SOFTWARE_MAX_POOLED_BYTES
        if is_software
        else max(SOFTWARE_MAX_POOLED_BYTES, max_buffer_bytes // 4)
    )


_buffer_serial_numbers = count()
"""The numbers of storages that are made next."""
_serial_number = attrgetter("serial")
"""The function that returns the serial number of a storage."""


class Storage:
    """A buffer of the device, which the pool reuses."""

    __slots__ = ("freed_in", "handle", "owner", "parts", "serial", "size")

    offset: int = 0
    """The byte of the driver's buffer at which the storage begins."""

    def __init__(self, owner: Allocator, handle: Handle, size: int) -> None:
        self.owner: Allocator = owner
        self.handle: Handle = handle
        self.serial: int = next(_buffer_serial_numbers)
        """Its number among the buffers of all devices."""
        self.size: int = size
        self.freed_in: int = 0
        """The batch that was being recorded when it became free: it may still use the buffer."""
        self.parts: dict[tuple[int, int], StoragePart] = {}
        """The parts that have been bound by themselves, by their first byte and size."""

    def part(self, start_byte: int, nbytes: int) -> StoragePart:
        """Return a part that is bound by itself; it begins at a multiple of 256 bytes."""
        found = self.parts.get((start_byte, nbytes))
        if found is None:
            found = self.parts[start_byte, nbytes] = StoragePart(self, start_byte, nbytes)
        return found


class StoragePart(Storage):
    """A range of bytes of a storage, which is bound by itself."""

    __slots__ = ("offset",)

    def __init__(self, whole: Storage, offset: int, size: int) -> None:
        """Create a view of `size` bytes of a storage, in its buffer."""
        super().__init__(whole.owner, whole.handle, size)
        self.offset: int = offset


class ExternalBuffer(Storage):
    """A buffer owned by another user of the device, kept alive while an array uses it."""

    __slots__ = ("buffer",)

    def __init__(self, owner: Allocator, buffer: Any, handle: Handle) -> None:
        """Wrap a `wgpu.GPUBuffer` of a device, and the handle by which native code knows it."""
        super().__init__(owner, handle, buffer.size)
        self.buffer: Any = buffer


class HostStore(Protocol):
    """The interface of the store of small arrays that are kept on the host."""

    def has_room(self, shape: Shape) -> bool:
        """Return whether an array of a shape is kept on the host."""
        ...

    def wrap_values(self, values: NDArray[Any], shape: Shape, dtype: DType) -> GpuArray:
        """Return an array that owns the given flat values."""
        ...

    def full(self, shape: Shape, value: complex, dtype: DType) -> GpuArray:
        """Return an array filled with `value`, cast to a dtype."""
        ...

    def try_compute(
        self, prepared_call: ElementwiseCall, inputs: Sequence[GpuArray]
    ) -> GpuArray | None:
        """Return the result of an elementwise call, or None if the device must compute it."""
        ...

    def read_values(self, values: NDArray[Any], shape: Shape) -> NDArray[Any]:
        """Return a copy of a host array's values."""
        ...

    def move_to_device(self, buffer: HostBuffer) -> None:
        """Copy a host buffer's values to a new storage on the device."""
        ...


class CommandRecorder(Protocol):
    """The device interface for arrays and kernels: the pool, the recording of calls, and transfers."""

    is_software: bool
    """Whether the device computes on the CPU."""
    loads_64_bit_words: bool
    """Whether shaders load vectors as words of 64 bits."""
    shared_bytes: int
    """The largest number of bytes that the invocations of a workgroup can share."""
    batch: int
    """The serial number of the batch that is being recorded."""
    pool: Pool

    tiles: Mapping[str, str]
    """The names of the fastest measured tiles, by kind of product."""

    @property
    def subgroup_size(self) -> int:
        """The number of invocations in a subgroup, or 0."""
        ...

    @property
    def hosting(self) -> HostStore:
        """The store of small arrays on the host."""
        ...

    def empty(self, shape: Shape, dtype: DType) -> GpuArray:
        """Return an uninitialized array."""
        ...

    def constant(self, make: Callable[..., NDArray[Any]], *sizes: int) -> GpuArray:
        """Return the cached array of the values that `make` computes from sizes."""
        ...

    def prepare(self, program: Program, operand_count: int) -> None:
        """Compile a program unless it is compiled."""
        ...

    def call(self, prepared_call: ElementwiseCall, *inputs: GpuArray) -> GpuArray:
        """Return the result of an elementwise call, which may be recorded later."""
        ...

    def launch(self, plan: Plan, *inputs: GpuArray) -> GpuArray:
        """Record the dispatch of a plan and return its output."""
        ...

    def launch_into(self, plan: Plan, output: GpuArray, *inputs: GpuArray) -> None:
        """Record the dispatch of a plan that writes a part of an array."""
        ...

    def copy(
        self, source: GpuArray, source_byte: int, target: GpuArray, target_byte: int, nbytes: int
    ) -> None:
        """Copy bytes of an array to another one under construction."""
        ...

    def upload(self, data: object, nbytes: int, shape: Shape, dtype: DType) -> GpuArray:
        """Return a new array with a copy of host memory."""
        ...

    def download(self, array: GpuArray, out: NDArray[Any], stored_dtype: np.dtype[Any]) -> None:
        """Copy an array, whose elements are stored as `stored_dtype`, to the host, waiting for its values."""
        ...

    def read(self, arrays: Iterable[GpuArray]) -> Generator[Any]:
        """Yield the bytes of arrays in parts; each part is valid until the next one."""
        ...


class Buffer:
    """A handle of a storage, which returns to the pool when the last array with the handle is deleted."""

    __slots__ = ("__weakref__", "chain", "device", "dtype", "place", "ref", "storage")

    device: CommandRecorder
    ref: BufferReference
    """The weak reference that gives the storage back to the pool."""
    storage: Storage
    # Only buffers whose values wait to be computed, or are on the host, have it:
    dtype: DType | None
    # Only the former have these:
    chain: Any  # a `plugrad_webgpu.device.pending.Chain`, which is made of buffers
    """The chain whose call computes the values."""
    place: int
    """The index of the call in the chain."""

    def writable_storage(self) -> Storage:
        """Return the storage for writing."""
        return self.storage


class HostBuffer(Buffer):
    """A buffer with its values on the host; accessing `storage` copies them to the device."""

    __slots__ = ("values",)

    dtype: DType | None
    """The dtype of the values, or None if they are not valid any more."""
    values: NDArray[Any]
    """The flat elements, of which the storage has newer ones when `dtype` is None."""

    def __getattr__(self, name: str) -> Any:
        """Return the storage, copying the values to it at its first use.

        Raises:
            AttributeError: anything else is absent.
        """
        if name == "storage":
            self.device.hosting.move_to_device(self)
        return object.__getattribute__(self, name)

    def writable_storage(self) -> Storage:
        """Return the storage for writing; the values on the host become invalid."""
        storage = self.storage
        self.dtype = None
        return storage


AnyBuffer = TypeVar("AnyBuffer", bound=Buffer)
"""A buffer, or one of its subclasses."""


class BufferReference(ref[Buffer]):
    """A weak reference to a buffer that keeps the storage, which returns to the pool after the buffer's deletion."""

    __slots__ = ("counted_bytes", "storage")

    storage: Storage | None
    counted_bytes: int
    """The bytes that count as memory in use: 0 for a cached constant of the device."""

    def __getattr__(self, name: str) -> int | None:
        """Return the default of an attribute that an interrupt has kept from being set."""
        if name == "storage":
            return None
        if name == "counted_bytes":
            return 0
        raise AttributeError(name)


class GpuArray:
    """A contiguous row-major array on the device; arrays of other shapes may share its buffer."""

    __slots__ = ("buffer", "dtype", "shape")

    def __init__(self, shape: Shape, dtype: DType, buffer: Buffer) -> None:
        self.shape: Shape = shape
        self.dtype: DType = dtype
        self.buffer: Buffer = buffer

    def __repr__(self) -> str:
        return f"<webgpu array {self.shape} {self.dtype}>"


class Allocator(Protocol):
    """The interface that creates and releases the buffers of a pool."""

    batch: int
    """The serial number of the batch that is being recorded."""

    def create_buffer(self, nbytes: int) -> Handle | None:
        """Return a new buffer, or None if memory is exhausted."""
        ...

    def release_buffers(self, storages: Sequence[Storage]) -> None:
        """Return buffers to the driver, even if the recorded batch uses them."""
        ...

    def record_pending_calls(self) -> None:
        """Record pending calls, so that they do not hold buffers."""
        ...


@dataclass
class MemoryUsage:
    """The memory counters of a pool, in bytes of whole buffers."""

    buffers: int = 0
    """The number of buffers in use."""
    in_use: int = 0
    """The bytes of the buffers in use."""
    pooled: int = 0
    """The bytes of the free buffers."""
    scratch: int = 0
    """The bytes of the scratch buffers that recordings share."""
    peak: int = 0
    """The largest number of bytes in use so far."""
    created_buffers: int = 0
    """The number of buffers created so far."""


class Pool:
    """The free buffers by size class, and a count of the memory in use."""

    def __init__(
        self,
        allocator: Allocator,
        largest: int,
        before_trim: Callable[[], None],
        lock: AbstractContextManager[object],
        budget: int,
    ) -> None:
        """Create an empty pool.

        Args:
            allocator: Where new buffers come from.
            largest: The size in bytes of the largest buffer of the device.
            before_trim: A function to call before buffers are given back to the allocator.
            lock: The lock of the device.
            budget: What free buffers may take in any case, in bytes.
        """
        self.limit: int | None = None
        self.budget = budget
        self.largest = largest
        self.usage: MemoryUsage = MemoryUsage()
        self._allocator = allocator
        self._release_scratch_before_trim = before_trim
        self._free: defaultdict[int, list[Storage]] = defaultdict(list)
        self._dead: deque[BufferReference] = deque()
        self._lock = lock

    def take(
        self, device: CommandRecorder, nbytes: int, *, oldest: bool = False, is_counted: bool = True
    ) -> Buffer:
        """Return a free buffer of a size class, or a new one: the newest, or if `oldest` the one likeliest to be idle.

        Raises:
            OutOfMemory: the limit or the device does not allow it.
        """
        with self._lock:
            buffer = self.reserve(device, nbytes, is_counted=is_counted)
            buffer.storage = self.attach_storage(buffer.ref, nbytes, oldest=oldest)
            return buffer

    def take_all(self, device: CommandRecorder, sizes: Sequence[int]) -> list[Buffer]:
        """Return a buffer for each size class; repeated calls with the same classes get the buffers in the same order.

        Raises:
            OutOfMemory: the limit or the device does not allow it.
        """
        with self._lock:
            if self._dead:
                self._collect_dead()
            for size in {*sizes}:
                self._free[size].sort(key=_serial_number)  # no code of Python runs meanwhile
            return [self.take(device, size) for size in sizes]

    def reserve(
        self,
        device: CommandRecorder,
        nbytes: int,
        buffer_type: type[AnyBuffer] = Buffer,
        *,
        is_counted: bool = True,
    ) -> AnyBuffer:
        """Return a buffer without storage, counted as memory in use; the caller holds the lock.

        Raises:
            OutOfMemory: the limit does not allow it, or the device has no buffers of this size.
        """
        usage = self.usage
        if self._dead:
            self._collect_dead()
            if usage.pooled > self.budget:
                self._trim_to_budget()
        if nbytes > self.largest:
            raise OutOfMemory(
                f"webgpu: an array of {nbytes} bytes exceeds the {self.largest} bytes of the largest buffer of this "
                f"device; split it into smaller arrays, or {CPU_REMEDY}"
            )
        if is_counted:
            self._check_limit(nbytes)
        # The callback is C code, in which no signal arrives: an interrupt there would be lost. Nor is
        # the counting below interrupted, which calls no function.
        buffer = buffer_type()
        reference = BufferReference(buffer, self._dead.append)
        reference.storage = None
        reference.counted_bytes = 0
        buffer.ref = reference
        buffer.device = device
        if is_counted:
            reference.counted_bytes = nbytes
            usage.buffers += 1
            usage.in_use += nbytes
            if usage.in_use > usage.peak:
                usage.peak = usage.in_use
        return buffer

    def count_temporary(self, nbytes: int) -> None:
        """Count memory that is in use only temporarily; the caller holds the lock.

        Raises:
            OutOfMemory: the limit does not allow it.
        """
        self._check_limit(nbytes)
        usage = self.usage
        usage.peak = max(usage.peak, usage.in_use + nbytes)

    def _check_limit(self, nbytes: int) -> None:
        """Raise if more bytes in use would exceed the memory limit."""
        usage = self.usage
        if self.limit is not None and usage.in_use + nbytes > self.limit:
            self._allocator.record_pending_calls()
            self._collect_dead()
            if usage.in_use + nbytes > self.limit:
                raise OutOfMemory(
                    f"webgpu: {nbytes} bytes in addition to the {usage.in_use} bytes in use exceed the memory limit "
                    f"of {self.limit} bytes; release arrays, or raise the limit with set_memory_limit"
                )

    def attach_storage(
        self, reference: BufferReference, nbytes: int, *, oldest: bool = False
    ) -> Storage:
        """Give a reserved buffer a storage, and return it; the caller holds the lock.

        Raises:
            OutOfMemory: the device does not allow it.
        """
        if reference.storage is not None:
            return reference.storage
        if self._dead:
            self._collect_dead()
        usage = self.usage
        if not self._free[nbytes]:
            with uninterruptible:
                self._free[nbytes] += [self._create(nbytes)]
                usage.pooled += nbytes
            if reference.storage is not None:  # the calls that wait were recorded to make room
                return reference.storage
        # No statement from here on calls a function, so no interrupt comes between them.
        free, place = self._free[nbytes], 0 if oldest else -1
        storage = free[place]
        del free[place]
        reference.storage = storage
        usage.pooled -= nbytes
        return storage

    def exclude_from_usage(self, buffer: Buffer) -> None:
        """Stop counting a buffer as memory in use, because it holds a cached constant of the device."""
        with self._lock, uninterruptible:
            self.usage.buffers -= 1
            self.usage.in_use -= buffer.ref.counted_bytes
            buffer.ref.counted_bytes = 0

    def _collect_dead(self) -> None:
        """Take back the storages of deleted buffers.

        No statement of the loop calls a function. So threads and signals come between two rounds and
        never within one, and each storage is taken back once.
        """
        dead, usage = self._dead, self.usage
        try:
            while dead:
                reference = dead[0]
                del dead[0]
                if reference.counted_bytes:
                    usage.buffers -= 1
                    usage.in_use -= reference.counted_bytes
                storage = reference.storage
                if storage is not None:
                    storage.freed_in = self._allocator.batch
                    usage.pooled += storage.size
                    self._free[storage.size] += [storage]
        except IndexError:  # `suppress` would take as long as the rest
            pass  # another thread was faster

    def trim(self) -> None:
        """Return all free buffers to the driver."""
        with self._lock, uninterruptible:
            self._release_scratch_before_trim()
            self.release_free()

    def release_free(self) -> None:
        """Return the currently free buffers to the driver; the caller holds the lock."""
        self._collect_dead()
        self._release(self._free_storages())

    def _trim_to_budget(self) -> None:
        """Return the buffers that have been free longest to the driver if free ones exceed the budget."""
        usage = self.usage
        most = max(self.budget, usage.in_use)
        if usage.pooled <= most:
            return
        with self._lock, uninterruptible:
            # More than necessary, so that this does not happen with each of the next calls.
            excess = usage.pooled - most * 3 // 4
            unused = sorted(self._free_storages(), key=lambda storage: storage.freed_in)
            sums = accumulate(storage.size for storage in unused)
            self._release(unused[: 1 + sum(total < excess for total in sums)])

    def _free_storages(self) -> list[Storage]:
        """Return the free storages of all size classes."""
        return [storage for free in self._free.values() for storage in free]

    def _release(self, free_storages: list[Storage]) -> None:
        """Return free storages to the driver."""
        for storage in free_storages:
            self._free[storage.size].remove(storage)
            self.usage.pooled -= storage.size
        self._allocator.release_buffers(free_storages)

    def abandon(self, make_error: Callable[[], PlugradError]) -> None:
        """Make all further work raise the error that `make_error` returns."""
        self._lock = RefusingLock(make_error)

    def memory(self) -> Memory:
        """Return the memory in use and the peak in bytes."""
        self._collect_dead()
        if not isinstance(self._lock, RefusingLock):
            self._trim_to_budget()
        usage = self.usage
        details = {
            "pooled_bytes": usage.pooled,
            "scratch_bytes": usage.scratch,
            "created_buffers": usage.created_buffers,
        }
        return Memory(usage.buffers, usage.in_use, usage.peak, self.limit, details)

    def _create(self, nbytes: int) -> Storage:
        """Return a new storage for a buffer that is counted already."""
        usage = self.usage
        all_bytes = usage.in_use + usage.pooled + usage.scratch
        if self.limit is not None and all_bytes > self.limit:
            self.trim()
        handle = self._allocator.create_buffer(nbytes)
        if handle is None:
            self.trim()
            handle = self._allocator.create_buffer(nbytes)
        if handle is None:
            raise OutOfMemory(
                f"webgpu: the device has no memory for {nbytes} bytes of the {usage.in_use} bytes that arrays use; "
                "release arrays, or use smaller batches"
            )
        usage.created_buffers += 1
        return Storage(self._allocator, handle, nbytes)


def reinterpret(array: GpuArray, shape: Shape, dtype: DType | None = None) -> GpuArray:
    """Return an array that shares the buffer, with another shape and, if given, another dtype."""
    return GpuArray(shape, dtype or array.dtype, array.buffer)


def host_values_or_none(array: GpuArray) -> NDArray[Any] | None:
    """Return the flat read-only values of an array if they are on the host, else None."""
    buffer = array.buffer
    return buffer.values if type(buffer) is HostBuffer and buffer.dtype is array.dtype else None


def as_words(array: GpuArray) -> GpuArray:
    """View an array of a narrow dtype as its words; return any other array unchanged."""
    return reinterpret(array, array.shape, WORD_DTYPES_BY_NARROW_DTYPE.get(array.dtype))


def as_float_pairs(array: GpuArray) -> GpuArray:
    """View complex numbers as floats with a last axis of real and imaginary parts."""
    return reinterpret(array, (*array.shape, 2), float32)


def as_complex(array: GpuArray) -> GpuArray:
    """View floats whose last axis holds real and imaginary parts as complex numbers."""
    return reinterpret(array, array.shape[:-1], complex64)
