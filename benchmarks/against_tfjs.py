"""Time plugrad on wasm against TensorFlow.js on its WebAssembly backend, one thread each.

    npm install --prefix FOLDER esbuild @tensorflow/tfjs-core@4.22.0 @tensorflow/tfjs-backend-wasm@4.22.0
    python benchmarks/against_tfjs.py FOLDER [--busy]

Node runs in a second process, without the threads in which V8 compiles and collects garbage: they would go on
while plugrad has its turn, and take it a tenth longer. The two take many short turns, after a call that does not
count and each first every other time, so that both meet the machine in the same state. The median of the ratios of
two turns in succession counts: what changes from second to second, such as the speed of memory, changes both, and
what interrupts a turn is left out. Longer turns include what JavaScript does now and then, such as collecting
garbage.

``--busy`` counts processor time instead, for a machine where other programs run.
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

MAX_RATIOS = {
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
"""By case: the maximum time of plugrad, as a multiple of the time of TensorFlow.js."""
MAX_MEAN_RATIO = 0.42
"""The maximum geometric mean of the ratios."""
TURN_SECONDS = 0.005
"""The seconds that a turn of each framework takes."""
CASE_SECONDS = 1.0
"""The seconds that the turns of a case take together."""
MIN_ROUNDS, MAX_ROUNDS = 15, 60
"""The limits of the pairs of turns of a case, however long they take."""
TRIAL_CALLS = 5
"""The calls of which the fastest one tells how many calls make a turn."""

Step = Callable[[], Any]
"""Runs a case once."""
Side = Callable[[int], float]
"""Returns the milliseconds of a call in one framework, given the number of calls."""


def random_tensor(seed: int, *shape: int) -> plugrad.Tensor:
    """Return a tensor of reproducible uniform numbers."""
    return plugrad.asarray(workloads.random_uniform(seed, shape))


def random_weight(seed: int, shape: tuple[int, ...], fan_in: int) -> plugrad.Tensor:
    """Return a tensor of reproducible weights."""
    return plugrad.asarray(workloads.random_weight(seed, shape, fan_in))


def make_matmul_step(size: int) -> Step:
    """Return a product of two square matrices of a size."""
    a, b = random_tensor(1, size, size), random_tensor(2, size, size)
    return lambda: a @ b


def make_cases() -> dict[str, Step]:
    """Return the benchmark cases by name."""
    million, other, tens = (
        random_tensor(1, 1_000_000),
        random_tensor(2, 1_000_000),
        random_tensor(3, 10_000_000),
    )
    eight, table = random_tensor(4, 8), random_tensor(5, 1000, 1000)
    image, filter = random_tensor(6, 1, 56, 56, 64), random_weight(7, (3, 3, 64, 64), 576)
    wide, thin = random_tensor(8, 1, 112, 112, 64), random_weight(9, (3, 3, 64, 1), 9)
    return {
        "matmul 256": make_matmul_step(256),
        "matmul 512": make_matmul_step(512),
        "matmul 1024": make_matmul_step(1024),
        "conv 3x3": lambda: plugrad.conv2d(image, filter, strides=1, padding="same"),
        "depthwise": lambda: plugrad.depthwise_conv2d(wide, thin, strides=1, padding="same"),
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


class NodeProcess:
    """A Node process that runs TensorFlow.js."""

    def __init__(self, folder: str, clock: str) -> None:
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
            ["node", "--single-threaded", str(program), f"{files}{os.sep}", clock],
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def time(self, case_name: str, repeats: int) -> float:
        """Return the milliseconds of a call of a case, given the number of calls."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(case_name, repeats, file=self._process.stdin, flush=True)
        return float(self._process.stdout.readline()) / repeats


def time_calls(step: Step, clock: Callable[[], float], repeats: int) -> float:
    """Return the milliseconds of a call of a case."""
    start = clock()
    for _ in range(repeats):
        step()
    return (clock() - start) * 1e3 / repeats


def take_turns(sides: tuple[Side, Side]) -> list[tuple[float, float]]:
    """Return the times of both frameworks, called in turn."""
    # A call that something interrupts says nothing about how many calls make a turn.
    least = [min(map(side, [1] * TRIAL_CALLS)) for side in sides]
    repeats = [max(1, round(TURN_SECONDS * 1e3 / ms)) for ms in least]
    span = sum(ms * (1 + count) for ms, count in zip(least, repeats, strict=True)) / 1e3
    pairs: list[tuple[float, float]] = []
    for pair in range(min(max(round(CASE_SECONDS / span), MIN_ROUNDS), MAX_ROUNDS)):
        times = [0.0, 0.0]
        for which in (0, 1) if pair % 2 else (1, 0):
            sides[which](1)  # the caches hold what the other side has used
            times[which] = sides[which](repeats[which])
        pairs.append((times[0], times[1]))
    return pairs


def main() -> int:
    """Print a table; return 1 if a limit does not hold."""
    is_busy = "--busy" in sys.argv
    clock = time.process_time if is_busy else time.perf_counter
    node = NodeProcess(sys.argv[1], "processor" if is_busy else "wall")
    print(f"{'case':12} {'plugrad ms':>10} {'tfjs ms':>10} {'ratio':>7} {'limit':>7}")
    ratios: list[float] = []
    failed = False
    plugrad.config.set("wasm.threads", 1)
    with plugrad.use("wasm"), plugrad.config.override("fallback", "error"):
        for name, step in make_cases().items():
            sides = partial(time_calls, step, clock), partial(node.time, name)
            for side in sides:
                side(2)  # shapes are cached, memory is there
            pairs = take_turns(sides)
            mine, theirs = (statistics.median(times) for times in zip(*pairs, strict=True))
            ratios.append(statistics.median(a / b for a, b in pairs))
            failed |= ratios[-1] > MAX_RATIOS[name]
            verdict = "ok" if ratios[-1] <= MAX_RATIOS[name] else "MISSED"
            print(
                f"{name:12} {mine:10.4f} {theirs:10.4f} {ratios[-1]:7.2f} {MAX_RATIOS[name]:7.2f}  {verdict}",
                flush=True,
            )
    mean = exp(sum(map(log, ratios)) / len(ratios))
    print(f"geometric mean {mean:.2f}, limit {MAX_MEAN_RATIO}")
    return int(failed or mean > MAX_MEAN_RATIO)


if __name__ == "__main__":
    sys.exit(main())
