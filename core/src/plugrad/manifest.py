"""Manifests: what a plugin says about its backend in a file, so that nobody needs to run the plugin."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

if TYPE_CHECKING:
    from collections.abc import Mapping

API: Final = (1, 0)
"""The version of the plugin interface that this core offers: a plugin needs the same major and at most this minor."""
MANIFEST: Final = "plugrad-backend.toml"


class Manifest(NamedTuple):
    """What a plugin says about its backend without running."""

    api: tuple[int, int]
    priority: int = 0
    summary: str = ""
    devices: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()


def manifest_of(target: str) -> Manifest:
    """Read the manifest of the package that an entry point names; finding a top-level package runs none of its code."""
    import tomllib  # listing plugins is rare, and these take long to import
    from importlib.util import find_spec
    from pathlib import Path

    package = target.partition(":")[0].partition(".")[0]
    spec = find_spec(package)
    if spec is None:
        raise ImportError(f"package {package!r} is not installed")
    for folder in spec.submodule_search_locations or ():
        path = Path(folder) / MANIFEST
        if path.is_file():
            return _read_manifest(tomllib.loads(path.read_text(encoding="utf-8")))
    raise OSError(f"package {package!r} has no such file")


def _read_manifest(table: Mapping[str, Any]) -> Manifest:
    unknown = table.keys() - {"api", "priority", "summary", "devices", "dtypes"}
    if unknown:
        raise ValueError(f"unknown keys {sorted(unknown)}")
    match = re.fullmatch(r"(\d+)\.(\d+)", str(table.get("api", "")))
    if match is None:
        raise ValueError(f"api={table.get('api')!r} must be a version such as '1.0'")
    priority, summary = table.get("priority", 0), table.get("summary", "")
    if not isinstance(priority, int) or not isinstance(summary, str):
        raise TypeError("priority must be an integer and summary a string")
    devices, dtypes = (_strings(table, key) for key in ("devices", "dtypes"))
    return Manifest((int(match[1]), int(match[2])), priority, summary, devices, dtypes)


def _strings(table: Mapping[str, Any], key: str) -> tuple[str, ...]:
    values = table.get(key, [])
    if not isinstance(values, list) or not all(
        isinstance(v, str) for v in cast("list[object]", values)
    ):
        raise TypeError(f"{key} must be a list of strings")
    return tuple(cast("list[str]", values))
