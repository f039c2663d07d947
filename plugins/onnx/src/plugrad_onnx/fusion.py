"""Fusion: convolutions absorb a following normalization and activation, and ``x * sigmoid(x)`` becomes SiLU."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from plugrad_onnx.graph import Graph, Node
from plugrad_onnx.registry import OPERATORS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

SIGMOID_SATURATION_LIMIT: Final = 750
"""The magnitude of negative numbers from which on their sigmoid is 0, also in float64."""


def fuse_nodes(graph: Graph, trained_names: set[str]) -> Graph:
    """Return a graph that computes the same with fewer nodes.

    Args:
        graph: A graph.
        trained_names: The names of weights that are not constant, which stay as they are.
    """
    constants = {name: a for name, a in graph.constants.items() if name not in trained_names}
    for node in graph.nodes:
        if node.operator.name == "Constant" and not node.operator.domain:
            constants[node.outputs[0]] = node.operator.function(**node.attributes)
    uses = Counter(name for n in graph.nodes for name in (*n.inputs, *n.captured_names))
    uses.update(graph.outputs)
    consumers = {name: node for node in graph.nodes for name in node.inputs}
    bounded = {n.outputs[0]: n.inputs[0] for n in graph.nodes if _is_bounded_below(n, constants)}
    result = Graph(graph.inputs, graph.outputs, dict(graph.constants))
    absorbed: set[int] = set()
    for node in graph.nodes:
        if id(node) in absorbed:
            continue
        if _is_operator(node, "Conv") and _is_floating(constants.get(node.inputs[1])):
            node = _absorb_followers(node, constants, uses, consumers, result.constants, absorbed)
        elif _is_operator(node, "Sigmoid"):
            product = consumers.get(node.outputs[0])
            if product is not None and _is_silu(node, product, uses, bounded):
                absorbed.add(id(product))
                node = replace(node, operator=OPERATORS["", "Swish"][0], outputs=product.outputs)
        result.nodes.append(node)
    return result


def _absorb_followers(
    conv: Node,
    constants: dict[str, NDArray[Any]],
    use_counts: Counter[str],
    consumers: Mapping[str, Node],
    new_constants: dict[str, NDArray[Any]],
    absorbed_ids: set[int],
) -> Node:
    """Return a convolution that includes the normalization and the activation that follow it."""
    fused_conv = OPERATORS["plugrad", "FusedConv"][0]
    follower = _only_follower(conv, use_counts, consumers)
    if follower is not None and _is_normalization(follower, constants):
        folded = _fold_normalization(conv, follower, constants)
        if folded is not None:
            inputs = [conv.inputs[0]]
            for name, array in zip(("filters", "bias"), folded, strict=True):
                inputs.append(f"{follower.outputs[0]}/{name}")
                new_constants[inputs[-1]] = constants[inputs[-1]] = array
            absorbed_ids.add(id(follower))
            conv = replace(conv, inputs=inputs, outputs=follower.outputs[:1])
            follower = _only_follower(conv, use_counts, consumers)
    activation = None if follower is None else _activation_name(follower, constants)
    if follower is None or activation is None:
        return conv
    absorbed_ids.add(id(follower))
    attributes = {**conv.attributes, "activation": activation}
    return replace(
        conv, operator=fused_conv, attributes=attributes, outputs=follower.outputs
    )  # fmt: skip


def _is_operator(node: Node, operator_name: str) -> bool:
    """Whether a node calls an operator of ONNX's own domain."""
    return node.operator.name == operator_name and not node.operator.domain


def _is_floating(array: Any) -> bool:
    """Whether a value is an array of floats, not None."""
    return array is not None and array.dtype.kind == "f"


def _only_follower(
    node: Node, use_counts: Mapping[str, int], consumers: Mapping[str, Node]
) -> Node | None:
    """Return the only node that reads a node's output, if as its first input, else None."""
    name = node.outputs[0]
    follower = consumers.get(name)
    alone = follower is not None and use_counts[name] == 1 and follower.inputs[0] == name
    return follower if alone else None


def _is_bounded_below(node: Node, constants: Mapping[str, NDArray[Any]]) -> bool:
    """Return whether a node takes the maximum of x and a number below which the sigmoid is 0 in all dtypes."""
    bound = constants.get(node.inputs[-1]) if _is_operator(node, "Max") else None
    is_pair = len(node.inputs) == 2 and _is_floating(bound)
    return is_pair and bool((bound <= -SIGMOID_SATURATION_LIMIT).all())


def _is_silu(
    sigmoid: Node, product: Node, use_counts: Mapping[str, int], bounded_inputs: Mapping[str, str]
) -> bool:
    """Return whether a product multiplies x, maybe bounded below, by a sigmoid of x that nobody else reads.

    So exporters write SiLU; plugrad's writes ``max(x, -800) * sigmoid(x)``, which is 0 at minus infinity.
    """
    factors = sorted(bounded_inputs.get(name, name) for name in product.inputs)
    alone = _is_operator(product, "Mul") and use_counts[sigmoid.outputs[0]] == 1
    return alone and factors == sorted([sigmoid.inputs[0], sigmoid.outputs[0]])


def _is_normalization(node: Node, constants: Mapping[str, Any]) -> bool:
    """Whether a node normalizes channels with constant statistics."""
    return (
        _is_operator(node, "BatchNormalization")
        and not node.attributes.get("training_mode", 0)
        and all(_is_floating(constants.get(name)) for name in node.inputs[1:])
        and not any(node.outputs[1:])
    )


def _fold_normalization(
    conv: Node, normalization: Node, constants: Mapping[str, NDArray[Any]]
) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """Return the filters and bias of a convolution that also normalizes; products are exact."""
    has_bias = len(conv.inputs) > 2 and conv.inputs[2]
    if has_bias and conv.inputs[2] not in constants:
        return None
    filters = constants[conv.inputs[1]]
    scale, offset, mean, variance = (
        constants[name].astype(np.float64) for name in normalization.inputs[1:]
    )
    bias = constants[conv.inputs[2]] if has_bias else 0.0
    factor = scale / np.sqrt(variance + normalization.attributes.get("epsilon", 1e-5))
    if factor.shape != filters.shape[:1]:
        return None
    scaled = filters * factor.reshape(-1, *(1,) * (filters.ndim - 1))
    return scaled.astype(filters.dtype), (offset + (bias - mean) * factor).astype(filters.dtype)


def _activation_name(node: Node, constants: Mapping[str, NDArray[Any]]) -> str | None:
    """Return the name that the fused convolution has for the activation that a node computes, or None."""
    if _is_operator(node, "Relu"):
        return "relu"
    if not _is_operator(node, "Clip"):
        return None
    bounds = [node.attributes.get("min"), node.attributes.get("max")]
    for place, name in enumerate(node.inputs[1:3]):
        if name:
            bounds[place] = constants[name].item() if name in constants else None
    return "relu6" if bounds == [0, 6] else None
