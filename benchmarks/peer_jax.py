"""Workloads in JAX, compiled by its jit."""

from __future__ import annotations

import os

os.environ["JAX_PLATFORMS"] = "cpu"

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import workloads
from workloads import Peer, Workload

if TYPE_CHECKING:
    from collections.abc import Callable


def peers() -> list[Peer]:
    """Return JAX, limited to one thread."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    jax.devices()
    os.sched_setaffinity(0, allowed)
    return [Peer("jax-jit", jax.__version__, STEPS)]


def training(task: workloads.Training, predict: Callable[..., Any]) -> Workload:
    """Return the workload of a step of gradient descent; the check is the loss after five steps."""
    x, labels = jnp.asarray(task.x), jax.nn.one_hot(task.labels, 10)
    weights: Any = {name: jnp.asarray(value) for name, value in task.weights.items()}

    def loss(weights: Any) -> Any:
        return -(labels * jax.nn.log_softmax(predict(x, weights))).sum(-1).mean()

    @jax.jit
    def stepped(weights: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(weights)
        return value, jax.tree.map(lambda w, g: w - task.learning_rate * g, weights, gradients)

    def run() -> float:
        nonlocal weights
        value, weights = stepped(weights)
        return float(value)

    return Workload(run, lambda: [run() for _ in range(5)][-1:])


def mlp(x: Any, w: Any) -> Any:
    """Return the logits of the MLP (W1)."""
    h = jax.nn.relu(x @ w["w0"] + w["b0"])
    h = jax.nn.relu(h @ w["w1"] + w["b1"])
    return h @ w["w2"] + w["b2"]


def convnet(x: Any, w: Any) -> Any:
    """Return the logits of the convolutional network (W2)."""
    for i in "01":
        x = jax.lax.conv_general_dilated(
            x, w[f"k{i}"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        x = jax.nn.relu(x + w[f"c{i}"])
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return x.reshape(64, -1) @ w["w"] + w["b"]


def chains() -> Workload:
    """Return the workload of chains of elementwise ops with gradients (D3)."""
    a, ones = jnp.asarray(workloads.small_pair()[0]), jnp.ones(4)

    @jax.jit
    def gradient(a: Any, ones: Any) -> Any:
        return jax.vjp(workloads.multiply_add_chain, a)[1](ones)[0]

    def run() -> None:
        for _ in range(workloads.CHAINS_PER_RUN):
            gradient(a, ones)

    return Workload(run, lambda: [float(gradient(a, ones).sum())], workloads.CHAINS_PER_RUN)


def mobilenet() -> Workload:
    """Return the workload of inference with MobileNet (W3)."""
    image, layers, matrix = workloads.mobilenet()
    tensors = [(jnp.asarray(layer.filter), jnp.asarray(layer.bias)) for layer in layers]
    x, head = jnp.asarray(image), jnp.asarray(matrix)

    @jax.jit
    def infer(x: Any, tensors: Any, head: Any) -> Any:
        h = kept = x
        for layer, (filter, bias) in zip(layers, tensors, strict=True):
            kept = h if layer.starts_residual else kept
            pad = layer.filter.shape[0] // 2
            groups = layer.filter.shape[2] if layer.is_depthwise else 1
            h = jax.lax.conv_general_dilated(
                h,
                jnp.moveaxis(filter, 2, 3) if layer.is_depthwise else filter,
                (layer.strides,) * 2,
                [(pad, pad)] * 2,
                dimension_numbers=("NHWC", "HWIO", "NHWC"),
                feature_group_count=groups,
            )
            h = h + bias
            h = jnp.clip(h, 0, 6) if layer.has_relu6 else h
            h = h + kept if layer.ends_residual else h
        return h.mean((1, 2)) @ head

    def run() -> Any:
        return jax.block_until_ready(infer(x, tensors, head))

    return Workload(run, lambda: [float(abs(run()).mean()), float(run()[0, 7])])


def normalize(x: Any, scale: Any, offset: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    return (
        centred * jax.lax.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-5) * scale + offset
    )


def block_loss(w: Any) -> Any:
    """Return a scalar that depends on all results of the transformer block (W4)."""
    x, heads = w["x"], workloads.ATTENTION_HEADS
    batch, length, width = x.shape
    h = normalize(x, w["scale1"], w["offset1"])
    h = h @ w["query_key_value"] + w["query_key_value_bias"]
    q, k, v = jnp.moveaxis(h.reshape(batch, length, 3, heads, width // heads), 2, 0)
    h = jax.nn.dot_product_attention(q, k, v).reshape(batch, length, width)
    x = x + (h @ w["out"] + w["out_bias"])
    h = normalize(x, w["scale2"], w["offset2"])
    h = jax.nn.gelu(h @ w["wide"] + w["wide_bias"], approximate=True)
    x = x + (h @ w["narrow"] + w["narrow_bias"])
    return (x * x).mean()


def transformer() -> Workload:
    """Return the workload of a transformer block with gradients (W4)."""
    weights = {name: jnp.asarray(value) for name, value in workloads.transformer().items()}
    both = jax.jit(jax.value_and_grad(block_loss))

    def check() -> list[float]:
        value, gradients = both(weights)
        return [
            float(value),
            *(float(jnp.abs(gradients[name]).sum()) for name in ("query_key_value", "x")),
        ]

    return Workload(lambda: jax.block_until_ready(both(weights)), check)


STEPS: dict[str, Callable[[], Workload]] = {
    "D3": chains,
    "W3": mobilenet,
    "W4": transformer,
    "W1": lambda: training(workloads.mlp(), mlp),
    "W2": lambda: training(workloads.convnet(), convnet),
    **workloads.large_workloads(jnp, jnp.asarray, jax.block_until_ready, jax.jit),
}
