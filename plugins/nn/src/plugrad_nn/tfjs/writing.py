"""Writing of layers models: the files of a model, from layers and parameters."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

import plugrad
from plugrad.extend import ArgumentError
from plugrad_nn import (
    convolution,
    dense,
    dropout,
    merging,
    normalization,
    pooling,
    recurrent,
    sequential,
    shapes,
    transposed,
)
from plugrad_nn.arguments import check_sizes
from plugrad_nn.graph import Graph
from plugrad_nn.layer import Layer
from plugrad_nn.tfjs.activations import activation_name
from plugrad_nn.tfjs.layers import BIDIRECTIONAL_MERGE_MODES
from plugrad_nn.tfjs.masks import Masking, NonzeroMask, ValueMask
from plugrad_nn.tfjs.weights import iter_keras_weights

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from os import PathLike

    from plugrad_nn.parameters import Params

KERAS_CLASSES: Final[dict[type, str]] = {
    convolution.Conv1D: "Conv1D", convolution.Conv2D: "Conv2D", convolution.Conv3D: "Conv3D",
    convolution.DepthwiseConv2D: "DepthwiseConv2D", convolution.SeparableConv2D: "SeparableConv2D",
    dense.Dense: "Dense", dense.Embedding: "Embedding", dense.Flatten: "Flatten", dense.PReLU: "PReLU",
    dropout.AlphaDropout: "AlphaDropout", dropout.Dropout: "Dropout", dropout.GaussianDropout: "GaussianDropout",
    dropout.GaussianNoise: "GaussianNoise", dropout.SpatialDropout: "SpatialDropout1D",
    merging.Add: "Add", merging.Average: "Average", merging.Concatenate: "Concatenate",
    merging.Dot: "Dot", merging.Maximum: "Maximum", merging.Minimum: "Minimum", merging.Multiply: "Multiply",
    normalization.BatchNorm: "BatchNormalization", normalization.LayerNorm: "LayerNormalization",
    pooling.AveragePooling1D: "AveragePooling1D", pooling.AveragePooling2D: "AveragePooling2D",
    pooling.AveragePooling3D: "AveragePooling3D", pooling.GlobalAveragePooling: "GlobalAveragePooling",
    pooling.GlobalMaxPooling: "GlobalMaxPooling", pooling.MaxPooling1D: "MaxPooling1D",
    pooling.MaxPooling2D: "MaxPooling2D", pooling.MaxPooling3D: "MaxPooling3D", recurrent.ConvLSTM2D: "ConvLSTM2D",
    recurrent.GRU: "GRU", recurrent.LSTM: "LSTM", recurrent.SimpleRNN: "SimpleRNN", shapes.Cropping2D: "Cropping2D",
    shapes.Permute: "Permute", shapes.RepeatVector: "RepeatVector",
    shapes.Rescaling: "Rescaling", shapes.Reshape: "Reshape", shapes.UpSampling2D: "UpSampling2D",
    shapes.ZeroPadding2D: "ZeroPadding2D", transposed.Conv2DTranspose: "Conv2DTranspose",
    transposed.Conv3DTranspose: "Conv3DTranspose",
}  # fmt: skip
"""The classes of Keras that TensorFlow.js has, too."""
SPATIAL_RANKS: Final = {
    "Conv1D": 1, "MaxPooling1D": 1, "AveragePooling1D": 1, "Conv3D": 3, "MaxPooling3D": 3, "AveragePooling3D": 3,
    "Conv3DTranspose": 3,
}  # fmt: skip
"""The number of spatial axes of classes of Keras, where it is not 2."""
COPIED_FIELDS: Final = (
    "units", "filters", "stddev", "use_bias", "padding", "depth_multiplier", "input_dim", "output_dim", "rate",
    "axis", "axes", "normalize", "epsilon", "center", "scale", "momentum", "return_sequences", "reset_after", "n",
    "offset", "target_shape", "dims", "interpolation",
)  # fmt: skip
"""The fields of layers that have the same name and value in Keras."""
DATA_FORMAT_CLASSES: Final = (
    "Conv", "Depthwise", "Separable", "MaxPooling2D", "MaxPooling3D", "AveragePooling2D", "AveragePooling3D",
    "ZeroPadding", "Cropping", "UpSampling",
)  # fmt: skip
"""The beginnings of the names of classes that have the field "data_format"."""
CONVOLUTION_CLASSES: Final = ("Conv1D", "Conv2D", "Conv3D", "Depthwise", "Separable")
"""The beginnings of the names of classes that have strides and dilations."""
SPATIAL_SIZE_FIELDS: Final = ("kernel_size", "strides", "dilation_rate", "pool_size", "size")
"""The fields that have a number for each spatial axis."""


def save_layers_model(
    model: Layer,
    params: Params,
    shape: Any,
    folder: str | PathLike[str],
    *,
    quantization: str | None = None,
) -> None:
    """Write a model as a TensorFlow.js layers model, which ``tf.loadLayersModel`` loads and can train.

    Layers that contain others, such as `plugrad_nn.Sequential`, `plugrad_nn.Residual` and `plugrad_nn.Graph`, become
    one graph; the names of their layers are joined by underscores. A layer that is shared stays one.

    Args:
        model: a layer.
        params: its parameters, as `init` returns them.
        shape: the shape of one input, without the axis of the batch; for a `plugrad_nn.Graph` with several inputs, a
            dict of shapes.
        folder: where ``model.json`` and its weights go. It is made if there is none.
        quantization: as for `plugrad.tfjs.encode_weights`.

    Raises:
        ArgumentError, ArgumentValueError, ShapeError: an argument is none of the above.
        plugrad.errors.UnsupportedModel: TensorFlow.js does not have a layer or a function; the message names it.
        OSError: a file cannot be written; see `plugrad.save`.

    Examples:
        >>> import tempfile
        >>> from plugrad_nn import tfjs
        >>> model, folder = nn.Sequential(nn.LSTM(4), nn.Dense(2)), tempfile.mkdtemp()
        >>> tfjs.save_layers_model(model, model.init(0, (10, 3)), (10, 3), folder)
    """
    if not isinstance(model, Layer):  # pyright: ignore[reportUnnecessaryIsInstance] - people pass anything
        raise ArgumentError(f"save_layers_model: model={model!r:.80} must be a layer")
    writer = _ModelWriter()
    outputs = writer.write_model(model, params, shape)
    document = {
        "format": "layers-model",
        "generatedBy": "plugrad",
        "convertedBy": None,
        "modelTopology": {
            "class_name": "Functional",
            "config": {
                "name": "model",
                "layers": writer.layers,
                "input_layers": [[name, 0, 0] for name in writer.inputs],
                "output_layers": [list(reference) for reference in outputs],
            },
            "keras_version": "tfjs-layers 4.22.0",
            "backend": "plugrad",
        },
    }
    path = os.fspath(folder)
    os.makedirs(path, exist_ok=True)
    file = os.path.join(path, "model.json")
    plugrad.tfjs.write_model(file, document, writer.weights, quantization=quantization)


OutputReference = tuple[str, int, int]
"""The name of a layer, the index of its call, and the index of the output."""
MASK_REFERENCE: Final[OutputReference] = ("", 0, 0)
"""The reference to a mask, which is not the result of a layer in Keras."""


class _ModelWriter:
    """Collects the layers of a model."""

    def __init__(self) -> None:
        self.layers: list[dict[str, Any]] = []
        self.inputs: list[str] = []
        self.weights: dict[str, Any] = {}
        self.made: dict[tuple[str, ...], dict[str, Any]] = {}
        """Layers by their path in the model, so that one that is called again stays one."""
        self.taken: set[str] = set()

    def write_model(self, model: Layer, params: Params, shape: Any) -> list[OutputReference]:
        """Write a whole model and return its outputs."""
        shapes = model.check_shape(shape)
        names = model.inputs if isinstance(model, Graph) else ("input",)
        parts: dict[str, Any] = {names[0]: shapes}
        if isinstance(shapes, dict):
            parts = cast("dict[str, Any]", shapes)
        kind = "int32" if _begins_with_embedding(model) else "float32"
        values: dict[str, tuple[OutputReference, Any]] = {}
        for name in names:
            own = self.new_name((name,))
            self.inputs.append(own)
            sizes = list(parts[name])
            config = {
                "batch_input_shape": [None, *sizes],
                "dtype": kind,
                "sparse": False,
                "name": own,
            }
            self.layers.append(
                {"class_name": "InputLayer", "name": own, "config": config, "inbound_nodes": []}
            )
            values[name] = ((own, 0, 0), tuple(sizes))
        found = self.write_step(model, params, list(values.values()), ())
        return [reference for reference, _ in found]

    def new_name(self, layer_path: Sequence[str]) -> str:
        """Return a new unique layer name."""
        base = "_".join(layer_path)
        found, number = base, 0
        while found in self.taken:
            number += 1
            found = f"{base}_{number}"
        self.taken.add(found)
        return found

    def write_step(
        self,
        layer_or_function: Any,
        params: Params,
        inputs_and_shapes: list[tuple[OutputReference, Any]],
        layer_path: tuple[str, ...],
    ) -> list[tuple[OutputReference, Any]]:
        """Write a layer or a function; return its outputs and their shapes."""
        if isinstance(layer_or_function, Graph):
            return self.write_graph(layer_or_function, params, inputs_and_shapes, layer_path)
        if isinstance(layer_or_function, sequential.Sequential):
            found = inputs_and_shapes
            for name, inner in zip(layer_or_function.names, layer_or_function.layers, strict=True):
                found = self.write_step(inner, params.get(name, {}), found, (*layer_path, name))
            if isinstance(layer_or_function, sequential.Residual):
                found = self.add_layer(
                    "Add", {}, [*inputs_and_shapes, *found], found[0][1], (*layer_path, "add")
                )
            return found
        shapes = [shape for _, shape in inputs_and_shapes]
        if isinstance(layer_or_function, NonzeroMask | ValueMask):
            self.mark_mask(layer_or_function, inputs_and_shapes[0][0])
            return [(MASK_REFERENCE, shapes[0])]
        if isinstance(layer_or_function, recurrent.Masked):
            if inputs_and_shapes[1][0] != MASK_REFERENCE:
                raise _no_layer_error(
                    "a mask that is computed", "let an Embedding or a Masking make it"
                )
            layer_or_function, inputs_and_shapes, shapes = (
                layer_or_function.layer,
                inputs_and_shapes[:1],
                shapes[:1],
            )
        if isinstance(layer_or_function, Layer):
            kind, config = layer_config(layer_or_function, shapes[0])
            result = _output_shape(layer_or_function, params, shapes)
        else:
            kind, config = function_config(layer_or_function)
            result = shapes[0]
        outputs = self.add_layer(kind, config, inputs_and_shapes, result, layer_path)
        name = outputs[0][0][0]
        if isinstance(layer_or_function, dense.PReLU):
            ones = (1,) * (len(shapes[0]) - 1)
            self.weights[f"{name}/alpha"] = np.reshape(params["alpha"].numpy(), (*ones, -1))
        else:
            self.weights |= dict(iter_keras_weights(layer_or_function, params, name))
        return outputs

    def mark_mask(
        self, mask_layer: NonzeroMask | ValueMask, source_reference: OutputReference
    ) -> None:
        """Set the source layer to emit the mask that a function computes."""
        if isinstance(mask_layer, ValueMask):  # a layer Masking does
            return
        for layer in self.layers:
            if (
                layer["class_name"] == "Embedding"
                and [[*source_reference, {}]] in layer["inbound_nodes"]
            ):
                layer["config"]["mask_zero"] = True
                return
        raise _no_layer_error(
            "a mask of words without vectors", "put the Embedding before its mask"
        )

    def write_graph(
        self,
        graph: Graph,
        params: Params,
        inputs_and_shapes: list[tuple[OutputReference, Any]],
        layer_path: tuple[str, ...],
    ) -> list[tuple[OutputReference, Any]]:
        """Write the nodes of a graph."""
        values = dict(zip(graph.inputs, inputs_and_shapes, strict=True))
        owners: dict[str, str] = {}
        steps: dict[str, Any] = {}
        for name, (step, *taken) in graph.nodes:
            owner = owners[name] = owners[step] if isinstance(step, str) else name
            steps[owner] = steps[owner] if isinstance(step, str) else step
            inputs = [values[other] for other in taken]
            found = self.write_step(
                steps[owner], params.get(owner, {}), inputs, (*layer_path, owner)
            )
            values[name] = found[0]
        outputs = (graph.outputs,) if isinstance(graph.outputs, str) else graph.outputs
        return [values[name] for name in outputs]

    def add_layer(
        self,
        keras_class: str,
        config: Mapping[str, Any],
        inputs_and_shapes: list[tuple[OutputReference, Any]],
        output_shape: Any,
        layer_path: tuple[str, ...],
    ) -> list[tuple[OutputReference, Any]]:
        """Write a call of a layer, and the layer at its first call; return its output and the shape."""
        if layer_path not in self.made:
            name = self.new_name(layer_path or (sequential.snake_case(keras_class),))
            own = {"name": name, "trainable": True, **_name_inner_layer(config, name)}
            layer: dict[str, Any] = {
                "class_name": keras_class,
                "name": name,
                "config": own,
                "inbound_nodes": [],
            }
            self.made[layer_path] = layer
            self.layers.append(layer)
        layer = self.made[layer_path]
        layer["inbound_nodes"].append([[*reference, {}] for reference, _ in inputs_and_shapes])
        return [((layer["name"], len(layer["inbound_nodes"]) - 1, 0), output_shape)]


def layer_config(layer: Layer, shape: Any) -> tuple[str, dict[str, Any]]:
    """Return the Keras class and configuration of a layer.

    Raises:
        UnsupportedModel: TensorFlow.js does not have it.
    """
    if isinstance(layer, recurrent.Bidirectional):
        back = {ours: theirs for theirs, ours in BIDIRECTIONAL_MERGE_MODES.items()}
        return "Bidirectional", {
            "layer": _describe_inner_layer(layer.layer, shape),
            "merge_mode": back[layer.merge],
        }
    if isinstance(layer, recurrent.TimeDistributed):
        return "TimeDistributed", {"layer": _describe_inner_layer(layer.layer, shape[1:])}
    kind = KERAS_CLASSES.get(type(layer))
    if kind is None:
        raise _no_layer_error(repr(layer)[:80], "save it with plugrad.tfjs.save_graph_model")
    if kind == "SpatialDropout1D" and len(shape) != 2:
        raise _no_layer_error(f"{layer!r} of images", "it drops channels of sequences only")
    if kind.startswith("Global"):
        kind = f"{kind}{len(shape) - 1}D"
        if kind.endswith("3D"):
            raise _no_layer_error(kind, "it pools sequences and images only")
    config: dict[str, Any] = {
        f: _as_json(getattr(layer, f)) for f in COPIED_FIELDS if hasattr(layer, f)
    }
    rank = SPATIAL_RANKS.get(kind, 2)
    for field in SPATIAL_SIZE_FIELDS:
        if hasattr(layer, field):
            value = getattr(layer, field)
            value = getattr(layer, "pool_size", value) if value is None else value
            config[field] = list(check_sizes(kind, field, value, rank))
    for field in ("activation", "recurrent_activation"):
        if hasattr(layer, field):
            config[field] = _activation_name(getattr(layer, field))
    for field in ("padding", "cropping"):
        if isinstance(layer, shapes.ZeroPadding2D | shapes.Cropping2D) and hasattr(layer, field):
            config[field] = [
                list(pair) for pair in layer.margin_pairs(field, getattr(layer, field))
            ]
    _check_supported(kind, layer, config)
    return kind, config | _required_keras_fields(kind, shape)


def _check_supported(keras_class: str, layer: Any, config: Mapping[str, Any]) -> None:
    """Raise if TensorFlow.js has the class but does not support this configuration."""
    if keras_class == "GRU" and layer.reset_after:
        raise _no_layer_error("GRU(reset_after=True)", "train it with reset_after=False")
    if keras_class == "UpSampling2D" and layer.interpolation != "nearest":
        raise _no_layer_error("UpSampling2D with interpolation", "it places pixels differently")
    if getattr(layer, "return_positions", False):
        raise _no_layer_error(f"{keras_class} with return_positions", "it has none")
    if keras_class == "Conv1D" and layer.padding == "causal":
        raise _no_layer_error("Conv1D with causal padding", "pad before it, with padding='valid'")
    if keras_class.endswith("Transpose") and max(config["dilation_rate"]) > 1:
        raise _no_layer_error(f"{keras_class} with dilation_rate", "it has none")
    if getattr(layer, "groups", 1) != 1 and keras_class.startswith("Conv"):
        raise _no_layer_error(
            f"{keras_class} with groups", "save it with plugrad.tfjs.save_graph_model"
        )
    if getattr(layer, "output_padding", None) is not None:
        raise _no_layer_error(f"{keras_class} with output_padding", "it has none")
    if keras_class.startswith(CONVOLUTION_CLASSES) and max(config["dilation_rate"]) > 1 < max(
        config["strides"]
    ):
        raise _no_layer_error(
            f"{keras_class} with strides and dilation_rate", "it has only one of them"
        )


def _required_keras_fields(keras_class: str, shape: Any) -> dict[str, Any]:
    """Return configuration fields that only Keras requires."""
    extra: dict[str, Any] = {}
    if keras_class == "PReLU":
        extra = {"shared_axes": list(range(1, len(shape)))}
    elif keras_class == "LayerNormalization" or keras_class == "BatchNormalization":
        extra = {"axis": -1}
    elif keras_class == "ConvLSTM2D":
        extra = {"use_bias": True, "dilation_rate": [1, 1]}
    if keras_class.startswith(DATA_FORMAT_CLASSES):
        extra["data_format"] = "channels_last"
    return extra


def function_config(function: Any) -> tuple[str, dict[str, Any]]:
    """Return the Keras class and configuration of a function."""
    if isinstance(function, Masking):
        return "Masking", {"mask_value": function.value}
    if isinstance(function, partial) and function.func is plugrad.leaky_relu:
        return "LeakyReLU", {"alpha": float(function.keywords.get("alpha", 0.2))}
    if isinstance(function, partial) and function.func is plugrad.softmax:
        return "Softmax", {"axis": function.keywords.get("axis", -1)}
    if function is plugrad.leaky_relu:
        return "LeakyReLU", {"alpha": 0.2}
    return "Activation", {"activation": _activation_name(function)}


def _activation_name(function: Any) -> str:
    """Return Keras's name of an activation function, or raise if it has none."""
    name = activation_name(function)
    if not name or name == "exponential":
        shown = getattr(function, "__name__", repr(function))
        raise _no_layer_error(f"the function {shown}", "save it with plugrad.tfjs.save_graph_model")
    return name


