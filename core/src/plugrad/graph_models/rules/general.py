"""Rules that write most kernels as nodes of TensorFlow.js."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from plugrad.errors import UnsupportedModel
from plugrad.graph_models.writing import WRITE_RULES, output_names, write_rule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plugrad.graph_models.writing import GraphWriter, TracedCall, WriteRule

OPERATOR_NAMES_BY_KERNEL: Final = {
    **{name: name for name in (
        "Abs", "Acos", "Acosh", "AddN", "Asin", "Asinh", "Atan", "Atan2", "Atanh",
        "BroadcastArgs", "Ceil", "Complex", "ComplexAbs", "Cos", "Cosh", "Elu", "Equal", "Erf", "Exp", "Expm1",
        "FFT", "Floor", "GatherNd", "Greater", "GreaterEqual", "IFFT", "Imag", "IsFinite", "IsInf",
        "IsNan", "Less", "LessEqual", "Log", "Log1p", "LogicalAnd", "LogicalNot", "LogicalOr", "LowerBound",
        "Maximum", "Minimum", "Neg", "NotEqual", "OnesLike", "Pow", "Prelu", "Real",
        "Reciprocal", "Relu", "Relu6", "Round", "Rsqrt", "Selu", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus",
        "SparseReshape", "Sqrt", "Square",
        "SquaredDifference", "Sub", "Tan", "Tanh", "UpperBound", "ZerosLike",
    )},
    "Add": "AddV2", "LogicalXor": "NotEqual", "Mod": "FloorMod", "Multiply": "Mul", "RealDiv": "RealDiv",
    "Select": "SelectV2",
}  # fmt: skip
"""Kernels that are one operator, with the same inputs."""
ATTRIBUTE_NAMES_BY_KERNEL: Final = {
    "DepthToSpace": ("block_size", "data_format"),
    "Einsum": ("equation",),
    "LRN": ("depth_radius", "bias", "alpha", "beta"),
    "StaticRegexReplace": ("pattern", "rewrite", "replace_global"),
    "StringToHashBucketFast": ("num_buckets",),
}
"""Kernels that are the operator of their name, with these attributes."""
REDUCTION_KERNELS: Final = ("All", "Any", "EuclideanNorm", "Max", "Mean", "Min", "Prod", "Sum")
"""The kernels that `write_reduction` writes."""


def _make_direct_rule(operator_name: str) -> WriteRule:
    """Return a rule that writes a kernel as an operator with the same inputs."""

    def write(writer: GraphWriter, traced_call: TracedCall, input_names: list[str]) -> str:
        return writer.write_node(operator_name, input_names, T=traced_call.dtype())

    return write


def _make_attribute_rule(operator_name: str, attribute_names: Sequence[str]) -> WriteRule:
    """Return a rule that writes a kernel as an operator with some of its attributes."""

    def write(writer: GraphWriter, traced_call: TracedCall, input_names: list[str]) -> str:
        attrs: dict[str, Any] = {name: traced_call.attrs[name] for name in attribute_names}
        return writer.write_node(operator_name, input_names, N=len(input_names), **attrs)

    return write


WRITE_RULES.update(
    {kernel: _make_direct_rule(op) for kernel, op in OPERATOR_NAMES_BY_KERNEL.items()}
)
WRITE_RULES.update(
    {name: _make_attribute_rule(name, attrs) for name, attrs in ATTRIBUTE_NAMES_BY_KERNEL.items()}
)


@write_rule(*REDUCTION_KERNELS)
def write_reduction(writer: GraphWriter, traced_call: TracedCall, input_names: list[str]) -> str:
    """Write a reduction."""
    axes = traced_call.attrs.get("axis", traced_call.attrs.get("reduction_indices"))
    axes = [axes] if isinstance(axes, int) else list(axes)
    keep = bool(traced_call.attrs["keep_dims"])
    return writer.write_node(
        traced_call.kernel,
        [input_names[0], writer.write_integers(axes)],
        keep_dims=keep,
        T=traced_call.dtype(),
    )


@write_rule("ArgMax", "ArgMin")
def write_arg_extremum(writer: GraphWriter, traced_call: TracedCall, input_names: list[str]) -> str:
    """Write ArgMax or ArgMin."""
    return writer.write_node(
        traced_call.kernel,
        [input_names[0], writer.write_number(traced_call.attrs["axis"], "int32")],
    )


@write_rule("Cumsum", "Cumprod")
def write_cumulative(writer: GraphWriter, traced_call: TracedCall, input_names: list[str]) -> str:
    """Write a cumulative sum or product."""
    axis = writer.write_number(traced_call.attrs["axis"], "int32")
    flags: dict[str, Any] = {
        name: bool(traced_call.attrs[name]) for name in ("exclusive", "reverse")
    }
    return writer.write_node(traced_call.kernel, [input_names[0], axis], **flags)


@write_rule("FloorDiv")
def write_floor_divide(writer: GraphWriter, traced_call: TracedCall, input_names: list[str]) -> str:
    """Write a quotient rounded down; TensorFlow.js's operator returns integers."""
    if traced_call.dtype() == "int32":
        return writer.write_node("FloorDiv", input_names, T="int32")
    return writer.write_node(
        "Floor", [writer.write_node("RealDiv", input_names, T=traced_call.dtype())]
    )


