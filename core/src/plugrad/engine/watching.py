"""Watchers, which are notified of each implementation call: its inputs, its result and its times.

Watching replaces the functions that the engine calls, so that it costs nothing while nobody watches.
"""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from plugrad.tensor.backend import Backend, Implementation


class Call(NamedTuple):
    """One call of an implementation: times are in nanoseconds."""

    kernel_name: str
    backend: Backend
    arrays: Sequence[Any]
    attrs: Mapping[str, Any]
    result: Any
    start: int
    end: int


class Watcher(NamedTuple):
    """A function that is notified of each call."""

    note: Callable[[Call], None]
    synchronizes: bool
    """Whether a call ends when the device has finished."""


watchers: tuple[Watcher, ...] = ()
"""Who watches now; it changes with the registry's lock held."""


def with_watchers(
    kernel_name: str, function: Implementation, backend: Backend, told: Sequence[Watcher]
) -> Implementation:
    """Wrap an implementation to notify the watchers; without watchers, return it unchanged."""
    if not told:
        return function
    waits = any(watcher.synchronizes for watcher in told)

    def implementation(*arrays: Any, **attrs: Any) -> Any:
        start = perf_counter_ns()
        result = function(*arrays, **attrs)
        if waits:
            backend.synchronize()
        call = Call(kernel_name, backend, arrays, attrs, result, start, perf_counter_ns())
        for watcher in told:
            watcher.note(call)
        return result

    return implementation
