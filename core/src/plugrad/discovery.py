"""Find the installed backends without importing them, and load the one that is asked for.

A plugin is an installed distribution with an entry point in the group ``plugrad.backends``. What it
offers stands in a static manifest, ``plugrad-backend.toml`` beside the plugin's ``__init__.py``, so
listing plugins runs none of their code. A backend is loaded when it is first needed, alone; if that
fails, the reason is kept and raised only for whoever asks for it by name.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Final, cast

from plugrad import registry
from plugrad.backend import Backend, Probe
from plugrad.config import config
from plugrad.errors import BackendNotFound, BackendUnavailable, PluginConflict, suggestion
from plugrad.manifest import API, MANIFEST, Manifest, manifest_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator


GROUP: Final = "plugrad.backends"


@dataclass
class Candidate:
    """An installed backend: who brings it, and whether it can be used.

    `status` is one of ``"available"``, ``"active"`` (loaded), ``"incompatible"``, ``"blocked"``,
    ``"conflict"``, ``"failed"``; `reason` says why, and `details` holds the traceback of a failure.
    """

    name: str
    distribution: str
    version: str
    target: str
    manifest: Manifest = field(default_factory=lambda: Manifest(API))
    status: str = "available"
    reason: str = ""
    details: str = ""
    factory: Callable[[], Backend] | None = None

    @property
    def qualified_name(self) -> str:
        """The name that is unique: ``"distribution::name"``."""
        return f"{self.distribution}::{self.name}"


_candidates: list[Candidate] | None = None
_run_time: Final[list[Candidate]] = []
_opened: Final[dict[tuple[str, str], Backend]] = {}


def backends(*, refresh: bool = False) -> list[Candidate]:
    """Return every installed backend with its status, best first; no plugin is imported.

    >>> import plugrad
    >>> [b.name for b in plugrad.backends() if b.distribution == "plugrad-cpu"]
    ['cpu']

    Args:
        refresh: scan the installed distributions again, after something was installed.
    """
    global _candidates
    if _candidates is None or refresh:
        found = [*_run_time, *_scanned()]
        loaded = {
            (c.qualified_name, c.version): c for c in _candidates or () if c.status == "active"
        }
        _candidates = sorted(
            (loaded.get((c.qualified_name, c.version), c) for c in found),
            key=lambda c: (-c.manifest.priority, c.name),
        )
    _mark_blocked(_candidates)
    _mark_conflicts(_candidates)
    return _candidates


def register_backend(
    name: str, factory: Callable[[], Backend], *, priority: int = 0, summary: str = ""
) -> None:
    """Offer a backend of this process, without an installed plugin; it is never chosen automatically.

    Raises:
        PluginConflict: the name is taken.
    """
    if any(c.name == name for c in backends()):
        raise PluginConflict(f"a backend called {name!r} exists already; choose another name")
    _run_time.append(
        Candidate(
            name,
            "<this process>",
            "",
            repr(factory),
            Manifest(API, priority, summary),
            factory=factory,
        )
    )
    backends(refresh=True)


def _scanned() -> list[Candidate]:
    # Importing it takes longer than `import plugrad` may. It has types for some of its names only.
    import importlib_metadata

    found: list[Candidate] = []
    seen: set[str] = set()
    everything: Any = importlib_metadata.distributions()  # pyright: ignore[reportUnknownMemberType]
    for distribution in everything:
        declared = distribution.read_text("entry_points.txt")
        if not declared or GROUP not in declared:
            continue
        name = distribution.metadata["Name"]
        if name.lower() in seen:  # a shadowed copy further down sys.path
            continue
        seen.add(name.lower())
        found += [
            _candidate(distribution, entry)
            for entry in distribution.entry_points
            if entry.group == GROUP
        ]
    return found


def _candidate(distribution: Any, entry: Any) -> Candidate:
    candidate = Candidate(
        entry.name, distribution.metadata["Name"], distribution.version, entry.value
    )
    try:
        if not re.fullmatch(r"[a-z][a-z0-9_]*", entry.name):
            raise ValueError(f"the backend name {entry.name!r} must match [a-z][a-z0-9_]*")
        candidate.manifest = manifest = manifest_of(entry.value)
    except (ValueError, TypeError, KeyError, OSError, ImportError) as error:
        candidate.status, candidate.reason = "failed", f"{MANIFEST}: {error}"
        candidate.details = _traceback()
        return candidate
    if manifest.api[0] != API[0] or manifest.api > API:
        outdated = "plugrad-core" if manifest.api > API else candidate.distribution
        candidate.status = "incompatible"
        candidate.reason = (
            f"it needs plugin API {_dotted(manifest.api)} and this plugrad-core offers {_dotted(API)}; "
            f"run: pip install --upgrade {outdated}"
        )
    return candidate


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))


def _mark_blocked(candidates: list[Candidate]) -> None:
    """Switch off what the configuration names; it may have changed since the last time."""
    disabled = config.explain("plugins.disable")
    for candidate in candidates:
        names = {candidate.name, candidate.distribution, candidate.qualified_name}
        if candidate.status == "blocked":
            candidate.status, candidate.reason = "available", ""
        if candidate.status in ("available", "conflict") and names & set(disabled.value):
            candidate.status = "blocked"
            candidate.reason = f"plugins.disable in {disabled.layer} names it"


def _mark_conflicts(candidates: list[Candidate]) -> None:
    """Mark backends of one name; one that is blocked stands in nobody's way."""
    rivals = [c for c in candidates if c.status != "blocked"]
    for candidate in rivals:
        if candidate.status == "conflict":
            candidate.status, candidate.reason = "available", ""
        others = [c.distribution for c in rivals if c.name == candidate.name and c is not candidate]
        if others and candidate.status == "available":
            candidate.status = "conflict"
            candidate.reason = (
                f"{' and '.join(others)} also bring{'s' if len(others) == 1 else ''} a backend "
                f"called {candidate.name!r}; "
                f"say {candidate.qualified_name!r} to choose this one, or uninstall the other"
            )


