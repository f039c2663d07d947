"""Rules about positions: gathered, scattered, sparse and ragged ones."""

from consistency.rules.reasons import DTYPES_ARE_PROMOTED, MORE_DTYPES_EXIST
from consistency.rules.row import Rule, accepts, ones, ones_like, rejects
from plugrad.errors import (
    ArgumentError,
    ArgumentValueError,
    DTypeError,
    ShapeError,
    TensorIndexError,
)
from properties.calls import FLOATS, int32_array

SEGMENT_OPS = "sparse.sparse_segment_mean sparse.sparse_segment_sum"
FILL_EMPTY_ROWS_OP = "sparse.sparse_fill_empty_rows"
OPS_WITH_INDICES = f"gather gather_nd ragged_gather scatter_nd tensor_scatter_update {FILL_EMPTY_ROWS_OP} {SEGMENT_OPS}"


def integer_rule(ops: str, name: str, label: str = "") -> Rule:
    """Return the rule that an argument must hold integers."""
    return rejects(
        *(label or f"whole {name}", ops, {name: ones_like("float32")}, DTypeError),
        *(f"{{op}}: {name}", "are float32", "they must be integers, as after astype('int32')"),
    )


GATHER_RULES = (
    integer_rule(OPS_WITH_INDICES, "indices"),
    integer_rule("sparse_to_dense", "sparse_indices", "whole indices"),
    rejects(
        *("whole indices", "one_hot", {"indices": ones_like("float32")}, DTypeError),
        *("one_hot (indices)", "does not take float32", "as in x.astype(plugrad.int32)"),
    ),
    *(
        accepts("whole indices", op, {"indices": ones_like("int64")}, MORE_DTYPES_EXIST, value)
        for op, value in (("gather", FLOATS[[1, 1]]), ("gather_nd", FLOATS[[1, 1], [1, 1]]))
    ),
    rejects(
        *("range of indices", "gather", {"indices": int32_array(2)}, TensorIndexError),
        *("GatherV2: ", "index 2", "out of range for axis 0 of size 2"),
    ),
    rejects(
        *("batch axes", "gather", {"batch_dims": 2}, ShapeError),
        *("GatherV2: ", "batch_dims=2", "must be equal and come before axis 0"),
    ),
    rejects(
        *(
            "batch axes",
            "gather",
            {"batch_dims": 1, "axis": 1, "indices": int32_array([0], [1], [1])},
        ),
        *(ShapeError, "GatherV2: the first batch_dims", "(2, 3) and (3, 1)", "must be equal"),
    ),
    rejects(
        *("ranks", "gather_nd", {"x": ones()}, ShapeError),
        *("GatherNd: indices", "(2, 2) … ()", "a last axis of at most 0 coordinates"),
    ),
    rejects(
        *("ranks", "gather_nd", {"indices": int32_array(0).reshape(())}, ShapeError),
        *("GatherNd: indices", "of shape ()", "must have a last axis of at most 2 coordinates"),
    ),
    rejects(
        *("coordinates", "gather_nd", {"indices": int32_array([0, 0, 0])}, ShapeError),
        *("GatherNd: indices", "(1, 3)", "at most 2 coordinates, one for each axis"),
    ),
    accepts(
        *("something", "gather_nd", {"x": ones(2, 0), "indices": int32_array([0], [1])}),
        *("parts of a tensor may be empty, as in NumPy", ones(2, 0)),
    ),
    rejects(
        *(
            "something",
            "gather_nd",
            {"x": ones(0, 3), "indices": int32_array([0], [1])},
            TensorIndexError,
        ),
        *("GatherNd: ", "index 0", "out of range for axis 0 of size 0"),
    ),
    accepts(
        *("depth", "one_hot", {"depth": 1}),
        *("one class is a depth, too", lambda indices, **_: 1.0 * (indices == 0)[..., None]),
    ),
    rejects(
        *("mask is bool", "boolean_mask_async", {"mask": ones_like("int32")}, DTypeError),
        *("boolean_mask: mask", "is int32", "it must be bool, such as x > 0"),
    ),
    rejects(
        *("mask has axes", "boolean_mask_async", {"mask": ones(dtype="bool")}, ShapeError),
        *("boolean_mask: mask", "is 0-d", "it must have at least one axis"),
    ),
    rejects(
        *("mask fits", "boolean_mask_async", {"mask": ones(4, dtype="bool")}, TensorIndexError),
        *("boolean_mask: a mask", "of shape (4,)", "axes from 1 on … must have their sizes"),
    ),
)

