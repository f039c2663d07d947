"""The ops that are methods too, as in ``x.sqrt().relu()``: those that chain in TensorFlow.js.

`plugrad.ops.operators` attaches them. `plugrad.tensor.chained` declares them to type checkers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from plugrad.ops import (
    activation,
    binary,
    convolution,
    creation,
    depthwise,
    indexing,
    linalg,
    morphology,
    movement,
    normalization,
    norms,
    pooling,
    rearrangement,
    scan,
    sets,
    sorting,
    statistics,
    subscript,
    unary,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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


CHAINED: tuple[Callable[..., Any], ...] = (
    activation.elu,
    activation.leaky_relu,
    activation.log_sigmoid,
    activation.prelu,
    activation.relu,
    activation.relu6,
    activation.selu,
    activation.sigmoid,
    activation.softplus,
    binary.add,
    binary.atan2,
    binary.clip,
    binary.div_no_nan,
    binary.divide,
    binary.equal,
    binary.floor_divide,
    binary.greater,
    binary.greater_equal,
    binary.less,
    binary.less_equal,
    binary.logical_and,
    binary.logical_or,
    binary.logical_xor,
    binary.maximum,
    binary.minimum,
    binary.multiply,
    binary.not_equal,
    binary.pow,
    binary.remainder,
    binary.squared_difference,
    binary.subtract,
    convolution.conv1d,
    convolution.conv2d,
    convolution.conv2d_transpose,
    creation.ones_like,
    creation.zeros_like,
    depthwise.depthwise_conv2d,
    depthwise.separable_conv2d,
    indexing.one_hot,
    indexing.take,
    indexing.unsorted_segment_sum,
    linalg.dot,
    linalg.matmul,
    morphology.dilation2d,
    movement.broadcast_to,
    movement.expand_dims,
    movement.flip,
    movement.pad,
    movement.permute_dims,
    movement.slice,
    movement.split,
    movement.squeeze,
    movement.tile,
    movement.unstack,
    normalization.batch_norm,
    normalization.local_response_normalization,
    normalization.log_softmax,
    normalization.softmax,
    norms.norm,
    pooling.avg_pool,
    pooling.max_pool,
    pooling.pool,
    rearrangement.batch_to_space_nd,
    rearrangement.depth_to_space,
    rearrangement.mirror_pad,
    rearrangement.space_to_batch_nd,
    scan.cumulative_prod,
    scan.cumulative_sum,
    sets.unique,
    sorting.top_k,
    statistics.euclidean_norm,
    statistics.log_sum_exp,
    subscript.strided_slice,
    unary.abs,
    unary.acos,
    unary.acosh,
    unary.asin,
    unary.asinh,
    unary.atan,
    unary.atanh,
    unary.ceil,
    unary.cos,
    unary.cosh,
    unary.erf,
    unary.exp,
    unary.expm1,
    unary.floor,
    unary.isfinite,
    unary.isinf,
    unary.isnan,
    unary.log,
    unary.log1p,
    unary.logical_not,
    unary.negative,
    unary.reciprocal,
    unary.round,
    unary.rsqrt,
    unary.sign,
    unary.sin,
    unary.sinh,
    unary.sqrt,
    unary.square,
    unary.step,
    unary.tan,
    unary.tanh,
    concat,
    stack,
    where,
)
"""Each is attached as it is, so that ``help(x.sqrt)`` shows the op."""

LATER: dict[str, str] = {
    "fft": "plugrad.ops.fft",
    "ifft": "plugrad.ops.fft",
    "irfft": "plugrad.ops.fft",
    "rfft": "plugrad.ops.fft",
    "resize_bilinear": "plugrad.ops.resize",
    "resize_nearest_neighbor": "plugrad.ops.resize",
}
"""The modules of ops that `import plugrad` does not import."""
