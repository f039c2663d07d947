"""Functions that order elements. Positions are int32; among more than 2**31 elements, they are int64.

NaN counts as the largest number. Complex numbers are ordered by their real, then by their imaginary
parts, as in NumPy; False is less than True.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugrad.kernels import movement, sorting
from plugrad.ops.arguments import (
    as_supported_dtype,
    checked_attributes,
    promote_operands,
)
from plugrad.ops.attributes import check_choice, check_flag, check_integer
from plugrad.ops.axes import run_along_axis
from plugrad.ops.indexing import take_along_axis
from plugrad.tensor.tensor import TopK
from plugrad.types.arguments import explain_wrong_calls

if TYPE_CHECKING:
    from plugrad.contract.kernel import Kernel
    from plugrad.kernels.sorting import Side
    from plugrad.tensor.tensor import Tensor, TensorLike


@explain_wrong_calls
def sort(x: TensorLike, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The elements in ascending or descending order along an axis, in the shape and dtype of x.

    >>> plugrad.sort([3.0, 1.0, 2.0])
    tensor([1., 2., 3.], dtype=float32)

    NaN comes last, and in descending order first. `stable` has no effect: equal elements look alike,
    and their gradients are always those of a stable order.

    Raises:
        AxisError: the axis is out of range.
        DTypeError: x holds strings.
        ArgumentError: a flag is not a bool.
    """
    check_flag(stable, "sort", "stable")
    x = as_supported_dtype(x, sorting.sort, "sort")
    descending = check_flag(descending, "sort", "descending")
    return run_along_axis(sorting.sort, x, "sort", axis, descending=descending)


@explain_wrong_calls
def argsort(
    x: TensorLike, *, axis: int = -1, descending: bool = False, stable: bool = True
) -> Tensor:
    """The positions along an axis in the order of their elements, as int32 in the shape of x.

    >>> plugrad.argsort([3.0, 1.0, 2.0], descending=True)
    tensor([0, 2, 1], dtype=int32)

    NaN comes last, and in descending order first. Equal elements keep their order; with
    ``stable=False`` they need not, which may be faster.

    Raises:
        AxisError: the axis is out of range.
        DTypeError: x holds strings.
        ArgumentError: a flag is not a bool.
    """
    x = as_supported_dtype(x, sorting.argsort, "argsort")
    descending = check_flag(descending, "argsort", "descending")
    stable = check_flag(stable, "argsort", "stable")
    return run_along_axis(sorting.argsort, x, "argsort", axis, descending=descending, stable=stable)


def top_k(x: TensorLike, k: int = 1, *, sorted: bool = True) -> TopK:
    """The k largest elements along the last axis, as `values`, and their positions as int32, as `indices`.

    >>> plugrad.top_k([1.0, 5.0, 3.0, 5.0], k=2)
    TopK(values=tensor([5., 5.], dtype=float32), indices=tensor([1, 3], dtype=int32))

    They are in descending order, or with ``sorted=False`` in the order of x. NaN counts as the
    largest; among equal elements, those in front come first. Both have the shape of x with k for
    the last axis, and `values` have its dtype.

    Raises:
        ShapeError: x has no axes.
        DTypeError: x holds complex numbers or strings.
        ArgumentError: k is not an integer, or `sorted` not a bool.
        ArgumentValueError: k is negative or greater than the size of the last axis.
    """
    x = as_supported_dtype(x, sorting.top_k, "top_k")
    count = k if type(k) is int else check_integer(k, "top_k", "k")
    is_sorted = True if sorted is True else check_flag(sorted, "top_k", "sorted")
    array = x.array
    attrs = checked_attributes(sorting.top_k, array.shape, array.dtype, k=count, sorted=is_sorted)
    return TopK(*sorting.top_k.call(x, attrs))


def searchsorted(
    x1: TensorLike, x2: TensorLike, *, side: Side = "left", sorter: TensorLike | None = None
) -> Tensor:
    """The positions, as int32, where the elements of x2 would be inserted in x1 so that it remains sorted.

    >>> plugrad.searchsorted([1.0, 3.0, 3.0, 5.0], [3.0, 9.0])
    tensor([1, 4], dtype=int32)

    The result has the shape of x2.

    Args:
        x1: a tensor that is sorted along the last axis.
        x2: the values. If x1 has one axis, they may have any shape; otherwise all axes but the last
            one are those of x1, and each row of x1 is searched for the values in the same row of x2.
        side: "left" to insert before equal elements, "right" to insert after them.
        sorter: the positions that sort x1, as `argsort` returns them, if x1 is not sorted.

    Raises:
        ShapeError: the shapes do not match.
        DTypeError: x1 or x2 holds strings, they have no common dtype, or `sorter` is not integers.
        TensorIndexError: a position of `sorter` is out of range.
        ArgumentValueError: `side` is neither "left" nor "right".
    """
    check_choice(side, ("left", "right"), "searchsorted", "side")
    sequence, values = promote_operands(x1, x2, sorting.search_sorted, "searchsorted")
    if sorter is not None:
        sequence = take_along_axis(sequence, sorter)
    return _run_search(sorting.search_sorted, sequence, values, side=side)


def lower_bound(sorted_sequence: TensorLike, values: TensorLike) -> Tensor:
    """The first positions, as int32, whose elements are not less than the values.

    >>> plugrad.lower_bound([1.0, 3.0, 3.0, 5.0], [3.0, 9.0])
    tensor([1, 4], dtype=int32)

    Shapes are as for `searchsorted`.

    Raises:
        ShapeError: the shapes do not match.
        DTypeError: an argument holds strings, or they have no common dtype.
    """
    sequence, wanted = promote_operands(sorted_sequence, values, sorting.lower_bound, "lower_bound")
    return _run_search(sorting.lower_bound, sequence, wanted)


def upper_bound(sorted_sequence: TensorLike, values: TensorLike) -> Tensor:
    """The first positions, as int32, whose elements are greater than the values.

    >>> plugrad.upper_bound([1.0, 3.0, 3.0, 5.0], [3.0, 9.0])
    tensor([3, 4], dtype=int32)

    Shapes are as for `searchsorted`.

    Raises:
        ShapeError: the shapes do not match.
        DTypeError: an argument holds strings, or they have no common dtype.
    """
    sequence, wanted = promote_operands(sorted_sequence, values, sorting.upper_bound, "upper_bound")
    return _run_search(sorting.upper_bound, sequence, wanted)


def _run_search(
    kernel: Kernel[..., Tensor], sequence: Tensor, values: Tensor, **attrs: Side
) -> Tensor:
    """Run a search kernel; one sorted sequence is searched for values of any shape."""
    if sequence.ndim != 1:
        return kernel(sequence, values, **attrs)
    flat = movement.reshape(values, shape=(values.size,))
    return movement.reshape(kernel(sequence, flat, **attrs), shape=values.shape)
