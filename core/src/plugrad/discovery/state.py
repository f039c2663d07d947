"""The state of plugins in this process: which are installed, loaded and open, and what they registered."""

from __future__ import annotations

import os
from contextlib import contextmanager
from threading import Lock, RLock
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from plugrad.interruptions import hold_safely

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from pluggy import PluginManager

    from plugrad.discovery.plugin import Plugin
    from plugrad.discovery.scan import EntryPoint, ScanResult
    from plugrad.tensor.backend import Backend, Implementation, KernelConfig
    from plugrad.tensor.context import Overrides


class Selection(NamedTuple):
    """The active backend and device, and the layer that decided it."""

    backend: Backend
    """The opened backend."""
    layer: str
    """The layer that decided, such as the argument of `use` or a configuration file."""

    @property
    def device(self) -> str:
        """The backend and device, such as ``"webgpu:0"``."""
        return self.backend.label

    @property
    def description(self) -> str:
        """The device in words."""
        return next(
            (d.description for d in self.backend.probe().devices if d.name == self.backend.device),
            "",
        )

    def __str__(self) -> str:
        return f"{self.device} ({self.description}), chosen by {self.layer}"


class Fallback(NamedTuple):
    """The calls of one kernel that fell back from backend `source` to backend `target`."""

    kernel: str
    """The name of the kernel."""
    source: str
    """The name of the backend that lacks the kernel."""
    target: str
    """The name of the backend that computed the calls."""
    calls: int
    """The number of calls."""
    bytes: int
    """The bytes copied in both directions."""
    milliseconds: float
    """The duration of the calls, copies included."""


class PluginState:
    """The plugins of this process; there is one such object, `state`, which a test may replace (see `fresh_state`)."""

    def __init__(self) -> None:
        """Start without any plugin."""
        self.lock: Any = hold_safely(RLock())
        """Held while the objects below change, never while the code of a plugin runs; see `turns`."""
        # --- which plugins are installed
        self.scan: ScanResult | None = None
        self.described: dict[EntryPoint, Plugin] = {}
        """The plugins of the latest scan."""
        self.added: list[Plugin] = []
        """Plugins that were added to this process without being installed."""
        self.listing: list[Plugin] | None = None
        self.generation: int = 0
        """Grows whenever the list is rebuilt."""
        # --- hooks
        self.manager: PluginManager | None = None
        self.collected: int = -1
        """The generation of the list in which hooks were looked for."""
        self.is_collecting: bool = False
        """Whether hooks are being loaded; a plugin that asks for them meanwhile goes without."""
        self.suggested: list[tuple[str, Mapping[str, Any]]] | None = None
        self.is_suggesting: bool = False
        # --- kernel packs
        self.brought: dict[str, tuple[KernelConfig, ...]] = {}
        """What each kernel pack that has been loaded brings, by its qualified name."""
        self.compilers: dict[str, Callable[[Any], Callable[..., list[Any]] | None]] = {}
        """What compiles graphs, for the packs that bring it."""
        # --- backends
        self.opened: dict[tuple[str, str], Backend] = {}
        """By the qualified name of the plugin and the device, as requested."""
        self.memory_limits: dict[str, int | None] = {}
        """The limits that the program has set since the setting changed, by the label of a device."""
        self.selected: dict[str | None, tuple[object, Selection]] = {}
        """What was selected by each name, as in ``device="cpu"``, and by None, what the settings select; each with the
        state of the settings and of the list from which it follows."""
        # --- fallbacks
        self.fallbacks: dict[tuple[str, str, str], Fallback] = {}
        self.warned_fallbacks: set[tuple[str, str]] = set()
        self.fallback_lock: Any = hold_safely(Lock())
        # --- data
        self.warned_dtypes: set[tuple[str, str]] = set()
        """The names of backends and of dtypes that data have, but the backends do not."""

    create_implementations: Callable[[Backend], dict[str, Implementation]]
    """Returns the functions that the engine calls on a device that has been opened; the engine sets it."""
    functions_with_overrides: Callable[[Backend, Overrides | None], Mapping[str, Implementation]]
    """Returns the functions that the engine calls on a device while overrides are in effect; the engine sets it."""


state: Final = PluginState()
"""The plugins of this process."""


def _renew_locks_after_fork() -> None:
    """Replace the locks in a forked process."""
    # Another thread may have held the old ones when the process was forked.
    state.lock = hold_safely(RLock())
    state.fallback_lock = hold_safely(Lock())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks_after_fork)


@contextmanager
def fresh_state() -> Generator[PluginState, None, None]:
    """Forget all plugins inside a block, and restore the previous state afterwards.

    >>> from plugrad.discovery.state import fresh_state
    >>> with fresh_state() as fresh:
    ...     len(fresh.opened)
    0
    """
    before = vars(state).copy()
    slots = state.create_implementations, state.functions_with_overrides
    state.__init__()
    state.create_implementations, state.functions_with_overrides = slots
    try:
        yield state
    finally:
        vars(state).clear()
        vars(state).update(before)
