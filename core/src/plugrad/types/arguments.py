"""Checks of arguments that functions of every layer make: names, flags and functions."""

from __future__ import annotations

from functools import wraps
from os import fspath
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

from plugrad.errors import ArgumentError, ArgumentValueError, short_repr, suggest_similar_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

ParameterTypes = ParamSpec("ParameterTypes")
"""The parameters of a function whose wrong calls are explained."""
ResultType = TypeVar("ResultType")
"""The result of a function whose wrong calls are explained."""
ClassType = TypeVar("ClassType", bound=type[Any])
"""A dataclass whose wrong fields are explained."""


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
"""The possible names of a parameter in plugrad, by its name in other frameworks."""


def explain_wrong_calls(
    function: Callable[ParameterTypes, ResultType],
) -> Callable[ParameterTypes, ResultType]:
    """Wrap a function so that wrong arguments raise an ArgumentError with the function's signature.

    Python names a wrong keyword, but not the right one. Its own message remains for an argument that is given twice.

    The wrapper has the parameters of the function, and room for what is wrong: so a call packs and unpacks nothing. It
    is compiled at the first call, as few of the functions are called in one program.
    """
    _function, _explain, _absent = function, _WrongCallExplainer(function), _ABSENT_ARGUMENT

    @wraps(function)
    def checked(*args: ParameterTypes.args, **kwargs: ParameterTypes.kwargs) -> ResultType:
        # these three names are those of the code that takes the place of this one
        return _explain.compile_into_wrapper(_function, _absent)(*args, **kwargs)

    _explain.wrapper = checked
    return checked


_ABSENT_ARGUMENT: Final = object()
"""The placeholder for a required argument that a call leaves out."""

_WRAPPER_TEMPLATE: Final = """\
def bind(_absent, _explain, _function):
    def checked({parameters}):
        if {is_wrong}:
            _explain({positional}, _more, {named}, _absent)
        return _function({arguments})
    return checked
"""
"""The source of a function that makes a wrapper with the wrapped function's parameters, with placeholders in braces."""
_WRAPPER_OF_ANY_ARGUMENTS: Final = """\
def bind(_absent, _explain, _function):
    def checked(*args, **kwargs):
        try:
            return _function(*args, **kwargs)
        except TypeError:
            _explain({}, args, kwargs, _absent)
            raise
    return checked
"""
"""The source of a function that makes a wrapper of a function with any arguments."""


class _WrongCallExplainer:
    """Explains wrong arguments of a function, and compiles the wrapper that detects them."""

    wrapper: Any

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(
        self,
        positional: dict[str, Any],
        more: tuple[Any, ...],
        named: dict[str, Any],
        absent: object,
    ) -> None:
        """Raise if the function does not take these arguments.

        Args:
            positional: those that may be given by position.
            more: what was given by position behind them.
            named: those that were given by keyword only.
            absent: the value of those that were left out.
        """
        from inspect import Parameter, signature  # needed only when something is wrong

        given = {name: value for name, value in positional.items() if value is not absent}
        kwargs = {name: value for name, value in named.items() if value is not absent}
        parameters = signature(self._function).parameters
        by_place = [n for n in given if more or parameters[n].kind is Parameter.POSITIONAL_ONLY]
        args = *[given.pop(name) for name in by_place], *more
        mistake = _describe_mistake(self._function, args, given | kwargs)
        if mistake is not None:
            raise ArgumentError(mistake)

    def compile_into_wrapper(self, *_: object) -> Any:
        """Give the wrapper the parameters of the function; return it."""
        from inspect import Parameter, signature  # which takes long to import

        parameters = signature(self._function).parameters
        kinds = {name: p.kind for name, p in parameters.items()}
        first = [n for n, kind in kinds.items() if kind is Parameter.POSITIONAL_ONLY]
        places = [*first, *[n for n, k in kinds.items() if k is Parameter.POSITIONAL_OR_KEYWORD]]
        names = [name for name, kind in kinds.items() if kind is Parameter.KEYWORD_ONLY]
        if len(places) + len(names) < len(kinds):
            text = _WRAPPER_OF_ANY_ARGUMENTS
        else:
            defaults = {
                n: _ABSENT_ARGUMENT if p.default is p.empty else p.default
                for n, p in parameters.items()
            }
            declared = [f"{name}=None" for name in places]
            if first:
                declared.insert(len(first), "/")
            declared += ["*_more", *[f"{name}=None" for name in names], "**_wrong"]
            needed = [
                f"{n} is _absent" for n, value in defaults.items() if value is _ABSENT_ARGUMENT
            ]
            text = _WRAPPER_TEMPLATE.format(
                parameters=", ".join(declared),
                is_wrong=" or ".join(["_more", "_wrong", *needed]),
                positional=_format_dict(places),
                named=_format_dict(names, "**_wrong"),
                arguments=", ".join([*places, *[f"{name}={name}" for name in names]]),
            )
            # before the code: that which is there does without
            self.wrapper.__defaults__ = tuple([defaults[name] for name in places])
            self.wrapper.__kwdefaults__ = {name: defaults[name] for name in names}
        bound: dict[str, Any] = {}
        exec(compile(text, "<plugrad: arguments of a call>", "exec"), bound)
        self.wrapper.__code__ = bound["bind"](None, None, None).__code__
        return self.wrapper