@write_rule("Trunc")
def write_truncate(writer: GraphWriter, traced_call: TracedCall, input_names: list[str]) -> str:
    """Write rounding towards zero."""
    if traced_call.dtype() != "float32":
        return writer.write_node("Identity", input_names)
    size = writer.write_node("Floor", [writer.write_node("Abs", input_names)])
    return writer.write_node("Mul", [writer.write_node("Sign", input_names), size], T="float32")


@write_rule("Log2", "Log10")
def write_logarithm(writer: GraphWriter, traced_call: TracedCall, input_names: list[str]) -> str:
    """Write a logarithm with another base."""
    base = {"Log2": 2.0, "Log10": 10.0}[traced_call.kernel]
    factor = writer.write_number(1 / np.log(base), traced_call.dtype())
    return writer.write_node(
        "Mul", [writer.write_node("Log", input_names), factor], T=traced_call.dtype()
    )


@write_rule("Step")
def write_step_function(
    writer: GraphWriter, traced_call: TracedCall, input_names: list[str]
) -> str:
    """Write 1 where positive, and a constant elsewhere."""
    dtype = traced_call.dtype()
    above = writer.write_node("Greater", [input_names[0], writer.write_number(0, dtype)], T=dtype)
    return writer.write_node(
        "SelectV2",
        [
            above,
            writer.write_number(1, dtype),
            writer.write_number(traced_call.attrs["alpha"], dtype),
        ],
    )


@write_rule("Gelu")
def write_gelu(writer: GraphWriter, traced_call: TracedCall, input_names: list[str]) -> str:
    """Write x Φ(x), with Φ(x) = (1 + erf(x / √2)) / 2."""
    inner = writer.write_node("Mul", [input_names[0], writer.write_number(0.5**0.5)], T="float32")
    return _write_half_product(writer, input_names[0], writer.write_node("Erf", [inner]))


@write_rule("GeluTanh")
def write_gelu_tanh(writer: GraphWriter, traced_call: TracedCall, input_names: list[str]) -> str:
    """Write GELU's approximation with tanh, x (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2."""
    (x,) = input_names
    cube = writer.write_node("Mul", [writer.write_node("Square", [x]), x], T="float32")
    cube = writer.write_node("Mul", [cube, writer.write_number(0.044715)], T="float32")
    total = writer.write_node("AddV2", [x, cube], T="float32")
    scaled = writer.write_node("Mul", [total, writer.write_number((2 / np.pi) ** 0.5)], T="float32")
    return _write_half_product(writer, x, writer.write_node("Tanh", [scaled]))


def _write_half_product(writer: GraphWriter, x: str, y: str) -> str:
    """Write x (1 + y) / 2."""
    total = writer.write_node("AddV2", [y, writer.write_number(1.0)], T="float32")
    half = writer.write_node("Mul", [x, writer.write_number(0.5)], T="float32")
    return writer.write_node("Mul", [half, total], T="float32")


@write_rule("Conj")
def write_conjugate(writer: GraphWriter, traced_call: TracedCall, input_names: list[str]) -> str:
    """Write complex conjugates."""
    imaginary = writer.write_node("Neg", [writer.write_node("Imag", input_names)])
    return writer.write_node("Complex", [writer.write_node("Real", input_names), imaginary])


@write_rule("LeakyRelu")
def write_leaky_relu(writer: GraphWriter, traced_call: TracedCall, input_names: list[str]) -> str:
    """Write a LeakyRelu node."""
    return writer.write_node("LeakyRelu", input_names, alpha=float(traced_call.attrs["alpha"]))


