"""The workloads of the benchmarks: seeded inputs and hyper-parameters that all peers share.

Inputs come from an integer hash of (seed, index), so that a peer in any language can make the same
numbers.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

Array = NDArray[Any]
OPS_PER_RUN = 1000
"""The ops in one run of D1 and D2."""
CHAINS_PER_RUN = 50
"""The chains of ops in one run of D3 and D4."""
WORKLOAD_TITLES = {
    "D1": "addition of two tensors of 4 elements",
    "D2": "the same while a gradient is recorded",
    "D3": "ten ops on 4 elements, forward and backward",
    "D4": "the ten ops of D3 while a gradient is recorded",
    "adds": "1,000 additions of 1,024 elements, and a read-back",
    "W1": "a training step of a 784-256-128-10 network, batch 64",
    "W2": "a training step of a small convnet on 28 × 28 images, batch 64",
    "W3": "MobileNetV2, one image of 224 × 224",
    "W4": "a transformer block of 8 × 128 × 256, forward and backward",
    "W5": "ten elementwise ops on 1,000,000 elements",
    "W6": "sums of 4096 × 1024 elements over each axis",
    "W7": "a product of two 1024 × 1024 matrices",
    "W8 gather": "10,000 rows of 50,000 × 64",
    "W8 scatter-add": "10,000 rows added at positions of 50,000 × 64",
    "W8 top-k": "the 50 largest of 10,000, in 256 rows",
    "W8 cumsum": "running sums of the rows of 1024 × 1024",
    "W8 sort": "1024 rows of 1024, sorted",
}


class Workload(NamedTuple):
    """One workload of one peer."""

    run: Callable[[], Any]
    """Runs the workload; it may return before the work is done, for which the peer's `finish` waits."""
    check: Callable[[], list[float]]
    """Computes numbers that all peers must agree on."""
    calls: int = 1
    """The ops or chains in one run; times are those of one of them."""


class Peer(NamedTuple):
    """A framework, or one backend of plugrad."""

    name: str
    version: str
    steps: Mapping[str, Callable[[], Workload]]
    """By workload: the function that prepares it."""
    make_context: Callable[[], AbstractContextManager[Any]] = nullcontext
    """Returns the context in which steps are prepared and run."""
    finish: Callable[[], None] = lambda: None
    """Waits for the work of all runs."""
    has_kernels: bool = False
    """Whether it takes part in the scan of kernels."""
    changes_kernels: bool = False
    """Whether its block changes the kernels of a device, so that programs of other peers would be compiled anew."""


def random_uniform(
    seed: int, shape: tuple[int, ...], low: float = -1.0, high: float = 1.0
) -> Array:
    """Return reproducible float32 numbers in [low, high)."""
    with np.errstate(over="ignore"):
        h = np.arange(int(np.prod(shape)), dtype=np.uint32) * np.uint32(0x9E3779B1)
        h += np.uint32((seed * 0x85EBCA6B + 1) & 0xFFFFFFFF)
        h ^= h >> np.uint32(16)
        h *= np.uint32(0x7FEB352D)
        h ^= h >> np.uint32(15)
        h *= np.uint32(0x846CA68B)
        h ^= h >> np.uint32(16)
    unit = (h >> np.uint32(8)).astype(np.float32) / np.float32(1 << 24)
    return (np.float32(low) + np.float32(high - low) * unit).reshape(shape).astype(np.float32)


def random_classes(seed: int, count: int, class_count: int) -> Array:
    """Return reproducible class numbers below `class_count`."""
    return (random_uniform(seed, (count,), 0, 1).astype(np.float64) * class_count).astype(np.int32)


def random_weight(seed: int, shape: tuple[int, ...], fan_in: int) -> Array:
    """Return weights scaled for layers with relu (He et al., 2015)."""
    bound = float(np.sqrt(6.0 / fan_in))
    return random_uniform(seed, shape, -bound, bound)


class Training(NamedTuple):
    """One network: inputs, labels, learning rate and initial weights."""

    x: Array
    labels: Array
    learning_rate: float
    weights: dict[str, Array]


def mlp() -> Training:
    """Return workload W1: an MLP with 784, 256, 128 and 10 units, batch 64."""
    sizes = [(784, 256), (256, 128), (128, 10)]
    weights = {f"w{i}": random_weight(3 + i, shape, shape[0]) for i, shape in enumerate(sizes)}
    weights |= {f"b{i}": np.zeros(shape[1], np.float32) for i, shape in enumerate(sizes)}
    return Training(random_uniform(1, (64, 784), 0, 1), random_classes(2, 64, 10), 0.1, weights)


def convnet() -> Training:
    """Return workload W2: 3x3 convolutions, 2x2 max pools and a dense layer on 28x28 images, batch 64; NHWC, HWIO."""
    weights = {
        "k0": random_weight(13, (3, 3, 1, 16), 9),
        "c0": np.zeros(16, np.float32),
        "k1": random_weight(14, (3, 3, 16, 32), 144),
        "c1": np.zeros(32, np.float32),
        "w": random_weight(15, (1568, 10), 1568),
        "b": np.zeros(10, np.float32),
    }
    return Training(
        random_uniform(11, (64, 28, 28, 1), 0, 1), random_classes(12, 64, 10), 0.05, weights
    )


class Layer(NamedTuple):
    """One convolution of MobileNetV2, with a bias, and perhaps followed by relu6."""

    filter: Array
    """The filter in HWIO; the last axis is 1 for a depthwise convolution."""
    bias: Array
    strides: int
    is_depthwise: bool
    has_relu6: bool
    starts_residual: bool = False
    """Whether its input is added to the output of the next layer with `ends_residual`."""
    ends_residual: bool = False
    """Whether the input of an earlier layer with `starts_residual` is added to its output."""


