"""Rules that write convolutions, pooling, products, normalizations and image kernels as nodes of TensorFlow.js."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from plugrad.graph_models.writing import write_rule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plugrad.graph_models.writing import GraphWriter, TracedCall

OPERATOR_OF_ACTIVATION: Final = {
    "elu": "Elu", "leakyrelu": "LeakyRelu", "prelu": "Prelu", "relu": "Relu", "relu6": "Relu6", "sigmoid": "Sigmoid",
}  # fmt: skip
"""TensorFlow's operator for each activation."""
CONVOLUTION_OPERATORS: Final = {
    "Conv2D": ("Conv2D", "_FusedConv2D"),
    "FusedConv2D": ("Conv2D", "_FusedConv2D"),
    "DepthwiseConv2dNative": ("DepthwiseConv2dNative", "FusedDepthwiseConv2dNative"),
    "FusedDepthwiseConv2D": ("DepthwiseConv2dNative", "FusedDepthwiseConv2dNative"),
}
"""By kernel, TensorFlow's plain and its fused operator."""


@write_rule("BatchMatMul", "_FusedMatMul")
def write_product(writer: GraphWriter, traced_call: TracedCall, input_names: list[str]) -> str:
    """Write a matrix product, with its bias and activation if it has them."""
    sides: dict[str, Any] = {
        name: bool(traced_call.attrs[name]) for name in ("transpose_a", "transpose_b")
    }
    if len(traced_call.shape(0)[0]) == len(traced_call.shape(1)[0]) == 2:
        return _write_fused(writer, traced_call, input_names, ("MatMul", "_FusedMatMul"), sides)
    flags: dict[str, Any] = {"adj_x": sides["transpose_a"], "adj_y": sides["transpose_b"]}
    y = writer.write_node("BatchMatMulV2", input_names[:2], T=traced_call.dtype(), **flags)
    y = (
        writer.write_node("AddV2", [y, input_names[2]], T="float32")
        if len(input_names) > 2 and input_names[2]
        else y
    )
    return _write_activation(writer, traced_call, y, input_names)


@write_rule(*CONVOLUTION_OPERATORS)
def write_convolution(writer: GraphWriter, traced_call: TracedCall, input_names: list[str]) -> str:
    """Write a convolution, with its bias and activation if it has them."""
    window = traced_call.attrs["window"]
    if max(window.strides) > 1 and max(window.dilations) > 1:
        raise traced_call.unsupported("TensorFlow.js has no strides together with dilations")
    if traced_call.shape(0)[0][-1] != traced_call.shape(1)[0][2]:
        raise traced_call.unsupported("TensorFlow.js has no convolutions of groups of channels")
    padding = _padding_attributes(window, traced_call.shape()[0][1:-1])
    attrs: dict[str, Any] = {
        "dilations": [1, *window.dilations, 1],
        "data_format": "NHWC",
        **_strides_attribute(window),
        **padding,
    }
    return _write_fused(
        writer, traced_call, input_names, CONVOLUTION_OPERATORS[traced_call.kernel], attrs
    )


@write_rule("Conv3D")
def write_convolution3d(
    writer: GraphWriter, traced_call: TracedCall, input_names: list[str]
) -> str:
    """Write a convolution of volumes; padding that is neither SAME nor VALID becomes a node."""
    window = traced_call.attrs["window"]
    if max(window.strides) > 1 and max(window.dilations) > 1:
        raise traced_call.unsupported("TensorFlow.js has no strides together with dilations")
    x, padding = _write_padding(writer, traced_call, input_names[0], 0.0)
    attrs: dict[str, Any] = {
        "dilations": [1, *window.dilations, 1],
        "data_format": "NDHWC",
        **_strides_attribute(window),
    }
    return writer.write_node("Conv3D", [x, input_names[1]], padding=padding, T="float32", **attrs)


@write_rule("Conv2DBackpropInput")
def write_transposed_convolution(
    writer: GraphWriter, traced_call: TracedCall, input_names: list[str]
) -> str:
    """Write the gradient of a convolution."""
    window = traced_call.attrs["window"]
    if max(window.dilations) > 1:
        raise traced_call.unsupported("TensorFlow.js has no transposed convolutions with dilations")
    shape = writer.write_integers(*traced_call.attribute_in_both_traces("input_shape"))
    padding = _padding_attributes(window, traced_call.attrs["input_shape"][1:-1])
    return writer.write_node(
        "Conv2DBackpropInput", [shape, input_names[1], input_names[0]], data_format="NHWC", T="float32",
        **_strides_attribute(window), **padding,
    )  # fmt: skip


