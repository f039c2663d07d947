"""Time plugrad on wasm against TensorFlow.js on its WebAssembly backend, one thread each.

    npm install --prefix FOLDER esbuild @tensorflow/tfjs-core@4.22.0 @tensorflow/tfjs-backend-wasm@4.22.0
    python benchmarks/against_tfjs.py FOLDER

Node runs in a second process, and the two take turns case by case, so that both meet the same machine.
The ratio of the medians counts.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from math import exp, log
from pathlib import Path
from typing import Any

import peer_plugrad
import workloads

import plugrad

LIMITS = {
    "matmul 256": 0.80,
    "matmul 512": 0.80,
    "matmul 1024": 0.80,
    "conv 3x3": 0.40,
    "depthwise": 0.80,
    "add": 0.95,
    "mul": 0.95,
    "relu": 0.95,
    "exp": 0.13,
    "tanh": 0.13,
    "sum": 0.18,
    "softmax": 0.75,
    "add of 8": 0.67,
    "W1": 0.12,
    "W3": 0.85,
}
"""What we promise, as a multiple of the time of TensorFlow.js."""
MEAN_LIMIT = 0.42  # of the geometric mean
TURN = 0.02  # seconds that a turn of each side takes
TRIALS = 5  # calls, of which the fastest says how many make a turn

Step = Callable[[], Any]


def tensor(seed: int, *shape: int) -> plugrad.Tensor:
    return plugrad.asarray(workloads.uniform(seed, shape))


def weight(seed: int, shape: tuple[int, ...], fan: int) -> plugrad.Tensor:
    return plugrad.asarray(workloads.weight(seed, shape, fan))


def products(size: int) -> Step:
    a, b = tensor(1, size, size), tensor(2, size, size)
    return lambda: a @ b


def cases() -> dict[str, Step]:
    """Return the cases by name."""
    million, other, tens = tensor(1, 1_000_000), tensor(2, 1_000_000), tensor(3, 10_000_000)
    eight, table = tensor(4, 8), tensor(5, 1000, 1000)
    image, filter = tensor(6, 1, 56, 56, 64), weight(7, (3, 3, 64, 64), 576)
    wide, thin = tensor(8, 1, 112, 112, 64), weight(9, (3, 3, 64, 1), 9)
    return {
        "matmul 256": products(256),
        "matmul 512": products(512),
        "matmul 1024": products(1024),
        "conv 3x3": lambda: plugrad.conv2d(image, filter, strides=1, pad="same"),
        "depthwise": lambda: plugrad.depthwise_conv2d(wide, thin, strides=1, pad="same"),
        "add": lambda: million + other,
        "mul": lambda: million * other,
        "relu": lambda: plugrad.relu(million),
        "exp": lambda: plugrad.exp(million),
        "tanh": lambda: plugrad.tanh(million),
        "sum": lambda: plugrad.sum(tens),
        "softmax": lambda: plugrad.softmax(table),
        "add of 8": lambda: eight + eight,
        "W1": peer_plugrad.STEPS["W1"]().run,
        "W3": peer_plugrad.STEPS["W3"]().run,
    }


class Node:
    """TensorFlow.js in its own process."""

    def __init__(self, folder: str) -> None:
        modules = Path(folder).resolve() / "node_modules"
        program = modules.parent / "peer_tfjs.cjs"
        source = Path(__file__).with_name("peer_tfjs.mjs")
        flags = ["--bundle", "--platform=node", "--log-level=error", f"--outfile={program}"]
        subprocess.run(
            [str(modules / ".bin" / "esbuild"), str(source), *flags],
            env=os.environ | {"NODE_PATH": str(modules)},
            check=True,
        )
        files = modules / "@tensorflow" / "tfjs-backend-wasm" / "dist"
        self._process = subprocess.Popen(
            ["node", str(program), f"{files}{os.sep}"],
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def time(self, name: str, repeats: int) -> float:
        """Return the milliseconds of a case."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(name, repeats, file=self._process.stdin, flush=True)
        return float(self._process.stdout.readline()) / repeats


def ours(step: Step, repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        step()
    return (time.perf_counter() - start) * 1e3 / repeats


def main() -> int:
    """Print a table; return 1 if a limit does not hold."""
    node, rounds = Node(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 15
    print(f"{'case':12} {'plugrad ms':>10} {'tfjs ms':>10} {'ratio':>7} {'limit':>7}")
    ratios: list[float] = []
    failed = False
    plugrad.config.set("wasm.threads", 1)
    with plugrad.use("wasm"), plugrad.config.override("fallback", "error"):
        for name, step in cases().items():
            sides = partial(ours, step), partial(node.time, name)
            for time_of in sides:
                time_of(2)  # shapes are cached, memory is there
            # A call that something interrupts says nothing about how many calls make a turn.
            least = [min(map(time_of, [1] * TRIALS)) for time_of in sides]
            n, m = (max(1, round(TURN * 1e3 / ms)) for ms in least)
            turns = [(sides[0](n), sides[1](m)) for _ in range(rounds)]
            mine, theirs = (statistics.median(side) for side in zip(*turns, strict=True))
            ratios.append(mine / theirs)
            failed |= ratios[-1] > LIMITS[name]
            verdict = "ok" if ratios[-1] <= LIMITS[name] else "MISSED"
            print(
                f"{name:12} {mine:10.4f} {theirs:10.4f} {ratios[-1]:7.2f} {LIMITS[name]:7.2f}  {verdict}",
                flush=True,
            )
    mean = exp(sum(map(log, ratios)) / len(ratios))
    print(f"geometric mean {mean:.2f}, limit {MEAN_LIMIT}")
    return int(failed or mean > MEAN_LIMIT)


if __name__ == "__main__":
    sys.exit(main())
