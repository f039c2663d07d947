"""Rules that write most kernels as several nodes of ONNX, or as one with attributes."""

from __future__ import annotations

from typing import Any

import numpy as np

from plugrad.errors import UnsupportedModel
from plugrad_onnx.elements import element_type
from plugrad_onnx.exporting.direct import emit_widened
from plugrad_onnx.exporting.writer import CallPair, Writer, export_rule

REDUCTION_OPERATORS = {
    "All": "ReduceMin", "Any": "ReduceSum", "EuclideanNorm": "ReduceL2", "Max": "ReduceMax", "Mean": "ReduceMean",
    "Min": "ReduceMin", "Prod": "ReduceProd", "Sum": "ReduceSum",
}  # fmt: skip
"""The names of ONNX's reductions, by kernel name."""
SELU_ATTRIBUTES = {"alpha": 1.6732632423543772, "gamma": 1.0507009873554805}
"""The attributes of Selu for plugrad's constants."""


@export_rule(*REDUCTION_OPERATORS)
def write_reduction(writer: Writer, call: CallPair, inputs: list[str], outputs: list[str]) -> None:
    """Write a reduction; bools are reduced as numbers."""
    kernel = call.calls[0].kernel.name
    axes = call.attrs.get("axis", call.attrs.get("reduction_indices"))
    axes = [axes] if isinstance(axes, int) else list(axes)
    keep = int(call.attrs["keep_dims"])
    flags = kernel in ("All", "Any")
    x = writer.emit("Cast", inputs, to=6) if flags else inputs[0]
    # Without axes, nothing is reduced here, and everything by default there.
    alone: dict[str, Any] = {} if axes else {"noop_with_empty_axes": 1}
    operator_name, inputs = REDUCTION_OPERATORS[kernel], [x, writer.write_integers(axes)]
    if flags:
        reduced = writer.emit(operator_name, inputs, keepdims=keep, **alone)
        writer.emit("Cast", [reduced], outputs, to=9)
    else:
        emit_widened(writer, call, operator_name, inputs, outputs, 1, keepdims=keep, **alone)


@export_rule("Variance")
def write_variance(writer: Writer, call: CallPair, inputs: list[str], outputs: list[str]) -> None:
    """Write the average of the squared differences from the mean."""
    axes = list(call.attrs["axis"])
    alone: dict[str, Any] = {} if axes else {"noop_with_empty_axes": 1}
    mean = writer.emit("ReduceMean", [inputs[0], writer.write_integers(axes)], keepdims=1, **alone)
    differences = writer.emit("Sub", [inputs[0], mean])
    squares = writer.emit("Mul", [differences, differences])
    keep = int(call.attrs["keep_dims"])
    writer.emit(
        "ReduceMean", [squares, writer.write_integers(axes)], outputs, keepdims=keep, **alone
    )


@export_rule("ArgMax", "ArgMin")
def write_arg_extremum(
    writer: Writer, call: CallPair, inputs: list[str], outputs: list[str]
) -> None:
    """Write ArgMax or ArgMin."""
    kernel = call.calls[0].kernel.name
    found = writer.emit(kernel, inputs, axis=call.attrs["axis"], keepdims=0)
    writer.emit("Cast", [found], outputs, to=element_type(call.dtype()))


@export_rule("BatchMatMul", "_FusedMatMul")
def write_product(writer: Writer, call: CallPair, inputs: list[str], outputs: list[str]) -> None:
    """Write a matrix product, with its bias and activation if it has them."""
    sides = list(inputs[:2])
    for place, name in enumerate(("transpose_a", "transpose_b")):
        rank = len(call.shape(place)[0])
        if call.attrs[name]:
            order = [*range(rank - 2), rank - 1, rank - 2]
            sides[place] = writer.emit("Transpose", [sides[place]], perm=order)
    product = emit_widened(writer, call, "MatMul", sides)
    _write_bias_and_activation(writer, call, product, inputs[2:], outputs)


