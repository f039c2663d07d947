"""The arrays of this backend, and the allocator that counts them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from plugrad.extend import Memory, OutOfMemory, as_dtype

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Allocator:
    """Counts the bytes of all arrays, and refuses arrays that would exceed a limit."""

    def __init__(self) -> None:
        """Create an allocator without arrays."""
        self.buffers = 0
        self.bytes = 0
        self.peak = 0
        self.limit: int | None = None

    def make_room(self, nbytes: int) -> None:
        """Raise `OutOfMemory` if `nbytes` more bytes would exceed the limit."""
        if self.limit is not None and self.bytes + nbytes > self.limit:
            raise OutOfMemory(
                f"the acme_float64 backend uses {self.bytes:,} bytes and {nbytes:,} more would exceed "
                f"its limit of {self.limit:,}; release tensors, or raise the limit"
            )

    def array(self, values: NDArray[Any]) -> Array:
        """Return an array with a copy of the values, if the limit allows it."""
        self.make_room(values.nbytes)
        return Array(np.array(values, order="C"), self)

    def memory(self) -> Memory:
        """Return the memory in use."""
        return Memory(self.buffers, self.bytes, self.peak, self.limit)


class Array:
    """Values that no other array shares; they are counted until the last reference is gone."""

    __slots__ = ("allocator", "dtype", "shape", "values")

    def __init__(self, values: NDArray[Any], allocator: Allocator) -> None:
        """Create an array that owns the values, and count it."""
        self.values = values
        self.shape = values.shape
        self.dtype = as_dtype(values.dtype)
        self.allocator = allocator
        allocator.buffers += 1
        allocator.bytes += values.nbytes
        allocator.peak = max(allocator.peak, allocator.bytes)

    def __del__(self) -> None:
        self.allocator.buffers -= 1
        self.allocator.bytes -= self.values.nbytes
