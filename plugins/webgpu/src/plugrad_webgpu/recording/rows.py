"""Row kernels that compute the elementwise calls of their result, so that it is not written and read in between.

Each of these kernels stores its results by a function of its shader, in place of which there may be a chain of
calls. The kernel then runs where the calls would have.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final

from plugrad_webgpu.recording.fusing import fuse_dispatches
from plugrad_webgpu.recording.recorder import PlaceholderBuffer, RecordedDispatch
from plugrad_webgpu.shaders.chains import (
    CONFLICTING_FUSION_LIMITS,
    ODD_ROWS_BIT,
    PACKED_HALVES_BIT,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from plugrad_webgpu.memory.buffers import Buffer
    from plugrad_webgpu.recording.recorder import RecordedCopy

MAX_STORED_WEIGHT: Final = 128
"""The weight of the calls times the places where the kernel stores: two light ones, such as a step of gradient
descent, follow the largest tile of a product, which stores in 64 places."""


def attach_calls_to_rows(
    work: Sequence[RecordedDispatch | RecordedCopy],
    kept_results: Collection[PlaceholderBuffer],
    max_buffers: int,
) -> list[RecordedDispatch | RecordedCopy]:
    """Return the recorded work, with elementwise calls on results of row kernels (such as softmax) merged into these.

    Args:
        work: what was recorded, with elementwise dispatches fused.
        kept_results: the buffers that are read later.
        max_buffers: the number of buffers that a dispatch can bind.
    """
    readers: dict[Buffer, list[int]] = {}
    writers: dict[Buffer, list[int]] = {}
    for index, each in enumerate(work):
        for buffer in each.reads:
            readers.setdefault(buffer, []).append(index)
        for buffer in each.writes:
            writers.setdefault(buffer, []).append(index)
    done: list[RecordedDispatch | RecordedCopy | None] = [*work]
    for index, each in enumerate(work):
        if not isinstance(each, RecordedDispatch) or not _is_row_kernel(each):
            continue
        (result,) = each.writes
        reading = readers.get(result, [])
        target = work[reading[0]] if reading else None
        if not isinstance(target, RecordedDispatch) or done[reading[0]] is not target:
            continue
        members = target.fused_dispatches or (
            (target,) if target.elementwise_call is not None else ()
        )
        place = _find_run_position(index, reading[0], work, readers, writers)
        if place is None or not _can_merge_calls(each, members):
            continue
        outside: set[Buffer] = {*target.writes}
        if result in kept_results or len(reading) > 1:
            outside.add(result)
        made = fuse_dispatches(members, outside, max_buffers, each)
        if made is not None:
            done[index] = done[reading[0]] = None
            done[place] = made
    return [each for each in done if each is not None]


def _is_row_kernel(recorded: RecordedDispatch) -> bool:
    program = recorded.plan.program
    return (
        bool(program.stored_elements)
        and recorded.plan.grid is not None
        and len(recorded.writes) == 1
    )


def _can_merge_calls(row: RecordedDispatch, members: Sequence[RecordedDispatch]) -> bool:
    """Return whether calls can be merged into a row kernel: they read its results unconverted, as many at a time."""
    (result,) = row.writes
    limits = PACKED_HALVES_BIT if row.plan.program.stored_elements > 1 else ODD_ROWS_BIT
    for member in members:
        step = member.elementwise_call
        assert step is not None
        limits |= step.fusion_limits
        if step.element_count != prod(row.plan.shape):
            return False
        for buffer, reading in zip(member.reads, step.input_accesses, strict=True):
            if buffer is result and (
                reading.strides is not None or reading.dtype is not row.plan.dtype
            ):
                return False
    weight = sum(m.elementwise_call.compile_weight for m in members if m.elementwise_call)
    return (
        bool(members)
        and limits != CONFLICTING_FUSION_LIMITS
        and weight * row.plan.program.store_calls <= MAX_STORED_WEIGHT
    )


def _find_run_position(
    index: int,
    target: int,
    work: Sequence[RecordedDispatch | RecordedCopy],
    readers: dict[Buffer, list[int]],
    writers: dict[Buffer, list[int]],
) -> int | None:
    """Return the position at which a row kernel may run with the calls at `target`: its own, theirs, or None.

    It runs early if what else the calls read is there; else it waits, if neither more memory is in use then, nor what
    it reads is changed before.
    """
    row, calls = work[index], work[target]

    def are_written(buffers: Collection[Buffer]) -> bool:
        between = range(index + 1, target)
        return any(place in between for x in buffers for place in writers.get(x, ()))

    if not are_written({*calls.reads, *calls.writes} - {*row.writes}):
        return index
    if are_written((*row.reads, *row.writes)):
        return None
    if all(_is_elementwise(work[i]) for i in range(index + 1, target)):
        return target
    # What only the kernel reads would stay in memory, in place of its result.
    kept = {x for x in row.reads if type(x) is PlaceholderBuffer and readers[x][-1] == index}
    is_small = sum(x.size for x in kept) <= sum(x.size for x in row.writes)
    return target if is_small else None


def _is_elementwise(recorded: RecordedDispatch | RecordedCopy) -> bool:
    return isinstance(recorded, RecordedDispatch) and (
        recorded.elementwise_call is not None or bool(recorded.fused_dispatches)
    )
