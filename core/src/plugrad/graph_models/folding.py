"""Normalizations by known statistics, which become part of the convolution before them when a graph is written."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

FUSED_CONVOLUTION_OF: Final = {
    "Conv2D": "_FusedConv2D",
    "_FusedConv2D": "_FusedConv2D",
    "DepthwiseConv2dNative": "FusedDepthwiseConv2dNative",
    "FusedDepthwiseConv2dNative": "FusedDepthwiseConv2dNative",
}
"""The convolutions that take a normalization, and what they become."""
BIAS_ADD_ATTRIBUTE: Final = {"list": {"s": ["Qmlhc0FkZA=="]}}
"""The attribute of a convolution with a bias and without an activation: BiasAdd in base64."""


def fold_batch_norms(nodes: Sequence[dict[str, Any]], weights: dict[str, Any]) -> list[dict[str, Any]]:  # fmt: skip
    """Fold batch normalizations into the convolutions before them; return the nodes and change the weights.

    ``(conv(x, w) + b - mean) * factor + offset`` is a convolution with ``w * factor`` and ``(b - mean) * factor +
    offset``, where factor is ``scale / sqrt(variance + epsilon)``. The result of the convolution must have no other
    use, and all else must be constants of the model.
    """
    uses = Counter(_node_name(name) for node in nodes for name in node.get("input", ()))
    found = {node["name"]: node for node in nodes}
    replaced: dict[str, dict[str, Any]] = {}
    for node in nodes:
        if node["op"] == "FusedBatchNormV3":
            folded = _fold_into_convolution(node, found, weights, uses)
            if folded is not None:
                replaced[node["name"]] = folded
    kept = [replaced.get(node["name"], node) for node in nodes]
    added = [name for node in replaced.values() for name in node["input"][1:]]
    consts = [{"name": n, "op": "Const", "attr": {"dtype": {"type": "DT_FLOAT"}}} for n in added]
    return (
        _drop_folded_nodes([*consts, *kept], weights, replaced, found) if replaced else list(nodes)
    )


def _fold_into_convolution(
    node: dict[str, Any],
    nodes_by_name: dict[str, Any],
    weights: dict[str, Any],
    reader_counts: Counter[str],
) -> dict[str, Any] | None:
    """Return a convolution that includes the normalization after it, or None if there is no such pair."""
    source, *vectors = node["input"]
    before = nodes_by_name.get(source)
    bias = None
    if before is not None and before["op"] == "AddV2" and reader_counts[source] == 1:
        source, bias = before["input"]
        before = nodes_by_name.get(source)
    if (
        before is None
        or before["op"] not in FUSED_CONVOLUTION_OF
        or reader_counts[source] != 1
        or before["attr"].get("fused_ops", BIAS_ADD_ATTRIBUTE) != BIAS_ADD_ATTRIBUTE
    ):
        return None
    x, kernel, *own = before["input"]
    biases = [name for name in (*own, bias) if name is not None]
    if any(name not in weights for name in (kernel, *biases, *vectors)):
        return None
    scale, offset, mean, variance = (_as_float64(weights[name]) for name in vectors)
    if any(weights[name].shape != mean.shape for name in biases):
        return None
    factor = scale / np.sqrt(variance + node["attr"]["epsilon"]["f"])
    total = sum((_as_float64(weights[name]) for name in biases), start=-mean)
    filters = _as_float64(weights[kernel])
    each = factor.reshape(filters.shape[2:]) if "Depthwise" in before["op"] else factor
    names = [f"{node['name']}/filters", f"{node['name']}/bias"]
    for name, array in zip(names, (filters * each, total * factor + offset), strict=True):
        weights[name] = array.astype(np.float32)
    attrs = {**before["attr"], "fused_ops": BIAS_ADD_ATTRIBUTE, "num_args": {"i": "1"}}
    return {
        "name": node["name"],
        "op": FUSED_CONVOLUTION_OF[before["op"]],
        "input": [x, *names],
        "attr": attrs,
    }


def _drop_folded_nodes(
    nodes: list[dict[str, Any]], weights: dict[str, Any], replacements: dict[str, Any], nodes_by_name: dict[str, Any]
) -> list[dict[str, Any]]:  # fmt: skip
    """Return the nodes without those whose only reader was a folded normalization."""
    suspects = {_node_name(name) for name in replacements for name in nodes_by_name[name]["input"]}
    while suspects:
        uses = Counter(_node_name(name) for node in nodes for name in node.get("input", ()))
        dead = {name for name in suspects if not uses[name]} - replacements.keys()
        suspects = {
            _node_name(name)
            for node in nodes
            if node["name"] in dead
            for name in node.get("input", ())
        }
        nodes = [node for node in nodes if node["name"] not in dead]
        for name in dead:
            weights.pop(name, None)
    return nodes


def _node_name(output_name: str) -> str:
    """Return the name of the node in the name of one of its outputs."""
    return output_name.removeprefix("^").partition(":")[0]


def _as_float64(array: NDArray[Any]) -> NDArray[np.float64]:
    """Return an array in float64."""
    return np.asarray(array, np.float64)
