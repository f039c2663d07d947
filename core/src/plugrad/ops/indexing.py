"""Functions that pick elements by position.

Positions are integers; a negative one counts from the end. A position out of range raises an error
if it comes from the host or if the backend is cpu. Other backends do not check positions that are
already on their device, because the host would have to wait for them; they read zeros there, and
raise if the setting ``debug`` is on. An argument that does not convert to a tensor raises ArgumentError.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from plugrad.discovery.selection import active_backend
from plugrad.engine.results import tensor_from_host
from plugrad.errors import (
    ArgumentError,
    AxisError,
    DTypeError,
    ShapeError,
    TensorIndexError,
    short_repr,
)
from plugrad.kernels import indexing, movement
from plugrad.ops.arguments import as_supported_dtype, as_tensor, cast, host_array
from plugrad.ops.attributes import check_integer
from plugrad.ops.binary import minimum, not_equal
from plugrad.tensor.tensor import Tensor, TensorLike
from plugrad.types.arguments import explain_wrong_calls
from plugrad.types.dtype import (
    DType,
    DTypeLike,
    Scalar,
    as_dtype,
    bool_,
    equivalents,
    float32,
    int32,
    int64,
    position_dtype,
    string,
)
from plugrad.types.shapes import broadcast, normalize_axis
from plugrad.types.specs import Shaped

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from plugrad.contract.kernel import ValidatedAttributes
    from plugrad.tensor.backend import Backend
    from plugrad.types.specs import Shape


@explain_wrong_calls
def take(
    x: TensorLike, indices: TensorLike, /, *, axis: int | None = None, batch_dims: int = 0
) -> Tensor:
    """The elements of x at `indices` along an axis, in the dtype of x.

    >>> plugrad.take([10.0, 20.0, 30.0], [2, 0, -1])
    tensor([30., 10., 30.], dtype=float32)
    >>> plugrad.take([[1, 2], [3, 4]], [[1, 0], [0, 0]], axis=1, batch_dims=1)
    tensor([[2, 1],
            [3, 3]], dtype=int32)

    The result has the shape of x, with the axes of the indices, except batch axes, in place of
    `axis`.

    Args:
        x: the elements.
        indices: integers of any shape.
        axis: the axis; it may be omitted if x is 1-d.
        batch_dims: how many leading axes x and the indices have in common: in each batch, indices
            refer to the same batch of x. A negative number counts from the rank of the indices.

    Raises:
        DTypeError: the indices are not integers.
        AxisError: the axis is out of range or missing.
        ShapeError: the batch axes have different sizes, or the axis is one of them.
        TensorIndexError: an index is out of range.
        ArgumentError: `batch_dims` is not an integer.
        ArgumentValueError: an index in a list does not fit int32.
    """
    if not isinstance(x, Tensor):
        x = as_tensor(x, "take", backend=first_backend(indices))
    array = x.array
    rank = len(array.shape)
    if axis is None and rank != 1:
        raise AxisError(f"take: axis is needed for a tensor with {rank} axes (shape {x.shape})")
    axis = 0 if axis is None else axis
    if type(axis) is not int or not 0 <= axis < rank:
        axis = normalize_axis(axis, rank, name="take: axis")
    if isinstance(indices, Tensor) and indices.array.dtype in INDEX_DTYPES:
        positions = indices
    else:
        positions = as_checked_positions(indices, x, axis, "take")
    if type(batch_dims) is not int:
        batch_dims = check_integer(batch_dims, "take", "batch_dims")
    if batch_dims < 0:
        batch_dims += positions.ndim
    return gather_along_axis(x, positions, axis, batch_dims)


def gather_along_axis(x: Tensor, positions: Tensor, axis: int, batch_dims: int) -> Tensor:
    """Return the elements or slices of x at positions along an axis; see `take`."""
    array, places = x.array, positions.array
    attrs = _gather_attributes(
        array.shape, array.dtype, places.shape, places.dtype, axis, batch_dims
    )
    return indexing.gather.call(x, positions, attrs)


@lru_cache(maxsize=1024)
def _gather_attributes(
    shape: Shape,
    dtype: object,
    indices_shape: Shape,
    indices_dtype: object,
    axis: int,
    batch_dims: int,
) -> ValidatedAttributes:
    """Return the validated attributes of a gather from a tensor of this shape and dtype."""
    x, positions = Shaped(shape, as_dtype(dtype)), Shaped(indices_shape, as_dtype(indices_dtype))
    return indexing.gather.validate_attributes(x, positions, axis=axis, batch_dims=batch_dims)


@explain_wrong_calls
def take_along_axis(x: TensorLike, indices: TensorLike, /, *, axis: int = -1) -> Tensor:
    """The elements of each line of x along an axis, at the indices in the same line, in the dtype of x.

    >>> x = plugrad.asarray([[30, 10, 20], [4, 6, 5]])
    >>> plugrad.take_along_axis(x, [[1, 2, 0], [0, 2, 1]])
    tensor([[10, 20, 30],
            [ 4,  5,  6]], dtype=int32)

    The indices have as many axes as x, and their shapes broadcast except along `axis`, where the
    result has the size of the indices.

    Raises:
        DTypeError: the indices are not integers.
        AxisError: the axis is out of range.
        ShapeError: x and the indices differ in rank, or their shapes do not broadcast.
        TensorIndexError: an index is out of range.
        ArgumentValueError: an index in a list does not fit int32.
    """
    x = as_tensor(x, "take_along_axis", backend=first_backend(indices))
    axis = normalize_axis(axis, x.ndim, name="take_along_axis: axis")
    positions = as_checked_positions(indices, x, axis, "take_along_axis")
    if positions.ndim != x.ndim:
        raise ShapeError(
            f"take_along_axis: indices of shape {positions.shape} must have as many axes as x, "
            f"which has shape {x.shape}; expand_dims adds axes"
        )
    lines = broadcast(*((*y.shape[:axis], *y.shape[axis + 1 :]) for y in (x, positions)))
    last = x.ndim - 1
    taken = indexing.gather(
        _broadcast_other_axes(x, lines, axis),
        _broadcast_other_axes(positions, lines, axis),
        axis=last,
        batch_dims=last,
    )
    return movement.transpose(taken, perm=(*range(axis), last, *range(axis, last)))


def _broadcast_other_axes(x: Tensor, other_sizes: Shape, axis: int) -> Tensor:
    """Broadcast all axes of x but one to `other_sizes`, and move that axis to the end."""
    shape = (*other_sizes[:axis], x.shape[axis], *other_sizes[axis:])
    if x.shape != shape:
        x = movement.broadcast_to(x, shape=shape)
    others = [i for i in range(x.ndim) if i != axis]
    return movement.transpose(x, perm=(*others, axis))


def gather_nd(x: TensorLike, indices: TensorLike) -> Tensor:
    """The parts of x whose coordinates are along the last axis of `indices`, in the dtype of x.

    >>> x = plugrad.asarray([[1, 2], [3, 4]])
    >>> plugrad.gather_nd(x, [[0, 1], [1, 0]]), plugrad.gather_nd(x, [[1]])
    (tensor([2, 3], dtype=int32), tensor([[3, 4]], dtype=int32))

    If there are k coordinates, they are a position on the first k axes of x, and the part there has
    the other axes. The result has the shape of the indices without the last axis, and that of a
    part.

    Raises:
        DTypeError: the indices are not integers.
        ShapeError: the indices are 0-d, or there are more coordinates than axes of x.
        TensorIndexError: an index is out of range.
        ArgumentValueError: an index in a list does not fit int32.
    """
    x = as_tensor(x, "gather_nd", backend=first_backend(indices))
    return indexing.gather_nd(x, as_coordinates(indices, x.shape, "gather_nd", x.backend))


def nonzero(x: TensorLike, /) -> tuple[Tensor, ...]:
    """The positions of the elements that are not zero, in row-major order: one int32 vector for each axis.

    >>> plugrad.nonzero([[0, 7], [8, 9]])
    (tensor([0, 1, 1], dtype=int32), tensor([1, 0, 1], dtype=int32))

    NaN is not zero. The size of the vectors depends on the values, so the backend has to finish
    first.

    Raises:
        DTypeError: x holds strings.
        ShapeError: x has no axes.
    """
    x = as_tensor(x, "nonzero")
    if not x.ndim:
        raise ShapeError("nonzero: x is 0-d; it must have at least one axis, as after reshape(-1)")
    if x.dtype is string:
        raise DTypeError(
            "nonzero does not take string; compare first, as in plugrad.not_equal(x, '')"
        )
    condition = x if x.dtype is bool_ else not_equal(x, 0)
    return tuple(movement.unpack(indexing.where_true(condition), axis=1))


def one_hot(
    indices: TensorLike,
    depth: int,
    on_value: Scalar = 1,
    off_value: Scalar = 0,
    dtype: DTypeLike = float32,
) -> Tensor:
    """The value `on_value` at each index along a new last axis of size `depth`, and `off_value` elsewhere.

    >>> plugrad.one_hot([0, 2], depth=3)
    tensor([[1., 0., 0.],
            [0., 0., 1.]], dtype=float32)

    The result has shape ``(*indices.shape, depth)``. An index outside ``[0, depth)``, negative ones
    included, gives a row of `off_value`.

    Raises:
        DTypeError: the indices are not integers, or `dtype` is not a dtype.
        UnsupportedDtype: the backend does not have the dtype; none makes strings.
        ArgumentError: the depth is not an integer, or `on_value` or `off_value` is not one number.
        ArgumentValueError: the depth is negative, or `on_value` or `off_value` does not fit the
            dtype.
    """
    wanted = as_dtype(dtype)
    positions = as_supported_dtype(indices, indexing.one_hot, "one_hot", "indices")
    array = positions.array
    are_keys = {int} == {type(depth), type(on_value), type(off_value)}
    plan = _one_hot_attributes if are_keys else _one_hot_attributes.__wrapped__
    attrs = plan(array.shape, array.dtype, depth, on_value, off_value, wanted)
    return indexing.one_hot.call(positions, attrs)


@lru_cache(maxsize=256)
def _one_hot_attributes(
    shape: Shape, dtype: object, depth: int, on_value: Scalar, off_value: Scalar, value_dtype: DType
) -> ValidatedAttributes:
    """Return the validated attributes of `one_hot` for positions of this shape and dtype."""
    return indexing.one_hot.validate_attributes(
        Shaped(shape, as_dtype(dtype)),
        depth=check_integer(depth, "one_hot", "depth", least=0),
        on_value=_as_fill_scalar(on_value, "on_value", value_dtype),
        off_value=_as_fill_scalar(off_value, "off_value", value_dtype),
        dtype=value_dtype,
    )


def _as_fill_scalar(value: Scalar, name: str, dtype: DType) -> Scalar:
    """Return a number that fits a dtype as a Python scalar.

    Raises:
        ArgumentError: it is not one number.
        ArgumentValueError: it does not fit.
    """
    if dtype is string or (type(value) is int and 0 <= value <= 1):
        return value  # the kernel refuses the dtype; 0 and 1 fit all others
    filling = host_array(value, "one_hot", name, dtype)
    if filling.ndim:
        raise ArgumentError(f"one_hot: {name}={short_repr(value)} must be one number")
    return filling.item()


def unsorted_segment_sum(x: TensorLike, segment_ids: TensorLike, num_segments: int) -> Tensor:
    """The sum of the elements that have each segment id from 0 to ``num_segments - 1``.

    >>> plugrad.unsorted_segment_sum([1.0, 2.0, 3.0], [0, 2, 0], num_segments=3)
    tensor([4., 0., 2.], dtype=float32)

    The result has the dtype of x; its shape is that of x, with one axis of size `num_segments` in
    place of the axes of `segment_ids`.

    Args:
        x: the elements.
        segment_ids: the id of each part of x, in the shape of the first axes of x. Parts with other
            ids are dropped.
        num_segments: the number of ids.

    Raises:
        DTypeError: the ids are not integers, or x holds bools or strings.
        ShapeError: the shape of the ids is not that of the first axes of x.
        ArgumentError: `num_segments` is not an integer.
        ArgumentValueError: `num_segments` is negative, or an id in a list does not fit int32.
        TensorIndexError: an id in an array does not fit int32.
    """
    op = "unsorted_segment_sum"
    count = check_integer(num_segments, op, "num_segments", least=0)
    x = as_tensor(x, op, backend=first_backend(segment_ids))
    ids = as_positions(segment_ids, op, x.backend, "segment_ids")
    return indexing.unsorted_segment_sum(
        as_supported_dtype(x, indexing.unsorted_segment_sum, op), ids, num_segments=count
    )


# --- arguments ------------------------------------------------------------------------------------


def first_backend(*xs: TensorLike) -> Backend | None:
    """Return the backend of the first tensor in a list, or None; host values go to that backend."""
    for x in xs:
        if isinstance(x, Tensor):
            return x.backend
    return None


INDEX_DTYPES = equivalents(frozenset({int32, int64}))
"""The dtypes in which kernels take positions."""


def as_positions(
    indices: TensorLike, op: str, backend: Backend | None = None, argument_name: str = "indices"
) -> Tensor:
    """Return positions as a tensor of int32 or int64.

    Raises:
        DTypeError: they are not integers.
        TensorIndexError: a host value does not fit int32.
    """
    if isinstance(indices, Tensor) and indices.array.dtype in INDEX_DTYPES:
        return indices
    if not isinstance(indices, Tensor):
        values = host_positions(indices, op, argument_name)
        positions = values.astype(np.int32, copy=False)
        if positions is not values and not np.array_equal(positions, values):
            raise TensorIndexError(
                f"{op}: {argument_name} as large as {values.max()} do not fit int32"
            )
        return tensor_from_host(positions, backend or active_backend())
    if not indices.dtype.is_integer:
        raise _positions_dtype_error(indices.dtype, op, argument_name)
    return as_signed(indices)


def as_signed(x: Tensor) -> Tensor:
    """Cast integers to int32 or int64 without making any of them negative: too large ones are clamped.

    The largest unsigned ones become the largest signed one, which is no position of any axis either.
    """
    if x.dtype in (int32, int64):
        return x
    wide = int64 if int64 in x.backend.dtypes() else int32
    dtype = int32 if int32.info.max >= x.dtype.info.max else wide
    return cast(minimum(x, dtype.info.max) if dtype.info.max < x.dtype.info.max else x, dtype)


def as_checked_positions(
    indices: TensorLike, x: Tensor, axis: int, op: str, argument_name: str = "indices"
) -> Tensor:
    """Return positions along an axis of x; host values are checked.

    Raises:
        DTypeError: they are not integers.
        TensorIndexError: a host value is out of range.
    """
    if isinstance(indices, Tensor):
        return as_positions(indices, op, x.backend, argument_name)
    values = host_positions(indices, op, argument_name)
    check_positions_in_range(values, x.shape[axis], axis, op)
    dtype = position_dtype(x.shape[axis]).numpy
    return tensor_from_host(values.astype(dtype, copy=False), x.backend)


def as_coordinates(
    indices: TensorLike,
    shape: Shape,
    op: str,
    backend: Backend | None,
    argument_name: str = "indices",
    *,
    least_axes: int = 1,
) -> Tensor:
    """Return coordinates, which are along the last axis; host values are checked.

    Indices with fewer than `least_axes` axes are positions on the first axis of `shape`.

    Raises:
        DTypeError: they are not integers.
        TensorIndexError: a host value is out of range.
    """
    if isinstance(indices, Tensor):
        return as_positions(indices, op, backend, argument_name)
    values = host_positions(indices, op, argument_name)
    rows = values if values.ndim >= least_axes else values[..., None]
    for axis, size in enumerate(shape[: rows.shape[-1]] if rows.ndim else ()):
        check_positions_in_range(rows[..., axis], size, axis, op)
    return as_positions(values, op, backend, argument_name)


def host_positions(indices: TensorLike, op: str, argument_name: str = "indices") -> NDArray[Any]:
    """Return positions that are not a tensor as an array of integers; an empty list gives int32.

    Raises:
        DTypeError: they are not integers.
    """
    values = host_array(indices, op, argument_name)
    if values.dtype.kind not in "iu":
        if values.size or isinstance(indices, np.ndarray):
            raise _positions_dtype_error(as_dtype(values.dtype), op, argument_name)
        values = values.astype(np.int32)
    return values


def check_positions_in_range(values: NDArray[Any], size: int, axis: int, op: str) -> None:
    """Check that all positions are in ``[-size, size)``.

    Raises:
        TensorIndexError: one is not.
    """
    if values.size and not (-size <= values.min() and values.max() < size):
        wrong = values[(values < -size) | (values >= size)].flat[0]
        raise TensorIndexError(
            f"{op}: index {wrong} is out of range for axis {axis} of size {size}"
        )


def _positions_dtype_error(dtype: object, op: str, argument_name: str) -> DTypeError:
    """Return the DTypeError for positions that are not integers."""
    return DTypeError(
        f"{op}: {argument_name} are {dtype}; they must be integers, as after astype('int32')"
    )
