"""Manifests: files in which plugins describe themselves, so that listing them runs no code.

A backend has ``plugrad-backend.toml`` next to the ``__init__.py`` of its package; a kernel pack, ops
and hooks may have ``plugrad-plugin.toml`` there. The package may be part of a namespace package, or lie in
a zip file. The tables below list the keys of each.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from plugrad.errors import short_repr
from plugrad.interruptions import is_interruption
from plugrad.settings.keys import OPTION_TYPES, Option
from plugrad.settings.toml_files import MAX_TOML_BYTES, check_size, parse_toml, read_regular_file

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from importlib.machinery import ModuleSpec
    from pathlib import Path

API_VERSION: Final = (1, 0)
"""The version of the plugin interface that this core offers: a plugin needs the same major and at most this minor."""
DTYPE_PATTERN: Final = r"bool|string|u?int(8|16|32|64)|float(16|32|64)|complex(64|128)"
"""The regular expression of dtype names. `plugrad.types.dtype` is not used: it imports NumPy, which is slow."""
BACKEND_MANIFEST_FILE: Final = "plugrad-backend.toml"
"""The name of a backend's manifest in its package."""
PLUGIN_MANIFEST_FILE: Final = "plugrad-plugin.toml"
"""The name of another plugin's manifest in its package."""
COMMAND_HOOKS: Final = frozenset({"plugrad_cli", "plugrad_doctor_section"})
"""The hooks that only the command ``plugrad`` calls."""


class Command(NamedTuple):
    """A command that a plugin adds to ``plugrad``."""

    summary: str
    """What it does, in the words that ``plugrad --help`` shows."""
    module: str
    """The module with its ``add_arguments(parser)`` and ``run(arguments)``, imported when the command runs."""


class Manifest(NamedTuple):
    """The keys of a plugin's manifest, the file in which it describes itself; reading it runs no code."""

    api: tuple[int, int] = API_VERSION
    """The version of the plugin interface that it is written for."""
    priority: int = 0
    """The usable backend of highest priority is chosen automatically, and its packs come in this order."""
    summary: str = ""
    """What it is, in one line."""
    url: str = ""
    """Where to read more and where to report defects."""
    devices: tuple[str, ...] = ()
    """The devices that can be named after the colon, or patterns of them."""
    dtypes: tuple[str, ...] = ()
    """The dtypes that arrays may have on some device."""
    capabilities: tuple[str, ...] = ()
    """Keywords for users, such as ``gpu``; ``shares-numpy-memory`` tells plugrad that arrays are NumPy's."""
    install: str = ""
    """What else must be installed for it to start, such as a driver."""
    kernels: tuple[str, ...] = ()
    """The registry names of the kernels that it brings, so that the error for a missing kernel can name it."""
    replaces: tuple[str, ...] = ()
    """The registry names of the kernels of others whose implementation or gradient it replaces."""
    hooks: tuple[str, ...] = ()
    """The hooks that it has; a plugin with those of the command ``plugrad`` only is not loaded by other programs."""
    packs: tuple[str, ...] = ()
    """The distributions whose kernel packs may replace the kernels of a backend without a warning."""
    options: Mapping[str, Option] | None = None
    """Its own settings; None if it does not declare them, so that any setting is accepted."""
    commands: Mapping[str, Command] = MappingProxyType({})
    """The commands that it adds to ``plugrad``, by name."""

    @property
    def has_only_command_hooks(self) -> bool:
        """Whether all hooks that the manifest lists are for the command ``plugrad``."""
        return bool(self.hooks) and COMMAND_HOOKS.issuperset(self.hooks)

    def may_have_hook(self, hook: str) -> bool:
        """Return whether the plugin may have a hook: the manifest lists the hook, or no hooks."""
        return not self.hooks or hook in self.hooks


class ManifestError(ValueError):
    """A malformed manifest; the message names file, key, value and expectation."""