@export_rule("Conv2D", "FusedConv2D", "Conv3D", "DepthwiseConv2dNative", "FusedDepthwiseConv2D")
def write_convolution(
    writer: Writer, call: CallPair, inputs: list[str], outputs: list[str]
) -> None:
    """Write a convolution between two transpositions, because ONNX has channels second."""
    window = call.attrs["window"]
    rank = len(window.size)
    *_, one, two = call.shape(1)[0]
    filters = writer.emit("Transpose", [inputs[1]], perm=[rank + 1, rank, *range(rank)])
    group = 1
    if "Depthwise" in call.calls[0].kernel.name:
        turned = writer.emit("Transpose", [inputs[1]], perm=[rank, rank + 1, *range(rank)])
        shape = writer.write_integers([one * two, 1, *window.size])
        filters, group = writer.emit("Reshape", [turned, shape]), one
    x = channels_second(writer, inputs[0], rank)
    y = writer.emit(
        "Conv",
        [x, filters],
        group=group,
        dilations=list(window.dilations),
        **window_attributes(window),
    )
    _write_bias_and_activation(writer, call, channels_last(writer, y, rank), inputs[2:], outputs)


@export_rule("Conv2DBackpropInput", "Conv3DBackpropInputV2", "DepthwiseConv2dNativeBackpropInput")
def write_transposed_convolution(
    writer: Writer, call: CallPair, inputs: list[str], outputs: list[str]
) -> None:
    """Write ConvTranspose; rows that the strides do not reach are padded at the end."""
    window = call.attrs["window"]
    rank = len(window.size)
    images, wanted = call.shape(0)[0][1:-1], call.shape(0, out=True)[0][1:-1]
    extra = [
        want - ((n - 1) * s + (k - 1) * d + 1 - low - high)
        for want, n, s, k, d, (low, high) in zip(
            wanted,
            images,
            window.strides,
            window.size,
            window.dilations,
            window.padding,
            strict=True,
        )
    ]
    *_, one, two = call.shape(1)[0]
    filters, group = writer.emit("Transpose", [inputs[1]], perm=[rank + 1, rank, *range(rank)]), 1
    if "Depthwise" in call.calls[0].kernel.name:
        turned = writer.emit("Transpose", [inputs[1]], perm=[rank, rank + 1, *range(rank)])
        shape = writer.write_integers([one * two, 1, *window.size])
        filters, group = writer.emit("Reshape", [turned, shape]), one
    x = channels_second(writer, inputs[0], rank)
    y = writer.emit(
        "ConvTranspose", [x, filters], group=group, dilations=list(window.dilations), output_padding=extra,
        **window_attributes(window),
    )  # fmt: skip
    writer.emit("Identity", [channels_last(writer, y, rank)], outputs)


@export_rule("MaxPool", "MaxPool3D", "AvgPool", "AvgPool3D")
def write_pooling(writer: Writer, call: CallPair, inputs: list[str], outputs: list[str]) -> None:
    """Write pooling between two transpositions."""
    window = call.attrs["window"]
    rank = len(window.size)
    kind = "MaxPool" if "Max" in call.calls[0].kernel.name else "AveragePool"
    x = channels_second(writer, inputs[0], rank)
    y = writer.emit(kind, [x], dilations=list(window.dilations), **window_attributes(window))
    writer.emit("Identity", [channels_last(writer, y, rank)], outputs)


@export_rule("FusedBatchNorm")
def write_normalization(
    writer: Writer, call: CallPair, inputs: list[str], outputs: list[str]
) -> None:
    """Write batch normalization as arithmetic, because its statistics may have any shape."""
    x, mean, variance, offset, scale = [*inputs, "", ""][:5]
    epsilon = write_number(writer, call, call.attrs["variance_epsilon"])
    deviation = writer.emit("Sqrt", [writer.emit("Add", [variance, epsilon])])
    y = writer.emit("Div", [writer.emit("Sub", [x, mean]), deviation])
    y = writer.emit("Mul", [y, scale]) if scale else y
    writer.emit(*(("Add", [y, offset]) if offset else ("Identity", [y])), outputs)


