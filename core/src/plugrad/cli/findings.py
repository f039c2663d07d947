"""What the doctor finds: what is wrong with a plugin, and what to do about it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from plugrad.cli.environment import homepage
from plugrad.cli.records import UNUSABLE
from plugrad.discovery.listing import plugins

if TYPE_CHECKING:
    from collections.abc import Iterator

    from plugrad.cli.jobs import Outcome
    from plugrad.discovery.plugin import Plugin


OURS: Final = rf'  File "(<|{re.escape(str(Path(__file__).parents[1]))}|[^"]*\bimportlib\b)'
"""Lines of a traceback that say nothing about a plugin: plugrad's own, and Python's import."""


class Finding(NamedTuple):
    """Something that the doctor says."""

    level: Literal["problem", "note"]
    """A problem makes the exit status 1; a note says how things are."""
    subject: str
    """What it is about, as the beginning of a sentence that `text` ends."""
    text: str
    remedy: str = ""
    details: str = ""

    @property
    def headline(self) -> str:
        """The text up to what the plugin says."""
        return self.text.partition(": ")[0]


def without_running(plugin: Plugin) -> Finding | None:
    """Return what is wrong with a plugin as its files are, or None: then it can be tried."""
    if plugin.status == "blocked":
        return Finding("note", str(plugin), f"is switched off: {plugin.reason}")
    if plugin.status == "incompatible":
        text, _, remedy = plugin.reason.partition("; run: ")
        return Finding("problem", str(plugin), f"cannot be used: {text}", remedy)
    if plugin.status == "failed":
        text = f"cannot be used: {plugin.reason}"
        return Finding("problem", str(plugin), text, repair(plugin), essence(plugin.details))
    return None


def conflict(plugin: Plugin) -> Finding:
    """Return that another distribution has the same name."""
    text, _, remedy = plugin.reason.partition("; ")
    return Finding("problem", str(plugin), f"shares its name: {text}", remedy)


def from_running(plugin: Plugin, outcome: Outcome) -> Iterator[Finding]:
    """Yield what went wrong when a plugin was tried."""
    name = str(plugin)
    if outcome.problem:
        remedy = _for_problem(plugin, outcome.problem)
        yield Finding("problem", name, outcome.problem, remedy, essence(outcome.details))
        return
    found = outcome.found
    if found.get("can_start") is False:
        remedy = "nothing, if this machine cannot run it; other backends work without it"
        yield Finding("note", name, f"cannot start here: {found['refusal']}", remedy)
    for pack in found.get("packs", ()):
        if pack["status"] in UNUSABLE:
            text = f"is left out: {pack['reason']}"
            remedy = repair(next(p for p in plugins("kernels") if str(p) == pack["name"]))
            yield Finding("problem", pack["name"], text, remedy, essence(pack["details"]))
    wrong = [c for c in found.get("checks", ()) if c["result"] in ("differs", "fails")]
    if wrong:
        lines = "; ".join(f"{c['check']} {c['result']}: {c['why']}" for c in wrong)
        yield Finding(
            "problem",
            name,
            f"computes wrongly: {lines}",
            f"do not trust its results here. {repair(plugin)}",
        )
    devices = found.get("devices", ())
    if devices and all(device["is_software"] for device in devices):
        text = "has only software devices, so it is never chosen automatically"
        yield Finding("note", name, text, "name it to use it, or install a driver for your GPU")


def repair(plugin: Plugin) -> str:
    """Say how to get rid of a plugin that is broken."""
    distribution = plugin.distribution
    if not plugin.version:
        return f"correct {plugin.target}: no distribution brings it."
    url = plugin.manifest.url or homepage(distribution)
    tell = f" Its authors are at {url}." if url else ""
    return (
        f"upgrade it with `pip install --upgrade {distribution}`, or remove it with "
        f"`pip uninstall {distribution}`.{tell}"
    )


def _for_problem(plugin: Plugin, problem: str) -> str:
    missing = re.search(r"ModuleNotFoundError: No module named '([\w.]+)'", problem)
    own = plugin.target.partition(":")[0].partition(".")[0]
    if missing and missing[1].partition(".")[0] != own:
        return (
            f"install what it needs with `pip install --upgrade {plugin.distribution}`; if that does "
            f"not bring {missing[1]!r}, its authors forgot to ask for it"
        )
    switch_off = f"PLUGRAD_PLUGINS_DISABLE={plugin.distribution} keeps it from being loaded."
    if not plugin.version:
        return repair(plugin)
    if problem.startswith("hangs"):
        slow = "if it is only slow, give it more time with --timeout. Otherwise "
        return f"{slow}{repair(plugin)} {switch_off}"
    return f"{repair(plugin)} {switch_off}"


def essence(details: str, lines: int = 12) -> str:
    """Return the lines of a traceback that are about the plugin, or nothing if there are none."""
    is_crash = "most recent call first" in details  # as faulthandler writes it
    parts = re.split(r"^(?=  File )", details.rstrip(), flags=re.MULTILINE)
    if len(parts) == 1:
        return "\n".join(parts[0].splitlines()[-lines:])
    frames = [part for part in parts[1:] if not re.match(OURS, part)]
    # After the last frame of an exception stands what was raised, without indentation.
    end = "" if is_crash else "\n".join(re.findall(r"^(?! ).+", parts[-1], re.MULTILINE))
    if not frames:
        return ""
    kept = [line for part in frames for line in part.splitlines() if line.startswith("  ")]
    kept = kept[:lines] if is_crash else kept[-lines:]
    return "\n".join([*kept, *([end] if end else [])])
