"""Compare plugrad's backends with other frameworks: workloads, and a scan of kernels.

    python benchmarks/run.py                        everything that is installed, against PyTorch
    python benchmarks/run.py W conv --peers cpu     workloads and kernels that have one of the words in their names
    python benchmarks/run.py --peers wasm --reference cpu --busy
    python benchmarks/run.py few some uint8         functions of 8 and of 1000 elements, and those of a dtype

One run, one thread: all peers take turns; one that changes the kernels with which others' programs are compiled takes
them with the reference alone. The ratio of the least times counts; absolute times on a shared machine do not. The
values that the peers compute are compared first. A table is printed; `bench.json` and the page `bench.html` are
written into the folder `outputs`.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"
os.environ["PLUGRAD_WASM_THREADS"] = "1"

import argparse  # noqa: E402 - the number of threads is read when NumPy is imported
import importlib  # noqa: E402
import json  # noqa: E402
import platform  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import TYPE_CHECKING, Any  # noqa: E402

import cases  # noqa: E402
import kernels_of_arrays  # noqa: E402
import kernels_of_dtypes  # noqa: E402
import kernels_of_few  # noqa: E402
import kernels_of_networks  # noqa: E402
import measuring  # noqa: E402
import numpy as np  # noqa: E402
import page  # noqa: E402
import workloads  # noqa: E402

import plugrad  # noqa: E402
from plugrad.errors import UnsupportedDtype  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from cases import Case
    from workloads import Peer

MODULES = ("plugrad", "torch", "jax", "onnxruntime", "numpy")
KERNELS = (
    kernels_of_arrays.FAMILIES
    | kernels_of_networks.FAMILIES
    | kernels_of_dtypes.FAMILIES
    | kernels_of_few.FAMILIES
)
TOLERANCE = 1e-3
"""The maximum relative difference of the values that peers compute."""


def installed_peers(peer_names: list[str]) -> list[Peer]:
    """Return the installed peers: all, or those with the given names."""
    found: list[Peer] = []
    for name in MODULES:
        if peer_names and name != "plugrad" and not any(n.startswith(name) for n in peer_names):
            continue  # importing it may take seconds
        try:
            found += importlib.import_module(f"peer_{name}").peers()
        except ImportError as missing:
            print(f"without {name}: {missing}")
    known = {peer.name for peer in found}
    if unknown := [name for name in peer_names if name not in known]:
        sys.exit(f"{', '.join(unknown)}: not available; there are {', '.join(sorted(known))}")
    return [peer for peer in found if not peer_names or peer.name in peer_names]


class Comparison:
    """The peers that are compared, for how long, and the results so far."""

    def __init__(self, peers: list[Peer], reference: str, *how: Any):
        """Start without results; `how` are the other arguments of `take_turns`."""
        self.peers = {peer.name: peer for peer in peers}
        self.reference = reference
        self.how = how
        self.rows: list[dict[str, Any]] = []
        self.wrong: list[str] = []
        """What computed other values than the reference."""
        self.left_out: dict[str, list[str]] = {}
        """The kernels that take a dtype which a peer does not have, by peer."""

    def measure_workload(self, workload_name: str) -> None:
        """Compare the values of a workload, and measure it in all peers that have it."""
        steps: dict[str, workloads.Workload] = {}
        checks: dict[str, list[float]] = {}
        first_ms: dict[str, float] = {}
        for peer in self.peers.values():
            if workload_name in peer.steps:
                with peer.make_context():
                    steps[peer.name] = peer.steps[workload_name]()
                    begin = time.perf_counter()
                    steps[peer.name].run()
                    peer.finish()
                    first_ms[peer.name] = (time.perf_counter() - begin) * 1e3
                    checks[peer.name] = steps[peer.name].check()
        expected = checks.get(self.reference) or next(iter(checks.values()), [])
        for peer, values in checks.items():
            if not np.allclose(values, expected, rtol=TOLERANCE):
                self.wrong.append(f"{workload_name} in {peer}: {values} instead of {expected}")
        calls = {peer: step.calls for peer, step in steps.items()}
        self._measure_row(
            {peer: step.run for peer, step in steps.items()},
            calls,
            kind="workload",
            name=workload_name,
            title=workloads.WORKLOAD_TITLES[workload_name],
            values=checks,
            first_ms=first_ms,
        )

    def measure_kernel(self, case: Case) -> None:
        """Compare the results of a kernel, and measure it on plugrad's backends and in PyTorch."""
        functions: dict[str, Callable[[], Any]] = {}
        results: dict[str, list[Any]] = {}
        for peer in self.peers.values():
            with peer.make_context():
                if not peer.has_kernels:
                    continue
                prepared = prepare_torch_call if peer.name == "torch" else prepare_plugrad_call
                try:
                    function, arrays = prepared(case)
                    functions[peer.name], results[peer.name] = function, arrays(function())
                except UnsupportedDtype:
                    self.left_out.setdefault(peer.name, []).append(case.name)
        if not functions:
            return
        first = results.get(self.reference) or next(iter(results.values()))
        for peer, arrays in results.items():
            try:
                for found, expected in zip(arrays, first, strict=True):
                    check_result(case, f"{case.name} in {peer}", found, expected)
            except AssertionError as wrong:
                self.wrong.append(f"{case.name} in {peer}")
                print(wrong)
        self._measure_row(functions, {}, kind="kernel", family=case.family, name=case.name)

    def _measure_row(
        self, functions: dict[str, Callable[[], Any]], calls: dict[str, int], **row_fields: Any
    ) -> None:
        """Measure functions in turn, and add a row with their times and ratios."""
        sides = {
            name: measuring.Side(function, self.peers[name].make_context, self.peers[name].finish)
            for name, function in functions.items()
        }
        is_apart = not self.peers[self.reference].changes_kernels
        apart = [name for name in sides if is_apart and self.peers[name].changes_kernels]
        turns = [[name for name in sides if name not in apart]]
        turns += [[name for name in sides if name in (self.reference, other)] for other in apart]
        per_call: dict[str, dict[str, float]] = {}
        ratios: dict[str, float] = {}
        for names in filter(None, turns):
            times = measuring.take_turns({name: sides[name] for name in names}, *self.how)
            found = {
                name: {
                    "least": t.minimum / calls.get(name, 1),
                    "median": t.median / calls.get(name, 1),
                }
                for name, t in times.items()
            }
            if reference := found.get(self.reference):
                ratios = {n: t["least"] / reference["least"] for n, t in found.items()} | ratios
            per_call = found | per_call
        self.rows.append({**row_fields, "ms": per_call, "ratios": ratios})
        self._print_row(self.rows[-1])

    def print_header(self, title: str) -> None:
        """Print the titles of the columns."""
        names = " ".join(f"{name[:17]:>17}" for name in self.peers)
        print(f"\n{title:36} {names}\n{'':36} milliseconds (times {self.reference})")

    def _print_row(self, row: dict[str, Any]) -> None:
        """Print the times and ratios of a row."""
        cells = [
            f"{t['least']:9.4f} {'(' + format(row['ratios'][name], '.2f') + ')' if row['ratios'] else '':>7}"
            if (t := row["ms"].get(name))
            else f"{'–':>17}"
            for name in self.peers
        ]
        print(f"{row['name'][:36]:36} {' '.join(cells)}", flush=True)
        if first := row.get("first_ms"):
            cells = [
                f"{first[name]:9.1f}        " if name in first else " " * 17 for name in self.peers
            ]
            print(f"{'first call':36} {' '.join(cells)}".rstrip(), flush=True)

    def summaries(self, families: Collection[str] | None = None) -> dict[str, dict[str, Any]]:
        """Return for each peer a summary of its ratios over the kernels of all, or of some, families."""
        found: dict[str, dict[str, Any]] = {}
        for name in self.peers:
            ratios = [
                r["ratios"][name]
                for r in self.rows
                if r["kind"] == "kernel" and name in r["ratios"] and name != self.reference
                if families is None or r["family"] in families
            ]
            if ratios:
                found[name] = {
                    "cases": len(ratios),
                    "mean": measuring.geometric_mean(ratios),
                    "above 2": sum(r > 2 for r in ratios),
                    "above 3": sum(r > 3 for r in ratios),
                    "above 4": sum(r > 4 for r in ratios),
                }
        return found


