"""Gradient records that plugrad answers differently, each with the gradient that is right instead.

Finite differences decide: where they contradict a record, the record is listed here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from conformance.deviations import average_gradient, is_padded
from conformance.reader import Record
from plugrad.extend import axes_of


@dataclass(frozen=True)
class Deviation:
    """Records with one reason: which they are, and the right gradient of one input."""

    reason: str
    applies: Callable[[Record], Any]
    expected: Callable[[Record, str], np.ndarray]


def averaged(record: Record, name: str) -> np.ndarray:
    call = Record(record.kernel, record.id, "", record.attrs, [record.dy, record.saved[0]])
    return average_gradient(call)


def shared_by_ties(record: Record, name: str) -> np.ndarray:
    """Return dy, shared evenly by the elements that are the largest (or smallest)."""
    x, attrs = record.saved[0], record.attrs
    axes = axes_of(attrs.get("axis", attrs.get("reduction_indices")), x.ndim)
    extreme = (np.max if record.kernel == "Max" else np.min)(x, axis=axes, keepdims=True)
    is_extreme = x == extreme
    return record.dy.reshape(extreme.shape) * is_extreme / is_extreme.sum(axes, keepdims=True)


def has_ties(record: Record) -> bool:
    if record.kernel not in ("Max", "Min"):
        return False
    return not np.allclose(shared_by_ties(record, "x"), record.gradients["x"])


DEVIATIONS = (
    Deviation(
        "whole numbers and bools cut the path; TensorFlow.js lets the gradient through the cast",
        lambda r: r.kernel == "Cast" and r.attrs["dtype"] in ("int32", "bool"),
        lambda r, name: np.zeros_like(r.gradients[name]),
    ),
    Deviation(
        "a rounded quotient is constant between jumps; TensorFlow.js differentiates the quotient",
        lambda r: r.kernel == "FloorDiv",
        lambda r, name: np.zeros_like(r.gradients[name]),
    ),
    Deviation(
        "equal extreme elements share dy; TensorFlow.js gives all of it to each",
        has_ties,
        shared_by_ties,
    ),
    Deviation(
        "an average counts cells in the image, and so does its gradient; TensorFlow.js divides by "
        "the size of the window",
        lambda r: r.kernel == "AvgPool" and is_padded(r),
        averaged,
    ),
    Deviation(
        "a gradient has its input's shape; TensorFlow.js left this one to be summed by its caller",
        lambda r: r.id == "8ac8b94760d0a9db",
        lambda r, name: r.gradients[name].sum() if name == "b" else r.gradients[name],
    ),
)


def deviation(record: Record) -> Deviation | None:
    """Return the deviation that a record falls under."""
    return next((d for d in DEVIATIONS if d.applies(record)), None)
