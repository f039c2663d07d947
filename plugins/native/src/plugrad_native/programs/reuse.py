"""Results that take the memory of an array that is no longer needed."""

from __future__ import annotations

from collections import Counter
from sys import getrefcount
from typing import TYPE_CHECKING, Any, Final

from plugrad.extend import Call, Fused, count_elements
from plugrad.kernels import movement
from plugrad_cpu.extend import owns_memory
from plugrad_native.programs.elementwise import lower_elementwise
from plugrad_native.programs.groups import can_join_loop, is_repeated_number
from plugrad_native.programs.images import is_image_group
from plugrad_native.programs.views import find_group_views

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence, Set

    from plugrad.extend import Graph, Shape, Shaped, Step, Value
    from plugrad_native.declare import Array

REUSED_MIN_BYTES: Final = 1 << 16
"""The minimum bytes of an array whose memory is reused; for fewer, the check does not pay."""


class MemoryUses:
    """The last step that reads each value of a graph, and the value in whose memory it lies."""

    def __init__(self, graph: Graph) -> None:
        """Find the last step that reads each value that a step has made."""
        made = {v for step in graph.steps for v in step.outputs}
        self._last_reads = dict.fromkeys(made, -1)
        self._places: dict[Graph, int] = {}
        for index, step in enumerate(graph.steps):
            self._last_reads.update((v, index) for v in step.inputs if v in made)
            if isinstance(step, Fused):
                self._places[step.body] = index
        kept = (*graph.results, *(v for _, v in graph.updates))
        self._last_reads.update((v, len(graph.steps)) for v in kept)
        self._owners: dict[Value, Value] = {}

    def add_owners(self, owners: Mapping[Value, Value]) -> None:
        """Record by value the other value in whose memory it lies."""
        self._owners |= {v: self._owners.get(x, x) for v, x in owners.items() if v != x}

    def find_dying_values(self, body: Graph) -> frozenset[Value]:
        """Return the values whose memory nothing reads after the fused step with a given body.

        Two inputs of the step that share memory do not die: whoever holds the one keeps the other from being
        overwritten.
        """
        index = self._places[body]
        alive = [
            v
            for v in {*self._owners, *self._owners.values()}
            if self._last_reads.get(v, index) >= index
        ]
        uses = Counter([self._owners.get(v, v) for v in alive])
        return frozenset(
            v
            for v in body.arguments
            if self._last_reads.get(v) == index and uses[self._owners.get(v, v)] <= 1
        )


def find_reusable_arguments(body: Graph, dying_arguments: Set[Value]) -> dict[Value, Value]:
    """Return by value of a region the argument, needed nowhere else, whose memory the value may take.

    A value takes the place of an argument of its shape and dtype if one loop over the elements reads the one and
    writes the other, nothing reads the argument later, and nothing in the region is a view of it.
    """
    found: dict[Value, Value] = {}
    others = {v for each in body.steps if not isinstance(each, Fused) for v in each.inputs}
    for index, step in enumerate(body.steps):
        if not isinstance(step, Fused):
            continue
        later = {v for each in body.steps[index + 1 :] for v in each.inputs}
        free = [
            x for x in step.inputs if x in dying_arguments and x not in later and x not in others
        ]
        for value in step.outputs:
            place = next((x for x in free if _can_reuse_argument(x, value, step.body)), None)
            if place is not None:
                found[value] = place
                free.remove(place)
    return found


def find_overwritten_values(
    body: Graph, storage: Mapping[Value, Value], last_uses: Mapping[Value, int]
) -> dict[Value, Value]:
    """Return by value of a region the value over which it may be written, for the `storage` of a memory plan.

    `storage` maps values to those in whose memory they lie, and `last_uses` values in the arena to the last step that
    reads their memory.
    """
    found: dict[Value, Value] = {}
    for index, step in enumerate(body.steps):
        free = [
            x
            for x in step.inputs
            if x is not None
            and last_uses.get(storage.get(x, x)) == index
            and [storage.get(v, v) for v in step.inputs if v is not None].count(storage[x]) == 1
        ]
        if isinstance(step, Call) and is_slice_update(step) and step.inputs[0] in free:
            found |= {v: step.inputs[0] for v in step.outputs if v in last_uses}
        if not isinstance(step, Fused):
            continue
        for value in step.outputs:
            if value in last_uses:
                place = next((x for x in free if can_overwrite_argument(x, value, step.body)), None)
                if place is not None:
                    found[value] = place
                    free.remove(place)
    return found


