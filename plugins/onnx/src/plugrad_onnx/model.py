"""A model that was read from a file: to call, to train, and to write back."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import onnx
from onnx import numpy_helper

import plugrad
from plugrad.errors import ArgumentError, ArgumentValueError, PlugradError
from plugrad.extend import is_interruption
from plugrad_onnx.elements import (
    as_tensor,
    element_type,
    is_list,
    is_stored_only,
    lacks_dtype,
    numpy_dtype,
)
from plugrad_onnx.errors import InvalidModel
from plugrad_onnx.execution import ExecutionPlan
from plugrad_onnx.folding import fold_constants
from plugrad_onnx.fusion import fuse_nodes
from plugrad_onnx.graph import EMPTY_LARGE_WEIGHTS, Graph, build_graph
from plugrad_onnx.reading import read_model

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_NUMBER_KIND_NAMES: Final = {
    "b": "bool",
    "i": "integer",
    "u": "integer",
    "f": "real",
    "c": "complex",
    "T": "string",
}
"""The names of kinds of numbers, by the kind of NumPy's dtype."""
MAX_CACHED_PLANS: Final = 16
"""The number of input shapes for which a model keeps an execution plan."""


def load(source: str | os.PathLike[str] | onnx.ModelProto) -> Model:
    """Read an ONNX model and check that all of it can run.

    Args:
        source: The path of a file; or a model that the package onnx has made or read.

    Raises:
        InvalidModel: it is damaged, or breaks a rule of ONNX.
        UnsupportedModel: it needs something that plugrad-onnx does not do.
    """
    by_path = not isinstance(source, onnx.ModelProto)
    proto, large = read_model(source) if by_path else (source, EMPTY_LARGE_WEIGHTS)
    folder = Path(source).parent if by_path else None
    try:
        return Model(proto, build_graph(proto, folder, large))
    except PlugradError:
        raise
    except Exception as error:  # what damaged fields do in the packages that read them
        if is_interruption(error):
            raise
        where = source if by_path else "The model"
        raise InvalidModel(f"{where} is damaged: {type(error).__name__}: {error}") from error


