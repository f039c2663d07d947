"""The lines of the user's program that call plugrad."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from plugrad.graph.graph import SourceLine

if TYPE_CHECKING:
    from types import CodeType, FrameType

_globals_of_own_modules: Final[dict[int, dict[str, Any]]] = {}
"""The global variables of plugrad's and its plugins' modules, by identity, which is fast to look up in each frame."""
_cached_lines: Final[dict[tuple[int, int], tuple[SourceLine, CodeType]]] = {}
"""The source lines found so far, by identity of the code and by instruction, with the code, which stays alive."""
MAX_CACHED_LINES: Final = 4096
"""The most source lines that are cached."""


def _is_own_module(global_variables: dict[str, Any]) -> bool:
    """Return whether a module's global variables belong to plugrad or to one of its plugins."""
    module = global_variables.get("__name__", "")
    is_own = module == "plugrad" or module.startswith(("plugrad.", "plugrad_"))
    if is_own:
        _globals_of_own_modules[id(global_variables)] = global_variables
    return is_own


def find_user_line(depth: int = 2) -> SourceLine:
    """Return the innermost running line outside plugrad and its plugins; the first `depth` frames are inside."""
    own = _globals_of_own_modules
    frame: FrameType | None = sys._getframe(depth)  # pyright: ignore[reportPrivateUsage] - `traceback` takes 100 times as long
    while frame is not None:
        if id(frame.f_globals) not in own:
            code = frame.f_code
            known = _cached_lines.get((id(code), frame.f_lasti))
            if known is not None:
                return known[0]
            if not _is_own_module(frame.f_globals):
                return _cache_line(frame, code)
        frame = frame.f_back
    return SourceLine("<plugrad>", 0, "")


def _cache_line(frame: FrameType, code: CodeType) -> SourceLine:
    """Return the current line of a frame, and cache it."""
    if len(_cached_lines) >= MAX_CACHED_LINES:
        _cached_lines.clear()
    line = SourceLine(code.co_filename, frame.f_lineno, code.co_qualname)
    _cached_lines[id(code), frame.f_lasti] = line, code
    return line


def find_called_operation() -> str:
    """Return the plugrad function that the user's line called, such as ``__bool__``."""
    frame: FrameType | None = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]
    asked = ""
    while frame is not None:
        if not _is_own_module(frame.f_globals):
            return asked
        asked = frame.f_code.co_name
        frame = frame.f_back
    return asked
