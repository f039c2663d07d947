"""Undoing the effects of host functions, such as drawn random numbers, when a call of a program fails."""

from __future__ import annotations

from contextvars import ContextVar
from functools import partial
from itertools import chain
from operator import call
from typing import TYPE_CHECKING, Any, Final, TypeVar

from plugrad.interruptions import run_uninterrupted
from plugrad.types.arguments import check_callable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

ResultType = TypeVar("ResultType")


class HostLog:
    """Records how to undo the side effects of the host functions that one call of a program has called."""

    __slots__ = ("outer", "take_back", "undo")

    def __init__(self, outer: HostLog | None = None) -> None:
        """Start empty, inside the call of another program or of none."""
        self.outer = outer
        self.undo: list[Callable[[], object] | None] = [None]
        """Functions without arguments, to be called from the last to the first; what comes before a None stays."""
        self.take_back: Callable[[], object] = partial(
            run_uninterrupted, map(call, iter(self.undo.pop, None))
        )
        """Undo what has been counted. It can be called once."""

    def call(self, function: Callable[[], Any]) -> Any:
        """Return the value of a host function."""
        return function() if self.outer is None else self.outer.call(function)

    def commit(self, changes: Iterable[object], undo: Callable[[], object]) -> None:
        """Run `changes`, an iterator that makes them, and keep the logged effects: all or nothing, whatever interrupts.

        Args:
            changes: an iterator in C that makes them.
            undo: a function in C that takes them back; the call around this one calls it if it fails later.
        """
        stay = map(_APPEND_TO_LIST, (self.undo,), (None,))
        if self.outer is not None:
            entries = [*filter(None, self.undo), undo]
            stay = chain(map(_EXTEND_LIST, (self.outer.undo,), (entries,)), stay)
        run_uninterrupted(chain(changes, stay))


_EXTEND_LIST: Final = list[Any].extend
"""The method ``list.extend`` as a function in C, which cannot be interrupted."""
_APPEND_TO_LIST: Final = list[Any].append
"""The method ``list.append`` as a function in C, which cannot be interrupted."""


active_host_log: Final[ContextVar[HostLog | None]] = ContextVar("plugrad_host_log", default=None)
"""The log of the call of a program that is running."""


def run_with_host_log(function: Callable[[HostLog], ResultType]) -> ResultType:
    """Call a function with a new log and return its result; undo the logged effects if it fails before it commits.

    No signal comes between a failure and the one call that takes it back, nor before that of the end.
    """
    outer = active_host_log.get()
    log = HostLog(outer)
    try:
        active_host_log.set(log)
        return function(log)
    except BaseException:
        log.take_back()
        raise
    finally:
        active_host_log.set(outer)


def undo_on_failure(undo: Callable[[], object]) -> None:
    """Register a function that is called if the running call of a traced program fails later.

    A function of `host_value` that counts calls it before it counts, so that a step that raised an error has not been
    counted. Where no traced program runs, it does nothing.

    >>> from plugrad.extend import host_value, undo_on_failure
    >>> taken = [0]
    >>> def next_step():
    ...     before = taken[0]
    ...     undo_on_failure(lambda: taken.__setitem__(0, before))
    ...     taken[0] += 1
    ...     return taken[0]
    >>> f = plugrad.jit(lambda x: x + host_value(next_step))
    >>> f(plugrad.asarray(1.0)), taken
    (tensor(2., dtype=float32), [1])

    Args:
        undo: a function without arguments, which must not raise.

    Raises:
        ArgumentError: `undo` is not callable.
    """
    check_callable("undo_on_failure", undo)
    log = active_host_log.get()
    if log is not None:
        log.undo.append(undo)
