"""Compare compiled programs with torch, torch.compile, jax.jit and onnxruntime: ratios beside those that are aimed at.

    python benchmarks/compiled.py                       the whole table
    python benchmarks/compiled.py W1 GRU --rounds 20    some rows, measured for longer

One run, one thread: all peers take turns. Times are of the process, the least of several turns; a peer that is not
installed is left out. The exit status is the number of ratios above their limits.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import jitted  # noqa: E402 - the number of threads is read when NumPy is imported
import programs  # noqa: E402
from measuring import Side, take_turns  # noqa: E402

import plugrad  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from workloads import Peer

PEERS: Final = {
    "torch": "torch",
    "torch.compile": "torch.compile",
    "jax": "jax-jit",
    "onnxruntime": "onnxruntime",
}
"""By column of the table: the name of the peer that runs the workloads."""
MAX_RATIOS: Final[dict[str, dict[str, float]]] = {
    "D3": {"torch": 0.04, "jax": 0.40},
    "W1": {"torch": 0.75, "torch.compile": 0.75, "jax": 0.97},
    "W2": {"torch": 0.85, "torch.compile": 0.85, "jax": 0.22},
    "W3": {"torch": 0.78, "torch.compile": 0.78, "onnxruntime": 1.2},
    "W4": {"torch": 0.88, "torch.compile": 0.88, "jax": 0.70},
    "W5": {"torch": 0.20, "torch.compile": 0.32, "jax": 0.45},
    "GRU": {"torch": 0.35, "torch.compile": 0.9, "jax": 2.5},
    "LSTM": {"torch": 1.0, "jax": 0.6},
    "bodies": {"torch": 0.5, "torch.compile": 1.2, "jax": 0.85},
    "options": {"torch": 0.3, "torch.compile": 1.1, "jax": 0.75},
    "ode": {"torch": 0.02, "jax": 3},
    "monte carlo": {"torch": 0.2, "jax": 3},
    "hessian": {"torch": 0.4, "jax": 1.6},
    "layers": {"torch": 0.4, "jax": 1.05},
    "images": {"torch": 0.15, "jax": 2},
}
"""By table row and column: the maximum time of plugrad's compiled call, as a multiple of the peer's time."""


def installed_peers() -> dict[str, Peer]:
    """Return the installed peers, by the columns of the table."""
    found: dict[str, Peer] = {}
    for module in (
        "peer_jax",
        "peer_torch",
        "peer_onnxruntime",
    ):  # jax asks for the processors when it starts
        try:
            found |= {peer.name: peer for peer in import_module(module).peers()}
        except ImportError as missing:
            print(f"without {module[5:]}: {missing}")
    return {column: found[name] for column, name in PEERS.items() if name in found}


def make_sides(
    row_name: str, peers_by_column: Mapping[str, Peer]
) -> tuple[dict[str, Side], dict[str, int]]:
    """Return the measured functions of a table row, and how many ops a run of each makes."""
    if row_name in programs.PROGRAMS:
        work = jitted.WORKLOADS[row_name]()
        run = plugrad.jit(work.function)
        functions: dict[str, Callable[[], Any]] = {"plugrad": lambda: run(*work.args)}
        functions |= {
            c: jitted.PEERS[c](row_name) for c in peers_by_column if c in MAX_RATIOS[row_name]
        }
        return {c: Side(f) for c, f in functions.items()}, dict.fromkeys(functions, 1)
    steps = {"plugrad": import_module("peer_plugrad").JITTED_WORKLOADS[row_name]()}
    steps |= {
        c: peers_by_column[c].steps[row_name]()
        for c in MAX_RATIOS[row_name]
        if c in peers_by_column
    }
    return {c: Side(s.run) for c, s in steps.items()}, {c: s.calls for c, s in steps.items()}


def measure_compile_ms() -> float:
    """Return the milliseconds of compiling W1, without the trace and the first run."""
    work = jitted.WORKLOADS["W1"]()
    first = min(jitted.time_first_call(work) for _ in range(3)) * 1e3
    run = plugrad.jit(work.function)
    run(*work.args)
    both = take_turns(
        {
            "trace": Side(lambda: plugrad.jit(work.function).graph(*work.args)),
            "run": Side(lambda: run(*work.args)),
        },
        5,
        time.process_time,
    )
    return first - both["trace"].minimum - both["run"].minimum


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare compiled programs with peers.")
    parser.add_argument("names", nargs="*", default=list(MAX_RATIOS))
    parser.add_argument("--rounds", type=int, default=10)
    arguments = parser.parse_args()
    plugrad.use("cpu")
    columns = installed_peers()
    above = 0

    def format_cell(ratio: float, limit: float) -> str:
        nonlocal above
        above += ratio > limit
        return f"{f'{ratio:.3f} ({limit:g})':>17}{'!' if ratio > limit else ' '}"

    print(f"{'':12}{'ms':>9}{''.join(f'{column:>18}' for column in PEERS)}")
    for name in arguments.names:
        measured, calls = make_sides(name, columns)
        times = take_turns(measured, arguments.rounds, time.process_time)
        least = {side: times[side].minimum / calls[side] for side in times}
        ours, limits = least["plugrad"], MAX_RATIOS[name]
        cells = [
            format_cell(ours / least[column], limits[column]) if column in least else f"{'–':>17} "
            for column in PEERS
        ]
        print(f"{name:12}{ours:9.4f}{''.join(cells)}", flush=True)
        if name == "D3":
            print(f"{'  µs of a call':21}{format_cell(ours * 1e3, 2)}")
        if name == "W1":
            print(f"{'  ms to compile':21}{format_cell(measure_compile_ms(), 30)}", flush=True)
    print(f"{above} above their limits")
    sys.exit(above)


if __name__ == "__main__":
    main()
