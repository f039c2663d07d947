"""``plugrad doctor``: check every plugin in a separate process, and suggest a remedy for each problem."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from plugrad.cli import findings, jobs, layout
from plugrad.cli.environment import describe_environment
from plugrad.cli.findings import Finding
from plugrad.cli.jobs import Job, Outcome
from plugrad.cli.records import describe_active_backend, describe_plugin, select_plugins
from plugrad.discovery.listing import backends
from plugrad.discovery.order import PackOrder
from plugrad.errors import ConfigError

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterator

    from plugrad.discovery.plugin import Plugin

LEVEL_HEADINGS: Final = (("problem", "Problems", layout.RED), ("note", "Notes", layout.YELLOW))
"""The levels of findings, the headings above them, and the colours of these."""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``plugrad doctor`` to its parser."""
    parser.add_argument("names", metavar="NAME", nargs="*", help="check only these plugins")
    parser.add_argument("--json", action="store_true", help="print JSON")
    jobs.add_timeout_argument(parser)


def run(arguments: Namespace) -> int:
    """Check the installation, print a report, and return 1 if there is a problem."""
    try:
        report = _examine_plugins(arguments.names, arguments.timeout)
    except ConfigError as error:
        report = _report_unreadable_settings(error)
    problems = sum(finding["level"] == "problem" for finding in report["findings"])
    if arguments.json:
        layout.print_json(report)
    else:
        _print_report(report, problems)
    return int(problems > 0)


def _report_unreadable_settings(error: ConfigError) -> dict[str, Any]:
    """Return the report for settings with which no program can use plugrad."""
    finding = Finding(
        "problem",
        "settings",
        f"cannot be read: {error}",
        "correct them first; nothing else can be checked before that",
    )
    return {
        "environment": {},
        "active": {},
        "plugins": [],
        "sections": [],
        "findings": [finding._asdict()],
    }


def _examine_plugins(plugin_names: list[str], timeout_seconds: float) -> dict[str, Any]:
    """Return the report on plugins, all of them by default, after trying each in a separate process."""
    candidates = select_plugins(plugin_names)
    packed = {p.backend_name for p in candidates if p.kind == "kernels"}
    candidates += [b for b in backends() if b.name in packed and b not in candidates]
    refused = {
        id(p): found for p in candidates if (found := findings.find_problem_without_running(p))
    }
    tried = [p for p in candidates if id(p) not in refused and p.kind != "kernels"]
    wanted = [_make_job(plugin) for plugin in tried]
    if not plugin_names:
        wanted.append(Job("report_active_backend", {}))
    outcomes = jobs.run_jobs(wanted, timeout_seconds)
    by_plugin = {id(p): outcome for p, outcome in zip(tried, outcomes, strict=False)}
    found = list(_find_core_problem(outcomes))
    found += [
        finding
        for plugin in candidates
        for finding in _find_plugin_problems(
            plugin, refused.get(id(plugin)), by_plugin.get(id(plugin))
        )
    ]
    if plugin_names:  # a plugin that is asked for by name is expected to run
        found = [f._replace(level="problem") if "cannot start here" in f.text else f for f in found]
    else:
        found += [
            *findings.find_missing_active_backend(outcomes[-1]),
            *_find_shadowed_distributions(),
            *findings.find_unknown_packs(),
        ]
    return {
        "environment": describe_environment(),
        "active": {} if plugin_names else describe_active_backend(outcomes[-1]),
        "plugins": [
            _summarize_plugin(p, refused.get(id(p)), by_plugin.get(id(p)), found)
            for p in candidates
        ],
        "sections": [
            {"title": title, "text": text, "from": p.qualified_name}
            for p, outcome in zip(tried, outcomes, strict=False)
            for title, text in outcome.report.get("sections", ())
        ],
        "findings": [finding._asdict() for finding in found],
    }


def _find_core_problem(outcomes: list[Outcome]) -> Iterator[Finding]:
    """Yield one finding if plugrad itself cannot be imported."""
    for outcome in outcomes:
        if not outcome.has_started:
            remedy = "reinstall it with `pip install --force-reinstall plugrad-core numpy`"
            details = findings.relevant_traceback_lines(outcome.details)
            yield Finding("problem", "plugrad", f"itself {outcome.problem}", remedy, details)
            return


def _make_job(plugin: Plugin) -> Job:
    """Return the job that tries a plugin."""
    if plugin.kind == "backend":
        return Job("try_backend", {"plugin_name": plugin.qualified_name, "last_step": "compute"})
    return Job(
        {"ops": "import_op_pack", "hooks": "load_doctor_section"}[plugin.kind],
        {"plugin_name": plugin.qualified_name},
    )


def _find_plugin_problems(
    plugin: Plugin, problem_before_running: Finding | None, outcome: Outcome | None
) -> Iterator[Finding]:
    """Yield what is wrong with a plugin according to its status, its files and the outcome of running it."""
    if plugin.status == "conflict":
        yield findings.make_conflict_finding(plugin)
    if problem_before_running is not None:
        yield problem_before_running
    if outcome is not None and outcome.has_started:
        yield from findings.find_problems_in_outcome(plugin, outcome)


