"""Op records that plugrad answers differently: the reason, and what is checked instead.

Three things may stand in for the recorded result: the right arrays, computed with NumPy; the error
that plugrad raises; or, where TensorFlow.js refuses what plugrad defines, `DEFINED`: a result without
an error, whose values the tables of families check.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from conformance.reader import Record
from plugrad.errors import DTypeError, ShapeError

DEFINED: Final = "defined"
Errors = tuple[type[Exception], ...]


@dataclass(frozen=True)
class OpDeviation:
    """Records with one reason: which they are, and what is right instead."""

    reason: str
    applies: Callable[[Record], Any]
    expected: Callable[[Record], Sequence[Any]] | Errors | str


def ids(*names: str) -> Callable[[Record], bool]:
    return lambda record: record.id in names


def first(record: Record) -> Any:
    """Return the first argument."""
    return next(iter(record.args.values()), None)


def tensors(record: Record) -> list[np.ndarray]:
    return [x for x in record.args.values() if isinstance(x, np.ndarray)]


def result_kind(record: Record) -> str:
    return record.result.dtype.kind if isinstance(record.result, np.ndarray) else ""


FLOAT_FUNCTIONS = {
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


def in_floats(record: Record) -> list[np.ndarray]:
    """Return the float32 result for whole numbers or bools."""
    floats = [np.asarray(x, np.float64) for x in record.args.values()]
    return [np.asarray(FLOAT_FUNCTIONS[record.kernel](*floats)).astype(np.float32)]


def is_truncated(record: Record) -> bool:
    """Whether whole numbers came out of a function whose results are fractions."""
    if record.kernel in ("div", "floorDiv") and all(x.dtype == np.int32 for x in tensors(record)):
        return False
    return record.kernel in FLOAT_FUNCTIONS and result_kind(record) in ("i", "b")


def wants_floats(record: Record) -> bool:
    """Whether TensorFlow.js refuses whole numbers or bools where floats are meant."""
    return any(f"must be float32 tensor, but got {d}" in record.error for d in ("int32", "bool"))


def lacks_complex(record: Record) -> bool:
    return "does not support complex64 tensors in the CPU backend" in record.error


def has_bools(record: Record) -> bool:
    return bool(tensors(record)) and all(x.dtype == bool for x in tensors(record))


def takes_bools(record: Record) -> bool:
    ops = {"abs", "relu", "relu6", "sign", "pow", "squaredDifference"}
    return has_bools(record) and record.kernel in ops and not record.error


def largest(record: Record) -> list[np.ndarray]:
    """Return the largest of windows of 2 × 2 with stride 1, with NumPy."""
    after = int(record.args["pad"] == "same")
    widths = [(0, 0)] * (record.args["x"].ndim - 3) + [(0, after), (0, after), (0, 0)]
    x = np.pad(record.args["x"], widths, constant_values=-np.inf)
    return [np.lib.stride_tricks.sliding_window_view(x, (2, 2), (-3, -2)).max((-2, -1))]


def averaged(record: Record) -> list[np.ndarray]:
    """Return the averages of the cells in the image of dilated windows of 2 × 2, with NumPy."""
    x = np.pad(record.args["input"], [(0, 0), (1, 1), (1, 1), (0, 0)], constant_values=np.nan)
    height, width = record.result.shape[1:3]
    cells = [x[:, i : i + height, j : j + width] for i in (0, 2) for j in (0, 2)]
    return [np.nanmean(cells, 0)]


def without_the_last(axes: int) -> Callable[[Record], list[np.ndarray]]:
    """Return the recorded windows without the last ones along the first spatial axes."""
    spatial = (slice(None, -1),) * axes + (slice(None),) * (2 - axes)
    return lambda record: [record.result[(..., *spatial, slice(None))]]


DEVIATIONS = (
    OpDeviation(
        "whole numbers and bools become floats where floats are meant", wants_floats, DEFINED
    ),
    OpDeviation(
        "a function with fractions for results gives floats; TensorFlow.js cuts them to the dtype "
        "of whole-number arguments",
        is_truncated,
        in_floats,
    ),
    OpDeviation("complex numbers can be compared and divided", lacks_complex, DEFINED),
    OpDeviation("bools are no numbers: arithmetic wants a cast first", takes_bools, (DTypeError,)),
    OpDeviation("NaN has no sign", ids("3e59aaf3be350e06"), lambda r: [np.sign(r.args["x"])]),
    OpDeviation(
        "a window of one sample is 1", ids("18a37a1eddd9967e"), lambda r: [np.ones(1, np.float32)]
    ),
    OpDeviation(
        "the sum of exponentials of infinities is 0 or infinite, not NaN",
        ids("71aed2441838e744", "c140774bc2a0316f"),
        lambda r: [np.log(np.sum(np.exp(r.args["x"]), r.args.get("axis")))],
    ),
    OpDeviation(
        "a bool is True or False; TensorFlow.js stores 2",
        ids("544fb3df17d05850"),
        lambda r: [r.result.astype(bool)],
    ),
    OpDeviation(
        "a window lies in the image, at least in part",
        ids("80f80dfa74aa67c3", "498db2cfc06fb11b", "3c47947d284ad11d", "00d0863266e5423e"),
        (ShapeError,),
    ),
    OpDeviation(
        "rounding up or to the nearest adds no window that starts beyond the image",
        ids("cd983376735519ec", "43fb66baff624898", "cb89b33fb042ef1b", "58a3c2995fb3f42c"),
        without_the_last(2),
    ),
    OpDeviation(
        "rounding up adds no row of windows that starts beyond the image",
        ids("e16200ac140bdd76"),
        without_the_last(1),
    ),
    OpDeviation(
        "the largest of a window with NaN is NaN",
        ids("cbee6e17524008ee", "337190a7990012ec"),
        largest,
    ),
    OpDeviation(
        "an average counts cells in the image; TensorFlow.js counts the zeros around a dilated one",
        ids("ba55875df5765c53"),
        averaged,
    ),
    OpDeviation(
        "padding='same' never shifts a window by a negative padding",
        ids("03b001a13e66c788"),
        DEFINED,
    ),
    OpDeviation(
        "a binary count has ones; TensorFlow.js adds weights",
        ids("966b66174676a7ed"),
        lambda r: [(np.bincount(r.args["x"], minlength=6) > 0).astype(np.float32)],
    ),
    OpDeviation(
        "images are transformed one by one, each with its own transform",
        ids("2fdd99d17cab953e", "967d5a7c78336536", "c468dff468f368a2"),
        DEFINED,
    ),
    OpDeviation(
        "wrapping repeats the image, however far away",
        ids("02094b47374d26d7"),
        DEFINED,
    ),
    OpDeviation("the centre lies between the pixels", ids("a426178852ca0ff8"), DEFINED),
    OpDeviation(
        "the columns of Q are unique up to their signs; LAPACK's are taken",
        ids("4558cf6486c1094e", "dede90b4d3de10fc", "f94efdd454e68d1c"),
        lambda r: np.linalg.qr(r.args["x"]),
    ),
    OpDeviation(
        "unsorted means in the order of x",
        ids("b3686468b434a958"),
        DEFINED,
    ),
    OpDeviation(
        "nothing has no largest or smallest element",
        ids("dc70c2cae391ba7c", "232ad860d68b5671"),
        (ShapeError,),
    ),
    OpDeviation(
        "weights belong to examples; they do not make more of them",
        ids("756b1bebde61505b"),
        (ShapeError,),
    ),
    OpDeviation(
        "bytes stay bytes: uint8 is a dtype here",
        ids("72e23b1b75e0b397"),
        lambda r: [r.result.astype(np.uint8)],
    ),
    OpDeviation(
        "padding 'valid' has no fraction to round; every rounding gives the same",
        ids("79c25d2ec28f2f34", "520bc15113bb0f3d", "c7aa478ed50d8f97", "1439e602da890e13"),
        DEFINED,
    ),
    OpDeviation(
        "arrays of any rank have one constructor, and reshape",
        lambda r: r.kernel.startswith(("tensor", "scalar")) and "requires" in r.error,
        DEFINED,
    ),
    OpDeviation(
        "arrays of any rank have one constructor, and reshape",
        ids("48c43764d6aa94a5", "7d10a2a42ea45979"),
        DEFINED,
    ),
    OpDeviation(
        "strings move like any other elements",
        ids("c660f71433067778", "e87a378879512b1a"),
        DEFINED,
    ),
    OpDeviation(
        "what any library of arrays defines: no elements, mixed dtypes, one class, the norm 2, a "
        "vector times a matrix, weights of booleans",
        ids(
            "d8a23120c42ed266",
            "15dca3443654632a",
            "d15f21de7598360b",
            "1b74cf5c3a9fd922",
            "bd6ac7ed0675180d",
            "5cf50279b68394e3",
            "059bcb5fd0d15fdb",
            "feca115a49095a6b",
        ),
        DEFINED,
    ),
    OpDeviation(
        "the average is corrected if the step is given",
        ids("b89e95def4184ca8"),
        DEFINED,
    ),
    OpDeviation(
        "TensorFlow.js fails inside: it leaks, or reads what is not there",
        lambda r: "internal memory leak" in r.error or "reading 'dataId'" in r.error,
        DEFINED,
    ),
    OpDeviation("JavaScript's NaN for a missing argument", ids("da230a4636bf5163"), DEFINED),
)


def deviation(record: Record) -> OpDeviation | None:
    """Return the deviation that a record falls under."""
    return next((d for d in DEVIATIONS if d.applies(record)), None)
