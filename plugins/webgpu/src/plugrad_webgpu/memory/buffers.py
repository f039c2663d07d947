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
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar
from weakref import ref

from plugrad.extend import Memory, OutOfMemory, complex64, float32
from plugrad_webgpu.driver.forks import Refusal
from plugrad_webgpu.driver.interrupts import whole
from plugrad_webgpu.driver.limits import REMEDY
from plugrad_webgpu.shaders.elements import WIDE

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

    import numpy as np
    from numpy.typing import NDArray

    from plugrad.extend import DType
    from plugrad_webgpu.driver.interface import Handle
    from plugrad_webgpu.shaders.chains import Step
    from plugrad_webgpu.shaders.layout import Shape
    from plugrad_webgpu.shaders.program import Plan, Program


POOLED_BYTES: Final = 1 << 28
"""What free buffers may take in any case; beyond, they take at most as much as those in use."""


_serials = count()


class Storage:
    """One buffer of the device, which outlives the arrays that take turns to use it."""

    __slots__ = ("freed_in", "handle", "owner", "serial", "size")

    def __init__(self, owner: Allocator, handle: Handle, size: int) -> None:
        self.owner: Allocator = owner
        self.handle: Handle = handle
        self.serial: int = next(_serials)
        """Its number among the buffers of all devices."""
        self.size: int = size
        self.freed_in: int = 0
        """The batch that was being recorded when it became free: it may still use the buffer."""


class Guest(Storage):
    """A buffer that belongs to somebody else, and is kept as long as an array uses it."""

    __slots__ = ("buffer",)

    def __init__(self, owner: Allocator, buffer: Any, handle: Handle) -> None:
        """Note a `wgpu.GPUBuffer` of a device, and its handle."""
        super().__init__(owner, handle, buffer.size)
        self.buffer: Any = buffer


class Holder(Protocol):
    """What arrays and kernels use of the small arrays that a device has on the host."""

    def has_room(self, shape: Shape) -> bool:
        """Return whether an array of a shape stays on the host."""
        ...

    def hold(self, values: NDArray[Any], shape: Shape, dtype: DType) -> GpuArray:
        """Return an array of values in one row, which nobody else writes to."""
        ...

    def full(self, shape: Shape, value: complex, dtype: DType) -> GpuArray:
        """Return an array in which every element is `value`, as in a cast."""
        ...

    def computed(self, step: Step, inputs: Sequence[GpuArray]) -> GpuArray | None:
        """Return the result of an elementwise call, or None if the device has to compute it."""
        ...

    def shown(self, values: NDArray[Any], shape: Shape) -> NDArray[Any]:
        """Return a copy of the values of a hosted array."""
        ...

    def deliver(self, buffer: Hosted) -> None:
        """Give a buffer a storage with its values."""
        ...


class Recorder(Protocol):
    """What arrays and kernels use of a device: its pool, the recording of calls, and transfers."""

    is_software: bool
    """Whether the device computes on the CPU."""
    has_long_words: bool
    """Whether shaders load vectors as words of 64 bits."""
    shared_bytes: int
    """The memory of a workgroup."""
    batch: int
    """The number of the batch that is being recorded."""
    pool: Pool

    tiles: Mapping[str, str]
    """The measured tiles of products, by the kind of problem."""

    @property
    def subgroup(self) -> int:
        """The invocations of a subgroup, or 0."""
        ...

    @property
    def hosting(self) -> Holder:
        """The small arrays that are on the host."""
        ...

    def empty(self, shape: Shape, dtype: DType) -> GpuArray:
        """Return an array of undefined values."""
        ...

    def constant(self, make: Callable[..., NDArray[Any]], *sizes: int) -> GpuArray:
        """Return an array of what a function makes of some sizes, kept for the next time."""
        ...

    def prepare(self, program: Program, operands: int) -> None:
        """Compile a program unless that has been done."""
        ...

    def call(self, step: Step, *inputs: GpuArray) -> GpuArray:
        """Return the result of an elementwise call, which may be recorded later."""
        ...

    def launch(self, plan: Plan, *inputs: GpuArray) -> GpuArray:
        """Record one call and return its output."""
        ...

    def launch_into(self, plan: Plan, output: GpuArray, *inputs: GpuArray) -> None:
        """Record a call that writes some elements of an array."""
        ...

    def copy(self, source: GpuArray, start: int, target: GpuArray, place: int, size: int) -> None:
        """Copy bytes of an array to another one that is still being made."""
        ...

    def upload(self, data: object, nbytes: int, shape: Shape, dtype: DType) -> GpuArray:
        """Return a new array with a copy of host memory."""
        ...

    def download(self, array: GpuArray, out: NDArray[Any], stored: np.dtype[Any]) -> None:
        """Copy an array, whose elements are stored as `stored`, to the host, waiting for its values."""
        ...

    def read(self, arrays: Iterable[GpuArray]) -> Generator[Any]:
        """Yield the bytes of arrays, one after the other, in parts: each is memory that is valid until the next."""
        ...


