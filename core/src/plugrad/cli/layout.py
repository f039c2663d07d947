"""Text for terminals: tables and lists with aligned columns, 60 to 120 characters wide."""

from __future__ import annotations

import json
import re
import shutil
import sys
from textwrap import wrap
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

NARROW: Final = 12
"""The smallest width to which a column is reduced to fit the terminal."""
GAP: Final = "  "


def columns() -> int:
    """Return the width of the output: the terminal's, limited to 60 to 120, or 100 without a terminal."""
    return min(max(shutil.get_terminal_size((100, 24)).columns, 60), 120)


def say(text: str = "") -> None:
    """Print a line; control characters and what the terminal's encoding lacks are printed as escape sequences."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    text = re.sub(r"[^\S\n ]|[\x00-\x08\x0e-\x1f\x7f-\x9f]", _escaped, text)
    print(text.encode(encoding, "backslashreplace").decode(encoding))


def _escaped(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()


def say_json(value: object) -> None:
    """Print a value as JSON."""
    print(json.dumps(value, indent=2))


def title(text: str) -> None:
    """Print a heading, with an empty line before it unless it is the first one."""
    say(f"\n{text}" if _parts else text)
    _parts.append(text)


_parts: Final[list[str]] = []


def start() -> None:
    """Forget the headings of earlier commands in this process."""
    _parts.clear()


def paragraph(text: str, indent: str = GAP, hanging: str | None = None) -> None:
    """Print text wrapped to the terminal's width; existing line breaks are kept."""
    for line in text.splitlines() or [""]:
        for part in wrap(
            line,
            columns(),
            initial_indent=indent,
            subsequent_indent=indent if hanging is None else hanging,
            break_long_words=False,
            break_on_hyphens=False,
        ) or [""]:
            say(part)
        indent = indent if hanging is None else hanging


def verbatim(text: str, indent: str = GAP * 2) -> None:
    """Print text without wrapping it, such as a traceback."""
    for line in text.rstrip().splitlines():
        say(f"{indent}{line}".rstrip())


def pairs(rows: Iterable[tuple[str, str]], indent: str = GAP) -> None:
    """Print names and values in two columns; a row with an empty name continues the row before it."""
    rows = list(rows)
    width = max((len(name) for name, _ in rows), default=0)
    for name, text in rows:
        start = f"{indent}{name:{width}}{GAP}"
        paragraph(text or "–", start, " " * len(start))


def table(header: Sequence[str], rows: Iterable[Sequence[str]], indent: str = GAP) -> None:
    """Print rows in columns under a header; the cells of the widest columns are wrapped if necessary."""
    cells = [list(header), *(list(row) for row in rows)]
    widths = _fitted([max(len(row[i]) for row in cells) for i in range(len(header))], len(indent))
    for row in cells:
        lines = [
            wrap(cell, width, break_on_hyphens=False) or [""]
            for cell, width in zip(row, widths, strict=True)
        ]
        for i in range(max(map(len, lines))):
            parts = [
                f"{line[i] if i < len(line) else '':{width}}"
                for line, width in zip(lines, widths, strict=True)
            ]
            say(f"{indent}{GAP.join(parts)}".rstrip())


def _fitted(widths: list[int], indent: int) -> list[int]:
    """Return widths that fit the terminal; the widest column is reduced first."""
    room = columns() - indent - len(GAP) * (len(widths) - 1)
    while sum(widths) > room and max(widths) > NARROW:
        widest = widths.index(max(widths))
        second = max([w for i, w in enumerate(widths) if i != widest], default=NARROW)
        excess = sum(widths) - room
        widths[widest] -= max(1, min(excess, widths[widest] - max(second, NARROW)))
    return widths


def count(number: int, noun: str) -> str:
    """Return ``"1 device"`` or ``"2 devices"``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
