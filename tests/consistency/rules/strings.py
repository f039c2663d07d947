"""The rule that strings are no numbers, which almost every op of TensorFlow.js has."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import plugrad
from consistency.rules.row import Rule, called, changed, like, refused, taken
from plugrad.errors import DTypeError

LABEL = "no strings"
MOVES = "strings move like everything else; only computing with them makes no sense"

NUMBERS = "does not take string; it takes"
NO_NUMBERS = "Strings do not convert to numbers"
PAIR = "have no common dtype"
NO_COMBINATION = "strings do not combine with numbers"
POSITIONS = "they must be integers, as after astype('int32')"

TEXTS = np.array(["a", "b"], np.dtypes.StringDType())

UNARY = """
    abs acos acosh arg_max arg_min asin asinh atan atanh ceil clip_by_value cos cosh elu erf exp expm1
    floor is_finite is_inf is_nan leaky_relu local_response_normalization log log1p log_sigmoid
    log_softmax log_sum_exp logical_not max mean min moments neg norm reciprocal relu relu6 round rsqrt
    selu sigmoid sign sin sinh softmax softplus sqrt square step tan tanh topk unsorted_segment_sum
    avg_pool avg_pool3d max_pool max_pool3d max_pool_with_argmax
"""
BINARY = """
    add atan2 bitwise_and div div_no_nan dot floor_div logical_and logical_or logical_xor mat_mul
    maximum minimum mod mul pow squared_difference sub outer_product fused.mat_mul
"""
SLID = "conv1d conv2d conv2d_transpose conv3d conv3d_transpose depthwise_conv2d dilation2d"
FUSED = "fused.conv2d fused.depthwise_conv2d"
LOSSES = """
    losses.absolute_difference losses.cosine_distance losses.hinge_loss losses.huber_loss
    losses.log_loss losses.mean_squared_error
"""
BOXES = """
    image.non_max_suppression image.non_max_suppression_async image.non_max_suppression_padded
    image.non_max_suppression_padded_async image.non_max_suppression_with_score
    image.non_max_suppression_with_score_async
"""
GRADIENTS = """
    internal.avg_pool3d_grad internal.avg_pool_grad internal.max_pool3d_grad internal.max_pool_grad
