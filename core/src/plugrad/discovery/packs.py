"""Kernels and ops that come in separate packages.

A *kernel pack* brings kernels for another plugin's backend and is loaded right after that backend. Several
packs may bring the same kernel: their order decides which one runs. An *op pack* is a module of ops, with
their contracts, gradients and kernels. It is loaded when it is requested by name, or when an unknown kernel
is run. A pack that fails is left out whole.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from plugrad.contract.kernel import all_contracts, get_contract
from plugrad.discovery import hooks
from plugrad.discovery.listing import find_plugin, plugin_uninstall_listeners, plugins
from plugrad.discovery.load_locks import load_lock
from plugrad.discovery.order import sort_packs_by_precedence
from plugrad.discovery.plugin import Plugin, print_trace_line
from plugrad.discovery.replacements import record_replacements, warn_about_replaced_kernels
from plugrad.discovery.state import state
from plugrad.errors import (
    ConfigError,
    PluginUnavailable,
    RegistrationError,
    describe_exception,
    warn,
)
from plugrad.interruptions import is_interruption
from plugrad.registry.kernels import (
    add_kernel_table,
    open_devices_of_backend,
    order_kernel_tables,
    remove_kernel_table,
)
from plugrad.settings.journal import record_registrations
from plugrad.settings.layers import config as settings
from plugrad.tensor.backend import KernelConfig

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad.tensor.backend import Backend


# --- kernel packs --------------------------------------------------------------------------------

DeferredWarnings = list["Callable[[], None]"]
"""Warnings that are issued at the end, because a warning filter may turn one into an exception."""


def register_plugin_kernels(backend: Backend) -> DeferredWarnings:
    """Give a device that is being opened the kernels of packs and hooks; those that fail are left out."""
    deferred_warnings: DeferredWarnings = []
    for plugin in [p for p in plugins() if p.kind in ("kernels", "hooks")]:
        if plugin.kind == "hooks" and plugin.status == "active":
            _register_hook_kernels(plugin, backend, deferred_warnings)
        elif plugin.kind == "kernels" and plugin.backend_name == backend.name:
            _register_pack(plugin, backend, deferred_warnings)
    deferred_warnings.append(partial(warn_about_replaced_kernels, backend))
    return deferred_warnings


def _register_pack(pack: Plugin, backend: Backend, deferred_warnings: DeferredWarnings) -> None:
    """Give a device the kernels of a pack; a failure becomes a warning."""
    if pack.status in ("available", "active"):
        error = _register_and_set_up(pack, backend, deferred_warnings)
        if error is None:
            pack.status, pack.reason = "active", ""
            return
        if any(
            pack.qualified_name in device.kernels
            for device in open_devices_of_backend(backend.name)
        ):
            text = (
                f"{pack} is left out on {backend.label}: {describe_exception(error)}. {pack.remedy}"
            )
            deferred_warnings.append(partial(warn, text))
            return
        pack.record_failure(error)
        pack.rollback()
    if pack.status != "blocked":
        deferred_warnings.append(
            partial(pack.warn_once, f"backend {backend.name!r} goes on without it")
        )


def _register_hook_kernels(
    plugin: Plugin, backend: Backend, deferred_warnings: DeferredWarnings
) -> None:
    """Give a device the kernels of a plugin's hooks; a failure becomes a warning."""
    error = _register_and_set_up(plugin, backend, deferred_warnings)
    if error is not None:
        deferred_warnings.append(
            partial(
                hooks.warn_about_failure, plugin.qualified_name, "plugrad_register_kernels", error
            )
        )


def _register_for_open_backends(plugin_name: str) -> None:
    """Give the devices that are open already the kernels of a plugin's hooks."""
    plugin = next(p for p in plugins("hooks") if p.qualified_name == plugin_name)
    for backend in dict.fromkeys(list(state.opened.values())):
        _register_hook_kernels(
            plugin, backend, deferred_warnings := [partial(warn_about_replaced_kernels, backend)]
        )
        emit_warnings(deferred_warnings)


def emit_warnings(deferred_warnings: DeferredWarnings) -> None:
    """Issue deferred warnings."""
    for warning in deferred_warnings:
        warning()


def unregister_plugin_kernels(plugin_name: str) -> None:
    """Unregister a plugin's kernels; the implementations that they replaced are in effect again."""
    state.brought.pop(plugin_name, None)
    state.compilers.pop(plugin_name, None)
    for backend in dict.fromkeys(list(state.opened.values())):
        table = backend.kernels.get(plugin_name, {})
        remove_kernel_table(backend, plugin_name)
        for config in reversed(table.values()):
            _dispose_kernel(plugin_name, config, backend)
    for pack in plugins("kernels"):
        if pack.qualified_name == plugin_name and pack.status == "active":
            _deactivate_pack(pack)


def _dispose_kernel(plugin_name: str, config: KernelConfig, backend: Backend) -> None:
    """Call the dispose function of a kernel, which a plugin brought, with the backend; a failure is a warning."""
    if config.dispose_func is None:
        return
    try:
        config.dispose_func(backend)
    except BaseException as error:  # the plugin's code may raise anything
        if is_interruption(error):
            raise
        warn(
            f"{plugin_name}: the dispose_func of kernel {config.kernel_name!r} failed on {backend.label}: "
            f"{describe_exception(error)}. The kernel is taken back nevertheless; "
            f"report this to the authors of {plugin_name}"
        )


def _deactivate_pack(pack: Plugin) -> None:
    """Remove what a pack has registered, so that it is loaded again when it is needed."""
    pack.status = "available"
    pack.rollback()