def find_manifest(entry_point_target: str, file_name: str) -> Manifest | None:
    """Return the manifest in the package of an entry point's target, or None, without running the package's code.

    Raises:
        ImportError: the package is not installed.
        ManifestError: the manifest is malformed.
    """
    from pathlib import Path

    spec = find_package_spec(entry_point_target)
    for folder in spec.submodule_search_locations or ():
        path = Path(folder) / file_name
        table = _load_toml(path, spec.loader)
        if table is not None:
            return _parse_manifest(
                table,
                path,
                BACKEND_MANIFEST_PARSERS
                if file_name == BACKEND_MANIFEST_FILE
                else PLUGIN_MANIFEST_PARSERS,
            )
    return None


def find_package_spec(entry_point_target: str) -> ModuleSpec:
    """Return the package of an entry point's target: the outermost that has code, or lies deepest.

    To find a part of a package, Python would import the package. A namespace package has no code, so its parts are
    looked for here.

    Raises:
        ImportError: it is not installed.
    """
    from importlib.machinery import PathFinder
    from importlib.util import find_spec

    package, *parts = entry_point_target.partition(":")[0].split(".")
    spec = find_spec(package)
    for part in parts:
        if spec is None or spec.origin is not None or spec.submodule_search_locations is None:
            break
        package = f"{package}.{part}"
        spec = PathFinder.find_spec(package, spec.submodule_search_locations)
    if spec is None:
        raise ImportError(f"package {package!r} is not installed")
    return spec


def _load_toml(path: Path, module_loader: object) -> Mapping[str, Any] | None:
    """Return the contents of a manifest, or None if there is no such file; never wait, whatever kind of file it is."""
    try:
        archive = getattr(module_loader, "archive", None)  # a zip file's loader has one
        return parse_toml(
            read_regular_file(path) if archive is None else _read_from_zip(archive, path)
        )
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        if is_interruption(error):
            raise
        raise ManifestError(f"{path}: {error}") from error


def _read_from_zip(archive: str, path: Path) -> bytes:
    """Return the bytes of a file in a zip file."""
    from zipfile import BadZipFile, ZipFile  # slow to import, and plugins are rarely zipped

    try:
        with ZipFile(archive) as files, files.open(path.relative_to(archive).as_posix()) as file:
            return check_size(file.read(MAX_TOML_BYTES + 1))
    except KeyError:
        raise FileNotFoundError(path) from None
    except (
        BadZipFile,
        NotImplementedError,
        RuntimeError,
    ) as error:  # encrypted, or a strange method
        if is_interruption(error):
            raise
        raise ValueError(str(error)) from error


def is_api_supported(api: tuple[int, int]) -> bool:
    """Return whether this version of core supports a plugin of this API version."""
    return api[0] == API_VERSION[0] and api <= API_VERSION


def _parse_manifest(
    table: Mapping[str, Any], path: object, parsers: Mapping[str, Callable[[object], Any]]
) -> Manifest:
    """Return the manifest that a table of TOML describes; `parsers` has a function for each key."""
    values: dict[str, Any] = {"api": _parse_value(path, "api", _parse_version, table.get("api"))}
    if not is_api_supported(values["api"]):
        return Manifest(**values)  # other versions may have other keys
    for key, value in table.items():
        if key not in parsers:
            raise ManifestError(
                f"{path}: unknown key {short_repr(key)} = {short_repr(value)}; the keys are {', '.join(parsers)}"
            )
        values[key] = _parse_value(path, key, parsers[key], value)
    return Manifest(**values)


def _parse_value(path: object, key: str, parse: Callable[[object], Any], value: object) -> Any:
    """Return a parsed value; an error names the file, the key and the expectation."""
    try:
        return parse(value)
    except ValueError as expectation:
        raise ManifestError(f"{path}: {key} = {short_repr(value)} must be {expectation}") from None


# --- the forms of values: the text of each ValueError says what the value must be ----------------


def _parse_version(value: object) -> tuple[int, int]:
    """Return a version such as ``"1.0"`` as (major, minor)."""
    match = re.fullmatch(r"(\d{1,9})\.(\d{1,9})", value) if isinstance(value, str) else None
    if match is None:
        raise ValueError("a version such as '1.0'")
    return int(match[1]), int(match[2])


