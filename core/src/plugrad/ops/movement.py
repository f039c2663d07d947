"""Functions that move elements without computing."""

from collections.abc import Sequence
from numbers import Complex

from plugrad.errors import ArgumentValueError, AxisError, ShapeError
from plugrad.kernels import movement
from plugrad.ops.arguments import as_tensor, host_array, same_dtype
from plugrad.ops.attributes import flag, is_several, listed, members, whole
from plugrad.tensor.tensor import Tensor, TensorLike
from plugrad.types.dtype import Scalar, string
from plugrad.types.shapes import axes_of, axis_of, broadcast, completed, shape_of
from plugrad.types.specs import AxisLike
from plugrad.types.windows import pairs_of


def reshape(x: TensorLike, shape: int | Sequence[int], *, copy: bool | None = None) -> Tensor:
    """The same elements in another shape; one size may be -1 and is inferred.

    >>> plugrad.reshape(plugrad.arange(6), (2, -1))
    tensor([[0, 1, 2],
            [3, 4, 5]], dtype=int32)

    Tensors do not change, so nobody can tell a copy from a view: whatever `copy` says, the backend
    decides.

    Raises:
        ShapeError: the shape holds another number of elements.
    """
    x = as_tensor(x, "reshape")
    if copy is not None:
        flag(copy, "reshape", "copy")
    return movement.reshape(x, shape=completed(shape, x.size, name="reshape: shape"))


def permute_dims(x: TensorLike, axes: Sequence[int] | None = None) -> Tensor:
    """The tensor with its axes in another order: axis i of the result is axis ``axes[i]`` of x.

    Without `axes` their order is reversed.

    >>> plugrad.permute_dims([[1, 2, 3], [4, 5, 6]], (1, 0))
    tensor([[1, 4],
            [2, 5],
            [3, 6]], dtype=int32)

    Raises:
        AxisError: `axes` does not name each axis once.
    """
    x = as_tensor(x, "permute_dims")
    axes = tuple(reversed(range(x.ndim))) if axes is None else listed(axes, "permute_dims", "axes")
    return movement.transpose(
        x, perm=tuple(axis_of(a, x.ndim, name="permute_dims: axes") for a in axes)
    )


def moveaxis(
    x: TensorLike, source: int | Sequence[int], destination: int | Sequence[int]
) -> Tensor:
    """The tensor with some axes at other positions; the other axes keep their order.

    >>> plugrad.moveaxis(plugrad.zeros((2, 3, 4)), 0, -1).shape
    (3, 4, 2)

    Raises:
        AxisError: an axis is out of range or named twice, or the two lists differ in length.
    """
    x = as_tensor(x, "moveaxis")
    froms, tos = (
        [axis_of(a, x.ndim, name=f"moveaxis: {name}") for a in members(given)]
        for name, given in (("source", source), ("destination", destination))
    )
    if len(froms) != len(tos) or len(set(froms)) != len(froms) or len(set(tos)) != len(tos):
        raise AxisError(
            f"moveaxis: source={source} and destination={destination} must name equally many axes, "
            "and none twice"
        )
    order = [axis for axis in range(x.ndim) if axis not in froms]
    for to, axis in sorted(zip(tos, froms, strict=True)):
        order.insert(to, axis)
    return movement.transpose(x, perm=tuple(order))


def expand_dims(x: TensorLike, axis: int = 0) -> Tensor:
    """The tensor with a new axis of size 1.

    >>> plugrad.expand_dims([1, 2], axis=1).shape
    (2, 1)

    Raises:
        AxisError: the axis is out of range.
    """
    x = as_tensor(x, "expand_dims")
    return movement.expand_dims(x, dim=axis_of(axis, x.ndim + 1, name="expand_dims: axis"))


def squeeze(x: TensorLike, axis: AxisLike = None) -> Tensor:
    """The tensor without axes of size 1: the given ones, or all of them.

    >>> plugrad.squeeze([[[1], [2]]], axis=0).shape
    (2, 1)

    Raises:
        AxisError: an axis is out of range.
        ShapeError: an axis has another size than 1.
    """
    x = as_tensor(x, "squeeze")
    axes = (
        axes_of(axis, x.ndim, name="squeeze: axis")
        if axis is not None
        else tuple(i for i, n in enumerate(x.shape) if n == 1)
    )
    if any(x.shape[i] != 1 for i in axes):
        raise ShapeError(f"squeeze: axis={axis} must have size 1 in shape {x.shape}")
    return movement.reshape(x, shape=tuple(n for i, n in enumerate(x.shape) if i not in axes))


