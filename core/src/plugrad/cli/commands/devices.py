"""``plugrad devices``: the devices of each backend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from plugrad.cli import jobs, layout
from plugrad.cli.jobs import Job
from plugrad.cli.records import select_plugins

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``plugrad devices`` to its parser."""
    parser.add_argument("names", metavar="NAME", nargs="*", help="show only these backends")
    jobs.add_timeout_argument(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: Namespace) -> int:
    """Ask each backend in a separate process; return 1 if a backend that was named has no device."""
    backends = select_plugins(arguments.names, "backend")
    usable = [b for b in backends if b.status in ("available", "active", "conflict")]
    asking = [
        Job("try_backend", {"plugin_name": b.qualified_name, "last_step": "probe"}) for b in usable
    ]
    outcomes = jobs.run_jobs(asking, arguments.timeout)
    records: list[dict[str, Any]] = []
    reasons = {b.qualified_name: f"{b.status}: {b.reason}" for b in backends if b not in usable}
    for backend, outcome in zip(usable, outcomes, strict=True):
        name = backend.name if backend.status != "conflict" else backend.qualified_name
        for device in outcome.report.get("devices", ()):
            records.append(
                {**device, "backend": backend.qualified_name, "use": f"{name}:{device['name']}"}
            )
        if outcome.problem:
            reasons[backend.qualified_name] = outcome.problem
        elif not outcome.report["can_start"]:
            reasons[backend.qualified_name] = outcome.report["refusal"]
    if arguments.json:
        layout.print_json({"devices": records, "without": reasons})
    else:
        _print_devices(records, reasons)
    return int(bool(arguments.names and reasons))


def _print_devices(records: list[dict[str, Any]], reasons: dict[str, str]) -> None:
    """Print a table of the devices' records, and the reasons why backends have none."""
    if records:
        layout.print_table(
            ("DEVICE", "KIND", "DESCRIPTION"),
            [
                (r["use"], "software" if r["is_software"] else "hardware", r["description"])
                for r in records
            ],
            indent="",
        )
    if reasons:
        layout.print_line()
        layout.print_line("Backends without a device on this machine:")
        layout.print_pairs(reasons.items())
