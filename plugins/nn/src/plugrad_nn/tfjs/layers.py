"""From the configurations of Keras to layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias, cast

import plugrad
from plugrad_nn import (
    convolution,
    dense,
    dropout,
    merging,
    normalization,
    pooling,
    preprocessing,
    recurrent,
    sequential,
    shapes,
    transposed,
)
from plugrad_nn.layer import Layer
from plugrad_nn.tfjs.activations import ACTIVATIONS
from plugrad_nn.tfjs.masks import Masking

Config: TypeAlias = Mapping[str, Any]
Step: TypeAlias = Layer | Callable[..., Any] | None
"""A layer, a function, or None, which passes its input on."""


class Unsupported(Exception):
    """The reason why a layer cannot be read; `reading` adds the layer's name."""


class Rule(NamedTuple):
    """How a Keras layer is read: a function that makes our layer, and its arguments in the configuration."""

    make: Callable[..., Step]
    """A class, or a function of keyword arguments."""
    fields: tuple[str, ...] = ()
    """The fields of the configuration that are arguments of the same name."""
    renamed: Mapping[str, str] = {}
    """Arguments, and the fields that they are."""
    expected: Mapping[str, Any] = {}
    """Fields that must have a value, if they are there."""


WINDOW: Final = ("kernel_size", "strides", "padding", "dilation_rate", "activation", "use_bias")
IN_ORDER: Final = {"data_format": "channels_last"}
LAST: Final = {**IN_ORDER, "groups": 1}
POOL: Final = ("pool_size", "strides", "padding")
CELL: Final = ("units", "return_sequences", "activation", "use_bias")
PLAIN: Final = {
    "return_state": False,
    "go_backwards": False,
    "stateful": False,
    "time_major": False,
}
NORM: Final = ("epsilon", "center", "scale")


def _relu(
    max_value: float | None = None, negative_slope: float = 0.0, threshold: float = 0.0
) -> Step:
    if negative_slope or threshold:
        raise Unsupported(
            f"negative_slope={negative_slope} and threshold={threshold} are none of relu, which TensorFlow.js does "
            "not have either"
        )
    if max_value in (None, 6):
        return plugrad.relu if max_value is None else plugrad.relu6
    return partial(plugrad.clip, min=0.0, max=max_value)


def _leaky_relu(alpha: float = 0.3) -> Step:
    return partial(plugrad.leaky_relu, alpha=alpha)


def _thresholded_relu(theta: float = 1.0) -> Step:
    def keep_large(x: plugrad.Tensor) -> plugrad.Tensor:
        return plugrad.where(x > theta, x, 0.0)

    return keep_large


def _activation(activation: Any) -> Step:
    return activation


def _softmax(axis: int = -1) -> Step:
    return plugrad.softmax if axis == -1 else partial(plugrad.softmax, axis=axis)


def _upsampling(size: Any = 2, interpolation: str = "nearest") -> Step:
    if interpolation == "nearest":
        return shapes.UpSampling2D(size)
    if interpolation != "bilinear":
        raise Unsupported(f"interpolation={interpolation!r} is none of nearest, bilinear")
    factors = (size, size) if isinstance(size, int) else size

    def enlarge(x: plugrad.Tensor) -> plugrad.Tensor:
        """Return larger images with pixels placed as TensorFlow.js does, which differs from Keras."""
        height, width = (n * k for n, k in zip(x.shape[1:3], factors, strict=True))
        return plugrad.image.resize_bilinear(x, (height, width))

    return enlarge


def _resizing(
    height: int, width: int, interpolation: str = "bilinear", crop_to_aspect_ratio: bool = False
) -> Step:
    if not crop_to_aspect_ratio:  # in TensorFlow.js, the corners then stay where they are
        return preprocessing.Resizing(height, width, interpolation, align_corners=True)
    bilinear, nearest = plugrad.image.resize_bilinear, plugrad.image.resize_nearest_neighbor
    return partial(bilinear if interpolation == "bilinear" else nearest, size=(height, width))


