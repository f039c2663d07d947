"""Locks that survive a fork: a fork waits until no other thread holds one of them.

A child process has only the thread that forked. A lock that another thread held would never be
released there, and a store that another thread was computing in still refers to that thread's
stack, so that wasmtime would abort the child.
"""

from __future__ import annotations

import os
import threading
from itertools import count
from time import monotonic, sleep
from typing import Final
from weakref import WeakSet

from plugrad.extend import BackendUnavailable, hold_safely

MAX_WAIT_SECONDS: Final = 10.0
"""For how many seconds a fork waits. If a thread computes longer, its store is lost to the child."""


class ForkLock:
    """A reentrant lock that counts how often it is held, and survives a fork.

    A thread that needs several of them takes the one that was created first before the others.
    """

    __slots__ = ("__weakref__", "_held", "_is_lost", "_lock", "held", "number")

    def __init__(self) -> None:
        """Create a lock that is free."""
        self.number: int = next(_lock_numbers)
        self._lock = threading.RLock()
        self._held = hold_safely(self._lock)
        self._is_lost = False
        self.held: int = 0
        _locks.add(self)

    def __enter__(self) -> None:
        """Wait until the lock is free, and hold it.

        Raises:
            BackendUnavailable: this process was forked while another thread held the lock.
        """
        if self._is_lost:
            raise BackendUnavailable(
                "wasm: another thread was computing when this process was forked, and did not "
                f"finish within {MAX_WAIT_SECONDS:g} seconds, so its sandbox cannot be used here; fork when "
                "no thread computes, or start workers with multiprocessing's 'spawn' method"
            )
        if _forking.locked():
            sleep(0.001)  # so that the thread that forks comes first
        self._held.__enter__()
        self.held += 1

    def __exit__(self, *failure: object) -> None:
        """Release the lock."""
        self.held -= 1
        self._lock.release()

    def pause(self, deadline: float) -> bool:
        """Acquire the lock before a fork; return whether it was free in time."""
        return not self._is_lost and self._lock.acquire(timeout=max(0.0, deadline - monotonic()))

    def resume(self) -> None:
        """Release the lock after a fork."""
        self._lock.release()

    def lose(self) -> None:
        """Refuse all further use, because the thread that holds the lock does not exist in this process."""
        self._is_lost = True


_lock_numbers: Final = count()
_locks: Final[WeakSet[ForkLock]] = WeakSet()
_paused: Final[set[ForkLock]] = set()
_forking: Final = threading.Lock()
"""Held while a thread forks: two that wait for each other's locks would wait in vain."""


def _before_fork() -> None:
    _forking.acquire()
    deadline = monotonic() + MAX_WAIT_SECONDS
    missed: set[ForkLock] = set()
    # While this thread waits, others may make new locks.
    while waiting := set(_locks) - _paused - missed:
        for lock in sorted(waiting, key=lambda lock: lock.number):
            (_paused if lock.pause(deadline) else missed).add(lock)


def _after_in_parent() -> None:
    while _paused:
        _paused.pop().resume()
    _forking.release()


def _after_in_child() -> None:
    for lock in set(_locks) - _paused:
        lock.lose()
    _after_in_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_in_parent, after_in_child=_after_in_child
    )
