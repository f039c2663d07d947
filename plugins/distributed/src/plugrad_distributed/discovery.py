"""The installed collectives, and the choice of the one for which a process was started."""

from __future__ import annotations

from contextlib import suppress
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, version
from importlib.util import find_spec
from typing import Final

import plugrad
from plugrad.extend import ArgumentError, is_interruption
from plugrad_distributed.collective import Collective
from plugrad_distributed.errors import CollectiveNotFound, CollectiveUnavailable

ENTRY_POINT_GROUP: Final = "plugrad.collectives"
COLLECTIVE_SETTING: Final = "distributed.collective"
"""The setting that decides, also as the variable PLUGRAD_DISTRIBUTED_COLLECTIVE of the environment."""


def collectives() -> dict[str, EntryPoint]:
    """Return the entry points of installed collectives by name; none of them is imported.

    >>> sorted(dist.collectives())
    ['gloo', 'mpi', 'single']
    """
    found: dict[str, EntryPoint] = {}
    for entry in sorted(entry_points(group=ENTRY_POINT_GROUP), key=_owner_sort_key):
        found.setdefault(entry.name, entry)
    return found


def _owner_sort_key(entry_point: EntryPoint) -> tuple[bool, str]:
    """Return the sort key of an entry point; plugrad's own come first, so nobody else can take their names."""
    name = "" if entry_point.dist is None else entry_point.dist.name
    return name != "plugrad-distributed", name


def load_collective(collective_name: str) -> type[Collective]:
    """Return the class of a collective.

    Raises:
        CollectiveNotFound: none has the name.
        CollectiveUnavailable: its module cannot be imported, or does not bring a collective.
    """
    known = collectives()
    if collective_name not in known:
        raise CollectiveNotFound(
            f"no collective is called {collective_name!r}; the installed ones are {', '.join(sorted(known))}"
        )
    try:
        found = known[collective_name].load()
    except Exception as error:
        if is_interruption(error):
            raise
        raise CollectiveUnavailable(
            f"collective {collective_name!r} ({known[collective_name].value}) cannot be imported: {error}"
        ) from error
    if not (isinstance(found, type) and issubclass(found, Collective)):
        raise CollectiveUnavailable(
            f"collective {collective_name!r}: {known[collective_name].value} must be a class that derives from "
            f"plugrad_distributed.Collective, not {found!r:.80}"
        )
    return found


def describe_collectives() -> dict[str, str]:
    """Describe by name whether each installed collective can start; no library is imported.

    >>> from plugrad_distributed.discovery import describe_collectives
    >>> describe_collectives()["single"]
    'ready'
    """
    found: dict[str, str] = {}
    for name in sorted(collectives()):
        try:
            found[name] = _describe_availability(load_collective(name))
        except CollectiveUnavailable as error:
            found[name] = str(error)
    return found


def _describe_availability(entry_point: type[Collective]) -> str:
    library = entry_point.library
    if not library:
        return "ready"
    if find_spec(library) is None:
        return (
            f"{library} is not installed; {entry_point.remedy}"
            if entry_point.remedy
            else f"{library} is not installed"
        )
    try:
        return f"{library} {version(library)}"
    except PackageNotFoundError:  # a module of another distribution
        return library


def choose_collective(collective_name: str | None) -> tuple[type[Collective], str]:
    """Return the collective to use, and the origin of this choice: the argument, the setting, or the launcher.

    Raises:
        ArgumentError: the name is not a string.
        CollectiveNotFound, CollectiveUnavailable: the one that was asked for cannot be loaded.
    """
    if collective_name is not None:
        if not isinstance(collective_name, str):  # pyright: ignore[reportUnnecessaryIsInstance] - people pass anything
            raise ArgumentError(
                f"init: collective={collective_name!r:.80} must be a name, such as 'mpi'"
            )
        return load_collective(collective_name), "the argument"
    setting = plugrad.config.explain(COLLECTIVE_SETTING)
    if setting.value:
        return load_collective(
            str(setting.value)
        ), f"the setting {COLLECTIVE_SETTING} ({setting.layer})"
    for known in sorted(collectives(), key=lambda n: (n == "gloo", n)):
        # A launcher of MPI may set what torchrun sets, too, so gloo comes last.
        with suppress(CollectiveUnavailable):  # nobody has asked for it
            found = load_collective(known)
            if found.is_launched():
                return found, f"how the process was started: {known}"
    return load_collective("single"), "nothing: the process was started alone"
