"""Reentrant locks for loading plugins, by key, which detect deadlocks instead of waiting for ever.

Each plugin has a lock of its own, so that a plugin that takes long to import or to open delays only
those who use it. A plugin may use plugrad while it is loaded, and so take the lock of another
plugin. If two threads would wait for each other, the second one gets False instead of the lock.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from threading import Condition, RLock, get_ident
from typing import TYPE_CHECKING, Final

from plugrad.interruptions import hold_safely

if TYPE_CHECKING:
    from collections.abc import Generator, Hashable

_bookkeeping_lock = RLock()
"""The lock that is held while the two tables below are read or changed."""
_hold_bookkeeping_lock = hold_safely(_bookkeeping_lock)
"""A context manager that holds `_bookkeeping_lock`; an interruption cannot leave it held."""
_lock_released_condition = Condition(_bookkeeping_lock)
"""The condition that is notified when a thread releases the lock of a key."""
_holder_of_key: Final[dict[Hashable, tuple[int, int]]] = {}
"""By key: the thread that holds the lock, and how many times."""
_awaited_key_of_thread: Final[dict[int, Hashable]] = {}
"""By thread: the key of the lock that it waits for."""


@contextmanager
def load_lock(key: Hashable) -> Generator[bool, None, None]:
    """Hold the lock of a key during a block; the thread that holds it may take it again.

    Yields False, without waiting, if waiting would be a deadlock.
    """
    thread = get_ident()
    before = _hold_count(key, thread)
    try:
        yield _acquire(key, thread)
    finally:
        with _hold_bookkeeping_lock:
            if _hold_count(key, thread) > before:
                if before:
                    _holder_of_key[key] = thread, before
                else:
                    del _holder_of_key[key]
                    _lock_released_condition.notify_all()


def is_locked(key: Hashable) -> bool:
    """Return whether a thread holds the lock of a key."""
    return key in _holder_of_key


def _hold_count(key: Hashable, thread: int) -> int:
    """Return how many times a thread holds the lock of a key."""
    holder, times = _holder_of_key.get(key, (thread, 0))
    return times if holder == thread else 0


def _acquire(key: Hashable, thread: int) -> bool:
    """Wait for a lock and take it, or return False if that would be a deadlock."""
    with _hold_bookkeeping_lock:
        if _would_deadlock(key, thread):
            return False
        _awaited_key_of_thread[thread] = key
        try:
            while key in _holder_of_key and _holder_of_key[key][0] != thread:
                _lock_released_condition.wait()
        finally:
            del _awaited_key_of_thread[thread]
        _holder_of_key[key] = thread, _hold_count(key, thread) + 1
    return True


def _would_deadlock(key: Hashable, thread: int) -> bool:
    """Return whether the lock's holder waits for a thread, directly or through other threads."""
    first = True
    while key in _holder_of_key:
        holder = _holder_of_key[key][0]
        if holder == thread:
            return not first
        if holder not in _awaited_key_of_thread:
            return False
        key, first = _awaited_key_of_thread[holder], False
    return False


def _forget_other_threads() -> None:
    """Reset the locks in a forked process, where only the forking thread exists."""
    global _bookkeeping_lock, _hold_bookkeeping_lock, _lock_released_condition
    _bookkeeping_lock = RLock()
    _hold_bookkeeping_lock = hold_safely(_bookkeeping_lock)
    _lock_released_condition = Condition(_bookkeeping_lock)
    _awaited_key_of_thread.clear()
    for key in [key for key, (holder, _) in _holder_of_key.items() if holder != get_ident()]:
        del _holder_of_key[key]


if hasattr(os, "register_at_fork"):  # only the thread that forks lives on in the child
    os.register_at_fork(after_in_child=_forget_other_threads)