def _remove_uninstalled_pack(pack: Plugin) -> None:
    """Take a pack that is not installed any more away from the devices that are open."""
    if pack.kind == "kernels" and pack.status == "active":
        unregister_plugin_kernels(pack.qualified_name)
        _deactivate_pack(pack)


hooks.plugin_load_listeners.append(_register_for_open_backends)
hooks.plugin_unload_listeners.append(unregister_plugin_kernels)
plugin_uninstall_listeners.append(_remove_uninstalled_pack)


def _register_and_set_up(
    plugin: Plugin, backend: Backend, deferred_warnings: DeferredWarnings
) -> BaseException | None:
    """Give a device the kernels of a plugin, and set them up; return the error, if any."""
    name = plugin.qualified_name
    try:
        with record_registrations() as journal:
            configs = _kernels_of_plugin(plugin, backend)
            _check_configs(name, configs, backend)
            compiler = state.compilers.get(name)
            if compiler is not None:
                backend.compilers = {**backend.compilers, name: compiler}
            if configs:
                add_kernel_table(backend, name, configs, list_packs_in_order())
                print_trace_line(f"{name} brings {len(configs)} kernels for {backend.label}")
            for config in configs:
                if config.setup_func is not None:
                    config.setup_func(backend)
    except BaseException as error:  # the plugin's code may raise anything
        remove_kernel_table(backend, name)
        if is_interruption(error):
            raise
        print_trace_line(f"{name} brings nothing for {backend.label}: {describe_exception(error)}")
        return error
    if journal.changes:
        plugin.registered.append(journal)
    deferred_warnings.append(partial(record_replacements, plugin, plugin.imported, journal))
    return None


def _kernels_of_plugin(plugin: Plugin, backend: Backend) -> tuple[KernelConfig, ...]:
    """Return the kernels that a plugin brings for a device: hooks are asked for each, a pack once."""
    name = plugin.qualified_name
    if plugin.kind == "hooks":
        answers = hooks.call_hooks("plugrad_register_kernels", only_plugin=name, backend=backend)
        return tuple(config for _, configs in answers for config in configs)
    configs = state.brought.get(name)
    if configs is None:
        table = plugin.load()()
        configs = tuple(table)
        _check_configs(name, configs, backend)
        if (compiler := getattr(table, "compile", None)) is not None:
            state.compilers[name] = compiler
        state.brought[name] = configs
    return configs


def _check_configs(plugin_name: str, configs: tuple[Any, ...], backend: Backend) -> None:
    """Raise unless all configs that a plugin brings are kernels for this backend."""
    for config in configs:
        if not isinstance(config, KernelConfig):
            raise TypeError(
                f"{plugin_name} must return an iterable of KernelConfig, but it contains a {type(config).__name__}"
            )
        if config.backend_name != backend.name:
            raise RegistrationError(
                f"{plugin_name} has kernel {config.kernel_name!r} for backend {config.backend_name!r}; "
                f"it is loaded for {backend.name!r}"
            )


# --- the order of packs --------------------------------------------------------------------------


def list_packs_in_order() -> list[str]:
    """Return the qualified names of the plugins that may bring kernels, the first in effect at the front."""
    return [
        p.qualified_name for p in sort_packs_by_precedence([*plugins("kernels"), *plugins("hooks")])
    ]


def _on_setting_changed(setting: str) -> None:
    """Sort the packs of the devices that are open when the setting changes."""
    if setting != "packs" or not state.opened:
        return
    try:
        order = list_packs_in_order()
    except ConfigError:
        return  # opening the next backend raises the error
    for backend in dict.fromkeys(list(state.opened.values())):
        order_kernel_tables(backend, order)


settings.listeners.append(_on_setting_changed)


# --- op packs ------------------------------------------------------------------------------------


def op_pack(name: str) -> Any:
    """Return the module of an installed op pack, importing it on first use.

    >>> plugrad.op_pack("acme")
    Traceback (most recent call last):
    plugrad.errors.PluginNotFound: no installed plugin brings an op pack called 'acme'; ...

    Args:
        name: its name in the group ``plugrad.ops``, or ``"distribution::name"``.

    Raises:
        PluginNotFound: no plugin of that name is installed.
        PluginConflict: two distributions bring it and the name does not say which.
        PluginUnavailable: it is incompatible, blocked, or cannot be imported; the message gives the reason.
    """
    pack = find_plugin(name, "ops")
    with load_lock(pack.key) as has_turn:
        if not has_turn:
            raise PluginUnavailable(
                f"{pack} is being imported by another thread, which waits for what this thread is loading; "
                "import both before the threads start"
            )
        pack = find_plugin(name, "ops")  # another thread may have found out that it fails
        try:
            module = pack.load()
        except BaseException as error:  # the plugin's code may raise anything
            if is_interruption(error):
                raise
            pack.record_failure(error)
            raise PluginUnavailable(
                f"{pack} cannot be imported: {pack.reason}. {pack.remedy}"
            ) from error
        pack.status = "active"
    record_replacements(pack, pack.imported)
    return module


def find_contract(kernel_name: str) -> Any:
    """Import op packs until one declares an undeclared kernel; return its contract, or None.

    A pack whose manifest lists its kernels is imported only for one of these. A pack that fails is
    skipped with a warning.
    """
    for pack in plugins("ops"):
        listed = pack.manifest.kernels
        if pack.status != "available" or (listed and kernel_name not in listed):
            continue
        try:
            op_pack(pack.qualified_name)
        except PluginUnavailable as error:
            warn(str(error))
        if kernel_name in all_contracts():
            break
    return get_contract(kernel_name)
