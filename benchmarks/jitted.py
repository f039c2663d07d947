"""Compare each workload untraced and under `plugrad.jit`, in one run, with the times of tracing and compiling.

    python benchmarks/jitted.py                     on cpu
    python benchmarks/jitted.py --backend wasm
    python benchmarks/jitted.py W1 W5 --rounds 40   some of them, measured for longer
    python benchmarks/jitted.py W1 --backend webgpu --host
                                                    only what the thread of the program computes until a call returns
    python benchmarks/jitted.py ode GRU --peers jax,torch
                                                    beside the same programs in jax.jit and eager PyTorch

Times are of the process, on one thread, the least of several turns.
"""

from __future__ import annotations

import argparse
import os
import time
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("PLUGRAD_WASM_THREADS", "1")

import numpy as np
import peer_plugrad
import programs
import workloads
from measuring import Side, geometric_mean, take_turns

import plugrad
import plugrad_nn as nn

if TYPE_CHECKING:
    from collections.abc import Callable


class Workload(NamedTuple):
    """A function and the arguments of a call."""

    function: Callable[..., Any]
    args: tuple[Any, ...] = ()


def make_small_op_gradients() -> Workload:
    """Return the gradient of ten ops on four elements (D3)."""
    a = plugrad.asarray(workloads.small_pair()[0])
    ones = plugrad.ones_like(a)
    gradient = plugrad.grad(workloads.multiply_add_chain)
    return Workload(lambda a, ones: gradient(a, dy=ones), (a, ones))


def make_training_step(task: workloads.Training, predict: Callable[..., Any]) -> Workload:
    """Return a training step of a network (W1 or W2)."""
    x, labels = plugrad.asarray(task.x), plugrad.one_hot(task.labels, 10)
    weights = {name: plugrad.Variable(value, name=name) for name, value in task.weights.items()}
    optimizer = plugrad.optimizers.SGD(task.learning_rate)

    def step(x: plugrad.Tensor, labels: plugrad.Tensor) -> plugrad.Tensor:
        return optimizer.minimize(
            lambda: plugrad.losses.softmax_cross_entropy(labels, predict(x, weights)),
            list(weights.values()),
        )

    return Workload(step, (x, labels))


def make_mobilenet() -> Workload:
    """Return inference with MobileNet (W3)."""
    function, image = peer_plugrad.mobilenet_function()
    return Workload(function, (image,))


def make_transformer() -> Workload:
    """Return a transformer block with gradients (W4)."""
    weights = {name: plugrad.asarray(value) for name, value in workloads.transformer().items()}
    return Workload(
        plugrad.value_and_grad(lambda w: peer_plugrad.block_loss(w, workloads.ATTENTION_HEADS)),
        (weights,),
    )


def make_large_elementwise() -> Workload:
    """Return ten elementwise ops on a million elements (W5)."""
    kept: list[Workload] = []

    def keep(function: Callable[..., Any]) -> Callable[..., Any]:
        kept.append(Workload(function))
        return function

    x = plugrad.asarray(workloads.random_uniform(51, (1_000_000,)))
    workloads.large_workloads(plugrad, plugrad.asarray, compile=keep)["W5"]()
    return Workload(kept[0].function, (x,))


def make_program(make_function: Callable[..., Any]) -> Workload:
    """Return a program of `programs` as a workload in plugrad."""
    function, arrays = make_function(programs.plugrad_namespace())
    return Workload(function, tuple(map(plugrad.asarray, arrays)))


def make_digits_step() -> Workload:
    """Return a training step of a convnet for images of 8 x 8 digits."""
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

    return Workload(step, (x, y))


def make_characters_step() -> Workload:
    """Return a training step of a small language model of characters."""
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

    return Workload(step, (x, y))


def make_jax_program(program_name: str) -> Callable[[], Any]:
    """Return a program compiled by JAX."""
    jax: Any = import_module("jax")
    function, arrays = programs.PROGRAMS[program_name](programs.jax_namespace())
    compiled, tensors = jax.jit(function), [*map(jax.numpy.asarray, arrays)]
    return lambda: jax.block_until_ready(compiled(*tensors))


def make_torch_program(program_name: str) -> Callable[[], Any]:
    """Return a program in eager PyTorch."""
    torch: Any = import_module("torch")
    function, arrays = programs.PROGRAMS[program_name](programs.torch_namespace())
    tensors = [*map(torch.from_numpy, arrays)]
    return lambda: function(*tensors)


