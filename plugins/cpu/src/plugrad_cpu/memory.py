"""The memory of arrays: large buffers are used again, and the bytes of arrays are counted.

The operating system takes a large buffer back when it is freed. It fills each page of the next one with
zeros when the page is first touched; a training step spends a third of its time on that. So the buffer
of an array that has died waits in a pool for the next array of about its size.

Such a buffer is a `Block`, and one array is made upon it. Every view refers to that array and not to the
block, because NumPy does not look for the owner of memory beyond a base of another type. So when the array
dies, no view, exported buffer or tape can see the block any more. A program that asked the array for its
`base` may hold the block itself; a block to which more than the pool refers is not used again.

Threads and signals come between two calls of Python functions, or at the end of a loop's round. Where
statements must not be separated, they call no function, and test within the round. Where Python runs threads
at once, without a lock of its own, the pool has one.
"""

import os
import sys
from collections import deque
from math import prod
from threading import RLock
from typing import Any, Final
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from plugrad.extend import Memory, OutOfMemory, Shape, hold_safely

Array = NDArray[Any]
"""The type of arrays: NumPy arrays of any dtype."""
TRACKED_MIN_BYTES: Final = 1 << 17
"""The minimum bytes of an array that is counted, and whose memory is used again; for fewer, it takes too long.

From so many bytes on, the allocators of Linux return the memory of a freed array at once.
"""
POOL_MAX_BYTES: Final = 1 << 28
"""The maximum bytes of the pool's blocks, in use or free; beyond it, NumPy makes and frees arrays."""
ARRAYS_BETWEEN_TRIMS: Final = 1024
"""The number of allocations after which blocks are freed that no array has needed since the last time."""


class Block(np.ndarray[Any, Any]):
    """A buffer of bytes that is reused by one array after another."""

    __slots__ = ()


class BlockOwner(np.ndarray[Any, Any]):
    """The array that owns a block's memory; its own type lets views of the block refer to the block."""

    __slots__ = ()


CACHE_LINE_BYTES: Final = 64
"""The bytes of a cache line, and of the longest vectors."""


def allocate_aligned(nbytes: int) -> Block:
    """Allocate a block aligned to a cache line, because a vector across two lines takes twice as long."""
    room = BlockOwner(nbytes + CACHE_LINE_BYTES, np.uint8)
    start = -room.ctypes.data % CACHE_LINE_BYTES
    return room[start : start + nbytes].view(Block)


class TrackedArray(ref[Array]):
    """A weak reference to a tracked array, with the data needed when the array dies."""

    __slots__ = ("pool_entry",)
    pool_entry: tuple[dict[int, "TrackedArray"], int, int, Block | None, int]
    """A dict of tracked arrays, the array's key in it, bytes of the array, its block, and bytes that it asked for."""