MOBILENET_STAGES = (
    *((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2)),
    *((6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)),
)
"""The stages of MobileNetV2 (Sandler et al., 2018): expansion, channels, repeats and stride of each."""


def mobilenet() -> tuple[Array, list[Layer], Array]:
    """Return workload W3: an image, the layers up to the mean over all places, and the matrix of the last layer."""
    seeds = iter(range(101, 10_000))

    def layer(shape: tuple[int, ...], strides: int, has_relu6: bool, **options: bool) -> Layer:
        is_depthwise = shape[3] == 1
        fan = shape[0] * shape[1] * (1 if is_depthwise else shape[2])
        filter = random_weight(next(seeds), shape, fan)
        bias = random_uniform(next(seeds), (shape[2] if is_depthwise else shape[3],), -0.1, 0.1)
        return Layer(filter, bias, strides, is_depthwise, has_relu6, **options)

    def block(expansion: int, channels: int, out: int, stride: int) -> Iterator[Layer]:
        inner, is_added = channels * expansion, stride == 1 and channels == out
        if expansion > 1:
            yield layer((1, 1, channels, inner), 1, True, starts_residual=is_added)
        yield layer((3, 3, inner, 1), stride, True, starts_residual=is_added and expansion == 1)
        yield layer((1, 1, inner, out), 1, False, ends_residual=is_added)

    layers = [layer((3, 3, 3, 32), 2, True)]
    channels = 32
    for expansion, out, repeats, stride in MOBILENET_STAGES:
        for i in range(repeats):
            layers += block(expansion, channels, out, 1 if i else stride)
            channels = out
    layers.append(layer((1, 1, 320, 1280), 1, True))
    return (
        random_uniform(99, (1, 224, 224, 3)),
        layers,
        random_weight(next(seeds), (1280, 1000), 1280),
    )


ATTENTION_HEADS = 4


def transformer(batch: int = 8, length: int = 128, width: int = 256) -> dict[str, Array]:
    """Return workload W4: the input `x` and the weights of a block with normalization first."""
    d, f = width, 4 * width
    weights = {
        "query_key_value": random_weight(42, (d, 3 * d), 2 * d),
        "out": random_weight(43, (d, d), 2 * d),
        "wide": random_weight(44, (d, f), 2 * d),
        "narrow": random_weight(45, (f, d), 2 * f),
    }
    biases = {f"{name}_bias": np.zeros(w.shape[1], np.float32) for name, w in weights.items()}
    scales = {name: np.ones(d, np.float32) for name in ("scale1", "scale2")}
    offsets = {name: np.zeros(d, np.float32) for name in ("offset1", "offset2")}
    return {"x": random_uniform(41, (batch, length, d)), **weights, **biases, **scales, **offsets}


def lookup_inputs() -> dict[str, Array]:
    """Return workload W8: tables, and positions in them."""
    return {
        "table": random_uniform(81, (50_000, 64)),
        "positions": random_classes(82, 10_000, 50_000),
        "updates": random_uniform(83, (10_000, 64)),
        "rows": random_uniform(84, (256, 10_000)),
        "square": random_uniform(85, (1024, 1024)),
    }


TOP_K = 50
"""The k of W8's top-k."""


def small_pair() -> tuple[Array, Array]:
    """Return the inputs of workloads D1 to D4: two arrays of four elements."""
    return np.array([1, 2, 3, 4], np.float32) * np.float32(0.25), np.array([4, 3, 2, 1], np.float32)


def multiply_add_chain(a: Any) -> Any:
    """Return the result of the chain in workloads D3 and D4: ten ops, multiply and add in turn."""
    y = a
    for _ in range(5):
        y = y * a
        y = y + a
    return y


def add_repeatedly(a: Any, b: Any) -> Any:
    """Add `b` to `a` a thousand times."""
    for _ in range(OPS_PER_RUN):
        a = a + b
    return a


Namespace: TypeAlias = Any
"""A module with the functions of NumPy: all peers have these names."""


def large_workloads(
    xp: Namespace,
    to_tensor: Callable[[Array], Any],
    finish: Callable[[Any], Any] = lambda result: result,
    compile: Callable[[Callable[..., Any]], Callable[..., Any]] = lambda function: function,
) -> dict[str, Callable[[], Workload]]:
    """Return W5, W6 and W7 in the namespace `xp`; `finish` waits for a result and returns it."""

    def make_workload(function: Callable[..., Any], *inputs: Array) -> Workload:
        tensors = [to_tensor(x) for x in inputs]
        function = compile(function)

        def run() -> Any:
            return finish(function(*tensors))

        def check() -> list[float]:
            results = run()
            several = results if isinstance(results, tuple) else (results,)
            return [float(np.abs(np.asarray(y, np.float64)).sum()) for y in several]

        return Workload(run, check)

    def apply_ten_ops(x: Any) -> Any:
        y = xp.sqrt(xp.abs(x * 1.01 + 0.5))
        return xp.tanh(xp.log(xp.exp(-y) + 1.0)) * x

    return {
        "W5": lambda: make_workload(apply_ten_ops, random_uniform(51, (1_000_000,))),
        "W6": lambda: make_workload(
            lambda x: (xp.sum(x, axis=0), xp.sum(x, axis=1)), random_uniform(61, (4096, 1024))
        ),
        "W7": lambda: make_workload(
            lambda a, b: a @ b, random_uniform(71, (1024, 1024)), random_uniform(72, (1024, 1024))
        ),
    }
