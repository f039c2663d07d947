"""Conversion rules of each layer's parameters: their names and axes in the modules of PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

from plugrad.extend import ArgumentError
from plugrad_nn.attention import MultiHeadAttention
from plugrad_nn.convolution import Conv1D, Conv2D, Conv3D, DepthwiseConv2D, SeparableConv2D
from plugrad_nn.dense import Dense, Embedding, EmbeddingBag, PositionEmbedding, PReLU
from plugrad_nn.normalization import BatchNorm, GroupNorm, InstanceNorm, LayerNorm, RMSNorm
from plugrad_nn.parameters import named_leaves
from plugrad_nn.recurrent import GRU, LSTM, Bidirectional, SimpleRNN
from plugrad_nn.transformer import TransformerDecoderBlock, TransformerEncoderBlock
from plugrad_nn.transposed import Conv1DTranspose, Conv2DTranspose, Conv3DTranspose
from plugrad_nn.weights import NORM_EPSILON, Parametrized, SpectralNorm, WeightNorm

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from plugrad_nn.layer import Layer
    from plugrad_nn.parameters import Params

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
Arrays: TypeAlias = "tuple[Array, ...]"
"""The arrays that a conversion returns."""


class ParameterConversion(NamedTuple):
    """PyTorch's tensors and the parameters of a layer that correspond, with functions that convert both ways."""

    torch_names: tuple[str, ...]
    parameter_names: tuple[str, ...]
    from_torch: Callable[..., Arrays]
    """A function that converts the tensors of PyTorch's module to the parameters."""
    to_torch: Callable[..., Arrays]
    """A function that converts the parameters to the tensors of PyTorch's module."""


class FeatureOrder(NamedTuple):
    """The order of features that plugrad and PyTorch flatten differently: PyTorch has channels before pixels.

    Feature i in plugrad is feature ``order[i]`` in PyTorch; None if both orders are equal.
    """

    input_order: Array | None = None
    output_order: Array | None = None


TensorShapes: TypeAlias = "Mapping[str, tuple[int, ...]]"
"""The shapes of the tensors of PyTorch's module by name."""
ConversionRule: TypeAlias = (
    "Callable[[Any, Params, TensorShapes, FeatureOrder], list[ParameterConversion]]"
)
"""A function of a layer, its parameters, the module's tensor shapes and the feature order that returns conversions."""


def conversions_of_layer(
    layer: Layer, params: Params, tensor_shapes: TensorShapes, feature_order: FeatureOrder
) -> list[ParameterConversion]:
    """Return the conversions of a layer; a layer that PyTorch lacks keeps its parameters unchanged."""
    rule = CONVERSION_RULES_BY_LAYER_CLASS.get(type(layer))
    if rule is None:
        return [
            unchanged_conversion(name.replace(".", "_"), name) for name, _ in named_leaves(params)
        ]
    return rule(layer, params, tensor_shapes, feature_order)


def unchanged_conversion(torch_name: str, plugrad_name: str) -> ParameterConversion:
    """Return the conversion of a tensor that is used unchanged as a parameter."""
    return ParameterConversion((torch_name,), (plugrad_name,), lambda x: (x,), lambda x: (x,))


def _feature_permutations(
    axis: int, feature_order: Array | None
) -> tuple[Callable[[Array], Array], ...]:
    """Return functions that put features along an axis into plugrad's order, and back into PyTorch's."""
    if feature_order is None:
        return (lambda x: x), (lambda x: x)
    from_torch = np.argsort(feature_order)
    return (lambda x: np.take(x, feature_order, axis)), (lambda x: np.take(x, from_torch, axis))


