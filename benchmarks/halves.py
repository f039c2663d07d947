"""Compare float16 and bfloat16 on a backend of plugrad with PyTorch, eager and on one thread.

    python benchmarks/halves.py                      cpu, all cases in both dtypes
    python benchmarks/halves.py --backend wasm pool  what has a word in its name

Images have their channels last in memory in both. All take turns in one process; the least times count. The values are
compared first: they may differ by two steps of the dtype, relative to the largest one, because each library rounds at
other places.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"
os.environ["PLUGRAD_WASM_THREADS"] = "1"

import argparse  # noqa: E402 - the number of threads is read when NumPy is imported
import sys  # noqa: E402
import time  # noqa: E402
from typing import TYPE_CHECKING, Any, Final, NamedTuple  # noqa: E402

import measuring  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
from torch.nn import functional  # noqa: E402

import plugrad  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

MACHINE_EPSILONS: Final = {"float16": 2.0**-10, "bfloat16": 2.0**-7}
"""By dtype: the distance from 1 to the next larger number."""
SLOW_CALL_MIN_SECONDS: Final = 0.2
"""The seconds from which on a call is measured only once: PyTorch's products of float16 take seconds."""
IMAGE_AXES: Final = (0, 3, 1, 2)
"""The order of an image batch's axes in PyTorch."""
FILTER_AXES: Final = (3, 2, 0, 1)
"""The order of a filter's axes in PyTorch."""


class Case(NamedTuple):
    """A function in plugrad and in PyTorch, and the shapes of its inputs."""

    name: str
    in_plugrad: Callable[..., Any]
    in_torch: Callable[..., Any]
    input_shapes: tuple[tuple[int, ...], ...]
    axes: tuple[tuple[int, ...] | None, ...] = ()
    """The order of each input's axes in PyTorch, if it differs."""
    has_image: bool = False
    """Whether the result is an image, whose channels PyTorch counts second."""


