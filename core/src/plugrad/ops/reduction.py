"""Functions that combine the elements along axes, or in bins.

`axis` is one axis, several, or None for all; negative axes count from the end. These axes disappear
from the shape; with ``keepdims=True`` they remain, with size 1.
"""

from __future__ import annotations

import builtins
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeGuard

from plugrad.errors import ArgumentError, ArgumentValueError, DTypeError
from plugrad.kernels import movement, reduction
from plugrad.ops.arguments import (
    as_supported_dtype,
    as_tensor,
    cast,
    with_attributes,
)
from plugrad.ops.attributes import check_flag, check_integer
from plugrad.ops.axes import run_along_axis
from plugrad.ops.indexing import as_signed, first_backend
from plugrad.tensor.tensor import Tensor
from plugrad.types.arguments import explain_wrong_calls
from plugrad.types.dtype import (
    BOOL,
    INTEGER,
    as_dtype,
    bool_,
    equivalents,
    int32,
    position_dtype,
    uint32,
)
from plugrad.types.shapes import normalize_axes, reduced_shape
from plugrad.types.specs import Shaped

if TYPE_CHECKING:
    from plugrad.contract.kernel import Kernel, ValidatedAttributes
    from plugrad.tensor.tensor import TensorLike
    from plugrad.types.dtype import DTypeLike
    from plugrad.types.specs import AxisLike, Shape


@explain_wrong_calls
def sum(
    x: TensorLike, *, axis: AxisLike = None, dtype: DTypeLike | None = None, keepdims: bool = False
) -> Tensor:
    """The sum of the elements along axes; the sum of no elements is 0.

    >>> plugrad.sum([[1.0, 2.0], [3.0, 4.0]], axis=0)
    tensor([4., 6.], dtype=float32)

    Args:
        x: numbers or bools.
        axis: the axes that disappear; None for all.
        dtype: the dtype in which to add, and of the result: by default that of x, but int32 for
            bools and small signed integers, and uint32 for small unsigned ones.
        keepdims: whether the axes remain, with size 1.

    Raises:
        AxisError: an axis is out of range or named twice.
        DTypeError: x holds strings, or `dtype` is not numeric.
        ArgumentError: `keepdims` is not a bool.
    """
    x = as_summable(x, "sum", dtype)
    return run_reduction(x, reduction.sum, "sum", axis, keepdims)


@explain_wrong_calls
def prod(
    x: TensorLike, *, axis: AxisLike = None, dtype: DTypeLike | None = None, keepdims: bool = False
) -> Tensor:
    """The product of the elements along axes; the product of no elements is 1.

    >>> plugrad.prod([[1.0, 2.0], [3.0, 4.0]], axis=1)
    tensor([ 2., 12.], dtype=float32)

    Args:
        x: numbers or bools.
        axis: the axes that disappear; None for all.
        dtype: the dtype in which to multiply, and of the result: by default that of x, but int32 for
            bools and small signed integers, and uint32 for small unsigned ones.
        keepdims: whether the axes remain, with size 1.

    Raises:
        AxisError: an axis is out of range or named twice.
        DTypeError: x holds strings, or `dtype` is not numeric.
        ArgumentError: `keepdims` is not a bool.
    """
    x = as_summable(x, "prod", dtype)
    return run_reduction(x, reduction.prod, "prod", axis, keepdims)


@explain_wrong_calls
def mean(x: TensorLike, *, axis: AxisLike = None, keepdims: bool = False) -> Tensor:
    """The average of the elements along axes; the average of no elements is NaN.

    >>> plugrad.mean([[1.0, 2.0], [3.0, 4.0]], axis=0)
    tensor([2., 3.], dtype=float32)

    The dtype is that of x; integers and bools become float32. The axes disappear, or remain with
    size 1 if `keepdims`.

    Raises:
        AxisError: an axis is out of range or named twice.
        DTypeError: x holds strings.
        ArgumentError: `keepdims` is not a bool.
    """
    x = as_supported_dtype(x, reduction.mean, "mean")
    return run_reduction(x, reduction.mean, "mean", axis, keepdims)