def _center_crop(height: int, width: int) -> Step:
    def crop(x: plugrad.Tensor) -> plugrad.Tensor:
        """Return TensorFlow.js's centre crop: the nearest pixels of a grid between the corners of a box."""
        rows, columns = x.shape[1:3]
        top = (rows - height) // 2
        left = (columns - width) // 2 or int(columns != width)
        if min(top, left) < 0:
            return plugrad.image.resize_bilinear(x, (height, width))
        box = [top / rows, left / columns, (height + top) / rows, (width + left) / columns]
        boxes = plugrad.broadcast_to(plugrad.asarray([box], dtype=x.dtype), (x.shape[0], 4))
        places = plugrad.arange(x.shape[0], dtype="int32")
        return plugrad.image.crop_and_resize(x, boxes, places, (height, width), "nearest")

    return crop


def _category_encoding(num_tokens: int, output_mode: str = "multi_hot") -> Step:
    modes = ("multi_hot", "one_hot", "count")
    if output_mode not in modes:
        raise Unsupported(f"output_mode={output_mode!r} is none of {', '.join(modes)}")
    encode = preprocessing.CategoryEncoding(num_tokens, output_mode)

    def encode_any(x: plugrad.Tensor) -> plugrad.Tensor:
        return encode({}, plugrad.astype(x, "int32"))

    return encode_any


def _dot(axes: Any = -1, normalize: bool = False) -> Step:
    return merging.Dot(tuple(axes) if isinstance(axes, list) else axes, normalize)


def _masking(mask_value: float = 0.0) -> Step:
    return Masking(float(mask_value))


def _embedding(input_dim: int, output_dim: int) -> Step:
    return dense.Embedding(input_dim, output_dim)


