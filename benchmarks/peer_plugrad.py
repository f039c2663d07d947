"""The workloads in plugrad's public API, on every backend that is available."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import workloads
from workloads import Peer, Workload

import plugrad
from plugrad import fused
from plugrad.discovery.loading import open_backend
from plugrad.registry.kernels import set_kernel_tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

WITHOUT_PACKS = "cpu without packs"
"""The name of the cpu backend without its kernel packs as a peer."""
Compiler: TypeAlias = "Callable[[Callable[..., Any]], Callable[..., Any]]"


def without_compilation(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function unchanged, in place of a compiled one."""
    return function


def peers() -> list[Peer]:
    """Return the available backends, with and without their kernel packs."""
    found: list[Peer] = []
    for candidate in plugrad.backends():
        if candidate.status in ("available", "active"):
            found.append(peer(candidate.name, candidate.name))
            found.append(peer(f"{candidate.name}-jit", candidate.name, JITTED_WORKLOADS))
    if len(open_backend("cpu").kernels) > 1:
        found.append(peer(WITHOUT_PACKS, "cpu"))
    return found


def peer(
    name: str, backend: str, jitted_workloads: Mapping[str, Callable[[], Workload]] | None = None
) -> Peer:
    """Return a backend as a peer; its workloads run op by op, unless `jitted_workloads` are given."""
    is_without_packs = name == WITHOUT_PACKS
    return Peer(
        name,
        plugrad.__version__,
        STEPS if jitted_workloads is None else jitted_workloads,
        partial(_use_backend, backend, is_without_packs),
        open_backend(backend).synchronize,
        has_kernels=jitted_workloads is None,
        changes_kernels=is_without_packs,
    )


@contextmanager
def _use_backend(backend: str, is_without_packs: bool) -> Iterator[None]:
    """Use a backend in the block, with or without its kernel packs."""
    device = open_backend(backend)
    tables = device.kernels
    if is_without_packs:
        own = list(tables)[-1]
        set_kernel_tables(device, {own: tables[own]})
    try:
        with (
            plugrad.use(backend),
            plugrad.config.override("fallback", "error"),
            plugrad.config.override("unsupported_dtype", "error"),
        ):
            yield
    finally:
        if is_without_packs:  # for what is compiled is compiled anew after a change
            set_kernel_tables(device, tables)


def many_small_additions() -> Workload:
    """Return the workload of many small additions (D1)."""
    a, b = map(plugrad.asarray, workloads.small_pair())

    def run() -> None:
        for _ in range(workloads.OPS_PER_RUN):
            a + b

    return Workload(run, lambda: [plugrad.sum(a + b).item()], workloads.OPS_PER_RUN)


def recorded_adds() -> Workload:
    """Return the workload of additions that the tape records (D2)."""
    a, b = map(plugrad.asarray, workloads.small_pair())

    def add(x: plugrad.Tensor) -> plugrad.Tensor:
        for _ in range(workloads.OPS_PER_RUN):
            x + b
        return x + b

    def run() -> None:
        plugrad.vjp(add, a)

    return Workload(
        run, lambda: [plugrad.sum(plugrad.vjp(add, a)[0]).item()], workloads.OPS_PER_RUN
    )


def chains(compiled: Compiler = without_compilation) -> Workload:
    """Return the workload of chains of elementwise ops with gradients (D3)."""
    a = plugrad.asarray(workloads.small_pair()[0])
    gradient, ones = plugrad.grad(workloads.multiply_add_chain), plugrad.ones_like(a)
    both = compiled(lambda a, ones: gradient(a, dy=ones))

    def run() -> None:
        for _ in range(workloads.CHAINS_PER_RUN):
            both(a, ones)

    return Workload(run, lambda: [plugrad.sum(both(a, ones)).item()], workloads.CHAINS_PER_RUN)


