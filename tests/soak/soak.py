"""Random work in several threads, for as long as asked, with every value checked.

    python tests/soak/soak.py --minutes 10 --backend webgpu

Each thread makes tensors, combines, reshapes, differentiates, disposes and reads them, and compares
every element with NumPy's. The values are small integers in float32 (results are wrapped into a
small range), so every backend has exactly one right answer. All the time, threads ask for `memory()`.
At the end nothing may be left: no tensor, no buffer, no byte. The process may hardly be larger in the
last quarter of the time than in the second; in the first, caches fill. They keep what was decided for a
shape, so the work has a certain number of shapes, as programs have: with new ones all the time, caches
would fill for an hour. All threads look at the size of the process, so that there are samples of it
although the machine is busy.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import sys
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

import numpy as np

import plugrad

if TYPE_CHECKING:
    from collections.abc import Callable

SHAPES = [(), (3,), (0, 4), (5, 7), (2, 3, 4), (200, 200), (64, 1), (1, 33), (4097,), (20, 20, 30)]
VALUE_LIMIT = 8  # values lie between -8 and 8; sums of products of 200 of them are exact in float32
MAX_KEPT_TENSORS = 12
MAX_KEPT_SHAPES = 200
"""The number of shapes of tensors that are kept and used again."""
MIN_SAMPLES_PER_QUARTER = 5
"""The fewest samples of a quarter whose median is compared: on a busy machine a short one may have fewer."""
MAX_SAMPLES = 2000
"""About the most samples of a run: they take memory themselves."""

M_MMAP_THRESHOLD = -3
"""The parameter of glibc's `mallopt` that says how large a block must be to get pages of its own."""
MIN_MAPPED_BYTES = 1 << 16

TensorAndArray = tuple[plugrad.Tensor, Any]
"""A tensor and the values that it must have."""


def wrap_into_range(x: Any) -> Any:
    """Return integers in a small range; the same formula for tensors and arrays."""
    rounded = plugrad.round if isinstance(x, plugrad.Tensor) else np.round
    return x - rounded(x / 16) * 16


def apply_unary(rng: np.random.Generator, x: TensorAndArray) -> TensorAndArray:
    name = rng.choice(["negative", "abs", "square", "sign", "relu", "round"])
    tensor = getattr(plugrad, name)(x[0])
    right = np.maximum(x[1], 0) if name == "relu" else getattr(np, name)(x[1])
    return wrap_into_range(tensor), wrap_into_range(right)


def apply_binary(rng: np.random.Generator, x: TensorAndArray) -> TensorAndArray:
    name = rng.choice(["add", "subtract", "multiply", "maximum", "minimum"])
    other = rng.integers(-VALUE_LIMIT, VALUE_LIMIT + 1, x[1].shape[-1:]).astype("float32")
    tensor = getattr(plugrad, name)(x[0], plugrad.asarray(other))
    return wrap_into_range(tensor), wrap_into_range(getattr(np, name)(x[1], other))


def apply_matmul(rng: np.random.Generator, x: TensorAndArray) -> TensorAndArray:
    if x[1].ndim < 2 or x[1].shape[-2] > 300:
        return wrap_into_range(x[0] * x[0]), wrap_into_range(x[1] * x[1])
    return wrap_into_range(x[0] @ plugrad.matrix_transpose(x[0])), wrap_into_range(
        x[1] @ x[1].swapaxes(-1, -2)
    )


def apply_reduction(rng: np.random.Generator, x: TensorAndArray) -> TensorAndArray:
    name, axis = rng.choice(["sum", "max", "min"]), -1
    if not x[1].ndim or not x[1].size:
        return x
    tensor = getattr(plugrad, name)(x[0], axis=axis)
    return wrap_into_range(tensor), wrap_into_range(getattr(np, name)(x[1], axis=axis))