def _describe_inner_layer(layer: Layer, shape: Any) -> dict[str, Any]:
    """Return the description of a layer inside a wrapper; `_name_inner_layer` adds its name."""
    kind, config = layer_config(layer, shape)
    return {"class_name": kind, "config": config}


def _name_inner_layer(config: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a configuration in which the inner layer has the name of the wrapper."""
    if "layer" not in config:
        return dict(config)
    inner = config["layer"]
    return {**config, "layer": {**inner, "config": {"name": name, **inner["config"]}}}


def _output_shape(layer: Layer, params: Params, input_shapes: list[Any]) -> Any:
    """Return the output shape for one example."""
    if len(input_shapes) == 1:
        return layer.output_shape(params, input_shapes[0])
    return layer(params, [plugrad.zeros((0, *shape)) for shape in input_shapes]).shape[1:]


def _begins_with_embedding(model: Any) -> bool:
    """Whether the first layer of a model is an embedding, which takes integers."""
    if isinstance(model, sequential.Sequential):
        return bool(model.layers) and _begins_with_embedding(model.layers[0])
    if isinstance(model, Graph):
        firsts = [step for _, (step, *taken) in model.nodes if set(taken) & set(model.inputs)]
        return any(isinstance(step, Layer) and _begins_with_embedding(step) for step in firsts)
    return isinstance(model, dense.Embedding)


def _as_json(value: Any) -> Any:
    """Convert a value to its JSON form."""
    return (
        [_as_json(part) for part in cast("Sequence[Any]", value)]
        if isinstance(value, tuple)
        else value
    )


def _no_layer_error(subject: str, remedy: str) -> plugrad.errors.UnsupportedModel:
    """Return the error for a layer or function that TensorFlow.js does not have."""
    return plugrad.errors.UnsupportedModel(
        f"save_layers_model: TensorFlow.js has no layer for {subject}; {remedy}"
    )
