"""Hooks: what a plugin may do besides bringing backends, kernels and ops.

A plugin names a module or an object in the entry-point group ``plugrad.plugins``, or is given to
`register_plugin`. Its functions that are named like those below and marked with `hookimpl` are
called with the arguments of the same names; they may take fewer. A hook that fails does not stop the
program: a warning names the plugin and the hook.

pluggy keeps the plugins, checks them and calls their hooks. It is imported when the first plugin with
hooks is loaded. Kernels are not run through hooks.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from plugrad.discovery import listing
from plugrad.discovery.load_locks import load_lock
from plugrad.discovery.manifest import COMMAND_HOOKS
from plugrad.discovery.plugin import IN_PROCESS_DISTRIBUTION, Plugin
from plugrad.discovery.replacements import record_replacements
from plugrad.discovery.state import state
from plugrad.errors import (
    ArgumentError,
    ConfigError,
    PluginNotFound,
    RegistrationError,
    describe_exception,
    short_repr,
    suggest_similar_name,
    warn,
)
from plugrad.interruptions import is_interruption
from plugrad.settings import journal
from plugrad.settings.keys import may_plugins_suggest
from plugrad.settings.layers import config
from plugrad.types.arguments import check_callable, check_string

if TYPE_CHECKING:
    from pluggy import PluginManager

    from plugrad.settings.layers import Config
    from plugrad.tape.rules import GradientConfig
    from plugrad.tensor.backend import Backend, KernelConfig
    from plugrad.types.specs import Shape


# --- the hooks -----------------------------------------------------------------------------------


def plugrad_configure(config: Config) -> Mapping[str, Any] | None:
    """Suggest settings by name; every configuration layer except the defaults overrides them.

    Called before the first setting is read, and again after another plugin has been loaded. The setting
    ``packs`` and those that start with ``plugins.`` cannot be suggested: they decide which plugins are loaded.
    """


def plugrad_backend_candidates(backends: Sequence[Plugin]) -> Sequence[str] | None:
    """Return the names of the backends that the automatic choice should try, in that order.

    `backends` are the usable ones that may be chosen automatically, best first; no other names may be
    returned. The first plugin that returns something decides.
    """


def plugrad_register_kernels(backend: Backend) -> Iterable[KernelConfig] | None:
    """Return kernels for a device that is being opened; they replace its kernels of the same names.

    Called for each device, and the kernels are for this device only. They take part in the order of kernel
    packs: the setting ``packs`` may name the plugin, and its manifest may declare a priority.
    """


def plugrad_register_gradients() -> Iterable[GradientConfig] | None:
    """Return gradients, which replace others for the same kernels. Called once, when the plugin is loaded."""


def plugrad_backend_activated(backend: Backend) -> None:
    """React to a backend that has been opened on a device; all its kernels are registered."""


def plugrad_fallback(
    kernel_name: str, source: str, target: str, nbytes: int, milliseconds: float
) -> None:
    """React to a fallback: backend `target` computed a call because backend `source` lacks the kernel.

    `nbytes` were copied in both directions; the call took `milliseconds` in total. See the setting ``fallback``.
    """


def plugrad_kernel_finished(
    kernel_name: str, backend: Backend, shapes: Sequence[Shape], milliseconds: float
) -> None:
    """React to a call of a kernel, which is counted or timed, for example.

    Called after each call of an implementation, in the thread of the call; nothing is slower while no
    loaded plugin has this hook. `shapes` are those of the inputs. On a device that computes later,
    `milliseconds` is the time that it took to start the kernel; `plugrad.profile` waits for the device.
    Of a composite, the kernels of its body are reported. Kernels that the hook runs itself are not.
    """


def plugrad_doctor_section() -> tuple[str, str] | None:
    """Return the title and the text of a section for ``plugrad doctor``."""


def plugrad_cli(subcommands: Any) -> None:
    """Add commands to ``plugrad``: `subcommands` is the result of argparse's ``add_subparsers``.

    For example ``subcommands.add_parser("acme", help="…").set_defaults(run=function)``, where
    ``function(arguments)`` returns the exit status, or None for success.
    """


HOOK_SPECIFICATIONS: Final[Mapping[str, Callable[..., Any]]] = {
    specification.__name__: specification
    for specification in (
        plugrad_configure,
        plugrad_backend_candidates,
        plugrad_register_kernels,
        plugrad_register_gradients,
        plugrad_backend_activated,
        plugrad_fallback,
        plugrad_kernel_finished,
        plugrad_doctor_section,
        plugrad_cli,
    )
}
"""By name, the functions above, which specify the hooks."""


# --- for plugins ---------------------------------------------------------------------------------


HookFunctionType = TypeVar("HookFunctionType", bound=Callable[..., Any])
"""The type of a function that `hookimpl` marks and returns."""


def hookimpl(function: HookFunctionType) -> HookFunctionType:
    """Mark a function of a plugin as a hook; the function's name selects the hook.

    >>> @plugrad.hookimpl
    ... def plugrad_fallback(kernel_name, milliseconds):
    ...     print(f"{kernel_name} took {milliseconds} ms")

    It may be a function of a module, or a method of an object; see `register_plugin`.
    """
    from pluggy import HookimplMarker  # only plugins mark functions

    check_callable("hookimpl", function)
    return HookimplMarker("plugrad")(function)


def register_plugin(plugin: object, *, name: str = "") -> str:
    """Load hooks into this process without an installed plugin, and return their name.

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
        name: the name of the plugin; the default is the module's or the class's name.

    Raises:
        RegistrationError: the name is taken, a hook is misspelt or takes unknown arguments, or a
            gradient is wrong.
    """
    if plugin is None:
        raise ArgumentError("register_plugin: plugin=None must be a module or an object with hooks")
    name = check_string(name, "register_plugin", "name") or getattr(
        plugin, "__name__", type(plugin).__name__
    )
    with load_lock("hooks") as has_turn:
        if not has_turn:
            raise RegistrationError(
                f"hooks called {name!r} cannot be registered now: another thread is loading hooks, and waits "
                "for what this thread is loading"
            )
        load_new_hooks()
        if any(p.name == name for p in listing.plugins("hooks")):
            raise RegistrationError(
                f"hooks called {name!r} are registered already; choose another name, or call unregister_plugin first"
            )
        record = Plugin(
            "hooks", name, IN_PROCESS_DISTRIBUTION, target=short_repr(plugin), loaded=plugin
        )
        journal.record_change(
            ("hooks", name),
            partial(_remove_program_plugin, record),
            partial(_add_program_plugin, record),
        )
        _add_program_plugin(record)
    return name


def _add_program_plugin(plugin: Plugin) -> None:
    """Load the hooks of a plugin that the program registers."""
    plugin.status = "active"  # so that it is loaded here and not by the next hook call
    listing.add_plugin(plugin)
    try:
        _load_hooks(plugin)
    except BaseException:
        listing.remove_plugin(plugin)
        raise


def _remove_program_plugin(plugin: Plugin) -> None:
    """Unload the hooks of a plugin that the program has registered."""
    if plugin in state.added:
        unload_hooks(plugin)
        listing.remove_plugin(plugin)


def unregister_plugin(name: str) -> None:
    """Undo `register_plugin`: remove the hooks, and the kernels and gradients that they brought.

    >>> plugrad.unregister_plugin("Careles")
    Traceback (most recent call last):
    plugrad.errors.PluginNotFound: no hooks of this process are called 'Careles'; ...

    Raises:
        PluginNotFound: no hooks of this process have that name.
    """
    check_string(name, "unregister_plugin", "name")
    with load_lock("hooks"):
        known = [p for p in listing.plugins("hooks") if p.distribution == IN_PROCESS_DISTRIBUTION]
        record = next((p for p in known if p.name == name), None)
        if record is None:
            names = [p.name for p in known]
            raise PluginNotFound(
                f"no hooks of this process are called {name!r}{suggest_similar_name(name, names)}; "
                f"there are {', '.join(names) or 'none'}"
            )
        _remove_program_plugin(record)


# --- for plugrad: which plugins are loaded, and how hooks are called -----------------------------


plugin_load_listeners: Final[list[Callable[[str], None]]] = []
"""Functions that are called with the name of a plugin whose hooks have been loaded."""
plugin_unload_listeners: Final[list[Callable[[str], None]]] = []
"""Functions that are called with the name of a plugin whose hooks have been removed."""


def load_new_hooks() -> PluginManager | None:
    """Load the hooks of newly installed plugins; return the manager of all plugins, or None without any.

    Those that are for the command ``plugrad`` only, as their manifests say, are loaded when it calls them. Other
    threads wait, because hooks decide settings and the automatic choice. Code that is called while hooks are
    loaded goes without the rest of them, and so does a thread that hooks wait for.
    """
    if state.collected != state.generation or state.listing is None:
        generation = _load_matching_plugins(
            lambda plugin: not plugin.manifest.has_only_command_hooks
        )
        if generation is not None:
            state.collected = generation
    return state.manager


def _load_matching_plugins(is_selected: Callable[[Plugin], bool]) -> int | None:
    """Load the hooks of selected plugins; return the plugin list's generation, or None during another load."""
    with load_lock("hooks") as has_turn:
        if not has_turn or state.is_collecting:
            return None
        state.is_collecting = True
        try:
            found = listing.plugins("hooks")
            generation = state.generation
            for plugin in filter(is_selected, found):
                _load_installed_hooks(plugin)
        finally:
            state.is_collecting = False
    return generation


