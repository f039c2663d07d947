"""Shape arithmetic for shape rules and ops: sizes, broadcasting, axes and slices."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from functools import lru_cache
from itertools import islice, zip_longest
from operator import index
from typing import TYPE_CHECKING, Any, Final

from plugrad.errors import AxisError, ShapeError, short_repr

if TYPE_CHECKING:
    from plugrad.types.specs import Shape


def count_elements(shape: Shape) -> int:
    """Return the number of elements; a 0-d shape has one."""
    return math.prod(shape)


@lru_cache(maxsize=1024)
def broadcast(*shapes: Shape) -> Shape:
    """Return the shape to which all `shapes` broadcast.

    >>> broadcast((2, 1, 3), (4, 1))
    (2, 4, 3)

    Raises:
        ShapeError: two sizes differ and neither is 1.
    """
    sizes: list[int] = []
    for column in zip_longest(*(reversed(s) for s in shapes), fillvalue=1):
        wide = {n for n in column if n != 1}
        if len(wide) > 1:
            listed = " and ".join(map(short_repr, shapes))
            raise ShapeError(
                f"shapes {listed} do not broadcast: sizes {short_repr(sorted(wide))} meet on axis {-len(sizes) - 1}; "
                "sizes must be equal or 1, counted from the right"
            )
        sizes.append(wide.pop() if wide else 1)
    return tuple(reversed(sizes))


def broadcasts_to(small: Shape, large: Shape) -> bool:
    """Return whether the shape `small` broadcasts to the shape `large`.

    >>> broadcasts_to((4, 1), (2, 4, 3)), broadcasts_to((2, 4, 3), (4, 1))
    (True, False)
    """
    sizes = zip(reversed(small), reversed(large), strict=False)
    return len(small) <= len(large) and all(n in (1, size) for n, size in sizes)


@lru_cache(maxsize=1024)
def broadcast_axes(small: Shape, large: Shape) -> tuple[int, ...]:
    """Return the axes of `large` along which `small` is repeated when it is broadcast.

    >>> broadcast_axes((4, 1), (2, 4, 3))
    (0, 2)
    """
    lead = len(large) - len(small)
    return (
        *range(lead),
        *(i + lead for i, n in enumerate(small) if n == 1 and large[i + lead] != 1),
    )


def as_shape(sizes: int | Sequence[int], *, name: str = "shape") -> Shape:
    """Return `sizes` as a tuple of non-negative integers; a single integer is a 1-d shape.

    Raises:
        ShapeError: a size is negative or not an integer.
    """
    shape = (sizes,) if type(sizes) is int else as_sizes(sizes, name=name)
    for size in shape:
        if size < 0:
            raise ShapeError(
                f"{name}={short_repr(shape)} has a negative size; sizes must be 0 or more"
            )
    return shape


INT_TYPE: Final = frozenset({int})
"""The type of Python's integers, without bools."""


def as_sizes(sizes: object, *, name: str = "shape") -> Shape:
    """Return `sizes` as a tuple of integers, which may be negative.

    Raises:
        ShapeError: they are not integers.
    """
    if type(sizes) is tuple and INT_TYPE.issuperset(map(type, sizes)):  # what programs mostly pass
        return sizes  # type: ignore[return-value] - typing.cast would be a call
    try:
        return as_integers(sizes)
    except TypeError:
        raise ShapeError(
            f"{name}={short_repr(sizes)} is not a shape: sizes must be integers"
        ) from None


def as_integers(value: object) -> tuple[int, ...]:
    """Return one or several integers as a tuple.

    Raises:
        TypeError: a value is not an integer.
    """
    if type(value) is tuple and INT_TYPE.issuperset(map(type, value)):  # what programs mostly pass
        return value  # type: ignore[return-value] - typing.cast would be a call
    if not isinstance(value, tuple | list):
        try:
            return (index(value),)  # type: ignore[arg-type]
        except (TypeError, ShapeError):  # ShapeError: a tensor with several elements
            pass
        if isinstance(value, str | bytes | Mapping | Set):
            raise TypeError
    return tuple(map(index, list_members(value)))


MAX_ITERABLE_MEMBERS: Final = 2**20
"""The maximum number of members of an argument that is not a tensor; an iterator may have no end."""


def list_members(value: Any) -> list[Any]:
    """Return the members of an iterable as a list, or raise if there are too many.

    Raises:
        TypeError: it is not iterable, or has more than `MAX_ITERABLE_MEMBERS` members.
    """
    found: list[Any] = list(islice(value, MAX_ITERABLE_MEMBERS + 1))
    if len(found) > MAX_ITERABLE_MEMBERS:
        raise TypeError
    return found


