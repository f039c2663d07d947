"""What a key in ``x[key]`` says: its parts, the slice that they select, and the positions that arrays pick."""

from __future__ import annotations

from operator import index as as_index
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from plugrad.errors import ArgumentValueError, DTypeError, TensorIndexError, shown
from plugrad.ops.arguments import host_array
from plugrad.ops.indexing import as_positions, check_range
from plugrad.tensor.tensor import Tensor
from plugrad.types.dtype import as_dtype, bool_
from plugrad.types.shapes import size_of

if TYPE_CHECKING:
    from types import EllipsisType

    from numpy.typing import NDArray

    from plugrad.types.specs import Shape

KINDS = "integers, slices, '...', None or arrays of integers or bools"
INTEGERS = frozenset({int, type(None), type(...)})
BASIC = INTEGERS | {slice}


class Picks(NamedTuple):
    """An array in a key: positions on one axis, or bools for as many axes as the array has."""

    values: Any  # NDArray[Any] | Tensor
    span: int
    """The number of axes to which it applies."""

    @property
    def is_mask(self) -> bool:
        """Whether these are bools."""
        return self.values.dtype == bool_.numpy


class Block(NamedTuple):
    """The slice that a key selects before its arrays pick elements from it."""

    begin: tuple[int, ...]
    end: tuple[int, ...]
    strides: tuple[int, ...]
    sizes: tuple[int, ...]
    shape: tuple[int, ...]
    """The sizes without the axes of integers, and with new axes."""
    kept: tuple[int | None, ...]
    """For each axis of the slice, the axis of `shape` that it becomes, or None."""
    places: list[Place]
    """Where arrays pick elements, if the key has arrays."""


class Place(NamedTuple):
    """The axes of the sliced tensor to which an array in a key applies, and the positions it picks there."""

    start: int
    """The first of these axes."""
    span: int
    """The number of these axes, which positions count as one flattened axis."""
    size: int
    """The number of elements along them."""
    positions: Any  # NDArray[Any] | Tensor


