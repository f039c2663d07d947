"""The picture of a traced graph: its steps are nodes, and its values are edges."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugrad.errors import short_repr
from plugrad.graph.graph import Call, Cond, Graph, HostValue, Scan, Step, Value, format_constant
from plugrad.pictures.trace import Edge, GraphElements, Node

if TYPE_CHECKING:
    from plugrad.types.specs import Shaped


def nodes_and_edges_of_traced_graph(graph: Graph) -> GraphElements:
    """Return the nodes and edges of a traced graph, in the order of its steps."""
    nodes: list[Node] = []
    edges: dict[Edge, None] = {}
    makers: dict[Value, int] = {}
    specs = graph.specs

    def add_source(kind: str, title: str, value: Value) -> None:
        makers[value] = len(nodes)
        nodes.append(Node(kind, title, [_format_spec(specs[value])]))

    def add_result(title: str, value: Value) -> None:
        edges[Edge(makers[value], len(nodes))] = None
        nodes.append(Node("result", title, [_format_spec(specs[value])]))

    for index, value in enumerate(graph.arguments):
        add_source("argument", f"argument {index}", value)
    for value in graph.constants:
        add_source("constant", format_constant(graph, value) or "constant", value)
    for value, variable in graph.variables.items():
        add_source("variable", variable.name or "variable", value)
    for step in graph.steps:
        here = len(nodes)
        for value in step.inputs:
            if value is not None:
                edges[Edge(makers[value], here)] = None
        lines = [_format_spec(specs[value]) for value in step.outputs]
        shown = [*lines[:3], f"and {len(lines) - 3} more"] if len(lines) > 4 else lines
        nodes.append(Node("kernel", _step_title(step), shown, _step_details(graph, step)))
        for value in step.outputs:
            makers[value] = here
    for index, value in enumerate(graph.results):
        add_result("result" if len(graph.results) == 1 else f"result {index}", value)
    for variable, value in graph.updates:
        add_result(f"{variable.name or 'variable'} becomes", value)
    return nodes, list(edges)


def _step_title(step: Step) -> str:
    """Return the title of a step: its kernel's name, or its kind."""
    if isinstance(step, Call):
        return step.kernel.name
    if isinstance(step, HostValue):
        return "host value"
    if isinstance(step, Scan):
        return f"scan, {step.length} times"
    return "cond" if isinstance(step, Cond) else "while_loop"


def _step_details(graph: Graph, step: Step) -> list[str]:
    """Return a step's tooltip: inputs, attributes, inner steps and the user's line."""
    specs = graph.specs
    details = [f"input: {_format_spec(specs[value])}" for value in step.inputs if value is not None]
    if isinstance(step, Call):
        details += [f"{name}: {short_repr(value)}" for name, value in step.attrs.items()]
    for body in step.graphs:
        details.append(f"inside: {', '.join(map(_step_title, body.steps)) or 'nothing'}")
    return [*details, f"device: {graph.backend.label}", f"line: {step.line}"]


def _format_spec(spec: Shaped) -> str:
    """Return a shape and dtype as text, such as ``float32 2×3``."""
    return f"{spec.dtype} {'×'.join(map(str, spec.shape)) or '()'}"
