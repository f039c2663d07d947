"""Load a requested backend alone, when it is first needed; a failure reaches only the caller."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from functools import partial
from sys import maxsize
from time import perf_counter
from typing import TYPE_CHECKING, Any, cast

from plugrad.discovery import hooks, packs
from plugrad.discovery.listing import MODULE_PREFIX, find_plugin, plugins, warn_about_claimed_name
from plugrad.discovery.load_locks import load_lock
from plugrad.discovery.plugin import Plugin, print_trace_line
from plugrad.discovery.replacements import record_replacements
from plugrad.discovery.state import state
from plugrad.errors import (
    ArgumentError,
    BackendFailed,
    BackendUnavailable,
    ConfigError,
    PluginConflict,
    PlugradError,
    RegistrationError,
    describe_exception,
    short_repr,
    warn,
)
from plugrad.interruptions import is_interruption
from plugrad.registry.kernels import add_device, list_kernels, remove_device
from plugrad.settings.journal import record_registrations
from plugrad.settings.layers import config
from plugrad.tensor.backend import (
    Backend,
    DeviceInfo,
    KernelConfig,
    Memory,
    Probe,
    make_backend_failed_error,
    make_invalid_result_error,
)
from plugrad.types.dtype import DType

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence


def open_backend(name: str, device: str = "") -> Backend:
    """Return the backend called `name`, opened on the named device; its plugin is loaded if necessary.

    Raises:
        BackendNotFound, PluginConflict: see `plugrad.discovery.find`; and two plugins
            whose backends have the same name cannot both be loaded.
        BackendUnavailable: the plugin cannot be imported or cannot start; its own error is
            chained.
        ConfigError: the backend's own settings are wrong.
    """
    backend = state.opened.get((find_plugin(name).qualified_name, device))
    if backend is not None and not backend.lost:
        return backend
    hooks.load_new_hooks()
    plugin = find_plugin(name)
    with load_lock(plugin.key) as has_turn:
        if not has_turn:
            raise BackendUnavailable(
                f"{plugin} is being opened by another thread, which waits for what this thread is loading; "
                "open both before the threads start"
            )
        plugin = find_plugin(name)  # another thread may have found out that it fails
        key = plugin.qualified_name, device
        if key in state.opened:
            if not state.opened[key].lost:
                return state.opened[key]
            with warn_on_failure(state.opened[key], "close()"):
                close_backend(state.opened[key])
        backend, deferred_warnings = _open_with_plugin(plugin, device)
        with state.lock:
            known = state.opened.setdefault((plugin.qualified_name, backend.device), backend)
            state.opened[key] = known
    packs.emit_warnings(deferred_warnings)
    if known is backend:
        hooks.call_hooks("plugrad_backend_activated", backend=backend)
    else:  # two names for one device
        remove_device(backend)
        with warn_on_failure(backend, "close()"):
            backend.close()
    return known


def opened_backends() -> list[Backend]:
    """Return the backends that are open, each once."""
    return list(dict.fromkeys(list(state.opened.values())))


def _apply_memory_limit(setting_name: str) -> None:
    """Apply the limit in the settings to the backends that are open, when this setting changes."""
    if setting_name != "memory_limit":
        return
    state.memory_limits.clear()
    try:
        limit = config.get("memory_limit")
    except ConfigError:
        return  # opening the next backend raises the error
    for backend in opened_backends():
        with warn_on_failure(backend, "set_memory_limit()"):
            backend.set_memory_limit(limit)


config.listeners.append(_apply_memory_limit)


def close_backend(backend: Backend) -> None:
    """Run the kernels' dispose functions and release the device.

    >>> backend = plugrad.which().backend
    >>> backend.is_closed
    False

    Its tensors cannot be used any more. The next use of the backend opens it again.
    """
    if not isinstance(backend, Backend):  # pyright: ignore[reportUnnecessaryIsInstance] - people pass its name
        raise ArgumentError(
            f"close_backend: backend={short_repr(backend)} must be a Backend, such as plugrad.which().backend"
        )
    with load_lock(backend):
        if backend.is_closed:
            return
        backend.is_closed = True  # whatever becomes of it: it is not used again
        for key in [k for k, b in list(state.opened.items()) if b is backend]:
            del state.opened[key]
        state.selected.clear()  # which would keep it alive
        failures = _release_device(backend, _list_set_up_kernels(backend))
        remove_device(backend)
    if failures:
        raise BackendFailed(
            f"backend {backend.label!r} ({backend.distribution}) failed while it was closed, and is not used any "
            f"more: {'; '.join(map(describe_exception, failures))}"
        ) from failures[0]


def _list_set_up_kernels(backend: Backend) -> list[KernelConfig]:
    """Return the kernels that are set up on a device: its own, those of kernel packs, and those of the program."""
    brought = [c for table in reversed(backend.kernels.values()) for c in table.values()]
    return [*brought, *(c for c in list_kernels(backend) if all(c is not b for b in brought))]


def _release_device(backend: Backend, configs: Iterable[KernelConfig]) -> list[BaseException]:
    """Run the kernels' dispose functions, release the device, and return the exceptions."""
    failures: list[BaseException] = []
    disposals = [partial(c.dispose_func, backend) for c in configs if c.dispose_func]
    with ExitStack() as steps:  # all of them are taken, also if one is interrupted
        for cache in (backend.functions, backend.constants):
            steps.callback(cache.clear)
        for step in (backend.close, *reversed(disposals)):
            steps.callback(_call_and_collect_failure, step, failures)
    return failures


