"""The layers that configurations of Keras describe."""

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
from plugrad_nn.tfjs.activations import ACTIVATIONS_BY_KERAS_NAME
from plugrad_nn.tfjs.masks import Masking

KerasConfig: TypeAlias = Mapping[str, Any]
"""The configuration of a layer in Keras: the values of its fields by name."""
LayerOrFunction: TypeAlias = Layer | Callable[..., Any] | None
"""A layer, a function, or None, which passes its input on."""


class UnsupportedLayer(Exception):
    """The reason why a layer cannot be read; `reading` adds the layer's name."""


class LayerRule(NamedTuple):
    """A rule that makes a layer or function from the configuration of a Keras layer."""

    make_layer: Callable[..., LayerOrFunction]
    """A class or a function, which is called with keyword arguments."""
    copied_fields: tuple[str, ...] = ()
    """The fields of the configuration that become arguments of the same name."""
    required_values: Mapping[str, Any] = {}
    """The only supported values of some fields, by the name of the field."""


CONV_FIELDS: Final = (
    "kernel_size",
    "strides",
    "padding",
    "dilation_rate",
    "activation",
    "use_bias",
)
"""The fields of convolutions that become arguments of the same name."""
CHANNELS_LAST_FIELDS: Final = {"data_format": "channels_last"}
"""The only supported values of fields of layers with an order of axes."""
UNGROUPED_FIELDS: Final = {**CHANNELS_LAST_FIELDS, "groups": 1}
"""The only supported values of fields of convolutions, which have no groups in TensorFlow.js."""
POOL_FIELDS: Final = ("pool_size", "strides", "padding")
"""The fields of poolings that become arguments of the same name."""
CELL_FIELDS: Final = ("units", "return_sequences", "activation", "use_bias")
"""The fields of recurrent layers that become arguments of the same name."""
CELL_DEFAULTS: Final = {
    "return_state": False,
    "go_backwards": False,
    "stateful": False,
    "time_major": False,
}
"""The only supported values of fields of recurrent layers."""
NORM_FIELDS: Final = ("epsilon", "center", "scale")
"""The fields of normalizations that become arguments of the same name."""


def _make_relu(
    max_value: float | None = None, negative_slope: float = 0.0, threshold: float = 0.0
) -> LayerOrFunction:
    if negative_slope or threshold:
        raise UnsupportedLayer(
            f"negative_slope={negative_slope} and threshold={threshold} are none of relu, which TensorFlow.js does "
            "not have either"
        )
    if max_value in (None, 6):
        return plugrad.relu if max_value is None else plugrad.relu6
    return partial(plugrad.clip, min=0.0, max=max_value)


def _make_leaky_relu(alpha: float = 0.3) -> LayerOrFunction:
    return partial(plugrad.leaky_relu, alpha=alpha)


def _make_thresholded_relu(theta: float = 1.0) -> LayerOrFunction:
    def keep_large(x: plugrad.Tensor) -> plugrad.Tensor:
        """Return x where it is above the threshold, else 0."""
        return plugrad.where(x > theta, x, 0.0)

    return keep_large


def _make_activation(activation: Any) -> LayerOrFunction:
    return activation


def _make_softmax(axis: int = -1) -> LayerOrFunction:
    return plugrad.softmax if axis == -1 else partial(plugrad.softmax, axis=axis)


def _make_upsampling(size: Any = 2, interpolation: str = "nearest") -> LayerOrFunction:
    if interpolation == "nearest":
        return shapes.UpSampling2D(size)
    if interpolation != "bilinear":
        raise UnsupportedLayer(f"interpolation={interpolation!r} is none of nearest, bilinear")
    factors = (size, size) if isinstance(size, int) else size

    def enlarge(x: plugrad.Tensor) -> plugrad.Tensor:
        """Return larger images with pixels placed as TensorFlow.js does, which differs from Keras."""
        height, width = (n * k for n, k in zip(x.shape[1:3], factors, strict=True))
        return plugrad.image.resize_bilinear(x, (height, width))

    return enlarge


def _make_resizing(
    height: int, width: int, interpolation: str = "bilinear", crop_to_aspect_ratio: bool = False
) -> LayerOrFunction:
    if not crop_to_aspect_ratio:  # in TensorFlow.js, the corners then stay where they are
        return preprocessing.Resizing(height, width, interpolation, align_corners=True)
    bilinear, nearest = plugrad.image.resize_bilinear, plugrad.image.resize_nearest_neighbor
    return partial(bilinear if interpolation == "bilinear" else nearest, size=(height, width))