@export_rule("LayerNorm")
def write_layer_normalization(
    writer: Writer, call: CallPair, inputs: list[str], outputs: list[str]
) -> None:
    """Write LayerNormalization over the last axis."""
    x, offset, scale = [*inputs, "", ""][:3]
    if not scale:
        ones = np.ones(call.shape(0)[0][-1:], np.dtype(call.dtype().name))
        scale = writer.write_constant(ones)
    given = [x, scale, offset] if offset else [x, scale]
    epsilon = call.attrs["variance_epsilon"]
    writer.emit("LayerNormalization", given, outputs, axis=call.attrs["axis"], epsilon=epsilon)


@export_rule("Attention")
def write_attention(writer: Writer, call: CallPair, inputs: list[str], outputs: list[str]) -> None:
    """Write attention with several heads as one node, otherwise as two products and a softmax."""
    q, k, v, mask = [*inputs, ""][:4]
    rank = len(call.shape(1)[0])
    if rank == 4 and (not mask or all(1 not in pair[-1:] for pair in call.shape(3))):
        writer.emit(
            "Attention", [n for n in (q, k, v, mask) if n], outputs, scale=call.attrs["scale"]
        )
        return
    turned = writer.emit("Transpose", [k], perm=[*range(rank - 2), rank - 1, rank - 2])
    scores = writer.emit("MatMul", [q, turned])
    scores = writer.emit("Mul", [scores, write_number(writer, call, call.attrs["scale"])])
    scores = writer.emit("Add", [scores, mask]) if mask else scores
    writer.emit("MatMul", [writer.emit("Softmax", [scores], axis=-1), v], outputs)


@export_rule("Reshape", "ExpandDims")
def write_reshape(writer: Writer, call: CallPair, inputs: list[str], outputs: list[str]) -> None:
    """Write Reshape; one size that depends on the batch becomes −1."""
    first, second = call.shape(0, out=True)
    different = [
        place for place, pair in enumerate(zip(first, second, strict=True)) if len({*pair}) > 1
    ]
    if len(different) == 1 and 0 not in first:
        sizes = [-1 if place in different else size for place, size in enumerate(first)]
        shape = writer.write_integers(sizes)
    else:
        shape = writer.write_integers(first, second)
    writer.emit("Reshape", [inputs[0], shape], outputs, allowzero=1)


@export_rule("Transpose")
def write_transpose(writer: Writer, call: CallPair, inputs: list[str], outputs: list[str]) -> None:
    """Write Transpose."""
    writer.emit("Transpose", inputs, outputs, perm=list(call.attrs["perm"]))


@export_rule("BroadcastTo")
def write_broadcast(writer: Writer, call: CallPair, inputs: list[str], outputs: list[str]) -> None:
    """Write Expand."""
    writer.emit("Expand", [inputs[0], writer.write_integers(*call.both_values("shape"))], outputs)


@export_rule("Tile")
def write_tile(writer: Writer, call: CallPair, inputs: list[str], outputs: list[str]) -> None:
    """Write Tile."""
    writer.emit("Tile", [inputs[0], writer.write_integers(*call.both_values("reps"))], outputs)


@export_rule("Slice")
def write_slice(writer: Writer, call: CallPair, inputs: list[str], outputs: list[str]) -> None:
    """Write Slice, and Squeeze for the axes that integer indices remove."""
    begins, sizes = call.both_values("begin"), call.both_values("size")
    ends = [
        tuple(b + n for b, n in zip(*pair, strict=True)) for pair in zip(begins, sizes, strict=True)
    ]
    dropped = list(call.attrs["drop"])
    given = [inputs[0], writer.write_integers(*begins), writer.write_integers(*ends)]
    part = writer.emit("Slice", given, [] if dropped else outputs)
    if dropped:
        writer.emit("Squeeze", [part, writer.write_integers(dropped)], outputs)


