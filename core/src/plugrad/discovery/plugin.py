"""The record of one installed plugin: its kind, its manifest, and whether it can be used."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any, Final, Literal

from plugrad.discovery.manifest import Manifest
from plugrad.errors import describe_exception, warn
from plugrad.settings.journal import Journal, record_registrations
from plugrad.settings.layers import config

PluginKind = Literal["backend", "kernels", "ops", "hooks"]
"""What a plugin brings, as a word."""
PluginStatus = Literal["available", "active", "incompatible", "blocked", "conflict", "failed"]
"""Whether a plugin can be used, as a word."""

KIND_OF_ENTRY_POINT_GROUP: Final[dict[str, PluginKind]] = {
    "plugrad.backends": "backend",
    "plugrad.kernels": "kernels",
    "plugrad.ops": "ops",
    "plugrad.plugins": "hooks",
}
"""The kind of the plugins in each group of entry points."""
KIND_DESCRIPTIONS: Final[dict[PluginKind, str]] = {
    "backend": "a backend",
    "kernels": "a kernel pack",
    "ops": "an op pack",
    "hooks": "hooks",
}
"""By kind, a noun with its article, for messages."""
IN_PROCESS_DISTRIBUTION: Final = "<this process>"
"""The name in place of a distribution's for plugins that the program itself registers."""


class Plugin:
    """One entry point of an installed distribution: its kind, its manifest, and whether it can be used.

    `kind` is ``"backend"``, ``"kernels"`` (for another plugin's backend), ``"ops"`` or
    ``"hooks"``. `status` is ``"available"``, ``"active"`` (loaded), ``"incompatible"`` (with this
    version of plugrad), ``"blocked"`` (by a setting), ``"conflict"`` (another plugin has its name) or
    ``"failed"``; `reason` says why, and `details` holds the traceback of a failure. `replaced` names what
    others had registered and it has replaced since it was loaded.
    """

    def __init__(
        self,
        kind: PluginKind,
        name: str,
        distribution: str,
        version: str = "",
        target: str = "",
        manifest: Manifest | None = None,
        *,
        loaded: Any = None,
    ) -> None:
        """Describe a plugin; `loaded` is the object that it brings, if that need not be imported."""
        self.kind: PluginKind = kind
        self.name: str = name
        self.distribution: str = distribution
        self.version: str = version
        self.target: str = target
        self.manifest: Manifest = manifest or Manifest()
        self.status: PluginStatus = "available"
        self.reason: str = ""
        self.details: str = ""
        self.replaced: tuple[str, ...] = ()
        self.loaded: Any = loaded
        self.imported: Journal = Journal()
        """What its import has registered."""
        self.registered: list[Journal] = []
        """What its code has registered besides, which runs again when it is loaded again."""
        self._warned_of: str | None = None
        self.qualified_name: str = f"{distribution}::{name}"

    @property
    def key(self) -> tuple[PluginKind, str]:
        """The plugin's identity, which stays the same when the list of plugins is rebuilt."""
        return self.kind, self.qualified_name

    @property
    def short_name(self) -> str:
        """The plugin's name in the setting ``packs``: without the name of the backend, for a kernel pack."""
        return self.name.rpartition(".")[2]

    def has_name(self, spelling: str) -> bool:
        """Return whether a name is the plugin's, its distribution's, or ``"distribution::name"``."""
        distribution, _, name = spelling.rpartition("::")
        if distribution:
            return name == self.name and normalize_distribution_name(
                distribution
            ) == normalize_distribution_name(self.distribution)
        return spelling in (self.name, self.qualified_name) or (
            normalize_distribution_name(spelling) == normalize_distribution_name(self.distribution)
        )

    def is_chosen_by(self, spelling: str) -> bool:
        """Return whether a name in the setting ``packs`` chooses the plugin."""
        return spelling == self.short_name or ("::" in spelling and self.has_name(spelling))

    @property
    def backend_name(self) -> str:
        """The name of the backend that it provides, or that its kernels are for."""
        return self.name.partition(".")[0]

    def __str__(self) -> str:
        noun = KIND_DESCRIPTIONS[self.kind].partition(" ")[2] or KIND_DESCRIPTIONS[self.kind]
        return f"{noun} {self.name!r} ({f'{self.distribution} {self.version}'.strip()})"

    def __repr__(self) -> str:
        return f"<{self}: {self.status}>"

    def load(self) -> Any:
        """Return the object that the entry point names, importing it the first time.

        What the import registers is taken back if it fails.
        """
        if self.loaded is None:
            module, _, attributes = self.target.partition(":")
            print_trace_line(f"importing {self.target} for {self}")
            with record_registrations() as journal:
                found: Any = import_module(module)
                for attribute in filter(None, attributes.split(".")):
                    found = getattr(found, attribute)
            self.loaded = found
            # Python does not run a module twice: an earlier record of the plugin has what it registered.
            if journal.changes:
                self.imported = journal
        self.imported.redo()
        return self.loaded

    def rollback(self) -> None:
        """Remove what the plugin's code registered; the plugin cannot be used until it is loaded again."""
        if self.status != "active":
            while self.registered:
                self.registered.pop().undo()
            self.imported.undo()

    def record_failure(self, error: BaseException) -> None:
        """Set the status to failed, and store the reason and the traceback."""
        from traceback import format_exception  # needed only after a failure

        self.status, self.reason = "failed", describe_exception(error)
        self.details = "".join(format_exception(error))

    def clear_failure(self) -> None:
        """Reset a failed plugin to available, because the cause may have been repaired."""
        if self.status == "failed":
            self.status, self.reason, self.details = "available", "", ""

    @property
    def remedy(self) -> str:
        """The advice on how to repair a failed plugin."""
        if self.status == "conflict":
            return (
                f"Uninstall it, or switch it off with PLUGRAD_PLUGINS_DISABLE={self.qualified_name}"
            )
        return f"Reinstall it, or switch it off with PLUGRAD_PLUGINS_DISABLE={self.name}"

    def warn_once(self, consequence: str) -> None:
        """Warn once that the plugin is not used, and why."""
        if self._warned_of != self.reason:
            self._warned_of = self.reason
            print_trace_line(f"{self} is {self.status}: {self.reason}")
            warn(f"{self} is {self.status}, and {consequence}: {self.reason}. {self.remedy}")


def normalize_distribution_name(distribution: str) -> str:
    """Return the name of a distribution as installers compare it: ``Acme_Fast`` is ``acme-fast``."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


def print_trace_line(message: str) -> None:
    """Write a line about a plugin to standard error, if the setting ``plugins.trace`` is on."""
    if config.get("plugins.trace"):
        import sys

        print(f"plugrad: {message}", file=sys.stderr)
