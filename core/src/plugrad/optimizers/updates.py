"""The updates of an optimizer step, batched into kernel calls, and the state kept for each variable."""

from __future__ import annotations

from functools import partial
from math import prod
from operator import itemgetter
from typing import TYPE_CHECKING, Final, TypeAlias

from plugrad.tensor.tensor import Tensor
from plugrad.tensor.tracer import current_tracer, static_value
from plugrad.transforms.variable import Variable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from plugrad.tensor.backend import Backend

MAX_BATCH_ELEMENTS: Final = 1 << 18
"""The maximum number of elements of the variables that one kernel call updates.

A call takes some microseconds; but the old and the new values of all its variables are in memory.
"""


class VariableState(dict[str, Variable]):
    """The state that an optimizer keeps for one variable: slots by name, and the number of steps.

    A slot is a variable that is not trainable, called after its variable, as "dense.kernel.momentum" is.
    """

    steps: int = 0
    """The number of steps that the variable has taken."""


VariableUpdate: TypeAlias = tuple[Variable, Tensor, VariableState]
"""A variable, its gradient and its state."""


def group_by_kernel(
    updates: Sequence[VariableUpdate], group_of: Mapping[Variable, object]
) -> list[tuple[int, list[int]]]:
    """Group the indices of updates that one kernel call can make: equal dtype, device, group and number of steps taken.

    A variable that comes twice takes another step: its update belongs to a later group, and the number that comes with
    a group says how often its variables have come. A traced program holds as long as the same variables have taken
    equally many steps, and belong to the same group.
    """
    tracer = current_tracer()
    if tracer is None and not group_of and _can_update_together(updates):
        return [(1, [*range(len(updates))])]
    planned = None if tracer is None else tracer.planned_steps
    came: dict[int, int] = {}
    turns: list[int] = []
    upcoming: list[tuple[Variable, VariableState, int]] = []
    for variable, _, state in updates:
        key = id(state)
        came[key] = turn = came.get(key, 0) + 1
        turns.append(turn)
        upcoming.append((variable, state, turn if planned is None else planned[key] + turn))
    if planned is not None:
        planned.update(came)
    equal = static_value(partial(_first_in_group, upcoming, group_of))
    groups: dict[tuple[int, int, object, Backend], list[int]] = {}
    for i, ((variable, gradient, _), turn) in enumerate(zip(updates, turns, strict=True)):
        group = turn, equal[i], gradient.array.dtype, variable.backend  # gradients have been cast
        groups.setdefault(group, []).append(i)
    return [(group[0], groups[group]) for group in sorted(groups, key=itemgetter(0))]


def _can_update_together(updates: Sequence[VariableUpdate]) -> bool:
    """Return whether one call can make all updates: variables, all different, of one dtype, device and step count."""
    if not updates:
        return False
    variable, gradient, state = updates[0]
    steps, dtype, backend = state.steps, gradient.array.dtype, variable.backend
    for variable, gradient, state in updates:
        if (
            state.steps != steps
            or gradient.array.dtype is not dtype
            or variable.backend is not backend
        ):
            return False
    return len({id(state) for _, _, state in updates}) == len(updates)


def _first_in_group(
    updates: Sequence[tuple[Variable, VariableState, int]], group_of: Mapping[Variable, object]
) -> list[int]:
    """Return for each update the index of the first one whose variable is in the same group and took as many steps."""
    counts = [state.steps + more for _, state, more in updates]
    if not group_of and counts == counts[:1] * len(counts):  # in few lines: each traced call asks
        return [0] * len(counts)
    keys = [(count, id(group_of.get(v))) for count, (v, _, _) in zip(counts, updates, strict=True)]
    firsts: dict[tuple[int, int], int] = {}
    return [firsts.setdefault(key, i) for i, key in enumerate(keys)]


def iter_batches(updates: list[VariableUpdate]) -> Iterator[list[VariableUpdate]]:
    """Yield batches of updates whose variables have about `MAX_BATCH_ELEMENTS` elements in total."""
    batch: list[VariableUpdate] = []
    size = 0
    for move in updates:
        batch.append(move)
        size += prod(move[1].array.shape)  # in less time than that of the variable
        if size >= MAX_BATCH_ELEMENTS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
