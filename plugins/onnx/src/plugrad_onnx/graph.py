"""Graphs of nodes whose operators are known, made from protobuf and checked before anything runs."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import onnx

from plugrad.errors import UnsupportedModel
from plugrad_onnx.errors import InvalidModel
from plugrad_onnx.reading import read_sparse, read_tensor
from plugrad_onnx.recorded_calls import RecordedCall, find_operator, read_records
from plugrad_onnx.registry import OPERATORS, SUPPLIED_PARAMETERS, Operator, find_implementation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

MAX_FUNCTION_DEPTH: Final = 32
"""The largest depth of nested graphs and functions."""
EMPTY_LARGE_WEIGHTS: Final[Mapping[int, NDArray[Any]]] = MappingProxyType({})
"""The empty mapping of weights that a model file keeps outside of itself: this model has all of its weights."""
REQUIRED_ATTRIBUTE: Final = inspect.Parameter.empty
"""The default of an attribute that a node must have."""


@dataclass
class Node:
    """One call of an operator, with the names of its input and output values."""

    name: str
    """The name of the node in messages."""
    operator: Operator
    """The implementation of the operator."""
    opset: int
    """The version of the operator set."""
    inputs: list[str]
    """The names of the input values; empty for an input that is left out."""
    outputs: list[str]
    """The names of the output values."""
    attributes: dict[str, Any]
    """The values of the attributes by name."""
    subgraphs: dict[str, Graph]
    """The subgraphs by the name of their attribute."""
    captured_names: tuple[str, ...] = ()
    """The names of values of enclosing graphs that the subgraphs read."""

    def __str__(self) -> str:
        return describe_node(self.name, self.operator.domain, self.operator.name, self.opset)


@dataclass
class Graph:
    """Nodes in execution order, and the names of inputs and outputs."""

    inputs: list[str]
    """The names of the input values."""
    outputs: list[str]
    """The names of the output values."""
    constants: dict[str, NDArray[Any]]
    """The arrays of constant values, by value name."""
    nodes: list[Node] = field(default_factory=list[Node])
    """The nodes in the order in which they run."""

    def free_names(self) -> set[str]:
        """Return the names that the graph reads from enclosing graphs."""
        inside = {*self.inputs, *self.constants}
        outside: set[str] = set()
        for node in self.nodes:
            outside.update(n for n in (*node.inputs, *node.captured_names) if n and n not in inside)
            inside.update(node.outputs)
        outside.update(name for name in self.outputs if name and name not in inside)
        return outside


def describe_node(name: str, domain: str, operator_name: str, opset: int) -> str:
    """Return the description of a node in messages."""
    operator = f"{domain}.{operator_name}" if domain else operator_name
    return f"node {name!r} ({operator}, opset {opset})"


def opsets_by_domain(opset_imports: Iterable[onnx.OperatorSetIdProto]) -> dict[str, int]:
    """Return operator-set versions by domain; ONNX's own domain is the empty string."""
    return {
        "" if entry.domain == "ai.onnx" else entry.domain: entry.version for entry in opset_imports
    }


