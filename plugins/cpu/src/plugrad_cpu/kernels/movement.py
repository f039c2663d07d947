"""Movement: mostly views, because tensors do not change.

NumPy returns a single string as a Python object; indexing with an ellipsis keeps it in an array.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any, Final

import numpy as np

from plugrad.extend import Pairs, Scalar, Shape
from plugrad.kernels import movement
from plugrad_cpu.declare import Array, mark_results_tracked, table
from plugrad_cpu.memory import TRACKED_MIN_BYTES, empty


@table.implements(movement.transpose)
@mark_results_tracked
def transpose(x: Array, *, perm: Shape) -> Array:
    """Return a view with the axes in another order."""
    return x.transpose(perm)


@table.implements(movement.reshape)
@mark_results_tracked
def reshape(x: Array, *, shape: Shape) -> Array:
    """Return a view if the order of the elements allows it, else a copy."""
    if x.nbytes < TRACKED_MIN_BYTES or x.flags.c_contiguous:
        return x.reshape(shape)
    try:
        return x.reshape(shape, copy=False)
    except ValueError:
        y = empty(shape, x.dtype)
        copy_elements(x, y.reshape(x.shape))
        return y


MAX_STRIDED_COPIES: Final = 4
"""The maximum repetitions of elements for which one strided copy for each is faster than copying short rows."""


def copy_elements(x: Array, y: Array) -> None:
    """Copy the elements of x to y, an array of the same shape; x may be broadcast."""
    if x.ndim and x.strides[-1] == 0 and 1 < x.shape[-1] <= MAX_STRIDED_COPIES:
        for turn in range(x.shape[-1]):
            y[..., turn] = x[..., 0]
    else:
        y[...] = x


@table.implements(movement.expand_dims)
@mark_results_tracked
def expand_dims(input: Array, *, dim: int) -> Array:
    """Return a view with one more axis."""
    return input[(*(slice(None),) * dim, None, ...)]


@table.implements(movement.broadcast_to)
@mark_results_tracked
def broadcast_to(x: Array, *, shape: Shape) -> Array:
    """Return a view whose repeated axes have stride 0, or a copy, which takes less time for a few elements."""
    if math.prod(shape) < BROADCAST_VIEW_MIN_ELEMENTS:
        y = np.empty(shape, x.dtype)
        y[...] = x
        return y
    return np.broadcast_to(x, shape)


BROADCAST_VIEW_MIN_ELEMENTS: Final = 4096
"""The minimum elements of a broadcast result that is a view; to copy fewer saves later kernels more time."""


@lru_cache(maxsize=1024)
def _as_slices(begin: Shape, end: Shape, strides: Shape) -> tuple[slice, ...]:
    """Return a slice for each axis; for a negative stride, the end -1 is before the first element."""
    return tuple(
        slice(b, None if e < 0 else e, s) if range(b, e, s) else slice(0)
        for b, e, s in zip(begin, end, strides, strict=True)
    )


@table.implements(movement.slice)
@mark_results_tracked
def slice_(x: Array, *, begin: Shape, size: Shape, drop: Shape) -> Array:
    """Return a view of a block of x, given by begin and size."""
    return x[_block_index(begin, size, drop)]


@lru_cache(maxsize=1024)
def _block_index(begin: Shape, size: Shape, drop: Shape) -> tuple[Any, ...]:
    """Return the NumPy index of a block: an integer where an axis is dropped, else a slice."""
    ranges = zip(begin, size, strict=True)
    return (*[b if i in drop else slice(b, b + n) for i, (b, n) in enumerate(ranges)], ...)


@table.implements(movement.strided_slice)
@mark_results_tracked
def strided_slice(x: Array, *, begin: Shape, end: Shape, strides: Shape) -> Array:
    """Return a view of the elements from `begin` to before `end`, in steps of `strides`."""
    return x[(*_as_slices(begin, end, strides), ...)]


@table.implements(movement.strided_slice_gradient)
def strided_slice_gradient(
    dy: Array, *, shape: Shape, begin: Shape, end: Shape, strides: Shape
) -> Array:
    """Return zeros with dy at the elements of the slice."""
    dx = np.zeros(shape, dy.dtype)
    dx[_as_slices(begin, end, strides)] = dy
    return dx


@table.implements(movement.strided_slice_update)
@mark_results_tracked
def strided_slice_update(
    tensor: Array, updates: Array, *, begin: Shape, end: Shape, strides: Shape
) -> Array:
    """Return a copy with the updates at the elements of the slice."""
    shape = tensor.shape
    result = empty(shape, tensor.dtype)
    replaced, others = _split_at_block(shape, begin, end, strides)
    for place in others:
        result[place] = tensor[place]
    result[replaced] = updates
    return result


@lru_cache(maxsize=1024)
def _split_at_block(
    shape: Shape, begin: Shape, end: Shape, strides: Shape
) -> tuple[tuple[Any, ...], Sequence[tuple[Any, ...]]]:
    """Return the slices of a block that is replaced, and of the parts to copy: its borders if it is large, or all."""
    slices = _as_slices(begin, end, strides)
    block = list(zip(begin, end, strict=True))
    replaced = math.prod([max(b - a, 0) for a, b in block]) * math.prod(shape[len(block) :])
    if any(step != 1 for step in strides) or 2 * replaced < math.prod(shape):
        return slices, [(...,)]
    borders: list[tuple[Any, ...]] = []
    inside: list[slice] = []
    for (first, last), size in zip(block, shape, strict=False):
        sides = slice(first), slice(last, size)
        borders += [(*inside, side, ...) for side in sides if range(size)[side]]
        inside.append(slice(first, last))
    return slices, borders


@table.implements(movement.concat)
@mark_results_tracked
def concat(*inputs: Array, axis: int) -> Array:
    """Return the inputs concatenated along an axis."""
    return concatenate(inputs, axis)


def concatenate(parts: Sequence[Array], axis: int) -> Array:
    """Return arrays of one dtype joined along an axis: a view if they are large and adjacent in memory."""
    nbytes = 0
    for x in parts:  # which takes less time than a sum of a list
        nbytes += x.nbytes
    if nbytes < TRACKED_MIN_BYTES:
        return np.concatenate(parts, axis)
    first = parts[0].shape
    shape = (*first[:axis], sum([x.shape[axis] for x in parts]), *first[axis + 1 :])
    view = join_adjacent_views(parts, axis, shape)
    return np.concatenate(parts, axis, out=empty(shape, parts[0].dtype)) if view is None else view


def join_adjacent_views(parts: Sequence[Array], axis: int, shape: Shape) -> Array | None:
    """Return a view of parts that follow each other in one array's memory, or None if they do not.

    Neighbouring slices do, and so do the blocks of overlapping frames of a signal.
    """
    first = parts[0]
    base, strides = first.base, first.strides
    if type(base) is not np.ndarray or not base.flags.c_contiguous or base.dtype.hasobject:
        return None
    place = _data_address(first)
    for x in parts:
        if x.base is not base or x.strides != strides or _data_address(x) != place:
            return None
        place += x.shape[axis] * strides[axis]
    return np.ndarray(shape, first.dtype, base, _data_address(first) - _data_address(base), strides)


def _data_address(x: Array) -> int:
    """Return the memory address of the first element of x."""
    return x.__array_interface__["data"][0]


@table.implements(movement.pack)
@mark_results_tracked
def pack(*inputs: Array, axis: int) -> Array:
    """Return the inputs stacked along a new axis."""
    shape = inputs[0].shape
    if axis < len(shape):  # the blocks lie behind each other as they do without the new axis
        return concatenate(inputs, axis).reshape(*shape[:axis], len(inputs), *shape[axis:])
    key = (*(slice(None),) * axis, None, ...)
    return concatenate([x[key] for x in inputs], axis)


@table.implements(movement.unpack)
@mark_results_tracked
def unpack(value: Array, *, axis: int) -> tuple[Array, ...]:
    """Return views of the parts along an axis, without it."""
    return tuple([value[key] for key in _unpack_indices(value.shape[axis], axis)])


@lru_cache(maxsize=64)
def _unpack_indices(count: int, axis: int) -> list[tuple[Any, ...]]:
    """Return NumPy indices of the slices along an axis, one for each of its `count` positions."""
    return [(*(slice(None),) * axis, i, ...) for i in range(count)]


@table.implements(movement.split)
@mark_results_tracked
def split(x: Array, *, num_or_size_splits: Shape, axis: int) -> tuple[Array, ...]:
    """Return views of consecutive parts of x along an axis."""
    return tuple([x[key] for key in _part_indices(num_or_size_splits, axis)])


@lru_cache(maxsize=1024)
def _part_indices(sizes: Shape, axis: int) -> list[tuple[Any, ...]]:
    """Return NumPy indices of consecutive parts of given sizes along an axis."""
    ends = list(accumulate(sizes, initial=0))
    return [(*(slice(None),) * axis, slice(*ends), ...) for ends in pairwise(ends)]


@table.implements(movement.pad)
@mark_results_tracked
def pad(x: Array, *, paddings: Pairs, constant_value: Scalar | str) -> Array:
    """Return x surrounded by a constant value."""
    shape, inside = _padded_shape_and_slices(x.shape, paddings)
    y = empty(shape, x.dtype)
    y.fill(constant_value)
    y[inside] = x
    return y


@lru_cache(maxsize=1024)
def _padded_shape_and_slices(shape: Shape, paddings: Pairs) -> tuple[Shape, tuple[slice, ...]]:
    """Return the shape of a padded array, and the slices of the original array in it."""
    sizes = [(n, *pair) for n, pair in zip(shape, paddings, strict=True)]
    return tuple([b + n + a for n, b, a in sizes]), tuple([slice(b, b + n) for n, b, _ in sizes])


@table.implements(movement.tile)
def tile(x: Array, *, reps: Shape) -> Array:
    """Return x repeated along each axis."""
    repeated = [axis for axis, times in enumerate(reps) if times != 1]
    if len(repeated) == 1 and 0 < (times := reps[repeated[0]]) <= MAX_JOINED_PARTS:
        return np.concatenate([x] * times, repeated[0])
    return np.tile(x, reps)


MAX_JOINED_PARTS: Final = 16
"""The maximum repetitions along an axis that `tile` makes faster by concatenation."""


@table.implements(movement.reverse)
@mark_results_tracked
def reverse(x: Array, *, dims: Shape) -> Array:
    """Return a view that is reversed along some axes."""
    return x[_reversal_slices(dims)]


@lru_cache(maxsize=1024)
def _reversal_slices(axes: Shape) -> tuple[Any, ...]:
    """Return the NumPy index that reverses some axes."""
    last = max(axes, default=-1)
    return (*[slice(None, None, -1 if i in axes else 1) for i in range(last + 1)], ...)
