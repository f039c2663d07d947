"""The entry points that installed distributions declare for plugrad, found in one scan that runs no code."""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from plugrad.interruptions import is_interruption

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

ENTRY_POINT_GROUP_PREFIX: Final = "plugrad."
"""The prefix of the groups' names: ``plugrad.backends``, ``plugrad.kernels``, …"""
STANDARD_FINDER_MODULE_PREFIXES: Final = ("_frozen_importlib", "importlib")
"""How the names of the modules begin whose finders search only the folders and archives of ``sys.path``."""


class EntryPoint(NamedTuple):
    """One line of a distribution's ``entry_points.txt``, which maps `name` to the object `target`."""

    group: str
    name: str
    target: str
    distribution: str
    """The name of the distribution."""
    version: str
    """The version of the distribution."""


class ShadowedDistribution(NamedTuple):
    """A hidden copy of a distribution: one earlier on ``sys.path`` has its name."""

    distribution: str
    version: str
    path: str


class ScanResult(NamedTuple):
    """The result of scanning the installed distributions."""

    entry_points: tuple[EntryPoint, ...]
    shadowed_distributions: tuple[ShadowedDistribution, ...]


class DistributionReader(NamedTuple):
    """One installed distribution: its path, and a function that returns the text of a metadata file."""

    read: Callable[[str], str | None]
    """Returns the text of a metadata file by name, or None."""
    path: str
    """The path of the metadata folder or archive."""


def scan_distributions() -> ScanResult:
    """Return the entry points of all installed distributions, and the distributions that others hide."""
    found: list[EntryPoint] = []
    hidden: list[ShadowedDistribution] = []
    seen: dict[str, ShadowedDistribution] = {}
    for read, path in _iter_distributions():
        try:
            declared = read("entry_points.txt")
            if not declared or ENTRY_POINT_GROUP_PREFIX not in declared:
                continue  # true of most distributions: their metadata need not be read
            name, version = _parse_name_and_version(read)
        except (OSError, ValueError) as error:
            if is_interruption(error):
                raise
            continue  # it cannot be read as text, so nobody can use what it declares
        copy = ShadowedDistribution(name, version, os.path.realpath(path))
        if name.lower() in seen:
            if seen[name.lower()] != copy:  # equal copies mean that a folder is on the path twice
                hidden.append(copy)
            continue
        seen[name.lower()] = copy
        found += [
            EntryPoint(group, entry, target, name, version)
            for group, entry, target in _parse_entry_points(declared)
            if group.startswith(ENTRY_POINT_GROUP_PREFIX)
        ]
    return ScanResult(tuple(found), tuple(hidden))


def _iter_distributions() -> Iterable[DistributionReader]:
    """Return all distributions, in the order of ``sys.path``.

    Installers put them into folders, which are listed here. Archives and finders are for importlib_metadata, whose
    import takes as long as half of plugrad's.
    """
    finders = [f for f in sys.meta_path if hasattr(f, "find_distributions")]
    if all(
        getattr(f, "__module__", "").startswith(STANDARD_FINDER_MODULE_PREFIXES) for f in finders
    ):
        with suppress(NotADirectoryError):
            return [
                DistributionReader(partial(_read_metadata, f"{folder}/{name}"), folder)
                for folder in (entry or "." for entry in sys.path)
                for name in _list_folder(folder)
                if name.endswith((".dist-info", ".egg-info"))
            ]
    import importlib_metadata  # see above

    everything: Any = importlib_metadata.distributions()  # pyright: ignore[reportUnknownMemberType] - partly typed
    return [DistributionReader(d.read_text, str(d.locate_file(""))) for d in everything]


def _list_folder(folder: str) -> Sequence[str]:
    """Return the names in a folder, sorted; none if it cannot be read.

    Raises:
        NotADirectoryError: it is an archive, or an egg.
    """
    if folder.endswith(".egg"):
        raise NotADirectoryError(folder)
    try:
        return sorted(os.listdir(folder))
    except NotADirectoryError:
        raise
    except OSError as error:
        if is_interruption(error):
            raise
        return ()


def _read_metadata(folder: str, file_name: str) -> str | None:
    """Return the text of a file of metadata, or None if there is none."""
    try:
        with open(f"{folder}/{file_name}", encoding="utf-8") as opened:
            return opened.read()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError):
        return None


def _parse_name_and_version(read_file: Callable[[str], str | None]) -> tuple[str, str]:
    """Return name and version; `email.parser`, which is meant for this, takes 15 ms longer."""
    header = read_file("METADATA") or read_file("PKG-INFO") or ""
    header = header.partition("\n\n")[0]  # the description follows, which may contain anything
    fields = dict(re.findall(r"^(Name|Version):[ \t]*(\S+)", header, re.MULTILINE))
    return fields.get("Name", "a distribution without a name"), fields.get("Version", "")


def _parse_entry_points(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield (group, name, target). A malformed line gives an empty target, which the listing reports."""
    group = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            group = line.strip("[]")
        elif line and not line.startswith(("#", ";")):
            name, _, target = line.partition("=")
            yield group, name.strip(), target.partition("[")[0].strip()
