"""Functions that treat a tensor as the set of its elements.

The size of a result depends on values, so these functions wait for the backend. Elements come in
ascending order unless a function says otherwise. NaN equals nothing, not even NaN; -0.0 equals 0.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from plugrad.errors import ShapeError
from plugrad.kernels import creation, indexing, movement, scan, sorting
from plugrad.ops.arguments import as_supported_dtype, as_tensor, cast, promote_operands
from plugrad.ops.attributes import check_flag
from plugrad.ops.binary import equal, minimum, not_equal
from plugrad.ops.indexing import nonzero
from plugrad.ops.unary import logical_not
from plugrad.tensor.tensor import UniqueInverse
from plugrad.types.arguments import explain_wrong_calls
from plugrad.types.dtype import bool_, position_dtype
from plugrad.types.shapes import normalize_axis

if TYPE_CHECKING:
    from plugrad.tensor.tensor import Tensor, TensorLike


class UniqueAll(NamedTuple):
    """The unique elements, their first positions, the place of each element among them, and their counts."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """The unique elements, and the number of occurrences of each."""

    values: Tensor
    counts: Tensor


class Difference(NamedTuple):
    """The elements that are in the first set only, and their positions in it."""

    values: Tensor
    indices: Tensor


def unique_all(x: TensorLike) -> UniqueAll:
    """The unique elements of x, their first positions, the place of each element among them, and their counts.

    >>> found = plugrad.unique_all([5.0, 3.0, 5.0])
    >>> found.values, found.indices
    (tensor([3., 5.], dtype=float32), tensor([1, 0], dtype=int32))
    >>> found.inverse_indices, found.counts
    (tensor([1, 0, 1], dtype=int32), tensor([1, 2], dtype=int32))

    All are vectors but the `inverse_indices`, which have the shape of x: taking `values` there gives
    x again. `indices` are positions in the flattened x. `values` have the dtype of x, the others are
    int32.

    Raises:
        DTypeError: x holds strings; `unique` takes them.
    """
    x = as_supported_dtype(x, sorting.argsort, "unique_all")
    flat = movement.reshape(x, shape=(x.size,))
    order = sorting.argsort(flat, axis=0, descending=False, stable=True)
    ordered = indexing.gather(flat, order, axis=0)
    is_new = _differs_from_previous(ordered)
    (starts,) = nonzero(is_new)
    numbers = scan.cumsum(
        cast(is_new, position_dtype(x.size + 1)), axis=0, exclusive=False, reverse=False
    )
    indices = indexing.gather(order, starts, axis=0)
    inverse = indexing.unsorted_segment_sum(numbers - 1, order, num_segments=x.size)
    ends = sorting.upper_bound(numbers, indexing.gather(numbers, starts, axis=0))
    return UniqueAll(
        indexing.gather(flat, indices, axis=0),
        indices,
        movement.reshape(inverse, shape=x.shape),
        ends - starts,
    )


def _differs_from_previous(sorted_vector: Tensor) -> Tensor:
    """Return whether each element of a sorted vector differs from the one before; the first always does."""
    is_new = not_equal(sorted_vector[1:], sorted_vector[:-1])
    return movement.pad(is_new, paddings=((1, 0),), constant_value=True)[: sorted_vector.size]


def unique_counts(x: TensorLike) -> UniqueCounts:
    """The unique elements of x, and the number of occurrences of each as int32.

    >>> plugrad.unique_counts([5.0, 3.0, 5.0])
    UniqueCounts(values=tensor([3., 5.], dtype=float32), counts=tensor([1, 2], dtype=int32))

    Both are vectors; `values` have the dtype of x.

    Raises:
        DTypeError: x holds strings; `unique` takes them.
    """
    found = unique_all(x)
    return UniqueCounts(found.values, found.counts)


def unique_inverse(x: TensorLike) -> UniqueInverse:
    """The unique elements of x, and the place of each element of x among them as int32.

    >>> plugrad.unique_inverse([5.0, 3.0, 5.0]).inverse_indices
    tensor([1, 0, 1], dtype=int32)

    `values` are a vector in the dtype of x. `inverse_indices` have the shape of x: taking `values`
    there gives x again.

    Raises:
        DTypeError: x holds strings; `unique` takes them.
    """
    found = unique_all(x)
    return UniqueInverse(found.values, found.inverse_indices)


def unique_values(x: TensorLike) -> Tensor:
    """The unique elements of x, as a vector in its dtype.

    >>> plugrad.unique_values([5.0, 3.0, 5.0])
    tensor([3., 5.], dtype=float32)

    Raises:
        DTypeError: x holds strings; `unique` takes them.
    """
    x = as_supported_dtype(x, sorting.sort, "unique_values")
    flat = movement.reshape(x, shape=(x.size,))
    ordered = sorting.sort(flat, axis=0, descending=False)
    (starts,) = nonzero(_differs_from_previous(ordered))
    return indexing.gather(ordered, starts, axis=0)


@explain_wrong_calls
def unique(x: TensorLike, *, axis: int = 0) -> UniqueInverse:
    """The unique slices of x along an axis in order of first appearance, and the place of each slice among them.

    >>> plugrad.unique([[1, 2], [0, 0], [1, 2]])
    UniqueInverse(values=tensor([[1, 2],
            [0, 0]], dtype=int32), inverse_indices=tensor([0, 1, 0], dtype=int32))

    Here NaN equals NaN. `values` have the dtype of x, and `inverse_indices` are a vector of int32:
    taking `values` there, along the axis, gives x again.

    Raises:
        AxisError: the axis is out of range.
    """
    x = as_tensor(x, "unique")
    return UniqueInverse(*sorting.unique(x, axis=normalize_axis(axis, x.ndim, name="unique: axis")))


def isin(x1: TensorLike, x2: TensorLike, *, invert: bool = False) -> Tensor:
    """Whether each element of x1 is among those of x2, as bools in the shape of x1.

    >>> plugrad.isin([1, 2, 3, 2], [2, 4])
    tensor([False,  True, False,  True], dtype=bool)

    With ``invert=True``, whether each element is not among them.

    Raises:
        DTypeError: x1 or x2 holds strings, or they have no common dtype.
        ArgumentError: `invert` is not a bool.
    """
    found = _is_in_set(x1, x2, "isin")
    return logical_not(found) if check_flag(invert, "isin", "invert") else found


def _is_in_set(x1: TensorLike, x2: TensorLike, op: str) -> Tensor:
    """Return whether each element of x1 is among those of x2."""
    wanted, among = promote_operands(x1, x2, sorting.argsort, op)
    if not among.size:
        return creation.zeros_like(cast(wanted, bool_))
    flat = movement.reshape(among, shape=(among.size,))
    order = sorting.argsort(flat, axis=0, descending=False, stable=False)
    ordered = indexing.gather(flat, order, axis=0)
    places = sorting.lower_bound(ordered, movement.reshape(wanted, shape=(wanted.size,)))
    nearest = indexing.gather(ordered, minimum(places, among.size - 1), axis=0)
    return equal(movement.reshape(nearest, shape=wanted.shape), wanted)


def setdiff1d(x: TensorLike, y: TensorLike) -> Difference:
    """The elements of x that are not in y, in the dtype and the order of x, and their positions as int32.

    >>> plugrad.setdiff1d([4, 2, 3, 4], [1, 2])
    Difference(values=tensor([4, 3, 4], dtype=int32), indices=tensor([0, 2, 3], dtype=int32))

    An element that occurs several times in x remains several times.

    Raises:
        ShapeError: x or y does not have exactly one axis.
        DTypeError: x or y holds strings, or they have no common dtype.
    """
    x = as_tensor(x, "setdiff1d")
    y = as_tensor(y, "setdiff1d", "y", backend=x.backend)
    for name, z in (("x", x), ("y", y)):
        if z.ndim != 1:
            raise ShapeError(
                f"setdiff1d: {name} must have one axis; the shape is {z.shape}. reshape(-1) flattens"
            )
    (indices,) = nonzero(logical_not(_is_in_set(x, y, "setdiff1d")))
    return Difference(indexing.gather(x, indices, axis=0), indices)
