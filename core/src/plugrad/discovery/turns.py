"""Turns: one thread at a time runs the code of a plugin, and no thread waits for itself.

Each plugin has a turn of its own, so that one that takes long to import or to open stops only those who
want the same one. Plugins may use plugrad while they are loaded, and so want the turn of another plugin.
If two threads would wait for each other, the second one is told instead.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from threading import Condition, get_ident
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Generator, Hashable

_changed = Condition()
_held: Final[dict[Hashable, tuple[int, int]]] = {}
"""By turn: the thread that has it, and how many times it has taken it."""
_waiting: Final[dict[int, Hashable]] = {}
"""By thread: the turn that it waits for."""


@contextmanager
def turn(key: Hashable) -> Generator[bool, None, None]:
    """Run a block when no other thread is inside a block with the same key; the same thread may be.

    Gives False, without waiting, if the thread inside waits for this thread, directly or not.
    """
    me = get_ident()
    before = _times(key, me)
    try:
        yield _taken(key, me)
    finally:
        with _changed:
            if _times(key, me) > before:
                if before:
                    _held[key] = me, before
                else:
                    del _held[key]
                    _changed.notify_all()


def is_taken(key: Hashable) -> bool:
    """Return whether a thread is inside a block with this key."""
    return key in _held


def _times(key: Hashable, thread: int) -> int:
    """Return how many times a thread has taken a turn."""
    holder, times = _held.get(key, (thread, 0))
    return times if holder == thread else 0


def _taken(key: Hashable, me: int) -> bool:
    """Wait for a turn and take it, or return False if that would never end."""
    with _changed:
        if _is_circle(key, me):
            return False
        _waiting[me] = key
        try:
            while key in _held and _held[key][0] != me:
                _changed.wait()
        finally:
            del _waiting[me]
        _held[key] = me, _times(key, me) + 1
    return True


def _is_circle(key: Hashable, me: int) -> bool:
    """Return whether another thread has the turn, and waits for `me`, directly or not."""
    first = True
    while key in _held:
        holder = _held[key][0]
        if holder == me:
            return not first
        if holder not in _waiting:
            return False
        key, first = _waiting[holder], False
    return False


def _forget_other_threads() -> None:
    global _changed
    _changed = Condition()
    _waiting.clear()
    for key in [key for key, (holder, _) in _held.items() if holder != get_ident()]:
        del _held[key]


if hasattr(os, "register_at_fork"):  # only the thread that forks lives on in the child
    os.register_at_fork(after_in_child=_forget_other_threads)
