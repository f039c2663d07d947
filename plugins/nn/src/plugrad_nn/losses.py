"""Losses of integer labels, which are the class of each example instead of a row of probabilities, and of embeddings.

They complete `plugrad.losses`, whose page describes weights and reductions. An example whose label is negative,
such as -1, does not count: its loss, its weight and its gradient are 0, even if its logits are NaN. So it is with the
label `ignore_index`.

A label that is too large is an error. On a device where finding out would mean waiting, `fit` and `evaluate` look at
the labels once, if the loss passes them on as they are, and so does the setting ``debug`` each time. Otherwise, as
where a loss passes on a part of its labels on a device, such an example does not count either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import plugrad
from plugrad.extend import DTypeError, ShapeError
from plugrad.kernels import indexing
from plugrad_nn.arguments import check_integer, check_number
from plugrad_nn.ctc import ctc_loss as ctc_loss
from plugrad_nn.labels import check_labels

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad import Tensor
    from plugrad.losses import Reduction


def sparse_softmax_cross_entropy(
    labels: Any,
    logits: Any,
    weights: Any = None,
    *,
    label_smoothing: float = 0.0,
    ignore_index: int | None = None,
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
        ignore_index: a class that does not count, beside negative labels.
        reduction: see `plugrad.losses`.

    Raises:
        ShapeError: the shapes do not fit, or the weights do not broadcast to the labels.
        DTypeError: the labels are not integers, or the logits not real numbers.
        ArgumentError, ArgumentValueError: a label is too large, or `label_smoothing`, `ignore_index` or the reduction
            is invalid.
    """
    labels, logits, counted = _check_labels_and_logits(
        "sparse_softmax_cross_entropy", labels, logits, ignore_index
    )
    example_weights = _example_weights(counted, weights, logits)
    if label_smoothing:
        return plugrad.losses.softmax_cross_entropy(
            plugrad.one_hot(labels, logits.shape[-1], dtype=logits.dtype),
            _without_ignored(counted, logits),
            example_weights,
            label_smoothing=label_smoothing,
            reduction=reduction,
        )
    # A tensor of one-hot labels would be as large as the logits, and 0 times the logarithm of 0 no number.
    each = _cross_entropy(plugrad.clip(labels, 0, logits.shape[-1] - 1), counted, logits)
    return plugrad.losses.compute_weighted_loss(each, example_weights, reduction=reduction)


@plugrad.custom_grad
def _cross_entropy(
    labels: Tensor, counted: Tensor, logits: Tensor, save_for_gradient: Callable[..., None]
) -> tuple[Tensor, Callable[..., Any]]:
    """Return the loss of each example; the gradient of the logits is the softmax, less 1 at the label.

    Both are 0 for an example that does not count: 0 times its loss or its softmax may be NaN.
    """
    place = {"axis": labels.ndim, "batch_dims": labels.ndim}
    shape, indices = logits.shape, plugrad.expand_dims(labels, -1)
    log_probabilities = plugrad.log_softmax(logits)
    save_for_gradient(indices, counted, log_probabilities)

    def gradient(dy: Tensor, saved: list[Tensor]) -> tuple[None, None, Tensor]:
        """Return the gradient for the logits."""
        indices, counted, log_probabilities = saved
        dy = plugrad.expand_dims(dy, -1)
        at_labels = indexing.gather_gradient(dy, indices, shape=shape, **place)
        found = dy * plugrad.exp(log_probabilities) - at_labels
        return None, None, _without_ignored(counted, found)

    found = plugrad.squeeze(indexing.gather(log_probabilities, indices, **place), -1)
    return plugrad.where(counted, -found, 0.0), gradient


def sparse_hinge_loss(
    labels: Any,
    logits: Any,
    weights: Any = None,
    *,
    ignore_index: int | None = None,
    reduction: Reduction = "sum_by_nonzero_weights",
) -> Tensor:
    """The hinge loss of several classes, ``relu(1 + largest other logit - logits[label])`` (Crammer and Singer, 2001).

    >>> nn.losses.sparse_hinge_loss([0, 1], [[3.0, 0.0], [1.0, 0.5]], reduction="none")
    tensor([0. , 1.5], dtype=float32)

    Arguments and errors are as for `sparse_softmax_cross_entropy`. There must be two classes or more.
    """
    labels, logits, counted = _check_labels_and_logits(
        "sparse_hinge_loss", labels, logits, ignore_index
    )
    if logits.shape[-1] < 2:
        raise ShapeError(
            f"sparse_hinge_loss: logits have shape {logits.shape}; there must be two classes or more"
        )
    logits = _without_ignored(counted, logits)
    is_label = plugrad.one_hot(labels, logits.shape[-1], dtype=logits.dtype)
    own = plugrad.sum(plugrad.where(is_label > 0, logits, 0.0), axis=-1)
    lowest = float(plugrad.finfo(logits.dtype).min)
    other = plugrad.max(plugrad.where(is_label > 0, lowest, logits), axis=-1)
    return plugrad.losses.compute_weighted_loss(
        plugrad.relu(1 + other - own),
        _example_weights(counted, weights, logits),
        reduction=reduction,
    )