def recorded_chains() -> Workload:
    """Return the workload of chains that the tape records (D4)."""
    a = plugrad.asarray(workloads.small_pair()[0])

    def run() -> None:
        for _ in range(workloads.CHAINS_PER_RUN):
            plugrad.vjp(workloads.multiply_add_chain, a)

    def check() -> list[float]:
        return [plugrad.sum(plugrad.vjp(workloads.multiply_add_chain, a)[0]).item()]

    return Workload(run, check, workloads.CHAINS_PER_RUN)


def read_back() -> Workload:
    """Return the workload of a thousand separate additions and a read-back."""
    a, b = plugrad.zeros(1024), plugrad.ones(1024)

    def run() -> Any:
        return workloads.add_repeatedly(a, b).numpy()

    return Workload(run, lambda: [float(run().sum())])


def training(
    task: workloads.Training,
    predict: Callable[[plugrad.Tensor, dict[str, plugrad.Variable]], plugrad.Tensor],
    compiled: Compiler = without_compilation,
) -> Workload:
    """Return the workload of a step of gradient descent; the check is the loss after five steps."""
    x = plugrad.asarray(task.x)
    labels = plugrad.one_hot(task.labels, 10)
    weights = {name: plugrad.Variable(value, name=name) for name, value in task.weights.items()}
    optimizer = plugrad.optimizers.SGD(task.learning_rate)

    def loss() -> plugrad.Tensor:
        return plugrad.losses.softmax_cross_entropy(labels, predict(x, weights))

    step = compiled(lambda: optimizer.minimize(loss, list(weights.values())))

    def run() -> float:
        return step().item()

    return Workload(run, lambda: [run() for _ in range(5)][-1:])


def mlp(x: plugrad.Tensor, w: dict[str, plugrad.Variable]) -> plugrad.Tensor:
    """Return the logits of the MLP (W1)."""
    h = plugrad.relu(x @ w["w0"] + w["b0"])
    h = plugrad.relu(h @ w["w1"] + w["b1"])
    return h @ w["w2"] + w["b2"]


def convnet(x: plugrad.Tensor, w: dict[str, plugrad.Variable]) -> plugrad.Tensor:
    """Return the logits of the convolutional network (W2)."""
    h = plugrad.max_pool(plugrad.relu(plugrad.conv2d(x, w["k0"], padding="same") + w["c0"]), 2)
    h = plugrad.max_pool(plugrad.relu(plugrad.conv2d(h, w["k1"], padding="same") + w["c1"]), 2)
    return h.reshape(64, -1) @ w["w"] + w["b"]


def mobilenet(compiled: Compiler = without_compilation) -> Workload:
    """Return the workload of inference with MobileNet (W3)."""
    function, x = mobilenet_function()
    infer = compiled(function)

    def check() -> list[float]:
        y = infer(x).numpy()
        return [float(abs(y).mean()), float(y[0, 7])]

    return Workload(lambda: infer(x), check)


def mobilenet_function() -> tuple[Callable[[plugrad.Tensor], plugrad.Tensor], plugrad.Tensor]:
    """Return MobileNet (W3) as a function, and an image."""
    image, layers, matrix = workloads.mobilenet()
    head = plugrad.asarray(matrix)
    tensors = [(plugrad.asarray(layer.filter), plugrad.asarray(layer.bias)) for layer in layers]

    def infer(x: plugrad.Tensor) -> plugrad.Tensor:
        h = kept = x
        for layer, (filter, bias) in zip(layers, tensors, strict=True):
            kept = h if layer.starts_residual else kept
            convolve: Any = fused.depthwise_conv2d if layer.is_depthwise else fused.conv2d
            h = convolve(
                h,
                filter,
                strides=layer.strides,
                padding=layer.filter.shape[0] // 2,
                bias=bias,
                activation="relu6" if layer.has_relu6 else "linear",
            )
            h = h + kept if layer.ends_residual else h
        return plugrad.mean(h, axis=(1, 2)) @ head

    return infer, plugrad.asarray(image)


