"""Nested dicts of variables: their leaves, their names, and assigning values to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, cast

import plugrad
from plugrad.extend import ArgumentError, DTypeError, ShapeError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Params: TypeAlias = dict[str, Any]
"""Parameters: a nested dict whose leaves are variables, or tensors inside `plugrad.grad`."""


def leaves(params: Mapping[str, Any] | Sequence[Any]) -> list[Any]:
    """Return the variables in nested dicts as a list, in order: those that an optimizer updates.

    The parameters of several models may come as a tuple or a list. A variable that is there twice, such as a weight
    that two layers share, is one of the list.

    >>> params = nn.Dense(2).init(0, (3,))
    >>> [variable.name for variable in nn.leaves(params)]
    ['kernel', 'bias']

    Raises:
        ArgumentError: `params` is neither a dict nor a tuple or list of dicts.
    """
    if isinstance(params, tuple | list):
        found = [leaf for part in cast("Sequence[Any]", params) for leaf in leaves(part)]
    else:
        check_nested_dict("leaves", params)
        found = [leaf for _, leaf in named_leaves(cast("Mapping[str, Any]", params))]
    return list({id(leaf): leaf for leaf in found}.values())


def assign(params: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    """Assign to each variable of `params` the value with the same name, for example from a checkpoint.

    >>> params, others = nn.Dense(2).init(0, (3,)), nn.Dense(2).init(1, (3,))
    >>> nn.assign(params, others)
    >>> bool(plugrad.all(params["kernel"] == others["kernel"]))
    True

    Values are tensors, or anything that `plugrad.asarray` accepts. They are converted to the dtype and
    the device of their variables. If an error is raised, no variable has changed.

    Args:
        params: nested dicts of variables.
        values: nested dicts with the same names.

    Raises:
        ArgumentError: a name occurs on one side only, or a leaf of `params` is not a `Variable`.
        ShapeError: a value does not have the shape of its variable.
        DTypeError: a value is complex.
    """
    check_nested_dict("assign", params)
    check_nested_dict("assign", values)
    found = [name for name, _ in named_leaves(values)]
    missing = [name for name, _ in named_leaves(params) if name not in set(found)]
    if missing:
        raise ArgumentError(
            f"assign: the values do not have {missing[0]!r}, and {len(missing)} of the parameters' names "
            f"are missing in all; the values have {', '.join(found)[:200]}"
        )
    assign_named("assign", params, values)


def assign_named(function_name: str, params: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    """Assign the values that `values` names, and leave other variables unchanged; see `assign`."""
    variables = dict(named_leaves(params))
    pairs: list[tuple[plugrad.Variable, plugrad.Tensor]] = []
    for name, value in named_leaves(values):
        variable = variables.get(name)
        if variable is None:
            raise ArgumentError(
                f"{function_name}: the parameters do not have {name!r}; they have "
                f"{', '.join(variables)[:200]}"
            )
        if not isinstance(variable, plugrad.Variable):
            raise ArgumentError(
                f"{function_name}: {name!r} is a {type(variable).__name__}, to which nothing can be assigned; "
                "pass the parameters that init returned, and not those that a function under grad receives"
            )
        pairs.append((variable, _convert_value(function_name, name, variable, value)))
    for variable, value in pairs:
        variable.assign(value)


def _convert_value(
    function_name: str, name: str, variable: plugrad.Variable, value: Any
) -> plugrad.Tensor:
    """Convert a value to a tensor of the variable's dtype on its device."""
    if isinstance(value, plugrad.Tensor):
        new = plugrad.to_device(value, variable.backend)
        if plugrad.isdtype(new.dtype, "complex floating"):
            raise DTypeError(
                f"{function_name}: {name!r} is {variable.dtype}, and its new value {new.dtype}"
            )
        new = plugrad.astype(new, variable.dtype)
    else:
        new = plugrad.asarray(value, dtype=variable.dtype, device=variable.backend)
    if new.shape != variable.shape:
        raise ShapeError(
            f"{function_name}: {name!r} has shape {variable.shape}, and its new value {new.shape}"
        )
    return new


def named_leaves(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the leaves of nested dicts with their dotted names."""
    for name, part in tree.items():
        if isinstance(part, dict):
            yield from named_leaves(cast("dict[str, Any]", part), f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", part


def as_variables(tree: Mapping[str, Any], prefix: str = "") -> Params:
    """Return nested dicts with a variable, named by its dotted path, for each tensor."""
    result: Params = {}
    for name, part in tree.items():
        if isinstance(part, dict):
            result[name] = as_variables(cast("dict[str, Any]", part), f"{prefix}{name}.")
        elif isinstance(part, plugrad.Variable):
            part.name = f"{prefix}{name}"
            result[name] = part
        else:
            result[name] = plugrad.Variable(part, name=f"{prefix}{name}")
    return result


def check_nested_dict(function_name: str, tree: object) -> None:
    """Raise unless parameters are a dict."""
    if not isinstance(tree, dict):
        raise ArgumentError(
            f"{function_name}: parameters are nested dicts, as init returns them, and not a {type(tree).__name__}"
        )
