"""List the installed plugins, and determine whether each can be used, without running any of their code.

A plugin is an installed distribution with an entry point in one of plugrad's groups. A backend says
what it offers in a static manifest; see `plugrad.discovery.manifest`. The modules
`plugrad.discovery.loading` and `plugrad.discovery.packs` run the code of the requested plugins.
"""

from __future__ import annotations

import re
from functools import cache, partial
from typing import TYPE_CHECKING, Final

from plugrad.discovery.load_locks import is_locked
from plugrad.discovery.manifest import (
    API_VERSION,
    BACKEND_MANIFEST_FILE,
    PLUGIN_MANIFEST_FILE,
    Manifest,
    find_manifest,
    find_package_spec,
    is_api_supported,
)
from plugrad.discovery.plugin import (
    IN_PROCESS_DISTRIBUTION,
    KIND_DESCRIPTIONS,
    KIND_OF_ENTRY_POINT_GROUP,
    Plugin,
    PluginKind,
)
from plugrad.discovery.scan import scan_distributions
from plugrad.discovery.state import state
from plugrad.errors import (
    ArgumentError,
    BackendNotFound,
    BackendUnavailable,
    PluginConflict,
    PluginNotFound,
    PluginUnavailable,
    RegistrationError,
    short_repr,
    suggest_similar_name,
)
from plugrad.interruptions import is_interruption
from plugrad.settings import journal
from plugrad.settings.layers import config
from plugrad.types.arguments import check_callable, check_flag, check_string

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from plugrad.discovery.scan import EntryPoint, ShadowedDistribution
    from plugrad.settings.keys import Option
    from plugrad.tensor.backend import Backend

MODULE_PREFIX: Final = "module://"
"""How the name of a backend begins that is given by its module and not by its plugin."""

plugin_uninstall_listeners: Final[list[Callable[[Plugin], None]]] = []
"""Functions that are called with each plugin that a scan of the installed distributions no longer finds."""

MAX_LISTED_NAMES = 5
"""How many names a message has at most."""


def plugins(kind: PluginKind | None = None, *, refresh: bool = False) -> list[Plugin]:
    """Return all installed plugins, or those of one kind, with their status; no plugin is imported.

    >>> import plugrad
    >>> [p.name for p in plugrad.plugins("backend") if p.distribution == "plugrad-cpu"]
    ['cpu']

    Args:
        kind: ``"backend"``, ``"kernels"``, ``"ops"`` or ``"hooks"``.
        refresh: scan the installed distributions again, after something was installed or uninstalled. The kernels of
            a pack that is gone are taken away from the devices that are open.
    """
    if kind is not None and check_string(kind, "plugins", "kind") not in KIND_DESCRIPTIONS:
        raise ArgumentError(
            f"plugins: kind={short_repr(kind)} must be {', '.join(map(repr, KIND_DESCRIPTIONS))} or None"
        )
    refresh = check_flag(refresh, "plugins", "refresh")
    with state.lock:
        before = state.listing or []
        all_plugins = _list_plugins(refresh=refresh)
        _mark_blocked(all_plugins)
        _mark_conflicts(all_plugins)
        found = [p for p in all_plugins if kind is None or p.kind == kind]
    if refresh:
        remaining = {p.key for p in all_plugins}
        for plugin in [p for p in before if p.key not in remaining]:
            for listener in plugin_uninstall_listeners:
                listener(plugin)
    return found


def backends(*, refresh: bool = False) -> list[Plugin]:
    """Return every installed backend with its status, best first; no plugin is imported.

    >>> import plugrad
    >>> [b.name for b in plugrad.backends() if b.distribution == "plugrad-cpu"]
    ['cpu']

    Args:
        refresh: scan the installed distributions again, after something was installed.
    """
    return plugins("backend", refresh=refresh)


def declared_options() -> dict[str, Mapping[str, Option] | None]:
    """Return the settings that the installed backends declare, by backend; no setting changes this result."""
    with state.lock:
        every = [p for p in _list_plugins() if p.kind == "backend"]
        options = {p.name: p.manifest.options for p in reversed(every)}
        if len(options) < len(every):  # the name's owner decides
            for name in options:
                same = [p for p in every if p.name == name]
                owner = find_first_party_backend(same) if len(same) > 1 else None
                options[name] = (owner or same[0]).manifest.options
        return options


config.options_by_backend = declared_options


