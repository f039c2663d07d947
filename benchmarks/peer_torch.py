"""The workloads in PyTorch, on its default device: the processor, unless the program chooses another one."""

from __future__ import annotations

import os
import shutil
import tempfile
from typing import TYPE_CHECKING, Any, TypeAlias

# So the first call compiles each time.
os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.mkdtemp(prefix="inductor-")

import torch
import workloads
from torch.nn import functional
from workloads import Peer, Workload

if TYPE_CHECKING:
    from collections.abc import Callable


def peers() -> list[Peer]:
    """Return PyTorch, limited to one thread."""
    torch.set_num_threads(1)
    eager = Peer("torch", torch.__version__, STEPS, has_kernels=True)
    if not (shutil.which("g++") or shutil.which("clang++")):  # which torch.compile needs
        return [eager]
    return [eager, Peer("torch.compile", torch.__version__, COMPILED_WORKLOADS)]


Compiler: TypeAlias = "Callable[[Callable[..., Any]], Callable[..., Any]]"


def without_compilation(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function unchanged, in place of a compiled one."""
    return function


def copy_to_tensor(values: workloads.Array) -> torch.Tensor:
    """Return a copy of an array as a tensor with the same memory layout."""
    return torch.from_numpy(values.copy(order="K")).to(torch.get_default_device())


def many_small_additions() -> Workload:
    """Return the workload of many small additions (D1)."""
    a, b = map(copy_to_tensor, workloads.small_pair())

    def run() -> None:
        with torch.no_grad():
            for _ in range(workloads.OPS_PER_RUN):
                a + b

    return Workload(run, lambda: [(a + b).sum().item()], workloads.OPS_PER_RUN)


def recorded_adds() -> Workload:
    """Return the workload of additions that autograd records (D2)."""
    a, b = map(copy_to_tensor, workloads.small_pair())
    a.requires_grad_()

    def run() -> None:
        for _ in range(workloads.OPS_PER_RUN):
            a + b

    return Workload(run, lambda: [(a + b).sum().item()], workloads.OPS_PER_RUN)


def chains(compiled: Compiler = without_compilation) -> Workload:
    """Return the workload of chains of elementwise ops with gradients (D3)."""
    a, ones = copy_to_tensor(workloads.small_pair()[0]).requires_grad_(), torch.ones(4)
    chain = compiled(workloads.multiply_add_chain)

    def gradient() -> torch.Tensor:
        return torch.autograd.grad(chain(a), a, ones)[0]

    def run() -> None:
        for _ in range(workloads.CHAINS_PER_RUN):
            gradient()

    return Workload(run, lambda: [gradient().sum().item()], workloads.CHAINS_PER_RUN)


def recorded_chains() -> Workload:
    """Return the workload of chains that autograd records (D4)."""
    a = copy_to_tensor(workloads.small_pair()[0]).requires_grad_()

    def run() -> None:
        for _ in range(workloads.CHAINS_PER_RUN):
            workloads.multiply_add_chain(a)

    return Workload(
        run, lambda: [workloads.multiply_add_chain(a).sum().item()], workloads.CHAINS_PER_RUN
    )


def read_back() -> Workload:
    """Return the workload of a thousand additions and a read-back."""
    a, b = torch.zeros(1024), torch.ones(1024)

    def run() -> Any:
        return workloads.add_repeatedly(a, b).numpy()

    return Workload(run, lambda: [float(run().sum())])


def training(
    task: workloads.Training,
    weights: dict[str, torch.Tensor],
    logits: Callable[[dict[str, torch.Tensor]], torch.Tensor],
    compiled: Compiler = without_compilation,
) -> Callable[[], torch.Tensor]:
    """Return a function that takes a step of gradient descent and returns the loss."""
    labels = copy_to_tensor(task.labels).long()
    loss_of = compiled(lambda w: functional.cross_entropy(logits(w), labels))
    for w in weights.values():
        w.requires_grad_()
    optimizer = torch.optim.SGD(weights.values(), lr=task.learning_rate)

    def run() -> torch.Tensor:
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(weights)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return run


def make_training_workload(step: Callable[[], torch.Tensor]) -> Workload:
    """Return the workload of a training step; the check is the loss of the fifth step."""
    return Workload(lambda: step().item(), lambda: [step().item() for _ in range(5)][-1:])


def mlp(compiled: Compiler = without_compilation) -> Callable[[], torch.Tensor]:
    """Return the training step of the MLP (W1)."""
    task = workloads.mlp()
    x = copy_to_tensor(task.x)

    def logits(w: dict[str, torch.Tensor]) -> torch.Tensor:
        h = torch.relu(torch.addmm(w["b0"], x, w["w0"]))
        h = torch.relu(torch.addmm(w["b1"], h, w["w1"]))
        return torch.addmm(w["b2"], h, w["w2"])

    weights = {name: copy_to_tensor(value) for name, value in task.weights.items()}
    return training(task, weights, logits, compiled)


def convnet(compiled: Compiler = without_compilation) -> Callable[[], torch.Tensor]:
    """Return the training step of the convolutional network (W2), in the faster channels-last memory format."""
    task = workloads.convnet()
    x = copy_to_tensor(task.x.transpose(0, 3, 1, 2)).contiguous(memory_format=torch.channels_last)
    weights = {name: copy_to_tensor(value) for name, value in task.weights.items()}
    for name in ("k0", "k1"):
        filter = copy_to_tensor(task.weights[name].transpose(3, 2, 0, 1))
        weights[name] = filter.contiguous(memory_format=torch.channels_last)

    def logits(w: dict[str, torch.Tensor]) -> torch.Tensor:
        h = functional.max_pool2d(torch.relu(functional.conv2d(x, w["k0"], w["c0"], padding=1)), 2)
        h = functional.max_pool2d(torch.relu(functional.conv2d(h, w["k1"], w["c1"], padding=1)), 2)
        return h.permute(0, 2, 3, 1).flatten(1) @ w["w"] + w["b"]

    return training(task, weights, logits, compiled)


def mobilenet(compiled: Compiler = without_compilation) -> Workload:
    """Return the workload of inference with MobileNet (W3), in the faster channels-last memory format."""
    image, layers, matrix = workloads.mobilenet()
    x, head = copy_to_tensor(image.transpose(0, 3, 1, 2)), copy_to_tensor(matrix)
    tensors: list[tuple[torch.Tensor, torch.Tensor]] = []
    for layer in layers:
        axes = (2, 3, 0, 1) if layer.is_depthwise else (3, 2, 0, 1)
        filter = copy_to_tensor(layer.filter.transpose(axes)).contiguous(
            memory_format=torch.channels_last
        )
        tensors.append((filter, copy_to_tensor(layer.bias)))

    @compiled
    def infer() -> torch.Tensor:
        h = kept = x
        for layer, (filter, bias) in zip(layers, tensors, strict=True):
            kept = h if layer.starts_residual else kept
            h = functional.conv2d(
                h,
                filter,
                bias,
                stride=layer.strides,
                padding=layer.filter.shape[0] // 2,
                groups=len(filter) if layer.is_depthwise else 1,
            )
            h = functional.relu6(h) if layer.has_relu6 else h
            h = h + kept if layer.ends_residual else h
        return h.mean((2, 3)) @ head

    # torch.compile takes no tensors of another mode than that in which it runs.
    mode = torch.inference_mode if compiled is without_compilation else torch.no_grad

    def run() -> torch.Tensor:
        with mode():
            return infer()

    return Workload(run, lambda: [run().abs().mean().item(), run()[0, 7].item()])


def block_loss(w: dict[str, torch.Tensor], heads: int, *, is_causal: bool = False) -> torch.Tensor:
    """Return a scalar that depends on all results of the transformer block (W4)."""
    x = w["x"]
    batch, length, width = x.shape
    h = functional.layer_norm(x, (width,), w["scale1"], w["offset1"])
    h = (h @ w["query_key_value"] + w["query_key_value_bias"]).view(
        batch, length, 3, heads, width // heads
    )
    h = functional.scaled_dot_product_attention(*h.permute(2, 0, 3, 1, 4), is_causal=is_causal)
    h = h.transpose(1, 2).reshape(batch, length, width)
    x = x + (h @ w["out"] + w["out_bias"])
    h = functional.layer_norm(x, (width,), w["scale2"], w["offset2"])
    h = functional.gelu(h @ w["wide"] + w["wide_bias"], approximate="tanh")
    x = x + (h @ w["narrow"] + w["narrow_bias"])
    return (x * x).mean()


def with_gradients(
    loss: Callable[[dict[str, torch.Tensor]], torch.Tensor], weights: dict[str, torch.Tensor]
) -> Callable[[], tuple[torch.Tensor, dict[str, torch.Tensor]]]:
    """Return a function that computes the loss and the gradients of the weights."""
    for w in weights.values():
        w.requires_grad_()

    def run() -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        value = loss(weights)
        found = torch.autograd.grad(value, list(weights.values()))
        return value.detach(), dict(zip(weights, found, strict=True))

    return run


def transformer(compiled: Compiler = without_compilation) -> Workload:
    """Return the workload of a transformer block with gradients (W4)."""
    weights = {name: copy_to_tensor(value) for name, value in workloads.transformer().items()}
    run = with_gradients(compiled(lambda w: block_loss(w, workloads.ATTENTION_HEADS)), weights)

    def check() -> list[float]:
        value, gradients = run()
        return [
            value.item(),
            *(gradients[name].abs().sum().item() for name in ("query_key_value", "x")),
        ]

    return Workload(run, check)


def rows() -> dict[str, Callable[[], Workload]]:
    """Return the workloads of lookups and scatters of rows (W8), by name."""

    def make_workload(function: Callable[..., torch.Tensor], *names: str) -> Workload:
        inputs = workloads.lookup_inputs()
        tensors = [copy_to_tensor(inputs[name]) for name in names]
        tensors = [x if x.is_floating_point() else x.long() for x in tensors]
        return Workload(
            lambda: function(*tensors),
            lambda: [function(*tensors).abs()[:, 10:].sum().item()],
        )

    def add_rows(positions: torch.Tensor, updates: torch.Tensor) -> torch.Tensor:
        return torch.zeros(50_000, 64).index_add_(0, positions, updates)

    return {
        "W8 gather": lambda: make_workload(
            lambda table, places: table[places], "table", "positions"
        ),
        "W8 scatter-add": lambda: make_workload(add_rows, "positions", "updates"),
        "W8 top-k": lambda: make_workload(lambda x: torch.topk(x, workloads.TOP_K)[0], "rows"),
        "W8 cumsum": lambda: make_workload(lambda x: torch.cumsum(x, 1), "square"),
        "W8 sort": lambda: make_workload(lambda x: torch.sort(x, 1)[0], "square"),
    }


STEPS: dict[str, Callable[[], Workload]] = {
    "D1": many_small_additions,
    "D2": recorded_adds,
    "D3": chains,
    "D4": recorded_chains,
    "adds": read_back,
    "W1": lambda: make_training_workload(mlp()),
    "W2": lambda: make_training_workload(convnet()),
    "W3": mobilenet,
    "W4": transformer,
    **workloads.large_workloads(torch, copy_to_tensor),
    **rows(),
}
COMPILED_WORKLOADS: dict[str, Callable[[], Workload]] = {
    "D3": lambda: chains(torch.compile),
    "W1": lambda: make_training_workload(mlp(torch.compile)),
    "W2": lambda: make_training_workload(convnet(torch.compile)),
    "W3": lambda: mobilenet(torch.compile),
    "W4": lambda: transformer(torch.compile),
    **workloads.large_workloads(torch, copy_to_tensor, compile=torch.compile),
}
"""The workloads that torch.compile compiles, by name."""
