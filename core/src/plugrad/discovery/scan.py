"""The entry points that installed distributions declare for plugrad, found in one scan that runs no code."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

PREFIX: Final = "plugrad."
"""The prefix of the groups' names: ``plugrad.backends``, ``plugrad.kernels``, …"""


class EntryPoint(NamedTuple):
    """One line of a distribution's ``entry_points.txt``: the name `name` stands for the object `target`."""

    group: str
    name: str
    target: str
    distribution: str
    version: str


class Shadowed(NamedTuple):
    """A hidden copy of a distribution: one earlier on ``sys.path`` has its name."""

    distribution: str
    version: str
    path: str


class Scan(NamedTuple):
    """The result of one walk over the installed distributions."""

    entry_points: tuple[EntryPoint, ...]
    shadowed: tuple[Shadowed, ...]


def scanned() -> Scan:
    """Return the installed entry points, in one walk over all distributions."""
    # Imported here, because it takes longer than `import plugrad` may. Only some of its names are typed.
    import importlib_metadata

    found: list[EntryPoint] = []
    hidden: list[Shadowed] = []
    seen: dict[str, Shadowed] = {}
    everything: Any = importlib_metadata.distributions()  # pyright: ignore[reportUnknownMemberType]
    for distribution in everything:
        try:
            declared = distribution.read_text("entry_points.txt")
            if not declared or PREFIX not in declared:
                continue  # true of most distributions: their metadata need not be read
            name, version = _identity(distribution)
        except (OSError, ValueError):
            continue  # it cannot be read as text, so nobody can use what it declares
        copy = Shadowed(name, version, os.path.realpath(str(distribution.locate_file(""))))
        if name.lower() in seen:
            if seen[name.lower()] != copy:  # equal copies mean that a folder is on the path twice
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
    """Return name and version; the library, which parses the header as an e-mail's, takes 15 ms longer."""
    header = distribution.read_text("METADATA") or distribution.read_text("PKG-INFO") or ""
    header = header.partition("\n\n")[0]  # the description follows, which may contain anything
    fields = dict(re.findall(r"^(Name|Version):[ \t]*(\S+)", header, re.MULTILINE))
    return fields.get("Name", "a distribution without a name"), fields.get("Version", "")


def _entries(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield (group, name, target). A malformed line gives an empty target, which the listing reports."""
    group = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            group = line.strip("[]")
        elif line and not line.startswith(("#", ";")):
            name, _, target = line.partition("=")
            yield group, name.strip(), target.partition("[")[0].strip()
