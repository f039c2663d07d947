"""Gradient records that plugrad answers differently, each with the gradient that is right instead.

Finite differences decide: where they contradict a record, the record is listed here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from conformance.deviations import (
    Errors,
    is_padded,
    is_rounded_up,
    leaves_a_rest,
    pooled,
    sees_padding_only,
)
from conformance.forms import window_forms
from conformance.reader import Record
from families import images, windows as loops
from plugrad.errors import ShapeError
from plugrad.extend import normalize_axes


@dataclass(frozen=True)
class Deviation:
    """Records with one reason: which they are, and the right gradient of one input or the error."""

    reason: str
    applies: Callable[[Record], Any]
    expected: Callable[[Record, str], np.ndarray] | Errors


def averaged(record: Record, name: str) -> np.ndarray:
    inputs = [record.dy, record.saved[0]]
    return pooled(Record(record.kernel + "Grad", record.id, "", record.attrs, inputs))


def drops_a_window(record: Record) -> bool:
    """Whether a window of a pooling would start beyond the image."""
    inputs = [record.saved[0]] if record.saved else []
    call = Record(record.kernel, record.id, "", record.attrs, inputs)
    return is_rounded_up(record) and sees_padding_only(call)


def shared_by_ties(record: Record, name: str) -> np.ndarray:
    """Return dy, shared evenly by the elements that are the largest (or smallest)."""
    x, attrs = record.saved[0], record.attrs
    axes = normalize_axes(attrs.get("axis", attrs.get("reduction_indices")), x.ndim)
    extreme = (np.max if record.kernel == "Max" else np.min)(x, axis=axes, keepdims=True)
    is_extreme = x == extreme
    return record.dy.reshape(extreme.shape) * is_extreme / is_extreme.sum(axes, keepdims=True)


def has_ties(record: Record) -> bool:
    if record.kernel not in ("Max", "Min"):
        return False
    return not np.allclose(shared_by_ties(record, "x"), record.gradients["x"])


def is_shifted(record: Record) -> bool:
    """Whether TensorFlow.js shifts the windows of a volume."""
    return record.kernel == "Conv3D" and leaves_a_rest(
        Record(record.kernel, record.id, "", record.attrs, record.saved)
    )


def of_volumes(record: Record, name: str) -> np.ndarray:
    """Return the gradient of a convolution of volumes by definition."""
    x, filter = record.saved
    attrs = window_forms(record, x.shape)
    if name == "x":
        return loops.convolve_input_gradient(record.dy, filter, input_shape=x.shape, **attrs)
    return loops.convolve_filter_gradient(x, record.dy, filter_shape=filter.shape, **attrs)


def of_resized(record: Record, name: str) -> np.ndarray:
    return images.transposed(
        lambda x: images.resize_nearest_neighbor(x, **record.attrs),
        record.saved[0].shape,
        record.dy,
    )


def folded(record: Record, name: str) -> np.ndarray:
    """Return dy, each element added to the one that it mirrors."""
    x = record.gradients[name]
    paddings, mode = record.attrs["paddings"], record.attrs["mode"]
    sources = np.pad(np.arange(x.size).reshape(x.shape), paddings, mode=mode)
    dx = np.zeros_like(x).reshape(-1)
    np.add.at(dx, sources, record.dy)
    return dx.reshape(x.shape)


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
        "a window that would start beyond the image is dropped, so that dy has another shape",
        drops_a_window,
        (ShapeError,),
    ),
    Deviation(
        "an average counts cells in the image, and so does its gradient; TensorFlow.js divides by "
        "the size of the window",
        lambda r: r.kernel in ("AvgPool", "AvgPool3D") and is_padded(r),
        averaged,
    ),
    Deviation(
        "what is mirrored counts as often as it appears; TensorFlow.js looks at the middle only",
        lambda r: r.kernel == "MirrorPad",
        folded,
    ),
    Deviation(
        "a gradient has its input's shape; TensorFlow.js left this one to be summed by its caller",
        lambda r: r.id == "8ac8b94760d0a9db",
        lambda r, name: r.gradients[name].sum() if name == "b" else r.gradients[name],
    ),
    Deviation(
        "windows that do not reach the end of a volume start at its begin; TensorFlow.js shifts them",
        is_shifted,
        of_volumes,
    ),
    Deviation(
        "all images of a batch have a gradient, which count half-pixel centers; TensorFlow.js "
        "leaves NaN beyond the first, and ignores the centers",
        lambda r: (
            r.kernel == "ResizeNearestNeighbor"
            and (len(r.saved[0]) > 1 or r.attrs["half_pixel_centers"])
        ),
        of_resized,
    ),
)


def deviation(record: Record) -> Deviation | None:
    """Return the deviation that a record falls under."""
    return next((d for d in DEVIATIONS if d.applies(record)), None)
