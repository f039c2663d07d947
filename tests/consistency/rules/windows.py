"""Rules about filters and windows that slide over images, and about normalizations."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from consistency.rules.reasons import (
    ANY_RANK_IS_ALLOWED,
    CHANNELS_MAY_COME_FIRST,
    LAST_STRIDE_MAY_BE_PARTIAL,
    OPERANDS_BROADCAST,
)
from consistency.rules.row import accepts, call_op, changed_arguments, ones, ones_like, rejects
from plugrad.errors import ArgumentError, ArgumentValueError, DTypeError, ShapeError
from properties.calls import FLOATS, IMAGES, SEQUENCES, VOLUMES

CHANNELS_FIRST_IMAGES = {"data_format": "NCHW", "x": np.moveaxis(IMAGES, -1, 1)}
POOLING_OPS = "avg_pool max_pool"
CONVOLUTION_OPS = "conv2d depthwise_conv2d"
FUSED_OPS = "fused.conv2d fused.depthwise_conv2d"
OPS_WITH_ROUNDING_MODE = "conv1d conv2d depthwise_conv2d avg_pool avg_pool3d max_pool max_pool3d"
POOLING_GRADIENT_OPS = """
    internal.avg_pool3d_grad internal.max_pool3d_grad internal.avg_pool_grad internal.max_pool_grad
