"""Losses of integer labels: the class of each example instead of a row of probabilities.

They complete `plugrad.losses`, whose page describes weights and reductions. An example whose label is negative,
such as -1, does not count: its loss and its weight are 0. A label that is too large is an error. On a device where
finding out would mean waiting, `fit` and `evaluate` look at the labels once, if the loss passes them on as they are,
and so does the setting ``debug`` each time. Otherwise, as where a loss passes on a part of its labels on a device,
such an example does not count either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import plugrad
from plugrad.extend import DTypeError, ShapeError
from plugrad_nn.labels import check_labels

if TYPE_CHECKING:
    from plugrad import Tensor
    from plugrad.losses import Reduction


def sparse_softmax_cross_entropy(
    labels: Any,
    logits: Any,
    weights: Any = None,
    *,
    label_smoothing: float = 0.0,
    reduction: Reduction = "sum_by_nonzero_weights",
) -> Tensor:
    """The cross-entropy between labels and the softmax of logits: ``-log_softmax(logits)[label]``.

    >>> nn.losses.sparse_softmax_cross_entropy([0, 1, -1], [[2.0, 0.0], [0.0, 0.0], [5.0, 5.0]])
    tensor(0.4100376, dtype=float32)

    Args:
        labels: integers from 0 up to but without the number of classes; negative ones do not count.
        logits: unscaled logarithms of probabilities, in the shape of the labels with a last axis of
            classes.
        weights: see `plugrad.losses`.
        label_smoothing: between 0 and 1: the fraction of each label that is spread evenly over all
            classes (Szegedy et al., 2016).
        reduction: see `plugrad.losses`.

    Raises:
        ShapeError: the shapes do not fit, or the weights do not broadcast to the labels.
        DTypeError: the labels are not integers, or the logits not real numbers.
        ArgumentError, ArgumentValueError: a label is too large, or `label_smoothing` or the reduction is invalid.
    """
    labels, logits, counted = _check_labels_and_logits(
        "sparse_softmax_cross_entropy", labels, logits
    )
    return plugrad.losses.softmax_cross_entropy(
        plugrad.one_hot(labels, logits.shape[-1], dtype=logits.dtype),
        logits,
        _example_weights(counted, weights, logits),
        label_smoothing=label_smoothing,
        reduction=reduction,
    )


def sparse_hinge_loss(
    labels: Any,
    logits: Any,
    weights: Any = None,
    *,
    reduction: Reduction = "sum_by_nonzero_weights",
) -> Tensor:
    """The hinge loss of several classes, ``relu(1 + largest other logit - logits[label])`` (Crammer and Singer, 2001).

    >>> nn.losses.sparse_hinge_loss([0, 1], [[3.0, 0.0], [1.0, 0.5]], reduction="none")
    tensor([0. , 1.5], dtype=float32)

    Arguments and errors are as for `sparse_softmax_cross_entropy`. There must be two classes or more.
    """
    labels, logits, counted = _check_labels_and_logits("sparse_hinge_loss", labels, logits)
    if logits.shape[-1] < 2:
        raise ShapeError(
            f"sparse_hinge_loss: logits have shape {logits.shape}; there must be two classes or more"
        )
    is_label = plugrad.one_hot(labels, logits.shape[-1], dtype=logits.dtype)
    own = plugrad.sum(is_label * logits, axis=-1)
    lowest = float(plugrad.finfo(logits.dtype).min)
    other = plugrad.max(plugrad.where(is_label > 0, lowest, logits), axis=-1)
    return plugrad.losses.compute_weighted_loss(
        plugrad.relu(1 + other - own),
        _example_weights(counted, weights, logits),
        reduction=reduction,
    )


def _check_labels_and_logits(op: str, labels: Any, logits: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Return labels and logits as tensors, and where a label is a class."""
    logits = plugrad.asarray(logits)
    if not plugrad.isdtype(logits.dtype, "real floating"):
        raise DTypeError(f"{op}: logits are {logits.dtype}; they must be floating, such as float32")
    given = labels
    if not isinstance(labels, plugrad.Tensor):
        labels = plugrad.asarray(labels, device=logits.backend)
    if not plugrad.isdtype(labels.dtype, "integral"):
        raise DTypeError(
            f"{op}: labels are {labels.dtype}; they must be integers. plugrad.losses takes probabilities"
        )
    if labels.shape != logits.shape[:-1] or not logits.ndim:
        raise ShapeError(
            f"{op}: labels have shape {labels.shape} and logits {logits.shape}; logits must have the "
            "shape of the labels with a last axis of classes"
        )
    check_labels(op, labels, given, logits.shape[-1])
    counted = plugrad.logical_and(labels >= 0, labels < logits.shape[-1])
    return labels, logits, plugrad.astype(counted, logits.dtype)


def _example_weights(counted: Tensor, weights: Any, logits: Tensor) -> Tensor:
    if weights is None:
        return counted
    if not isinstance(weights, plugrad.Tensor):
        weights = plugrad.asarray(weights, dtype=logits.dtype, device=logits.backend)
    return counted * weights