def _vector_conversions(
    torch_names: Mapping[str, str],
    feature_order: FeatureOrder,
    params: Params,
    plugrad_prefix: str = "",
) -> list[ParameterConversion]:
    """Return the conversions of the vectors with an element for each feature that a layer has."""
    read, write = _feature_permutations(0, feature_order.output_order)
    return [
        ParameterConversion(
            (torch_name,), (plugrad_name,), lambda x: (read(x),), lambda x: (write(x),)
        )
        for plugrad_name, torch_name in torch_names.items()
        if plugrad_prefix + plugrad_name in params
    ]


def _dense_conversions(
    layer: Dense, params: Params, tensor_shapes: Any, feature_order: FeatureOrder
) -> list[ParameterConversion]:
    """Return the conversions of a dense layer; PyTorch's matrix has the outputs first."""
    rows, rows_back = _feature_permutations(0, feature_order.input_order)
    columns, columns_back = _feature_permutations(1, feature_order.output_order)
    kernel = ParameterConversion(
        ("weight",),
        ("kernel",),
        lambda x: (columns(rows(np.transpose(x))),),
        lambda x: (np.transpose(rows_back(columns_back(x))),),
    )
    return [kernel, *_vector_conversions({"bias": "bias"}, feature_order, params)]


def _normalization_conversions(
    layer: Layer, params: Params, tensor_shapes: Any, feature_order: FeatureOrder
) -> list[ParameterConversion]:
    """Return the conversions of a normalization."""
    names = {
        "gamma": "weight",
        "beta": "bias",
        "moving_mean": "running_mean",
        "moving_variance": "running_var",
    }
    found = _vector_conversions(names, feature_order, params)
    if isinstance(layer, BatchNorm):
        zero = (np.int64(0),)
        found.append(ParameterConversion(("num_batches_tracked",), (), lambda x: (), lambda: zero))  # type: ignore[arg-type,return-value] # pyright: ignore[reportArgumentType] - a 0-d array to all who use it
    return found


def _prelu_conversions(
    layer: PReLU, params: Params, tensor_shapes: Any, feature_order: FeatureOrder
) -> list[ParameterConversion]:
    """Return the conversion of PReLU's slopes; PyTorch may have one for all channels."""
    if tensor_shapes.get("weight") != (1,):
        return _vector_conversions({"alpha": "weight"}, feature_order, params)
    channels = params["alpha"].shape  # PyTorch has one slope for all channels by default
    return [
        ParameterConversion(
            ("weight",), ("alpha",), lambda x: (np.broadcast_to(x, channels),), _take_first_slope
        )
    ]


def _take_first_slope(x: Array) -> Arrays:
    """Return the slope of the first channel."""
    return (x[:1],)


def _embedding_conversions(
    layer: Layer, params: Params, tensor_shapes: Any, feature_order: FeatureOrder
) -> list[ParameterConversion]:
    """Return the conversion of a table of embeddings."""
    return [unchanged_conversion("weight", "embeddings")]


def _convolution_conversions(
    layer: Layer, params: Params, tensor_shapes: Any, feature_order: FeatureOrder
) -> list[ParameterConversion]:
    """Return the conversions of a convolution; PyTorch's filters have the outputs first."""
    kernel = ParameterConversion(
        ("weight",),
        ("kernel",),
        lambda x: (np.transpose(x, (*range(2, np.ndim(x)), 1, 0)),),
        lambda x: (np.transpose(x, (-1, -2, *range(np.ndim(x) - 2))),),
    )
    return [kernel, *([unchanged_conversion("bias", "bias")] if "bias" in params else [])]


def _depthwise_kernel_conversion(
    torch_name: str, plugrad_name: str, kernel_shape: tuple[int, ...]
) -> ParameterConversion:
    """Return the conversion of a kernel whose axes are (outputs, 1, height, width) in PyTorch."""
    height, width, channels, multiplier = kernel_shape
    inner = (channels, multiplier, height, width)
    outer = (channels * multiplier, 1, height, width)
    return ParameterConversion(
        (torch_name,),
        (plugrad_name,),
        lambda x: (np.transpose(np.reshape(x, inner), (2, 3, 0, 1)),),
        lambda x: (np.reshape(np.transpose(x, (2, 3, 0, 1)), outer),),
    )


