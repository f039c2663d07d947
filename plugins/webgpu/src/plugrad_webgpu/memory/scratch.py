"""Buffers for values that live only while a recording runs.

The queue of a device runs one recording after the other, so all recordings share these buffers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plugrad_webgpu.memory.buffers import Buffer, CommandRecorder, Pool


class ScratchBuffers:
    """The shared scratch buffers of a device by size class; the caller holds the device's lock."""

    def __init__(self, device: CommandRecorder, pool: Pool) -> None:
        """Begin with no buffers."""
        self.generation: int = 0
        """How often the buffers have been given back: other ones have been taken since."""
        self._device = device
        self._pool = pool
        self._buffers: dict[int, list[Buffer]] = {}
        self._known: dict[tuple[int, ...], list[Buffer]] = {}
        """What was returned for lists of size classes."""

    def take(self, sizes: tuple[int, ...]) -> Sequence[Buffer]:
        """Return one scratch buffer for each size class in a list; they do not count as memory in use.

        The caller keeps them until it has encoded what uses them: to make room, the pool may have them given back.

        Raises:
            OutOfMemory: the device does not allow it.
        """
        known = self._known.get(sizes)
        if known is not None:
            return known
        while True:
            generation = self.generation
            places = dict.fromkeys(sizes, 0)
            found: list[Buffer] = []
            for size in sizes:
                buffers = self._buffers.setdefault(size, [])
                if places[size] == len(buffers):
                    buffers.append(self._pool.take(self._device, size, is_counted=False))
                    if generation == self.generation:
                        self._pool.usage.scratch += size
                found.append(buffers[places[size]])
                places[size] += 1
            if generation == self.generation:
                self._known[sizes] = found
                return found

    def release(self) -> None:
        """Give the buffers back to the pool."""
        if self._buffers:
            self.generation += 1
            self._pool.usage.scratch = 0
            self._buffers, self._known = {}, {}
