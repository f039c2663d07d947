"""Time plugrad on webgpu against tinygrad on Dawn, both on the best adapter of the machine.

    python -m venv FOLDER && FOLDER/bin/pip install tinygrad==0.14.0 dawn-python==0.3.0 numpy
    python benchmarks/against_tinygrad.py FOLDER/bin/python

tinygrad runs in a second process, and the two take turns case by case, so that both meet the same machine. Each
turn ends when the device is idle, or, for the adds and the training steps, when the value is on the host. The
ratio to tinygrad's jit counts; the ratio to its eager mode is for information.

"10 adds" is a program on a few numbers. plugrad keeps those on the host and computes them there, so this case no
longer reaches the device; tinygrad's does. "10 adds/dev" does the same with tensors that a kernel has left on the
device. It has no limit and does not count in the mean. Words after the interpreter select the
cases whose names begin with one of them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from math import exp, log
from pathlib import Path
from typing import Any

import jitted
import numpy as np
import peer_plugrad
from measuring import Side, take_turns
from tinygrad_inputs import CASES_WITH_READ_BACK, Inputs, make_inputs

import plugrad

MAX_RATIOS = {
    "matmul 512": 0.31,
    "gelu(x@w+b)": 0.19,
    "gelu(x*w+b)": 0.8,
    "gelu(norm)": 0.4,
    "W5": 1.0,
    "sum": 0.15,
    "softmax": 0.45,
    "conv 3x3": 0.6,
    "10 adds": 0.01,
    "W1": 0.14,
    "W2": 0.5,
}
"""By case: the maximum time of plugrad, as a multiple of tinygrad's jit; other cases have no limit."""
MAX_MEAN_RATIO = 0.20
"""The maximum geometric mean of the ratios."""
MAX_CHAIN_RATIO = 40.0
"""The maximum time of 1,000 additions and a read-back, as a multiple of NumPy's time."""
TURN_SECONDS = 0.05
"""The minimum seconds of one turn."""
ROUNDS = 9

Step = Callable[[], Any]
"""Runs a case once."""


