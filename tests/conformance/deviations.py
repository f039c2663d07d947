"""Kernel records that plugrad answers differently, each with the answer that is right instead."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from conformance.forms import forms
from conformance.reader import Record
from plugrad.errors import ArgumentError, DTypeError, ShapeError
from plugrad.extend import KERNELS, as_dtype, sliding_window

Errors = tuple[type[Exception], ...]


@dataclass(frozen=True)
class Deviation:
    """Records with one reason: which they are, and the right arrays or the error they raise."""

    reason: str
    applies: Callable[[Record], Any]
    expected: Callable[[Record], Any] | Errors


def has_strings(record: Record) -> bool:
    return record.attrs.get("dtype") == "string" or any(x.dtype == object for x in record.arrays)


def is_refused(record: Record) -> bool:
    """Whether the contract does not take the first input's dtype."""
    has_input = record.inputs and not has_strings(record)
    return has_input and as_dtype(record.x.dtype) not in KERNELS[record.kernel].accepts


def windows(record: Record) -> tuple[list[tuple[Any, ...]], tuple[int, int]]:
    """Return where in the image the cells of each window lie, and how many windows there are."""
    attrs = forms(record)
    image = record.arrays[-1].shape  # the gradient of a pooling has it last
    rounding = attrs.get("dim_rounding_mode")
    window = sliding_window(
        image[1:3], attrs["filter_size"], attrs["strides"], attrs["pad"], rounding=rounding
    )
    places = []
    for stop in np.ndindex(*window.out):
        sides = []
        for axis in (0, 1):
            first = stop[axis] * window.strides[axis] - window.pad[axis][0]
            last = first + window.filter[axis]
            sides.append(slice(max(first, 0), max(0, min(last, image[1 + axis]))))
        places.append((slice(None), *sides))
    return places, window.out


def pooled(record: Record, summarize: Callable[..., Any], empty: float) -> np.ndarray:
    """Return each window's cells in the image summarized, and `empty` for a window beyond it."""
    places, out = windows(record)
    x = record.x
    y = [
        summarize(x[p], axis=(1, 2)) if x[p].size else np.full(x[:, 0, 0].shape, empty, x.dtype)
        for p in places
    ]
    return np.stack(y, 1).reshape(x.shape[0], *out, x.shape[3])


def average_gradient(record: Record) -> np.ndarray:
    """Return dy, shared out evenly among the cells of each window that are in the image."""
    dy, x = record.arrays[0], record.arrays[1]
    dx = np.zeros_like(x)
    for place, stop in zip(windows(record)[0], np.ndindex(*dy.shape[1:3]), strict=True):
        cells = dx[place]
        if cells.size:
            share = dy[:, stop[0], stop[1]] / (cells.shape[1] * cells.shape[2])
            cells += share[:, None, None, :]
    return dx


def has_lone_cells(record: Record) -> bool:
    """Whether the window has one cell and there is padding."""
    size, pad = record.attrs["filter_size"], record.attrs["pad"]
    return size in (1, [1, 1]) and pad not in ("same", "valid", 0)


def is_padded(record: Record) -> bool:
    return record.attrs["pad"] not in ("valid", 0)


def of(*kernels: str) -> Callable[[Record], bool]:
    return lambda record: record.kernel in kernels


def counted(record: Record) -> np.ndarray:
    attrs = forms(record)
    return np.arange(attrs["start"], attrs["stop"], attrs["step"]).astype(attrs["dtype"])


DEVIATIONS = (
    Deviation("plugrad has no strings yet", has_strings, (DTypeError, ArgumentError)),
    Deviation(
        "a kernel takes the dtypes of its contract; the op casts before it calls",
        is_refused,
        (DTypeError,),
    ),
    Deviation(
        "nothing has no largest or smallest element; TensorFlow.js returns infinities",
        lambda r: of("Max", "Min")(r) and r.x.size == 0 and r.outputs[0].size,
        (ShapeError,),
    ),
    Deviation(
        "a count that steps away from its stop is empty; TensorFlow.js turns the step around",
        lambda r: (
            r.kernel == "Range" and (r.attrs["stop"] - r.attrs["start"]) * r.attrs["step"] < 0
        ),
        counted,
    ),
    Deviation(
        "the rounded quotient of floats is a float; TensorFlow.js makes it int32",
        lambda r: r.kernel == "FloorDiv" and r.x.dtype == np.float32,
        lambda r: np.floor_divide(*r.arrays),
    ),
    Deviation(
        "NaN has no sign; TensorFlow.js gives 0",
        lambda r: r.kernel == "Sign" and np.isnan(r.x).any(),
        lambda r: np.sign(r.x),
    ),
    Deviation(
        "a complex number is true unless both parts are 0; TensorFlow.js looks at the real one",
        lambda r: r.kernel == "Cast" and r.x.dtype == np.complex64 and r.attrs["dtype"] == "bool",
        lambda r: r.x.astype(bool),
    ),
    Deviation(
        "a bool is True or False; TensorFlow.js stores 2",
        lambda r: r.kernel == "OneHot" and r.is_odd,
        lambda r: r.outputs[0].astype(bool),
    ),
    Deviation(
        "the largest of a window with NaN is NaN; TensorFlow.js passes over it",
        lambda r: r.kernel == "MaxPool" and np.isnan(r.x).any(),
        lambda r: pooled(r, np.max, -np.inf),
    ),
    Deviation(
        "TensorFlow.js copies the image when the window has one cell, also where that is padding",
        lambda r: r.kernel == "MaxPool" and has_lone_cells(r),
        lambda r: pooled(r, np.max, -np.inf),
    ),
    Deviation(
        "TensorFlow.js copies the image when the window has one cell, also where that is padding",
        lambda r: r.kernel == "AvgPool" and has_lone_cells(r),
        lambda r: pooled(r, np.mean, np.nan),
    ),
    Deviation(
        "the record lacks the dim_rounding_mode that its gradient has the shape of",
        lambda r: r.id == "f61602f97de88dbc",
        (ShapeError,),
    ),
    Deviation(
        "an average counts cells in the image, and so does its gradient; TensorFlow.js divides by "
        "the size of the window, which finite differences refute",
        lambda r: r.kernel == "AvgPoolGrad" and is_padded(r),
        average_gradient,
    ),
)


def deviation(record: Record) -> Deviation | None:
    """Return the deviation that a record falls under."""
    return next((d for d in DEVIATIONS if d.applies(record)), None)