class Buffer:
    """The right to use a storage, which returns to the pool when the last array that shares it dies."""

    __slots__ = ("__weakref__", "chain", "device", "dtype", "lease", "place", "storage")

    device: Recorder
    lease: Lease
    storage: Storage
    # Only buffers whose values wait to be computed, or are on the host, have it:
    dtype: DType | None
    # Only the former have these:
    chain: Any  # a `plugrad_webgpu.device.pending.Chain`, which is made of buffers
    place: int

    def written(self) -> Storage:
        """Return the storage for someone who writes to it."""
        return self.storage


class Hosted(Buffer):
    """A buffer whose values are on the host; to ask for its storage puts them on the device as well."""

    __slots__ = ("values",)

    dtype: DType | None
    values: NDArray[Any]
    """The elements in one row, of the dtype of the buffer, which is None when they are those of the storage no more."""

    def __getattr__(self, name: str) -> Any:
        """Return the storage, which is absent at first.

        Raises:
            AttributeError: anything else is absent.
        """
        if name == "storage":
            self.device.hosting.deliver(self)
        return object.__getattribute__(self, name)

    def written(self) -> Storage:
        """Return the storage for someone who writes to it, and use the values on the host no more."""
        storage = self.storage
        self.dtype = None
        return storage


AnyBuffer = TypeVar("AnyBuffer", bound=Buffer)


class Lease(ref[Buffer]):
    """What is left of a buffer when it has died: the storage that is to be taken back, if it had one."""

    __slots__ = ("counted", "storage")

    storage: Storage | None
    counted: int
    """The bytes that are counted as memory in use: 0 for a table of the device."""


class GpuArray:
    """A dense row-major array on the device; arrays of other shapes may share its buffer."""

    __slots__ = ("buffer", "dtype", "shape")

    def __init__(self, shape: Shape, dtype: DType, buffer: Buffer) -> None:
        self.shape: Shape = shape
        self.dtype: DType = dtype
        self.buffer: Buffer = buffer

    def __repr__(self) -> str:
        return f"<webgpu array {self.shape} {self.dtype}>"