def apply_movement(rng: np.random.Generator, x: TensorAndArray) -> TensorAndArray:
    tensor, right = x
    how = rng.integers(4)
    if how == 0:
        return tensor.reshape(-1), right.reshape(-1)
    if how == 1:
        return plugrad.permute_dims(tensor, range(right.ndim)[::-1]), right.T
    if how == 2 and right.ndim:
        return tensor[1:], right[1:]
    return plugrad.stack([tensor, tensor]), np.stack([right, right])


def apply_grad(rng: np.random.Generator, x: TensorAndArray) -> TensorAndArray:
    gradient = plugrad.grad(lambda t: plugrad.sum(t * t * t))(x[0])
    return wrap_into_range(gradient), wrap_into_range(3 * x[1] * x[1])


def apply_in_tidy(rng: np.random.Generator, x: TensorAndArray) -> TensorAndArray:
    with plugrad.tidy() as scope:
        tensor = scope.keep(wrap_into_range(x[0] * 2 + 1))
    return tensor, wrap_into_range(x[1] * 2 + 1)


RANDOM_STEPS: list[Callable[[np.random.Generator, TensorAndArray], TensorAndArray]] = [
    *(
        apply_unary,
        apply_binary,
        apply_matmul,
        apply_reduction,
        apply_movement,
        apply_grad,
        apply_in_tidy,
    )
]


