"""Operators that ONNX defines by others, as the dtypes of their inputs demand."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import onnx

from plugrad.errors import UnsupportedModel
from plugrad_onnx.elements import element_type
from plugrad_onnx.execution import Scope, run_graph
from plugrad_onnx.graph import Graph, GraphBuilder, UniqueNames, check_evaluation_order
from plugrad_onnx.registry import operator

if TYPE_CHECKING:
    from plugrad_onnx.registry import AnyInputValue


@operator("Expansion", domain="plugrad")
def expansion(
    *inputs: AnyInputValue,
    call: onnx.NodeProto,
    opsets: tuple[tuple[str, int], ...],
    scope: Scope,
    output_count: int,
    opset: int,
) -> tuple[Any, ...]:
    """Run the node in `call` by its definition as a function of other operators, built for the dtypes of the inputs."""
    types = tuple(
        None if x is None else (element_type(x.dtype), tuple(map(int, x.shape))) for x in inputs
    )
    graph = _build_body_graph(call.SerializeToString(), opsets, opset, types)
    absent = [None] * (len(graph.inputs) - len(inputs))
    return tuple(run_graph(graph, scope, [*inputs, *absent])[:output_count])


@lru_cache(maxsize=256)
def _build_body_graph(
    serialized_call: bytes,
    opsets: tuple[tuple[str, int], ...],
    opset: int,
    input_types: tuple[Any, ...],
) -> Graph:
    """Return the body of an operator's definition as a graph, for given input types.

    Raises:
        UnsupportedModel: the body has operators that are not known.
    """
    call = onnx.NodeProto.FromString(serialized_call)
    schema: Any = onnx.defs.get_schema(call.op_type, opset, call.domain)
    every = schema.context_dependent_function_opset_versions
    own = dict(opsets).get("", onnx.defs.onnx_opset_version())
    version = max((v for v in every if v <= own), default=every[-1])
    described = [
        onnx.helper.make_tensor_type_proto(*kind).SerializeToString() if kind else b""
        for kind in input_types
    ]
    body = schema.get_context_dependent_function_with_opset_version(
        version, serialized_call, described
    )
    function = onnx.FunctionProto.FromString(body)
    builder = GraphBuilder(onnx.ModelProto(), None)
    attributes = {a.name: a for a in call.attribute}
    for key, value in schema.attributes.items():
        if value.default_value.name:
            attributes.setdefault(key, value.default_value)
    formal = onnx.NodeProto(op_type=call.op_type, input=function.input, output=function.output)
    nodes = builder.iter_body_nodes(
        formal, function, call.op_type, attributes, UniqueNames(), dict(opsets), 0
    )
    graph = Graph(list(function.input), [], {}, list(nodes))
    if builder.problems:
        raise UnsupportedModel("\n".join(builder.problems))
    made = {name for node in graph.nodes for name in node.outputs}
    graph.outputs = [name if name in made else "" for name in function.output]
    check_evaluation_order(graph, set())
    return graph