def broadcast_to(x: TensorLike, shape: int | Sequence[int]) -> Tensor:
    """The tensor repeated along missing axes and axes of size 1.

    >>> plugrad.broadcast_to([1, 2], (2, 2))
    tensor([[1, 2],
            [1, 2]], dtype=int32)

    Raises:
        ShapeError: the shapes do not fit.
    """
    return movement.broadcast_to(
        as_tensor(x, "broadcast_to"), shape=shape_of(shape, name="broadcast_to: shape")
    )


def broadcast_arrays(*arrays: TensorLike) -> tuple[Tensor, ...]:
    """Tensors repeated to the one shape to which they broadcast.

    >>> plugrad.broadcast_arrays([1, 2], [[3], [4]])
    (tensor([[1, 2],
            [1, 2]], dtype=int32), tensor([[3, 3],
            [4, 4]], dtype=int32))

    Raises:
        ShapeError: the shapes do not fit together.
    """
    home = next((x.backend for x in arrays if isinstance(x, Tensor)), None)
    given = [
        as_tensor(x, "broadcast_arrays", f"array {i}", backend=home) for i, x in enumerate(arrays)
    ]
    shape = broadcast(*(x.shape for x in given))
    return tuple(movement.broadcast_to(x, shape=shape) for x in given)


def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape to which shapes are broadcast.

    >>> plugrad.broadcast_shapes((2, 1, 3), (4, 1))
    (2, 4, 3)

    Raises:
        ShapeError: the shapes do not fit together, or one of them is none.
    """
    return broadcast(*(shape_of(shape, name="broadcast_shapes: shape") for shape in shapes))


def ensure_shape(x: TensorLike, shape: Sequence[int | None]) -> Tensor:
    """The tensor itself, if it has the shape; None stands for any size.

    >>> plugrad.ensure_shape([[1, 2, 3]], (None, 3))
    tensor([[1, 2, 3]], dtype=int32)

    Raises:
        ShapeError: it has another shape.
    """
    x = as_tensor(x, "ensure_shape")
    wanted = tuple(listed(shape, "ensure_shape", "shape"))
    if len(wanted) != x.ndim or any(
        n is not None and n != have for n, have in zip(wanted, x.shape, strict=True)
    ):
        raise ShapeError(f"ensure_shape: x has shape {x.shape}; it must match {wanted}")
    return x


def concat(arrays: Sequence[TensorLike], *, axis: int | None = 0) -> Tensor:
    """Tensors joined along an axis; with ``axis=None`` they are flattened first.

    >>> plugrad.concat([[1, 2], [3]])
    tensor([1, 2, 3], dtype=int32)

    Raises:
        ArgumentValueError: there is nothing to join.
        ShapeError: the shapes differ elsewhere.
    """
    parts = same_dtype(listed(arrays, "concat", "arrays"), "concat")
    if axis is None:
        parts, axis = [movement.reshape(x, shape=(x.size,)) for x in parts], 0
    return movement.concat(*parts, axis=axis_of(axis, parts[0].ndim, name="concat: axis"))


def stack(arrays: Sequence[TensorLike], *, axis: int = 0) -> Tensor:
    """Tensors of one shape joined along a new axis.

    >>> plugrad.stack([[1, 2], [3, 4]], axis=1)
    tensor([[1, 3],
            [2, 4]], dtype=int32)

    Raises:
        ArgumentValueError: there is nothing to join.
        ShapeError: the shapes differ.
    """
    parts = same_dtype(listed(arrays, "stack", "arrays"), "stack")
    return movement.pack(*parts, axis=axis_of(axis, parts[0].ndim + 1, name="stack: axis"))


def unstack(x: TensorLike, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The parts of a tensor along an axis, which disappears.

    >>> plugrad.unstack([[1, 2], [3, 4]])
    (tensor([1, 2], dtype=int32), tensor([3, 4], dtype=int32))

    Raises:
        AxisError: the axis is out of range.
    """
    x = as_tensor(x, "unstack")
    return tuple(movement.unpack(x, axis=axis_of(axis, x.ndim, name="unstack: axis")))


