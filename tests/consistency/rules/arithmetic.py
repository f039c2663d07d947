"""Rules about elementwise functions, reductions and searches."""

from functools import partial

import numpy as np

import plugrad
from consistency.rules.reasons import (
    ANY_AXIS_IS_ALLOWED,
    DTYPES_ARE_PROMOTED,
    INTEGERS_BECOME_FLOATS,
    LARGE_INDICES_ARE_INT64,
    MORE_DTYPES_EXIST,
    NONZERO_IS_TRUE,
    OPERANDS_BROADCAST,
    ROUNDED_INTEGERS_STAY_INTEGERS,
)
from consistency.rules.row import accepts, ones, ones_like, rejects
from plugrad.errors import ArgumentError, ArgumentValueError, AxisError, DTypeError, ShapeError
from plugrad.extend import KERNELS
from plugrad.types.dtype import float32
from plugrad.types.specs import Shaped
from properties.calls import FLOATS, VECTOR, int32_array

INPUTS_OF_2_TO_31_ELEMENTS = Shaped((2**31,), float32), Shaped((1,), float32)


def index_item_size(kernel):
    """Return the size in bytes of an index that a kernel returns for an input of 2**31 elements."""
    return plugrad.asarray(KERNELS[kernel].infer(*INPUTS_OF_2_TO_31_ELEMENTS).dtype.itemsize)


