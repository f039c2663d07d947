"""Compare `plugrad.vmap` with torch.func and JAX: per-example gradients, Jacobians, ensembles, einsum.

    python benchmarks/batched.py                       everything, on cpu
    python benchmarks/batched.py jacobian einsum       what has one of the words in its name
    python benchmarks/batched.py ensemble --backend webgpu

One run, one thread: all sides take turns, and the ratio of the least times of the process counts. The values are
compared first. The ensemble is compared with a loop over its members.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"
os.environ.setdefault(
    "XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
)

import argparse  # noqa: E402 - the number of threads is read when NumPy is imported
import importlib  # noqa: E402
import itertools  # noqa: E402
import time  # noqa: E402
from typing import TYPE_CHECKING, Any, NamedTuple  # noqa: E402

import numpy as np  # noqa: E402
import workloads  # noqa: E402
from measuring import Side, geometric_mean, take_turns  # noqa: E402

import plugrad  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable


def import_if_installed(name: str) -> Any:
    """Return a module, or None if it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


torch, jax, jnp = map(import_if_installed, ("torch", "jax", "jax.numpy"))
if torch is not None:
    torch.set_num_threads(1)

Sides = dict[str, "Callable[[], Any]"]
"""By framework: the function that computes a case."""
RNG = np.random.default_rng(0)


class Case(NamedTuple):
    """Equivalent functions in several frameworks, plugrad's first."""

    sides: Sides
    tolerance: float = 1e-3


def random_array(*shape: int, scale: float = 1.0) -> Any:
    """Return an array of normal numbers, multiplied by `scale`."""
    return (RNG.normal(size=shape) * scale).astype("f4")


def make_per_example_gradients_case() -> Case:
    task = workloads.mlp()

    def network(x: Any, w: Any, relu: Any) -> Any:
        h = relu(x @ w["w0"] + w["b0"])
        h = relu(h @ w["w1"] + w["b1"])
        return h @ w["w2"] + w["b2"]

    def loss(w: Any, x: Any, y: Any) -> Any:
        z = network(x, w, plugrad.relu)
        return plugrad.losses.softmax_cross_entropy(y[None], z[None])

    f = plugrad.vmap(plugrad.grad(loss), in_axes=(None, 0, 0))
    jitted = plugrad.jit(f)
    w = {n: plugrad.asarray(v) for n, v in task.weights.items()}
    x, y = plugrad.asarray(task.x), plugrad.one_hot(task.labels, 10)
    sides: Sides = {
        "plugrad": lambda: list(f(w, x, y).values()),
        "jit": lambda: list(jitted(w, x, y).values()),
    }
    if torch is not None:
        tw = {n: torch.tensor(v) for n, v in task.weights.items()}
        tx, ty = torch.tensor(task.x), torch.tensor(task.labels.astype("i8"))

        def torch_loss(w: Any, x: Any, y: Any) -> Any:
            z = network(x, w, torch.relu)
            return torch.nn.functional.cross_entropy(z[None], y[None])

        g = torch.func.vmap(torch.func.grad(torch_loss), in_dims=(None, 0, 0))
        sides["torch"] = lambda: list(g(tw, tx, ty).values())
    if jax is not None:
        jw = {n: jnp.asarray(v) for n, v in task.weights.items()}
        jx, jy = jnp.asarray(task.x), jnp.asarray(task.labels)

        def jax_loss(w: Any, x: Any, y: Any) -> Any:
            return -jax.nn.log_softmax(network(x, w, jax.nn.relu))[y]

        h = jax.jit(jax.vmap(jax.grad(jax_loss), in_axes=(None, 0, 0)))

        def call_jax() -> list[Any]:
            found = jax.block_until_ready(h(jw, jx, jy))
            return [found[n] for n in task.weights]

        sides["jax.jit"] = call_jax
    return Case(sides)


def random_layers(*sizes: int) -> list[Any]:
    return [random_array(n, m, scale=n**-0.5) for n, m in itertools.pairwise(sizes)]


def make_jacobian_case() -> Case:
    weights, point = random_layers(128, 128, 128, 64), random_array(128)

    def network(x: Any, ws: Any, tanh: Any) -> Any:
        return tanh(tanh(x @ ws[0]) @ ws[1]) @ ws[2]

    ws, x = [plugrad.asarray(w) for w in weights], plugrad.asarray(point)
    f = plugrad.jacobian(lambda x: network(x, ws, plugrad.tanh))
    jitted = plugrad.jit(f)
    sides: Sides = {"plugrad": lambda: [f(x)], "jit": lambda: [jitted(x)]}
    if torch is not None:
        tws, tx = [torch.tensor(w) for w in weights], torch.tensor(point)
        g = torch.func.jacrev(lambda x: network(x, tws, torch.tanh))
        sides["torch"] = lambda: [g(tx)]
    if jax is not None:
        jws, jx = [jnp.asarray(w) for w in weights], jnp.asarray(point)
        h = jax.jit(jax.jacrev(lambda x: network(x, jws, jnp.tanh)))
        sides["jax.jit"] = lambda: [jax.block_until_ready(h(jx))]
    return Case(sides)