def find(name: str) -> Candidate:
    """Return the installed backend that ``"name"`` or ``"distribution::name"`` means.

    Raises:
        BackendNotFound: nothing of that name is installed.
        PluginConflict: two distributions bring it and the name does not say which.
        BackendUnavailable: it is installed but incompatible, blocked or failed.
    """
    matching = [c for c in backends() if name in (c.name, c.qualified_name)]
    if not matching:
        raise BackendNotFound(_not_installed(name))
    matching = [c for c in matching if c.status != "blocked"] or matching
    candidate = matching[0]
    if len(matching) > 1:  # a qualified name matches one
        choices = " or ".join(repr(c.qualified_name) for c in matching)
        raise PluginConflict(
            f"{len(matching)} distributions bring a backend called {name!r}; choose {choices}, or uninstall one"
        )
    if candidate.status in ("incompatible", "blocked", "failed"):
        raise BackendUnavailable(
            f"backend {name!r} ({candidate.distribution} {candidate.version}) is {candidate.status}: {candidate.reason}"
        )
    return candidate


def _not_installed(name: str) -> str:
    extras = _extras()
    remedy = f'; install it with: pip install "plugrad[{name}]"' if name in extras else ""
    known = [c.name for c in backends()]
    return (
        "no installed plugin brings a backend called "
        f"{name!r}{suggestion(name, [*known, *extras]) if not remedy else ''}{remedy}; "
        f"installed are {', '.join(known) or 'none'}"
    )


@cache
def _extras() -> frozenset[str]:
    """Return the extras of the `plugrad` distribution: the backends that have one to be installed with."""
    from importlib_metadata import PackageNotFoundError, metadata

    try:
        return frozenset(metadata("plugrad").get_all("Provides-Extra") or ()) - {"all"}
    except PackageNotFoundError:
        return frozenset()


