"""Metrics of one batch, as functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import plugrad
from plugrad.extend import ShapeError
from plugrad_nn.arguments import check_integer

if TYPE_CHECKING:
    from plugrad import Tensor


def accuracy(
    labels: Any, logits: Any, weights: Any = None, *, ignore_index: int | None = None
) -> Tensor:
    """The fraction of examples whose label has the largest logit.

    >>> nn.metrics.accuracy([0, 1], [[2.0, 1.0], [3.0, 0.0]])
    tensor(0.5, dtype=float32)

    Among equal logits the first counts. Without examples the result is NaN. A negative label counts as wrong, unless it
    is `ignore_index`.

    Args:
        labels: integers.
        logits: numbers in the shape of the labels with a last axis of classes.
        weights: how much each label counts; see `plugrad_nn.metrics`.
        ignore_index: a label that does not count.

    Raises:
        ShapeError: the shapes do not fit.
        ArgumentError: `ignore_index` is not an integer.
    """
    labels, logits = check_classes("accuracy", labels, logits)
    predicted = plugrad.argmax(logits, axis=-1)
    is_right = predicted == plugrad.astype(labels, predicted.dtype)
    return _fraction_true(is_right, label_weights("accuracy", labels, weights, ignore_index))


def top_k_accuracy(
    labels: Any,
    logits: Any,
    k: int = 5,
    weights: Any = None,
    *,
    ignore_index: int | None = None,
) -> Tensor:
    """The fraction of examples whose label is among the `k` largest logits.

    >>> nn.metrics.top_k_accuracy([2, 0], [[3.0, 1.0, 2.0], [0.0, 1.0, 2.0]], k=2)
    tensor(0.5, dtype=float32)

    A logit counts if fewer than `k` are larger; NaN is larger than all. Arguments and errors are as for `accuracy`.

    Raises:
        ArgumentError, ArgumentValueError: `k` is not an integer of at least 1.
    """
    k = check_integer("top_k_accuracy", "k", k, 1)
    labels, logits = check_classes("top_k_accuracy", labels, logits)
    counted = label_weights("top_k_accuracy", labels, weights, ignore_index)
    return _fraction_true(are_among_largest(labels, logits, k), counted)


def are_among_largest(labels: Tensor, logits: Tensor, k: int) -> Tensor:
    """Return whether each label is a class whose logit is among the k largest; NaN never is."""
    is_label = plugrad.one_hot(labels, logits.shape[-1], dtype=plugrad.float32) > 0
    own = plugrad.sum(plugrad.where(is_label, logits, 0.0), axis=-1, keepdims=True)
    larger = plugrad.count_nonzero(plugrad.logical_not(logits <= own), axis=-1)
    is_class = plugrad.logical_and(labels >= 0, labels < logits.shape[-1])
    return plugrad.logical_and(larger < k, is_class)


def binary_accuracy(labels: Any, logits: Any, weights: Any = None) -> Tensor:
    """The fraction of elements whose logit is positive where the label is 1, and not where it is 0.

    >>> nn.metrics.binary_accuracy([1, 0, 1], [2.0, -1.0, -3.0])
    tensor(0.6666667, dtype=float32)

    Args:
        labels: numbers 0 and 1, or bools.
        logits: numbers in the same shape.
        weights: how much each label counts; see `plugrad_nn.metrics`.

    Raises:
        ShapeError: the shapes differ, or the weights do not broadcast to them.
    """
    truth, predicted = check_binary_predictions("binary_accuracy", labels, logits)
    counted = label_weights("binary_accuracy", truth, weights, None)
    return _fraction_true(truth == predicted, counted)


def precision(labels: Any, logits: Any, weights: Any = None) -> Tensor:
    """The fraction of elements with the label 1 among those with a positive logit; 0 if there is none.

    >>> nn.metrics.precision([1, 0, 1], [2.0, 1.0, -3.0])
    tensor(0.5, dtype=float32)

    Arguments and errors are as for `binary_accuracy`.
    """
    both, _, predicted = count_binary_predictions("precision", labels, logits, weights)
    return plugrad.div_no_nan(both, predicted)


def recall(labels: Any, logits: Any, weights: Any = None) -> Tensor:
    """The fraction of elements with a positive logit among those with the label 1; 0 if there is none.

    >>> nn.metrics.recall([1, 0, 1], [2.0, 1.0, 3.0])
    tensor(1., dtype=float32)

    Arguments and errors are as for `binary_accuracy`.
    """
    both, true, _ = count_binary_predictions("recall", labels, logits, weights)
    return plugrad.div_no_nan(both, true)


def f1_score(labels: Any, logits: Any, weights: Any = None) -> Tensor:
    """The harmonic mean of `precision` and `recall`; 0 if both are.

    >>> nn.metrics.f1_score([1, 0, 1], [2.0, 1.0, -3.0])
    tensor(0.5, dtype=float32)

    Arguments and errors are as for `binary_accuracy`.
    """
    both, true, predicted = count_binary_predictions("f1_score", labels, logits, weights)
    return plugrad.div_no_nan(2 * both, true + predicted)


def roc_auc(labels: Any, logits: Any, weights: Any = None) -> Tensor:
    """The probability that a label 1 has a larger logit than a label 0: the area under the ROC curve.

    >>> nn.metrics.roc_auc([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    tensor(0.75, dtype=float32)

    Equal logits count one half. Where all labels are equal, the result is NaN. It sorts the logits (Fawcett, "An
    introduction to ROC analysis", 2006). Arguments and errors are as for `binary_accuracy`.
    """
    truth, _ = check_binary_predictions("roc_auc", labels, logits)
    scores = plugrad.asarray(logits).reshape(-1)
    counted = label_weights("roc_auc", truth, weights, None)
    each = plugrad.ones_like(scores, dtype=plugrad.float32) if counted is None else counted
    is_true = plugrad.astype(truth, plugrad.float32).reshape(-1)
    true = is_true * each.reshape(-1)
    false = each.reshape(-1) - true
    order = plugrad.argsort(scores)
    ordered = plugrad.take(scores, order)
    sums = plugrad.cumulative_sum(plugrad.take(false, order), include_initial=True)
    before, through = (
        plugrad.take(sums, plugrad.searchsorted(ordered, scores, side=side))
        for side in ("left", "right")
    )
    pairs = plugrad.sum(true) * plugrad.sum(false)
    return plugrad.sum(true * (before + through)) / (2 * pairs)


def check_classes(op: str, labels: Any, logits: Any) -> tuple[Tensor, Tensor]:
    """Return class labels and logits as tensors, checked.

    Raises:
        ShapeError: the shapes do not fit.
    """
    labels, logits = as_tensors_on_logits_device(labels, logits)
    if labels.shape != logits.shape[:-1] or not logits.ndim:
        raise ShapeError(
            f"{op}: labels have shape {labels.shape} and logits {logits.shape}; logits must have the "
            "shape of the labels with a last axis of classes"
        )
    return labels, logits


def check_binary_predictions(op: str, labels: Any, logits: Any) -> tuple[Tensor, Tensor]:
    """Return which labels are 1, and which logits are positive.

    Raises:
        ShapeError: the shapes differ.
    """
    labels, logits = as_tensors_on_logits_device(labels, logits)
    if labels.shape != logits.shape:
        raise ShapeError(
            f"{op}: labels have shape {labels.shape} and logits {logits.shape}; they must be equal"
        )
    return labels if labels.dtype.kind == "bool" else labels > 0, logits > 0


def as_tensors_on_logits_device(labels: Any, logits: Any) -> tuple[Tensor, Tensor]:
    """Return both as tensors on the device of the logits."""
    logits = plugrad.asarray(logits)
    if isinstance(labels, plugrad.Tensor):
        return labels, logits
    return plugrad.asarray(labels, device=logits.backend), logits


def count_binary_predictions(
    op: str, labels: Any, logits: Any, weights: Any
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the numbers of true positives, of positive labels and of positive predictions."""
    truth, predicted = check_binary_predictions(op, labels, logits)
    counted = label_weights(op, truth, weights, None)
    both = plugrad.logical_and(truth, predicted)
    of_all = [sum_true(x, counted) for x in (both, truth, predicted)]
    return of_all[0], of_all[1], of_all[2]


def label_weights(op: str, labels: Tensor, weights: Any, ignore_index: int | None) -> Tensor | None:
    """Return the weight of each label, or None if all weigh the same.

    Raises:
        ShapeError: the weights do not broadcast to the labels.
    """
    counted = None
    if weights is not None:
        counted = plugrad.astype(as_tensors_on_logits_device(weights, labels)[0], plugrad.float32)
        try:
            counted = plugrad.broadcast_to(counted, labels.shape)
        except ShapeError:
            raise ShapeError(
                f"{op}: weights of shape {counted.shape} do not broadcast to the labels, whose shape is {labels.shape}"
            ) from None
    if ignore_index is not None:
        ignored = check_integer(op, "ignore_index", ignore_index, least=-(2**31))
        is_counted = plugrad.astype(labels != ignored, plugrad.float32)
        counted = is_counted if counted is None else counted * is_counted
    return counted


def sum_true(x: Tensor, weights: Tensor | None) -> Tensor:
    """Return the number of true elements, or the sum of their weights."""
    values = plugrad.astype(x, plugrad.float32)
    return plugrad.sum(values if weights is None else values * weights)


def _fraction_true(x: Tensor, weights: Tensor | None) -> Tensor:
    """Return the fraction of true elements, NaN if none counts."""
    if weights is None:
        return plugrad.mean(plugrad.astype(x, plugrad.float32))
    return sum_true(x, weights) / plugrad.sum(weights)
