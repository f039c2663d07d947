"""The writer of TensorFlow.js graphs: it combines two traces of one function, at two batch sizes."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

import numpy as np

from plugrad.errors import UnsupportedModel
from plugrad.graph.graph import Call

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from plugrad.graph.graph import Graph

ValueInBothTraces: TypeAlias = "tuple[Any, Any]"
"""A pair: a value in the first trace, and its counterpart in the second."""
TENSORFLOW_DTYPES: Final = {
    "float32": "DT_FLOAT", "int32": "DT_INT32", "bool": "DT_BOOL", "complex64": "DT_COMPLEX64", "string": "DT_STRING",
}  # fmt: skip
"""TensorFlow's names of the dtypes that TensorFlow.js has."""


class WriteRule(Protocol):
    """A function that writes the nodes for a call of one kernel."""

    def __call__(
        self, writer: GraphWriter, traced_call: TracedCall, input_names: list[str]
    ) -> Sequence[str] | str:
        """Write nodes that compute a kernel of the named values; return the names of its outputs."""
        ...


WRITE_RULES: Final[dict[str, WriteRule]] = {}
"""By the name of a kernel: what writes it."""


CONTROL_FLOW_RULES: Final[dict[type, Callable[[GraphWriter, Any, dict[int, str]], list[str]]]] = {}
"""By the class of a step that is not a call of a kernel: what writes it."""


def write_rule(*names: str) -> Callable[[WriteRule], WriteRule]:
    """Register a function that writes the nodes for calls of kernels."""

    def declare(function: WriteRule) -> WriteRule:
        WRITE_RULES.update(dict.fromkeys(names, function))
        return function

    return declare


class TracedCall:
    """One call of a kernel as seen in both traces, which have different batch sizes."""

    def __init__(self, graphs: tuple[Graph, Graph], calls: tuple[Call, Call]) -> None:
        self.graphs = graphs
        self.calls = calls
        self.kernel = calls[0].kernel.name
        self.attrs = calls[0].attrs

    def attribute_in_both_traces(self, attribute_name: str) -> ValueInBothTraces:
        """Return an attribute in both traces."""
        return self.calls[0].attrs[attribute_name], self.calls[1].attrs[attribute_name]

    def shape(self, position: int = 0, *, is_output: bool = False) -> ValueInBothTraces:
        """Return the shape of an input, or of an output, in both traces."""
        first, second = (
            graph.specs[(call.outputs if is_output else call.inputs)[position]].shape  # pyright: ignore[reportArgumentType] - rules ask for inputs that are there
            for graph, call in zip(self.graphs, self.calls, strict=True)
        )
        return first, second

    def dtype(self, position: int = 0, *, is_output: bool = False) -> str:
        """Return the dtype of an input, or of an output."""
        call = self.calls[0]
        value: Any = (call.outputs if is_output else call.inputs)[position]
        return str(self.graphs[0].specs[value].dtype)

    def constant(self, input_position: int) -> NDArray[Any] | None:
        """Return the value of an input that is a constant in the trace."""
        graph, value = self.graphs[0], self.calls[0].inputs[input_position]
        return graph.backend.to_numpy(graph.constants[value]) if value in graph.constants else None  # pyright: ignore[reportArgumentType]

    def unsupported(self, reason: str) -> UnsupportedModel:
        """Return the error for a call that cannot be written."""
        return UnsupportedModel(f"{self.kernel} at {self.calls[0].line}: {reason}")


