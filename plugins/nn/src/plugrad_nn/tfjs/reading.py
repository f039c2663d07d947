"""Reading of layers models: a graph of layers and its parameters, from the files of a model."""

from __future__ import annotations

import json
import os
import warnings
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import plugrad
from plugrad.extend import PlugradError, is_interruption
from plugrad_nn.dense import Dense
from plugrad_nn.dropout import Dropout, GaussianDropout, GaussianNoise
from plugrad_nn.graph import Graph
from plugrad_nn.layer import Layer
from plugrad_nn.normalization import BatchNorm, LayerNorm
from plugrad_nn.recurrent import GRU, LSTM, Bidirectional, Masked, SimpleRNN, TimeDistributed
from plugrad_nn.tfjs.layers import TRAINING_ONLY_OPTIONS, UnsupportedLayer, make_layer
from plugrad_nn.tfjs.masks import Masking, NonzeroMask, ValueMask
from plugrad_nn.tfjs.weights import read_params

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from os import PathLike

    from plugrad import Tensor
    from plugrad_nn.parameters import Params

    Json = Mapping[str, Any]
    """An object in a JSON file."""

MASK_PASSING_LAYERS: Final = (
    Dense,
    Dropout,
    GaussianDropout,
    GaussianNoise,
    BatchNorm,
    LayerNorm,
    TimeDistributed,
)
"""The layers whose results have the masks of their inputs."""
KERAS_MODEL_CLASSES: Final = ("Sequential", "Model", "Functional")
"""The classes of Keras that are models."""


class _LayerCall(NamedTuple):
    """One call of a layer."""

    name: str
    layer_or_function: Any
    """A layer, a function, the name of an earlier node that shares its layer, or None, which passes its input on."""
    input_names: tuple[str, ...]


def load_layers_model(folder: str | PathLike[str]) -> tuple[Graph, Params]:
    """A TensorFlow.js layers model as a graph of layers and its parameters on the active backend.

    The nodes of the graph have the names that the layers have in the file; a model inside a model is a graph inside
    the graph. Layers and weights that the file says are not trainable are not.

    Args:
        folder: the folder with ``model.json`` and the files that it names; or such a file.

    Raises:
        ArgumentError, ArgumentValueError: `folder` is not a path.
        plugrad.errors.DamagedFile: a file does not hold a model of layers, or its parts do not fit together.
        plugrad.errors.UnsupportedModel: a layer is not supported; the message names each.
        OSError: a file is missing, which is a FileNotFoundError, or cannot be read.

    Examples:
        >>> import tempfile
        >>> from plugrad_nn import tfjs
        >>> model, folder = nn.Sequential(nn.Dense(2)), tempfile.mkdtemp()
        >>> tfjs.save_layers_model(model, model.init(0, (3,)), (3,), folder)
        >>> graph, params = tfjs.load_layers_model(folder)
        >>> graph
        Graph(['input'], dense=Dense(2), outputs='dense')
    """
    path = folder
    if isinstance(folder, str | os.PathLike) and os.path.isdir(folder):  # pyright: ignore[reportUnnecessaryIsInstance] - people pass anything
        path = os.path.join(folder, "model.json")
    document, weights = plugrad.tfjs.read_model(path)
    try:
        topology = _model_topology(document)
        reader = _ModelReader(weights)
        graph, params = reader.read_model(topology, "")
        reader.check()
    except plugrad.errors.DamagedFile as error:
        raise plugrad.errors.DamagedFile(f"load_layers_model: {path} is damaged: {error}") from None
    except PlugradError:
        raise
    except Exception as error:  # what damaged fields do to Python
        if is_interruption(error):
            raise
        raise plugrad.errors.DamagedFile(
            f"load_layers_model: {path} is damaged: {type(error).__name__}: {str(error)[:200]}"
        ) from error
    return graph, params


