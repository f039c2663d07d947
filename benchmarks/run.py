"""Time plugrad against PyTorch, and long chains of adds against NumPy: `make bench`.

One thread; the peers take turns in one process, so that both meet the same machine. The ratio of
the medians counts: absolute times on a shared machine do not. Each workload's values are compared
first.
"""

from __future__ import annotations

import os

LIBRARIES = "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"
for variable in (*LIBRARIES, "PLUGRAD_WASM_THREADS"):
    os.environ[variable] = "1"

import statistics  # noqa: E402 - the number of threads is read when NumPy is imported
import sys  # noqa: E402
import time  # noqa: E402
from typing import TYPE_CHECKING, Any  # noqa: E402

import numpy as np  # noqa: E402

import plugrad  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

SECONDS = 3.0
"""How long each workload takes, both peers together."""
LIMITS = {"D1": 0.9, "D2": 1.05, "D3": 0.9, "W1": 2.0, "W2": 3.0}
"""What we promise, as a multiple of PyTorch's time."""
CHAIN_LIMITS = {"cpu": 4.0, "wasm": 6.0, "webgpu": 70.0}
"""What we promise for the chain of adds, as a multiple of NumPy's time."""
CHAIN, CHAIN_SIZE = 1000, 1024


def interleaved(
    ours: Callable[[], Any], theirs: Callable[[], Any], seconds: float = SECONDS
) -> tuple[float, float, int]:
    """Return the median milliseconds of two functions called in turn, and how often each was called."""
    for _ in range(3):
        ours(), theirs()
    times: tuple[list[float], list[float]] = [], []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[0]) < 5:
        for function, spent in zip((ours, theirs), times, strict=True):
            start = time.perf_counter()
            function()
            spent.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times[0]), statistics.median(times[1]), len(times[0])


def report(name: str, ours: float, theirs: float, limit: float, calls: int) -> bool:
    """Print one line, and return whether the limit holds."""
    ratio = ours / theirs
    verdict = "ok" if ratio <= limit else "MISSED"
    print(
        f"{name:14} {ours:10.3f} {theirs:10.3f} {ratio:8.2f} {limit:8.1f}   {verdict}  ({calls} calls each)",
        flush=True,
    )
    return ratio <= limit


def against_torch() -> list[bool]:
    """Run every workload in plugrad and in PyTorch."""
    import peer_plugrad
    import peer_torch

    print(
        f"plugrad {plugrad.__version__} on cpu against PyTorch {peer_torch.torch.__version__}, one thread"
    )
    print(f"{'workload':14} {'plugrad ms':>10} {'torch ms':>10} {'ratio':>8} {'limit':>8}")
    held: list[bool] = []
    with plugrad.use("cpu"):
        theirs = peer_torch.all_workloads()
        for name, (step, check) in peer_plugrad.all_workloads().items():
            their_step, their_check = theirs[name]
            if check is not None and their_check is not None:
                np.testing.assert_allclose(check(), their_check(), rtol=1e-3, err_msg=name)
            held.append(report(name, *_as_pair(interleaved(step, their_step), LIMITS[name])))
    return held


def _as_pair(times: tuple[float, float, int], limit: float) -> tuple[float, float, float, int]:
    ours, theirs, calls = times
    return ours, theirs, limit, calls


def chains() -> list[bool]:
    """Run a chain of adds, ending in a read-back, on every backend."""
    print(f"\nchain of {CHAIN} adds of {CHAIN_SIZE} elements and a read-back, against np.add")
    print(f"{'backend':14} {'plugrad ms':>10} {'numpy ms':>10} {'ratio':>8} {'limit':>8}")
    x, y = np.zeros(CHAIN_SIZE, np.float32), np.ones(CHAIN_SIZE, np.float32)

    def with_numpy() -> Any:
        total = x
        for _ in range(CHAIN):
            total = np.add(total, y)
        return total

    held: list[bool] = []
    for candidate in plugrad.backends():
        if candidate.name not in CHAIN_LIMITS or candidate.status not in ("available", "active"):
            continue
        with plugrad.use(candidate.name):
            a, b = plugrad.asarray(x), plugrad.asarray(y)

            def with_plugrad(a: plugrad.Tensor = a, b: plugrad.Tensor = b) -> Any:
                total = a
                for _ in range(CHAIN):
                    total = total + b
                return total.numpy()

            np.testing.assert_array_equal(with_plugrad(), with_numpy())
            held.append(
                report(
                    candidate.name,
                    *_as_pair(interleaved(with_plugrad, with_numpy), CHAIN_LIMITS[candidate.name]),
                )
            )
    return held


def main() -> None:
    """Run everything; the exit status is 1 if a limit was missed."""
    held = [*against_torch(), *chains()]
    sys.exit(0 if all(held) else 1)


if __name__ == "__main__":
    main()
