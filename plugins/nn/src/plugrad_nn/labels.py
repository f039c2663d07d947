"""Checks that integer labels are less than the number of classes, without waiting for a device to read them.

Labels that are on the host are checked by the losses. `fit` and `evaluate` look at the labels of a data set once,
and tell the losses what they have found about each batch.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

import numpy as np

import plugrad
from plugrad.extend import ArgumentValueError, is_traced

if TYPE_CHECKING:
    from collections.abc import Generator

    from plugrad import Tensor

_current_batch_labels: Final[ContextVar[tuple[Tensor, int] | None]] = ContextVar(
    "plugrad_nn_batch", default=None
)
"""The labels of the batch that is being computed, and the largest label of its data set."""


def largest_label(labels: Any) -> int | None:
    """Return the largest integer label of a data set, or None without integer labels or for several outputs."""
    if labels is None or isinstance(labels, dict | tuple):
        return None
    if isinstance(labels, plugrad.Tensor):
        if not (plugrad.isdtype(labels.dtype, "integral") and labels.size):
            return None
        return int(plugrad.max(plugrad.stop_gradient(labels)).item())
    values: Any = np.asarray(labels)
    return int(values.max()) if values.dtype.kind in "iu" and values.size else None


@contextmanager
def batch_labels(labels: Tensor, max_label: int | None) -> Generator[None]:
    """Tell losses within a block the largest label of the data set that a batch belongs to."""
    token = _current_batch_labels.set(None if max_label is None else (labels, max_label))
    try:
        yield
    finally:
        _current_batch_labels.reset(token)


def check_labels(op: str, labels: Tensor, original_labels: Any, class_count: int) -> None:
    """Raise if a label exceeds the last class, unless the check would have to wait for a device.

    Args:
        op: the name of the loss.
        labels: the labels, a tensor.
        original_labels: what the program gave as labels.
        class_count: the number of classes.

    Raises:
        ArgumentValueError: a label is no class.
    """
    batch, array = _current_batch_labels.get(), labels.array
    if batch is not None and batch[0] is labels:
        largest = batch[1]
    elif original_labels is not labels:
        largest = largest_label(original_labels)
    elif is_traced(labels):
        return
    elif isinstance(array, np.ndarray):  # which is read without a kernel, also in a trace
        largest = largest_label(array)
    elif plugrad.config.get("debug"):
        largest = largest_label(labels.numpy())
    else:
        return
    if largest is not None and largest >= class_count:
        raise ArgumentValueError(
            f"{op}: label {largest} is none of the {class_count} classes of the logits, which are numbered from 0 to "
            f"{class_count - 1}; a negative label marks an example that does not count"
        )
