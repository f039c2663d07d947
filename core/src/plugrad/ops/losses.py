"""Loss functions: how far predictions are from the labels.

Their namespace is `plugrad.losses`, whose page describes weights and reductions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from plugrad.engine.custom import custom_grad
from plugrad.engine.results import alias
from plugrad.errors import ArgumentValueError, ShapeError
from plugrad.kernels import binary, movement, normalization, unary
from plugrad.ops.activation import relu, sigmoid
from plugrad.ops.arguments import as_supported_dtype, promote_operands
from plugrad.ops.attributes import check_choice, check_real
from plugrad.ops.binary import div_no_nan, squared_difference
from plugrad.ops.reduction import mean, sum
from plugrad.ops.statistics import count_nonzero
from plugrad.ops.unary import abs, exp, log, log1p
from plugrad.tensor.tracer import is_recorded
from plugrad.types.arguments import explain_wrong_calls
from plugrad.types.shapes import broadcasts_to, normalize_axis

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad.tensor.tensor import Tensor, TensorLike

Reduction: TypeAlias = Literal["none", "sum", "mean", "sum_by_nonzero_weights"]
"""How the weighted losses are reduced; see `plugrad.losses`."""


def compute_weighted_loss(
    losses: TensorLike,
    weights: TensorLike | None = None,
    *,
    reduction: Reduction = "sum_by_nonzero_weights",
) -> Tensor:
    """The losses of examples, weighted and reduced: 0-d, or in the shape of `losses` for "none".

    >>> plugrad.losses.compute_weighted_loss([1.0, 3.0], [1.0, 0.0])
    tensor(1., dtype=float32)

    The dtype is the one to which losses and weights promote.

    Args:
        losses: one loss for each example; integers and bools become float32.
        weights: see `plugrad.losses`.
        reduction: see `plugrad.losses`.

    Raises:
        ArgumentValueError: the reduction is unknown.
        DTypeError: the losses are not real numbers, or the weights are strings.
        ShapeError: the weights do not broadcast to the losses.
    """
    return _weight_and_reduce("compute_weighted_loss", losses, weights, reduction)


def _weight_and_reduce(
    op: str, losses: TensorLike, weights: TensorLike | None, reduction: Reduction
) -> Tensor:
    """Return the losses of examples, weighted and reduced."""
    check_choice(reduction, get_args(Reduction), op, "reduction")
    losses = as_supported_dtype(losses, normalization.softmax, op, "losses")
    if weights is None:
        if reduction == "none":
            return alias(losses)
        return sum(losses) if reduction == "sum" or losses.size == 0 else mean(losses)
    losses, weights = promote_operands(losses, weights, binary.multiply, f"{op} (weights)")
    if not broadcasts_to(weights.shape, losses.shape):
        raise ShapeError(
            f"{op}: weights of shape {weights.shape} do not broadcast to the losses, whose shape is {losses.shape}"
        )
    weights = movement.broadcast_to(weights, shape=losses.shape)
    weighted = binary.multiply(losses, weights)
    if reduction == "none":
        return weighted
    total = sum(weighted)
    if reduction == "sum":
        return total
    return div_no_nan(total, sum(weights) if reduction == "mean" else count_nonzero(weights))


def absolute_difference(
    labels: TensorLike,
    predictions: TensorLike,
    weights: TensorLike | None = None,
    *,
    reduction: Reduction = "sum_by_nonzero_weights",
) -> Tensor:
    """The absolute error ``abs(labels - predictions)``, weighted and reduced.

    >>> plugrad.losses.absolute_difference([1.0, 2.0], [1.5, 1.0])
    tensor(0.75, dtype=float32)

    Shape, dtype, weights and reduction are as `plugrad.losses` says.

    Raises:
        ShapeError: labels and predictions differ in shape, or the weights do not broadcast to it.
        DTypeError: labels or predictions are not real numbers, or the weights are strings.
        ArgumentValueError: the reduction is unknown.
    """
    y, x = _check_labels_and_predictions(labels, predictions, "absolute_difference")
    return _weight_and_reduce("absolute_difference", abs(y - x), weights, reduction)


def mean_squared_error(
    labels: TensorLike,
    predictions: TensorLike,
    weights: TensorLike | None = None,
    *,
    reduction: Reduction = "sum_by_nonzero_weights",
) -> Tensor:
    """The squared error ``(labels - predictions)**2``, weighted and reduced.

    >>> plugrad.losses.mean_squared_error([1.0, 2.0], [1.5, 1.0])
    tensor(0.625, dtype=float32)

    Shape, dtype, weights and reduction are as `plugrad.losses` says.

    Raises:
        ShapeError: labels and predictions differ in shape, or the weights do not broadcast to it.
        DTypeError: labels or predictions are not real numbers, or the weights are strings.
        ArgumentValueError: the reduction is unknown.
    """
    y, x = _check_labels_and_predictions(labels, predictions, "mean_squared_error")
    return _weight_and_reduce("mean_squared_error", squared_difference(y, x), weights, reduction)


def huber_loss(
    labels: TensorLike,
    predictions: TensorLike,
    weights: TensorLike | None = None,
    *,
    delta: float = 1.0,
    reduction: Reduction = "sum_by_nonzero_weights",
) -> Tensor:
    """The Huber loss: half the squared error, but linear beyond `delta` (Huber, 1964).

    ``e**2 / 2`` where the absolute error e is at most `delta`, else ``delta * (e - delta / 2)``.

    >>> plugrad.losses.huber_loss([0.0, 0.0], [0.5, 3.0], reduction="none")
    tensor([0.125, 2.5  ], dtype=float32)

    Shape, dtype, weights and reduction are as `plugrad.losses` says.

    Raises:
        ShapeError: labels and predictions differ in shape, or the weights do not broadcast to it.
        DTypeError: labels or predictions are not real numbers, or the weights are strings.
        ArgumentError: `delta` is not a number.
        ArgumentValueError: `delta` is not positive, or the reduction is unknown.
    """
    delta = check_real(delta, "huber_loss", "delta")
    if delta <= 0:
        raise ArgumentValueError(f"huber_loss: delta={delta} must be positive")
    y, x = _check_labels_and_predictions(labels, predictions, "huber_loss")
    error = x - y
    # The clipped error is in both factors, so that the second derivative is right at 0 as well.
    near = unary.clip_by_value(error, clip_value_min=-delta, clip_value_max=delta)
    return _weight_and_reduce("huber_loss", near * (error - 0.5 * near), weights, reduction)


def hinge_loss(
    labels: TensorLike,
    predictions: TensorLike,
    weights: TensorLike | None = None,
    *,
    reduction: Reduction = "sum_by_nonzero_weights",
) -> Tensor:
    """The hinge loss ``relu(1 - (2 * labels - 1) * predictions)`` (Cortes and Vapnik, 1995), weighted and reduced.

    >>> plugrad.losses.hinge_loss([1, 0], [2.0, -0.25], reduction="none")
    tensor([0.  , 0.75], dtype=float32)

    Labels are 0 or 1. The loss is 0 where the prediction is at most -1 for label 0, or at least 1
    for label 1. Shape, dtype, weights and reduction are as `plugrad.losses` says.

    Raises:
        ShapeError: labels and predictions differ in shape, or the weights do not broadcast to it.
        DTypeError: labels or predictions are not real numbers, or the weights are strings.
        ArgumentValueError: the reduction is unknown.
    """
    y, x = _check_labels_and_predictions(labels, predictions, "hinge_loss")
    return _weight_and_reduce("hinge_loss", relu(1 - (2 * y - 1) * x), weights, reduction)


@explain_wrong_calls
def log_loss(
    labels: TensorLike,
    predictions: TensorLike,
    weights: TensorLike | None = None,
    *,
    epsilon: float = 1e-7,
    reduction: Reduction = "sum_by_nonzero_weights",
) -> Tensor:
    """The binary cross-entropy ``-labels * log(predictions) - (1 - labels) * log(1 - predictions)``.

    >>> plugrad.losses.log_loss([1.0, 0.0], [0.5, 0.5])
    tensor(0.69314694, dtype=float32)

    Predictions are probabilities; for logits, `sigmoid_cross_entropy` is more accurate. Shape and
    dtype are as `plugrad.losses` says.

    Args:
        labels: probabilities between 0 and 1.
        predictions: probabilities between 0 and 1.
        weights: see `plugrad.losses`.
        epsilon: a number that is added to the argument of each logarithm, so that it is not 0.
        reduction: see `plugrad.losses`.

    Raises:
        ShapeError: labels and predictions differ in shape, or the weights do not broadcast to it.
        DTypeError: labels or predictions are not real numbers, or the weights are strings.
        ArgumentError: `epsilon` is not a number.
        ArgumentValueError: `epsilon` is negative, or the reduction is unknown.
    """
    epsilon = check_real(epsilon, "log_loss", "epsilon", least=0)
    y, x = _check_labels_and_predictions(labels, predictions, "log_loss")
    entropy = -y * log(x + epsilon) - (1 - y) * log(1 - x + epsilon)
    return _weight_and_reduce("log_loss", entropy, weights, reduction)


@explain_wrong_calls
def cosine_distance(
    labels: TensorLike,
    predictions: TensorLike,
    weights: TensorLike | None = None,
    *,
    axis: int = -1,
    reduction: Reduction = "sum_by_nonzero_weights",
) -> Tensor:
    """The cosine distance of unit vectors, ``1 - sum(labels * predictions, axis)``, weighted and reduced.

    >>> plugrad.losses.cosine_distance(
    ...     [[1.0, 0.0], [0.6, 0.8]], [[0.0, 1.0], [0.6, 0.8]], reduction="none"
    ... )
    tensor([[1.],
            [0.]], dtype=float32)

    The vectors lie along `axis`, which remains with size 1 in the losses. They are not normalized.
    Dtype, weights and reduction are as `plugrad.losses` says.

    Raises:
        ShapeError: labels and predictions differ in shape, or the weights do not broadcast to the
            losses.
        AxisError: the axis is out of range.
        DTypeError: labels or predictions are not real numbers, or the weights are strings.
        ArgumentValueError: the reduction is unknown.
    """
    y, x = _check_labels_and_predictions(labels, predictions, "cosine_distance")
    distance = 1 - sum(
        y * x, axis=normalize_axis(axis, x.ndim, name="cosine_distance: axis"), keepdims=True
    )
    return _weight_and_reduce("cosine_distance", distance, weights, reduction)


def sigmoid_cross_entropy(
    multi_class_labels: TensorLike,
    logits: TensorLike,
    weights: TensorLike | None = None,
    *,
    label_smoothing: float = 0.0,
    reduction: Reduction = "sum_by_nonzero_weights",
) -> Tensor:
    """The cross-entropy between labels and the sigmoid of logits, for each element on its own.

    >>> plugrad.losses.sigmoid_cross_entropy([[1.0, 0.0]], [[2.0, 0.0]], reduction="none")
    tensor([[0.126928 , 0.6931472]], dtype=float32)

    Shape and dtype are as `plugrad.losses` says.

    Args:
        multi_class_labels: probabilities, in the shape of the logits.
        logits: logarithms of odds.
        weights: see `plugrad.losses`.
        label_smoothing: between 0 and 1: the fraction by which labels move towards 1/2 (Szegedy et
            al., 2016).
        reduction: see `plugrad.losses`.

    Raises:
        ShapeError: labels and logits differ in shape, or the weights do not broadcast to it.
        DTypeError: labels or logits are not real numbers, or the weights are strings.
        ArgumentError: `label_smoothing` is not a number.
        ArgumentValueError: `label_smoothing` is not between 0 and 1, or the reduction is unknown.
    """
    labels, x = _check_labels_and_predictions(
        multi_class_labels, logits, "sigmoid_cross_entropy", "logits"
    )
    labels = _smooth_labels(labels, label_smoothing, 2, "sigmoid_cross_entropy")
    return _weight_and_reduce(
        "sigmoid_cross_entropy", _binary_cross_entropy(labels, x), weights, reduction
    )


@custom_grad
def _binary_cross_entropy(
    labels: Tensor, logits: Tensor, save: Callable[..., None]
) -> tuple[Tensor, Callable[..., Any]]:
    """Return each element's loss, and its gradient function, for which the function `save` keeps tensors.

    The gradient has a closed form, because that of the single steps would be wrong at 0, where abs
    has a kink.
    """
    save(labels, logits)
    are_constant = not is_recorded(labels)

    def gradient(dy: Tensor, saved: list[Tensor]) -> tuple[Tensor | None, Tensor]:
        """Return the gradients of the labels and of the logits from the tensors that were saved."""
        labels, logits = saved
        return None if are_constant else -dy * logits, dy * (sigmoid(logits) - labels)

    return relu(logits) - logits * labels + log1p(exp(-abs(logits))), gradient


@explain_wrong_calls
def softmax_cross_entropy(
    onehot_labels: TensorLike,
    logits: TensorLike,
    weights: TensorLike | None = None,
    *,
    label_smoothing: float = 0.0,
    reduction: Reduction = "sum_by_nonzero_weights",
    axis: int = -1,
) -> Tensor:
    """The cross-entropy between labels and the softmax of logits, ``-sum(labels * log_softmax(logits), axis)``.

    >>> plugrad.losses.softmax_cross_entropy([[1.0, 0.0]], [[3.0, 3.0]])
    tensor(0.6931472, dtype=float32)

    Dtype and reduction are as `plugrad.losses` says. With "none" the result has the shape of the
    logits without `axis`.

    Args:
        onehot_labels: probabilities, in the shape of the logits.
        logits: unscaled logarithms of probabilities; the classes lie along `axis`.
        weights: one weight for each example, or one for all; None means 1.
        label_smoothing: between 0 and 1: the fraction of each label that is spread evenly over all
            classes (Szegedy et al., 2016).
        reduction: see `plugrad.losses`.
        axis: the axis of the classes, which disappears.

    Raises:
        ShapeError: labels and logits differ in shape, or the weights do not broadcast to the losses.
        AxisError: the axis is out of range.
        DTypeError: labels or logits are not real numbers, or the weights are strings.
        ArgumentError: `label_smoothing` is not a number.
        ArgumentValueError: `label_smoothing` is not between 0 and 1, or the reduction is unknown.
    """
    labels, logits = _check_labels_and_predictions(
        onehot_labels, logits, "softmax_cross_entropy", "logits"
    )
    axis = normalize_axis(axis, logits.ndim, name="softmax_cross_entropy: axis")
    labels = _smooth_labels(labels, label_smoothing, logits.shape[axis], "softmax_cross_entropy")
    return _weight_and_reduce(
        "softmax_cross_entropy", _make_cross_entropy(axis)(labels, logits), weights, reduction
    )


def _make_cross_entropy(axis: int) -> Callable[..., Tensor]:
    """Return a function of labels and logits that computes each example's loss, with the gradient softmax - labels."""

    @custom_grad
    def cross_entropy(
        labels: Tensor, logits: Tensor, save: Callable[..., None]
    ) -> tuple[Tensor, Callable[..., Any]]:
        """Return each example's loss, and its gradient function, for which the function `save` keeps tensors."""
        log_probabilities = normalization.log_softmax(logits, axis=axis)
        save(labels, log_probabilities)
        are_constant = not is_recorded(labels)

        def gradient(dy: Tensor, saved: list[Tensor]) -> tuple[Tensor | None, Tensor]:
            """Return the gradients of the labels and of the logits from the tensors that were saved."""
            labels, log_probabilities = saved
            total = sum(labels, axis=axis, keepdims=True)
            dy = dy.reshape(total.shape)
            of_labels = None if are_constant else -dy * log_probabilities
            return of_labels, dy * (exp(log_probabilities) * total - labels)

        return -sum(labels * log_probabilities, axis=axis), gradient

    return cross_entropy


def _check_labels_and_predictions(
    labels: TensorLike, predictions: TensorLike, op: str, argument_name: str = "predictions"
) -> tuple[Tensor, Tensor]:
    """Convert labels and predictions to floats of one dtype, and check that their shapes are equal."""
    y, x = promote_operands(labels, predictions, normalization.softmax, op)
    if y.shape != x.shape:
        raise ShapeError(
            f"{op}: labels have shape {y.shape} and {argument_name} {x.shape}; they must be equal"
        )
    return y, x


def _smooth_labels(labels: Tensor, smoothing: float, class_count: int, op: str) -> Tensor:
    """Return labels of which a fraction, the smoothing, is spread evenly over the classes."""
    smoothing = check_real(smoothing, op, "label_smoothing", least=0, most=1)
    return labels * (1 - smoothing) + smoothing / class_count if smoothing else labels
