"""Hooks: what a plugin may do besides bringing backends, kernels and ops.

A plugin names a module or an object in the entry-point group ``plugrad.plugins``, or is given to
`register_plugin`. Its functions that are called like those below and marked with `hookimpl` are
called with the arguments of the same names; they may take fewer. A hook that fails breaks nobody's
program: it is reported as a warning that names the plugin and the hook.

pluggy keeps the plugins and checks them. It is imported when there is one. Kernels are not run
through hooks.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from plugrad import discovery, registry
from plugrad.config import config, parsed_settings
from plugrad.errors import ConfigError, PluginNotFound, RegistrationError, suggestion, warn
from plugrad.plugin import LOCK, THIS_PROCESS, Plugin, trace

if TYPE_CHECKING:
    from pluggy import HookImpl, PluginManager

    from plugrad.backend import Backend
    from plugrad.config import Config
    from plugrad.gradient import GradientConfig
    from plugrad.plan import Gradient
    from plugrad.registry import KernelConfig


# --- the hooks -----------------------------------------------------------------------------------


def plugrad_configure(config: Config) -> Mapping[str, Any] | None:
    """Suggest settings, by name; every layer of the configuration but the defaults is stronger.

    Called before the first setting is read, and again when another plugin has been loaded. What
    starts with ``plugins.`` cannot be suggested: it says which plugins are loaded.
    """


def plugrad_backend_candidates(backends: Sequence[Plugin]) -> Sequence[str] | None:
    """Return the names of the backends that the automatic choice shall try, first the one to try first.

    `backends` are the usable ones that may be chosen automatically, best first; what is not among
    them cannot be returned. The first plugin that returns something decides.
    """


def plugrad_register_kernels(backend: Backend) -> Iterable[KernelConfig] | None:
    """Return kernels for a backend that is being opened; they replace its own of the same names.

    Called for each device. What is returned for a second device of the same backend is ignored.
    """


def plugrad_register_gradients() -> Iterable[GradientConfig] | None:
    """Return gradients; they replace others for the same kernels. Called once, when the plugin is loaded."""


def plugrad_backend_activated(backend: Backend) -> None:
    """Take notice of a backend that has been opened on a device; all its kernels are registered."""


def plugrad_fallback(
    kernel_name: str, source: str, target: str, nbytes: int, milliseconds: float
) -> None:
    """Take notice of a call that backend `source` had no kernel for and backend `target` has computed.

    `nbytes` were copied, there and back; `milliseconds` passed in all. See the setting ``fallback``.
    """


def plugrad_doctor_section() -> tuple[str, str] | None:
    """Return the title and the text of a section for ``plugrad doctor``."""


def plugrad_cli(subcommands: Any) -> None:
    """Add commands to ``plugrad``: `subcommands` is what argparse's ``add_subparsers`` returned.

    For example ``subcommands.add_parser("acme", help="…").set_defaults(run=function)``, where
    ``function(arguments)`` returns the exit status, or None for success.
    """


SPECIFICATIONS: Final[Mapping[str, Callable[..., Any]]] = {
    specification.__name__: specification
    for specification in (
        plugrad_configure,
        plugrad_backend_candidates,
        plugrad_register_kernels,
        plugrad_register_gradients,
        plugrad_backend_activated,
        plugrad_fallback,
        plugrad_doctor_section,
        plugrad_cli,
    )
}


# --- for plugins ---------------------------------------------------------------------------------


Hook = TypeVar("Hook", bound=Callable[..., Any])


def hookimpl(function: Hook) -> Hook:
    """Mark a function of a plugin as a hook; its name says which.

    >>> @plugrad.hookimpl
    ... def plugrad_fallback(kernel_name, milliseconds):
    ...     print(f"{kernel_name} took {milliseconds} ms")

    It may be a function of a module, or a method of an object; see `register_plugin`.
    """
    from pluggy import HookimplMarker  # who marks a function has a plugin

    return HookimplMarker("plugrad")(function)


def register_plugin(plugin: object, *, name: str = "") -> str:
    """Load hooks of this process, without an installed plugin, and return their name.

    >>> class Careful:
    ...     @plugrad.hookimpl
    ...     def plugrad_configure(self):
    ...         return {"memory_limit": "1GB"}
    >>> plugrad.register_plugin(Careful())
    'Careful'
    >>> plugrad.config.explain("memory_limit").layer
    'plugin <this process>::Careful'
    >>> plugrad.unregister_plugin("Careful")

    Args:
        plugin: a module or an object with functions that are marked with `hookimpl`.
        name: what to call it; the default is the module's or the class's name.

    Raises:
        RegistrationError: the name is taken, a hook is misspelt or takes unknown arguments, or a
            gradient is wrong.
    """
    name = name or getattr(plugin, "__name__", type(plugin).__name__)
    with LOCK:
        collect()
        if any(p.name == name for p in discovery.plugins("hooks")):
            raise RegistrationError(
                f"hooks called {name!r} are there already; choose another name, or unregister_plugin them"
            )
        record = Plugin("hooks", name, THIS_PROCESS, target=repr(plugin), loaded=plugin)
        record.status = "active"  # so that it is loaded here, and not on the next occasion
        discovery.add(record)
        try:
            _load(record)
        except BaseException:
            discovery.remove(record)
            raise
    return name


def unregister_plugin(name: str) -> None:
    """Take back what `register_plugin` did: the hooks, and the kernels and gradients that they brought.

    >>> plugrad.unregister_plugin("Careles")
    Traceback (most recent call last):
    plugrad.errors.PluginNotFound: no hooks of this process are called 'Careles'; ...

    Raises:
        PluginNotFound: no hooks of this process are called that.
    """
    from plugrad.packs import take_back  # which calls hooks

    with LOCK:
        known = [p for p in discovery.plugins("hooks") if p.distribution == THIS_PROCESS]
        record = next((p for p in known if p.name == name), None)
        if record is None:
            names = [p.name for p in known]
            raise PluginNotFound(
                f"no hooks of this process are called {name!r}{suggestion(name, names)}; "
                f"there are {', '.join(names) or 'none'}"
            )
        _unload(record)
        take_back(record.qualified_name)
        discovery.remove(record)


# --- for plugrad: who is loaded, and how hooks are called ----------------------------------------


_manager: PluginManager | None = None
_collected = -1
"""The generation of the list of plugins that has been looked through."""
_suggested: list[tuple[str, Mapping[str, Any]]] | None = None
_replaced: Final[dict[str, dict[str, Gradient | None]]] = {}
"""The gradients that stood where a plugin's are now, by the plugin's name and the kernel's."""


