"""Functions that move elements in blocks, mirror, roll or repeat them, and span grids."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from plugrad.engine.results import alias
from plugrad.errors import ArgumentValueError, DTypeError, ShapeError
from plugrad.kernels import indexing, movement, rearrangement
from plugrad.ops.arguments import as_supported_dtype, as_tensor, cast, host_array
from plugrad.ops.attributes import check_choice, check_integer, is_sequence, to_list
from plugrad.tensor.tensor import Tensor
from plugrad.types.arguments import explain_wrong_calls
from plugrad.types.dtype import as_dtype, int32
from plugrad.types.shapes import as_shape, normalize_axis
from plugrad.types.specs import Shaped
from plugrad.types.windows import as_pairs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from plugrad.contract.kernel import ValidatedAttributes
    from plugrad.kernels.rearrangement import MirrorMode
    from plugrad.tensor.tensor import TensorLike
    from plugrad.types.specs import AxisLike, Shape, ShapeLike
    from plugrad.types.windows import ImageFormat

GridIndexing: TypeAlias = Literal["xy", "ij"]
"""The order of a grid's axes; see `meshgrid`."""


def batch_to_space_nd(
    x: TensorLike, block_shape: ShapeLike, crops: Sequence[Sequence[int]]
) -> Tensor:
    """The batches interleaved to blocks of cells on the axes after the batch axis, then cropped.

    >>> plugrad.batch_to_space_nd([[1, 2], [10, 20]], (2,), [(0, 1)])
    tensor([[ 1, 10,  2]], dtype=int32)

    The batch is divided by the number of cells of a block, and each axis is multiplied by the size
    of a block and loses its crops. The dtype is that of x.

    Args:
        x: of shape (batch, axes …); batch i holds the cells that have position i, in row-major
            order, in every block.
        block_shape: the size of a block on each axis after the batch.
        crops: for each of these axes a pair: how many elements to cut off before and after.

    Raises:
        ShapeError: the batch is not a multiple of the cells of a block, or `block_shape`, `crops`
            and the axes after the batch do not match.
        ArgumentValueError: a size of a block is less than 1, or of a crop less than 0.
    """
    return rearrangement.batch_to_space_nd(
        as_tensor(x, "batch_to_space_nd"),
        block_shape=as_shape(block_shape, name="batch_to_space_nd: block_shape"),
        crops=as_pairs(crops, "batch_to_space_nd: crops"),
    )


def space_to_batch_nd(
    x: TensorLike, block_shape: ShapeLike, paddings: Sequence[Sequence[int]]
) -> Tensor:
    """The tensor padded with zeros, and the cells of its blocks moved to the batch: undoes `batch_to_space_nd`.

    >>> plugrad.space_to_batch_nd([[1, 10, 2]], (2,), [(0, 1)])
    tensor([[ 1,  2],
            [10,  0]], dtype=int32)

    The batch is multiplied by the number of cells of a block, and each padded axis is divided by the
    size of a block. The dtype is that of x.

    Args:
        x: of shape (batch, axes …).
        block_shape: the size of a block on each axis after the batch.
        paddings: for each of these axes a pair: how many zeros to add before and after.

    Raises:
        ShapeError: a padded size is not a multiple of its block's, or `block_shape`, `paddings` and
            the axes after the batch do not match.
        ArgumentValueError: a size of a block is less than 1, or of a padding less than 0.
    """
    return rearrangement.space_to_batch_nd(
        as_tensor(x, "space_to_batch_nd"),
        block_shape=as_shape(block_shape, name="space_to_batch_nd: block_shape"),
        paddings=as_pairs(paddings, "space_to_batch_nd: paddings"),
    )


def depth_to_space(x: TensorLike, block_size: int, data_format: ImageFormat = "NHWC") -> Tensor:
    """The images with their channels rearranged to blocks of ``block_size * block_size`` pixels.

    >>> plugrad.depth_to_space([[[[1, 2, 3, 4]]]], 2)[0, :, :, 0]
    tensor([[1, 2],
            [3, 4]], dtype=int32)

    Channel ``(i * block_size + j) * channels + c`` becomes channel c of the pixel (i, j) of a block,
    as in sub-pixel convolution (Shi et al., 2016). Height and width are multiplied by `block_size`.

    Args:
        x: images, with four axes.
        block_size: the side length of a block, 2 or more.
        data_format: "NHWC" (channels last) or "NCHW".

    Raises:
        ShapeError: x does not have four axes, or its channels are not a multiple of
            ``block_size**2``.
        ArgumentError: `block_size` is not an integer.
        ArgumentValueError: `block_size` is less than 2, or `data_format` is unknown.
    """
    return rearrangement.depth_to_space(
        as_tensor(x, "depth_to_space"),
        block_size=check_integer(block_size, "depth_to_space", "block_size"),
        data_format=data_format,
    )


