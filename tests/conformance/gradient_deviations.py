"""Gradient records that plugrad answers differently, each with the gradient that is right instead.

Finite differences decide: where they contradict a record, the record is listed here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from conformance.deviations import (
    ExceptionTypes,
    has_window_in_padding,
    is_padded,
    is_rounded_up,
    leaves_remainder,
    reference_pooling,
)
from conformance.forms import reference_window_attributes
from conformance.reader import Record
from families import images, windows as loops
from plugrad.errors import ShapeError
from plugrad.extend import normalize_axes


@dataclass(frozen=True)
class GradientDeviation:
    """Recorded gradients in which TensorFlow.js is wrong for one reason, and the right gradient or the error."""

    reason: str
    applies_to: Callable[[Record], Any]
    expected: Callable[[Record, str], np.ndarray] | ExceptionTypes


def reference_average_pooling_gradient(record: Record, name: str) -> np.ndarray:
    inputs = [record.dy, record.saved[0]]
    return reference_pooling(Record(record.kernel + "Grad", record.id, "", record.attrs, inputs))


def drops_last_window(record: Record) -> bool:
    """Whether a pooling window would start beyond the image."""
    inputs = [record.saved[0]] if record.saved else []
    call = Record(record.kernel, record.id, "", record.attrs, inputs)
    return is_rounded_up(record) and has_window_in_padding(call)


def gradient_shared_by_ties(record: Record, name: str) -> np.ndarray:
    """Return dy, divided evenly among the elements that are equal to the maximum or minimum."""
    x, attrs = record.saved[0], record.attrs
    axes = normalize_axes(attrs.get("axis", attrs.get("reduction_indices")), x.ndim)
    extreme = (np.max if record.kernel == "Max" else np.min)(x, axis=axes, keepdims=True)
    is_extreme = x == extreme
    return record.dy.reshape(extreme.shape) * is_extreme / is_extreme.sum(axes, keepdims=True)


def has_ties(record: Record) -> bool:
    if record.kernel not in ("Max", "Min"):
        return False
    return not np.allclose(gradient_shared_by_ties(record, "x"), record.gradients["x"])


def has_shifted_windows(record: Record) -> bool:
    """Whether TensorFlow.js shifts the windows of a 3D convolution or pooling."""
    return record.kernel == "Conv3D" and leaves_remainder(
        Record(record.kernel, record.id, "", record.attrs, record.saved)
    )


def reference_convolution3d_gradient(record: Record, name: str) -> np.ndarray:
    """Return the reference gradient of a 3D convolution."""
    x, filter = record.saved
    attrs = reference_window_attributes(record, x.shape)
    if name == "x":
        return loops.convolve_input_gradient(record.dy, filter, input_shape=x.shape, **attrs)
    return loops.convolve_filter_gradient(x, record.dy, filter_shape=filter.shape, **attrs)


def reference_resize_gradient(record: Record, name: str) -> np.ndarray:
    return images.transpose_linear_function(
        lambda x: images.resize_nearest_neighbor(x, **record.attrs),
        record.saved[0].shape,
        record.dy,
    )


def mirror_pad_gradient(record: Record, name: str) -> np.ndarray:
    """Return the gradient of mirror padding: dy, with each mirrored element added to its original."""
    x = record.gradients[name]
    paddings, mode = record.attrs["paddings"], record.attrs["mode"]
    sources = np.pad(np.arange(x.size).reshape(x.shape), paddings, mode=mode)
    dx = np.zeros_like(x).reshape(-1)
    np.add.at(dx, sources, record.dy)
    return dx.reshape(x.shape)


DEVIATIONS = (
    GradientDeviation(
        "whole numbers and bools cut the path; TensorFlow.js lets the gradient through the cast",
        lambda r: r.kernel == "Cast" and r.attrs["dtype"] in ("int32", "bool"),
        lambda r, name: np.zeros_like(r.gradients[name]),
    ),
    GradientDeviation(
        "a rounded quotient is constant between jumps; TensorFlow.js differentiates the quotient",
        lambda r: r.kernel == "FloorDiv",
        lambda r, name: np.zeros_like(r.gradients[name]),
    ),
    GradientDeviation(
        "equal extreme elements share dy; TensorFlow.js gives all of it to each",
        has_ties,
        gradient_shared_by_ties,
    ),
    GradientDeviation(
        "a window that would start beyond the image is dropped, so that dy has another shape",
        drops_last_window,
        (ShapeError,),
    ),
    GradientDeviation(
        "an average counts cells in the image, and so does its gradient; TensorFlow.js divides by "
        "the size of the window",
        lambda r: r.kernel in ("AvgPool", "AvgPool3D") and is_padded(r),
        reference_average_pooling_gradient,
    ),
    GradientDeviation(
        "what is mirrored counts as often as it appears; TensorFlow.js looks at the middle only",
        lambda r: r.kernel == "MirrorPad",
        mirror_pad_gradient,
    ),
    GradientDeviation(
        "a gradient has its input's shape; TensorFlow.js left this one to be summed by its caller",
        lambda r: r.id == "8ac8b94760d0a9db",
        lambda r, name: r.gradients[name].sum() if name == "b" else r.gradients[name],
    ),
    GradientDeviation(
        "windows that do not reach the end of a volume start at its begin; TensorFlow.js shifts them",
        has_shifted_windows,
        reference_convolution3d_gradient,
    ),
    GradientDeviation(
        "all images of a batch have a gradient, which count half-pixel centers; TensorFlow.js "
        "leaves NaN beyond the first, and ignores the centers",
        lambda r: (
            r.kernel == "ResizeNearestNeighbor"
            and (len(r.saved[0]) > 1 or r.attrs["half_pixel_centers"])
        ),
        reference_resize_gradient,
    ),
)


def find_deviation(record: Record) -> GradientDeviation | None:
    """Return the deviation to which a record belongs, or None."""
    return next((d for d in DEVIATIONS if d.applies_to(record)), None)
