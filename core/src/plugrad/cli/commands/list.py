"""``plugrad list``: the installed plugins. None of them is imported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from plugrad.cli import layout
from plugrad.cli.records import KINDS, described
from plugrad.discovery.listing import plugins, several

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

LONGEST = 500
"""The most characters of a summary; `plugrad info` shows all."""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: Namespace) -> None:
    """Print a table for each kind of plugin."""
    records = [described(plugin) for plugin in plugins()]
    if arguments.json:
        layout.say_json(records)
        return
    for kind, heading in KINDS.items():
        rows = [
            (
                record["name"],
                record["status"],
                f"{record['distribution']} {record['version']}".rstrip(),
                _summary(record),
            )
            for record in records
            if record["kind"] == kind
        ]
        if rows:
            layout.title(heading)
            layout.table(("NAME", "STATUS", "FROM", "SUMMARY"), rows)
    if not any(record["kind"] == "backend" for record in records):
        layout.say("No backend is installed; run: pip install plugrad")


def _summary(record: dict[str, Any]) -> str:
    """Return why a plugin cannot be used, or what it is and what it replaces; manifests may be long."""
    replaces = record["replaces"]
    text = record["reason"] or ". ".join(
        part
        for part in (
            record["summary"].rstrip("."),
            f"Replaces of others: {several(replaces)}" if replaces else "",
        )
        if part
    )
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
