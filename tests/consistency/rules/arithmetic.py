"""Rules about elementwise functions, reductions and searches."""

from functools import partial

import numpy as np

import plugrad
from consistency.rules.reasons import (
    ANY_AXIS,
    BROADCASTS,
    FIRST_TRUTH,
    LONG_POSITIONS,
    MORE_DTYPES,
    PROMOTES,
    STAYS_WHOLE,
    WHOLE_TO_FLOAT,
)
from consistency.rules.row import like, ones, refused, taken
from plugrad.errors import ArgumentError, ArgumentValueError, AxisError, DTypeError, ShapeError
from plugrad.extend import KERNELS
from plugrad.types.dtype import float32
from plugrad.types.specs import Shaped
from properties.calls import F, V, i32

MANY = Shaped((2**31,), float32), Shaped((1,), float32)


def bytes_of_positions(kernel):
    """Return how many bytes a position takes that a kernel finds in a sequence of 2**31 numbers."""
    return plugrad.asarray(KERNELS[kernel].infer(*MANY).dtype.itemsize)


ONES = np.ones((2, 3), "float32")
NAMES = {
    "add": "Add",
    "atan2": "Atan2",
    "div": "RealDiv",
    "div_no_nan": "RealDiv",
    "equal": "Equal",
    "floor_div": "FloorDiv",
    "greater": "Greater",
    "less": "Less",
    "greater_equal": "GreaterEqual",
    "less_equal": "LessEqual",
    "maximum": "Maximum",
    "minimum": "Minimum",
    "mod": "Mod",
    "mul": "Multiply",
    "not_equal": "NotEqual",
    "pow": "Pow",
    "squared_difference": "SquaredDifference",
    "sub": "Sub",
}
LOGICAL = {
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
}
OF_FLOATS = {
    "cos": np.cos,
    "cosh": np.cosh,
    "log": np.log,
    "sin": np.sin,
    "sqrt": np.sqrt,
    "tan": np.tan,
    "tanh": np.tanh,
    "elu": np.abs,
    "rsqrt": np.abs,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
}
EQUAL = "they must be equal"


def of_operands(function):
    """Return a function of operands called a and b."""
    return lambda a, b: function(a, b)


ON_BROADCAST = "sizes must be equal or 1, counted from the right"

