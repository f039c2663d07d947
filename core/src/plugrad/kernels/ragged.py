"""Kernels of ragged tensors, whose rows differ in length.

Their values lie one row after the other, and one or several vectors of *splits* tell where the
rows begin and end: row i is what lies from ``splits[i]`` to ``splits[i + 1]``, of the values or of
the rows of the next splits. In a shape, -1 is a size that only the values can tell.
"""

from plugrad.contract.kernel import accepted, agreed, kernel
from plugrad.errors import ArgumentValueError, ShapeError
from plugrad.types.dtype import INTEGER, REAL, int32
from plugrad.types.shapes import broadcast
from plugrad.types.specs import Shape, Shaped, Spec

PARTITIONS = ("FIRST_DIM_SIZE", "VALUE_ROWIDS", "ROW_SPLITS")


@kernel("RaggedRange", accepts=REAL, dynamic_shape=True)
def ragged_range(starts: Spec, limits: Spec, deltas: Spec) -> tuple[Spec, Spec]:
    """Return, for each row, start, start + delta, … without the limit: the splits, and the values.

    One start, limit or delta counts for all rows.
    """
    dtype = agreed("RaggedRange", starts, limits, deltas)
    accepted("RaggedRange", starts, REAL)
    shapes = [x.shape for x in (starts, limits, deltas)]
    vectors = {shape for shape in shapes if shape}
    if len(vectors) > 1 or any(len(shape) > 1 for shape in vectors):
        raise ShapeError(
            f"RaggedRange: starts, limits and deltas must be numbers or vectors of one length, "
            f"but their shapes are {', '.join(map(str, shapes))}"
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
    """Return the rows at `indices`, again as splits and values.

    The first axes of `indices` are rows of the result, too. With one index the result has one axis
    less than the ragged tensor.
    """
    accepted("RaggedGather (indices)", indices, INTEGER)
    rank = len(params_nested_splits) + len(indices.shape) - 1
    for splits in params_nested_splits:
        accepted("RaggedGather (params_nested_splits)", splits, INTEGER)
    if (
        not params_nested_splits
        or not params_dense_values.shape
        or any(len(splits.shape) != 1 for splits in params_nested_splits)
    ):
        raise ShapeError(
            "RaggedGather: there must be splits, each with one axis, and values with one or more, "
            f"but the shapes are {[s.shape for s in params_nested_splits]} and "
            f"{params_dense_values.shape}"
        )
    if output_ragged_rank != rank:
        raise ArgumentValueError(
            f"RaggedGather: output_ragged_rank={output_ragged_rank} must be {rank} for "
            f"{len(params_nested_splits)} splits and indices of shape {indices.shape}"
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
    """Return a dense tensor with the rows of a ragged one, cut off or filled up with the default value.

    A size of -1 in `shape` is that of the longest row; a `shape` without axes, of -1, means so for
    all. A partition of type "ROW_SPLITS" is splits; "VALUE_ROWIDS" are the row of each value, in
    rising order, and need the number of rows from the partition before: for the first ones,
    "FIRST_DIM_SIZE" is that number.
    """
    name = "RaggedTensorToTensor"
    accepted(name, shape, INTEGER)
    agreed(name, values, default_value)
    for partition in row_partition_tensors:
        accepted(f"{name} (row_partition_tensors)", partition, INTEGER)
    _check_partitions(name, [x.shape for x in row_partition_tensors], row_partition_types)
    rank = ragged_rank(row_partition_types) + len(values.shape)
    if len(shape.shape) > 1 or shape.shape not in {(), (rank,)} or not values.shape:
        raise ShapeError(
            f"{name}: shape must be -1 or have {rank} sizes, for values of shape {values.shape} "
            f"behind the ragged axes; it is of shape {shape.shape}"
        )
    element = values.shape[1:]
    if (
        len(default_value.shape) > len(element)
        or broadcast(default_value.shape, element) != element
    ):
        raise ShapeError(
            f"{name}: default_value of shape {default_value.shape} must broadcast to {element}, "
            f"the shape of one of the values of shape {values.shape}"
        )
    return Shaped((-1,) * (rank - len(element)) + element, values.dtype)


def ragged_rank(row_partition_types: tuple[str, ...]) -> int:
    """Return how many axes are made of rows of different lengths."""
    return len(row_partition_types) - (row_partition_types[0] == "FIRST_DIM_SIZE")


def _check_partitions(name: str, shapes: list[Shape], types: tuple[str, ...]) -> None:
    unknown = sorted(set(types) - set(PARTITIONS))
    if not types or unknown or "FIRST_DIM_SIZE" in types[1:] or types[0] == "VALUE_ROWIDS":
        raise ArgumentValueError(
            f"{name}: row_partition_types={types} must be of {', '.join(PARTITIONS)}, with "
            "FIRST_DIM_SIZE only in front, and VALUE_ROWIDS only behind another one"
        )
    ranks = [0 if kind == "FIRST_DIM_SIZE" else 1 for kind in types]
    if [len(shape) for shape in shapes] != ranks:
        raise ShapeError(
            f"{name}: row_partition_tensors of shapes {shapes} must be one for each type of {types}; "
            "FIRST_DIM_SIZE has no axis, the others have one"
        )
