"""What `plugrad.jit` gains: each workload untraced and jitted, in one run, with the times of tracing and compiling.

    python benchmarks/jitted.py                     on cpu
    python benchmarks/jitted.py --backend wasm
    python benchmarks/jitted.py W1 W5 --rounds 40   some of them, measured for longer
    python benchmarks/jitted.py W1 --backend webgpu --host
                                                    only what the thread of the program computes until a call returns
    python benchmarks/jitted.py ode --jax           beside the same loop in jax.jit, in wall time

Times are of the process, on one thread, the least of several turns.
"""

from __future__ import annotations

import argparse
import os
import time
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import peer_plugrad
import workloads
from measuring import Side, mean, take_turns

import plugrad
import plugrad_nn as nn

if TYPE_CHECKING:
    from collections.abc import Callable


class Work(NamedTuple):
    """A function, and the arguments of one call."""

    function: Callable[..., Any]
    args: tuple[Any, ...] = ()


def d3() -> Work:
    a = plugrad.asarray(workloads.pair()[0])
    ones = plugrad.ones_like(a)
    gradient = plugrad.grad(workloads.chain)
    return Work(lambda a, ones: gradient(a, dy=ones), (a, ones))


def training(task: workloads.Training, predict: Callable[..., Any]) -> Work:
    x, labels = plugrad.asarray(task.x), plugrad.one_hot(task.labels, 10)
    weights = {name: plugrad.Variable(value, name=name) for name, value in task.weights.items()}
    optimizer = plugrad.optimizers.SGD(task.learning_rate)

    def step(x: plugrad.Tensor, labels: plugrad.Tensor) -> plugrad.Tensor:
        return optimizer.minimize(
            lambda: plugrad.losses.softmax_cross_entropy(labels, predict(x, weights)),
            list(weights.values()),
        )

    return Work(step, (x, labels))


def w5() -> Work:
    x = plugrad.asarray(np.random.default_rng(0).uniform(-1, 1, 1_000_000).astype(np.float32))

    def ten(x: plugrad.Tensor) -> plugrad.Tensor:
        y = plugrad.abs(x) * 2.0 + 1.0
        y = plugrad.sqrt(y) - x
        y = plugrad.maximum(y, 0.5) * x
        y = y + x
        return plugrad.square(y) * 0.1 - 1.0

    return Work(ten, (x,))


def digits() -> Work:
    model = nn.Sequential(
        nn.Conv2D(16, 3, padding="same"),
        plugrad.relu,
        nn.MaxPooling2D(2),
        nn.Conv2D(32, 3, padding="same"),
        plugrad.relu,
        nn.MaxPooling2D(2),
        nn.Flatten(),
        nn.Dense(10),
    )
    params, optimizer = model.init(0, (8, 8, 1)), plugrad.optimizers.Adam(0.003)
    rng = np.random.default_rng(0)
    x = plugrad.asarray(rng.uniform(size=(64, 8, 8, 1)).astype(np.float32))
    y = plugrad.asarray(rng.integers(10, size=64).astype(np.int32))

    def step(x: plugrad.Tensor, y: plugrad.Tensor) -> plugrad.Tensor:
        def loss() -> plugrad.Tensor:
            return nn.losses.sparse_softmax_cross_entropy(y, model(params, x))

        return optimizer.minimize(loss, nn.leaves(params))

    return Work(step, (x, y))


def characters() -> Work:
    length = 32
    attend = nn.Residual(nn.LayerNorm(), nn.MultiHeadAttention(4, 8, causal=True))
    think = nn.Residual(nn.LayerNorm(), nn.Dense(128, plugrad.relu), nn.Dense(32))
    start = nn.Embedding(60, 32), nn.PositionEmbedding(length)
    model = nn.Sequential(*start, attend, think, attend, think, nn.LayerNorm(), nn.Dense(60))
    params, optimizer = model.init(0, (length,)), plugrad.optimizers.Adam(0.003)
    cut = np.random.default_rng(0).integers(60, size=(16, length + 1)).astype(np.int32)
    x, y = plugrad.asarray(cut[:, :-1]), plugrad.asarray(cut[:, 1:])

    def step(x: plugrad.Tensor, y: plugrad.Tensor) -> plugrad.Tensor:
        def loss() -> plugrad.Tensor:
            return nn.losses.sparse_softmax_cross_entropy(y, model(params, x, nn.INFERENCE))

        return optimizer.minimize(loss, nn.leaves(params))

    return Work(step, (x, y))


def ode() -> Work:
    """A thousand steps of 32 numbers, with the gradient."""
    weights = plugrad.asarray(np.random.default_rng(0).normal(size=(32, 32)).astype("f4") * 0.1)
    start = plugrad.asarray(np.linspace(-1, 1, 32, dtype="f4"))

    def loss(weights: plugrad.Tensor, start: plugrad.Tensor) -> plugrad.Tensor:
        def step(x: plugrad.Tensor, _: None) -> tuple[plugrad.Tensor, None]:
            return x + 0.01 * plugrad.tanh(x @ weights), None

        last, _ = plugrad.scan(step, start, length=1000)
        return plugrad.sum(last * last)

    return Work(plugrad.grads(loss), (weights, start))


def recurrent(layer: nn.GRU | nn.LSTM) -> Work:
    """A hundred steps of a batch, with the gradients."""
    params = layer.init(0, (100, 32))
    x = plugrad.asarray(np.random.default_rng(0).normal(size=(32, 100, 32)).astype("f4"))

    def step(x: plugrad.Tensor) -> Any:
        loss = lambda: plugrad.mean(plugrad.square(layer(params, x)))  # noqa: E731
        return plugrad.variable_grads(loss, nn.leaves(params))

    return Work(step, (x,))


