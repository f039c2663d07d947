"""Functions of ragged tensors: values one row after the other, and splits that tell where rows begin and end.

Row i is what lies from ``splits[i]`` to ``splits[i + 1]``: of the values, or of the rows of the next
splits where several are nested.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from plugrad.kernels import binary, ragged
from plugrad.ops.arguments import as_tensor, promoted, same_dtype
from plugrad.ops.attributes import listed, whole
from plugrad.ops.indexing import as_positions, backend_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plugrad.tensor.tensor import Tensor, TensorLike


class RaggedRange(NamedTuple):
    """Where each row begins and ends, and the values of all rows."""

    rt_nested_splits: Tensor
    rt_dense_values: Tensor


class RaggedGather(NamedTuple):
    """The splits, from the outermost axis on, and the values."""

    output_nested_splits: list[Tensor]
    output_dense_values: Tensor


def ragged_range(starts: TensorLike, limits: TensorLike, deltas: TensorLike) -> RaggedRange:
    """The numbers start, start + delta, … without the limit, in a row for each start, limit and delta.

    >>> found = plugrad.ragged_range([0, 5], [3, 1], [1, -2])
    >>> found.rt_nested_splits.tolist(), found.rt_dense_values.tolist()
    ([0, 3, 5], [0, 1, 2, 5, 3])

    One number counts for all rows.

    Raises:
        DTypeError: an argument is bool, complex or string.
        ShapeError: they are not numbers or vectors of one length.
        ArgumentValueError: a delta is 0, or there are more values than int32 counts.
    """
    return RaggedRange(*ragged.ragged_range(*same_dtype([starts, limits, deltas], "ragged_range")))


def ragged_gather(
    params_nested_splits: Sequence[TensorLike],
    params_dense_values: TensorLike,
    indices: TensorLike,
    output_ragged_rank: int | None = None,
) -> RaggedGather:
    """The rows of a ragged tensor at `indices`, as a ragged tensor.

    >>> found = plugrad.ragged_gather([[0, 2, 2, 3]], [10.0, 20.0, 30.0], [2, 0])
    >>> [splits.tolist() for splits in found.output_nested_splits], found.output_dense_values
    ([[0, 1, 3]], tensor([30., 10., 20.], dtype=float32))

    Args:
        params_nested_splits: one or several splits, from the outermost axis on.
        params_dense_values: what the innermost ones split.
        indices: positions of rows, of any shape; one index takes the row itself.
        output_ragged_rank: how many splits the result has; that follows from the other arguments
            and is checked if it is given.

    Raises:
        DTypeError: splits or indices are not integers.
        ShapeError: there are no splits, or they have not one axis, or the values have none.
        ArgumentValueError: splits do not rise within what they split, or the rank is another one.
        TensorIndexError: an index is out of range.
    """
    op = "ragged_gather"
    nested = listed(params_nested_splits, op, "params_nested_splits")
    home = backend_of(params_dense_values, indices, *nested)
    values = as_tensor(params_dense_values, op, "params_dense_values", backend=home)
    rows = as_positions(indices, op, values.backend)
    splits = [as_positions(part, op, values.backend, "params_nested_splits") for part in nested]
    rank = len(splits) + rows.ndim - 1
    if output_ragged_rank is not None:
        rank = whole(output_ragged_rank, op, "output_ragged_rank")
    *found, gathered = ragged.ragged_gather(values, rows, *splits, output_ragged_rank=rank)
    return RaggedGather(found, gathered)


def ragged_tensor_to_tensor(
    shape: TensorLike,
    values: TensorLike,
    default_value: TensorLike,
    row_partition_tensors: Sequence[TensorLike],
    row_partition_types: Sequence[str],
) -> Tensor:
    """A dense tensor with the rows of a ragged one, filled up with the default value or cut off.

    >>> plugrad.ragged_tensor_to_tensor([2, -1], [1.0, 2.0, 3.0], 0, [[0, 1, 3]], ["ROW_SPLITS"])
    tensor([[1., 0.],
            [2., 3.]], dtype=float32)

    Args:
        shape: the size of each axis, -1 for that of the longest row; -1 alone means so for all axes.
        values: the values, one row after the other; they may have further axes.
        default_value: what fills the gaps; it broadcasts to one of the values.
        row_partition_tensors: for each type, the splits, the row of each value in rising order, or
            the number of rows.
        row_partition_types: "ROW_SPLITS", "VALUE_ROWIDS" or, in front of the first row ids,
            "FIRST_DIM_SIZE", from the outermost axis on.

    Raises:
        DTypeError: the shape or a partition is not integers, or the values do not combine.
        ShapeError: the shape does not fit the values, or the partitions are of more or fewer.
        ArgumentValueError: types are unknown or in the wrong place, or a partition does not rise.
    """
    op = "ragged_tensor_to_tensor"
    types = tuple(listed(row_partition_types, op, "row_partition_types"))
    given = listed(row_partition_tensors, op, "row_partition_tensors")
    home = backend_of(values, default_value, shape, *given)
    dense, default = promoted(
        as_tensor(values, op, "values", backend=home), default_value, binary.select, op
    )
    partitions = [as_positions(part, op, dense.backend, "row_partition_tensors") for part in given]
    sizes = as_positions(shape, op, dense.backend, "shape")
    return ragged.ragged_tensor_to_tensor(
        sizes, dense, default, *partitions, row_partition_types=types
    )