def _model_topology(document: Json) -> Json:
    """Return the class and configuration of the model."""
    topology: Any = document.get("modelTopology")
    if isinstance(topology, str):
        topology = json.loads(topology)
    if isinstance(topology, dict) and "node" in topology:
        raise plugrad.errors.DamagedFile(
            "it has a graph of operators; plugrad.tfjs.load_graph_model reads it"
        )
    if isinstance(topology, dict):
        found = cast("dict[str, Any]", topology)
        topology = found.get("model_config", found)
    if not isinstance(topology, dict) or topology.get("class_name") not in KERAS_MODEL_CLASSES:  # pyright: ignore[reportUnknownMemberType] - what JSON holds
        raise plugrad.errors.DamagedFile("it has no model of layers")
    return cast("Json", topology)


class _ModelReader:
    """Reads models, and collects the reasons why parts cannot be read.

    Args:
        weights: all weights of the file, by name.
    """

    def __init__(self, weights: Mapping[str, Tensor]) -> None:
        self.weights = weights
        self.problems: list[str] = []
        self.left_out: set[str] = set()
        self.masking: dict[str, NonzeroMask | ValueMask] = {}
        """By the name of a layer: what finds the mask that comes with its result."""
        self.axes: dict[str, int] = {}
        """The axes that layers say, by name, counted from the one of the batch."""

    def check(self) -> None:
        """Raise if something could not be read, and warn about settings that only training needs.

        Raises:
            UnsupportedModel: a layer is not supported.
        """
        if self.problems:
            lines = "\n".join(f"  {problem}." for problem in self.problems)
            raise plugrad.errors.UnsupportedModel(
                f"plugrad_nn cannot read this model:\n{lines}\nA graph model may have them: convert it as one."
            )
        if self.left_out:
            warnings.warn(
                f"load_layers_model leaves out {', '.join(sorted(self.left_out))}, which only training would know; "
                "add them to the loss",
                RuntimeWarning,
                stacklevel=3,
            )

    def read_model(self, topology: Json, name_prefix: str) -> tuple[Graph, Params]:
        """Return the graph of layers of a model, and its parameters."""
        kind, config = topology["class_name"], topology["config"]
        params: Params = {}
        if kind == "Sequential":
            nodes, inputs, outputs = self._read_sequential(config, params, name_prefix)
        else:
            nodes, inputs, outputs = self._read_functional(config, params, name_prefix)
        passed: dict[str, str] = {}
        kept: dict[str, Any] = {}
        for node in self._insert_mask_nodes(nodes):
            taken = tuple(passed.get(name, name) for name in node.input_names)
            if node.layer_or_function is None:
                passed[node.name] = taken[0]
            else:
                kept[node.name] = (node.layer_or_function, *taken)
        if self.problems:  # the graph would lack nodes
            return Graph("x", {"y": (plugrad.positive, "x")}, "y"), params
        ends = [passed.get(name, name) for name in outputs]
        graph = Graph(inputs, kept, ends[0] if len(ends) == 1 else ends)
        self._check_axes(graph, params, _input_shapes(config))
        return graph, params

    def _insert_mask_nodes(self, nodes: list[_LayerCall]) -> Iterator[_LayerCall]:
        """Yield nodes, with an extra node for each mask; recurrent layers get the masks of their inputs."""
        masks: dict[str, str] = {}
        kept: dict[str, Any] = {}
        for node in nodes:
            step = kept[node.name] = kept.get(node.layer_or_function, node.layer_or_function)
            found = [masks[name] for name in node.input_names if name in masks]
            if node.name in self.masking:
                yield node
                masks[node.name] = f"{node.name}/mask"
                yield _LayerCall(masks[node.name], self.masking[node.name], node.input_names)
            elif not found:
                yield node
            elif isinstance(step, LSTM | GRU | SimpleRNN | Bidirectional) and len(found) == 1:
                # A string stands for the layer of an earlier node, which takes a mask, too.
                shared = (
                    node.layer_or_function
                    if isinstance(node.layer_or_function, str)
                    else Masked(step)
                )
                yield _LayerCall(node.name, shared, (*node.input_names, found[0]))
                cell = step.layer if isinstance(step, Bidirectional) else step
                if cell.return_sequences:
                    masks[node.name] = found[0]
            elif isinstance(step, MASK_PASSING_LAYERS) or (
                step is None or not isinstance(step, Layer)
            ):
                yield node
                masks[node.name] = found[0]
            else:
                self.problems.append(f"layer {node.name!r}: it gets a mask, and none is supported")
                yield node

    def _check_axes(self, graph: Graph, params: Params, shapes: list[Any]) -> None:
        """Record a problem for each layer whose axis is not the last one.

        TensorFlow.js counts axes from the first one, so the shapes of its inputs must be known.
        """
        claims = {name: axis for name, axis in self.axes.items() if name in dict(graph.nodes)}
        if not claims:
            return
        found: dict[str, int] = {}
        try:
            known = dict(zip(graph.inputs, shapes, strict=True))
            for name, _, _, given in graph.walk(params, known):
                found[name] = len(given[0])
        except (PlugradError, ValueError):  # shapes that the file does not say
            pass
        for name, axis in claims.items():
            if found.get(name) != axis:
                self.problems.append(f"layer {name!r}: axis={axis} is not known to be the last one")
            del self.axes[name]

    def _read_sequential(
        self, config: Any, params: Params, name_prefix: str
    ) -> tuple[list[_LayerCall], list[str], list[str]]:
        """Return the nodes, inputs and outputs of a sequential model."""
        layers = _layer_descriptions(config)
        before = "input"
        nodes: list[_LayerCall] = []
        for layer in layers:
            name = str(layer["config"].get("name", layer["class_name"]))
            if layer["class_name"] == "InputLayer" and not nodes:
                before = name
                continue
            if not nodes and before == "input" and name == "input":
                before = "x"
            first = before if not nodes else nodes[-1].name
            nodes.append(
                _LayerCall(name, self._build_layer(layer, name, params, name_prefix), (first,))
            )
        if not nodes:
            raise plugrad.errors.DamagedFile("a model has no layers")
        return nodes, [before], [nodes[-1].name]

    def _read_functional(
        self, config: Json, params: Params, name_prefix: str
    ) -> tuple[list[_LayerCall], list[str], list[str]]:
        """Return the nodes of a functional model in execution order."""
        inputs = [str(ref[0]) for ref in _as_layer_reference_list(config["input_layers"])]
        firsts = _first_call_indices(config)
        waiting: dict[str, tuple[Json, list[str]]] = {}
        for layer in _layer_descriptions(config):
            for place, call in enumerate(layer.get("inbound_nodes") or []):
                taken = [_call_name(ref, firsts) for ref in _as_layer_reference_list(call)]
                waiting[_node_name(str(layer["name"]), place)] = (layer, taken)
        nodes: list[_LayerCall] = []
        made: dict[str, str] = {}
        done = set(inputs)
        while waiting:
            ready = [name for name, (_, taken) in waiting.items() if done.issuperset(taken)]
            if not ready:
                raise plugrad.errors.DamagedFile(f"layer {min(waiting)!r} needs its own result")
            for name in ready:
                layer, taken = waiting.pop(name)
                done.add(name)
                own = str(layer["name"])
                step = (
                    made[own] if own in made else self._build_layer(layer, own, params, name_prefix)
                )
                if isinstance(step, Layer):
                    made[own] = name
                nodes.append(_LayerCall(name, step, tuple(taken)))
        outputs = [
            _call_name(ref, firsts) for ref in _as_layer_reference_list(config["output_layers"])
        ]
        return nodes, inputs, outputs

    def _build_layer(
        self, description: Json, layer_name: str, params: Params, name_prefix: str
    ) -> Any:
        """Build a layer or function from its description, and put its parameters into `params`."""
        kind, config = str(description["class_name"]), description["config"]
        if kind in KERAS_MODEL_CLASSES:
            graph, inner = self.read_model(description, f"{name_prefix}{layer_name}.")
            if inner:
                params[layer_name] = inner
            return graph
        self.left_out |= {field for field in TRAINING_ONLY_OPTIONS if config.get(field)}
        try:
            step = make_layer(kind, config)
        except UnsupportedLayer as error:
            self.problems.append(f"layer {layer_name!r} ({kind}): {error}")
            return None
        if config.get("mask_zero"):
            self.masking[layer_name] = NonzeroMask()
        if isinstance(step, Masking):
            self.masking[layer_name] = ValueMask(step.value)
        if isinstance(step, BatchNorm | LayerNorm):
            axis: Any = config.get("axis", -1)
            axis = int(axis[0] if isinstance(axis, list) else axis)  # pyright: ignore[reportUnknownArgumentType] - what JSON holds
            if axis != -1:
                self.axes[layer_name] = axis
        if isinstance(step, Layer):
            found = self._read_weights(layer_name)
            trainable = config.get("trainable", True) is not False
            try:
                own = read_params(step, found, trainable, f"{name_prefix}{layer_name}.")
            except KeyError as error:
                raise plugrad.errors.DamagedFile(
                    f"layer {layer_name!r} has no weight {error}"
                ) from None
            _check_all_weights_used(layer_name, own, found)
            if own:
                params[layer_name] = own
        return step

    def _read_weights(self, layer_name: str) -> dict[str, Tensor]:
        """Return the weights of a layer by their names without the layer's prefix."""
        found: dict[str, Tensor] = {}
        for name, value in self.weights.items():
            _, is_own, rest = f"/{name}".rpartition(f"/{layer_name}/")
            if is_own:
                found[rest] = value
        return found


