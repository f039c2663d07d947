"""Fusion of elementwise dispatches into one that writes only the results that other work reads.

They are grouped as the device groups calls that wait (`plugrad_webgpu.device.pending`), but with the knowledge of what
is read later. So the results are the same to the last bit.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from plugrad_webgpu.recording.recorder import RecordedCopy, RecordedDispatch
from plugrad_webgpu.shaders.chains import (
    CONFLICTING_FUSION_LIMITS,
    MAX_COMPILE_WEIGHT,
    Formula,
    cached_input_access,
    chain_program,
    lay_out_chain,
    program_with_epilogue,
)
from plugrad_webgpu.shaders.program import extend_plan, plan

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from plugrad_webgpu.memory.buffers import Buffer
    from plugrad_webgpu.recording.recorder import PlaceholderBuffer
    from plugrad_webgpu.shaders.chains import (
        ElementwiseCall,
        InputAccess,
        OperandReferences,
        ParameterNumber,
    )
    from plugrad_webgpu.shaders.layout import Shape

cached_chain_program = lru_cache(maxsize=1024)(chain_program)
"""The function `chain_program` with a cache of its programs."""
cached_program_with_epilogue = lru_cache(maxsize=1024)(program_with_epilogue)
"""The function `program_with_epilogue` with a cache of its programs."""


class FusionGroup:
    """Elementwise dispatches on arrays of one size that can run in any order relative to waiting ones."""

    __slots__ = ("compile_weight", "fusion_limits", "leaves", "loop", "made", "members")

    def __init__(self) -> None:
        """Begin without members."""
        self.members: list[RecordedDispatch] = []
        self.made: set[Buffer] = set()
        self.leaves: set[Buffer] = set()
        self.compile_weight: int = 0
        self.fusion_limits: int = 0
        self.loop: Shape | None = None
        """The shape along whose axes inputs are repeated, if any is."""

    def has_room(
        self, call: ElementwiseCall, read_buffers: Sequence[Buffer], max_buffers: int
    ) -> bool:
        """Return whether a call can join a group that may bind at most `max_buffers` buffers."""
        if self.compile_weight + call.compile_weight > MAX_COMPILE_WEIGHT:
            return False
        if call.broadcast_shape is not None and self.loop not in (None, call.broadcast_shape):
            return False
        if self.fusion_limits | call.fusion_limits == CONFLICTING_FUSION_LIMITS:
            return False
        return len(self.leaves.union(read_buffers) - self.made) < max_buffers

    def add(self, dispatch: RecordedDispatch, call: ElementwiseCall) -> None:
        """Add a call to the group."""
        self.members.append(dispatch)
        self.leaves.update([x for x in dispatch.reads if x not in self.made])
        self.made.update(dispatch.writes)
        self.compile_weight += call.compile_weight
        self.loop = self.loop or call.broadcast_shape
        self.fusion_limits |= call.fusion_limits


def remove_dead_work(
    recorded_work: Sequence[RecordedDispatch | RecordedCopy],
    kept_results: Collection[PlaceholderBuffer],
) -> list[RecordedDispatch | RecordedCopy]:
    """Return recorded work without dispatches and copies whose results nobody reads, such as gradients of constants."""
    needed: set[Buffer] = {*kept_results}
    found: list[RecordedDispatch | RecordedCopy] = []
    for each in reversed(recorded_work):
        if not needed.isdisjoint(each.writes):
            needed.update(each.reads)
            found.append(each)
    return found[::-1]


def fuse_elementwise(
    recorded_work: Sequence[RecordedDispatch | RecordedCopy],
    kept_results: Collection[PlaceholderBuffer],
    max_buffers: int,
) -> list[RecordedDispatch | RecordedCopy]:
    """Return recorded work with elementwise dispatches fused, in a valid order.

    Args:
        recorded_work: the dispatches and copies.
        kept_results: the buffers that are read later.
        max_buffers: the number of buffers that a dispatch can bind.
    """
    readers: dict[Buffer, list[RecordedDispatch | RecordedCopy]] = {}
    for each in recorded_work:
        for buffer in each.reads:
            readers.setdefault(buffer, []).append(each)
    done: list[RecordedDispatch | RecordedCopy] = []
    waiting: dict[int, FusionGroup] = {}
    group_of: dict[Buffer, FusionGroup] = {}

    def finish(group: FusionGroup) -> None:
        """Fuse the dispatches of a group, and add them to the work that is done."""
        for buffer in group.made:
            del group_of[buffer]
        for count, other in waiting.items():
            if other is group:
                del waiting[count]
                break
        outside = _find_external_results(group.members, readers, kept_results)
        done.extend(_merge_dispatches(group.members, outside, max_buffers))

    for each in recorded_work:
        step = each.elementwise_call if isinstance(each, RecordedDispatch) else None
        own = None if step is None else waiting.get(step.element_count)
        if own is not None and step is not None and not own.has_room(step, each.reads, max_buffers):
            finish(own)
            own = None
        for k, buffer in enumerate(each.reads):
            group = group_of.get(buffer)
            if group is None:
                continue
            if (
                group is not own
                or step is None
                or not _is_read_unchanged(step.input_accesses[k], buffer, group)
            ):
                finish(group)
                own = None if group is own else own
        if step is None:
            done.append(each)
            continue
        assert isinstance(each, RecordedDispatch)
        if own is None:
            own = waiting[step.element_count] = FusionGroup()
        own.add(each, step)
        group_of[each.writes[0]] = own
    for group in [*waiting.values()]:
        finish(group)
    return done


def _is_read_unchanged(input_access: InputAccess, buffer: Buffer, group: FusionGroup) -> bool:
    """Return whether a call reads a result of its group with the dtype and layout in which it was written."""
    made = next(m.elementwise_call for m in group.members if m.writes[0] is buffer)
    return made is not None and made.dtype is input_access.dtype and input_access.strides is None


def _find_external_results(
    members: Sequence[RecordedDispatch],
    readers: dict[Buffer, list[RecordedDispatch | RecordedCopy]],
    kept_results: Collection[PlaceholderBuffer],
) -> set[PlaceholderBuffer]:
    """Return the results of calls that other work reads, or that are kept."""
    inside = set(map(id, members))
    return {
        member.writes[0]
        for member in members
        if member.writes[0] in kept_results
        or any(id(each) not in inside for each in readers.get(member.writes[0], ()))
    }


def _merge_dispatches(
    members: Sequence[RecordedDispatch], external_results: set[PlaceholderBuffer], max_buffers: int
) -> list[RecordedDispatch]:
    """Return dispatches for elementwise calls: a single one if it can bind all buffers."""
    members = _find_needed_calls(members, external_results)
    if len(members) < 2:
        return [*members]
    made = fuse_dispatches(members, external_results, max_buffers)
    if made is not None:
        return [made]
    half = len(members) // 2
    first, second = members[:half], members[half:]
    read_later = {x for member in second for x in member.reads}
    between = {member.writes[0] for member in first if member.writes[0] in read_later}
    return [
        *_merge_dispatches(first, external_results | between, max_buffers),
        *_merge_dispatches(second, external_results, max_buffers),
    ]


def _find_needed_calls(
    members: Sequence[RecordedDispatch], external_results: set[PlaceholderBuffer]
) -> list[RecordedDispatch]:
    """Return the calls on which external results depend."""
    needed: set[Buffer] = {*external_results}
    found: list[RecordedDispatch] = []
    for member in reversed(members):
        if member.writes[0] in needed:
            needed.update(member.reads)
            found.append(member)
    return found[::-1]


def fuse_dispatches(
    members: Sequence[RecordedDispatch],
    external_results: Collection[Buffer],
    max_buffers: int,
    producer: RecordedDispatch | None = None,
) -> RecordedDispatch | None:
    """Return one dispatch for elementwise calls and, if given, their producer, or None if it cannot bind all buffers.

    Args:
        members: the calls.
        external_results: the buffers that other work reads.
        max_buffers: the number of buffers that a dispatch can bind.
        producer: a dispatch whose program passes its results to the calls instead of storing them.
    """
    places: dict[Buffer, int] = {}
    leaves: dict[tuple[Buffer, InputAccess], int] = {}
    calls: list[tuple[Formula, Sequence[ParameterNumber], OperandReferences]] = []
    before: tuple[Buffer, ...] = ()
    if producer is not None:
        before, (result,), dtype = producer.reads, producer.writes, producer.plan.dtype
        leaves[result, cached_input_access(dtype, None)] = 0
        calls.append((Formula("x", (("x", dtype),), dtype), (), (~0,)))
        places[result] = 0
    for place, member in enumerate(members, len(calls)):
        step = member.elementwise_call
        assert step is not None
        references: list[int] = []
        for buffer, reading in zip(member.reads, step.input_accesses, strict=True):
            found = places.get(buffer)
            if found is None:
                found = ~leaves.setdefault((buffer, reading), len(leaves))
            references.append(found)
        calls.append((step.formula, step.attribute_values, tuple(references)))
        places[member.writes[0]] = place
    made = [
        *(() if producer is None else producer.writes),
        *[member.writes[0] for member in members],
    ]
    written = [(place, x) for place, x in enumerate(made) if x in external_results]
    loaded = [buffer for buffer, _ in leaves][producer is not None :]
    if len(before) + len(loaded) + len(written) > max_buffers:
        return None
    steps = [member.elementwise_call for member in members if member.elementwise_call is not None]
    layout = lay_out_chain(
        next(
            (step.broadcast_shape for step in steps if step.broadcast_shape is not None),
            steps[0].shape,
        ),
        calls,
        [reading for _, reading in leaves],
        tuple([place for place, _ in written]),
        None if producer is None else producer.plan.program.stored_elements,
    )
    last = steps[-1].single_call_plan
    if producer is None:
        program = cached_chain_program(layout.shader_key)
        planned = plan(
            program, layout.parameter_values, layout.invocation_count, last.shape, last.dtype
        )
    else:
        program = cached_program_with_epilogue(
            producer.plan.program, len(before), layout.shader_key
        )
        planned = extend_plan(producer.plan, program, layout.parameter_values[1:], last)
    writes = tuple([x for _, x in written])
    return RecordedDispatch(
        replace(planned, size=sum(x.size for x in writes)),
        (*before, *loaded),
        writes,
        fused_dispatches=tuple(members),
    )