class Pool:
    """Allocates arrays in reused memory, and counts the bytes of arrays that are alive."""

    def __init__(self) -> None:
        """Start with nothing allocated."""
        self.limit: int | None = None
        """The most bytes of arrays and of spare memory together."""
        self._owners: dict[int, TrackedArray] = {}  # arrays that own their memory, by identity
        self._leases: dict[int, TrackedArray] = {}  # arrays upon blocks, by the block's identity
        self._dead: deque[TrackedArray] = deque()
        self._bytes = self._peak = 0  # of arrays
        self._waiting: dict[int, list[Block]] = {}  # by size; the last has waited least
        self._fewest: dict[int, int] = {}  # of each size, how many have waited for the whole round
        self._blocks = 0  # bytes of all blocks
        self._needed = self._most_needed = 0  # bytes of blocks that would be enough
        self._turns = 0

    def empty(self, shape: Shape, dtype: np.dtype[Any]) -> Array:
        """Return an uninitialized C-contiguous array."""
        size = prod(shape) * dtype.itemsize
        if size < TRACKED_MIN_BYTES or dtype.hasobject:
            return np.empty(shape, dtype)
        if self._dead:
            self._collect_dead()
        step = 1 << size.bit_length() - 3  # four sizes of blocks between two powers of two
        need = -(-size // step) * step
        self._turns += 1
        if self._turns >= ARRAYS_BETWEEN_TRIMS:
            self._free_unused_blocks()
        block = self._take_waiting(need)
        if block is None:
            block = self._find_block(need)
        if block is None:
            array: Array = np.empty(shape, dtype)
            self.count(array)
        else:
            array = np.ndarray(shape, dtype, block)
            self._register(array, self._leases, id(block), size, block, need)
        return array

    def count(self, array: Array) -> None:
        """Count the memory behind an array until its last view is gone."""
        base: Any = array.base
        if type(base) is Block or (base is not None and type(base.base) is Block):
            return  # counted when it was made
        self._collect_dead()
        owner = array if base is None else base
        if type(owner) is np.ndarray and id(owner) not in self._owners:
            self._register(owner, self._owners, id(owner), owner.nbytes)

    def _register(
        self,
        array: Array,
        register: dict[int, TrackedArray],
        key: int,
        nbytes: int,
        block: Block | None = None,
        needed_bytes: int = 0,
    ) -> None:
        """Count an array, and store in `register` under `key` how to return its memory when it dies."""
        # The callback is C code, in which no signal arrives: an interrupt there would be lost.
        counted = TrackedArray(array, self._dead.append)
        counted.pool_entry = register, key, nbytes, block, needed_bytes
        register[key] = counted
        self._bytes += nbytes
        if self._bytes > self._peak:
            self._peak = self._bytes
        if block is not None:
            self._blocks += block.nbytes
            self._needed += needed_bytes
            if self._needed > self._most_needed:
                self._most_needed = self._needed

    def _collect_dead(self) -> None:
        """Subtract the arrays that have died, and put their blocks on the list of free blocks.

        No statement of the loop calls a function, so each array is taken off once.
        """
        dead, waiting = self._dead, self._waiting
        while True:
            if not dead:
                return
            register, key, size, block, need = dead[0].pool_entry
            del dead[0]
            del register[key]
            self._bytes -= size
            self._needed -= need
            if block is not None:
                waiting[block.nbytes] += [block]
                block = None

    # --- blocks ----------------------------------------------------------------------------------

    def _find_block(self, nbytes: int) -> Block | None:
        """Return a larger free block, or a new one of `nbytes` bytes; None if the pool would become too large.

        A new block is made only if no other of about the size waits, and if there are not as many bytes of
        blocks as were ever needed at once: then a larger block serves, or else smaller ones are freed. So
        the pool does not take more memory than the program would without it.
        """
        most = max(self._most_needed, self._needed + nbytes)
        largest = 2 * nbytes if self._blocks + nbytes <= most else POOL_MAX_BYTES
        for larger in sorted(self._waiting):
            if nbytes < larger <= largest and (block := self._take_waiting(larger)) is not None:
                return block
        for waiting in sorted(self._waiting):
            excess = self._blocks + nbytes - most
            self._free(waiting, -(-excess // waiting))
        if self._blocks + nbytes > POOL_MAX_BYTES:
            return None
        self._fewest.setdefault(nbytes, 0)
        self._waiting.setdefault(nbytes, [])
        try:
            return allocate_aligned(nbytes)
        except MemoryError:
            self.trim()
            return allocate_aligned(nbytes)

    def _take_waiting(self, block_bytes: int) -> Block | None:
        """Take the most recently released block of a size in bytes from the free blocks; None if there is none."""
        blocks = self._waiting.get(block_bytes)
        while True:
            # Up to the subtraction, no statement calls a function.
            if not blocks:
                return None
            block = blocks[-1]
            del blocks[-1]
            self._blocks -= block_bytes
            if len(blocks) < self._fewest[block_bytes]:
                self._fewest[block_bytes] = len(blocks)
            if sys.getrefcount(block) == SOLE_REFERENCE_COUNT:
                return block

    def trim(self) -> None:
        """Free all blocks that are not in use."""
        for size, blocks in list(self._waiting.items()):
            self._free(size, len(blocks))

    def _free_unused_blocks(self) -> None:
        """Free the blocks that no array has needed since the last call of this function."""
        self._turns = 0
        for size, blocks in list(self._waiting.items()):
            self._free(size, self._fewest[size])
            self._fewest[size] = len(blocks)

    def _free(self, block_bytes: int, max_count: int) -> None:
        """Free up to `max_count` free blocks of a size in bytes, those that have waited longest."""
        blocks = self._waiting[block_bytes]
        while max_count > 0:  # no statement of the loop calls a function
            if not blocks:
                break
            del blocks[0]
            self._blocks -= block_bytes
            max_count -= 1
        self._fewest[block_bytes] = min(self._fewest[block_bytes], len(blocks))

    # --- what is known ---------------------------------------------------------------------------

    def memory(self) -> Memory:
        """Return the number of arrays that are alive, and their bytes now and at the peak."""
        self._collect_dead()
        return Memory(
            len(self._owners) + len(self._leases),
            self._bytes,
            self._peak,
            self.limit,
            {"pooled_bytes": self._blocks - self._needed},
        )

    def make_room(self, size: int) -> None:
        """Raise if `size` more bytes would exceed the memory limit."""
        if self.limit is None:
            return
        self._collect_dead()
        if self._bytes + size > self.limit:
            raise OutOfMemory(
                f"the cpu backend uses {self._bytes:,} bytes and {size:,} more would exceed "
                f"its limit of {self.limit:,}; "
                "use smaller batches, release tensors, or raise the limit with plugrad.set_memory_limit"
            )
        if self._bytes + self._blocks - self._needed + size > self.limit:
            self.trim()


class SharedPool(Pool):
    """A pool for Python without the GIL: a lock lets one thread at a time find, count and free memory."""

    def __init__(self) -> None:
        super().__init__()
        self.renew_lock()

    def renew_lock(self) -> None:
        """Create a new lock in a forked child, because another thread of the parent may have held the old one."""
        self._held = hold_safely(RLock())

    def empty(self, shape: Shape, dtype: np.dtype[Any]) -> Array:
        """Return an uninitialized C-contiguous array."""
        if prod(shape) * dtype.itemsize < TRACKED_MIN_BYTES:
            return np.empty(shape, dtype)  # the most arrays, which nobody waits for
        with self._held:
            return super().empty(shape, dtype)

    def count(self, array: Array) -> None:
        """Count the memory behind an array until its last view is gone."""
        with self._held:
            super().count(array)

    def trim(self) -> None:
        """Free all blocks that are not in use."""
        with self._held:
            super().trim()

    def memory(self) -> Memory:
        """Return the number of arrays that are alive, and their bytes now and at the peak."""
        with self._held:
            return super().memory()

    def make_room(self, size: int) -> None:
        """Raise if `size` more bytes would exceed the memory limit."""
        if self.limit is not None:
            with self._held:
                super().make_room(size)


def _count_sole_references() -> int:
    """Return the result of `sys.getrefcount` for an object that only one variable refers to."""
    alone = object()
    return sys.getrefcount(alone)


SOLE_REFERENCE_COUNT: Final = _count_sole_references()
"""What `sys.getrefcount` returns for an object that only one variable refers to."""


RUNS_THREADS_AT_ONCE: Final = not getattr(sys, "_is_gil_enabled", lambda: True)()
"""Whether this interpreter has no lock that lets one thread at a time run Python code."""
pool: Final = SharedPool() if RUNS_THREADS_AT_ONCE else Pool()
"""The pool from which the arrays of this process take their memory."""
if isinstance(pool, SharedPool) and hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=pool.renew_lock)
empty: Final = pool.empty
"""Returns an uninitialized array whose memory comes from the pool, given a shape and a dtype."""
make_room: Final = pool.make_room
"""Raises if a number of further bytes would exceed the memory limit."""


def empty_like(x: Array, dtype: np.dtype[Any] | None = None) -> Array:
    """Return an uninitialized array with the shape, the memory layout and the dtype of x."""
    if x.flags.c_contiguous or 0 in x.strides:  # that of a repeated axis says nothing of an order
        return empty(x.shape, dtype or x.dtype)
    strides = [abs(stride) for stride in x.strides]
    if strides == sorted(strides, reverse=True):  # as in most views
        return empty(x.shape, dtype or x.dtype)
    order = sorted(range(x.ndim), key=lambda i: -strides[i])
    y = empty(tuple([x.shape[i] for i in order]), dtype or x.dtype)
    return y.transpose(sorted(range(x.ndim), key=order.__getitem__))


def owns_memory(array: Array) -> bool:
    """Return whether an array owns its memory, which no other array then uses without a reference to it."""
    base: Any = array.base
    return type(array) is np.ndarray and (base is None or type(base) is Block)


def track_allocation(array: Array) -> Array:
    """Return an array that NumPy has made, with its memory tracked if it is large."""
    if array.nbytes >= TRACKED_MIN_BYTES:
        pool.count(array)
    return array


def zeros(shape: Shape, dtype: np.dtype[Any]) -> Array:
    """Return zeros of a shape and a numeric dtype; written as bytes, they take two thirds of the time."""
    y = empty(shape, dtype)
    y.reshape(-1).view(np.uint8).fill(0)
    return y
