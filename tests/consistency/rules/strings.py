"""The rule that strings are no numbers, which almost every op of TensorFlow.js has."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import plugrad
from consistency.rules.row import Rule, accepts, call_op, changed_arguments, ones_like, rejects
from plugrad.errors import DTypeError

NO_STRINGS_LABEL = "no strings"
STRINGS_ARE_MOVED = "strings move like everything else; only computing with them makes no sense"

TAKES_NO_STRINGS = "does not take string; it takes"
STRINGS_DO_NOT_CONVERT = "Strings do not convert to numbers"
NO_COMMON_DTYPE = "have no common dtype"
STRINGS_DO_NOT_COMBINE = "strings do not combine with numbers"
INDICES_MUST_BE_INTEGERS = "they must be integers, as after astype('int32')"

STRING_ARRAY = np.array(["a", "b"], np.dtypes.StringDType())

UNARY_OPS = """
    abs acos acosh arg_max arg_min asin asinh atan atanh ceil clip_by_value cos cosh elu erf exp expm1
    floor is_finite is_inf is_nan leaky_relu local_response_normalization log log1p log_sigmoid
    log_softmax log_sum_exp logical_not max mean min moments neg norm reciprocal relu relu6 round rsqrt
    selu sigmoid sign sin sinh softmax softplus sqrt square step tan tanh topk unsorted_segment_sum
    avg_pool avg_pool3d max_pool max_pool3d max_pool_with_argmax
"""
BINARY_OPS = """
    add atan2 bitwise_and div div_no_nan dot floor_div logical_and logical_or logical_xor mat_mul
    maximum minimum mod mul pow squared_difference sub outer_product fused.mat_mul
"""
CONVOLUTION_OPS = (
    "conv1d conv2d conv2d_transpose conv3d conv3d_transpose depthwise_conv2d dilation2d"
)
FUSED_OPS = "fused.conv2d fused.depthwise_conv2d"
LOSS_OPS = """
    losses.absolute_difference losses.cosine_distance losses.hinge_loss losses.huber_loss
    losses.log_loss losses.mean_squared_error
"""
BOX_OPS = """
    image.non_max_suppression image.non_max_suppression_async image.non_max_suppression_padded
    image.non_max_suppression_padded_async image.non_max_suppression_with_score
    image.non_max_suppression_with_score_async
"""
GRADIENT_OPS = """
    internal.avg_pool3d_grad internal.avg_pool_grad internal.max_pool3d_grad internal.max_pool_grad
