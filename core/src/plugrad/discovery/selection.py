"""The choice of the backend: by an argument, by `use`, by the configuration, or the best one installed."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from plugrad.discovery import hooks
from plugrad.discovery.listing import MODULE_PREFIX, backends, first_party_distributions
from plugrad.discovery.loading import open_backend, opened_backends, probe
from plugrad.discovery.state import Selection, state
from plugrad.errors import (
    CANNOT_RUN_ERRORS,
    ArgumentError,
    BackendNotFound,
    BackendUnavailable,
    ConfigError,
    PlugradError,
    short_repr,
    warn,
)
from plugrad.settings.layers import config
from plugrad.tensor.backend import (
    Backend,
    check_device_alive,
    make_backend_failed_error,
    mark_device_lost,
    must_propagate,
)
from plugrad.tensor.context import set_transfer_target, transfer_target
from plugrad.tensor.tracer import Tracer, current_tracer
from plugrad.types.arguments import check_flag

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from types import TracebackType

    from plugrad.discovery.plugin import Plugin


DeviceLike: TypeAlias = str | Backend
"""The name of a backend, such as ``"webgpu:1"``, or the backend itself."""

_selection_variable: Final[ContextVar[Selection | None]] = ContextVar("plugrad_used", default=None)
"""The selection that `use` has made in the current context, or None."""
get_selection: Final = _selection_variable.get
"""Return the selection that `use` has made in the current context, or None."""
set_selection: Final = _selection_variable.set
"""Set what `use` has selected in this context, which `get_selection` returned before."""


class _UseBlock(NamedTuple):
    """A ``with`` block of `use` that has not ended."""

    owner: use
    """The object `use(…)` of the block."""
    previous_selection: tuple[Selection | None, Backend | None]
    """The selected backend and the target of transfers before the block."""


_open_use_blocks: Final[ContextVar[tuple[_UseBlock, ...]]] = ContextVar(
    "plugrad_use_blocks", default=()
)
"""The blocks of `use` that have not ended, from the outermost to the innermost one."""


class use:  # noqa: N801 - a call and a context manager: it reads as a verb
    """Make a backend the active one, from here on or inside a ``with`` block.

    >>> import plugrad
    >>> with plugrad.use("cpu"):
    ...     plugrad.zeros((2,)).device
    'cpu:0'

    Ops run where their tensor inputs live; the active backend is where new tensors are made. With
    ``transfer=True`` every op runs on this backend, and inputs that live elsewhere are copied to it
    first.

    The choice holds for the current context: a thread or task that is started later does not
    inherit it. Blocks may end in any order; the last one that has not ended counts.

    Args:
        spec: ``"webgpu"``, a device of it ``"webgpu:1"``, ``"distribution::name"``,
            ``"module://package.module:object"`` for a backend that is not installed as a plugin, or
            an order of preference ``"webgpu,cpu"``.
        transfer: copy inputs that live on other backends.

    Raises:
        BackendNotFound, BackendUnavailable, PluginConflict: the message names the reason and the remedy.
    """

    def __init__(self, spec: str, *, transfer: bool = False) -> None:
        """Select the backend at once."""
        transfer = check_flag(transfer, "plugrad.use", "transfer")
        self.selection: Selection = Selection(
            first_usable_backend(spec, "plugrad.use"), "plugrad.use"
        )
        chosen = self.selection.backend
        self._target = chosen if transfer or isinstance(chosen, Tracer) else None
        self._before: tuple[Selection | None, Backend | None] | None = (
            _current_selection_and_target()
        )
        _set_selection_and_target(self.selection, self._target)

    def __enter__(self) -> Selection:
        # The first block ends what the call began.
        before = self._before or _current_selection_and_target()
        self._before = None
        _open_use_blocks.set((*_open_use_blocks.get(), _UseBlock(self, before)))
        _set_selection_and_target(self.selection, self._target)
        return self.selection

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Without a token, which an asynchronous generator that is closed elsewhere could not use.
        blocks = _open_use_blocks.get()
        own = [i for i, block in enumerate(blocks) if block.owner is self]
        if not own:  # it began in another context
            return
        place = own[-1]
        inner = blocks[place + 1 :]
        if inner:
            inner = (
                inner[0]._replace(previous_selection=blocks[place].previous_selection),
                *inner[1:],
            )
        else:
            _set_selection_and_target(*blocks[place].previous_selection)
        _open_use_blocks.set((*blocks[:place], *inner))


def _current_selection_and_target() -> tuple[Selection | None, Backend | None]:
    """Return the selected backend, and the backend to which inputs are transferred."""
    return _selection_variable.get(), transfer_target()


def _set_selection_and_target(selection: Selection | None, target: Backend | None) -> None:
    """Set the selected backend, and the backend to which inputs are transferred."""
    _selection_variable.set(selection)
    set_transfer_target(target)


def which() -> Selection:
    """Return the active backend and device, and the layer that decided it.

    >>> import plugrad
    >>> with plugrad.use("cpu"):
    ...     print(plugrad.which().device, plugrad.which().layer)
    cpu:0 plugrad.use
    """
    used = _selection_variable.get()
    if used is not None:
        backend = used.backend
        if backend.is_closed or backend.lost:
            if not backend.lost:
                raise BackendUnavailable(
                    f"plugrad.use chose {used.device}, which has been closed since then; call it again"
                )
            check_device_alive(backend, "plugrad.use")
        return used
    found = state.selected.get(None)  # as in `_cached_selection`, without a call
    if found is not None and found[0] == (config.state, state.generation):
        backend = found[1].backend
        if not (backend.is_closed or backend.lost):
            return found[1]
    setting = config.explain("backend")
    if setting.value is None:
        selection = Selection(_best_automatic_backend(), "automatic choice")
    else:
        selection = Selection(first_usable_backend(setting.value, setting.layer), setting.layer)
    _cache_selection(None, selection)
    return selection


def _cached_selection(device_specs: str) -> Selection | None:
    """Return the cached selection for device specs, unless its settings or plugins have changed since then."""
    found = state.selected.get(device_specs)
    if found is None or found[0] != (config.state, state.generation):
        return None
    backend = found[1].backend
    return None if backend.is_closed or backend.lost else found[1]


def _cache_selection(device_specs: str | None, selection: Selection) -> None:
    """Cache the selection for device specs, or for the settings if these are None."""
    state.selected[device_specs] = (config.state, state.generation), selection


def active_backend() -> Backend:
    """Return the backend where new tensors are made."""
    return which().backend


@contextmanager
def activate_backend(backend: Backend) -> Generator[None, None, None]:
    """Make an opened backend the active one inside a ``with`` block; the target of transfers does not change."""
    before = _selection_variable.get()
    _selection_variable.set(Selection(backend, "the body of a kernel"))
    try:
        yield
    finally:
        _selection_variable.set(before)


def synchronize(device: DeviceLike | None = None) -> None:
    """Wait until all work on a device (default: on every open one) is done, as before the end of a measurement.

    >>> y = plugrad.ones((100, 100)) @ plugrad.ones((100, 100))
    >>> plugrad.synchronize()
    """
    waiting = (
        [backend for backend in opened_backends() if not backend.lost]
        if device is None
        else [resolve_backend(device, "synchronize: device=")]
    )
    for backend in waiting:
        try:
            backend.synchronize()
        except PlugradError as error:
            mark_device_lost(error, backend)
            raise
        except BaseException as error:  # so that a plugin's failure is not plugrad's
            if must_propagate(error, backend):
                raise
            raise make_backend_failed_error(backend, "synchronize()", error) from error


def resolve_backend(device: DeviceLike | None, layer: str = "device=") -> Backend:
    """Return the backend that a ``device=`` argument names or is (None: the active one); errors begin with `layer`."""
    if device is None:
        return which().backend
    return device if isinstance(device, Backend) else first_usable_backend(device, layer)


def split_device_spec(device_spec: str, layer: str) -> tuple[str, str]:
    """Split a device spec, such as ``"webgpu:1"``, into backend name and device or ""; errors begin with `layer`."""
    if device_spec.strip().startswith(MODULE_PREFIX):
        module, _, rest = device_spec.strip().removeprefix(MODULE_PREFIX).partition(":")
        name, _, device = rest.partition(":")
        return f"{MODULE_PREFIX}{module}:{name}", device
    distribution, double, rest = device_spec.strip().rpartition("::")
    name, _, device = rest.partition(":")
    if not name:
        raise ConfigError(
            f"{layer}: {device_spec!r} does not name a backend; "
            "expected is a name such as 'cpu', 'webgpu:1' or 'webgpu,cpu'"
        )
    return f"{distribution}{double}{name}", device


def first_usable_backend(device_specs: str, layer: str) -> Backend:
    """Return the first usable backend in a list such as ``"webgpu,cpu"``; `layer`, where it was set, begins errors.

    A single name never falls back: asking for a GPU on a machine without one is an error. While a function is
    traced, its tracer stands in for the device for which it records.
    """
    known = _cached_selection(device_specs) if type(device_specs) is str else None
    if known is None:
        known = Selection(_open_first_usable(device_specs, layer), layer)
        if "," not in device_specs:  # a list warns each time of what it skips
            _cache_selection(device_specs, known)
    tracer = current_tracer()
    return known.backend if tracer is None else tracer.resolve_traced_backend(known.backend)


def _open_first_usable(device_specs: str, layer: str) -> Backend:
    """Return the first backend of a comma-separated list that can be opened; errors begin with `layer`."""
    if not isinstance(device_specs, str):  # pyright: ignore[reportUnnecessaryIsInstance] - callers pass other libraries' devices
        raise ArgumentError(
            f"{layer}: {short_repr(device_specs)} must be a string, such as 'cpu' or 'webgpu:1'"
        )
    choices = [part for part in device_specs.split(",") if part.strip()] or [""]
    if len(choices) == 1:
        return open_backend(*split_device_spec(choices[0], layer))
    reasons: list[str] = []
    for choice in choices:
        try:
            backend = open_backend(*split_device_spec(choice, layer))
        except CANNOT_RUN_ERRORS as error:
            reasons.append(str(error))
            continue
        if reasons:
            warn(
                f"{layer}: {device_specs!r} gives {choice.strip()!r}, because {'; '.join(reasons)}"
            )
        return backend
    raise BackendUnavailable(f"{layer}: none of {device_specs!r} can be used: {'; '.join(reasons)}")


def list_automatic_candidates() -> Sequence[Plugin]:
    """Return the usable backends for the automatic choice, best first; others' only if the user allows them."""
    allowed = (*first_party_distributions(), *config.get("plugins.allow_auto"))
    return hooks.order_backend_candidates(
        [
            plugin
            for plugin in backends()
            if plugin.status in ("available", "active")
            and any(fnmatchcase(plugin.distribution, pattern) for pattern in allowed)
        ]
    )


