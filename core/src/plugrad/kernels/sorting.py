"""Kernels that order elements. Positions are int32; among more than 2**31 elements, they are int64.

NaN counts as the largest number, and complex numbers are ordered by their real parts, then by their
imaginary parts, as in NumPy.

Args:
    x: a tensor with at least one axis.
    axis: the axis along which elements are ordered.
    descending: whether the largest element comes first.
    sorted_sequence: rows in ascending order, (…, n).
    values: what is searched for, (…, m), of the dtype of the sequence; all sizes but the last are equal.

Returns:
    positions from 0 to n, of the shape of the values.
"""

from typing import Literal

from plugrad.contract.annotations import Axis
from plugrad.contract.kernel import check_same_dtype, kernel
from plugrad.errors import ArgumentValueError, ShapeError
from plugrad.types.dtype import BOOL, NUMERIC, REAL, position_dtype
from plugrad.types.specs import Shaped, Spec

ORDERED_DTYPES = NUMERIC | BOOL
"""The dtypes whose values these kernels order: numbers and bools."""
Side = Literal["left", "right"]


@kernel("Sort", accepts=ORDERED_DTYPES)
def sort(x: Spec, *, axis: Axis, descending: bool = False) -> Spec:
    """Return the elements in order along an axis.

    Returns:
        a tensor of the shape and the dtype of x.
    """
    return Shaped(x.shape, x.dtype)


@kernel("ArgSort", accepts=ORDERED_DTYPES)
def argsort(x: Spec, *, axis: Axis, descending: bool = False, stable: bool = True) -> Spec:
    """Return the positions that sort an axis; equal elements stay in their order if `stable`.

    Args:
        stable: whether equal elements stay in their order.

    Returns:
        positions of the shape of x.
    """
    return Shaped(x.shape, position_dtype(x.shape[axis]))


@kernel("TopK", accepts=REAL | BOOL)
def top_k(x: Spec, *, k: int, sorted: bool = True) -> tuple[Spec, Spec]:
    """Return the k largest elements along the last axis and their positions; of equal elements, the first.

    They are in descending order if `sorted`, else in the order of x.

    Args:
        k: how many elements are selected, from 0 to the size of the last axis.
        sorted: whether the largest comes first.

    Returns:
        values: a tensor (…, k) in the dtype of x.
        positions: positions (…, k).
    """
    if not x.shape:
        raise ShapeError("x is 0-d; it must have at least one axis")
    if not 0 <= k <= x.shape[-1]:
        raise ArgumentValueError(
            f"k={k} must be between 0 and {x.shape[-1]}, the size of the last axis of shape {x.shape}"
        )
    shape = (*x.shape[:-1], k)
    return Shaped(shape, x.dtype), Shaped(shape, position_dtype(x.shape[-1]))


@kernel("SearchSorted", accepts=ORDERED_DTYPES)
def search_sorted(sorted_sequence: Spec, values: Spec, *, side: Side = "left") -> Spec:
    """Return the position at which each value would be inserted into the sorted row with the same index.

    It is before the elements that equal the value ("left") or after them ("right").

    Args:
        side: whether a value is inserted before its equals or after them.
    """
    return _search_spec("SearchSorted", sorted_sequence, values)


@kernel("LowerBound", accepts=ORDERED_DTYPES)
def lower_bound(sorted_sequence: Spec, values: Spec) -> Spec:
    """Return the first position in the sorted row whose element is not less than the value."""
    return _search_spec("LowerBound", sorted_sequence, values)


@kernel("UpperBound", accepts=ORDERED_DTYPES)
def upper_bound(sorted_sequence: Spec, values: Spec) -> Spec:
    """Return the first position in the sorted row whose element is greater than the value."""
    return _search_spec("UpperBound", sorted_sequence, values)


def _search_spec(kernel_name: str, sorted_sequence: Spec, values: Spec) -> Spec:
    """Return the shape and dtype of the positions that a search returns."""
    check_same_dtype(kernel_name, sorted_sequence, values)
    rows, wanted = sorted_sequence.shape, values.shape
    if not rows or not wanted or rows[:-1] != wanted[:-1]:
        raise ShapeError(
            f"a sorted sequence of shape {rows} and values of shape {wanted} must have at least one axis, and equal "
            "sizes on all axes but the last"
        )
    return Shaped(wanted, position_dtype(rows[-1] + 1))


@kernel("Unique", dynamic_shape=True)
def unique(x: Spec, *, axis: Axis) -> tuple[Spec, Spec]:
    """Return the distinct slices along an axis in the order of their first occurrence, and the index of each slice.

    Here NaN equals NaN, and -0.0 equals 0.0. The inferred shape is that for slices that all differ.

    Args:
        axis: the axis along which slices are compared.

    Returns:
        values: the distinct slices, in the dtype of x.
        positions: the position of each slice of x among them, a vector.
    """
    return Shaped(x.shape, x.dtype), Shaped((x.shape[axis],), position_dtype(x.shape[axis]))
