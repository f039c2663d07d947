"""Functions that pick elements by position."""

from __future__ import annotations

from operator import index as as_index
from typing import TYPE_CHECKING, Any, cast

from plugrad.dtype import DTypeLike, Scalar, as_dtype, bool_, float32, int32
from plugrad.errors import ArgumentValueError, AxisError, DTypeError, TensorIndexError
from plugrad.kernels import indexing, movement
from plugrad.ops.arguments import as_tensor, cast as cast_to, coerced
from plugrad.shapes import axis_of

if TYPE_CHECKING:
    from plugrad.tensor import Tensor, TensorLike


def take(x: TensorLike, indices: TensorLike, *, axis: int | None = None) -> Tensor:
    """The elements of x at `indices` along an axis, which may be left out for a 1-d tensor.

    >>> plugrad.take([10.0, 20.0, 30.0], [2, 0])
    tensor([30., 10.], dtype=float32)

    The indices may have any shape, which takes the axis' place. They must lie in ``[0, size)``.

    Raises:
        DTypeError: the indices are not integers.
        AxisError: the axis is out of range, or is missing.
    """
    x = as_tensor(x, "take")
    positions = _positions(indices, "take", x)
    if axis is None and x.ndim != 1:
        raise AxisError(f"take: axis is needed for a tensor with {x.ndim} axes (shape {x.shape})")
    return indexing.gather(x, positions, axis=axis_of(axis or 0, x.ndim), batch_dims=0)


def one_hot(
    indices: TensorLike,
    depth: int,
    on_value: Scalar = 1,
    off_value: Scalar = 0,
    dtype: DTypeLike = float32,
) -> Tensor:
    """`on_value` at each index along a new last axis of size `depth`, `off_value` elsewhere.

    >>> plugrad.one_hot([0, 2], depth=3)
    tensor([[1., 0., 0.],
            [0., 0., 1.]], dtype=float32)

    An index outside ``[0, depth)`` gives a row of `off_value`.

    Raises:
        DTypeError: the indices are not integers.
        ArgumentValueError: the depth is negative.
    """
    positions = coerced(indices, indexing.one_hot, "one_hot", "indices")
    return indexing.one_hot(
        positions,
        depth=as_index(depth),
        on_value=on_value,
        off_value=off_value,
        dtype=as_dtype(dtype),
    )


def unsorted_segment_sum(x: TensorLike, segment_ids: TensorLike, num_segments: int) -> Tensor:
    """The sum of the elements with each segment id from 0 to ``num_segments - 1``.

    >>> plugrad.unsorted_segment_sum([1.0, 2.0, 3.0], [0, 2, 0], num_segments=3)
    tensor([4., 0., 2.], dtype=float32)

    `segment_ids` has the first axes of x's shape. Elements with other ids are dropped.

    Raises:
        ShapeError: the shapes do not match.
        ArgumentValueError: `num_segments` is negative.
    """
    if num_segments < 0:
        raise ArgumentValueError(
            f"unsorted_segment_sum: num_segments={num_segments} must be 0 or more"
        )
    x = coerced(x, indexing.unsorted_segment_sum, "unsorted_segment_sum")
    return indexing.unsorted_segment_sum(
        x, _positions(segment_ids, "unsorted_segment_sum", x), num_segments=num_segments
    )


def _positions(indices: TensorLike, op: str, x: Tensor) -> Tensor:
    positions = as_tensor(indices, op, "indices", backend=x.backend)
    if not positions.dtype.is_integer:
        raise DTypeError(
            f"{op}: indices are {positions.dtype}; they must be integers, as after astype('int32')"
        )
    return positions if positions.dtype is int32 else cast_to(positions, int32)


def index(x: Tensor, key: Any) -> Tensor:
    """``x[key]`` for integers, slices, ``...``, None (a new axis), and one array of integer positions.

    >>> plugrad.arange(12).reshape(3, 4)[1:, -1]
    tensor([ 7, 11], dtype=int32)

    Raises:
        TensorIndexError: an index is out of range, of another kind, or there are more indices than
            axes.
    """
    parts = _without_ellipsis(x, cast("tuple[Any, ...]", key) if isinstance(key, tuple) else (key,))
    begin: list[int] = []
    end: list[int] = []
    strides: list[int] = []
    shape: list[int] = []
    arrays: list[tuple[int, Tensor]] = []
    for part in parts:
        axis = len(begin)
        if part is None:
            shape.append(1)
            continue
        size = x.shape[axis]
        if isinstance(part, slice):
            bounds = part.indices(size)
            shape.append(len(range(*bounds)))
        elif _is_array(part):
            arrays.append((len(shape), _checked_positions(part, x, axis)))
            bounds = (0, size, 1)
            shape.append(size)
        else:
            position = _checked_position(part, x, axis)
            bounds = (position, position + 1, 1)
        for numbers, bound in zip((begin, end, strides), bounds, strict=True):
            numbers.append(bound)
    y = _cut(x, tuple(begin), tuple(end), tuple(strides))
    if y.shape != tuple(shape):
        y = movement.reshape(y, shape=tuple(shape))
    if len(arrays) > 1:
        raise TensorIndexError(
            "only one array of positions is taken; index with the next one afterwards, or use take"
        )
    for axis, positions in arrays:
        y = indexing.gather(y, positions, axis=axis, batch_dims=0)
    return y


def _without_ellipsis(x: Tensor, parts: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return one part for each axis of x, besides the new axes."""
    used = sum(part is not None and part is not Ellipsis for part in parts)
    if used > x.ndim:
        raise TensorIndexError(f"{used} indices for a tensor with {x.ndim} axes (shape {x.shape})")
    gaps = [i for i, part in enumerate(parts) if part is Ellipsis]
    if len(gaps) > 1:
        raise TensorIndexError("an index may have one ellipsis (...) only")
    where = gaps[0] if gaps else len(parts)
    return (*parts[:where], *[slice(None)] * (x.ndim - used), *parts[where + 1 :])


def _is_array(part: Any) -> bool:
    return isinstance(part, list | range) or (hasattr(part, "shape") and part.shape != ())


def _checked_position(part: Any, x: Tensor, axis: int) -> int:
    if isinstance(part, bool):
        raise TensorIndexError(
            "a bool is not an index; use integers, slices, '...', None or an array of integers"
        )
    try:
        position = as_index(part)
    except (TypeError, DTypeError):
        raise TensorIndexError(
            f"{part!r} is not an index; use integers, slices, '...', None or an array of integers"
        ) from None
    size = x.shape[axis]
    if not -size <= position < size:
        raise TensorIndexError(f"index {position} is out of range for axis {axis} of size {size}")
    return position % size


def _checked_positions(part: Any, x: Tensor, axis: int) -> Tensor:
    positions = as_tensor(part, "index", backend=x.backend)
    if positions.dtype is bool_:
        raise TensorIndexError(
            "a bool array is not taken as an index; use where, or take with the positions"
        )
    return _positions(positions, "index", x)


def _cut(
    x: Tensor, begin: tuple[int, ...], end: tuple[int, ...], strides: tuple[int, ...]
) -> Tensor:
    sizes = tuple(len(range(*bounds)) for bounds in zip(begin, end, strides, strict=True))
    if sizes == x.shape and all(s > 0 for s in strides):
        return x
    if all(s == 1 for s in strides):
        return movement.slice(
            x, begin=tuple(b if n else 0 for b, n in zip(begin, sizes, strict=True)), size=sizes
        )
    return movement.strided_slice(x, begin=begin, end=end, strides=strides)
