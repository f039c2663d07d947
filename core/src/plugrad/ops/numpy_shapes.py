"""NumPy's functions of shapes for which no op has the same arguments and results, composed of ops.

Names, order and defaults of the parameters are NumPy's; `plugrad.ops.array_functions` lists the functions. They
lack the parameters that plugrad has no equivalent for, and the caller refuses these. NumPy documents what they do.
"""

from __future__ import annotations

from itertools import pairwise
from operator import index as as_index
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from plugrad.errors import ArgumentError, ArgumentValueError, short_repr
from plugrad.ops import (
    indexing,
    movement,
    subscript,
    unary,
)
from plugrad.ops.arguments import as_tensor
from plugrad.tensor.tensor import Tensor
from plugrad.tensor.trees import iter_tensors
from plugrad.types.shapes import normalize_axis

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plugrad.tensor.backend import Backend
    from plugrad.tensor.tensor import TensorLike
    from plugrad.types.dtype import DTypeLike

# --- joining and splitting --------------------------------------------------------------------------


def as_tensors(arrays: Any, op: str) -> list[Tensor]:
    """Return the arrays of a list, or along the first axis of a tensor, as tensors of one device."""
    if isinstance(arrays, Tensor):
        return list(movement.unstack(arrays))
    backend = next((x.backend for x in iter_tensors(arrays)), None)
    return [_concatenate_sequence(x, op, backend) for x in arrays]


def _concatenate_sequence(x: Any, op: str, backend: Backend | None) -> Tensor:
    """Return an array, or a nested list with tensors in it, as one tensor."""
    if isinstance(x, list | tuple) and next(iter_tensors(x), None) is not None:
        return movement.stack(
            [_concatenate_sequence(part, op, backend) for part in cast("list[Any]", x)]
        )
    return as_tensor(x, op, backend=backend)


def concatenate(
    arrays: Sequence[TensorLike], axis: int | None = 0, *, dtype: DTypeLike | None = None
) -> Tensor:
    """Join arrays along an axis; see `plugrad.concat`."""
    given = as_tensors(arrays, "concatenate") if isinstance(arrays, Tensor) else arrays
    joined = movement.concat(given, axis=axis)
    return joined if dtype is None else unary.astype(joined, dtype)


def stack(arrays: Sequence[TensorLike], axis: int = 0, *, dtype: DTypeLike | None = None) -> Tensor:
    """Join arrays along a new axis; see `plugrad.stack`."""
    joined = movement.stack(as_tensors(arrays, "stack"), axis=axis)
    return joined if dtype is None else unary.astype(joined, dtype)


def vstack(tup: Sequence[TensorLike], *, dtype: DTypeLike | None = None) -> Tensor:
    """Join arrays of at least two axes along the first."""
    return concatenate([_add_unit_axes(x, 2) for x in as_tensors(tup, "vstack")], 0, dtype=dtype)


def hstack(tup: Sequence[TensorLike], *, dtype: DTypeLike | None = None) -> Tensor:
    """Join arrays along the second axis, vectors along their only one."""
    parts = [_add_unit_axes(x, 1) for x in as_tensors(tup, "hstack")]
    return concatenate(parts, 0 if parts and parts[0].ndim == 1 else 1, dtype=dtype)


def dstack(tup: Sequence[TensorLike]) -> Tensor:
    """Join arrays along the third axis."""
    return concatenate([_add_unit_axes(x, 3) for x in as_tensors(tup, "dstack")], 2)


def column_stack(tup: Sequence[TensorLike]) -> Tensor:
    """Join vectors as columns, and matrices along the second axis."""
    parts = as_tensors(tup, "column_stack")
    return concatenate([x if x.ndim > 1 else movement.reshape(x, (-1, 1)) for x in parts], 1)


def append(arr: TensorLike, values: TensorLike, axis: int | None = None) -> Tensor:
    """Join two arrays along an axis, or all their elements."""
    return movement.concat([arr, values], axis=axis)


