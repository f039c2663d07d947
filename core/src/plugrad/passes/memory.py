"""The memory plan of a graph: how long values live, and where they lie in one block of memory.

Places are given to the largest values first, each at the lowest offset at which it does not overlap one that lives at
the same time: Pisarchyk and Lee, "Efficient memory management for deep neural net inference" (2020).
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from plugrad.graph.graph import Call, Fused, Graph, Step, Value
from plugrad.passes.views import PACKED_VIEWS, STRIDED_VIEWS, find_storage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Set

    from plugrad.contract.kernel import Kernel

ALIGNMENT_BYTES: Final = 64
"""The number of bytes of which all offsets are multiples: a cache line, or the longest vector register."""


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """When the memory of each value becomes free, and its offset in one block."""

    storage: Mapping[Value, Value]
    """The owner of the memory of each value, which is itself, the value it is a view of, or the input it overwrites."""
    last_uses: Mapping[Value, int]
    """The position of the last step that needs the memory of a value; the number of steps if it outlives the run."""
    offsets: Mapping[Value, int]
    """The offset in the block, in bytes, of each value of `storage` that a step computes."""
    arena_bytes: int
    """The number of bytes of the block."""
    held_bytes: int
    """The number of bytes of arguments, constants and variables, which the caller or the program holds."""
    peak_bytes: int
    """The most bytes at one time of the values that steps compute, including results and the values inside loops."""


def plan_memory(
    graph: Graph,
    *,
    views: Set[Kernel[..., Any]] = STRIDED_VIEWS,
    in_place: bool = True,
    are_results_apart: bool = False,
    places: Mapping[Value, Value] = MappingProxyType({}),
    scratch_bytes: Callable[[Step], int] = lambda step: 0,
) -> MemoryPlan:
    """Return when the memory of each value of a graph becomes free, and its offset in one block.

    >>> from plugrad.extend import plan_memory
    >>> graph = plugrad.make_graph(lambda x: plugrad.exp(plugrad.sin(x * 2)))(plugrad.ones(1000))
    >>> plan_memory(graph).peak_bytes, plan_memory(graph, in_place=False).peak_bytes
    (4000, 8000)

    Args:
        graph: the graph.
        views: the kernels whose results are views of their first input: `STRIDED_VIEWS` or `PACKED_VIEWS` of
            `plugrad.extend`, or others.
        in_place: whether an elementwise kernel may write its result over an input of the same shape and size of
            elements that is not needed any more. A replay does not.
        are_results_apart: whether results, and what variables become, lie in arrays of their own instead of the block.
        places: the values in whose memory outputs of fused steps lie: those that they are views of, and inputs whose
            places they take.
        scratch_bytes: what a step needs beside its inputs and outputs while it runs.
    """
    storage = find_storage(graph, views)
    for value in storage if places else ():  # in the order of the steps
        storage[value] = storage[places.get(value, storage[value])]
    made = {value for step in graph.steps for value in step.outputs}
    last = _last_uses(graph, storage)
    if in_place:
        owners = dict(storage)
        packed = find_storage(graph, views & PACKED_VIEWS)
        whole = {v for v, owner in packed.items() if owners[owner] == owner and owner in made}
        for index, step in enumerate(graph.steps):
            place = _find_reusable_input(graph, step, index, storage, last, whole)
            if place is not None:
                _merge_storage(storage, last, step.outputs[0], place)
    owned = {value for value in made if storage[value] == value}
    sizes = {value: _nbytes(graph, value) for value in storage if storage[value] == value}
    births = {
        v: index for index, step in enumerate(graph.steps) for v in step.outputs if v in owned
    }
    inside = [
        scratch_bytes(step)
        + max(
            [
                plan_memory(body, views=views, in_place=in_place).peak_bytes
                for body in (() if isinstance(step, Fused) else step.graphs)
            ],
            default=0,
        )
        for step in graph.steps
    ]
    end = len(graph.steps)
    inner = {v: sizes[v] for v in births if not are_results_apart or last[v] < end}
    offsets, arena_bytes = pack_memory(inner, births, last)
    return MemoryPlan(
        storage,
        last,
        offsets,
        arena_bytes,
        sum(size for value, size in sizes.items() if value not in owned),
        _peak_bytes(births, last, sizes, inside),
    )


def _nbytes(graph: Graph, value: Value) -> int:
    shape, dtype = graph.specs[value]
    return prod(shape) * dtype.itemsize


def _last_uses(graph: Graph, storage_of_value: Mapping[Value, Value]) -> dict[Value, int]:
    """Return for each value that owns memory the index of the last step that reads or writes this memory."""
    last: dict[Value, int] = {}
    for index, step in enumerate(graph.steps):
        for value in (*step.inputs, *step.outputs):
            if value is not None:
                last[storage_of_value[value]] = index
    end = len(graph.steps)
    last.update((storage_of_value[value], end) for value in graph.results)
    last.update((storage_of_value[value], end) for _, value in graph.updates)
    return last


def _find_reusable_input(
    graph: Graph,
    step: Step,
    step_index: int,
    storage_of_value: Mapping[Value, Value],
    last_uses: Mapping[Value, int],
    overwritable_values: Set[Value],
) -> Value | None:
    """Return the storage of an input that the step's output may overwrite, or None.

    A step has computed the input, one of `overwritable_values`: its elements fill the storage, in their order. No other
    input of the step shares the storage, because it might be read in another order.
    """
    if not isinstance(step, Call) or not step.kernel.is_elementwise or step.returns_list:
        return None
    (output,) = step.outputs
    shape, dtype = graph.specs[output]
    if storage_of_value[output] != output:
        return None
    for value in step.inputs:
        if value is None or value not in overwritable_values or graph.specs[value].shape != shape:
            continue
        place = storage_of_value[value]
        is_free = (
            last_uses[place] == step_index and graph.specs[value].dtype.itemsize == dtype.itemsize
        )
        others = [v for v in step.inputs if v is not None and v != value]
        if is_free and all(storage_of_value[v] != place for v in others):
            return place
    return None


def _merge_storage(
    storage_of_value: dict[Value, Value],
    last_uses: dict[Value, int],
    value: Value,
    base_value: Value,
) -> None:
    """Move a value, and all values that share its storage, into the storage of another value."""
    for each, owner in storage_of_value.items():
        if owner == value:
            storage_of_value[each] = base_value
    last_uses[base_value] = last_uses.pop(value)


def pack_memory(
    sizes: Mapping[int, int], first_uses: Mapping[int, int], last_uses: Mapping[int, int]
) -> tuple[dict[int, int], int]:
    """Return an offset for each value such that values with overlapping lifetimes do not overlap in memory.

    >>> from plugrad.extend import pack_memory
    >>> pack_memory({0: 64, 1: 128, 2: 64}, {0: 0, 1: 1, 2: 2}, {0: 1, 1: 2, 2: 2})
    ({1: 0, 0: 128, 2: 128}, 192)

    Args:
        sizes: the bytes of each value.
        first_uses: the position of the step that makes it.
        last_uses: the position of the last step that reads it.

    Returns:
        The offset of each value, and the bytes of the block.
    """
    offsets: dict[int, int] = {}
    placed: list[tuple[int, int, int, int]] = []
    """The start and end in memory, and the first and last use, of each value that has an offset."""
    for value in sorted(sizes, key=lambda v: (-sizes[v], v)):
        size = -(-sizes[value] // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        first, last = first_uses[value], last_uses[value]
        offset = 0
        for start, stop, other_first, other_last in placed:
            if start >= offset + size:
                break
            if stop > offset and other_first <= last and first <= other_last:
                offset = stop
        offsets[value] = offset
        insort(placed, (offset, offset + size, first, last))
    return offsets, max([stop for _, stop, _, _ in placed], default=0)


def _peak_bytes(
    first_uses: Mapping[Value, int],
    last_uses: Mapping[Value, int],
    sizes: Mapping[Value, int],
    scratch_bytes_of_step: list[int],
) -> int:
    """Return the largest number of bytes alive at any step."""
    changes = [0] * (len(scratch_bytes_of_step) + 2)
    for value, birth in first_uses.items():
        changes[birth] += sizes[value]
        changes[last_uses[value] + 1] -= sizes[value]
    alive = peak = 0
    for change, extra in zip(changes, [*scratch_bytes_of_step, 0], strict=False):
        alive += change
        peak = max(peak, alive + extra)
    return peak