def resolve_shape(shape: int | Sequence[int], size: int, *, name: str = "shape") -> Shape:
    """Return `shape`, with ``-1`` replaced so that it holds `size` elements.

    >>> resolve_shape((2, -1), 6)
    (2, 3)

    Raises:
        ShapeError: the shape cannot hold `size` elements, or has more than one ``-1``.
    """
    return _infer_missing_size(as_sizes(shape, name=name), size, name)


@lru_cache(maxsize=1024)
def _infer_missing_size(sizes: Shape, element_count: int, name: str) -> Shape:
    """Return sizes with ``-1`` replaced; see `resolve_shape`."""
    if sizes.count(-1) > 1:
        raise ShapeError(
            f"{name}={short_repr(sizes)} has more than one -1; only one size can be inferred"
        )
    if -1 in sizes:
        rest = math.prod(n for n in sizes if n != -1)
        if rest == 0 or element_count % rest:
            raise ShapeError(
                f"{name}={short_repr(sizes)} does not fit {element_count} elements: {short_repr(rest)} does not divide "
                f"{element_count}"
            )
        sizes = tuple(element_count // rest if n == -1 else n for n in sizes)
    if min(sizes, default=0) < 0:
        raise ShapeError(f"{name}={short_repr(sizes)} has a negative size; sizes must be 0 or more")
    if math.prod(sizes) != element_count:
        raise ShapeError(
            f"{name}={short_repr(sizes)} does not fit {element_count} elements: it holds {short_repr(math.prod(sizes))}"
        )
    return sizes


def normalize_axis(axis: int, rank: int, *, name: str = "axis") -> int:
    """Return `axis` counted from the front.

    Raises:
        AxisError: it is not in ``[-rank, rank)``.
    """
    try:
        axis = index(axis)
    except (TypeError, ShapeError):  # ShapeError: a tensor with several elements
        raise AxisError(f"{name}={short_repr(axis)} is not an integer") from None
    if not -rank <= axis < rank:
        raise AxisError(
            f"{name}={short_repr(axis)} is out of range for rank {rank}; use {-rank} to {rank - 1}"
            if rank
            else f"{name}={short_repr(axis)}: a 0-d tensor has no axes; reshape(x, (1,)) gives it one"
        )
    return axis % rank


def normalize_axes(
    axis: int | Sequence[int] | None, rank: int, *, name: str = "axis"
) -> tuple[int, ...]:
    """Return the axes, counted from the front, as a sorted tuple; None means all axes.

    >>> normalize_axes((-1, 0), 3)
    (0, 2)

    Raises:
        AxisError: an axis is out of range or named twice.
    """
    if axis is None:
        return tuple(range(rank))
    if type(axis) is int and -rank <= axis < rank:
        return (axis % rank,)
    try:
        given = as_integers(axis)
    except TypeError:
        raise AxisError(
            f"{name}={short_repr(axis)} must be an integer, or several integers"
        ) from None
    axes = sorted(normalize_axis(a, rank, name=name) for a in given)
    if len(set(axes)) != len(axes):
        raise AxisError(f"{name}={short_repr(axis)} names an axis twice")
    return tuple(axes)


def reduced_shape(shape: Shape, axes: tuple[int, ...], keep_dims: bool) -> Shape:
    """Return `shape` without `axes`, or with size 1 on them if `keep_dims`."""
    if keep_dims:
        return tuple(1 if i in axes else n for i, n in enumerate(shape))
    return tuple(n for i, n in enumerate(shape) if i not in axes)


def sliced_shape(shape: Shape, begin: Shape, end: Shape, strides: Shape) -> Shape:
    """Return the sizes of ``range(begin, end, stride)`` on each axis.

    Raises:
        ShapeError: a range selects elements outside the shape, a stride is 0, or the ranks differ.
    """
    if not len(shape) == len(begin) == len(end) == len(strides) or 0 in strides:
        raise ShapeError(
            f"begin={begin}, end={end} and strides={strides} must have one integer for each axis of shape {shape}, "
            "and no stride may be 0"
        )
    ranges = [range(*bounds) for bounds in zip(begin, end, strides, strict=True)]
    if any(
        r and not (0 <= r[0] < n and 0 <= r[-1] < n) for r, n in zip(ranges, shape, strict=True)
    ):
        raise ShapeError(
            f"begin={begin}, end={end}, strides={strides} selects elements outside shape {shape}"
        )
    return tuple(map(len, ranges))
