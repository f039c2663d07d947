"""Memory slots for the intermediate values of a recording; values that are never alive together share one.

As in `plugrad.extend.plan_memory`, the largest values get their places first (Pisarchyk and Lee, 2020). Slots are whole
buffers, because a dispatch may not read one part of a buffer and write another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from plugrad_webgpu.recording.recorder import PlaceholderBuffer

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from plugrad_webgpu.memory.buffers import Buffer
    from plugrad_webgpu.recording.recorder import RecordedCopy, RecordedDispatch


class SlotAssignment(NamedTuple):
    """The memory slots of the buffers that recorded work creates and uses."""

    slot_by_buffer: dict[Buffer, int]
    """The number of the slot of each buffer."""
    sizes: tuple[int, ...]
    """The size class of each slot in bytes."""


def assign_slots(
    recorded_work: Sequence[RecordedDispatch | RecordedCopy], excluded_buffers: Collection[Buffer]
) -> SlotAssignment:
    """Return memory slots for the buffers of recorded work, except constant ones and `excluded_buffers`."""
    lives: dict[PlaceholderBuffer, list[int]] = {}
    for index, each in enumerate(recorded_work):
        for buffer in (*each.reads, *each.writes):
            if type(buffer) is PlaceholderBuffer and buffer not in excluded_buffers:
                lives.setdefault(buffer, [index, index])[1] = index
    places: dict[Buffer, int] = {}
    slots: list[tuple[int, list[list[int]]]] = []
    for buffer in sorted(lives, key=lambda x: (-x.size, lives[x][0])):
        birth, end = lives[buffer]
        free = (
            place
            for place, (_, taken) in enumerate(slots)
            if all(end < first or last < birth for first, last in taken)
        )
        place = next(free, len(slots))
        if place == len(slots):
            slots.append((buffer.size, []))
        slots[place][1].append([birth, end])
        places[buffer] = place
    return SlotAssignment(places, tuple([size for size, _ in slots]))