def collect() -> PluginManager | None:
    """Load the hooks of installed plugins that are new; return the manager of all, or None if there are none."""
    global _collected
    if _collected != discovery.generation:
        with LOCK:
            found = discovery.plugins("hooks")
            if _collected != discovery.generation:
                # Now, because loading a plugin may lead here again.
                _collected = discovery.generation
                for plugin in found:
                    _load_installed(plugin)
    return _manager


def call(hook: str, **arguments: Any) -> list[tuple[str, Any]]:
    """Call a hook of every plugin, the one loaded last first; return (plugin, result) where there is a result.

    pluggy itself would stop at the first that raises, so each is called on its own.
    """
    manager = collect()
    returned: list[tuple[str, Any]] = []
    for implementation in reversed(_implementations(manager, hook)) if manager else ():
        name = implementation.plugin_name
        try:
            result = _result(implementation, arguments)
        except (Exception, SystemExit) as error:
            report(name, hook, error)
            continue
        trace(f"{hook} of {name} returned {result!r}")
        if result is not None:
            returned.append((name, result))
    return returned


def report(name: str, hook: str, error: BaseException) -> None:
    """Warn that a hook of the plugin called `name` failed, and keep the traceback."""
    reason = f"hook {hook} failed: {type(error).__name__}: {error}"
    for plugin in discovery.plugins("hooks"):
        if plugin.qualified_name == name and plugin.status == "active":
            plugin.fail(error)
            plugin.status, plugin.reason = "active", reason
    warn(
        f"{reason}; it belongs to plugin {name!r}, which PLUGRAD_PLUGINS_DISABLE={name} switches off"
    )


