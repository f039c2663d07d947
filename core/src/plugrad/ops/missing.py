"""Reductions and running sums of the elements that are not NaN, which stands for missing values.

`axis` is one axis, several, or None for all; negative axes count from the end. These axes disappear
from the shape; with ``keepdims=True`` they remain, with size 1. Elements that are NaN have the gradient 0. What has no
NaN, such as integers, has the results of the functions without "nan" in their names. `dtype` is one to which x is
converted first.
"""

from __future__ import annotations

from math import inf, nan
from typing import TYPE_CHECKING

from plugrad.kernels import normalization
from plugrad.ops.arguments import as_supported_dtype, as_tensor
from plugrad.ops.attributes import check_finite, check_flag
from plugrad.ops.binary import divide, where
from plugrad.ops.movement import reshape
from plugrad.ops.norms import sqrt_with_zero_gradient
from plugrad.ops.reduction import all, any, argmax, argmin, max, min, prod, sum
from plugrad.ops.scan import cumulative_prod, cumulative_sum
from plugrad.ops.transfer import stop_gradient
from plugrad.ops.unary import astype, isnan, logical_not, square
from plugrad.types.arguments import explain_wrong_calls

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad.tensor.tensor import Tensor, TensorLike
    from plugrad.types.dtype import DTypeLike
    from plugrad.types.specs import AxisLike


@explain_wrong_calls
def nansum(
    x: TensorLike,
    *,
    axis: AxisLike = None,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
) -> Tensor:
    """The sum along axes of the elements that are not NaN; 0 where all are.

    >>> plugrad.nansum([[1.0, plugrad.nan], [3.0, 4.0]], axis=0)
    tensor([4., 4.], dtype=float32)

    The dtype is as for `sum`.

    Raises:
        AxisError: an axis is out of range or named twice.
        DTypeError: x holds strings, or `dtype` is none.
        ArgumentError: `keepdims` is not a bool.
    """
    return sum(
        _replace_nan(_as_tensor_of_dtype(x, dtype, "nansum"), 0), axis=axis, keepdims=keepdims
    )


@explain_wrong_calls
def nanprod(
    x: TensorLike,
    *,
    axis: AxisLike = None,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
) -> Tensor:
    """The product along axes of the elements that are not NaN; 1 where all are.

    >>> plugrad.nanprod([2.0, plugrad.nan, 4.0])
    tensor(8., dtype=float32)

    Raises:
        AxisError, DTypeError, ArgumentError: as for `nansum`.
    """
    return prod(
        _replace_nan(_as_tensor_of_dtype(x, dtype, "nanprod"), 1), axis=axis, keepdims=keepdims
    )


@explain_wrong_calls
def nanmax(x: TensorLike, *, axis: AxisLike = None, keepdims: bool = False) -> Tensor:
    """The largest element along axes that is not NaN; NaN where all are.

    >>> plugrad.nanmax([1.0, plugrad.nan, 4.0])
    tensor(4., dtype=float32)

    Raises:
        ShapeError: there are no elements along an axis.
        AxisError, DTypeError, ArgumentError: as for `nansum`; DTypeError also for complex numbers.
    """
    return _extreme_ignoring_nan(max, "nanmax", x, -inf, axis, keepdims)


@explain_wrong_calls
def nanmin(x: TensorLike, *, axis: AxisLike = None, keepdims: bool = False) -> Tensor:
    """The smallest element along axes that is not NaN; NaN where all are.

    >>> plugrad.nanmin([1.0, plugrad.nan, 4.0])
    tensor(1., dtype=float32)

    Raises:
        ShapeError, AxisError, DTypeError, ArgumentError: as for `nanmax`.
    """
    return _extreme_ignoring_nan(min, "nanmin", x, inf, axis, keepdims)


