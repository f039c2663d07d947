"""The rows of a table: one test runs all rows of a kernel on a backend, and reports each row that fails.

    @pytest.mark.rows("case", CASES, ids=str)
    def test_values(case, backend, rng): ...

The first word of a row's id, such as the kernel's name, is the id of the test. A test for each row took pytest
longer than the median row.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

RNG_SEED = 20240229


class TableRow(NamedTuple):
    """A row of a table: its id, and the arguments that it gives to the test."""

    name: str
    arguments: dict[str, Any]


def parametrize_by_rows(metafunc: pytest.Metafunc) -> None:
    """Parametrize a test that is marked with rows by the groups of rows whose ids begin with the same word."""
    marker = metafunc.definition.get_closest_marker("rows")
    if marker is None:
        return
    names, table = marker.args
    names = [names] if isinstance(names, str) else list(names)
    groups: dict[str, list[TableRow]] = {}
    for row in table_rows(names, table, marker.kwargs.get("ids")):
        word = re.search(r"[^\W\d]\w*", row.name)
        groups.setdefault(word[0] if word else "rows", []).append(row)
    chosen = metafunc.config.getoption("--row")
    values = [[row for row in rows if chosen in row.name] for rows in groups.values()]
    kept = [(name, rows) for name, rows in zip(groups, values, strict=True) if rows]
    metafunc.parametrize(
        names, [[rows] * len(names) for _, rows in kept], ids=[name for name, _ in kept]
    )


def require_chosen_rows(session: pytest.Session) -> None:
    """Stop if no collected test has a row with the letters that ``--row`` gives: the others would pass without it."""
    chosen = session.config.getoption("--row")
    if chosen and not any(rows_of(item) for item in session.items):
        raise pytest.UsageError(f"no row of the selected tests has {chosen!r} in its id")


def rows_of(item: pytest.Item) -> list[TableRow]:
    """Return the rows that a test runs: none if it is not marked with rows, or if no row is chosen."""
    marker = item.get_closest_marker("rows")
    if marker is None:
        return []
    names = marker.args[0]
    rows = item.callspec.params[names if isinstance(names, str) else names[0]]
    return rows if isinstance(rows, list) else []  # pytest marks the place of no row


def table_rows(
    names: list[str], table: Iterable[Any], describe: Callable[[Any], str] | None
) -> Iterable[TableRow]:
    """Yield the rows of a table; without a function that gives their ids, the values are the ids."""
    for values in table:
        given = [values] if len(names) == 1 else list(values)
        words = [(describe or describe_value)(value) for value in given]
        yield TableRow("-".join(words), dict(zip(names, given, strict=True)))


def describe_value(value: Any) -> str:
    return str(getattr(value, "__name__", value))


def run_rows(function: pytest.Function, call: Callable[[dict[str, Any]], None]) -> None:
    """Call a test on each of its rows, with a new generator of random numbers, and raise what failed.

    It is skipped if each row is. Otherwise its report says which rows are, and why.
    """
    arguments = {name: function.funcargs[name] for name in function._fixtureinfo.argnames}
    rows = rows_of(function)
    failures: list[BaseException] = []
    skipped: list[pytest.skip.Exception] = []
    for row in rows:
        if "rng" in arguments:
            arguments["rng"] = np.random.default_rng(RNG_SEED)
        try:
            call(arguments | row.arguments)
        except pytest.skip.Exception as reason:
            skipped.append(reason)
            function.add_report_section("call", "skipped row", f"{row.name}: {reason}")
        except (Exception, pytest.fail.Exception) as failure:
            failure.add_note(f"The row is {row.name!r}.")
            failures.append(failure)
    if len(failures) == 1:
        raise failures[0]
    if failures:
        raise BaseExceptionGroup(f"{len(failures)} of {len(rows)} rows fail", failures)
    if len(skipped) == len(rows):
        raise skipped[0]
