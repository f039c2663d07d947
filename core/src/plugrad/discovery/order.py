"""The order in which the kernels of several packs take effect; no plugin's code runs to find it out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from plugrad.discovery.listing import plugins
from plugrad.discovery.plugin import normalize_distribution_name
from plugrad.discovery.state import state
from plugrad.settings.layers import config

if TYPE_CHECKING:
    from collections.abc import Iterable

    from plugrad.discovery.plugin import Plugin


def sort_packs_by_precedence(packs: Iterable[Plugin]) -> list[Plugin]:
    """Return plugins by precedence: where several bring the same kernel, that of the first is in effect.

    The first are those that the setting ``packs`` names, in its order. Then come the hooks that the program
    registered, the last one first, and then all others by the priority that they declare and by the names of
    their distributions.
    """
    chosen = config.get("packs")

    def rank(plugin: Plugin) -> tuple[Any, ...]:
        place = next((i for i, name in enumerate(chosen) if plugin.is_chosen_by(name)), len(chosen))
        added = state.added.index(plugin) + 1 if plugin in state.added else 0
        distribution = normalize_distribution_name(plugin.distribution)
        return place, -added, -plugin.manifest.priority, distribution, plugin.name

    return sorted(packs, key=rank)


class PackOrder(NamedTuple):
    """The place of a kernel pack among the usable packs of its backend, and what decided it."""

    position: int
    """1 for the pack whose kernels take effect before those of all others."""
    rivals: int
    """How many usable packs the backend has."""
    decided_by: str
    """What decides the order, such as the setting ``packs``."""

    def __str__(self) -> str:
        return f"no. {self.position} of {self.rivals} packs, by {self.decided_by}"


def find_pack_order(pack: Plugin) -> PackOrder | None:
    """Return the place of a kernel pack in the order of its backend's packs, or None if it cannot be used."""
    rivals = sort_packs_by_precedence(
        p
        for p in plugins("kernels")
        if p.backend_name == pack.backend_name and p.status in ("available", "active")
    )
    if pack not in rivals:
        return None
    setting = config.explain("packs")
    if any(pack.is_chosen_by(name) for name in setting.value):
        why = f"packs in {setting.layer}"
    elif any(p.manifest.priority != pack.manifest.priority for p in rivals):
        why = f"its priority {pack.manifest.priority}"
    else:
        why = "the names of the distributions"
    return PackOrder(rivals.index(pack) + 1, len(rivals), why)
