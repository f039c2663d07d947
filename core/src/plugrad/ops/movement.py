"""Functions that move elements without computing."""

from collections.abc import Sequence

from plugrad.dtype import Scalar
from plugrad.errors import ArgumentValueError, ShapeError
from plugrad.kernels import movement
from plugrad.ops.arguments import as_tensor, same_dtype
from plugrad.shapes import axes_of, axis_of, completed, pairs_of, shape_of
from plugrad.tensor import Axis, Tensor, TensorLike


def reshape(x: TensorLike, shape: int | Sequence[int]) -> Tensor:
    """The same elements in another shape; one size may be -1 and is inferred.

    >>> plugrad.reshape(plugrad.arange(6), (2, -1))
    tensor([[0, 1, 2],
            [3, 4, 5]], dtype=int32)

    Raises:
        ShapeError: the shape holds another number of elements.
    """
    x = as_tensor(x, "reshape")
    return movement.reshape(x, shape=completed(shape, x.size))


def permute_dims(x: TensorLike, axes: Sequence[int]) -> Tensor:
    """The tensor with its axes in another order: axis i of the result is axis ``axes[i]`` of x.

    >>> plugrad.permute_dims([[1, 2, 3], [4, 5, 6]], (1, 0))
    tensor([[1, 4],
            [2, 5],
            [3, 6]], dtype=int32)

    Raises:
        AxisError: `axes` does not name each axis once.
    """
    x = as_tensor(x, "permute_dims")
    return movement.transpose(x, perm=tuple(axis_of(a, x.ndim, name="axes") for a in axes))


def expand_dims(x: TensorLike, axis: int = 0) -> Tensor:
    """The tensor with a new axis of size 1.

    >>> plugrad.expand_dims([1, 2], axis=1).shape
    (2, 1)

    Raises:
        AxisError: the axis is out of range.
    """
    x = as_tensor(x, "expand_dims")
    return movement.expand_dims(x, dim=axis_of(axis, x.ndim + 1))


def squeeze(x: TensorLike, axis: Axis = None) -> Tensor:
    """The tensor without axes of size 1: the given ones, or all of them.

    >>> plugrad.squeeze([[[1], [2]]], axis=0).shape
    (2, 1)

    Raises:
        AxisError: an axis is out of range.
        ShapeError: an axis has another size than 1.
    """
    x = as_tensor(x, "squeeze")
    axes = (
        axes_of(axis, x.ndim)
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
    return movement.broadcast_to(as_tensor(x, "broadcast_to"), shape=shape_of(shape))


def concat(tensors: Sequence[TensorLike], axis: int | None = 0) -> Tensor:
    """Tensors joined along an axis; with ``axis=None`` they are flattened first.

    >>> plugrad.concat([[1, 2], [3]])
    tensor([1, 2, 3], dtype=int32)

    Raises:
        ArgumentValueError: there is nothing to join.
        ShapeError: the shapes differ elsewhere.
    """
    parts = same_dtype(list(tensors), "concat")
    if axis is None:
        parts, axis = [movement.reshape(x, shape=(x.size,)) for x in parts], 0
    return movement.concat(*parts, axis=axis_of(axis, parts[0].ndim))


def stack(tensors: Sequence[TensorLike], axis: int = 0) -> Tensor:
    """Tensors of one shape joined along a new axis.

    >>> plugrad.stack([[1, 2], [3, 4]], axis=1)
    tensor([[1, 3],
            [2, 4]], dtype=int32)

    Raises:
        ArgumentValueError: there is nothing to join.
        ShapeError: the shapes differ.
    """
    parts = same_dtype(list(tensors), "stack")
    return movement.pack(*parts, axis=axis_of(axis, parts[0].ndim + 1))


def unstack(x: TensorLike, axis: int = 0) -> list[Tensor]:
    """The parts of a tensor along an axis, which disappears.

    >>> plugrad.unstack([[1, 2], [3, 4]])
    [tensor([1, 2], dtype=int32), tensor([3, 4], dtype=int32)]

    Raises:
        AxisError: the axis is out of range.
    """
    x = as_tensor(x, "unstack")
    return movement.unpack(x, axis=axis_of(axis, x.ndim))


def split(x: TensorLike, sizes: int | Sequence[int], axis: int = 0) -> list[Tensor]:
    """A tensor cut along an axis, into a number of equal parts or into parts of given sizes.

    >>> plugrad.split([1, 2, 3, 4], [1, 3])
    [tensor([1], dtype=int32), tensor([2, 3, 4], dtype=int32)]

    One size may be -1 and is inferred.

    Raises:
        ArgumentValueError: the parts cannot be equal.
        ShapeError: the sizes do not add up.
    """
    x = as_tensor(x, "split")
    axis = axis_of(axis, x.ndim)
    length = x.shape[axis]
    if isinstance(sizes, int):
        if sizes < 1 or length % sizes:
            raise ArgumentValueError(
                f"split: sizes={sizes} equal parts do not fit axis {axis} of shape {x.shape}"
            )
        sizes = [length // sizes] * sizes
    known = sum(n for n in sizes if n >= 0)
    if list(sizes).count(-1) == 1:
        sizes = [length - known if n == -1 else n for n in sizes]
    return movement.split(x, num_or_size_splits=tuple(sizes), axis=axis)


def pad(x: TensorLike, paddings: Sequence[Sequence[int]], constant_value: Scalar = 0) -> Tensor:
    """The tensor with (before, after) more elements on each axis.

    >>> plugrad.pad([1, 2], [(1, 2)], constant_value=9)
    tensor([9, 1, 2, 9, 9], dtype=int32)

    Raises:
        ShapeError: there is not one pair for each axis.
        ArgumentValueError: a pair is not two sizes.
    """
    x = as_tensor(x, "pad")
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
    counts = shape_of(tuple(repetitions), name="repetitions")
    rank = max(x.ndim, len(counts))
    x = movement.reshape(x, shape=(1,) * (rank - x.ndim) + x.shape) if rank > x.ndim else x
    return movement.tile(x, reps=(1,) * (rank - len(counts)) + counts)


def flip(x: TensorLike, *, axis: Axis = None) -> Tensor:
    """The tensor with the order reversed along the given axes, or all of them.

    >>> plugrad.flip([1, 2, 3])
    tensor([3, 2, 1], dtype=int32)

    Raises:
        AxisError: an axis is out of range.
    """
    x = as_tensor(x, "flip")
    return movement.reverse(x, dims=axes_of(axis, x.ndim))
