"""The writer of ONNX graphs: it combines two traces of one function, at two batch sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
import onnx
from onnx import helper, numpy_helper

from plugrad.errors import UnsupportedModel
from plugrad_onnx.elements import as_array, element_type
from plugrad_onnx.recorded_calls import RECORDED_KERNELS, STOP_GRADIENT, record_call

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from plugrad.extend import Call, Graph

ValuesOfBothTraces = tuple[Any, Any]
"""A value of the first trace, and the corresponding value of the second trace."""


class ExportRule(Protocol):
    """A function that writes the nodes for a call of one kernel, given the names of input and output values."""

    def __call__(
        self, writer: Writer, call: CallPair, inputs: list[str], outputs: list[str]
    ) -> None:
        """Write nodes that compute `outputs` of `inputs`, the names of values."""
        ...


EXPORT_RULES: Final[dict[str, ExportRule]] = {}
"""The export rules by the name of their kernel."""


LoopRule = Callable[["Writer", "tuple[Graph, Graph]", ValuesOfBothTraces, dict[int, str]], bool]
"""A function that writes a loop if it has a certain form, and returns whether it has."""
LOOP_RULES: Final[list[LoopRule]] = []
"""The loop rules in the order in which they are tried."""


def export_rule(*kernel_names: str) -> Callable[[ExportRule], ExportRule]:
    """Register the decorated function as the export rule of kernels."""

    def declare(function: ExportRule) -> ExportRule:
        EXPORT_RULES.update(dict.fromkeys(kernel_names, function))
        return function

    return declare


class CallPair:
    """One call of a kernel as seen in both traces, which have different batch sizes."""

    def __init__(self, graphs: tuple[Graph, Graph], calls: tuple[Call, Call]) -> None:
        self.graphs = graphs
        self.calls = calls
        self.attrs = calls[0].attrs

    def both_values(self, attribute_name: str) -> ValuesOfBothTraces:
        """Return the values of an attribute in both traces."""
        return self.calls[0].attrs[attribute_name], self.calls[1].attrs[attribute_name]

    def shape(self, position: int = 0, *, out: bool = False) -> ValuesOfBothTraces:
        """Return the shapes of an input, or with `out` of an output, in both traces."""
        first, second = (
            graph.specs[(call.outputs if out else call.inputs)[position]].shape  # pyright: ignore[reportArgumentType]
            for graph, call in zip(self.graphs, self.calls, strict=True)
        )
        return first, second

    def dtype(self, *, out: bool = True) -> Any:
        """Return the dtype of the first output, or without `out` of the first input."""
        value: Any = (self.calls[0].outputs if out else self.calls[0].inputs)[0]
        return self.graphs[0].specs[value].dtype


class Writer:
    """Collects the nodes and weights of an ONNX graph that is being exported.

    Args:
        sizes: The sizes of the batch in the two traces.
        batch: The name of an input whose first axis is the batch; empty, if no axis changes.
    """

    def __init__(self, sizes: tuple[int, int], batch: str) -> None:
        self.sizes = sizes
        self.batch = batch
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self._count = 0
        self._size = ""

    def new_name(self) -> str:
        """Return a new unique name for a value."""
        self._count += 1
        return f"v{self._count}"

    def emit(
        self, operator_name: str, inputs: Sequence[str], outputs: Sequence[str] = (), **attrs: Any
    ) -> str:
        """Write a node and return the name of its first output."""
        outputs = list(outputs) or [self.new_name()]
        self.nodes.append(
            helper.make_node(operator_name, list(inputs), outputs, name=outputs[0], **attrs)
        )
        return outputs[0]

    def write_constant(self, value: Any, name: str = "") -> str:
        """Write an array as an initializer and return its name."""
        name = name or self.new_name()
        self.weights.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def write_integers(
        self, first_values: Sequence[int], second_values: Sequence[int] | None = None
    ) -> str:
        """Write the integers of both traces, or multiples of the batch size where they differ; return their name."""
        second_values = first_values if second_values is None else second_values
        if tuple(first_values) == tuple(second_values):
            return self.write_constant(np.array(first_values, np.int64))
        parts = [
            self.write_constant(np.array([a], np.int64))
            if a == b
            else self._write_batch_multiple(a, b)
            for a, b in zip(first_values, second_values, strict=True)
        ]
        return parts[0] if len(parts) == 1 else self.emit("Concat", parts, axis=0)

    def _write_batch_multiple(self, first_value: int, second_value: int) -> str:
        """Write an integer that differs between the traces as a multiple of the batch size."""
        factor, rest = divmod(first_value, self.sizes[0])
        if rest or factor * self.sizes[1] != second_value or not self.batch:
            raise UnsupportedModel(
                f"A size is {first_value} for a batch of {self.sizes[0]} and {second_value} for {self.sizes[1]}: "
                "that is no multiple of it. Export with dynamic=()."
            )
        if not self._size:
            start, end = (
                self.write_constant(np.array([0], np.int64)),
                self.write_constant(np.array([1], np.int64)),
            )
            self._size = self.emit("Slice", [self.emit("Shape", [self.batch]), start, end])
        if factor == 1:
            return self._size
        return self.emit("Mul", [self._size, self.write_constant(np.array([factor], np.int64))])

    def collect_dependencies(
        self, outputs: Sequence[str]
    ) -> tuple[list[onnx.NodeProto], list[onnx.TensorProto]]:
        """Return the nodes and weights on which outputs depend."""
        names = set(outputs)
        nodes: list[onnx.NodeProto] = []
        for node in reversed(self.nodes):
            if not names.isdisjoint(node.output):
                nodes.append(node)
                names.update(node.input)
                names.update(name for a in node.attribute for name in _iter_read_names(a.g))
        return nodes[::-1], [weight for weight in self.weights if weight.name in names]

    def write_array(self, first_value: Any, second_value: Any, name: str = "") -> str:
        """Write a constant of both traces; one whose size depends on the batch must have equal rows."""
        one, two = as_array(first_value), as_array(second_value)
        if one.shape == two.shape:
            if not np.array_equal(one, two, equal_nan=one.dtype.kind == "f"):
                raise UnsupportedModel("The values of a constant depend on the size of the batch.")
            return self.write_constant(one, name)
        if _counts_rows(one, two):
            return self._write_row_numbers(one, two)
        base = np.empty(0) if one.ndim != two.ndim else one[_first_rows_index(one.shape, two.shape)]
        if base.size == 0 or (one != base).any() or (two != base).any():
            raise UnsupportedModel(
                f"A constant of shape {one.shape} grows with the batch, and its elements differ along it. "
                "Make it an argument of the function."
            )
        base = base.flat[0] if (base == base.flat[0]).all() else base
        return self.emit(
            "Expand", [self.write_constant(base), self.write_integers(one.shape, two.shape)]
        )

    def _write_row_numbers(self, first_array: Any, second_array: Any) -> str:
        """Write integers such as row numbers, which increase by a constant from each example to the next."""
        ends = [self.write_constant(np.array(value, np.int64)) for value in (0, 1)]
        size = self.write_integers([len(first_array)], [len(second_array)])
        count = self.emit("Reshape", [size, self.write_constant(np.empty(0, np.int64))])
        numbers = self.emit("Range", [ends[0], count, ends[1]])
        column = self.write_integers([-1, *(1,) * (first_array.ndim - 1)])
        numbers = self.emit("Cast", [numbers], to=element_type(first_array.dtype))
        steps = self.write_constant(first_array[1:2] - first_array[:1])
        grown = self.emit("Mul", [self.emit("Reshape", [numbers, column]), steps])
        return self.emit("Add", [grown, self.write_constant(first_array[:1])])

    def write_graph(self, graphs: tuple[Graph, Graph], value_names: dict[int, str]) -> list[str]:
        """Write the steps of a graph, given the names of its inputs by value; return the names of its results.

        Raises:
            UnsupportedModel: a kernel has no counterpart in ONNX, or the traces differ.
        """
        first, second = graphs
        if len(first.steps) != len(second.steps):
            raise UnsupportedModel("The function does other things for other sizes of the batch.")
        for value, other in zip(first.constants, second.constants, strict=True):
            convert = first.backend.to_numpy
            value_names[value] = self.write_array(
                convert(first.constants[value]), convert(second.constants[other])
            )
        taken: set[str] = set()
        for value, variable in first.variables.items():
            name = variable.name or self.new_name()
            while name in taken:
                name += "_"
            taken.add(name)
            value_names[value] = self.write_constant(variable.numpy(), name)
        for pair in zip(first.steps, second.steps, strict=True):
            self._write_step(graphs, pair, value_names)
        return [value_names[value] for value in first.results]

    def _write_step(
        self, graphs: tuple[Graph, Graph], step_pair: Any, value_names: dict[int, str]
    ) -> None:
        """Write the nodes for one step of the traced graphs."""
        step, other = step_pair
        kind = type(step).__name__
        if kind == "Scan":
            if not any(write(self, graphs, step_pair, value_names) for write in LOOP_RULES):
                self._write_scan(step, other, value_names)
            return
        if kind != "Call":
            raise UnsupportedModel(
                f"{kind} at {step.line} has no counterpart that is written yet. "
                "Export a function without it."
            )
        kernel = step.kernel.name
        if kernel not in EXPORT_RULES or other.kernel.name != kernel:
            raise UnsupportedModel(
                f"Kernel {kernel!r}, called at {step.line}, has no counterpart in ONNX that is written. "
                "Compute it by other ops."
            )
        inputs = ["" if value is None else value_names[value] for value in step.inputs]
        outputs = [self.new_name() for _ in step.outputs]
        value_names.update(zip(step.outputs, outputs, strict=True))
        start = len(self.nodes)
        EXPORT_RULES[kernel](self, CallPair(graphs, step_pair), inputs, outputs)
        if step.stops_gradient:
            record_call(self.nodes[start:], STOP_GRADIENT, {}, inputs, outputs)
        elif kernel in RECORDED_KERNELS and step.attrs == other.attrs:
            record_call(self.nodes[start:], kernel, step.attrs, inputs, outputs)

    def _write_scan(self, first_step: Any, second_step: Any, value_names: dict[int, str]) -> None:
        """Write a loop as Scan; its body also reads values from outside."""
        body, count = first_step.body, len(first_step.carry)
        inner = Writer(self.sizes, self.batch)
        inner._count, inner._size = self._count + 1000, ""
        inputs = [inner.new_name() for _ in (*first_step.carry, *first_step.slices)]
        known = dict(zip(body.arguments, inputs, strict=False))
        captured = [value_names[value] for value in first_step.captured]
        known.update(zip(body.arguments[len(inputs) :], captured, strict=True))
        results = [
            inner.emit("Identity", [name])
            for name in inner.write_graph((body, second_step.body), known)
        ]
        self._count = inner._count
        graph = helper.make_graph(
            inner.nodes,
            "body",
            [
                _describe_value(n, body.specs[v])
                for n, v in zip(inputs, body.arguments, strict=False)
            ],
            [_describe_value(n, body.specs[v]) for n, v in zip(results, body.results, strict=True)],
            inner.weights,
        )
        outputs = [self.new_name() for _ in first_step.outputs]
        stacked = len(outputs) - count
        backwards = (
            {"scan_input_directions": [1] * len(first_step.slices)}
            if first_step.is_reversed
            else {}
        )
        if first_step.is_reversed and stacked:
            backwards["scan_output_directions"] = [1] * stacked
        self.emit(
            "Scan", [value_names[v] for v in (*first_step.carry, *first_step.slices)], outputs, body=graph,
            num_scan_inputs=len(first_step.slices), **backwards,
        )  # fmt: skip
        value_names.update(zip(first_step.outputs, outputs, strict=True))


def _counts_rows(first_array: Any, second_array: Any) -> bool:
    """Whether the arrays of both traces hold integers that increase by a constant from example to example."""
    if (
        first_array.dtype.kind not in "iu"
        or first_array.ndim != second_array.ndim
        or first_array.shape[1:] != second_array.shape[1:]
    ):
        return False
    if min(len(first_array), len(second_array)) < 2 or not first_array.size:
        return False
    steps = first_array[1:2] - first_array[:1]
    return (
        steps.any()
        and all(
            np.array_equal(x, x[:1] + steps * np.arange(len(x)).reshape(-1, *(1,) * (x.ndim - 1)))
            for x in (first_array, second_array)
        )
        and np.array_equal(first_array[0], second_array[0])
    )


def _first_rows_index(first_shape: Sequence[int], second_shape: Sequence[int]) -> tuple[slice, ...]:
    """Return an index of the first element along axes whose sizes differ, and of everything along the others."""
    return tuple(
        slice(None if a == b else 1) for a, b in zip(first_shape, second_shape, strict=True)
    )


def _iter_read_names(graph: onnx.GraphProto) -> Iterator[str]:
    """Yield the names that the nodes of a graph and of its subgraphs read."""
    for node in graph.node:
        yield from node.input
        for attribute in node.attribute:
            yield from _iter_read_names(attribute.g)


def _describe_value(name: str, spec: Any) -> onnx.ValueInfoProto:
    """Describe a value in a loop body; its shape is left out because it may depend on the batch."""
    return helper.make_tensor_value_info(name, element_type(spec.dtype), None)