def find_numpy_backend() -> Backend | None:
    """Return the first backend that stores NumPy arrays, by its manifest; string kernels run there."""
    plugin = _find_numpy_plugin()
    return None if plugin is None else open_backend(plugin.qualified_name)


def is_numpy_backend(backend: Backend) -> bool:
    """Return whether an open backend is the result of `find_numpy_backend`, without opening any other backend."""
    owner = backend.name, backend.distribution
    for plugin in backends():
        if (plugin.name, plugin.distribution) == owner and _shares_numpy_memory(plugin):
            return plugin is _find_numpy_plugin()
    return False


def _find_numpy_plugin() -> Plugin | None:
    """Return the first usable plugin whose backend stores NumPy arrays, or None."""
    return next(filter(_shares_numpy_memory, list_automatic_candidates()), None)


def _shares_numpy_memory(plugin: Plugin) -> bool:
    """Return whether the arrays of a plugin's backend are NumPy's."""
    return "shares-numpy-memory" in plugin.manifest.capabilities


def reason_not_automatic(plugin: Plugin) -> str:
    """Return why a backend is not chosen automatically: it cannot start, or has only software devices; otherwise ""."""
    return reason_not_startable(plugin) or (
        "" if _has_hardware(plugin) else "it has only software devices"
    )