RULES: Final[dict[str, Rule]] = {
    "Activation": Rule(_activation, ("activation",)),
    "Add": Rule(merging.Add),
    "AlphaDropout": Rule(dropout.AlphaDropout, ("rate",), {}, {"noise_shape": None}),
    "Average": Rule(merging.Average),
    "AveragePooling1D": Rule(pooling.AveragePooling1D, POOL, {}, LAST),
    "AveragePooling2D": Rule(pooling.AveragePooling2D, POOL, {}, LAST),
    "AveragePooling3D": Rule(pooling.AveragePooling3D, POOL, {}, LAST),
    "BatchNormalization": Rule(normalization.BatchNorm, (*NORM, "momentum")),
    "CategoryEncoding": Rule(_category_encoding, ("num_tokens", "output_mode")),
    "CenterCrop": Rule(_center_crop, ("height", "width")),
    "Concatenate": Rule(merging.Concatenate, ("axis",)),
    "Conv1D": Rule(convolution.Conv1D, ("filters", *WINDOW, "groups"), {}, IN_ORDER),
    "Conv2D": Rule(convolution.Conv2D, ("filters", *WINDOW, "groups"), {}, IN_ORDER),
    "Conv2DTranspose": Rule(transposed.Conv2DTranspose, ("filters", *WINDOW, "output_padding"), {}, LAST),
    "Conv3D": Rule(convolution.Conv3D, ("filters", *WINDOW, "groups"), {}, IN_ORDER),
    "Conv3DTranspose": Rule(transposed.Conv3DTranspose, ("filters", *WINDOW, "output_padding"), {}, LAST),
    "ConvLSTM2D": Rule(
        recurrent.ConvLSTM2D,
        ("filters", "kernel_size", "strides", "padding", "return_sequences", "activation", "recurrent_activation"),
        {},
        {**LAST, **PLAIN, "use_bias": True, "dilation_rate": [1, 1]},
    ),
    "Cropping1D": Rule(shapes.Cropping1D, ("cropping",)),
    "Cropping2D": Rule(shapes.Cropping2D, ("cropping",), {}, LAST),
    "Cropping3D": Rule(shapes.Cropping3D, ("cropping",), {}, LAST),
    "Dense": Rule(dense.Dense, ("units", "activation", "use_bias")),
    "DepthwiseConv2D": Rule(convolution.DepthwiseConv2D, (*WINDOW, "depth_multiplier"), {}, LAST),
    "Dot": Rule(_dot, ("axes", "normalize")),
    "Dropout": Rule(dropout.Dropout, ("rate",), {}, {"noise_shape": None}),
    "ELU": Rule(lambda: plugrad.elu, (), {}, {"alpha": 1.0}),
    "Embedding": Rule(_embedding, ("input_dim", "output_dim")),
    "Flatten": Rule(dense.Flatten, (), {}, LAST),
    "GRU": Rule(recurrent.GRU, (*CELL, "recurrent_activation", "reset_after"), {}, PLAIN),
    "GaussianDropout": Rule(dropout.GaussianDropout, ("rate",)),
    "GaussianNoise": Rule(dropout.GaussianNoise, ("stddev",)),
    "GlobalAveragePooling1D": Rule(pooling.GlobalAveragePooling, (), {}, {**LAST, "keepdims": False}),
    "GlobalAveragePooling2D": Rule(pooling.GlobalAveragePooling, (), {}, {**LAST, "keepdims": False}),
    "GlobalAveragePooling3D": Rule(pooling.GlobalAveragePooling, (), {}, {**LAST, "keepdims": False}),
    "GlobalMaxPooling1D": Rule(pooling.GlobalMaxPooling, (), {}, {**LAST, "keepdims": False}),
    "GlobalMaxPooling2D": Rule(pooling.GlobalMaxPooling, (), {}, {**LAST, "keepdims": False}),
    "GlobalMaxPooling3D": Rule(pooling.GlobalMaxPooling, (), {}, {**LAST, "keepdims": False}),
    "LSTM": Rule(recurrent.LSTM, (*CELL, "recurrent_activation"), {}, PLAIN),
    "LayerNormalization": Rule(normalization.LayerNorm, NORM),
    "LeakyReLU": Rule(_leaky_relu, ("alpha",)),
    "Masking": Rule(_masking, ("mask_value",)),
    "MaxPooling1D": Rule(pooling.MaxPooling1D, POOL, {}, LAST),
    "MaxPooling2D": Rule(pooling.MaxPooling2D, POOL, {}, LAST),
    "MaxPooling3D": Rule(pooling.MaxPooling3D, POOL, {}, LAST),
    "Maximum": Rule(merging.Maximum),
    "Minimum": Rule(merging.Minimum),
    "Multiply": Rule(merging.Multiply),
    "PReLU": Rule(dense.PReLU),
    "Permute": Rule(shapes.Permute, ("dims",)),
    "ReLU": Rule(_relu, ("max_value", "negative_slope", "threshold")),
    "RepeatVector": Rule(shapes.RepeatVector, ("n",)),
    "Rescaling": Rule(shapes.Rescaling, ("scale", "offset")),
    "Reshape": Rule(shapes.Reshape, ("target_shape",)),
    "Resizing": Rule(_resizing, ("height", "width", "interpolation", "crop_to_aspect_ratio")),
    "SeparableConv2D": Rule(convolution.SeparableConv2D, ("filters", *WINDOW, "depth_multiplier"), {}, LAST),
    "SimpleRNN": Rule(recurrent.SimpleRNN, CELL, {}, PLAIN),
    "Softmax": Rule(_softmax, ("axis",)),
    "SpatialDropout1D": Rule(dropout.SpatialDropout, ("rate",)),
    "SpatialDropout2D": Rule(dropout.SpatialDropout, ("rate",), {}, LAST),
    "SpatialDropout3D": Rule(dropout.SpatialDropout, ("rate",), {}, LAST),
    "Subtract": Rule(merging.Subtract),
    "ThresholdedReLU": Rule(_thresholded_relu, ("theta",)),
    "UpSampling1D": Rule(shapes.UpSampling1D, ("size",)),
    "UpSampling2D": Rule(_upsampling, ("size", "interpolation"), {}, LAST),
    "UpSampling3D": Rule(shapes.UpSampling3D, ("size",), {}, LAST),
    "ZeroPadding1D": Rule(shapes.ZeroPadding1D, ("padding",)),
    "ZeroPadding2D": Rule(shapes.ZeroPadding2D, ("padding",), {}, LAST),
    "ZeroPadding3D": Rule(shapes.ZeroPadding3D, ("padding",), {}, LAST),
}  # fmt: skip
"""By the name of a class of Keras."""
MERGES: Final = {"concat": "concat", "sum": "sum", "mul": "multiply", "ave": "average"}
ONLY_IN_TRAINING: Final = (
    "kernel_regularizer", "bias_regularizer", "activity_regularizer", "recurrent_regularizer", "beta_regularizer",
    "gamma_regularizer", "embeddings_regularizer", "depthwise_regularizer", "pointwise_regularizer",
    "alpha_regularizer", "kernel_constraint", "bias_constraint", "recurrent_constraint", "depthwise_constraint",
    "pointwise_constraint", "dropout", "recurrent_dropout",
)  # fmt: skip
"""Fields of which only training would know; a warning names those that are left out."""