def _make_center_crop(height: int, width: int) -> LayerOrFunction:
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


def _make_category_encoding(num_tokens: int, output_mode: str = "multi_hot") -> LayerOrFunction:
    modes = ("multi_hot", "one_hot", "count")
    if output_mode not in modes:
        raise UnsupportedLayer(f"output_mode={output_mode!r} is none of {', '.join(modes)}")
    encode = preprocessing.CategoryEncoding(num_tokens, output_mode)

    def encode_any(x: plugrad.Tensor) -> plugrad.Tensor:
        """Return the encoding of numbers of any dtype."""
        return encode({}, plugrad.astype(x, "int32"))

    return encode_any


def _make_dot(axes: Any = -1, normalize: bool = False) -> LayerOrFunction:
    return merging.Dot(tuple(axes) if isinstance(axes, list) else axes, normalize)


def _make_masking(mask_value: float = 0.0) -> LayerOrFunction:
    return Masking(float(mask_value))


def _make_embedding(input_dim: int, output_dim: int) -> LayerOrFunction:
    return dense.Embedding(input_dim, output_dim)


RULES_BY_KERAS_CLASS: Final[dict[str, LayerRule]] = {
    "Activation": LayerRule(_make_activation, ("activation",)),
    "Add": LayerRule(merging.Add),
    "AlphaDropout": LayerRule(dropout.AlphaDropout, ("rate",), {"noise_shape": None}),
    "Average": LayerRule(merging.Average),
    "AveragePooling1D": LayerRule(pooling.AveragePooling1D, POOL_FIELDS, UNGROUPED_FIELDS),
    "AveragePooling2D": LayerRule(pooling.AveragePooling2D, POOL_FIELDS, UNGROUPED_FIELDS),
    "AveragePooling3D": LayerRule(pooling.AveragePooling3D, POOL_FIELDS, UNGROUPED_FIELDS),
    "BatchNormalization": LayerRule(normalization.BatchNorm, (*NORM_FIELDS, "momentum")),
    "CategoryEncoding": LayerRule(_make_category_encoding, ("num_tokens", "output_mode")),
    "CenterCrop": LayerRule(_make_center_crop, ("height", "width")),
    "Concatenate": LayerRule(merging.Concatenate, ("axis",)),
    "Conv1D": LayerRule(convolution.Conv1D, ("filters", *CONV_FIELDS, "groups"), CHANNELS_LAST_FIELDS),
    "Conv2D": LayerRule(convolution.Conv2D, ("filters", *CONV_FIELDS, "groups"), CHANNELS_LAST_FIELDS),
    "Conv2DTranspose": LayerRule(
        transposed.Conv2DTranspose, ("filters", *CONV_FIELDS, "output_padding"), UNGROUPED_FIELDS
    ),
    "Conv3D": LayerRule(convolution.Conv3D, ("filters", *CONV_FIELDS, "groups"), CHANNELS_LAST_FIELDS),
    "Conv3DTranspose": LayerRule(
        transposed.Conv3DTranspose, ("filters", *CONV_FIELDS, "output_padding"), UNGROUPED_FIELDS
    ),
    "ConvLSTM2D": LayerRule(
        recurrent.ConvLSTM2D,
        ("filters", "kernel_size", "strides", "padding", "return_sequences", "activation", "recurrent_activation"),
        {**UNGROUPED_FIELDS, **CELL_DEFAULTS, "use_bias": True, "dilation_rate": [1, 1]},
    ),
    "Cropping1D": LayerRule(shapes.Cropping1D, ("cropping",)),
    "Cropping2D": LayerRule(shapes.Cropping2D, ("cropping",), UNGROUPED_FIELDS),
    "Cropping3D": LayerRule(shapes.Cropping3D, ("cropping",), UNGROUPED_FIELDS),
    "Dense": LayerRule(dense.Dense, ("units", "activation", "use_bias")),
    "DepthwiseConv2D": LayerRule(convolution.DepthwiseConv2D, (*CONV_FIELDS, "depth_multiplier"), UNGROUPED_FIELDS),
    "Dot": LayerRule(_make_dot, ("axes", "normalize")),
    "Dropout": LayerRule(dropout.Dropout, ("rate",), {"noise_shape": None}),
    "ELU": LayerRule(lambda: plugrad.elu, (), {"alpha": 1.0}),
    "Embedding": LayerRule(_make_embedding, ("input_dim", "output_dim")),
    "Flatten": LayerRule(dense.Flatten, (), UNGROUPED_FIELDS),
    "GRU": LayerRule(recurrent.GRU, (*CELL_FIELDS, "recurrent_activation", "reset_after"), CELL_DEFAULTS),
    "GaussianDropout": LayerRule(dropout.GaussianDropout, ("rate",)),
    "GaussianNoise": LayerRule(dropout.GaussianNoise, ("stddev",)),
    "GlobalAveragePooling1D": LayerRule(pooling.GlobalAveragePooling, (), {**UNGROUPED_FIELDS, "keepdims": False}),
    "GlobalAveragePooling2D": LayerRule(pooling.GlobalAveragePooling, (), {**UNGROUPED_FIELDS, "keepdims": False}),
    "GlobalAveragePooling3D": LayerRule(pooling.GlobalAveragePooling, (), {**UNGROUPED_FIELDS, "keepdims": False}),
    "GlobalMaxPooling1D": LayerRule(pooling.GlobalMaxPooling, (), {**UNGROUPED_FIELDS, "keepdims": False}),
    "GlobalMaxPooling2D": LayerRule(pooling.GlobalMaxPooling, (), {**UNGROUPED_FIELDS, "keepdims": False}),
    "GlobalMaxPooling3D": LayerRule(pooling.GlobalMaxPooling, (), {**UNGROUPED_FIELDS, "keepdims": False}),
    "LSTM": LayerRule(recurrent.LSTM, (*CELL_FIELDS, "recurrent_activation"), CELL_DEFAULTS),
    "LayerNormalization": LayerRule(normalization.LayerNorm, NORM_FIELDS),
    "LeakyReLU": LayerRule(_make_leaky_relu, ("alpha",)),
    "Masking": LayerRule(_make_masking, ("mask_value",)),
    "MaxPooling1D": LayerRule(pooling.MaxPooling1D, POOL_FIELDS, UNGROUPED_FIELDS),
    "MaxPooling2D": LayerRule(pooling.MaxPooling2D, POOL_FIELDS, UNGROUPED_FIELDS),
    "MaxPooling3D": LayerRule(pooling.MaxPooling3D, POOL_FIELDS, UNGROUPED_FIELDS),
    "Maximum": LayerRule(merging.Maximum),
    "Minimum": LayerRule(merging.Minimum),
    "Multiply": LayerRule(merging.Multiply),
    "PReLU": LayerRule(dense.PReLU),
    "Permute": LayerRule(shapes.Permute, ("dims",)),
    "ReLU": LayerRule(_make_relu, ("max_value", "negative_slope", "threshold")),
    "RepeatVector": LayerRule(shapes.RepeatVector, ("n",)),
    "Rescaling": LayerRule(shapes.Rescaling, ("scale", "offset")),
    "Reshape": LayerRule(shapes.Reshape, ("target_shape",)),
    "Resizing": LayerRule(_make_resizing, ("height", "width", "interpolation", "crop_to_aspect_ratio")),
    "SeparableConv2D": LayerRule(
        convolution.SeparableConv2D, ("filters", *CONV_FIELDS, "depth_multiplier"), UNGROUPED_FIELDS
    ),
    "SimpleRNN": LayerRule(recurrent.SimpleRNN, CELL_FIELDS, CELL_DEFAULTS),
    "Softmax": LayerRule(_make_softmax, ("axis",)),
    "SpatialDropout1D": LayerRule(dropout.SpatialDropout, ("rate",)),
    "SpatialDropout2D": LayerRule(dropout.SpatialDropout, ("rate",), UNGROUPED_FIELDS),
    "SpatialDropout3D": LayerRule(dropout.SpatialDropout, ("rate",), UNGROUPED_FIELDS),
    "Subtract": LayerRule(merging.Subtract),
    "ThresholdedReLU": LayerRule(_make_thresholded_relu, ("theta",)),
    "UpSampling1D": LayerRule(shapes.UpSampling1D, ("size",)),
    "UpSampling2D": LayerRule(_make_upsampling, ("size", "interpolation"), UNGROUPED_FIELDS),
    "UpSampling3D": LayerRule(shapes.UpSampling3D, ("size",), UNGROUPED_FIELDS),
    "ZeroPadding1D": LayerRule(shapes.ZeroPadding1D, ("padding",)),
    "ZeroPadding2D": LayerRule(shapes.ZeroPadding2D, ("padding",), UNGROUPED_FIELDS),
    "ZeroPadding3D": LayerRule(shapes.ZeroPadding3D, ("padding",), UNGROUPED_FIELDS),
}  # fmt: skip
"""The rule for each class of Keras, by its name."""
BIDIRECTIONAL_MERGE_MODES: Final = {
    "concat": "concat",
    "sum": "sum",
    "mul": "multiply",
    "ave": "average",
}
"""The values of `merge` in `Bidirectional` by those of Keras."""
TRAINING_ONLY_OPTIONS: Final = (
    "kernel_regularizer", "bias_regularizer", "activity_regularizer", "recurrent_regularizer", "beta_regularizer",
    "gamma_regularizer", "embeddings_regularizer", "depthwise_regularizer", "pointwise_regularizer",
    "alpha_regularizer", "kernel_constraint", "bias_constraint", "recurrent_constraint", "depthwise_constraint",
    "pointwise_constraint", "dropout", "recurrent_dropout",
)  # fmt: skip
"""The fields that matter in training only; a warning names those that are left out."""