def reason_not_startable(plugin: Plugin) -> str:
    """Return why a backend cannot start; otherwise ""."""
    try:
        found = probe(plugin)
    except BackendUnavailable as error:
        return str(error)
    if found.ok:
        return ""
    return f"backend {plugin.name!r} cannot start here: {found.reason or 'it gives no reason'}"


def _has_hardware(plugin: Plugin) -> bool:
    """Return whether a plugin finds a device that is not emulated in software."""
    return not all(device.is_software for device in probe(plugin).devices)


def _best_automatic_backend() -> Backend:
    """Return the backend of highest priority among those that may be chosen automatically.

    Backends with only software devices are not chosen. A backend that cannot start is skipped with a
    warning.
    """
    reasons: list[str] = []
    broken: list[str] = []
    choices = list_automatic_candidates()
    for plugin in choices:
        reason = reason_not_startable(plugin)
        try:
            if not reason and _has_hardware(plugin):
                backend = open_backend(plugin.qualified_name)
                if broken:
                    warn(
                        f"plugrad runs on {backend.label}: {'; '.join(broken)}. To silence this warning, repair it, "
                        f"or choose another backend, as with PLUGRAD_BACKEND={backend.name}"
                    )
                return backend
        except BackendUnavailable as error:
            reason = str(error)
        if reason:
            broken.append(reason)
        reasons.append(f"{plugin.name}: {reason or 'it has only software devices'}")
    if not backends():
        raise BackendNotFound("no backend is installed; run: pip install plugrad")
    reasons += [_reason_excluded(plugin) for plugin in backends() if plugin not in choices]
    raise BackendNotFound(
        f"no backend can be chosen automatically: {'; '.join(reasons)}. "
        "Name one with plugrad.use(...) or PLUGRAD_BACKEND, or run: pip install plugrad"
    )


def _reason_excluded(plugin: Plugin) -> str:
    """Return why a backend is not among the automatic choices."""
    if plugin.reason:
        return f"{plugin.name} is {plugin.status}: {plugin.reason}"
    return f"{plugin.name}: plugins.allow_auto does not name {plugin.distribution}"