def _call_and_collect_failure(
    function: Callable[[], object], failures: list[BaseException]
) -> None:
    """Call a function, and append its exception to `failures`."""
    try:
        function()
    except BaseException as error:  # the plugin's code may raise anything
        if is_interruption(error):
            raise
        failures.append(error)


@contextmanager
def warn_on_failure(backend: Backend, method: str) -> Generator[None, None, None]:
    """Turn an exception of a backend's method into a warning that names the backend, so that other backends go on."""
    try:
        yield
    except BaseException as error:  # the plugin's code may raise anything
        if is_interruption(error):
            raise
        warn(
            str(
                error
                if isinstance(error, PlugradError)
                else make_backend_failed_error(backend, method, error)
            )
        )


def read_memory(backend: Backend) -> Memory | None:
    """Return the memory counts of a backend's method `memory`, or None, with a warning, if they are invalid."""
    with warn_on_failure(backend, "memory()"):
        return validate_memory(backend)
    return None


def validate_memory(backend: Backend) -> Memory:
    """Return the memory counts of a backend's method `memory`, or raise if they are invalid.

    Raises:
        BackendFailed: it does not; or what the backend raises itself.
    """
    used = backend.memory()
    if not isinstance(used, Memory):  # pyright: ignore[reportUnnecessaryIsInstance] - a plugin's
        raise make_invalid_result_error(backend, "memory()", used, "a plugrad Memory")
    for number in used[:3]:
        if type(number) is not int or not 0 <= number <= maxsize:
            raise make_invalid_result_error(
                backend, "memory()", used, f"integers from 0 to {maxsize}"
            )
    return used


def probe(plugin: Plugin) -> Probe:
    """Return whether a backend can start, importing its plugin without opening a device.

    Raises:
        BackendUnavailable: the plugin cannot be imported, or says nonsense.
    """
    with load_lock(plugin.key), _raise_as_unavailable(plugin):
        try:
            return _run_probe(_create_backend(plugin))
        finally:
            plugin.rollback()


def _run_probe(backend: Backend) -> Probe:
    """Return the devices that a backend's `probe` finds; raise if its result is invalid."""
    found = backend.probe()
    if not isinstance(found, Probe):  # pyright: ignore[reportUnnecessaryIsInstance] - a plugin's
        raise TypeError(f"probe() returned {short_repr(found)}, which is not a plugrad Probe")
    devices = cast("Any", found.devices)
    if not isinstance(devices, tuple | list) or not all(
        isinstance(d, DeviceInfo) and isinstance(d.name, str) and isinstance(d.description, str)  # pyright: ignore[reportUnnecessaryIsInstance]
        for d in cast("Sequence[object]", devices)
    ):
        raise TypeError(
            f"probe() returned devices={short_repr(devices)}, which must be DeviceInfo objects"
        )
    return found._replace(ok=bool(found.ok), reason=str(found.reason), devices=tuple(found.devices))


def _open_with_plugin(plugin: Plugin, device: str) -> tuple[Backend, packs.DeferredWarnings]:
    """Import a plugin, and open its backend on a device; return it with the warnings to issue."""
    started = perf_counter()
    with (
        _raise_as_unavailable(plugin),
        _rollback_on_failure(plugin),
        record_registrations() as journal,
    ):
        backend = _create_backend(plugin)
        _check_backend_name_is_free(plugin)
        probed = _run_probe(backend)
        if not probed.ok:
            hint = f". {plugin.manifest.install}" if plugin.manifest.install else ""
            raise BackendUnavailable(
                f"backend {plugin.name!r} cannot start here: {probed.reason}{hint}"
            )
        table = backend.open(device)
        backend.functions, backend.constants = state.create_implementations(backend), {}
        set_up_kernels: list[KernelConfig] = []
        try:
            _add_and_set_up_kernels(backend, plugin, table, set_up_kernels)
            deferred_warnings = packs.register_plugin_kernels(backend)
        except BaseException:
            _release_device(backend, set_up_kernels)  # what fails here, too, would hide the reason
            remove_device(backend)
            raise
    plugin.imported.redo()  # if it was probed while it was opened
    plugin.status, plugin.reason = "active", ""
    deferred_warnings.append(partial(warn_about_claimed_name, plugin))
    deferred_warnings.append(partial(record_replacements, plugin, plugin.imported, journal))
    milliseconds = (perf_counter() - started) * 1e3
    print_trace_line(f"opened {backend.name}:{backend.device} of {plugin} in {milliseconds:.1f} ms")
    return backend, deferred_warnings


