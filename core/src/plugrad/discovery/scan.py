"""The entry points that installed distributions declare for plugrad: one scan for all groups that runs no code."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

PREFIX: Final = "plugrad."
"""What the names of the groups begin with: ``plugrad.backends``, ``plugrad.kernels``, …"""


class EntryPoint(NamedTuple):
    """One line of a distribution's ``entry_points.txt``: what is called `name` is the object `target`."""

    group: str
    name: str
    target: str
    distribution: str
    version: str


class Shadowed(NamedTuple):
    """A copy of a distribution that nobody sees, because one earlier on ``sys.path`` has its name."""

    distribution: str
    version: str
    path: str


class Scan(NamedTuple):
    """What one walk over the installed distributions found."""

    entry_points: tuple[EntryPoint, ...]
    shadowed: tuple[Shadowed, ...]


def scanned() -> Scan:
    """Return what is installed, in one walk over all distributions."""
    # Importing it takes longer than `import plugrad` may. It has types for some of its names only.
    import importlib_metadata

    found: list[EntryPoint] = []
    hidden: list[Shadowed] = []
    seen: dict[str, Shadowed] = {}
    everything: Any = importlib_metadata.distributions()  # pyright: ignore[reportUnknownMemberType]
    for distribution in everything:
        declared = distribution.read_text("entry_points.txt")
        if not declared or PREFIX not in declared:
            continue  # most of them: their metadata need not be read
        name, version = _identity(distribution)
        copy = Shadowed(name, version, os.path.realpath(distribution.locate_file("")))
        if name.lower() in seen:
            if seen[name.lower()] != copy:  # else a folder is on the path twice
                hidden.append(copy)
            continue
        seen[name.lower()] = copy
        found += [
            EntryPoint(group, entry, target, name, version)
            for group, entry, target in _entries(declared)
            if group.startswith(PREFIX)
        ]
    return Scan(tuple(found), tuple(hidden))


def _identity(distribution: Any) -> tuple[str, str]:
    """Return name and version; to parse the whole header as an e-mail's, as the library does, takes 15 ms more."""
    header = distribution.read_text("METADATA") or distribution.read_text("PKG-INFO") or ""
    header = header.partition("\n\n")[0]  # below is the description, which may say anything
    fields = dict(re.findall(r"^(Name|Version):[ \t]*(\S+)", header, re.MULTILINE))
    return fields.get("Name", "a distribution without name"), fields.get("Version", "")


def _entries(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield (group, name, target). What is malformed gives an empty target, which whoever lists it reports."""
    group = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            group = line.strip("[]")
        elif line and not line.startswith(("#", ";")):
            name, _, target = line.partition("=")
            yield group, name.strip(), target.partition("[")[0].strip()