@dataclass
class Soak:
    """The work of all threads, and the problems that they have found."""

    backend: str
    seconds: float
    threads: int = 4
    seed: int = 0
    max_growth: float = 0.03
    """The fraction by which the process may be larger in the last quarter of the time than in the second."""
    steps: int = 0
    samples: tuple[list[int], ...] = field(default_factory=lambda: ([], [], [], []))
    """Sizes of the resident memory in each quarter of the time, in bytes."""
    problems: list[str] = field(default_factory=list)
    shapes: set[tuple[int, ...]] = field(default_factory=lambda: set(SHAPES))
    lock: Lock = field(default_factory=Lock)
    end_time: float = 0.0
    next_sample: float = 0.0

    def work(self, seed: int) -> None:
        """Take random steps until the time is over or something is wrong."""
        rng = np.random.default_rng(seed)
        kept: list[TensorAndArray] = []
        steps = 0
        try:
            with plugrad.use(self.backend):
                while time.monotonic() < self.end_time and not self.problems:
                    self.step(rng, kept)
                    steps += 1
        except BaseException:  # a thread that dies in silence would look like success
            self.report(f"thread with seed {seed}, step {steps}:\n{traceback.format_exc()}")
        with self.lock:
            self.steps += steps

    def step(self, rng: np.random.Generator, kept: list[TensorAndArray]) -> None:
        """Create a tensor, compute one from another, or compare one with NumPy."""
        self.measure()
        if not kept or rng.random() < 0.2:
            shape = SHAPES[rng.integers(len(SHAPES))]
            values = rng.integers(-VALUE_LIMIT, VALUE_LIMIT + 1, shape).astype("float32")
            kept.append((plugrad.asarray(values), values))
        else:
            chosen = kept[rng.integers(len(kept))]
            take = RANDOM_STEPS[rng.integers(len(RANDOM_STEPS))]
            kept.append(take(rng, chosen))
            if rng.random() < 0.3:
                self.compare(take.__name__, *kept[-1])
        if kept[-1][1].size > 50_000 or not self.may_keep_shape(kept[-1][1].shape):
            kept.pop()
        if len(kept) > MAX_KEPT_TENSORS:
            tensor, right = kept.pop(rng.integers(len(kept)))
            self.compare("kept", tensor, right)
            if rng.random() < 0.5 and not any(tensor is other for other, _ in kept):
                tensor.dispose()
        if rng.random() < 0.01:
            report = plugrad.memory()
            if min(report.tensors, report.buffers, report.bytes) < 0:
                self.report(f"memory() says {report}")

    def may_keep_shape(self, shape: tuple[int, ...]) -> bool:
        """Return whether tensors of a shape are kept: only the first shapes that occurred are."""
        with self.lock:
            if len(self.shapes) < MAX_KEPT_SHAPES:
                self.shapes.add(shape)
            return shape in self.shapes

    def measure(self) -> None:
        """Note how large the process is, unless a thread has done so a moment ago."""
        now = time.monotonic()
        if now < self.next_sample:
            return
        self.next_sample = now + self.seconds / MAX_SAMPLES
        left = self.end_time - now
        self.samples[3 - max(0, min(3, int(4 * left / self.seconds)))].append(resident_bytes())

    def growth_problem(self) -> str | None:
        """Describe how the process has grown if that is too much, given enough samples; otherwise return ""."""
        _, second, _, last = self.samples
        if min(len(second), len(last)) < MIN_SAMPLES_PER_QUARTER:
            return None
        before, after = median(second), median(last)
        if after <= before * (1 + self.max_growth):
            return None
        return f"the process has grown from {before:.0f} to {after:.0f} bytes"

    def compare(self, what: str, tensor: plugrad.Tensor, right: Any) -> None:
        """Report a tensor if its values differ from the right ones."""
        found = tensor.numpy()
        if found.shape != right.shape or not np.array_equal(found, right):
            differing = np.flatnonzero(found.reshape(-1) != np.ravel(right))
            self.report(
                f"{what} of shape {right.shape}: {len(differing)} elements differ, first at "
                f"{differing[:5]}: {found.reshape(-1)[differing[:5]]} != {np.ravel(right)[differing[:5]]}"
            )

    def report(self, problem: str) -> None:
        with self.lock:
            self.problems.append(problem)

    def run(self) -> list[str]:
        """Run all threads, and return the problems that they found."""
        keep_holes_small()
        with plugrad.use(self.backend):
            rng = np.random.default_rng()
            for take in RANDOM_STEPS:  # constants stay
                take(rng, (plugrad.ones((2, 2)), np.ones((2, 2))))
        gc.collect()
        before = plugrad.memory()
        self.end_time = time.monotonic() + self.seconds
        workers = [Thread(target=self.work, args=(self.seed + i,)) for i in range(self.threads)]
        for worker in workers:
            worker.start()
        while any(worker.is_alive() for worker in workers):
            if time.monotonic() > self.end_time + 60:
                return [*self.problems, "a thread hangs: it did not end 60 seconds after it should"]
            self.measure()
            plugrad.memory()
            time.sleep(0.01)
        gc.collect()
        after = plugrad.memory()
        for name in ("tensors", "buffers", "bytes"):
            if getattr(after, name) != getattr(before, name):
                self.report(f"{name}: {getattr(before, name)} before, {getattr(after, name)} after")
        if problem := self.growth_problem():
            self.report(problem)
        return self.problems


def keep_holes_small() -> None:
    """Make malloc return large blocks to the system at once.

    Otherwise arrays and small blocks that stay share the heap, whose holes grow for an hour: 13 MB after 20 minutes.
    """
    with suppress(AttributeError):  # another C library
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, MIN_MAPPED_BYTES)


def resident_bytes() -> int:
    """Return the resident memory of this process in bytes, or 0 where it is unknown."""
    table = Path("/proc/self/statm")
    return int(table.read_text().split()[1]) * 4096 if table.exists() else 0


def main() -> int:
    """Run the soak test with the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--backend", default=plugrad.which().backend.name)
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    soak = Soak(chosen.backend, chosen.minutes * 60, chosen.threads, chosen.seed)
    problems = soak.run()
    print(
        f"{soak.backend}: {soak.steps} steps in {chosen.threads} threads, {len(problems)} problems"
    )
    quarters = [
        f"{median(sizes) / 1e6:.1f} ({len(sizes)} samples)" for sizes in soak.samples if sizes
    ]
    print("resident MB in each quarter:", *quarters)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
