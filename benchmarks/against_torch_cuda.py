"""Time plugrad on webgpu against PyTorch on CUDA, on one GPU of NVIDIA.

    python benchmarks/against_torch_cuda.py
    python benchmarks/against_torch_cuda.py product W --rounds 7    what has these words in its name
    python benchmarks/against_torch_cuda.py W4 GPT --compile        beside torch.compile, too, which takes a minute each
    python benchmarks/against_torch_cuda.py --small --torch cpu     tries the program where there is no such GPU

Both compute in float32. PyTorch has a second mode, TF32, in which its products round their operands to 10 bits; it is
measured where it makes a difference. The two take turns in one process; a turn issues calls for at least 20 ms and
ends when the device has finished. The least time of a call counts. Host time is what a call takes until it returns,
while the device has nothing else to do. Values and gradients are compared first.
"""

from __future__ import annotations

import argparse
import json
import time
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import jitted
import numpy as np
import peer_plugrad
import peer_torch
import torch
import workloads
from measuring import Side, geometric_mean, take_turns
from torch.nn import functional

import plugrad

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

TURN_SECONDS = 0.02
HOST_CALLS = 3
"""The calls of one measurement of host time."""
HOST_ROUNDS = 7
"""The measurements of host time, of which the fastest counts."""
TOLERANCE = 2e-3
"""The maximum difference relative to the largest value: float32 sums of thousands of terms, in any order."""
MEASURED_VARIANTS = ("plugrad", "jit", "torch", "TF32", "compile")


uniform = lru_cache(maxsize=2)(workloads.random_uniform)
"""Return random numbers, cached because large arrays take longer to make than to measure."""


class Case(NamedTuple):
    """A computation in plugrad and PyTorch: functions that prepare it and return the measured call."""

    name: str
    in_plugrad: Callable[[], tuple[Callable[..., Any], tuple[Any, ...]]]
    """Prepares the case in plugrad: returns a function and its arguments, so that it can be traced."""
    in_torch: Callable[[], Callable[[], Any]]
    """Prepares the case in PyTorch: returns the measured call."""
    flops: float = 0
    """The floating-point operations of the products in one call."""
    nbytes: float = 0
    """The bytes that one call has to read and write, if memory limits its time."""
    uses_matmul: bool = False
    """Whether TF32 makes a difference."""


def make_case(
    name: str,
    in_plugrad: Callable[..., Any],
    in_torch: Callable[..., Any],
    *inputs: Callable[[], np.ndarray[Any, Any]],
    **case_fields: Any,
) -> Case:
    """Return a case of two functions that take the same arrays."""

    def prepare_in_plugrad() -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return in_plugrad, tuple(plugrad.asarray(make()) for make in inputs)

    def prepare_in_torch() -> Callable[[], Any]:
        tensors = [peer_torch.copy_to_tensor(make()) for make in inputs]
        tensors = [x if x.is_floating_point() else x.long() for x in tensors]
        return lambda: in_torch(*tensors)

    return Case(name, prepare_in_plugrad, prepare_in_torch, **case_fields)


def make_training_case(
    workload_name: str, prepare: Callable[[], Callable[[], torch.Tensor]]
) -> Case:
    """Return the case of a workload's training step."""

    def in_plugrad() -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return tuple(jitted.WORKLOADS[workload_name]())

    return Case(f"{workload_name} training step", in_plugrad, prepare, uses_matmul=True)


def make_transformer_case(
    name: str, batch: int, length: int, width: int, heads: int, *, is_causal: bool = False
) -> Case:
    """Return a case of a transformer block, forward and backward."""
    tokens = batch * length

    def arrays() -> dict[str, Any]:
        return workloads.transformer(batch, length, width)

    def in_plugrad() -> tuple[Callable[..., Any], tuple[Any, ...]]:
        mask = plugrad.asarray(np.tri(length, dtype=bool)) if is_causal else None
        loss = plugrad.value_and_grad(lambda w: peer_plugrad.block_loss(w, heads, mask))
        return loss, ({key: plugrad.asarray(value) for key, value in arrays().items()},)

    def in_torch() -> Callable[[], Any]:
        weights = {key: peer_torch.copy_to_tensor(value) for key, value in arrays().items()}
        return peer_torch.with_gradients(
            lambda w: peer_torch.block_loss(w, heads, is_causal=is_causal), weights
        )

    attention = 4 * batch * length**2 * width * (0.5 if is_causal else 1)
    flops = 3 * (24 * tokens * width**2 + attention)
    return Case(name, in_plugrad, in_torch, flops=flops, uses_matmul=True)


