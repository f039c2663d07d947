"""Kernels that combine the elements along axes, which arrive sorted and counted from the front, or in bins.

Args:
    x: a tensor.
    axis: the axes along which elements are combined.
    keep_dims: whether these axes stay, with size 1.
    size: the number of bins, 0 or more.
    weights: what each number counts, a tensor of the shape of x; without weights, each number counts 1.

Returns:
    a tensor of the shape of x without the axes, in its dtype.
"""

from plugrad.contract.annotations import Axes, Axis
from plugrad.contract.kernel import check_dtype, kernel
from plugrad.errors import ArgumentValueError, ShapeError
from plugrad.types.dtype import (
    BOOL,
    FLOATING,
    INEXACT,
    NUMERIC,
    REAL,
    DType,
    int32,
    int64,
    position_dtype,
)
from plugrad.types.shapes import count_elements, reduced_shape
from plugrad.types.specs import Shape, Shaped, Spec

POSITION_DTYPES = frozenset({int32, int64})


@kernel("Sum", accepts=NUMERIC)
def sum(x: Spec, *, axis: Axes, keep_dims: bool = False) -> Spec:
    """Return the sum; the sum of no elements is 0."""
    return Shaped(reduced_shape(x.shape, axis, keep_dims), x.dtype)


@kernel("Prod", accepts=NUMERIC)
def prod(x: Spec, *, axis: Axes, keep_dims: bool = False) -> Spec:
    """Return the product; the product of no elements is 1."""
    return Shaped(reduced_shape(x.shape, axis, keep_dims), x.dtype)


@kernel("Mean", accepts=INEXACT)
def mean(x: Spec, *, axis: Axes, keep_dims: bool = False) -> Spec:
    """Return the average; the average of no elements is NaN."""
    return Shaped(reduced_shape(x.shape, axis, keep_dims), x.dtype)


@kernel("Variance", accepts=FLOATING)
def variance(x: Spec, *, axis: Axes, keep_dims: bool = False) -> Spec:
    """Return the average of the squared differences from the mean; NaN if there are no elements."""
    return Shaped(reduced_shape(x.shape, axis, keep_dims), x.dtype)


@kernel("EuclideanNorm", accepts=FLOATING)
def euclidean_norm(x: Spec, *, axis: Axes, keep_dims: bool = False) -> Spec:
    """Return the square root of the sum of squares, also where these overflow or vanish; 0 for no elements."""
    return Shaped(reduced_shape(x.shape, axis, keep_dims), x.dtype)


@kernel("Max", accepts=REAL)
def max(x: Spec, *, reduction_indices: Axes, keep_dims: bool = False) -> Spec:
    """Return the largest element, or NaN if there is one.

    Args:
        reduction_indices: the axes along which elements are compared; they are not empty.
    """
    _check_not_empty(x.shape, reduction_indices)
    return Shaped(reduced_shape(x.shape, reduction_indices, keep_dims), x.dtype)


@kernel("Min", accepts=REAL)
def min(x: Spec, *, axis: Axes, keep_dims: bool = False) -> Spec:
    """Return the smallest element, or NaN if there is one.

    Args:
        axis: the axes along which elements are compared; they are not empty.
    """
    _check_not_empty(x.shape, axis)
    return Shaped(reduced_shape(x.shape, axis, keep_dims), x.dtype)


@kernel("All", accepts=BOOL)
def all(x: Spec, *, axis: Axes, keep_dims: bool = False) -> Spec:
    """Return whether every element is True; True if there are no elements."""
    return Shaped(reduced_shape(x.shape, axis, keep_dims), x.dtype)


@kernel("Any", accepts=BOOL)
def any(x: Spec, *, axis: Axes, keep_dims: bool = False) -> Spec:
    """Return whether at least one element is True."""
    return Shaped(reduced_shape(x.shape, axis, keep_dims), x.dtype)


@kernel("ArgMax", accepts=REAL)
def argmax(x: Spec, *, axis: Axis) -> Spec:
    """Return the first position of the largest element, or of the first NaN.

    Args:
        axis: the axis along which elements are compared; it is not empty.

    Returns:
        int32 positions in the shape of x without the axis; int64 among more than 2**31 elements.
    """
    _check_not_empty(x.shape, (axis,))
    return Shaped(reduced_shape(x.shape, (axis,), keep_dims=False), position_dtype(x.shape[axis]))


@kernel("ArgMin", accepts=REAL)
def argmin(x: Spec, *, axis: Axis) -> Spec:
    """Return the first position of the smallest element, or of the first NaN.

    Args:
        axis: the axis along which elements are compared; it is not empty.

    Returns:
        int32 positions in the shape of x without the axis; int64 among more than 2**31 elements.
    """
    _check_not_empty(x.shape, (axis,))
    return Shaped(reduced_shape(x.shape, (axis,), keep_dims=False), position_dtype(x.shape[axis]))


def _check_not_empty(shape: Shape, axes: Axes) -> None:
    """Raise if a shape has no elements along axes."""
    if 0 in [shape[i] for i in axes]:
        raise ShapeError(
            f"shape {shape} has no elements along axes {axes}; there must be at least one to choose from"
        )


@kernel("Bincount", accepts=POSITION_DTYPES)
def bincount(x: Spec, weights: Spec | None = None, *, size: int) -> Spec:
    """Return how often each number from 0 to ``size - 1`` occurs, or the sum of the weights of its occurrences.

    Other numbers do not count. Counts are int32, those of 2**31 numbers or more int64.

    Args:
        x: numbers, a tensor of any shape.

    Returns:
        a vector of `size` elements, in the dtype of the weights, or of counts without weights.
    """
    return Shaped((size,), _bin_dtype("Bincount", x, weights, size))


@kernel("DenseBincount", accepts=POSITION_DTYPES)
def dense_bincount(
    x: Spec, weights: Spec | None = None, *, size: int, binary_output: bool = False
) -> Spec:
    """Return the result of `bincount` for a vector, or for each row of a matrix.

    With `binary_output`, it is 1 for each number that occurs and 0 for the others.

    Args:
        x: numbers, a vector or a matrix.
        binary_output: whether to say only which numbers occur.

    Returns:
        a vector of `size` elements, or one for each row, in the dtype of the weights, or of counts without weights.
    """
    if len(x.shape) not in (1, 2):
        raise ShapeError(f"x must be a vector or a matrix; its shape is {x.shape}")
    return Shaped((*x.shape[:-1], size), _bin_dtype("DenseBincount", x, weights, size))


def _bin_dtype(kernel_name: str, x: Spec, weights: Spec | None, bin_count: int) -> DType:
    """Return the dtype of the bins: of counts, or of sums of weights."""
    if bin_count < 0:
        raise ArgumentValueError(f"size={bin_count} must be 0 or more")
    if weights is None:
        return position_dtype(count_elements(x.shape) + 1)
    if weights.shape != x.shape:
        raise ShapeError(f"weights have shape {weights.shape} and x {x.shape}; they must be equal")
    return check_dtype(f"{kernel_name} (weights)", weights, NUMERIC)