def register_backend(
    name: str, factory: Callable[[], Backend], *, priority: int = 0, summary: str = ""
) -> None:
    """Add a backend to this process without an installed plugin; it is never chosen automatically.

    Raises:
        PluginConflict: the name is taken.
        RegistrationError: the name is malformed.
    """
    check_string(name, "register_backend", "name")
    check_callable("register_backend", factory)
    if not isinstance(priority, int):  # pyright: ignore[reportUnnecessaryIsInstance] - people pass anything
        raise ArgumentError(f"register_backend: priority={short_repr(priority)} must be an integer")
    try:
        _check_name("backend", name)
    except ValueError as error:
        raise RegistrationError(str(error)) from None
    plugin = Plugin(
        "backend",
        name,
        IN_PROCESS_DISTRIBUTION,
        target=repr(factory),
        manifest=Manifest(priority=priority, summary=summary),
        loaded=factory,
    )
    with state.lock:
        if any(p.kind == "backend" and p.name == name for p in _list_plugins()):
            raise PluginConflict(f"a backend called {name!r} exists already; choose another name")
        journal.record_change(
            ("backend", name), partial(remove_plugin, plugin), partial(add_plugin, plugin)
        )
        add_plugin(plugin)


def add_plugin(plugin: Plugin) -> None:
    """Add a plugin that is not installed to the list, until `remove_plugin` is called."""
    with state.lock:
        state.added.append(plugin)
        _invalidate_plugin_list()


def remove_plugin(plugin: Plugin) -> None:
    """Remove a plugin from the list that was added with `add_plugin`."""
    with state.lock:
        if plugin in state.added:
            state.added.remove(plugin)
        _invalidate_plugin_list()


def _invalidate_plugin_list() -> None:
    """Discard the cached list of plugins, and make a new one."""
    state.listing = None
    _list_plugins()


# --- the list ------------------------------------------------------------------------------------


def _list_plugins(*, refresh: bool = False) -> list[Plugin]:
    """Return the record of each installed or added plugin, from a cache unless `refresh`."""
    if state.listing is None or refresh:
        if state.scan is None or refresh:
            state.scan = scan_distributions()
        entries = [e for e in state.scan.entry_points if e.group in KIND_OF_ENTRY_POINT_GROUP]
        kept = {
            entry: plugin
            for entry, plugin in state.described.items()
            if not refresh or plugin.status == "active" or is_locked(plugin.key)
        }
        for plugin in state.added if refresh else ():
            plugin.clear_failure()
        described = {e: kept[e] if e in kept else _make_plugin(e) for e in entries}
        for entry, plugin in described.items():
            if entry in state.described:
                plugin.imported = state.described[entry].imported
        state.described = described
        order = list(KIND_DESCRIPTIONS)
        state.listing = sorted(
            [*state.added, *state.described.values()],
            key=lambda p: (order.index(p.kind), -p.manifest.priority, p.name, p.distribution),
        )
        state.generation += 1
    return state.listing


def shadowed_distributions() -> tuple[ShadowedDistribution, ...]:
    """Return plugin distributions that another copy hides, mostly left by an old installation."""
    with state.lock:
        _list_plugins()
        return state.scan.shadowed_distributions if state.scan else ()


def _make_plugin(entry_point: EntryPoint) -> Plugin:
    """Return a `Plugin` for an entry point, with its manifest or with the reason why it cannot be used."""
    kind = KIND_OF_ENTRY_POINT_GROUP[entry_point.group]
    plugin = Plugin(
        kind, entry_point.name, entry_point.distribution, entry_point.version, entry_point.target
    )
    try:
        _check_name(kind, entry_point.name)
        _read_manifest(plugin, is_required=kind == "backend")
    except BaseException as error:  # finders on sys.meta_path may raise anything
        if is_interruption(error):
            raise
        plugin.record_failure(error)
        if isinstance(error, ValueError | OSError | ImportError):
            plugin.reason = str(error)
    return plugin


def _read_manifest(plugin: Plugin, *, is_required: bool) -> None:
    """Read a plugin's manifest and check that this version of core supports it."""
    target = plugin.target
    if not re.fullmatch(r"[A-Za-z_][\w.]*(:[A-Za-z_][\w.]*)?", target):
        raise ValueError(f"the entry point {target!r} must be like 'package.module:object'")
    file = BACKEND_MANIFEST_FILE if plugin.kind == "backend" else PLUGIN_MANIFEST_FILE
    manifest = find_manifest(target, file)
    if manifest is None:
        if is_required:
            raise OSError(
                f"package {find_package_spec(target).name!r} does not have {file} next to its __init__.py"
            )
        return
    plugin.manifest = manifest
    api = manifest.api
    if not is_api_supported(api):
        outdated = "plugrad-core" if api > API_VERSION else plugin.distribution
        plugin.status = "incompatible"
        plugin.reason = (
            f"it needs plugin API {_format_version(api)} and this plugrad-core offers {_format_version(API_VERSION)}; "
            f"run: pip install --upgrade {outdated}"
        )


