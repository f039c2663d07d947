"""Kernels and ops that come in separate packages.

A *kernel pack* brings kernels for another plugin's backend and is loaded right after that
backend. An *op pack* is a module of ops, with their contracts, gradients and kernels. It is loaded
when it is requested by name, or when an unknown kernel is run. A pack takes effect completely or not at all.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from plugrad.contract.kernel import contract_of, contracts
from plugrad.discovery import hooks
from plugrad.discovery.listing import find, plugins
from plugrad.discovery.plugin import Plugin, trace
from plugrad.discovery.replacing import replacing
from plugrad.discovery.state import state
from plugrad.discovery.turns import turn
from plugrad.errors import PluginConflict, PluginUnavailable, RegistrationError, told, warn
from plugrad.registry.kernels import register_from_plugin, take_away
from plugrad.settings.journal import recorded
from plugrad.tensor.backend import KernelConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from plugrad.tensor.backend import Backend


# --- kernel packs --------------------------------------------------------------------------------


def brought(config: KernelConfig) -> bool:
    """Return whether an implementation comes from a pack or from hooks."""
    return any(config is c for configs in state.brought.values() for c in configs)


News = list["Callable[[], None]"]
"""Warnings to be given when nothing can be left half done: a warning may be an error."""


def add_to(backend: Backend) -> News:
    """Register the kernels of packs and hooks for a backend that is being opened; those that fail are left out."""
    news: News = []
    for pack in plugins("kernels"):
        if pack.backend_name == backend.name:
            _add_pack(pack, backend, news)
    for name, configs in hooks.call("plugrad_register_kernels", backend=backend):
        _add_from_hooks(name, configs, backend, news)
    return news


def _add_pack(pack: Plugin, backend: Backend, news: News) -> None:
    if pack.status in ("available", "active"):
        error = _added(pack, backend, lambda: pack.load()(), news)
        if error is None:
            pack.status, pack.reason = "active", ""
            return
        pack.fail(error)
        pack.lay_down()
    if pack.status != "blocked":
        news.append(partial(pack.warn_once, f"backend {backend.name!r} goes on without it"))


def _add_from_hooks(
    name: str, configs: Iterable[KernelConfig], backend: Backend, news: News
) -> None:
    plugin = next(p for p in plugins("hooks") if p.qualified_name == name)
    error = _added(plugin, backend, lambda: configs, news)
    if error is not None:
        news.append(partial(hooks.report, name, "plugrad_register_kernels", error))


def _add_to_opened(name: str) -> None:
    """Register the kernels of a plugin's hooks for the backends that are open already."""
    for backend in dict.fromkeys(list(state.opened.values())):
        for _, configs in hooks.call("plugrad_register_kernels", only=name, backend=backend):
            _add_from_hooks(name, configs, backend, news := [])
            tell(news)


def tell(news: News) -> None:
    """Give the warnings."""
    for warning in news:
        warning()


def take_back(name: str = "", *, backend: str = "") -> None:
    """Remove the kernels of the plugin called `name`, or all for one backend; what they replaced is in effect again."""
    for key in [key for key in state.brought if name in ("", key[0]) and backend in ("", key[1])]:
        take_away(state.brought.pop(key))


hooks.when_loaded.append(_add_to_opened)
hooks.when_unloaded.append(take_back)


def _added(
    plugin: Plugin, backend: Backend, get: Callable[[], Iterable[KernelConfig]], news: News
) -> BaseException | None:
    """Register kernels, once, and set them up on `backend`; return the error, if any."""
    name = plugin.qualified_name
    key = name, backend.name
    is_new = key not in state.brought
    try:
        with recorded() as journal:
            if is_new:
                configs = tuple(get())
                _check(name, configs, backend)
                register_from_plugin(configs)
                state.brought[key] = configs
                trace(f"{name} brings {len(configs)} kernels for backend {backend.name!r}")
            for config in state.brought[key]:
                if config.setup_func is not None:
                    config.setup_func(backend)
    except BaseException as error:  # the plugin's code may raise anything
        take_away(state.brought.pop(key, ()))
        if isinstance(error, KeyboardInterrupt):
            raise
        trace(f"{name} brings nothing for backend {backend.name!r}: {told(error)}")
        return error
    news.append(partial(replacing, plugin, plugin.imported, journal))
    return None


def _check(name: str, configs: tuple[Any, ...], backend: Backend) -> None:
    """Raise unless all are kernels for this backend that no other plugin has brought."""
    for config in configs:
        if not isinstance(config, KernelConfig):
            raise TypeError(
                f"{name} must return an iterable of KernelConfig, but it contains a {type(config).__name__}"
            )
        if config.backend_name != backend.name:
            raise RegistrationError(
                f"{name} has kernel {config.kernel_name!r} for backend {config.backend_name!r}; "
                f"it is loaded for {backend.name!r}"
            )
        for (other, _), theirs in state.brought.items():
            if any(c[:2] == config[:2] for c in theirs):
                raise PluginConflict(
                    f"{name} has kernel {config.kernel_name!r}, which {other} brings for backend "
                    f"{backend.name!r} already; switch one of them off with the setting plugins.disable"
                )


# --- op packs ------------------------------------------------------------------------------------


def op_pack(name: str) -> Any:
    """Return the module of ops that an installed plugin brings, importing it the first time.

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
    pack = find(name, "ops")
    with turn(pack.key) as has_turn:
        if not has_turn:
            raise PluginUnavailable(
                f"{pack} is being imported by another thread, which waits for what this thread is loading; "
                "import both before the threads start"
            )
        pack = find(name, "ops")  # another thread may have found out that it fails
        try:
            module = pack.load()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # the plugin's code may raise anything
            pack.fail(error)
            raise PluginUnavailable(
                f"{pack} cannot be imported: {pack.reason}. {pack.remedy}"
            ) from error
        pack.status = "active"
    replacing(pack, pack.imported)
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
        if kernel_name in contracts():
            break
    return contract_of(kernel_name)
