"""The hook `plugrad_kernel_finished`: each call of a kernel is reported while a plugin implements the hook.

Without such a plugin nothing watches, so kernels run as fast as ever.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from plugrad.discovery import hooks
from plugrad.discovery.state import state
from plugrad.engine import watching
from plugrad.engine.implementations import add_watcher, remove_watcher

if TYPE_CHECKING:
    from plugrad.engine.watching import Call

KERNEL_FINISHED_HOOK_NAME: Final = hooks.plugrad_kernel_finished.__name__
_is_reporting_to_plugins: Final[ContextVar[bool]] = ContextVar(
    "plugrad_is_reporting", default=False
)
"""Whether the hook is running in this context: the kernels that it runs itself are not reported."""


def _report_call_to_plugins(call: Call) -> None:
    """Call the hook of all plugins for one call of a kernel."""
    if _is_reporting_to_plugins.get():
        return
    inputs: list[Any] = [x for x in call.arrays if x is not None and x is not call.backend]
    token = _is_reporting_to_plugins.set(True)
    try:
        hooks.call_hooks(
            KERNEL_FINISHED_HOOK_NAME,
            kernel_name=call.kernel_name,
            backend=call.backend,
            shapes=tuple([tuple(x.shape) for x in inputs]),
            milliseconds=(call.end - call.start) / 1e6,
        )
    finally:
        _is_reporting_to_plugins.reset(token)


_plugin_watcher: Final = watching.Watcher(_report_call_to_plugins, synchronizes=False)
"""The watcher that reports each call of a kernel to plugins."""


def _update_watcher(_: str) -> None:
    """Add or remove the watcher of kernel calls, depending on whether a loaded plugin implements the hook."""
    caller = (
        getattr(state.manager.hook, KERNEL_FINISHED_HOOK_NAME)
        if state.manager is not None
        else None
    )
    is_wanted = caller is not None and bool(caller.get_hookimpls())
    is_watching = any(watcher is _plugin_watcher for watcher in watching.watchers)
    if is_wanted and not is_watching:
        add_watcher(_plugin_watcher)
    elif is_watching and not is_wanted:
        remove_watcher(_plugin_watcher)


hooks.plugin_load_listeners.append(_update_watcher)
hooks.plugin_unload_listeners.append(_update_watcher)