def mirror_pad(x: TensorLike, paddings: Sequence[Sequence[int]], mode: MirrorMode) -> Tensor:
    """The tensor with its own elements, mirrored, added before and after it on each axis.

    >>> plugrad.mirror_pad([1, 2, 3], [(2, 1)], "reflect")
    tensor([3, 2, 1, 2, 3, 2], dtype=int32)
    >>> plugrad.mirror_pad([1, 2, 3], [(2, 1)], "symmetric")
    tensor([2, 1, 1, 2, 3, 3], dtype=int32)

    Args:
        x: the tensor.
        paddings: for each axis a pair: how many elements to add before and after.
        mode: "reflect" mirrors at the first and last elements, which are not repeated; "symmetric"
            mirrors at the borders, so that they are.

    Raises:
        ShapeError: there is not one pair for each axis, there is no axis, or there are more
            elements to add than to mirror.
        ArgumentValueError: the mode is another one, or a pair is not two sizes of 0 or more.
    """
    return rearrangement.mirror_pad(
        as_tensor(x, "mirror_pad"), paddings=as_pairs(paddings, "mirror_pad: paddings"), mode=mode
    )


def broadcast_args(s0: TensorLike, s1: TensorLike) -> Tensor:
    """The shape, as a vector of int32, to which two shapes, given as vectors of sizes, broadcast.

    >>> plugrad.broadcast_args([2, 1, 3], [4, 1])
    tensor([2, 4, 3], dtype=int32)

    `broadcast_shapes` does the same for tuples, without a backend.

    Raises:
        ShapeError: the shapes do not broadcast together, or are not vectors.
        DTypeError: the sizes are not int32.
    """
    home = next((s.backend for s in (s0, s1) if isinstance(s, Tensor)), None)
    sizes: list[Tensor] = []
    for name, given in (("s0", s0), ("s1", s1)):
        s = as_tensor(given, "broadcast_args", name, backend=home)
        if s.size == 0:
            s = cast(s, int32)  # an empty list became float32
        sizes.append(as_supported_dtype(s, rearrangement.broadcast_args, "broadcast_args", name))
    return rearrangement.broadcast_args(*sizes)


@explain_wrong_calls
def roll(x: TensorLike, shift: int | Sequence[int], *, axis: AxisLike = None) -> Tensor:
    """The tensor with its elements shifted along axes; those that leave at the end enter at the start.

    >>> plugrad.roll([1, 2, 3, 4], 1)
    tensor([4, 1, 2, 3], dtype=int32)

    Args:
        x: the tensor.
        shift: the number of positions to move, one for each axis or one for all; negative numbers
            move backward.
        axis: the axes along which to move; an axis that is named twice is shifted twice. None rolls
            the flattened tensor and restores its shape.

    Raises:
        AxisError: an axis is out of range.
        ArgumentError: a shift is not an integer.
        ArgumentValueError: there is not one shift for each axis.
    """
    x = as_tensor(x, "roll")
    if axis is None:
        if is_sequence(shift):
            raise ArgumentValueError(
                f"roll: shift={shift} needs as many axes; give axis=, or one number as the shift"
            )
        flat = movement.reshape(x, shape=(x.size,))
        return movement.reshape(roll(flat, shift, axis=0), shape=x.shape)
    if type(axis) is int and type(shift) is int:
        axes, shifts = (axis,), (shift,)
    else:
        axes = tuple([normalize_axis(a, x.ndim, name="roll: axis") for a in to_list(axis)])
        shifts = tuple([check_integer(n, "roll", "shift") for n in to_list(shift)])
        shifts = shifts * len(axes) if len(shifts) == 1 else shifts
        if len(shifts) != len(axes):
            raise ArgumentValueError(
                f"roll: shift={shift} must be one number, or one for each axis of axis={axis}"
            )
    array = x.array
    y = x
    for cut, join in _roll_split_and_join_attributes(array.shape, array.dtype, axes, shifts):
        start, end = movement.split.call(y, cut)
        y = movement.concat.call((end, start), join)
    return alias(x) if y is x else y