def _depthwise_conversions(
    layer: DepthwiseConv2D, params: Params, tensor_shapes: Any, feature_order: FeatureOrder
) -> list[ParameterConversion]:
    """Return the conversions of a depthwise convolution."""
    kernel = _depthwise_kernel_conversion("weight", "kernel", params["kernel"].shape)
    return [kernel, *([unchanged_conversion("bias", "bias")] if "bias" in params else [])]


def _separable_conversions(
    layer: SeparableConv2D, params: Params, tensor_shapes: Any, feature_order: FeatureOrder
) -> list[ParameterConversion]:
    """Return the conversions of a separable convolution, which is two modules in PyTorch."""
    size = params["depthwise_kernel"].shape
    found = [
        _depthwise_kernel_conversion("depthwise.weight", "depthwise_kernel", size),
        *_prefix_conversion_names(
            _convolution_conversions(layer, {}, tensor_shapes, feature_order),
            "pointwise.",
            "pointwise_",
        ),
    ]
    return [*found, *([unchanged_conversion("pointwise.bias", "bias")] if "bias" in params else [])]


def _prefix_conversion_names(
    conversions: list[ParameterConversion], torch_prefix: str, plugrad_prefix: str
) -> list[ParameterConversion]:
    """Return conversions with prefixes before their names."""
    return [
        conversion._replace(
            torch_names=tuple(torch_prefix + name for name in conversion.torch_names),
            parameter_names=tuple(plugrad_prefix + name for name in conversion.parameter_names),
        )
        for conversion in conversions
    ]


def _recurrent_conversions(
    layer: Layer, params: Params, tensor_shapes: Any, feature_order: FeatureOrder
) -> list[ParameterConversion]:
    """Return the conversions of a recurrent layer.

    PyTorch has two biases where the sum of both counts, and the gates of a GRU in the order reset, update, new.

    Raises:
        ArgumentError: the layer does not compute what the tensors are for.
    """
    if "weight_hr_l0" in tensor_shapes:
        raise ArgumentError(
            f"state_dict: 'weight_hr_l0' projects the state of a PyTorch LSTM with proj_size, and {layer!r:.80} has no "
            "such projection; write a layer of your own, or train the LSTM without proj_size"
        )
    gates = getattr(layer, "gate_count", 1)
    order = [1, 0, 2] if isinstance(layer, GRU) else list(range(gates))

    def reorder_gates(x: Array) -> Array:
        """Exchange the orders of gates in rows of plugrad and PyTorch; applied twice, it changes nothing."""
        parts = np.reshape(x, (gates, -1, *x.shape[1:]))
        return np.reshape(parts[order], x.shape)

    def to_torch(x: Array) -> Arrays:
        return (reorder_gates(x).T,)

    def from_torch(x: Array) -> Arrays:
        return (reorder_gates(x.T),)

    found = [
        ParameterConversion(("weight_ih_l0",), ("kernel",), to_torch, from_torch),
        ParameterConversion(("weight_hh_l0",), ("recurrent_kernel",), to_torch, from_torch),
    ]
    if "bias" not in params:
        return found
    biases = ("bias_ih_l0", "bias_hh_l0")
    if isinstance(layer, GRU):
        if not layer.reset_after:
            raise ArgumentError(
                f"state_dict: {layer!r:.80} resets before the product, and PyTorch's GRU after it; write "
                f"GRU({layer.units})"
            )
        return [
            *found,
            ParameterConversion(
                biases,
                ("bias",),
                lambda x, h: (np.stack([reorder_gates(x), reorder_gates(h)]),),
                lambda x: (reorder_gates(x[0]), reorder_gates(x[1])),
            ),
        ]
    return [
        *found,
        ParameterConversion(
            biases, ("bias",), lambda x, h: (x + h,), lambda x: (x, np.zeros_like(x))
        ),
    ]


