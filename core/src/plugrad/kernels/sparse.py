"""Kernels of sparse tensors, which are coordinates (one row for each entry), values and a dense shape.

In a shape, -1 is a size that only the values can tell.
"""

from plugrad.contract.kernel import accepted, agreed, kernel
from plugrad.errors import ShapeError
from plugrad.types.dtype import INEXACT, INTEGER, NUMERIC, DType, bool_, int32
from plugrad.types.specs import Shaped, Spec


@kernel("SparseFillEmptyRows", accepts=INTEGER, dynamic_shape=True)
def sparse_fill_empty_rows(
    indices: Spec, values: Spec, dense_shape: Spec, default_value: Spec
) -> tuple[Spec, Spec, Spec, Spec]:
    """Add an entry with the default value, at its beginning, to each row that has none.

    Return the entries' coordinates and values, by row and else in their order, which rows were
    empty, and for each entry that was there where it is now.
    """
    name = "SparseFillEmptyRows"
    _check_vectors(name, indices, dense_shape, "dense_shape")
    agreed(name, values, default_value)
    if values.shape != indices.shape[:1] or default_value.shape or dense_shape.shape == (0,):
        raise ShapeError(
            f"{name}: values of shape {values.shape} must be one for each row of indices of shape "
            f"{indices.shape}, default_value of shape {default_value.shape} one element, and "
            "dense_shape one or more"
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
    """Return the coordinates in a new dense shape, and this shape; one of its sizes may be -1 and is inferred."""
    _check_vectors("SparseReshape", input_indices, input_shape, "input_shape")
    accepted("SparseReshape (new_shape)", new_shape, INTEGER)
    if len(new_shape.shape) != 1:
        raise ShapeError(
            f"SparseReshape: new_shape must have one axis, not shape {new_shape.shape}"
        )
    return (
        Shaped((input_indices.shape[0], *new_shape.shape), int32),
        Shaped(new_shape.shape, int32),
    )


@kernel("SparseSegmentSum", accepts=NUMERIC, dynamic_shape=True)
def sparse_segment_sum(data: Spec, indices: Spec, segment_ids: Spec) -> Spec:
    """Return, for each segment, the sum of the rows of data whose positions are listed for it.

    The segment ids rise; those that do not occur have the sum 0.
    """
    return _segments("SparseSegmentSum", data, indices, segment_ids, NUMERIC)


@kernel("SparseSegmentMean", accepts=INEXACT, dynamic_shape=True)
def sparse_segment_mean(data: Spec, indices: Spec, segment_ids: Spec) -> Spec:
    """Return, for each segment, the average of the rows of data whose positions are listed for it.

    The segment ids rise; those that do not occur have the average 0.
    """
    return _segments("SparseSegmentMean", data, indices, segment_ids, INEXACT)


def _check_vectors(name: str, indices: Spec, shape: Spec, shape_name: str) -> None:
    accepted(f"{name} (indices)", indices, INTEGER)
    accepted(f"{name} ({shape_name})", shape, INTEGER)
    if len(indices.shape) != 2 or shape.shape != indices.shape[1:]:
        raise ShapeError(
            f"{name}: indices must be one row for each entry and {shape_name} one size for each "
            f"column, but their shapes are {indices.shape} and {shape.shape}"
        )


def _segments(
    name: str, data: Spec, indices: Spec, segment_ids: Spec, accepts: frozenset[DType]
) -> Spec:
    accepted(f"{name} (indices)", indices, INTEGER)
    accepted(f"{name} (segment_ids)", segment_ids, INTEGER)
    if not data.shape or len(indices.shape) != 1 or indices.shape != segment_ids.shape:
        raise ShapeError(
            f"{name}: data of shape {data.shape} must have axes, and indices and segment_ids of "
            f"shapes {indices.shape} and {segment_ids.shape} one, with as many elements"
        )
    return Shaped((-1, *data.shape[1:]), accepted(name, data, accepts))
