"""Functions of sparse tensors: the namespace `plugrad.sparse`.

A sparse tensor is given in parts: a row of coordinates for each entry, the entries' values, and the
dense shape. Coordinates are not negative.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from plugrad.kernels import binary, sparse
from plugrad.ops.arguments import as_supported_dtype, as_tensor, promote_operands
from plugrad.ops.indexing import as_positions, first_backend

if TYPE_CHECKING:
    from plugrad.tensor.tensor import Tensor, TensorLike


class FillEmptyRowsResult(NamedTuple):
    """Entries, with at least one in each row; which rows had none; and the new position of each old entry."""

    output_indices: Tensor
    output_values: Tensor
    empty_row_indicator: Tensor
    reverse_index_map: Tensor


class SparseReshapeResult(NamedTuple):
    """The coordinates in a new dense shape, and this shape."""

    output_indices: Tensor
    output_shape: Tensor


def sparse_fill_empty_rows(
    indices: TensorLike, values: TensorLike, dense_shape: TensorLike, default_value: TensorLike
) -> FillEmptyRowsResult:
    """The entries of a sparse tensor by row, with a new entry in each row that has none.

    >>> found = plugrad.sparse.sparse_fill_empty_rows([[0, 1], [2, 0]], [5.0, 7.0], [3, 2], -1)
    >>> found.output_indices.tolist(), found.output_values
    ([[0, 1], [1, 0], [2, 0]], tensor([ 5., -1.,  7.], dtype=float32))
    >>> found.empty_row_indicator.tolist(), found.reverse_index_map.tolist()
    ([False, True, False], [0, 2])

    A new entry has the default value and the first position of its row. Values and the default value
    have gradients.

    Args:
        indices: the coordinates, one row for each entry.
        values: one value for each entry.
        dense_shape: the size of each axis.
        default_value: one element.

    Raises:
        DTypeError: coordinates or sizes are not integers, or the values do not combine.
        ShapeError: the shapes do not match.
        TensorIndexError: an entry is in a row that does not exist.
    """
    op = "sparse_fill_empty_rows"
    home = first_backend(indices, values, dense_shape, default_value)
    positions = as_positions(indices, op, home)
    entries, default = promote_operands(
        as_tensor(values, op, "values", backend=positions.backend), default_value, binary.select, op
    )
    sizes = as_positions(dense_shape, op, positions.backend, "dense_shape")
    return FillEmptyRowsResult(*sparse.sparse_fill_empty_rows(positions, entries, sizes, default))


def sparse_reshape(
    input_indices: TensorLike, input_shape: TensorLike, new_shape: TensorLike
) -> SparseReshapeResult:
    """The coordinates of a sparse tensor's entries in a new dense shape, and this shape.

    >>> found = plugrad.sparse.sparse_reshape([[0, 1], [1, 2]], [2, 3], [3, -1])
    >>> found.output_indices.tolist(), found.output_shape.tolist()
    ([[0, 1], [2, 1]], [3, 2])

    The new coordinates are int32, one row for each entry, and so is the new shape.

    Args:
        input_indices: the coordinates, one row for each entry.
        input_shape: the size of each axis.
        new_shape: the size of each new axis; one may be -1, which is inferred.

    Raises:
        DTypeError: an argument does not hold integers.
        ShapeError: the shapes do not match, or the new shape has another number of elements.
    """
    op = "sparse_reshape"
    positions = as_positions(
        input_indices, op, first_backend(input_indices, input_shape, new_shape), "input_indices"
    )
    sizes = as_positions(input_shape, op, positions.backend, "input_shape")
    new = as_positions(new_shape, op, positions.backend, "new_shape")
    return SparseReshapeResult(*sparse.sparse_reshape(positions, sizes, new))


def sparse_segment_sum(data: TensorLike, indices: TensorLike, segment_ids: TensorLike) -> Tensor:
    """The sum of the rows that are listed for each segment.

    >>> plugrad.sparse.sparse_segment_sum([1.0, 2.0, 3.0], [0, 2, 1], [0, 0, 2])
    tensor([4., 0., 2.], dtype=float32)

    There are segments from 0 to the last id. A segment that does not occur has the sum 0. The result has
    the dtype of the data, with one row for each segment.

    Args:
        data: a tensor whose rows are added.
        indices: positions of rows; a negative one counts from the end.
        segment_ids: the segment of each of these, in ascending order.

    Raises:
        DTypeError: positions or ids are not integers, or the data is bool or string.
        ShapeError: the shapes do not match.
        TensorIndexError: a position is out of range.
        ArgumentValueError: the ids are negative or decrease.
    """
    op = "sparse_segment_sum"
    x = as_supported_dtype(
        as_tensor(data, op, "data", backend=first_backend(indices, segment_ids)),
        sparse.sparse_segment_sum,
        op,
        "data",
    )
    return sparse.sparse_segment_sum(x, *_segment_arguments(x, indices, segment_ids, op))


def sparse_segment_mean(data: TensorLike, indices: TensorLike, segment_ids: TensorLike) -> Tensor:
    """The average of the rows that are listed for each segment; integers become float32.

    >>> plugrad.sparse.sparse_segment_mean([1.0, 2.0, 3.0], [0, 2, 1], [0, 0, 2])
    tensor([2., 0., 2.], dtype=float32)

    There are segments from 0 to the last id. A segment that does not occur has the average 0. The result
    has one row for each segment.

    Args:
        data: a tensor whose rows are averaged.
        indices: positions of rows; a negative one counts from the end.
        segment_ids: the segment of each of these, in ascending order.

    Raises:
        DTypeError: positions or ids are not integers, or the data is string.
        ShapeError: the shapes do not match.
        TensorIndexError: a position is out of range.
        ArgumentValueError: the ids are negative or decrease.
    """
    op = "sparse_segment_mean"
    x = as_supported_dtype(
        as_tensor(data, op, "data", backend=first_backend(indices, segment_ids)),
        sparse.sparse_segment_mean,
        op,
        "data",
    )
    return sparse.sparse_segment_mean(x, *_segment_arguments(x, indices, segment_ids, op))


def _segment_arguments(
    x: Tensor, indices: TensorLike, segment_ids: TensorLike, op: str
) -> tuple[Tensor, Tensor]:
    """Return indices and segment ids as tensors of positions."""
    return (
        as_positions(indices, op, x.backend),
        as_positions(segment_ids, op, x.backend, "segment_ids"),
    )
