"""Error messages of the command for unknown flags, values and commands."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from typing import TYPE_CHECKING, Final, NoReturn

from plugrad.errors import ArgumentValueError, suggest_similar_name

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Callable, Collection


COMMAND_SYNONYMS: Final = {
    "backends": "list",
    "check": "doctor",
    "plugins": "list",
    "settings": "config",
    "show": "info",
    "status": "list",
    "test": "conformance",
}
"""Commands for what somebody may ask for by words that are not similar to theirs."""


def choice_type(known: Collection[str]) -> Callable[[str], str]:
    """Return a type for an argument that takes one of a few words."""

    def parse_choice(text: str) -> str:
        if text not in known:
            raise ArgumentTypeError(
                f"{text!r} must be one of {', '.join(known)}{suggest_similar_name(text, known)}"
            )
        return text

    return parse_choice


def raise_unknown_command(name: str, known: Collection[str]) -> NoReturn:
    """Raise the error for a command that does not exist."""
    meant = suggest_similar_name(COMMAND_SYNONYMS.get(name, name), known)
    raise ArgumentValueError(
        f"no command called {name!r}{meant}; `plugrad --help` lists the commands"
    )


def fail_for_unknown_argument(parser: ArgumentParser, text: str) -> NoReturn:
    """End the command for an argument that its parser has left over."""
    flag = text.partition("=")[0]
    known = re.findall(r"(?<!\w)--?[a-z][a-z-]*", parser.format_usage())
    if flag in known:
        parser.error(f"{flag} must come after the command")
    parser.error(f"unknown argument {text!r}{suggest_similar_name(flag, known)}")