def _check_name(plugin_kind: PluginKind, name: str) -> None:
    """Raise unless a plugin's name has the form that its kind requires."""
    backend = r"[a-z][a-z0-9_]*"  # its settings are in variables of the environment, which have no hyphens
    other = r"[a-z][a-z0-9_-]*"
    if plugin_kind == "kernels":
        if not re.fullmatch(rf"{backend}\.{other}", name):
            raise ValueError(
                f"the kernel pack name {name!r} must be a backend's name, a dot and a name, as in 'webgpu.acme'"
            )
    elif not re.fullmatch(pattern := backend if plugin_kind == "backend" else other, name):
        raise ValueError(f"the {plugin_kind} name {name!r} must match {pattern}")
    if plugin_kind == "backend" and name == "plugins":
        raise ValueError("no backend can be called 'plugins', which is a section of the settings")


def _format_version(version: tuple[int, int]) -> str:
    """Return a version (major, minor) as text."""
    return ".".join(map(str, version))


def _mark_blocked(all_plugins: list[Plugin]) -> None:
    """Mark the plugins in the setting ``plugins.disable`` as blocked; it may have changed since the last call."""
    disabled = config.explain("plugins.disable")
    for plugin in all_plugins:
        if plugin.status == "blocked":
            plugin.status, plugin.reason = "available", ""
        if plugin.status in ("available", "conflict") and any(map(plugin.has_name, disabled.value)):
            plugin.status = "blocked"
            plugin.reason = f"plugins.disable in {disabled.layer} names it"


def _mark_conflicts(all_plugins: list[Plugin]) -> None:
    """Mark plugins that share kind and name as a conflict; blocked ones do not count."""
    rivals: dict[tuple[PluginKind, str], list[Plugin]] = {}
    for plugin in all_plugins:
        if plugin.status == "conflict":
            plugin.status, plugin.reason = "available", ""
        if plugin.status != "blocked":
            rivals.setdefault((plugin.kind, plugin.name), []).append(plugin)
    for namesakes in rivals.values():
        if len(namesakes) > 1 and not _settings_choose_pack(namesakes):
            owner = find_first_party_backend(namesakes)
            for plugin in namesakes:
                if plugin.status == "available" and plugin is not owner:
                    _set_conflict_status(
                        plugin, [p.distribution for p in namesakes if p is not plugin]
                    )


def _set_conflict_status(plugin: Plugin, other_distributions: list[str]) -> None:
    """Mark a plugin as in conflict with those of other distributions, and note the remedy."""
    choice = f"use {plugin.qualified_name!r}"
    if plugin.kind == "kernels":
        choice = f"name {plugin.qualified_name!r} in the setting packs"
    plugin.status = "conflict"
    plugin.reason = (
        f"{' and '.join(other_distributions)} also bring{'s' if len(other_distributions) == 1 else ''} "
        f"{KIND_DESCRIPTIONS[plugin.kind]} called "
        f"{plugin.name!r}; {choice} to choose this one, or uninstall the other"
    )


def _settings_choose_pack(namesakes: list[Plugin]) -> bool:
    """Return whether the setting ``packs`` chooses one of the packs of one name, and switch the others off."""
    if namesakes[0].kind != "kernels":
        return False
    setting = config.explain("packs")
    named = [p for p in namesakes if any("::" in n and p.has_name(n) for n in setting.value)]
    for plugin in namesakes if named else ():
        if plugin not in named and plugin.status == "available":
            plugin.status = "blocked"
            plugin.reason = f"packs in {setting.layer} names {named[0].qualified_name!r} instead"
    return bool(named)


def find_first_party_backend(namesakes: list[Plugin]) -> Plugin | None:
    """Return the backend that plugrad's own distributions bring, among backends of one name, or None."""
    own = [
        p
        for p in namesakes
        if p.kind == "backend" and p.distribution.lower() in first_party_distributions()
    ]
    return own[0] if len(own) == 1 else None


def warn_about_claimed_name(plugin: Plugin) -> None:
    """Warn once for each distribution that claims the name of a backend that belongs to plugrad's authors."""
    same = [p for p in backends() if p.name == plugin.name and p.status != "blocked"]
    if len(same) > 1 and find_first_party_backend(same) is plugin:
        for other in same:
            if other.status == "conflict":
                other.warn_once(f"{plugin.name!r} stays the backend of {plugin.distribution}")


# --- choosing one --------------------------------------------------------------------------------


