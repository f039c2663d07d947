"""``plugrad info NAME``: everything that is known about one plugin, and what happens when it is loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from plugrad.cli import jobs, layout
from plugrad.cli.findings import relevant_traceback_lines
from plugrad.cli.jobs import Job
from plugrad.cli.records import UNUSABLE_STATUSES, describe_plugin, select_plugins
from plugrad.discovery.order import PackOrder

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterator

    from plugrad.discovery.plugin import Plugin

KEYS_KNOWN_AFTER_LOADING: Final = (
    "can_start",
    "refusal",
    "devices",
    "device",
    "stored_dtypes",
    "kernels",
    "packs",
)
"""The keys of a plugin's record whose values are known only after it was loaded."""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``plugrad info`` to its parser."""
    parser.add_argument("name", metavar="NAME", help="a backend, another plugin or a distribution")
    jobs.add_timeout_argument(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: Namespace) -> int:
    """Load the plugin in a separate process and print its description; return 1 if it cannot be used."""
    plugins = select_plugins([arguments.name])
    records = [describe_plugin(plugin) for plugin in plugins]
    tried = [i for i, plugin in enumerate(plugins) if _make_job(plugin)]
    for i, outcome in zip(
        tried, jobs.run_jobs(filter(None, map(_make_job, plugins)), arguments.timeout), strict=True
    ):
        record = records[i]
        record |= {
            key: outcome.report[key] for key in KEYS_KNOWN_AFTER_LOADING if key in outcome.report
        }
        if outcome.problem:
            record["status"] = "failed"
            record["reason"] = outcome.problem
            record["details"] = outcome.details
        elif outcome.report.get("can_start") is False:
            record["reason"] = f"cannot start here: {outcome.report['refusal']}"
    if arguments.json:
        layout.print_json(records)
    else:
        for record in records:
            layout.print_heading(record["qualified_name"])
            layout.print_pairs((name, text) for name, text in _list_details(record) if text)
            if record["details"]:
                layout.print_line()
                layout.print_verbatim(
                    relevant_traceback_lines(record["details"], 40), layout.INDENT * 2
                )
    return int(any(r["status"] in UNUSABLE_STATUSES for r in records))


def _make_job(plugin: Plugin) -> Job | None:
    """Return the job that loads a plugin, or None if there is nothing to load."""
    usable = plugin.status in ("available", "active", "conflict")
    if plugin.kind == "backend" and usable:
        return Job("try_backend", {"plugin_name": plugin.qualified_name, "last_step": "open"})
    if plugin.kind == "ops" and usable:
        return Job("import_op_pack", {"plugin_name": plugin.qualified_name})
    return None


def _list_details(record: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the names and values of a plugin's properties, as text."""
    from plugrad.cli.environment import find_homepage

    yield "summary", record["summary"] or "none"
    yield "status", record["status"] + (f": {record['reason']}" if record["reason"] else "")
    yield "from", f"{record['distribution']} {record['version']}".rstrip()
    if url := record["url"] or find_homepage(record["distribution"]):
        yield "url", url
    yield "entry point", record["target"]
    yield "plugin API", record["api"]
    if record["kind"] == "backend":
        yield "priority", str(record["priority"])
        yield from _list_devices(record)
        yield "dtypes", ", ".join(record.get("stored_dtypes") or record["dtypes"])
        yield "capabilities", ", ".join(record["capabilities"])
        if record["install"]:
            yield "needs", record["install"]
    if record["place"]:
        yield "order", str(PackOrder(**record["place"]))
    if record["kind"] in ("backend", "kernels"):
        yield "kernels", _describe_kernel_count(record["kernels"])
    for name, option in record["options"].items():
        default = "" if option["default"] is None else f", default {option['default']}"
        yield "option", f"{name}: {option['summary']} ({option['type']}{default})"


def _list_devices(record: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield names and descriptions of the devices in a plugin's record."""
    if "devices" in record and record["devices"] and isinstance(record["devices"][0], dict):
        for device in record["devices"]:
            kind = ", software" if device["is_software"] else ""
            yield "device", f"{record['name']}:{device['name']}, {device['description']}{kind}"
    else:
        yield "devices", ", ".join(record["devices"])


def _describe_kernel_count(kernels: Any) -> str:
    """Return the number of kernels: those of the loaded backend if it was loaded, otherwise those in the manifest."""
    if not isinstance(kernels, dict):
        return f"{len(kernels)} in the manifest" if kernels else "none in the manifest"
    places = cast("dict[str, str]", kernels).values()
    on_host = sum(place == "host" for place in places)
    return str(len(places)) + (f", of which {on_host} run in NumPy on the host" if on_host else "")