def array_split(ary: TensorLike, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    """Return parts along an axis, which end before given positions, or are that many of nearly equal size."""
    x = as_tensor(ary, "array_split")
    axis = normalize_axis(axis, x.ndim, name="array_split: axis")
    size = x.shape[axis]
    if np.ndim(indices_or_sections):
        ends = [as_index(i) for i in indices_or_sections]
    else:
        count = as_index(indices_or_sections)
        if count < 1:
            raise ArgumentValueError(f"array_split: {count} sections must be 1 or more")
        each, more = divmod(size, count)
        ends = [i * each + min(i, more) for i in range(1, count)]
    before = (slice(None),) * axis
    return [
        subscript.index_tensor(x, (*before, slice(start, end)))
        for start, end in pairwise([0, *ends, size])
    ]


def split(ary: TensorLike, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    """Return parts along an axis, which end before given positions, or are that many of equal size."""
    x = as_tensor(ary, "split")
    axis = normalize_axis(axis, x.ndim, name="split: axis")
    if not np.ndim(indices_or_sections) and x.shape[axis] % as_index(indices_or_sections):
        raise ArgumentValueError(
            f"split: {indices_or_sections} sections of axis {axis} of shape {x.shape} have no equal sizes; "
            "np.array_split allows others"
        )
    return array_split(x, indices_or_sections, axis)


def hsplit(ary: TensorLike, indices_or_sections: Any) -> list[Tensor]:
    """Return parts along the second axis, or along the only axis of a vector."""
    x = as_tensor(ary, "hsplit")
    return split(x, indices_or_sections, 1 if x.ndim > 1 else 0)


def vsplit(ary: TensorLike, indices_or_sections: Any) -> list[Tensor]:
    """Return parts along the first axis."""
    return split(ary, indices_or_sections, 0)


def dsplit(ary: TensorLike, indices_or_sections: Any) -> list[Tensor]:
    """Return parts along the third axis."""
    return split(ary, indices_or_sections, 2)


# --- axes and shapes --------------------------------------------------------------------------------


def _add_unit_axes(x: Tensor, min_rank: int) -> Tensor:
    """Return x with axes of size 1 added, as NumPy does, until it has at least `min_rank` axes (1, 2 or 3)."""
    if x.ndim >= min_rank:
        return x
    sizes = x.shape or (1,)
    if min_rank > 1 and len(sizes) == 1:
        sizes = (1, *sizes)
    return movement.reshape(x, sizes if len(sizes) == min_rank else (*sizes, 1))


def _atleast_nd(min_rank: int, arys: Sequence[TensorLike]) -> Any:
    """Return one array, or a tuple of several, with at least `min_rank` axes."""
    found = tuple(_add_unit_axes(x, min_rank) for x in as_tensors(arys, f"atleast_{min_rank}d"))
    return found[0] if len(found) == 1 else found


def atleast_1d(*arys: TensorLike) -> Any:
    """Return arrays with one axis or more."""
    return _atleast_nd(1, arys)


def atleast_2d(*arys: TensorLike) -> Any:
    """Return arrays with two axes or more."""
    return _atleast_nd(2, arys)


def atleast_3d(*arys: TensorLike) -> Any:
    """Return arrays with three axes or more."""
    return _atleast_nd(3, arys)


def broadcast_arrays(*args: Any) -> tuple[Any, ...]:
    """Return arrays in the shape to which they broadcast together; NumPy arrays stay NumPy arrays."""
    parts: list[Any] = [
        np.asarray(x)
        if next(iter_tensors(x), None) is None
        else _concatenate_sequence(x, "broadcast_arrays", None)
        for x in args
    ]
    shape = movement.broadcast_shapes(*[x.shape for x in parts])
    return tuple(
        movement.broadcast_to(x, shape) if isinstance(x, Tensor) else np.broadcast_to(x, shape)
        for x in parts
    )


def expand_dims(a: TensorLike, axis: int | Sequence[int]) -> Tensor:
    """Return the array with axes of size 1 added, which are the axes `axis` of the result."""
    x = as_tensor(a, "expand_dims")
    if not isinstance(axis, list | tuple):
        return movement.expand_dims(x, cast("int", axis))
    rank = x.ndim + len(axis)
    axes = {normalize_axis(i, rank, name="expand_dims: axis") for i in axis}
    if len(axes) < len(axis):
        raise ArgumentValueError(f"expand_dims: axis={axis} names an axis twice")
    sizes = iter(x.shape)
    return movement.reshape(x, tuple(1 if i in axes else next(sizes) for i in range(rank)))


def ravel(a: TensorLike) -> Tensor:
    """Return the elements as a vector."""
    return movement.reshape(a, (-1,)) if as_tensor(a, "ravel").size else movement.reshape(a, (0,))


def swapaxes(a: TensorLike, axis1: int, axis2: int) -> Tensor:
    """Exchange two axes."""
    x = as_tensor(a, "swapaxes")
    first, second = (normalize_axis(i, x.ndim, name="swapaxes: axis") for i in (axis1, axis2))
    order = list(range(x.ndim))
    order[first], order[second] = second, first
    return movement.permute_dims(x, order)


def rollaxis(a: TensorLike, axis: int, start: int = 0) -> Tensor:
    """Move an axis before the one at `start`."""
    x = as_tensor(a, "rollaxis")
    axis = normalize_axis(axis, x.ndim, name="rollaxis: axis")
    start = start + x.ndim if start < 0 else start
    if not 0 <= start <= x.ndim:
        raise ArgumentValueError(f"rollaxis: start={start} must be from 0 to {x.ndim}")
    return movement.moveaxis(x, axis, start - 1 if axis < start else start)


def rot90(m: TensorLike, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Tensor:
    """Turn by k right angles, from the first of two axes to the second."""
    x = as_tensor(m, "rot90")
    turns = as_index(k) % 4
    first, second = axes
    if turns == 2:
        return movement.flip(x, axis=(first, second))
    if turns == 1:
        x = movement.flip(x, axis=second)
    if turns:
        x = swapaxes(x, first, second)
    return movement.flip(x, axis=second) if turns == 3 else x


def fliplr(m: TensorLike) -> Tensor:
    """Reverse the second axis."""
    return movement.flip(m, axis=1)


def flipud(m: TensorLike) -> Tensor:
    """Reverse the first axis."""
    return movement.flip(m, axis=0)


def pad(
    array: TensorLike, pad_width: Any, mode: str = "constant", *, constant_values: Any = 0
) -> Tensor:
    """Add elements before and after each axis: a constant, or copies of elements in the order that the mode says."""
    x = as_tensor(array, "pad")
    try:
        pairs = np.broadcast_to(np.asarray(pad_width), (x.ndim, 2)).tolist()
    except ValueError:
        raise ArgumentValueError(
            f"pad: pad_width={short_repr(pad_width)} must be a number, a pair, or a pair for each of {x.ndim} axes"
        ) from None
    if mode == "constant":
        if np.ndim(constant_values):
            raise ArgumentError(
                f"pad: constant_values={short_repr(constant_values)} must be one number; for several, join "
                "np.full_like parts with np.concatenate"
            )
        return movement.pad(x, pairs, constant_values)
    if mode not in ("edge", "reflect", "symmetric", "wrap"):
        raise ArgumentError(
            f"pad: mode={short_repr(mode)} does not take tensors; the modes for them are 'constant', 'edge', "
            "'reflect', 'symmetric' and 'wrap'"
        )
    for axis, pair in enumerate(pairs):
        # Which elements the added ones repeat: NumPy tells it, for the positions instead of the elements.
        positions = np.pad(np.arange(x.shape[axis]), pair, mode=cast("Any", mode))
        x = indexing.take(x, positions, axis=axis)
    return x
