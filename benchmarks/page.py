"""The HTML page of a benchmark run: charts as inline SVG, and tables, in one file without dependencies."""

from __future__ import annotations

from html import escape
from math import log2
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

COLORS = ("#2f7d6b", "#c2661f", "#6b5bb5", "#b23a5b", "#3f77b3", "#7a7a33", "#8a5a44")
"""The colors of the peers, in order; each is legible on a light and on a dark ground."""
CHART_WIDTH, NAME_COLUMN_WIDTH, LINE_HEIGHT = 720, 175, 22
"""The sizes of a chart in its own units: it is scaled to the width of the page."""
LOG2_RATIO_BOUNDS = (-5, 3)
"""The binary logarithms of the smallest and the largest ratio that charts show."""

STYLE = """
:root { color-scheme: light dark; --ink: #1d1f21; --soft: #6a6f75; --line: #d9dcdf; --ground: #fff; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8e8e6; --soft: #9aa0a6; --line: #3a3f44; --ground: #17191b; }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--ground);
       max-width: 60rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.5rem; }
p, caption { color: var(--soft); text-align: left; } b { color: var(--ink); }
svg { width: 100%; height: auto; font: 13px system-ui, sans-serif; } svg text { fill: var(--ink); }
svg .soft { fill: var(--soft); } svg line { stroke: var(--line); } svg line.one { stroke: var(--soft); }
.legend span { white-space: nowrap; margin-right: 1rem; } .legend i { display: inline-block; width: .7rem;
  height: .7rem; border-radius: 50%; margin-right: .3rem; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .1rem .6rem; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; } .slow { font-weight: 700; }
@media (max-width: 500px) { svg { font-size: 19px; } body { padding: .6rem; } }
"""


def render_page(report: Mapping[str, Any]) -> str:
    """Return the HTML page of a report that `run.py` writes as JSON."""
    reference = report["reference"]
    others = [name for name in report["peers"] if name != reference]
    colors = dict(zip(others, COLORS * len(others), strict=False))
    rows = report["rows"]
    works = [row for row in rows if row["kind"] == "workload"]
    kernels = [row for row in rows if row["kind"] == "kernel"]
    versions = ", ".join(f"{name} {version}" for name, version in report["peers"].items())
    load = "unknown" if report["load"] is None else f"{report['load']:.1f}"
    families: dict[str, list[Any]] = {}
    for row in kernels:
        families.setdefault(row["family"], []).append(row)
    parts = [
        "<!doctype html><html lang='en'><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        f"<title>Benchmarks of plugrad</title><style>{STYLE}</style>",
        "<h1>Benchmarks of plugrad</h1>",
        f"<p>{escape(report['date'])}, {escape(report['machine'])}, one thread, load {load} at the start. "
        f"{escape(versions)}. Each dot is the least time of one call, divided by that of "
        f"<b>{escape(reference)}</b> in the same run: left of 1 is faster.</p>",
        _render_legend(colors),
    ]
    if works:
        parts += [
            "<h2>Workloads</h2>",
            _render_chart([(row["name"], [row]) for row in works], colors),
        ]
    if kernels:
        parts += [
            "<h2>Kernels</h2>",
            *(
                _render_summary(name, found, reference)
                for name, found in report["summaries"].items()
            ),
            _render_chart(families.items(), colors),
        ]
    for title, found in (("Workloads", works), *((f"Family {n}", f) for n, f in families.items())):
        if found:
            parts.append(_render_table(title, found, list(report["peers"])))
    return "\n".join(parts) + "\n"


def _render_legend(colors: Mapping[str, str]) -> str:
    """Return the HTML of a legend with the color of each peer."""
    marks = (
        f"<span><i style='background:{color}'></i>{escape(name)}</span>"
        for name, color in colors.items()
    )
    return f"<p class='legend'>{''.join(marks)}</p>"


def _render_summary(peer_name: str, summary: Mapping[str, Any], reference_name: str) -> str:
    """Return the HTML of a peer's summary: its number of kernels, and their ratios to the reference."""
    return (
        f"<p><b>{escape(peer_name)}</b>: {summary['cases']} kernels, geometric mean <b>{summary['mean']:.2f}</b> × "
        f"{escape(reference_name)}, {summary['above 2']} above 2, {summary['above 4']} above 4</p>"
    )


def _get_x(ratio: float) -> float:
    """Return the horizontal position of a ratio in a chart."""
    low, high = LOG2_RATIO_BOUNDS
    share = (min(max(log2(ratio), low), high) - low) / (high - low)
    return NAME_COLUMN_WIDTH + share * (CHART_WIDTH - NAME_COLUMN_WIDTH - 12)


def _render_chart(lines: Iterable[tuple[str, list[Any]]], colors: Mapping[str, str]) -> str:
    """Return an SVG of dots on a logarithmic axis; each line has a name and the rows whose ratios it shows."""
    lines = list(lines)
    height = LINE_HEIGHT * (len(lines) + 1)
    drawn: list[str] = []
    for power in range(LOG2_RATIO_BOUNDS[0], LOG2_RATIO_BOUNDS[1] + 1):
        x = _get_x(2.0**power)
        label = f"{2**power}" if power >= 0 else f"1/{2**-power}"
        kind = " class='one'" if power == 0 else ""
        drawn.append(f"<line x1='{x:.1f}' x2='{x:.1f}' y1='0' y2='{height - LINE_HEIGHT}'{kind}/>")
        drawn.append(
            f"<text class='soft' x='{x:.1f}' y='{height - 5}' text-anchor='middle'>{label}</text>"
        )
    for i, (name, rows) in enumerate(lines):
        y = LINE_HEIGHT * (i + 0.5)
        drawn.append(f"<text x='0' y='{y + 4}'>{escape(name)}</text>")
        many = len(rows) > 1
        for row in rows:
            for j, peer in enumerate(colors):
                if (ratio := row["ratios"].get(peer)) is None:
                    continue
                title = escape(f"{row['name']}, {peer}: {ratio:.2f}")
                drawn.append(
                    f"<circle cx='{_get_x(ratio):.1f}' cy='{y + (j % 5 - 2) * many * 2}' "
                    f"r='{3 if many else 5}' fill='{colors[peer]}' "
                    f"fill-opacity='{0.55 if many else 0.9}'><title>{title}</title></circle>"
                )
    return f"<svg viewBox='0 0 {CHART_WIDTH} {height}' role='img'>{''.join(drawn)}</svg>"


def _render_table(title: str, rows: list[Any], peers: list[str]) -> str:
    """Return the HTML of a table of rows, with a column for each peer."""
    present = [peer for peer in peers if any(peer in row["ms"] for row in rows)]
    head = "".join(f"<th>{escape(peer)}</th>" for peer in present)
    body: list[str] = []
    for row in rows:
        cells = [f"<td title='{escape(row.get('title', ''))}'>{escape(row['name'])}</td>"]
        for peer in present:
            if peer not in row["ms"]:
                cells.append("<td>–</td>")
                continue
            ratio = row["ratios"].get(peer)
            times = "" if ratio is None else f" ({ratio:.2f})"
            slow = " class='slow'" if ratio is not None and ratio > 2 else ""
            cells.append(f"<td{slow}>{row['ms'][peer]['least']:.4f}{times}</td>")
        body.append(f"<tr>{''.join(cells)}</tr>")
    return (
        f"<h2>{escape(title)}</h2><div class='scroll'><table><caption>milliseconds (ratio)</caption>"
        f"<tr><th></th>{head}</tr>{''.join(body)}</table></div>"
    )
