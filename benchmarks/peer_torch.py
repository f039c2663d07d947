"""The workloads in PyTorch, on the processor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import workloads
from peer_plugrad import chain
from torch.nn import functional

Step = Callable[[], Any]


def tensor(values: workloads.Array) -> torch.Tensor:
    """Return a tensor with a copy of the values."""
    return torch.from_numpy(values.copy())


def add_steps() -> tuple[Step, Step]:
    """D1 and D2."""
    a, b = map(tensor, workloads.pair())
    x = a.clone().requires_grad_()

    def plain() -> None:
        with torch.no_grad():
            for _ in range(workloads.CALLS):
                a + b

    def recorded() -> None:
        for _ in range(workloads.CALLS):
            x + b

    return plain, recorded


def chain_step() -> tuple[Step, Callable[[], list[float]]]:
    """D3."""
    a = tensor(workloads.pair()[0]).requires_grad_()
    one = torch.ones(4)

    def gradient() -> torch.Tensor:
        return torch.autograd.grad(chain(a), a, one)[0]

    def step() -> None:
        for _ in range(workloads.CHAINS):
            gradient()

    return step, lambda: [gradient().sum().item()]


def training(
    task: workloads.Training,
    weights: dict[str, torch.Tensor],
    logits: Callable[[dict[str, torch.Tensor]], torch.Tensor],
) -> tuple[Step, Callable[[], list[float]]]:
    """One step of gradient descent on a network, and the loss after five steps."""
    labels = tensor(task.labels).long()
    for w in weights.values():
        w.requires_grad_()
    optimizer = torch.optim.SGD(weights.values(), lr=task.learning_rate)

    def step() -> float:
        optimizer.zero_grad(set_to_none=True)
        loss = functional.cross_entropy(logits(weights), labels)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step, lambda: [[step() for _ in range(5)][-1]]


def mlp() -> tuple[Step, Callable[[], list[float]]]:
    """W1."""
    task = workloads.mlp()
    x = tensor(task.x)

    def logits(w: dict[str, torch.Tensor]) -> torch.Tensor:
        h = torch.relu(torch.addmm(w["b0"], x, w["w0"]))
        h = torch.relu(torch.addmm(w["b1"], h, w["w1"]))
        return torch.addmm(w["b2"], h, w["w2"])

    return training(task, {name: tensor(value) for name, value in task.weights.items()}, logits)


def convnet() -> tuple[Step, Callable[[], list[float]]]:
    """W2, in PyTorch's own NCHW order; the dense layer's rows are reordered to match."""
    task = workloads.convnet()
    x = tensor(task.x.transpose(0, 3, 1, 2))
    weights = {name: tensor(value) for name, value in task.weights.items()}
    for name in ("k0", "k1"):
        weights[name] = tensor(task.weights[name].transpose(3, 2, 0, 1))
    weights["w"] = tensor(
        task.weights["w"].reshape(7, 7, 32, 10).transpose(2, 0, 1, 3).reshape(1568, 10)
    )

    def logits(w: dict[str, torch.Tensor]) -> torch.Tensor:
        h = functional.max_pool2d(torch.relu(functional.conv2d(x, w["k0"], w["c0"], padding=1)), 2)
        h = functional.max_pool2d(torch.relu(functional.conv2d(h, w["k1"], w["c1"], padding=1)), 2)
        return h.flatten(1) @ w["w"] + w["b"]

    return training(task, weights, logits)


def all_workloads() -> dict[str, tuple[Step, Callable[[], list[float]] | None]]:
    """Return each workload's step, and a function that returns values to check."""
    torch.set_num_threads(1)
    plain, recorded = add_steps()
    return {
        "D1": (plain, None),
        "D2": (recorded, None),
        "D3": chain_step(),
        "W1": mlp(),
        "W2": convnet(),
    }