"""
SEGMENTS = "sparse.sparse_segment_mean sparse.sparse_segment_sum"


def no_numbers(ops: str, arguments: str, culprit: str = "{op}") -> list[Rule]:
    """Return rows about arguments of which an op takes only numbers."""
    return [
        refused(
            *(LABEL, ops, {name: like("string")}, DTypeError),
            *(culprit.replace("{argument}", name), NUMBERS, NO_NUMBERS),
        )
        for name in arguments.split()
    ]


def no_combination(ops: str, arguments: str, culprit: str = "{op}: ") -> list[Rule]:
    """Return rows about arguments that meet other ones, of numbers."""
    return [
        refused(
            *(LABEL, ops, {name: like("string")}, DTypeError),
            *(culprit.replace("{argument}", name), f"string … {PAIR}", NO_COMBINATION),
        )
        for name in arguments.split()
    ]


def no_positions(ops: str, arguments: str) -> list[Rule]:
    """Return rows about arguments that are positions or sizes."""
    return [
        refused(
            *(LABEL, ops, {name: like("string")}, DTypeError),
            *(f"{{op}}: {name}", "are string", POSITIONS),
        )
        for name in arguments.split()
    ]


def said(ops: str, argument: str, value: str, remedy: str, culprit: str = "") -> Rule:
    """Return a row about an argument with a message of its own."""
    return refused(
        *(LABEL, ops, {argument: like("string")}, DTypeError),
        *(culprit or f"{{op}}: {argument}", value, remedy),
    )


def texts(right: Any) -> NDArray[Any]:
    """Return the numbers from 1 on as strings, in the shape of an array."""
    return numbers(right).astype("int32").astype(np.dtypes.StringDType())


def numbers(right: Any) -> NDArray[Any]:
    """Return the numbers from 1 on in the shape of an array."""
    return np.arange(1, right.size + 1, dtype="float32").reshape(right.shape)


def moved(op: str, arguments: str, change: Mapping[str, Any] | None = None) -> Rule:
    """Return a row about an op that moves strings as it moves numbers; what it fills in is empty."""
    names = arguments.split()
    given = dict.fromkeys(names, texts)
    return taken(LABEL, op, {**given, **(change or {})}, MOVES, partial(as_texts, op, names))


def as_texts(op: str, names: list[str], **arguments: Any) -> Any:
    """Return what the op does with numbers, these as strings and 0 as the empty one."""
    return spelled(called(op, changed(op, dict.fromkeys(names, numbers))))


def spelled(result: Any) -> Any:
    if isinstance(result, list | tuple):
        return tuple(map(spelled, result))
    values = result.numpy()
    if result.dtype != plugrad.float32:
        return values
    strings = values.astype("int32").astype(np.dtypes.StringDType())
    return np.where(values == 0, "", strings)


STRINGS = (
    *no_numbers(UNARY, "x"),
    *no_numbers("pool", "x"),
    *no_numbers("multinomial", "logits", "{op} ({argument})"),
    *no_numbers("one_hot", "indices", "{op} ({argument})"),
    *no_numbers("basic_lstm_cell", "lstm_kernel lstm_bias", "{op} ({argument})"),
    *no_numbers("broadcast_args", "s0 s1", "{op} ({argument})"),
    *no_numbers(
        "batch_norm batch_norm2d batch_norm3d batch_norm4d",
        "x mean variance offset scale",
        "{op} ({argument})",
    ),
    *no_numbers("in_top_k_async", "predictions", "{op} ({argument})"),
    *no_numbers("bincount", "weights", "Bincount ({argument})"),
    *no_numbers("dense_bincount", "weights", "DenseBincount ({argument})"),
    *no_numbers("scatter_nd", "updates", "ScatterNd ({argument})"),
    *no_numbers(
        "browser.draw browser.to_pixels image.flip_left_right", "image", "{op} ({argument})"
    ),
    *no_numbers(
        "image.crop_and_resize image.rotate_with_offset image.transform",
        "image",
        "{op} ({argument})",
    ),
    *no_numbers(
        "image.resize_bilinear image.resize_nearest_neighbor", "images", "{op} ({argument})"
    ),
    *no_numbers(BOXES, "boxes scores", "{op} ({argument})"),
    *no_numbers("losses.compute_weighted_loss", "losses", "{op} ({argument})"),
    *no_numbers(SEGMENTS, "data", "{op} ({argument})"),
    *no_numbers(GRADIENTS, "dy"),
    *no_combination(BINARY.replace("outer_product", ""), "a b"),
    *no_combination("outer_product", "a b"),
    *no_combination("complex", "real imag"),
    *no_combination("prelu", "x alpha"),
    *no_combination("add_n", "tensors"),
    *no_combination("einsum", "tensors"),
    *no_combination("basic_lstm_cell", "data c h"),
    *no_combination("multi_rnn_cell", "data c h", "basic_lstm_cell: "),
    *no_combination(SLID, "x filter"),
    *no_combination("separable_conv2d", "x depthwise_filter pointwise_filter"),
    *no_combination(FUSED, "x filter bias prelu_activation_weights"),
    *no_combination("fused.mat_mul", "bias prelu_activation_weights"),
    *no_combination("moving_average", "average x"),
    *no_combination("ragged_range", "starts limits deltas"),
    *no_combination("search_sorted", "x1 x2"),
    *no_combination("setdiff1d_async", "x y"),
    *no_combination("where", "a b"),
    *no_combination("ragged_tensor_to_tensor", "values default_value"),
    *no_combination("sparse.sparse_fill_empty_rows", "values default_value"),
    *no_combination(LOSSES, "labels predictions"),
    *no_combination("losses.sigmoid_cross_entropy", "multi_class_labels logits"),
    *no_combination("losses.softmax_cross_entropy", "onehot_labels logits"),
    *no_combination(
        f"{LOSSES} losses.compute_weighted_loss losses.sigmoid_cross_entropy "
        "losses.softmax_cross_entropy",
        "weights",
        "{op} ({argument}): ",
    ),
    *no_positions("gather ragged_gather scatter_nd tensor_scatter_update", "indices"),
    *no_positions(SEGMENTS, "indices segment_ids"),
    *no_positions("unsorted_segment_sum", "segment_ids"),
    *no_positions("ragged_gather", "params_nested_splits"),
    *no_positions("ragged_tensor_to_tensor", "shape row_partition_tensors"),
    *no_positions("image.crop_and_resize", "box_ind"),
    *no_positions("sparse.sparse_fill_empty_rows", "indices dense_shape"),
    *no_positions("sparse.sparse_reshape", "input_indices input_shape new_shape"),
    said(GRADIENTS, "input", "string", "cast them to one with astype", "{op}: the inputs"),
    said(
        *("internal.max_pool3d_grad internal.max_pool_grad", "output", "string"),
        *("cast them to one with astype", "{op}: the inputs"),
    ),
    said("all any", "x", "string", "make the values in Python, as in float(text)", "{op}: "),
    said("cast", "x", "string", "make the values in Python, as in float(text)", "{op}: "),
    said("cumprod cumsum prod sum", "x", "string", "as in float(text)", "{op}: "),
    said("bincount dense_bincount", "x", "is string", "as after astype('int32')"),
    said("boolean_mask_async", "mask", "is string", "it must be bool, such as x > 0"),
    said("confusion_matrix", "labels", "are string", "as after astype('int32')"),
    said("confusion_matrix", "predictions", "are string", "as after astype('int32')"),
    said("in_top_k_async", "targets", "are string", "as after astype('int32')"),
    said("dropout", "x", "is string", "it must be floating"),
    said("imag", "x", "not string", "takes complex tensors … strings do not convert", "{op}"),
    said("real", "x", "not string", "takes numbers … strings do not convert", "{op}"),
    said("where", "condition", "is string", "it must be bool, such as x > 0"),
    said("where_async", "x", "string", "compare first, as in plugrad.not_equal", "{op}"),
    said(
        *("browser.from_pixels browser.from_pixels_async", "pixels", "are string"),
        "as after astype('uint8')",
    ),
    said("image.crop_and_resize", "boxes", "are string", "they must be floats"),
    said("image.transform", "transforms", "are string", "they must be floats"),
    said("image.rgb_to_grayscale image.threshold", "image", "is string", "floats or integers"),
    said("tensor_scatter_update", "updates", "are string", "which float32 does not hold; cast"),
    said("tensor_scatter_update", "tensor", "string does not hold", "cast", "{op}: updates"),
    refused(
        *(LABEL, "ones_like zeros_like", {"x": like("string"), "dtype": None}, DTypeError),
        *("{op}", NUMBERS, NO_NUMBERS),
    ),
    # What only moves.
    *(
        moved(op, "x")
        for op in (
            *("batch_to_space_nd", "boolean_mask_async", "broadcast_to", "depth_to_space", "diag"),
            *(
                "gather",
                "mirror_pad",
                "reverse",
                "reverse1d",
                "reverse2d",
                "reverse3d",
                "reverse4d",
            ),
            *("slice1d", "slice2d", "slice3d", "slice4d", "space_to_batch_nd", "split"),
            *("transpose", "linalg.band_part"),
        )
    ),
    moved("pad", "x", {"constant_value": ""}),
    moved("image.grayscale_to_rgb", "image"),
    moved("ragged_gather", "params_dense_values"),
    moved("ragged_tensor_to_tensor", "values default_value"),
    moved("sparse.sparse_fill_empty_rows", "values default_value"),
    moved("tensor_scatter_update", "tensor updates"),
    moved("where", "a b"),
    taken(LABEL, "meshgrid", {"arrays": (TEXTS, TEXTS)}, MOVES, tuple(np.meshgrid(TEXTS, TEXTS))),
)
