"""A graph model of TensorFlow.js: to call, to train, and to write back."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, cast
from weakref import WeakKeyDictionary

import numpy as np

from plugrad.discovery.selection import activate_backend, active_backend
from plugrad.errors import (
    ArgumentError,
    ArgumentValueError,
    DamagedFile,
    DTypeError,
    PlugradError,
    ShapeError,
    short_repr,
)
from plugrad.graph_models.execution import ModelRunner, cached_execution_plan
from plugrad.graph_models.nodes import Graph, OutputReference
from plugrad.graph_models.reading import (
    check_operators,
    dtype_name,
    read_functions,
    read_graph,
)
from plugrad.interruptions import is_interruption
from plugrad.ops.creation import asarray
from plugrad.ops.unary import astype
from plugrad.saving.atomic_files import check_path
from plugrad.saving.tfjs_weights import DEFAULT_SHARD_BYTES, read_arrays, write_model
from plugrad.tensor.tensor import Tensor
from plugrad.tensor.tracer import Tracer
from plugrad.transforms.variable import Variable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from os import PathLike

    from numpy.typing import NDArray

    from plugrad.tensor.backend import Backend

MODEL_FILE_NAME: Final = "model.json"


def load_graph_model(folder: str | PathLike[str]) -> GraphModel:
    """A graph model of TensorFlow.js, such as its converter or `save_graph_model` writes, from its folder.

    >>> import os, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> plugrad.tfjs.save_graph_model(
    ...     lambda x: plugrad.relu(x) * 2, plugrad.ones((1, 2)), folder=folder
    ... )
    >>> model = plugrad.tfjs.load_graph_model(folder)
    >>> model
    GraphModel(x0 -> y0)
    >>> model([[-1.0, 3.0]])
    tensor([[0., 6.]], dtype=float32)

    Nothing runs when a model is read, and only files of its folder are read.

    Args:
        folder: the folder with ``model.json`` and the files that it names; or such a file.

    Raises:
        ArgumentError, ArgumentValueError: `folder` is not a path.
        DamagedFile: a file does not hold a graph model, or its parts do not fit together.
        UnsupportedModel: an operator is not supported; the message names each such node.
        OSError: a file is missing, which is a FileNotFoundError, or cannot be read.
    """
    path = model_path(folder, "load_graph_model")
    document, weights = read_arrays("load_graph_model", path)
    try:
        return _make_model(document, weights)
    except DamagedFile as error:
        raise DamagedFile(f"load_graph_model: {path} is damaged: {error}") from None
    except PlugradError:
        raise
    except Exception as error:  # what damaged fields do to Python
        if is_interruption(error):
            raise
        raise DamagedFile(
            f"load_graph_model: {path} is damaged: {type(error).__name__}: {short_repr(str(error))}"
        ) from error


def model_path(folder: str | PathLike[str], op_name: str) -> str:
    """Return the path of model.json, given its folder or its own path."""
    path = check_path(folder, op_name)
    return os.path.join(path, MODEL_FILE_NAME) if os.path.isdir(path) else path


def _make_model(document: Any, weights: Mapping[str, NDArray[Any]]) -> GraphModel:
    """Return the model that the content of model.json and its weights describe."""
    if not isinstance(document, dict):
        raise DamagedFile("it has only weights, and no model")
    topology = cast("dict[str, Any]", document).get("modelTopology")
    if not isinstance(topology, dict) or "node" not in topology:
        raise DamagedFile(
            "it has no graph; a model of layers is read by plugrad_nn.tfjs.load_layers_model"
        )
    graph = read_graph(cast("dict[str, Any]", topology))
    functions = read_functions(cast("dict[str, Any]", topology))
    return GraphModel(cast("dict[str, Any]", document), graph, functions, dict(weights))


class GraphModel:
    """A graph model of TensorFlow.js, which `load_graph_model` reads; it runs on the backend of its inputs.

    Call it with its inputs in their order, or by name. It returns the output, or a tuple of the outputs. Its weights
    are constants, until `variables` makes them variables. ``plugrad.jit(model)`` makes all of it one program.
    """

    def __init__(
        self,
        document: Mapping[str, Any],
        graph: Graph,
        functions: Mapping[str, Graph],
        weights: dict[str, NDArray[Any]],
    ) -> None:
        self._document = document
        self._graph = graph
        self._functions = functions
        self._weights = weights
        self._trained: dict[str, Variable] = {}
        # By device, with which copies of constants end.
        self._copies: WeakKeyDictionary[Backend, dict[int, Tensor]] = WeakKeyDictionary()
        self._inputs, self._outputs = _find_inputs_and_outputs(document, graph)
        nodes = cached_execution_plan(graph, tuple(self._outputs.values())).nodes
        check_operators(nodes, functions)
        for node in nodes:
            if node.op == "Const" and node.name not in weights:
                raise DamagedFile(f"{node} has no weight of its name")

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the inputs, in the order of a call's arguments."""
        return tuple(self._inputs)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the outputs, in the order of a call's results."""
        return tuple(self._outputs)

    @property
    def weights(self) -> dict[str, NDArray[Any]]:
        """The current values of the weights by name, as NumPy arrays."""
        trained = {name: variable.numpy() for name, variable in self._trained.items()}
        return {**self._weights, **trained}

    def variables(self, names: Iterable[str] | None = None) -> list[Variable]:
        """The weights as variables on the active backend, for gradients and optimizers.

        >>> import tempfile
        >>> folder, w = tempfile.mkdtemp(), plugrad.Variable([[1.0], [2.0]], name="w")
        >>> plugrad.tfjs.save_graph_model(lambda x: x @ w, plugrad.ones((1, 2)), folder=folder)
        >>> model = plugrad.tfjs.load_graph_model(folder)
        >>> value, gradients = plugrad.variable_grads(
        ...     lambda: plugrad.sum(model([[3.0, 4.0]])), model.variables()
        ... )
        >>> gradients[0].tolist()
        [[3.0], [4.0]]

        Args:
            names: names of weights; by default all those of float32 with more than one element.

        Raises:
            ArgumentValueError: a name is that of no weight of float32.
        """
        floating = [name for name, array in self._weights.items() if array.dtype == np.float32]
        chosen = (
            [n for n in floating if self._weights[n].size > 1] if names is None else list(names)
        )
        for name in chosen:
            if name not in floating:
                raise ArgumentValueError(
                    f"{short_repr(name)} is no weight of float32; these are: {', '.join(floating)[:500]}"
                )
        for name in chosen:
            if name not in self._trained:
                self._trained[name] = Variable(asarray(self._weights[name]), name=name)
        return [self._trained[name] for name in chosen]

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Return the output, or a tuple of the outputs.

        Args:
            *args: inputs in their order: tensors, or what `plugrad.asarray` takes.
            **named: inputs by name.

        Raises:
            ArgumentError, ShapeError, DTypeError: as for `run`.
        """
        if len(args) > len(self._inputs):
            raise ArgumentError(
                f"GraphModel: {len(args)} inputs were given; it takes {', '.join(self._inputs)}"
            )
        values = dict(zip(self._inputs, args, strict=False))
        twice = values.keys() & named.keys()
        if twice:
            raise ArgumentError(f"GraphModel: input {min(twice)!r} was given twice")
        results = self.run({**values, **named})
        return results[0] if len(results) == 1 else tuple(results)

    def run(self, inputs: Mapping[str, Any], outputs: Sequence[str] | None = None) -> list[Any]:
        """Return outputs as a list; inputs are given by name, also names that are not Python identifiers.

        Args:
            inputs: tensors, or what `plugrad.asarray` takes, by name.
            outputs: names of outputs, or of any nodes, such as "dense/BiasAdd" or "split:1"; by default all outputs.

        Raises:
            ArgumentError: an input is missing or unknown.
            ArgumentValueError: there is no node of the name of an output.
            ShapeError, DTypeError: an input has another shape or dtype than the model says.
            UnsupportedModel: a node that only the named outputs need is not supported.
            DamagedFile: a node cannot be computed.
        """
        given = dict(inputs) if isinstance(inputs, Mapping) else {}  # pyright: ignore[reportUnnecessaryIsInstance] - people pass anything
        if given.keys() != self._inputs.keys():
            raise ArgumentError(
                f"GraphModel: inputs are {', '.join(map(str, given)) or short_repr(inputs)}; it takes a dict of "
                f"{', '.join(self._inputs)}"
            )
        wanted = tuple(self._outputs.values())
        if outputs is not None:
            wanted = tuple(self._find_reference(name) for name in outputs)
            check_operators(cached_execution_plan(self._graph, wanted).nodes, self._functions)
        backend = next((x.backend for x in given.values() if isinstance(x, Tensor)), None)
        backend = backend or active_backend()
        with activate_backend(backend):
            values = {
                self._inputs[name].node: self._convert_input(name, value, backend)
                for name, value in given.items()
            }
            runner = self._get_runner(backend)
            found = runner.run(self._graph, wanted, values)
            return [runner.on_device(value) for value in found]

    def save(
        self,
        folder: str | PathLike[str],
        *,
        quantization: str | None = None,
        shard_bytes: int = DEFAULT_SHARD_BYTES,
    ) -> None:
        """Write the model with its current weights to a folder.

        Args:
            folder: the folder, which is made if there is none.
            quantization: as for `encode_weights`.
            shard_bytes: the most bytes of a file.

        Raises:
            ArgumentError, ArgumentValueError: an argument is none of the above.
            OSError: a file cannot be written; see `plugrad.save`.
        """
        path = check_path(folder, "GraphModel.save")
        os.makedirs(path, exist_ok=True)
        document = {k: v for k, v in self._document.items() if k != "weightsManifest"}
        write_model(
            os.path.join(path, MODEL_FILE_NAME),
            document,
            self.weights,
            quantization=quantization,
            shard_bytes=shard_bytes,
        )

    def __repr__(self) -> str:
        """Return the names of the inputs and outputs."""
        return f"GraphModel({', '.join(self._inputs)} -> {', '.join(self._outputs)})"

    def _get_runner(self, backend: Backend) -> ModelRunner:
        """Return the runner for a backend; while tracing, constants are on the traced device."""
        while isinstance(backend, Tracer):
            backend = backend.target
        copies = self._copies.setdefault(backend, {})
        return ModelRunner({**self._weights, **self._trained}, self._functions, copies, backend)

    def _find_reference(self, name: str) -> OutputReference:
        """Return the output or the node with a name."""
        if name in self._outputs:
            return self._outputs[name]
        node, _, port = name.partition(":")
        if node not in self._graph.nodes or not (not port or port.isdecimal()):
            raise ArgumentValueError(
                f"GraphModel: {short_repr(name)} is no output and no node; outputs are {', '.join(self._outputs)}"
            )
        return OutputReference(node, int(port or 0))

    def _convert_input(self, input_name: str, value: Any, backend: Backend) -> Tensor:
        """Convert an input to a tensor on a backend, and check it against the declared dtype and shape."""
        attributes = self._graph.nodes[self._inputs[input_name].node].attributes
        dtype = attributes.get("dtype", "float32")
        x = value if isinstance(value, Tensor) else asarray(value, device=backend)
        if (str(x.dtype) == "string") != (dtype == "string"):
            raise DTypeError(f"GraphModel: input {input_name!r} is {x.dtype}; it must be {dtype}")
        if str(x.dtype) != dtype:
            x = astype(x, dtype)
        shape: list[int] | None = attributes.get("shape")
        if shape is None:
            return x
        if len(shape) != x.ndim or any(
            size not in (-1, actual) for size, actual in zip(shape, x.shape, strict=True)
        ):
            sizes = ", ".join("any" if size < 0 else str(size) for size in shape)
            raise ShapeError(
                f"GraphModel: input {input_name!r} has shape {x.shape}; it must be ({sizes})"
            )
        return x


def _find_inputs_and_outputs(
    document: Mapping[str, Any], graph: Graph
) -> tuple[dict[str, OutputReference], dict[str, OutputReference]]:
    """Return the input and output nodes by the names of the signature, or by their own names without one."""
    metadata: dict[str, Any] = document.get("userDefinedMetadata") or {}
    found: dict[str, Any] = document.get("signature") or metadata.get("signature") or {}
    inputs = _named_tensors(found.get("inputs") or {}, graph)
    outputs = _named_tensors(found.get("outputs") or {}, graph)
    known = {reference.node for reference in inputs.values()}
    for name in graph.inputs:
        if name not in known:
            inputs[name] = OutputReference(name)
    return inputs, outputs or {r.node: r for r in graph.outputs if graph.nodes[r.node].op != "NoOp"}


def _named_tensors(
    signature_entries: Mapping[str, Any], graph: Graph
) -> dict[str, OutputReference]:
    """Return by name the node outputs to which the entries of a signature refer."""
    found: dict[str, OutputReference] = {}
    for name, part in signature_entries.items():
        node, _, port = str(part.get("name", name)).partition(":")
        if node not in graph.nodes:
            raise DamagedFile(f"the signature names {node!r}, which is no node")
        if "dtype" in part:
            dtype_name(part["dtype"])
        found[name] = OutputReference(node, int(port or 0))
    return found