def _find_shadowed_distributions() -> Iterator[Finding]:
    """Yield a finding for each distribution that another copy hides."""
    from plugrad.discovery.listing import shadowed_distributions

    for name, version, path in shadowed_distributions():
        yield Finding(
            "problem",
            name,
            f"is installed twice; a copy of version {version} in {path} is hidden by another one",
            f"run `pip uninstall {name}` until it finds nothing, remove what is left in {path}, and "
            "reinstall it",
        )


def _summarize_plugin(
    plugin: Plugin,
    problem_before_running: Finding | None,
    outcome: Outcome | None,
    findings: list[Finding],
) -> dict[str, Any]:
    """Return the record of one plugin: its health in a word, the result in a line, and all that was found."""
    own = [f for f in findings if f.subject == str(plugin)]
    record = describe_plugin(plugin)
    record["health"] = (
        "FAILS" if any(f.level == "problem" for f in own) else "note" if own else "ok"
    )
    if problem_before_running is not None:
        return record | {"line": problem_before_running.headline}
    if outcome is None:  # a kernel pack, which is loaded with its backend
        place = f", {PackOrder(**record['place'])}" if record["place"] else ""
        return record | {"line": own[0].headline if own else f"loaded with its backend{place}"}
    if not outcome.has_started:
        return record | {
            "health": "FAILS",
            "line": "cannot be tested: plugrad itself does not start",
        }
    learnt = {
        k: v
        for k, v in outcome.report.items()
        if k not in ("packs", "sections", "replaced", "kernels_of_packs", "blamed")
    }
    fails = own and own[0].level == "problem"
    return record | {
        "line": own[0].headline if fails else _describe_capabilities(outcome),
        "details": outcome.details or plugin.details,
        "seconds": round(outcome.seconds, 2),
        **learnt,
    }


def _describe_capabilities(outcome: Outcome) -> str:
    """Return what a plugin can do, in one line."""
    found = outcome.report
    if found.get("can_start") is False:
        return f"cannot start here: {found['refusal']}"
    if "device" not in found:
        return "loads"
    checks = [check for check in found["checks"] if check["result"] != "lacks"]
    agreeing = sum(check["result"] == "agrees" for check in checks)
    result = f"{agreeing} of {len(checks)}" if agreeing < len(checks) else str(agreeing)
    return f"{layout.format_count(len(found['kernels']), 'kernel')}, {result} checks agree"


def _print_report(report: dict[str, Any], problems: int) -> None:
    """Print the environment, the plugins and the findings."""
    if report["environment"]:
        layout.print_heading("Environment")
        layout.print_pairs(_list_environment(report["environment"], report["active"]))
        layout.print_heading("Plugins")
        layout.print_table(
            ("HEALTH", "NAME", "FROM", "TIME", "RESULT"),
            [
                (
                    p["health"],
                    p["name"],
                    f"{p['distribution']} {p['version']}".rstrip(),
                    f"{p['seconds']:.1f} s" if "seconds" in p else "",
                    p["line"],
                )
                for p in report["plugins"]
            ],
        )
    for section in report["sections"]:
        layout.print_heading(section["title"])
        layout.print_verbatim(section["text"], layout.INDENT)
    for level, heading, style in LEVEL_HEADINGS:
        chosen_ones = [f for f in report["findings"] if f["level"] == level]
        if chosen_ones:
            layout.print_heading(heading, style)
        for i, finding in enumerate(chosen_ones):
            if i:
                layout.print_line()
            layout.print_paragraph(
                f"{finding['subject']} {finding['text']}", hanging_indent=layout.INDENT * 2
            )
            if finding["details"]:
                layout.print_verbatim(finding["details"], layout.INDENT * 3)
            if finding["remedy"]:
                layout.print_paragraph(
                    f"→ {finding['remedy']}", layout.INDENT * 2, layout.INDENT * 3
                )
    notes = len(report["findings"]) - problems
    layout.print_line()
    style = layout.RED if problems else layout.GREEN
    layout.print_line(
        f"{layout.format_count(problems, 'problem')}, {layout.format_count(notes, 'note')}.", style
    )


def _list_environment(
    environment: dict[str, Any], active_backend: dict[str, Any]
) -> Iterator[tuple[str, str]]:
    """Yield names and values of the environment, and of the active backend, as text."""
    yield "Python", f"{environment['python']}, {environment['executable']}"
    yield "Platform", environment["platform"]
    yield "plugrad", f"{environment['plugrad']}, plugin API {environment['plugin_api']}"
    yield "NumPy", environment["numpy"]
    yield "Settings", ", ".join(environment["config_files"]) or "no file"
    for name, value in environment["variables"].items():
        yield "", f"{name}={value}"
    if "error" in active_backend:
        yield "Active", "none; see below"
    elif active_backend:
        yield (
            "Active",
            f"{active_backend['device']} ({active_backend['description']}), chosen by {active_backend['layer']}",
        )
        for name, reason in active_backend.get("passed_over", {}).items():
            yield "", f"not {name}: {reason}"
