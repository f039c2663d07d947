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

MAX_FORK_WAIT_SECONDS: Final = 10.0
"""The maximum seconds that a fork waits for a lock; if a thread computes longer, its store is lost to the child."""


class ForkLock:
    """A reentrant lock that a fork waits for, so that the child does not inherit it while another thread holds it.

    A thread that needs several of them takes the one that was created first before the others.
    """

    __slots__ = ("__weakref__", "_held", "_is_lost", "_lock", "held", "number")

    def __init__(self) -> None:
        """Create a lock that is free."""
        self.number: int = next(_creation_numbers)
        self._lock = threading.RLock()
        self._held = hold_safely(self._lock)
        self._is_lost = False
        self.held: int = 0
        _all_fork_locks.add(self)

    def __enter__(self) -> None:
        """Wait until the lock is free, and hold it.

        Raises:
            BackendUnavailable: this process was forked while another thread held the lock.
        """
        if self._is_lost:
            raise BackendUnavailable(
                "wasm: another thread was computing when this process was forked, and did not "
                f"finish within {MAX_FORK_WAIT_SECONDS:g} seconds, so its sandbox cannot be used here; fork when "
                "no thread computes, or start workers with multiprocessing's 'spawn' method"
            )
        if _fork_in_progress.locked():
            sleep(0.001)  # so that the thread that forks comes first
        self._held.__enter__()
        self.held += 1

    def __exit__(self, *failure: object) -> None:
        """Release the lock."""
        self.held -= 1
        self._lock.release()

    def acquire_before_fork(self, deadline: float) -> bool:
        """Acquire the lock before a fork; return whether it was free before the deadline, a monotonic time."""
        return not self._is_lost and self._lock.acquire(timeout=max(0.0, deadline - monotonic()))

    def release_after_fork(self) -> None:
        """Release the lock after a fork."""
        self._lock.release()

    def mark_unusable(self) -> None:
        """Make every further use raise: the thread that holds the lock does not exist in this forked child."""
        self._is_lost = True


_creation_numbers: Final = count()
"""The numbers of locks in order of creation, in which a fork acquires them."""
_all_fork_locks: Final[WeakSet[ForkLock]] = WeakSet()
"""All locks of this process."""
_locks_held_for_fork: Final[set[ForkLock]] = set()
"""The locks that the forking thread has acquired."""
_fork_in_progress: Final = threading.Lock()
"""The lock held by a thread that forks, because two forks would wait for each other's locks."""


def _acquire_locks_before_fork() -> None:
    """Acquire all locks that are free in time, in order of creation."""
    _fork_in_progress.acquire()
    deadline = monotonic() + MAX_FORK_WAIT_SECONDS
    missed: set[ForkLock] = set()
    # While this thread waits, others may make new locks.
    while waiting := set(_all_fork_locks) - _locks_held_for_fork - missed:
        for lock in sorted(waiting, key=lambda lock: lock.number):
            (_locks_held_for_fork if lock.acquire_before_fork(deadline) else missed).add(lock)


def _release_locks_after_fork() -> None:
    """Release the locks in the parent."""
    while _locks_held_for_fork:
        _locks_held_for_fork.pop().release_after_fork()
    _fork_in_progress.release()


def _release_locks_in_child() -> None:
    """Release the locks in the child, and make those unusable that another thread held."""
    for lock in set(_all_fork_locks) - _locks_held_for_fork:
        lock.mark_unusable()
    _release_locks_after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_acquire_locks_before_fork,
        after_in_parent=_release_locks_after_fork,
        after_in_child=_release_locks_in_child,
    )
