"""Rules about filters and windows that slide over images, and about normalizations."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from consistency.rules.reasons import ANY_RANK, BROADCASTS, CHANNELS_FIRST, PARTIAL
from consistency.rules.row import called, changed, like, ones, refused, taken
from plugrad.errors import ArgumentError, ArgumentValueError, DTypeError, ShapeError
from properties.calls import IMG, ROW, VOL, F

FIRST = {"data_format": "NCHW", "x": np.moveaxis(IMG, -1, 1)}
POOLED = "avg_pool max_pool"
CONVOLVED = "conv2d depthwise_conv2d"
FUSED = "fused.conv2d fused.depthwise_conv2d"
ROUNDED = "conv1d conv2d depthwise_conv2d avg_pool avg_pool3d max_pool max_pool3d"
POOLED_GRADIENTS = """
    internal.avg_pool3d_grad internal.max_pool3d_grad internal.avg_pool_grad internal.max_pool_grad
"""
ROUNDED_GRADIENTS = (
    *("internal.avg_pool3d_grad", "internal.conv2d_backprop_filter"),
    *("internal.conv2d_backprop_input", "internal.max_pool3d_grad"),
)
FILTER_GRADIENTS = "internal.conv2d_backprop_filter internal.conv3d_backprop_filter"
INPUT_GRADIENTS = "internal.conv2d_backprop_input internal.conv3d_backprop_input"
PADDINGS = "must be 'same', 'valid', a number of cells, or one (before, after)"


def same(op: str, change: dict[str, Any], **_: Any) -> Any:
    """Return what another call of the op gives."""
    return called(op, changed(op, change)).numpy()


def with_channels_last(op: str, **_: Any) -> Any:
    """Return what the call that works gives, with the channels in front."""
    return np.moveaxis(called(op, changed(op, {})).numpy(), -1, 1)


def in_steps_of_2(op: str, **_: Any) -> Any:
    """Return every second result of the call with dilations and without strides."""
    dilation = "dilation" if op == "conv1d" else "dilations"
    y = called(op, changed(op, {dilation: 2})).numpy()
    return y[(slice(None), *(slice(None, None, 2),) * (y.ndim - 2))]


IMAGES = (
    *(
        refused(
            *(
                "x is float",
                f"avg_pool avg_pool3d {CONVOLVED} {FUSED}",
                {"x": like(dtype)},
                DTypeError,
            ),
            *("{op}: x", f"is {dtype}", "must be a float; convert it, as in plugrad.astype"),
        )
        for dtype in ("int32", "bool")
    ),
    *(
        refused(
            *("filter is float", f"{CONVOLVED} {FUSED}", {"filter": like(dtype)}, DTypeError),
            *("{op}: filter", f"is {dtype}", "must be a float; convert it, as in plugrad.astype"),
        )
        for dtype in ("int32", "bool")
    ),
    *(
        refused(
            *("rank of x", ops, {name: x}, ShapeError),
            *("{op}: x", str(x.shape), f"must have {rank} or {rank + 1} axes"),
        )
        for ops, name, rank, wrong in (
            (f"{POOLED} separable_conv2d {CONVOLVED}", "x", 3, ((4, 4), (1, 1, 4, 4, 3))),
            ("pool", "x", 3, ((4, 4), (1, 1, 4, 4, 3))),
            ("conv3d avg_pool3d max_pool3d", "x", 4, ((3, 3, 2), (1, 1, 3, 3, 3, 2))),
            ("conv1d", "x", 2, ((4,), (1, 2, 4, 3))),
        )
        for x in (ones(*shape) for shape in wrong)
    ),
    taken(
        *("rank of x", "local_response_normalization", {"x": IMG[0, 0]}),
        *(ANY_RANK, lambda x, **_: same("local_response_normalization", {})[0, 0]),
    ),
    *(
        refused(
            *("rank of filter", ops, {"filter": ones(*shape)}, ShapeError),
            *("{op}: x … filter", str(shape), f"and filter {rank}"),
        )
        for ops, rank, shape in (
            ("conv1d", 3, (2, 2, 3, 2)),
            (CONVOLVED, 4, (2, 2, 3)),
            ("conv3d", 5, (2, 2, 2, 3)),
        )
    ),
    *(
        refused(
            *("channels", op, {"filter": ones(*shape)}, ShapeError),
            *(f"{kernel} … : images … filters", str(shown), f"have {has} channels … expect 4"),
        )
        for op, kernel, shape, shown, has in (
            ("conv1d", "conv1d: x of shape (2, 4, 3)", (2, 4, 2), (2, 4, 2), 3),
            ("conv2d", "Conv2D", (2, 2, 4, 2), (2, 2, 4, 2), 3),
            ("depthwise_conv2d", "DepthwiseConv2", (2, 2, 4, 2), (2, 2, 4, 2), 3),
            ("conv3d", "Conv3D", (2, 2, 2, 4, 3), (2, 2, 2, 4, 3), 2),
        )
    ),
    *(
        taken(
            *("strides or dilations", op, {stride: 2, dilation: 2}),
            *("windows may lie apart, and their cells as well", partial(in_steps_of_2, op)),
        )
        for op, stride, dilation in (
            ("conv1d", "stride", "dilation"),
            ("conv2d", "strides", "dilations"),
            ("depthwise_conv2d", "strides", "dilations"),
            ("separable_conv2d", "strides", "dilations"),
            ("conv3d", "strides", "dilations"),
        )
    ),
    taken(
        *("strides or dilations", "pool", {"strides": 2, "dilations": 2}),
        *("windows may lie apart, and their cells as well", IMG[:, 2:3, 2:3]),
    ),
    *(
        refused(
            *("positive steps", ops, {name: 0}, ArgumentValueError),
            *(f"{{op}}: {name}", "=0", "integers of at least 1"),
        )
        for ops, names in (
            ("conv1d", "stride dilation"),
            ("conv2d conv3d", "strides dilations"),
            ("avg_pool3d", "strides"),
        )
        for name in names.split()
    ),
    refused(
        *("strides", POOLED, {"strides": 0}, ArgumentValueError),
        *("{op}: strides", "=0", "must be one or 2 integers of at least 1"),
    ),
    taken(
        *("strides", "max_pool", {"strides": 3}),
        *("a window without dilations has any stride", IMG[:, 1:2, 1:2]),
    ),
    refused(
        *("data_format", "conv1d", {"data_format": "NHWC"}, ArgumentValueError),
        *("conv1d: data_format", "='NHWC'", "must be 'NWC' or 'NCW'"),
    ),
    taken(
        *("data_format", "conv1d", {"data_format": "NCW", "x": np.moveaxis(ROW, -1, 1)}),
        *(CHANNELS_FIRST, partial(with_channels_last, "conv1d")),
    ),
    refused(
        *("data_format", "conv3d", {"data_format": "NHWC"}, ArgumentValueError),
        *("conv3d: data_format", "='NHWC'", "must be 'NDHWC' or 'NCDHW'"),
    ),
    taken(
        *("data_format", "conv3d", {"data_format": "NCDHW", "x": np.moveaxis(VOL, -1, 1)}),
        *(CHANNELS_FIRST, partial(with_channels_last, "conv3d")),
    ),
    *(
        taken(
            *("data_format", op, {"data_format": "NCDHW", "x": np.moveaxis(VOL, -1, 1)}),
            *(CHANNELS_FIRST, partial(with_channels_last, op)),
        )
        for op in ("avg_pool3d", "max_pool3d")
    ),
    taken(
        *("data_format", "separable_conv2d", FIRST),
        *(CHANNELS_FIRST, partial(with_channels_last, "separable_conv2d")),
    ),
    taken(
        *("data_format", "dilation2d", FIRST),
        *(CHANNELS_FIRST, partial(with_channels_last, "dilation2d")),
    ),
    taken(
        "data_format",
        "fused.conv2d",
        {**FIRST, **{n: ones(2, 1, 1) for n in ("bias", "prelu_activation_weights")}},
        CHANNELS_FIRST,
        lambda **_: np.moveaxis(
            same("fused.conv2d", {n: ones(2) for n in ("bias", "prelu_activation_weights")}), -1, 1
        ),
    ),
    refused(
        *("padding in cells", ROUNDED, {"dim_rounding_mode": "ceil", "padding": "same"}),
        *(ArgumentValueError, "{op}: dim_rounding_mode", "='ceil' … padding='same'"),
        "omit it, or give the padding in cells",
    ),
    *(
        taken(
            *("padding in cells", op, {"dim_rounding_mode": "ceil", "padding": "valid"}),
            PARTIAL,
            partial(same, op, {"dim_rounding_mode": "ceil", "padding": 0}),
        )
        for op in ROUNDED.split()
    ),
    *(
        refused(
            *("padding in cells", ROUNDED, {"dim_rounding_mode": "ceil", "padding": pad}),
            *(ArgumentValueError, "{op}: padding", f"={pad!r}", PADDINGS),
        )
        for pad in (0.5, [(0, 0.5), (0, 0.5)])
    ),
    *(
        taken(
            *("padding in cells", op, {"dim_rounding_mode": "ceil", "pad": "valid"}),
            *(PARTIAL, partial(same, op, {})),
        )
        for op in ROUNDED_GRADIENTS
    ),
    refused(
        *("padding in cells", " ".join(ROUNDED_GRADIENTS), {"pad": ((0, 0.5), (0, 0.5))}),
        *(ArgumentValueError, "{op}: pad", "=((0, 0.5), (0, 0.5))", PADDINGS),
    ),
    *(
        refused(
            *("shapes", op, {"output_shape": shape}, ShapeError),
            *("{op}: output_shape", f"={shape}", "must have as many sizes as x"),
        )
        for op, shape in (("conv2d_transpose", (5, 5, 2)), ("conv3d_transpose", (4, 4, 4, 3)))
    ),
    refused(
        *("shapes", "conv2d_transpose", {"filter": ones(2, 2, 2, 4)}, ShapeError),
        *("Conv2DBackpropInput: dy", "has shape (2, 4, 4, 3)", "give (2, 4, 4, 4)"),
    ),
    refused(
        *("shapes", "conv3d_transpose", {"filter": ones(2, 2, 2, 3, 4)}, ShapeError),
        *("Conv3DBackpropInputV2: dy", "has shape (2, 3, 3, 3, 2)", "give (2, 3, 3, 3, 4)"),
    ),
    *(
        refused(
            *("ranks", "dilation2d", {name: ones(*shape)}, ShapeError),
            *(f"dilation2d: {name}" if name == "x" else "filter", str(shape)),
            "x must have 3 or 4 axes and filter 3",
        )
        for name, shape in (("x", (4, 4)), ("filter", (2, 2, 3, 1)))
    ),
    refused(
        *("channels", "dilation2d", {"filter": ones(2, 2, 4)}, ShapeError),
        *("Dilation2D: images", "(2, 4, 4, 3) and (2, 2, 4)", "must have the same channels"),
    ),
    refused(
        *("type and padding", "pool", {"pooling_type": "sum"}, ArgumentValueError),
        *("pool: pooling_type", "='sum'", "must be 'max' or 'avg'"),
    ),
    taken(
        *("type and padding", "pool", {"padding": 0, "dim_rounding_mode": None}),
        "no cells of padding are as good as none",
        partial(same, "pool", {"padding": "valid", "dim_rounding_mode": None}),
    ),
    refused(
        *("filters", "separable_conv2d", {"depthwise_filter": ones(2, 2, 3)}, ShapeError),
        *("separable_conv2d: x … filter", "and (2, 2, 3)", "must have 3 or 4 axes and filter 4"),
    ),
    *(
        refused(
            *("filters", "separable_conv2d", {"pointwise_filter": ones(*shape)}, ShapeError),
            *("separable_conv2d: pointwise_filter", str(shape), "need (1, 1, 6, output channels)"),
        )
        for shape in ((1, 6, 2), (2, 1, 6, 2), (1, 1, 5, 2))
    ),
    *(
        refused(
            *("bias", op, {"bias": ones(size)}, ShapeError),
            *(
                f"{kernel}: bias",
                f"({size},)",
                f"does not broadcast to the result of shape {shape}",
            ),
        )
        for op, kernel, size, shape in (
            ("fused.conv2d", "FusedConv2D", 3, (2, 3, 3, 2)),
            ("fused.depthwise_conv2d", "FusedDepthwiseConv2D", 2, (2, 3, 3, 3)),
            ("fused.mat_mul", "_FusedMatMul", 3, (2, 2)),
        )
    ),
    *(
        refused(
            *("slopes", "fused.conv2d", {"prelu_activation_weights": ones(*shape)}, ShapeError),
            *("FusedConv2D: prelu_activation_weights", str(shape)),
            "does not broadcast to the result of shape (2, 3, 3, 2)",
        )
        for shape in ((3,), (1, 1, 1, 1, 2))
    ),
)

AS_PLAIN = tuple(
    replace(row, label="as without fusing", ops=f"fused.{op}")
    for row in IMAGES
    for op in CONVOLVED.split()
    if op in row.names and row.error and row.label not in ("x is float", "filter is float")
)

GRADIENTS = (
    refused(
        *("ranks", POOLED_GRADIENTS, {"dy": ones(2, 2)}, ShapeError),
        *("{op}: dy", "has shape (2, 2)", "give (2, 2, 2"),
    ),
    refused(
        *("ranks", POOLED_GRADIENTS, {"input": ones(2, 2)}, ShapeError),
        *("{op}: images", "the shape is (2, 2)", "have a batch axis"),
    ),
    refused(
        *("ranks", "internal.max_pool3d_grad internal.max_pool_grad", {"output": ones(2, 2)}),
        *(ShapeError, "{op}: output", "has shape (2, 2)", "give (2, 2, 2"),
    ),
    refused(
        *("ranks", FILTER_GRADIENTS, {"x": ones(2, 2)}, ShapeError),
        *("{op}: images", "the shape is (2, 2)", "have a batch axis"),
    ),
    refused(
        *("ranks", f"{FILTER_GRADIENTS} {INPUT_GRADIENTS}", {"dy": ones(2, 2)}, ShapeError),
        *("{op}: dy", "has shape (2, 2)", "images of shape (2, … give (2, "),
    ),
    refused(
        *("ranks", FILTER_GRADIENTS, {"filter_shape": (2, 2, 2)}, ShapeError),
        *("{op}: images … filters", "and (2, 2, 2)", "filters of a convolution have"),
    ),
    refused(
        *("ranks", INPUT_GRADIENTS, {"filter": ones(2, 2, 2)}, ShapeError),
        *("{op}: images … filters", "and (2, 2, 2)", "filters of a convolution have"),
    ),
    *(
        refused(
            *(
                "channels",
                op,
                {name: shape if name == "filter_shape" else ones(*shape)},
                ShapeError,
            ),
            *("{op}: images … filters", str(shape), f"have {channels} channels … expect 4"),
        )
        for op, name, shape, channels in (
            ("internal.conv2d_backprop_filter", "filter_shape", (2, 2, 4, 2), 3),
            ("internal.conv3d_backprop_filter", "filter_shape", (2, 2, 2, 4, 3), 2),
            ("internal.conv2d_backprop_input", "filter", (2, 2, 4, 2), 3),
            ("internal.conv3d_backprop_input", "filter", (2, 2, 2, 4, 3), 2),
        )
    ),
)

NORMALIZATIONS = (
    refused(
        *("radius", "local_response_normalization", {"depth_radius": 1.5}, ArgumentError),
        *("{op}: depth_radius", "=1.5", "must be an integer"),
    ),
    *(
        taken(
            *("ranks", "batch_norm", {name: ones(1, 3)}, BROADCASTS),
            partial(same, "batch_norm", {name: ones(3)}),
        )
        for name in ("mean", "variance", "offset", "scale")
    ),
    *(
        taken("rank of x", op, {"x": x}, ANY_RANK, lambda x, **_: same("batch_norm", {"x": x}))
        for op, x in (("batch_norm2d", F[0]), ("batch_norm3d", F), ("batch_norm4d", F))
    ),
    *(
        taken(
            *("ranks", op, {"x": x, "mean": ones(*(1,) * rank, 3)}),
            *(BROADCASTS, partial(same, "batch_norm", {"x": x, "mean": ones(3)})),
        )
        for op, x, rank in (
            ("batch_norm3d", np.stack([F, F]), 1),
            ("batch_norm4d", np.stack([np.stack([F, F])] * 2), 2),
        )
    ),
    *(
        refused(
            *("ranks", "batch_norm2d", {name: ones(2, 2, 3)}, ShapeError),
            *(f"FusedBatchNorm: {name}", "(2, 2, 3)", "does not broadcast to x of shape (2, 3)"),
        )
        for name in ("mean", "variance", "offset", "scale")
    ),
)

WINDOWS = (*IMAGES, *AS_PLAIN, *GRADIENTS, *NORMALIZATIONS)
