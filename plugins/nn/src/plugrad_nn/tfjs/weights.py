"""The names of layers' parameters in Keras's files and in plugrad-nn, and the shapes of the weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import plugrad
from plugrad_nn.dense import PReLU
from plugrad_nn.layer import Layer
from plugrad_nn.recurrent import Bidirectional, TimeDistributed
from plugrad_nn.sequential import Sequential

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from plugrad import Tensor
    from plugrad_nn.parameters import Params

RECURRENT_LAYERS: Final = ("ConvLSTM2D", "GRU", "LSTM", "SimpleRNN")
KERNEL_AND_BIAS_LAYERS: Final = (
    "Conv1D", "Conv2D", "Conv2DTranspose", "Conv3D", "Conv3DTranspose", "Dense", "DepthwiseConv2D",
)  # fmt: skip
KERAS_PARAMETER_NAMES: Final[dict[str, tuple[str, ...]]] = {
    "BatchNorm": ("gamma", "beta", "moving_mean", "moving_variance"),
    "Embedding": ("embeddings",),
    "LayerNorm": ("gamma", "beta"),
    "PReLU": ("alpha",),
    "SeparableConv2D": ("depthwise_kernel", "pointwise_kernel", "bias"),
    **dict.fromkeys(RECURRENT_LAYERS, ("kernel", "recurrent_kernel", "bias")),
    **dict.fromkeys(KERNEL_AND_BIAS_LAYERS, ("kernel", "bias")),
}
"""The names of the parameters of each class of layers, in the order of Keras."""
RUNNING_STATISTICS: Final = ("moving_mean", "moving_variance")
OPTION_OF_PARAMETER: Final = {"bias": "use_bias", "gamma": "scale", "beta": "center"}
"""The fields that say whether a layer has a parameter, by the name of the parameter."""


def iter_parameter_names(layer: Layer) -> Iterator[tuple[str, str]]:
    """Yield the names of a layer's parameters, each with its name in files."""
    kind = type(layer).__name__
    for name in KERAS_PARAMETER_NAMES.get(kind, ()):
        if name not in OPTION_OF_PARAMETER or getattr(layer, OPTION_OF_PARAMETER[name], True):
            is_other = kind == "DepthwiseConv2D" and name == "kernel"
            yield name, "depthwise_kernel" if is_other else name


def read_params(
    layer: Layer, weights: Mapping[str, Tensor], trainable: bool, name_prefix: str = ""
) -> Params:
    """Return the parameters of a layer from weights by name, such as "forward_lstm/kernel".

    Raises:
        KeyError: a weight is missing.
    """
    if isinstance(layer, TimeDistributed):
        return read_params(layer.layer, weights, trainable, name_prefix)
    if isinstance(layer, Bidirectional):
        return {
            side: read_params(
                layer.layer,
                {name: value for name, value in weights.items() if name.startswith(side)},
                trainable,
                f"{name_prefix}{side}.",
            )
            for side in ("forward", "backward")
        }
    if isinstance(layer, Sequential):  # of the layers of stacked cells
        return {
            own: read_params(
                inner,
                {
                    name: value
                    for name, value in weights.items()
                    if name.startswith(f"RNNCell_{place}/")
                },
                trainable,
                f"{name_prefix}{own}.",
            )
            for place, (own, inner) in enumerate(zip(layer.names, layer.layers, strict=True))
            if isinstance(inner, Layer)
        }
    last = {name.rpartition("/")[2].partition(":")[0]: value for name, value in weights.items()}
    params: Params = {}
    for name, theirs in iter_parameter_names(layer):
        value = last[theirs]
        if isinstance(layer, PReLU) and value.size == value.shape[-1]:  # shared by all spatial axes
            value = plugrad.reshape(value, (value.size,))
        moves = trainable and name not in RUNNING_STATISTICS
        params[name] = plugrad.Variable(value, trainable=moves, name=f"{name_prefix}{name}")
    return params


def iter_keras_weights(layer: Any, params: Params, layer_name: str) -> Iterator[tuple[str, Any]]:
    """Yield the weights of a layer with their names in files, in Keras's order."""
    if isinstance(layer, TimeDistributed):
        yield from iter_keras_weights(layer.layer, params, layer_name)
    elif isinstance(layer, Bidirectional):
        for side in ("forward", "backward"):
            inner = f"{layer_name}/{side}_{layer_name}"
            yield from iter_keras_weights(layer.layer, params[side], inner)
    else:
        for own, theirs in iter_parameter_names(layer):
            yield f"{layer_name}/{theirs}", params[own]