def make_layer(keras_class: str, config: KerasConfig) -> LayerOrFunction:
    """Return the layer or function for a Keras class and configuration.

    Raises:
        Unsupported: there is none, or not with this configuration.
    """
    if keras_class == "InputLayer":
        return None
    if keras_class == "Bidirectional":
        merge = config.get("merge_mode")
        if merge not in BIDIRECTIONAL_MERGE_MODES:
            raise UnsupportedLayer(
                f"merge_mode={merge!r} is none of {', '.join(BIDIRECTIONAL_MERGE_MODES)}"
            )
        return recurrent.Bidirectional(_read_inner_layer(config), BIDIRECTIONAL_MERGE_MODES[merge])
    if keras_class == "TimeDistributed":
        return recurrent.TimeDistributed(_read_inner_layer(config))
    if keras_class == "RNN":
        return _make_recurrent_from_cells(config)
    if keras_class not in RULES_BY_KERAS_CLASS:
        raise UnsupportedLayer(f"plugrad_nn has no layer of the class {keras_class!r}")
    rule = RULES_BY_KERAS_CLASS[keras_class]
    for field, value in rule.required_values.items():
        given = config.get(field, value)
        if given != value and given is not None:
            raise UnsupportedLayer(f"{field}={given!r}; only {value!r} is supported")
    options = {
        name: _convert_config_value(name, config[name])
        for name in rule.copied_fields
        if name in config
    }
    return rule.make_layer(**options)