class Model:
    """A model of ONNX, which runs on the backend of its inputs.

    Call it with inputs in their order, or by name; it returns the output, or a tuple of outputs. Its
    weights are constants, until `variables` is called.
    """

    def __init__(self, proto: onnx.ModelProto, graph: Graph) -> None:
        self._proto = proto
        self._graph = graph
        self._trained: dict[str, plugrad.Variable] = {}
        self._plans: OrderedDict[Any, ExecutionPlan] = OrderedDict()
        self._fused: Graph | None = None
        declared = {value.name: value for value in proto.graph.input}
        self._inputs = {
            name: declared[name] for name in graph.inputs if name not in graph.constants
        }

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the inputs, in the order in which a call takes them."""
        return tuple(self._inputs)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the outputs, in the order in which a call returns them."""
        return tuple(self._graph.outputs)

    @property
    def weights(self) -> Weights:
        """The weights in the file by name, as arrays. New values can be assigned.

        Raises:
            ArgumentValueError: an assigned array has another shape or dtype.
        """
        return Weights(self)

    def variables(self, names: Sequence[str] | None = None) -> list[plugrad.Variable]:
        """Turn weights into variables on the active backend, for optimizers and gradients.

        Args:
            names: Names of weights. Without, all those of floating dtypes.

        Raises:
            ArgumentValueError: a name is that of no weight of floating dtype.
        """
        floating = [n for n, a in self._graph.constants.items() if a.dtype.kind == "f"]
        names = floating if names is None else list(names)
        for name in names:
            if name not in floating:
                raise ArgumentValueError(
                    f"{name!r} is no weight of floating dtype; these are: {', '.join(floating)}."
                )
            if name not in self._trained:
                value = _to_tensor(self._graph.constants[name], _device_of_inputs([]))
                self._trained[name] = plugrad.Variable(value, name=name)
        self._clear_plans()
        return [self._trained[name] for name in names]

    def freeze(self) -> None:
        """Turn the variables back into constants with their current values."""
        for name, variable in self._trained.items():
            dtype = self._graph.constants[name].dtype
            self._graph.constants[name] = variable.numpy().astype(dtype)
        self._trained.clear()
        self._clear_plans()

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Return the output, or a tuple of the outputs.

        Args:
            *args: Inputs in their order: tensors, arrays, or what `plugrad.asarray` takes.
            **named: Inputs by name.

        Raises:
            ArgumentError: inputs are missing, or there are too many.
            ArgumentValueError: an input has another shape or dtype than the model says.
            NodeFailed: a node cannot compute its outputs.
        """
        results = self.run(self._inputs_by_name(args, named))
        return results[0] if len(results) == 1 else tuple(results)

    def run(self, inputs: Mapping[str, Any]) -> list[Any]:
        """Return the outputs as a list; inputs are given by name, also names that are not Python identifiers."""
        device = _device_of_inputs(inputs.values())
        values = {name: self._convert_input(name, value, device) for name, value in inputs.items()}
        missing = [name for name in self._inputs if name not in values]
        if missing:
            raise ArgumentError(f"Inputs are missing: {', '.join(missing)}.")
        key = (device, *((name, _shape_signature(value)) for name, value in sorted(values.items())))
        plan = self._plans.get(key)
        if plan is None:
            self._fused = self._fused or self._optimize_graph()
            plan = ExecutionPlan(self._fused, device, {*self._trained, *values})
            self._plans[key] = plan
            while len(self._plans) > MAX_CACHED_PLANS:
                self._plans.popitem(last=False)
        self._plans.move_to_end(key)
        return plan.run({**self._trained, **values})

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model with its current weights.

        What no longer fits into one file of protobuf, above 2 GB, goes to a second one beside it.
        """
        proto = onnx.ModelProto()
        proto.CopyFrom(self._proto)
        for tensor in proto.graph.initializer:
            array = self.weights[tensor.name]
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
        large = proto.ByteSize() > 1_900_000_000
        name = f"{Path(path).name}.data" if large else None
        onnx.save_model(  # pyright: ignore[reportUnknownMemberType]
            proto, os.fspath(path), save_as_external_data=large, location=name
        )

    def __repr__(self) -> str:
        return f"Model({', '.join(self.inputs)} -> {', '.join(self.outputs)})"

    def _optimize_graph(self) -> Graph:
        """Return the graph to run: constants folded, and operations after a convolution merged into it."""
        changing = {*self._trained, *self._graph.inputs}
        dtypes = {
            name: numpy_dtype(proto.type.tensor_type.elem_type)
            for name, proto in self._inputs.items()
            if _is_tensor(proto) and proto.type.tensor_type.elem_type
        }
        return fuse_nodes(fold_constants(self._graph, changing, dtypes), changing)

    def _clear_plans(self) -> None:
        """Drop everything that was computed from weights."""
        self._fused = None
        self._plans.clear()

    def _inputs_by_name(
        self, args: Sequence[Any], named_inputs: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return inputs by name."""
        if len(args) > len(self._inputs):
            raise ArgumentError(
                f"{len(args)} inputs were given; the model takes {len(self._inputs)}: "
                f"{', '.join(self._inputs)}."
            )
        values = dict(zip(self._inputs, args, strict=False))
        for name, value in named_inputs.items():
            if name in values or name not in self._graph.inputs:
                known = ", ".join(self._inputs)
                raise ArgumentError(f"{name!r} is given twice or no input; inputs are: {known}.")
            values[name] = value
        return values

    def _convert_input(self, name: str, value: Any, device: str) -> Any:
        """Convert an input to a tensor, or to an array if plugrad lacks its dtype."""
        if name not in self._graph.inputs:
            raise ArgumentError(f"{name!r} is no input; these are: {', '.join(self._inputs)}.")
        if value is None or isinstance(value, plugrad.Variable):
            return value
        if is_list(value) and not _is_tensor(self._inputs.get(name)):
            return [_to_tensor(part, device) for part in value]
        proto = self._inputs.get(name)
        if not isinstance(value, plugrad.Tensor):
            value = _to_tensor(_cast_to_declared(np.asarray(value), proto), device)
        if proto is not None and _is_tensor(proto):
            _check_shape(name, proto.type.tensor_type, value)
        return value


class Weights(MutableMapping[str, Any]):
    """The weights of a model by name; reading returns arrays, assignment changes the model."""

    def __init__(self, model: Model) -> None:
        self._model = model

    def __getitem__(self, name: str) -> NDArray[Any]:
        model: Any = self._model
        if name in model._trained:
            return model._trained[name].numpy()
        return model._graph.constants[name]

    def __setitem__(self, name: str, value: Any) -> None:
        model: Any = self._model
        old = model._graph.constants[name]
        new = value.numpy() if isinstance(value, plugrad.Tensor) else np.asarray(value)
        if new.shape != old.shape or new.dtype != old.dtype:
            raise ArgumentValueError(
                f"Weight {name!r} has shape {old.shape} and dtype {old.dtype}; "
                f"{new.shape} and {new.dtype} were assigned."
            )
        if name in model._trained:
            model._trained[name].assign(new)
        else:
            model._graph.constants[name] = new
            model._clear_plans()

    def __delitem__(self, name: str) -> None:
        raise ArgumentError(f"Weight {name!r} cannot be removed: the model needs it.")

    def __iter__(self) -> Iterator[str]:
        model: Any = self._model
        return iter(model._graph.constants)

    def __len__(self) -> int:
        model: Any = self._model
        return len(model._graph.constants)


def _is_tensor(value_info: Any) -> bool:
    """Whether an input is declared as a tensor, or not at all."""
    return value_info is None or value_info.type.HasField("tensor_type")


def _cast_to_declared(array: NDArray[Any], value_info: onnx.ValueInfoProto | None) -> NDArray[Any]:
    """Cast real numbers to the dtype that the model declares; Python's floats and NumPy's default are float64."""
    if value_info is None or not _is_tensor(value_info) or array.dtype.kind != "f":
        return array
    declared = numpy_dtype(value_info.type.tensor_type.elem_type)
    return array.astype(declared) if declared.kind == "f" else array


def _to_tensor(value: Any, device: str) -> Any:
    """Convert to a tensor, on the cpu if the device lacks the dtype, or to an array if plugrad lacks it."""
    if isinstance(value, plugrad.Tensor):
        return value
    array = np.asarray(value)
    if is_stored_only(array.dtype):
        return array
    return as_tensor(array, "cpu" if lacks_dtype(device, array) else device)


def _check_shape(name: str, declared_type: onnx.TypeProto.Tensor, value: Any) -> None:
    """Raise unless the shape and the dtype of an input fit those that the model declares."""
    dims = declared_type.shape.dim
    sizes = [d.dim_value if d.HasField("dim_value") else (d.dim_param or "any") for d in dims]
    fits = len(sizes) == len(value.shape) and all(
        not isinstance(size, int) or size == actual
        for size, actual in zip(sizes, value.shape, strict=True)
    )
    if declared_type.HasField("shape") and not fits:
        raise ArgumentValueError(
            f"Input {name!r} has shape {tuple(value.shape)}; the model takes "
            f"({', '.join(map(str, sizes))})."
        )
    expected = numpy_dtype(declared_type.elem_type)
    given = numpy_dtype(element_type(value.dtype))
    if _NUMBER_KIND_NAMES.get(given.kind) != _NUMBER_KIND_NAMES.get(
        expected.kind
    ) and not is_stored_only(expected):
        raise ArgumentValueError(
            f"Input {name!r} has dtype {value.dtype}; the model takes {expected}. "
            "Convert it with plugrad.astype."
        )


def _device_of_inputs(values: Any) -> str:
    """Return the device of the first tensor among the inputs, or the active one."""
    for value in values:
        parts: list[Any] = value if is_list(value) else [value]
        for part in parts:
            if isinstance(part, plugrad.Tensor):
                return str(part.device)
    return str(plugrad.zeros(()).device)


def _shape_signature(value: Any) -> Any:
    """Return the shapes and dtypes of an input, on which an execution plan depends."""
    if is_list(value):
        return tuple(map(_shape_signature, value))
    return None if value is None else (tuple(value.shape), str(value.dtype))
