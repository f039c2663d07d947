"""``plugrad list``: the installed plugins; only which backend is active is found out by running some of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from plugrad.cli import jobs, layout
from plugrad.cli.records import HEADING_OF_KIND, describe_active_backend, describe_plugin
from plugrad.discovery.listing import join_names, plugins
from plugrad.discovery.order import PackOrder

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

MAX_SUMMARY_CHARACTERS = 500
"""The most characters of a summary; `plugrad info` shows all."""
TIMEOUT_SECONDS = 10.0
"""How many seconds the choice of a backend may take; the doctor waits longer."""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``plugrad list`` to its parser."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: Namespace) -> int:
    """Print a table for each kind of plugin; return 1 if no backend is active."""
    records = [describe_plugin(plugin) for plugin in plugins()]
    records.sort(key=_plugin_sort_key)  # the others stay where they are: sorting is stable
    active: dict[str, str] = {}
    if any(record["kind"] == "backend" for record in records):
        (outcome,) = jobs.run_jobs([jobs.Job("report_active_backend", {})], TIMEOUT_SECONDS)
        active = describe_active_backend(outcome)
    for record in records:
        record["is_active"] = record["qualified_name"] == active.get("qualified_name")
    status = int(not any(record["is_active"] for record in records))
    if arguments.json:
        layout.print_json(records)
        return status
    for kind, heading in HEADING_OF_KIND.items():
        rows = [
            (
                record["name"],
                "active" if record["is_active"] else record["status"],
                f"{record['distribution']} {record['version']}".rstrip(),
                _describe_status(record),
            )
            for record in records
            if record["kind"] == kind
        ]
        if rows:
            layout.print_heading(heading)
            layout.print_table(("NAME", "STATUS", "FROM", "SUMMARY"), rows)
    if not any(record["kind"] == "backend" for record in records):
        layout.print_line("No backend is installed; run: pip install plugrad")
    elif "error" in active:
        layout.print_line()
        layout.print_paragraph(f"No backend is active: {active['error']}", "")
        layout.print_line("`plugrad doctor` tells more.")
    return status


def _plugin_sort_key(record: dict[str, Any]) -> tuple[int, str, int]:
    """Return the key by which a table of plugins' records is sorted: kind, backend, and place among packs."""
    place, kinds = record["place"], list(HEADING_OF_KIND)
    backend = record["name"].partition(".")[0] if place else ""
    return kinds.index(record["kind"]), backend, place["position"] if place else 0


def _describe_status(record: dict[str, Any]) -> str:
    """Return why a plugin cannot be used, or its summary and its replacements, shortened."""
    replaces, place = record["replaces"], record["place"]
    text = record["reason"] or ". ".join(
        part
        for part in (
            record["summary"].rstrip("."),
            f"Replaces of others: {join_names(replaces)}" if replaces else "",
            f"Comes as {PackOrder(**place)}" if place else "",
        )
        if part
    )
    return text if len(text) <= MAX_SUMMARY_CHARACTERS else f"{text[:MAX_SUMMARY_CHARACTERS]}…"