def bodies() -> Work:
    """The forces between a thousand bodies, as the gradient of their energy."""
    rng = np.random.default_rng(0)
    places = plugrad.asarray(rng.normal(size=(1000, 3)).astype("f4"))
    masses = plugrad.asarray(rng.uniform(size=1000).astype("f4"))

    def energy(places: plugrad.Tensor, masses: plugrad.Tensor) -> plugrad.Tensor:
        between = places[:, None, :] - places[None, :, :]
        squares = plugrad.sum(between * between, axis=-1) + 0.01
        return plugrad.sum(masses[:, None] * masses[None, :] * plugrad.rsqrt(squares))

    return Work(plugrad.grad(energy), (places, masses))


def options() -> Work:
    """The prices of a million options, and how they change: Black and Scholes."""
    rng = np.random.default_rng(0)
    limits = ((80, 120), (80, 120), (0.1, 2))
    given = [plugrad.asarray(rng.uniform(*each, 1_000_000).astype("f4")) for each in limits]

    def price(spot: plugrad.Tensor, strike: plugrad.Tensor, years: plugrad.Tensor) -> Any:
        spread = 0.2 * plugrad.sqrt(years)
        upper = (plugrad.log(spot / strike) + 0.03 * years) / spread
        first, second = (0.5 + 0.5 * plugrad.erf(d * 0.5**0.5) for d in (upper, upper - spread))
        return plugrad.sum(spot * first - strike * plugrad.exp(-0.01 * years) * second)

    return Work(plugrad.grads(price), tuple(given))


def images() -> Work:
    """The channels of a batch of images are normalized."""
    x = plugrad.asarray(np.random.default_rng(0).uniform(size=(16, 128, 128, 3)).astype("f4"))
    mean, deviation = plugrad.asarray([0.4, 0.5, 0.6]), plugrad.asarray([0.2, 0.2, 0.3])
    return Work(lambda x: (x - mean) / deviation, (x,))


def ode_in_jax() -> Callable[[], Any]:
    """Return the same thousand steps, compiled by jax."""
    jax: Any = import_module("jax")

    def loss(weights: Any, start: Any) -> Any:
        def step(x: Any, _: None) -> Any:
            return x + 0.01 * jax.numpy.tanh(x @ weights), None

        last, _ = jax.lax.scan(step, start, None, length=1000)
        return jax.numpy.sum(last * last)

    compiled = jax.jit(jax.grad(loss, argnums=(0, 1)))
    arrays = [jax.numpy.asarray(x.numpy()) for x in ode().args]
    return lambda: jax.block_until_ready(compiled(*arrays))


WORK: dict[str, Callable[[], Work]] = {
    "D3": d3,
    "W1": lambda: training(workloads.mlp(), peer_plugrad.mlp),
    "W2": lambda: training(workloads.convnet(), peer_plugrad.convnet),
    "W5": w5,
    "digits": digits,
    "characters": characters,
    "ode": ode,
    "GRU": lambda: recurrent(nn.GRU(64)),
    "LSTM": lambda: recurrent(nn.LSTM(64)),
    "bodies": bodies,
    "options": options,
    "images": images,
}


def first_call(work: Work) -> float:
    """Return the seconds of a first call, which traces, compiles and runs."""
    run = plugrad.jit(work.function)
    begin = time.process_time()
    run(*work.args)
    return time.process_time() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", default=list(WORK))
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--host", action="store_true")
    parser.add_argument("--jax", action="store_true")
    arguments = parser.parse_args()
    plugrad.use(arguments.backend)
    backend = plugrad.which().backend
    head = ("eager ms", "replay ms", "jit ms", "÷ eager", "trace ms", "compile ms")
    print(f"{'':12}{''.join(f'{word:>11}' for word in head)}")
    ratios: list[float] = []
    for name in arguments.names:
        work = WORK[name]()
        work.function(*work.args)
        jitted, replayed = plugrad.jit(work.function), plugrad.jit(work.function)
        with plugrad.config.override("jit", "replay"):
            replayed(*work.args)
        jitted(*work.args)
        compiled = min(first_call(work) for _ in range(3))
        traces = []
        for _ in range(8):
            again = plugrad.jit(work.function)
            begin = time.process_time()
            again.graph(*work.args)
            traces.append(time.process_time() - begin)

        def replay(work: Work = work, run: Any = replayed) -> Any:
            with plugrad.config.override("jit", "replay"):
                return run(*work.args)

        sides = {
            "eager": Side(lambda w=work: w.function(*w.args), finish=backend.synchronize),
            "replay": Side(replay, finish=backend.synchronize),
            "jit": Side(lambda w=work, j=jitted: j(*w.args), finish=backend.synchronize),
        }
        clock = time.thread_time if arguments.host else time.process_time
        if arguments.jax and name == "ode":
            sides["jax"], clock = Side(ode_in_jax()), time.perf_counter
        times = take_turns(sides, arguments.rounds, clock)
        eager, replay_ms, jit = (times[side].least for side in ("eager", "replay", "jit"))
        ratios.append(jit / eager)
        trace = min(traces) * 1e3
        row = (eager, replay_ms, jit, jit / eager, trace, max(compiled * 1e3 - trace - jit, 0))
        print(f"{name:12}{''.join(f'{number:11.3f}' for number in row)}", flush=True)
        if "jax" in times:
            print(f"{'in jax.jit':34}{times['jax'].least:11.3f}{jit / times['jax'].least:11.3f} x")
    print(f"{'mean':45}{mean(ratios):11.3f}")


if __name__ == "__main__":
    main()