@cache
def first_party() -> frozenset[str]:
    """Return the distributions that the `plugrad` distribution itself asks for, with any extra."""
    from importlib_metadata import PackageNotFoundError, requires

    try:
        return frozenset(
            re.split(r"[^\w.-]", line, maxsplit=1)[0].lower() for line in requires("plugrad") or ()
        )
    except PackageNotFoundError:
        return frozenset()


def open_backend(name: str, device: str = "") -> Backend:
    """Return the backend opened on a device, loading its plugin if that has not happened yet.

    Raises:
        BackendNotFound, PluginConflict: see `find`.
        BackendUnavailable: the plugin cannot be imported or cannot start; the reason is its own and
            is chained.
    """
    candidate = find(name)
    key = candidate.qualified_name, device
    if key not in _opened:
        backend = _opened_by(candidate, device)
        _opened[key] = _opened.setdefault((candidate.qualified_name, backend.device), backend)
    return _opened[key]


def opened_backends() -> list[Backend]:
    """Return the backends that are open, each once."""
    return list(dict.fromkeys(_opened.values()))


def close_backend(backend: Backend) -> None:
    """Run the kernels' dispose functions and release the device.

    >>> backend = plugrad.which().backend
    >>> backend.is_closed
    False

    Tensors that live there cannot be used any more. The next use of the backend opens it again.
    """
    for kernel_config in registry.get_kernels_for_backend(backend.name):
        if kernel_config.dispose_func is not None:
            kernel_config.dispose_func(backend)
    backend.close()
    backend.is_closed = True
    for key in [k for k, b in _opened.items() if b is backend]:
        del _opened[key]


def probe(candidate: Candidate) -> Probe:
    """Return whether a backend can start, importing its plugin but opening nothing.

    Raises:
        BackendUnavailable: the plugin cannot be imported.
    """
    with _reported(candidate):
        return _created(candidate).probe()


def _opened_by(candidate: Candidate, device: str) -> Backend:
    with _reported(candidate):
        backend = _created(candidate)
        started = backend.probe()
        if not started.ok:
            raise BackendUnavailable(
                f"backend {candidate.name!r} cannot start here: {started.reason}"
            )
        table = backend.open(device)
        is_new = candidate.status != "active"
        if is_new:
            registry.register_kernels(table)
        try:
            backend.functions = registry.functions(backend.name)
            backend.set_memory_limit(config.get("memory_limit"))
            for kernel_config in registry.get_kernels_for_backend(backend.name):
                if kernel_config.setup_func is not None:
                    kernel_config.setup_func(backend)
        except BaseException:
            for kernel_config in table if is_new else ():
                registry.unregister_kernel(kernel_config.kernel_name, backend.name)
            raise
    candidate.status, candidate.reason = "active", ""
    return backend


def _traceback() -> str:
    import traceback  # nobody needs it before something is wrong

    return traceback.format_exc()


@contextmanager
def _reported(candidate: Candidate) -> Generator[None, None, None]:
    """Keep the reason of a failure, and raise it as one that says which plugin is at fault."""
    try:
        yield
    except BackendUnavailable:
        raise
    except (Exception, SystemExit) as error:
        candidate.status, candidate.reason = "failed", f"{type(error).__name__}: {error}"
        candidate.details = _traceback()
        raise BackendUnavailable(
            f"backend {candidate.name!r} ({candidate.distribution} {candidate.version}) "
            f"cannot start: {candidate.reason}. Reinstall it, or switch it off with "
            f"PLUGRAD_PLUGINS_DISABLE={candidate.name}"
        ) from error


def _created(candidate: Candidate) -> Backend:
    if candidate.factory is None:
        from importlib_metadata import EntryPoint

        candidate.factory = EntryPoint(candidate.name, candidate.target, GROUP).load()
    backend = cast("Callable[[], object]", candidate.factory)()
    if not isinstance(backend, Backend):
        raise TypeError(
            f"{candidate.target} returned {type(backend).__name__}, not a plugrad Backend"
        )
    if backend.name != candidate.name:
        raise ValueError(
            f"{candidate.target} returned a backend called {backend.name!r}, not {candidate.name!r}"
        )
    return backend
