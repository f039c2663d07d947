"""The arrays of this backend, and who counts them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from plugrad.extend import Memory, OutOfMemory, as_dtype

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Allocator:
    """Counts the bytes of all arrays, and refuses those beyond a limit."""

    def __init__(self) -> None:
        """Start with nothing."""
        self.buffers = 0
        self.bytes = 0
        self.peak = 0
        self.limit: int | None = None

    def make_room(self, size: int) -> None:
        """Raise if so many more bytes would exceed the limit."""
        if self.limit is not None and self.bytes + size > self.limit:
            raise OutOfMemory(
                f"the acme_float64 backend uses {self.bytes:,} bytes and {size:,} more would exceed "
                f"its limit of {self.limit:,}; release tensors, or raise the limit"
            )

    def array(self, values: NDArray[Any]) -> Array:
        """Return an array with a copy of some values, if there is room for it."""
        self.make_room(values.nbytes)
        return Array(np.array(values, order="C"), self)

    def memory(self) -> Memory:
        """Return what is in use."""
        return Memory(self.buffers, self.bytes, self.peak, self.limit)


class Array:
    """Values that nobody else holds; they count from here to the last reference."""

    __slots__ = ("allocator", "dtype", "shape", "values")

    def __init__(self, values: NDArray[Any], allocator: Allocator) -> None:
        """Take values over and count them."""
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