def gradient_in_plugrad(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a plugrad function that computes the gradient of a function's sum for its first input."""

    def loss(*xs: Any) -> Any:
        return plugrad.sum(function(*xs))

    return plugrad.grad(loss, argnums=0)


def gradient_in_torch(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a PyTorch function that computes the gradient of a function's sum for its first input."""

    def compute_gradient(x: Any, *other_inputs: Any) -> Any:
        x = x.detach().requires_grad_()
        (found,) = torch.autograd.grad(function(x, *other_inputs).sum(), x)
        return found

    return compute_gradient


def attend(q: Any, k: Any, v: Any) -> Any:
    """Return attention in plugrad, with the heads before the positions as in PyTorch."""
    return plugrad.attention(q, k, v)


def batch_norm(x: Any, mean: Any, variance: Any, offset: Any, scale: Any) -> Any:
    """Return PyTorch's batch norm with positive statistics."""
    return functional.batch_norm(x, mean, variance, scale, offset, eps=1e-3)


MATRIX_SHAPE: Final = (1000, 1000)
VECTOR_SHAPE: Final = (1_000_000,)
FEATURE_MAP_SHAPE: Final = (8, 56, 56, 64)
ATTENTION_SHAPE: Final = (4, 8, 128, 64)
CASES: Final = (
    Case("product of 1024", plugrad.matmul, torch.matmul, ((1024, 1024),) * 2),
    Case("product of 256", plugrad.matmul, torch.matmul, ((256, 256),) * 2),
    Case("64 products of 64", plugrad.matmul, torch.matmul, ((64, 64, 64),) * 2),
    Case(
        "product with a transpose",
        lambda a, b: plugrad.matmul(a, b, transpose_b=True),
        lambda a, b: a @ b.T,
        ((512, 768), (512, 768)),
    ),
    Case(
        "convolution 3 x 3",
        lambda x, w: plugrad.conv2d(x, w, 1, "same"),
        lambda x, w: functional.conv2d(x, w, padding="same"),
        (FEATURE_MAP_SHAPE, (3, 3, 64, 64)),
        (IMAGE_AXES, FILTER_AXES),
        has_image=True,
    ),
    Case(
        "convolution 1 x 1",
        lambda x, w: plugrad.conv2d(x, w, 1, "same"),
        functional.conv2d,
        (FEATURE_MAP_SHAPE, (1, 1, 64, 128)),
        (IMAGE_AXES, FILTER_AXES),
        has_image=True,
    ),
    Case(
        "attention",
        attend,
        functional.scaled_dot_product_attention,
        (ATTENTION_SHAPE, ATTENTION_SHAPE, ATTENTION_SHAPE),
    ),
    Case(
        "layer norm",
        lambda x, o, s: plugrad.layer_norm(x, offset=o, scale=s, variance_epsilon=1e-3),
        lambda x, o, s: functional.layer_norm(x, x.shape[1:], s, o, eps=1e-3),
        ((1024, 768), (768,), (768,)),
    ),
    Case(
        "batch norm",
        lambda x, m, v, o, s: plugrad.batch_norm(x, m, v, offset=o, scale=s),
        batch_norm,
        (FEATURE_MAP_SHAPE, (64,), (64,), (64,), (64,)),
        (IMAGE_AXES,),
        has_image=True,
    ),
    Case(
        "max pool",
        lambda x: plugrad.max_pool(x, 2, strides=2),
        lambda x: functional.max_pool2d(x, 2),
        (FEATURE_MAP_SHAPE,),
        (IMAGE_AXES,),
        has_image=True,
    ),
    Case(
        "average pool",
        lambda x: plugrad.avg_pool(x, 2, strides=2),
        lambda x: functional.avg_pool2d(x, 2),
        (FEATURE_MAP_SHAPE,),
        (IMAGE_AXES,),
        has_image=True,
    ),
    Case(
        "average pool 3 x 3, stride 1",
        lambda x: plugrad.avg_pool(x, 3, strides=1),
        lambda x: functional.avg_pool2d(x, 3, 1),
        (FEATURE_MAP_SHAPE,),
        (IMAGE_AXES,),
        has_image=True,
    ),
    Case("softmax", plugrad.softmax, lambda x: torch.softmax(x, -1), ((1024, 1000),)),
    Case("log softmax", plugrad.log_softmax, lambda x: torch.log_softmax(x, -1), ((1024, 1000),)),
    Case("sum", plugrad.sum, torch.sum, (MATRIX_SHAPE,)),
    Case("sum of rows", lambda x: plugrad.sum(x, axis=1), lambda x: x.sum(1), (MATRIX_SHAPE,)),
    Case("sum of columns", lambda x: plugrad.sum(x, axis=0), lambda x: x.sum(0), (MATRIX_SHAPE,)),
    Case(
        "mean of columns", lambda x: plugrad.mean(x, axis=0), lambda x: x.mean(0), (MATRIX_SHAPE,)
    ),
    Case("max of rows", lambda x: plugrad.max(x, axis=1), lambda x: x.amax(1), (MATRIX_SHAPE,)),
    Case("add", plugrad.add, torch.add, (VECTOR_SHAPE, VECTOR_SHAPE)),
    Case("multiply", plugrad.multiply, torch.multiply, (VECTOR_SHAPE, VECTOR_SHAPE)),
    Case("add a row", plugrad.add, torch.add, (MATRIX_SHAPE, (1000,))),
    Case("gelu", plugrad.gelu, functional.gelu, (VECTOR_SHAPE,)),
    Case("exp", plugrad.exp, torch.exp, (VECTOR_SHAPE,)),
    Case(
        "relu, gradient",
        gradient_in_plugrad(plugrad.relu),
        gradient_in_torch(torch.relu),
        (VECTOR_SHAPE,),
    ),
    Case(
        "to float32", lambda x: plugrad.astype(x, "float32"), lambda x: x.float(), (VECTOR_SHAPE,)
    ),
    Case("sort", plugrad.sort, lambda x: torch.sort(x).values, (MATRIX_SHAPE,)),
)


def prepare_case(case: Case, dtype: str) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Return the functions that compute a case in plugrad and in PyTorch."""
    generator = np.random.default_rng(0)
    arrays = [generator.uniform(0.1, 1, shape).astype("f4") for shape in case.input_shapes]
    in_plugrad = [plugrad.asarray(x).astype(dtype) for x in arrays]
    in_torch: list[Any] = []
    for x, axes in zip(arrays, case.axes + (None,) * len(arrays), strict=False):
        y = torch.from_numpy(x).to(getattr(torch, dtype))
        in_torch.append(y if axes is None else y.permute(axes))

    def run() -> Any:
        with torch.no_grad():
            return case.in_torch(*in_torch)

    return lambda: case.in_plugrad(*in_plugrad), (
        lambda: case.in_torch(*in_torch)
    ) if "grad" in case.name else run


def largest_difference(case: Case, in_plugrad: Any, in_torch: Any) -> float:
    """Return the largest difference of two results, relative to the largest number."""
    right = in_torch.detach().float()
    right = (right.permute(0, 2, 3, 1) if case.has_image else right).numpy()
    return float(np.abs(in_plugrad.astype("float32").numpy() - right).max() / np.abs(right).max())


def main() -> None:
    """Print the milliseconds of all cases in float16 and bfloat16, and the ratios to PyTorch."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--dtypes", nargs="+", default=list(MACHINE_EPSILONS))
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    torch.set_num_threads(1)
    ratios: dict[str, list[float]] = {dtype: [] for dtype in given.dtypes}
    wrong: list[str] = []
    with plugrad.use(given.backend):
        finish = plugrad.synchronize if given.backend == "webgpu" else lambda: None
        for case in CASES:
            if given.words and not any(word in case.name for word in given.words):
                continue
            cells: list[str] = []
            for dtype in given.dtypes:
                in_plugrad, in_torch = prepare_case(case, dtype)
                if largest_difference(case, in_plugrad(), in_torch()) > 2 * MACHINE_EPSILONS[dtype]:
                    wrong.append(f"{case.name}, {dtype}")
                sides = {
                    "in_plugrad": measuring.Side(in_plugrad, finish=finish),
                    "in_torch": measuring.Side(in_torch),
                }
                is_slow = sides["in_torch"].seconds(1, time.perf_counter) > SLOW_CALL_MIN_SECONDS
                how = (1, time.perf_counter, 0) if is_slow else (given.rounds,)
                times = measuring.take_turns(sides, *how)
                ratios[dtype].append(times["in_plugrad"].minimum / times["in_torch"].minimum)
                cells.append(f"{times['in_plugrad'].minimum:9.3f} ({ratios[dtype][-1]:5.2f})")
            print(f"{case.name:30}", *cells, flush=True)
    for dtype, found in ratios.items():
        above = sum(ratio > 1 for ratio in found)
        print(
            f"{dtype}: mean {measuring.geometric_mean(found):.2f} × torch, {above} of {len(found)} above 1"
        )
    if wrong:
        sys.exit(f"other values than PyTorch: {'; '.join(wrong)}")


if __name__ == "__main__":
    main()