def _check_all_weights_used(layer_name: str, params: Params, weights: Mapping[str, Tensor]) -> None:
    """Raise unless a layer has used all of its weights."""
    taken = sum(len(part) if isinstance(part, dict) else 1 for part in params.values())
    if taken != len(weights):
        raise plugrad.errors.DamagedFile(
            f"layer {layer_name!r} has the weights {', '.join(weights)}, of which it takes {taken}"
        )


def _input_shapes(config: Any) -> list[Any]:
    """Return the input shapes of a model without the batch; unknown sizes become 1."""
    found: list[Any] = []
    for layer in _layer_descriptions(config):
        shape: list[int | None] | None = layer["config"].get("batch_input_shape") or layer[
            "config"
        ].get("batch_shape")
        if shape:
            found.append(tuple(1 if size is None else int(size) for size in shape[1:]))
    return found


def _layer_descriptions(config: Any) -> list[Json]:
    """Return the descriptions of the layers of a model; a sequential configuration may be just a list."""
    return cast("list[Json]", config if isinstance(config, list) else config["layers"])


def _as_layer_reference_list(value: Any) -> list[list[Any]]:
    """Return references [layer, call, output, …] as a list, also if there is a single bare one."""
    if value and isinstance(value[0], str):
        return [value]
    return list(value)