class GraphBuilder:
    """Builds graphs from the protobufs of one model; calls of local functions are replaced by their bodies."""

    def __init__(
        self,
        model: onnx.ModelProto,
        folder: Path | None,
        large: Mapping[int, NDArray[Any]] = EMPTY_LARGE_WEIGHTS,
    ) -> None:
        self.folder = folder
        self.large = large
        self.functions = {(f.domain, f.name): f for f in model.functions}
        self.problems: list[str] = []
        self._count = 0
        self._open: list[tuple[str, str]] = []

    def build_graph(
        self,
        graph_proto: onnx.GraphProto,
        opsets: Mapping[str, int],
        unique_names: UniqueNames,
        depth: int = 0,
    ) -> Graph:
        """Build the main graph of a model, or a subgraph in an attribute of a node.

        Raises:
            InvalidModel: a value is used before it is computed, or computed twice, or graphs are
                nested too deeply.
        """
        if depth > MAX_FUNCTION_DEPTH:
            raise InvalidModel(
                f"Graphs and functions are nested more than {MAX_FUNCTION_DEPTH} deep."
            )
        constants = {
            unique_names[tensor.name]: self.large[place]
            if place in self.large and not depth
            else read_tensor(tensor, self.folder)
            for place, tensor in enumerate(graph_proto.initializer)
        }
        for sparse in graph_proto.sparse_initializer:
            constants[unique_names[sparse.values.name]] = read_sparse(sparse, self.folder)
        graph = Graph([], [unique_names[v.name] for v in graph_proto.output], constants)
        graph.inputs = [unique_names[v.name] for v in graph_proto.input]
        graph.nodes = list(self.iter_nodes(graph_proto.node, opsets, unique_names, {}, depth))
        return graph

    def iter_nodes(
        self,
        node_protos: Iterable[onnx.NodeProto],
        opsets: Mapping[str, int],
        unique_names: UniqueNames,
        given_attributes: Mapping[str, onnx.AttributeProto],
        depth: int,
    ) -> Iterator[Node]:
        """Yield nodes; a call of a local function becomes the nodes of its body, which gets attributes of the call."""
        if depth > MAX_FUNCTION_DEPTH:
            raise InvalidModel(
                f"Graphs and functions are nested more than {MAX_FUNCTION_DEPTH} deep."
            )
        node_protos = list(node_protos)
        calls = read_records(node_protos)
        replaced = 0
        for place, proto in enumerate(node_protos):
            if replaced:
                replaced -= 1
                continue
            if place in calls and (found := find_operator(calls[place])):
                yield _make_composite_node(calls[place], *found, unique_names)
                replaced = calls[place].size - 1
                continue
            domain = "" if proto.domain == "ai.onnx" else proto.domain
            opset = opsets.get(domain, 1)
            name = proto.name or (proto.output[0] if proto.output else proto.op_type)
            attributes = _resolve_attributes(proto, given_attributes)
            where = describe_node(name, domain, proto.op_type, opset)
            function = self.functions.get((domain, proto.op_type))
            operator = (
                find_implementation(domain, proto.op_type, opset) if function is None else None
            )
            if operator is not None:
                yield self._make_node(
                    proto, name, operator, opset, attributes, opsets, unique_names, depth
                )
                continue
            schema = _find_schema(domain, proto.op_type, opset) if function is None else None
            if schema is not None and schema.has_function:
                function = schema.function_body
                for key, value in schema.attributes.items():
                    if value.default_value.name:
                        attributes.setdefault(key, value.default_value)
            if function is not None:
                yield from self.iter_body_nodes(
                    proto, function, where, attributes, unique_names, opsets, depth
                )
            elif schema is not None and schema.has_context_dependent_function:
                yield self._make_expansion_node(
                    proto, name, opset, attributes, opsets, unique_names
                )
            else:
                self.problems.append(f"{where}: {_describe_remedy(domain, proto.op_type, opset)}")

    def _make_node(
        self,
        node_proto: onnx.NodeProto,
        node_name: str,
        operator: Operator,
        opset: int,
        given_attributes: Mapping[str, onnx.AttributeProto],
        opsets: Mapping[str, int],
        unique_names: UniqueNames,
        depth: int,
    ) -> Node:
        """Return a node that calls an operator with an implementation."""
        where = describe_node(node_name, operator.domain, operator.name, opset)
        values: dict[str, Any] = {}
        graphs: dict[str, Graph] = {}
        for key, attribute in given_attributes.items():
            if key not in operator.attributes:
                known = ", ".join(operator.attributes) or "none"
                self.problems.append(f"{where}: attribute {key!r} is not known; {known} are.")
            elif attribute.type == onnx.AttributeProto.GRAPH:
                graphs[key] = self.build_graph(attribute.g, opsets, unique_names, depth + 1)
            else:
                values[key] = self.parse_attribute(attribute, where)
        inputs = [unique_names[n] for n in node_proto.input]
        for key, default in operator.attributes.items():
            if default is REQUIRED_ATTRIBUTE and key not in values and key not in graphs:
                raise InvalidModel(f"{where}: attribute {key!r} is missing.")
        present = max((i + 1 for i, n in enumerate(inputs) if n), default=0)
        if present < operator.required_input_count or (
            present > len(operator.input_kinds) and not operator.variadic_kind
        ):
            raise InvalidModel(
                f"{where} has {present} inputs; {operator.required_input_count} to {len(operator.input_kinds)} "
                "are expected."
            )
        captured = {free for graph in graphs.values() for free in graph.free_names()}
        outputs = [unique_names[n] for n in node_proto.output]
        return Node(
            node_name, operator, opset, inputs, outputs, values, graphs, tuple(sorted(captured))
        )

    def parse_attribute(self, attribute_proto: onnx.AttributeProto, node_description: str) -> Any:
        """Return the value of an attribute; tensors become arrays.

        Raises:
            InvalidModel: it has no value that can be read.
        """
        kinds = onnx.AttributeProto
        try:
            if attribute_proto.type == kinds.TENSOR:
                return read_tensor(attribute_proto.t, self.folder)
            if attribute_proto.type == kinds.SPARSE_TENSOR:
                return read_sparse(attribute_proto.sparse_tensor, self.folder)
            value = onnx.helper.get_attribute_value(attribute_proto)
            if attribute_proto.type == kinds.STRING:
                return value.decode()
            if attribute_proto.type == kinds.STRINGS:
                return [text.decode() for text in value]
            return list(value) if attribute_proto.type in (kinds.INTS, kinds.FLOATS) else value
        except (ValueError, UnicodeDecodeError) as error:
            raise InvalidModel(
                f"{node_description}: attribute {attribute_proto.name!r}: {error}"
            ) from error

    def iter_body_nodes(
        self,
        node_proto: onnx.NodeProto,
        function: onnx.FunctionProto,
        node_description: str,
        attributes: dict[str, onnx.AttributeProto],
        unique_names: UniqueNames,
        opsets: Mapping[str, int],
        depth: int,
    ) -> Iterator[Node]:
        """Yield the nodes of a function's body with the names and attributes of the call."""
        key = (function.domain, function.name)
        if key in self._open:
            raise InvalidModel(f"{node_description}: this function calls itself.")
        for default in function.attribute_proto:
            attributes.setdefault(default.name, default)
        self._count += 1
        inner = UniqueNames(f"{unique_names.prefix}{function.name}.{self._count}/")
        inputs = [*node_proto.input, *[""] * len(function.input)]
        for formal, actual in zip(function.input, inputs, strict=False):
            inner.known[formal] = unique_names[actual]
        for formal, actual in zip(function.output, node_proto.output, strict=False):
            if actual:
                inner.known[formal] = unique_names[actual]
        own = {**opsets, **opsets_by_domain(function.opset_import)}
        self._open.append(key)
        yield from self.iter_nodes(function.node, own, inner, attributes, depth + 1)
        self._open.pop()

    def _make_expansion_node(
        self,
        node_proto: onnx.NodeProto,
        node_name: str,
        opset: int,
        attributes: Mapping[str, onnx.AttributeProto],
        opsets: Mapping[str, int],
        unique_names: UniqueNames,
    ) -> Node:
        """Return a node for an operator defined by a function whose body depends on the dtypes of its inputs."""
        call = onnx.NodeProto()
        call.CopyFrom(node_proto)
        del call.attribute[:]
        call.attribute.extend(attributes.values())
        expand = OPERATORS["plugrad", "Expansion"][0]
        operator = Operator(
            node_proto.op_type, expand.domain, 1, expand.function, True, variadic_kind="AnyInputValue",
            supplied_parameters=SUPPLIED_PARAMETERS,
        )  # fmt: skip
        inputs, outputs = (
            [unique_names[n] for n in node_proto.input],
            [unique_names[n] for n in node_proto.output],
        )
        return Node(
            node_name,
            operator,
            opset,
            inputs,
            outputs,
            {"call": call, "opsets": tuple(opsets.items())},
            {},
        )