"""
SEGMENT_OPS = "sparse.sparse_segment_mean sparse.sparse_segment_sum"


def strings_are_not_numbers(ops: str, arguments: str, culprit: str = "{op}") -> list[Rule]:
    """Return the rules that an op takes no strings for some arguments."""
    return [
        rejects(
            *(NO_STRINGS_LABEL, ops, {name: ones_like("string")}, DTypeError),
            *(culprit.replace("{argument}", name), TAKES_NO_STRINGS, STRINGS_DO_NOT_CONVERT),
        )
        for name in arguments.split()
    ]


def strings_do_not_combine(ops: str, arguments: str, culprit: str = "{op}: ") -> list[Rule]:
    """Return the rules that an op does not combine strings with numbers."""
    return [
        rejects(
            *(NO_STRINGS_LABEL, ops, {name: ones_like("string")}, DTypeError),
            *(
                culprit.replace("{argument}", name),
                f"string … {NO_COMMON_DTYPE}",
                STRINGS_DO_NOT_COMBINE,
            ),
        )
        for name in arguments.split()
    ]


def strings_are_not_indices(ops: str, arguments: str) -> list[Rule]:
    """Return the rules that strings are neither indices nor sizes."""
    return [
        rejects(
            *(NO_STRINGS_LABEL, ops, {name: ones_like("string")}, DTypeError),
            *(f"{{op}}: {name}", "are string", INDICES_MUST_BE_INTEGERS),
        )
        for name in arguments.split()
    ]


def string_is_rejected(ops: str, argument: str, value: str, remedy: str, culprit: str = "") -> Rule:
    """Return the rule that an op takes no strings for an argument, with an error message of its own."""
    return rejects(
        *(NO_STRINGS_LABEL, ops, {argument: ones_like("string")}, DTypeError),
        *(culprit or f"{{op}}: {argument}", value, remedy),
    )


def digit_strings(right: Any) -> NDArray[Any]:
    """Return the numbers from 1 on as strings, in the shape of an array."""
    return numbers_from_1(right).astype("int32").astype(np.dtypes.StringDType())


def numbers_from_1(right: Any) -> NDArray[Any]:
    """Return the numbers from 1 on in the shape of an array."""
    return np.arange(1, right.size + 1, dtype="float32").reshape(right.shape)


def strings_are_moved(op: str, arguments: str, change: Mapping[str, Any] | None = None) -> Rule:
    """Return the rule that an op moves strings as it moves numbers; elements that it adds are empty strings."""
    names = arguments.split()
    given = dict.fromkeys(names, digit_strings)
    return accepts(
        NO_STRINGS_LABEL,
        op,
        {**given, **(change or {})},
        STRINGS_ARE_MOVED,
        partial(call_with_numbers, op, names),
    )


def call_with_numbers(op: str, names: list[str], **arguments: Any) -> Any:
    """Return the result of an op for numbers, as strings; 0 becomes the empty string."""
    return numbers_to_strings(
        call_op(op, changed_arguments(op, dict.fromkeys(names, numbers_from_1)))
    )


def numbers_to_strings(result: Any) -> Any:
    if isinstance(result, list | tuple):
        return tuple(map(numbers_to_strings, result))
    values = result.numpy()
    if result.dtype != plugrad.float32:
        return values
    strings = values.astype("int32").astype(np.dtypes.StringDType())
    return np.where(values == 0, "", strings)


STRING_RULES = (
    *strings_are_not_numbers(UNARY_OPS, "x"),
    *strings_are_not_numbers("pool", "x"),
    *strings_are_not_numbers("multinomial", "logits", "{op} ({argument})"),
    *strings_are_not_numbers("one_hot", "indices", "{op} ({argument})"),
    *strings_are_not_numbers("basic_lstm_cell", "lstm_kernel lstm_bias", "{op} ({argument})"),
    *strings_are_not_numbers("broadcast_args", "s0 s1", "{op} ({argument})"),
    *strings_are_not_numbers(
        "batch_norm batch_norm2d batch_norm3d batch_norm4d",
        "x mean variance offset scale",
        "{op} ({argument})",
    ),
    *strings_are_not_numbers("in_top_k_async", "predictions", "{op} ({argument})"),
    *strings_are_not_numbers("bincount", "weights", "Bincount ({argument})"),
    *strings_are_not_numbers("dense_bincount", "weights", "DenseBincount ({argument})"),
    *strings_are_not_numbers("scatter_nd", "updates", "ScatterNd ({argument})"),
    *strings_are_not_numbers(
        "browser.draw browser.to_pixels image.flip_left_right", "image", "{op} ({argument})"
    ),
    *strings_are_not_numbers(
        "image.crop_and_resize image.rotate_with_offset image.transform",
        "image",
        "{op} ({argument})",
    ),
    *strings_are_not_numbers(
        "image.resize_bilinear image.resize_nearest_neighbor", "images", "{op} ({argument})"
    ),
    *strings_are_not_numbers(BOX_OPS, "boxes scores", "{op} ({argument})"),
    *strings_are_not_numbers("losses.compute_weighted_loss", "losses", "{op} ({argument})"),
    *strings_are_not_numbers(SEGMENT_OPS, "data", "{op} ({argument})"),
    *strings_are_not_numbers(GRADIENT_OPS, "dy"),
    *strings_do_not_combine(BINARY_OPS.replace("outer_product", ""), "a b"),
    *strings_do_not_combine("outer_product", "a b"),
    *strings_do_not_combine("complex", "real imag"),
    *strings_do_not_combine("prelu", "x alpha"),
    *strings_do_not_combine("add_n", "tensors"),
    *strings_do_not_combine("einsum", "tensors"),
    *strings_do_not_combine("basic_lstm_cell", "data c h"),
    *strings_do_not_combine("multi_rnn_cell", "data c h", "basic_lstm_cell: "),
    *strings_do_not_combine(CONVOLUTION_OPS, "x filter"),
    *strings_do_not_combine("separable_conv2d", "x depthwise_filter pointwise_filter"),
    *strings_do_not_combine(FUSED_OPS, "x filter bias prelu_activation_weights"),
    *strings_do_not_combine("fused.mat_mul", "bias prelu_activation_weights"),
    *strings_do_not_combine("moving_average", "average x"),
    *strings_do_not_combine("ragged_range", "starts limits deltas"),
    *strings_do_not_combine("search_sorted", "x1 x2"),
    *strings_do_not_combine("setdiff1d_async", "x y"),
    *strings_do_not_combine("where", "a b"),
    *strings_do_not_combine("ragged_tensor_to_tensor", "values default_value"),
    *strings_do_not_combine("sparse.sparse_fill_empty_rows", "values default_value"),
    *strings_do_not_combine(LOSS_OPS, "labels predictions"),
    *strings_do_not_combine("losses.sigmoid_cross_entropy", "multi_class_labels logits"),
    *strings_do_not_combine("losses.softmax_cross_entropy", "onehot_labels logits"),
    *strings_do_not_combine(
        f"{LOSS_OPS} losses.compute_weighted_loss losses.sigmoid_cross_entropy "
        "losses.softmax_cross_entropy",
        "weights",
        "{op} ({argument}): ",
    ),
    *strings_are_not_indices("gather ragged_gather scatter_nd tensor_scatter_update", "indices"),
    *strings_are_not_indices(SEGMENT_OPS, "indices segment_ids"),
    *strings_are_not_indices("unsorted_segment_sum", "segment_ids"),
    *strings_are_not_indices("ragged_gather", "params_nested_splits"),
    *strings_are_not_indices("ragged_tensor_to_tensor", "shape row_partition_tensors"),
    *strings_are_not_indices("image.crop_and_resize", "box_ind"),
    *strings_are_not_indices("sparse.sparse_fill_empty_rows", "indices dense_shape"),
    *strings_are_not_indices("sparse.sparse_reshape", "input_indices input_shape new_shape"),
    string_is_rejected(
        GRADIENT_OPS, "input", "string", "cast them to one with astype", "{op}: the inputs"
    ),
    string_is_rejected(
        *("internal.max_pool3d_grad internal.max_pool_grad", "output", "string"),
        *("cast them to one with astype", "{op}: the inputs"),
    ),
    string_is_rejected(
        "all any", "x", "string", "make the values in Python, as in float(text)", "{op}: "
    ),
    string_is_rejected(
        "cast", "x", "string", "make the values in Python, as in float(text)", "{op}: "
    ),
    string_is_rejected("cumprod cumsum prod sum", "x", "string", "as in float(text)", "{op}: "),
    string_is_rejected("bincount dense_bincount", "x", "is string", "as after astype('int32')"),
    string_is_rejected("boolean_mask_async", "mask", "is string", "it must be bool, such as x > 0"),
    string_is_rejected("confusion_matrix", "labels", "are string", "as after astype('int32')"),
    string_is_rejected("confusion_matrix", "predictions", "are string", "as after astype('int32')"),
    string_is_rejected("in_top_k_async", "targets", "are string", "as after astype('int32')"),
    string_is_rejected("dropout", "x", "is string", "it must be floating"),
    string_is_rejected(
        "imag", "x", "not string", "takes complex tensors … strings do not convert", "{op}"
    ),
    string_is_rejected("real", "x", "not string", "takes numbers … strings do not convert", "{op}"),
    string_is_rejected("where", "condition", "is string", "it must be bool, such as x > 0"),
    string_is_rejected(
        "where_async", "x", "string", "compare first, as in plugrad.not_equal", "{op}"
    ),
    string_is_rejected(
        *("browser.from_pixels browser.from_pixels_async", "pixels", "are string"),
        "as after astype('uint8')",
    ),
    string_is_rejected("image.crop_and_resize", "boxes", "are string", "they must be floats"),
    string_is_rejected("image.transform", "transforms", "are string", "they must be floats"),
    string_is_rejected(
        "image.rgb_to_grayscale image.threshold", "image", "is string", "floats or integers"
    ),
    string_is_rejected(
        "tensor_scatter_update", "updates", "are string", "which float32 does not hold; cast"
    ),
    string_is_rejected(
        "tensor_scatter_update", "tensor", "string does not hold", "cast", "{op}: updates"
    ),
    rejects(
        *(
            NO_STRINGS_LABEL,
            "ones_like zeros_like",
            {"x": ones_like("string"), "dtype": None},
            DTypeError,
        ),
        *("{op}", TAKES_NO_STRINGS, STRINGS_DO_NOT_CONVERT),
    ),
    # What only moves.
    *(
        strings_are_moved(op, "x")
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
    strings_are_moved("pad", "x", {"constant_value": ""}),
    strings_are_moved("image.grayscale_to_rgb", "image"),
    strings_are_moved("ragged_gather", "params_dense_values"),
    strings_are_moved("ragged_tensor_to_tensor", "values default_value"),
    strings_are_moved("sparse.sparse_fill_empty_rows", "values default_value"),
    strings_are_moved("tensor_scatter_update", "tensor updates"),
    strings_are_moved("where", "a b"),
    accepts(
        NO_STRINGS_LABEL,
        "meshgrid",
        {"arrays": (STRING_ARRAY, STRING_ARRAY)},
        STRINGS_ARE_MOVED,
        tuple(np.meshgrid(STRING_ARRAY, STRING_ARRAY)),
    ),
)
