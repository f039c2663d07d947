"""NumPy's functions on tensors: the protocol ``__array_function__`` (NEP 18).

The functions that `plugrad.ops.numpy_table` does not have raise an error, which names what to write instead.
"""

from __future__ import annotations

from functools import cache
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import numpy as np

from plugrad.errors import ArgumentError
from plugrad.ops.numpy_table import (
    CREATION_FUNCTIONS,
    FUNCTIONS_ALSO_FOR_NUMPY_ARRAYS,
    FUNCTIONS_NOT_RETURNING_ARRAYS,
    METADATA_FUNCTIONS,
    OP_OF_NUMPY_FUNCTION,
    READING_FUNCTIONS,
    REPLACEMENT_HINTS,
    OpForNumpyFunction,
)
from plugrad.tensor.tensor import Tensor, host_values
from plugrad.tensor.tracer import Tracer
from plugrad.tensor.trees import iter_tensors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence


def find_numpy_function(name: str) -> Any:
    """Return NumPy's function of a name such as ``"linalg.norm"``, or None where this version of NumPy has none."""
    found: Any = np
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def _names_by_numpy_function(function_names: Iterable[str]) -> dict[Any, str]:
    """Return the names of NumPy's functions by the functions themselves."""
    return {find_numpy_function(name): name for name in function_names}


_OP_FUNCTION_NAMES: Final = _names_by_numpy_function(OP_OF_NUMPY_FUNCTION)
"""The names of NumPy's functions that call an op for tensors, by function."""
_CREATION_FUNCTION_NAMES: Final = _names_by_numpy_function(CREATION_FUNCTIONS)
"""The names of NumPy's functions that create tensors by the argument ``like``, by function."""
_METADATA_FUNCTION_NAMES: Final = _names_by_numpy_function(METADATA_FUNCTIONS)
"""The names of NumPy's functions that look only at shapes and dtypes, by function."""
_READING_FUNCTION_NAMES: Final = _names_by_numpy_function(READING_FUNCTIONS)
"""The names of NumPy's functions that read the values of tensors, by function."""
_REPLACED_FUNCTION_NAMES: Final = _names_by_numpy_function(REPLACEMENT_HINTS)
"""The names of NumPy's functions that do not take tensors but have a hint at a replacement, by function."""


