"""The context in which ops run: an open `tidy` block, a backend to transfer inputs to, or (usually) neither.

One context variable holds both, so that the hot path needs one look-up.
"""

from __future__ import annotations

from contextvars import ContextVar, copy_context
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, NamedTuple, ParamSpec, TypeVar, cast
from weakref import ref

from plugrad.types.arguments import check_callable

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad.tensor.backend import Backend
    from plugrad.tensor.tensor import Tensor

Params = ParamSpec("Params")
Result = TypeVar("Result")


class Scope:
    """The tensors made inside one `tidy` block, by identity; they are not kept alive."""

    __slots__ = ("made", "parent")

    def __init__(self, parent: Scope | None) -> None:
        """Open a scope inside `parent`."""
        self.made: dict[int, ref[Tensor]] = {}
        self.parent: Scope | None = parent

    def track(self, tensor: Tensor) -> None:
        """Add a tensor to the block."""
        self.made[id(tensor)] = ref(tensor)

    def note(self, outputs: Any) -> None:
        """Add the result of a kernel to the block: a tensor, or a list of tensors."""
        tensors = cast("list[Tensor]", outputs if type(outputs) is list else [outputs])
        for tensor in tensors:
            self.track(tensor)


class Context(NamedTuple):
    """The innermost `tidy` block, and the backend to which inputs are transferred."""

    scope: Scope | None = None
    transfer: Backend | None = None


_context: ContextVar[Context | None] = ContextVar("plugrad_surroundings", default=None)
current_context: Final = _context.get


def active_scope() -> Scope | None:
    """Return the innermost `tidy` block."""
    context = current_context()
    return None if context is None else context.scope


def transfer_target() -> Backend | None:
    """Return the backend of the innermost ``use(..., transfer=True)``."""
    context = current_context()
    return None if context is None else context.transfer


def set_context(scope: Scope | None, transfer: Backend | None) -> None:
    """Set the context of the ops that follow."""
    _context.set(None if scope is None and transfer is None else Context(scope, transfer))


def carry_context(function: Callable[Params, Result]) -> Callable[Params, Result]:
    """Return a function that runs `function` in another thread with this context's `use` backend and `tidy` block.

    Settings of `plugrad.config.override` are carried too. By itself, a new thread does not inherit any of these.

    >>> from concurrent.futures import ThreadPoolExecutor
    >>> with ThreadPoolExecutor() as pool, plugrad.use("cpu"):
    ...     list(pool.map(plugrad.carry_context(lambda n: plugrad.zeros(n).device), [1, 2]))
    ['cpu:0', 'cpu:0']

    A backend that the function itself chooses with `use` is active only until its call ends.
    """
    check_callable("carry_context", function)
    context = copy_context()

    @wraps(function)
    def carried(*args: Params.args, **kwargs: Params.kwargs) -> Result:
        # A copy for each call: one context cannot be entered by two threads at once.
        return context.copy().run(function, *args, **kwargs)

    return carried
