"""Checks of arguments, whose errors name the layer, the argument, its value and what is expected."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import plugrad
from plugrad.extend import ArgumentError, ArgumentValueError

if TYPE_CHECKING:
    from collections.abc import Iterable

SizeOrSizes: TypeAlias = int | Sequence[int]
"""One number for all spatial axes, or one for each."""


def check_integer(owner: str, name: str, value: Any, least: int = 0) -> int:
    """Return an argument of a layer or function (the owner) if it is an integer of at least `least`, or raise.

    Raises:
        ArgumentError: the value is not an integer.
        ArgumentValueError: it is less than `least`.
    """
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None:
        raise ArgumentError(f"{owner}: {name}={value!r:.80} must be an integer")
    if number < least:
        raise ArgumentValueError(f"{owner}: {name}={number} must be at least {least}")
    return number


def check_number(
    owner: str, name: str, value: Any, least: float = -math.inf, below: float = math.inf
) -> float:
    """Return an argument of a layer or function (the owner) if it is a finite number in ``[least, below)``, or raise.

    Raises:
        ArgumentError: the value is not a number.
        ArgumentValueError: it is out of range.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ArgumentError(f"{owner}: {name}={value!r:.80} must be a number")
    if not least <= value < below or not math.isfinite(value):
        limit = f", at least {least}" if least > -math.inf else ""
        limit += f" and less than {below}" if below < math.inf else ""
        raise ArgumentValueError(f"{owner}: {name}={value} must be a finite number{limit}")
    return float(value)


def check_flag(owner: str, name: str, value: Any) -> bool:
    """Return an argument of a layer or function (the owner) if it is a bool, or raise.

    Raises:
        ArgumentError: the value is something else.
    """
    if not isinstance(value, bool):
        raise ArgumentError(f"{owner}: {name}={value!r:.80} must be True or False")
    return value


def check_function(owner: str, name: str, value: Any, example: str = "") -> None:
    """Raise unless an argument of a layer or function (the owner) is a function; the error names an example.

    Raises:
        ArgumentError: it is not.
    """
    if not callable(value):
        is_named = isinstance(value, str) and callable(getattr(plugrad, value, None))
        remedy = f", such as {example}" if example else ""
        remedy = f"; write plugrad.{value}" if is_named else remedy
        raise ArgumentError(f"{owner}: {name}={value!r:.80} must be a function{remedy}")


def check_integers(owner: str, name: str, value: Any, least: int = 0) -> tuple[int, ...]:
    """Return an owner's argument as a tuple, or raise unless it is a sequence of integers of at least `least`.

    Raises:
        ArgumentError: the value is not a sequence of integers.
        ArgumentValueError: one is less than `least`.
    """
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        raise ArgumentError(f"{owner}: {name}={value!r:.80} must be a tuple of integers")
    return tuple(check_integer(owner, name, size, least) for size in value)  # pyright: ignore[reportUnknownVariableType]


def check_sizes(
    owner: str, name: str, value: Any, count: int, *, least: int = 1
) -> tuple[int, ...]:
    """Return an owner's argument as `count` integers of at least `least`, given one for all or one for each.

    Raises:
        ArgumentError: the value is neither.
        ArgumentValueError: it has another length, or a size is too small.
    """
    given: Any = value if isinstance(value, Sequence) else (value,) * count  # pyright: ignore[reportUnknownVariableType]
    found = check_integers(owner, name, given, least)
    if len(found) != count:
        raise ArgumentValueError(
            f"{owner}: {name}={found} must be one number, or one for each of {count} spatial axes"
        )
    return found


def check_choice(owner: str, name: str, value: Any, choices: Iterable[str]) -> None:
    """Raise unless an argument of a layer or function (the owner) is one of some strings.

    Raises:
        ArgumentValueError: it is not.
    """
    choices = tuple(choices)
    if value not in choices:
        allowed = " or ".join(map(repr, choices))
        is_number = name == "padding" and isinstance(value, int | tuple)
        remedy = (
            "; a layer such as nn.ZeroPadding2D(1) before it pads by numbers" if is_number else ""
        )
        raise ArgumentValueError(f"{owner}: {name}={value!r:.80} must be {allowed}{remedy}")
