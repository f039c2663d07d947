"""The comments of WGSL: blocks may contain blocks, and a line ends at any line break of Unicode."""

from __future__ import annotations

import re
from typing import Final

_COMMENT_START_PATTERN: Final = re.compile(r"//[^\n\v\f\r\x85\u2028\u2029]*|/\*")
"""Matches a comment up to the end of its line, or the start of a block comment."""
_BLOCK_MARK_PATTERN: Final = re.compile(r"/\*|\*/")
"""Matches the start or the end of a block comment."""


def remove_comments(source: str) -> str:
    """Return WGSL without its comments; each statement stays in its line.

    >>> remove_comments("a /* b /* c */ d */ + e // f")
    'a   + e  '
    """
    kept: list[str] = []
    at = 0
    while start := _COMMENT_START_PATTERN.search(source, at):
        end, depth = start.end(), int(start[0] == "/*")
        while depth and (mark := _BLOCK_MARK_PATTERN.search(source, end)):
            end, depth = mark.end(), depth + (1 if mark[0] == "/*" else -1)
        if depth:  # the compiler says that the end is missing
            break
        kept += [source[at : start.start()], "\n" * source.count("\n", start.start(), end) or " "]
        at = end
    return "".join([*kept, source[at:]])
