"""Functions that run again later, with the values that they close over now."""

from __future__ import annotations

from functools import partial
from types import CellType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self


class FunctionWrapper:
    """A callable object that calls a function, which may close over variables."""

    function: Callable[..., Any]

    def with_function(self, function: Callable[..., Any]) -> Self:
        """Return an object that calls another function, and shares everything else."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__, function=function)
        return other


def bind_closure(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that keeps what the variables that `function` closes over hold now.

    Python looks such a variable up in each call. A function that runs again for its gradient would therefore see
    what a loop around it has made of the variable since.

    >>> late = [lambda: i for i in range(3)]
    >>> early = [bind_closure(lambda: i) for i in range(3)]
    >>> [f() for f in late], [f() for f in early]
    ([2, 2, 2], [0, 1, 2])

    This includes the functions that it closes over, and those among its defaults and the arguments of a
    `functools.partial`. What a list or an object holds is looked up again.
    """
    return _bind(function, {})


def _bind(function: Any, bound_by_id: dict[int, Any]) -> Any:
    """Return a bound function, or anything else as it is.

    `bound_by_id` has the bound functions by the identity of the original ones, as functions may call themselves.
    """
    if isinstance(function, partial):
        wrapped = cast("partial[Any]", function)
        args = [_bind(x, bound_by_id) for x in wrapped.args]
        return partial(
            _bind(wrapped.func, bound_by_id), *args, **_bind_values(wrapped.keywords, bound_by_id)
        )
    if isinstance(function, FunctionWrapper):
        return function.with_function(_bind(function.function, bound_by_id))
    if isinstance(function, MethodType):
        return MethodType(_bind(function.__func__, bound_by_id), function.__self__)
    if not isinstance(function, FunctionType):
        return function
    own_cells, defaults = function.__closure__ or (), function.__defaults__ or ()
    named = function.__kwdefaults__ or {}
    if not own_cells and not any(map(callable, (*defaults, *named.values()))):
        return function
    if (bound := bound_by_id.get(id(function))) is not None:
        return bound
    cells = tuple([CellType() for _ in own_cells])
    bound = FunctionType(function.__code__, function.__globals__, function.__name__, None, cells)
    bound.__dict__.update(function.__dict__)
    bound_by_id[id(function)] = bound
    bound.__defaults__ = tuple([_bind(x, bound_by_id) for x in defaults])
    bound.__kwdefaults__ = _bind_values(named, bound_by_id)
    for cell, own in zip(cells, own_cells, strict=True):
        try:
            cell.cell_contents = _bind(own.cell_contents, bound_by_id)
        except ValueError:  # nothing is assigned yet
            continue
    return bound


def _bind_values(values: dict[str, Any], bound_by_id: dict[int, Any]) -> dict[str, Any]:
    """Return a dict whose values are bound."""
    return {name: _bind(x, bound_by_id) for name, x in values.items()}