SCATTER_RULES = (
    rejects(
        *("shape", "scatter_nd", {"shape": (3, -3)}, ShapeError),
        *("scatter_nd: shape", "=(3, -3)", "sizes must be 0 or more"),
    ),
    rejects(
        *("shape", "scatter_nd", {"shape": ()}, ShapeError),
        *("ScatterNd: indices", "of shape ()", "1 coordinates for the 0 axes"),
    ),
    rejects(
        *("ranks", "scatter_nd", {"indices": int32_array(0).reshape(())}, ShapeError),
        *("ScatterNd: indices", "are 0-d", "they must have at least one axis"),
    ),
    *(
        rejects(
            *(label, "scatter_nd", {"updates": ones(*shape)}, ShapeError),
            *("ScatterNd: updates", f"have shape {shape}", "into shape (3, 3) need (2, 3)"),
        )
        for label, shape in (("ranks", ()), ("shape of updates", (2, 4)))
    ),
    rejects(
        *("shapes", "tensor_scatter_update", {"updates": ones(2, 4)}, ShapeError),
        *("TensorScatterUpdate: updates", "have shape (2, 4)", "into shape (2, 3) need (2, 3)"),
    ),
    rejects(
        *("shapes", "tensor_scatter_update", {"indices": int32_array([0, 0, 0])}, ShapeError),
        *("TensorScatterUpdate: indices", "(1, 3)", "3 coordinates for the 2 axes"),
    ),
    rejects(
        *("one dtype", "tensor_scatter_update", {"tensor": ones_like("int32")}, DTypeError),
        *("{op}: updates", "are float32", "cast one of them, as in astype('int32')"),
    ),
    rejects(
        *(
            "rank of indices",
            "sparse_to_dense",
            {"sparse_indices": int32_array([[0, 1]])},
            ShapeError,
        ),
        *("SparseToDense: sparse_indices", "of shape (1, 1, 2)", "must be rows of 2 coordinates"),
    ),
    rejects(
        *("width of indices", "sparse_to_dense", {"output_shape": (2, 3, 4)}, ShapeError),
        *("SparseToDense: sparse_indices", "(2, 3, 4)", "one for each axis of output_shape"),
    ),
    rejects(
        *("values", "sparse_to_dense", {"sparse_values": ones(3)}, ShapeError),
        *("SparseToDense: sparse_values", "of shape (3,)", "must be 0-d or have shape (2,)"),
    ),
    rejects(
        *(
            "dtype of the default",
            "sparse_to_dense",
            {"sparse_values": int32_array(5, 6)},
            DTypeError,
        ),
        *("sparse_to_dense: default_value", "are float32", "as in astype('int32')"),
    ),
    integer_rule(f"unsorted_segment_sum {SEGMENT_OPS}", "segment_ids"),
    rejects(
        *("number of segments", "unsorted_segment_sum", {"num_segments": 1.5}, ArgumentError),
        *("{op}: num_segments", "=1.5", "must be an integer"),
    ),
    *(
        rejects(
            *("dtype and rank", "setdiff1d_async", {name: FLOATS}, ShapeError),
            *(f"setdiff1d: {name}", "(2, 3)", "must have one axis … reshape(-1) flattens"),
        )
        for name in ("x", "y")
    ),
    accepts(
        "dtype and rank",
        "setdiff1d_async",
        {"y": int32_array(1)},
        DTYPES_ARE_PROMOTED,
        ([2, 3], [1, 2]),
    ),
)

