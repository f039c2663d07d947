"""The lines of the user's program that call plugrad."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from plugrad.graph.graph import Line

if TYPE_CHECKING:
    from types import FrameType

_is_own: dict[str, bool] = {}
"""Whether a module is a part of plugrad or a plugin of it, by its name."""


def _note_module(name: str) -> bool:
    is_own = _is_own[name] = name == "plugrad" or name.startswith(("plugrad.", "plugrad_"))
    return is_own


def user_line() -> Line:
    """Return the innermost line that is being run outside plugrad and its plugins."""
    frame: FrameType | None = sys._getframe(2)  # pyright: ignore[reportPrivateUsage] - `traceback` takes 100 times as long
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        is_own = _is_own.get(name)
        if not (_note_module(name) if is_own is None else is_own):
            return Line(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_qualname)
        frame = frame.f_back
    return Line("<plugrad>", 0, "")


def asked_operation() -> str:
    """Return the function of plugrad that the user's line has called, such as ``__bool__``."""
    frame: FrameType | None = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]
    asked = ""
    while frame is not None:
        if not _note_module(frame.f_globals.get("__name__", "")):
            return asked
        asked = frame.f_code.co_name
        frame = frame.f_back
    return asked
