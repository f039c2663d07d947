"""Forked children, in which the device of the parent cannot be used.

A GPU device does not survive a fork: its driver's threads exist in the parent only. Nor can a child
wait for the lock of a device, which another thread of the parent may have held during the fork. So
a child replaces the locks before anything else runs in it.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from typing import TYPE_CHECKING, NoReturn, Protocol
from weakref import WeakSet

from plugrad.extend import BackendUnavailable, PlugradError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType


class Abandonable(Protocol):
    """An object that cannot be used in a forked child."""

    def abandon(self, make_error: Callable[[], PlugradError]) -> object:
        """Make all further work raise the error that `make_error` returns, without waiting for a lock."""
        ...


class RefusingLock:
    """Replaces the lock of an unusable device: entering it raises instead of waiting."""

    def __init__(self, make_error: Callable[[], PlugradError]) -> None:
        """Make a lock that raises the error that `make_error` returns."""
        self._make_error = make_error

    def __enter__(self) -> NoReturn:
        """Raise the error."""
        raise self._make_error()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Do nothing: nothing was acquired."""


def device_in_fork_error() -> BackendUnavailable:
    """Return the error for the use of a device in a forked child."""
    return BackendUnavailable(
        "webgpu: this process was forked from one that uses a GPU, and a GPU device does not survive a fork; "
        "start workers with multiprocessing's 'spawn' method instead"
    )


_objects_to_abandon: WeakSet[Abandonable] = WeakSet()
"""The objects that every forked child abandons."""


def abandon_after_fork(abandonable: Abandonable) -> None:
    """Abandon an object in every forked child, with `device_in_fork_error`, while the object lives."""
    _register_fork_handler()
    _objects_to_abandon.add(abandonable)


@cache
def _register_fork_handler() -> None:
    """Register the handler that abandons devices in forked children, once and where systems can fork."""
    if sys.platform != "win32":
        os.register_at_fork(after_in_child=_abandon_all)


def _abandon_all() -> None:
    """Abandon all registered objects in a forked child."""
    for abandonable in _objects_to_abandon:
        abandonable.abandon(device_in_fork_error)
