"""The findings of the doctor: what is wrong with a plugin, and the remedy."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from plugrad.cli.environment import find_homepage
from plugrad.cli.records import UNUSABLE_STATUSES, describe_active_backend
from plugrad.discovery.listing import join_names, plugins
from plugrad.errors import suggest_similar_name
from plugrad.settings.layers import config

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from plugrad.cli.jobs import Outcome
    from plugrad.discovery.plugin import Plugin


PLUGRAD_TRACEBACK_LINE_PATTERN: Final = (
    rf'  File "(<|{re.escape(str(Path(__file__).parents[1]))}|[^"]*\bimportlib\b)'
)
"""Lines of a traceback that do not concern the plugin: those of plugrad and of Python's import."""


class Finding(NamedTuple):
    """One result of the doctor."""

    level: Literal["problem", "note"]
    """A problem makes the exit status 1; a note does not."""
    subject: str
    """What the finding is about; `subject` and `text` form one sentence."""
    text: str
    """What is wrong, as the predicate of the sentence."""
    remedy: str = ""
    """What to do about it, or an empty string."""
    details: str = ""
    """A traceback or the output of a process, or an empty string."""

    @property
    def headline(self) -> str:
        """The text without the plugin's own message."""
        return self.text.partition(": ")[0]


def find_problem_without_running(plugin: Plugin) -> Finding | None:
    """Return the problem of a plugin that its files show, or None if it can be imported and tried."""
    if plugin.status == "blocked":
        return Finding("note", str(plugin), f"is disabled: {plugin.reason}")
    if plugin.status == "incompatible":
        text, _, remedy = plugin.reason.partition("; run: ")
        return Finding("problem", str(plugin), f"cannot be used: {text}", remedy)
    if plugin.status == "failed":
        text = f"cannot be used: {plugin.reason}"
        return Finding(
            "problem",
            str(plugin),
            text,
            repair_remedy(plugin),
            relevant_traceback_lines(plugin.details),
        )
    return None


def make_conflict_finding(plugin: Plugin) -> Finding:
    """Return the finding that another distribution brings a plugin of the same name."""
    text, _, remedy = plugin.reason.partition("; ")
    return Finding("problem", str(plugin), f"shares its name: {text}", remedy)


def find_problems_in_outcome(plugin: Plugin, outcome: Outcome) -> Iterator[Finding]:
    """Yield what is wrong with a plugin according to the outcome of running it."""
    name = str(plugin)
    if outcome.problem:
        remedy = _remedy_for_problem(plugin, outcome.problem)
        yield Finding(
            "problem", name, outcome.problem, remedy, relevant_traceback_lines(outcome.details)
        )
        return
    found = outcome.report
    if found.get("can_start") is False:
        remedy = "nothing to do if this machine cannot run it; other backends work without it"
        yield Finding("note", name, f"cannot start here: {found['refusal']}", remedy)
    for pack in found.get("packs", ()):
        if pack["status"] in UNUSABLE_STATUSES:
            text = f"is left out: {pack['reason']}"
            remedy = repair_remedy(next(p for p in plugins("kernels") if str(p) == pack["name"]))
            yield Finding(
                "problem", pack["name"], text, remedy, relevant_traceback_lines(pack["details"])
            )
        yield from _find_replacements(
            next(p for p in plugins("kernels") if str(p) == pack["name"]), pack
        )
    yield from _find_replacements(plugin, found)
    wrong = [c for c in found.get("checks", ()) if c["result"] in ("differs", "fails")]
    blamed = found.get("blamed", {})
    for owner in dict.fromkeys(blamed.get(c["check"], plugin.qualified_name) for c in wrong):
        culprit = next(p for p in (plugin, *plugins()) if p.qualified_name == owner)
        mine = [c for c in wrong if blamed.get(c["check"], plugin.qualified_name) == owner]
        lines = "; ".join(f"{c['check']} {c['result']}: {c['why']}" for c in mine)
        where = "" if culprit is plugin else f" on {name}"
        yield Finding(
            "problem",
            str(culprit),
            f"computes wrong results{where}: {lines}",
            f"do not rely on its results on this machine. {repair_remedy(culprit)}",
        )
    devices = found.get("devices", ())
    if devices and all(device["is_software"] for device in devices):
        text = "has only software devices, so it is never chosen automatically"
        yield Finding("note", name, text, "select it by name, or install a driver for your GPU")


