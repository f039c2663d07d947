"""Functions that combine the elements along axes, or in bins.

`axis` is one axis, several, or None for all; negative axes count from the end. With
``keepdims=True`` the reduced axes stay, with size 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugrad.errors import DTypeError
from plugrad.kernels import movement, reduction
from plugrad.ops.arguments import as_tensor, cast, coerced
from plugrad.ops.attributes import flag, whole
from plugrad.types.dtype import as_dtype, bool_, int32, int64, uint32, uint64
from plugrad.types.shapes import axes_of, axis_of, reduced, size_of

if TYPE_CHECKING:
    from plugrad.contract.kernel import Kernel
    from plugrad.tensor.tensor import Tensor, TensorLike
    from plugrad.types.dtype import DTypeLike
    from plugrad.types.specs import AxisLike


def sum(
    x: TensorLike, *, axis: AxisLike = None, dtype: DTypeLike | None = None, keepdims: bool = False
) -> Tensor:
    """The sum; nothing to add gives 0.

    >>> plugrad.sum([[1.0, 2.0], [3.0, 4.0]], axis=0)
    tensor([4., 6.], dtype=float32)

    Unless `dtype` says otherwise, bools and small integers are added as int32, or as uint32 if they
    are unsigned.

    Raises:
        AxisError: an axis is out of range or named twice.
    """
    x = summable(x, "sum", dtype)
    return reduction.sum(
        x, axis=axes_of(axis, x.ndim, name="sum: axis"), keep_dims=flag(keepdims, "sum", "keepdims")
    )


def prod(
    x: TensorLike, *, axis: AxisLike = None, dtype: DTypeLike | None = None, keepdims: bool = False
) -> Tensor:
    """The product; nothing to multiply gives 1.

    >>> plugrad.prod([[1.0, 2.0], [3.0, 4.0]], axis=1)
    tensor([ 2., 12.], dtype=float32)

    Unless `dtype` says otherwise, bools and small integers are multiplied as int32, or as uint32 if
    they are unsigned.

    Raises:
        AxisError: an axis is out of range or named twice.
    """
    x = summable(x, "prod", dtype)
    return reduction.prod(
        x,
        axis=axes_of(axis, x.ndim, name="prod: axis"),
        keep_dims=flag(keepdims, "prod", "keepdims"),
    )


def mean(x: TensorLike, *, axis: AxisLike = None, keepdims: bool = False) -> Tensor:
    """The average; nothing to average gives NaN. Whole numbers are averaged as float32.

    >>> plugrad.mean([[1.0, 2.0], [3.0, 4.0]], axis=0)
    tensor([2., 3.], dtype=float32)

    Raises:
        AxisError: an axis is out of range or named twice.
    """
    x = coerced(x, reduction.mean, "mean")
    return reduction.mean(
        x,
        axis=axes_of(axis, x.ndim, name="mean: axis"),
        keep_dims=flag(keepdims, "mean", "keepdims"),
    )


def max(x: TensorLike, *, axis: AxisLike = None, keepdims: bool = False) -> Tensor:
    """The largest element; NaN if there is one. Of bools: whether one is True.

    >>> plugrad.max([[1.0, 2.0], [3.0, 4.0]], axis=0)
    tensor([3., 4.], dtype=float32)

    Raises:
        AxisError: an axis is out of range or named twice.
        ShapeError: there is nothing along an axis.
    """
    x = as_tensor(x, "max")
    if x.dtype is bool_ and x.size:
        return any(x, axis=axis, keepdims=keepdims)
    x = coerced(x, reduction.max, "max")
    return reduction.max(
        x,
        reduction_indices=axes_of(axis, x.ndim, name="max: axis"),
        keep_dims=flag(keepdims, "max", "keepdims"),
    )


def min(x: TensorLike, *, axis: AxisLike = None, keepdims: bool = False) -> Tensor:
    """The smallest element; NaN if there is one. Of bools: whether all are True.

    >>> plugrad.min([[1.0, 2.0], [3.0, 4.0]], axis=0)
    tensor([1., 2.], dtype=float32)

    Raises:
        AxisError: an axis is out of range or named twice.
        ShapeError: there is nothing along an axis.
    """
    x = as_tensor(x, "min")
    if x.dtype is bool_ and x.size:
        return all(x, axis=axis, keepdims=keepdims)
    x = coerced(x, reduction.min, "min")
    return reduction.min(
        x, axis=axes_of(axis, x.ndim, name="min: axis"), keep_dims=flag(keepdims, "min", "keepdims")
    )


def all(x: TensorLike, *, axis: AxisLike = None, keepdims: bool = False) -> Tensor:
    """Whether every element is True, or not 0; nothing gives True.

    >>> plugrad.all([[True, False], [True, True]], axis=1)
    tensor([False,  True], dtype=bool)

    Raises:
        AxisError: an axis is out of range or named twice.
    """
    x = cast(as_tensor(x, "all"), bool_, "all")
    return reduction.all(
        x, axis=axes_of(axis, x.ndim, name="all: axis"), keep_dims=flag(keepdims, "all", "keepdims")
    )


def any(x: TensorLike, *, axis: AxisLike = None, keepdims: bool = False) -> Tensor:
    """Whether some element is True, or not 0; nothing gives False.

    >>> plugrad.any([[True, False], [False, False]], axis=1)
    tensor([ True, False], dtype=bool)

    Raises:
        AxisError: an axis is out of range or named twice.
    """
    x = cast(as_tensor(x, "any"), bool_, "any")
    return reduction.any(
        x, axis=axes_of(axis, x.ndim, name="any: axis"), keep_dims=flag(keepdims, "any", "keepdims")
    )


def argmax(x: TensorLike, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The first position of the largest element, as int32; NaN counts as the largest.

    Without an axis, the position in the flattened tensor.

    >>> plugrad.argmax([[1.0, 5.0], [7.0, 4.0]], axis=1)
    tensor([1, 0], dtype=int32)

    Raises:
        AxisError: the axis is out of range.
        ShapeError: there is nothing along the axis.
    """
    x = _ordered(x, reduction.argmax, "argmax")
    flat, axis, shape = _along_one_axis(x, axis, keepdims, "argmax")
    return movement.reshape(reduction.argmax(flat, axis=axis), shape=shape)