def make_torch_compiled_program(program_name: str) -> Callable[[], Any]:
    """Return a program compiled by PyTorch; of loops only one iteration, as unrolled loops compile for minutes."""
    torch: Any = import_module("torch")
    namespace = programs.torch_namespace()
    if program_name in PROGRAMS_WITH_LOOPS:
        scan = namespace.scan
        namespace = namespace._replace(
            scan=lambda step, *rest: scan(torch.compile(step, dynamic=False), *rest)
        )
    function, arrays = programs.PROGRAMS[program_name](namespace)
    compiled = function if program_name in PROGRAMS_WITH_LOOPS else torch.compile(function)
    tensors = [*map(torch.from_numpy, arrays)]
    return lambda: compiled(*tensors)


PROGRAMS_WITH_LOOPS = {"ode", "GRU", "LSTM", "monte carlo"}
"""The names of the programs that have a loop."""
PEERS = {
    "jax": make_jax_program,
    "torch": make_torch_program,
    "torch.compile": make_torch_compiled_program,
}
WORKLOADS: dict[str, Callable[[], Workload]] = {
    "D3": make_small_op_gradients,
    "W1": lambda: make_training_step(workloads.mlp(), peer_plugrad.mlp),
    "W2": lambda: make_training_step(workloads.convnet(), peer_plugrad.convnet),
    "W3": make_mobilenet,
    "W4": make_transformer,
    "W5": make_large_elementwise,
    "digits": make_digits_step,
    "characters": make_characters_step,
    **{name: partial(make_program, make) for name, make in programs.PROGRAMS.items()},
}


def time_first_call(workload: Workload) -> float:
    """Return the processor seconds of a first call, including tracing and compilation."""
    run = plugrad.jit(workload.function)
    begin = time.process_time()
    run(*workload.args)
    return time.process_time() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", default=list(WORKLOADS))
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--host", action="store_true")
    parser.add_argument(
        "--peers", default="", help="of jax, torch and torch.compile, with commas between"
    )
    arguments = parser.parse_args()
    plugrad.use(arguments.backend)
    backend = plugrad.which().backend
    if (
        "jax" in arguments.peers
    ):  # it makes as many threads as the processors that it may use when it starts
        allowed = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {min(allowed)})
        import_module("jax").devices()
        os.sched_setaffinity(0, allowed)
    head = ("eager ms", "replay ms", "jit ms", "÷ eager", "trace ms", "÷ eager", "compile ms")
    print(f"{'':12}{''.join(f'{word:>11}' for word in head)}")
    ratios: list[float] = []
    for name in arguments.names:
        work = WORKLOADS[name]()
        work.function(*work.args)
        jitted, replayed = plugrad.jit(work.function), plugrad.jit(work.function)
        compiled = min(time_first_call(work) for _ in range(3))
        sides = {
            "eager": Side(lambda w=work: w.function(*w.args), finish=backend.synchronize),
            "replay": Side(
                lambda w=work, r=replayed: r(*w.args),
                lambda: plugrad.config.override("jit", "replay"),
                backend.synchronize,
            ),
            "jit": Side(lambda w=work, j=jitted: j(*w.args), finish=backend.synchronize),
            "trace": Side(lambda w=work: plugrad.jit(w.function).graph(*w.args)),
        }
        clock = time.thread_time if arguments.host else time.process_time
        peers = [peer for peer in arguments.peers.split(",") if peer and name in programs.PROGRAMS]
        sides |= {peer: Side(PEERS[peer](name)) for peer in peers}
        times = take_turns(sides, arguments.rounds, clock)
        eager, replay_ms, jit, trace = (
            times[side].minimum for side in ("eager", "replay", "jit", "trace")
        )
        ratios.append(jit / eager)
        compiling = max(compiled * 1e3 - trace - jit, 0)
        row = (eager, replay_ms, jit, jit / eager, trace, trace / eager, compiling)
        print(f"{name:12}{''.join(f'{number:11.3f}' for number in row)}", flush=True)
        for peer in peers:
            theirs = times[peer].minimum
            print(f"{f'  in {peer}':34}{theirs:11.3f}{jit / theirs:11.3f} ×")
    print(f"{'mean':45}{geometric_mean(ratios):11.3f}")


if __name__ == "__main__":
    main()
