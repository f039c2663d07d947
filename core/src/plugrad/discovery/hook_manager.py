"""The manager of plugins that have hooks: pluggy, which is imported with this module.

pluggy checks the hooks of a plugin and calls them by its own rules. A hook that fails must not stop
the hooks of other plugins; therefore pluggy calls a guard around each hook, which reports the failure.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

from pluggy import HookspecMarker, PluginManager, PluginValidationError

from plugrad.discovery.plugin import print_trace_line
from plugrad.errors import RegistrationError, short_repr, suggest_similar_name
from plugrad.interruptions import is_interruption

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType

    from plugrad.discovery.plugin import Plugin

    FailureReporter = Callable[[str, str, BaseException], None]
    """A function that is called with the plugin's name, the hook's name and the error."""


class _GuardedHooks:
    """One plugin's hooks, wrapped so that a failing hook is reported; pluggy sees this object as the plugin."""

    def __init__(self, guards: Mapping[str, Callable[..., Any]]) -> None:
        """Offer functions under the names of the hooks."""
        vars(self).update(guards)


def create_manager(
    specifications: ModuleType, hook_names: Mapping[str, Callable[..., Any]]
) -> PluginManager:
    """Return a manager of plugins that may implement the named functions of a module."""
    manager = PluginManager("plugrad")
    mark = HookspecMarker("plugrad")
    for specification in hook_names.values():
        mark(specification)
    manager.add_hookspecs(specifications)
    return manager


def register_hooks(
    manager: PluginManager,
    implementer: Any,
    plugin: Plugin,
    hook_names: Mapping[str, Any],
    report_failure: FailureReporter,
) -> None:
    """Register the hooks that `implementer`, a module or object, has; `report_failure` is called for each failure.

    A result comes together with the name of the plugin that returned it.

    Raises:
        RegistrationError: a hook is misspelt, not marked, takes unknown arguments, or wraps the hooks of
            other plugins; or the plugin has no hook.
    """
    if isinstance(implementer, type):
        raise RegistrationError(f"{plugin}: {plugin.target} is a class; name an instance of it")
    hooks = {
        name: function
        for name in dir(implementer)
        if manager.parse_hookimpl_opts(implementer, name) is not None
        and callable(function := getattr(implementer, name))
    }
    _check_signatures(manager, implementer, hooks, plugin, hook_names)
    guards = {
        name: _guard_hook(function, name, plugin.qualified_name, report_failure)
        for name, function in hooks.items()
    }
    try:
        manager.register(_GuardedHooks(guards), plugin.qualified_name)
    except (PluginValidationError, ValueError) as error:
        if manager.has_plugin(plugin.qualified_name):
            manager.unregister(name=plugin.qualified_name)
        raise RegistrationError(f"{plugin}: {error}") from error


def _check_signatures(
    manager: PluginManager,
    implementer: Any,
    hooks: Mapping[str, Any],
    plugin: Plugin,
    hook_names: Mapping[str, Any],
) -> None:
    """Raise unless a plugin's hooks exist, are marked, are in its manifest, and are no pluggy wrappers."""
    for name in sorted(hooks.keys() - hook_names.keys()):
        raise RegistrationError(
            f"{plugin}: there is no hook {name!r}{suggest_similar_name(name, hook_names)}; "
            f"the hooks are {', '.join(hook_names)}"
        )
    for name in hook_names:
        if name not in hooks and callable(getattr(implementer, name, None)):
            raise RegistrationError(f"{plugin}: mark {name} with plugrad.hookimpl")
    if not hooks:
        raise RegistrationError(
            f"{plugin}: it does not have any hook; the hooks are {', '.join(hook_names)}"
        )
    declared = plugin.manifest.hooks
    for name in sorted(set(declared) - hook_names.keys()):
        raise RegistrationError(
            f"{plugin}: its manifest lists the hook {name!r}{suggest_similar_name(name, hook_names)}; "
            f"the hooks are {', '.join(hook_names)}"
        )
    for name in hooks:
        if declared and name not in declared:
            raise RegistrationError(
                f"{plugin}: add {name!r} to the hooks in its manifest, which lists {', '.join(declared)}"
            )
        options = manager.parse_hookimpl_opts(implementer, name)
        if options and (options.get("wrapper") or options.get("hookwrapper")):
            raise RegistrationError(
                f"{plugin}: {name} is a wrapper, and a hook cannot wrap the hooks of other plugins"
            )


def _guard_hook(
    function: Callable[..., Any], hook_name: str, plugin_name: str, report_failure: FailureReporter
) -> Callable[..., tuple[str, Any] | None]:
    """Return a hook as a function that reports a failure, and returns the plugin's name with the result."""

    @wraps(function)
    def call_guarded(*arguments: Any) -> tuple[str, Any] | None:
        try:
            result = function(*arguments)
        except BaseException as error:  # pytest.skip and SystemExit do not derive from Exception
            if is_interruption(error):
                raise
            report_failure(plugin_name, hook_name, error)
            return None
        print_trace_line(f"{hook_name} of {plugin_name} returned {short_repr(result)}")
        return None if result is None else (plugin_name, result)

    return call_guarded
