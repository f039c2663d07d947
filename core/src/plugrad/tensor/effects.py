"""What functions on the host count, such as steps and random numbers: a call of a program that fails takes it back."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from plugrad.types.arguments import check_callable

if TYPE_CHECKING:
    from collections.abc import Callable


class HostLog:
    """How to take back what the functions that one call of a program has called have counted."""

    __slots__ = ("undo",)

    def __init__(self) -> None:
        """Start empty."""
        self.undo: list[Callable[[], object]] = []
        """Functions without arguments, to be called from the last to the first."""

    def call(self, function: Callable[[], Any]) -> Any:
        """Return what a function on the host computes."""
        return function()

    def take_back(self, start: int = 0) -> None:
        """Undo what has been counted since the log had so many entries."""
        while len(self.undo) > start:
            self.undo.pop()()


active_log: Final[ContextVar[HostLog | None]] = ContextVar("plugrad_host_log", default=None)
"""The log of the call of a program that is running."""


def on_failure(undo: Callable[[], object]) -> None:
    """Let a function be called if the call of the traced program that is running fails later.

    A function of `host_value` that counts calls it before it counts, so that a step that raised an error has not been
    counted. Where no traced program runs, it does nothing.

    >>> from plugrad.extend import host_value, on_failure
    >>> taken = [0]
    >>> def next_step():
    ...     before = taken[0]
    ...     on_failure(lambda: taken.__setitem__(0, before))
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
    check_callable("on_failure", undo)
    log = active_log.get()
    if log is not None:
        log.undo.append(undo)