def _first_call_indices(config: Json) -> dict[str, int]:
    """Return the index of each layer's first call in the graph, which is 1 if the layer was called when it was made."""
    used: dict[str, int] = {}
    calls: list[Any] = [config["output_layers"]]
    for layer in _layer_descriptions(config):
        calls += layer.get("inbound_nodes") or []
    for refs in calls:
        for ref in _as_layer_reference_list(refs):
            used[str(ref[0])] = max(used.get(str(ref[0]), 0), int(ref[1]))
    return {
        str(layer["name"]): int(
            layer["class_name"] in KERAS_MODEL_CLASSES
            and used.get(str(layer["name"]), 0) >= len(layer.get("inbound_nodes") or [])
        )
        for layer in _layer_descriptions(config)
    }


def _call_name(reference: Sequence[Any], first_call_indices: Mapping[str, int]) -> str:
    """Return the node name for a reference [layer, call, output, …].

    Raises:
        Unsupported: it is one of several outputs.
    """
    if len(reference) > 2 and reference[2]:
        raise UnsupportedLayer(f"output {reference[2]} of layer {reference[0]!r}")
    layer = str(reference[0])
    return _node_name(layer, int(reference[1]) - first_call_indices.get(layer, 0))


def _node_name(layer_name: str, call_index: int) -> str:
    """Return the name of the node for a call of a layer."""
    return layer_name if call_index == 0 else f"{layer_name}:{call_index}"