@explain_wrong_calls
def nanmean(
    x: TensorLike,
    *,
    axis: AxisLike = None,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
) -> Tensor:
    """The average along axes of the elements that are not NaN; NaN where all are.

    >>> plugrad.nanmean([[1.0, plugrad.nan], [3.0, 4.0]], axis=0)
    tensor([2., 4.], dtype=float32)

    The dtype is that of x; integers and bools become float32.

    Raises:
        AxisError: an axis is out of range or named twice.
        DTypeError: x holds complex numbers or strings, or `dtype` is none.
        ArgumentError: `keepdims` is not a bool.
    """
    x = as_supported_dtype(
        _as_tensor_of_dtype(x, dtype, "nanmean"), normalization.softmax, "nanmean"
    )
    keepdims = check_flag(keepdims, "nanmean", "keepdims")
    return sum(_replace_nan(x, 0), axis=axis, keepdims=keepdims) / _count_non_nan(x, axis, keepdims)


@explain_wrong_calls
def nanvar(
    x: TensorLike,
    *,
    axis: AxisLike = None,
    dtype: DTypeLike | None = None,
    correction: float = 0.0,
    keepdims: bool = False,
) -> Tensor:
    """The variance along axes of the elements that are not NaN.

    >>> plugrad.nanvar([1.0, plugrad.nan, 3.0])
    tensor(1., dtype=float32)

    The sum of n squares is divided by ``n - correction``; NaN if that is not positive. Dtype as for `nanmean`.

    Raises:
        AxisError, DTypeError, ArgumentError: as for `nanmean`.
        ArgumentValueError: `correction` is not finite.
    """
    x = as_supported_dtype(_as_tensor_of_dtype(x, dtype, "nanvar"), normalization.softmax, "nanvar")
    correction = check_finite(correction, "nanvar", "correction")
    keepdims = check_flag(keepdims, "nanvar", "keepdims")
    mean = nanmean(x, axis=axis, keepdims=True)
    is_missing = isnan(stop_gradient(x))
    squares = square(where(is_missing, 0, where(is_missing, 0, x) - mean))
    freedom = _count_non_nan(x, axis, keepdims) - correction
    return divide(sum(squares, axis=axis, keepdims=keepdims), where(freedom > 0, freedom, nan))


@explain_wrong_calls
def nanstd(
    x: TensorLike,
    *,
    axis: AxisLike = None,
    dtype: DTypeLike | None = None,
    correction: float = 0.0,
    keepdims: bool = False,
) -> Tensor:
    """The standard deviation along axes of the elements that are not NaN.

    >>> plugrad.nanstd([1.0, plugrad.nan, 3.0])
    tensor(1., dtype=float32)

    It is the square root of `nanvar`. The gradient where all elements are equal, which has no limit, is 0.

    Raises:
        AxisError, DTypeError, ArgumentError, ArgumentValueError: as for `nanvar`.
    """
    x = as_supported_dtype(_as_tensor_of_dtype(x, dtype, "nanstd"), normalization.softmax, "nanstd")
    return sqrt_with_zero_gradient(nanvar(x, axis=axis, correction=correction, keepdims=keepdims))


@explain_wrong_calls
def nancumsum(x: TensorLike, *, axis: int | None = None, dtype: DTypeLike | None = None) -> Tensor:
    """The sums of all elements up to each one that are not NaN, along an axis, in the shape of x.

    >>> plugrad.nancumsum([1.0, plugrad.nan, 3.0])
    tensor([1., 1., 4.], dtype=float32)

    Without an axis they are those of the flattened tensor. The dtype is as for `cumulative_sum`.

    Raises:
        AxisError: the axis is out of range.
        DTypeError: x holds strings, or `dtype` is none.
    """
    return _run_accumulation(
        cumulative_sum, _replace_nan(_as_tensor_of_dtype(x, dtype, "nancumsum"), 0), axis
    )


@explain_wrong_calls
def nancumprod(x: TensorLike, *, axis: int | None = None, dtype: DTypeLike | None = None) -> Tensor:
    """The products of all elements up to each one that are not NaN, along an axis, in the shape of x.

    >>> plugrad.nancumprod([2.0, plugrad.nan, 3.0])
    tensor([2., 2., 6.], dtype=float32)

    Without an axis they are those of the flattened tensor. The dtype is as for `cumulative_prod`.

    Raises:
        AxisError, DTypeError: as for `nancumsum`.
    """
    return _run_accumulation(
        cumulative_prod, _replace_nan(_as_tensor_of_dtype(x, dtype, "nancumprod"), 1), axis
    )