def suggested_settings() -> list[tuple[str, Mapping[str, Any]]]:
    """Return what plugins suggest: the name of each as a layer, and its settings."""
    global _suggested
    if collect() is None:
        return []
    if _suggested is None:
        _suggested = []  # what a plugin reads while it is asked
        found: list[tuple[str, Mapping[str, Any]]] = []
        for name, values in call("plugrad_configure", config=config):
            try:
                settings = parsed_settings(values, f"plugin {name}")
                if any(key.startswith("plugins.") for key in settings):
                    raise ConfigError(
                        f"plugin {name}: what starts with 'plugins.' cannot be suggested"
                    )
            except Exception as error:
                report(name, "plugrad_configure", error)
            else:
                found.append((f"plugin {name}", settings))
        _suggested = found
    return _suggested


def candidate_order(backends: Sequence[Plugin]) -> Sequence[Plugin]:
    """Return the backends that the automatic choice tries, in the order that a plugin wishes."""
    for name, wished in call("plugrad_backend_candidates", backends=tuple(backends)):
        try:
            known = {spelling: b for b in backends for spelling in (b.qualified_name, b.name)}
            unknown = [b for b in wished if b not in known]
            if unknown:
                raise ValueError(f"{unknown} are not among {[b.name for b in backends]}")
            return [known[b] for b in wished]
        except Exception as error:
            report(name, "plugrad_backend_candidates", error)
    return backends


def _load_installed(plugin: Plugin) -> None:
    if plugin.status == "available":
        try:
            _load(plugin)
        except (Exception, SystemExit) as error:
            plugin.fail(error)
    if plugin.status not in ("active", "blocked"):
        plugin.warn_once("plugrad goes on without it")


def _load(plugin: Plugin) -> None:
    """Check what a plugin implements, and register it with its gradients and its kernels for backends that are open.

    Raises:
        RegistrationError: something is wrong; nothing has changed then.
    """
    global _manager, _suggested
    from plugrad import loading, packs  # which call hooks
    from plugrad.hook_manager import create, register  # with pluggy

    with registry.all_or_nothing():
        implementer = plugin.load()
        if _manager is None:
            _manager = create(sys.modules[__name__], SPECIFICATIONS)
        manager = _manager
        register(manager, implementer, plugin, SPECIFICATIONS)
        try:
            _register_gradients(manager, plugin)
        except BaseException:
            manager.unregister(name=plugin.qualified_name)
            raise
    plugin.status, _suggested = "active", None
    for backend in loading.opened_backends():
        for implementation in _implementations(manager, "plugrad_register_kernels"):
            if implementation.plugin is implementer:
                try:
                    configs = _result(implementation, {"backend": backend})
                except (Exception, SystemExit) as error:
                    report(plugin.qualified_name, "plugrad_register_kernels", error)
                else:
                    packs.add_from_hooks(plugin.qualified_name, configs or (), backend)


def _unload(plugin: Plugin) -> None:
    global _suggested
    assert _manager is not None
    _manager.unregister(name=plugin.qualified_name)
    _suggested = None
    for kernel_name, gradient in _replaced.pop(plugin.qualified_name, {}).items():
        registry.unregister_gradient(kernel_name)
        if gradient is not None:
            registry.set_gradient(gradient)


def _register_gradients(manager: PluginManager, plugin: Plugin) -> None:
    from plugrad.gradient import register_gradient  # gradients run on the engine

    before: dict[str, Gradient | None] = {}
    for implementation in _implementations(manager, "plugrad_register_gradients"):
        if implementation.plugin_name == plugin.qualified_name:
            for gradient in _result(implementation, {}) or ():
                before.setdefault(gradient.kernel_name, registry.get_gradient(gradient.kernel_name))
                register_gradient(gradient, replace=True)
    _replaced[plugin.qualified_name] = before


def _implementations(manager: PluginManager, hook: str) -> list[HookImpl]:
    """Return the functions that implement a hook, the one loaded first first."""
    return getattr(manager.hook, hook).get_hookimpls()


def _result(implementation: HookImpl, arguments: Mapping[str, Any]) -> Any:
    return implementation.function(*[arguments[name] for name in implementation.argnames])
