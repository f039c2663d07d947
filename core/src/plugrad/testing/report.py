"""The report of a conformance run: as JSON, as a badge, and as lines for the terminal."""

from __future__ import annotations

import json
import platform
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

CONFORMANCE_LEVELS: Final = (
    "lifecycle",
    "core",
    "gradients",
    "full",
    "edges",
    "reopening",
    "devices",
    "traced",
    "batched",
)
"""The levels that build on each other."""
FLOAT32_LEVEL: Final = "float32"
"""The level outside that order: whether a backend is complete for programs in float32."""
Outcome = Literal["passed", "failed", "skipped", "xfailed"]
"""The result of a test."""
OUTCOMES: Final[tuple[Outcome, ...]] = ("passed", "failed", "skipped", "xfailed")
"""The outcomes in the order of the report."""
REPORT_FORMAT_VERSION: Final = 1
"""The version of the report's JSON form."""
MAX_LISTED_FAILURES: Final = 20
"""How many failed tests the summary lists at most."""
MAX_LISTED_REASONS: Final = 8
"""How many reasons for skipped tests the summary lists at most."""


class BackendResults:
    """The results of one backend."""

    def __init__(self) -> None:
        """Begin without results."""
        self.versions: dict[str, str] = {}
        self.device = ""
        self.levels: dict[str, Counter[str]] = {}
        self.kernels: dict[str, Counter[str]] = {}
        self.failures: dict[str, str] = {}
        self.xfailures: dict[str, str] = {}
        self.skips: Counter[str] = Counter()

    def add(self, level: str, kernel: str, name: str, outcome: Outcome, reason: str) -> None:
        """Count the result of the test called `name`, which is of a level and of the kernel called `kernel`."""
        self.levels.setdefault(level, Counter())[outcome] += 1
        if kernel:
            self.kernels.setdefault(kernel, Counter())[outcome] += 1
        if outcome == "failed":
            self.failures[name] = reason
        elif outcome == "xfailed":
            self.xfailures[name] = reason
        elif outcome == "skipped":
            self.skips[reason] += 1

    def as_dict(self) -> dict[str, Any]:
        """Return the results in JSON form."""
        total = Counter[str]()
        for counts in self.levels.values():
            total += counts
        return {
            "device": self.device,
            "versions": self.versions,
            "total": _count_outcomes(total),
            "levels": {
                name: _count_outcomes(self.levels[name])
                for name in (*CONFORMANCE_LEVELS, FLOAT32_LEVEL)
                if name in self.levels
            },
            "kernels": {
                name: _count_outcomes(counts) for name, counts in sorted(self.kernels.items())
            },
            "failures": self.failures,
            "xfailures": self.xfailures,
            "skips": dict(self.skips.most_common()),
        }


def _count_outcomes(outcome_counts: Counter[str]) -> dict[str, int]:
    """Return the number of tests with each outcome, 0 included."""
    return {outcome: outcome_counts[outcome] for outcome in OUTCOMES}


class KitReport:
    """The results of all backends of one run."""

    def __init__(self, levels: Iterable[str] = CONFORMANCE_LEVELS) -> None:
        """Begin a report about some levels."""
        self.levels: tuple[str, ...] = tuple(levels)
        self.backends: dict[str, BackendResults] = {}

    def results_of_backend(self, backend: str) -> BackendResults:
        """Return the results of one backend."""
        return self.backends.setdefault(backend, BackendResults())

    def as_dict(self) -> dict[str, Any]:
        """Return the report in JSON form."""
        return {
            "format": REPORT_FORMAT_VERSION,
            "python": platform.python_version(),
            "platform": platform.platform(),
            "levels": list(self.levels),
            "backends": {name: found.as_dict() for name, found in self.backends.items()},
        }

    def as_json(self) -> str:
        """Return the report as JSON text."""
        return json.dumps(self.as_dict(), indent=2, ensure_ascii=False) + "\n"

    def lines(self) -> Iterable[str]:
        """Yield a summary of each backend's results, line by line."""
        for name, found in self.backends.items():
            if not found.levels:
                continue
            yield f"{name} on {found.device or 'an unknown device'}: {_count_passing_kernels(found.as_dict())}"
            for level in (*CONFORMANCE_LEVELS, FLOAT32_LEVEL):
                if counts := found.levels.get(level):
                    yield f"  {level:10}" + ", ".join(
                        f"{counts[outcome]:5} {outcome}" for outcome in OUTCOMES if counts[outcome]
                    )
            for reason, count in found.skips.most_common(MAX_LISTED_REASONS):
                yield f"  skipped: {reason} ({count})"
            if (more := len(found.skips) - MAX_LISTED_REASONS) > 0:
                yield f"  skipped for {more} more reasons"
            for failure in list(found.failures)[:MAX_LISTED_FAILURES]:
                yield f"  failed: {failure}"
            if (more := len(found.failures) - MAX_LISTED_FAILURES) > 0:
                yield f"  and {more} more"


def _count_passing_kernels(results: Mapping[str, Any]) -> str:
    """Return the number of kernels whose tests all pass, as a phrase."""
    counts: Iterable[Mapping[str, int]] = results["kernels"].values()
    passing = sum(1 for c in counts if c["passed"] and not c["failed"] and not c["xfailed"])
    return f"{passing} kernels pass"


def make_badge(report: Mapping[str, Any]) -> str:
    """Return an SVG badge that summarizes a report in one word.

    >>> from plugrad.testing.report import KitReport, make_badge
    >>> report = KitReport(["lifecycle"])
    >>> report.results_of_backend("acme").add("lifecycle", "", "probe", "passed", "")
    >>> "0 kernels pass" in make_badge(report.as_dict())
    True
    """
    found = list(report["backends"].values())
    failed = sum(backend["total"]["failed"] for backend in found)
    excused = sum(backend["total"]["xfailed"] for backend in found)
    if failed or not any(sum(backend["total"].values()) for backend in found):
        text, colour = (f"{failed} failed", "#b3261e") if failed else ("not run", "#6b6b6b")
    else:
        text = " · ".join(_count_passing_kernels(backend) for backend in found)
        colour = "#8a6100" if excused else "#1a7f37"
        text += f", {excused} excused" if excused else ""
    return _make_badge_svg(f"plugrad {', '.join(report['backends'])}".strip(), text, colour)


def _make_badge_svg(label: str, text: str, colour: str) -> str:
    """Return the SVG text of a badge: two boxes, one with the label, one coloured with the result."""
    left, right = (round(6.6 * len(part)) + 12 for part in (label, text))
    width = left + right
    label, text = (
        part.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
        for part in (label, text)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="20" role="img"\n'
        f'     aria-label="{label}: {text}">\n'
        f'  <rect width="{width}" height="20" rx="3" fill="#444"/>\n'
        f'  <path d="M{left} 0h{right - 3}a3 3 0 0 1 3 3v14a3 3 0 0 1-3 3H{left}z" fill="{colour}"/>\n'
        '  <g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">\n'
        f'    <text x="{left / 2}" y="14">{label}</text>\n'
        f'    <text x="{left + right / 2}" y="14">{text}</text>\n'
        "  </g>\n"
        "</svg>\n"
    )
