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
from math import exp, log
from pathlib import Path
from typing import Any

import peer_plugrad
import workloads

import plugrad
from plugrad import fused

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
TURN = 0.02  # seconds that one turn takes at least
STAGES = (
    *((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2)),
    *((6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)),
)
"""MobileNetV2 (Sandler et al., 2018): expansion, channels, repeats, stride."""

Step = Callable[[], Any]


def tensor(seed: int, *shape: int) -> plugrad.Tensor:
    return plugrad.asarray(workloads.uniform(seed, shape))


def weight(seed: int, shape: tuple[int, ...], fan: int) -> plugrad.Tensor:
    return plugrad.asarray(workloads.weight(seed, shape, fan))


def products(size: int) -> Step:
    a, b = tensor(1, size, size), tensor(2, size, size)
    return lambda: a @ b


def mobilenet() -> Step:
    """Inference for one image."""
    seeds = iter(range(101, 10_000))

    def layer(
        kind: str, shape: tuple[int, ...], fan: int, strides: int, activation: str
    ) -> Callable[[plugrad.Tensor], plugrad.Tensor]:
        run: Any = fused.depthwise_conv2d if kind == "depthwise" else fused.conv2d
        filter = weight(next(seeds), shape, fan)
        channels = shape[2] if kind == "depthwise" else shape[3]
        bias = plugrad.asarray(workloads.uniform(next(seeds), (channels,), -0.1, 0.1))
        return lambda x: run(
            x, filter, strides=strides, pad="same", bias=bias, activation=activation
        )

    first = layer("full", (3, 3, 3, 32), 27, 2, "relu6")
    blocks: list[tuple[list[Callable[[plugrad.Tensor], plugrad.Tensor]], bool]] = []
    channels = 32
    for expansion, out, repeats, stride in STAGES:
        for i in range(repeats):
            inner = channels * expansion
            layers = [layer("full", (1, 1, channels, inner), channels, 1, "relu6")] * (
                expansion > 1
            )
            layers.append(layer("depthwise", (3, 3, inner, 1), 9, 1 if i else stride, "relu6"))
            layers.append(layer("full", (1, 1, inner, out), inner, 1, "linear"))
            blocks.append((layers, i > 0))
            channels = out
    last = layer("full", (1, 1, 320, 1280), 320, 1, "relu6")
    head, x = weight(next(seeds), (1280, 1000), 1280), tensor(99, 1, 224, 224, 3)

    def step() -> plugrad.Tensor:
        h = first(x)
        for layers, adds in blocks:
            y = h
            for run in layers:
                y = run(y)
            h = y + h if adds else y
        return plugrad.mean(last(h), axis=(1, 2)) @ head

    return step


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
        "W1": peer_plugrad.all_workloads()["W1"][0],
        "W3": mobilenet(),
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
            ours(step, 2)  # shapes are cached, memory is there
            node.time(name, 2)
            repeats = max(1, round(TURN * 1e3 / max(ours(step, 1), node.time(name, 1))))
            turns = [(ours(step, repeats), node.time(name, repeats)) for _ in range(rounds)]
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