def _make_recurrent_from_cells(config: KerasConfig) -> LayerOrFunction:
    """Return the recurrent layer for a cell, or a sequence of them for stacked cells."""
    cell: KerasConfig = config["cell"]
    if cell["class_name"] != "StackedRNNCells":
        return _make_recurrent_from_cell(cell, config)
    cells: list[KerasConfig] = cell["config"]["cells"]
    inner = [
        _make_recurrent_from_cell(each, {**config, "return_sequences": True}) for each in cells[:-1]
    ]
    return sequential.Sequential(*inner, _make_recurrent_from_cell(cells[-1], config))


def _make_recurrent_from_cell(cell: KerasConfig, config: KerasConfig) -> Any:
    """Return the recurrent layer for a cell."""
    kind = str(cell["class_name"])
    if not kind.endswith("Cell") or kind.removesuffix("Cell") not in RULES_BY_KERAS_CLASS:
        raise UnsupportedLayer(f"the cell {kind!r} is none of a layer here")
    return make_layer(kind.removesuffix("Cell"), {**config, **cell["config"]})


def _read_inner_layer(config: KerasConfig) -> Any:
    """Return the layer that a wrapper contains."""
    inner: KerasConfig = config["layer"]
    step = make_layer(str(inner["class_name"]), inner["config"])
    if not isinstance(step, Layer):
        raise UnsupportedLayer(f"it contains {inner['class_name']!r}, which is no layer here")
    return step


def _convert_config_value(name: str, value: Any) -> Any:
    """Convert a configuration value to a layer argument."""
    if name.endswith("activation"):
        if value in (None, "linear"):
            return None
        if value not in ACTIVATIONS_BY_KERAS_NAME:
            raise UnsupportedLayer(
                f"{name}={value!r} is none of {', '.join(ACTIVATIONS_BY_KERAS_NAME)}"
            )
        return ACTIVATIONS_BY_KERAS_NAME[value]
    return (
        tuple(map(_lists_to_tuples, cast("list[Any]", value))) if isinstance(value, list) else value
    )


def _lists_to_tuples(value: Any) -> Any:
    """Return a list as a tuple, and any other value unchanged."""
    return tuple(cast("list[Any]", value)) if isinstance(value, list) else value
