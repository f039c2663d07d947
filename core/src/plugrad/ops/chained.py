"""The ops that are methods too, as in ``x.sqrt().relu()``: those that chain in TensorFlow.js.

`plugrad.ops.operators` attaches them. `plugrad.tensor.chained` declares them to type checkers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from plugrad.ops import binary, movement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plugrad.tensor.tensor import Tensor, TensorLike


def concat(
    self: Tensor, others: TensorLike | Sequence[TensorLike], *, axis: int | None = 0
) -> Tensor:
    """Join the tensor and others, or one other, along an axis; see `plugrad.concat`."""
    return movement.concat([self, *_several(others)], axis=axis)


def stack(self: Tensor, others: TensorLike | Sequence[TensorLike], *, axis: int = 0) -> Tensor:
    """Join the tensor and others, or one other, along a new axis; see `plugrad.stack`."""
    return movement.stack([self, *_several(others)], axis=axis)


def where(self: Tensor, condition: TensorLike, b: TensorLike, /) -> Tensor:
    """Return the elements of the tensor where a condition holds, and those of b elsewhere; see `plugrad.where`."""
    return binary.where(condition, self, b)


def _several(others: Any) -> Sequence[TensorLike]:
    """Return the tensors that a list or tuple holds, or one thing as the only one."""
    return cast("Sequence[TensorLike]", others) if isinstance(others, list | tuple) else (others,)


CHAINED = {
    "activation": (
        "elu",
        "leaky_relu",
        "log_sigmoid",
        "prelu",
        "relu",
        "relu6",
        "selu",
        "sigmoid",
        "softplus",
    ),
    "binary": (
        "add",
        "atan2",
        "clip",
        "div_no_nan",
        "divide",
        "equal",
        "floor_divide",
        "greater",
        "greater_equal",
        "less",
        "less_equal",
        "logical_and",
        "logical_or",
        "logical_xor",
        "maximum",
        "minimum",
        "multiply",
        "not_equal",
        "pow",
        "remainder",
        "squared_difference",
        "subtract",
    ),
    "chained": ("concat", "stack", "where"),
    "convolution": (
        "conv1d",
        "conv2d",
        "conv2d_transpose",
    ),
    "creation": (
        "ones_like",
        "zeros_like",
    ),
    "depthwise": (
        "depthwise_conv2d",
        "separable_conv2d",
    ),
    "fft": (
        "fft",
        "ifft",
        "irfft",
        "rfft",
    ),
    "indexing": (
        "one_hot",
        "take",
        "unsorted_segment_sum",
    ),
    "linalg": (
        "dot",
        "matmul",
    ),
    "morphology": ("dilation2d",),
    "movement": (
        "broadcast_to",
        "expand_dims",
        "flip",
        "pad",
        "permute_dims",
        "slice",
        "split",
        "squeeze",
        "tile",
        "unstack",
    ),
    "normalization": (
        "batch_norm",
        "local_response_normalization",
        "log_softmax",
        "softmax",
    ),
    "norms": ("norm",),
    "pooling": (
        "avg_pool",
        "max_pool",
        "pool",
    ),
    "rearrangement": (
        "batch_to_space_nd",
        "depth_to_space",
        "mirror_pad",
        "space_to_batch_nd",
    ),
    "resize": (
        "resize_bilinear",
        "resize_nearest_neighbor",
    ),
    "scan": (
        "cumulative_prod",
        "cumulative_sum",
    ),
    "sets": ("unique",),
    "sorting": ("top_k",),
    "statistics": (
        "euclidean_norm",
        "log_sum_exp",
    ),
    "subscript": ("strided_slice",),
    "unary": (
        "abs",
        "acos",
        "acosh",
        "asin",
        "asinh",
        "atan",
        "atanh",
        "ceil",
        "cos",
        "cosh",
        "erf",
        "exp",
        "expm1",
        "floor",
        "isfinite",
        "isinf",
        "isnan",
        "log",
        "log1p",
        "logical_not",
        "negative",
        "reciprocal",
        "round",
        "rsqrt",
        "sign",
        "sin",
        "sinh",
        "sqrt",
        "square",
        "step",
        "tan",
        "tanh",
    ),
}
"""The modules, and the functions in each that are methods."""