def find_missing_active_backend(outcome: Outcome) -> Iterator[Finding]:
    """Yield that no backend is active, so that programs cannot create a tensor without naming one."""
    error = describe_active_backend(outcome).get("error")
    if error and outcome.has_started:
        decided_by = outcome.report.get("decided_by")
        remedy = f"correct the backend in {decided_by}, or remove it" if decided_by else ""
        details = relevant_traceback_lines(outcome.details)
        yield Finding("problem", "plugrad", f"has no active backend: {error}", remedy, details)


def _find_replacements(plugin: Plugin, report: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield a finding if a plugin's report says that it replaces others' registrations; a note if it declares them."""
    replaced = report.get("replaced")
    if not replaced:
        return
    said = {
        *plugin.manifest.replaces,
        *(plugin.manifest.kernels if plugin.kind == "kernels" else ()),
    }
    is_said = all(text.split()[1] in said for text in replaced)
    has_kernels = any(text.startswith("kernel ") for text in replaced)
    choose = f"choose it with PLUGRAD_PACKS={plugin.short_name}, or " if has_kernels else ""
    yield Finding(
        "note" if is_said else "problem",
        str(plugin),
        f"replaces what others have registered: {join_names(replaced)}",
        f"{choose}switch it off with PLUGRAD_PLUGINS_DISABLE={plugin.distribution} if you do not want this"
        + ("" if is_said else "; its authors can say so with `replaces` in its manifest"),
    )


def find_unknown_packs() -> Iterator[Finding]:
    """Yield the names in the setting ``packs`` that no installed plugin has."""
    setting = config.explain("packs")
    known = [p for p in plugins() if p.kind in ("kernels", "hooks")]
    for name in setting.value:
        if not any(plugin.is_chosen_by(name) for plugin in known):
            names = [spelling for p in known for spelling in (p.short_name, p.qualified_name)]
            yield Finding(
                "note",
                "the setting packs",
                f"names {name!r}, which no installed plugin has{suggest_similar_name(name, names)}",
                f"correct it in {setting.layer}, or install the pack",
            )


def repair_remedy(plugin: Plugin) -> str:
    """Return how to repair or remove a broken plugin."""
    distribution = plugin.distribution
    if not plugin.version:
        return f"correct {plugin.target}; no installed distribution brings it."
    url = plugin.manifest.url or find_homepage(distribution)
    contact = f" Its authors can be reached at {url}." if url else ""
    return (
        f"upgrade it with `pip install --upgrade {distribution}`, or remove it with "
        f"`pip uninstall {distribution}`.{contact}"
    )


def _remedy_for_problem(plugin: Plugin, problem: str) -> str:
    """Return how to repair a plugin with a problem, the text of which names the exception."""
    missing = re.search(r"ModuleNotFoundError: No module named '([\w.]+)'", problem)
    own = plugin.target.partition(":")[0].partition(".")[0]
    if missing and missing[1].partition(".")[0] != own:
        return (
            f"install what it needs with `pip install --upgrade {plugin.distribution}`; if that does "
            f"not install {missing[1]!r}, the distribution does not declare that it needs it"
        )
    switch_off = f"PLUGRAD_PLUGINS_DISABLE={plugin.distribution} keeps it from being loaded."
    if not plugin.version:
        return repair_remedy(plugin)
    if problem.startswith("hangs"):
        slow = "if it is only slow, allow more time with --timeout. Otherwise "
        return f"{slow}{repair_remedy(plugin)} {switch_off}"
    return f"{repair_remedy(plugin)} {switch_off}"


def relevant_traceback_lines(traceback: str, max_lines: int = 12) -> str:
    """Return at most `max_lines` lines of a traceback that concern the plugin, or ``""`` if there are none."""
    is_crash = "most recent call first" in traceback  # as faulthandler writes it
    parts = re.split(r"^(?=  File )", traceback.rstrip(), flags=re.MULTILINE)
    if len(parts) == 1:
        return "\n".join(parts[0].splitlines()[-max_lines:])
    frames = [part for part in parts[1:] if not re.match(PLUGRAD_TRACEBACK_LINE_PATTERN, part)]
    # The lines after the last frame of an exception show what was raised; they are not indented.
    end = "" if is_crash else "\n".join(re.findall(r"^(?! ).+", parts[-1], re.MULTILINE))
    if not frames:
        return ""
    kept = [line for part in frames for line in part.splitlines() if line.startswith("  ")]
    kept = kept[:max_lines] if is_crash else kept[-max_lines:]
    return "\n".join([*kept, *([end] if end else [])])
