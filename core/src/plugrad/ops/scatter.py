"""Functions that write elements at positions, into a new tensor.

Positions are as in `plugrad.ops.indexing`. Backends that do not check positions write nothing where
one is out of range.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugrad.kernels import scatter
from plugrad.ops.arguments import as_tensor
from plugrad.ops.assignment import cast_for_assignment
from plugrad.ops.indexing import as_coordinates, first_backend
from plugrad.types.shapes import as_shape

if TYPE_CHECKING:
    from plugrad.tensor.tensor import Tensor, TensorLike
    from plugrad.types.specs import ShapeLike


def scatter_nd(indices: TensorLike, updates: TensorLike, shape: ShapeLike) -> Tensor:
    """A tensor of zeros to which the updates are added at their coordinates.

    >>> plugrad.scatter_nd([[1], [3], [1]], [10.0, 20.0, 5.0], (4,))
    tensor([ 0., 15.,  0., 20.], dtype=float32)

    The dtype is that of the updates. Updates with the same coordinates add up.

    Args:
        indices: integers, whose last axis holds coordinates: K of them name a place on the first K
            axes. Indices with one axis are positions on the first axis.
        updates: for each place a part with the other axes.
        shape: the shape of the result.

    Raises:
        DTypeError: the indices are not integers, or the updates hold bools or strings.
        ShapeError: the shapes do not fit together, or `shape` is not one.
        TensorIndexError: an index is out of range.
    """
    home = first_backend(updates, indices)
    sizes = as_shape(shape, name="scatter_nd: shape")
    places = as_coordinates(indices, sizes, "scatter_nd", home, least_axes=2)
    parts = as_tensor(updates, "scatter_nd", "updates", backend=home)
    return scatter.scatter_nd(places, parts, shape=sizes)


def tensor_scatter_update(tensor: TensorLike, indices: TensorLike, updates: TensorLike) -> Tensor:
    """A copy of a tensor with its parts at some coordinates replaced by the updates.

    >>> x = plugrad.zeros((3, 2))
    >>> plugrad.tensor_scatter_update(x, [[0, 1], [2, 0]], [5.0, 7.0])
    tensor([[0., 5.],
            [0., 0.],
            [7., 0.]], dtype=float32)
    >>> plugrad.tensor_scatter_update(x, [[-1]], [[1.0, 2.0]])
    tensor([[0., 0.],
            [0., 0.],
            [1., 2.]], dtype=float32)

    Indices and updates are as for `scatter_nd`. Of several updates for one place, the last one
    counts. Shape and dtype are those of the tensor.

    Raises:
        DTypeError: the indices are not integers, or the tensor's dtype does not hold the updates.
        ShapeError: the shapes do not fit together.
        TensorIndexError: an index is out of range.
    """
    op = "tensor_scatter_update"
    home = first_backend(tensor, indices, updates)
    tensor = as_tensor(tensor, op, "tensor", backend=home)
    places = as_coordinates(indices, tensor.shape, op, home, least_axes=2)
    return scatter.tensor_scatter_update(
        tensor, places, cast_for_assignment(updates, tensor, op, "updates")
    )


def sparse_to_dense(
    sparse_indices: TensorLike,
    sparse_values: TensorLike,
    output_shape: ShapeLike,
    default_value: TensorLike = 0,
) -> Tensor:
    """A tensor with the values at their coordinates, and the default value everywhere else.

    >>> plugrad.sparse_to_dense([[0, 1], [1, 2]], [5, 6], (2, 3), default_value=-1)
    tensor([[-1,  5, -1],
            [-1, -1,  6]], dtype=int32)

    The dtype is that of the values. Of several values for one place, the last one counts.

    Args:
        sparse_indices: rows of coordinates; or positions in a vector, or one such position.
        sparse_values: a vector with a value for each row, or one value for all.
        output_shape: the shape of the result.
        default_value: one element.

    Raises:
        DTypeError: the indices are not integers, or the values' dtype does not hold the default
            value.
        ShapeError: the shapes do not fit together, or `output_shape` is not one.
        TensorIndexError: an index is out of range.
    """
    op = "sparse_to_dense"
    home = first_backend(sparse_values, sparse_indices, default_value)
    shape = as_shape(output_shape, name="sparse_to_dense: output_shape")
    places = as_coordinates(sparse_indices, shape, op, home, "sparse_indices", least_axes=2)
    values = as_tensor(sparse_values, op, "sparse_values", backend=home)
    default = cast_for_assignment(default_value, values, op, "default_value")
    return scatter.sparse_to_dense(places, values, default, output_shape=shape)
