"""Checks of arguments that functions of every layer make: names, flags and functions."""

from __future__ import annotations

from functools import wraps
from os import fspath
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

from plugrad.errors import ArgumentError, ArgumentValueError, short_repr, suggest_similar_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
ClassType = TypeVar("ClassType", bound=type[Any])


KEYWORDS_OF_OTHER_FRAMEWORKS: Final = {
    "bias": ("use_bias", "offset"),
    "channels": ("filters",),
    "dim": ("axis",),
    "dims": ("axis", "axes"),
    "embedding_dim": ("output_dim", "units"),
    "eps": ("epsilon", "variance_epsilon"),
    "hidden_size": ("units",),
    "keepdim": ("keepdims",),
    "kernel_size": ("window_size", "pool_size"),
    "lr": ("learning_rate",),
    "num_embeddings": ("input_dim",),
    "optimiser": ("optimizer",),
    "out_channels": ("filters",),
    "out_features": ("units",),
    "p": ("rate",),
    "pad": ("padding",),
    "pool_size": ("window_size",),
    "stride": ("strides",),
    "weight": ("scale",),
}
"""What other frameworks call an argument, and what it may be called here."""


def explain_wrong_calls(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Wrap a function so that wrong arguments raise an ArgumentError with the function's signature.

    It is for declarations, which are written once and by hand. Python names a wrong keyword, but not the right one.
    """

    @wraps(function)
    def checked(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        try:
            return function(*args, **kwargs)
        except TypeError:
            if (mistake := _describe_mistake(function, args, kwargs)) is None:
                raise
        raise ArgumentError(mistake)

    return checked


def explain_wrong_fields(kind: ClassType) -> ClassType:
    """Change a dataclass so that wrong arguments raise an ArgumentError with the list of its fields."""
    setattr(kind, "__new__", explain_wrong_calls(kind.__new__))  # noqa: B010 - a type checker would object
    return kind


def _describe_mistake(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> str | None:
    """Describe what is wrong with the arguments of a call and how to fix it, or return None."""
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
        mistake = f"it has no argument {unknown!r}{_suggest_right_name(unknown, parameters)}"
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


def _suggest_right_name(unknown: str, known: Iterable[str]) -> str:
    """Return a hint that gives the right name for an unknown argument, if there is one."""
    for name in KEYWORDS_OF_OTHER_FRAMEWORKS.get(unknown, ()):
        if name in known:
            return f" (did you mean {name!r}?)"
    return suggest_similar_name(unknown, known)


def check_string(value: object, op: str, name: str) -> str:
    """Return the value if it is a string, or raise.

    Raises:
        ArgumentError: it is not a string.
    """
    if isinstance(value, str):
        return value
    raise ArgumentError(f"{op}: {name}={short_repr(value)} must be a string")


def check_flag(value: Any, op: str, name: str) -> bool:
    """Return the value if it is a bool, or raise.

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
    raise ArgumentError(f"{op}: {name}={short_repr(value)} must be True or False")


def check_callable(where: str, function: object) -> None:
    """Raise unless `function` is callable.

    Raises:
        ArgumentError: it cannot.
    """
    if not callable(function):
        raise ArgumentError(f"{where} takes a function, not {type(function).__name__}")


def check_path_suffix(endings: tuple[str, ...], value: Any, op: str, name: str) -> str:
    """Return a path as a string; raise unless it has one of the suffixes.

    Raises:
        ArgumentError: it is not a path.
        ArgumentValueError: it does not have one of the endings.
    """
    path = fspath(value) if isinstance(value, str) or hasattr(value, "__fspath__") else None
    if not isinstance(path, str):
        raise ArgumentError(
            f"{op}: {name}={short_repr(value)} must be the path of a file, a string or a Path"
        )
    if not path.lower().endswith(endings):
        raise ArgumentValueError(
            f"{op}: {name}={path!r} must end in {' or '.join(endings)}, which is what can be written"
        )
    return path