def find_plugin(name: str, kind: PluginKind = "backend") -> Plugin:
    """Return the plugin that ``"name"``, ``"distribution::name"`` or ``"module://package:object"`` means.

    Raises:
        BackendNotFound, PluginNotFound: no plugin of that name is installed.
        PluginConflict: two distributions bring it and the name does not say which.
        BackendUnavailable, PluginUnavailable: it is installed but incompatible, blocked or failed.
    """
    check_string(name, KIND_DESCRIPTIONS[kind], "name")
    if name.startswith(MODULE_PREFIX) and all(p.qualified_name != name for p in state.added):
        _add_module_backend(name)
    matching = [p for p in plugins(kind) if name in (p.name, p.qualified_name)]
    if not matching:
        raise _plugin_not_found_error(name, kind)
    matching = [p for p in matching if p.status != "blocked"] or matching
    plugin = (find_first_party_backend(matching) if len(matching) > 1 else None) or matching[0]
    if (
        len(matching) > 1 and find_first_party_backend(matching) is None
    ):  # a qualified name matches one
        choices = " or ".join(repr(p.qualified_name) for p in matching)
        raise PluginConflict(
            f"{len(matching)} distributions bring {KIND_DESCRIPTIONS[kind]} called {name!r}; choose "
            f"{choices}, or uninstall one"
        )
    if plugin.status in ("incompatible", "blocked", "failed"):
        unavailable = BackendUnavailable if kind == "backend" else PluginUnavailable
        raise unavailable(f"{plugin} is {plugin.status}: {plugin.reason}")
    return plugin


def _add_module_backend(name: str) -> None:
    """Add a backend given as ``"module://package:object"`` to the list."""
    plugin = Plugin("backend", name, name, target=name.removeprefix(MODULE_PREFIX))
    plugin.qualified_name = name
    try:
        _read_manifest(plugin, is_required=False)
    except (ValueError, ImportError) as error:
        raise BackendNotFound(f"{name!r} does not name a backend: {error}") from error
    add_plugin(plugin)


GPU_NAMES_WITHOUT_BACKEND: Final = frozenset({"cuda", "gpu", "hip", "mps", "rocm", "xpu"})
"""Names of GPUs in other frameworks, for which an error suggests the backend webgpu."""


def _plugin_not_found_error(name: str, kind: PluginKind) -> BackendNotFound | PluginNotFound:
    """Return the error for a name that no installed plugin of a kind has."""
    known = [p.name for p in plugins(kind)]
    extras = {name.rpartition("-")[2] for name in first_party_distributions()}
    installed = f"installed are {', '.join(known) or 'none'}"
    if kind != "backend":
        noun = KIND_DESCRIPTIONS[kind]
        return PluginNotFound(
            f"no installed plugin brings {noun} called {name!r}{suggest_similar_name(name, known)}; {installed}"
        )
    remedy = f'; install it with: pip install "plugrad[{name}]"' if name in extras else ""
    if name in GPU_NAMES_WITHOUT_BACKEND:
        remedy = '; every GPU is one of the backend webgpu: pip install "plugrad[webgpu]", then plugrad.use("webgpu")'
    hint = "" if remedy else suggest_similar_name(name, [*known, *extras])
    return BackendNotFound(
        f"no installed plugin brings a backend called {name!r}{hint}{remedy}; {installed}"
    )


@cache
def first_party_distributions() -> frozenset[str]:
    """Return the distributions in plugrad-core's extras, whose authors are plugrad's."""
    from importlib_metadata import PackageNotFoundError, requires  # slow, and rarely needed

    try:
        required = requires("plugrad-core") or ()
    except PackageNotFoundError:  # core runs from a folder that is not installed
        return frozenset()
    return frozenset(re.split(r"[^\w.-]", line, maxsplit=1)[0].lower() for line in required)


def declared_replacements(plugin: Plugin) -> tuple[str, ...]:
    """Return the other plugins' kernels that a plugin replaces, by the manifests and by what it registered."""
    theirs = {
        name
        for p in plugins("backend")
        if plugin.kind == "kernels" and p.name == plugin.backend_name
        if p.distribution != plugin.distribution
        for name in p.manifest.kernels
    }
    said = {*plugin.manifest.replaces, *(theirs & set(plugin.manifest.kernels))}
    done = {text.split()[1] for text in plugin.replaced}
    return (*plugin.replaced, *sorted(said - done))


def join_names(names: list[str] | tuple[str, ...]) -> str:
    """Return names joined by commas, abbreviated after the first few."""
    rest = f" and {len(names) - MAX_LISTED_NAMES} more" if len(names) > MAX_LISTED_NAMES else ""
    return ", ".join(names[:MAX_LISTED_NAMES]) + rest
