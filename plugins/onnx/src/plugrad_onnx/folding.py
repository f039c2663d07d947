"""Constant folding: nodes whose inputs are constants are computed before anything runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from plugrad.errors import PlugradError
from plugrad_onnx.elements import is_array
from plugrad_onnx.execution import Scope, evaluate_node
from plugrad_onnx.graph import Graph, Node
from plugrad_onnx.storage import cast_to

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

MAX_CONSTANT_ELEMENTS: Final = 1 << 20
"""The largest number of elements in the inputs of a node that is computed before anything runs."""
DTYPE_KEEPING_OPERATORS: Final = frozenset(
    [
        "Abs", "Add", "AveragePool", "BatchNormalization", "Clip", "Concat", "Conv", "ConvTranspose", "Div",
        "Dropout", "Elu", "Erf", "Exp", "Expand", "Flatten", "Gather", "Gelu", "Gemm", "GlobalAveragePool",
        "GlobalMaxPool", "HardSigmoid", "HardSwish", "Identity", "InstanceNormalization",
        "LayerNormalization", "LeakyRelu", "MatMul", "MaxPool", "Mul", "Neg", "Pad", "Pow", "PRelu",
        "ReduceMax", "ReduceMean", "ReduceSum", "Relu", "Reshape", "Resize", "Sigmoid", "Slice", "Softmax",
        "Split", "Sqrt", "Squeeze", "Sub", "Tanh", "Transpose", "Unsqueeze",
    ]
)  # fmt: skip
"""The operators whose outputs have the dtype of their first input."""


def fold_constants(
    graph: Graph, variable_names: set[str], input_dtypes: Mapping[str, np.dtype[Any]]
) -> Graph:
    """Return a graph without the nodes whose outputs are constants.

    Args:
        graph: A graph.
        variable_names: The names of inputs and of weights that are trained, which are no constants.
        input_dtypes: The dtypes of the inputs.
    """
    known = {name: array for name, array in graph.constants.items() if name not in variable_names}
    types = dict(input_dtypes) | {name: array.dtype for name, array in graph.constants.items()}
    result = Graph(graph.inputs, graph.outputs, dict(graph.constants))
    for node in graph.nodes:
        values = _constant_outputs(node, known, types)
        if values is None:
            result.nodes.append(node)
            kind = types.get(node.inputs[0]) if node.inputs else None
            if (
                kind is not None
                and node.operator.name in DTYPE_KEEPING_OPERATORS
                and not node.operator.domain
            ):
                types[node.outputs[0]] = kind
            continue
        for name, value in values.items():
            known[name] = result.constants[name] = value
            types[name] = value.dtype
    return result


def _constant_outputs(
    node: Node, known_values: Mapping[str, NDArray[Any]], known_dtypes: Mapping[str, np.dtype[Any]]
) -> dict[str, NDArray[Any]] | None:
    """Return the outputs of a node by name if they are constant and small."""
    names = [name for name in node.inputs if name]
    if node.subgraphs or not node.operator.is_pure:
        return None
    if node.operator.name == "CastLike" and names[0] in known_values and names[-1] in known_dtypes:
        value = cast_to(known_values[names[0]], known_dtypes[names[-1]])
        return {node.outputs[0]: np.asarray(value)} if is_array(value) else None
    if (
        not all(name in known_values for name in names)
        or sum(known_values[n].size for n in names) > MAX_CONSTANT_ELEMENTS
    ):
        return None
    scope = Scope("cpu", {name: known_values[name] for name in names}, set(names), {})
    try:
        evaluate_node(node, scope)
    except PlugradError:
        return None  # it is said when the node runs
    values = {name: scope.values[name] for name in node.outputs if name}
    small = all(
        is_array(value) and value.size <= MAX_CONSTANT_ELEMENTS for value in values.values()
    )
    return values if small else None
