"""Record how torch.optim moves two weights on a fixed problem: tests/core/torch_optim.json.

The bench group brings torch (``make bench`` installs it). plugrad's tests compare with the record.
"""

import json
from pathlib import Path

import torch

RECORD = Path(__file__).parents[1] / "tests" / "core" / "torch_optim.json"
STEPS = 20
OPTIMIZERS = {
    "SGD": (torch.optim.SGD, {"lr": 0.05}),
    "Momentum": (torch.optim.SGD, {"lr": 0.02, "momentum": 0.8}),
    "Nesterov": (torch.optim.SGD, {"lr": 0.02, "momentum": 0.8, "nesterov": True}),
    "Adagrad": (torch.optim.Adagrad, {"lr": 0.3, "initial_accumulator_value": 0.1}),
    "Adadelta": (torch.optim.Adadelta, {"lr": 1.0, "rho": 0.9, "eps": 1e-3}),
    "RMSProp": (torch.optim.RMSprop, {"lr": 0.05, "alpha": 0.9, "eps": 1e-4}),
    "RMSProp momentum": (torch.optim.RMSprop, {"lr": 0.02, "alpha": 0.8, "momentum": 0.5}),
    "RMSProp centered": (torch.optim.RMSprop, {"lr": 0.01, "alpha": 0.9, "centered": True}),
    "Adam": (torch.optim.Adam, {"lr": 0.1, "betas": (0.8, 0.95), "eps": 1e-3}),
    "AdamW": (torch.optim.AdamW, {"lr": 0.1, "betas": (0.8, 0.95), "weight_decay": 0.1}),
    "NAdam": (torch.optim.NAdam, {"lr": 0.1, "betas": (0.8, 0.95), "momentum_decay": 0.02}),
    "RAdam": (torch.optim.RAdam, {"lr": 0.1, "betas": (0.8, 0.95), "eps": 1e-3}),
    "Adamax": (torch.optim.Adamax, {"lr": 0.1, "betas": (0.8, 0.95), "eps": 1e-3}),
}

GROUPS = {
    "AdamW": (
        *(torch.optim.AdamW, {"lr": 0.1, "betas": (0.8, 0.95), "weight_decay": 0.1}),
        {"lr": 0.02, "betas": (0.5, 0.95), "weight_decay": 0.0},
    ),
    "Momentum": (torch.optim.SGD, {"lr": 0.02, "momentum": 0.8}, {"lr": 0.05, "momentum": 0.5}),
}
"""Optimizers whose second weight has coefficients of its own."""


def loss(v: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Return a value that is curved differently along each element."""
    target = torch.tensor([0.5, -1.5, 3.0], dtype=v.dtype)
    scale = torch.tensor([1.0, 2.0, 3.0], dtype=v.dtype)
    return ((v - target) ** 2 * scale).sum() + torch.sin(w * v).sum() + (w * w).sum()


def path(make, settings, own=None) -> list[list[float]]:
    """Return the elements of both weights after each step, of which the second one may have own settings."""
    v = torch.tensor([2.0, 1.0, -1.0], dtype=torch.float64, requires_grad=True)
    w = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    optimizer = make([{"params": [v]}, {"params": [w], **(own or {})}], **settings)
    places = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss(v, w).backward()
        optimizer.step()
        places.append([*v.tolist(), w.item()])
    return places


if __name__ == "__main__":
    paths = {name: path(*made) for name, made in OPTIMIZERS.items()}
    groups = {name: path(*made) for name, made in GROUPS.items()}
    record = {"torch": torch.__version__, "paths": paths, "groups": groups}
    RECORD.write_text(json.dumps(record, indent=1) + "\n")