def make_convolution_cases(
    name: str,
    image_shape: tuple[int, int, int, int],
    filter_count: int,
    filter_size: int,
    stride: int = 1,
) -> list[Case]:
    """Return a convolution with "same" padding and its gradients; PyTorch has the channels last, too."""
    n, height, width, channels = image_shape
    shape = (filter_size, filter_size, channels, filter_count)
    outputs = n * -(-height // stride) * -(-width // stride)
    flops = 2 * outputs * filter_count * filter_size * filter_size * channels

    def arrays() -> list[Any]:
        return [
            workloads.random_uniform(1, image_shape),
            workloads.random_weight(2, shape, filter_size * filter_size * channels),
        ]

    def convolve(x: plugrad.Tensor, w: plugrad.Tensor) -> plugrad.Tensor:
        return plugrad.conv2d(x, w, strides=stride, padding=filter_size // 2)

    def gradients(x: plugrad.Tensor, w: plugrad.Tensor) -> Any:
        return plugrad.grads(lambda x, w: plugrad.sum(convolve(x, w) ** 2))(x, w)

    def prepare(function: Callable[..., Any]) -> Callable[[], Any]:
        return lambda: (function, tuple(map(plugrad.asarray, arrays())))

    def in_torch(*, is_gradient: bool) -> Callable[[], Any]:
        x, w = arrays()
        x = peer_torch.copy_to_tensor(x.transpose(0, 3, 1, 2)).requires_grad_(is_gradient)
        w = peer_torch.copy_to_tensor(w.transpose(3, 2, 0, 1)).contiguous(
            memory_format=torch.channels_last
        )
        w = w.detach().requires_grad_(is_gradient)

        def forward() -> torch.Tensor:
            return functional.conv2d(x, w, stride=stride, padding=filter_size // 2)

        def backward() -> Any:
            dx, dw = torch.autograd.grad((forward() ** 2).sum(), (x, w))
            return dx.permute(0, 2, 3, 1), dw.permute(2, 3, 1, 0)

        return backward if is_gradient else lambda: forward().permute(0, 2, 3, 1)

    both = {"uses_matmul": True}
    return [
        Case(name, prepare(convolve), lambda: in_torch(is_gradient=False), flops, **both),
        Case(
            f"{name}, gradients",
            prepare(gradients),
            lambda: in_torch(is_gradient=True),
            3 * flops,
            **both,
        ),
    ]


def make_cases(*, is_small: bool) -> list[Case]:
    """Return the benchmark cases."""

    def limit(size: int) -> int:
        return min(size, 48) if is_small else size

    def numbers(seed: int, *shape: int) -> Callable[[], np.ndarray[Any, Any]]:
        return lambda: uniform(seed, tuple(map(limit, shape)))

    def product(size: int) -> Case:
        size = limit(size)
        return make_case(
            f"product {size}",
            lambda a, b: a @ b,
            lambda a, b: a @ b,
            *(numbers(seed, size, size) for seed in (1, 2)),
            flops=2 * size**3,
            uses_matmul=True,
        )

    def mobilenet() -> tuple[Callable[..., Any], tuple[Any, ...]]:
        infer, x = peer_plugrad.mobilenet_function()
        return infer, (x,)

    def apply_ten_ops(xp: Any) -> Callable[[Any], Any]:
        return lambda x: xp.tanh(xp.log(xp.exp(-xp.sqrt(xp.abs(x * 1.01 + 0.5))) + 1.0)) * x

    def normalize(x: torch.Tensor) -> torch.Tensor:
        return functional.layer_norm(x, x.shape[-1:])

    large = 4 * limit(8192) * limit(8192)  # bytes
    million = 4 * limit(1_000_000)
    heads = (limit(8), limit(12), limit(1024), 64)
    rows = workloads.lookup_inputs()
    named = {key: (lambda key=key: rows[key]) for key in rows}
    size = limit(56), limit(28), limit(14), limit(224)
    return [
        make_training_case("W1", peer_torch.mlp),
        make_training_case("W2", peer_torch.convnet),
        Case("W3 MobileNetV2", mobilenet, lambda: peer_torch.mobilenet().run, uses_matmul=True),
        make_transformer_case("W4 transformer block", 8, 128, 256, 4),
        make_transformer_case(
            "GPT block", limit(8), limit(512), 12 * limit(64), 12, is_causal=True
        ),
        make_case(
            "W5 ten elementwise",
            apply_ten_ops(plugrad),
            apply_ten_ops(torch),
            numbers(51, 1_000_000),
            nbytes=2 * million,
        ),
        make_case(
            "ten of 64 million",
            apply_ten_ops(plugrad),
            apply_ten_ops(torch),
            numbers(1, 8192, 8192),
            nbytes=2 * large,
        ),
        make_case(
            "add 64 million",
            lambda a, b: a + b,
            lambda a, b: a + b,
            *(numbers(s, 8192, 8192) for s in (1, 2)),
            nbytes=3 * large,
        ),
        make_case(
            "transpose 8192",
            lambda x: plugrad.permute_dims(x, (1, 0)) + 0,
            lambda x: x.T.contiguous(),
            numbers(1, 8192, 8192),
            nbytes=2 * large,
        ),
        make_case(
            "W6 sums",
            lambda x: (plugrad.sum(x, axis=0), plugrad.sum(x, axis=1)),
            lambda x: (x.sum(0), x.sum(1)),
            numbers(61, 4096, 1024),
            nbytes=8 * limit(4096) * limit(1024),
        ),
        make_case(
            "sum of 64 million", plugrad.sum, torch.sum, numbers(1, 8192, 8192), nbytes=large
        ),
        make_case(
            "sums of columns",
            lambda x: plugrad.sum(x, axis=0),
            lambda x: x.sum(0),
            numbers(1, 8192, 8192),
            nbytes=large,
        ),
        make_case(
            "sums of rows",
            lambda x: plugrad.sum(x, axis=1),
            lambda x: x.sum(1),
            numbers(1, 8192, 8192),
            nbytes=large,
        ),
        make_case(
            "softmax 8192",
            plugrad.softmax,
            lambda x: x.softmax(-1),
            numbers(1, 8192, 8192),
            nbytes=2 * large,
        ),
        make_case(
            "layer norm 8192",
            plugrad.layer_norm,
            normalize,
            numbers(1, 8192, 8192),
            nbytes=2 * large,
        ),
        product(1024),
        product(4096),
        product(8192),
        make_case(
            "product 64 x 4096 x 4096",
            lambda a, b: a @ b,
            lambda a, b: a @ b,
            numbers(1, 64, 4096),
            numbers(2, 4096, 4096),
            flops=2 * 64 * limit(4096) ** 2,
            nbytes=4 * limit(4096) ** 2,
            uses_matmul=True,
        ),
        make_case(
            "matrix by vector 8192",
            lambda a, b: a @ b,
            lambda a, b: a @ b,
            numbers(1, 8192, 8192),
            numbers(2, 8192),
            nbytes=large,
            uses_matmul=True,
        ),
        make_case(
            "96 products of 512",
            lambda a, b: a @ b,
            lambda a, b: a @ b,
            *(numbers(s, 96, 512, 512) for s in (1, 2)),
            flops=2 * limit(96) * limit(512) ** 3,
            uses_matmul=True,
        ),
        make_case(
            "attention 1024",
            plugrad.attention,
            functional.scaled_dot_product_attention,
            *((lambda s=s: workloads.random_uniform(s, heads)) for s in (1, 2, 3)),
            flops=4 * heads[0] * heads[1] * heads[2] ** 2 * 64,
            uses_matmul=True,
        ),
        *make_convolution_cases("conv 3x3 64", (limit(32), size[0], size[0], 64), 64, 3),
        *make_convolution_cases(
            "conv 3x3 256", (limit(32), size[2], size[2], limit(256)), limit(256), 3
        ),
        *make_convolution_cases("conv 1x1 256", (limit(32), size[0], size[0], limit(256)), 64, 1),
        *make_convolution_cases("conv 7x7 of RGB", (limit(32), size[3], size[3], 3), 64, 7, 2),
        make_case(
            "W8 gather",
            lambda t, p: plugrad.take(t, p, axis=0),
            lambda t, p: t[p],
            named["table"],
            named["positions"],
        ),
        make_case(
            "W8 scatter-add",
            lambda p, u: plugrad.scatter_nd(p[:, None], u, (50_000, 64)),
            lambda p, u: torch.zeros(50_000, 64).index_add_(0, p, u),
            named["positions"],
            named["updates"],
        ),
        make_case(
            "W8 top-k",
            lambda x: plugrad.top_k(x, 50)[0],
            lambda x: torch.topk(x, 50)[0],
            named["rows"],
        ),
        make_case(
            "W8 cumsum",
            lambda x: plugrad.cumulative_sum(x, axis=1),
            lambda x: torch.cumsum(x, 1),
            named["square"],
        ),
        make_case("W8 sort", plugrad.sort, lambda x: torch.sort(x, 1)[0], named["square"]),
    ]


@contextmanager
def set_tf32(is_allowed: bool) -> Iterator[None]:
    """Allow or forbid PyTorch to use TF32 in the block."""
    settings = torch.backends.cuda.matmul, torch.backends.cudnn
    for each in settings:
        each.allow_tf32 = is_allowed
    try:
        yield
    finally:
        for each in settings:
            each.allow_tf32 = False


def flatten_result(result: Any) -> list[torch.Tensor]:
    """Return the tensors in a nested PyTorch result; those of a dict in the order of its keys."""
    if isinstance(result, dict):
        return [x for key in sorted(result) for x in flatten_result(result[key])]
    if isinstance(result, (list, tuple)):
        return [x for each in result for x in flatten_result(each)]
    if isinstance(result, torch.Tensor):
        return [result.detach()]
    return [peer_torch.copy_to_tensor(result.numpy())]


def relative_difference(in_plugrad: Any, in_torch: Any) -> float:
    """Return the largest difference, relative to the largest value of its array."""
    found, expected = flatten_result(in_plugrad), flatten_result(in_torch)
    assert [x.shape for x in found] == [x.shape for x in expected]
    worst = 0.0
    for a, b in zip(found, expected, strict=True):
        part = float((a - b).abs().max() / b.abs().max())
        worst = max(worst, part if part < np.inf else np.inf)  # NaN is as bad as can be
    return worst


def measure_host_ms(run: Callable[[], Any], finish: Callable[[], None]) -> float:
    """Return the minimum milliseconds until a call returns, on an idle device."""
    least = float("inf")
    for _ in range(HOST_ROUNDS):
        finish()
        begin = time.perf_counter()
        for _ in range(HOST_CALLS):
            run()
        least = min(least, (time.perf_counter() - begin) / HOST_CALLS * 1e3)
    finish()
    return least


def measure_case(
    case: Case, finish_by_peer: Mapping[str, Callable[[], None]], arguments: argparse.Namespace
) -> dict[str, Any]:
    """Return a row of milliseconds in both frameworks, and the difference of their results."""
    function, given = case.in_plugrad()
    in_torch = case.in_torch()
    jitted_function = plugrad.jit(function)
    compute = plugrad.which().backend.active_device.record_pending_calls

    def run() -> Any:
        result = function(*given)
        compute()  # of a chain of elementwise ops whose result nobody uses, nothing would be computed
        return result

    runs = {
        "plugrad": run,
        "jit": lambda: jitted_function(*given),
        "torch": in_torch,
    }
    worst = max(
        relative_difference(runs[side](), in_torch())
        for side in ("plugrad", "jit")[: 1 if "step" in case.name else 2]
    )
    if case.uses_matmul and arguments.torch == "cuda":
        runs["TF32"] = in_torch
    if arguments.compile:
        runs["compile"] = torch.compile(in_torch)
    sides = {
        name: Side(
            run,
            lambda name=name: set_tf32(name == "TF32"),
            finish_by_peer.get(name, finish_by_peer["torch"]),
        )
        for name, run in runs.items()
    }
    times = take_turns(sides, arguments.rounds, turn_seconds=TURN_SECONDS)
    row: dict[str, Any] = {
        "name": case.name,
        "flops": case.flops,
        "bytes": case.nbytes,
        "difference": worst,
    }
    row |= {name: times[name].minimum for name in sides}
    row |= {
        f"{name} host": measure_host_ms(sides[name].run, sides[name].finish)
        for name in sides
        if name != "TF32"
    }
    return row


COLUMNS = ("plugrad", "jit", "torch", "TF32", "÷ torch", "÷ TF32")
TABLE_HEADER = (
    f"{'ms':24}{''.join(f'{word:>9}' for word in COLUMNS)}{'rate':>14}"
    f"{'host ms':>9}{'jit':>9}{'torch':>9}"
)


def format_row(row: Mapping[str, Any]) -> str:
    """Return a table row as text."""
    best = min(row["plugrad"], row["jit"])
    rate = (
        f"{row['flops'] / best / 1e9:.1f} TFLOP/s"
        if row["flops"]
        else f"{row['bytes'] / best / 1e6:.0f} GB/s"
        if row["bytes"]
        else ""
    )
    times = "".join(
        f"{row[side]:9.3f}" if side in row else 9 * " " for side in MEASURED_VARIANTS[:4]
    )
    ratios = "".join(
        f"{best / row[side]:9.2f}" if side in row else 9 * " " for side in ("torch", "TF32")
    )
    hosts = f"{row['plugrad host']:9.3f}{row['jit host']:9.3f}{row['torch host']:9.3f}"
    compiled = (
        f"  torch.compile {row['compile']:.3f}, host {row['compile host']:.3f}"
        if "compile" in row
        else ""
    )
    wrong = "" if row["difference"] <= TOLERANCE else f"  DIFFERS by {row['difference']:.1e}"
    return f"{row['name']:24}{times}{ratios}{rate:>14}{hosts}{compiled}{wrong}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("words", nargs="*", default=[""], help="of the names of cases")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--compile", action="store_true", help="measure torch.compile, too")
    parser.add_argument("--torch", default="cuda", help="PyTorch's device")
    parser.add_argument("--small", action="store_true", help="with small arrays")
    parser.add_argument("--output", help="a file for the times, in JSON, one case a line")
    arguments = parser.parse_args()
    torch.set_default_device(arguments.torch)
    plugrad.use("webgpu")
    backend = plugrad.which().backend
    wait = torch.cuda.synchronize if arguments.torch == "cuda" else lambda: None
    finish = {"plugrad": backend.synchronize, "jit": backend.synchronize, "torch": wait}
    in_torch = torch.cuda.get_device_name() if arguments.torch == "cuda" else arguments.torch
    print(f"plugrad {plugrad.__version__} on {plugrad.which()}")
    print(f"torch {torch.__version__} on {in_torch}", TABLE_HEADER, sep="\n")
    ratios: list[float] = []
    for case in make_cases(is_small=arguments.small):
        if not any(word in case.name for word in arguments.words):
            continue
        with set_tf32(False):
            try:
                row = measure_case(case, finish, arguments)
            except Exception as error:  # what fails is part of the report
                print(f"{case.name:24}FAILS: {type(error).__name__}: {error}", flush=True)
                continue
        ratios.append(min(row["plugrad"], row["jit"]) / row["torch"])
        print(format_row(row), flush=True)
        if arguments.output:
            with open(arguments.output, "a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
    if ratios:
        print(f"{'mean of the ratios to torch':60}{geometric_mean(ratios):9.2f}")


if __name__ == "__main__":
    main()
