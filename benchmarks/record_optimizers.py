"""Record how torch.optim moves two weights on a fixed problem, its schedules and averages: tests/core/torch_optim.json.

The bench group brings torch (``make bench`` installs it). plugrad's tests compare with the record.
"""

import json
from pathlib import Path

import torch
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

RECORD_FILE = Path(__file__).parents[1] / "tests" / "core" / "torch_optim.json"
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

OPTIMIZERS_WITH_PARAMETER_GROUPS = {
    "AdamW": (
        *(torch.optim.AdamW, {"lr": 0.1, "betas": (0.8, 0.95), "weight_decay": 0.1}),
        {"lr": 0.02, "betas": (0.5, 0.95), "weight_decay": 0.0},
    ),
    "Momentum": (torch.optim.SGD, {"lr": 0.02, "momentum": 0.8}, {"lr": 0.05, "momentum": 0.5}),
}
"""Optimizers whose second weight has coefficients of its own."""


def quadratic(v: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Return a value that is curved differently along each element."""
    target = torch.tensor([0.5, -1.5, 3.0], dtype=v.dtype)
    scale = torch.tensor([1.0, 2.0, 3.0], dtype=v.dtype)
    return ((v - target) ** 2 * scale).sum() + torch.sin(w * v).sum() + (w * w).sum()


def record_path(make_optimizer, settings, second_settings=None) -> list[list[float]]:
    """Return the elements of two weights after each step; the second weight may have its own settings."""
    v = torch.tensor([2.0, 1.0, -1.0], dtype=torch.float64, requires_grad=True)
    w = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    optimizer = make_optimizer(
        [{"params": [v]}, {"params": [w], **(second_settings or {})}], **settings
    )
    places = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        quadratic(v, w).backward()
        optimizer.step()
        places.append([*v.tolist(), w.item()])
    return places


def rosenbrock(w: torch.Tensor) -> torch.Tensor:
    """Return the value of Rosenbrock's function, whose minimum is in a curved valley."""
    return (1 - w[0]) ** 2 + 100 * (w[1] - w[0] ** 2) ** 2


def logistic_loss(w: torch.Tensor) -> torch.Tensor:
    """Return the loss of a logistic regression of 12 examples, with weight decay."""
    x = torch.sin(torch.arange(36, dtype=w.dtype) * 1.7).reshape(12, 3)
    y = (torch.arange(12) % 3 > 0).to(w.dtype)
    logits = x @ w
    return torch.nn.functional.binary_cross_entropy_with_logits(logits, y) + 0.01 * (w * w).sum()


def find_minimum(function, start: list[float]) -> dict:
    """Return the point at which L-BFGS ends, the value there, and the calls of the function."""
    w = torch.tensor(start, dtype=torch.float64, requires_grad=True)
    settings = {"max_iter": 100, "history_size": 10, "line_search_fn": "strong_wolfe"}
    optimizer = torch.optim.LBFGS([w], **settings, tolerance_change=1e-14)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        value = function(w)
        value.backward()
        return value

    optimizer.step(closure)
    calls = optimizer.state[w]["func_evals"]
    return {"place": w.tolist(), "value": function(w).item(), "evaluations": calls}


def record_learning_rates(make_schedule, settings, step_count: int) -> list[float]:
    """Return the learning rate of each step; the first step comes before the schedule's first move."""
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.5)
    scheduler = make_schedule(optimizer, **settings)
    rates = []
    for _ in range(step_count):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return rates


def record_averages(weight_values: list[float], decay: float) -> list[float]:
    """Return the exponential moving average after each update, of a weight that has these values."""
    model = torch.nn.Linear(1, 1, bias=False, dtype=torch.float64)
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(decay))
    found = []
    for value in weight_values:
        torch.nn.init.constant_(model.weight, value)
        average.update_parameters(model)
        found.append(average.module.weight.item())
    return found


if __name__ == "__main__":
    paths = {name: record_path(*made) for name, made in OPTIMIZERS.items()}
    groups = {name: record_path(*made) for name, made in OPTIMIZERS_WITH_PARAMETER_GROUPS.items()}
    minima = {
        "rosenbrock": find_minimum(rosenbrock, [-1.2, 1.0]),
        "regression": find_minimum(logistic_loss, [0.0, 0.0, 0.0]),
    }
    rates = torch.optim.lr_scheduler
    schedules = {
        "CosineDecayRestarts": record_learning_rates(
            rates.CosineAnnealingWarmRestarts, {"T_0": 4, "T_mult": 2, "eta_min": 0.05}, 14
        ),
        "OneCycle": record_learning_rates(
            rates.OneCycleLR,
            {"max_lr": 0.5, "total_steps": 10, "div_factor": 25.0, "final_div_factor": 100.0},
            9,
        ),
    }
    values = [1.0, -2.25, 1.0, 6.04, 5.226]
    record = {
        "torch": torch.__version__,
        "paths": paths,
        "groups": groups,
        "minima": minima,
        "schedules": schedules,
        "values": values,
        "averages": record_averages(values, 0.6),
    }
    RECORD_FILE.write_text(json.dumps(record, indent=1) + "\n")