ELEMENTWISE = (
    *(
        refused(
            *("broadcast", op, {"b": ones(4, 5)}, ShapeError),
            *(f"{kernel}: ", "shapes (2, 3) and (4, 5)", ON_BROADCAST),
        )
        for op, kernel in NAMES.items()
    ),
    *(
        refused(
            *("broadcast", op, {"b": ones(4, 5, dtype="bool")}, ShapeError),
            *(f"{kernel}: ", "shapes (2, 3) and (4, 5)", ON_BROADCAST),
        )
        for op, kernel in {
            "logical_and": "LogicalAnd",
            "logical_or": "LogicalOr",
            "logical_xor": "LogicalXor",
        }.items()
    ),
    *(
        refused(
            *("one dtype", " ".join(NAMES), {name: like("string")}, DTypeError),
            *("{op}: ", "string … float32 … have no common dtype", "strings do not combine"),
        )
        for name in ("a", "b")
    ),
    refused(
        *("list of tensors", "add_n", {"tensors": []}, ArgumentValueError),
        *("add_n: the list", "is empty", "it needs at least one"),
    ),
    refused(
        *("list of tensors", "add_n", {"tensors": 1.0}, ArgumentError),
        *("add_n: tensors", "=1.0", "must be a list"),
    ),
    taken(
        "equal dtypes",
        "add_n",
        {"tensors": [F, WHOLE := i32([1, 2, 3], [4, 5, 6])]},
        PROMOTES,
        F + WHOLE,
    ),
    refused(
        *("equal shapes", "add_n", {"tensors": [F, V]}, ShapeError),
        *("AddN: the inputs", "[(2, 3), (3,)]", "must have one shape"),
    ),
    taken("x is bool", "all", {"x": F * i32(0, 1, 1)}, FIRST_TRUTH, [[False, True, True]]),
    taken("x is bool", "any", {"x": F * i32(0, 1, 1)}, FIRST_TRUTH, [[False, True, True]]),
    taken("x is bool", "logical_not", {"x": F * i32(0, 1, 1)}, FIRST_TRUTH, lambda x: x == 0),
    *(
        taken(f"{name} is bool", op, {name: F * i32(0, 1, 1)}, FIRST_TRUTH, of_operands(right))
        for op, right in LOGICAL.items()
        for name in ("a", "b")
    ),
    refused(
        *("identical shapes", "bitwise_and", {"b": ones(2, 2, dtype="int32")}, ShapeError),
        *("BitwiseAnd: ", "shapes (2, 3) and (2, 2)", ON_BROADCAST),
    ),
    taken(
        *("identical shapes", "bitwise_and", {"b": i32(1, 2, 3)}, BROADCASTS),
        lambda a, b: a & b,
    ),
    *(
        refused(
            *("integers", "bitwise_and", {name: like("float32")}, DTypeError),
            *("bitwise_and ", "does not take float32", "Cast first, as in x.astype(plugrad.int32)"),
        )
        for name in ("a", "b")
    ),
    refused(
        *("limits", "clip_by_value", {"min": 2.0, "max": 1.0}, ArgumentValueError),
        *("clip: ", "min=2.0 … max=1.0", "swap them"),
    ),
    refused(
        *("equal shapes", "complex", {"imag": ones(4, 3)}, ShapeError),
        *("complex: real … imag", "(2, 3) … (4, 3)", "they must be equal, as after broadcast_to"),
    ),
    *(
        taken("x is float", op, {"x": like("int32")}, WHOLE_TO_FLOAT, lambda x, f=f: f(x * 1.0))
        for op, f in OF_FLOATS.items()
    ),
    taken("x is float", "ceil floor", {"x": like("int32")}, STAYS_WHOLE, ONES.astype("int32")),
    taken(
        *("x is float", "softmax", {"x": like("int32"), "axis": -1}, WHOLE_TO_FLOAT),
        np.full((2, 3), 1 / 3),
    ),
    taken("dtype", "erf", {"x": like("float64")}, MORE_DTYPES, np.full((2, 3), 0.8427007929497149)),
    refused(
        *("dtype", "erf", {"x": like("complex64")}, DTypeError),
        *("erf ", "does not take complex64", "Cast first, as in x.astype(plugrad.float32)"),
    ),
    refused(
        *("slopes", "prelu", {"alpha": ones(4)}, ShapeError),
        *("Prelu: ", "shapes (2, 3) and (4,)", ON_BROADCAST),
    ),
    refused(
        *("x is float", "dropout", {"x": like("int32")}, DTypeError),
        *("dropout: x", "is int32", "it must be floating"),
    ),
    *(
        refused(
            *("rate", "dropout", {"rate": rate}, ArgumentValueError),
            *("dropout: rate", f"={rate}", "must be at least 0 and less than 1"),
        )
        for rate in (1.0, 1.5, -0.5)
    ),
    refused(
        *("shapes", "where", {"condition": ones(4, dtype="bool")}, ShapeError),
        *("Select: ", "shapes (4,) and (2, 3) and (2, 3)", ON_BROADCAST),
    ),
    refused(
        *("condition is bool", "where", {"condition": like("int32")}, DTypeError),
        *("where: condition", "is int32", "it must be bool, such as x > 0"),
    ),
    taken(
        *("condition is bool", "where_async", {"x": F * i32(0, 1, 1)}, FIRST_TRUTH),
        ([0, 0, 1, 1], [1, 2, 1, 2]),
    ),
)