ONES = np.ones((2, 3), "float32")
KERNEL_OF_OP = {
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
NUMPY_LOGICAL_FUNCTIONS = {
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
}
NUMPY_FLOAT_FUNCTIONS = {
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
EQUALITY_REMEDY = "they must be equal"


def with_operands_named_a_and_b(function):
    """Return a function whose two operands are called a and b."""
    return lambda a, b: function(a, b)


BROADCAST_REMEDY = "sizes must be equal or 1, counted from the right"

ELEMENTWISE = (
    *(
        rejects(
            *("broadcast", op, {"b": ones(4, 5)}, ShapeError),
            *(f"{kernel}: ", "shapes (2, 3) and (4, 5)", BROADCAST_REMEDY),
        )
        for op, kernel in KERNEL_OF_OP.items()
    ),
    *(
        rejects(
            *("broadcast", op, {"b": ones(4, 5, dtype="bool")}, ShapeError),
            *(f"{kernel}: ", "shapes (2, 3) and (4, 5)", BROADCAST_REMEDY),
        )
        for op, kernel in {
            "logical_and": "LogicalAnd",
            "logical_or": "LogicalOr",
            "logical_xor": "LogicalXor",
        }.items()
    ),
    *(
        rejects(
            *("one dtype", " ".join(KERNEL_OF_OP), {name: ones_like("string")}, DTypeError),
            *("{op}: ", "string … float32 … have no common dtype", "strings do not combine"),
        )
        for name in ("a", "b")
    ),
    rejects(
        *("list of tensors", "add_n", {"tensors": []}, ArgumentValueError),
        *("add_n: the list", "is empty", "it needs at least one"),
    ),
    rejects(
        *("list of tensors", "add_n", {"tensors": 1.0}, ArgumentError),
        *("add_n: tensors", "=1.0", "must be a list"),
    ),
    accepts(
        "equal dtypes",
        "add_n",
        {"tensors": [FLOATS, WHOLE := int32_array([1, 2, 3], [4, 5, 6])]},
        DTYPES_ARE_PROMOTED,
        FLOATS + WHOLE,
    ),
    rejects(
        *("equal shapes", "add_n", {"tensors": [FLOATS, VECTOR]}, ShapeError),
        *("AddN: the inputs", "[(2, 3), (3,)]", "must have one shape"),
    ),
    accepts(
        "x is bool",
        "all",
        {"x": FLOATS * int32_array(0, 1, 1)},
        NONZERO_IS_TRUE,
        [[False, True, True]],
    ),
    accepts(
        "x is bool",
        "any",
        {"x": FLOATS * int32_array(0, 1, 1)},
        NONZERO_IS_TRUE,
        [[False, True, True]],
    ),
    accepts(
        "x is bool",
        "logical_not",
        {"x": FLOATS * int32_array(0, 1, 1)},
        NONZERO_IS_TRUE,
        lambda x: x == 0,
    ),
    *(
        accepts(
            f"{name} is bool",
            op,
            {name: FLOATS * int32_array(0, 1, 1)},
            NONZERO_IS_TRUE,
            with_operands_named_a_and_b(right),
        )
        for op, right in NUMPY_LOGICAL_FUNCTIONS.items()
        for name in ("a", "b")
    ),
    rejects(
        *("identical shapes", "bitwise_and", {"b": ones(2, 2, dtype="int32")}, ShapeError),
        *("BitwiseAnd: ", "shapes (2, 3) and (2, 2)", BROADCAST_REMEDY),
    ),
    accepts(
        *("identical shapes", "bitwise_and", {"b": int32_array(1, 2, 3)}, OPERANDS_BROADCAST),
        lambda a, b: a & b,
    ),
    *(
        rejects(
            *("integers", "bitwise_and", {name: ones_like("float32")}, DTypeError),
            *("bitwise_and ", "does not take float32", "Cast first, as in x.astype(plugrad.int32)"),
        )
        for name in ("a", "b")
    ),
    rejects(
        *("limits", "clip_by_value", {"min": 2.0, "max": 1.0}, ArgumentValueError),
        *("clip: ", "min=2.0 … max=1.0", "swap them"),
    ),
    rejects(
        *("equal shapes", "complex", {"imag": ones(4, 3)}, ShapeError),
        *("complex: real … imag", "(2, 3) … (4, 3)", "they must be equal, as after broadcast_to"),
    ),
    *(
        accepts(
            "x is float",
            op,
            {"x": ones_like("int32")},
            INTEGERS_BECOME_FLOATS,
            lambda x, f=f: f(x * 1.0),
        )
        for op, f in NUMPY_FLOAT_FUNCTIONS.items()
    ),
    accepts(
        "x is float",
        "ceil floor",
        {"x": ones_like("int32")},
        ROUNDED_INTEGERS_STAY_INTEGERS,
        ONES.astype("int32"),
    ),
    accepts(
        *("x is float", "softmax", {"x": ones_like("int32"), "axis": -1}, INTEGERS_BECOME_FLOATS),
        np.full((2, 3), 1 / 3),
    ),
    accepts(
        "dtype",
        "erf",
        {"x": ones_like("float64")},
        MORE_DTYPES_EXIST,
        np.full((2, 3), 0.8427007929497149),
    ),
    rejects(
        *("dtype", "erf", {"x": ones_like("complex64")}, DTypeError),
        *("erf ", "does not take complex64", "Cast first, as in x.astype(plugrad.float32)"),
    ),
    rejects(
        *("slopes", "prelu", {"alpha": ones(4)}, ShapeError),
        *("Prelu: ", "shapes (2, 3) and (4,)", BROADCAST_REMEDY),
    ),
    rejects(
        *("x is float", "dropout", {"x": ones_like("int32")}, DTypeError),
        *("dropout: x", "is int32", "it must be floating"),
    ),
    *(
        rejects(
            *("rate", "dropout", {"rate": rate}, ArgumentValueError),
            *("dropout: rate", f"={rate}", "must be at least 0 and less than 1"),
        )
        for rate in (1.0, 1.5, -0.5)
    ),
    rejects(
        *("shapes", "where", {"condition": ones(4, dtype="bool")}, ShapeError),
        *("Select: ", "shapes (4,) and (2, 3) and (2, 3)", BROADCAST_REMEDY),
    ),
    rejects(
        *("condition is bool", "where", {"condition": ones_like("int32")}, DTypeError),
        *("where: condition", "is int32", "it must be bool, such as x > 0"),
    ),
    accepts(
        *(
            "condition is bool",
            "where_async",
            {"x": FLOATS * int32_array(0, 1, 1)},
            NONZERO_IS_TRUE,
        ),
        ([0, 0, 1, 1], [1, 2, 1, 2]),
    ),
)

REDUCTIONS = (
    *(
        rejects(
            *("axis", "log_sum_exp moments", {"axis": axis}, AxisError),
            *("{op}: axis", f"={axis} is out of range for rank 2", "use -2 to 1"),
        )
        for axis in (2, -3)
    ),
    accepts(
        *("last axis", "softmax", {"axis": 0}, ANY_AXIS_IS_ALLOWED),
        lambda x, axis: np.exp(x) / np.exp(x).sum(axis, keepdims=True),
    ),
    accepts(
        *("last axis", "log_softmax", {"axis": 0}, ANY_AXIS_IS_ALLOWED),
        lambda x, axis: x - np.log(np.exp(x).sum(axis, keepdims=True)),
    ),
    rejects(
        *("order", "norm", {"ord": "nope"}, ArgumentValueError),
        *("norm: ord", "='nope'", "for vectors it is a number or 'euclidean'"),
    ),
    rejects(
        *("order", "norm", {"ord": 3, "axis": (0, 1)}, ArgumentValueError),
        *("norm: ord", "=3", "must be 'fro', 'nuc', 1, -1, 2, -2, inf or -inf"),
    ),
    accepts(
        *("order", "norm", {"ord": 3}, "every order has a norm, as in NumPy"),
        lambda x, **_: np.linalg.norm(x, 3, 0, keepdims=True),
    ),
    rejects(
        *("axes", "norm", {"x": ones(2, 2, 2), "axis": (0, 1, 2)}, AxisError),
        *("norm: axis", "=(0, 1, 2)", "must be one axis, two axes or None"),
    ),
    rejects(
        *("whole numbers", "bincount dense_bincount", {"x": ones_like("float32")}, DTypeError),
        *("{op}: x", "is float32", "only integers are counted, as after astype('int32')"),
    ),
    rejects(
        *("whole numbers", "dense_bincount", {"x": ones(2, 2, 2, dtype="int32")}, ShapeError),
        *("DenseBincount: x", "(2, 2, 2)", "must be a vector or a matrix"),
    ),
    *(
        rejects(
            *("size", op, {"size": -1}, ArgumentValueError),
            *(f"{kernel}: size", "=-1", "must be 0 or more"),
        )
        for op, kernel in (("bincount", "Bincount"), ("dense_bincount", "DenseBincount"))
    ),
    *(
        rejects(
            *("weights", op, {"weights": ones(4)}, ShapeError),
            *(f"{kernel}: weights", f"(4,) … {shape}", EQUALITY_REMEDY),
        )
        for op, kernel, shape in (
            ("bincount", "Bincount", "(3,)"),
            ("dense_bincount", "DenseBincount", "(2, 3)"),
        )
    ),
    *(
        accepts("weights", op, {"weights": None}, "None stands for no weights", counts)
        for op, counts in (("bincount", [0, 1, 2]), ("dense_bincount", [[1, 1, 1], [1, 1, 1]]))
    ),
    rejects(
        *("last axes", "lower_bound upper_bound", {"values": ones(3, 2)}, ShapeError),
        *("Bound: a sorted sequence", "(2, 3) … (3, 2)", "equal sizes on all axes but the last"),
    ),
    rejects(
        *(
            "last axes",
            "search_sorted",
            {"x1": FLOATS, "x2": ones(3, 2), "sorter": None},
            ShapeError,
        ),
        *("SearchSorted: a sorted", "(2, 3) … (3, 2)", "equal sizes on all axes but the last"),
    ),
    # Nobody has the memory for a call.
    *(
        accepts(
            "sizes below 2**31", op, partial(index_item_size, kernel), LARGE_INDICES_ARE_INT64, 8
        )
        for op, kernel in (
            ("lower_bound", "LowerBound"),
            ("search_sorted", "SearchSorted"),
            ("upper_bound", "UpperBound"),
        )
    ),
    rejects(
        *("rank", "topk", {"x": ones()}, ShapeError),
        *("TopK: ", "x is 0-d", "must have at least one axis"),
    ),
    *(
        rejects(
            *("k", "topk", {"k": k}, ArgumentValueError),
            *("TopK: k", f"={k}", "must be between 0 and 3, the size of the last axis"),
        )
        for k in (4, -1)
    ),
    *(
        rejects(
            *("classes", "confusion_matrix", {"num_classes": count}, error),
            *("confusion_matrix: num_classes", f"={count}", remedy),
        )
        for count, error, remedy in (
            (0, ArgumentValueError, "must be 1 or more"),
            (1.5, ArgumentError, "must be an integer"),
        )
    ),
    *(
        rejects(
            *("ranks and lengths", "confusion_matrix", change, ShapeError),
            *("confusion_matrix: labels … predictions", given, "must be two vectors of one length"),
        )
        for change, given in (
            ({"labels": int32_array(0, 1, 1)}, "(3,) … (2,)"),
            ({"labels": int32_array([0, 1]), "predictions": int32_array([0, 1])}, "(1, 2)"),
        )
    ),
    rejects(
        *(
            "ranks",
            "in_top_k_async",
            {"predictions": VECTOR, "targets": int32_array(0).reshape(())},
            ShapeError,
        ),
        *("in_top_k: predictions", "(3,) and ()", "must have 2 or more axes"),
    ),
    rejects(
        *("ranks", "in_top_k_async", {"targets": int32_array([0, 1])}, ShapeError),
        *("in_top_k: predictions … targets", "(2, 3) and (1, 2)", "the shape of all but the last"),
    ),
    rejects(
        *("leading sizes", "in_top_k_async", {"targets": int32_array(0, 1, 1)}, ShapeError),
        *("in_top_k: predictions … targets", "(2, 3) and (3,)", "the shape of all but the last"),
    ),
    *(
        rejects(
            *("k", "in_top_k_async", {"k": k}, ArgumentValueError),
            *("in_top_k: k", f"={k}", "must be between 1 and 3"),
        )
        for k in (0, 4)
    ),
)

ARITHMETIC = (*ELEMENTWISE, *REDUCTIONS)
