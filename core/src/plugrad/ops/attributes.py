"""Checks of arguments that are not tensors: integers and other numbers, flags, choices."""

from __future__ import annotations

from math import isfinite, isnan
from numbers import Real
from operator import index
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from plugrad.errors import ArgumentError, ArgumentValueError, ShapeError, short_repr
from plugrad.tensor.tensor import Tensor
from plugrad.types.arguments import check_flag as check_flag
from plugrad.types.shapes import MAX_ITERABLE_MEMBERS, list_members

if TYPE_CHECKING:
    from collections.abc import Sequence


def check_integer(
    value: Any, op: str, argument_name: str, *, least: int | None = None, most: int | None = None
) -> int:
    """Return the argument if it is an integer from `least` to `most`, or raise.

    Raises:
        ArgumentError: it is not an integer.
        ArgumentValueError: it is out of range.
    """
    try:
        number = index(value)
    except (TypeError, ShapeError):  # a tensor with several elements is the second
        raise ArgumentError(
            f"{op}: {argument_name}={short_repr(value)} must be an integer"
        ) from None
    return _check_bounds(number, op, argument_name, least, most)


def check_real(
    value: Any,
    op: str,
    argument_name: str,
    *,
    least: float | None = None,
    most: float | None = None,
) -> float:
    """Return the argument if it is a real number from `least` to `most`, or raise.

    Raises:
        ArgumentError: it is not a real number.
        ArgumentValueError: it is NaN, or out of range.
    """
    number = check_number(value, op, argument_name)
    if isnan(number):
        raise ArgumentValueError(f"{op}: {argument_name}={number} must be a number")
    return _check_bounds(number, op, argument_name, least, most)


def check_finite(
    value: Any,
    op: str,
    argument_name: str,
    *,
    least: float | None = None,
    most: float | None = None,
) -> float:
    """Return the argument if it is a finite number from `least` to `most`, or raise; see `check_real`.

    Raises:
        ArgumentError: it is not a real number.
        ArgumentValueError: it is infinite, NaN or out of range.
    """
    number = check_number(value, op, argument_name)
    if not isfinite(number):
        raise ArgumentValueError(f"{op}: {argument_name}={number} must be finite")
    return _check_bounds(number, op, argument_name, least, most)


def check_number(value: Any, op: str, argument_name: str) -> float:
    """Return the argument if it is a number, which may be NaN, or raise.

    This is for numbers that are stored and not computed with. A tensor is refused, because no
    gradient would reach it.

    Raises:
        ArgumentError: it is not a real number.
    """
    if type(value) is float:
        return value
    if type(value) is int or isinstance(value, _REAL_TYPES):
        try:
            return float(value)
        except (OverflowError, TypeError):  # more than a float holds; a span of time
            pass
    remedy = "; float() reads a tensor" if isinstance(value, Tensor) else ""
    raise ArgumentError(f"{op}: {argument_name}={short_repr(value)} must be a number{remedy}")


_REAL_TYPES: Final = (Real, np.bool_)
"""The types of real numbers, Python's and NumPy's, including bools."""

LIST_TYPES: Final = frozenset({list, tuple})
"""The types of the sequences that programs mostly pass."""


def as_list(values: Any, op: str, argument_name: str) -> list[Any]:
    """Return the members of a sequence as a list, or raise if the argument is not a sequence.

    Raises:
        ArgumentError: it is not a sequence.
    """
    if (
        type(values) in LIST_TYPES and len(values) <= MAX_ITERABLE_MEMBERS
    ):  # what programs mostly pass
        return list(values)
    if is_sequence(values):
        return to_list(values)
    raise ArgumentError(f"{op}: {argument_name}={short_repr(values)} must be a list")


def to_list(value: Any) -> list[Any]:
    """Return the members of a sequence as a list; a single value becomes a list of one.

    Raises:
        ArgumentError: it is an iterator that does not end, or another thing that only seems to be iterable.
    """
    if not is_sequence(value):
        return [value]
    try:
        return list_members(value)
    except TypeError:
        raise ArgumentError(
            f"{short_repr(value)} must be a list; it is not one, or has more than {MAX_ITERABLE_MEMBERS} members"
        ) from None


def is_sequence(value: Any) -> bool:
    """Return whether a value is a sequence, and not a single number or a string."""
    return (
        hasattr(value, "__iter__")
        and not isinstance(value, str | bytes | dict | set | frozenset)
        and getattr(value, "ndim", 1) != 0  # an array without axes is not iterable
    )


def check_choice(value: Any, choices: Sequence[str], op: str, argument_name: str) -> str:
    """Return the value if it is one of the allowed strings, or raise.

    Raises:
        ArgumentValueError: it is none of them.
    """
    if isinstance(value, str) and value in choices:
        return value
    *others, last = map(repr, choices)
    raise ArgumentValueError(
        f"{op}: {argument_name}={short_repr(value)} must be {', '.join(others)} or {last}"
    )


def _check_bounds(number: Any, op: str, argument_name: str, least: Any, most: Any) -> Any:
    """Return the number if it is from `least` to `most`, where these are given, or raise."""
    if (least is None or number >= least) and (most is None or number <= most):
        return number
    if most is None:
        wanted = f"{least} or more"
    elif least is None:
        wanted = f"{most} or less"
    else:
        wanted = f"between {least} and {most}"
    raise ArgumentValueError(f"{op}: {argument_name}={short_repr(number)} must be {wanted}")