@write_rule("MaxPool", "MaxPool3D", "AvgPool", "AvgPool3D")
def write_pooling(writer: GraphWriter, traced_call: TracedCall, input_names: list[str]) -> str:
    """Write pooling; padding that is neither SAME nor VALID becomes a node."""
    window = traced_call.attrs["window"]
    if max(window.dilations) > 1:
        raise traced_call.unsupported("TensorFlow.js has no pooling with dilations")
    is_mean = traced_call.kernel.startswith("Avg")
    x, padding = _write_padding(
        writer, traced_call, input_names[0], 0.0 if is_mean else float(np.finfo(np.float32).min)
    )
    order = "NDHWC" if len(window.size) == 3 else "NHWC"
    attrs: dict[str, Any] = {
        "ksize": [1, *window.size, 1],
        "data_format": order,
        **_strides_attribute(window),
    }
    y = writer.write_node(traced_call.kernel, [x], padding=padding, T="float32", **attrs)
    if not is_mean or x == input_names[0]:
        return y
    # The mean of a window is that of the cells that lie in the image.
    ratio = prod(window.size) / _count_cells_inside_image(window, traced_call.shape()[0][1:-1])
    return writer.write_node(
        "Mul", [y, writer.write_constant(ratio.astype(np.float32))], T="float32"
    )


@write_rule("MaxPoolWithArgmax")
def write_pooling_with_indices(
    writer: GraphWriter, traced_call: TracedCall, input_names: list[str]
) -> str:
    """Write a MaxPoolWithArgmax node."""
    window = traced_call.attrs["window"]
    padding = _padding_attributes(window, traced_call.shape()[0][1:-1])
    if "explicit_paddings" in padding or max(window.dilations) > 1:
        raise traced_call.unsupported("TensorFlow.js has neither such padding nor dilations here")
    batch = bool(traced_call.attrs["include_batch_in_index"])
    size = [1, *window.size, 1]
    return writer.write_node(
        traced_call.kernel,
        input_names,
        ksize=size,
        include_batch_in_index=batch,
        **_strides_attribute(window),
        **padding,
    )


@write_rule("Dilation2D")
def write_dilation(writer: GraphWriter, traced_call: TracedCall, input_names: list[str]) -> str:
    """Write a Dilation2D node."""
    window = traced_call.attrs["window"]
    padding = _padding_attributes(window, traced_call.shape()[0][1:-1])
    if "explicit_paddings" in padding:
        raise traced_call.unsupported("TensorFlow.js has no such padding here")
    rates = [1, *window.dilations, 1]
    return writer.write_node(
        "Dilation2D", input_names, rates=rates, T="float32", **_strides_attribute(window), **padding
    )


@write_rule("FusedBatchNorm")
def write_batch_norm(writer: GraphWriter, traced_call: TracedCall, input_names: list[str]) -> str:
    """Write batch normalization, as arithmetic if its statistics are not one number per channel."""
    x, mean, variance, offset, scale = [*input_names, "", ""][:5]
    epsilon = float(traced_call.attrs["variance_epsilon"])
    shapes = {
        traced_call.shape(place)[0] for place, name in enumerate(input_names) if place and name
    }
    if shapes == {traced_call.shape()[0][-1:]} and len(traced_call.shape()[0]) <= 4:
        ones, zeros = (np.full(traced_call.shape(1)[0], n, np.float32) for n in (1, 0))
        scale = scale or writer.write_constant(ones)
        offset = offset or writer.write_constant(zeros)
        given = [x, scale, offset, mean, variance]
        return writer.write_node(
            "FusedBatchNormV3",
            given,
            epsilon=epsilon,
            is_training=False,
            data_format="NHWC",
            T="float32",
        )
    wide = writer.write_node("AddV2", [variance, writer.write_number(epsilon)], T="float32")
    centred = writer.write_node("Sub", [x, mean], T="float32")
    y = writer.write_node("Mul", [centred, writer.write_node("Rsqrt", [wide])], T="float32")
    y = writer.write_node("Mul", [y, scale], T="float32") if scale else y
    return writer.write_node("AddV2", [y, offset], T="float32") if offset else y


@write_rule("Variance")
def write_variance(writer: GraphWriter, traced_call: TracedCall, input_names: list[str]) -> str:
    """Write the average of the squared differences from the mean."""
    where, dtype = writer.write_integers(list(traced_call.attrs["axis"])), traced_call.dtype()
    mean = writer.write_node("Mean", [input_names[0], where], keep_dims=True, T=dtype)
    squares = writer.write_node("SquaredDifference", [input_names[0], mean], T=dtype)
    return writer.write_node(
        "Mean", [squares, where], keep_dims=traced_call.attrs["keep_dims"], T=dtype
    )


