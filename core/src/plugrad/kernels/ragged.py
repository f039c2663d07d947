"""Kernels of ragged tensors, whose rows differ in length.

The values of all rows are concatenated, and one or several vectors of splits say where the rows
begin and end: row i extends from ``splits[i]`` to ``splits[i + 1]`` of the values, or of the rows of
the next splits. In an inferred shape, -1 is a size that depends on the values.
"""

from plugrad.contract.kernel import check_dtype, check_same_dtype, kernel
from plugrad.errors import ArgumentValueError, ShapeError
from plugrad.types.dtype import INTEGER, REAL, int32
from plugrad.types.shapes import broadcasts_to
from plugrad.types.specs import Shape, Shaped, Spec

PARTITION_TYPES = ("FIRST_DIM_SIZE", "VALUE_ROWIDS", "ROW_SPLITS")


@kernel("RaggedRange", accepts=REAL, dynamic_shape=True)
def ragged_range(starts: Spec, limits: Spec, deltas: Spec) -> tuple[Spec, Spec]:
    """Return the splits and the values of rows start, start + delta, … up to the limit, which is excluded.

    A single start, limit or delta is used for all rows.

    Args:
        starts: the first value of each row, a vector or a 0-d tensor.
        limits: the end of each row, of the dtype of the starts.
        deltas: the differences between neighbouring values of each row, of the dtype of the starts, not 0.

    Returns:
        splits: an int32 vector, one longer than the number of rows.
        values: the values of all rows, a vector in the dtype of the starts.
    """
    dtype = check_same_dtype("RaggedRange", starts, limits, deltas)
    shapes = [x.shape for x in (starts, limits, deltas)]
    vectors = {shape for shape in shapes if shape}
    if len(vectors) > 1 or any(len(shape) > 1 for shape in vectors):
        raise ShapeError(
            "starts, limits and deltas must be numbers or vectors of one length, but their shapes are "
            f"{', '.join(map(str, shapes))}"
        )
    rows = vectors.pop()[0] if vectors else 1
    return Shaped((rows + 1,), int32), Shaped((-1,), dtype)


@kernel("RaggedGather", dynamic_shape=True)
def ragged_gather(
    params_dense_values: Spec,
    indices: Spec,
    *params_nested_splits: Spec,
    output_ragged_rank: int,
) -> tuple[Spec, ...]:
    """Return the rows at `indices` as splits and values.

    The axes of `indices` replace the first axis of the ragged tensor, so a 0-d index removes it.

    Args:
        params_dense_values: the values of the ragged tensor, (values, …).
        indices: positions of rows, integers of any shape.
        params_nested_splits: the splits of each ragged axis, integer vectors, the outermost first.
        output_ragged_rank: how many splits the result has: those given, plus the axes of the indices, minus 1.

    Returns:
        *splits: `output_ragged_rank` int32 vectors, the outermost first.
        values: the values of the selected rows, (values, …), in the dtype of the given ones.
    """
    check_dtype("RaggedGather (indices)", indices, INTEGER)
    rank = len(params_nested_splits) + len(indices.shape) - 1
    for splits in params_nested_splits:
        check_dtype("RaggedGather (params_nested_splits)", splits, INTEGER)
    if (
        not params_nested_splits
        or not params_dense_values.shape
        or any(len(splits.shape) != 1 for splits in params_nested_splits)
    ):
        raise ShapeError(
            "there must be splits with one axis each, and values with one axis or more, but the shapes are "
            f"{[s.shape for s in params_nested_splits]} and {params_dense_values.shape}"
        )
    if output_ragged_rank != rank:
        raise ArgumentValueError(
            f"output_ragged_rank={output_ragged_rank} must be {rank} for {len(params_nested_splits)} splits and "
            f"indices of shape {indices.shape}"
        )
    values = Shaped((-1, *params_dense_values.shape[1:]), params_dense_values.dtype)
    return *[Shaped((-1,), int32)] * rank, values


@kernel("RaggedTensorToTensor", accepts=INTEGER, dynamic_shape=True)
def ragged_tensor_to_tensor(
    shape: Spec,
    values: Spec,
    default_value: Spec,
    *row_partition_tensors: Spec,
    row_partition_types: tuple[str, ...],
) -> Spec:
    """Return a dense tensor with the rows of a ragged one, truncated or filled up with the default value.

    A size of -1 in `shape` is the length of the longest row; a 0-d `shape` of -1 stands for -1 on all
    axes. A partition of type "ROW_SPLITS" holds splits. One of type "VALUE_ROWIDS" holds the row of
    each value in ascending order; the partition before it gives the number of rows. If it would be
    the first, a partition of type "FIRST_DIM_SIZE" before it holds this number.

    Args:
        shape: the shape of the result, an integer vector or a 0-d -1.
        values: the values of the ragged tensor, (values, …).
        default_value: what fills up short rows, of the dtype of the values; it broadcasts to one of them.
        row_partition_tensors: the partitions, integers, the outermost first.
        row_partition_types: the type of each partition: "FIRST_DIM_SIZE", "VALUE_ROWIDS" or "ROW_SPLITS".

    Returns:
        a tensor of the dtype of the values.
    """
    name = "RaggedTensorToTensor"
    check_same_dtype(name, values, default_value)
    for partition in row_partition_tensors:
        check_dtype(f"{name} (row_partition_tensors)", partition, INTEGER)
    _check_partitions([x.shape for x in row_partition_tensors], row_partition_types)
    rank = ragged_rank(row_partition_types) + len(values.shape)
    if len(shape.shape) > 1 or shape.shape not in {(), (rank,)} or not values.shape:
        raise ShapeError(
            f"shape must be -1 or have {rank} sizes, for values of shape {values.shape} behind the ragged axes; "
            f"it is of shape {shape.shape}"
        )
    element = values.shape[1:]
    if not broadcasts_to(default_value.shape, element):
        raise ShapeError(
            f"default_value of shape {default_value.shape} must broadcast to {element}, the shape of one of the "
            f"values of shape {values.shape}"
        )
    return Shaped((-1,) * (rank - len(element)) + element, values.dtype)


def ragged_rank(row_partition_types: tuple[str, ...]) -> int:
    """Return the number of axes along which rows may differ in length."""
    return len(row_partition_types) - (row_partition_types[0] == "FIRST_DIM_SIZE")


def _check_partitions(partition_shapes: list[Shape], partition_types: tuple[str, ...]) -> None:
    """Check that there is a partition of the right rank for each type, and that the types are in order."""
    unknown = sorted(set(partition_types) - set(PARTITION_TYPES))
    if (
        not partition_types
        or unknown
        or "FIRST_DIM_SIZE" in partition_types[1:]
        or partition_types[0] == "VALUE_ROWIDS"
    ):
        raise ArgumentValueError(
            f"row_partition_types={partition_types} must be of {', '.join(PARTITION_TYPES)}, with FIRST_DIM_SIZE only "
            "in front, and VALUE_ROWIDS only behind another one"
        )
    ranks = [0 if kind == "FIRST_DIM_SIZE" else 1 for kind in partition_types]
    if [len(shape) for shape in partition_shapes] != ranks:
        raise ShapeError(
            f"row_partition_tensors of shapes {partition_shapes} must be one for each type of {partition_types}; "
            "FIRST_DIM_SIZE has no axis, the others have one"
        )
