"""Descriptions of plugins as plain values, for JSON and for text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from plugrad.discovery.listing import MODULE_PREFIX, declared_replacements, find_plugin, plugins
from plugrad.discovery.order import find_pack_order
from plugrad.errors import PluginNotFound, suggest_similar_name

if TYPE_CHECKING:
    from collections.abc import Collection

    from plugrad.cli.jobs import Outcome
    from plugrad.discovery.order import PackOrder
    from plugrad.discovery.plugin import Plugin, PluginKind

HEADING_OF_KIND = {
    "backend": "Backends",
    "kernels": "Kernel packs",
    "ops": "Op packs",
    "hooks": "Hooks",
}
"""By kind of plugin, the heading above its table."""
UNUSABLE_STATUSES = ("incompatible", "conflict", "failed")
"""The statuses of plugins that need a remedy."""


def describe_plugin(plugin: Plugin) -> dict[str, Any]:
    """Return a plugin's description from its files, without running its code."""
    manifest = plugin.manifest
    options = {name: option._asdict() for name, option in sorted((manifest.options or {}).items())}
    return {
        "kind": plugin.kind,
        "name": plugin.name,
        "qualified_name": plugin.qualified_name,
        "distribution": plugin.distribution,
        "version": plugin.version,
        "target": plugin.target,
        "status": plugin.status,
        "reason": plugin.reason,
        "details": plugin.details,
        **manifest._asdict(),
        "commands": {name: entry._asdict() for name, entry in manifest.commands.items()},
        "api": ".".join(map(str, manifest.api)),
        "options": options,
        "replaces": declared_replacements(plugin),
        "place": place._asdict() if (place := find_order_among_rivals(plugin)) else None,
    }


def find_order_among_rivals(plugin: Plugin) -> PackOrder | None:
    """Return the place of a kernel pack among several packs of its backend, or None if there is nothing to decide."""
    place = find_pack_order(plugin) if plugin.kind == "kernels" else None
    return place if place and place.rivals > 1 else None


def describe_active_backend(outcome: Outcome) -> dict[str, Any]:
    """Return the report of the active backend; if none is active, its ``"error"`` says why."""
    why = outcome.problem or outcome.report.get("none", "")
    return {**outcome.report, "error": why} if why else outcome.report


def select_plugins(names: Collection[str], kind: PluginKind | None = None) -> list[Plugin]:
    """Return the plugins that `names` denote, or all of them if there are no names.

    A name is that of a plugin or of a distribution, ``"distribution::name"``, or
    ``"module://package:object"``.

    Raises:
        PluginNotFound: nothing installed has one of the names.
    """
    for name in names:
        if name.startswith(MODULE_PREFIX):
            find_plugin(name)  # adds it to the list
    everything = plugins(kind)
    spellings = {id(p): {p.name, p.qualified_name, p.distribution} for p in everything}
    for name in names:
        if not any(name in known for known in spellings.values()):
            known = sorted(
                {name for known in spellings.values() for name in known if "::" not in name}
            )
            what = "backend" if kind == "backend" else "backend, pack or hook"
            raise PluginNotFound(
                f"no {what} called {name!r} is installed{suggest_similar_name(name, known)}; "
                "`plugrad list` shows the installed plugins"
            )
    return [p for p in everything if not names or spellings[id(p)] & set(names)]