def _make_composite_node(
    call: RecordedCall, operator: Operator, attributes: dict[str, Any], unique_names: UniqueNames
) -> Node:
    """Return one node for a recorded plugrad call that the file expresses as several nodes."""
    inputs, outputs = (
        [unique_names[name] for name in part] for part in (call.inputs, call.outputs)
    )
    return Node(
        next(filter(None, outputs), call.name), operator, 1, inputs, outputs, attributes, {}
    )


class UniqueNames:
    """Maps the names of a graph, or of an inlined function, to unique names."""

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix
        self.known: dict[str, str] = {"": ""}

    def __getitem__(self, name: str) -> str:
        return self.known.get(name, self.prefix + name)


def build_graph(
    model: onnx.ModelProto,
    folder: Path | None,
    large_weights: Mapping[int, NDArray[Any]] = EMPTY_LARGE_WEIGHTS,
) -> Graph:
    """Build the graph of a model and check that every operator is known.

    Args:
        model: The model.
        folder: Where its external data lie, if it has come from a file.
        large_weights: Weights that it lacks, by their places among all.

    Raises:
        InvalidModel: it breaks a rule of ONNX.
        UnsupportedModel: it needs an operator, or an attribute, that is not known.
    """
    builder = GraphBuilder(model, folder, large_weights)
    opsets = opsets_by_domain(model.opset_import)
    if not opsets:
        raise InvalidModel("The model does not say which version of the operators it uses.")
    graph = builder.build_graph(model.graph, opsets, UniqueNames())
    if builder.problems:
        listed = "\n".join(f"  {problem}" for problem in dict.fromkeys(builder.problems))
        raise UnsupportedModel(f"plugrad-onnx cannot run this model:\n{listed}")
    check_evaluation_order(graph, set())
    return graph


