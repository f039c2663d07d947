"""The context in which ops run: an open `tidy` block, a backend to transfer inputs to, overrides, or (usually) nothing.

One context variable holds all of them, so that the hot path needs one look-up.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, NamedTuple, ParamSpec, TypeVar, cast
from weakref import ref

from plugrad.settings.layers import config, overridden_settings
from plugrad.types.arguments import check_callable

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Hashable, Mapping

    from plugrad.tensor.backend import Backend, KernelConfig
    from plugrad.tensor.tensor import Tensor
    from plugrad.types.dtype import DType

ParameterTypes = ParamSpec("ParameterTypes")
"""The parameters of a function that runs with a carried context."""
ResultType = TypeVar("ResultType")
"""The result of a function that runs with a carried context."""


class TidyScope:
    """The tensors made inside one `tidy` block, by identity; they are not kept alive."""

    __slots__ = ("made", "parent")

    def __init__(self, parent: TidyScope | None) -> None:
        """Open a scope inside `parent`."""
        self.made: dict[int, ref[Tensor]] = {}
        self.parent: TidyScope | None = parent

    def track(self, tensor: Tensor) -> None:
        """Add a tensor to the block."""
        self.made[id(tensor)] = ref(tensor)

    def track_outputs(self, outputs: Any) -> None:
        """Add the outputs of a kernel to the block: a tensor, or a list of tensors."""
        tensors = cast("list[Tensor]", outputs if type(outputs) is list else [outputs])
        for tensor in tensors:
            self.track(tensor)


class RegistryOverride(NamedTuple):
    """An entry that replaces an entry of a registry, in one context."""

    registry: str
    """The registry: ``"kernel"`` or ``"gradient"``."""
    key: Hashable
    """The key of the entry: a kernel's name, or the names of a kernel and a backend."""
    value: Any
    """The `RegisteredGradient` or `KernelConfig` that takes effect."""


class Overrides:
    """The registry entries that a context overrides, and the settings that every call reads.

    A change makes another object.
    """

    __slots__ = ("__weakref__", "checks", "entries", "gradients", "kernels")

    def __init__(self, entries: tuple[RegistryOverride, ...], checks: Mapping[str, Any]) -> None:
        """Group the entries by registry; of several for one key, the last one is in effect."""
        self.entries = entries
        self.checks = checks
        self.gradients: dict[str, Any] = {}
        self.kernels: dict[tuple[str, str], list[KernelConfig]] = {}
        """By the names of kernel and backend; the one in effect comes first."""
        for registry, key, value in entries:
            if registry == "gradient":
                self.gradients[cast("str", key)] = value
            else:
                self.kernels.setdefault(cast("tuple[str, str]", key), []).insert(0, value)


class Precision(NamedTuple):
    """An open `autocast` block, in which some kernels compute in half precision."""

    nesting_depth: int
    """The number of blocks around this one in its context, which tells open blocks apart."""
    dtype: DType | None
    """The half-precision dtype, or None in a block that turns half precision off."""


class ExecutionContext(NamedTuple):
    """The innermost `tidy` block, the transfer target, the overrides and the precision of a thread or task."""

    scope: TidyScope | None = None
    """The innermost `tidy` block."""
    transfer_target: Backend | None = None
    """The backend to which the inputs of ops are copied, or None."""
    overrides: Overrides | None = None
    """The registry entries that `with` blocks replace, or None."""
    settings: Mapping[str, Any] | None = None
    """The values that `config.override` has set, by the settings' names."""
    precision: DType | None = None
    """The half-precision dtype of the innermost `plugrad.autocast` block: that of the last entry of `precisions`."""
    precisions: tuple[Precision, ...] = ()
    """The open `plugrad.autocast` blocks."""


_EMPTY_CONTEXT: Final = ExecutionContext()
"""The context outside of all blocks."""
CHECK_SETTING_NAMES: Final = ("check_finite", "debug")
"""The settings that change which functions the engine calls: both add checks."""


