"""Functions that combine the elements along axes.

`axis` is one axis, several, or None for all; negative axes count from the end. With
``keepdims=True`` the reduced axes stay, with size 1.
"""

from plugrad.dtype import DTypeLike, as_dtype, bool_, int32
from plugrad.kernels import movement, reduction
from plugrad.ops.arguments import as_tensor, cast, coerced
from plugrad.shapes import axes_of, axis_of, reduced, size_of
from plugrad.tensor import Axis, Tensor, TensorLike


def sum(
    x: TensorLike, *, axis: Axis = None, dtype: DTypeLike | None = None, keepdims: bool = False
) -> Tensor:
    """The sum; nothing to add gives 0. Bools are counted as int32.

    >>> plugrad.sum([[1.0, 2.0], [3.0, 4.0]], axis=0)
    tensor([4., 6.], dtype=float32)

    Raises:
        AxisError: an axis is out of range or named twice.
    """
    x = _summable(x, "sum", dtype)
    return reduction.sum(x, axis=axes_of(axis, x.ndim), keep_dims=keepdims)


def prod(
    x: TensorLike, *, axis: Axis = None, dtype: DTypeLike | None = None, keepdims: bool = False
) -> Tensor:
    """The product; nothing to multiply gives 1. Bools are counted as int32.

    >>> plugrad.prod([[1.0, 2.0], [3.0, 4.0]], axis=1)
    tensor([ 2., 12.], dtype=float32)

    Raises:
        AxisError: an axis is out of range or named twice.
    """
    x = _summable(x, "prod", dtype)
    return reduction.prod(x, axis=axes_of(axis, x.ndim), keep_dims=keepdims)


def mean(x: TensorLike, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The average; nothing to average gives NaN. Whole numbers are averaged as float32.

    >>> plugrad.mean([[1.0, 2.0], [3.0, 4.0]], axis=0)
    tensor([2., 3.], dtype=float32)

    Raises:
        AxisError: an axis is out of range or named twice.
    """
    x = coerced(x, reduction.mean, "mean")
    return reduction.mean(x, axis=axes_of(axis, x.ndim), keep_dims=keepdims)


def max(x: TensorLike, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The largest element; NaN if there is one.

    >>> plugrad.max([[1.0, 2.0], [3.0, 4.0]], axis=0)
    tensor([3., 4.], dtype=float32)

    Raises:
        AxisError: an axis is out of range or named twice.
        ShapeError: there is nothing along an axis.
    """
    x = coerced(x, reduction.max, "max")
    return reduction.max(x, reduction_indices=axes_of(axis, x.ndim), keep_dims=keepdims)


def min(x: TensorLike, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The smallest element; NaN if there is one.

    >>> plugrad.min([[1.0, 2.0], [3.0, 4.0]], axis=0)
    tensor([1., 2.], dtype=float32)

    Raises:
        AxisError: an axis is out of range or named twice.
        ShapeError: there is nothing along an axis.
    """
    x = coerced(x, reduction.min, "min")
    return reduction.min(x, axis=axes_of(axis, x.ndim), keep_dims=keepdims)


def all(x: TensorLike, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Whether every element is True, or not 0; nothing gives True.

    >>> plugrad.all([[True, False], [True, True]], axis=1)
    tensor([False,  True], dtype=bool)

    Raises:
        AxisError: an axis is out of range or named twice.
    """
    x = cast(as_tensor(x, "all"), bool_)
    return reduction.all(x, axis=axes_of(axis, x.ndim), keep_dims=keepdims)


def any(x: TensorLike, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Whether some element is True, or not 0; nothing gives False.

    >>> plugrad.any([[True, False], [False, False]], axis=1)
    tensor([ True, False], dtype=bool)

    Raises:
        AxisError: an axis is out of range or named twice.
    """
    x = cast(as_tensor(x, "any"), bool_)
    return reduction.any(x, axis=axes_of(axis, x.ndim), keep_dims=keepdims)


def argmax(x: TensorLike, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The first position of the largest element, as int32; NaN counts as the largest.

    Without an axis, the position in the flattened tensor.

    >>> plugrad.argmax([[1.0, 5.0], [7.0, 4.0]], axis=1)
    tensor([1, 0], dtype=int32)

    Raises:
        AxisError: the axis is out of range.
        ShapeError: there is nothing along the axis.
    """
    x = coerced(x, reduction.argmax, "argmax")
    flat, axis, shape = _along_one_axis(x, axis, keepdims)
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
    x = coerced(x, reduction.argmin, "argmin")
    flat, axis, shape = _along_one_axis(x, axis, keepdims)
    return movement.reshape(reduction.argmin(flat, axis=axis), shape=shape)


def _summable(x: TensorLike, op: str, dtype: DTypeLike | None) -> Tensor:
    x = as_tensor(x, op)
    if dtype is not None:
        return cast(x, as_dtype(dtype))
    return cast(x, int32) if x.dtype is bool_ else x


def _along_one_axis(
    x: Tensor, axis: int | None, keepdims: bool
) -> tuple[Tensor, int, tuple[int, ...]]:
    """Return (tensor, axis, shape of the result) for a reduction along one axis or along the flattened tensor."""
    if axis is None:
        return movement.reshape(x, shape=(size_of(x.shape),)), 0, (1,) * x.ndim if keepdims else ()
    axis = axis_of(axis, x.ndim)
    return x, axis, reduced(x.shape, (axis,), keepdims)