def plain_parts(parts: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Return a key whose slices are tuples, which can be looked up; None if it has other parts or other bounds."""
    if INTEGERS.issuperset(map(type, parts)):
        return parts
    if not BASIC.issuperset(map(type, parts)):
        return None
    plain: list[Any] = [(p.start, p.stop, p.step) if type(p) is slice else p for p in parts]
    bounds = [bound for part in plain if type(part) is tuple for bound in cast("Any", part)]
    return tuple(plain) if INTEGERS.issuperset(map(type, bounds)) else None


def parts_of(key: Any) -> tuple[Any, ...]:
    """Return the parts of a key as `for_each_axis` takes them."""
    parts = cast("tuple[Any, ...]", key) if isinstance(key, tuple) else (key,)
    return parts if BASIC.issuperset(map(type, parts)) else tuple([_prepared(p) for p in parts])


def block_of(whole: Shape, parts: tuple[Any, ...]) -> Block:
    """Return the slice that parts for each axis of a tensor of a shape select."""
    begin: list[int] = []
    end: list[int] = []
    strides: list[int] = []
    sizes: list[int] = []
    shape: list[int] = []
    kept: list[int | None] = []
    places: list[Place] = []
    for part in parts:
        axis = len(begin)
        if part is None:
            shape.append(1)
            continue
        if type(part) is Picks:
            spanned = whole[axis : axis + part.span]
            found = _found(part, whole, axis)
            places.append(Place(len(shape), part.span, size_of(spanned), found))
            begin += [0] * part.span
            end += spanned
            strides += [1] * part.span
            sizes += spanned
            kept += range(len(shape), len(shape) + part.span)
            shape += spanned
            continue
        size = whole[axis]
        if type(part) is slice:
            first, last, stride = _bounds(part, size)
            count = len(range(first, last, stride))
            kept.append(len(shape))
            shape.append(count)
        else:
            if not -size <= part < size:
                raise TensorIndexError(
                    f"index {shown(part)} is out of range for axis {axis} of size {size}"
                )
            first = part % size
            last = first + 1
            stride = count = 1
            kept.append(None)
        begin.append(first)
        end.append(last)
        strides.append(stride)
        sizes.append(count)
    return Block(
        tuple(begin), tuple(end), tuple(strides), tuple(sizes), tuple(shape), tuple(kept), places
    )


def _bounds(part: slice, size: int) -> tuple[int, int, int]:
    try:
        return part.indices(size)
    except TypeError:
        raise TensorIndexError(f"{shown(part)} must hold integers or None") from None
    except ValueError:
        raise ArgumentValueError(f"{shown(part)} must have a step other than 0") from None


def _prepared(part: Any) -> int | slice | EllipsisType | Picks | None:
    """Return a part of a key as an int, a slice, ``...``, None or an array."""
    if type(part) in BASIC:
        return part
    if isinstance(part, Tensor):
        if part.dtype is bool_:
            return Picks(part, part.ndim)
        return Picks(as_positions(part, "index"), 1)
    if isinstance(part, np.integer) and not isinstance(part, np.timedelta64):
        return int(part)
    if isinstance(part, bool | list | tuple | range) or hasattr(part, "__array__"):
        values = host_array(part, "index", "an index")
        if values.dtype == bool:
            return Picks(values, values.ndim)
        if values.dtype.kind in "iu" or (not values.size and isinstance(part, list | tuple)):
            return Picks(values, 1) if values.ndim else int(values)
        raise DTypeError(
            f"index: indices are {as_dtype(values.dtype)}; they must be integers, as after "
            "astype('int32'), or bools"
        )
    try:
        return as_index(part)
    except TypeError:
        raise TensorIndexError(f"{shown(part)} is not an index; use {KINDS}") from None


def for_each_axis(shape: Shape, parts: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return parts that cover all axes of a shape, with slices in place of ``...``."""
    used = 0
    gap = len(parts)
    for place, part in enumerate(parts):
        if part is Ellipsis:
            if gap < len(parts):
                raise TensorIndexError("an index may have only one ellipsis (...)")
            gap = place
        elif part is not None:
            used += part.span if type(part) is Picks else 1
    if used > len(shape):
        raise TensorIndexError(
            f"{used} indices for a tensor with {len(shape)} axes (shape {shape}); there may be one for each axis"
        )
    return (*parts[:gap], *[slice(None)] * (len(shape) - used), *parts[gap + 1 :])


def _found(picks: Picks, shape: Shape, axis: int) -> Any:
    """Return the positions that an array picks on the axes of a shape from `axis` on.

    Positions on a device where looking at them would mean waiting are not checked.
    """
    values = picks.values
    if picks.is_mask:
        check_mask(picks, shape, axis)
        return np.flatnonzero(values.numpy() if isinstance(values, Tensor) else values)
    readable = in_reach(values) if isinstance(values, Tensor) else values
    if not isinstance(readable, Tensor):
        check_range(readable, shape[axis], axis, "index")
    return values


def check_mask(mask: Picks, shape: Shape, axis: int) -> None:
    """Raise unless a mask has the sizes of the axes of a shape from `axis` on, or 0, with which it picks nothing.

    Raises:
        TensorIndexError: it does not.
    """
    sizes = zip(mask.values.shape, shape[axis:], strict=False)
    if axis + mask.span > len(shape) or any(own not in (size, 0) for own, size in sizes):
        raise TensorIndexError(
            f"a mask of shape {mask.values.shape} does not fit the axes from {axis} on of shape {shape}; "
            "it must have their sizes"
        )


def in_reach(positions: Tensor) -> NDArray[Any] | Tensor:
    """Return positions as an array if reading them does not mean waiting for a device."""
    array: Any = positions.array
    return cast("NDArray[Any]", array) if isinstance(array, np.ndarray) else positions


def are_adjacent(parts: tuple[Any, ...]) -> bool:
    """Return whether nothing is between the arrays of a key; an integer counts as an array."""
    places = [i for i, part in enumerate(parts) if type(part) is int or type(part) is Picks]
    return places[-1] - places[0] == len(places) - 1