def block_loss(
    w: dict[str, plugrad.Tensor], heads: int, mask: plugrad.Tensor | None = None
) -> plugrad.Tensor:
    """Return a scalar that depends on all results of the transformer block (W4)."""
    x = w["x"]
    batch, length, width = x.shape
    h = plugrad.layer_norm(x, offset=w["offset1"], scale=w["scale1"])
    h = (h @ w["query_key_value"] + w["query_key_value_bias"]).reshape(
        batch, length, 3, heads, width // heads
    )
    h = plugrad.attention(*plugrad.unstack(plugrad.permute_dims(h, (2, 0, 3, 1, 4))), mask)
    h = plugrad.permute_dims(h, (0, 2, 1, 3)).reshape(batch, length, width)
    x = x + (h @ w["out"] + w["out_bias"])
    h = plugrad.layer_norm(x, offset=w["offset2"], scale=w["scale2"])
    h = plugrad.gelu(h @ w["wide"] + w["wide_bias"], approximate=True)
    x = x + (h @ w["narrow"] + w["narrow_bias"])
    return plugrad.mean(x * x)


def transformer(compiled: Compiler = without_compilation) -> Workload:
    """Return the workload of a transformer block with gradients (W4)."""
    weights = {name: plugrad.asarray(value) for name, value in workloads.transformer().items()}
    both = compiled(plugrad.value_and_grad(lambda w: block_loss(w, workloads.ATTENTION_HEADS)))

    def check() -> list[float]:
        value, gradients = both(weights)
        sums = [
            plugrad.sum(plugrad.abs(gradients[name])).item() for name in ("query_key_value", "x")
        ]
        return [value.item(), *sums]

    return Workload(lambda: both(weights), check)


def rows(compiled: Compiler = without_compilation) -> dict[str, Callable[[], Workload]]:
    """Return the workloads of lookups and scatters of rows (W8), by name."""

    def make_workload(function: Callable[..., plugrad.Tensor], *names: str) -> Workload:
        function = compiled(function)
        inputs = workloads.lookup_inputs()
        tensors = [plugrad.asarray(inputs[name]) for name in names]

        def check() -> list[float]:
            return [plugrad.sum(plugrad.abs(function(*tensors))[:, 10:]).item()]

        return Workload(lambda: function(*tensors), check)

    def add_rows(positions: plugrad.Tensor, updates: plugrad.Tensor) -> plugrad.Tensor:
        return plugrad.scatter_nd(positions[:, None], updates, (50_000, 64))

    return {
        "W8 gather": lambda: make_workload(
            lambda table, places: plugrad.take(table, places, axis=0), "table", "positions"
        ),
        "W8 scatter-add": lambda: make_workload(add_rows, "positions", "updates"),
        "W8 top-k": lambda: make_workload(lambda x: plugrad.top_k(x, workloads.TOP_K)[0], "rows"),
        "W8 cumsum": lambda: make_workload(lambda x: plugrad.cumulative_sum(x, axis=1), "square"),
        "W8 sort": lambda: make_workload(plugrad.sort, "square"),
    }


STEPS: dict[str, Callable[[], Workload]] = {
    "D1": many_small_additions,
    "D2": recorded_adds,
    "D3": chains,
    "D4": recorded_chains,
    "adds": read_back,
    "W1": lambda: training(workloads.mlp(), mlp),
    "W2": lambda: training(workloads.convnet(), convnet),
    "W3": mobilenet,
    "W4": transformer,
    **workloads.large_workloads(plugrad, plugrad.asarray),
    **rows(),
}
JITTED_WORKLOADS: dict[str, Callable[[], Workload]] = {
    "D3": lambda: chains(plugrad.jit),
    "W1": lambda: training(workloads.mlp(), mlp, plugrad.jit),
    "W2": lambda: training(workloads.convnet(), convnet, plugrad.jit),
    "W3": lambda: mobilenet(plugrad.jit),
    "W4": lambda: transformer(plugrad.jit),
    **workloads.large_workloads(plugrad, plugrad.asarray, compile=plugrad.jit),
    **rows(plugrad.jit),
}
"""The workloads that are traced and compiled, by name."""