@write_rule("ClipByValue")
def write_clip(writer: GraphWriter, traced_call: TracedCall, input_names: list[str]) -> str:
    """Write ClipByValue, whose bounds are inputs."""
    names = ("clip_value_min", "clip_value_max")
    bounds = [writer.write_number(traced_call.attrs[name], traced_call.dtype()) for name in names]
    return writer.write_node("ClipByValue", [input_names[0], *bounds], T=traced_call.dtype())


@write_rule("Cast")
def write_cast(writer: GraphWriter, traced_call: TracedCall, input_names: list[str]) -> str:
    """Write a Cast node."""
    return writer.write_node(
        "Cast", input_names, DstT=traced_call.dtype(is_output=True), SrcT=traced_call.dtype()
    )


# --- shapes ---------------------------------------------------------------------------------------


@write_rule("Reshape", "ExpandDims")
def write_reshape(writer: GraphWriter, traced_call: TracedCall, input_names: list[str]) -> str:
    """Write a Reshape node."""
    shape = writer.write_shape(*traced_call.shape(is_output=True))
    return writer.write_node("Reshape", [input_names[0], shape], T=traced_call.dtype())


@write_rule("Transpose")
def write_transpose(writer: GraphWriter, traced_call: TracedCall, input_names: list[str]) -> str:
    """Write a Transpose node."""
    return writer.write_node(
        "Transpose",
        [input_names[0], writer.write_integers(traced_call.attrs["perm"])],
        T=traced_call.dtype(),
    )


@write_rule("Fill")
def write_fill(writer: GraphWriter, traced_call: TracedCall, input_names: list[str]) -> str:
    """Write a Fill node."""
    dtype = traced_call.dtype(is_output=True)
    value = writer.write_constant(np.array(traced_call.attrs["value"], dtype))
    shape = writer.write_integers(*traced_call.attribute_in_both_traces("shape"))
    return writer.write_node("Fill", [shape, value], T=dtype)


@write_rule("BroadcastTo")
def write_broadcast(writer: GraphWriter, traced_call: TracedCall, input_names: list[str]) -> str:
    """Write a BroadcastTo node."""
    return writer.write_node(
        "BroadcastTo",
        [input_names[0], writer.write_integers(*traced_call.attribute_in_both_traces("shape"))],
        T=traced_call.dtype(),
    )


@write_rule("Tile")
def write_tile(writer: GraphWriter, traced_call: TracedCall, input_names: list[str]) -> str:
    """Write a Tile node."""
    return writer.write_node(
        "Tile",
        [input_names[0], writer.write_integers(*traced_call.attribute_in_both_traces("reps"))],
        T=traced_call.dtype(),
    )


@write_rule("Slice")
def write_slice(writer: GraphWriter, traced_call: TracedCall, input_names: list[str]) -> str:
    """Write Slice, and Squeeze for the axes that integer indices remove; a size of -1 takes the rest."""
    begins, sizes, shapes = (
        traced_call.attribute_in_both_traces("begin"),
        traced_call.attribute_in_both_traces("size"),
        traced_call.shape(),
    )
    open_ended = [
        -1
        if a != b and begins[0][n] + a == shapes[0][n] and begins[1][n] + b == shapes[1][n]
        else a
        for n, (a, b) in enumerate(zip(*sizes, strict=True))
    ]
    other = [b if n != -1 else -1 for n, b in zip(open_ended, sizes[1], strict=True)]
    given = [
        input_names[0],
        writer.write_integers(*begins),
        writer.write_integers(open_ended, other),
    ]
    part = writer.write_node("Slice", given, T=traced_call.dtype())
    dropped = list(traced_call.attrs["drop"])
    return writer.write_node("Squeeze", [part], squeeze_dims=dropped) if dropped else part


@write_rule("StridedSlice")
def write_strided_slice(
    writer: GraphWriter, traced_call: TracedCall, input_names: list[str]
) -> str:
    """Write StridedSlice; masks stand for the ends of an axis."""
    strides = traced_call.attrs["strides"]
    begins, ends, shapes = (
        traced_call.attribute_in_both_traces("begin"),
        traced_call.attribute_in_both_traces("end"),
        traced_call.shape(),
    )
    begin_mask = end_mask = 0
    bounds: list[list[int]] = [[], []]
    for n, stride in enumerate(strides):
        first, last = ([pair[k][n] for k in (0, 1)] for pair in (begins, ends))
        sizes = [shape[n] for shape in shapes]
        from_start = all(
            b == (0 if stride > 0 else size - 1) for b, size in zip(first, sizes, strict=True)
        )
        to_end = all(
            e == size if stride > 0 else e < 0 for e, size in zip(last, sizes, strict=True)
        )
        begin_mask |= from_start << n
        end_mask |= to_end << n
        if (first[0] != first[1] and not from_start) or (last[0] != last[1] and not to_end):
            raise traced_call.unsupported("its bounds depend on the size of the batch")
        bounds[0].append(0 if from_start else first[0])
        bounds[1].append(0 if to_end else last[0])
    given = [writer.write_integers(part) for part in (*bounds, strides)]
    return writer.write_node(
        "StridedSlice", [input_names[0], *given], begin_mask=begin_mask, end_mask=end_mask, ellipsis_mask=0,
        new_axis_mask=0, shrink_axis_mask=0, T=traced_call.dtype(),
    )  # fmt: skip