def call_hooks(hook: str, *, only_plugin: str = "", **arguments: Any) -> list[tuple[str, Any]]:
    """Call the hook named `hook` of every plugin, or of one; return (plugin, result) for each result but None.

    The order is pluggy's: the plugin loaded last comes first.
    """
    manager = load_new_hooks()
    if hook in COMMAND_HOOKS:
        _load_matching_plugins(lambda plugin: plugin.manifest.may_have_hook(hook))
        manager = state.manager
    if manager is None:
        return []
    caller = getattr(manager.hook, hook)
    if only_plugin:
        others = [plugin for name, plugin in manager.list_name_plugin() if name != only_plugin]
        caller = manager.subset_hook_caller(hook, others)
    returned: list[tuple[str, Any]] = caller(**arguments)
    return returned


def warn_about_failure(plugin_name: str, hook_name: str, error: BaseException) -> None:
    """Warn that a hook of the plugin called `plugin_name` failed, and keep the traceback."""
    reason = f"hook {hook_name} failed: {describe_exception(error)}"
    for plugin in listing.plugins("hooks"):
        if plugin.qualified_name == plugin_name and plugin.status == "active":
            plugin.record_failure(error)
            plugin.status, plugin.reason = "active", reason
    warn(
        f"{reason}; it belongs to plugin {plugin_name!r}; switch it off with PLUGRAD_PLUGINS_DISABLE={plugin_name}"
    )