def is_slice_update(call: Call) -> bool:
    """Return whether a call replaces a slice of its first input, which needs no copy if the result takes its place."""
    return call.kernel is movement.strided_slice_update


def merge_storage(
    storage: dict[Value, Value], last_uses: dict[Value, int], overwritten: Mapping[Value, Value]
) -> None:
    """Move values to the memory of the values in `overwritten`; `last_uses` has, by value, the index of a step."""
    sharers: dict[Value, list[Value]] = {}
    for value, owner in storage.items():
        sharers.setdefault(owner, []).append(value)
    for value, place in overwritten.items():
        moved, owner = sharers.pop(value), storage[place]
        sharers[owner] += moved
        storage.update(dict.fromkeys(moved, owner))
        last_uses[owner] = last_uses.pop(value)


def place_in_results(
    nbytes_by_value: Mapping[Value, int],
    creation_steps: Mapping[Value, int],
    last_uses: Mapping[Value, int],
    results: Sequence[Value],
) -> dict[Value, Value]:
    """Return by temporary value the result whose memory it may use until the result is written.

    The memory of results is allocated before the first step. Both maps of steps have positions in the graph.
    """
    found: dict[Value, Value] = {}
    results = sorted(
        [v for v in results if nbytes_by_value[v] >= REUSED_MIN_BYTES],
        key=lambda v: nbytes_by_value[v],
    )
    for value in sorted(last_uses, key=lambda v: (-nbytes_by_value[v], v)):
        for host in results:
            others = [v for v, x in found.items() if x == host]
            if (
                nbytes_by_value[value] <= nbytes_by_value[host]
                and last_uses[value] < creation_steps[host]
                and all(
                    last_uses[v] < creation_steps[value] or last_uses[value] < creation_steps[v]
                    for v in others
                )
            ):
                found[value] = host
                break
    return found


def _can_reuse_argument(argument: Value, result: Value, group: Graph) -> bool:
    """Return whether a group's result can take the memory of an argument, and whether that pays."""
    shape, dtype = group.specs[result]
    nbytes = count_elements(shape) * dtype.itemsize
    return nbytes >= REUSED_MIN_BYTES and can_overwrite_argument(argument, result, group)


def can_overwrite_argument(argument: Value, result: Value, group: Graph) -> bool:
    """Return whether a group is one elementwise loop, which may write a result over an argument.

    Gradients of poolings, which come before it, have read their images by then.
    """
    specs = group.specs
    if specs[argument] != specs[result]:
        return False
    views = find_group_views(group)
    if any(view.base == argument for view in views.values()):
        return False  # a later element may be read there
    loop = [
        call for call in group.steps if call.outputs[0] not in views and not is_image_group([call])
    ]
    if not all(_is_in_loop(call, specs, specs[result].shape) for call in loop):
        return False
    if all(result not in call.outputs for call in loop):
        return False
    maker = next(i for i, call in enumerate(group.steps) if result in call.outputs)
    return all(argument not in call.inputs for call in group.steps[maker + 1 :])


def _is_in_loop(call: Step, specs: Mapping[Value, Shaped], loop_shape: Shape) -> bool:
    """Return whether a kernel call is one C call in an elementwise loop over a shape."""
    if not isinstance(call, Call) or not can_join_loop(call, specs):
        return False
    calls = lower_elementwise(call, specs)
    is_one = is_repeated_number(call, specs) or (calls is not None and len(calls) == 1)
    return is_one and specs[call.outputs[0]].shape == loop_shape


# --- when a program runs ----------------------------------------------------------------------------


def _measure_sole_owner_refcount() -> int:
    """Return the reference count that a program sees for an array held only by the replay that calls it."""
    names: dict[str, Any] = {"count": getrefcount, "make": object, "second": lambda x, y: y}
    text = """
def run(v0):
    return [second(v0, count(v0))]
def replay():
    v0 = make()
    v1, = run(v0)
    del v0
    return v1
"""
    exec(text, names)
    found: int = names["replay"]()
    return found


SOLE_OWNER_REFCOUNT: Final = _measure_sole_owner_refcount()
"""The reference count that a program sees for an array that nothing else refers to."""


def is_overwritable(x: Array, reference_count: int) -> bool:
    """Return whether a contiguous array with this reference count may be overwritten."""
    return (
        reference_count <= SOLE_OWNER_REFCOUNT
        and owns_memory(x)
        and x.flags.c_contiguous
        and x.flags.writeable
    )
