"""Parsing of the key in ``x[key]``: its parts, the basic slice, and the positions that array keys select."""

from __future__ import annotations

from operator import index as as_index
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from plugrad.errors import ArgumentValueError, DTypeError, TensorIndexError, short_repr
from plugrad.ops.arguments import host_array
from plugrad.ops.indexing import as_positions, check_positions_in_range
from plugrad.tensor.tensor import Tensor
from plugrad.types.dtype import as_dtype, bool_
from plugrad.types.shapes import count_elements

if TYPE_CHECKING:
    from types import EllipsisType

    from numpy.typing import NDArray

    from plugrad.types.specs import Shape

KEY_PART_DESCRIPTION = "integers, slices, '...', None or arrays of integers or bools"
"""The words with which errors list what a key may consist of."""
SCALAR_KEY_TYPES = frozenset({int, type(None), type(...)})
"""The types of key parts that are an integer, None or ``...``."""
BASIC_KEY_TYPES = SCALAR_KEY_TYPES | {slice}
"""The types of all key parts but arrays."""


class ArrayKey(NamedTuple):
    """An array in a key: positions along one axis, or a mask over as many axes as it has."""

    values: Any  # NDArray[Any] | Tensor
    axis_count: int
    """The number of axes to which it applies."""

    @property
    def is_mask(self) -> bool:
        """Whether the values are bools, which select elements by a mask."""
        return self.values.dtype == bool_.numpy


class BasicSlice(NamedTuple):
    """The slice that a key's integers and slices select, before its arrays pick elements from it."""

    begin: tuple[int, ...]
    end: tuple[int, ...]
    strides: tuple[int, ...]
    sizes: tuple[int, ...]
    shape: tuple[int, ...]
    """The final shape: the sizes without the axes of integers, and with new axes of size 1."""
    result_axes: tuple[int | None, ...]
    """For each axis of the slice, the axis of `shape` that it becomes, or None."""
    array_axes: list[ArrayKeyAxes]
    """The axes of the slice from which each array of the key picks elements."""


class ArrayKeyAxes(NamedTuple):
    """The axes of the sliced tensor to which an array in a key applies, and the positions it picks there."""

    first_axis: int
    """The first axis of the sliced tensor to which the array applies."""
    axis_count: int
    """The number of neighbouring axes to which the array applies, which positions count as one flattened axis."""
    size: int
    """The number of elements along the flattened axis."""
    positions: Any  # NDArray[Any] | Tensor
    """The positions along the flattened axis."""


