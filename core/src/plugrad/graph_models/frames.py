"""Control flow of version 1: values move through graphs with loops as tokens, some of them dead.

A *context* says in which iterations of which loops a node runs. A node runs once for each context in which all its
inputs have arrived; if one of them is dead, because a Switch sent the value elsewhere, so are its outputs. A Merge
waits for the first living value. (Yu et al., Dynamic control flow in large-scale machine learning, 2018.)
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from plugrad.errors import DamagedFile
from plugrad.graph_models.host_values import as_python_bool
from plugrad.graph_models.registry import CONTROL_FLOW_OPERATORS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from plugrad.graph_models.nodes import Node

NodeOutputs = tuple[Any, ...]
"""The values of all outputs of a node."""
FrameContext = tuple[tuple[str, int], ...]
"""The loops in which a token is, from the outside: for each, the name of its frame and the iteration."""
ROOT_CONTEXT: Final[FrameContext] = ()
"""The context outside of all loops."""


class DeadToken:
    """The class of the value on the branch that a Switch has not taken."""


DEAD_TOKEN: Final = DeadToken()
"""The only object of the class `DeadToken`."""


class NodeComputer(Protocol):
    """The interface that computes nodes other than control flow."""

    def compute(self, node: Node, inputs: list[Any]) -> NodeOutputs:
        """Return the outputs of a node."""
        ...


def run_control_flow_graph(
    nodes: Sequence[Node],
    values: Mapping[str, NodeOutputs],
    computer: NodeComputer,
    output_names: set[str],
) -> dict[str, NodeOutputs]:
    """Run a graph with TensorFlow 1 control flow (Switch, Merge, Enter, NextIteration, Exit) and return outputs.

    Raises:
        DamagedFile: the value of one of them never comes.
    """
    run = _ControlFlowRun(nodes, values, computer)
    run.run_until_done()
    found = {
        name: run.results.get(name, run.fixed.get(name, (DEAD_TOKEN,))) for name in output_names
    }
    for name, outputs in found.items():
        if all(isinstance(value, DeadToken) for value in outputs):
            raise DamagedFile(f"the control flow of the model never gives node {name!r} a value")
    return found


class _ControlFlowRun:
    """A run of a TensorFlow 1 control-flow graph, with the values that wait for other inputs of a node."""

    def __init__(
        self, nodes: Sequence[Node], values: Mapping[str, NodeOutputs], computer: NodeComputer
    ) -> None:
        self.nodes = {node.name: node for node in nodes}
        self.computer = computer
        self.fixed = self._compute_loop_invariant_nodes(nodes, values)
        self.waiting = {
            name: self._count_expected_inputs(node) for name, node in self.nodes.items()
        }
        self.consumers: dict[str, list[tuple[str, int, int]]] = {name: [] for name in self.nodes}
        for node in nodes:
            for slot, (source, port) in enumerate(_find_inputs(node)):
                if source not in self.fixed:
                    self.consumers[source].append((node.name, slot, port))
        self.arrived: dict[tuple[FrameContext, str], dict[int, Any]] = {}
        self.queue: deque[tuple[FrameContext, str, dict[int, Any]]] = deque()
        self.results: dict[str, NodeOutputs] = {}
        self.constants: dict[FrameContext, list[tuple[str, NodeOutputs]]] = {}
        """Values that a loop sees in each of its iterations, by the context of the first one."""
        self.iterations: dict[FrameContext, int] = {}
        self.dead_exits: dict[tuple[FrameContext, str], None] = {}
        self.left: set[tuple[FrameContext, str]] = set()

    def _compute_loop_invariant_nodes(
        self, nodes: Sequence[Node], values: Mapping[str, NodeOutputs]
    ) -> dict[str, NodeOutputs]:
        """Compute the nodes that depend only on constants and inputs, which are the same in every frame."""
        found = dict(values)
        for node in nodes:
            sources = [reference.node for reference in node.inputs]
            if node.name in found or node.control_inputs or node.op in CONTROL_FLOW_OPERATORS:
                continue
            if all(source in found for source in sources):
                inputs = [found[r.node][r.port] for r in node.inputs]
                found[node.name] = self.computer.compute(node, inputs)
        return found

    def _count_expected_inputs(self, node: Node) -> int:
        """Return how many inputs of a node come from nodes that run in frames."""
        return sum(source not in self.fixed for source, _ in _find_inputs(node))

    def run_until_done(self) -> None:
        """Run nodes until no token is left."""
        for name, node in self.nodes.items():
            if (name not in self.fixed and not self.waiting[name]) or (
                node.op == "Merge"
                and name not in self.fixed
                and self._list_loop_invariant_inputs(node)
            ):
                self.queue.append((ROOT_CONTEXT, name, {}))
        while True:
            while self.queue:
                self._run_node(*self.queue.popleft())
            # A loop that never ran, because it lies in a branch that was not taken, sends nothing; deepest ones first.
            pending = [key for key in self.dead_exits if key not in self.left]
            if not pending:
                return
            depth = max(len(context) for context, _ in pending)
            for context, name in pending:
                if len(context) == depth:
                    self.left.add((context, name))
                    self._send(context, name, (DEAD_TOKEN,))

    def _list_loop_invariant_inputs(self, node: Node) -> list[int]:
        """Return the positions of a node's inputs that are the same in every frame."""
        return [place for place, r in enumerate(node.inputs) if r.node in self.fixed]

    def _send(self, context: FrameContext, node_name: str, outputs: NodeOutputs) -> None:
        """Send the outputs of a node, computed in the loops of a context, to its consumers."""
        if context == ROOT_CONTEXT:
            self.results[node_name] = outputs
        is_dead = all(isinstance(value, DeadToken) for value in outputs)
        for consumer, slot, port in self.consumers[node_name]:
            if port < 0:
                value = DEAD_TOKEN if is_dead else None
            elif is_dead:
                value = DEAD_TOKEN
            elif port < len(outputs):
                value = outputs[port]
            else:
                raise DamagedFile(f"node {node_name!r} has no output {port}")
            self._receive_token(context, consumer, slot, value)

    def _receive_token(
        self, context: FrameContext, node_name: str, input_position: int, value: Any
    ) -> None:
        """Store a value for an input of a node in a context, and queue the node once all inputs have values."""
        node = self.nodes[node_name]
        tokens = self.arrived.setdefault((context, node_name), {})
        tokens[input_position] = value
        if node.op == "Merge":
            self._receive_merge(context, node, tokens, value)
        elif len(tokens) == self.waiting[node_name]:
            self.queue.append((context, node_name, self.arrived.pop((context, node_name))))

    def _receive_merge(
        self, context: FrameContext, node: Node, tokens: dict[int, Any], value: Any
    ) -> None:
        """Run a Merge in a context when its first live value arrives, or when all its inputs are dead."""
        if tokens.get(-1) is DEAD_TOKEN:  # it has run in this context
            return
        back = [
            place for place, r in enumerate(node.inputs) if self.nodes[r.node].op == "NextIteration"
        ]
        is_later = bool(back) and bool(context) and context[-1][1] > 0
        possible = [
            place
            for place, r in enumerate(node.inputs)
            if r.node not in self.fixed and (not back or (place in back) == is_later)
        ]
        if not isinstance(value, DeadToken) or all(place in tokens for place in possible):
            self.queue.append((context, node.name, dict(tokens)))
            tokens[-1] = DEAD_TOKEN

    def _run_node(self, context: FrameContext, node_name: str, tokens: dict[int, Any]) -> None:
        """Run a node in a context, and send its outputs."""
        node = self.nodes[node_name]
        values = [
            self.fixed[source][port] if source in self.fixed else tokens.get(slot, DEAD_TOKEN)
            for slot, (source, port) in enumerate(_find_inputs(node))
        ]
        inputs = values[: len(node.inputs)]
        if node.op == "Merge":
            self._take_merged_input(context, node, tokens, inputs)
            return
        is_dead = any(isinstance(value, DeadToken) for value in values)
        if node.op == "Enter":
            self._enter_frame(context, node, (DEAD_TOKEN,) if is_dead else (inputs[0],))
        elif node.op == "NextIteration":
            if not is_dead:
                self._start_next_iteration(context, node_name, (inputs[0],))
        elif node.op == "Exit":
            if is_dead:
                self.dead_exits[context[:-1], node_name] = None
            else:
                self.left.add((context[:-1], node_name))
                self._send(context[:-1], node_name, (inputs[0],))
        elif is_dead:
            self._send(context, node_name, (DEAD_TOKEN,))
        elif node.op == "Switch":
            data, flag = inputs
            self._send(
                context,
                node_name,
                (DEAD_TOKEN, data) if as_python_bool(flag) else (data, DEAD_TOKEN),
            )
        else:
            self._send(context, node_name, self.computer.compute(node, inputs))

    def _take_merged_input(
        self, context: FrameContext, node: Node, tokens: dict[int, Any], inputs: list[Any]
    ) -> None:
        """Send the first live input of a Merge, and its index."""
        arrived = [place for place in tokens if place >= 0 and tokens[place] is not DEAD_TOKEN]
        chosen = (arrived or self._list_loop_invariant_inputs(node) or [-1])[0]
        outputs = (DEAD_TOKEN,) if chosen < 0 else (inputs[chosen], np.array(chosen, np.int32))
        self._send(context, node.name, outputs)

    def _enter_frame(self, context: FrameContext, node: Node, outputs: NodeOutputs) -> None:
        """Send the value of an Enter node into its loop: to each iteration if it is constant, else to the first."""
        first: FrameContext = (*context, (str(node.attributes.get("frame_name", "")), 0))
        last = self.iterations.setdefault(first, 0)
        if node.attributes.get("is_constant"):
            self.constants.setdefault(first, []).append((node.name, outputs))
            for number in range(last + 1):
                self._send((*context, (first[-1][0], number)), node.name, outputs)
        else:
            self._send(first, node.name, outputs)

    def _start_next_iteration(
        self, context: FrameContext, node_name: str, outputs: NodeOutputs
    ) -> None:
        """Send the value of a NextIteration node to the following iteration of its loop."""
        if not context:
            raise DamagedFile(f"node {node_name!r} is in no loop")
        *around, (frame, number) = context
        first = (*around, (frame, 0))
        following = (*around, (frame, number + 1))
        if self.iterations.get(first, 0) < number + 1:
            self.iterations[first] = number + 1
            for constant, values in self.constants.get(first, []):
                self._send(following, constant, values)
        self._send(following, node_name, outputs)


def _find_inputs(node: Node) -> list[tuple[str, int]]:
    """Return the inputs of a node: data inputs first, then control inputs with port -1."""
    return [(r.node, r.port) for r in node.inputs] + [(name, -1) for name in node.control_inputs]
