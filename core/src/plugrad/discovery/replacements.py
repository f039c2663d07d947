"""Detect plugins that replace what other plugins registered, and warn about them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugrad.discovery.listing import join_names, plugins
from plugrad.discovery.plugin import IN_PROCESS_DISTRIBUTION, normalize_distribution_name
from plugrad.errors import warn
from plugrad.registry.kernels import is_registered_with_replace
from plugrad.settings.layers import config

if TYPE_CHECKING:
    from collections.abc import Iterable

    from plugrad.discovery.plugin import Plugin
    from plugrad.settings.journal import Journal
    from plugrad.tensor.backend import Backend


def record_replacements(plugin: Plugin, *journals: Journal) -> None:
    """Record the registrations of others that a plugin replaces, and warn once; see `may_replace_kernels_of`."""
    found: set[str] = set()
    for journal in journals:
        for what, replaced in journal.replacements().items():
            if what[0] == "kernel" and _replaces_other_plugin(what[1], what[2], plugin, replaced):
                found.add(f"kernel {what[1]} of backend {what[2]!r}")
            elif what[0] == "gradient" and replaced:
                found.add(f"gradient {what[1]}")
    _record_and_warn_once(plugin, found)


def warn_about_replaced_kernels(backend: Backend) -> None:
    """Note which kernels of others the packs of a device replace, and warn of each pack once."""
    by_name = {p.qualified_name: p for p in plugins()}
    owners = [(by_name.get(owner), table) for owner, table in backend.kernels.items()]
    above: set[str] = set()
    for place, (plugin, table) in enumerate(owners[:-1]):
        if plugin is not None and not may_replace_kernels_of(plugin, backend.name):
            others = (
                t
                for p, t in owners[place + 1 :]
                if p is None or not _shares_distribution(plugin, [p])
            )
            replaced = table.keys() & {name for other in others for name in other} - above
            _record_and_warn_once(
                plugin, {f"kernel {name} of backend {backend.name!r}" for name in replaced}
            )
        above.update(table)


def may_replace_kernels_of(plugin: Plugin, backend_name: str) -> bool:
    """Return whether a plugin may replace the kernels of a backend without a warning.

    It may if it is of the same distribution, if the manifest of the backend names its distribution in
    `packs`, or if the user names it in the setting ``packs``.
    """
    if any(plugin.is_chosen_by(name) for name in config.get("packs")):
        return True
    theirs = [p for p in plugins("backend") if p.name == backend_name]
    friends = {normalize_distribution_name(name) for p in theirs for name in p.manifest.packs}
    return normalize_distribution_name(plugin.distribution) in friends or _shares_distribution(
        plugin, theirs
    )


def _shares_distribution(plugin: Plugin, other_plugins: Iterable[Plugin]) -> bool:
    """Return whether a plugin belongs to the same distribution as one of `other_plugins`."""
    return any(
        normalize_distribution_name(plugin.distribution)
        == normalize_distribution_name(p.distribution)
        for p in other_plugins
    )


def _replaces_other_plugin(
    kernel_name: str, backend_name: str, plugin: Plugin, replaced: bool
) -> bool:
    """Return whether a plugin's kernel replaces another plugin's, now or once that plugin is loaded."""
    if may_replace_kernels_of(plugin, backend_name):
        return False
    theirs = [p for p in plugins("backend") if p.name == backend_name]
    promised = any(kernel_name in p.manifest.kernels for p in theirs if p.status != "active")
    return replaced or (promised and is_registered_with_replace(kernel_name, backend_name))


def _record_and_warn_once(plugin: Plugin, replaced_names: set[str]) -> None:
    """Record the replacements of a plugin, and warn about new ones; a program may replace anything."""
    news = sorted(replaced_names - set(plugin.replaced))
    plugin.replaced += tuple(news)
    if not news or plugin.distribution == IN_PROCESS_DISTRIBUTION:
        return
    chosen = ",".join([*config.get("packs"), plugin.short_name])
    choose = (
        f"choose it with PLUGRAD_PACKS={chosen} or the setting packs, or "
        if any(text.startswith("kernel ") for text in news)
        else ""
    )
    warn(
        f"{plugin} replaces {join_names(news)}, which it does not own; {choose}"
        f"switch it off with PLUGRAD_PLUGINS_DISABLE={plugin.distribution}"
    )