def gelu(x: plugrad.Tensor) -> plugrad.Tensor:
    """Return the tanh approximation of GELU, which tinygrad uses."""
    return 0.5 * x * (1 + plugrad.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def apply_ten_ops(x: plugrad.Tensor) -> plugrad.Tensor:
    """Return ten chained elementwise ops (W5)."""
    y = plugrad.sqrt(plugrad.abs(x * 1.01 + 0.5))
    return plugrad.tanh(plugrad.log(plugrad.exp(-y) + 1.0)) * x


def add_ten_times(a: plugrad.Tensor, b: plugrad.Tensor) -> plugrad.Tensor:
    """Return ten additions."""
    for _ in range(10):
        a = a + b
    return a


def make_training_step(workload_name: str, *, is_jitted: bool) -> Step:
    """Return a function that takes a training step and returns the loss."""
    if not is_jitted:
        return peer_plugrad.STEPS[workload_name]().run
    work = jitted.WORKLOADS[workload_name]()
    step = plugrad.jit(work.function)
    return lambda: float(step(*work.args).item())


def make_cases(*, is_jitted: bool) -> dict[str, Step]:
    """Return the benchmark cases by name; each returns a tensor, or a number if it is a training step."""

    def make_case(function: Callable[..., plugrad.Tensor], *args: plugrad.Tensor) -> Step:
        return partial(plugrad.jit(function) if is_jitted else function, *args)

    x = Inputs(*map(plugrad.asarray, make_inputs()))
    unit = plugrad.eye(4)
    return {
        "matmul 512": make_case(lambda a, b: a @ b, x.left, x.right),
        "gelu(x@w+b)": make_case(lambda a, b, bias: gelu(a @ b + bias), x.left, x.right, x.bias),
        "gelu(x*w+b)": make_case(lambda x, w, b: gelu(x * w + b), x.rows, x.scale, x.offset),
        "gelu(norm)": make_case(lambda x: gelu(plugrad.layer_norm(x)), x.logits),
        "W5": make_case(apply_ten_ops, x.million),
        "sum": make_case(plugrad.sum, x.ten_million),
        "softmax": make_case(plugrad.softmax, x.logits),
        "conv 3x3": make_case(lambda x, w: plugrad.conv2d(x, w, padding="same"), x.image, x.filter),
        "10 adds": make_case(add_ten_times, x.first, x.second),
        # Products of matrices are the device's, also those with the unit matrix.
        "10 adds/dev": make_case(
            add_ten_times, x.first.reshape(1, 4) @ unit, x.second.reshape(1, 4) @ unit
        ),
        "W1": make_training_step("W1", is_jitted=is_jitted),
        "W2": make_training_step("W2", is_jitted=is_jitted),
    }


class TinygradProcess:
    """A process that runs tinygrad."""

    def __init__(self, python: str) -> None:
        # Drivers that look for a display complain without such a folder.
        folder = {"XDG_RUNTIME_DIR": tempfile.gettempdir()}
        self._process = subprocess.Popen(
            [python, str(Path(__file__).with_name("peer_tinygrad.py"))],
            env=folder | os.environ | {"PYTHONPATH": ""},
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def ask(self, case_name: str, mode: str, repeats: int = 1) -> float:
        """Send a case, the mode "jit", "eager" or "check", and a number of calls to the process; return its answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(case_name, mode, repeats, file=self._process.stdin, flush=True)
        return float(self._process.stdout.readline())

    def time(self, case_name: str, mode: str, repeats: int) -> float:
        """Return the milliseconds of a call of a case in tinygrad, in the mode "jit" or "eager"."""
        return self.ask(case_name, mode, repeats) / repeats


def time_plugrad(case_name: str, step: Step, repeats: int) -> float:
    """Return the milliseconds of a call of a case in plugrad."""
    backend = plugrad.which().backend
    start = time.perf_counter()
    for _ in range(repeats):
        result = step()
        if case_name not in CASES_WITH_READ_BACK:
            backend.synchronize()
        elif not isinstance(result, float):
            result.numpy()
    return (time.perf_counter() - start) * 1e3 / repeats


def check_results(case_name: str, step: Step, tinygrad: TinygradProcess) -> None:
    """Raise unless both frameworks' results have the same sum of absolute values."""
    result = step()
    values = np.asarray(result if isinstance(result, float) else result.numpy(), np.float64)
    np.testing.assert_allclose(
        np.abs(values).sum(), tinygrad.ask(case_name, "check"), rtol=1e-3, err_msg=case_name
    )


def time_case(case_name: str, step: Step, tinygrad: TinygradProcess) -> tuple[float, float, float]:
    """Return the minimum milliseconds of plugrad, of jitted tinygrad and of eager tinygrad."""
    check_results(case_name, step, tinygrad)
    time_plugrad(case_name, step, 2)
    for mode in ("eager", "jit"):
        tinygrad.time(case_name, mode, 3)  # the third call runs the captured kernels
    fastest = min(time_plugrad(case_name, step, 1), tinygrad.time(case_name, "jit", 1))
    repeats = max(1, round(TURN_SECONDS * 1e3 / fastest / 4))
    turns = [
        (
            time_plugrad(case_name, step, repeats),
            tinygrad.time(case_name, "jit", 1),
            tinygrad.time(case_name, "eager", 1),
        )
        for _ in range(ROUNDS)
    ]
    in_plugrad, jit, eager = (min(side) for side in zip(*turns, strict=True))
    return in_plugrad, jit, eager


def print_chain_times() -> bool:
    """Print the times of 1,000 additions; return whether their limit holds."""
    x, y = np.zeros(1024, np.float32), np.ones(1024, np.float32)
    a, b = plugrad.asarray(x), plugrad.asarray(y)

    def add_many_times(total: Any, addend: Any) -> Any:
        for _ in range(1000):
            total = total + addend
        return total

    np.testing.assert_array_equal(add_many_times(a, b).numpy(), add_many_times(x, y))
    sides = {
        "ours": Side(lambda: add_many_times(a, b).numpy()),
        "numpy": Side(lambda: add_many_times(x, y)),
    }
    times = take_turns(sides, rounds=50)
    ratio = times["ours"].median / times["numpy"].median
    print(f"1,000 adds and a read-back: {ratio:.1f} x np.add, limit {MAX_CHAIN_RATIO}")
    return ratio <= MAX_CHAIN_RATIO


def main() -> int:
    """Print a table; return 1 if a limit does not hold."""
    names = [name for name in sys.argv[2:] if name != "--jit"]
    is_jitted = "--jit" in sys.argv
    peer, wanted = TinygradProcess(sys.argv[1]), tuple(names) or ("",)
    print(
        f"{'case':12} {'plugrad ms':>10} {'jit ms':>10} {'eager ms':>10} {'to jit':>7} {'limit':>7}"
    )
    ratios: list[float] = []
    failed = False
    with plugrad.use("webgpu"), plugrad.config.override("fallback", "error"):
        for name, step in make_cases(is_jitted=is_jitted).items():
            if not name.startswith(wanted):
                continue
            in_plugrad, jit, eager = time_case(name, step, peer)
            ratio, limit = in_plugrad / jit, MAX_RATIOS.get(name)
            promise = f"{'-':>7}"
            if limit is not None:
                ratios.append(ratio)
                failed |= ratio > limit
                promise = f"{limit:7.2f}  {'ok' if ratio <= limit else 'MISSED'}"
            print(
                f"{name:12} {in_plugrad:10.3f} {jit:10.3f} {eager:10.3f} {ratio:7.3f} {promise}",
                flush=True,
            )
        mean = exp(sum(map(log, ratios)) / max(len(ratios), 1))
        print(f"geometric mean {mean:.3f}, limit {MAX_MEAN_RATIO}")
        failed |= not print_chain_times()
    return int(failed or mean > MAX_MEAN_RATIO)


if __name__ == "__main__":
    sys.exit(main())
