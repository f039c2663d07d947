"""Workloads in JAX, compiled by its jit."""

from __future__ import annotations

import os

os.environ["JAX_PLATFORMS"] = "cpu"

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import workloads
from workloads import Peer, Step

if TYPE_CHECKING:
    from collections.abc import Callable


def peers() -> list[Peer]:
    """Return JAX, on one thread: it makes as many as the processors that it may use when it starts."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    jax.devices()
    os.sched_setaffinity(0, allowed)
    return [Peer("jax-jit", jax.__version__, STEPS)]


def training(task: workloads.Training, predict: Callable[..., Any]) -> Step:
    """One step of gradient descent on a network; the check is the loss after five steps."""
    x, labels = jnp.asarray(task.x), jax.nn.one_hot(task.labels, 10)
    weights: Any = {name: jnp.asarray(value) for name, value in task.weights.items()}

    def loss(weights: Any) -> Any:
        return -(labels * jax.nn.log_softmax(predict(x, weights))).sum(-1).mean()

    @jax.jit
    def stepped(weights: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(weights)
        return value, jax.tree.map(lambda w, g: w - task.learning_rate * g, weights, gradients)

    def run() -> float:
        nonlocal weights
        value, weights = stepped(weights)
        return float(value)

    return Step(run, lambda: [run() for _ in range(5)][-1:])


def mlp(x: Any, w: Any) -> Any:
    """W1's logits."""
    h = jax.nn.relu(x @ w["w0"] + w["b0"])
    h = jax.nn.relu(h @ w["w1"] + w["b1"])
    return h @ w["w2"] + w["b2"]


def convnet(x: Any, w: Any) -> Any:
    """W2's logits."""
    for i in "01":
        x = jax.lax.conv_general_dilated(
            x, w[f"k{i}"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        x = jax.nn.relu(x + w[f"c{i}"])
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return x.reshape(64, -1) @ w["w"] + w["b"]


STEPS: dict[str, Callable[[], Step]] = {
    "W1": lambda: training(workloads.mlp(), mlp),
    "W2": lambda: training(workloads.convnet(), convnet),
    **workloads.large(jnp, jnp.asarray, jax.block_until_ready, jax.jit),
}