def _format_dict(names: list[str], *more_entries: str) -> str:
    """Return the source of a dict display with variables by their names, and more entries."""
    return "{" + ", ".join([*[f"{name!r}: {name}" for name in names], *more_entries]) + "}"


def explain_wrong_fields(decorated_class: ClassType) -> ClassType:
    """Change a dataclass so that wrong arguments raise an ArgumentError with the list of its fields."""
    setattr(decorated_class, "__new__", explain_wrong_calls(decorated_class.__new__))  # noqa: B010 - a type checker would object
    return decorated_class


def _describe_mistake(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> str | None:
    """Describe the mistake in the arguments of a call and how to fix it, or return None."""
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
    if name.endswith((".__init__", ".__call__")):
        kind = type(args[0] if args else kwargs["self"]).__name__
        remedy = f"write {kind}{form}" if name.endswith(".__init__") else f"call it with {form}"
        return f"{kind}: {mistake}; {remedy}"
    return f"{name}: {mistake}; write {name}{form}"


def _suggest_right_name(unknown_name: str, known_names: Iterable[str]) -> str:
    """Return a hint that gives the right name for an unknown argument, if there is one."""
    for name in KEYWORDS_OF_OTHER_FRAMEWORKS.get(unknown_name, ()):
        if name in known_names:
            return f" (did you mean {name!r}?)"
    return suggest_similar_name(unknown_name, known_names)


def check_string(value: object, op: str, argument_name: str) -> str:
    """Return the argument `argument_name` of the function `op` if it is a string, or raise.

    Raises:
        ArgumentError: it is not a string.
    """
    if isinstance(value, str):
        return value
    raise ArgumentError(f"{op}: {argument_name}={short_repr(value)} must be a string")


def check_flag(value: Any, op: str, argument_name: str) -> bool:
    """Return the argument `argument_name` of the function `op` if it is a bool, or raise.

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
    raise ArgumentError(f"{op}: {argument_name}={short_repr(value)} must be True or False")


def check_callable(op: str, function: object) -> None:
    """Raise unless the argument `function` of `op` is callable.

    Raises:
        ArgumentError: it is not callable.
    """
    if not callable(function):
        raise ArgumentError(f"{op} takes a function, not {type(function).__name__}")


def check_path_suffix(suffixes: tuple[str, ...], value: Any, op: str, argument_name: str) -> str:
    """Return the path that is the argument `argument_name` of `op` as a string; raise unless it has a given suffix.

    Raises:
        ArgumentError: it is not a path.
        ArgumentValueError: it does not have one of the suffixes.
    """
    path = fspath(value) if isinstance(value, str) or hasattr(value, "__fspath__") else None
    if not isinstance(path, str):
        raise ArgumentError(
            f"{op}: {argument_name}={short_repr(value)} must be the path of a file, a string or a Path"
        )
    if not path.lower().endswith(suffixes):
        raise ArgumentValueError(
            f"{op}: {argument_name}={path!r} must end in {' or '.join(suffixes)}, which is what can be written"
        )
    return path
