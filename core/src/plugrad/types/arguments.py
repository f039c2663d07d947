"""Checks of arguments that functions of every layer make: names, flags and functions."""

from __future__ import annotations

from functools import wraps
from os import fspath
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from plugrad.errors import ArgumentError, ArgumentValueError, shown, suggestion

if TYPE_CHECKING:
    from collections.abc import Callable

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Class = TypeVar("Class", bound=type[Any])


def shows_how(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Return a function whose wrong calls raise an error that shows how it is called.

    It is for declarations, which are written once and by hand. Python names a wrong keyword, but not the right one.
    """

    @wraps(function)
    def checked(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        try:
            return function(*args, **kwargs)
        except TypeError:
            if (mistake := _mistake(function, args, kwargs)) is None:
                raise
        raise ArgumentError(mistake)

    return checked


def fields_shown(kind: Class) -> Class:
    """Return a class of named fields, whose wrong calls raise an error that shows the fields."""
    setattr(kind, "__new__", shows_how(kind.__new__))  # noqa: B010 - a type checker would object
    return kind


def _mistake(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> str | None:
    """Return what is wrong with the arguments of a call, and how to write it; None if they fit."""
    from inspect import Parameter, signature  # needed only when something is wrong

    called = signature(function)
    try:
        called.bind(*args, **kwargs)
        return None
    except TypeError as error:
        mistake = str(error)
    parameters = called.parameters
    takes_any = any(p.kind is Parameter.VAR_KEYWORD for p in parameters.values())
    for unknown in () if takes_any else kwargs.keys() - parameters.keys():
        mistake = f"it has no argument {unknown!r}{suggestion(unknown, parameters)}"
    written = [
        p.replace(annotation=Parameter.empty)
        for p in parameters.values()
        if p.name not in ("_cls", "self")
    ]
    form = str(called.replace(parameters=written, return_annotation=called.empty))
    for parameter in written:
        if len(default := repr(parameter.default)) > 30:
            form = form.replace(default, "…")
    name = function.__qualname__.removesuffix(".__new__")
    if name.endswith(".__init__"):
        name = type(args[0]).__name__
    return f"{name}: {mistake}; write {name}{form}"


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
