"""Functions that write elements at positions, into a new tensor.

Positions are as in `plugrad.ops.indexing`. Backends that do not look at positions write nothing
where one is out of range.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugrad.errors import DTypeError
from plugrad.kernels import scatter
from plugrad.ops.arguments import as_tensor, cast
from plugrad.ops.indexing import backend_of, coordinates
from plugrad.types.dtype import promote
from plugrad.types.shapes import shape_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plugrad.tensor.tensor import Tensor, TensorLike
    from plugrad.types.dtype import DType


def scatter_nd(indices: TensorLike, updates: TensorLike, shape: Sequence[int]) -> Tensor:
    """Zeros of a shape to which the updates are added at their coordinates.

    >>> plugrad.scatter_nd([[1], [3], [1]], [10.0, 20.0, 5.0], (4,))
    tensor([ 0., 15.,  0., 20.], dtype=float32)

    The coordinates lie along the last axis of `indices`: K of them name a place on the first K
    axes, and an update has the other axes. Indices with one axis are positions on the first axis.

    Raises:
        DTypeError: the indices are not integers, or the updates are bool.
        ShapeError: the shapes do not fit together, or `shape` is not one.
        TensorIndexError: an index is out of range.
    """
    home = backend_of(updates, indices)
    sizes = shape_of(shape, name="scatter_nd: shape")
    places = coordinates(indices, sizes, "scatter_nd", home, least_axes=2)
    parts = as_tensor(updates, "scatter_nd", "updates", backend=home)
    return scatter.scatter_nd(places, parts, shape=sizes)


def tensor_scatter_update(tensor: TensorLike, indices: TensorLike, updates: TensorLike) -> Tensor:
    """A copy of a tensor with the updates in place of its parts at their coordinates.

    >>> x = plugrad.zeros((3, 2))
    >>> plugrad.tensor_scatter_update(x, [[0, 1], [2, 0]], [5.0, 7.0])
    tensor([[0., 5.],
            [0., 0.],
            [7., 0.]], dtype=float32)
    >>> plugrad.tensor_scatter_update(x, [[-1]], [[1.0, 2.0]])
    tensor([[0., 0.],
            [0., 0.],
            [1., 2.]], dtype=float32)

    The coordinates lie along the last axis of `indices`, as in `scatter_nd`. Of several updates for
    one place the last one counts.

    Raises:
        DTypeError: the indices are not integers, or the tensor's dtype does not hold the updates.
        ShapeError: the shapes do not fit together.
        TensorIndexError: an index is out of range.
    """
    op = "tensor_scatter_update"
    home = backend_of(tensor, indices, updates)
    tensor = as_tensor(tensor, op, "tensor", backend=home)
    places = coordinates(indices, tensor.shape, op, home, least_axes=2)
    return scatter.tensor_scatter_update(tensor, places, _held(updates, "updates", tensor, op))


def sparse_to_dense(
    sparse_indices: TensorLike,
    sparse_values: TensorLike,
    output_shape: Sequence[int],
    default_value: TensorLike = 0,
) -> Tensor:
    """The values at their coordinates in a tensor that holds the default value everywhere else.

    >>> plugrad.sparse_to_dense([[0, 1], [1, 2]], [5, 6], (2, 3), default_value=-1)
    tensor([[-1,  5, -1],
            [-1, -1,  6]], dtype=int32)

    The indices are rows of coordinates, or positions in a vector, or one such position; one value
    serves for all. Of several values for one place the last one counts.

    Raises:
        DTypeError: the indices are not integers, or the values' dtype does not hold the default.
        ShapeError: the shapes do not fit together, or `output_shape` is not one.
        TensorIndexError: an index is out of range.
    """
    op = "sparse_to_dense"
    home = backend_of(sparse_values, sparse_indices, default_value)
    shape = shape_of(output_shape, name="sparse_to_dense: output_shape")
    places = coordinates(sparse_indices, shape, op, home, "sparse_indices", least_axes=2)
    values = as_tensor(sparse_values, op, "sparse_values", backend=home)
    default = _held(default_value, "default_value", values, op)
    return scatter.sparse_to_dense(places, values, default, output_shape=shape)


def _held(x: TensorLike, name: str, holder: Tensor, op: str) -> Tensor:
    """Return `x` in the dtype of the tensor that will hold it.

    Raises:
        DTypeError: that dtype does not hold x's values.
    """
    x = as_tensor(x, op, name, backend=holder.backend)
    if not _holds(holder.dtype, x.dtype):
        raise DTypeError(
            f"{op}: {name} are {x.dtype}, which {holder.dtype} does not hold; cast one of them, as "
            f"in astype({str(holder.dtype)!r})"
        )
    return cast(x, holder.dtype)


def _holds(dtype: DType, other: DType) -> bool:
    try:
        return promote(dtype, other) is dtype
    except DTypeError:
        return False