def _bidirectional_conversions(
    layer: Bidirectional, params: Params, tensor_shapes: Any, feature_order: FeatureOrder
) -> list[ParameterConversion]:
    """Return the conversions of the recurrent layers of both directions."""
    found: list[ParameterConversion] = []
    for direction, end in (("forward", ""), ("backward", "_reverse")):
        for conversion in _recurrent_conversions(
            layer.layer, params[direction], tensor_shapes, feature_order
        ):
            torch_names = tuple(name + end for name in conversion.torch_names)
            parameter_names = tuple(f"{direction}.{name}" for name in conversion.parameter_names)
            found.append(
                conversion._replace(torch_names=torch_names, parameter_names=parameter_names)
            )
    return found


def _transpose_all(arrays: Iterable[Array]) -> Arrays:
    """Return arrays with reversed axes."""
    return tuple(np.transpose(array) for array in arrays)


def _attention_conversions(
    layer: MultiHeadAttention, params: Params, tensor_shapes: Any, feature_order: FeatureOrder
) -> list[ParameterConversion]:
    """Return the conversions of attention; PyTorch may store the query, key and value matrices in one or in three."""
    projections = ("query", "key", "value")
    parts = [name for name in ("kernel", "bias") if name in params["query"]]
    torch_suffixes = {"kernel": "weight", "bias": "bias"}
    output = [
        conversion._replace(
            parameter_names=(f"output.{conversion.parameter_names[0]}",),
            torch_names=(f"out_proj.{conversion.torch_names[0]}",),
        )
        for conversion in _dense_conversions(
            Dense(1), params["output"], tensor_shapes, FeatureOrder()
        )
    ]
    if "q_proj.weight" in tensor_shapes:
        return [
            *(
                conversion._replace(
                    parameter_names=(f"{name}.{conversion.parameter_names[0]}",),
                    torch_names=(f"{name[0]}_proj.{conversion.torch_names[0]}",),
                )
                for name in projections
                for conversion in _dense_conversions(
                    Dense(1), params[name], tensor_shapes, FeatureOrder()
                )
            ),
            *output,
        ]
    columns = [params[name]["kernel"].shape[1] for name in projections]
    cuts = [columns[0], columns[0] + columns[1]]
    packed = [
        ParameterConversion(
            (f"in_proj_{torch_suffixes[part]}",),
            tuple(f"{name}.{part}" for name in projections),
            lambda x: _transpose_all(np.split(x, cuts)),
            lambda *pieces: (np.concatenate(_transpose_all(pieces)),),
        )
        for part in parts
    ]
    return [*packed, *output]


def _split_off_kernel_conversion(
    layer: Any, params: Params, feature_order: FeatureOrder
) -> tuple[ParameterConversion, list[ParameterConversion]]:
    """Return the conversion of the wrapped layer's kernel, and its other conversions."""
    conversions = conversions_of_layer(
        layer.layer, params | {layer.name: params[layer.name]}, {}, feature_order
    )
    kernels = [
        conversion for conversion in conversions if conversion.parameter_names == (layer.name,)
    ]
    if not kernels:
        raise ArgumentError(
            f"state_dict: {layer!r:.80}: PyTorch has no {layer.name!r} of its own; convert its parts by hand"
        )
    return kernels[0], [conversion for conversion in conversions if conversion is not kernels[0]]


def _parametrized_conversions(
    layer: Parametrized, params: Params, tensor_shapes: Any, feature_order: FeatureOrder
) -> Any:
    """Return the conversions of a layer with a parametrized kernel."""
    kernel, others = _split_off_kernel_conversion(layer, params, feature_order)
    return [
        kernel._replace(torch_names=(f"parametrizations.{kernel.torch_names[0]}.original",)),
        *others,
    ]


