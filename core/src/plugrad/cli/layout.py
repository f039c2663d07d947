"""Text for terminals: tables and lists with aligned columns, 60 to 120 characters wide, in colour on a terminal."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from textwrap import wrap
from typing import TYPE_CHECKING, Final

from plugrad.errors import escape_control_characters

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MIN_COLUMN_WIDTH: Final = 12
"""The smallest width to which a column is reduced to fit the terminal."""
INDENT: Final = "  "
"""The indentation of text under a heading."""
BOLD: Final = "1"
"""A style of text, as the code of an ANSI escape sequence."""
FAINT: Final = "2"
"""The style of faint text."""
RED: Final = "31"
GREEN: Final = "32"
YELLOW: Final = "33"
COLOUR_OF_STATUS: Final = {
    "active": GREEN,
    "ok": GREEN,
    "note": YELLOW,
    "blocked": YELLOW,
    "FAILS": RED,
    "failed": RED,
    "conflict": RED,
    "incompatible": RED,
}
"""The colours of words that fill a cell of a table, as codes of ANSI escape sequences."""


def output_width() -> int:
    """Return the width of the output: the terminal's, limited to 60 to 120, or 100 without a terminal."""
    return min(max(shutil.get_terminal_size((100, 24)).columns, 60), 120)


def uses_colours() -> bool:
    """Return whether output has colours: ``NO_COLOR`` and ``FORCE_COLOR`` decide, then whether a terminal shows it."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def print_line(text: str = "", style: str = "") -> None:
    """Print a line; control characters and what the terminal's encoding lacks are printed as escape sequences."""
    print(_apply_style(_escape_unprintable(text), style))


def _escape_unprintable(text: str) -> str:
    """Return a text with its unprintable characters replaced by escape sequences."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    text = re.sub(r"[^\S\n ]", _escape_matched_character, escape_control_characters(text))
    return text.encode(encoding, "backslashreplace").decode(encoding)


def _apply_style(text: str, style: str) -> str:
    """Return text in a style, if output has colours."""
    return f"\x1b[{style}m{text}\x1b[0m" if style and text and uses_colours() else text


def _escape_matched_character(match: re.Match[str]) -> str:
    """Return the escape sequence of a matched character."""
    return match[0].encode("unicode_escape").decode()


def print_json(value: object) -> None:
    """Print a value as JSON."""
    print(json.dumps(value, indent=2))


def print_heading(text: str, style: str = BOLD) -> None:
    """Print a heading, with an empty line before it unless it is the first one."""
    if _printed_headings:
        print_line()
    print_line(text, style)
    _printed_headings.append(text)


_printed_headings: Final[list[str]] = []
"""The headings printed so far."""


def forget_headings() -> None:
    """Forget the headings of earlier commands in this process."""
    _printed_headings.clear()


def print_paragraph(text: str, indent: str = INDENT, hanging_indent: str | None = None) -> None:
    """Print text wrapped to the terminal's width, with a string of spaces as indent; existing line breaks are kept."""
    for line in text.splitlines() or [""]:
        for part in wrap(
            line,
            output_width(),
            initial_indent=indent,
            subsequent_indent=indent if hanging_indent is None else hanging_indent,
            break_long_words=False,
            break_on_hyphens=False,
        ) or [""]:
            print_line(part)
        indent = indent if hanging_indent is None else hanging_indent


def print_verbatim(text: str, indent: str = INDENT * 2) -> None:
    """Print text such as a traceback without wrapping it, with a string of spaces before each line."""
    for line in text.rstrip().splitlines():
        print_line(f"{indent}{line}".rstrip())


def print_pairs(rows: Iterable[tuple[str, str]], indent: str = INDENT) -> None:
    """Print names and values in two columns; a row with an empty name continues the value before it."""
    rows = list(rows)
    width = max((len(name) for name, _ in rows), default=0)
    for name, text in rows:
        start = f"{indent}{name:{width}}{INDENT}"
        print_paragraph(text or "–", start, " " * len(start))


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]], indent: str = INDENT) -> None:
    """Print rows in columns under a header; the cells of the widest columns are wrapped if necessary.

    A word is never split, because it may be a name: what does not fit is wider than the terminal.
    """
    cells = [list(map(_escape_unprintable, row)) for row in (header, *rows)]
    widths = _fit_widths(list(zip(*cells, strict=True)), len(indent))
    for row in cells:
        styles = (
            [FAINT] * len(row)
            if row is cells[0]
            else [COLOUR_OF_STATUS.get(cell, "") for cell in row]
        )
        lines = [wrap_text(cell, width) for cell, width in zip(row, widths, strict=True)]
        for i in range(max(map(len, lines))):
            parts = [line[i] if i < len(line) else "" for line in lines]
            padded = [
                _apply_style(part, style) + " " * (width - len(part))
                for part, style, width in zip(parts, styles, widths, strict=True)
            ]
            print(f"{indent}{INDENT.join(padded)}".rstrip())


def wrap_text(text: str, width: int) -> list[str]:
    """Return the lines of a text; they break only between words, because a word may be a name."""
    return wrap(text, width, break_long_words=False, break_on_hyphens=False) or [""]


def _fit_widths(cells_by_column: list[tuple[str, ...]], indent: int) -> list[int]:
    """Return widths that fit the terminal; the widest column is reduced first, no further than to its longest word.

    The last column may be narrower than its longest word, which then sticks out at the end of the line.
    """
    widths = [max(map(len, column)) for column in cells_by_column]
    words = [max(map(len, " ".join(column).split()), default=0) for column in cells_by_column[:-1]]
    least = [max(MIN_COLUMN_WIDTH, longest) for longest in [*words, 0]]
    excess = sum(widths) - output_width() + indent + len(INDENT) * (len(widths) - 1)
    while excess > 0 and (spare := [i for i, w in enumerate(widths) if w > least[i]]):
        widths[max(spare, key=widths.__getitem__)] -= 1
        excess -= 1
    return widths


def format_count(count: int, noun: str) -> str:
    """Return ``"1 device"`` or ``"2 devices"``."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