_context_variable: ContextVar[ExecutionContext | None] = ContextVar(
    "plugrad_surroundings", default=None
)
"""The execution context of each thread or task; None outside of all blocks."""
current_context: Final = _context_variable.get
"""A function that returns the execution context of this thread or task, or None outside of all blocks."""


def active_scope() -> TidyScope | None:
    """Return the innermost `tidy` block."""
    context = current_context()
    return None if context is None else context.scope


def transfer_target() -> Backend | None:
    """Return the backend of the innermost ``use(..., transfer=True)``."""
    context = current_context()
    return None if context is None else context.transfer_target


def active_overrides() -> Overrides | None:
    """Return the overrides that are in force in this context."""
    context = current_context()
    return None if context is None else context.overrides


def active_precision() -> DType | None:
    """Return the half-precision dtype of the innermost `autocast` block."""
    context = current_context()
    return None if context is None else context.precision


@contextmanager
def use_precision(dtype: DType | None) -> Generator[None]:
    """Compute suitable kernels in a half-precision dtype within a block; None turns this off.

    Blocks may end in any order.
    """
    context = current_context() or _EMPTY_CONTEXT
    number = context.precisions[-1].nesting_depth + 1 if context.precisions else 0
    block = Precision(number, dtype)
    _set_context(context._replace(precision=dtype, precisions=(*context.precisions, block)))
    try:
        yield
    finally:
        context = current_context() or _EMPTY_CONTEXT
        rest = tuple([other for other in context.precisions if other != block])
        _set_context(context._replace(precision=rest[-1].dtype if rest else None, precisions=rest))


def set_scope(scope: TidyScope | None) -> None:
    """Set the innermost `tidy` block."""
    context = current_context() or _EMPTY_CONTEXT
    _set_context(ExecutionContext(scope, *context[1:]))


def set_transfer_target(backend: Backend | None) -> None:
    """Set the backend to which the inputs of the ops that follow are transferred."""
    context = current_context() or _EMPTY_CONTEXT
    _set_context(context._replace(transfer_target=backend))


def _set_context(context: ExecutionContext) -> None:
    """Set the context of this thread or task."""
    set_context(None if context == _EMPTY_CONTEXT else context)


set_context: Final = _context_variable.set
"""Set the whole context, for example to one that `current_context` returned before."""


@contextmanager
def override_registry(override: RegistryOverride) -> Generator[None]:
    """Let an entry replace that of its registry within a block, in this thread or task only.

    Blocks may end in any order. The entry ends where its block ends: a task that was started inside keeps it.
    """
    try:
        _set_overrides(*_current_overrides(), override)
        yield
    finally:
        _set_overrides(*[entry for entry in _current_overrides() if entry is not override])


def _current_overrides() -> tuple[RegistryOverride, ...]:
    """Return the registry overrides that are in force in this context, the outermost first."""
    overrides = active_overrides()
    return () if overrides is None else overrides.entries


def _set_overrides(*entries: RegistryOverride) -> None:
    """Set the registry overrides of this thread or task, and the overridden settings beside them."""
    context = current_context() or _EMPTY_CONTEXT
    settings = overridden_settings()
    checks = {name: settings[name] for name in CHECK_SETTING_NAMES if name in settings}
    overrides = context.overrides
    if not entries and not checks:
        overrides = None
    elif overrides is None or overrides.entries != entries or overrides.checks != checks:
        overrides = Overrides(entries, checks)
    _set_context(context._replace(overrides=overrides, settings=settings or None))


def _update_settings_entry(_: str) -> None:
    """Copy the settings of `config.override` into this thread's or task's execution context if they have changed."""
    context = current_context() or _EMPTY_CONTEXT
    if overridden_settings() != (context.settings or {}):
        _set_overrides(*_current_overrides())


config.listeners.append(_update_settings_entry)


def carry_context(
    function: Callable[ParameterTypes, ResultType],
) -> Callable[ParameterTypes, ResultType]:
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
    def call_in_context(*args: ParameterTypes.args, **kwargs: ParameterTypes.kwargs) -> ResultType:
        # A copy for each call: one context cannot be entered by two threads at once.
        return context.copy().run(function, *args, **kwargs)

    return call_in_context