@export_rule("StridedSlice")
def write_strided_slice(
    writer: Writer, call: CallPair, inputs: list[str], outputs: list[str]
) -> None:
    """Write Slice with steps; with negative steps, an end before the first element is a large negative number."""
    strides = call.attrs["strides"]
    begins, ends = call.both_values("begin"), call.both_values("end")
    far = -(1 << 31)
    ends = [
        [far if s < 0 and e < 0 else e for e, s in zip(end, strides, strict=True)] for end in ends
    ]
    axes = writer.write_integers(range(len(strides)))
    given = [
        writer.write_integers(*begins),
        writer.write_integers(*ends),
        axes,
        writer.write_integers(strides),
    ]
    writer.emit("Slice", [inputs[0], *given], outputs)


@export_rule("Reverse")
def write_reverse(writer: Writer, call: CallPair, inputs: list[str], outputs: list[str]) -> None:
    """Write the reversal of axes."""
    axes = list(call.attrs["dims"])
    starts, ends, steps = ([value] * len(axes) for value in (-1, -(1 << 31), -1))
    given = [writer.write_integers(part) for part in (starts, ends, axes, steps)]
    writer.emit("Slice", [inputs[0], *given], outputs)


@export_rule("ResizeBilinear", "ResizeNearestNeighbor")
def write_resize(writer: Writer, call: CallPair, inputs: list[str], outputs: list[str]) -> None:
    """Write Resize between two transpositions."""
    nearest = "Nearest" in call.calls[0].kernel.name
    shapes = [(n, c, h, w) for n, h, w, c in call.shape(0, out=True)]
    mode = "half_pixel" if call.attrs["half_pixel_centers"] else "asymmetric"
    mode = "align_corners" if call.attrs["align_corners"] else mode
    kinds: dict[str, Any] = {"mode": "linear"}
    if nearest:
        rounding = "floor" if mode == "asymmetric" else "round_prefer_ceil"
        kinds = {"mode": "nearest", "nearest_mode": rounding}
    x = channels_second(writer, inputs[0], 2)
    y = writer.emit(
        "Resize", [x, "", "", writer.write_integers(*shapes)], coordinate_transformation_mode=mode, **kinds
    )  # fmt: skip
    writer.emit("Identity", [channels_last(writer, y, 2)], outputs)


@export_rule("ZerosLike", "OnesLike")
def write_full_like(writer: Writer, call: CallPair, inputs: list[str], outputs: list[str]) -> None:
    """Write one number expanded to the shape of a tensor."""
    value = np.array(call.calls[0].kernel.name == "OnesLike", np.dtype(call.dtype().name))
    writer.emit("Expand", [writer.write_constant(value), writer.emit("Shape", inputs)], outputs)


@export_rule("Fill")
def write_fill(writer: Writer, call: CallPair, inputs: list[str], outputs: list[str]) -> None:
    """Write one number expanded to a shape."""
    value = np.array(call.attrs["value"], np.dtype(call.dtype().name))
    shape = writer.write_integers(*call.shape(0, out=True))
    writer.emit("Expand", [writer.write_constant(value), shape], outputs)


@export_rule("MirrorPad")
def write_mirror_pad(writer: Writer, call: CallPair, inputs: list[str], outputs: list[str]) -> None:
    """Write reflected padding; symmetric padding, which ONNX lacks, becomes Gather with indices."""
    sides = call.attrs["paddings"]
    if call.attrs["mode"] != "reflect":
        name = inputs[0]
        for axis, ((low, high), first, second) in enumerate(zip(sides, *call.shape(), strict=True)):
            if low or high:
                if first != second:
                    raise UnsupportedModel(
                        "mirror_pad repeats the edge of an axis whose size changes."
                    )
                order: list[int] = np.pad(np.arange(first), (low, high), "symmetric").tolist()
                name = writer.emit("Gather", [name, writer.write_integers(order)], axis=axis)
        writer.emit("Identity", [name], outputs)
        return
    pads = writer.write_integers([low for low, _ in sides] + [high for _, high in sides])
    writer.emit("Pad", [inputs[0], pads], outputs, mode="reflect")