def _parse_integer(value: object) -> int:
    """Return an integer of at most 64 bits; raise ValueError for anything else."""
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) >= 2**63:
        raise ValueError("an integer of at most 64 bits")
    return value


def _parse_string(value: object) -> str:
    """Return a string; raise ValueError for anything else."""
    if not isinstance(value, str):
        raise ValueError("a string")
    return value


def _parse_strings(value: object) -> tuple[str, ...]:
    """Return a list of strings as a tuple; raise ValueError for anything else."""
    if not isinstance(value, list) or not all(
        isinstance(v, str) for v in cast("list[object]", value)
    ):
        raise ValueError("a list of strings")
    return tuple(cast("list[str]", value))


def _parse_dtypes(value: object) -> tuple[str, ...]:
    """Return a list of dtype names as a tuple; raise ValueError for anything else."""
    names = _parse_strings(value)
    if not all(re.fullmatch(DTYPE_PATTERN, name) for name in names):
        raise ValueError("a list of dtypes such as 'float32'")
    return names


def _parse_options(value: object) -> Mapping[str, Option]:
    """Return the settings that a backend's manifest declares, by name."""
    expected = (
        "a table from names to tables, as in [options.threads] with type = 'integer' "
        "(or 'string', 'number', 'boolean'), summary = 'how many' and, if you like, a default"
    )
    if not isinstance(value, dict):
        raise ValueError(expected)
    options: dict[str, Option] = {}
    for name, table in cast("dict[str, object]", value).items():
        if not isinstance(table, dict) or not re.fullmatch(r"[a-z][a-z0-9_]*", name):
            raise ValueError(expected)
        entry = cast("dict[str, Any]", table)
        kind = entry.get("type")
        parse = OPTION_TYPES[kind][1] if isinstance(kind, str) and kind in OPTION_TYPES else None
        if (
            parse is None
            or not isinstance(entry.get("summary"), str)
            or entry.keys() - set(Option._fields)
        ):
            raise ValueError(expected)
        options[name] = Option(**entry)
        if "default" in entry:
            try:
                default = parse(entry["default"])
                if isinstance(default, int):
                    _parse_integer(int(default))
            except (ValueError, OverflowError):
                raise ValueError(expected) from None
            options[name] = options[name]._replace(default=default)
    return MappingProxyType(options)


def _parse_commands(value: object) -> Mapping[str, Command]:
    """Return the commands that a plugin's manifest declares, by name."""
    expected = (
        "a table from names to tables, as in [commands.acme] with summary = 'what it does' and "
        "module = 'acme.command'"
    )
    if not isinstance(value, dict):
        raise ValueError(expected)
    commands: dict[str, Command] = {}
    for name, table in cast("dict[str, object]", value).items():
        if not isinstance(table, dict) or not re.fullmatch(r"[a-z][a-z0-9-]*", name):
            raise ValueError(expected)
        entry = cast("dict[str, Any]", table)
        texts = [entry.get(field) for field in Command._fields]
        if len(entry) != len(texts) or not all(isinstance(text, str) and text for text in texts):
            raise ValueError(expected)
        commands[name] = Command(**entry)
    return MappingProxyType(commands)


BACKEND_MANIFEST_PARSERS: Final[Mapping[str, Callable[[object], Any]]] = {
    "api": _parse_version,
    "priority": _parse_integer,
    "summary": _parse_string,
    "url": _parse_string,
    "devices": _parse_strings,
    "dtypes": _parse_dtypes,
    "capabilities": _parse_strings,
    "install": _parse_string,
    "kernels": _parse_strings,
    "replaces": _parse_strings,
    "packs": _parse_strings,
    "options": _parse_options,
}
"""By the key of a backend's manifest, the function that checks and converts its value."""
PLUGIN_MANIFEST_PARSERS: Final[Mapping[str, Callable[[object], Any]]] = {
    **{key: BACKEND_MANIFEST_PARSERS[key] for key in ("api", "summary", "url", "priority")},
    **{key: BACKEND_MANIFEST_PARSERS[key] for key in ("kernels", "replaces")},
    "commands": _parse_commands,
    "hooks": _parse_strings,
}
"""By the key of another plugin's manifest, the function that checks and converts its value."""
