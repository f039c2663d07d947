"""Reading of graphs from a model's JSON, with every reference and attribute checked."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, Final, cast

from plugrad.errors import DamagedFile, UnsupportedModel, short_repr
from plugrad.graph_models.nodes import Graph, Node, OutputReference
from plugrad.graph_models.registry import (
    CONTROL_FLOW_OPERATORS,
    OPERATORS,
    OPERATORS_WITHOUT_COMPUTATION,
    UNSUPPORTED_OPERATORS,
)
from plugrad.importing import import_lazily

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from plugrad.graph_models.registry import Operator

    Json = Mapping[str, Any]
    """An object of JSON."""

DTYPE_OF_TENSORFLOW_NAME: Final[dict[str, str]] = {
    "DT_FLOAT": "float32", "DT_INT32": "int32", "DT_BOOL": "bool", "DT_STRING": "string",
    "DT_COMPLEX64": "complex64", "DT_INT64": "int32", "DT_UINT8": "int32", "DT_INT8": "int32",
    "DT_INT16": "int32", "DT_UINT16": "int32", "DT_HALF": "float32", "DT_BFLOAT16": "float32",
    "DT_DOUBLE": "float32", "DT_RESOURCE": "resource", "DT_VARIANT": "variant",
}  # fmt: skip
"""For each of TensorFlow's dtypes, the dtype in which TensorFlow.js computes."""
TENSORFLOW_DTYPE_OF_NUMBER: Final = {
    1: "DT_FLOAT", 2: "DT_DOUBLE", 3: "DT_INT32", 4: "DT_UINT8", 5: "DT_INT16", 6: "DT_INT8", 7: "DT_STRING",
    8: "DT_COMPLEX64", 9: "DT_INT64", 10: "DT_BOOL", 14: "DT_BFLOAT16", 17: "DT_UINT16", 19: "DT_HALF",
    20: "DT_RESOURCE", 21: "DT_VARIANT",
}  # fmt: skip
"""TensorFlow's names of dtypes by their numbers."""


def read_graph(topology: Json) -> Graph:
    """Read the main graph of a model.

    Raises:
        DamagedFile: it is none.
    """
    import_lazily("plugrad.graph_models.operators")  # those who read only weights do without
    nodes = _read_nodes(_read_object_list(topology, "node"), {})
    consumed = {r.node for node in nodes.values() for r in node.inputs}
    consumed.update(name for node in nodes.values() for name in node.control_inputs)
    inputs = [name for name, node in nodes.items() if node.op == "Placeholder"]
    outputs = [
        OutputReference(name) for name in nodes if name not in consumed and name not in inputs
    ]
    return Graph(nodes, tuple(inputs), tuple(outputs))


def read_functions(topology: Json) -> dict[str, Graph]:
    """Read the functions of a model by name.

    Raises:
        DamagedFile: one is none, or runs itself.
    """
    library: Json = topology.get("library") or {}
    graphs: dict[str, Graph] = {}
    for function in _read_object_list(library, "function"):
        signature = _require_mapping(function.get("signature"), "a function's signature")
        name = _require_text(signature.get("name"), "a function's name")
        graphs[name] = _read_function(name, signature, function)
    _check_calls(graphs)
    return graphs


def _read_function(function_name: str, signature: Json, function: Json) -> Graph:
    """Return the graph of a function of the model."""
    inputs = [
        _require_text(part.get("name"), "an argument")
        for part in _read_object_list(signature, "inputArg")
    ]
    wanted = [
        _require_text(part.get("name"), "a result")
        for part in _read_object_list(signature, "outputArg")
    ]
    arguments = {n: Node(n, "Placeholder", (), (), {}) for n in inputs}
    nodes = _read_nodes(_read_object_list(function, "nodeDef"), arguments)
    results = _require_mapping(function.get("ret") or {}, "the results of a function")
    if any(part not in results for part in wanted):
        raise DamagedFile(
            f"function {function_name!r} does not have the results {', '.join(wanted)}"
        )
    outputs = [_parse_reference(results[part], nodes) for part in wanted]
    return Graph(nodes, tuple(inputs), tuple(outputs))


