"""Op records that plugrad answers differently: the reason, and what is right instead.

The right answer is arrays, computed with NumPy from the definition, or the error that plugrad raises.
Some reasons are defects of TensorFlow.js; the others, marked as a choice, are plugrad's own.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from conformance.reader import Record
from families import images, windows
from families.test_depthwise import reference_depthwise_convolution as depthwise
from families.test_losses import np_softmax
from plugrad.errors import DTypeError, ShapeError

ExpectedResults = Sequence[Any]
ExceptionTypes = tuple[type[Exception], ...]


@dataclass(frozen=True)
class OpDeviation:
    """Recorded op calls that differ from plugrad for one reason, and the right result or the error."""

    reason: str
    applies_to: Callable[[Record], Any]
    expected: Callable[[Record], ExpectedResults] | ExceptionTypes
    is_choice: bool = False


def is_record_with_id(*names: str) -> Callable[[Record], bool]:
    return lambda record: record.id in names


def from_arguments(function: Callable[..., Any]) -> Callable[[Record], ExpectedResults]:
    """Return a function from a record to the expected result, given a function of the positional arguments."""
    return lambda record: [np.asarray(function(*record.args.values()))]


def from_named_arguments(function: Callable[..., Any]) -> Callable[[Record], ExpectedResults]:
    """Return a function from a record to the expected result, given a function of the named arguments."""
    return lambda record: [np.asarray(function(**record.args))]


def array_arguments(record: Record) -> list[np.ndarray]:
    return [x for x in record.args.values() if isinstance(x, np.ndarray)]


def result_kind(record: Record) -> str:
    return record.result.dtype.kind if isinstance(record.result, np.ndarray) else ""


def float32_result(functions: dict[str, Callable[..., Any]]) -> Callable[[Record], ExpectedResults]:
    """Return a function from a record to the float32 result for integers or bools."""

    def answers(record: Record) -> ExpectedResults:
        floats = [np.asarray(x, np.float32).astype(np.float64) for x in record.args.values()]
        return [np.asarray(functions[record.kernel](*floats)).astype(np.float32)]

    return answers


TRUNCATED_FUNCTIONS = {
    **{n: getattr(np, "arc" + n[1:]) for n in ("acos", "acosh", "asin", "asinh", "atanh")},
    "sinh": np.sinh,
    "log1p": np.log1p,
    "reciprocal": np.reciprocal,
    "atan2": np.arctan2,
    "div": np.divide,
    "softplus": lambda x: np.logaddexp(x, 0),
    "selu": lambda x: np.where(x > 0, 1.0507009873554805 * x, 1.7580993408473766 * np.expm1(x)),
    "floorDiv": np.floor_divide,
    "divNoNan": lambda a, b: np.where(b == 0, 0, a / np.where(b == 0, 1, b)),
}
FUNCTIONS_WITHOUT_INTEGERS = {
    **{n: getattr(np, n) for n in ("cos", "cosh", "log", "sin", "sqrt", "tanh")},
    "elu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "erf": scipy.special.erf,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": scipy.special.expit,
    "softmax": scipy.special.softmax,
}
FUNCTIONS_KEEPING_INTEGERS = {
    "ceil": np.asarray,
    "floor": np.asarray,
    "depthToSpace": lambda x, *_: x.reshape(1, 2, 2, 1),
}
FUNCTIONS_WITHOUT_COMPLEX = {"div": np.divide, "equal": np.equal, "notEqual": np.not_equal}


def is_truncated_to_integers(record: Record) -> bool:
    """Whether TensorFlow.js truncated results to integers although the function returns fractions."""
    if record.kernel in ("div", "floorDiv") and all(
        x.dtype == np.int32 for x in array_arguments(record)
    ):
        return False
    return record.kernel in TRUNCATED_FUNCTIONS and result_kind(record) in ("i", "b")


def requires_floats(record: Record) -> bool:
    """Whether TensorFlow.js rejects integers or bools because it requires float32."""
    refusals = (
        "must be float32 tensor, but got int32",
        "must be float32 tensor, but got bool",
        "must be `int32` or `float32`",
    )
    return any(refusal in record.error for refusal in refusals)


def lacks_complex(record: Record) -> bool:
    return "does not support complex64 tensors in the CPU backend" in record.error


def is_op_for_bools(record: Record) -> bool:
    ops = {"abs", "relu", "relu6", "sign", "pow", "squaredDifference"}
    is_bool = bool(array_arguments(record)) and all(
        x.dtype == bool for x in array_arguments(record)
    )
    return is_bool and record.kernel in ops and not record.error


def reference_max_pool(x: np.ndarray, filterSize: int, strides: int, pad: str) -> np.ndarray:  # noqa: N803
    """Return the maximum of each 2 × 2 window with stride 1."""
    after = int(pad == "same")
    widths = [(0, 0)] * (x.ndim - 3) + [(0, after), (0, after), (0, 0)]
    padded = np.pad(x, widths, constant_values=-np.inf)
    return np.lib.stride_tricks.sliding_window_view(padded, (2, 2), (-3, -2)).max((-2, -1))


def reference_dilated_average_pool(record: Record) -> ExpectedResults:
    """Return the averages of dilated 2 × 2 windows, over the elements inside of the image."""
    x = np.pad(record.args["input"], [(0, 0), (1, 1), (1, 1), (0, 0)], constant_values=np.nan)
    height, width = record.result.shape[1:3]
    cells = [x[:, i : i + height, j : j + width] for i in (0, 2) for j in (0, 2)]
    return [np.nanmean(cells, 0)]


def without_last_windows(axes: int) -> Callable[[Record], ExpectedResults]:
    """Return a function that drops the last windows along the first spatial axes from a recorded result."""
    spatial = (slice(None, -1),) * axes + (slice(None),) * (2 - axes)
    return lambda record: [record.result[(..., *spatial, slice(None))]]


def reference_convolution(
    x: np.ndarray, filter: np.ndarray, strides: list[int], pad: str
) -> np.ndarray:
    y = windows.convolve(x.astype(float), filter.astype(float), strides=strides, padding=pad)
    return y.astype(np.float32)


def segment_means(record: Record) -> ExpectedResults:
    data, indices, ids = (np.asarray(x) for x in record.args.values())
    return [np.stack([data[indices[ids == i]].mean(0) for i in range(ids[-1] + 1)])]


def result_with_rounded_stride(record: Record) -> ExpectedResults:
    """Return the result of a layer whose last stride is rounded to the nearest."""
    args = record.args
    x = args["x"].astype(float)
    if record.kernel == "avgPool":
        return [x.mean((0, 1), keepdims=True).astype(np.float32)]  # there is one window
    filter = args["filter"].astype(float)
    if record.kernel == "conv1d":
        return [np.einsum("ntc,fcd->ntd", x, filter).astype(np.float32)]  # filters of size 1
    layer = depthwise if record.kernel == "depthwiseConv2d" else windows.convolve
    y = layer(x, filter, strides=args["strides"], padding="valid", dim_rounding_mode="round")
    if record.kernel == "fused.conv2d":
        y = y + args["bias"]
        y = np.where(y < 0, args["leakyreluAlpha"] * y, y)
    return [y.astype(np.float32)]


def reference_transform(record: Record) -> ExpectedResults:
    names = {"fillMode": "fill_mode", "fillValue": "fill_value", "outputShape": "output_shape"}
    args = {names.get(name, name): value for name, value in record.args.items()}
    return [images.transform(**args).astype(np.float32)]


def reference_rotation(record: Record) -> ExpectedResults:
    image, radians, fill_value, center = record.args.values()
    return [images.rotate_with_offset(image, radians, fill_value, center).astype(np.float32)]


def cross_entropy(record: Record) -> ExpectedResults:
    labels, logits, smoothing, reduction = record.args.values()
    names = ("none", "mean", "sum", "sum_by_nonzero_weights")
    loss = np_softmax(labels, logits, label_smoothing=smoothing, reduction=names[reduction])
    return [np.asarray(loss, np.float32)]


def reference_batch_norm(record: Record) -> ExpectedResults:
    x, mean, variance = array_arguments(record)
    return [(x - mean) / np.sqrt(variance + 0.001)]


DEVIATIONS = (
    OpDeviation(
        "a function with fractions for results gives floats; TensorFlow.js cuts them off if the "
        "arguments are whole numbers",
        is_truncated_to_integers,
        float32_result(TRUNCATED_FUNCTIONS),
    ),
    OpDeviation(
        "complex numbers can be compared and divided",
        lacks_complex,
        lambda r: [FUNCTIONS_WITHOUT_COMPLEX[r.kernel](*r.args.values())],
    ),
    OpDeviation(
        "an op must not leak",
        lambda r: "internal memory leak" in r.error,
        cross_entropy,
    ),
    OpDeviation(
        "the scale and the offset may be absent",
        is_record_with_id("5dc2984986f47697"),
        reference_batch_norm,
    ),
    OpDeviation("NaN has no sign", is_record_with_id("3e59aaf3be350e06"), from_arguments(np.sign)),
    OpDeviation(
        "a window of one sample is 1",
        is_record_with_id("18a37a1eddd9967e"),
        lambda r: [np.ones(1, np.float32)],
    ),
    OpDeviation(
        "the sum of exponentials of infinities is 0 or infinite, not NaN",
        is_record_with_id("71aed2441838e744", "c140774bc2a0316f"),
        lambda r: [np.log(np.sum(np.exp(r.args["x"]), r.args.get("axis")))],
    ),
    OpDeviation(
        "a bool is True or False; TensorFlow.js stores 2",
        is_record_with_id("544fb3df17d05850"),
        lambda r: [r.result.astype(bool)],
    ),
    OpDeviation(
        "an average counts cells in the image; TensorFlow.js counts the zeros around a dilated one",
        is_record_with_id("ba55875df5765c53"),
        reference_dilated_average_pool,
    ),
    OpDeviation(
        "padding='same' never shifts a window by a negative padding",
        is_record_with_id("03b001a13e66c788"),
        from_named_arguments(reference_convolution),
    ),
    OpDeviation(
        "a binary count has ones; TensorFlow.js adds weights",
        is_record_with_id("966b66174676a7ed"),
        lambda r: [(np.bincount(r.args["x"], minlength=6) > 0).astype(np.float32)],
    ),
    OpDeviation(
        "images are transformed one by one, each with its own transform",
        is_record_with_id("2fdd99d17cab953e", "967d5a7c78336536", "c468dff468f368a2"),
        reference_transform,
    ),
    OpDeviation(
        "the centre lies between the pixels",
        is_record_with_id("a426178852ca0ff8"),
        reference_rotation,
    ),
    OpDeviation(
        "a window that is as small as a pixel has a stride and a padding as well",
        is_record_with_id("80f80dfa74aa67c3", "498db2cfc06fb11b", "3c47947d284ad11d"),
        (ShapeError,),
    ),
    OpDeviation(
        "rounding up or to the nearest adds no window that starts beyond the image, and gives "
        "NaN or an infinity",
        is_record_with_id(
            "cd983376735519ec", "43fb66baff624898", "cb89b33fb042ef1b", "58a3c2995fb3f42c"
        ),
        without_last_windows(2),
    ),
    OpDeviation(
        "rounding up adds no row of windows that starts beyond the image, and gives an infinity",
        is_record_with_id("e16200ac140bdd76"),
        without_last_windows(1),
    ),
    OpDeviation(
        "padding 'valid' is no padding, and a last, partial stride may be rounded as well",
        lambda r: "but got pad valid" in r.error and r.kernel != "avgPool3d",
        result_with_rounded_stride,
        is_choice=True,
    ),
    OpDeviation(
        "a window lies in the image, at least in part",
        is_record_with_id("00d0863266e5423e"),
        (ShapeError,),
        is_choice=True,
    ),
    OpDeviation(
        "a negative position counts from the end, as in NumPy",
        is_record_with_id("17ac74e3a02e1685"),
        segment_means,
        is_choice=True,
    ),
    OpDeviation(
        "whole numbers and bools become floats where floats are meant, as in NumPy",
        lambda r: requires_floats(r) and r.kernel in FUNCTIONS_WITHOUT_INTEGERS,
        float32_result(FUNCTIONS_WITHOUT_INTEGERS),
        is_choice=True,
    ),
    OpDeviation(
        "whole numbers are whole already, and move like others",
        lambda r: (
            requires_floats(r)
            and r.kernel in FUNCTIONS_KEEPING_INTEGERS
            and array_arguments(r)[0].dtype != bool
        ),
        lambda r: [FUNCTIONS_KEEPING_INTEGERS[r.kernel](*r.args.values())],
        is_choice=True,
    ),
    OpDeviation(
        "corners of boxes and scores may be whole numbers",
        lambda r: requires_floats(r) and r.kernel == "image.nonMaxSuppression",
        lambda r: [np.array([1, 0], np.int32)],
        is_choice=True,
    ),
    OpDeviation(
        "an image to transform may hold whole numbers, which become floats",
        is_record_with_id("9ff5e91ba8b50357"),
        reference_transform,
        is_choice=True,
    ),
    OpDeviation(
        "floats hold a whole number as the default",
        is_record_with_id("9e3db09f6b2765ab"),
        lambda r: [np.array([[1, 5], [1, 6]], np.float32)],
        is_choice=True,
    ),
    OpDeviation(
        "bools are no numbers: arithmetic wants a cast first",
        is_op_for_bools,
        (DTypeError,),
        is_choice=True,
    ),
    OpDeviation(
        "the largest of a window with NaN is NaN",
        is_record_with_id("cbee6e17524008ee", "337190a7990012ec"),
        from_named_arguments(reference_max_pool),
        is_choice=True,
    ),
    OpDeviation(
        "wrapping repeats the image, however far away",
        is_record_with_id("02094b47374d26d7"),
        reference_transform,
        is_choice=True,
    ),
    OpDeviation(
        "nothing has no largest or smallest element",
        is_record_with_id("dc70c2cae391ba7c", "232ad860d68b5671"),
        (ShapeError,),
        is_choice=True,
    ),
    OpDeviation(
        "weights belong to examples; they do not make more of them",
        is_record_with_id("756b1bebde61505b"),
        (ShapeError,),
        is_choice=True,
    ),
    OpDeviation(
        "strings move like any other elements",
        is_record_with_id("c660f71433067778", "e87a378879512b1a"),
        lambda r: [r.args["x"].T],
        is_choice=True,
    ),
    OpDeviation(
        "a matrix times a vector is a vector",
        is_record_with_id("bd6ac7ed0675180d"),
        from_arguments(np.matmul),
        is_choice=True,
    ),
    OpDeviation(
        "a number is true unless it is 0",
        is_record_with_id("5cf50279b68394e3"),
        from_arguments(np.any),
        is_choice=True,
    ),
    OpDeviation(
        "a stack of several dtypes has the one that they promote to",
        is_record_with_id("15dca3443654632a"),
        lambda r: [np.array([3, 1], np.float32)],
        is_choice=True,
    ),
    OpDeviation(
        "a matrix has a norm of order 2",
        is_record_with_id("1b74cf5c3a9fd922"),
        lambda r: [np.linalg.norm(r.args["x"], 2)],
        is_choice=True,
    ),
    OpDeviation(
        "a window that moves in strides may have distances between its cells",
        is_record_with_id("cbfd9edaebd6c049"),
        lambda r: [3 * r.args["x"][:, :1]],
        is_choice=True,
    ),
    OpDeviation(
        "a range may have no elements",
        is_record_with_id("d8a23120c42ed266"),
        lambda r: [np.empty(0, np.float32)],
        is_choice=True,
    ),
    OpDeviation(
        "a coin may have one side",
        is_record_with_id("d15f21de7598360b"),
        lambda r: [np.zeros(1000, np.int32)],
        is_choice=True,
    ),
    OpDeviation(
        "an average is corrected if the step is given",
        is_record_with_id("b89e95def4184ca8"),
        lambda r: [r.args["x"] * (1 - r.args["decay"])],  # it starts at 0
        is_choice=True,
    ),
)


def find_deviation(record: Record) -> OpDeviation | None:
    """Return the deviation to which a record belongs, or None."""
    return next((d for d in DEVIATIONS if d.applies_to(record)), None)
