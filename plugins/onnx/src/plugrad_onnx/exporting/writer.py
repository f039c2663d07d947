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


class ExportRule(Protocol):
    """A function that writes the nodes for a call of one kernel."""

    def __call__(
        self, writer: Writer, call: CallPair, inputs: list[str], outputs: list[str]
    ) -> None:
        """Write nodes that compute `outputs` of `inputs`, the names of values."""
        ...


EXPORT_RULES: Final[dict[str, ExportRule]] = {}
"""By the name of a kernel: what writes it."""


LoopRule = Callable[["Writer", "tuple[Graph, Graph]", ValuesOfBothTraces, dict[int, str]], bool]
LOOP_RULES: Final[list[LoopRule]] = []
"""What writes loops of a certain form, and says whether a loop was one."""


def export_rule(*names: str) -> Callable[[ExportRule], ExportRule]:
    """Register the decorated function as the export rule of kernels."""

    def declare(function: ExportRule) -> ExportRule:
        EXPORT_RULES.update(dict.fromkeys(names, function))
        return function

    return declare


class CallPair:
    """One call of a kernel as seen in both traces, which have different batch sizes."""

    def __init__(self, graphs: tuple[Graph, Graph], calls: tuple[Call, Call]) -> None:
        self.graphs = graphs
        self.calls = calls
        self.attrs = calls[0].attrs

    def both_values(self, name: str) -> ValuesOfBothTraces:
        """Return an attribute in both traces."""
        return self.calls[0].attrs[name], self.calls[1].attrs[name]

    def shape(self, position: int = 0, *, out: bool = False) -> ValuesOfBothTraces:
        """Return the shapes of an input, or of an output, in both traces."""
        first, second = (
            graph.specs[(call.outputs if out else call.inputs)[position]].shape  # pyright: ignore[reportArgumentType]
            for graph, call in zip(self.graphs, self.calls, strict=True)
        )
        return first, second

    def dtype(self, *, out: bool = True) -> Any:
        """Return the dtype of the first output, or input."""
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
        self, kind: str, inputs: Sequence[str], outputs: Sequence[str] = (), **attrs: Any
    ) -> str:
        """Write a node and return the name of its first output."""
        outputs = list(outputs) or [self.new_name()]
        self.nodes.append(helper.make_node(kind, list(inputs), outputs, name=outputs[0], **attrs))
        return outputs[0]

    def write_constant(self, value: Any, name: str = "") -> str:
        """Write an array as an initializer and return its name."""
        name = name or self.new_name()
        self.weights.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def write_integers(self, first: Sequence[int], second: Sequence[int] | None = None) -> str:
        """Write integers; those that differ between the traces are computed as multiples of the batch size."""
        second = first if second is None else second
        if tuple(first) == tuple(second):
            return self.write_constant(np.array(first, np.int64))
        parts = [
            self.write_constant(np.array([a], np.int64))
            if a == b
            else self._write_batch_multiple(a, b)
            for a, b in zip(first, second, strict=True)
        ]
        return parts[0] if len(parts) == 1 else self.emit("Concat", parts, axis=0)

    def _write_batch_multiple(self, first: int, second: int) -> str:
        """Write an integer as a multiple of the batch size."""
        factor, rest = divmod(first, self.sizes[0])
        if rest or factor * self.sizes[1] != second or not self.batch:
            raise UnsupportedModel(
                f"A size is {first} for a batch of {self.sizes[0]} and {second} for {self.sizes[1]}: "
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

    def write_array(self, first: Any, second: Any, name: str = "") -> str:
        """Write a constant as seen in both traces; one whose size depends on the batch must have equal rows."""
        one, two = as_array(first), as_array(second)
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

    def _write_row_numbers(self, one: Any, two: Any) -> str:
        """Write integers such as row numbers, which increase by a constant from each example to the next."""
        ends = [self.write_constant(np.array(value, np.int64)) for value in (0, 1)]
        size = self.write_integers([len(one)], [len(two)])
        count = self.emit("Reshape", [size, self.write_constant(np.empty(0, np.int64))])
        numbers = self.emit("Range", [ends[0], count, ends[1]])
        column = self.write_integers([-1, *(1,) * (one.ndim - 1)])
        numbers = self.emit("Cast", [numbers], to=element_type(one.dtype))
        steps = self.write_constant(one[1:2] - one[:1])
        grown = self.emit("Mul", [self.emit("Reshape", [numbers, column]), steps])
        return self.emit("Add", [grown, self.write_constant(one[:1])])

    def write_graph(self, graphs: tuple[Graph, Graph], names: dict[int, str]) -> list[str]:
        """Write the steps of a graph whose inputs have these names; return the names of its results.

        Raises:
            UnsupportedModel: a kernel has no counterpart in ONNX, or the traces differ.
        """
        first, second = graphs
        if len(first.steps) != len(second.steps):
            raise UnsupportedModel("The function does other things for other sizes of the batch.")
        for value, other in zip(first.constants, second.constants, strict=True):
            convert = first.backend.to_numpy
            names[value] = self.write_array(
                convert(first.constants[value]), convert(second.constants[other])
            )
        taken: set[str] = set()
        for value, variable in first.variables.items():
            name = variable.name or self.new_name()
            while name in taken:
                name += "_"
            taken.add(name)
            names[value] = self.write_constant(variable.numpy(), name)
        for pair in zip(first.steps, second.steps, strict=True):
            self._write_step(graphs, pair, names)
        return [names[value] for value in first.results]

    def _write_step(self, graphs: tuple[Graph, Graph], pair: Any, names: dict[int, str]) -> None:
        """Write the nodes for one step of the traced graphs."""
        step, other = pair
        kind = type(step).__name__
        if kind == "Scan":
            if not any(write(self, graphs, pair, names) for write in LOOP_RULES):
                self._write_scan(step, other, names)
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
        inputs = ["" if value is None else names[value] for value in step.inputs]
        outputs = [self.new_name() for _ in step.outputs]
        names.update(zip(step.outputs, outputs, strict=True))
        start = len(self.nodes)
        EXPORT_RULES[kernel](self, CallPair(graphs, pair), inputs, outputs)
        if step.stops_gradient:
            record_call(self.nodes[start:], STOP_GRADIENT, {}, inputs, outputs)
        elif kernel in RECORDED_KERNELS and step.attrs == other.attrs:
            record_call(self.nodes[start:], kernel, step.attrs, inputs, outputs)

    def _write_scan(self, step: Any, other: Any, names: dict[int, str]) -> None:
        """Write a loop as Scan; its body also reads values from outside."""
        body, count = step.body, len(step.carry)
        inner = Writer(self.sizes, self.batch)
        inner._count, inner._size = self._count + 1000, ""
        inputs = [inner.new_name() for _ in (*step.carry, *step.slices)]
        known = dict(zip(body.arguments, inputs, strict=False))
        captured = [names[value] for value in step.captured]
        known.update(zip(body.arguments[len(inputs) :], captured, strict=True))
        results = [
            inner.emit("Identity", [name]) for name in inner.write_graph((body, other.body), known)
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
        outputs = [self.new_name() for _ in step.outputs]
        stacked = len(outputs) - count
        backwards = {"scan_input_directions": [1] * len(step.slices)} if step.is_reversed else {}
        if step.is_reversed and stacked:
            backwards["scan_output_directions"] = [1] * stacked
        self.emit(
            "Scan", [names[v] for v in (*step.carry, *step.slices)], outputs, body=graph,
            num_scan_inputs=len(step.slices), **backwards,
        )  # fmt: skip
        names.update(zip(step.outputs, outputs, strict=True))


def _counts_rows(one: Any, two: Any) -> bool:
    """Whether the arrays of both batch sizes hold integers that increase by a constant from example to example."""
    if one.dtype.kind not in "iu" or one.ndim != two.ndim or one.shape[1:] != two.shape[1:]:
        return False
    if min(len(one), len(two)) < 2 or not one.size:
        return False
    steps = one[1:2] - one[:1]
    return (
        steps.any()
        and all(
            np.array_equal(x, x[:1] + steps * np.arange(len(x)).reshape(-1, *(1,) * (x.ndim - 1)))
            for x in (one, two)
        )
        and np.array_equal(one[0], two[0])
    )


def _first_rows_index(first: Sequence[int], second: Sequence[int]) -> tuple[slice, ...]:
    """Return an index that takes the first element along axes whose sizes differ, and everything along the others."""
    return tuple(slice(None if a == b else 1) for a, b in zip(first, second, strict=True))


def _iter_read_names(graph: onnx.GraphProto) -> Iterator[str]:
    """Yield the names that the nodes of a graph and of its subgraphs read."""
    for node in graph.node:
        yield from node.input
        for attribute in node.attribute:
            yield from _iter_read_names(attribute.g)


def _describe_value(name: str, spec: Any) -> onnx.ValueInfoProto:
    """Describe a value in a loop body; its shape is left out because it may depend on the batch."""
    return helper.make_tensor_value_info(name, element_type(spec.dtype), None)