REDUCTIONS = (
    *(
        refused(
            *("axis", "log_sum_exp moments", {"axis": axis}, AxisError),
            *("{op}: axis", f"={axis} is out of range for rank 2", "use -2 to 1"),
        )
        for axis in (2, -3)
    ),
    taken(
        *("last axis", "softmax", {"axis": 0}, ANY_AXIS),
        lambda x, axis: np.exp(x) / np.exp(x).sum(axis, keepdims=True),
    ),
    taken(
        *("last axis", "log_softmax", {"axis": 0}, ANY_AXIS),
        lambda x, axis: x - np.log(np.exp(x).sum(axis, keepdims=True)),
    ),
    refused(
        *("order", "norm", {"ord": "nope"}, ArgumentValueError),
        *("norm: ord", "='nope'", "for vectors it is a number or 'euclidean'"),
    ),
    refused(
        *("order", "norm", {"ord": 3, "axis": (0, 1)}, ArgumentValueError),
        *("norm: ord", "=3", "must be 'fro', 'nuc', 1, -1, 2, -2, inf or -inf"),
    ),
    taken(
        *("order", "norm", {"ord": 3}, "every order has a norm, as in NumPy"),
        lambda x, **_: np.linalg.norm(x, 3, 0, keepdims=True),
    ),
    refused(
        *("axes", "norm", {"x": ones(2, 2, 2), "axis": (0, 1, 2)}, AxisError),
        *("norm: axis", "=(0, 1, 2)", "must be one axis, two axes or None"),
    ),
    refused(
        *("whole numbers", "bincount dense_bincount", {"x": like("float32")}, DTypeError),
        *("{op}: x", "is float32", "only integers are counted, as after astype('int32')"),
    ),
    refused(
        *("whole numbers", "dense_bincount", {"x": ones(2, 2, 2, dtype="int32")}, ShapeError),
        *("DenseBincount: x", "(2, 2, 2)", "must be a vector or a matrix"),
    ),
    *(
        refused(
            *("size", op, {"size": -1}, ArgumentValueError),
            *(f"{kernel}: size", "=-1", "must be 0 or more"),
        )
        for op, kernel in (("bincount", "Bincount"), ("dense_bincount", "DenseBincount"))
    ),
    *(
        refused(
            *("weights", op, {"weights": ones(4)}, ShapeError),
            *(f"{kernel}: weights", f"(4,) … {shape}", EQUAL),
        )
        for op, kernel, shape in (
            ("bincount", "Bincount", "(3,)"),
            ("dense_bincount", "DenseBincount", "(2, 3)"),
        )
    ),
    *(
        taken("weights", op, {"weights": None}, "None stands for no weights", counts)
        for op, counts in (("bincount", [0, 1, 2]), ("dense_bincount", [[1, 1, 1], [1, 1, 1]]))
    ),
    refused(
        *("last axes", "lower_bound upper_bound", {"values": ones(3, 2)}, ShapeError),
        *("Bound: a sorted sequence", "(2, 3) … (3, 2)", "equal sizes on all axes but the last"),
    ),
    refused(
        *("last axes", "search_sorted", {"x1": F, "x2": ones(3, 2), "sorter": None}, ShapeError),
        *("SearchSorted: a sorted", "(2, 3) … (3, 2)", "equal sizes on all axes but the last"),
    ),
    # Nobody has the memory for a call.
    *(
        taken("sizes below 2**31", op, partial(bytes_of_positions, kernel), LONG_POSITIONS, 8)
        for op, kernel in (
            ("lower_bound", "LowerBound"),
            ("search_sorted", "SearchSorted"),
            ("upper_bound", "UpperBound"),
        )
    ),
    refused(
        *("rank", "topk", {"x": ones()}, ShapeError),
        *("TopK: ", "x is 0-d", "must have at least one axis"),
    ),
    *(
        refused(
            *("k", "topk", {"k": k}, ArgumentValueError),
            *("TopK: k", f"={k}", "must be between 0 and 3, the size of the last axis"),
        )
        for k in (4, -1)
    ),
    *(
        refused(
            *("classes", "confusion_matrix", {"num_classes": count}, error),
            *("confusion_matrix: num_classes", f"={count}", remedy),
        )
        for count, error, remedy in (
            (0, ArgumentValueError, "must be 1 or more"),
            (1.5, ArgumentError, "must be an integer"),
        )
    ),
    *(
        refused(
            *("ranks and lengths", "confusion_matrix", change, ShapeError),
            *("confusion_matrix: labels … predictions", given, "must be two vectors of one length"),
        )
        for change, given in (
            ({"labels": i32(0, 1, 1)}, "(3,) … (2,)"),
            ({"labels": i32([0, 1]), "predictions": i32([0, 1])}, "(1, 2)"),
        )
    ),
    refused(
        *("ranks", "in_top_k_async", {"predictions": V, "targets": i32(0).reshape(())}, ShapeError),
        *("in_top_k: predictions", "(3,) and ()", "must have 2 or more axes"),
    ),
    refused(
        *("ranks", "in_top_k_async", {"targets": i32([0, 1])}, ShapeError),
        *("in_top_k: predictions … targets", "(2, 3) and (1, 2)", "the shape of all but the last"),
    ),
    refused(
        *("leading sizes", "in_top_k_async", {"targets": i32(0, 1, 1)}, ShapeError),
        *("in_top_k: predictions … targets", "(2, 3) and (3,)", "the shape of all but the last"),
    ),
    *(
        refused(
            *("k", "in_top_k_async", {"k": k}, ArgumentValueError),
            *("in_top_k: k", f"={k}", "must be between 1 and 3"),
        )
        for k in (0, 4)
    ),
)

ARITHMETIC = (*ELEMENTWISE, *REDUCTIONS)