@export_rule("FloorDiv", "Mod")
def write_floor_division(
    writer: Writer, call: CallPair, inputs: list[str], outputs: list[str]
) -> None:
    """Write a quotient rounded down, or its remainder; ONNX rounds integer quotients towards zero."""
    kernel = call.calls[0].kernel.name
    if call.dtype().is_integer:
        if kernel == "FloorDiv":
            rest = writer.emit("Mod", inputs)
            writer.emit("Div", [writer.emit("Sub", [inputs[0], rest]), inputs[1]], outputs)
            return
        writer.emit("Mod", inputs, outputs)
        return
    quotient = writer.emit("Floor", [writer.emit("Div", inputs)])
    if kernel == "FloorDiv":
        writer.emit("Identity", [quotient], outputs)
        return
    writer.emit("Sub", [inputs[0], writer.emit("Mul", [quotient, inputs[1]])], outputs)


@export_rule("Log2", "Log10")
def write_logarithm(writer: Writer, call: CallPair, inputs: list[str], outputs: list[str]) -> None:
    """Write a logarithm with another base."""
    base = {"Log2": 2.0, "Log10": 10.0}[call.calls[0].kernel.name]
    factor = write_number(writer, call, 1 / np.log(base))
    writer.emit("Mul", [writer.emit("Log", inputs), factor], outputs)


@export_rule("Trunc")
def write_truncate(writer: Writer, call: CallPair, inputs: list[str], outputs: list[str]) -> None:
    """Write rounding towards zero; integers are passed through."""
    if call.dtype().is_integer:
        writer.emit("Identity", inputs, outputs)
        return
    size = writer.emit("Floor", [writer.emit("Abs", inputs)])
    writer.emit("Mul", [writer.emit("Sign", inputs), size], outputs)


@export_rule("Concat")
def write_concat(writer: Writer, call: CallPair, inputs: list[str], outputs: list[str]) -> None:
    """Write Concat."""
    writer.emit("Concat", inputs, outputs, axis=call.attrs["axis"])


@export_rule("Pack")
def write_pack(writer: Writer, call: CallPair, inputs: list[str], outputs: list[str]) -> None:
    """Write the stack of tensors along a new axis."""
    axis = writer.write_integers([call.attrs["axis"]])
    parts = [writer.emit("Unsqueeze", [name, axis]) for name in inputs]
    writer.emit("Concat", parts, outputs, axis=call.attrs["axis"])


@export_rule("Unpack")
def write_unpack(writer: Writer, call: CallPair, inputs: list[str], outputs: list[str]) -> None:
    """Write the slices of a tensor along an axis."""
    axis = call.attrs["axis"]
    parts = [writer.new_name() for _ in outputs]
    writer.emit("Split", [inputs[0], writer.write_integers([1] * len(outputs))], parts, axis=axis)
    where = writer.write_integers([axis])
    for part, output in zip(parts, outputs, strict=True):
        writer.emit("Squeeze", [part, where], [output])


@export_rule("SplitV")
def write_split(writer: Writer, call: CallPair, inputs: list[str], outputs: list[str]) -> None:
    """Write Split."""
    sizes = call.both_values("num_or_size_splits")
    writer.emit(
        "Split", [inputs[0], writer.write_integers(*sizes)], outputs, axis=call.attrs["axis"]
    )


@export_rule("PadV2")
def write_pad(writer: Writer, call: CallPair, inputs: list[str], outputs: list[str]) -> None:
    """Write Pad with a constant."""
    sides = call.attrs["paddings"]
    pads = writer.write_integers([low for low, _ in sides] + [high for _, high in sides])
    value = write_number(writer, call, call.attrs["constant_value"])
    writer.emit("Pad", [inputs[0], pads, value], outputs)