@explain_wrong_calls
def max(x: TensorLike, *, axis: AxisLike = None, keepdims: bool = False) -> Tensor:
    """The largest element along axes, NaN if there is one; for bools, whether any element is True.

    >>> plugrad.max([[1.0, 2.0], [3.0, 4.0]], axis=0)
    tensor([3., 4.], dtype=float32)

    The dtype is that of x. The axes disappear, or remain with size 1 if `keepdims`.

    Raises:
        AxisError: an axis is out of range or named twice.
        ShapeError: there are no elements along an axis.
        DTypeError: x holds complex numbers or strings.
        ArgumentError: `keepdims` is not a bool.
    """
    if not _is_supported_float32(x, reduction.max):
        x = as_tensor(x, "max")
        if x.array.dtype in _BOOL_DTYPES:
            if x.size:
                return any(x, axis=axis, keepdims=keepdims)
            # raises if the axis is empty, as for numbers
            return cast(max(cast(x, int32), axis=axis, keepdims=keepdims), bool_)
        x = as_supported_dtype(x, reduction.max, "max")
    return run_reduction(x, reduction.max, "max", axis, keepdims)


@explain_wrong_calls
def min(x: TensorLike, *, axis: AxisLike = None, keepdims: bool = False) -> Tensor:
    """The smallest element along axes, NaN if there is one; for bools, whether all elements are True.

    >>> plugrad.min([[1.0, 2.0], [3.0, 4.0]], axis=0)
    tensor([1., 2.], dtype=float32)

    The dtype is that of x. The axes disappear, or remain with size 1 if `keepdims`.

    Raises:
        AxisError: an axis is out of range or named twice.
        ShapeError: there are no elements along an axis.
        DTypeError: x holds complex numbers or strings.
        ArgumentError: `keepdims` is not a bool.
    """
    if not _is_supported_float32(x, reduction.min):
        x = as_tensor(x, "min")
        if x.array.dtype in _BOOL_DTYPES:
            if x.size:
                return all(x, axis=axis, keepdims=keepdims)
            # raises if the axis is empty, as for numbers
            return cast(min(cast(x, int32), axis=axis, keepdims=keepdims), bool_)
        x = as_supported_dtype(x, reduction.min, "min")
    return run_reduction(x, reduction.min, "min", axis, keepdims)


@explain_wrong_calls
def all(x: TensorLike, *, axis: AxisLike = None, keepdims: bool = False) -> Tensor:
    """Whether all elements along axes are True, or not 0; True if there are no elements.

    >>> plugrad.all([[True, False], [True, True]], axis=1)
    tensor([False,  True], dtype=bool)

    The dtype is bool. The axes disappear, or remain with size 1 if `keepdims`.

    Raises:
        AxisError: an axis is out of range or named twice.
        DTypeError: x holds strings.
        ArgumentError: `keepdims` is not a bool.
    """
    x = cast(as_tensor(x, "all"), bool_, "all")
    return run_reduction(x, reduction.all, "all", axis, keepdims)


@explain_wrong_calls
def any(x: TensorLike, *, axis: AxisLike = None, keepdims: bool = False) -> Tensor:
    """Whether any element along axes is True, or not 0; False if there are no elements.

    >>> plugrad.any([[True, False], [False, False]], axis=1)
    tensor([ True, False], dtype=bool)

    The dtype is bool. The axes disappear, or remain with size 1 if `keepdims`.

    Raises:
        AxisError: an axis is out of range or named twice.
        DTypeError: x holds strings.
        ArgumentError: `keepdims` is not a bool.
    """
    x = cast(as_tensor(x, "any"), bool_, "any")
    return run_reduction(x, reduction.any, "any", axis, keepdims)


