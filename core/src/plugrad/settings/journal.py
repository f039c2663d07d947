"""What the code of a plugin registers, step by step, so that it can be taken back."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Generator


class Change(NamedTuple):
    """One step: what was registered, whether it replaced something, and how to take it back and to repeat it.

    `what` is ``("kernel", name, backend)``, ``("gradient", name)``, ``("contract", name)`` or the like.
    """

    what: tuple[str, ...]
    replaced: bool
    undo: Callable[[], None]
    redo: Callable[[], None]


class Journal:
    """The changes that were made inside one `recorded` block, by the code that it called."""

    def __init__(self) -> None:
        """Start without a change."""
        self.changes: list[Change] = []
        self._is_undone = False

    def undo(self) -> None:
        """Take everything back, the last change first; doing it twice is harmless."""
        if not self._is_undone:
            self._is_undone = True
            for change in reversed(self.changes):
                change.undo()

    def redo(self) -> None:
        """Repeat what was taken back."""
        if self._is_undone:
            self._is_undone = False
            for change in self.changes:
                change.redo()

    def registered(self) -> dict[tuple[str, ...], bool]:
        """Return what was registered, and whether something else was there before."""
        first: dict[tuple[str, ...], bool] = {}
        for change in self.changes:
            first.setdefault(change.what, change.replaced)
        return first


_journal: Final[ContextVar[Journal | None]] = ContextVar("plugrad_journal", default=None)


def note(
    what: tuple[str, ...],
    undo: Callable[[], None],
    redo: Callable[[], None],
    *,
    replaced: bool = False,
) -> None:
    """Remember a change that is about to be made, if a journal is open; to undo what was not done is harmless."""
    journal = _journal.get()
    if journal is not None:
        journal.changes.append(Change(what, replaced, undo, redo))


MISSING: Final = object()


def put(table: dict[Any, Any], key: object, value: object, kind: str) -> None:
    """Change an entry of a table, or remove it if `value` is `MISSING`, and note the change."""
    before = table.get(key, MISSING)
    redo = partial(exchange, table, key, before, value)
    undo = partial(exchange, table, key, value, before)
    note((kind, str(key)), undo, redo, replaced=before is not MISSING)
    redo()


def exchange(table: dict[Any, Any], key: object, old: object, new: object) -> None:
    """Change an entry, unless somebody else has changed it since."""
    if table.get(key, MISSING) is not old:
        return
    if new is MISSING:
        table.pop(key, None)
    else:
        table[key] = new


@contextmanager
def recorded() -> Generator[Journal, None, None]:
    """Record what this thread registers inside a block; if the block raises, take it back.

    What other threads register meanwhile stays. So does what a block inside this one has recorded:
    it belongs to another plugin, or has been completed.
    """
    journal = Journal()
    token = _journal.set(journal)
    try:
        yield journal
    except BaseException:
        _journal.reset(token)
        journal.undo()
        raise
    _journal.reset(token)