def binary_focal_loss(
    labels: Any,
    logits: Any,
    weights: Any = None,
    *,
    gamma: float = 2.0,
    alpha: float | None = None,
    reduction: Reduction = "sum_by_nonzero_weights",
) -> Tensor:
    """The binary cross-entropy of logits with easy examples down-weighted (Lin et al., 2017).

    With p the probability of the right label, the loss is ``-(1 - p)**gamma * log(p)``.

    >>> nn.losses.binary_focal_loss([1.0, 0.0], [0.0, -4.0], reduction="none")
    tensor([1.732868e-01, 5.871570e-06], dtype=float32)

    Args:
        labels: numbers 0 and 1 in the shape of the logits.
        logits: unscaled logarithms of probabilities.
        weights: see `plugrad.losses`.
        gamma: how much less easy examples count, a number of 0 or more.
        alpha: the weight of the label 1; that of the label 0 is ``1 - alpha``. None means no weights.
        reduction: see `plugrad.losses`.

    Raises:
        ShapeError: the shapes differ, or the weights do not broadcast to them.
        ArgumentError, ArgumentValueError: `gamma`, `alpha` or the reduction is invalid.
    """
    check_number("binary_focal_loss", "gamma", gamma, least=0)
    labels, logits = _check_same_shape("binary_focal_loss", labels, logits)
    signed = plugrad.where(labels > 0, logits, -logits)
    each = plugrad.sigmoid(-signed) ** gamma * plugrad.softplus(-signed)
    if alpha is not None:
        check_number("binary_focal_loss", "alpha", alpha, least=0, below=1)
        each = each * plugrad.where(labels > 0, alpha, 1 - alpha)
    return plugrad.losses.compute_weighted_loss(each, weights, reduction=reduction)


def dice_loss(labels: Any, probabilities: Any, *, smooth: float = 1.0) -> Tensor:
    """One minus the mean Dice coefficient of the examples, the overlap of two masks (Milletari et al., 2016).

    >>> nn.losses.dice_loss([[1.0, 1.0, 0.0]], [[1.0, 0.0, 0.0]], smooth=0.0)
    tensor(0.3333333, dtype=float32)

    It is ``1 - (2 * sum(labels * probabilities) + smooth) / (sum(labels) + sum(probabilities) + smooth)``, with sums
    over all axes but the first.

    Args:
        labels: numbers between 0 and 1.
        probabilities: numbers between 0 and 1 in the same shape.
        smooth: a number, 0 or more, which keeps the divisor above 0.

    Raises:
        ShapeError: the shapes differ.
        ArgumentError, ArgumentValueError: `smooth` is not a number, or negative.
    """
    check_number("dice_loss", "smooth", smooth, least=0)
    labels, probabilities = _check_same_shape("dice_loss", labels, probabilities)
    axes = tuple(range(1, labels.ndim))
    both = plugrad.sum(labels * probabilities, axis=axes)
    total = plugrad.sum(labels, axis=axes) + plugrad.sum(probabilities, axis=axes)
    return plugrad.mean(1 - (2 * both + smooth) / (total + smooth))


def kl_divergence(
    labels: Any,
    probabilities: Any,
    weights: Any = None,
    *,
    reduction: Reduction = "sum_by_nonzero_weights",
) -> Tensor:
    """The Kullback–Leibler divergence along the last axis: ``sum(labels * log(labels / probabilities))``.

    >>> nn.losses.kl_divergence([[0.5, 0.5]], [[0.25, 0.75]])
    tensor(0.14384103, dtype=float32)

    A label of 0 adds 0.

    Args:
        labels: probabilities, whose sum along the last axis is 1.
        probabilities: likewise, in the same shape.
        weights: see `plugrad.losses`.
        reduction: see `plugrad.losses`.

    Raises:
        ShapeError: the shapes differ, or the weights do not broadcast to them without the last axis.
        ArgumentValueError: the reduction is invalid.
    """
    labels, probabilities = _check_same_shape("kl_divergence", labels, probabilities)
    counted = labels > 0
    safe = plugrad.where(counted, labels, 1.0)  # the gradient of log(0) would be NaN
    each = plugrad.where(counted, labels * (plugrad.log(safe) - plugrad.log(probabilities)), 0.0)
    summed = plugrad.sum(each, axis=-1)
    return plugrad.losses.compute_weighted_loss(summed, weights, reduction=reduction)


