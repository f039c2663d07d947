"""Metrics of classification, each a 0-d tensor. Larger is better, and 1 is the best.

`accuracy`, `binary_accuracy` and `top_k_accuracy` are averages over examples, so the average of
batches is that of all. `precision`, `recall` and `f1_score` are not: give them all examples at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import plugrad
from plugrad.extend import ShapeError
from plugrad_nn.arguments import check_integer

if TYPE_CHECKING:
    from plugrad import Tensor


def accuracy(labels: Any, logits: Any) -> Tensor:
    """The fraction of examples whose largest logit belongs to their label.

    >>> nn.metrics.accuracy([0, 1], [[2.0, 1.0], [3.0, 0.0]])
    tensor(0.5, dtype=float32)

    Among equal logits the first counts. Without examples the result is NaN.

    Args:
        labels: integers.
        logits: numbers in the shape of the labels with a last axis of classes.

    Raises:
        ShapeError: the shapes do not fit.
    """
    labels, logits = _check_classes("accuracy", labels, logits)
    predicted = plugrad.argmax(logits, axis=-1)
    return _safe_fraction(predicted == plugrad.astype(labels, predicted.dtype))


def top_k_accuracy(labels: Any, logits: Any, k: int = 5) -> Tensor:
    """The fraction of examples whose label is among the `k` largest logits.

    >>> nn.metrics.top_k_accuracy([2, 0], [[3.0, 1.0, 2.0], [0.0, 1.0, 2.0]], k=2)
    tensor(0.5, dtype=float32)

    A logit counts if fewer than `k` are larger. Arguments and errors are as for `accuracy`.

    Raises:
        ArgumentError, ArgumentValueError: `k` is not an integer of at least 1.
    """
    k = check_integer("top_k_accuracy", "k", k, 1)
    labels, logits = _check_classes("top_k_accuracy", labels, logits)
    is_label = plugrad.one_hot(labels, logits.shape[-1], dtype=logits.dtype)
    own = plugrad.sum(is_label * logits, axis=-1, keepdims=True)
    larger = plugrad.count_nonzero(logits > own, axis=-1)
    is_class = plugrad.logical_and(labels >= 0, labels < logits.shape[-1])
    return _safe_fraction(plugrad.logical_and(larger < k, is_class))


def binary_accuracy(labels: Any, logits: Any) -> Tensor:
    """The fraction of elements whose logit is positive where the label is 1, and not where it is 0.

    >>> nn.metrics.binary_accuracy([1, 0, 1], [2.0, -1.0, -3.0])
    tensor(0.6666667, dtype=float32)

    Args:
        labels: numbers 0 and 1, or bools.
        logits: numbers in the same shape.

    Raises:
        ShapeError: the shapes differ.
    """
    truth, predicted = _check_decisions("binary_accuracy", labels, logits)
    return _safe_fraction(truth == predicted)


def precision(labels: Any, logits: Any) -> Tensor:
    """The fraction of elements with the label 1 among those with a positive logit; 0 if there is none.

    >>> nn.metrics.precision([1, 0, 1], [2.0, 1.0, -3.0])
    tensor(0.5, dtype=float32)

    Arguments and errors are as for `binary_accuracy`.
    """
    truth, predicted = _check_decisions("precision", labels, logits)
    return plugrad.div_no_nan(
        _count_true(plugrad.logical_and(truth, predicted)), _count_true(predicted)
    )


def recall(labels: Any, logits: Any) -> Tensor:
    """The fraction of elements with a positive logit among those with the label 1; 0 if there is none.

    >>> nn.metrics.recall([1, 0, 1], [2.0, 1.0, 3.0])
    tensor(1., dtype=float32)

    Arguments and errors are as for `binary_accuracy`.
    """
    truth, predicted = _check_decisions("recall", labels, logits)
    return plugrad.div_no_nan(
        _count_true(plugrad.logical_and(truth, predicted)), _count_true(truth)
    )


def f1_score(labels: Any, logits: Any) -> Tensor:
    """The harmonic mean of `precision` and `recall`; 0 if both are.

    >>> nn.metrics.f1_score([1, 0, 1], [2.0, 1.0, -3.0])
    tensor(0.5, dtype=float32)

    Arguments and errors are as for `binary_accuracy`.
    """
    truth, predicted = _check_decisions("f1_score", labels, logits)
    right = _count_true(plugrad.logical_and(truth, predicted))
    return plugrad.div_no_nan(2 * right, _count_true(truth) + _count_true(predicted))


def _check_classes(op: str, labels: Any, logits: Any) -> tuple[Tensor, Tensor]:
    labels, logits = _on_one_device(labels, logits)
    if labels.shape != logits.shape[:-1] or not logits.ndim:
        raise ShapeError(
            f"{op}: labels have shape {labels.shape} and logits {logits.shape}; logits must have the "
            "shape of the labels with a last axis of classes"
        )
    return labels, logits


def _check_decisions(op: str, labels: Any, logits: Any) -> tuple[Tensor, Tensor]:
    labels, logits = _on_one_device(labels, logits)
    if labels.shape != logits.shape:
        raise ShapeError(
            f"{op}: labels have shape {labels.shape} and logits {logits.shape}; they must be equal"
        )
    return labels if labels.dtype.kind == "bool" else labels > 0, logits > 0


def _on_one_device(labels: Any, logits: Any) -> tuple[Tensor, Tensor]:
    logits = plugrad.asarray(logits)
    if isinstance(labels, plugrad.Tensor):
        return labels, logits
    return plugrad.asarray(labels, device=logits.backend), logits


def _count_true(x: Tensor) -> Tensor:
    return plugrad.sum(plugrad.astype(x, plugrad.float32))


def _safe_fraction(x: Tensor) -> Tensor:
    return plugrad.mean(plugrad.astype(x, plugrad.float32))
