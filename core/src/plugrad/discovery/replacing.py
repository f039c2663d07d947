"""Plugins that replace what others have registered: they are named, in a warning and in the commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugrad.discovery.listing import plugins, several
from plugrad.discovery.plugin import THIS_PROCESS
from plugrad.errors import warn
from plugrad.registry.kernels import insists

if TYPE_CHECKING:
    from plugrad.discovery.plugin import Plugin
    from plugrad.settings.journal import Journal


def replacing(plugin: Plugin, *journals: Journal) -> None:
    """Note what a plugin has replaced of others, and warn of it once.

    A plugin may replace what its own distribution brings, and the kernels of a backend whose manifest
    names its distribution in `packs`; and a program what it likes: no warning is about those that are
    given to `plugrad.register_plugin`.
    """
    found: set[str] = set()
    backends = plugins("backend")
    for journal in journals:
        for what, replaced in journal.registered().items():
            if what[0] == "kernel" and _is_of_others(what[1], what[2], plugin, backends, replaced):
                found.add(f"kernel {what[1]} of backend {what[2]!r}")
            elif what[0] == "gradient" and replaced:
                found.add(f"gradient {what[1]}")
    news = sorted(found - set(plugin.replaced))
    plugin.replaced += tuple(news)
    if news and plugin.distribution != THIS_PROCESS:
        warn(
            f"{plugin} replaces {several(news)}, which it does not own; "
            f"switch it off with PLUGRAD_PLUGINS_DISABLE={plugin.distribution}"
        )


def _is_of_others(
    kernel_name: str, backend_name: str, plugin: Plugin, backends: list[Plugin], replaced: bool
) -> bool:
    """Return whether a kernel that a plugin registered replaces one of others, now or when they are loaded."""
    theirs = [p for p in backends if p.name == backend_name]
    if any(plugin.distribution in (p.distribution, *p.manifest.packs) for p in theirs):
        return False
    promised = any(kernel_name in p.manifest.kernels for p in theirs if p.status != "active")
    return replaced or (promised and insists(kernel_name, backend_name))