def argmin(x: TensorLike, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The first position of the smallest element, as int32; NaN counts as the smallest.

    Without an axis, the position in the flattened tensor.

    >>> plugrad.argmin([[1.0, 5.0], [7.0, 4.0]], axis=1)
    tensor([0, 1], dtype=int32)

    Raises:
        AxisError: the axis is out of range.
        ShapeError: there is nothing along the axis.
    """
    x = _ordered(x, reduction.argmin, "argmin")
    flat, axis, shape = _along_one_axis(x, axis, keepdims, "argmin")
    return movement.reshape(reduction.argmin(flat, axis=axis), shape=shape)


def bincount(x: TensorLike, weights: TensorLike | None = None, *, size: int) -> Tensor:
    """How often each number from 0 to ``size - 1`` occurs, or the sum of the weights of its occurrences.

    >>> plugrad.bincount([1, 1, 0, 3], size=4)
    tensor([1, 2, 0, 1], dtype=int32)
    >>> plugrad.bincount([1, 1, 0, 3], [0.5, 0.25, 4.0, 8.0], size=4)
    tensor([4.  , 0.75, 0.  , 8.  ], dtype=float32)

    Numbers outside ``[0, size)`` do not count.

    Raises:
        DTypeError: x holds no integers.
        ShapeError: the weights have not the shape of x.
        ArgumentValueError: the size is negative.
    """
    numbers, shares = _binned(x, weights, "bincount")
    return reduction.bincount(numbers, shares, size=whole(size, "bincount", "size"))


def dense_bincount(
    x: TensorLike, weights: TensorLike | None = None, *, size: int, binary_output: bool = False
) -> Tensor:
    """`bincount` for a vector, or for each row of a matrix.

    >>> plugrad.dense_bincount([[1, 1, 0], [2, 2, 5]], size=3)
    tensor([[1, 2, 0],
            [0, 0, 2]], dtype=int32)
    >>> plugrad.dense_bincount([[1, 1, 0], [2, 2, 5]], size=3, binary_output=True)
    tensor([[1, 1, 0],
            [0, 0, 1]], dtype=int32)

    Args:
        x: a vector or a matrix of integers; those outside ``[0, size)`` do not count.
        weights: what to add for each element, in the shape of x; None means 1.
        size: how many numbers are counted.
        binary_output: whether to give 1 for each number that occurs, whatever its weight.

    Raises:
        DTypeError: x holds no integers.
        ShapeError: x has not one or two axes, or the weights have not its shape.
        ArgumentValueError: the size is negative.
    """
    numbers, shares = _binned(x, weights, "dense_bincount")
    return reduction.dense_bincount(
        numbers,
        shares,
        size=whole(size, "dense_bincount", "size"),
        binary_output=flag(binary_output, "dense_bincount", "binary_output"),
    )


def summable(x: TensorLike, op: str, dtype: DTypeLike | None) -> Tensor:
    """Return x in the dtype in which its elements are added or multiplied."""
    x = as_tensor(x, op)
    if dtype is not None:
        return cast(x, as_dtype(dtype), op)
    if x.dtype is bool_ or (x.dtype.is_integer and x.dtype.itemsize < int32.itemsize):
        return cast(x, uint32 if x.dtype.kind == "unsigned" else int32)
    return x


def _ordered(x: TensorLike, kernel: Kernel[..., Tensor], op: str) -> Tensor:
    """Return x in a dtype that the kernel compares; False comes before True."""
    x = as_tensor(x, op)
    return coerced(cast(x, int32) if x.dtype is bool_ else x, kernel, op)


def _binned(x: TensorLike, weights: TensorLike | None, op: str) -> tuple[Tensor, Tensor | None]:
    """Return numbers of a dtype that the kernels count, and their weights."""
    numbers = as_tensor(x, op)
    if not numbers.dtype.is_integer:
        raise DTypeError(
            f"{op}: x is {numbers.dtype}; only integers are counted, as after astype('int32')"
        )
    numbers = cast(numbers, int64 if numbers.dtype in (int64, uint64) else int32)
    if weights is None:
        return numbers, None
    return numbers, as_tensor(weights, op, "weights", backend=numbers.backend)


def _along_one_axis(
    x: Tensor, axis: int | None, keepdims: bool, op: str
) -> tuple[Tensor, int, tuple[int, ...]]:
    """Return (tensor, axis, shape of the result) for a reduction along one axis or along the flattened tensor."""
    keepdims = flag(keepdims, op, "keepdims")
    if axis is None:
        return movement.reshape(x, shape=(size_of(x.shape),)), 0, (1,) * x.ndim if keepdims else ()
    axis = axis_of(axis, x.ndim, name=f"{op}: axis")
    return x, axis, reduced(x.shape, (axis,), keepdims)
