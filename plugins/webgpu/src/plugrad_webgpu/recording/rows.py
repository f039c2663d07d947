"""Row kernels, such as softmax, that compute the elementwise calls on their result before they store it.

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
"""The largest product of the compile weight of the calls and the number of places where the kernel stores.

Two light calls, such as a step of gradient descent, follow the largest tile of a product, which stores in 64 places.
"""


def attach_calls_to_rows(
    recorded_work: Sequence[RecordedDispatch | RecordedCopy],
    kept_results: Collection[PlaceholderBuffer],
    max_buffers: int,
) -> list[RecordedDispatch | RecordedCopy]:
    """Return recorded work with elementwise calls on results of row kernels (such as softmax) merged into these.

    Args:
        recorded_work: the dispatches and copies, with elementwise dispatches fused.
        kept_results: the buffers that are read later.
        max_buffers: the number of buffers that a dispatch can bind.
    """
    readers: dict[Buffer, list[int]] = {}
    writers: dict[Buffer, list[int]] = {}
    for index, each in enumerate(recorded_work):
        for buffer in each.reads:
            readers.setdefault(buffer, []).append(index)
        for buffer in each.writes:
            writers.setdefault(buffer, []).append(index)
    done: list[RecordedDispatch | RecordedCopy | None] = [*recorded_work]
    for index, each in enumerate(recorded_work):
        if not isinstance(each, RecordedDispatch) or not _is_row_kernel(each):
            continue
        (result,) = each.writes
        reading = readers.get(result, [])
        target = recorded_work[reading[0]] if reading else None
        if not isinstance(target, RecordedDispatch) or done[reading[0]] is not target:
            continue
        members = target.fused_dispatches or (
            (target,) if target.elementwise_call is not None else ()
        )
        place = _find_run_position(index, reading[0], recorded_work, readers, writers)
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


def _is_row_kernel(dispatch: RecordedDispatch) -> bool:
    """Return whether a dispatch runs a kernel whose results elementwise calls can replace before they are stored."""
    program = dispatch.plan.program
    return (
        bool(program.stored_elements)
        and dispatch.plan.grid is not None
        and len(dispatch.writes) == 1
    )


def _can_merge_calls(
    row_dispatch: RecordedDispatch, call_dispatches: Sequence[RecordedDispatch]
) -> bool:
    """Return whether the shader of a row kernel can compute later calls, too: of its results in one size and dtype."""
    (result,) = row_dispatch.writes
    limits = PACKED_HALVES_BIT if row_dispatch.plan.program.stored_elements > 1 else ODD_ROWS_BIT
    for member in call_dispatches:
        step = member.elementwise_call
        assert step is not None
        limits |= step.fusion_limits
        if step.element_count != prod(row_dispatch.plan.shape):
            return False
        for buffer, reading in zip(member.reads, step.input_accesses, strict=True):
            if buffer is result and (
                reading.strides is not None or reading.dtype is not row_dispatch.plan.dtype
            ):
                return False
    weight = sum(m.elementwise_call.compile_weight for m in call_dispatches if m.elementwise_call)
    return (
        bool(call_dispatches)
        and limits != CONFLICTING_FUSION_LIMITS
        and weight * row_dispatch.plan.program.store_calls <= MAX_STORED_WEIGHT
    )


def _find_run_position(
    row_index: int,
    calls_index: int,
    recorded_work: Sequence[RecordedDispatch | RecordedCopy],
    readers: dict[Buffer, list[int]],
    writers: dict[Buffer, list[int]],
) -> int | None:
    """Return the index at which a row kernel may run together with the calls at `calls_index`, or None.

    It runs early if what else the calls read is there; else it waits, if neither more memory is in use then, nor what
    it reads is changed before.
    """
    row, calls = recorded_work[row_index], recorded_work[calls_index]

    def are_written(buffers: Collection[Buffer]) -> bool:
        """Return whether the work in between writes one of the buffers."""
        between = range(row_index + 1, calls_index)
        return any(place in between for x in buffers for place in writers.get(x, ()))

    if not are_written({*calls.reads, *calls.writes} - {*row.writes}):
        return row_index
    if are_written((*row.reads, *row.writes)):
        return None
    if all(_is_elementwise(recorded_work[i]) for i in range(row_index + 1, calls_index)):
        return calls_index
    # What only the kernel reads would stay in memory, in place of its result.
    kept = {x for x in row.reads if type(x) is PlaceholderBuffer and readers[x][-1] == row_index}
    is_small = sum(x.size for x in kept) <= sum(x.size for x in row.writes)
    return calls_index if is_small else None


def _is_elementwise(dispatch_or_copy: RecordedDispatch | RecordedCopy) -> bool:
    """Return whether recorded work is an elementwise dispatch, or several fused ones."""
    return isinstance(dispatch_or_copy, RecordedDispatch) and (
        dispatch_or_copy.elementwise_call is not None or bool(dispatch_or_copy.fused_dispatches)
    )
