"""Watchers, which are notified of each implementation call: its inputs, its result and its times.

Watching replaces the functions that the engine calls, so that it costs nothing while nobody watches.
"""

from __future__ import annotations

from math import prod
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from plugrad.types.dtype import as_dtype

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from plugrad.tensor.backend import Backend, Implementation


MAX_SHOWN_STEPS: Final = 4
"""The most kernels that the name of a fused step lists."""


class Call(NamedTuple):
    """One call of an implementation; the start and the end are times of `perf_counter_ns`, in nanoseconds."""

    kernel_name: str
    backend: Backend
    arrays: Sequence[Any]
    attrs: Mapping[str, Any]
    result: Any
    start: int
    """The time in nanoseconds."""
    end: int
    """The time in nanoseconds."""


class Event(NamedTuple):
    """Something else that takes time, such as an exchange with another process; times are in nanoseconds."""

    name: str
    place: str
    """The text that profiles show in place of a backend's label."""
    nbytes: int
    start: int
    """The time in nanoseconds."""
    end: int
    """The time in nanoseconds."""
    steps: tuple[str, ...] = ()
    """The names of the kernels that a fused step of a compiled graph computes."""


class Watcher(NamedTuple):
    """Functions that are notified of each call and event, and how calls are measured for them."""

    on_call: Callable[[Call], None]
    """The function that is notified of each call of an implementation."""
    synchronizes: bool
    """Whether the end of a call is measured after the device has finished."""
    on_event: Callable[[Event], None] | None = None
    """The function that is notified of each event."""
    allows_fused_steps: bool = False
    """Whether compiled graphs run their fused steps; if not, their kernels are called one by one."""


watchers: tuple[Watcher, ...] = ()
"""The active watchers. The tuple is replaced only while the registry's lock is held."""


def with_watchers(
    kernel_name: str, function: Implementation, backend: Backend, watchers: Sequence[Watcher]
) -> Implementation:
    """Wrap an implementation to notify the watchers; without watchers, return it unchanged."""
    if not watchers:
        return function
    waits = any(watcher.synchronizes for watcher in watchers)

    def implementation(*arrays: Any, **attrs: Any) -> Any:
        start = perf_counter_ns()
        result = function(*arrays, **attrs)
        if waits:
            backend.synchronize()
        call = Call(kernel_name, backend, arrays, attrs, result, start, perf_counter_ns())
        for watcher in watchers:
            watcher.on_call(call)
        return result

    return implementation


def with_watchers_of_fused_steps(
    function: Callable[..., list[Any]], kernel_names: Sequence[str], backend: Backend
) -> Callable[..., list[Any]]:
    """Wrap a function that runs several steps of a graph as one, to notify the watchers of each run."""
    name = " + ".join(
        [*kernel_names[:MAX_SHOWN_STEPS], *(("…",) if len(kernel_names) > MAX_SHOWN_STEPS else ())]
    )

    def run(*arrays: Any) -> list[Any]:
        told = watchers
        start = perf_counter_ns()
        results = function(*arrays)
        if any(watcher.synchronizes for watcher in told):
            backend.synchronize()
        end = perf_counter_ns()
        nbytes = sum(prod(x.shape) * as_dtype(x.dtype).itemsize for x in (*arrays, *results))
        for watcher in told:
            if watcher.on_event is not None:
                watcher.on_event(
                    Event(name, backend.label, nbytes, start, end, tuple(kernel_names))
                )
        return results

    return run


def report_event(name: str, *, place: str, nbytes: int, start: int, end: int) -> None:
    """Add an event that is no kernel call, such as a network exchange, to open profiles; its times are in nanoseconds.

    >>> from time import perf_counter_ns
    >>> from plugrad.extend import report_event
    >>> with plugrad.profile() as measured:
    ...     start = perf_counter_ns()
    ...     data = bytes(1000)  # which stands for receiving it
    ...     report_event(
    ...         "receive", place="network", nbytes=1000, start=start, end=perf_counter_ns()
    ...     )
    >>> [(event.kernel, event.backend, event.bytes) for event in measured.kernels]
    [('receive', 'network', 1000)]

    It counts for the thread that calls this. Without an open `plugrad.profile`, nothing happens.

    Args:
        name: what was done; events of one name are added up.
        place: where, in a word.
        nbytes: how many bytes it read and wrote.
        start: when it began, in nanoseconds of `time.perf_counter_ns`.
        end: when it ended.
    """
    for watcher in watchers:
        if watcher.on_event is not None:
            watcher.on_event(Event(name, place, nbytes, start, end))
