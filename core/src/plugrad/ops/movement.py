"""Functions that move elements without computing. Results keep the dtype and the backend of x."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from numbers import Complex
from typing import TYPE_CHECKING

from plugrad.engine.results import alias
from plugrad.errors import ArgumentValueError, AxisError, ShapeError, short_repr
from plugrad.kernels import movement
from plugrad.ops.arguments import (
    as_tensor,
    checked_attributes,
    host_array,
    promote_to_one_dtype,
    with_attributes,
)
from plugrad.ops.attributes import as_list, check_flag, check_integer, is_sequence, to_list
from plugrad.ops.axes import axis_attributes, normalize_kernel_axis, run_along_axis
from plugrad.tensor.tensor import Tensor
from plugrad.types.arguments import explain_wrong_calls
from plugrad.types.dtype import as_dtype, string
from plugrad.types.shapes import (
    INT_TYPE,
    as_shape,
    as_sizes,
    broadcast,
    normalize_axes,
    normalize_axis,
    reduced_shape,
    resolve_shape,
)
from plugrad.types.specs import Shaped
from plugrad.types.windows import Pairs, as_pairs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plugrad.contract.kernel import Kernel, ValidatedAttributes
    from plugrad.tensor.tensor import TensorLike
    from plugrad.types.dtype import Scalar
    from plugrad.types.specs import AxisLike, Shape, ShapeLike


def reshape(x: TensorLike, shape: ShapeLike, *, copy: bool | None = None) -> Tensor:
    """The same elements, in row-major order, in another shape.

    >>> plugrad.reshape(plugrad.arange(6), (2, -1))
    tensor([[0, 1, 2],
            [3, 4, 5]], dtype=int32)

    Args:
        x: the tensor.
        shape: the new shape; one size may be -1 and is inferred.
        copy: has no effect: an assignment to a tensor never changes another one, so a copy and a view
            behave alike, and the backend chooses.

    Raises:
        ShapeError: the shape holds another number of elements, or is not a shape.
        ArgumentError: `copy` is neither a bool nor None.
    """
    x = as_tensor(x, "reshape")
    if copy is not None:
        check_flag(copy, "reshape", "copy")
    array = x.array
    sizes = (shape,) if type(shape) is int else as_sizes(shape, name="reshape: shape")
    return movement.reshape.call(x, _reshape_attributes(array.shape, array.dtype, sizes))


@lru_cache(maxsize=1024)
def _reshape_attributes(shape: Shape, dtype: object, sizes: Shape) -> ValidatedAttributes:
    """Return the validated attributes of `reshape` for a tensor of this shape and dtype."""
    whole = resolve_shape(sizes, prod(shape), name="reshape: shape")
    return movement.reshape.validate_attributes(Shaped(shape, as_dtype(dtype)), shape=whole)


@explain_wrong_calls
def permute_dims(x: TensorLike, axes: Sequence[int] | None = None) -> Tensor:
    """The tensor with its axes in another order: axis i of the result is axis ``axes[i]`` of x.

    >>> plugrad.permute_dims([[1, 2, 3], [4, 5, 6]], (1, 0))
    tensor([[1, 4],
            [2, 5],
            [3, 6]], dtype=int32)

    Without `axes` their order is reversed.

    Raises:
        AxisError: `axes` does not name each axis once.
        ArgumentError: `axes` is not a sequence.
    """
    x = as_tensor(x, "permute_dims")
    array = x.array
    if axes is not None and not (type(axes) is tuple and INT_TYPE.issuperset(map(type, axes))):
        rank = len(array.shape)
        given = as_list(axes, "permute_dims", "axes")
        axes = tuple([normalize_axis(a, rank, name="permute_dims: axes") for a in given])
    return movement.transpose.call(x, transpose_attributes(array.shape, array.dtype, axes))


@lru_cache(maxsize=1024)
def transpose_attributes(shape: Shape, dtype: object, axes: Shape | None) -> ValidatedAttributes:
    """Return the validated attributes of a transposition to an order of axes; None reverses it."""
    rank = len(shape)
    given = range(rank)[::-1] if axes is None else axes
    order = tuple([normalize_axis(a, rank, name="permute_dims: axes") for a in given])
    return movement.transpose.validate_attributes(Shaped(shape, as_dtype(dtype)), perm=order)


def moveaxis(
    x: TensorLike, source: int | Sequence[int], destination: int | Sequence[int]
) -> Tensor:
    """The tensor with some axes at other positions; the other axes keep their order.

    >>> plugrad.moveaxis(plugrad.zeros((2, 3, 4)), 0, -1).shape
    (3, 4, 2)

    Args:
        x: the tensor.
        source: the axes to move.
        destination: the position of each of them in the result.

    Raises:
        AxisError: an axis is out of range or named twice, or `source` and `destination` differ in
            length.
    """
    x = as_tensor(x, "moveaxis")
    sources = [normalize_axis(a, x.ndim, name="moveaxis: source") for a in to_list(source)]
    places = [normalize_axis(a, x.ndim, name="moveaxis: destination") for a in to_list(destination)]
    if (
        len(sources) != len(places)
        or len(set(sources)) != len(sources)
        or len(set(places)) != len(places)
    ):
        raise AxisError(
            f"moveaxis: source={source} and destination={destination} must name equally many axes, "
            "and none twice"
        )
    order = [axis for axis in range(x.ndim) if axis not in sources]
    for place, axis in sorted(zip(places, sources, strict=True)):
        order.insert(place, axis)
    return with_attributes(movement.transpose, x, perm=tuple(order))


@explain_wrong_calls
def expand_dims(x: TensorLike, axis: int = 0) -> Tensor:
    """The tensor with a new axis of size 1, which is `axis` of the result.

    >>> plugrad.expand_dims([1, 2], axis=1).shape
    (2, 1)

    Raises:
        AxisError: the axis is out of range for the axes of the result.
    """
    x = as_tensor(x, "expand_dims")
    return run_along_axis(movement.expand_dims, x, "expand_dims", axis)


@explain_wrong_calls
def squeeze(x: TensorLike, axis: AxisLike = None) -> Tensor:
    """The tensor without axes of size 1: without the given ones, or all of them.

    >>> plugrad.squeeze([[[1], [2]]], axis=0).shape
    (2, 1)

    Raises:
        AxisError: an axis is out of range or named twice.
        ShapeError: a given axis does not have size 1.
    """
    x = as_tensor(x, "squeeze")
    array = x.array
    if axis is not None and type(axis) is not int:
        axis = normalize_axes(axis, len(array.shape), name="squeeze: axis")
    return movement.reshape.call(x, _squeeze_attributes(array.shape, array.dtype, axis))


@lru_cache(maxsize=1024)
def _squeeze_attributes(
    shape: Shape, dtype: object, axis: int | Shape | None
) -> ValidatedAttributes:
    """Return the validated attributes of the reshape that drops axes; None drops all of size 1."""
    if axis is None:
        axes = tuple([i for i, n in enumerate(shape) if n == 1])
    else:
        axes = normalize_axes(axis, len(shape), name="squeeze: axis")
    if [shape[i] for i in axes if shape[i] != 1]:
        raise ShapeError(f"squeeze: axis={axis} must have size 1 in shape {shape}")
    kept = reduced_shape(shape, axes, keep_dims=False)
    return movement.reshape.validate_attributes(Shaped(shape, as_dtype(dtype)), shape=kept)


def broadcast_to(x: TensorLike, shape: ShapeLike) -> Tensor:
    """The tensor repeated along missing axes, in front, and along axes of size 1, until it has the shape.

    >>> plugrad.broadcast_to([1, 2], (2, 2))
    tensor([[1, 2],
            [1, 2]], dtype=int32)

    Raises:
        ShapeError: x does not broadcast to the shape, or that is not a shape.
    """
    x = as_tensor(x, "broadcast_to")
    array = x.array
    sizes = (shape,) if type(shape) is int else as_sizes(shape, name="broadcast_to: shape")
    attrs = _broadcast_attributes(array.shape, array.dtype, sizes)
    return movement.broadcast_to.call(x, attrs)


@lru_cache(maxsize=1024)
def _broadcast_attributes(shape: Shape, dtype: object, sizes: Shape) -> ValidatedAttributes:
    """Return the validated attributes of `broadcast_to` for a tensor of this shape and dtype."""
    whole = as_shape(sizes, name="broadcast_to: shape")
    return movement.broadcast_to.validate_attributes(Shaped(shape, as_dtype(dtype)), shape=whole)


def broadcast_arrays(*arrays: TensorLike) -> list[Tensor]:
    """The tensors, each repeated to the one shape to which all broadcast; each keeps its dtype.

    >>> plugrad.broadcast_arrays([1, 2], [[3], [4]])
    [tensor([[1, 2],
            [1, 2]], dtype=int32), tensor([[3, 3],
            [4, 4]], dtype=int32)]

    Raises:
        ShapeError: the shapes do not broadcast together.
    """
    home = next((x.backend for x in arrays if isinstance(x, Tensor)), None)
    given = [
        as_tensor(x, "broadcast_arrays", f"array {i}", backend=home) for i, x in enumerate(arrays)
    ]
    shape = broadcast(*(x.shape for x in given))
    return [movement.broadcast_to(x, shape=shape) for x in given]


def broadcast_shapes(*shapes: ShapeLike) -> Shape:
    """The shape to which shapes broadcast, as a tuple.

    >>> plugrad.broadcast_shapes((2, 1, 3), (4, 1))
    (2, 4, 3)

    Raises:
        ShapeError: the shapes do not broadcast together, or an argument is not a shape.
    """
    return broadcast(*(as_shape(shape, name="broadcast_shapes: shape") for shape in shapes))


def ensure_shape(x: TensorLike, shape: Sequence[int | None]) -> Tensor:
    """The tensor itself, after a check of its shape, in which None stands for any size.

    >>> plugrad.ensure_shape([[1, 2, 3]], (None, 3))
    tensor([[1, 2, 3]], dtype=int32)

    Gradients pass unchanged.

    Raises:
        ShapeError: x has another shape.
        ArgumentError: `shape` is not a sequence of integers and None.
    """
    x = as_tensor(x, "ensure_shape")
    wanted = tuple(
        n if n is None else check_integer(n, "ensure_shape", "shape")
        for n in as_list(shape, "ensure_shape", "shape")
    )
    if len(wanted) != x.ndim or any(
        n is not None and n != have for n, have in zip(wanted, x.shape, strict=True)
    ):
        raise ShapeError(f"ensure_shape: x has shape {x.shape}; it must match {short_repr(wanted)}")
    return alias(x)


@explain_wrong_calls
def concat(arrays: Sequence[TensorLike], *, axis: int | None = 0) -> Tensor:
    """The tensors joined along an axis; with ``axis=None`` they are flattened first.

    >>> plugrad.concat([[1, 2], [3]])
    tensor([1, 2, 3], dtype=int32)

    The dtype is the one to which the tensors promote.

    Raises:
        ArgumentError: `arrays` is not a sequence.
        ArgumentValueError: `arrays` is empty.
        AxisError: the axis is out of range.
        DTypeError: the tensors have no common dtype.
        ShapeError: the shapes differ in another axis.
    """
    parts = promote_to_one_dtype(as_list(arrays, "concat", "arrays"), "concat")
    if axis is None:
        parts = [movement.reshape(x, shape=(x.size,)) for x in parts]
        axis = 0
    return run_join(movement.concat, parts, axis, "concat")


@explain_wrong_calls
def stack(arrays: Sequence[TensorLike], *, axis: int = 0) -> Tensor:
    """The tensors, all of one shape, joined along a new axis, which is `axis` of the result.

    >>> plugrad.stack([[1, 2], [3, 4]], axis=1)
    tensor([[1, 3],
            [2, 4]], dtype=int32)

    The dtype is the one to which the tensors promote.

    Raises:
        ArgumentError: `arrays` is not a sequence.
        ArgumentValueError: `arrays` is empty.
        AxisError: the axis is out of range for the axes of the result.
        DTypeError: the tensors have no common dtype.
        ShapeError: the shapes differ.
    """
    parts = promote_to_one_dtype(as_list(arrays, "stack", "arrays"), "stack")
    return run_join(movement.pack, parts, axis, "stack")


def run_join(kernel: Kernel[..., Tensor], tensors: list[Tensor], axis: int, op: str) -> Tensor:
    """Run a kernel that joins tensors of one dtype along an axis.

    Raises:
        AxisError: the axis is out of range; the message begins with `op`.
    """
    first = tensors[0].array
    shape = first.shape
    # True and 1.0 would be found in the cache, as 1
    attributes = _join_attributes if type(axis) is int else _join_attributes.__wrapped__
    for x in tensors:
        if x.array.shape != shape:
            shapes = tuple([x.array.shape for x in tensors])
            attrs = attributes(kernel, shapes, 1, first.dtype, axis, op)
            break
    else:
        attrs = attributes(kernel, (shape,), len(tensors), first.dtype, axis, op)
    return kernel.call(tensors, attrs)


@lru_cache(maxsize=1024)
def _join_attributes(
    kernel: Kernel[..., Tensor],
    shapes: tuple[Shape, ...],
    repetitions: int,
    dtype: object,
    axis: int,
    op: str,
) -> ValidatedAttributes:
    """Return the validated attributes of a join of tensors of one dtype and these shapes, all repeated."""
    place = normalize_kernel_axis(kernel, len(shapes[0]), axis, op)
    return kernel.validate_attributes(
        *[Shaped(shape, as_dtype(dtype)) for shape in shapes * repetitions], axis=place
    )


@explain_wrong_calls
def unstack(x: TensorLike, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The parts of a tensor along an axis, which disappears.

    >>> plugrad.unstack([[1, 2], [3, 4]])
    (tensor([1, 2], dtype=int32), tensor([3, 4], dtype=int32))

    Raises:
        AxisError: the axis is out of range.
    """
    x = as_tensor(x, "unstack")
    array = x.array
    attrs = axis_attributes(movement.unpack, "unstack", array.shape, array.dtype, axis)
    return tuple(movement.unpack.call(x, attrs))