def _read_nodes(node_entries: Sequence[Json], known_nodes: Mapping[str, Node]) -> dict[str, Node]:
    """Read nodes by name, in addition to those that are known."""
    raw: dict[str, Json] = {}
    for item in node_entries:
        name = _require_text(item.get("name"), "a node's name")
        if name in raw or name in known_nodes:
            raise DamagedFile(f"there are two nodes called {short_repr(name)}")
        raw[name] = item
    # References to outputs by name need the operators, so nodes come first without their inputs.
    nodes: dict[str, Node] = dict(known_nodes)
    for name, item in raw.items():
        op = _require_text(item.get("op"), f"the operator of node {name!r}")
        attributes = _decode_attributes(
            _require_mapping(item.get("attr") or {}, "attributes"), name
        )
        nodes[name] = Node(name, op, (), (), attributes, OPERATORS.get(op))
    for name, item in raw.items():
        texts = [
            _require_text(text, f"an input of node {name!r}")
            for text in _require_list(item.get("input"))
        ]
        inputs = [_parse_reference(text, nodes) for text in texts if not text.startswith("^")]
        controls = [text[1:] for text in texts if text.startswith("^")]
        missing = [other for other in controls if other not in nodes]
        if missing:
            raise DamagedFile(f"node {name!r} waits for {missing[0]!r}, which does not exist")
        node = nodes[name]
        nodes[name] = Node(
            name, node.op, tuple(inputs), tuple(controls), node.attributes, node.operator
        )
    return nodes


def _parse_reference(text: Any, nodes: Mapping[str, Node]) -> OutputReference:
    """Parse an input: ``node``, ``node:1`` or ``node:output:0``."""
    name, *rest = _require_text(text, "a reference").split(":")
    node = nodes.get(name)
    if node is None:
        raise DamagedFile(f"{short_repr(text)} refers to a node that does not exist")
    if not rest:
        return OutputReference(name)
    if len(rest) > 2 or not rest[-1].isdecimal() or len(rest[-1]) > 6:
        raise DamagedFile(f"{short_repr(text)} is no output of a node")
    port = int(rest[-1])
    if len(rest) == 2 and node.operator is not None and rest[0] in node.operator.output_names:
        port += node.operator.output_names.index(rest[0])
    elif len(rest) == 2 and node.op == "Switch":
        port = int(rest[0] == "output_true")
    return OutputReference(name, port)


def check_operators(nodes: Iterable[Node], functions: Mapping[str, Graph]) -> None:
    """Check that all nodes, including those of called functions, can be computed.

    Raises:
        UnsupportedModel: some cannot; each is named.
        DamagedFile: a node lacks inputs or attributes, or runs a function that does not exist.
    """
    problems: dict[str, str] = {}
    pending, seen = [*nodes], set[str]()
    while pending:
        node = pending.pop()
        problem = _find_problem(node)
        if problem:
            problems[f"{node}"] = problem
        elif node.operator is not None:
            _check_node(node, node.operator)
        for name in _list_called_functions(node):
            if name not in functions:
                raise DamagedFile(f"{node} runs the function {name!r}, which does not exist")
            if name not in seen:
                seen.add(name)
                pending += functions[name].nodes.values()
    if problems:
        lines = [f"  {node}: {problem}." for node, problem in problems.items()]
        raise UnsupportedModel("\n".join(["plugrad cannot run this model:", *lines]))


def _find_problem(node: Node) -> str:
    """Return why a node cannot be computed, or None if it can."""
    if node.op in UNSUPPORTED_OPERATORS:
        return UNSUPPORTED_OPERATORS[node.op]
    if (
        node.operator is None
        and node.op not in CONTROL_FLOW_OPERATORS | OPERATORS_WITHOUT_COMPUTATION
    ):
        return (
            "there is no such operator in TensorFlow.js; convert the model again, or leave it out"
        )
    return ""


def _check_node(node: Node, operator: Operator) -> None:
    """Raise unless a node has the inputs and attributes that its operator requires."""
    most = None if operator.variadic_annotation else len(operator.input_annotations)
    count = len(node.inputs)
    if count < operator.required_input_count or (most is not None and count > most):
        raise DamagedFile(f"{node} has {count} inputs; it needs {operator.required_input_count}")
    missing = [
        name
        for name, needed in operator.attributes.items()
        if needed and name not in node.attributes
    ]
    if missing:
        raise DamagedFile(f"{node} does not have the attribute {missing[0]!r}")