"""
GRADIENT_OPS_WITH_ROUNDING_MODE = (
    *("internal.avg_pool3d_grad", "internal.conv2d_backprop_filter"),
    *("internal.conv2d_backprop_input", "internal.max_pool3d_grad"),
)
FILTER_GRADIENT_OPS = "internal.conv2d_backprop_filter internal.conv3d_backprop_filter"
INPUT_GRADIENT_OPS = "internal.conv2d_backprop_input internal.conv3d_backprop_input"
PADDING_REMEDY = "must be 'same', 'valid', a number of cells, or one (before, after)"


def call_with_changes(op: str, change: dict[str, Any], **_: Any) -> Any:
    """Return the result of an op for other arguments."""
    return call_op(op, changed_arguments(op, change)).numpy()


def call_with_channels_last(op: str, **_: Any) -> Any:
    """Return the result of the valid call, with the channels moved to the front."""
    return np.moveaxis(call_op(op, changed_arguments(op, {})).numpy(), -1, 1)


def every_second_dilated_result(op: str, **_: Any) -> Any:
    """Return every second result of the dilated convolution without strides."""
    dilation = "dilation" if op == "conv1d" else "dilations"
    y = call_op(op, changed_arguments(op, {dilation: 2})).numpy()
    return y[(slice(None), *(slice(None, None, 2),) * (y.ndim - 2))]


CONVOLUTION_RULES = (
    *(
        rejects(
            *(
                "x is float",
                f"avg_pool avg_pool3d {CONVOLUTION_OPS} {FUSED_OPS}",
                {"x": ones_like(dtype)},
                DTypeError,
            ),
            *("{op}: x", f"is {dtype}", "must be a float; convert it, as in plugrad.astype"),
        )
        for dtype in ("int32", "bool")
    ),
    *(
        rejects(
            *(
                "filter is float",
                f"{CONVOLUTION_OPS} {FUSED_OPS}",
                {"filter": ones_like(dtype)},
                DTypeError,
            ),
            *("{op}: filter", f"is {dtype}", "must be a float; convert it, as in plugrad.astype"),
        )
        for dtype in ("int32", "bool")
    ),
    *(
        rejects(
            *("rank of x", ops, {name: x}, ShapeError),
            *("{op}: x", str(x.shape), f"must have {rank} or {rank + 1} axes"),
        )
        for ops, name, rank, wrong in (
            (
                f"{POOLING_OPS} separable_conv2d {CONVOLUTION_OPS}",
                "x",
                3,
                ((4, 4), (1, 1, 4, 4, 3)),
            ),
            ("pool", "x", 3, ((4, 4), (1, 1, 4, 4, 3))),
            ("conv3d avg_pool3d max_pool3d", "x", 4, ((3, 3, 2), (1, 1, 3, 3, 3, 2))),
            ("conv1d", "x", 2, ((4,), (1, 2, 4, 3))),
        )
        for x in (ones(*shape) for shape in wrong)
    ),
    accepts(
        *("rank of x", "local_response_normalization", {"x": IMAGES[0, 0]}),
        *(
            ANY_RANK_IS_ALLOWED,
            lambda x, **_: call_with_changes("local_response_normalization", {})[0, 0],
        ),
    ),
    *(
        rejects(
            *("rank of filter", ops, {"filter": ones(*shape)}, ShapeError),
            *("{op}: x … filter", str(shape), f"and filter {rank}"),
        )
        for ops, rank, shape in (
            ("conv1d", 3, (2, 2, 3, 2)),
            (CONVOLUTION_OPS, 4, (2, 2, 3)),
            ("conv3d", 5, (2, 2, 2, 3)),
        )
    ),
    *(
        rejects(
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
        accepts(
            *("strides or dilations", op, {stride: 2, dilation: 2}),
            *(
                "windows may lie apart, and their cells as well",
                partial(every_second_dilated_result, op),
            ),
        )
        for op, stride, dilation in (
            ("conv1d", "stride", "dilation"),
            ("conv2d", "strides", "dilations"),
            ("depthwise_conv2d", "strides", "dilations"),
            ("separable_conv2d", "strides", "dilations"),
            ("conv3d", "strides", "dilations"),
        )
    ),
    accepts(
        *("strides or dilations", "pool", {"strides": 2, "dilations": 2}),
        *("windows may lie apart, and their cells as well", IMAGES[:, 2:3, 2:3]),
    ),
    *(
        rejects(
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
    rejects(
        *("strides", POOLING_OPS, {"strides": 0}, ArgumentValueError),
        *("{op}: strides", "=0", "must be one or 2 integers of at least 1"),
    ),
    accepts(
        *("strides", "max_pool", {"strides": 3}),
        *("a window without dilations has any stride", IMAGES[:, 1:2, 1:2]),
    ),
    rejects(
        *("data_format", "conv1d", {"data_format": "NHWC"}, ArgumentValueError),
        *("conv1d: data_format", "='NHWC'", "must be 'NWC' or 'NCW'"),
    ),
    accepts(
        *("data_format", "conv1d", {"data_format": "NCW", "x": np.moveaxis(SEQUENCES, -1, 1)}),
        *(CHANNELS_MAY_COME_FIRST, partial(call_with_channels_last, "conv1d")),
    ),
    rejects(
        *("data_format", "conv3d", {"data_format": "NHWC"}, ArgumentValueError),
        *("conv3d: data_format", "='NHWC'", "must be 'NDHWC' or 'NCDHW'"),
    ),
    accepts(
        *("data_format", "conv3d", {"data_format": "NCDHW", "x": np.moveaxis(VOLUMES, -1, 1)}),
        *(CHANNELS_MAY_COME_FIRST, partial(call_with_channels_last, "conv3d")),
    ),
    *(
        accepts(
            *("data_format", op, {"data_format": "NCDHW", "x": np.moveaxis(VOLUMES, -1, 1)}),
            *(CHANNELS_MAY_COME_FIRST, partial(call_with_channels_last, op)),
        )
        for op in ("avg_pool3d", "max_pool3d")
    ),
    accepts(
        *("data_format", "separable_conv2d", CHANNELS_FIRST_IMAGES),
        *(CHANNELS_MAY_COME_FIRST, partial(call_with_channels_last, "separable_conv2d")),
    ),
    accepts(
        *("data_format", "dilation2d", CHANNELS_FIRST_IMAGES),
        *(CHANNELS_MAY_COME_FIRST, partial(call_with_channels_last, "dilation2d")),
    ),
    accepts(
        "data_format",
        "fused.conv2d",
        {
            **CHANNELS_FIRST_IMAGES,
            **{n: ones(2, 1, 1) for n in ("bias", "prelu_activation_weights")},
        },
        CHANNELS_MAY_COME_FIRST,
        lambda **_: np.moveaxis(
            call_with_changes(
                "fused.conv2d", {n: ones(2) for n in ("bias", "prelu_activation_weights")}
            ),
            -1,
            1,
        ),
    ),
    rejects(
        *(
            "padding in cells",
            OPS_WITH_ROUNDING_MODE,
            {"dim_rounding_mode": "ceil", "padding": "same"},
        ),
        *(ArgumentValueError, "{op}: dim_rounding_mode", "='ceil' … padding='same'"),
        "omit it, or give the padding in cells",
    ),
    *(
        accepts(
            *("padding in cells", op, {"dim_rounding_mode": "ceil", "padding": "valid"}),
            LAST_STRIDE_MAY_BE_PARTIAL,
            partial(call_with_changes, op, {"dim_rounding_mode": "ceil", "padding": 0}),
        )
        for op in OPS_WITH_ROUNDING_MODE.split()
    ),
    *(
        rejects(
            *(
                "padding in cells",
                OPS_WITH_ROUNDING_MODE,
                {"dim_rounding_mode": "ceil", "padding": pad},
            ),
            *(ArgumentValueError, "{op}: padding", f"={pad!r}", PADDING_REMEDY),
        )
        for pad in (0.5, [(0, 0.5), (0, 0.5)])
    ),
    *(
        accepts(
            *("padding in cells", op, {"dim_rounding_mode": "ceil", "pad": "valid"}),
            *(LAST_STRIDE_MAY_BE_PARTIAL, partial(call_with_changes, op, {})),
        )
        for op in GRADIENT_OPS_WITH_ROUNDING_MODE
    ),
    rejects(
        *(
            "padding in cells",
            " ".join(GRADIENT_OPS_WITH_ROUNDING_MODE),
            {"pad": ((0, 0.5), (0, 0.5))},
        ),
        *(ArgumentValueError, "{op}: pad", "=((0, 0.5), (0, 0.5))", PADDING_REMEDY),
    ),
    *(
        rejects(
            *("shapes", op, {"output_shape": shape}, ShapeError),
            *("{op}: output_shape", f"={shape}", "must have as many sizes as x"),
        )
        for op, shape in (("conv2d_transpose", (5, 5, 2)), ("conv3d_transpose", (4, 4, 4, 3)))
    ),
    rejects(
        *("shapes", "conv2d_transpose", {"filter": ones(2, 2, 2, 4)}, ShapeError),
        *("Conv2DBackpropInput: dy", "has shape (2, 4, 4, 3)", "give (2, 4, 4, 4)"),
    ),
    rejects(
        *("shapes", "conv3d_transpose", {"filter": ones(2, 2, 2, 3, 4)}, ShapeError),
        *("Conv3DBackpropInputV2: dy", "has shape (2, 3, 3, 3, 2)", "give (2, 3, 3, 3, 4)"),
    ),
    *(
        rejects(
            *("ranks", "dilation2d", {name: ones(*shape)}, ShapeError),
            *(f"dilation2d: {name}" if name == "x" else "filter", str(shape)),
            "x must have 3 or 4 axes and filter 3",
        )
        for name, shape in (("x", (4, 4)), ("filter", (2, 2, 3, 1)))
    ),
    rejects(
        *("channels", "dilation2d", {"filter": ones(2, 2, 4)}, ShapeError),
        *("Dilation2D: images", "(2, 4, 4, 3) and (2, 2, 4)", "must have the same channels"),
    ),
    rejects(
        *("type and padding", "pool", {"pooling_type": "sum"}, ArgumentValueError),
        *("pool: pooling_type", "='sum'", "must be 'max' or 'avg'"),
    ),
    accepts(
        *("type and padding", "pool", {"padding": 0, "dim_rounding_mode": None}),
        "no cells of padding are as good as none",
        partial(call_with_changes, "pool", {"padding": "valid", "dim_rounding_mode": None}),
    ),
    rejects(
        *("filters", "separable_conv2d", {"depthwise_filter": ones(2, 2, 3)}, ShapeError),
        *("separable_conv2d: x … filter", "and (2, 2, 3)", "must have 3 or 4 axes and filter 4"),
    ),
    *(
        rejects(
            *("filters", "separable_conv2d", {"pointwise_filter": ones(*shape)}, ShapeError),
            *("separable_conv2d: pointwise_filter", str(shape), "need (1, 1, 6, output channels)"),
        )
        for shape in ((1, 6, 2), (2, 1, 6, 2), (1, 1, 5, 2))
    ),
    *(
        rejects(
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
        rejects(
            *("slopes", "fused.conv2d", {"prelu_activation_weights": ones(*shape)}, ShapeError),
            *("FusedConv2D: prelu_activation_weights", str(shape)),
            "does not broadcast to the result of shape (2, 3, 3, 2)",
        )
        for shape in ((3,), (1, 1, 1, 1, 2))
    ),
)

FUSED_RULES = tuple(
    replace(row, label="as without fusing", ops=f"fused.{op}")
    for row in CONVOLUTION_RULES
    for op in CONVOLUTION_OPS.split()
    if op in row.names and row.error and row.label not in ("x is float", "filter is float")
)

GRADIENT_RULES = (
    rejects(
        *("ranks", POOLING_GRADIENT_OPS, {"dy": ones(2, 2)}, ShapeError),
        *("{op}: dy", "has shape (2, 2)", "give (2, 2, 2"),
    ),
    rejects(
        *("ranks", POOLING_GRADIENT_OPS, {"input": ones(2, 2)}, ShapeError),
        *("{op}: images", "the shape is (2, 2)", "have a batch axis"),
    ),
    rejects(
        *("ranks", "internal.max_pool3d_grad internal.max_pool_grad", {"output": ones(2, 2)}),
        *(ShapeError, "{op}: output", "has shape (2, 2)", "give (2, 2, 2"),
    ),
    rejects(
        *("ranks", FILTER_GRADIENT_OPS, {"x": ones(2, 2)}, ShapeError),
        *("{op}: images", "the shape is (2, 2)", "have a batch axis"),
    ),
    rejects(
        *("ranks", f"{FILTER_GRADIENT_OPS} {INPUT_GRADIENT_OPS}", {"dy": ones(2, 2)}, ShapeError),
        *("{op}: dy", "has shape (2, 2)", "images of shape (2, … give (2, "),
    ),
    rejects(
        *("ranks", FILTER_GRADIENT_OPS, {"filter_shape": (2, 2, 2)}, ShapeError),
        *("{op}: images … filters", "and (2, 2, 2)", "filters of a convolution have"),
    ),
    rejects(
        *("ranks", INPUT_GRADIENT_OPS, {"filter": ones(2, 2, 2)}, ShapeError),
        *("{op}: images … filters", "and (2, 2, 2)", "filters of a convolution have"),
    ),
    *(
        rejects(
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

NORMALIZATION_RULES = (
    rejects(
        *("radius", "local_response_normalization", {"depth_radius": 1.5}, ArgumentError),
        *("{op}: depth_radius", "=1.5", "must be an integer"),
    ),
    *(
        accepts(
            *("ranks", "batch_norm", {name: ones(1, 3)}, OPERANDS_BROADCAST),
            partial(call_with_changes, "batch_norm", {name: ones(3)}),
        )
        for name in ("mean", "variance", "offset", "scale")
    ),
    *(
        accepts(
            "rank of x",
            op,
            {"x": x},
            ANY_RANK_IS_ALLOWED,
            lambda x, **_: call_with_changes("batch_norm", {"x": x}),
        )
        for op, x in (
            ("batch_norm2d", FLOATS[0]),
            ("batch_norm3d", FLOATS),
            ("batch_norm4d", FLOATS),
        )
    ),
    *(
        accepts(
            *("ranks", op, {"x": x, "mean": ones(*(1,) * rank, 3)}),
            *(
                OPERANDS_BROADCAST,
                partial(call_with_changes, "batch_norm", {"x": x, "mean": ones(3)}),
            ),
        )
        for op, x, rank in (
            ("batch_norm3d", np.stack([FLOATS, FLOATS]), 1),
            ("batch_norm4d", np.stack([np.stack([FLOATS, FLOATS])] * 2), 2),
        )
    ),
    *(
        rejects(
            *("ranks", "batch_norm2d", {name: ones(2, 2, 3)}, ShapeError),
            *(f"FusedBatchNorm: {name}", "(2, 2, 3)", "does not broadcast to x of shape (2, 3)"),
        )
        for name in ("mean", "variance", "offset", "scale")
    ),
)

WINDOW_RULES = (*CONVOLUTION_RULES, *FUSED_RULES, *GRADIENT_RULES, *NORMALIZATION_RULES)
