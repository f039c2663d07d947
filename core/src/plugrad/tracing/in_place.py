"""In-place updates of variables, which take effect when a call succeeds.

Until then nothing is written, so a call that fails changes nothing. Whether somebody else has the old values is decided
when they are written, by the number of references to their arrays.
"""

from __future__ import annotations

from itertools import chain, islice, starmap
from sys import getrefcount
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from plugrad.interruptions import run_uninterrupted
from plugrad.transforms.variable import get_array, replace_arrays, set_array

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from plugrad.graph.graph import Graph
    from plugrad.tensor.effects import HostLog
    from plugrad.transforms.variable import Variable


class InPlacePlan(NamedTuple):
    """How a compiled graph overwrites variables with their new values.

    A compiler gives it to the function that it returns, as the attribute ``in_place``.
    """

    graph: Graph
    """The graph that runs before the update; its results are those of the whole graph, then the update's operands."""
    begin: Callable[..., list[Any]]
    """A function that runs `graph` on the arrays of the arguments, then of the variables."""
    finish: Callable[..., object]
    """A function in C of the operands and the old arrays, which writes the new values or raises `BufferError`."""
    replace: Callable[..., list[Any]]
    """A function like `finish` that returns the new values as new arrays, for old arrays that others use, too."""
    variables: tuple[Variable, ...]
    """The variables that are overwritten."""
    positions: tuple[int, ...]
    """For each overwritten variable, the position of its array among the arguments of `begin`."""
    owns_memory: Callable[[Any], bool]
    """A function that returns whether an array owns its memory; that of a view is used without a reference to it."""


def run_in_place(
    in_place_plan: InPlacePlan, arrays: Sequence[Any], result_count: int, host_log: HostLog | None
) -> list[Any]:
    """Run a graph, and commit its updates of variables and the log of host functions together or not at all.

    Args:
        in_place_plan: how the compiled graph overwrites variables.
        arrays: those of the arguments and the variables; nobody else but the variables refers to the latter.
        result_count: the number of results.
        host_log: what functions on the host have counted.

    Returns:
        the results.
    """
    outputs = in_place_plan.begin(*arrays)
    updated = [variable for variable, _ in in_place_plan.graph.updates]
    end = len(outputs) - len(updated)
    made = outputs[end:]
    given = [*outputs[result_count:end], *[arrays[i] for i in in_place_plan.positions]]
    del outputs[result_count:]
    first = len(given) - len(in_place_plan.positions)
    if not all(map(in_place_plan.owns_memory, islice(given, first, None))):
        replace_arrays(
            [*in_place_plan.variables, *updated], [*in_place_plan.replace(*given), *made], host_log
        )
        return outputs
    old = [*map(get_array, updated)]  # to release one may run code of its backend
    changes = chain(
        map(_RAISE_IF_ARRAY_IS_SHARED, map(getrefcount, islice(given, first, None))),
        starmap(in_place_plan.finish, [given]),
        map(set_array, updated, made),
    )
    try:
        if host_log is None:
            run_uninterrupted(changes)
        else:
            host_log.commit(changes, _do_nothing)
    except (IndexError, BufferError):
        replace_arrays(
            [*in_place_plan.variables, *updated], [*in_place_plan.replace(*given), *made], host_log
        )
    del old
    return outputs


def _do_nothing() -> None:
    """Undo nothing: there is no enclosing call that could still fail."""


def _count_expected_references() -> int:
    """Return the reference count that `run_in_place` sees for an array held only by a variable."""
    held_by_variable = [object()]
    arrays = [*held_by_variable]
    given = [*[arrays[i] for i in range(1)]]
    (count,) = map(getrefcount, islice(given, 0, None))
    return count


_RAISE_IF_ARRAY_IS_SHARED: Final = ((None,) * (_count_expected_references() + 1)).__getitem__
"""Raises `IndexError` for a reference count that shows other holders; in C, so that nothing runs in between."""