@explain_wrong_calls
def argmax(x: TensorLike, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The first position of the largest element along an axis, as int32; NaN counts as the largest.

    >>> plugrad.argmax([[1.0, 5.0], [7.0, 4.0]], axis=1)
    tensor([1, 0], dtype=int32)

    Without an axis it is the position in the flattened tensor. The axis disappears, or remains with
    size 1 if `keepdims`; without an axis this holds for all axes.

    Raises:
        AxisError: the axis is out of range.
        ShapeError: there are no elements along the axis.
        DTypeError: x holds complex numbers or strings.
        ArgumentError: `keepdims` is not a bool.
    """
    x = _as_comparable(x, reduction.argmax, "argmax")
    return _run_arg_reduction(reduction.argmax, "argmax", x, axis, keepdims)


@explain_wrong_calls
def argmin(x: TensorLike, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The first position of the smallest element along an axis, as int32; NaN counts as the smallest.

    >>> plugrad.argmin([[1.0, 5.0], [7.0, 4.0]], axis=1)
    tensor([0, 1], dtype=int32)

    Without an axis it is the position in the flattened tensor. The axis disappears, or remains with
    size 1 if `keepdims`; without an axis this holds for all axes.

    Raises:
        AxisError: the axis is out of range.
        ShapeError: there are no elements along the axis.
        DTypeError: x holds complex numbers or strings.
        ArgumentError: `keepdims` is not a bool.
    """
    x = _as_comparable(x, reduction.argmin, "argmin")
    return _run_arg_reduction(reduction.argmin, "argmin", x, axis, keepdims)


def bincount(
    x: TensorLike,
    weights: TensorLike | None = None,
    *,
    size: int | None = None,
    minlength: int = 0,
) -> Tensor:
    """The number of occurrences of each integer from 0 to ``size - 1``, or the sum of their weights.

    >>> plugrad.bincount([1, 1, 0, 3], size=4)
    tensor([1, 2, 0, 1], dtype=int32)
    >>> plugrad.bincount([1, 1, 0, 3], [0.5, 0.25, 4.0, 8.0], size=4)
    tensor([4.  , 0.75, 0.  , 8.  ], dtype=float32)
    >>> plugrad.bincount([1, 1, 0, 3], minlength=6)
    tensor([1, 2, 0, 1, 0, 0], dtype=int32)

    The shape is (size,). Counts are int32, and sums have the dtype of the weights.

    Args:
        x: integers; those outside ``[0, size)`` do not count.
        weights: the weight of each element, in the shape of x; None counts elements.
        size: the number of bins. Without it there are as many as x needs, for which its values are
            copied to the host, and x must not be negative.
        minlength: the least number of bins if `size` is not given.

    Raises:
        DTypeError: x does not hold integers, or the weights hold bools or strings.
        ShapeError: the weights do not have the shape of x.
        ArgumentError: `size` or `minlength` is not an integer, or both are given.
        ArgumentValueError: one of them is negative, or a number is and `size` is not given.
    """
    op = "bincount"
    numbers, summands = _as_bins_and_weights(x, weights, op)
    minlength = check_integer(minlength, op, "minlength", least=0)
    if size is None:
        size = builtins.max(minlength, _max_or_minus_one(numbers, op) + 1)
    elif minlength:
        raise ArgumentError(f"{op}: size={size} and minlength={minlength}; give one of them")
    return reduction.bincount(numbers, summands, size=check_integer(size, op, "size"))


def _max_or_minus_one(x: Tensor, op: str) -> int:
    """Return the greatest of some integers, -1 if there are none.

    Raises:
        ArgumentValueError: one is negative.
    """
    values = x.numpy()
    if not values.size:
        return -1
    if values.min() < 0:
        raise ArgumentValueError(
            f"{op}: x holds {values.min()}, and numbers must not be negative; give size to leave them out"
        )
    return int(values.max())


def dense_bincount(
    x: TensorLike, weights: TensorLike | None = None, *, size: int, binary_output: bool = False
) -> Tensor:
    """The counts of `bincount` for a vector, or for each row of a matrix.

    >>> plugrad.dense_bincount([[1, 1, 0], [2, 2, 5]], size=3)
    tensor([[1, 2, 0],
            [0, 0, 2]], dtype=int32)
    >>> plugrad.dense_bincount([[1, 1, 0], [2, 2, 5]], size=3, binary_output=True)
    tensor([[1, 1, 0],
            [0, 0, 1]], dtype=int32)

    The shape is (size,) or (rows, size). Counts are int32, and sums have the dtype of the weights.

    Args:
        x: a vector or a matrix of integers; those outside ``[0, size)`` do not count.
        weights: the weight of each element, in the shape of x; None counts elements.
        size: the number of bins.
        binary_output: whether to give 1 for each integer that occurs, whatever its weights.

    Raises:
        DTypeError: x does not hold integers, or the weights hold bools or strings.
        ShapeError: x does not have one or two axes, or the weights do not have its shape.
        ArgumentError: `size` is not an integer, or `binary_output` not a bool.
        ArgumentValueError: `size` is negative.
    """
    numbers, summands = _as_bins_and_weights(x, weights, "dense_bincount")
    return reduction.dense_bincount(
        numbers,
        summands,
        size=check_integer(size, "dense_bincount", "size"),
        binary_output=check_flag(binary_output, "dense_bincount", "binary_output"),
    )


def as_summable(x: TensorLike, op: str, dtype: DTypeLike | None) -> Tensor:
    """Cast x to the dtype in which its elements are added or multiplied."""
    if not isinstance(x, Tensor):
        x = as_tensor(x, op)
    if dtype is not None:
        return cast(x, as_dtype(dtype), op)
    if x.array.dtype in _NARROW_DTYPES:
        if x.dtype is bool_:
            return cast(x, position_dtype(x.size + 1))
        return cast(x, uint32 if x.dtype.kind == "unsigned" else int32)
    return x


_BOOL_DTYPES = equivalents(BOOL)
"""The dtype bool, in plugrad's and NumPy's spelling."""
_NARROW_DTYPES = equivalents(BOOL | {d for d in INTEGER if d.itemsize < int32.itemsize})


def run_reduction(
    x: Tensor, kernel: Kernel[..., Tensor], op: str, axis: AxisLike, keepdims: bool
) -> Tensor:
    """Run a reduction kernel; its first attribute is the axes."""
    array = x.array
    if axis is not None and type(axis) is not int:
        axis = normalize_axes(axis, len(array.shape), name=f"{op}: axis")
    if keepdims is not False:
        keepdims = check_flag(keepdims, op, "keepdims")
    return kernel.call(
        x, _reduction_attributes(kernel, op, array.shape, array.dtype, axis, keepdims)
    )


@lru_cache(maxsize=1024)
def _reduction_attributes(
    kernel: Kernel[..., Tensor],
    op: str,
    shape: Shape,
    dtype: object,
    axis: int | Shape | None,
    keep_dims: bool,
) -> ValidatedAttributes:
    """Return the validated attributes of a reduction of a tensor of this shape and dtype."""
    axes = normalize_axes(axis, len(shape), name=f"{op}: axis")
    said = {kernel.attributes[0]: axes, "keep_dims": keep_dims}
    return kernel.validate_attributes(Shaped(shape, as_dtype(dtype)), **said)


def _is_supported_float32(x: TensorLike, kernel: Kernel[..., Any]) -> TypeGuard[Tensor]:
    """Return whether x is a tensor of float32, which a kernel takes: in most programs, most are."""
    return type(x) is Tensor and x.array.dtype is kernel.fast_dtype


def _as_comparable(x: TensorLike, kernel: Kernel[..., Tensor], op: str) -> Tensor:
    """Cast x to a dtype that the kernel compares; bools compare as 0 and 1."""
    if _is_supported_float32(x, kernel):
        return x
    x = as_tensor(x, op)
    return as_supported_dtype(cast(x, int32) if x.array.dtype in _BOOL_DTYPES else x, kernel, op)


def _as_bins_and_weights(
    x: TensorLike, weights: TensorLike | None, op: str
) -> tuple[Tensor, Tensor | None]:
    """Convert x and its weights to dtypes that the bin-count kernels support."""
    home = None if weights is None else first_backend(weights)
    numbers = as_tensor(x, op, backend=home)
    if not numbers.dtype.is_integer:
        raise DTypeError(
            f"{op}: x is {numbers.dtype}; only integers are counted, as after astype('int32')"
        )
    numbers = as_signed(numbers)
    if weights is None:
        return numbers, None
    return numbers, as_tensor(weights, op, "weights", backend=numbers.backend)


def _run_arg_reduction(
    kernel: Kernel[..., Tensor], op: str, x: Tensor, axis: int | None, keepdims: bool
) -> Tensor:
    """Run a kernel that finds a position along one axis, or in the flattened tensor."""
    if keepdims is not False:
        keepdims = check_flag(keepdims, op, "keepdims")
    sizes = x.array.shape
    if axis is None:
        flat = x if len(sizes) == 1 else with_attributes(movement.reshape, x, shape=(x.size,))
        place = run_along_axis(kernel, flat, op, 0)
    else:
        place = run_along_axis(kernel, x, op, axis)
    if not keepdims:
        return place
    kept = reduced_shape(sizes, normalize_axes(axis, len(sizes)), keep_dims=True)
    return with_attributes(movement.reshape, place, shape=kept)
