"""Twenty programs that users write, in plugrad and in PyTorch: the times of whole programs, not of single kernels.

    python benchmarks/user_programs.py                        all of them, untraced and jitted, against PyTorch
    python benchmarks/user_programs.py kalman hmc             some
    python benchmarks/user_programs.py --backend wasm
    python benchmarks/user_programs.py --compile              torch.compile as well: minutes, and a compiler

A program is a function of tensors with one name in `user_programs_plugrad` and `user_programs_torch`, each written as
its users would write it. Both get the same arrays, and what they return is compared first. One run, one thread: the
sides take turns, and the ratio of the least times counts.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"
os.environ["PLUGRAD_WASM_THREADS"] = "1"

import argparse  # noqa: E402 - the number of threads is read when NumPy is imported
import time  # noqa: E402
from typing import TYPE_CHECKING, Any  # noqa: E402

import numpy as np  # noqa: E402
import user_programs_plugrad  # noqa: E402
from measuring import Side, geometric_mean, take_turns  # noqa: E402

import plugrad  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Arrays = dict[str, Any]
"""The arrays of a program, by parameter."""
TOLERANCE = 2e-3
"""The maximum difference relative to the largest number: hundreds of steps add up rounding errors."""


def random_normal(*shape: int, scale: float = 1.0, seed: int = 0) -> Any:
    """Return normal numbers as float32."""
    return (np.random.default_rng(seed).normal(size=shape) * scale).astype("f4")


def random_uniform(*shape: int, low: float = 0.1, high: float = 1.0, seed: int = 0) -> Any:
    """Return numbers in [low, high) as float32."""
    return np.random.default_rng(seed).uniform(low, high, shape).astype("f4")


def random_integers(end: int, *shape: int, seed: int = 0) -> Any:
    """Return integers in [0, end)."""
    return np.random.default_rng(seed).integers(end, size=shape)


def lstm_inputs() -> Arrays:
    return {
        "x": random_normal(32, 100, 32),
        "labels": random_integers(10, 32),
        "kernel": random_normal(32, 256, scale=0.1, seed=1),
        "recurrent": random_normal(64, 256, scale=0.1, seed=2),
        "bias": random_normal(256, scale=0.1, seed=3),
        "head": random_normal(64, 10, scale=0.1, seed=4),
    }


def nbody_inputs() -> Arrays:
    return {
        "places": random_normal(500, 3),
        "speeds": random_normal(500, 3, seed=1),
        "masses": random_uniform(500),
    }


def black_scholes_inputs() -> Arrays:
    each = {"spot": (80, 120), "strike": (80, 120), "years": (0.1, 2.0)}
    return {
        name: random_uniform(200_000, low=a, high=b, seed=int(b)) for name, (a, b) in each.items()
    }


def kmeans_inputs() -> Arrays:
    return {"points": random_normal(20_000, 8), "centres": random_normal(16, 8, seed=1)}


def kalman_inputs() -> Arrays:
    turn = np.eye(4, k=2, dtype="f4") * 0.1 + np.eye(4, dtype="f4")
    return {
        "measurements": random_normal(200, 2),
        "transition": turn,
        "observation": np.eye(2, 4, dtype="f4"),
    }


def floyd_warshall_inputs() -> Arrays:
    return {"lengths": random_uniform(200, 200)}


def augmentation_inputs() -> Arrays:
    return {
        "images": random_uniform(16, 128, 128, 3),
        "flips": random_integers(2, 16),
        "light": random_uniform(16, low=0.8, high=1.2, seed=1),
        "contrast": random_uniform(16, low=0.8, high=1.2, seed=2),
    }


def unet_inputs() -> Arrays:
    def random_filter(size: int, in_channels: int, out_channels: int) -> Any:
        return random_normal(
            size, size, in_channels, out_channels, scale=0.1, seed=in_channels + out_channels
        )

    return {
        "images": random_uniform(4, 64, 64, 1),
        "masks": (random_uniform(4, 64, 64, 1, seed=1) > 0.5).astype("f4"),
        "weights": [
            *(random_filter(3, 1, 16), random_filter(3, 16, 32), random_filter(3, 32, 64)),
            *(
                random_filter(2, 32, 64),
                random_filter(3, 64, 32),
                random_filter(2, 16, 32),
                random_filter(3, 32, 16),
            ),
            random_filter(1, 16, 1),
        ],
    }


def graph_network_inputs() -> Arrays:
    return {
        "nodes": random_normal(2000, 32),
        "senders": random_integers(2000, 20_000),
        "receivers": random_integers(2000, 20_000, seed=1),
        "labels": random_integers(7, 2000),
        "first": random_normal(64, 64, scale=0.1, seed=2),
        "second": random_normal(128, 7, scale=0.1, seed=3),
    }


def gaussian_process_inputs() -> Arrays:
    return {
        "x": random_normal(200, 3),
        "y": random_normal(200),
        "length": np.float32([1.0, 0.8, 1.2]),
        "noise": np.float32(0.1),
    }


def hmc_inputs() -> Arrays:
    x = random_normal(1000, 10)
    return {
        "x": x,
        "y": (x.sum(1) > 0).astype("f4"),
        "weights": random_normal(10, seed=1),
        "momentum": random_normal(10, seed=2),
    }


def decoding_inputs() -> Arrays:
    size = 128
    shapes = ((size, 3 * size), (size, size), (size, 4 * size), (4 * size, size))
    return {
        "start": random_integers(50, 1),
        "embedding": random_normal(50, size, scale=0.1),
        "layers": [
            [
                random_normal(rows, columns, scale=0.08, seed=10 * number + i)
                for number, (rows, columns) in enumerate(shapes)
            ]
            for i in range(2)
        ],
    }


def vae_inputs() -> Arrays:
    return {
        "x": random_uniform(64, 784),
        "noise": random_normal(64, 16),
        "weights": [
            *(
                random_normal(784, 200, scale=0.03, seed=1),
                random_normal(200, 32, scale=0.1, seed=2),
            ),
            *(
                random_normal(16, 200, scale=0.1, seed=3),
                random_normal(200, 784, scale=0.03, seed=4),
            ),
        ],
    }


def newton_inputs() -> Arrays:
    x = random_normal(500, 20)
    return {"x": x, "y": (x.sum(1) > 0).astype("f4"), "weights": np.zeros(20, "f4")}


def life_inputs() -> Arrays:
    return {"cells": random_integers(2, 256, 256)}


def heat_inputs() -> Arrays:
    return {"field": random_uniform(200, 200)}


def page_rank_inputs() -> Arrays:
    return {
        "sources": random_integers(5000, 50_000),
        "targets": random_integers(5000, 50_000, seed=1),
    }


def viterbi_inputs() -> Arrays:
    return {"scores": random_normal(200, 48), "transitions": random_normal(48, 48, seed=1)}


def policy_gradient_inputs() -> Arrays:
    return {
        "states": random_normal(500, 4),
        "actions": random_integers(2, 500),
        "rewards": random_uniform(500),
        "first": random_normal(4, 64, scale=0.5, seed=1),
        "second": random_normal(64, 2, scale=0.1, seed=2),
    }


def bag_of_words_inputs() -> Arrays:
    return {
        "words": random_integers(5000, 64, 40),
        "labels": random_integers(4, 64),
        "table": random_normal(5000, 64, scale=0.1),
        "head": random_normal(64, 4, scale=0.1),
    }


INPUTS_OF_PROGRAM: dict[str, Callable[[], Arrays]] = {
    make.__name__.removesuffix("_inputs"): make
    for make in (
        *(
            lstm_inputs,
            nbody_inputs,
            black_scholes_inputs,
            kmeans_inputs,
            kalman_inputs,
            floyd_warshall_inputs,
            augmentation_inputs,
            unet_inputs,
            graph_network_inputs,
        ),
        *(
            gaussian_process_inputs,
            hmc_inputs,
            decoding_inputs,
            vae_inputs,
            newton_inputs,
            life_inputs,
            heat_inputs,
            page_rank_inputs,
            viterbi_inputs,
            policy_gradient_inputs,
            bag_of_words_inputs,
        ),
    )
}


def map_arrays(nested_arrays: Any, function: Callable[[Any], Any]) -> Any:
    """Return nested lists and dicts of arrays with a function applied to each array."""
    if isinstance(nested_arrays, dict):
        return {name: map_arrays(value, function) for name, value in nested_arrays.items()}
    if isinstance(nested_arrays, list | tuple):
        return [map_arrays(value, function) for value in nested_arrays]
    return function(nested_arrays)


def relative_difference(results: Any, expected: Any) -> float:
    """Return the largest difference of two nested results, relative to the largest number of each array."""
    if isinstance(expected, list):
        return max(relative_difference(*pair) for pair in zip(results, expected, strict=True))
    largest = max(float(np.max(np.abs(expected))), 1e-6)
    return float(np.max(np.abs(results.astype("f8") - expected))) / largest


def make_sides(program_name: str, with_torch_compile: bool) -> tuple[Mapping[str, Side], float]:
    """Return the measured functions of a program, and the largest difference of plugrad's and torch's results."""
    import torch
    import user_programs_torch

    torch.set_num_threads(1)
    arrays = INPUTS_OF_PROGRAM[program_name]()
    ours, theirs = (
        getattr(user_programs_plugrad, program_name),
        getattr(user_programs_torch, program_name),
    )
    given = map_arrays(arrays, plugrad.asarray)
    theirs_given = map_arrays(arrays, torch.as_tensor)
    jitted = plugrad.jit(ours)
    backend = plugrad.which().backend
    expected = map_arrays(theirs(**theirs_given), lambda x: x.detach().numpy().astype("f8"))
    worst = max(
        relative_difference(map_arrays(function(**given), lambda x: x.numpy()), expected)
        for function in (ours, jitted)
    )
    sides = {
        "plugrad": Side(lambda: ours(**given), finish=backend.synchronize),
        "jit": Side(lambda: jitted(**given), finish=backend.synchronize),
        "torch": Side(lambda: theirs(**theirs_given)),
    }
    if with_torch_compile:
        compiled = torch.compile(theirs, mode="max-autotune-no-cudagraphs", dynamic=False)
        sides["compiled"] = Side(lambda: compiled(**theirs_given))
    return sides, worst


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "names", nargs="*", choices=[[], *INPUTS_OF_PROGRAM], default=[], metavar="names"
    )
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--compile", action="store_true")
    arguments = parser.parse_args()
    plugrad.use(arguments.backend)
    columns = ["plugrad", "jit", "torch", *(["compiled"] if arguments.compile else [])]
    print(f"{'milliseconds':18}{''.join(f'{c:>10}' for c in columns)}   plugrad, jit ÷ torch")
    ratios: list[tuple[float, float]] = []
    for name in arguments.names or INPUTS_OF_PROGRAM:
        sides, worst = make_sides(name, arguments.compile)
        if not worst <= TOLERANCE:
            raise SystemExit(
                f"{name}: plugrad and torch differ by {worst:.1e}, more than {TOLERANCE}"
            )
        times = {
            side: t.minimum
            for side, t in take_turns(sides, arguments.rounds, time.process_time).items()
        }
        ratios.append((times["plugrad"] / times["torch"], times["jit"] / times["torch"]))
        row = "".join(f"{times[column]:10.3f}" for column in columns)
        print(f"{name:18}{row}   {ratios[-1][0]:6.2f} {ratios[-1][1]:6.2f}", flush=True)
    eager, jit = (geometric_mean(list(each)) for each in zip(*ratios, strict=True))
    slow = sum(ratio > 1.5 for ratio, _ in ratios)
    print(
        f"geometric mean of {len(ratios)}: untraced {eager:.2f}, jitted {jit:.2f} x torch; {slow} untraced above 1.5"
    )


if __name__ == "__main__":
    main()