@write_rule("LayerNorm")
def write_layer_norm(writer: GraphWriter, traced_call: TracedCall, input_names: list[str]) -> str:
    """Write layer normalization as arithmetic."""
    x, offset, scale = [*input_names, "", ""][:3]
    axes = traced_call.attrs["axis"]
    where = writer.write_integers([axes] if isinstance(axes, int) else list(axes))
    mean = writer.write_node("Mean", [x, where], keep_dims=True, T="float32")
    squares = writer.write_node("SquaredDifference", [x, mean], T="float32")
    variance = writer.write_node("Mean", [squares, where], keep_dims=True, T="float32")
    epsilon = writer.write_number(traced_call.attrs["variance_epsilon"])
    factor = writer.write_node(
        "Rsqrt", [writer.write_node("AddV2", [variance, epsilon], T="float32")]
    )
    y = writer.write_node(
        "Mul", [writer.write_node("Sub", [x, mean], T="float32"), factor], T="float32"
    )
    y = writer.write_node("Mul", [y, scale], T="float32") if scale else y
    return writer.write_node("AddV2", [y, offset], T="float32") if offset else y


@write_rule("Attention")
def write_attention(writer: GraphWriter, traced_call: TracedCall, input_names: list[str]) -> str:
    """Write attention as two products and a softmax; masked scores become -1e30."""
    q, k, v, mask = [*input_names, ""][:4]
    scores = writer.write_node("BatchMatMulV2", [q, k], adj_x=False, adj_y=True, T="float32")
    scores = writer.write_node(
        "Mul", [scores, writer.write_number(traced_call.attrs["scale"])], T="float32"
    )
    if mask and traced_call.dtype(3) == "bool":
        scores = writer.write_node(
            "SelectV2", [mask, scores, writer.write_number(-1e30)], T="float32"
        )
    elif mask:
        scores = writer.write_node("AddV2", [scores, mask], T="float32")
    weights = writer.write_node("Softmax", [scores], T="float32")
    return writer.write_node("BatchMatMulV2", [weights, v], adj_x=False, adj_y=False, T="float32")


@write_rule("Softmax", "LogSoftmax")
def write_softmax(writer: GraphWriter, traced_call: TracedCall, input_names: list[str]) -> str:
    """Write Softmax or LogSoftmax; another axis is first moved to the end."""
    axis = traced_call.attrs.get("dim", traced_call.attrs.get("axis"))
    rank = len(traced_call.shape()[0])
    if axis % rank == rank - 1:
        return writer.write_node(traced_call.kernel, input_names, T="float32")
    order = [*range(rank)]
    order[axis], order[-1] = order[-1], order[axis]
    perm = writer.write_integers(order)
    turned = writer.write_node("Transpose", [input_names[0], perm], T="float32")
    return writer.write_node(
        "Transpose",
        [writer.write_node(traced_call.kernel, [turned], T="float32"), perm],
        T="float32",
    )


@write_rule("ResizeBilinear", "ResizeNearestNeighbor")
def write_resize(writer: GraphWriter, traced_call: TracedCall, input_names: list[str]) -> str:
    """Write ResizeBilinear or ResizeNearestNeighbor."""
    flags: dict[str, Any] = {
        name: bool(traced_call.attrs[name]) for name in ("align_corners", "half_pixel_centers")
    }
    given = [input_names[0], writer.write_integers(traced_call.attrs["size"])]
    return writer.write_node(traced_call.kernel, given, T=traced_call.dtype(), **flags)


@write_rule("CropAndResize")
def write_crop_and_resize(
    writer: GraphWriter, traced_call: TracedCall, input_names: list[str]
) -> str:
    """Write a CropAndResize node."""
    size = writer.write_integers(traced_call.attrs["crop_size"])
    value = float(traced_call.attrs["extrapolation_value"])
    method = str(traced_call.attrs["method"])
    return writer.write_node(
        "CropAndResize", [*input_names, size], method=method, extrapolation_value=value
    )


@write_rule("Transform")
def write_transform(writer: GraphWriter, traced_call: TracedCall, input_names: list[str]) -> str:
    """Write an ImageProjectiveTransformV3 node."""
    shape = writer.write_integers(traced_call.shape(is_output=True)[0][1:3])
    given = [*input_names, shape, writer.write_number(traced_call.attrs["fill_value"])]
    kinds: dict[str, Any] = {
        name: str(traced_call.attrs[name]).upper() for name in ("interpolation", "fill_mode")
    }
    return writer.write_node("ImageProjectiveTransformV3", given, **kinds)


