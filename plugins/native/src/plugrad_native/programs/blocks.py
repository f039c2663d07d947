"""Scratch memory for the blocks of loops."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from plugrad_native.declare import Array
    from plugrad_native.programs.table import Location
    from plugrad_native.programs.writer import ProgramWriter


class BlockAllocator:
    """Allocates scratch memory for the blocks of a loop, and reuses it after the last use."""

    def __init__(self, writer: ProgramWriter, nbytes: int) -> None:
        self.writer = writer
        self.nbytes = nbytes
        self.free_locations: list[Location] = []
        self.count = 0

    def allocate(self) -> Location:
        """Return the location of a free block, or of a new one."""
        if self.free_locations:
            return self.free_locations.pop()
        self.count += 1
        return self.writer.reserve((self.count - 1) * self.nbytes, self.nbytes)

    def release(self, location: Location) -> None:
        """Let other values have the block at a location."""
        self.free_locations.append(location)


_CACHED_STEP_ARRAYS: dict[tuple[int, ...], Array] = {}
"""By the steps of a NumPy loop, as a tuple: the same steps as an array."""


def get_step_array(steps: tuple[int, ...]) -> Array:
    """Return the strides of a NumPy loop's operands, in bytes, as an array, which is cached."""
    return _CACHED_STEP_ARRAYS.setdefault(steps, np.array(steps, np.int64))
