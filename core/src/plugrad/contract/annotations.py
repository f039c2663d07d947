"""Whether a value fits an annotation: bools, numbers, strings, choices, tuples of these, and axes."""

from __future__ import annotations

from numbers import Complex, Real
from sys import float_info
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

import numpy as np

from plugrad.types.dtype import DType
from plugrad.types.shapes import axes_of, axis_of


class OfFirstInput(NamedTuple):
    """Marks an attribute as an axis of the first input, or of a result that has `more` additional axes."""

    more: int = 0


Axis = Annotated[int, OfFirstInput()]
"""An axis of the first input. Implementations receive it as a nonnegative index."""
NewAxis = Annotated[int, OfFirstInput(more=1)]
"""An axis of a result that has one more axis than the first input."""
Axes = Annotated[tuple[int, ...], OfFirstInput()]
"""Several axes of the first input, as sorted nonnegative indices."""


def settled(value: Any, annotation: Any, rank: int, name: str) -> Any:
    """Return one or several axes as nonnegative indices, and any other value unchanged.

    Raises:
        AxisError: an input with `rank` axes does not have the axis.
    """
    if get_origin(annotation) is not Annotated:
        return value
    settle: Any = axes_of if isinstance(value, tuple) else axis_of
    return settle(value, rank + annotation.__metadata__[0].more, name=name)


_WORDS = {
    bool: "True or False",
    int: "an integer",
    float: "a number",
    complex: "a number",
    str: "a string",
    DType: "a dtype",
    NoneType: "None",
}


def fits(value: Any, annotation: Any) -> bool:
    """Return whether `value` fits `annotation`; an annotation of an unknown form accepts every value.

    >>> fits((1, 2), tuple[int, ...]), fits(1.5, int), fits("full", Literal["same", "valid"])
    (True, False, False)
    """
    origin = get_origin(annotation)
    if origin is Annotated:
        return fits(value, annotation.__origin__)
    if origin is tuple:
        return isinstance(value, tuple) and _parts_fit(value, get_args(annotation))
    if origin is Literal:
        return any(isinstance(value, type(c)) and value == c for c in get_args(annotation))
    if origin in (Union, UnionType):
        return any(fits(value, part) for part in get_args(annotation))
    if annotation is bool:
        return isinstance(value, bool | np.bool_)
    if isinstance(value, int) and abs(value) > float_info.max:
        return False  # no dtype can hold it
    if annotation is int:
        return isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64)
    if annotation is float or annotation is complex:
        return isinstance(value, Real if annotation is float else Complex)
    return not (annotation in _WORDS or _is_record(annotation)) or isinstance(value, annotation)


def _is_record(annotation: Any) -> bool:
    """Return whether an annotation is a class of named tuples, such as `Window`."""
    return isinstance(annotation, type) and issubclass(annotation, tuple)


def _parts_fit(values: tuple[Any, ...], annotations: tuple[Any, ...]) -> bool:
    if annotations[-1] is Ellipsis:
        return all(fits(value, annotations[0]) for value in values)
    return len(values) == len(annotations) and all(map(fits, values, annotations))


def described(annotation: Any) -> str:
    """Return a description of an annotation in words.

    >>> described(Literal["same", "valid"] | tuple[int, ...])
    "'same', 'valid' or a tuple in which each part is an integer"
    """
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return described(annotation.__origin__)
    if origin is tuple:
        if parts[-1] is Ellipsis:
            return f"a tuple in which each part is {described(parts[0])}"
        return f"a tuple of {len(parts)} parts, {', '.join(dict.fromkeys(map(described, parts)))}"
    *others, last = dict.fromkeys(_alternatives(annotation))
    return f"{', '.join(others)} or {last}" if others else last


def _alternatives(annotation: Any) -> list[str]:
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return [repr(part) for part in parts]
    if origin in (Union, UnionType):
        return [word for part in parts for word in _alternatives(part)]
    if _is_record(annotation) and not parts:
        return [f"a {annotation.__name__}"]
    return [described(annotation) if parts else _WORDS.get(annotation, str(annotation))]
