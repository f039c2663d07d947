"""plugrad calls recorded in the metadata of the nodes that spell them out, so that a loaded model runs the same calls.

A kernel that ONNX lacks is written as several nodes, whose sums round in another order, and whose
gradient is another one. The first of these nodes has a record of the call in its metadata, which other
programs pass over. A record counts only as long as its nodes are those that were written.
"""

from __future__ import annotations

import json
from collections import Counter
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import onnx

import plugrad
from plugrad.extend import KERNELS
from plugrad_onnx.registry import OPERATORS, Operator, find_implementation, operator

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from plugrad import Tensor

PLUGRAD_DOMAIN: Final = "plugrad"
"""The domain of plugrad's own operators."""
CALL_METADATA_KEY: Final = "plugrad.call"
"""The key of the record in the metadata of a node."""
RECORDED_KERNELS: Final = frozenset(
    [
        "Attention", "Elu", "EuclideanNorm", "Expm1", "FloorDiv", "FusedBatchNorm", "IsFinite", "LayerNorm", "Log10",
        "Log1p", "Log2", "MirrorPad", "Mod", "ResizeBilinear", "ResizeNearestNeighbor", "Rsqrt", "Selu", "Softplus",
        "Square", "SquaredDifference", "Trunc", "Variance", "_FusedMatMul",
    ]
)  # fmt: skip
"""The kernels whose calls are recorded."""
RECURRENT_CELLS: Final = ("LSTM", "GRU", "SimpleRNN")
"""The names of the recurrent networks whose loops are recorded in a model's metadata."""
STOP_GRADIENT: Final = "StopGradient"
"""The name in the record of an Identity through which no gradient flows."""


class RecordedCall(NamedTuple):
    """A plugrad call that a model spells out as several nodes."""

    name: str
    """The name of an operator of `PLUGRAD_DOMAIN`, or of a kernel."""
    attributes: dict[str, Any]
    """The values of the call's attributes by name."""
    inputs: list[str]
    """The names of the call's input values in the model."""
    outputs: list[str]
    """The names of the call's output values in the model."""
    size: int
    """The number of nodes that spell out the call; the first one has the record."""


def record_call(
    nodes: Sequence[onnx.NodeProto],
    name: str,
    attributes: Mapping[str, Any],
    inputs: Sequence[str],
    outputs: Sequence[str],
) -> None:
    """Record a call in the metadata of the nodes that spell it out."""
    call = RecordedCall(name, dict(attributes), list(inputs), list(outputs), len(nodes))
    value = json.dumps({**call._asdict(), "digest": _hash_nodes(nodes)})
    nodes[0].metadata_props.add(key=CALL_METADATA_KEY, value=value)


def read_records(nodes: Sequence[onnx.NodeProto]) -> dict[int, RecordedCall]:
    """Return the recorded calls of a model's nodes by the index of each call's first node.

    Records that do not fit the nodes any more are left out.
    """
    calls = {
        place: call
        for place, node in enumerate(nodes)
        if (call := _read_record(nodes, place, node))
    }
    if not calls:
        return calls
    uses = Counter(name for node in nodes for name in node.input)
    return {
        place: c for place, c in calls.items() if _is_closed(nodes[place : place + c.size], c, uses)
    }


def find_operator(call: RecordedCall) -> tuple[Operator, dict[str, Any]] | None:
    """Return the operator and attributes for a recorded call, or None if the call is unknown."""
    if call.name in RECORDED_KERNELS:
        return OPERATORS[PLUGRAD_DOMAIN, "Kernel"][0], {
            "name": call.name,
            "attributes": call.attributes,
        }
    known = call.name in RECURRENT_CELLS or call.name == STOP_GRADIENT
    found = find_implementation(PLUGRAD_DOMAIN, call.name, 1) if known else None
    return found and (found, call.attributes)


@operator(STOP_GRADIENT, domain=PLUGRAD_DOMAIN)
def stop_gradient(x: Tensor) -> Tensor:
    """Return x as a constant for gradients."""
    return plugrad.stop_gradient(x)


@operator("Kernel", domain=PLUGRAD_DOMAIN)
def run_kernel(*inputs: Tensor, name: str, attributes: dict[str, Any]) -> Any:
    """Return the result of a kernel of plugrad."""
    given: Any = dict(zip(KERNELS[name].inputs, inputs, strict=False))
    return plugrad.run_kernel(name, given, attributes)


def _read_record(
    nodes: Sequence[onnx.NodeProto], first_index: int, node: onnx.NodeProto
) -> RecordedCall | None:
    """Return the plugrad call recorded in a node's metadata, or None."""
    texts = [entry.value for entry in node.metadata_props if entry.key == CALL_METADATA_KEY]
    if not texts:
        return None
    try:
        record = json.loads(texts[0])
        digest = record.pop("digest")
        call = RecordedCall(**record)
        fits = _hash_nodes(nodes[first_index : first_index + call.size]) == digest
        attributes = {name: _as_tuples(value) for name, value in call.attributes.items()}
        return call._replace(attributes=attributes) if fits else None
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
        return None  # whatever stands there, the nodes say what to compute


def _is_closed(
    nodes: Sequence[onnx.NodeProto], call: RecordedCall, use_counts: Counter[str]
) -> bool:
    """Return whether no node outside of a call reads one of the call's intermediate values."""
    inside = Counter(name for node in nodes for name in node.input)
    made = {name for node in nodes for name in node.output}
    return {*filter(None, call.outputs)} <= made and all(
        use_counts[name] == inside[name] for name in made.difference(call.outputs)
    )


def _hash_nodes(nodes: Iterable[onnx.NodeProto]) -> str:
    """Return a hash of nodes, which changes if any node does."""
    digest = sha256()
    for node in nodes:
        plain = onnx.NodeProto()
        plain.CopyFrom(node)
        plain.ClearField("metadata_props")
        digest.update(plain.SerializeToString(deterministic=True))
    return digest.hexdigest()


def _as_tuples(value: Any) -> Any:
    """Convert lists to tuples, which attributes of kernels are."""
    return tuple(map(_as_tuples, cast("list[Any]", value))) if isinstance(value, list) else value