def make_hessian_case() -> Case:
    matrix, point = random_array(100, 100, scale=0.1), random_array(100)

    def energy(x: Any, a: Any, xp: Any) -> Any:
        return xp.sum(xp.tanh(x @ a) ** 2) + xp.sum(xp.sin(x) * x)

    a, x = plugrad.asarray(matrix), plugrad.asarray(point)
    f = plugrad.hessian(lambda x: energy(x, a, plugrad))
    jitted = plugrad.jit(f)
    sides: Sides = {"plugrad": lambda: [f(x)], "jit": lambda: [jitted(x)]}
    if torch is not None:
        ta, tx = torch.tensor(matrix), torch.tensor(point)
        g = torch.func.hessian(lambda x: energy(x, ta, torch))
        sides["torch"] = lambda: [g(tx)]
    if jax is not None:
        ja, jx = jnp.asarray(matrix), jnp.asarray(point)
        h = jax.jit(jax.hessian(lambda x: energy(x, ja, jnp)))
        sides["jax.jit"] = lambda: [jax.block_until_ready(h(jx))]
    return Case(sides)


EINSUMS = {
    "attention": ("bhid,bhjd->bhij", (4, 4, 64, 32), (4, 4, 64, 32)),
    "bilinear": ("bi,oij,bj->bo", (64, 32), (16, 32, 32), (64, 32)),
    "chain": ("ab,bc,cd,de->ae", (8, 256), (256, 64), (64, 256), (256, 8)),
    "trace": ("bii->b", (64, 32, 32)),
    "outer": ("bi,bj->ij", (64, 128), (64, 128)),
}


def make_einsum_case(name: str) -> Case:
    equation, *shapes = EINSUMS[name]
    arrays = [random_array(*shape) for shape in shapes]
    xs = [plugrad.asarray(a) for a in arrays]
    sides: Sides = {"plugrad": lambda: [plugrad.einsum(equation, *xs)]}
    if torch is not None:
        ts = [torch.tensor(a) for a in arrays]
        sides["torch"] = lambda: [torch.einsum(equation, *ts)]
    return Case(sides)


ENSEMBLE_SIZE = 32


def make_ensemble_case() -> Case:
    shapes = {"w0": (8, 16), "b0": (16,), "w1": (16, 16), "b1": (16,), "w2": (16, 1), "b2": (1,)}
    starts = {n: random_array(ENSEMBLE_SIZE, *s, scale=0.3) for n, s in shapes.items()}
    x, y = plugrad.asarray(random_array(32, 8)), plugrad.asarray(random_array(32, 1))

    def train(w: Any, x: Any, y: Any) -> Any:
        def loss(w: Any) -> Any:
            h = plugrad.tanh(x @ w["w0"] + w["b0"])
            h = plugrad.tanh(h @ w["w1"] + w["b1"])
            return plugrad.mean(plugrad.square(h @ w["w2"] + w["b2"] - y))

        value, gradients = plugrad.value_and_grad(loss)(w)
        return value, {n: w[n] - 0.1 * gradients[n] for n in w}

    together = plugrad.jit(plugrad.vmap(train, in_axes=(0, None, None)))
    alone = plugrad.jit(train)
    all_of_them = {n: plugrad.asarray(s) for n, s in starts.items()}
    each = [{n: plugrad.asarray(s[i]) for n, s in starts.items()} for i in range(ENSEMBLE_SIZE)]

    def train_batched() -> Any:
        w, losses = all_of_them, None
        for _ in range(5):
            losses, w = together(w, x, y)
        return [losses]

    def train_in_loop() -> Any:
        losses: list[Any] = []
        for w in each:
            value = None
            for _ in range(5):
                value, w = alone(w, x, y)
            losses.append(value)
        return [plugrad.stack(losses)]

    return Case({"plugrad": train_batched, "loop": train_in_loop})


CASES: dict[str, Callable[[], Case]] = {
    "per-example gradients of W1": make_per_example_gradients_case,
    "jacobian 128 -> 64": make_jacobian_case,
    "hessian of 100": make_hessian_case,
    **{f"einsum {name}": lambda name=name: make_einsum_case(name) for name in EINSUMS},
    "ensemble of 32": make_ensemble_case,
}


def as_numpy_arrays(outputs: Any) -> list[Any]:
    return [np.asarray(y.numpy() if hasattr(y, "numpy") else y) for y in outputs]


def main() -> None:
    """Print the times of each framework, and the ratios of plugrad's to the others'."""
    parser = argparse.ArgumentParser(
        description="Compare plugrad.vmap with torch.func, JAX and loops."
    )
    parser.add_argument("words", nargs="*")
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    plugrad.use(options.backend)
    ratios: list[float] = []
    for name, make in CASES.items():
        if options.words and not any(word in name for word in options.words):
            continue
        case = make()
        expected = as_numpy_arrays(case.sides["plugrad"]())
        for side, run in case.sides.items():
            for x, y in zip(as_numpy_arrays(run()), expected, strict=True):
                scale = max(1.0, float(np.abs(y).max()))
                np.testing.assert_allclose(
                    x, y, 0, case.tolerance * scale, err_msg=f"{name}, {side}"
                )
        clock = time.process_time if options.backend != "webgpu" else time.perf_counter
        timed = {s: Side(run, finish=plugrad.synchronize) for s, run in case.sides.items()}
        times = take_turns(timed, options.rounds, clock)
        ours = [side for side in ("plugrad", "jit") if side in times]
        parts = [f"{side} {times[side].minimum:.3f} ms" for side in times]
        for other in (side for side in times if side not in ours):
            parts += [
                f"{us} / {other} {times[us].minimum / times[other].minimum:.2f}" for us in ours
            ]
        print(f"{name}: {', '.join(parts)}", flush=True)
        if name.startswith("einsum") and "torch" in times:
            ratios.append(times["plugrad"].minimum / times["torch"].minimum)
    if ratios:
        print(f"einsum / torch in the mean: {geometric_mean(ratios):.2f}")


if __name__ == "__main__":
    main()