@explain_wrong_calls
def split(x: TensorLike, sizes: ShapeLike, axis: int = 0) -> tuple[Tensor, ...]:
    """The parts of a tensor that is cut along an axis, in equal parts or in parts of given sizes.

    >>> plugrad.split([1, 2, 3, 4], [1, 3])
    (tensor([1], dtype=int32), tensor([2, 3, 4], dtype=int32))

    Args:
        x: the tensor.
        sizes: the number of equal parts, or a list of the sizes of the parts, of which one may be -1
            and is inferred.
        axis: the axis to cut, which remains in the parts.

    Raises:
        ArgumentError: a size is not an integer.
        ArgumentValueError: the number of parts is less than 1, or does not divide the axis.
        AxisError: the axis is out of range.
        ShapeError: the sizes do not add up to the axis, or more than one is -1.
    """
    x = as_tensor(x, "split")
    shape = x.array.shape
    axis = normalize_axis(axis, len(shape), name="split: axis")
    length = shape[axis]
    if type(sizes) is int and sizes > 0 and not length % sizes:  # what programs mostly do
        return tuple(split_by_sizes(x, (length // sizes,) * sizes, axis))
    if is_sequence(sizes):
        parts = [check_integer(n, "split", "sizes") for n in to_list(sizes)]
        if parts.count(-1) > 1:
            raise ShapeError(
                f"split: sizes={tuple(parts)} has more than one -1; only one size can be inferred"
            )
    else:
        count = check_integer(sizes, "split", "sizes", least=1)
        if length % count:
            raise ArgumentValueError(
                f"split: sizes={count} equal parts do not fit axis {axis} of shape {x.shape}: {count} "
                f"does not divide {length}; give the sizes of the parts instead"
            )
        parts = [length // count] * count
    known = sum(n for n in parts if n >= 0)
    if parts.count(-1) == 1:
        parts = [length - known if n == -1 else n for n in parts]
    return tuple(split_by_sizes(x, tuple(parts), axis))


def split_by_sizes(x: Tensor, sizes: Shape, axis: int) -> list[Tensor]:
    """Split a tensor along an axis into consecutive parts of the given sizes."""
    array = x.array
    attrs = checked_attributes(
        movement.split, array.shape, array.dtype, num_or_size_splits=sizes, axis=axis
    )
    return movement.split.call(x, attrs)


def slice(x: TensorLike, begin: ShapeLike, size: ShapeLike | None = None) -> Tensor:
    """The block of x that starts at `begin`: ``x[begin : begin + size]`` on each axis.

    >>> plugrad.slice([[1, 2, 3], [4, 5, 6]], (0, 1), (-1, 2))
    tensor([[2, 3],
            [5, 6]], dtype=int32)

    Here this is the same as ``x[:, 1:3]``.

    Args:
        x: the tensor.
        begin: the first position on each axis, 0 or more; axes without one, at the end, start at 0.
        size: the number of elements on each axis; -1, and axes without one, reach the end.

    Raises:
        ArgumentError: a number is not an integer.
        ShapeError: the block leaves the tensor, a begin is negative, or there are more numbers than
            axes.
    """
    x = as_tensor(x, "slice")
    begins = _extend_to_axes("begin", begin, 0, x)
    lengths = _extend_to_axes("size", [] if size is None else size, -1, x)
    sizes = [
        n - first if length == -1 else length
        for length, first, n in zip(lengths, begins, x.shape, strict=True)
    ]
    return movement.slice(x, begin=tuple(begins), size=tuple(sizes))


def _extend_to_axes(argument_name: str, numbers: ShapeLike, default: int, x: Tensor) -> list[int]:
    """Return a list of numbers, extended by the default to one number for each axis of x."""
    given = [check_integer(n, "slice", argument_name) for n in to_list(numbers)]
    if len(given) > x.ndim:
        raise ShapeError(
            f"slice: {argument_name}={numbers} has more numbers than shape {x.shape} has axes"
        )
    return given + [default] * (x.ndim - len(given))


def pad(
    x: TensorLike, paddings: Sequence[Sequence[int]], constant_value: Scalar | str = 0
) -> Tensor:
    """The tensor with constant elements added before and after it on each axis.

    >>> plugrad.pad([1, 2], [(1, 2)], constant_value=9)
    tensor([9, 1, 2, 9, 9], dtype=int32)

    Args:
        x: the tensor.
        paddings: for each axis a pair: how many elements to add before and after.
        constant_value: the value of these elements; for strings a str.

    Raises:
        ShapeError: there is not one pair for each axis.
        ArgumentValueError: a pair is not two sizes of 0 or more, or the dtype does not hold the
            value.
        DTypeError: strings are padded with a number, or numbers with a string.
    """
    x = as_tensor(x, "pad")
    pairs = as_pairs(paddings, "pad: paddings")
    if type(constant_value) is int and not constant_value:
        array = x.array
        return movement.pad.call(x, _pad_attributes(array.shape, array.dtype, pairs))
    if isinstance(constant_value, Complex) and x.dtype is not string:
        host_array(constant_value, "pad", "constant_value", x.dtype)  # raises if it does not fit
    return movement.pad(x, paddings=pairs, constant_value=constant_value)


@lru_cache(maxsize=1024)
def _pad_attributes(shape: Shape, dtype: object, pairs: Pairs) -> ValidatedAttributes:
    """Return the validated attributes of padding a tensor of this shape and dtype with zeros."""
    x = Shaped(shape, as_dtype(dtype))
    return movement.pad.validate_attributes(x, paddings=pairs, constant_value=0)


def tile(x: TensorLike, repetitions: ShapeLike) -> Tensor:
    """The tensor repeated ``repetitions[i]`` times along axis i.

    >>> plugrad.tile([[1, 2]], (2, 2))
    tensor([[1, 2, 1, 2],
            [1, 2, 1, 2]], dtype=int32)

    Axes without a count, in front, are not repeated. For counts without an axis, in front, axes of
    size 1 are added first.

    Raises:
        ShapeError: a count is negative or not an integer.
    """
    x = as_tensor(x, "tile")
    counts = as_shape(repetitions, name="tile: repetitions")
    rank = max(x.ndim, len(counts))
    if rank > x.ndim:
        x = movement.reshape(x, shape=(1,) * (rank - x.ndim) + x.shape)
    return with_attributes(movement.tile, x, reps=(1,) * (rank - len(counts)) + counts)


@explain_wrong_calls
def flip(x: TensorLike, *, axis: AxisLike = None) -> Tensor:
    """The tensor with its elements in reverse order along the given axes, or along all of them.

    >>> plugrad.flip([1, 2, 3])
    tensor([3, 2, 1], dtype=int32)

    Raises:
        AxisError: an axis is out of range or named twice.
    """
    x = as_tensor(x, "flip")
    return with_attributes(
        movement.reverse, x, dims=normalize_axes(axis, x.ndim, name="flip: axis")
    )