def _weight_norm_conversions(
    layer: WeightNorm, params: Params, tensor_shapes: Any, feature_order: FeatureOrder
) -> list[ParameterConversion]:
    """Return the conversions of a layer whose kernel is a length and a direction."""
    own = {name: value for name, value in params.items() if not name.startswith(f"{layer.name}_")}
    direction = params[f"{layer.name}_direction"]
    kernel, others = _split_off_kernel_conversion(
        layer, {layer.name: direction, **own}, feature_order
    )
    name = kernel.torch_names[0]
    older = f"{name}_g" in tensor_shapes
    length, vector = (
        (f"{name}_g", f"{name}_v")
        if older
        else (f"parametrizations.{name}.original0", f"parametrizations.{name}.original1")
    )
    axes = (1,) * (direction.ndim - 1)
    return [
        kernel._replace(torch_names=(vector,), parameter_names=(f"{layer.name}_direction",)),
        ParameterConversion(
            (length,),
            (f"{layer.name}_length",),
            lambda x: (np.reshape(x, -1),),
            lambda x: (np.reshape(x, (-1, *axes)),),
        ),
        *others,
    ]


def _spectral_norm_conversions(
    layer: SpectralNorm, params: Params, tensor_shapes: Any, feature_order: FeatureOrder
) -> list[ParameterConversion]:
    """Return the conversions of a layer whose kernel is divided by its largest singular value."""
    kernel, others = _split_off_kernel_conversion(layer, params, feature_order)

    def write_spectral_norm(x: Array, u: Array) -> Arrays:
        (weight,) = kernel.to_torch(x)
        v = np.reshape(weight, (len(weight), -1)).T @ u
        return weight, u, v / (np.linalg.norm(v) + NORM_EPSILON)

    name = f"parametrizations.{kernel.torch_names[0]}"
    return [
        ParameterConversion(
            (f"{name}.original", f"{name}.0._u", f"{name}.0._v"),
            (layer.name, f"{layer.name}_vector"),
            lambda weight, u, v: (*kernel.from_torch(weight), u),
            write_spectral_norm,
        ),
        *others,
    ]


CONVERSION_RULES_BY_LAYER_CLASS: Final[dict[type, ConversionRule]] = {
    Dense: _dense_conversions,
    PReLU: _prelu_conversions,
    **dict.fromkeys((Embedding, EmbeddingBag, PositionEmbedding), _embedding_conversions),
    **dict.fromkeys(
        (LayerNorm, RMSNorm, GroupNorm, BatchNorm, InstanceNorm), _normalization_conversions
    ),
    **dict.fromkeys(
        (Conv1D, Conv2D, Conv3D, Conv1DTranspose, Conv2DTranspose, Conv3DTranspose),
        _convolution_conversions,
    ),
    DepthwiseConv2D: _depthwise_conversions,
    SeparableConv2D: _separable_conversions,
    **dict.fromkeys((LSTM, GRU, SimpleRNN), _recurrent_conversions),
    Bidirectional: _bidirectional_conversions,
    MultiHeadAttention: _attention_conversions,
    Parametrized: _parametrized_conversions,
    WeightNorm: _weight_norm_conversions,
    SpectralNorm: _spectral_norm_conversions,
}
"""The function that returns the conversions of each class of layers."""

TORCH_NAMES_OF_PARTS: Final[dict[type, dict[str, str]]] = {
    TransformerEncoderBlock: {
        "attention": "self_attn",
        "attention_norm": "norm1",
        "hidden": "linear1",
        "output": "linear2",
        "output_norm": "norm2",
    },
    TransformerDecoderBlock: {
        "attention": "self_attn",
        "attention_norm": "norm1",
        "context_attention": "multihead_attn",
        "context_attention_norm": "norm2",
        "hidden": "linear1",
        "output": "linear2",
        "output_norm": "norm3",
    },
}
"""The names that PyTorch's modules give to the layers inside a layer."""
