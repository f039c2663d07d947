"""Kernel records that plugrad answers differently, each with the answer that is right instead."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from conformance.forms import plugrad_attributes, reference_window_attributes
from conformance.reader import Record
from families import images, windows as loops
from plugrad.errors import ShapeError
from plugrad.extend import KERNELS, as_dtype

ExceptionTypes = tuple[type[Exception], ...]


@dataclass(frozen=True)
class Deviation:
    """Recorded calls in which TensorFlow.js is wrong for one reason, and the right arrays or the error of plugrad."""

    reason: str
    applies_to: Callable[[Record], Any]
    expected: Callable[[Record], Any] | ExceptionTypes


def accepted_dtype(record: Record) -> str | None:
    """Return the dtype to which the inputs must be cast if the contract does not accept theirs."""
    accepts = KERNELS[record.kernel].accepts
    if not record.inputs or as_dtype(record.x.dtype) in accepts:
        return None
    return "int32" if record.x.dtype == bool and "int32" in accepts else "float32"


def is_truncated_to_integers(record: Record) -> bool:
    """Whether TensorFlow.js truncated results to integers although the function returns fractions."""
    return record.kernel in FLOAT_FUNCTIONS and accepted_dtype(record) == "float32"


def result_in_floats(record: Record) -> np.ndarray:
    floats = [x.astype(np.float32).astype(float) for x in record.arrays]
    return FLOAT_FUNCTIONS[record.kernel](*floats).astype(np.float32)


def reference_pooling(record: Record) -> np.ndarray:
    """Return the reference result of a pooling kernel."""
    references = {
        "MaxPool": loops.max_pool,
        "AvgPool": loops.avg_pool,
        "AvgPoolGrad": loops.avg_pool_gradient,
    }
    reference = references[record.kernel.replace("3D", "")]
    return reference(*record.arrays, **reference_window_attributes(record)).astype(np.float32)


def has_window_in_padding(record: Record) -> bool:
    """Whether a pooling window lies entirely in the padding."""
    if "Pool" not in record.kernel:
        return False
    names = "window_size", "strides", "padding"
    attrs = reference_window_attributes(record)
    image = record.arrays[record.kernel.endswith("Grad")]
    rounding = attrs.get("dim_rounding_mode")
    _, seen = loops.windows_of_images(image, *(attrs[name] for name in names), 1, rounding)
    return not all(seen.values())


def is_rounded_up(record: Record) -> bool:
    return record.attrs.get("dim_rounding_mode") in ("ceil", "round")


def is_padded(record: Record) -> bool:
    return record.attrs["pad"] not in ("valid", 0)


def is_record_of(*kernels: str) -> Callable[[Record], bool]:
    return lambda record: record.kernel in kernels


def reference_range(record: Record) -> np.ndarray:
    attrs = plugrad_attributes(record)
    return np.arange(attrs["start"], attrs["stop"], attrs["step"]).astype(attrs["dtype"])


def top_k_in_input_order(record: Record) -> list[np.ndarray]:
    """Return the k largest elements and their positions, in the order of the input."""
    order = np.argsort(-record.x, kind="stable")[..., : record.attrs["k"]]
    order = np.sort(order).astype("int32")
    return [np.take_along_axis(record.x, order, -1), order]


def leaves_remainder(record: Record) -> bool:
    """Whether the windows of a volume with same padding do not reach its end."""
    if not record.kernel.startswith("Conv3D") or record.attrs["pad"] != "same":
        return False
    attrs = reference_window_attributes(record)
    volume = attrs.get("input_shape", record.x.shape)[1:-1]
    cells = attrs.get("filter_shape", record.arrays[1].shape)[:-2]
    return any(
        (-(-n // stride) - 1) * stride + length < n
        for n, length, stride in zip(volume, cells, attrs["strides"], strict=True)
    )


def reference_convolution3d(record: Record) -> np.ndarray:
    """Return the reference result of a 3D convolution kernel."""
    references = {
        "Conv3D": loops.convolve,
        "Conv3DBackpropInputV2": loops.convolve_input_gradient,
        "Conv3DBackpropFilterV2": loops.convolve_filter_gradient,
    }
    return references[record.kernel](*record.arrays, **reference_window_attributes(record)).astype(
        np.float32
    )


def reference_resize_gradient(record: Record) -> np.ndarray:
    """Return the reference gradient of resizing images."""
    forward = RESIZE_FUNCTIONS[record.kernel.removesuffix("Grad")]
    dy, x, attrs = record.inputs["dy"], record.inputs["images"], record.attrs
    return images.transpose_linear_function(lambda x: forward(x, **attrs), x.shape, dy).astype(
        dy.dtype
    )


def reference_transform(record: Record) -> np.ndarray:
    return images.transform(*record.arrays, **plugrad_attributes(record)).astype(record.x.dtype)


def reference_rotation(record: Record) -> np.ndarray:
    return images.rotate_with_offset(record.x, **record.attrs).astype(record.x.dtype)


def reference_regex_replace(record: Record) -> np.ndarray:
    """Return strings in which each match is replaced by the literal rewrite."""
    pattern, rewrite = record.attrs["pattern"], record.attrs["rewrite"]
    texts = [re.sub(pattern, lambda match: rewrite, text) for text in record.x]
    return np.array(texts, record.x.dtype)


FLOAT_FUNCTIONS = {
    **{name.title(): getattr(np, "arc" + name[1:]) for name in ("acos", "acosh", "asin", "asinh")},
    "Atanh": np.arctanh,
    "Atan2": np.arctan2,
    "Log1p": np.log1p,
    "RealDiv": np.divide,
    "Reciprocal": np.reciprocal,
    "Selu": lambda x: np.where(x > 0, 1.0507009873554805 * x, 1.7580993408473766 * np.expm1(x)),
    "Sinh": np.sinh,
    "Softplus": lambda x: np.logaddexp(x, 0),
}
RESIZE_FUNCTIONS = {
    "ResizeBilinear": images.resize_bilinear,
    "ResizeNearestNeighbor": images.resize_nearest_neighbor,
}
DEVIATIONS = (
    Deviation(
        "a function with fractions for results gives floats; TensorFlow.js cuts them off if the "
        "inputs are whole numbers",
        is_truncated_to_integers,
        result_in_floats,
    ),
    Deviation(
        r"a group in a rewrite is \1, as in TensorFlow; TensorFlow.js takes JavaScript's $1",
        lambda r: r.kernel == "StaticRegexReplace" and "$" in r.attrs["rewrite"],
        reference_regex_replace,
    ),
    Deviation(
        "nothing has no largest or smallest element; TensorFlow.js returns infinities",
        lambda r: is_record_of("Max", "Min")(r) and r.x.size == 0 and r.outputs[0].size,
        (ShapeError,),
    ),
    Deviation(
        "a count that steps away from its stop is empty; TensorFlow.js turns the step around",
        lambda r: (
            r.kernel == "Range" and (r.attrs["stop"] - r.attrs["start"]) * r.attrs["step"] < 0
        ),
        reference_range,
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
        "a window that would start beyond the image is dropped; TensorFlow.js returns -infinity or "
        "NaN for it",
        lambda r: is_rounded_up(r) and has_window_in_padding(r),
        reference_pooling,
    ),
    Deviation(
        "there is no result for a window of padding; TensorFlow.js returns -infinity or NaN, or, "
        "if it has one cell, something of the image",
        has_window_in_padding,
        (ShapeError,),
    ),
    Deviation(
        "the largest of a window with NaN is NaN; TensorFlow.js passes over it",
        lambda r: is_record_of("MaxPool", "MaxPool3D")(r) and np.isnan(r.x).any(),
        reference_pooling,
    ),
    Deviation(
        "the largest elements come in their own order if not sorted; TensorFlow.js leaves it open",
        lambda r: r.kernel == "TopK" and not r.attrs["sorted"],
        top_k_in_input_order,
    ),
    Deviation(
        "windows that do not reach the end of a volume start at its begin; TensorFlow.js shifts "
        "them, with a padding below 0",
        leaves_remainder,
        reference_convolution3d,
    ),
    Deviation(
        "a gradient has the shape of its images, which count half-pixel centers; TensorFlow.js "
        "exchanges height and width, and ignores the centers",
        lambda r: (
            r.kernel == "ResizeBilinearGrad"
            and (np.diff(r.inputs["images"].shape[1:3]) or r.attrs["half_pixel_centers"])
        ),
        reference_resize_gradient,
    ),
    Deviation(
        "all images of a batch have a gradient, which count half-pixel centers; TensorFlow.js "
        "leaves NaN beyond the first, and ignores the centers",
        lambda r: (
            r.kernel == "ResizeNearestNeighborGrad"
            and (len(r.inputs["images"]) > 1 or r.attrs["half_pixel_centers"])
        ),
        reference_resize_gradient,
    ),
    Deviation(
        "a wrapped image is repeated; TensorFlow.js repeats it once, and its first or last pixel "
        "beyond that",
        lambda r: r.kernel == "Transform" and r.attrs["fill_mode"] == "wrap",
        reference_transform,
    ),
    Deviation(
        "each image has its transform; TensorFlow.js fills all but the first",
        lambda r: r.kernel == "Transform" and len(r.inputs["transforms"]) > 1,
        reference_transform,
    ),
    Deviation(
        "an image turns about its middle, and loses nothing in a half turn; TensorFlow.js turns "
        "it about a point half a pixel further",
        lambda r: r.kernel == "RotateWithOffset" and r.attrs["radians"],
        reference_rotation,
    ),
    Deviation(
        "what occurs is counted once if only that is asked for; TensorFlow.js adds up weights",
        lambda r: r.kernel == "DenseBincount" and r.attrs["binary_output"] and r.x.ndim == 1,
        lambda r: np.isin(np.arange(r.attrs["size"]), r.x).astype(np.float32),
    ),
    Deviation(
        "the record lacks the dim_rounding_mode that its gradient has the shape of",
        lambda r: r.id == "f61602f97de88dbc",
        (ShapeError,),
    ),
    Deviation(
        "an average counts cells in the image, and so does its gradient; TensorFlow.js divides by "
        "the size of the window, which finite differences refute",
        lambda r: is_record_of("AvgPoolGrad", "AvgPool3DGrad")(r) and is_padded(r),
        reference_pooling,
    ),
)


def find_deviation(record: Record) -> Deviation | None:
    """Return the deviation to which a record belongs, or None."""
    return next((d for d in DEVIATIONS if d.applies_to(record)), None)