@export_rule("GatherV2")
def write_gather(writer: Writer, call: CallPair, inputs: list[str], outputs: list[str]) -> None:
    """Write Gather."""
    axis, shared = call.attrs["axis"], call.attrs["batch_dims"]
    if not shared:
        writer.emit("Gather", inputs[:2], outputs, axis=axis)
        return
    rank, places = len(call.shape(0)[0]), len(call.shape(1)[0]) - shared
    front = [*range(shared), axis, *range(shared, axis), *range(axis + 1, rank)]
    x = writer.emit("Transpose", [inputs[0]], perm=front)
    rows = writer.emit("Unsqueeze", [inputs[1], writer.write_integers([-1])])
    found = writer.emit("GatherND", [x, writer.emit("Cast", [rows], to=7)], batch_dims=shared)
    ends = shared + places + axis - shared
    back = [*range(shared), *range(shared + places, ends), *range(shared, shared + places)]
    writer.emit("Transpose", [found], outputs, perm=[*back, *range(ends, rank + places - 1)])


@export_rule("Cast")
def write_cast(writer: Writer, call: CallPair, inputs: list[str], outputs: list[str]) -> None:
    """Write Cast."""
    writer.emit("Cast", inputs, outputs, to=element_type(call.dtype()))


@export_rule("Softmax", "LogSoftmax")
def write_softmax(writer: Writer, call: CallPair, inputs: list[str], outputs: list[str]) -> None:
    """Write Softmax or LogSoftmax."""
    axis = call.attrs.get("dim", call.attrs.get("axis"))
    writer.emit(call.calls[0].kernel.name, inputs, outputs, axis=axis)


@export_rule("Cumsum", "Cumprod")
def write_cumulative(writer: Writer, call: CallPair, inputs: list[str], outputs: list[str]) -> None:
    """Write CumSum."""
    axis = writer.write_constant(np.array(call.attrs["axis"], np.int64))
    flags = {name: int(call.attrs[name]) for name in ("exclusive", "reverse")}
    kind = {"Cumsum": "CumSum", "Cumprod": "CumProd"}[call.calls[0].kernel.name]
    writer.emit(kind, [inputs[0], axis], outputs, **flags)


@export_rule("Einsum")
def write_einsum(writer: Writer, call: CallPair, inputs: list[str], outputs: list[str]) -> None:
    """Write Einsum."""
    emit_widened(writer, call, "Einsum", inputs, outputs, equation=call.attrs["equation"])


@export_rule("ClipByValue")
def write_clip(writer: Writer, call: CallPair, inputs: list[str], outputs: list[str]) -> None:
    """Write Clip."""
    low, high = call.attrs["clip_value_min"], call.attrs["clip_value_max"]
    bounds = [write_number(writer, call, value) for value in (low, high)]
    writer.emit("Clip", [inputs[0], *bounds], outputs)


@export_rule("Relu6")
def write_relu6(writer: Writer, call: CallPair, inputs: list[str], outputs: list[str]) -> None:
    """Write Clip between 0 and 6."""
    bounds = [write_number(writer, call, value) for value in (0, 6)]
    writer.emit("Clip", [inputs[0], *bounds], outputs)


@export_rule("LeakyRelu")
def write_leaky_relu(writer: Writer, call: CallPair, inputs: list[str], outputs: list[str]) -> None:
    """Write LeakyRelu."""
    writer.emit("LeakyRelu", inputs, outputs, alpha=call.attrs["alpha"])


@export_rule("Prelu")
def write_prelu(writer: Writer, call: CallPair, inputs: list[str], outputs: list[str]) -> None:
    """Write PRelu."""
    writer.emit("PRelu", inputs, outputs)


@export_rule("Selu")
def write_selu(writer: Writer, call: CallPair, inputs: list[str], outputs: list[str]) -> None:
    """Write Selu with plugrad's constants."""
    writer.emit("Selu", inputs, outputs, **SELU_ATTRIBUTES)


@export_rule("GeluTanh")
def write_gelu_tanh(writer: Writer, call: CallPair, inputs: list[str], outputs: list[str]) -> None:
    """Write Gelu with the tanh approximation."""
    writer.emit("Gelu", inputs, outputs, approximate="tanh")