def hashable_key(key_parts: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Return a hashable form of a key of integers and slices, for caches; None for any other key."""
    plain: list[Any] = []
    for part in key_parts:
        if type(part) is slice:
            start, stop, step = part.start, part.stop, part.step
            if (
                type(start) not in SCALAR_KEY_TYPES
                or type(stop) not in SCALAR_KEY_TYPES
                or type(step) not in SCALAR_KEY_TYPES
            ):
                return None
            plain.append((start, stop, step))
        elif type(part) in SCALAR_KEY_TYPES:
            plain.append(part)
        else:
            return None
    return tuple(plain)


def parse_key(key: Any) -> tuple[Any, ...]:
    """Split a key into its parts: integers, slices, ``...``, None and arrays."""
    parts = cast("tuple[Any, ...]", key) if isinstance(key, tuple) else (key,)
    return (
        parts
        if BASIC_KEY_TYPES.issuperset(map(type, parts))
        else tuple([_parse_part(p) for p in parts])
    )


def basic_slice(full_shape: Shape, key_parts: tuple[Any, ...]) -> BasicSlice:
    """Return the basic slice of a tensor of `full_shape` that a key's parts select, one part for each axis."""
    begin: list[int] = []
    end: list[int] = []
    strides: list[int] = []
    sizes: list[int] = []
    shape: list[int] = []
    kept: list[int | None] = []
    places: list[ArrayKeyAxes] = []
    for part in key_parts:
        axis = len(begin)
        if part is None:
            shape.append(1)
            continue
        if type(part) is ArrayKey:
            spanned = full_shape[axis : axis + part.axis_count]
            found = _resolve_positions(part, full_shape, axis)
            places.append(ArrayKeyAxes(len(shape), part.axis_count, count_elements(spanned), found))
            begin += [0] * part.axis_count
            end += spanned
            strides += [1] * part.axis_count
            sizes += spanned
            kept += range(len(shape), len(shape) + part.axis_count)
            shape += spanned
            continue
        size = full_shape[axis]
        if type(part) is slice:
            first, last, stride = _slice_bounds(part, size)
            count = len(range(first, last, stride))
            kept.append(len(shape))
            shape.append(count)
        else:
            if not -size <= part < size:
                raise TensorIndexError(
                    f"index {short_repr(part)} is out of range for axis {axis} of size {size}"
                )
            first = part % size
            last = first + 1
            stride = count = 1
            kept.append(None)
        begin.append(first)
        end.append(last)
        strides.append(stride)
        sizes.append(count)
    return BasicSlice(
        tuple(begin), tuple(end), tuple(strides), tuple(sizes), tuple(shape), tuple(kept), places
    )


def _slice_bounds(key_slice: slice, axis_size: int) -> tuple[int, int, int]:
    """Return the begin, end and stride of a slice along an axis, counted from the front."""
    try:
        return key_slice.indices(axis_size)
    except TypeError:
        raise TensorIndexError(f"{short_repr(key_slice)} must hold integers or None") from None
    except ValueError:
        raise ArgumentValueError(f"{short_repr(key_slice)} must have a step other than 0") from None


def _parse_part(key_part: Any) -> int | slice | EllipsisType | ArrayKey | None:
    """Return a part of a key as an int, a slice, ``...``, None or an array."""
    if type(key_part) in BASIC_KEY_TYPES:
        return key_part
    if isinstance(key_part, Tensor):
        if key_part.dtype is bool_:
            return ArrayKey(key_part, key_part.ndim)
        return ArrayKey(as_positions(key_part, "index"), 1)
    if isinstance(key_part, np.integer) and not isinstance(key_part, np.timedelta64):
        return int(key_part)
    if isinstance(key_part, bool | list | tuple | range) or hasattr(key_part, "__array__"):
        values = host_array(key_part, "index", "an index")
        if values.dtype == bool:
            return ArrayKey(values, values.ndim)
        if values.dtype.kind in "iu" or (not values.size and isinstance(key_part, list | tuple)):
            return ArrayKey(values, 1) if values.ndim else int(values)
        raise DTypeError(
            f"index: indices are {as_dtype(values.dtype)}; they must be integers, as after "
            "astype('int32'), or bools"
        )
    try:
        return as_index(key_part)
    except TypeError:
        raise TensorIndexError(
            f"{short_repr(key_part)} is not an index; use {KEY_PART_DESCRIPTION}"
        ) from None


def expand_ellipsis(shape: Shape, key_parts: tuple[Any, ...]) -> tuple[Any, ...]:
    """Replace ``...`` by full slices, so that the parts cover all axes of a shape."""
    used = 0
    gap = len(key_parts)
    for place, part in enumerate(key_parts):
        if part is Ellipsis:
            if gap < len(key_parts):
                raise TensorIndexError("an index may have only one ellipsis (...)")
            gap = place
        elif part is not None:
            used += part.axis_count if type(part) is ArrayKey else 1
    if used > len(shape):
        raise TensorIndexError(
            f"{used} indices for a tensor with {len(shape)} axes (shape {shape}); there may be one for each axis"
        )
    return (*key_parts[:gap], *[slice(None)] * (len(shape) - used), *key_parts[gap + 1 :])


def _resolve_positions(array_key: ArrayKey, shape: Shape, axis: int) -> Any:
    """Return the positions that an array in a key selects along the axes from `axis` on, flattened to one.

    Positions on a device where looking at them would mean waiting are not checked.
    """
    values = array_key.values
    if array_key.is_mask:
        check_mask(array_key, shape, axis)
        return np.flatnonzero(values.numpy() if isinstance(values, Tensor) else values)
    readable = host_values_if_ready(values) if isinstance(values, Tensor) else values
    if not isinstance(readable, Tensor):
        check_positions_in_range(readable, shape[axis], axis, "index")
    return values


def check_mask(mask: ArrayKey, shape: Shape, axis: int) -> None:
    """Raise unless a mask has the sizes of the axes of a shape from `axis` on, or 0, with which it picks nothing.

    Raises:
        TensorIndexError: it does not.
    """
    sizes = zip(mask.values.shape, shape[axis:], strict=False)
    if axis + mask.axis_count > len(shape) or any(own not in (size, 0) for own, size in sizes):
        raise TensorIndexError(
            f"a mask of shape {mask.values.shape} does not fit the axes from {axis} on of shape {shape}; "
            "it must have their sizes"
        )


def host_values_if_ready(positions: Tensor) -> NDArray[Any] | Tensor:
    """Return positions as a NumPy array if they can be read without waiting for a device; otherwise unchanged."""
    array: Any = positions.array
    return cast("NDArray[Any]", array) if isinstance(array, np.ndarray) else positions


def are_adjacent(key_parts: tuple[Any, ...]) -> bool:
    """Return whether the array parts of a key are adjacent; integers count as arrays."""
    places = [i for i, part in enumerate(key_parts) if type(part) is int or type(part) is ArrayKey]
    return places[-1] - places[0] == len(places) - 1