@write_rule("Reverse")
def write_reverse(writer: GraphWriter, traced_call: TracedCall, input_names: list[str]) -> str:
    """Write a ReverseV2 node."""
    return writer.write_node(
        "ReverseV2",
        [input_names[0], writer.write_integers(traced_call.attrs["dims"])],
        T=traced_call.dtype(),
    )


@write_rule("Concat")
def write_concat(writer: GraphWriter, traced_call: TracedCall, input_names: list[str]) -> str:
    """Write a ConcatV2 node."""
    axis = writer.write_number(traced_call.attrs["axis"], "int32")
    return writer.write_node(
        "ConcatV2", [*input_names, axis], N=len(input_names), T=traced_call.dtype()
    )


@write_rule("Pack")
def write_pack(writer: GraphWriter, traced_call: TracedCall, input_names: list[str]) -> str:
    """Write a Pack node."""
    return writer.write_node(
        "Pack",
        input_names,
        N=len(input_names),
        axis=traced_call.attrs["axis"],
        T=traced_call.dtype(),
    )


@write_rule("Unpack")
def write_unpack(
    writer: GraphWriter, traced_call: TracedCall, input_names: list[str]
) -> Sequence[str]:
    """Write an Unpack node."""
    count = len(traced_call.calls[0].outputs)
    return output_names(
        writer.write_node("Unpack", input_names, num=count, axis=traced_call.attrs["axis"]), count
    )


@write_rule("SplitV")
def write_split(
    writer: GraphWriter, traced_call: TracedCall, input_names: list[str]
) -> Sequence[str]:
    """Write Split or SplitV."""
    sizes = writer.write_integers(*traced_call.attribute_in_both_traces("num_or_size_splits"))
    count = len(traced_call.calls[0].outputs)
    given = [input_names[0], sizes, writer.write_number(traced_call.attrs["axis"], "int32")]
    return output_names(
        writer.write_node("SplitV", given, num_split=count, T=traced_call.dtype()), count
    )


@write_rule("PadV2")
def write_pad(writer: GraphWriter, traced_call: TracedCall, input_names: list[str]) -> str:
    """Write a PadV2 node."""
    value = traced_call.attrs["constant_value"]
    filling = writer.write_constant(
        np.array(value, traced_call.dtype() if traced_call.dtype() != "string" else object)
    )
    return writer.write_node(
        "PadV2",
        [input_names[0], _write_pairs(writer, traced_call.attrs["paddings"]), filling],
        T=traced_call.dtype(),
    )


@write_rule("MirrorPad")
def write_mirror_pad(writer: GraphWriter, traced_call: TracedCall, input_names: list[str]) -> str:
    """Write a MirrorPad node."""
    given = [input_names[0], _write_pairs(writer, traced_call.attrs["paddings"])]
    return writer.write_node(
        "MirrorPad", given, mode=str(traced_call.attrs["mode"]).upper(), T=traced_call.dtype()
    )


@write_rule("SpaceToBatchND", "BatchToSpaceND")
def write_space_and_batch(
    writer: GraphWriter, traced_call: TracedCall, input_names: list[str]
) -> str:
    """Write SpaceToBatchND or BatchToSpaceND."""
    pairs = traced_call.attrs["paddings" if traced_call.kernel == "SpaceToBatchND" else "crops"]
    given = [
        input_names[0],
        writer.write_integers(traced_call.attrs["block_shape"]),
        _write_pairs(writer, pairs),
    ]
    return writer.write_node(traced_call.kernel, given, T=traced_call.dtype())


# --- indices --------------------------------------------------------------------------------------


@write_rule("GatherV2")
def write_gather(writer: GraphWriter, traced_call: TracedCall, input_names: list[str]) -> str:
    """Write a GatherV2 node."""
    axis = writer.write_number(traced_call.attrs["axis"], "int32")
    return writer.write_node(
        "GatherV2", [*input_names[:2], axis], batch_dims=traced_call.attrs["batch_dims"]
    )


