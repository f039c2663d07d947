"""The lines of the user's program that call plugrad."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from plugrad.graph.graph import Line

if TYPE_CHECKING:
    from types import FrameType

_own: Final[dict[int, dict[str, Any]]] = {}
"""The globals of plugrad's and its plugins' modules by identity, which is what a trace compares hundreds of times."""


def _is_own(names: dict[str, Any]) -> bool:
    """Return whether globals are those of a module of plugrad, or of a plugin of it."""
    module = names.get("__name__", "")
    is_own = module == "plugrad" or module.startswith(("plugrad.", "plugrad_"))
    if is_own:
        _own[id(names)] = names
    return is_own


def user_line() -> Line:
    """Return the innermost line that is being run outside plugrad and its plugins."""
    frame: FrameType | None = sys._getframe(2)  # pyright: ignore[reportPrivateUsage] - `traceback` takes 100 times as long
    while frame is not None:
        names = frame.f_globals
        if id(names) not in _own and not _is_own(names):
            return Line(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_qualname)
        frame = frame.f_back
    return Line("<plugrad>", 0, "")


def asked_operation() -> str:
    """Return the function of plugrad that the user's line has called, such as ``__bool__``."""
    frame: FrameType | None = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]
    asked = ""
    while frame is not None:
        if not _is_own(frame.f_globals):
            return asked
        asked = frame.f_code.co_name
        frame = frame.f_back
    return asked