class Allocator(Protocol):
    """Where the buffers of a pool come from."""

    batch: int
    """The number of the batch that is being recorded."""

    def create_buffer(self, size: int) -> Handle | None:
        """Return a new buffer, or None if there is no memory."""
        ...

    def release_buffers(self, storages: Sequence[Storage]) -> None:
        """Give buffers back to the driver, also if the batch that is being recorded uses them."""
        ...

    def finish_calls(self) -> None:
        """Record the calls that wait, so that they do not keep buffers."""
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
            largest: The size in bytes of the largest buffer of the device.
            before_trim: A function to call before buffers are given back to the allocator.
            lock: The lock of the device.
        """
        self.limit: int | None = None
        self.largest = largest
        self.usage: Usage = Usage()
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
            buffer = self.reserve(device, size)
            buffer.storage = self.provide(buffer.lease, size, oldest=oldest)
            return buffer

    def reserve(
        self,
        device: Recorder,
        size: int,
        kind: type[AnyBuffer] = Buffer,
        *,
        is_counted: bool = True,
    ) -> AnyBuffer:
        """Return a buffer that has no storage yet, counted as memory in use; the caller holds the lock.

        Raises:
            OutOfMemory: the limit does not allow it, or the device has no buffers of this size.
        """
        usage = self.usage
        if self._dead:
            self._settle()
            if usage.pooled > POOLED_BYTES:
                self._keep_to_budget()
        if size > self.largest:
            raise OutOfMemory(
                f"webgpu: an array of {size} bytes exceeds the {self.largest} bytes of the largest buffer of this "
                f"device; split it into smaller arrays, or {REMEDY}"
            )
        if is_counted and self.limit is not None and usage.in_use + size > self.limit:
            self._allocator.finish_calls()
            self._settle()
            if usage.in_use + size > self.limit:
                raise OutOfMemory(
                    f"webgpu: {size} bytes in addition to the {usage.in_use} bytes in use exceed the memory limit "
                    f"of {self.limit} bytes; release arrays, or raise the limit with set_memory_limit"
                )
        # The callback is C code, in which no signal arrives: an interrupt there would be lost. Nor is
        # the counting below interrupted, which calls no function.
        buffer = kind()
        lease = Lease(buffer, self._dead.append)
        lease.storage = None
        lease.counted = 0
        buffer.lease = lease
        buffer.device = device
        if is_counted:
            lease.counted = size
            usage.buffers += 1
            usage.in_use += size
            if usage.in_use > usage.peak:
                usage.peak = usage.in_use
        return buffer

    def provide(self, lease: Lease, size: int, *, oldest: bool = False) -> Storage:
        """Return the storage of a buffer that was reserved; the caller holds the lock.

        Raises:
            OutOfMemory: the device does not allow it.
        """
        if lease.storage is not None:
            return lease.storage
        if self._dead:
            self._settle()
        usage = self.usage
        if not self._free[size]:
            with whole:
                self._free[size] += [self._create(size)]
                usage.pooled += size
            if lease.storage is not None:  # the calls that wait were recorded to make room
                return lease.storage
        # No statement from here on calls a function, so no interrupt comes between them.
        free, place = self._free[size], 0 if oldest else -1
        storage = free[place]
        del free[place]
        lease.storage = storage
        usage.pooled -= size
        return storage

    def keep(self, buffer: Buffer) -> None:
        """Stop counting a buffer as memory in use, until it dies: it holds a table of the device."""
        with self._lock, whole:
            self.usage.buffers -= 1
            self.usage.in_use -= buffer.lease.counted
            buffer.lease.counted = 0

    def _settle(self) -> None:
        """Take back the storages of the buffers that have died.

        No statement of the loop calls a function. So threads and signals come between two rounds and
        never within one, and each storage is taken back once.
        """
        dead, usage = self._dead, self.usage
        try:
            while dead:
                lease = dead[0]
                del dead[0]
                if lease.counted:
                    usage.buffers -= 1
                    usage.in_use -= lease.counted
                storage = lease.storage
                if storage is not None:
                    storage.freed_in = self._allocator.batch
                    usage.pooled += storage.size
                    self._free[storage.size] += [storage]
        except IndexError:  # `suppress` would take as long as the rest
            pass  # another thread was faster

    def trim(self) -> None:
        """Give all free buffers back to the driver."""
        with self._lock, whole:
            self._before_trim()
            self._settle()
            self._release(self._unused())

    def _keep_to_budget(self) -> None:
        """Give buffers back that have been free for the longest if free ones take more than they may."""
        usage = self.usage
        most = max(POOLED_BYTES, usage.in_use)
        if usage.pooled <= most:
            return
        with self._lock, whole:
            # More than necessary, so that this does not happen with each of the next calls.
            excess = usage.pooled - most * 3 // 4
            unused = sorted(self._unused(), key=lambda storage: storage.freed_in)
            sums = accumulate(storage.size for storage in unused)
            self._release(unused[: 1 + sum(total < excess for total in sums)])

    def _unused(self) -> list[Storage]:
        return [storage for free in self._free.values() for storage in free]

    def _release(self, unused: list[Storage]) -> None:
        for storage in unused:
            self._free[storage.size].remove(storage)
            self.usage.pooled -= storage.size
        self._allocator.release_buffers(unused)

    def abandon(self) -> None:
        """Refuse all further work: this process is a forked child."""
        self._lock = Refusal()

    def memory(self) -> Memory:
        """Return the memory in use as plugrad reports it."""
        self._settle()
        if not isinstance(self._lock, Refusal):
            self._keep_to_budget()
        usage = self.usage
        details = {"pooled_bytes": usage.pooled, "created_buffers": usage.created}
        return Memory(usage.buffers, usage.in_use, usage.peak, self.limit, details)

    def _create(self, size: int) -> Storage:
        """Return a new storage for a buffer that is counted already."""
        usage = self.usage
        if self.limit is not None and usage.in_use + usage.pooled > self.limit:
            self.trim()
        handle = self._allocator.create_buffer(size)
        if handle is None:
            self.trim()
            handle = self._allocator.create_buffer(size)
        if handle is None:
            raise OutOfMemory(
                f"webgpu: the device has no memory for {size} bytes of the {usage.in_use} bytes that arrays use; "
                "release arrays, or use smaller batches"
            )
        usage.created += 1
        return Storage(self._allocator, handle, size)


def shared(array: GpuArray, shape: Shape, dtype: DType | None = None) -> GpuArray:
    """Return the same buffer under another shape, and under another dtype if one is given."""
    return GpuArray(shape, dtype or array.dtype, array.buffer)


def values_on_host(array: GpuArray) -> NDArray[Any] | None:
    """Return the values of an array in one row if they are on the host, where nobody may write to them."""
    buffer = array.buffer
    return buffer.values if type(buffer) is Hosted and buffer.dtype is array.dtype else None


def in_words(array: GpuArray) -> GpuArray:
    """Return an array of a narrow dtype as one of the dtype of its words; any other array as it is."""
    return shared(array, array.shape, WIDE.get(array.dtype))


def in_parts(array: GpuArray) -> GpuArray:
    """Return complex numbers as floats: an axis of real and imaginary parts is added at the end."""
    return shared(array, (*array.shape, 2), float32)


def of_parts(array: GpuArray) -> GpuArray:
    """Return floats as complex numbers, the parts of which are on the last axis."""
    return shared(array, array.shape[:-1], complex64)
