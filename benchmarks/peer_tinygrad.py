"""The cases in tinygrad on WebGPU: reads lines of a case, a mode and a number, and writes milliseconds or values.

The Python that runs this has tinygrad and Dawn, and not plugrad.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ |= {"DEV": "WEBGPU", "TRAINING": "1"}
if "WEBGPU_PATH" not in os.environ:
    import pydawn

    libraries = Path(str(pydawn.__file__)).parent / "lib"
    os.environ["WEBGPU_PATH"] = str(libraries / f"libwebgpu_dawn_{os.uname().machine}.so")

import numpy as np
import workloads
from tinygrad import Device, Tensor, TinyJit, nn
from tinygrad_inputs import CASES_WITH_READ_BACK, Inputs, make_inputs

Step = Callable[[], Any]
"""Runs a case once."""


def apply_ten_ops(x: Tensor) -> Tensor:
    """Return ten chained elementwise ops (W5)."""
    y = ((x * 1.01) + 0.5).abs().sqrt()
    return ((-y).exp() + 1.0).log().tanh() * x


def make_training_step(
    task: workloads.Training,
    x: Tensor,
    weights: dict[str, Tensor],
    predict: Callable[[Tensor, dict[str, Tensor]], Tensor],
) -> Step:
    """Return a function that takes a step of gradient descent and returns the loss."""
    labels = Tensor(task.labels).realize()
    for value in weights.values():
        value.requires_grad = True
    optimizer = nn.optim.SGD(list(weights.values()), lr=task.learning_rate)

    def step() -> Tensor:
        optimizer.zero_grad()
        loss = predict(x, weights).sparse_categorical_crossentropy(labels).backward()
        return loss.realize(*optimizer.schedule_step())

    return step


def mlp() -> Step:
    """Return the training step of the MLP (W1)."""
    task = workloads.mlp()
    weights = {name: Tensor(value).realize() for name, value in task.weights.items()}

    def predict(x: Tensor, w: dict[str, Tensor]) -> Tensor:
        h = (x @ w["w0"] + w["b0"]).relu()
        h = (h @ w["w1"] + w["b1"]).relu()
        return h @ w["w2"] + w["b2"]

    return make_training_step(task, Tensor(task.x).realize(), weights, predict)


def convnet() -> Step:
    """Return the training step of the convolutional network (W2), with channels first as in tinygrad."""
    task = workloads.convnet()
    given = dict(task.weights)
    given["k0"], given["k1"] = (given[name].transpose(3, 2, 0, 1) for name in ("k0", "k1"))
    given["w"] = given["w"].reshape(7, 7, 32, 10).transpose(2, 0, 1, 3).reshape(1568, 10)
    weights = {name: Tensor(np.ascontiguousarray(x)).realize() for name, x in given.items()}
    images = Tensor(np.ascontiguousarray(task.x.transpose(0, 3, 1, 2))).realize()

    def predict(x: Tensor, w: dict[str, Tensor]) -> Tensor:
        h = x.conv2d(w["k0"], w["c0"], padding=1).relu().max_pool2d(2)
        h = h.conv2d(w["k1"], w["c1"], padding=1).relu().max_pool2d(2)
        return h.flatten(1) @ w["w"] + w["b"]

    return make_training_step(task, images, weights, predict)


def add_ten_times(a: Tensor, b: Tensor) -> Step:
    """Return ten additions, each in its own kernel."""

    def step() -> Tensor:
        total = a
        for _ in range(10):
            total = (total + b).realize()
        return total

    return step


def make_cases() -> dict[str, Step]:
    """Return the benchmark cases by name."""
    arrays = make_inputs()
    arrays = arrays._replace(  # with channels first
        image=arrays.image.transpose(0, 3, 1, 2), filter=arrays.filter.transpose(3, 2, 0, 1)
    )
    x = Inputs(*[Tensor(np.ascontiguousarray(array)).realize() for array in arrays])
    return {
        "matmul 512": lambda: (x.left @ x.right).realize(),
        "gelu(x@w+b)": lambda: (x.left @ x.right + x.bias).gelu().realize(),
        "gelu(x*w+b)": lambda: (x.rows * x.scale + x.offset).gelu().realize(),
        "gelu(norm)": lambda: x.logits.layernorm().gelu().realize(),
        "W5": lambda: apply_ten_ops(x.million).realize(),
        "sum": lambda: x.ten_million.sum().realize(),
        "softmax": lambda: x.logits.softmax().realize(),
        "conv 3x3": lambda: x.image.conv2d(x.filter, padding=1).realize(),
        "10 adds": add_ten_times(x.first, x.second),
        "10 adds/dev": add_ten_times(x.first, x.second),
        "W1": mlp(),
        "W2": convnet(),
    }


def main() -> None:
    """Run the workloads that standard input names, until it ends."""
    steps = make_cases()
    jitted = {name: TinyJit(step) for name, step in steps.items()}
    for line in sys.stdin:
        name, mode, repeats = line.rstrip().rsplit(" ", 2)
        step = (jitted if mode == "jit" else steps)[name]
        if mode == "check":
            value = step().numpy().astype(np.float64)
            print(np.abs(value).sum(), flush=True)
            continue
        start = time.perf_counter()
        for _ in range(int(repeats)):
            result = step()
            if name in CASES_WITH_READ_BACK:
                result.numpy()
            else:
                Device[Device.DEFAULT].synchronize()
        print((time.perf_counter() - start) * 1e3, flush=True)


if __name__ == "__main__":
    main()