class GraphWriter:
    """Collects the nodes of one graph, and the weights of all graphs.

    Args:
        sizes: the sizes of the batch in both traces.
        prefix: what the names of nodes begin with.
        around: the writer of the graph around this one.
    """

    def __init__(
        self, sizes: tuple[int, int], prefix: str = "", parent: GraphWriter | None = None
    ) -> None:
        self.sizes = sizes
        self.prefix = prefix
        self.nodes: list[dict[str, Any]] = []
        self.weights: dict[str, NDArray[Any]] = parent.weights if parent else {}
        self.functions: list[dict[str, Any]] = parent.functions if parent else []
        self.taken: set[str] = parent.taken if parent else set()
        self.batches: list[tuple[str, int]] = []
        """Values of which one axis is the batch."""
        self._batch = ""
        self._known: dict[bytes, str] = {}

    def new_name(self, preferred_name: str) -> str:
        """Return a node name that is not used yet, made of `preferred_name`."""
        base = self.prefix + "".join(
            c if c.isalnum() or c in "._/" else "_" for c in preferred_name
        )
        found, number = base, 0
        while found in self.taken:
            number += 1
            found = f"{base}_{number}"
        self.taken.add(found)
        return found

    def write_node(self, op: str, input_names: Sequence[str], name: str = "", **attrs: Any) -> str:
        """Write a node and return its name."""
        found = name or self.new_name(op.lstrip("_"))
        node = {
            "name": found,
            "op": op,
            "input": list(input_names),
            "attr": _encode_attributes(attrs),
        }
        self.nodes.append(node)
        return found

    def write_constant(self, value: Any, name: str = "") -> str:
        """Write an array as a constant and return its name; equal small arrays share one."""
        array = np.asarray(value)
        key = (
            f"{array.dtype}{array.shape}".encode() + array.tobytes()
            if array.size < 64 and array.dtype.kind in "bif"
            else b""
        )
        if not name and key and key in self._known:
            return self._known[key]
        dtype = tensorflow_dtype(array.dtype.name if array.dtype.kind in "bifc" else "string")
        found = self.new_name(name or "const")
        self.weights[found] = array
        self.nodes.append({"name": found, "op": "Const", "attr": {"dtype": {"type": dtype}}})
        if key and not name:
            self._known[key] = found
        return found

    def write_number(self, value: float, dtype: str = "float32") -> str:
        """Write a number in a dtype."""
        return self.write_constant(np.array(value, np.dtype(dtype)))

    def write_integers(
        self, first_values: Sequence[int], second_values: Sequence[int] | None = None
    ) -> str:
        """Write integers; those that differ between the traces are computed as multiples of the batch size."""
        second_values = first_values if second_values is None else second_values
        if tuple(first_values) == tuple(second_values):
            return self.write_constant(np.array(first_values, np.int32))
        parts = [
            self.write_number(a, "int32") if a == b else self._write_batch_multiple(a, b)
            for a, b in zip(first_values, second_values, strict=True)
        ]
        return self.write_node("Pack", parts, axis=0, N=len(parts), T="int32")

    def write_shape(self, first_shape: Sequence[int], second_shape: Sequence[int]) -> str:
        """Write a target shape of Reshape; one size that depends on the batch becomes −1."""
        different = [
            n
            for n, pair in enumerate(zip(first_shape, second_shape, strict=True))
            if len({*pair}) > 1
        ]
        if len(different) == 1 and 0 not in first_shape:
            return self.write_integers(
                [-1 if n in different else size for n, size in enumerate(first_shape)]
            )
        return self.write_integers(first_shape, second_shape)

    def _write_batch_multiple(self, first_value: int, second_value: int) -> str:
        """Write an integer as a multiple of the batch size."""
        factor, rest = divmod(first_value, self.sizes[0]) if self.sizes[0] else (0, 1)
        if rest or factor * self.sizes[1] != second_value or not self.batches:
            raise UnsupportedModel(
                f"A size is {first_value} for a batch of {self.sizes[0]} and {second_value} for {self.sizes[1]}: "
                "that is no multiple of it. Save with dynamic=False."
            )
        if not self._batch:
            value, axis = self.batches[0]
            bounds = [self.write_integers([n]) for n in (axis, axis + 1, 1)]
            sizes = self.write_node("Shape", [value], T="float32")
            self._batch = self.write_node(
                "StridedSlice", [sizes, *bounds], shrink_axis_mask=1, T="int32"
            )
        if factor == 1:
            return self._batch
        return self.write_node("Mul", [self._batch, self.write_number(factor, "int32")], T="int32")

    def write_array(
        self, first_array: NDArray[Any], second_array: NDArray[Any], name: str = ""
    ) -> str:
        """Write a constant of both traces; if its size depends on the batch, its elements must be equal."""
        if first_array.shape == second_array.shape:
            if not np.array_equal(
                first_array, second_array, equal_nan=first_array.dtype.kind == "f"
            ):
                raise UnsupportedModel("The values of a constant depend on the size of the batch.")
            return self.write_constant(first_array, name)
        if (
            first_array.size == 0
            or (first_array != first_array.flat[0]).any()
            or (second_array != first_array.flat[0]).any()
        ):
            raise UnsupportedModel(
                f"A constant of shape {first_array.shape} grows with the batch, and its elements differ. "
                "Make it an argument of the function, or save with dynamic=False."
            )
        value = self.write_constant(np.array(first_array.flat[0]))
        return self.write_node(
            "Fill",
            [self.write_integers(first_array.shape, second_array.shape), value],
            T=first_array.dtype.name,
        )

    def write_graph(
        self, graphs_of_both_traces: tuple[Graph, Graph], name_of_value: dict[int, str]
    ) -> list[str]:
        """Write the steps of a graph whose inputs have names; return the names of its results.

        Raises:
            UnsupportedModel: something has no counterpart in TensorFlow.js, or the traces differ.
        """
        first, second = graphs_of_both_traces
        if len(first.steps) != len(second.steps):
            raise UnsupportedModel("The function does other things for other sizes of the batch.")
        for value in first.arguments:
            sizes = zip(first.specs[value].shape, second.specs[value].shape, strict=False)
            axes = [n for n, pair in enumerate(sizes) if pair == self.sizes and len({*pair}) > 1]
            self.batches += [(name_of_value[value], axis) for axis in axes[:1]]
        read = first.backend.to_numpy
        for value, other in zip(first.constants, second.constants, strict=True):
            name_of_value[value] = self.write_array(
                read(first.constants[value]), read(second.constants[other])
            )
        for value, variable in first.variables.items():
            name_of_value[value] = self.write_constant(
                variable.numpy(), variable.name or "variable"
            )
        for pair in zip(first.steps, second.steps, strict=True):
            self._write_step(graphs_of_both_traces, pair, name_of_value)
        return [name_of_value[value] for value in first.results]

    def _write_step(
        self,
        graphs_of_both_traces: tuple[Graph, Graph],
        steps_of_both_traces: Any,
        name_of_value: dict[int, str],
    ) -> None:
        """Write one step of the traces."""
        step, other = steps_of_both_traces
        if type(step) is not type(other):
            raise UnsupportedModel("The function does other things for other sizes of the batch.")
        if isinstance(step, Call):
            outputs = self._write_call(graphs_of_both_traces, steps_of_both_traces, name_of_value)
        elif type(step) in CONTROL_FLOW_RULES:
            outputs = CONTROL_FLOW_RULES[type(step)](self, steps_of_both_traces, name_of_value)
        else:
            raise UnsupportedModel(
                f"What the host computes at {step.line}, such as random numbers, has no counterpart in TensorFlow.js. "
                "Make it an argument of the function."
            )
        name_of_value.update(zip(step.outputs, outputs, strict=True))

    def _write_call(
        self,
        graphs_of_both_traces: tuple[Graph, Graph],
        calls_of_both_traces: Any,
        name_of_value: Mapping[int, str],
    ) -> list[str]:
        """Write the call of a kernel."""
        step, other = calls_of_both_traces
        if step.stops_gradient:
            return [self.write_node("StopGradient", [name_of_value[step.inputs[0]]])]
        kernel = step.kernel.name
        if kernel not in WRITE_RULES or other.kernel.name != kernel:
            raise UnsupportedModel(
                f"Kernel {kernel!r}, called at {step.line}, has no counterpart in TensorFlow.js that is written. "
                "Compute it by other ops."
            )
        calls = TracedCall(graphs_of_both_traces, calls_of_both_traces)
        for value in step.outputs:
            tensorflow_dtype(
                str(graphs_of_both_traces[0].specs[value].dtype), f"{kernel} at {step.line}"
            )
        input_names = ["" if value is None else name_of_value[value] for value in step.inputs]
        found = WRITE_RULES[kernel](self, calls, input_names)
        if not isinstance(found, str):
            return list(found)
        return [found] if len(step.outputs) == 1 else output_names(found, len(step.outputs))