def _add_and_set_up_kernels(
    backend: Backend,
    plugin: Plugin,
    table: Iterable[KernelConfig],
    set_up_kernels: list[KernelConfig],
) -> None:
    """Register and set up the kernels in the table of an opened device; append those set up to `set_up_kernels`."""
    table = _as_config_tuple(table)
    _check_backend_results(backend, table)
    with state.lock:
        _check_backend_name_is_free(plugin)
        add_device(backend, plugin.qualified_name, table)
    limit = state.memory_limits.get(backend.label, config.get("memory_limit"))
    backend.set_memory_limit(limit)
    for kernel_config in _list_set_up_kernels(backend):
        if kernel_config.setup_func is not None:
            kernel_config.setup_func(backend)
        set_up_kernels.append(kernel_config)


def _as_config_tuple(table: object) -> tuple[KernelConfig, ...]:
    """Return the kernel configs in a table that a backend's `open` has returned, as a tuple."""
    try:
        return tuple(cast("Iterable[KernelConfig]", table))
    except TypeError:
        raise TypeError(
            f"open() returned {short_repr(table)}; it must return its kernels, as in a KernelTable"
        ) from None


def _check_backend_results(backend: Backend, table: tuple[object, ...]) -> None:
    """Raise if name, device, dtypes or kernel table of a backend that has just been opened are invalid."""
    for entry in table:
        if not isinstance(entry, KernelConfig):
            raise TypeError(
                f"open() returned {short_repr(entry)} among its kernels; they must be KernelConfig"
            )
        if entry.backend_name != backend.name:
            raise RegistrationError(
                f"open() returned kernel {entry.kernel_name!r} for backend {entry.backend_name!r}; "
                f"a backend brings the kernels of its own, {backend.name!r}"
            )
    if not isinstance(backend.device, str):  # pyright: ignore[reportUnnecessaryIsInstance] - a plugin's
        raise TypeError(
            f"open() set device to {short_repr(backend.device)}, which must be a string"
        )
    stored = cast("Any", backend.dtypes())
    if (
        not isinstance(stored, frozenset | set)
        or not stored
        or not all(isinstance(dtype, DType) for dtype in cast("frozenset[object]", stored))
    ):
        raise TypeError(
            f"dtypes() returned {short_repr(stored)}, which must be a set of plugrad dtypes, at least one"
        )


@contextmanager
def _rollback_on_failure(plugin: Plugin) -> Generator[None, None, None]:
    """Undo what a plugin registered on import if the block raises."""
    try:
        yield
    except BaseException:
        plugin.rollback()
        raise


def _create_backend(plugin: Plugin) -> Backend:
    """Return a new backend object with its settings, without opening it."""
    backend = cast("Callable[[], object]", plugin.load())()
    where = plugin.target
    if not isinstance(backend, Backend):
        raise TypeError(f"{where} returned {type(backend).__name__}, not a plugrad Backend")
    if plugin.name.startswith(MODULE_PREFIX):
        plugin.name = backend.name
    if backend.name != plugin.name:
        raise ValueError(f"{where} returned a backend called {backend.name!r}, not {plugin.name!r}")
    backend.distribution = plugin.distribution
    options = config.options(plugin.name)
    backend.options = {option: setting.value for option, setting in options.items()}
    return backend


def _check_backend_name_is_free(plugin: Plugin) -> None:
    """Raise if another plugin has registered kernels under the same backend name."""
    for other in plugins("backend"):
        if other.name == plugin.name and other is not plugin and other.status == "active":
            raise PluginConflict(
                f"{plugin} cannot be loaded: {other} is loaded in this process already, and the kernels of both "
                f"would have the same names; start another process, or switch one off with the setting plugins.disable"
            )


@contextmanager
def _raise_as_unavailable(plugin: Plugin) -> Generator[None, None, None]:
    """Record the failure of a plugin, and raise it as a PluginUnavailable error that names the plugin."""
    try:
        yield
    except (BackendUnavailable, ConfigError, PluginConflict):
        raise
    except BaseException as error:  # the plugin's code may raise anything
        if is_interruption(error):
            raise
        what = describe_exception(error)
        if plugin.status != "active":
            plugin.record_failure(error)
        print_trace_line(f"{plugin} failed: {what}")
        raise BackendUnavailable(f"{plugin} cannot start: {what}. {plugin.remedy}") from error
