"""Functions that describe the elements along axes, made of other ops.

`axis` is one axis, several, or None for all; negative axes count from the end. With
``keepdims=True`` the reduced axes stay, with size 1.
"""

from __future__ import annotations

from math import inf, nan
from typing import TYPE_CHECKING

from plugrad.errors import ShapeError
from plugrad.kernels import binary, movement, normalization, reduction
from plugrad.ops.arguments import as_tensor, cast, coerced, promoted, same_dtype
from plugrad.ops.attributes import finite, flag, whole
from plugrad.ops.binary import equal, where
from plugrad.ops.reduction import sum
from plugrad.ops.transfer import stop_gradient
from plugrad.ops.unary import exp, isfinite, log, sqrt, square
from plugrad.types.dtype import bool_
from plugrad.types.shapes import axes_of, axis_of, size_of

if TYPE_CHECKING:
    from plugrad.tensor.tensor import Tensor, TensorLike
    from plugrad.types.specs import AxisLike


def var(
    x: TensorLike, *, axis: AxisLike = None, correction: float = 0.0, keepdims: bool = False
) -> Tensor:
    """The variance: the average of the squared distances from the mean.

    >>> plugrad.var([[1.0, 3.0], [2.0, 6.0]], axis=1)
    tensor([1., 4.], dtype=float32)

    The sum of n squares is divided by ``n - correction``; a correction of 1 (Bessel's) makes the
    variance of a sample an estimate of the population's without bias. If that is not positive, the
    result is NaN. Whole numbers are computed with as float32.

    Raises:
        AxisError: an axis is out of range or named twice.
    """
    x = _real(x, "var")
    return _spread("var", x, _mean("var", x, axis), axis, correction, keepdims)


def std(
    x: TensorLike, *, axis: AxisLike = None, correction: float = 0.0, keepdims: bool = False
) -> Tensor:
    """The standard deviation: the square root of the variance; arguments as for `var`.

    >>> plugrad.std([[1.0, 3.0], [2.0, 6.0]], axis=1)
    tensor([1., 2.], dtype=float32)

    The gradient where all elements are equal, which has no limit, is 0.
    """
    x = _real(x, "std")
    return _root(_spread("std", x, _mean("std", x, axis), axis, correction, keepdims))


def moments(
    x: TensorLike, *, axis: AxisLike = None, keepdims: bool = False
) -> tuple[Tensor, Tensor]:
    """The mean and the variance.

    >>> mean, variance = plugrad.moments([[1.0, 3.0], [2.0, 6.0]], axis=1)
    >>> mean, variance
    (tensor([2., 4.], dtype=float32), tensor([1., 4.], dtype=float32))

    Raises:
        AxisError: an axis is out of range or named twice.
    """
    x = _real(x, "moments")
    mean = _mean("moments", x, axis)
    variance = _spread("moments", x, mean, axis, 0.0, keepdims)
    return movement.reshape(mean, shape=variance.shape), variance


def count_nonzero(x: TensorLike, *, axis: AxisLike = None, keepdims: bool = False) -> Tensor:
    """The number of elements that are not 0, or True, as int32.

    >>> plugrad.count_nonzero([[0.0, 2.0], [3.0, 4.0]], axis=0)
    tensor([1, 2], dtype=int32)

    Raises:
        AxisError: an axis is out of range or named twice.
    """
    keepdims = flag(keepdims, "count_nonzero", "keepdims")
    return sum(
        cast(as_tensor(x, "count_nonzero"), bool_, "count_nonzero"), axis=axis, keepdims=keepdims
    )


def diff(
    x: TensorLike,
    *,
    axis: int = -1,
    n: int = 1,
    prepend: TensorLike | None = None,
    append: TensorLike | None = None,
) -> Tensor:
    """Each element less the one before it along an axis, `n` times over.

    >>> plugrad.diff([1, 4, 9, 16])
    tensor([3, 5, 7], dtype=int32)
    >>> plugrad.diff([1, 4, 9, 16], prepend=0)
    tensor([1, 3, 5, 7], dtype=int32)

    Args:
        x: numbers of any shape but 0-d.
        axis: along which to subtract; it becomes `n` shorter.
        n: how often.
        prepend: what to put before x first: one number, or a tensor that differs in shape from x
            on the axis only.
        append: what to put behind it.

    Raises:
        AxisError: the axis is out of range.
        ArgumentValueError: `n` is negative.
        ShapeError: what is put before or behind x does not fit.
        DTypeError: x is bool.
    """
    n = whole(n, "diff", "n", least=0)
    x = coerced(x, binary.subtract, "diff")
    axis = axis_of(axis, x.ndim, name="diff: axis")
    before, after = (_one_step(part, x, axis) for part in (prepend, append))
    parts = [part for part in (before, x, after) if part is not None]
    if len(parts) > 1:
        x = movement.concat(*same_dtype(parts, "diff"), axis=axis)
    for _ in range(min(n, x.shape[axis])):
        x = _cut(x, axis, 1) - _cut(x, axis, 0)
    return x


