"""Whether a value fits an annotation: bools, numbers, strings, choices, tuples of these, and axes."""

from __future__ import annotations

from numbers import Complex, Real
from sys import float_info
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

import numpy as np

from plugrad.types.dtype import DType
from plugrad.types.shapes import normalize_axes, normalize_axis


class AxisOfFirstInput(NamedTuple):
    """Marks an attribute as an axis of the first input, or of a result that has `extra_axes` additional axes."""

    extra_axes: int = 0


Axis = Annotated[int, AxisOfFirstInput()]
"""An axis of the first input. Implementations receive it as a nonnegative index."""
NewAxis = Annotated[int, AxisOfFirstInput(extra_axes=1)]
"""An axis of a result that has one more axis than the first input."""
Axes = Annotated[tuple[int, ...], AxisOfFirstInput()]
"""Several axes of the first input, as sorted nonnegative indices."""


def normalize_axis_attribute(value: Any, annotation: Any, rank: int, name: str) -> Any:
    """Return axes counted from the front; return a value that is not an axis unchanged.

    Raises:
        AxisError: an input with `rank` axes does not have the axis.
    """
    if get_origin(annotation) is not Annotated:
        return value
    settle: Any = normalize_axes if isinstance(value, tuple) else normalize_axis
    return settle(value, rank + annotation.__metadata__[0].extra_axes, name=name)


_DESCRIPTION_OF_PYTHON_TYPE = {
    bool: "True or False",
    int: "an integer",
    float: "a number",
    complex: "a number",
    str: "a string",
    DType: "a dtype",
    NoneType: "None",
}


def matches_annotation(value: Any, annotation: Any) -> bool:
    """Return whether `value` matches `annotation`; an annotation of an unknown form matches every value.

    >>> (
    ...     matches_annotation((1, 2), tuple[int, ...]),
    ...     matches_annotation(1.5, int),
    ...     matches_annotation("full", Literal["same", "valid"]),
    ... )
    (True, False, False)
    """
    origin = get_origin(annotation)
    if origin is Annotated:
        return matches_annotation(value, annotation.__origin__)
    if origin is tuple:
        return isinstance(value, tuple) and _items_match(value, get_args(annotation))
    if origin is Literal:
        return any(isinstance(value, type(c)) and value == c for c in get_args(annotation))
    if origin in (Union, UnionType):
        return any(matches_annotation(value, part) for part in get_args(annotation))
    if annotation is bool:
        return isinstance(value, bool | np.bool_)
    if isinstance(value, int) and abs(value) > float_info.max:
        return False  # no dtype can hold it
    if annotation is int:
        return isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64)
    if annotation is float or annotation is complex:
        return isinstance(value, Real if annotation is float else Complex)
    return not (
        annotation in _DESCRIPTION_OF_PYTHON_TYPE or _is_named_tuple_class(annotation)
    ) or isinstance(value, annotation)


def _is_named_tuple_class(annotation: Any) -> bool:
    """Return whether an annotation is a class of named tuples, such as `Window`."""
    return isinstance(annotation, type) and issubclass(annotation, tuple)


def _items_match(items: tuple[Any, ...], annotations: tuple[Any, ...]) -> bool:
    """Return whether the items of a tuple match its annotations, the last of which may be an ellipsis."""
    if annotations[-1] is Ellipsis:
        return all(matches_annotation(value, annotations[0]) for value in items)
    return len(items) == len(annotations) and all(map(matches_annotation, items, annotations))


def describe_annotation(annotation: Any) -> str:
    """Return a description of an annotation in words.

    >>> describe_annotation(Literal["same", "valid"] | tuple[int, ...])
    "'same', 'valid' or a tuple in which each part is an integer"
    """
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return describe_annotation(annotation.__origin__)
    if origin is tuple:
        if parts[-1] is Ellipsis:
            return f"a tuple in which each part is {describe_annotation(parts[0])}"
        return f"a tuple of {len(parts)} parts, {', '.join(dict.fromkeys(map(describe_annotation, parts)))}"
    *others, last = dict.fromkeys(_describe_alternatives(annotation))
    return f"{', '.join(others)} or {last}" if others else last


def _describe_alternatives(annotation: Any) -> list[str]:
    """Return descriptions of the values that an annotation permits."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return [repr(part) for part in parts]
    if origin in (Union, UnionType):
        return [word for part in parts for word in _describe_alternatives(part)]
    if _is_named_tuple_class(annotation) and not parts:
        return [f"a {annotation.__name__}"]
    return [
        describe_annotation(annotation)
        if parts
        else _DESCRIPTION_OF_PYTHON_TYPE.get(annotation, str(annotation))
    ]


_NAME_OF_AXIS_ANNOTATION = {Axis: "Axis", NewAxis: "NewAxis", Axes: "Axes"}


def format_annotation(annotation: Any) -> str:
    """Return an annotation as contracts write it.

    >>> format_annotation(Literal["same", "valid"] | tuple[int, ...]), format_annotation(Axes)
    ("'same' | 'valid' | tuple[int, ...]", 'Axes')
    """
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _NAME_OF_AXIS_ANNOTATION.get(annotation) or format_annotation(annotation.__origin__)
    if origin in (Union, UnionType):
        return " | ".join(map(format_annotation, parts))
    if origin is Literal:
        return " | ".join(map(repr, parts))
    if parts:
        name = getattr(origin, "__name__", str(origin))
        return (
            f"{name}[{', '.join('...' if p is Ellipsis else format_annotation(p) for p in parts)}]"
        )
    if annotation is None or annotation is NoneType:
        return "None"
    return annotation if isinstance(annotation, str) else annotation.__name__
