"""Kernels that write elements at positions.

Coordinates lie along the last axis of `indices`: K of them name a place on the first K axes.
Indices with one axis are positions on the first axis. Positions are as in `plugrad.kernels.indexing`;
a device that does not look at them writes nothing where one is out of range.
"""

from plugrad.contract.kernel import accepted, agreed, kernel
from plugrad.errors import ShapeError
from plugrad.types.dtype import INTEGER, NUMERIC
from plugrad.types.shapes import shape_of
from plugrad.types.specs import Shape, Shaped, Spec


@kernel("ScatterNd", accepts=INTEGER)
def scatter_nd(indices: Spec, updates: Spec, *, shape: Shape) -> Spec:
    """Return zeros of `shape` to which the updates are added; those for one place add up."""
    shape = shape_of(shape, name="ScatterNd: shape")
    _check_updates("ScatterNd", indices, updates, shape)
    return Shaped(shape, accepted("ScatterNd (updates)", updates, NUMERIC))


@kernel("TensorScatterUpdate")
def tensor_scatter_update(tensor: Spec, indices: Spec, updates: Spec) -> Spec:
    """Return a copy of the tensor with the updates in place of its parts; the last one for a place counts."""
    _check_updates("TensorScatterUpdate", indices, updates, tensor.shape)
    return Shaped(tensor.shape, agreed("TensorScatterUpdate", tensor, updates))


@kernel("SparseToDense", accepts=INTEGER)
def sparse_to_dense(
    sparse_indices: Spec, sparse_values: Spec, default_value: Spec, *, output_shape: Shape
) -> Spec:
    """Return the values at their coordinates, and the default value elsewhere; the last one for a place counts.

    The indices are one position, a vector of positions or rows of coordinates; the values are one
    for each or one for all.
    """
    name, shape = "SparseToDense", shape_of(output_shape, name="SparseToDense: output_shape")
    accepted(f"{name} (sparse_indices)", sparse_indices, INTEGER)
    given = sparse_indices.shape
    if len(given) > 2 or (given[1] if len(given) == 2 else 1) != len(shape):
        raise ShapeError(
            f"{name}: sparse_indices of shape {given} must be rows of {len(shape)} coordinates, "
            f"one for each axis of output_shape {shape}"
        )
    count = given[0] if given else 1
    if sparse_values.shape not in ((), (count,)):
        raise ShapeError(
            f"{name}: sparse_values of shape {sparse_values.shape} must be 0-d or have shape "
            f"{(count,)}, one for each row of sparse_indices of shape {given}"
        )
    if default_value.shape:
        raise ShapeError(f"{name}: default_value of shape {default_value.shape} must be 0-d")
    return Shaped(shape, agreed(name, sparse_values, default_value))


def _check_updates(name: str, indices: Spec, updates: Spec, shape: Shape) -> None:
    """Raise unless the updates are parts of `shape`, one for each row of coordinates."""
    accepted(f"{name} (indices)", indices, INTEGER)
    if not indices.shape:
        raise ShapeError(f"{name}: indices are 0-d; they must have at least one axis")
    depth = indices.shape[-1] if len(indices.shape) > 1 else 1
    places = indices.shape[:-1] if len(indices.shape) > 1 else indices.shape
    if depth > len(shape):
        raise ShapeError(
            f"{name}: indices of shape {indices.shape} have {depth} coordinates for the "
            f"{len(shape)} axes of shape {shape}"
        )
    if updates.shape != (*places, *shape[depth:]):
        raise ShapeError(
            f"{name}: updates have shape {updates.shape}; indices of shape {indices.shape} into "
            f"shape {shape} need {(*places, *shape[depth:])}"
        )