def prepare_plugrad_call(case: Case) -> tuple[Callable[[], Any], Callable[[Any], list[Any]]]:
    """Return a function that computes a case in plugrad, and one that returns its results as arrays."""
    tensors = [plugrad.asarray(x) for x in case.inputs]
    function = case.in_plugrad(*tensors) if case.is_prepared else lambda: case.in_plugrad(*tensors)
    if case.gradient_positions:
        dy = plugrad.asarray(make_output_gradient(case.in_plugrad(*tensors).numpy()))
        gradient = plugrad.grad(case.in_plugrad, case.gradient_positions)
        function = lambda: gradient(*tensors, dy=dy)  # noqa: E731

    def arrays(result: Any) -> list[Any]:
        several = result if isinstance(result, tuple) else (result,)
        return [as_numpy_array(x.numpy()) for x in several]

    return function, arrays


def as_numpy_array(array: Any) -> Any:
    """Return a NumPy array; a dtype that NumPy lacks becomes float32."""
    return array.astype("f4") if array.dtype.kind == "V" else array


def prepare_torch_call(case: Case) -> tuple[Callable[[], Any], Callable[[Any], list[Any]]]:
    """Return a function that computes a case in PyTorch, and one that returns its results as arrays."""
    torch, in_torch = cases.torch, case.in_torch
    assert in_torch is not None
    axes = [*case.axes, *[None] * len(case.inputs)]
    orders = [order or tuple(range(x.ndim)) for x, order in zip(case.inputs, axes, strict=False)]
    tensors: list[Any] = []
    for i, (x, order) in enumerate(zip(case.inputs, orders, strict=True)):
        tensor = torch.from_numpy(x.transpose(order).copy(order="K"))
        tensors.append(tensor.requires_grad_(i in case.gradient_positions))

    def results(result: Any) -> list[Any]:
        several = result if isinstance(result, tuple) else (result,)
        back = [orders[i] for i in case.gradient_positions] or [case.out] * len(several)
        found = [(x.float() if x.dtype is torch.bfloat16 else x).detach().numpy() for x in several]
        return [
            x if order is None else x.transpose(np.argsort(order))
            for x, order in zip(found, back, strict=True)
        ]

    if case.is_prepared:
        return in_torch(*tensors), results
    if not case.gradient_positions:
        return lambda: in_torch(*tensors), results
    y = in_torch(*tensors).detach().numpy()
    dy = make_output_gradient(y if case.out is None else y.transpose(np.argsort(case.out)))
    dy = torch.from_numpy(dy if case.out is None else dy.transpose(case.out))
    leaves = [tensors[i] for i in case.gradient_positions]
    return lambda: torch.autograd.grad(in_torch(*tensors), leaves, dy), results


