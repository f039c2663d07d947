"""Checks of arguments that functions of every layer make: names, flags and functions."""

from __future__ import annotations

from os import fspath
from typing import Any

from plugrad.errors import ArgumentError, ArgumentValueError, shown


def text(value: object, op: str, name: str) -> str:
    """Return a string.

    Raises:
        ArgumentError: it is not a string.
    """
    if isinstance(value, str):
        return value
    raise ArgumentError(f"{op}: {name}={shown(value)} must be a string")


def flag(value: Any, op: str, name: str) -> bool:
    """Return True or False.

    Raises:
        ArgumentError: it is neither of them; 1 and 0 are accepted as well.
    """
    if value is True or value is False:
        return value
    # NumPy's bool is recognized by name, because this module does without NumPy.
    kind: Any = type(value)  # pyright: ignore[reportUnknownVariableType]
    is_numpys = kind.__module__ == "numpy" and kind.__name__ in ("bool", "bool_")
    if is_numpys or (isinstance(value, int) and value in (0, 1)):
        return bool(value)
    raise ArgumentError(f"{op}: {name}={shown(value)} must be True or False")


def check_callable(where: str, function: object) -> None:
    """Raise unless `function` can be called.

    Raises:
        ArgumentError: it cannot.
    """
    if not callable(function):
        raise ArgumentError(f"{where} takes a function, not {type(function).__name__}")


def path_ending_in(endings: tuple[str, ...], value: Any, op: str, name: str) -> str:
    """Return the path of a file whose name says its format.

    Raises:
        ArgumentError: it is not a path.
        ArgumentValueError: it does not have one of the endings.
    """
    path = fspath(value) if isinstance(value, str) or hasattr(value, "__fspath__") else None
    if not isinstance(path, str):
        raise ArgumentError(
            f"{op}: {name}={shown(value)} must be the path of a file, a string or a Path"
        )
    if not path.lower().endswith(endings):
        raise ArgumentValueError(
            f"{op}: {name}={path!r} must end in {' or '.join(endings)}, which is what can be written"
        )
    return path