@export_rule("Square")
def write_square(writer: Writer, call: CallPair, inputs: list[str], outputs: list[str]) -> None:
    """Write the product of a tensor with itself."""
    writer.emit("Mul", inputs * 2, outputs)


@export_rule("SquaredDifference")
def write_squared_difference(
    writer: Writer, call: CallPair, inputs: list[str], outputs: list[str]
) -> None:
    """Write the squared difference of two tensors."""
    difference = writer.emit("Sub", inputs)
    writer.emit("Mul", [difference, difference], outputs)


@export_rule("Rsqrt")
def write_reciprocal_root(
    writer: Writer, call: CallPair, inputs: list[str], outputs: list[str]
) -> None:
    """Write the reciprocal of the square root."""
    writer.emit("Reciprocal", [writer.emit("Sqrt", inputs)], outputs)


@export_rule("Expm1")
def write_expm1(writer: Writer, call: CallPair, inputs: list[str], outputs: list[str]) -> None:
    """Write exp(x) − 1: Elu contains it below zero; above, the plain difference is accurate enough."""
    difference = writer.emit("Sub", [writer.emit("Exp", inputs), write_number(writer, call, 1)])
    below = writer.emit("Less", [inputs[0], write_number(writer, call, 0)])
    writer.emit("Where", [below, writer.emit("Elu", inputs), difference], outputs)


@export_rule("Log1p")
def write_log1p(writer: Writer, call: CallPair, inputs: list[str], outputs: list[str]) -> None:
    """Write log(1 + x)."""
    writer.emit("Log", [writer.emit("Add", [inputs[0], write_number(writer, call, 1)])], outputs)


@export_rule("NotEqual")
def write_not_equal(writer: Writer, call: CallPair, inputs: list[str], outputs: list[str]) -> None:
    """Write Not of Equal."""
    writer.emit("Not", [writer.emit("Equal", inputs)], outputs)


def write_number(writer: Writer, call: CallPair, value: float) -> str:
    """Write a number in the dtype of the result of a call; return its name."""
    dtype = call.dtype()
    dtype = call.dtype(out=False) if str(dtype) == "bool" else dtype
    return writer.write_constant(np.array(value, np.dtype(dtype.name)))


def window_attributes(window: Any) -> dict[str, Any]:
    """Return the attributes of an ONNX operator for a window."""
    pads = [low for low, _ in window.padding] + [high for _, high in window.padding]
    return {"kernel_shape": list(window.size), "strides": list(window.strides), "pads": pads}


def channels_second(writer: Writer, name: str, spatial_rank: int) -> str:
    """Write a transposition of images from channels last to channels second; return its name."""
    return writer.emit("Transpose", [name], perm=[0, spatial_rank + 1, *range(1, spatial_rank + 1)])


def channels_last(writer: Writer, name: str, spatial_rank: int) -> str:
    """Write a transposition of images from channels second to channels last; return its name."""
    return writer.emit("Transpose", [name], perm=[0, *range(2, spatial_rank + 2), 1])


def _write_bias_and_activation(
    writer: Writer, call: CallPair, result_name: str, operands: list[str], outputs: list[str]
) -> None:
    """Write the bias and the activation of a fused kernel; operands are the bias and the weights of PReLU."""
    bias, weights = [*operands, "", ""][:2]
    result_name = writer.emit("Add", [result_name, bias]) if bias else result_name
    activation = call.attrs.get("activation", "linear")
    if activation == "relu6":
        bounds = [write_number(writer, call, value) for value in (0, 6)]
        writer.emit("Clip", [result_name, *bounds], outputs)
    elif activation == "leakyrelu":
        writer.emit("LeakyRelu", [result_name], outputs, alpha=call.attrs["leakyrelu_alpha"])
    elif activation == "prelu":
        writer.emit("PRelu", [result_name, weights], outputs)
    else:
        kinds = {"linear": "Identity", "relu": "Relu", "sigmoid": "Sigmoid", "elu": "Elu"}
        writer.emit(kinds[activation], [result_name], outputs)
