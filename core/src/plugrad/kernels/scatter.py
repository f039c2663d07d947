"""Kernels that write elements at positions.

Coordinates lie along the last axis of `indices`: K of them name a place on the first K axes.
Indices with one axis are positions on the first axis. Positions are as in `plugrad.kernels.indexing`;
a device that does not check them writes nothing where one is out of range.

Args:
    indices: coordinates, integers (…, K), or a vector of positions.
    updates: a part (…, *shape[K:]) for each place.
"""

from plugrad.contract.kernel import check_dtype, check_same_dtype, kernel
from plugrad.errors import ShapeError
from plugrad.types.dtype import INTEGER, NUMERIC
from plugrad.types.specs import Shape, Shaped, Spec


@kernel("ScatterNd", accepts=INTEGER)
def scatter_nd(indices: Spec, updates: Spec, *, shape: Shape) -> Spec:
    """Return zeros of `shape` to which the updates are added; several updates for one place add up.

    Args:
        shape: the shape of the result, with at least K axes.

    Returns:
        a tensor of `shape` in the dtype of the updates.
    """
    check_dtype("ScatterNd (updates)", updates, NUMERIC)
    _check_updates(indices, updates, shape)
    return Shaped(shape, updates.dtype)


@kernel("TensorScatterUpdate")
def tensor_scatter_update(tensor: Spec, indices: Spec, updates: Spec) -> Spec:
    """Return a copy of the tensor with parts replaced by the updates; the last one for a place counts.

    Args:
        tensor: the tensor to copy.

    Returns:
        a tensor of the shape and the dtype of the tensor.
    """
    check_dtype("TensorScatterUpdate (indices)", indices, INTEGER)
    _check_updates(indices, updates, tensor.shape)
    return Shaped(tensor.shape, check_same_dtype("TensorScatterUpdate", tensor, updates))


@kernel("SparseToDense", accepts=INTEGER)
def sparse_to_dense(
    sparse_indices: Spec, sparse_values: Spec, default_value: Spec, *, output_shape: Shape
) -> Spec:
    """Return the values at their coordinates, and the default value elsewhere; the last one for a place counts.

    The indices are one position, a vector of positions, or rows of coordinates; the values are one
    for each of them or one for all.

    Args:
        sparse_indices: a 0-d integer, an integer vector, or a matrix (entries, axes).
        sparse_values: the value of each entry, or a 0-d one for all.
        default_value: the value elsewhere, 0-d, of the dtype of the values.
        output_shape: the shape of the result.

    Returns:
        a tensor of `output_shape` in the dtype of the values.
    """
    given = sparse_indices.shape
    rank = len(output_shape)
    if len(given) > 2 or (given[1] if len(given) == 2 else 1) != rank:
        raise ShapeError(
            f"sparse_indices of shape {given} must be rows of {rank} coordinates, one for each axis of "
            f"output_shape {output_shape}"
        )
    count = given[0] if given else 1
    if sparse_values.shape not in ((), (count,)):
        raise ShapeError(
            f"sparse_values of shape {sparse_values.shape} must be 0-d or have shape {(count,)}, one for each row of "
            f"sparse_indices of shape {given}"
        )
    if default_value.shape:
        raise ShapeError(f"default_value of shape {default_value.shape} must be 0-d")
    return Shaped(output_shape, check_same_dtype("SparseToDense", sparse_values, default_value))


def _check_updates(indices: Spec, updates: Spec, shape: Shape) -> None:
    """Check that the updates are parts of `shape`, one for each row of coordinates."""
    if not indices.shape:
        raise ShapeError("indices are 0-d; they must have at least one axis")
    depth = indices.shape[-1] if len(indices.shape) > 1 else 1
    places = indices.shape[:-1] if len(indices.shape) > 1 else indices.shape
    if depth > len(shape):
        raise ShapeError(
            f"indices of shape {indices.shape} have {depth} coordinates for the {len(shape)} axes of shape {shape}"
        )
    if updates.shape != (*places, *shape[depth:]):
        raise ShapeError(
            f"updates have shape {updates.shape}; indices of shape {indices.shape} into shape {shape} need "
            f"{(*places, *shape[depth:])}"
        )
