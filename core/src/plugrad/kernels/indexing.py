"""Kernels that select elements by position.

Positions are integers, and a negative one counts from the end. A position out of range is an error;
a device that does not check positions reads zeros there instead.

Args:
    indices: positions, integers of any shape.
"""

from plugrad.contract.annotations import Axis
from plugrad.contract.kernel import check_dtype, kernel
from plugrad.errors import ArgumentValueError, ShapeError
from plugrad.types.dtype import (
    BOOL,
    INTEGER,
    NUMERIC,
    DType,
    Scalar,
    can_hold,
    position_dtype,
    string,
)
from plugrad.types.shapes import count_elements
from plugrad.types.specs import Shape, Shaped, Spec


@kernel("GatherV2")
def gather(x: Spec, indices: Spec, *, axis: Axis, batch_dims: int = 0) -> Spec:
    """Return the elements of x at `indices` along an axis; the first `batch_dims` axes of both are matched.

    Args:
        x: a tensor with at least one axis.
        axis: the axis of the positions.
        batch_dims: how many axes the tensor and the indices have in common, at most `axis`.

    Returns:
        a tensor of the dtype of x; in its shape, the axes of the indices after the common ones replace the axis.
    """
    check_dtype("GatherV2 (indices)", indices, INTEGER)
    if (
        not 0 <= batch_dims <= min(axis, len(indices.shape))
        or x.shape[:batch_dims] != indices.shape[:batch_dims]
    ):
        raise ShapeError(
            f"the first batch_dims={batch_dims} axes of shapes {x.shape} and {indices.shape} must be equal and come "
            f"before axis {axis}"
        )
    return Shaped((*x.shape[:axis], *indices.shape[batch_dims:], *x.shape[axis + 1 :]), x.dtype)


@kernel("GatherV2Grad", accepts=NUMERIC)
def gather_gradient(dy: Spec, indices: Spec, *, shape: Shape, axis: int, batch_dims: int) -> Spec:
    """Return zeros of `shape` to which each part of dy is added where `gather` took it from.

    Args:
        dy: the gradient of the result of `gather`, of the shape of that result.
        shape: the shape of the tensor from which `gather` took elements.
        axis: the axis of the positions.
        batch_dims: how many axes the tensor and the indices have in common.

    Returns:
        a tensor of `shape` in the dtype of dy.
    """
    expected = gather.infer(
        Shaped(shape, dy.dtype), indices, axis=axis, batch_dims=batch_dims
    ).shape
    if dy.shape != expected:
        raise ShapeError(
            f"dy has shape {dy.shape}; what is taken from {shape} has shape {expected}"
        )
    return Shaped(shape, dy.dtype)


@kernel("GatherNd")
def gather_nd(params: Spec, indices: Spec) -> Spec:
    """Return the parts of params whose coordinates lie along the last axis of `indices`.

    K coordinates name a place on the first K axes; the part at that place has the remaining axes.

    Args:
        params: a tensor of any dtype.
        indices: coordinates, integers (…, K), with K at most the number of axes of params.

    Returns:
        a tensor (…, *params.shape[K:]) in the dtype of params.
    """
    check_dtype("GatherNd (indices)", indices, INTEGER)
    if not indices.shape or indices.shape[-1] > len(params.shape):
        raise ShapeError(
            f"indices of shape {indices.shape} must have a last axis of at most {len(params.shape)} coordinates, "
            f"one for each axis of shape {params.shape}"
        )
    return Shaped((*indices.shape[:-1], *params.shape[indices.shape[-1] :]), params.dtype)


@kernel("Where", accepts=BOOL, dynamic_shape=True)
def where_true(condition: Spec) -> Spec:
    """Return the coordinates of the true elements as int32 rows, in row-major order.

    There are as many rows as true elements; the inferred shape is that for a condition that is true
    everywhere.

    Args:
        condition: bools of any shape.

    Returns:
        an int32 matrix (true elements, axes).
    """
    dtype = position_dtype(max(condition.shape, default=0))
    return Shaped((count_elements(condition.shape), len(condition.shape)), dtype)


@kernel("OneHot", accepts=INTEGER)
def one_hot(
    indices: Spec, *, depth: int, on_value: Scalar, off_value: Scalar, dtype: DType
) -> Spec:
    """Return `on_value` at each index along a new last axis of size `depth`, and `off_value` elsewhere.

    Args:
        depth: the size of the new axis, 0 or more; an index outside gives a row of `off_value`.
        on_value: what stands at the index, which must fit the dtype.
        off_value: what stands elsewhere, which must fit the dtype.
        dtype: the dtype of the result.

    Returns:
        a tensor (*indices.shape, depth) of the dtype.
    """
    if depth < 0:
        raise ArgumentValueError(f"depth={depth} must be 0 or more")
    for value in (on_value, off_value):
        if dtype is not string and not can_hold(dtype, value):
            raise ArgumentValueError(f"{value} does not fit {dtype}")
    return Shaped((*indices.shape, depth), dtype)


@kernel("UnsortedSegmentSum", accepts=NUMERIC)
def unsorted_segment_sum(x: Spec, segment_ids: Spec, *, num_segments: int) -> Spec:
    """Return the sum of the elements of each segment; an id outside ``[0, num_segments)`` drops its element.

    Args:
        x: a tensor whose first axes are those of the ids.
        segment_ids: the segment of each element, integers in any order.
        num_segments: the number of segments.

    Returns:
        a tensor (num_segments, *rest) in the dtype of x, where rest are the axes of x after those of the ids.
    """
    check_dtype("UnsortedSegmentSum (segment_ids)", segment_ids, INTEGER)
    rank = len(segment_ids.shape)
    if x.shape[:rank] != segment_ids.shape:
        raise ShapeError(
            f"segment_ids of shape {segment_ids.shape} must match the first axes of shape {x.shape}"
        )
    return Shaped((num_segments, *x.shape[rank:]), x.dtype)
