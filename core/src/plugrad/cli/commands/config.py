"""``plugrad config``: the settings, and which layer decides each."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from plugrad.cli import layout, package_import
from plugrad.discovery.listing import plugins
from plugrad.discovery.order import sort_packs_by_precedence
from plugrad.settings.layers import config, user_file

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterator

    from plugrad.settings.layers import Setting

LAYER_DESCRIPTIONS = (
    "an argument, such as device= or x.to(…)",
    "plugrad.use(…)",
    "a block plugrad.config.override(…)",
    "plugrad.config.set(…)",
    "the environment variable",
    "plugrad.toml, or [tool.plugrad] in pyproject.toml, in this folder or one above it",
    "the user's file, {user_file}",
    "a suggestion of a plugin",
    "the default",
)
"""The layers of settings in words, the strongest first."""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``plugrad config`` to its parser."""
    parser.add_argument(
        "--explain",
        action="store_true",
        help="also show meanings, accepted values and environment variables",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: Namespace) -> None:
    """Print every setting."""
    if not all(
        p.manifest.has_only_command_hooks for p in plugins("hooks")
    ):  # hooks may suggest settings
        package_import.import_plugrad_package()
    keys = {key.name: key for key in config.keys()}  # noqa: SIM118 - no dict
    records: list[dict[str, Any]] = []
    for setting in config:
        key = keys.get(setting.key)
        records.append(
            {
                "key": setting.key,
                "value": setting.value,
                "decided_by": setting.layer,
                "meaning": key.meaning if key else "an option of a backend; see `plugrad info`",
                "accepts": key.accepts if key else "",
                "default": key.default if key else None,
                "variable": key.variable if key else "",
                "overruled": _overruled_values(setting, key.variable if key else ""),
            }
        )
    if arguments.json:
        layout.print_json({"settings": records, "files": [path for path, _ in config.files()]})
    elif arguments.explain:
        _print_explanations(records)
    else:
        rows = [(r["key"], _format_value(r["value"]), r["decided_by"]) for r in records]
        layout.print_table(("SETTING", "VALUE", "DECIDED BY"), rows, indent="")


def _list_pack_orders(setting_key: str) -> Iterator[tuple[str, str]]:
    """Yield the order of the packs of each backend, for the setting ``packs``."""
    found: dict[str, list[str]] = {}
    for pack in sort_packs_by_precedence(plugins("kernels")) if setting_key == "packs" else ():
        if pack.status in ("available", "active"):
            found.setdefault(pack.backend_name, []).append(pack.short_name)
    for backend, packs in found.items():
        yield "order", f"{backend}: {', '.join(packs)}"


def _overruled_values(setting: Setting, environment_variable: str) -> list[tuple[str, str]]:
    """Return the values of a setting in weaker layers, and the places where they are set."""
    found = [(os.environ.get(environment_variable), f"environment variable {environment_variable}")]
    found += [(values.get(setting.key), path) for path, values in config.files()]
    return [
        (_format_value(v), place) for v, place in found if v is not None and place != setting.layer
    ]


def _format_value(value: object) -> str:
    """Return the value of a setting as it is written in a configuration."""
    if isinstance(value, tuple | list):
        return ",".join(map(str, value)) or "none"
    return {None: "none", True: "true", False: "false"}.get(value, str(value))  # type: ignore[call-overload]


def _print_explanations(records: list[dict[str, Any]]) -> None:
    """Print what each setting means, its value, and what decides it."""
    for record in records:
        layout.print_heading(record["key"])
        lines = [
            ("means", record["meaning"]),
            ("is", f"{_format_value(record['value'])}, decided by {record['decided_by']}"),
            *(("overrules", f"{value} in {place}") for value, place in record["overruled"]),
            ("takes", record["accepts"]),
            ("default", _format_value(record["default"])),
            ("variable", record["variable"]),
            *_list_pack_orders(record["key"]),
        ]
        layout.print_pairs((name, text) for name, text in lines if text)
    layout.print_heading("First match wins")
    for i, layer in enumerate(LAYER_DESCRIPTIONS, 1):
        layout.print_paragraph(
            f"{i}. {layer.format(user_file=user_file())}", hanging_indent=layout.INDENT * 3
        )
    layout.print_heading("Configuration files")
    files = [path for path, _ in config.files()]
    for path in files or ["none"]:
        layout.print_line(f"{layout.INDENT}{path}")
