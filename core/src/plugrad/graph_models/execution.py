"""Running graphs: each node after its inputs, on the host or on the device of the model's inputs."""

from __future__ import annotations

from contextvars import Context
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from plugrad.errors import DamagedFile, PlugradError, short_repr
from plugrad.graph_models.frames import run_control_flow_graph
from plugrad.graph_models.host_values import compute_on_host
from plugrad.graph_models.registry import CONTROL_FLOW_OPERATORS
from plugrad.interruptions import is_interruption
from plugrad.ops.creation import asarray
from plugrad.tensor.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from plugrad.graph_models.nodes import Graph, Node, OutputReference
    from plugrad.tensor.backend import Backend

NodeOutputs = tuple[Any, ...]
"""The values of all outputs of a node."""


class ExecutionPlan:
    """The execution order of the nodes that outputs need, and the values whose last use each node is."""

    def __init__(self, graph: Graph, outputs: tuple[OutputReference, ...]) -> None:
        self.nodes = graph.dependencies(outputs)
        self.has_frames = any(
            node.op in CONTROL_FLOW_OPERATORS - {"LoopCond"} for node in self.nodes
        )
        self.steps: list[tuple[Node, tuple[str, ...]]] = []
        later = {reference.node for reference in outputs}
        for node in reversed(self.nodes):
            used = {reference.node for reference in node.inputs} | {node.name}
            self.steps.append((node, tuple(used - later)))
            later |= used
        self.steps.reverse()
        if not self.has_frames:
            _check_topological_order(self.nodes)


def _check_topological_order(nodes: Sequence[Node]) -> None:
    """Raise if a node depends on its own result."""
    done: set[str] = set()
    for node in nodes:
        if any(reference.node not in done for reference in node.inputs):
            raise DamagedFile(f"{node} needs its own result")
        done.add(node.name)


class ModelRunner:
    """Runs a model on one device: holds its weights, its functions, and copies of constants on the device.

    Args:
        weights: arrays, and the variables of those that are trained, by the names of their nodes.
        functions: the graphs that nodes run.
        copies: constants on a device, by the identity of the array; they outlive the call.
        backend: where tensors lie.
    """

    def __init__(
        self,
        weights: Mapping[str, Any],
        functions: Mapping[str, Graph],
        copies: dict[int, Tensor],
        backend: Backend,
    ) -> None:
        self.weights = weights
        self.functions = functions
        self.copies = copies
        self.constants = {id(array) for array in weights.values()}
        self.backend = backend

    def run(
        self, graph: Graph, outputs: tuple[OutputReference, ...], values: dict[str, Any]
    ) -> list[Any]:
        """Return outputs of a graph, given the values of its inputs."""
        plan = cached_execution_plan(graph, outputs)
        found: dict[str, NodeOutputs] = {name: (value,) for name, value in values.items()}
        if plan.has_frames:
            found = run_control_flow_graph(
                plan.nodes, found, self, {reference.node for reference in outputs}
            )
        else:
            for node, finished in plan.steps:
                if node.name not in found:
                    found[node.name] = self.compute(
                        node, [_pick_output(found, r) for r in node.inputs]
                    )
                for name in finished:
                    found.pop(name, None)
        return [_pick_output(found, reference) for reference in outputs]

    def call_function(self, function_name: str, arguments: list[Any]) -> list[Any]:
        """Return the outputs of a function of the model."""
        graph = self.functions[function_name]
        if len(arguments) != len(graph.inputs):
            raise DamagedFile(
                f"function {function_name!r} takes {len(graph.inputs)} values, and gets {len(arguments)}"
            )
        return self.run(graph, graph.outputs, dict(zip(graph.inputs, arguments, strict=True)))

    def compute(self, node: Node, inputs: list[Any]) -> NodeOutputs:
        """Return the outputs of a node.

        Raises:
            DamagedFile: its function raises an error that is none of plugrad's.
        """
        try:
            return self._compute(node, inputs)
        except PlugradError as error:
            error.add_note(f"In {node} of the model.")
            raise
        except Exception as error:  # what wrong attributes do to Python and NumPy
            if is_interruption(error):
                raise
            raise DamagedFile(
                f"{node} cannot be computed: {type(error).__name__}: {short_repr(str(error))}"
            ) from error

    def _compute(self, node: Node, inputs: list[Any]) -> NodeOutputs:
        """Return the outputs of a node, which the host computes if they are small."""
        if node.op in ("Const", "Placeholder", "PlaceholderWithDefault", "NoOp"):
            return self._compute_source_node(node, inputs)
        small = compute_on_host(node.op, inputs, node.attributes)
        if small is not None:
            return small
        operator = node.operator
        if operator is None:
            raise DamagedFile(f"{node} stands where it cannot be computed")
        count = len(inputs)
        converted = [
            self.convert(value, operator.annotation_of_input(place, count))
            for place, value in enumerate(inputs)
        ]
        options = {
            n: v for n, v in node.attributes.items() if n in operator.attributes and v is not None
        }
        if operator.runs_functions:
            options["call"] = self.call_function
        result = operator.function(*converted, **options)
        return cast("NodeOutputs", tuple(result)) if isinstance(result, tuple) else (result,)

    def _compute_source_node(self, node: Node, inputs: list[Any]) -> NodeOutputs:
        """Return the value of a node that is a weight, a constant or an input."""
        if node.op == "PlaceholderWithDefault":
            return (inputs[0],)
        if node.op == "NoOp":
            return (np.array(1.0, np.float32),)
        if node.name not in self.weights:
            raise DamagedFile(f"{node} has no value")
        return (self.weights[node.name],)

    def convert(self, value: Any, annotation: str) -> Any:
        """Convert a value to the type with which an operator annotates its input: an array or a tensor."""
        if annotation == "HostArray":
            return value.numpy() if isinstance(value, Tensor) else np.asarray(value)
        if annotation == "Tensor":
            return self.on_device(value)
        return value

    def on_device(self, value: Any) -> Any:
        """Convert an array to a tensor; a constant is copied only once."""
        if isinstance(value, Tensor):
            return value
        if not isinstance(value, np.ndarray):
            raise DamagedFile(f"a {type(value).__name__} stands where a tensor is needed")
        if id(value) not in self.constants:
            return asarray(value, device=self.backend)
        if id(value) not in self.copies:
            # Outside of what is being traced, where the copy would be a step of the trace.
            self.copies[id(value)] = Context().run(_copy_to_backend, value, self.backend)
        return self.copies[id(value)]


def _copy_to_backend(value: Any, backend: Backend) -> Tensor:
    """Return an array or a number as a tensor on a backend."""
    return asarray(value, device=backend)


def cached_execution_plan(graph: Graph, outputs: tuple[OutputReference, ...]) -> ExecutionPlan:
    """Return the plan for outputs of a graph; it is made once and cached."""
    if outputs not in graph.plan_of_outputs:
        graph.plan_of_outputs[outputs] = ExecutionPlan(graph, outputs)
    return graph.plan_of_outputs[outputs]


def _pick_output(values: Mapping[str, NodeOutputs], reference: OutputReference) -> Any:
    """Return the value of one output of a node."""
    found = values[reference.node]
    if reference.port >= len(found):
        raise DamagedFile(f"node {reference.node!r} has no output {reference.port}")
    return found[reference.port]