@lru_cache(maxsize=1024)
def _roll_split_and_join_attributes(
    shape: Shape, dtype: object, axes: Shape, shifts: tuple[int, ...]
) -> list[tuple[ValidatedAttributes, ValidatedAttributes]]:
    """Return the validated attributes of the kernels that roll a tensor: a split and a concatenation per axis."""
    whole = Shaped(shape, as_dtype(dtype))
    calls: list[tuple[ValidatedAttributes, ValidatedAttributes]] = []
    for given, distance in zip(axes, shifts, strict=True):
        axis = normalize_axis(given, len(shape), name="roll: axis")
        size = shape[axis]
        if size and (moved := distance % size):
            sizes = size - moved, moved
            cut = movement.split.validate_attributes(whole, num_or_size_splits=sizes, axis=axis)
            start, end = movement.split.infer(whole, **cut)
            calls.append((cut, movement.concat.validate_attributes(end, start, axis=axis)))
    return calls


@explain_wrong_calls
def repeat(x: TensorLike, repeats: TensorLike, *, axis: int | None = None) -> Tensor:
    """Each element, or each slice along an axis, repeated several times in a row.

    >>> plugrad.repeat([1, 2], 3)
    tensor([1, 1, 1, 2, 2, 2], dtype=int32)
    >>> plugrad.repeat([[1, 2], [3, 4]], [1, 2], axis=0)
    tensor([[1, 2],
            [3, 4],
            [3, 4]], dtype=int32)

    Args:
        x: the tensor; it is flattened when `axis` is None.
        repeats: the number of repetitions, one for all or one for each slice. The values of a tensor
            are copied to the host, because the shape of the result depends on them.
        axis: the axis along which the slices lie.

    Raises:
        AxisError: the axis is out of range.
        ArgumentValueError: a number is negative.
        DTypeError: the numbers are not integers.
        ShapeError: there is not one number for each slice.
    """
    x = as_tensor(x, "repeat")
    if axis is None:
        x = movement.reshape(x, shape=(x.size,))
        axis = 0
    axis = normalize_axis(axis, x.ndim, name="repeat: axis")
    size = x.shape[axis]
    counts = _repetition_counts(repeats, size)
    if counts.size != 1:
        positions = np.repeat(np.arange(size, dtype="int32"), counts)
        return indexing.gather(x, as_tensor(positions, "repeat", backend=x.backend), axis=axis)
    count = int(counts.item())
    before = x.shape[:axis]
    after = x.shape[axis + 1 :]
    single = movement.reshape(x, shape=(*before, size, 1, *after))
    several = movement.broadcast_to(single, shape=(*before, size, count, *after))
    return movement.reshape(several, shape=(*before, size * count, *after))


def _repetition_counts(repeats: TensorLike, size: int) -> NDArray[Any]:
    """Return the numbers of repetitions: one, or one for each of `size` slices."""
    counts = (
        repeats.numpy() if isinstance(repeats, Tensor) else host_array(repeats, "repeat", "repeats")
    )
    if counts.size and not as_dtype(counts.dtype).is_integer:
        raise DTypeError(f"repeat: repeats are {counts.dtype}; they must be integers")
    if counts.shape not in ((), (1,), (size,)):
        raise ShapeError(
            f"repeat: repeats of shape {counts.shape} must be one number, or one for each of the "
            f"{size} slices"
        )
    if counts.size and counts.min() < 0:
        raise ArgumentValueError(f"repeat: repeats={counts.tolist()} must be 0 or more")
    return counts.astype(np.intp)


def meshgrid(*arrays: TensorLike, indexing: GridIndexing = "xy") -> list[Tensor]:
    """The coordinates of the points of a grid: for each array a tensor of its dtype in the shape of the grid.

    >>> x, y = plugrad.meshgrid([1, 2, 3], [10, 20])
    >>> x
    tensor([[1, 2, 3],
            [1, 2, 3]], dtype=int32)
    >>> y
    tensor([[10, 10, 10],
            [20, 20, 20]], dtype=int32)

    Args:
        *arrays: the coordinates along each axis: vectors, or single numbers.
        indexing: "ij" puts the axes in the order of the arrays; "xy" exchanges the first two, so
            that x runs along the rows of an image.

    Raises:
        ShapeError: an array has more than one axis.
        ArgumentValueError: the indexing is another one.
    """
    home = next((x.backend for x in arrays if isinstance(x, Tensor)), None)
    given = [as_tensor(x, "meshgrid", f"array {i}", backend=home) for i, x in enumerate(arrays)]
    if any(x.ndim > 1 for x in given):
        raise ShapeError(
            f"meshgrid: the arrays must be vectors; shapes are {[x.shape for x in given]}"
        )
    order = list(range(len(given)))
    if check_choice(indexing, ("xy", "ij"), "meshgrid", "indexing") == "xy":
        order[:2] = reversed(order[:2])
    shape = tuple(given[i].size for i in order)
    lines = [
        movement.reshape(x, shape=tuple(x.size if i == axis else 1 for axis in order))
        for i, x in enumerate(given)
    ]
    return [movement.broadcast_to(x, shape=shape) for x in lines]
