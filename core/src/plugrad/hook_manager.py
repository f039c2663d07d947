"""What keeps the plugins that have hooks, and checks them: pluggy, which is imported with this module."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pluggy import HookspecMarker, PluginManager, PluginValidationError

from plugrad.errors import RegistrationError, suggestion

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType

    from plugrad.plugin import Plugin


def create(specifications: ModuleType, names: Mapping[str, Callable[..., Any]]) -> PluginManager:
    """Return a manager of plugins that may implement the named functions of a module."""
    manager = PluginManager("plugrad")
    mark = HookspecMarker("plugrad")
    for specification in names.values():
        mark(specification)
    manager.add_hookspecs(specifications)
    return manager


def register(
    manager: PluginManager, implementer: Any, plugin: Plugin, names: Mapping[str, Any]
) -> None:
    """Give a plugin to pluggy, which checks the arguments of its hooks, and check the rest.

    Raises:
        RegistrationError: something is wrong; the manager has not changed then.
    """
    if isinstance(implementer, type):
        raise RegistrationError(f"{plugin}: {plugin.target} is a class; name an object of it")
    try:
        manager.register(implementer, name=plugin.qualified_name)
    except (PluginValidationError, ValueError) as error:
        raise RegistrationError(f"{plugin}: {error}") from error
    try:
        _check(manager, implementer, plugin, names)
    except BaseException:
        manager.unregister(name=plugin.qualified_name)
        raise


def _check(
    manager: PluginManager, implementer: Any, plugin: Plugin, names: Mapping[str, Any]
) -> None:
    """Raise if a hook is misspelt or not marked, if there is none, or if one wraps those of others."""
    callers = manager.get_hookcallers(implementer) or []
    marked = {caller.name for caller in callers}
    for name in sorted(marked - names.keys()):
        raise RegistrationError(
            f"{plugin}: there is no hook {name!r}{suggestion(name, names)}; the hooks are {', '.join(names)}"
        )
    manager.check_pending()
    for name in names:
        if name not in marked and callable(getattr(implementer, name, None)):
            raise RegistrationError(f"{plugin}: mark {name} with plugrad.hookimpl")
    if not marked:
        raise RegistrationError(f"{plugin}: it has no hook; the hooks are {', '.join(names)}")
    for caller in callers:
        for hook in caller.get_hookimpls():
            if hook.plugin is implementer and (hook.wrapper or hook.hookwrapper):
                raise RegistrationError(
                    f"{plugin}: {caller.name} is a wrapper, and a hook cannot wrap those of other plugins"
                )