def contrastive_loss(labels: Any, distances: Any, *, margin: float = 1.0) -> Tensor:
    """The mean of squared distances of equal pairs, and of squared margin violations (Hadsell et al., 2006).

    ``labels * d**2 + (1 - labels) * max(margin - d, 0)**2``

    >>> nn.losses.contrastive_loss([1.0, 0.0], [0.5, 0.75])
    tensor(0.15625, dtype=float32)

    Args:
        labels: 1 for pairs that belong together, and 0 for others.
        distances: the distance of each pair, in the same shape.
        margin: the distance from which on pairs that do not belong together add nothing.

    Raises:
        ShapeError: the shapes differ.
        ArgumentError, ArgumentValueError: the margin is not a number, or negative.
    """
    check_number("contrastive_loss", "margin", margin, least=0)
    labels, distances = _check_same_shape("contrastive_loss", labels, distances)
    near, far = plugrad.square(distances), plugrad.square(plugrad.relu(margin - distances))
    return plugrad.mean(plugrad.where(labels > 0, near, far))


def triplet_loss(anchors: Any, positives: Any, negatives: Any, *, margin: float = 1.0) -> Tensor:
    """The mean of ``relu(d(anchor, positive) - d(anchor, negative) + margin)`` (Schroff et al., 2015).

    ``max(distance(anchor, positive) - distance(anchor, negative) + margin, 0)``, with Euclidean distances along the
    last axis.

    >>> nn.losses.triplet_loss([[0.0, 0.0]], [[3.0, 4.0]], [[0.0, 5.5]])
    tensor(0.5, dtype=float32)

    Args:
        anchors: embeddings, of shape (…, features).
        positives: embeddings that belong to the anchors, in the same shape.
        negatives: embeddings that do not, in the same shape.
        margin: a number, 0 or more.

    Raises:
        ShapeError: the shapes differ.
        ArgumentError, ArgumentValueError: the margin is not a number, or negative.
    """
    check_number("triplet_loss", "margin", margin, least=0)
    anchors, positives = _check_same_shape("triplet_loss", anchors, positives)
    anchors, negatives = _check_same_shape("triplet_loss", anchors, negatives)
    near, far = (_euclidean_distance(anchors, other) for other in (positives, negatives))
    return plugrad.mean(plugrad.relu(near - far + margin))


def _check_same_shape(op: str, a: Any, b: Any) -> tuple[Tensor, Tensor]:
    """Return two tensors of equal shape on the device of the second one."""
    b = plugrad.asarray(b)
    if not isinstance(a, plugrad.Tensor):
        a = plugrad.asarray(a, dtype=b.dtype, device=b.backend)
    if a.shape != b.shape:
        raise ShapeError(f"{op}: the shapes {a.shape} and {b.shape} must be equal")
    return a, b


def _euclidean_distance(a: Tensor, b: Tensor) -> Tensor:
    """Return the Euclidean distance along the last axis, whose gradient at 0 is 0."""
    squares = plugrad.sum(plugrad.square(a - b), axis=-1)
    is_apart = squares > 0
    return plugrad.where(is_apart, plugrad.sqrt(plugrad.where(is_apart, squares, 1.0)), 0.0)


def _check_labels_and_logits(
    op: str, labels: Any, logits: Any, ignore_index: int | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return labels and logits as tensors, and whether each label counts."""
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
    if ignore_index is not None:
        ignored = check_integer(op, "ignore_index", ignore_index, least=-(2**31))
        counted = plugrad.logical_and(counted, labels != ignored)
    return labels, logits, counted


def _without_ignored(counted: Tensor, rows: Tensor) -> Tensor:
    """Return the rows along the last axis, with zeros for the examples that do not count."""
    flags = counted.array
    if isinstance(flags, np.ndarray) and flags.all():  # cheap to know on the host: rows are long
        return rows
    return plugrad.where(plugrad.expand_dims(counted, -1), rows, 0.0)


def _example_weights(is_counted: Tensor, weights: Any, logits: Tensor) -> Tensor:
    """Return the weights of the examples, 0 for those that do not count."""
    is_counted = plugrad.astype(is_counted, logits.dtype)
    if weights is None:
        return is_counted
    if not isinstance(weights, plugrad.Tensor):
        weights = plugrad.asarray(weights, dtype=logits.dtype, device=logits.backend)
    return is_counted * weights
