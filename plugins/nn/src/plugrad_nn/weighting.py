"""The weights of examples and of their classes, and labels that are ignored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from inspect import signature
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

import plugrad
from plugrad.extend import ArgumentError
from plugrad_nn.arguments import check_integer, check_number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Weighting(NamedTuple):
    """The example weights, class weights and ignored label of a training or an evaluation."""

    owner: str
    """The name of the function that is called."""
    class_weights: Sequence[float] | None = None
    """The weight of each class; classes beyond the last one have the weight 1."""
    ignore_index: int | None = None
    """The label that does not count."""

    @property
    def needs_labels(self) -> bool:
        """Whether the weights depend on the labels."""
        return self.class_weights is not None or self.ignore_index is not None

    def weigh(self, batches: Iterator[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
        """Yield batches with weights if there are any."""
        for inputs, labels, *given in batches:
            if self.needs_labels:
                yield inputs, labels, self._example_weights(labels, *given)
            elif given and _are_integers(labels):
                yield inputs, labels, _align_with_labels(given[0], labels)
            else:
                yield inputs, labels, *given

    def _example_weights(self, labels: Any, example_weights: Any = None) -> Any:
        """Return the weight of each label; an array gives an array, a tensor gives a tensor."""
        xp: Any = plugrad if isinstance(labels, plugrad.Tensor) else np
        is_tensor = xp is plugrad
        if not _are_integers(labels):
            raise ArgumentError(
                f"{self.owner}: class_weight and ignore_index are for integer labels; weigh other examples with "
                "sample_weight"
            )
        weights = xp.ones_like(labels, dtype=xp.float32)
        if self.class_weights is not None:
            table: Any = np.array([*self.class_weights, 1.0], np.float32)
            table = plugrad.asarray(table, device=labels.backend) if is_tensor else table
            weights = xp.take(table, xp.clip(labels, 0, table.size - 1).reshape(-1))
            weights = xp.where(labels >= 0, weights.reshape(labels.shape), 0.0)
        if self.ignore_index is not None:
            weights = xp.where(labels == self.ignore_index, 0.0, weights)
        if example_weights is None:
            return weights
        if is_tensor and not isinstance(example_weights, plugrad.Tensor):
            example_weights = plugrad.asarray(example_weights, device=labels.backend)
        return weights * _align_with_labels(example_weights, labels).astype(weights.dtype)


def _are_integers(labels: Any) -> bool:
    """Return whether labels are one array or tensor of integers."""
    dtype: Any = getattr(labels, "dtype", None)
    xp: Any = plugrad if isinstance(labels, plugrad.Tensor) else np
    return dtype is not None and xp.isdtype(dtype, "integral")


def _align_with_labels(weights: Any, labels: Any) -> Any:
    """Return weights with as many axes as the labels: one weight for each example is that of all of its labels."""
    return weights.reshape((*weights.shape, *[1] * (labels.ndim - weights.ndim)))


def make_weighting(
    owner: str,
    class_weight: Mapping[int, float] | Sequence[float] | None,
    ignore_index: int | None,
) -> Weighting:
    """Check the arguments about weights and return them as a `Weighting`.

    Raises:
        ArgumentError, ArgumentValueError: a class is not an integer, or a weight not a number of 0 or more.
    """
    if ignore_index is not None:
        ignore_index = check_integer(owner, "ignore_index", ignore_index, least=-(2**31))
    return Weighting(owner, _class_weights(owner, class_weight), ignore_index)


def _class_weights(owner: str, class_weight: Any) -> list[float] | None:
    """Return the weight of each class as a list."""
    if class_weight is None:
        return None
    if isinstance(class_weight, Mapping):
        pairs = cast("Mapping[int, float]", class_weight).items()
        by_class = {check_integer(owner, "a class of class_weight", c): w for c, w in pairs}
        class_weight = [by_class.get(c, 1.0) for c in range(max(by_class, default=-1) + 1)]
    elif isinstance(class_weight, str) or not isinstance(class_weight, Sequence | np.ndarray):
        raise ArgumentError(
            f"{owner}: class_weight={class_weight!r:.80} must be a dict of weights by class, or a list of them"
        )
    return [
        check_number(owner, "a weight of class_weight", float(weight), least=0)
        for weight in cast("Sequence[float]", class_weight)
    ]


def check_takes_weights(owner: str, name: str, function: Callable[..., Any]) -> None:
    """Raise if a loss or a metric, called `name` in the error, does not take weights as its third argument.

    Raises:
        ArgumentError: it does not.
    """
    try:
        called = signature(function)
    except ValueError:  # a function written in another language
        return
    try:
        called.bind(None, None, None)
    except TypeError:
        raise ArgumentError(
            f"{owner}: examples have weights, so {name} must take three arguments (labels, predictions, weights); its "
            f"arguments are {called}"
        ) from None


def divides_by_weights(loss: Callable[..., Any]) -> bool:
    """Return whether a loss is ``partial(…, reduction="mean")``, which divides by the sum of weights."""
    return isinstance(loss, partial) and loss.keywords.get("reduction") == "mean"


def count_examples(batch: tuple[Any, ...], example_count: float, *, sums_weights: bool) -> Any:
    """Return the divisor of a batch's mean: a number, or a 0-d tensor for a sum of weights.

    Args:
        batch: inputs, labels and maybe weights.
        example_count: the number of its examples.
        sums_weights: whether this is the sum of the weights, and not the number of those that are not 0.
    """
    if len(batch) < 3:
        return example_count
    weights = batch[2] if sums_weights else batch[2] != 0
    if isinstance(weights, np.ndarray):
        return float(weights.sum(dtype=np.float32))
    return plugrad.sum(plugrad.astype(weights, plugrad.float32))
