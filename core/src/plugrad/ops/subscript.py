"""``x[key]`` and ``x[key] = value`` by NumPy's rules, and the functions that build on them.

Integers, slices, ``...`` and None become one slice and one reshape. If the key has arrays, of
positions or of bools, the axes to which they apply are then merged into one, and one gather along it
takes the elements. An assignment goes the same way and back: one scatter replaces the elements, and
one update of the slice puts them into a copy of the tensor.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from plugrad.engine.results import alias, tensor_from_host
from plugrad.engine.transfer import copy_to_backend
from plugrad.errors import (
    ArgumentValueError,
    DTypeError,
    ShapeError,
    TensorIndexError,
    TracingError,
)
from plugrad.kernels import indexing, movement, scatter
from plugrad.ops.arguments import as_tensor
from plugrad.ops.assignment import cast_for_assignment
from plugrad.ops.attributes import as_list, check_integer
from plugrad.ops.binary import greater_equal, less, logical_and, where
from plugrad.ops.indexing import INDEX_DTYPES, first_backend, gather_along_axis
from plugrad.ops.keys import (
    SCALAR_KEY_TYPES,
    ArrayKey,
    ArrayKeyAxes,
    BasicSlice,
    are_adjacent,
    basic_slice,
    check_mask,
    expand_ellipsis,
    hashable_key,
    host_values_if_ready,
    parse_key,
)
from plugrad.tensor.context import transfer_target
from plugrad.tensor.tensor import Tensor, TensorLike
from plugrad.tensor.tracer import Tracer
from plugrad.types.arguments import explain_wrong_calls
from plugrad.types.dtype import as_dtype, bool_
from plugrad.types.shapes import broadcast, broadcasts_to, count_elements, normalize_axis
from plugrad.types.specs import Shaped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from plugrad.contract.kernel import Kernel, ValidatedAttributes
    from plugrad.tensor.backend import Backend
    from plugrad.types.specs import Shape

_KernelCallSequence: TypeAlias = "tuple[tuple[Kernel[..., Tensor], dict[str, Any]], ...]"
"""Kernels with the attributes of their calls; each takes the result of the one before."""


def index_tensor(x: Tensor, key: Any) -> Tensor:
    """The elements ``x[key]`` for integers, slices, ``...``, None (a new axis), and arrays of integers or bools.

    >>> x = plugrad.arange(12).reshape(3, 4)
    >>> x[1:, -1], x[[0, 2], [1, -1]], x[x > 8]
    (tensor([ 7, 11], dtype=int32), tensor([ 1, 11], dtype=int32), tensor([ 9, 10, 11], dtype=int32))

    Arrays of integers broadcast together. Their common axes come at the place of the first array, or
    in front of all others if a slice, ``...`` or None is between two arrays; an integer in a key with
    arrays counts as an array. An array of bools picks the elements where it is True. Their number
    depends on its values, which are copied to the host.

    Positions in a tensor on a device other than the cpu are not checked: one out of range gives zeros.

    Raises:
        TensorIndexError: an index is out of range, of another kind or of the wrong shape, or there
            are more indices than axes.
        ArgumentValueError: a slice has a step of 0.
        DTypeError: an array holds neither integers nor bools.
    """
    array = x.array
    shape = array.shape
    if type(key) in SCALAR_KEY_TYPES:  # most keys
        calls = _cached_kernel_calls(shape, array.dtype, (key,))
        return _run_kernel_calls(x, calls) if calls else alias(x)
    if (
        isinstance(key, Tensor)
        and key.array.dtype in INDEX_DTYPES
        and shape
        and not transfer_target()
    ):
        return gather_along_axis(x, key, 0, 0)  # the rows of a table
    parts = cast("tuple[Any, ...]", key) if type(key) is tuple else (key,)
    if (plain := hashable_key(parts)) is not None:
        calls = _cached_kernel_calls(shape, array.dtype, plain)
    else:
        parts = parse_key(key)
        block = basic_slice(shape, expand_ellipsis(shape, parts))
        calls = _kernel_calls_of_slice(shape, block)
        if block.array_axes:
            return _gather_at_array_keys(
                _run_kernel_calls(x, calls), block.array_axes, are_adjacent(parts)
            )
    return _run_kernel_calls(x, calls) if calls else alias(x)


def assign_elements(x: Tensor, key: Any, value: Any) -> None:
    """Replace the elements ``x[key]`` by a value that broadcasts to their shape.

    >>> x = plugrad.zeros((2, 3))
    >>> x[:, 1] = [5, 7]
    >>> x[x > 6] = -1.0
    >>> x
    tensor([[ 0.,  5.,  0.],
            [ 0., -1.,  0.]], dtype=float32)

    A key is as for reading. Of several values for one element, the last one counts. Only x itself
    changes: it gets a new array, and tensors that were made from x before keep the old values.
    Gradients flow to the elements that stay and to the value.

    Shape, dtype and device stay the same. Python's numbers, also those in lists, take the dtype of
    x if it can hold numbers of their kind.

    Positions in a tensor on a device other than the cpu are not checked: one out of range assigns
    nothing.

    Raises:
        TensorIndexError, ArgumentValueError: the key is wrong; see `index_tensor`.
        ShapeError: the value does not broadcast to the shape of ``x[key]``.
        DTypeError: the dtype of x does not hold the value.
        ArgumentValueError: a number of the value is too large for the dtype of x.
        DisposedTensor: x or the value has been disposed.
        BackendMismatch: x and the value live on different backends.
    """
    y = with_assigned_elements(x, key, value)
    if y.backend is not x.backend and isinstance(y.backend, Tracer):
        raise TracingError(
            f"x[key] = value: x, of shape {x.shape}, was made outside the function that is being traced, which cannot "
            "change it; change a copy, as in y = +x, or use a plugrad.Variable"
        )
    y = copy_to_backend(y, x.backend)  # they differ in a block that transfers
    x.array = y.array
    x.node = y.node


def with_assigned_elements(x: Tensor, key: Any, value: Any) -> Tensor:
    """Return x with its elements ``x[key]`` replaced; see `assign_elements`."""
    shape = x.array.shape
    parts = cast("tuple[Any, ...]", key) if type(key) is tuple else (key,)
    if (plain := hashable_key(parts)) is not None:
        block = _cached_basic_slice(shape, plain)
        new = cast_for_assignment(value, x, "item assignment", "the values")
    else:
        parts = parse_key(key)
        full = expand_ellipsis(shape, parts)
        new = cast_for_assignment(value, x, "item assignment", "the values")
        result = _assign_by_mask(x, full, new)
        if result is not None:
            return result
        block = basic_slice(shape, full)
    if block.array_axes:
        y = _run_kernel_calls(x, _kernel_calls_of_slice(x.shape, block))
        new = _scatter_at_array_keys(y, block.array_axes, are_adjacent(parts), new)
        if new is y or y is x:
            return x if new is y else new
    else:
        new = _drop_leading_ones(new, block.shape)
    if 0 in block.sizes:
        return x
    sizes = given = new.array.shape
    if given != block.sizes:
        padded = (1,) * (len(block.shape) - len(given)) + given
        sizes = tuple([1 if axis is None else padded[axis] for axis in block.result_axes])
        if sizes != given:
            new = movement.reshape(new, shape=sizes)
    attrs = _update_attributes(shape, x.array.dtype, sizes, block.begin, block.end, block.strides)
    return movement.strided_slice_update.call(x, new, attrs)


@lru_cache(maxsize=1024)
def _update_attributes(
    shape: Shape, dtype: object, update_shape: Shape, begin: Shape, end: Shape, strides: Shape
) -> ValidatedAttributes:
    """Return the validated attributes of `strided_slice_update` for a tensor and an update of these shapes."""
    x, new = (Shaped(each, as_dtype(dtype)) for each in (shape, update_shape))
    return movement.strided_slice_update.validate_attributes(
        x, new, begin=begin, end=end, strides=strides
    )


@explain_wrong_calls
def boolean_mask(x: TensorLike, mask: TensorLike, axis: int = 0) -> Tensor:
    """The slices of x where a mask is True, along one axis that replaces those of the mask.

    >>> plugrad.boolean_mask([[1, 2], [3, 4], [5, 6]], [True, False, True])
    tensor([[1, 2],
            [5, 6]], dtype=int32)
    >>> plugrad.boolean_mask([[1, 2], [3, 4]], [[True, False], [True, True]])
    tensor([1, 3, 4], dtype=int32)

    The mask has the sizes of the axes of x from `axis` on. The size of the result depends on its
    values, which are copied to the host. ``x[mask]`` is the same for the first axes.

    Raises:
        DTypeError: the mask is not bool.
        ShapeError: the mask has no axes.
        AxisError: the axis is out of range.
        TensorIndexError: the mask does not fit the axes of x.
    """
    x = as_tensor(x, "boolean_mask", backend=first_backend(mask))
    mask = as_tensor(mask, "boolean_mask", "mask", backend=x.backend)
    if mask.dtype is not bool_:
        raise DTypeError(f"boolean_mask: mask is {mask.dtype}; it must be bool, such as x > 0")
    if not mask.ndim:
        raise ShapeError("boolean_mask: mask is 0-d; it must have at least one axis")
    first = normalize_axis(axis, x.ndim, name="boolean_mask: axis")
    return _index_tensor(x, (slice(None),) * first + (mask,), "boolean_mask")


@explain_wrong_calls
def strided_slice(
    x: TensorLike,
    begin: Sequence[int],
    end: Sequence[int],
    strides: Sequence[int] | None = None,
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
) -> Tensor:
    """The elements ``x[begin:end:stride, …]``, with indices as TensorFlow writes them.

    >>> plugrad.strided_slice([10, 11, 12, 13, 14], [1], [5], [2])
    tensor([11, 13], dtype=int32)

    Bit i of a mask applies to the i-th numbers of `begin`, `end` and `strides`. Where several masks
    have the same bit, the ellipsis wins over the new axis, and this over the shrunk axis.

    Args:
        x: the tensor.
        begin: the first position on each axis.
        end: the position before which to stop on each axis.
        strides: the steps, 1 by default; they may be negative.
        begin_mask: start at the first position instead, as in ``x[:end]``.
        end_mask: stop after the last position instead, as in ``x[begin:]``.
        ellipsis_mask: insert as many full axes as are needed, as in ``x[...]``.
        new_axis_mask: insert an axis of size 1, as in ``x[None]``.
        shrink_axis_mask: take the one position `begin`, as in ``x[begin]``; the axis disappears.

    Raises:
        TensorIndexError: a single position is out of range, there are two ellipses, or more
            indices than axes.
        ArgumentError: `begin`, `end` or `strides` is not a sequence of integers, or a mask not an
            integer.
        ArgumentValueError: the lists differ in length, or a stride is 0, or negative where one
            position is taken.
    """
    op = "strided_slice"
    x = as_tensor(x, op)
    firsts = [check_integer(n, op, "begin") for n in as_list(begin, op, "begin")]
    lasts = [check_integer(n, op, "end") for n in as_list(end, op, "end")]
    steps = [1] * len(firsts)
    if strides is not None:
        steps = [check_integer(n, op, "strides") for n in as_list(strides, op, "strides")]
    begin_mask = check_integer(begin_mask, op, "begin_mask")
    end_mask = check_integer(end_mask, op, "end_mask")
    ellipsis_mask = check_integer(ellipsis_mask, op, "ellipsis_mask")
    new_axis_mask = check_integer(new_axis_mask, op, "new_axis_mask")
    shrink_axis_mask = check_integer(shrink_axis_mask, op, "shrink_axis_mask")
    if not len(firsts) == len(lasts) == len(steps) or 0 in steps:
        raise ArgumentValueError(
            f"strided_slice: begin={begin}, end={end} and strides={strides} must have one length, and "
            "no stride may be 0"
        )
    if ellipsis_mask.bit_count() > 1:
        raise TensorIndexError(
            f"strided_slice: ellipsis_mask={ellipsis_mask} has several bits; there may be only one ellipsis"
        )
    key: list[Any] = []
    for i, (first, last, step) in enumerate(zip(firsts, lasts, steps, strict=True)):
        if ellipsis_mask >> i & 1:
            key.append(Ellipsis)
        elif new_axis_mask >> i & 1:
            key.append(None)
        elif shrink_axis_mask >> i & 1:
            if step < 0:
                raise ArgumentValueError(
                    f"strided_slice: strides[{i}]={step} must be positive, because one position is taken"
                )
            key.append(first)
        else:
            start = None if begin_mask >> i & 1 else first
            stop = None if end_mask >> i & 1 else last
            key.append(slice(start, stop, step))
    return _index_tensor(x, tuple(key), op)


def _index_tensor(x: Tensor, key: tuple[Any, ...], op: str) -> Tensor:
    """Return ``x[key]``; an error names the op."""
    try:
        return index_tensor(x, key)
    except TensorIndexError as error:
        raise TensorIndexError(f"{op}: {error}") from None


# --- taking elements ------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def _cached_kernel_calls(
    shape: Shape, dtype: object, key_parts: tuple[Any, ...]
) -> _KernelCallSequence:
    """Return the kernel calls that a hashable key needs for a tensor of this shape and dtype, from a cache."""
    calls: list[Any] = []
    x = Shaped(shape, as_dtype(dtype))
    for kernel, attrs in _kernel_calls_of_slice(shape, _cached_basic_slice(shape, key_parts)):
        calls.append((kernel, kernel.validate_attributes(x, **attrs)))
        x = kernel.infer(x, **attrs)
    return tuple(calls)


@lru_cache(maxsize=1024)
def _cached_basic_slice(shape: Shape, key_parts: tuple[Any, ...]) -> BasicSlice:
    """Return the slice that a hashable key selects, from a cache."""
    key_parts = tuple([slice(*part) if type(part) is tuple else part for part in key_parts])
    return basic_slice(shape, expand_ellipsis(shape, key_parts))


def _kernel_calls_of_slice(shape: Shape, key_slice: BasicSlice) -> _KernelCallSequence:
    """Return the kernel calls that take a basic slice and give it its final shape: at most two."""
    begin, end, strides, sizes, taken, kept = key_slice[:6]
    calls: list[tuple[Kernel[..., Tensor], dict[str, Any]]] = []
    if strides.count(1) < len(strides):
        calls.append((movement.strided_slice, {"begin": begin, "end": end, "strides": strides}))
    elif sizes != shape:
        if 0 in sizes:  # an empty slice may begin behind the last element
            begin = tuple([b if n else 0 for b, n in zip(begin, sizes, strict=True)])
        drop = tuple([axis for axis, new in enumerate(kept) if new is None])
        if len(taken) != len(sizes) - len(drop):  # there are new axes
            drop = ()
        calls.append((movement.slice, {"begin": begin, "size": sizes, "drop": drop}))
        sizes = sizes if not drop else taken
    if sizes != taken:
        calls.append((movement.reshape, {"shape": taken}))
    return tuple(calls)


def _run_kernel_calls(x: Tensor, calls: _KernelCallSequence) -> Tensor:
    """Return the result of the last call; each call takes the result of the one before."""
    for kernel, attrs in calls:
        x = kernel.call(x, attrs)
    return x


def _gather_at_array_keys(x: Tensor, array_keys: list[ArrayKeyAxes], is_adjacent: bool) -> Tensor:
    """Gather the elements that array keys select; `is_adjacent` says whether they are neighbours in the key."""
    axes = _axes_of_array_keys(array_keys)
    first = array_keys[0].first_axis if is_adjacent else 0
    if axes != list(range(first, first + len(axes))):
        x = movement.transpose(x, perm=_axes_to_front(axes, x.ndim))
    end = first + len(axes)
    size = count_elements(x.shape[first:end])
    if len(axes) != 1:
        x = movement.reshape(x, shape=(*x.shape[:first], size, *x.shape[end:]))
    return indexing.gather(
        x, _flatten_array_indices(array_keys, size, x.backend), axis=first, batch_dims=0
    )


def _axes_of_array_keys(array_keys: list[ArrayKeyAxes]) -> list[int]:
    """Return all axes to which the arrays in a key apply."""
    return [
        axis
        for place in array_keys
        for axis in range(place.first_axis, place.first_axis + place.axis_count)
    ]


def _axes_to_front(axes: Sequence[int], ndim: int) -> tuple[int, ...]:
    """Return the permutation that moves axes to the front."""
    return (*axes, *[axis for axis in range(ndim) if axis not in axes])


def _flatten_array_indices(
    array_keys: list[ArrayKeyAxes], merged_size: int, backend: Backend
) -> Tensor:
    """Return the selected positions along the merged axis, which has `merged_size` elements."""
    positions = (
        array_keys[0].positions
        if len(array_keys) == 1
        else _combine_positions(array_keys, merged_size, backend)
    )
    return (
        positions
        if isinstance(positions, Tensor)
        else _as_positions_tensor(positions, merged_size, backend)
    )


def _combine_positions(
    array_keys: list[ArrayKeyAxes], merged_size: int, backend: Backend
) -> Tensor:
    """Combine the positions of several array keys into positions along the merged axis."""
    try:
        broadcast(*[place.positions.shape for place in array_keys])
    except ShapeError as error:
        raise TensorIndexError(f"the arrays of an index: {error}") from None
    on_host: NDArray[Any] = np.zeros((), np.int64)
    on_device: list[Tensor] = []
    stride = merged_size
    for place in array_keys:
        positions = place.positions
        stride //= max(place.size, 1)
        if isinstance(positions, Tensor) and positions.backend is backend:
            positions = host_values_if_ready(positions)
        if isinstance(positions, Tensor):
            on_device.append(_axis_offsets(positions, place.size, stride, merged_size))
        else:
            values = positions.astype(np.int64)
            on_host = on_host + np.where(values < 0, values + place.size, values) * stride
    combined = _as_positions_tensor(on_host, merged_size, backend)
    for steps in on_device:
        combined = combined + steps
    return combined


def _axis_offsets(
    positions: Tensor, axis_size: int, stride: int, out_of_range_offset: int
) -> Tensor:
    """Return positions on one axis as offsets along the merged axis; those out of range get their own offset."""
    from_front = where(less(positions, 0), positions + axis_size, positions)
    is_inside = logical_and(greater_equal(from_front, 0), less(from_front, axis_size))
    return where(is_inside, from_front * stride, out_of_range_offset)


def _as_positions_tensor(positions: NDArray[Any], axis_size: int, backend: Backend) -> Tensor:
    """Return positions on an axis of a given size as a tensor."""
    return tensor_from_host(positions.astype(np.int32 if axis_size < 2**31 else np.int64), backend)


# --- replacing elements ---------------------------------------------------------------------------


def _assign_by_mask(x: Tensor, key_parts: tuple[Any, ...], value: Tensor) -> Tensor | None:
    """Assign a value where a mask is True by `where`; return None if the value does not broadcast to x.

    It does not if the mask is the whole key and its elements do not have values of their own. Nothing
    has to be known then about the mask, which may still be computed.
    """
    arrays = [part for part in key_parts if type(part) is ArrayKey]
    if len(arrays) != 1 or not arrays[0].is_mask:
        return None
    mask = arrays[0]
    if any(part != slice(None) for part in key_parts if part is not mask):
        return None
    axis = next(i for i, part in enumerate(key_parts) if part is mask)
    rest = x.shape[axis + mask.axis_count :]
    own = value.ndim - len(rest) - 1
    if own >= 0 and value.shape[own] != 1:
        return None
    check_mask(mask, x.shape, axis)
    if not count_elements(mask.values.shape):
        return None
    shape = (
        value.shape
        if own < 0
        else (*value.shape[:own], *(1,) * mask.axis_count, *value.shape[own + 1 :])
    )
    new = _drop_leading_ones(movement.reshape(value, shape=shape), x.shape)
    here = (
        mask.values if isinstance(mask.values, Tensor) else tensor_from_host(mask.values, x.backend)
    )
    return where(movement.reshape(here, shape=mask.values.shape + (1,) * len(rest)), new, x)


def _scatter_at_array_keys(
    x: Tensor, array_keys: list[ArrayKeyAxes], is_adjacent: bool, value: Tensor
) -> Tensor:
    """Assign a value where array keys select, or return x itself if they select none; see `_gather_at_array_keys`."""
    axes = _axes_of_array_keys(array_keys)
    order = _axes_to_front(axes, x.ndim)
    sizes = tuple([x.shape[axis] for axis in order])
    merged, rest = count_elements(sizes[: len(axes)]), sizes[len(axes) :]
    positions = _flatten_array_indices(array_keys, merged, x.backend)
    first = array_keys[0].first_axis if is_adjacent else 0
    new = _drop_leading_ones(value, (*rest[:first], *positions.shape, *rest[first:]))
    count = positions.size
    if not count or not x.size:
        return x
    new = movement.broadcast_to(new, shape=(*rest[:first], *positions.shape, *rest[first:]))
    if first:
        picked = range(first, first + positions.ndim)
        new = movement.transpose(new, perm=_axes_to_front(picked, new.ndim))
    is_turned = order != tuple(range(x.ndim))
    y = movement.transpose(x, perm=order) if is_turned else x
    y = scatter.tensor_scatter_update(
        movement.reshape(y, shape=(merged, *rest)),
        movement.reshape(positions, shape=(count, 1)),
        movement.reshape(new, shape=(count, *rest)),
    )
    y = movement.reshape(y, shape=sizes)
    return movement.transpose(y, perm=tuple(map(order.index, range(x.ndim)))) if is_turned else y


def _drop_leading_ones(value: Tensor, shape: Shape) -> Tensor:
    """Drop leading axes of size 1 that a value has beyond the rank of a shape.

    Raises:
        ShapeError: it does not broadcast.
    """
    given = value.array.shape
    if given == shape:  # as mostly
        return value
    extra = max(len(given) - len(shape), 0)
    if given[:extra] == (1,) * extra and broadcasts_to(given[extra:], shape):
        return movement.reshape(value, shape=given[extra:]) if extra else value
    raise ShapeError(
        f"item assignment: the value has shape {value.shape}, which does not broadcast to {shape}, the shape "
        "of the elements that it replaces"
    )