def split(x: TensorLike, sizes: int | Sequence[int], axis: int = 0) -> tuple[Tensor, ...]:
    """A tensor cut along an axis, into a number of equal parts or into parts of given sizes.

    >>> plugrad.split([1, 2, 3, 4], [1, 3])
    (tensor([1], dtype=int32), tensor([2, 3, 4], dtype=int32))

    One size may be -1 and is inferred.

    Raises:
        ArgumentValueError: the parts cannot be equal.
        ShapeError: the sizes do not add up.
    """
    x = as_tensor(x, "split")
    axis = axis_of(axis, x.ndim, name="split: axis")
    length = x.shape[axis]
    if is_several(sizes):
        parts = [whole(n, "split", "sizes") for n in members(sizes)]
        if parts.count(-1) > 1:
            raise ShapeError(
                f"split: sizes={tuple(parts)} has more than one -1; only one size can be inferred"
            )
    else:
        count = whole(sizes, "split", "sizes", least=1)
        if length % count:
            raise ArgumentValueError(
                f"split: sizes={count} equal parts do not fit axis {axis} of shape {x.shape}: {count} "
                f"does not divide {length}; give the sizes of the parts instead"
            )
        parts = [length // count] * count
    known = sum(n for n in parts if n >= 0)
    if parts.count(-1) == 1:
        parts = [length - known if n == -1 else n for n in parts]
    return tuple(movement.split(x, num_or_size_splits=tuple(parts), axis=axis))


def slice(
    x: TensorLike, begin: int | Sequence[int], size: int | Sequence[int] | None = None
) -> Tensor:
    """The block that starts at `begin`: ``x[begin : begin + size]`` on each axis.

    >>> plugrad.slice([[1, 2, 3], [4, 5, 6]], (0, 1), (-1, 2))
    tensor([[2, 3],
            [5, 6]], dtype=int32)

    Python's ``x[:, 1:3]`` says the same.

    Args:
        x: the tensor.
        begin: the first position on each axis; missing ones, at the end, are 0.
        size: the number of elements on each axis; -1 and missing ones, at the end, reach the end.

    Raises:
        ShapeError: the block leaves the tensor, a begin is negative, or there are more numbers than
            axes.
    """
    x = as_tensor(x, "slice")
    begins = _filled("begin", begin, 0, x)
    sizes = [
        n - first if length == -1 else length
        for length, first, n in zip(
            _filled("size", [] if size is None else size, -1, x), begins, x.shape, strict=True
        )
    ]
    return movement.slice(x, begin=tuple(begins), size=tuple(sizes))


def _filled(name: str, numbers: int | Sequence[int], missing: int, x: Tensor) -> list[int]:
    """Return one number for each axis of x."""
    given = [whole(n, "slice", name) for n in members(numbers)]
    if len(given) > x.ndim:
        raise ShapeError(f"slice: {name}={numbers} has more numbers than shape {x.shape} has axes")
    return given + [missing] * (x.ndim - len(given))


def pad(
    x: TensorLike, paddings: Sequence[Sequence[int]], constant_value: Scalar | str = 0
) -> Tensor:
    """The tensor with (before, after) more elements on each axis.

    >>> plugrad.pad([1, 2], [(1, 2)], constant_value=9)
    tensor([9, 1, 2, 9, 9], dtype=int32)

    Raises:
        ShapeError: there is not one pair for each axis.
        ArgumentValueError: a pair is not two sizes.
        DTypeError: strings are padded with a number, or numbers with a string.
    """
    x = as_tensor(x, "pad")
    if isinstance(constant_value, Complex) and constant_value != 0 and x.dtype is not string:
        host_array(constant_value, "pad", "constant_value", x.dtype)  # raises if it does not fit
    return movement.pad(
        x,
        paddings=pairs_of(paddings, "pad: paddings"),
        constant_value=constant_value,
    )


def tile(x: TensorLike, repetitions: Sequence[int]) -> Tensor:
    """The tensor repeated ``repetitions[i]`` times along axis i.

    >>> plugrad.tile([[1, 2]], (2, 2))
    tensor([[1, 2, 1, 2],
            [1, 2, 1, 2]], dtype=int32)

    Missing counts, in front, are 1; missing axes, in front, are added.

    Raises:
        ShapeError: a count is negative.
    """
    x = as_tensor(x, "tile")
    counts = shape_of(repetitions, name="tile: repetitions")
    rank = max(x.ndim, len(counts))
    x = movement.reshape(x, shape=(1,) * (rank - x.ndim) + x.shape) if rank > x.ndim else x
    return movement.tile(x, reps=(1,) * (rank - len(counts)) + counts)


def flip(x: TensorLike, *, axis: AxisLike = None) -> Tensor:
    """The tensor with the order reversed along the given axes, or all of them.

    >>> plugrad.flip([1, 2, 3])
    tensor([3, 2, 1], dtype=int32)

    Raises:
        AxisError: an axis is out of range.
    """
    x = as_tensor(x, "flip")
    return movement.reverse(x, dims=axes_of(axis, x.ndim, name="flip: axis"))
