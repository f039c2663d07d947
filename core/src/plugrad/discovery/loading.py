"""Load a requested backend alone, when it is first needed; a failure reaches only the caller."""

from __future__ import annotations

from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING, cast

from plugrad.discovery import hooks, packs
from plugrad.discovery.listing import MODULE, find, plugins
from plugrad.discovery.plugin import Plugin, trace
from plugrad.discovery.state import state
from plugrad.errors import BackendUnavailable, ConfigError, PluginConflict
from plugrad.registry.kernels import get_kernels_for_backend, register_brought
from plugrad.registry.transaction import all_or_nothing
from plugrad.settings.layers import config
from plugrad.tensor.backend import Backend, Probe

if TYPE_CHECKING:
    from collections.abc import Callable, Generator


def open_backend(name: str, device: str = "") -> Backend:
    """Return the backend opened on a device, loading its plugin if that has not happened yet.

    Raises:
        BackendNotFound, PluginConflict: see `plugrad.discovery.find`; and two plugins
            whose backends have the same name cannot both be loaded.
        BackendUnavailable: the plugin cannot be imported or cannot start; its own error is
            chained.
        ConfigError: the backend's own settings are wrong.
    """
    backend = state.opened.get((find(name).qualified_name, device))
    if backend is not None:
        return backend
    hooks.collect()
    with state.lock:
        plugin = find(name)
        key = plugin.qualified_name, device
        if key in state.opened:
            return state.opened[key]
        backend = _opened_by(plugin, device)
        known = state.opened.setdefault((plugin.qualified_name, backend.device), backend)
        state.opened[key] = known
    if known is backend:
        hooks.call("plugrad_backend_activated", backend=backend)
    else:
        backend.close()  # two names for one device
    return known


def opened_backends() -> list[Backend]:
    """Return the backends that are open, each once."""
    return list(dict.fromkeys(state.opened.values()))


def _limit_memory(name: str) -> None:
    """Apply the limit in the settings to the backends that are open."""
    if name != "memory_limit" or not state.opened:
        return
    try:
        limit = config.get("memory_limit")
    except ConfigError:
        return  # opening the next backend raises the error
    for backend in opened_backends():
        backend.set_memory_limit(limit)


config.listeners.append(_limit_memory)


def close_backend(backend: Backend) -> None:
    """Run the kernels' dispose functions and release the device.

    >>> backend = plugrad.which().backend
    >>> backend.is_closed
    False

    Its tensors cannot be used any more. The next use of the backend opens it again.
    """
    for kernel_config in get_kernels_for_backend(backend.name):
        if kernel_config.dispose_func is not None:
            kernel_config.dispose_func(backend)
    backend.close()
    backend.is_closed = True
    backend.functions.clear()
    backend.constants.clear()
    for key in [k for k, b in state.opened.items() if b is backend]:
        del state.opened[key]


def probe(plugin: Plugin) -> Probe:
    """Return whether a backend can start, importing its plugin without opening a device.

    Raises:
        BackendUnavailable: the plugin cannot be imported.
    """
    with state.lock, _reported(plugin):
        return _created(plugin).probe()


def _opened_by(plugin: Plugin, device: str) -> Backend:
    started = perf_counter()
    with _reported(plugin):
        backend = _created(plugin)
        _check_room(plugin)
        probed = backend.probe()
        if not probed.ok:
            hint = f". {plugin.manifest.install}" if plugin.manifest.install else ""
            raise BackendUnavailable(
                f"backend {plugin.name!r} cannot start here: {probed.reason}{hint}"
            )
        table = backend.open(device)
        with all_or_nothing():
            if plugin.status != "active":
                register_brought(table)
            backend.functions, backend.constants = state.functions_of(backend), {}
            backend.set_memory_limit(config.get("memory_limit"))
            for kernel_config in get_kernels_for_backend(backend.name):
                if kernel_config.setup_func is not None and not packs.brought(kernel_config):
                    kernel_config.setup_func(backend)
    plugin.status, plugin.reason = "active", ""
    packs.add_to(backend)
    milliseconds = (perf_counter() - started) * 1e3
    trace(f"opened {backend.name}:{backend.device} of {plugin} in {milliseconds:.1f} ms")
    return backend


def _created(plugin: Plugin) -> Backend:
    """Return a new backend object, with its settings, not yet open."""
    backend = cast("Callable[[], object]", plugin.load())()
    where = plugin.target
    if not isinstance(backend, Backend):
        raise TypeError(f"{where} returned {type(backend).__name__}, not a plugrad Backend")
    if plugin.name.startswith(MODULE):
        plugin.name = backend.name
    if backend.name != plugin.name:
        raise ValueError(f"{where} returned a backend called {backend.name!r}, not {plugin.name!r}")
    backend.distribution = plugin.distribution
    options = config.options(plugin.name)
    backend.options = {option: setting.value for option, setting in options.items()}
    return backend


def _check_room(plugin: Plugin) -> None:
    """Raise if another plugin's backend of the same name has its kernels in the registry."""
    for other in plugins("backend"):
        if other.name == plugin.name and other is not plugin and other.status == "active":
            raise PluginConflict(
                f"{plugin} cannot be loaded: {other} is loaded in this process already, and the kernels of both "
                f"would have the same names; start another process, or switch one off with the setting plugins.disable"
            )


@contextmanager
def _reported(plugin: Plugin) -> Generator[None, None, None]:
    """Keep the reason of a failure, and raise it as an error that names the plugin at fault."""
    try:
        yield
    except (BackendUnavailable, ConfigError, PluginConflict):
        raise
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the plugin's code may raise anything
        what = f"{type(error).__name__}: {error}"
        if plugin.status != "active":
            plugin.fail(error)
        trace(f"{plugin} failed: {what}")
        raise BackendUnavailable(f"{plugin} cannot start: {what}. {plugin.remedy}") from error