@explain_wrong_calls
def nanargmax(x: TensorLike, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The first position of the largest element along an axis that is not NaN, as int32; -1 where all are NaN.

    >>> plugrad.nanargmax([[plugrad.nan, 5.0], [7.0, 4.0]], axis=1)
    tensor([1, 0], dtype=int32)

    Without an axis it is the position in the flattened tensor. NumPy raises where all are NaN.

    Raises:
        AxisError: the axis is out of range.
        ShapeError: there are no elements along the axis.
        DTypeError: x holds complex numbers or strings.
        ArgumentError: `keepdims` is not a bool.
    """
    return _arg_extreme_ignoring_nan(nanmax, argmax, "nanargmax", x, axis, keepdims)


@explain_wrong_calls
def nanargmin(x: TensorLike, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The first position of the smallest element along an axis that is not NaN, as int32; -1 where all are NaN.

    >>> plugrad.nanargmin([[plugrad.nan, 5.0], [7.0, 4.0]], axis=1)
    tensor([1, 1], dtype=int32)

    Without an axis it is the position in the flattened tensor. NumPy raises where all are NaN.

    Raises:
        AxisError, ShapeError, DTypeError, ArgumentError: as for `nanargmax`.
    """
    return _arg_extreme_ignoring_nan(nanmin, argmin, "nanargmin", x, axis, keepdims)


def _as_tensor_of_dtype(x: TensorLike, dtype: DTypeLike | None, op: str) -> Tensor:
    """Return x as a tensor, cast to a dtype if one is given."""
    x = as_tensor(x, op)
    return x if dtype is None else astype(x, dtype)


def _replace_nan(x: Tensor, value: float) -> Tensor:
    """Return x with a value in place of NaN."""
    if x.dtype.kind not in ("floating", "complex"):
        return x
    return where(isnan(stop_gradient(x)), value, x)


def _count_non_nan(x: Tensor, axis: AxisLike, keepdims: bool) -> Tensor:
    """Return how many elements along axes are not NaN, in the dtype of x."""
    is_number = logical_not(isnan(stop_gradient(x)))
    return sum(is_number.astype(x.dtype), axis=axis, keepdims=keepdims)


def _run_accumulation(accumulate: Callable[..., Tensor], x: Tensor, axis: int | None) -> Tensor:
    """Accumulate along an axis, or over the flattened tensor if the axis is None."""
    return accumulate(reshape(x, (-1,))) if axis is None else accumulate(x, axis=axis)


def _arg_extreme_ignoring_nan(
    find_extreme: Callable[..., Tensor],
    find_position: Callable[..., Tensor],
    op: str,
    x: TensorLike,
    axis: int | None,
    keepdims: bool,
) -> Tensor:
    """Return the first position of the largest or smallest element that is not NaN, or -1."""
    x = stop_gradient(as_tensor(x, op))
    if x.dtype.kind != "floating":
        return find_position(x, axis=axis, keepdims=keepdims)
    # Filled with the limit, a NaN would be found before an element that is infinite.
    is_found = x == find_extreme(x, axis=axis, keepdims=True)
    found = argmax(is_found.astype("int32"), axis=axis, keepdims=keepdims)
    return where(any(is_found, axis=axis, keepdims=keepdims), found, -1)


def _extreme_ignoring_nan(
    find_extreme: Callable[..., Tensor],
    op: str,
    x: TensorLike,
    nan_replacement: float,
    axis: AxisLike,
    keepdims: bool,
) -> Tensor:
    """Return the largest or smallest of the elements that are not NaN."""
    x = as_tensor(x, op)
    if x.dtype.kind != "floating":
        return find_extreme(x, axis=axis, keepdims=keepdims)
    found = find_extreme(_replace_nan(x, nan_replacement), axis=axis, keepdims=keepdims)
    return where(all(isnan(stop_gradient(x)), axis=axis, keepdims=keepdims), nan, found)