@write_rule("FlipLeftRight")
def write_flip(writer: GraphWriter, traced_call: TracedCall, input_names: list[str]) -> str:
    """Write the horizontal flip of images."""
    return writer.write_node(
        "ReverseV2", [input_names[0], writer.write_integers([2])], T=traced_call.dtype()
    )


def _write_fused(
    writer: GraphWriter,
    traced_call: TracedCall,
    input_names: list[str],
    operator_names: tuple[str, str],
    attrs: dict[str, Any],
) -> str:
    """Write a product or convolution with the plain or the fused operator, which includes bias and activation."""
    plain, fused = operator_names
    x, y, bias, weights = [*input_names, "", ""][:4]
    activation = traced_call.attrs.get("activation", "linear")
    if not bias or len(traced_call.shape(2)[0]) != 1:
        result = writer.write_node(plain, [x, y], T=traced_call.dtype(), **attrs)
        result = writer.write_node("AddV2", [result, bias], T="float32") if bias else result
        return _write_activation(writer, traced_call, result, input_names)
    names = ["BiasAdd"] + ([] if activation == "linear" else [OPERATOR_OF_ACTIVATION[activation]])
    rest = [bias, weights] if weights else [bias]
    alpha: dict[str, Any] = (
        {"leakyrelu_alpha": float(traced_call.attrs["leakyrelu_alpha"])}
        if activation == "leakyrelu"
        else {}
    )
    return writer.write_node(
        fused, [x, y, *rest], fused_ops=names, num_args=len(rest), T="float32", **alpha, **attrs
    )


def _write_activation(
    writer: GraphWriter, traced_call: TracedCall, result: str, input_names: list[str]
) -> str:
    """Write an activation as a node of its own."""
    activation = traced_call.attrs.get("activation", "linear")
    if activation == "linear":
        return result
    alpha: dict[str, Any] = (
        {"alpha": float(traced_call.attrs["leakyrelu_alpha"])} if activation == "leakyrelu" else {}
    )
    weights = input_names[3:4] if activation == "prelu" else []
    return writer.write_node(
        OPERATOR_OF_ACTIVATION[activation], [result, *weights], T="float32", **alpha
    )


def _strides_attribute(window: Any) -> dict[str, Any]:
    """Return the attribute with the strides of a window."""
    return {"strides": [1, *window.strides, 1]}


def _padding_attributes(window: Any, image_shape: Sequence[int]) -> dict[str, Any]:
    """Return the padding attributes of a window."""
    if not np.any(window.padding):
        return {"padding": "VALID"}
    if tuple(map(tuple, window.padding)) == _same_padding(window, image_shape):
        return {"padding": "SAME"}
    flat = [n for pair in ((0, 0), *window.padding, (0, 0)) for n in pair]
    return {"padding": "EXPLICIT", "explicit_paddings": flat}


def _same_padding(window: Any, image_shape: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Return SAME padding: one position per stride, with the odd cell at the end."""
    pairs: list[tuple[int, int]] = []
    for n, size, stride, rate in zip(
        image_shape, window.size, window.strides, window.dilations, strict=True
    ):
        total = max((-(-n // stride) - 1) * stride + (size - 1) * rate + 1 - n, 0)
        pairs.append((total // 2, total - total // 2))
    return tuple(pairs)


def _write_padding(
    writer: GraphWriter, traced_call: TracedCall, x: str, padding_value: float
) -> tuple[str, str]:
    """Return the image, padded if neither SAME nor VALID fits, and the padding attribute that remains."""
    window = traced_call.attrs["window"]
    attrs: dict[str, Any] = _padding_attributes(window, traced_call.shape()[0][1:-1])
    if "explicit_paddings" not in attrs:
        return x, attrs["padding"]
    pairs = writer.write_constant(np.array([(0, 0), *window.padding, (0, 0)], np.int32))
    return writer.write_node(
        "PadV2", [x, pairs, writer.write_number(padding_value)], T="float32"
    ), "VALID"


def _count_cells_inside_image(window: Any, image_shape: Sequence[int]) -> Any:
    """Return how many cells of each window position lie inside the image, not in its padding."""
    counts = np.ones(())
    for axis, (n, size, stride, (before, _), out) in enumerate(
        zip(image_shape, window.size, window.strides, window.padding, window.out, strict=True)
    ):
        first = np.arange(out, dtype=np.int64) * stride - before
        inside = np.minimum(first + size, n) - np.maximum(first, 0)
        counts = counts[..., None] * inside if axis else inside
    return counts[..., None]