def apply_array_function(
    x: Tensor,
    function: Callable[..., Any],
    types: Iterable[type],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> Any:
    """Apply a function of NumPy to arguments of which x is the first tensor: the protocol ``__array_function__``.

    Raises:
        ArgumentError: plugrad does not have the function, or not the options that are given.
        GradientLost: the function makes a file or an array of a tensor that is being differentiated.
    """
    if not all(issubclass(t, Tensor) or t in (np.ndarray, np.memmap) for t in types):
        return NotImplemented  # an array of another library decides, or NumPy names all of them
    if function in _OP_FUNCTION_NAMES:
        name = _OP_FUNCTION_NAMES[function]
        if name in FUNCTIONS_ALSO_FOR_NUMPY_ARRAYS and not any(
            map(_must_stay_tensor, iter_tensors([args, dict(kwargs)]))
        ):
            if name.endswith("_like") and args:  # the values of the first argument do not matter
                args = (_replace_tensors(args[0], _metadata_array), *args[1:])
            return function(
                *_replace_tensors(args, Tensor.numpy), **_replace_tensors(kwargs, Tensor.numpy)
            )
        return _call_op(name, function, OP_OF_NUMPY_FUNCTION[name], args, kwargs, {})
    if function in _METADATA_FUNCTION_NAMES:
        return function(
            *_replace_tensors(args, _metadata_array), **_replace_tensors(kwargs, _metadata_array)
        )
    if function in _READING_FUNCTION_NAMES:
        name = _READING_FUNCTION_NAMES[function]
        if name == "copyto" and isinstance(args[0] if args else kwargs.get("dst"), Tensor):
            raise ArgumentError("np.copyto does not write into tensors; write x[...] = values")
        read = host_values if name in FUNCTIONS_NOT_RETURNING_ARRAYS else Tensor.numpy
        return function(*_replace_tensors(args, read), **_replace_tensors(kwargs, read))
    if function in _CREATION_FUNCTION_NAMES and not any(isinstance(a, Tensor) for a in args[1:]):
        name = _CREATION_FUNCTION_NAMES[function]
        return _call_op(
            name, function, CREATION_FUNCTIONS[name], args, kwargs, {"device": x.backend}
        )
    name = _REPLACED_FUNCTION_NAMES.get(function) or f"{function.__module__}.{function.__name__}"
    raise _unsupported_function_error(name.removeprefix("numpy."))


def _unsupported_function_error(function_name: str, option_names: str = "") -> ArgumentError:
    """Return the error for a function of NumPy, or for options of it, that plugrad does not have."""
    instead = (
        f"write {REPLACEMENT_HINTS[function_name]}, or "
        if function_name in REPLACEMENT_HINTS and not option_names
        else ""
    )
    given = f" with {option_names}" if option_names else ""
    return ArgumentError(
        f"np.{function_name}{given} does not take tensors; {instead}pass NumPy's arrays, as in "
        f"np.{function_name}(x.numpy()), which have no gradients"
    )


class ParameterBinding(NamedTuple):
    """How the arguments of a function of NumPy are passed on to an op."""

    signature: Signature
    """The signature of the function."""
    positional: frozenset[str]
    """The names of the function's parameters that are passed on by position."""
    keywords: Mapping[str, str]
    """The op's parameter names by the function's, for parameters that are passed on by name."""


@cache
def bind_parameters(
    function: Callable[..., Any],
    op: Callable[..., Any],
    renamed_parameters: tuple[tuple[str, str], ...],
) -> ParameterBinding:
    """Return which parameter of an op each parameter of a function of NumPy corresponds to."""
    own = signature(op).parameters
    try:
        theirs = signature(function)
    except ValueError:  # NumPy before 2.4 does not tell the signatures of functions in C
        theirs = signature(op)
    renamed = dict(renamed_parameters)
    places = [
        p for p in own.values() if p.kind not in (Parameter.KEYWORD_ONLY, Parameter.VAR_KEYWORD)
    ]
    positions: list[str] = []
    known: dict[str, str] = {}
    for i, (name, parameter) in enumerate(theirs.parameters.items()):
        by_position = i < len(places) and len(positions) == i
        if parameter.kind is Parameter.VAR_POSITIONAL:
            positions.append(name)
        elif (
            renamed.get(name, name) in own
            and own[renamed.get(name, name)].kind is not Parameter.POSITIONAL_ONLY
        ):
            known[name] = renamed.get(name, name)
        elif by_position and parameter.default is Parameter.empty:
            positions.append(name)
    return ParameterBinding(theirs, frozenset(positions), known)


def _call_op(
    function_name: str,
    function: Callable[..., Any],
    op: OpForNumpyFunction,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    extra_kwargs: Mapping[str, Any],
) -> Any:
    """Call an op with the arguments of a function of NumPy.

    Raises:
        ArgumentError: there are options that it does not have.
    """
    how = bind_parameters(function, op.function, tuple(op.renamed_parameters.items()))
    try:
        given = how.signature.bind(*args, **kwargs).arguments
    except TypeError as error:
        raise ArgumentError(f"np.{function_name}: {error}") from None
    ordered: list[Any] = []
    named: dict[str, Any] = dict(extra_kwargs)
    for key, value in given.items():
        parameter = how.signature.parameters[key]
        if parameter.kind is Parameter.VAR_POSITIONAL:
            ordered += value
        elif parameter.kind is Parameter.VAR_KEYWORD:
            named |= _known_options(function_name, value, op.function)
        elif key in how.positional:
            ordered.append(value)
        elif _is_default(value, parameter.default):
            continue
        elif key in how.keywords:
            named[how.keywords[key]] = value
        elif key == "out":
            raise ArgumentError(
                f"np.{function_name} does not write tensors into arrays; assign its result to a name, or pass NumPy's "
                "arrays, as in x.numpy()"
            )
        else:
            raise _unsupported_function_error(function_name, key)
    return op.function(*ordered, **named)


def _known_options(
    function_name: str, options: Mapping[str, Any], op: Callable[..., Any]
) -> Mapping[str, Any]:
    """Return a function's optional arguments by name; raise if the op lacks one of them.

    Raises:
        ArgumentError: it lacks one.
    """
    own = signature(op).parameters
    lacking = [option for option in options if option not in own]
    if lacking:
        raise _unsupported_function_error(function_name, ", ".join(lacking))
    return options


def _is_default(value: Any, default: Any) -> bool:
    """Return whether an argument equals NumPy's default for it."""
    no_value = np._NoValue  # pyright: ignore[reportPrivateUsage]
    if value is default or value is no_value or (value is None and default is no_value):
        return True
    return (
        type(value) is type(default)
        and type(value) in (bool, int, float, str, tuple)
        and value == default
    )


def _must_stay_tensor(x: Tensor) -> bool:
    """Return whether a tensor cannot be replaced by an array: a gradient would be lost, or it has no values yet."""
    return x.is_being_differentiated() or isinstance(x.backend, Tracer)


def _metadata_array(x: Tensor) -> Any:
    """Return an array with the shape and dtype of a tensor, which takes no memory."""
    return np.broadcast_to(np.zeros((), x.dtype.numpy), x.shape)


def _replace_tensors(tree: Any, convert: Callable[[Tensor], Any]) -> Any:
    """Return arguments with arrays in place of the tensors among them."""
    if isinstance(tree, Tensor):
        return convert(tree)
    if type(tree) is dict:
        return {
            key: _replace_tensors(part, convert)
            for key, part in cast("dict[str, Any]", tree).items()
        }
    if type(tree) in (list, tuple):
        return type(tree)(_replace_tensors(part, convert) for part in tree)
    return tree
