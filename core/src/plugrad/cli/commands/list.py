"""``plugrad list``: the installed plugins; only which backend is active is found out by running some of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from plugrad.cli import jobs, layout
from plugrad.cli.records import KINDS, chosen_backend, describe_plugin
from plugrad.discovery.listing import join_names, plugins
from plugrad.discovery.order import Place

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

LONGEST = 500
"""The most characters of a summary; `plugrad info` shows all."""
PATIENCE = 10.0
"""How many seconds the choice of a backend may take; the doctor waits longer."""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: Namespace) -> int:
    """Print a table for each kind of plugin; return 1 if no backend is active."""
    records = [describe_plugin(plugin) for plugin in plugins()]
    records.sort(key=_sort_key)  # the others stay where they are: sorting is stable
    active: dict[str, str] = {}
    if any(record["kind"] == "backend" for record in records):
        (outcome,) = jobs.run([jobs.Job("active", {})], PATIENCE)
        active = chosen_backend(outcome)
    for record in records:
        record["is_active"] = record["qualified_name"] == active.get("qualified_name")
    status = int(not any(record["is_active"] for record in records))
    if arguments.json:
        layout.say_json(records)
        return status
    for kind, heading in KINDS.items():
        rows = [
            (
                record["name"],
                "active" if record["is_active"] else record["status"],
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
    elif "error" in active:
        layout.say()
        layout.paragraph(f"No backend is active: {active['error']}", "")
        layout.say("`plugrad doctor` tells more.")
    return status


def _sort_key(record: dict[str, Any]) -> tuple[int, str, int]:
    place, kinds = record["place"], list(KINDS)
    backend = record["name"].partition(".")[0] if place else ""
    return kinds.index(record["kind"]), backend, place["number"] if place else 0


def _summary(record: dict[str, Any]) -> str:
    """Return why a plugin cannot be used, or what it is and what it replaces; manifests may be long."""
    replaces, place = record["replaces"], record["place"]
    text = record["reason"] or ". ".join(
        part
        for part in (
            record["summary"].rstrip("."),
            f"Replaces of others: {join_names(replaces)}" if replaces else "",
            f"Comes as {Place(**place)}" if place else "",
        )
        if part
    )
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
