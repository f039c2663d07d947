"""Functions of ragged tensors, whose rows differ in length.

A ragged tensor is given in parts: the values of all rows one after the other, and the splits, which
tell where rows begin and end. Row i consists of the values from ``splits[i]`` to ``splits[i + 1]``.
Where several splits are nested, it consists of these rows of the next splits instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from plugrad.kernels import binary, ragged
from plugrad.ops.arguments import as_tensor, promote_operands, promote_to_one_dtype
from plugrad.ops.attributes import as_list, check_integer
from plugrad.ops.indexing import as_positions, first_backend

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plugrad.tensor.tensor import Tensor, TensorLike


class RaggedRange(NamedTuple):
    """The splits, as int32, and the values of all rows one after the other."""

    rt_nested_splits: Tensor
    rt_dense_values: Tensor


class RaggedGather(NamedTuple):
    """The splits, as int32 and from the outermost axis on, and the values."""

    output_nested_splits: list[Tensor]
    output_dense_values: Tensor


def ragged_range(starts: TensorLike, limits: TensorLike, deltas: TensorLike) -> RaggedRange:
    """The ranges start, start + delta, … up to but without the limit, as the rows of a ragged tensor.

    >>> found = plugrad.ragged_range([0, 5], [3, 1], [1, -2])
    >>> found.rt_nested_splits.tolist(), found.rt_dense_values.tolist()
    ([0, 3, 5], [0, 1, 2, 5, 3])

    The values have the dtype to which the arguments promote.

    Args:
        starts: a vector with the first number of each row; like the other two, it may be a single
            number that counts for all rows.
        limits: the number before which each row stops.
        deltas: the step of each row, which may be negative.

    Raises:
        DTypeError: an argument holds bools, complex numbers or strings.
        ShapeError: the arguments are not numbers or vectors of one length.
        ArgumentValueError: a delta is 0, or there are more values than int32 counts.
    """
    return RaggedRange(
        *ragged.ragged_range(*promote_to_one_dtype([starts, limits, deltas], "ragged_range"))
    )


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
        params_dense_values: the values, to which the innermost splits refer.
        indices: positions of rows, of any shape, whose axes come first in the result; a single
            index takes the row itself.
        output_ragged_rank: the number of splits in the result. It follows from the other arguments
            and is only checked.

    Raises:
        DTypeError: splits or indices are not integers.
        ShapeError: there are no splits, a split does not have one axis, or the values have none.
        ArgumentError: `params_nested_splits` is not a sequence, or `output_ragged_rank` not an
            integer.
        ArgumentValueError: splits decrease or leave what they split, or `output_ragged_rank` is
            wrong.
        TensorIndexError: an index is out of range.
    """
    op = "ragged_gather"
    nested = as_list(params_nested_splits, op, "params_nested_splits")
    home = first_backend(params_dense_values, indices, *nested)
    values = as_tensor(params_dense_values, op, "params_dense_values", backend=home)
    rows = as_positions(indices, op, values.backend)
    splits = [as_positions(part, op, values.backend, "params_nested_splits") for part in nested]
    rank = len(splits) + rows.ndim - 1
    if output_ragged_rank is not None:
        rank = check_integer(output_ragged_rank, op, "output_ragged_rank")
    *found, gathered = ragged.ragged_gather(values, rows, *splits, output_ragged_rank=rank)
    return RaggedGather(found, gathered)


def ragged_tensor_to_tensor(
    shape: TensorLike,
    values: TensorLike,
    default_value: TensorLike,
    row_partition_tensors: Sequence[TensorLike],
    row_partition_types: Sequence[str],
) -> Tensor:
    """A dense tensor with the rows of a ragged one, filled up with a default value or cut off.

    >>> plugrad.ragged_tensor_to_tensor([2, -1], [1.0, 2.0, 3.0], 0, [[0, 1, 3]], ["ROW_SPLITS"])
    tensor([[1., 0.],
            [2., 3.]], dtype=float32)

    The dtype is the one to which values and default value promote.

    Args:
        shape: the size of each axis, or -1 for the length of the longest row; a single -1 counts
            for all axes.
        values: the values, one row after the other; they may have further axes.
        default_value: the value that fills the gaps; it broadcasts to one of the values.
        row_partition_tensors: for each type the splits, the row of each value in ascending order,
            or the number of rows.
        row_partition_types: "ROW_SPLITS", "VALUE_ROWIDS" or, only in front, "FIRST_DIM_SIZE" for
            each partition, from the outermost axis on.

    Raises:
        DTypeError: the shape or a partition is not integers, or the values and the default value
            have no common dtype.
        ShapeError: the shape, the default value or the partitions do not fit the values or types.
        ArgumentError: partitions or types are not sequences.
        ArgumentValueError: a type is unknown or in the wrong place, or a partition decreases.
    """
    op = "ragged_tensor_to_tensor"
    types = tuple(as_list(row_partition_types, op, "row_partition_types"))
    given = as_list(row_partition_tensors, op, "row_partition_tensors")
    home = first_backend(values, default_value, shape, *given)
    dense, default = promote_operands(
        as_tensor(values, op, "values", backend=home), default_value, binary.select, op
    )
    partitions = [as_positions(part, op, dense.backend, "row_partition_tensors") for part in given]
    sizes = as_positions(shape, op, dense.backend, "shape")
    return ragged.ragged_tensor_to_tensor(
        sizes, dense, default, *partitions, row_partition_types=types
    )