def output_names(node_name: str, output_count: int) -> list[str]:
    """Return the names of the outputs of a node."""
    return [node_name, *(f"{node_name}:{place}" for place in range(1, output_count))]


def tensorflow_dtype(dtype: str, subject: str = "a weight") -> str:
    """Return TensorFlow's name for a dtype; `subject` is what has the dtype, for an error.

    Raises:
        UnsupportedModel: TensorFlow.js does not have it.
    """
    if dtype not in TENSORFLOW_DTYPES:
        raise UnsupportedModel(
            f"{subject} is {dtype}; TensorFlow.js has {', '.join(TENSORFLOW_DTYPES)}, so convert it "
            "first with plugrad.astype"
        )
    return TENSORFLOW_DTYPES[dtype]


def _encode_attributes(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """Encode attributes for JSON; T, Tidx, dtype and DstT are dtypes, and a tuple holds a function name."""
    return {name: _encode_attribute(name, value) for name, value in attrs.items()}


DTYPE_ATTRIBUTE_NAMES: Final = ("T", "Tidx", "dtype", "DstT", "SrcT", "element_dtype")
"""The attributes whose values are dtypes."""
FUNCTION_ATTRIBUTE_NAMES: Final = ("cond", "body", "then_branch", "else_branch")
"""The attributes whose values name functions of the model."""


def _encode_attribute(name: str, value: Any) -> dict[str, Any]:
    """Return the JSON form of the value of an attribute called `name`."""
    if name in DTYPE_ATTRIBUTE_NAMES:
        return {"type": tensorflow_dtype(value, "a value")}
    if name in FUNCTION_ATTRIBUTE_NAMES:
        return {"func": {"name": value}}
    if isinstance(value, bool):
        return {"b": value}
    if isinstance(value, int):
        return {"i": str(value)}
    if isinstance(value, float):
        return {"f": value}
    if isinstance(value, str):
        return {"s": _encode_base64(value)}
    if value and isinstance(value[0], str):
        return {"list": {"s": [_encode_base64(part) for part in value]}}
    return {"list": {"i": [str(part) for part in value]}}


def encode_shape_attribute(
    first_shape: Sequence[int], second_shape: Sequence[int]
) -> dict[str, Any]:
    """Encode a shape for JSON; a size that differs between the traces becomes -1."""
    sizes = [a if a == b else -1 for a, b in zip(first_shape, second_shape, strict=True)]
    return {"shape": {"dim": [{"size": str(size)} for size in sizes]}}


def _encode_base64(text: str) -> str:
    """Return a text's UTF-8 in base64."""
    return base64.b64encode(text.encode()).decode()
