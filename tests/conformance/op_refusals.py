"""Op records of errors: the error that plugrad raises, by what TensorFlow.js said.

plugrad checks in an order of its own. Where it objects to something else first, `ERROR_AND_REASON_BY_RECORD`
has the record with the reason.
"""

import re
from typing import Final

from conformance.reader import Record
from plugrad.errors import (
    ArgumentError,
    ArgumentValueError,
    AxisError,
    DTypeError,
    PlugradError,
    ShapeError,
    TensorIndexError,
)

ErrorType = type[PlugradError]

ERROR_OF_MESSAGE: Final[dict[ErrorType, tuple[str, ...]]] = {
    ArgumentError: (
        r"must be a Tensor or TensorLike",
        r"depthRadius must be an integer",
        r"numClasses must be a positive integer",
        r"constructor must be a non-null value",
    ),
    ArgumentValueError: (
        r"passed to topk\(\) must be (<=|>=)",
        r"exactly one arrow",
        r"Strides? should be larger than 0",
        r"pad must be an integer when using dimRoundingMode",
        r"(First|Last|Invalid) split value",
        r"Invalid number of paddings",
        r"Ragged splits (may|must) not",
        r"Requires \(\(limit - start\) / delta\) <=",
        r"Requires delta != 0",
        r"Segment id -?\d+ out of range",
        r"not a valid third argument to meshgrid",
        r"rate must be a float in the range",
        r"segment ids (are not increasing|must be >= 0)",
    ),
    AxisError: (
        r"All values in axis param must be",
        r"Axis must be (<=|in the interval)",
        r"must match length of perm",
    ),
    DTypeError: (
        r"must be (bool|float32|int32|numeric) tensor",
        r"of type int32 being uploaded contains NaN",
        r"input dtype must be int32",
        r"pixels passed to tf\.browser\.fromPixels\(\) must be",
        r"has to be a floating point tensor",
    ),
    ShapeError: (
        r"Operands could not be broadcast",
        r"comprised of positive integers but got shape",
        r"Shape of tensor",
        r"must have the same (shape|size)",
        r"must have matching shapes",
        r"[Ss]hape mismatch|incompatible shape|Mismatch in the number",
        r"tensor\dd\(\) requires (shape|values)",
        r"value must be a primitive",
        r"does not match the provided shape|Based on the provided shape",
        r"should have \d+ elements, but has",
        r"ranks? (of \w+ )?(>= |to )?(must )?be",
        r"must be rank|must all be rank|to be of rank|a rank >=|to be rank",
        r"Rank (of probabilities )?must be",
        r"Rank must be at least",
        r"input rank \d should be >",
        r"should be (1D|Tensor1D)|must be a scalar or vector|mask cannot be scalar",
        r"depth of input",
        r"inner shapes",
        r"dimension of (a grayscale image|pointwise filter)",
        r"but got dimension|exceeds number of dimensions",
        r"dataFormat of NCDHW",
        r"batchDims",
        r"crops\.length",
        r"Can't squeeze axis",
        r"would overflow|negative begin indexing",
        r"Must have updates\.shape",
    ),
    TensorIndexError: (
        r"indices\[\d\] == -?\d+ out of range",
        r"indices\(\d, \d\) is invalid",
        r"indices\[\d\] = \d+ is not in",
    ),
}

ERROR_AND_REASON_BY_RECORD: Final[dict[str, tuple[ErrorType, str]]] = {
    "7ef0c9300bcb7a99": (ArgumentValueError, "there are fewer states than cells"),
    "90345c14ae0aaf64": (DTypeError, "floats have no bits to combine"),
    "e29d4caccf96af71": (ShapeError, "an int32 default fits; the rank of the indices is wrong"),
    "26a3d309586be1d2": (ShapeError, "an int32 default fits; the number of values is wrong"),
    "2bf43cbd4dd98045": (ShapeError, "'valid' pads nothing; the window is larger than the image"),
}


def expected_error(record: Record) -> ErrorType | None:
    """Return the error that plugrad must raise for a recorded error, or None if the tables do not list it."""
    if record.id in ERROR_AND_REASON_BY_RECORD:
        return ERROR_AND_REASON_BY_RECORD[record.id][0]
    return next(
        (
            error
            for error, patterns in ERROR_OF_MESSAGE.items()
            if any(re.search(pattern, record.error) for pattern in patterns)
        ),
        None,
    )