RAGGED_RULES = (
    *(
        rejects(
            *("splits and positions", "ragged_gather", {"params_nested_splits": splits}, error),
            *("RaggedGather: ", given, remedy),
        )
        for splits, error, given, remedy in (
            ([], ShapeError, "[]", "there must be splits"),
            ([int32_array(1).reshape(())], ShapeError, "[()]", "with one axis each"),
            ([int32_array()], ArgumentValueError, "the splits []", "must be one or more numbers"),
            (
                [int32_array(0, 3, 1)],
                ArgumentValueError,
                "the splits [0, 3, 1]",
                "not decrease, and not exceed 3",
            ),
        )
    ),
    rejects(
        *("splits and positions", "ragged_gather", {"indices": int32_array(5)}, TensorIndexError),
        *("RaggedGather: ", "index 5", "is not in [0, 2), the range of the rows"),
    ),
    rejects(
        *("deltas and lengths", "ragged_range", {"deltas": int32_array(0, 1)}, ArgumentValueError),
        *("RaggedRange: deltas", "=[0, 1]", "must not be 0"),
    ),
    rejects(
        *("deltas and lengths", "ragged_range", {"deltas": int32_array(1, 1, 1)}, ShapeError),
        *("RaggedRange: starts, limits and deltas", "(2,), (2,), (3,)", "vectors of one length"),
    ),
    integer_rule("ragged_tensor_to_tensor", "shape"),
    *(
        rejects(
            *("default value", "ragged_tensor_to_tensor", {"default_value": ones(*shape)}),
            *(ShapeError, "RaggedTensorToTensor: default_value", f"of shape {shape}"),
            "must broadcast to (), the shape of one of the values",
        )
        for shape in ((2,), (1, 1))
    ),
    rejects(
        *("shape", "ragged_tensor_to_tensor", {"shape": int32_array(2, 3, 4)}, ShapeError),
        *("RaggedTensorToTensor: shape", "it is of shape (3,)", "must be -1 or have 2 sizes"),
    ),
)

SPARSE_RULES = (
    integer_rule(FILL_EMPTY_ROWS_OP, "dense_shape"),
    *(
        rejects(
            *("ranks", FILL_EMPTY_ROWS_OP, {name: value}, ShapeError),
            *("SparseFillEmptyRows: … " + name, str(value.shape), remedy),
        )
        for name, value, remedy in (
            ("indices", int32_array(0, 2), "must be one row for each entry"),
            ("dense_shape", int32_array([3, 2]), "one size for each column"),
            ("values", ones(2, 1), "must be one for each row of indices"),
            ("default_value", ones(2), "must be 0-d"),
        )
    ),
    *(
        integer_rule("sparse.sparse_reshape", name)
        for name in ("input_indices", "input_shape", "new_shape")
    ),
    *(
        rejects(
            *("ranks", "sparse.sparse_reshape", {name: value}, ShapeError),
            *("SparseReshape: … " + name.removeprefix("input_in"), str(value.shape), remedy),
        )
        for name, value, remedy in (
            ("input_indices", int32_array(0, 1), "must be one row for each entry"),
            ("input_shape", int32_array([2, 2]), "one size for each column"),
            ("new_shape", int32_array([4, 1]), "must have one axis"),
        )
    ),
    *(
        rejects(
            *("ranks", f"sparse.sparse_segment_{op.lower()}", {name: value}, ShapeError),
            *(f"SparseSegment{op}: … {name}", str(value.shape), remedy),
        )
        for op in ("Mean", "Sum")
        for name, value, remedy in (
            ("data", ones(), "must have at least one axis"),
            ("indices", int32_array([0, 1]), "must be vectors of one length"),
            ("segment_ids", int32_array([0, 1]), "must be vectors of one length"),
        )
    ),
)

INDEX_RULES = (*GATHER_RULES, *SCATTER_RULES, *RAGGED_RULES, *SPARSE_RULES)
