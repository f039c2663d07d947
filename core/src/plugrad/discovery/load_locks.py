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

_table_lock = RLock()
_hold_table_lock = hold_safely(_table_lock)
_lock_released = Condition(_table_lock)
_holders: Final[dict[Hashable, tuple[int, int]]] = {}
"""By key: the thread that holds the lock, and how many times."""
_waiting_for: Final[dict[int, Hashable]] = {}
"""By thread: the key of the lock that it waits for."""


@contextmanager
def load_lock(key: Hashable) -> Generator[bool, None, None]:
    """Hold the lock of a key during a block; the thread that holds it may take it again.

    Yields False, without waiting, if waiting would be a deadlock.
    """
    me = get_ident()
    before = _hold_count(key, me)
    try:
        yield _acquire(key, me)
    finally:
        with _hold_table_lock:
            if _hold_count(key, me) > before:
                if before:
                    _holders[key] = me, before
                else:
                    del _holders[key]
                    _lock_released.notify_all()


def is_locked(key: Hashable) -> bool:
    """Return whether a thread holds the lock of a key."""
    return key in _holders


def _hold_count(key: Hashable, thread: int) -> int:
    """Return how many times a thread holds the lock of a key."""
    holder, times = _holders.get(key, (thread, 0))
    return times if holder == thread else 0


def _acquire(key: Hashable, me: int) -> bool:
    """Wait for a lock and take it, or return False if that would be a deadlock."""
    with _hold_table_lock:
        if _would_deadlock(key, me):
            return False
        _waiting_for[me] = key
        try:
            while key in _holders and _holders[key][0] != me:
                _lock_released.wait()
        finally:
            del _waiting_for[me]
        _holders[key] = me, _hold_count(key, me) + 1
    return True


def _would_deadlock(key: Hashable, me: int) -> bool:
    """Return whether the lock's holder waits for the thread `me`, directly or through other threads."""
    first = True
    while key in _holders:
        holder = _holders[key][0]
        if holder == me:
            return not first
        if holder not in _waiting_for:
            return False
        key, first = _waiting_for[holder], False
    return False


def _forget_other_threads() -> None:
    global _table_lock, _hold_table_lock, _lock_released
    _table_lock = RLock()
    _hold_table_lock = hold_safely(_table_lock)
    _lock_released = Condition(_table_lock)
    _waiting_for.clear()
    for key in [key for key, (holder, _) in _holders.items() if holder != get_ident()]:
        del _holders[key]


if hasattr(os, "register_at_fork"):  # only the thread that forks lives on in the child
    os.register_at_fork(after_in_child=_forget_other_threads)