def log_sum_exp(x: TensorLike, *, axis: AxisLike = None, keepdims: bool = False) -> Tensor:
    """The logarithm of the sum of exponentials, ``log(sum(exp(x)))``, without overflow.

    >>> plugrad.log_sum_exp([1000.0, 1000.0])
    tensor(1000.6932, dtype=float32)

    Nothing, or only minus infinity, gives minus infinity.

    Raises:
        AxisError: an axis is out of range or named twice.
    """
    x = _real(x, "log_sum_exp")
    axes = axes_of(axis, x.ndim, name="log_sum_exp: axis")
    if x.size:
        largest = stop_gradient(reduction.max(x, reduction_indices=axes, keep_dims=True))
        shift = where(isfinite(largest), largest, 0)  # infinity less infinity is NaN
    else:
        shift = reduction.sum(x, axis=axes, keep_dims=True)
    keepdims = flag(keepdims, "log_sum_exp", "keepdims")
    total = reduction.sum(exp(x - shift), axis=axes, keep_dims=keepdims)
    is_zero = equal(total, 0)
    # The gradient of log at 0 is infinite, that of the exponentials there is 0: their product is NaN.
    logarithm = where(is_zero, -inf, log(where(is_zero, 1, total)))
    return logarithm + movement.reshape(shift, shape=total.shape)


def euclidean_norm(x: TensorLike, *, axis: AxisLike = None, keepdims: bool = False) -> Tensor:
    """The length of vectors: the square root of the sum of squares.

    >>> plugrad.euclidean_norm([[3.0, 4.0], [5.0, 12.0]], axis=1)
    tensor([ 5., 13.], dtype=float32)

    The gradient at a vector of zeros, which has no limit, is 0.

    Raises:
        AxisError: an axis is out of range or named twice.
    """
    x = _real(x, "euclidean_norm")
    keepdims = flag(keepdims, "euclidean_norm", "keepdims")
    return _root(
        reduction.sum(
            square(x), axis=axes_of(axis, x.ndim, name="euclidean_norm: axis"), keep_dims=keepdims
        )
    )


def _real(x: TensorLike, op: str) -> Tensor:
    """Return x as real floats."""
    return coerced(x, normalization.softmax, op)


def _mean(op: str, x: Tensor, axis: AxisLike) -> Tensor:
    """Return the mean with the reduced axes of size 1."""
    axes = axes_of(axis, x.ndim, name=f"{op}: axis")
    return reduction.mean(x, axis=axes, keep_dims=True)


def _spread(
    op: str, x: Tensor, mean: Tensor, axis: AxisLike, correction: float, keepdims: bool
) -> Tensor:
    """Return the variance around a known mean."""
    axes = axes_of(axis, x.ndim, name=f"{op}: axis")
    variance = reduction.mean(  # and no sum, which may be more than float16 holds
        binary.squared_difference(x, mean), axis=axes, keep_dims=flag(keepdims, op, "keepdims")
    )
    count = size_of(tuple(x.shape[i] for i in axes))
    freedom = count - finite(correction, op, "correction")
    return variance if freedom == count else variance * (count / freedom if freedom > 0 else nan)


def _root(x: Tensor) -> Tensor:
    """Return the square root; its gradient at 0 is 0 instead of infinite."""
    is_zero = equal(x, 0)
    return where(is_zero, 0, sqrt(where(is_zero, 1, x)))


def _one_step(part: TensorLike | None, x: Tensor, axis: int) -> Tensor | None:
    """Return what is put before or behind x; a lone number is one step wide."""
    if part is None:
        return None
    _, tensor = promoted(x, part, binary.subtract, "diff")
    if tensor.ndim == 0:
        shape = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
        return movement.broadcast_to(tensor, shape=shape)
    if tensor.ndim != x.ndim:
        raise ShapeError(
            f"diff: shapes {tensor.shape} and {x.shape} must differ on axis {axis} only"
        )
    return tensor


def _cut(x: Tensor, axis: int, start: int) -> Tensor:
    """Return x without its first or last step along an axis."""
    begin = tuple(start if i == axis else 0 for i in range(x.ndim))
    size = tuple(length - (i == axis) for i, length in enumerate(x.shape))
    return movement.slice(x, begin=begin, size=size)