@write_rule("ScatterNd", "SparseToDense")
def write_scatter(writer: GraphWriter, traced_call: TracedCall, input_names: list[str]) -> str:
    """Write a ScatterNd node."""
    if traced_call.kernel == "ScatterNd":
        shape = writer.write_integers(*traced_call.attribute_in_both_traces("shape"))
        return writer.write_node("ScatterNd", [*input_names, shape], T=traced_call.dtype(1))
    shape = writer.write_integers(*traced_call.attribute_in_both_traces("output_shape"))
    return writer.write_node(
        "SparseToDense", [input_names[0], shape, *input_names[1:]], T=traced_call.dtype(1)
    )


@write_rule("TensorScatterUpdate")
def write_scatter_update(
    writer: GraphWriter, traced_call: TracedCall, input_names: list[str]
) -> str:
    """Write TensorScatterUpdate on a copy, because TensorFlow.js changes its input."""
    dtype = traced_call.dtype()
    copy = writer.write_node("Mul", [input_names[0], writer.write_number(1, dtype)], T=dtype)
    return writer.write_node("TensorScatterUpdate", [copy, *input_names[1:]], T=dtype)


@write_rule("OneHot")
def write_one_hot(writer: GraphWriter, traced_call: TracedCall, input_names: list[str]) -> str:
    """Write a OneHot node."""
    dtype = traced_call.dtype(is_output=True)
    values = [
        writer.write_number(traced_call.attrs[name], dtype) for name in ("on_value", "off_value")
    ]
    depth = writer.write_number(traced_call.attrs["depth"], "int32")
    return writer.write_node("OneHot", [input_names[0], depth, *values], axis=-1, T=dtype)


@write_rule("TopK")
def write_top_k(writer: GraphWriter, traced_call: TracedCall, input_names: list[str]) -> str:
    """Write a TopKV2 node."""
    k = writer.write_number(traced_call.attrs["k"], "int32")
    return writer.write_node(
        "TopKV2", [input_names[0], k], sorted=bool(traced_call.attrs["sorted"])
    )


@write_rule("Bincount", "DenseBincount")
def write_bincount(writer: GraphWriter, traced_call: TracedCall, input_names: list[str]) -> str:
    """Write Bincount or DenseBincount."""
    flags: dict[str, Any] = (
        {"binary_output": bool(traced_call.attrs["binary_output"])}
        if "binary_output" in traced_call.attrs
        else {}
    )
    size = writer.write_number(traced_call.attrs["size"], "int32")
    weights = input_names[1] or writer.write_constant(np.zeros(0, np.float32))
    return writer.write_node(traced_call.kernel, [input_names[0], size, weights], **flags)


@write_rule("MatrixBandPart")
def write_band_part(writer: GraphWriter, traced_call: TracedCall, input_names: list[str]) -> str:
    """Write MatrixBandPart; TensorFlow.js reads both widths from one input."""
    lower, upper = (traced_call.constant(place) for place in (1, 2))
    rows, columns = traced_call.shape()[0][-2:]
    if lower is None or upper is None:
        raise traced_call.unsupported("its widths are no constants")
    low, high = int(lower), int(upper)
    distance = np.subtract.outer(np.arange(rows), np.arange(columns))
    inside = np.full((rows, columns), True)
    if low >= 0:
        inside &= distance <= low
    if high >= 0:
        inside &= -distance <= high
    zeros = writer.write_node("ZerosLike", [input_names[0]], T=traced_call.dtype())
    return writer.write_node("SelectV2", [writer.write_constant(inside), input_names[0], zeros])


@write_rule("IRFFT", "RFFT")
def write_fourier(writer: GraphWriter, traced_call: TracedCall, input_names: list[str]) -> str:
    """Write RFFT or IRFFT."""
    length = (
        traced_call.shape() if traced_call.kernel == "RFFT" else traced_call.shape(is_output=True)
    )[0][-1]
    if traced_call.kernel == "IRFFT" and length % 2:
        raise UnsupportedModel(
            f"{traced_call.kernel}: TensorFlow.js gives even lengths, and not {length}"
        )
    return writer.write_node(traced_call.kernel, [input_names[0], writer.write_integers([length])])


def _write_pairs(writer: GraphWriter, pairs: Sequence[Sequence[int]]) -> str:
    """Write pairs of integers, such as paddings, as a constant."""
    return writer.write_constant(np.array(pairs, np.int32).reshape(-1, 2))
