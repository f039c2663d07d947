"""Kernels of sparse tensors, which consist of coordinates (one row for each entry), values and a dense shape.

In an inferred shape, -1 is a size that depends on the values.

Args:
    indices: the coordinates of each entry, integers (entries, axes).
    data: a tensor with at least one axis.
    segment_ids: the segment of each of these positions, an integer vector in ascending order.
"""

from plugrad.contract.kernel import check_dtype, check_same_dtype, kernel
from plugrad.errors import ShapeError
from plugrad.types.dtype import INEXACT, INTEGER, NUMERIC, bool_, int32
from plugrad.types.specs import Shaped, Spec


@kernel("SparseFillEmptyRows", accepts=INTEGER, dynamic_shape=True)
def sparse_fill_empty_rows(
    indices: Spec, values: Spec, dense_shape: Spec, default_value: Spec
) -> tuple[Spec, Spec, Spec, Spec]:
    """Return a sparse tensor with an entry of the default value at the beginning of each empty row.

    The outputs are the coordinates and the values of the entries, ordered by row and otherwise as
    before; which rows were empty; and, for each original entry, its new position.

    Args:
        values: the value of each entry, of any dtype.
        dense_shape: the dense shape, an integer vector with at least one size.
        default_value: the value of new entries, 0-d, of the dtype of the values.

    Returns:
        indices: the coordinates, an int32 matrix (entries, axes).
        values: the values, a vector of their dtype.
        is_empty: which rows were empty, a bool vector.
        positions: the new position of each original entry, an int32 vector.
    """
    name = "SparseFillEmptyRows"
    check_dtype(f"{name} (dense_shape)", dense_shape, INTEGER)
    _check_vectors(indices, dense_shape, "dense_shape")
    check_same_dtype(name, values, default_value)
    if values.shape != indices.shape[:1] or default_value.shape or dense_shape.shape == (0,):
        raise ShapeError(
            f"values of shape {values.shape} must be one for each row of indices of shape {indices.shape}, "
            f"default_value of shape {default_value.shape} must be 0-d, and dense_shape must have a size"
        )
    rank = indices.shape[1]
    return (
        Shaped((-1, rank), int32),
        Shaped((-1,), values.dtype),
        Shaped((-1,), bool_),
        Shaped(values.shape, int32),
    )


@kernel("SparseReshape", accepts=INTEGER)
def sparse_reshape(input_indices: Spec, input_shape: Spec, new_shape: Spec) -> tuple[Spec, Spec]:
    """Return the coordinates in a new dense shape, and this shape; one of its sizes may be -1, which is inferred.

    Args:
        input_indices: the coordinates of each entry, integers (entries, axes).
        input_shape: the dense shape, an integer vector.
        new_shape: the new dense shape, an integer vector, with as many elements.

    Returns:
        indices: the new coordinates, an int32 matrix (entries, new axes).
        shape: the new dense shape, an int32 vector.
    """
    check_dtype("SparseReshape (input_shape)", input_shape, INTEGER)
    check_dtype("SparseReshape (new_shape)", new_shape, INTEGER)
    _check_vectors(input_indices, input_shape, "input_shape")
    if len(new_shape.shape) != 1:
        raise ShapeError(f"new_shape must have one axis, not shape {new_shape.shape}")
    return (
        Shaped((input_indices.shape[0], *new_shape.shape), int32),
        Shaped(new_shape.shape, int32),
    )


@kernel("SparseSegmentSum", accepts=NUMERIC, dynamic_shape=True)
def sparse_segment_sum(data: Spec, indices: Spec, segment_ids: Spec) -> Spec:
    """Return, for each segment, the sum of the rows of data whose positions are listed for it.

    A negative position counts from the end. The segment ids are in ascending order; one that does not
    occur has the sum 0.

    Args:
        indices: positions of rows of the data, an integer vector.

    Returns:
        a tensor (segments, *data.shape[1:]) in the dtype of the data.
    """
    return _segment_spec("SparseSegmentSum", data, indices, segment_ids)


@kernel("SparseSegmentMean", accepts=INEXACT, dynamic_shape=True)
def sparse_segment_mean(data: Spec, indices: Spec, segment_ids: Spec) -> Spec:
    """Return, for each segment, the average of the rows of data whose positions are listed for it.

    A negative position counts from the end. The segment ids are in ascending order; one that does not
    occur has the average 0.

    Args:
        indices: positions of rows of the data, an integer vector.

    Returns:
        a tensor (segments, *data.shape[1:]) in the dtype of the data.
    """
    return _segment_spec("SparseSegmentMean", data, indices, segment_ids)


def _check_vectors(indices: Spec, dense_shape: Spec, shape_name: str) -> None:
    """Raise unless each row of indices has a coordinate for each size of a dense shape."""
    if len(indices.shape) != 2 or dense_shape.shape != indices.shape[1:]:
        raise ShapeError(
            f"indices must be one row for each entry and {shape_name} one size for each column, but their shapes "
            f"are {indices.shape} and {dense_shape.shape}"
        )


def _segment_spec(kernel_name: str, data: Spec, indices: Spec, segment_ids: Spec) -> Spec:
    """Return the shape and dtype of the segments; the number of segments depends on values."""
    check_dtype(f"{kernel_name} (indices)", indices, INTEGER)
    check_dtype(f"{kernel_name} (segment_ids)", segment_ids, INTEGER)
    if not data.shape or len(indices.shape) != 1 or indices.shape != segment_ids.shape:
        raise ShapeError(
            f"data of shape {data.shape} must have at least one axis, and indices and segment_ids of shapes "
            f"{indices.shape} and {segment_ids.shape} must be vectors of one length"
        )
    return Shaped((-1, *data.shape[1:]), data.dtype)