def check_evaluation_order(graph: Graph, outer_names: set[str]) -> None:
    """Check that each value is computed exactly once, and before its first use.

    Raises:
        InvalidModel: one is not.
    """
    defined = {*outer_names, *graph.inputs, *graph.constants}
    made: set[str] = {*graph.inputs}
    for node in graph.nodes:
        for name in node.inputs:
            if name and name not in defined:
                raise InvalidModel(
                    f"{node}: input {name!r} is computed nowhere before, or depends on this node."
                )
        for inner in node.subgraphs.values():
            check_evaluation_order(inner, defined)
        for name in filter(None, node.outputs):
            if name in made:
                raise InvalidModel(f"{node}: another node has computed {name!r}, too.")
            made.add(name)
            defined.add(name)
    for name in filter(None, graph.outputs):
        if name not in defined:
            raise InvalidModel(f"Output {name!r} of the model is not computed by any node.")


def _resolve_attributes(
    node_proto: onnx.NodeProto, given_attributes: Mapping[str, onnx.AttributeProto]
) -> dict[str, onnx.AttributeProto]:
    """Return the attributes of a node; references to attributes of the enclosing function are replaced by values."""
    attributes: dict[str, onnx.AttributeProto] = {}
    for attribute in node_proto.attribute:
        if not attribute.ref_attr_name:
            attributes[attribute.name] = attribute
        elif attribute.ref_attr_name in given_attributes:
            attributes[attribute.name] = onnx.AttributeProto()
            attributes[attribute.name].CopyFrom(given_attributes[attribute.ref_attr_name])
            attributes[attribute.name].name = attribute.name
    return attributes


def _find_schema(domain: str, operator_name: str, opset: int) -> Any:
    """Return the schema of an operator in the package onnx, or None."""
    try:
        return onnx.defs.get_schema(operator_name, opset, domain)
    except onnx.defs.SchemaError:
        return None


def _describe_remedy(domain: str, operator_name: str, opset: int) -> str:
    """Return the reason why an operator is unknown, and a remedy."""
    versions = OPERATORS.get((domain, operator_name))
    if versions:
        return (
            f"this operator is known from opset {versions[-1].since_opset} on. Convert the model with "
            "onnx.version_converter.convert_version."
        )
    if domain not in ("", "ai.onnx.ml"):
        return (
            f"operators of the domain {domain!r} are not known. Export the model with ONNX's own "
            "operators, or add the operator as a function of the model."
        )
    if _find_schema(domain, operator_name, onnx.defs.onnx_opset_version()) is None:
        return "ONNX has no such operator. Export the model with an exporter for ONNX."
    return (
        "plugrad-onnx lacks this operator. Export the model with other operators, or declare one "
        "with plugrad_onnx.operator."
    )
