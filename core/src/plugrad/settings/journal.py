"""The journal of what a plugin's code registers, step by step, so that it can be undone."""

from __future__ import annotations

import os
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from itertools import count
from threading import RLock
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from plugrad.interruptions import hold_safely

if TYPE_CHECKING:
    from collections.abc import Callable, Generator


registration_lock = hold_safely(RLock())
"""The lock held while a registry changes or the engine looks up a function, but never while foreign code runs."""


def _renew_lock() -> None:
    """Replace the lock in a forked process."""
    global registration_lock
    registration_lock = hold_safely(
        RLock()
    )  # another thread may have held the old one when the process was forked


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


class JournalEntry(NamedTuple):
    """One registration: its subject, whether it replaced another one, and functions that undo and redo it."""

    subject: tuple[str, ...]
    """What was registered: ``("kernel", name, backend)``, ``("gradient", name)`` or the like."""
    is_replacement: bool
    """Whether the registration replaced another one."""
    undo: Callable[[], None]
    """A function that takes the registration back."""
    redo: Callable[[], None]
    """A function that registers the subject again."""


class Journal:
    """The changes made within one `record_registrations` block."""

    def __init__(self, is_deferred: bool = False) -> None:
        """Start without a change."""
        self.changes: list[JournalEntry] = []
        self.is_deferred = is_deferred
        """Whether it has what was promised before, so that nothing is computed otherwise than without it."""
        self._is_undone = False

    def undo(self) -> None:
        """Undo all changes, the last one first; doing it twice is harmless."""
        if not self._is_undone:
            self._is_undone = True
            for change in reversed(self.changes):
                change.undo()

    def redo(self) -> None:
        """Redo the changes that were undone."""
        if self._is_undone:
            self._is_undone = False
            for change in self.changes:
                change.redo()

    def replacements(self) -> dict[tuple[str, ...], bool]:
        """Return for the subject of each registration whether it replaced another one."""
        first: dict[tuple[str, ...], bool] = {}
        for change in self.changes:
            first.setdefault(change.subject, change.is_replacement)
        return first


_open_journal: Final[ContextVar[Journal | None]] = ContextVar("plugrad_journal", default=None)
"""The journal of the innermost `record_registrations` block in this context, or None."""


latest_change_number: int = 0
"""The number of the latest change of a registry or a setting; see `plugrad.registry.generation`."""
_next_change_number: Final = count(1)
"""Gives each change a number of its own, by `next`."""


def record_change_number() -> None:
    """Return a number for a change; call it after the change is complete.

    Two threads at once may set their numbers in either order, but each number is set only once, so that what was
    computed before a change never has the number of a later one.
    """
    global latest_change_number
    latest_change_number = next(_next_change_number)


def record_change(
    subject: tuple[str, ...],
    undo: Callable[[], None],
    redo: Callable[[], None],
    *,
    is_replacement: bool = False,
) -> None:
    """Record how to undo and redo a change of a subject, before the change is made, if a journal is open."""
    journal = _open_journal.get()
    if journal is not None:
        journal.changes.append(JournalEntry(subject, is_replacement, undo, redo))


MISSING_VALUE: Final = object()
"""The placeholder for the value of a key that a table does not have."""


def put_table_entry(table: dict[Any, Any], key: object, value: object, entry_type: str) -> None:
    """Change an entry of a table, or remove it if `value` is `MISSING_VALUE`; `entry_type` names it in journals."""
    with registration_lock:
        before = table.get(key, MISSING_VALUE)
        redo = partial(exchange_table_entry, table, key, before, value)
        undo = partial(exchange_table_entry, table, key, value, before)
        record_change(
            (entry_type, str(key)), undo, redo, is_replacement=before is not MISSING_VALUE
        )
        redo()


def add_table_entry(table: dict[Any, Any], key: object, value: object, entry_type: str) -> bool:
    """Add an entry to a table, and return whether the key was free; `entry_type` names the entry in journals."""
    with registration_lock:
        if key in table:
            return False
        put_table_entry(table, key, value, entry_type)
        return True


def exchange_table_entry(
    table: dict[Any, Any], key: object, old_value: object, new_value: object
) -> None:
    """Replace an entry of a table by a new one, unless somebody else has changed it since."""
    with registration_lock:
        if table.get(key, MISSING_VALUE) is not old_value:
            return
        if new_value is MISSING_VALUE:
            table.pop(key, None)
        else:
            table[key] = new_value
    journal = _open_journal.get()
    if journal is None or not journal.is_deferred:
        record_change_number()


@contextmanager
def record_registrations(*, is_deferred: bool = False) -> Generator[Journal, None, None]:
    """Record what this thread registers within a block, and undo it if the block raises.

    What other threads register meanwhile stays. So does what a block inside this one has recorded:
    it belongs to another plugin, or has been completed.
    """
    journal = Journal(is_deferred)
    token = _open_journal.set(journal)
    try:
        yield journal
    except BaseException:
        _open_journal.reset(token)
        journal.undo()
        raise
    _open_journal.reset(token)
