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
"""By another word that somebody may try, the command that is meant."""


def choice_type(choices: Collection[str]) -> Callable[[str], str]:
    """Return a type for argparse, for an argument that must be one of `choices`."""

    def parse_choice(text: str) -> str:
        if text not in choices:
            raise ArgumentTypeError(
                f"{text!r} must be one of {', '.join(choices)}{suggest_similar_name(text, choices)}"
            )
        return text

    return parse_choice


def raise_unknown_command(command: str, command_names: Collection[str]) -> NoReturn:
    """Raise the error for a command that does not exist."""
    meant = suggest_similar_name(COMMAND_SYNONYMS.get(command, command), command_names)
    raise ArgumentValueError(
        f"no command called {command!r}{meant}; `plugrad --help` lists the commands"
    )


def fail_for_unknown_argument(parser: ArgumentParser, text: str) -> NoReturn:
    """End the command for an argument that its parser has left over."""
    flag = text.partition("=")[0]
    known = re.findall(r"(?<!\w)--?[a-z][a-z-]*", parser.format_usage())
    if flag in known:
        parser.error(f"{flag} must come after the command")
    parser.error(f"unknown argument {text!r}{suggest_similar_name(flag, known)}")