def make_step(kind: str, config: Config) -> Step:
    """Return the layer or function for a Keras class and configuration.

    Raises:
        Unsupported: there is none, or not with this configuration.
    """
    if kind == "InputLayer":
        return None
    if kind == "Bidirectional":
        merge = config.get("merge_mode")
        if merge not in MERGES:
            raise Unsupported(f"merge_mode={merge!r} is none of {', '.join(MERGES)}")
        return recurrent.Bidirectional(_read_inner_layer(config), MERGES[merge])
    if kind == "TimeDistributed":
        return recurrent.TimeDistributed(_read_inner_layer(config))
    if kind == "RNN":
        return _recurrent_of_cells(config)
    if kind not in RULES:
        raise Unsupported(f"plugrad_nn has no layer of the class {kind!r}")
    rule = RULES[kind]
    for field, value in rule.expected.items():
        given = config.get(field, value)
        if given != value and given is not None:
            raise Unsupported(f"{field}={given!r}; only {value!r} is supported")
    options = {
        name: _convert_config_value(name, config[name]) for name in rule.fields if name in config
    }
    return rule.make(**options)


def _recurrent_of_cells(config: Config) -> Step:
    """Return the recurrent layer for a cell, or a sequence of them for stacked cells."""
    cell: Config = config["cell"]
    if cell["class_name"] != "StackedRNNCells":
        return _layer_of_cell(cell, config)
    cells: list[Config] = cell["config"]["cells"]
    inner = [_layer_of_cell(each, {**config, "return_sequences": True}) for each in cells[:-1]]
    return sequential.Sequential(*inner, _layer_of_cell(cells[-1], config))


def _layer_of_cell(cell: Config, config: Config) -> Any:
    kind = str(cell["class_name"])
    if not kind.endswith("Cell") or kind.removesuffix("Cell") not in RULES:
        raise Unsupported(f"the cell {kind!r} is none of a layer here")
    return make_step(kind.removesuffix("Cell"), {**config, **cell["config"]})


def _read_inner_layer(config: Config) -> Any:
    """Return the layer that a wrapper contains."""
    inner: Config = config["layer"]
    step = make_step(str(inner["class_name"]), inner["config"])
    if not isinstance(step, Layer):
        raise Unsupported(f"it contains {inner['class_name']!r}, which is no layer here")
    return step


def _convert_config_value(name: str, value: Any) -> Any:
    """Convert a configuration value to a layer argument."""
    if name.endswith("activation"):
        if value in (None, "linear"):
            return None
        if value not in ACTIVATIONS:
            raise Unsupported(f"{name}={value!r} is none of {', '.join(ACTIVATIONS)}")
        return ACTIVATIONS[value]
    return tuple(map(_tuple, cast("list[Any]", value))) if isinstance(value, list) else value


def _tuple(value: Any) -> Any:
    return tuple(cast("list[Any]", value)) if isinstance(value, list) else value
