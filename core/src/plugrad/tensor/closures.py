"""Functions that run again later, with the values that they close over now."""

from __future__ import annotations

from functools import partial
from types import CellType, FunctionType
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

    This includes the functions that it closes over.
    """
    return _bind(function, {})


def _bind(function: Any, known: dict[int, Any]) -> Any:
    """Return a bound function; `known` has those for functions by their identity, as functions may call themselves."""
    if isinstance(function, partial):
        wrapped = cast("partial[Any]", function)
        return partial(_bind(wrapped.func, known), *wrapped.args, **wrapped.keywords)
    if isinstance(function, FunctionWrapper):
        return function.with_function(_bind(function.function, known))
    if not isinstance(function, FunctionType) or not function.__closure__:
        return function
    if (bound := known.get(id(function))) is not None:
        return bound
    cells = tuple([CellType() for _ in function.__closure__])
    bound = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, cells
    )
    bound.__kwdefaults__ = function.__kwdefaults__
    bound.__dict__.update(function.__dict__)
    known[id(function)] = bound
    for cell, own in zip(cells, function.__closure__, strict=True):
        try:
            cell.cell_contents = _bind(own.cell_contents, known)
        except ValueError:  # nothing is assigned yet
            continue
    return bound
