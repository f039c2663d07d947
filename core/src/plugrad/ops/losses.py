"""Loss functions: how far predictions are from what they should be. Their namespace is `plugrad.losses`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from plugrad.dtype import float32
from plugrad.errors import ArgumentValueError, ShapeError
from plugrad.kernels import normalization
from plugrad.ops.arguments import coerced, promoted
from plugrad.ops.binary import equal, not_equal, where
from plugrad.ops.movement import broadcast_to
from plugrad.ops.reduction import mean, sum
from plugrad.ops.unary import exp
from plugrad.shapes import axis_of
from plugrad.transforms import custom_grad

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad.tensor import Tensor, TensorLike

Reduction = Literal["none", "sum", "mean", "sum_by_nonzero_weights"]


def softmax_cross_entropy(
    onehot_labels: TensorLike,
    logits: TensorLike,
    weights: TensorLike | None = None,
    *,
    label_smoothing: float = 0.0,
    reduction: Reduction = "sum_by_nonzero_weights",
    axis: int = -1,
) -> Tensor:
    """The cross-entropy between labels and the softmax of logits.

    >>> plugrad.losses.softmax_cross_entropy([[1.0, 0.0, 0.0]], [[2.0, 1.0, 0.0]])
    tensor(0.407606, dtype=float32)

    Args:
        onehot_labels: probabilities, in the shape of the logits.
        logits: unscaled logarithms of probabilities; the classes lie along `axis`.
        weights: one weight for each example, or one for all; None means 1.
        label_smoothing: between 0 and 1: moves this part of each label to all classes evenly.
        reduction: "none" gives one loss for each example; else their weighted sum is divided by
            nothing ("sum"), by the sum of the weights ("mean"), or by the number of weights that
            are not 0 (the default).
        axis: the axis of the classes.

    Raises:
        ShapeError: labels and logits differ in shape.
        ArgumentValueError: the smoothing or the reduction is none of the above.
    """
    logits = coerced(logits, normalization.log_softmax, "softmax_cross_entropy", "logits")
    labels, logits = promoted(
        onehot_labels, logits, normalization.log_softmax, "softmax_cross_entropy"
    )
    if labels.shape != logits.shape:
        raise ShapeError(
            f"softmax_cross_entropy: onehot_labels have shape {labels.shape} and logits "
            f"{logits.shape}; they must be equal"
        )
    if not 0 <= label_smoothing <= 1:
        raise ArgumentValueError(
            f"softmax_cross_entropy: label_smoothing={label_smoothing} must be between 0 and 1"
        )
    axis = axis_of(axis, logits.ndim)
    if label_smoothing:
        labels = labels * (1 - label_smoothing) + label_smoothing / logits.shape[axis]
    return weighted_loss(_cross_entropy(axis)(labels, logits), weights, reduction)


def _cross_entropy(axis: int) -> Callable[..., Tensor]:
    """Return the loss of each example; its gradient is known in closed form: softmax less labels."""

    @custom_grad
    def cross_entropy(
        labels: Tensor, logits: Tensor, save: Callable[..., None]
    ) -> tuple[Tensor, Callable[..., Any]]:
        log_probabilities = normalization.log_softmax(logits, axis=axis)
        save(labels, log_probabilities)

        def gradient(dy: Tensor, saved: list[Tensor]) -> tuple[Tensor, Tensor]:
            labels, log_probabilities = saved
            total = sum(labels, axis=axis, keepdims=True)
            dy = dy.reshape(total.shape)
            return -dy * log_probabilities, dy * (exp(log_probabilities) * total - labels)

        return -sum(labels * log_probabilities, axis=axis), gradient

    return cross_entropy


def weighted_loss(losses: Tensor, weights: TensorLike | None, reduction: Reduction) -> Tensor:
    """The losses of examples, weighted and reduced; all-zero weights give 0.

    >>> plugrad.losses.weighted_loss(plugrad.asarray([1.0, 3.0]), [1.0, 0.0], "mean")
    tensor(1., dtype=float32)

    Raises:
        ArgumentValueError: the reduction is unknown.
        ShapeError: the weights do not broadcast to the losses.
    """
    if reduction not in ("none", "sum", "mean", "sum_by_nonzero_weights"):
        raise ArgumentValueError(
            f"reduction={reduction!r} must be 'none', 'sum', 'mean' or 'sum_by_nonzero_weights'"
        )
    if weights is None:
        if reduction == "none":
            return losses
        return sum(losses) if reduction == "sum" else mean(losses)
    weights = broadcast_to(weights, losses.shape)
    weighted = losses * weights
    if reduction == "none":
        return weighted
    total = sum(weighted)
    if reduction == "sum":
        return total
    divisor = sum(weights) if reduction == "mean" else sum(not_equal(weights, 0), dtype=float32)
    return total / where(equal(divisor, 0), 1.0, divisor)
