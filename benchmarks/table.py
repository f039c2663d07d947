"""Write README's table of compiled steps from what `run.py` has measured.

python benchmarks/table.py outputs/bench.json    one file or several, such as one for each workload
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

README = Path(__file__).parent.parent / "README.md"
TABLE_BEGIN_MARKER, TABLE_END_MARKER = "<!-- compiled -->", "<!-- end of compiled -->"
COLUMNS = {
    "cpu": "plugrad",
    "cpu-jit": "with `plugrad.jit`",
    "torch": "PyTorch",
    "torch.compile": "`torch.compile`",
    "jax-jit": "`jax.jit`",
    "onnxruntime": "onnxruntime",
}
"""By peer: the title of its column."""
PLUGRAD_COLUMNS = ("cpu", "cpu-jit")


def make_table(reports: list[dict[str, Any]]) -> str:
    """Return the table: the milliseconds of a call, and in brackets the milliseconds of the first call."""
    rows = [row for report in reports for row in report["rows"] if row["kind"] == "workload"]
    versions = {name: version for report in reports for name, version in report["peers"].items()}
    present = [name for name in COLUMNS if any(name in row["ms"] for row in rows)]
    lines = [
        f"| milliseconds of a call (of the first one) | {' | '.join(COLUMNS[n] for n in present)} |",
        "|---" * (1 + len(present)) + "|",
    ]
    for row in sorted(rows, key=lambda row: row["name"]):
        cells = [
            f"{_format_number(row['ms'][n]['least'])} ({_format_number(row['first_ms'][n])})"
            if n in row["ms"]
            else "–"
            for n in present
        ]
        lines.append(f"| {row['title']} | {' | '.join(cells)} |")
    others = ", ".join(
        f"{COLUMNS[name].strip('`')} {versions[name]}" for name in present if name.count("cpu") == 0
    )
    newest = max(reports, key=lambda report: report["date"])
    day = newest["date"].partition(" ")[0]
    clock = "processor time" if newest.get("is_busy") else "wall-clock time"
    lines += [
        "",
        f"One thread of {newest['machine']}, {clock}, {day}; {others}. `make bench` measures, and "
        "`benchmarks/table.py` writes the table.",
    ]
    lines += ["", _describe_faster_rows(rows, present)]
    return "\n".join(lines)


def _describe_faster_rows(rows: list[dict[str, Any]], peer_names: list[str]) -> str:
    """Return a sentence on the rows in which other libraries take less time than plugrad, traced if possible."""
    found: list[str] = []
    for row in sorted(rows, key=lambda row: row["name"]):
        ours = min(row["ms"][n]["least"] for n in PLUGRAD_COLUMNS if n in row["ms"])
        faster = [
            f"{COLUMNS[n].strip('`')} ({row['ms'][n]['least'] / ours:.2f} of plugrad's time)"
            for n in peer_names
            if n not in PLUGRAD_COLUMNS and n in row["ms"] and row["ms"][n]["least"] < ours
        ]
        if faster:
            found.append(f"{row['title']}: {', '.join(faster)}")
    if not found:
        return "In no row is another library faster than plugrad with `plugrad.jit`."
    return f"Others are faster than plugrad with `plugrad.jit` at {'; '.join(found)}."


def _format_number(number: float) -> str:
    """Return a number with two significant digits, or as an integer."""
    return f"{number:,.0f}" if number >= 10 else f"{number:.2g}"


def main() -> None:
    reports = [json.loads(Path(name).read_text("utf-8")) for name in sys.argv[1:]]
    if not reports:
        sys.exit((__doc__ or "").strip())
    head, _, rest = README.read_text("utf-8").partition(TABLE_BEGIN_MARKER)
    _, _, tail = rest.partition(TABLE_END_MARKER)
    README.write_text(
        f"{head}{TABLE_BEGIN_MARKER}\n\n{make_table(reports)}\n\n{TABLE_END_MARKER}{tail}", "utf-8"
    )


if __name__ == "__main__":
    main()
