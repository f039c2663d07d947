"""What ops do with arguments that are not tensors: whole and other numbers, flags, choices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from math import isfinite, isnan
from numbers import Real
from operator import index
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from plugrad.dtype import REAL
from plugrad.errors import ArgumentError, ArgumentValueError, ShapeError
from plugrad.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence


def whole(
    value: Any, op: str, name: str, *, least: int | None = None, most: int | None = None
) -> int:
    """Return a whole number from `least` to `most`.

    Raises:
        ArgumentError: it is not a whole number.
        ArgumentValueError: it is out of range.
    """
    try:
        number = index(value)
    except (TypeError, ShapeError):  # a tensor with several elements is the second
        raise ArgumentError(f"{op}: {name}={value!r} must be a whole number") from None
    return _within(number, op, name, least, most)


def real(
    value: Any, op: str, name: str, *, least: float | None = None, most: float | None = None
) -> float:
    """Return a number from `least` to `most`; a tensor with one element is read.

    Raises:
        ArgumentError: it is not a real number.
        ArgumentValueError: it is NaN, or out of range.
    """
    number = finite_or_not(value, op, name)
    if isnan(number):
        raise ArgumentValueError(f"{op}: {name}={number} must be a number")
    return _within(number, op, name, least, most)


def finite(
    value: Any, op: str, name: str, *, least: float | None = None, most: float | None = None
) -> float:
    """Return a finite number from `least` to `most`; see `real`.

    Raises:
        ArgumentError: it is not a real number.
        ArgumentValueError: it is infinite, NaN or out of range.
    """
    number = finite_or_not(value, op, name)
    if not isfinite(number):
        raise ArgumentValueError(f"{op}: {name}={number} must be finite")
    return _within(number, op, name, least, most)


def finite_or_not(value: Any, op: str, name: str) -> float:
    """Return a number, which may be NaN: one that is put somewhere, and not computed with.

    A whole number stays one.

    Raises:
        ArgumentError: it is not a real number.
    """
    is_read = isinstance(value, Tensor) and value.dtype in REAL and value.size == 1
    if is_read or isinstance(value, Real | np.bool_):
        try:
            number = float(value)
            return index(value) if hasattr(value, "__index__") else number
        except TypeError:  # a floating tensor is no index
            return float(value)
        except OverflowError:  # more than a float holds
            pass
    raise ArgumentError(f"{op}: {name}={value!r} must be a number")


def flag(value: Any, op: str, name: str) -> bool:
    """Return True or False.

    Raises:
        ArgumentError: it is neither; 1 and 0 will do.
    """
    if isinstance(value, bool | np.bool_) or (isinstance(value, int) and value in (0, 1)):
        return bool(value)
    raise ArgumentError(f"{op}: {name}={value!r} must be True or False")


def listed(values: Any, op: str, name: str) -> list[Any]:
    """Return the members of a sequence.

    Raises:
        ArgumentError: it is none.
    """
    if is_several(values):
        return list(values)
    raise ArgumentError(f"{op}: {name}={values!r} must be a list")


def is_several(value: Any) -> TypeGuard[Iterable[Any]]:
    """Return whether a value is a sequence, and not a lone number or a text."""
    no_sequence = str | bytes | Mapping | Set
    return (
        isinstance(value, Iterable)
        and not isinstance(value, no_sequence)
        and getattr(value, "ndim", 1) != 0  # an array without axes does not iterate
    )


def chosen(value: Any, choices: Sequence[str], op: str, name: str) -> str:
    """Return one of some strings.

    Raises:
        ArgumentValueError: it is none of them.
    """
    if isinstance(value, str) and value in choices:
        return value
    *others, last = map(repr, choices)
    raise ArgumentValueError(f"{op}: {name}={value!r} must be {', '.join(others)} or {last}")


def _within(number: Any, op: str, name: str, least: Any, most: Any) -> Any:
    if (least is None or number >= least) and (most is None or number <= most):
        return number
    if most is None:
        wanted = f"{least} or more"
    elif least is None:
        wanted = f"{most} or less"
    else:
        wanted = f"between {least} and {most}"
    raise ArgumentValueError(f"{op}: {name}={number} must be {wanted}")
