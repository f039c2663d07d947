"""What is said about plugins, as plain values: for JSON, and for text to be made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from plugrad.discovery.listing import MODULE, find, plugins
from plugrad.errors import PluginNotFound, suggestion

if TYPE_CHECKING:
    from collections.abc import Collection

    from plugrad.discovery.plugin import Kind, Plugin

KINDS = {
    "backend": "Backends",
    "kernels": "Kernel packs",
    "ops": "Op packs",
    "hooks": "Hooks",
}
UNUSABLE = ("incompatible", "conflict", "failed")
"""The statuses that somebody must do something about."""


def described(plugin: Plugin) -> dict[str, Any]:
    """Return what the files of a plugin say about it; none of its code runs."""
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
        "api": ".".join(map(str, manifest.api)),
        "options": options,
    }


def chosen(names: Collection[str], kind: Kind | None = None) -> list[Plugin]:
    """Return the plugins that names mean, all of them without a name.

    A name is a plugin's, ``"distribution::name"``, a distribution's, or ``"module://package:object"``.

    Raises:
        PluginNotFound: nothing installed has one of the names.
    """
    for name in names:
        if name.startswith(MODULE):
            find(name)  # puts it on the list
    everything = plugins(kind)
    spellings = {id(p): {p.name, p.qualified_name, p.distribution} for p in everything}
    for name in names:
        if not any(name in known for known in spellings.values()):
            known = sorted(
                {name for known in spellings.values() for name in known if "::" not in name}
            )
            what = "backend" if kind == "backend" else "backend, pack or hook"
            raise PluginNotFound(
                f"no {what} called {name!r} is installed{suggestion(name, known)}; "
                "`plugrad list` shows what is"
            )
    return [p for p in everything if not names or spellings[id(p)] & set(names)]