def make_output_gradient(y: Any) -> Any:
    """Return random numbers of the shape of `y`, which serve as the gradient of the result."""
    return np.random.default_rng(1).uniform(-1, 1, y.shape).astype(y.dtype)


def check_result(case: Case, label: str, result: Any, expected: Any) -> None:
    """Raise if two results differ."""
    assert result.shape == expected.shape, f"{label}: {result.shape} instead of {expected.shape}"
    if case.is_random:
        return
    kind = expected.dtype.kind
    scale = float(np.abs(np.nan_to_num(expected)).max()) if kind in "fc" and expected.size else 0
    tolerance = 2e-2 if expected.dtype == "f2" or "float16" in case.name else 2e-3
    np.testing.assert_allclose(result, expected, tolerance, tolerance / 50 * scale, err_msg=label)


def get_processor_name() -> str:
    """Return the name of the processor, or an empty text where the system does not tell it."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def main() -> None:
    """Compare the workloads and kernels that the arguments name."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("words", nargs="*", help="only what has one of them in its name or family")
    parser.add_argument(
        "--peers", default="", help="names with commas between them, such as cpu,wasm"
    )
    parser.add_argument("--reference", default="torch", help="what the others are divided by")
    parser.add_argument("--rounds", type=int, default=15, help="turns of each peer")
    parser.add_argument(
        "--busy", action="store_true", help="count processor time: others use it, too"
    )
    parser.add_argument("--quick", action="store_true", help="one turn, and small kernels")
    parser.add_argument("--outputs", type=Path, default=Path("outputs"), help="where files go")
    options = parser.parse_intermixed_args()
    named = [name for name in options.peers.split(",") if name]
    peers = installed_peers([*named, options.reference] if named else [])
    clock = time.process_time if options.busy else time.perf_counter
    names = {peer.name for peer in peers}
    reference = options.reference if options.reference in names else peers[0].name
    how = (1, clock, 0) if options.quick else (options.rounds, clock)
    run = Comparison(peers, reference, *how)
    about = {
        "peers": {peer.name: peer.version for peer in peers},
        "reference": run.reference,
        "machine": f"{get_processor_name()}, Python {platform.python_version()}",
        "is_busy": options.busy,
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "date": time.strftime("%Y-%m-%d %H:%M"),
    }
    wanted = [word.lower() for word in options.words] or [""]
    run.print_header("workload")
    for name in workloads.WORKLOAD_TITLES:
        if any(word in name.lower() for word in wanted):
            run.measure_workload(name)
    run.print_header("kernel")
    for case in cases.Cases(KERNELS, quick=options.quick).found:
        if any(word in f"{case.family} {case.name}".lower() for word in wanted):
            run.measure_kernel(case)
    print()
    few = kernels_of_few.FAMILIES.keys()
    for title, families in (
        ("", None),
        (" of many elements", KERNELS.keys() - few),
        (" of few elements", few),
    ):
        for name, summary in run.summaries(families).items():
            print(
                f"{name}: {summary['cases']} kernels{title}, geometric mean {summary['mean']:.2f} x {run.reference}, "
                f"{summary['above 2']} above 2, {summary['above 3']} above 3, {summary['above 4']} above 4"
            )
    for name, left_out in run.left_out.items():
        print(f"{name} does not have the dtypes of {len(left_out)} kernels: {'; '.join(left_out)}")
    report = {
        **about,
        "summaries": run.summaries(),
        "rows": run.rows,
        "left_out": run.left_out,
    }
    options.outputs.mkdir(parents=True, exist_ok=True)
    (options.outputs / "bench.json").write_text(json.dumps(report, indent=1) + "\n", "utf-8")
    (options.outputs / "bench.html").write_text(page.render_page(report), "utf-8")
    print(f"written: {options.outputs / 'bench.json'}, {options.outputs / 'bench.html'}")
    if run.wrong:
        sys.exit(f"wrong values: {'; '.join(run.wrong)}")


if __name__ == "__main__":
    main()