def collect_suggested_settings() -> list[tuple[str, Mapping[str, Any]]]:
    """Return the settings that plugins suggest, as (plugin name, settings) pairs."""
    if load_new_hooks() is None:
        return []
    if state.suggested is None:
        with load_lock("hooks") as has_turn:
            if has_turn and not state.is_suggesting:  # a plugin reads nothing during its own hook
                state.is_suggesting = True
                try:
                    state.suggested = _collect_suggestions()
                finally:
                    state.is_suggesting = False
    return state.suggested or []


def _collect_suggestions() -> list[tuple[str, Mapping[str, Any]]]:
    """Return (plugin name, settings) pairs of the plugins that are loaded, and warn about invalid ones."""
    found: list[tuple[str, Mapping[str, Any]]] = []
    for name, values in call_hooks("plugrad_configure", config=config):
        try:
            settings = config.parse_settings(values, f"plugin {name}")
            if not all(map(may_plugins_suggest, settings)):
                raise ConfigError(
                    f"plugin {name}: packs and settings that start with 'plugins.' cannot be suggested"
                )
        except Exception as error:
            if is_interruption(error):
                raise
            warn_about_failure(name, "plugrad_configure", error)
        else:
            found.append((f"plugin {name}", settings))
    return found


config.suggestions = collect_suggested_settings


def order_backend_candidates(backends: Sequence[Plugin]) -> Sequence[Plugin]:
    """Return the backends for the automatic choice, in the order that a plugin's hook returns."""
    for name, wished in call_hooks("plugrad_backend_candidates", backends=tuple(backends)):
        try:
            known = {spelling: b for b in backends for spelling in (b.qualified_name, b.name)}
            unknown = [b for b in wished if b not in known]
            if unknown:
                raise ValueError(f"{unknown} are not among {[b.name for b in backends]}")
            return [known[b] for b in wished]
        except Exception as error:
            if is_interruption(error):
                raise
            warn_about_failure(name, "plugrad_backend_candidates", error)
    return backends


def _load_installed_hooks(plugin: Plugin) -> None:
    """Load the hooks of an installed plugin that is not loaded yet; a failure is a warning."""
    if plugin.status == "available":
        try:
            _load_hooks(plugin)
        except BaseException as error:  # the plugin's code may raise anything
            if is_interruption(error):
                raise
            plugin.record_failure(error)
            plugin.rollback()
    if plugin.status not in ("active", "blocked"):
        plugin.warn_once("plugrad goes on without it")


def _load_hooks(plugin: Plugin) -> None:
    """Check a plugin's hooks, then register the hooks and gradients.

    Raises:
        RegistrationError: something is wrong; then nothing has changed.
    """
    # The command ``plugrad`` lists plugins without pluggy.
    from plugrad.discovery.hook_manager import create_manager, register_hooks

    with journal.record_registrations() as changes:
        implementer = plugin.load()
        if state.manager is None:
            state.manager = create_manager(sys.modules[__name__], HOOK_SPECIFICATIONS)
        register_hooks(state.manager, implementer, plugin, HOOK_SPECIFICATIONS, warn_about_failure)
        try:
            _register_gradients(implementer)
        except BaseException:
            state.manager.unregister(name=plugin.qualified_name)
            raise
    plugin.registered.append(changes)
    plugin.status, state.suggested = "active", None
    state.selected.clear()
    try:
        journal.record_change_number()
        for listener in plugin_load_listeners:
            listener(plugin.qualified_name)
    except BaseException:  # an interruption
        unload_hooks(plugin)
        raise
    record_replacements(plugin, plugin.imported, changes)


def unload_hooks(plugin: Plugin) -> None:
    """Remove the hooks of a plugin and all that its code registered, so that it can be loaded again."""
    assert state.manager is not None
    state.manager.unregister(name=plugin.qualified_name)
    state.suggested = None
    state.selected.clear()
    journal.record_change_number()
    for listener in plugin_unload_listeners:
        listener(plugin.qualified_name)
    plugin.status = "available"
    plugin.rollback()


def _register_gradients(implementer: Any) -> None:
    """Register the gradients that the hook of a plugin returns."""
    from plugrad.tape.rules import register_gradient  # as in _load

    brings = getattr(implementer, "plugrad_register_gradients", None)
    for gradient in (brings() if brings else None) or ():
        register_gradient(gradient, replace=True)
