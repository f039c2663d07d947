"""The workloads in plugrad's public API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import workloads

import plugrad

Step = Callable[[], Any]


def chain(a: Any) -> Any:
    """Ten ops: multiply and add, five times."""
    y = a
    for _ in range(5):
        y = y * a
        y = y + a
    return y


def add_steps() -> tuple[Step, Step]:
    """D1 and D2: adds of four elements, and the same while a gradient is being recorded."""
    a, b = map(plugrad.asarray, workloads.pair())

    def plain() -> None:
        for _ in range(workloads.CALLS):
            a + b

    def under_gradient(x: plugrad.Tensor) -> plugrad.Tensor:
        for _ in range(workloads.CALLS):
            x + b
        return x

    recorded = plugrad.grad(under_gradient)
    ones = plugrad.ones_like(a)
    return plain, lambda: recorded(a, dy=ones)


def chain_step() -> tuple[Step, Callable[[], list[float]]]:
    """D3: the chain forward and backward."""
    a = plugrad.asarray(workloads.pair()[0])
    gradient, ones = plugrad.grad(chain), plugrad.ones_like(a)

    def step() -> None:
        for _ in range(workloads.CHAINS):
            gradient(a, dy=ones)

    return step, lambda: [plugrad.sum(gradient(a, dy=ones)).item()]


def training(
    task: workloads.Training,
    predict: Callable[[plugrad.Tensor, dict[str, plugrad.Variable]], plugrad.Tensor],
) -> tuple[Step, Callable[[], list[float]]]:
    """One step of gradient descent on a network, and the loss after five steps."""
    x = plugrad.asarray(task.x)
    labels = plugrad.one_hot(task.labels, 10)
    weights = {name: plugrad.Variable(value, name=name) for name, value in task.weights.items()}
    optimizer = plugrad.optimizers.SGD(task.learning_rate)

    def step() -> float:
        def loss() -> plugrad.Tensor:
            return plugrad.losses.softmax_cross_entropy(labels, predict(x, weights))

        return optimizer.minimize(loss, list(weights.values())).item()

    return step, lambda: [[step() for _ in range(5)][-1]]


def mlp(x: plugrad.Tensor, w: dict[str, plugrad.Variable]) -> plugrad.Tensor:
    """W1's logits."""
    h = plugrad.relu(x @ w["w0"] + w["b0"])
    h = plugrad.relu(h @ w["w1"] + w["b1"])
    return h @ w["w2"] + w["b2"]


def convnet(x: plugrad.Tensor, w: dict[str, plugrad.Variable]) -> plugrad.Tensor:
    """W2's logits."""
    h = plugrad.max_pool(plugrad.relu(plugrad.conv2d(x, w["k0"], pad="same") + w["c0"]), 2)
    h = plugrad.max_pool(plugrad.relu(plugrad.conv2d(h, w["k1"], pad="same") + w["c1"]), 2)
    return h.reshape(64, -1) @ w["w"] + w["b"]


def all_workloads() -> dict[str, tuple[Step, Callable[[], list[float]] | None]]:
    """Return each workload's step, and a function that returns values to check."""
    plain, recorded = add_steps()
    return {
        "D1": (plain, None),
        "D2": (recorded, None),
        "D3": chain_step(),
        "W1": training(workloads.mlp(), mlp),
        "W2": training(workloads.convnet(), convnet),
    }
