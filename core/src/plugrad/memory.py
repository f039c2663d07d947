"""Lifetime of tensors: counting, releasing early, and limits.

Reference counting releases a tensor's memory when its last handle dies. `tidy`, `keep` and
`dispose` release memory at a certain line rather than when a name goes out of scope.
"""

from __future__ import annotations

import gc
from functools import wraps
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar

from plugrad.discovery.loading import opened_backends, read_memory
from plugrad.discovery.selection import resolve_backend
from plugrad.discovery.state import state
from plugrad.errors import ArgumentError, ArgumentValueError, PlugradError
from plugrad.ops.attributes import check_integer
from plugrad.tensor.backend import make_backend_failed_error, must_propagate
from plugrad.tensor.context import TidyScope, active_scope, set_scope
from plugrad.tensor.tensor import Tensor
from plugrad.tensor.trees import iter_tensors
from plugrad.types.arguments import explain_wrong_calls

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

    from plugrad.tensor.backend import Memory

ParameterTypes = ParamSpec("ParameterTypes")
"""The types of a decorated function's parameters."""
ResultType = TypeVar("ResultType")
"""The type of a decorated function's result."""


class tidy:  # noqa: N801 - a context manager and a decorator: it reads as a verb
    """Dispose every tensor made in a block or a decorated function, except those that it keeps or returns.

    >>> import plugrad
    >>> with plugrad.tidy() as scope:
    ...     x = plugrad.asarray([1.0]) + 2.0
    ...     y = scope.keep(x * 2.0)
    >>> x.is_disposed, y.is_disposed
    (True, False)
    >>> @plugrad.tidy()
    ... def double(x):
    ...     return x + x
    >>> double(y)
    tensor([12.], dtype=float32)

    A function's result may be a tensor or a nested list, tuple or dict of them. When the block or
    the function raises, everything made in it is disposed. Variables are never disposed.
    """

    @explain_wrong_calls
    def __init__(self) -> None:
        """Prepare a scope; it begins when the block is entered."""
        self._scopes: list[TidyScope] = []

    def __enter__(self) -> tidy:
        self._scopes.append(TidyScope(active_scope()))
        set_scope(self._scopes[-1])
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        scope = self._scopes.pop()
        set_scope(scope.parent)
        for reference in scope.made.values():
            if (tensor := reference()) is not None:
                tensor.dispose()

    def keep(self, container: ResultType) -> ResultType:
        """Let the tensors in `container` outlive this block; the enclosing block, if any, disposes them."""
        if not self._scopes:
            raise ArgumentError("tidy: keep works only inside the block, and the block is not open")
        scope = self._scopes[-1]
        for tensor in iter_tensors(container):
            if scope.made.pop(id(tensor), None) is not None and scope.parent is not None:
                scope.parent.track(tensor)
        return container

    def __call__(
        self, function: Callable[ParameterTypes, ResultType]
    ) -> Callable[ParameterTypes, ResultType]:
        """Return a function that runs `function` in a new block and keeps its result."""

        @wraps(function)
        def run_in_tidy(*args: ParameterTypes.args, **kwargs: ParameterTypes.kwargs) -> ResultType:
            with tidy() as scope:
                return scope.keep(function(*args, **kwargs))

        return run_in_tidy


def keep(container: ResultType) -> ResultType:
    """Let the tensors in `container` outlive every enclosing `tidy` block, and return it."""
    for tensor in iter_tensors(container):
        scope = active_scope()
        while scope is not None:
            scope.made.pop(id(tensor), None)
            scope = scope.parent
    return container


def dispose(container: Any) -> None:
    """Release the tensors in a nested list, tuple or dict; disposing twice is harmless."""
    for tensor in iter_tensors(container):
        tensor.dispose()


class MemoryReport(NamedTuple):
    """Memory in use: live tensors, and the buffers and bytes of the opened backends."""

    tensors: int
    """The number of live tensors."""
    buffers: int
    """The number of buffers in use, of all backends together."""
    bytes: int
    """The bytes in use, of all backends together."""
    peak: int
    """The sum of the peaks of all backends, in bytes."""
    backends: Mapping[str, Memory]
    """By backend and device, such as ``"webgpu:0"``: the buffers, bytes and peak bytes."""


def memory() -> MemoryReport:
    """Return the number of live tensors, and the buffers, bytes and peak bytes of every open backend.

    >>> import plugrad
    >>> before = plugrad.memory()
    >>> x = plugrad.zeros((100_000,))
    >>> after = plugrad.memory()
    >>> after.tensors - before.tensors, after.bytes - before.bytes
    (1, 400000)

    A buffer that several tensors share, such as a reshaped one, counts once. On the cpu backend, buffers
    under 128 KiB are not counted, because that would take as long as computing with them. A backend that
    fails to say what it uses is left out, with a warning that names it.
    """
    found = {b.label: read_memory(b) for b in opened_backends()}
    backends = {label: used for label, used in found.items() if used is not None}
    used = backends.values()
    return MemoryReport(
        _count_live_tensors(),
        sum(m.buffers for m in used),
        sum(m.bytes for m in used),
        sum(m.peak for m in used),
        backends,
    )


def _count_live_tensors() -> int:
    """Return the number of live tensors, by asking the garbage collector for the instances of their classes.

    Counting each tensor as it is made would slow down every program; this takes some milliseconds per call.
    Searching and filtering are one call of C code, in which no other thread runs. If one did, it could find
    that a tuple it is just building is referenced from here, and fail with a SystemError.
    """
    kinds = [Tensor]
    for kind in kinds:
        kinds += kind.__subclasses__()
    referrers = chain.from_iterable(map(gc.get_referrers, kinds))
    live = list(filter(Tensor.__instancecheck__, referrers))
    # A disposed tensor has no backend any more, one that another thread is just making none yet.
    return sum(getattr(x, "backend", None) is not None for x in live)


def set_memory_limit(limit: int | None, *, backend: str | None = None) -> None:
    """Make allocations beyond `limit` bytes raise `OutOfMemory` on a backend (default: the active one); None lifts it.

    It also holds for the device when it is closed and opened again.

    Raises:
        ArgumentError: the limit is not an integer.
        ArgumentValueError: it is negative.
    """
    limit = limit if limit is None else check_integer(limit, "set_memory_limit", "limit")
    if limit is not None and limit < 0:
        raise ArgumentValueError(
            f"set_memory_limit: limit={limit} is negative; give a number of bytes, or None for no limit"
        )
    target = resolve_backend(backend)
    try:
        target.set_memory_limit(limit)
        state.memory_limits[target.label] = limit
    except PlugradError:
        raise
    except BaseException as error:  # so that a plugin's failure is not plugrad's
        if must_propagate(error, target):
            raise
        raise make_backend_failed_error(target, "set_memory_limit()", error) from error
