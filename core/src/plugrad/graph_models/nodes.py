"""The graph of a file: nodes with decoded attributes, and references to their inputs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from plugrad.graph_models.registry import Operator


class OutputReference(NamedTuple):
    """One output of a node."""

    node: str
    """The name of the node."""
    port: int = 0
    """The position among the node's outputs."""


@dataclass(frozen=True, slots=True)
class Node:
    """One computation of a graph."""

    name: str
    op: str
    """The name of the TensorFlow operator."""
    inputs: tuple[OutputReference, ...]
    """The outputs of other nodes that it takes, in order."""
    control_inputs: tuple[str, ...]
    """The nodes that run before it, and without which it does not run."""
    attributes: Mapping[str, Any]
    """The decoded attributes by name, in lower case."""
    operator: Operator | None = None
    """The function that computes it; None for constants and for the nodes of the control flow of version 1."""

    def __str__(self) -> str:
        return f"node {self.name!r} ({self.op})"


@dataclass(frozen=True, slots=True)
class Graph:
    """The nodes of a model or of one of its functions."""

    nodes: Mapping[str, Node]
    """The nodes by name."""
    inputs: tuple[str, ...]
    """The names of the nodes whose values a call brings, in its order."""
    outputs: tuple[OutputReference, ...]
    """The outputs that a call returns, in its order."""
    plan_of_outputs: dict[tuple[OutputReference, ...], Any] = field(
        default_factory=dict["tuple[OutputReference, ...]", "Any"]
    )
    """The execution plan of each combination of outputs that somebody has asked for."""

    def dependencies(self, outputs: Iterable[OutputReference]) -> list[Node]:
        """Return the nodes on which outputs depend, in topological order except for loops.

        Raises:
            KeyError: there is no node of a name.
        """
        found: dict[str, Node] = {}
        begun: set[str] = set()
        pending = [reference.node for reference in outputs][::-1]
        while pending:
            name = pending[-1]
            if name in found:
                pending.pop()
                continue
            node = self.nodes[name]
            before = [r.node for r in node.inputs] + list(node.control_inputs)
            missing = [other for other in before if other not in found and other not in begun]
            if name in begun or not missing:
                found[name] = node
                pending.pop()
            else:
                begun.add(name)
                pending += missing[::-1]
        return list(found.values())