FUNCTION_ATTRIBUTE_NAMES: Final = ("then_branch", "else_branch", "cond", "body", "f")
"""The attributes whose values name functions of the model."""


def _list_called_functions(node: Node) -> list[str]:
    """Return the names of the functions that a node calls."""
    if node.operator is None or not node.operator.runs_functions:
        return []
    return [str(node.attributes[n]) for n in FUNCTION_ATTRIBUTE_NAMES if n in node.attributes]


def _check_calls(graphs: Mapping[str, Graph]) -> None:
    """Raise if a function calls itself, directly or through others."""
    calls = {
        name: {other for node in graph.nodes.values() for other in _list_called_functions(node)}
        & graphs.keys()
        for name, graph in graphs.items()
    }
    while calls:
        ends = {name for name, others in calls.items() if not others & calls.keys()}
        if not ends:
            raise DamagedFile(f"function {min(calls)!r} runs itself")
        calls = {name: others for name, others in calls.items() if name not in ends}


# --- attributes -----------------------------------------------------------------------------------


def _decode_attributes(entries: Json, node_name: str) -> dict[str, Any]:
    """Decode the attributes of a node; their names become lower case, as Python's parameters are."""
    try:
        return {name.lower(): _decode_attribute(value) for name, value in entries.items()}
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise DamagedFile(f"an attribute of node {node_name!r} is damaged: {error}") from None


def _decode_attribute(value: Any) -> Any:
    """Decode an attribute: a number, string, dtype, shape, function name, or a list of these."""
    match value:
        case {"list": parts}:
            lists = cast("dict[str, list[Any]]", parts or {})
            return [
                _decode_scalar(kind, part) for kind, several in lists.items() for part in several
            ]
        case {"func": {"name": name}}:
            return str(name)
        case {**kinds} if len(kinds) == 1:
            ((kind, part),) = kinds.items()
            return _decode_scalar(kind, part)
        case _:
            return None


def _decode_scalar(kind: str, value: Any) -> Any:
    """Return a value of an attribute decoded by its kind, one of TensorFlow's letters or names for a type."""
    match kind:
        case "s":
            return _decode_string(value)
        case "i":
            return int(value)
        case "f":
            return float(value)
        case "b":
            return bool(value)
        case "type":
            return dtype_name(value)
        case "shape":
            if value.get("unknownRank"):
                return None
            return [int(size["size"]) if "size" in size else -1 for size in value.get("dim", [])]
        case _:
            return None


def _decode_string(value: Any) -> str:
    """Decode a string from base64 or from a list of bytes."""
    if isinstance(value, list):
        return bytes(cast("list[int]", value)).decode()
    return base64.b64decode(value, validate=True).decode()


def dtype_name(value: Any) -> str:
    """Return TensorFlow.js's name for a TensorFlow dtype, given by name or number."""
    name = TENSORFLOW_DTYPE_OF_NUMBER.get(value, value) if isinstance(value, int) else value
    if name not in DTYPE_OF_TENSORFLOW_NAME:
        raise DamagedFile(f"TensorFlow.js does not have the dtype {short_repr(value)}")
    return DTYPE_OF_TENSORFLOW_NAME[name]


# --- JSON -----------------------------------------------------------------------------------------


def _read_object_list(parent: Json, key: str) -> list[Json]:
    """Return the list of objects under a key."""
    return [_require_mapping(part, key) for part in _require_list(parent.get(key))]


def _require_list(value: Any) -> list[Any]:
    """Return a value that is a list, empty for None; raise if it is something else."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise DamagedFile(f"{short_repr(value)} stands where a list is needed")
    return cast("list[Any]", value)


def _require_mapping(value: Any, expected: str) -> Json:
    """Return a value if it is an object of JSON, else raise an error that says what was expected."""
    if not isinstance(value, dict):
        raise DamagedFile(f"{short_repr(value)} stands where {expected} is needed")
    return cast("Json", value)


def _require_text(value: Any, expected: str) -> str:
    """Return a value if it is a text, else raise an error that says what was expected."""
    if not isinstance(value, str) or not value:
        raise DamagedFile(f"{short_repr(value)} is not {expected}")
    return value
