"""The file in which an author says which tests must fail, and why."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

XFAIL_FILE: Final = "plugrad-xfail.toml"
"""The name of the xfail file in the folder from which tests run."""


class XfailEntries:
    """The entries of an xfail file: for each backend, patterns of tests with a reason.

    In a pattern ``*`` stands for anything, also for nothing. An entry whose test passes fails the
    run, and so does one that no test has.
    """

    def __init__(self, entries: Mapping[str, Mapping[str, str]]) -> None:
        """Take the entries of a file."""
        self._reasons = {
            (backend, pattern): reason
            for backend, patterns in entries.items()
            for pattern, reason in patterns.items()
        }
        self._patterns = {
            key: re.compile(".*".join(map(re.escape, key[1].split("*"))), re.DOTALL)
            for key in self._reasons
        }
        self._used: set[tuple[str, str]] = set()

    @classmethod
    def read(cls, path: Path, *, is_required: bool) -> XfailEntries:
        """Read the entries of a file; a file that is missing has none, or is an error if `is_required`.

        Raises:
            OSError: it cannot be read.
            ValueError: it is no TOML.
            TypeError: it does not consist of tables of strings.
        """
        import tomllib  # plugins are listed without it

        if not is_required and not path.exists():
            return cls({})
        tables: dict[str, Any] = tomllib.loads(path.read_text("utf-8"))
        for backend, table in tables.items():
            if not isinstance(table, dict):
                raise TypeError(f"{backend!r} must be a table: [{backend}]")
            for pattern, reason in cast("dict[str, object]", table).items():
                if not isinstance(reason, str) or not reason.strip():
                    raise TypeError(f"[{backend}] {pattern!r} must have a reason")
        return cls(tables)

    def reason(self, backend: str, name: str) -> str | None:
        """Return why the test called `name` must fail on the backend called `backend`, or None if it must pass."""
        found = None
        for key, pattern in self._patterns.items():
            if key[0] == backend and pattern.fullmatch(name):
                self._used.add(key)
                found = found or self._reasons[key]
        return found

    def unused(self, backends: set[str]) -> list[str]:
        """Return the entries for backends, given by name, that belong to no test."""
        return [
            f"[{backend}] {pattern!r}"
            for backend, pattern in self._patterns
            if backend in backends and (backend, pattern) not in self._used
        ]
