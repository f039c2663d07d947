"""Functions that describe the elements along axes, composed of other ops.

`axis` is one axis, several, or None for all; negative axes count from the end. These axes disappear
from the shape; with ``keepdims=True`` they remain, with size 1.
"""

from __future__ import annotations

from math import inf, nan
from typing import TYPE_CHECKING, Any

from plugrad.engine.results import alias
from plugrad.errors import ShapeError
from plugrad.kernels import binary, linalg, movement, normalization, reduction, unary
from plugrad.ops.arguments import (
    as_supported_dtype,
    as_tensor,
    cast,
    promote_operands,
    promote_to_one_dtype,
    with_attributes,
)
from plugrad.ops.attributes import check_finite, check_flag, check_integer
from plugrad.ops.binary import divide, equal, where
from plugrad.ops.complex import conj, real
from plugrad.ops.creation import eye
from plugrad.ops.norms import sqrt_with_zero_gradient
from plugrad.ops.reduction import run_reduction, sum
from plugrad.ops.transfer import stop_gradient
from plugrad.ops.unary import exp, isfinite, log, sqrt
from plugrad.tensor.tracer import is_traced
from plugrad.types.arguments import explain_wrong_calls
from plugrad.types.dtype import bool_
from plugrad.types.shapes import count_elements, normalize_axes, normalize_axis

if TYPE_CHECKING:
    from plugrad.tensor.tensor import Tensor, TensorLike
    from plugrad.types.specs import AxisLike


@explain_wrong_calls
def var(
    x: TensorLike, *, axis: AxisLike = None, correction: float = 0.0, keepdims: bool = False
) -> Tensor:
    """The variance along axes: the average of the squared differences from the mean.

    >>> plugrad.var([[1.0, 3.0], [2.0, 6.0]], axis=1)
    tensor([1., 4.], dtype=float32)

    The dtype is that of x; integers and bools become float32.

    Args:
        x: real numbers.
        axis: the axes that disappear; None for all.
        correction: a number c: the sum of n squares is divided by ``n - c``. 1 (Bessel's correction)
            gives an unbiased estimate of the variance of a population from a sample. The result is
            NaN if ``n - c`` is not positive.
        keepdims: whether the axes remain, with size 1.

    Raises:
        AxisError: an axis is out of range or named twice.
        DTypeError: x holds complex numbers or strings.
        ArgumentError: `correction` is not a number, or `keepdims` not a bool.
        ArgumentValueError: `correction` is not finite.
    """
    x = _as_real_floats(x, "var")
    return _variance("var", x, axis, correction, keepdims)


@explain_wrong_calls
def std(
    x: TensorLike, *, axis: AxisLike = None, correction: float = 0.0, keepdims: bool = False
) -> Tensor:
    """The standard deviation along axes: the square root of the variance.

    >>> plugrad.std([[1.0, 3.0], [2.0, 6.0]], axis=1)
    tensor([1., 2.], dtype=float32)

    Arguments, shape and dtype are as for `var`. The gradient where all elements are equal, which
    has no limit, is 0.

    Raises:
        AxisError, DTypeError, ArgumentError, ArgumentValueError: as for `var`.
    """
    x = _as_real_floats(x, "std")
    return sqrt_with_zero_gradient(_variance("std", x, axis, correction, keepdims))


@explain_wrong_calls
def moments(
    x: TensorLike, *, axis: AxisLike = None, keepdims: bool = False
) -> tuple[Tensor, Tensor]:
    """The mean and the variance along axes.

    >>> mean, variance = plugrad.moments([[1.0, 3.0], [2.0, 6.0]], axis=1)
    >>> mean, variance
    (tensor([2., 4.], dtype=float32), tensor([1., 4.], dtype=float32))

    The dtype is that of x; integers and bools become float32. The axes disappear, or remain with
    size 1 if `keepdims`.

    Raises:
        AxisError: an axis is out of range or named twice.
        DTypeError: x holds complex numbers or strings.
        ArgumentError: `keepdims` is not a bool.
    """
    x = _as_real_floats(x, "moments")
    keepdims = check_flag(keepdims, "moments", "keepdims")
    axes = normalize_axes(axis, x.ndim, name="moments: axis")
    mean = reduction.mean(x, axis=axes, keep_dims=keepdims)
    return mean, _variance("moments", x, axis, 0.0, keepdims)


def cov(
    x: TensorLike,
    *,
    rowvar: bool = True,
    correction: float = 1.0,
    fweights: TensorLike | None = None,
    aweights: TensorLike | None = None,
) -> Tensor:
    """The covariances of variables: the average products of their differences from their means.

    >>> plugrad.cov([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]])
    tensor([[ 1., -1.],
            [-1.,  1.]], dtype=float32)

    The result has a row and a column for each variable, or none for a vector, and the dtype of x; integers and
    bools become float32.

    Args:
        x: a matrix with a row for each variable and a column for each observation, or a vector of one variable.
        rowvar: whether the rows are the variables; otherwise the columns are.
        correction: the sum of n products is divided by ``n - correction``. The result is NaN or infinite if that
            is 0.
        fweights: how often each observation counts: whole numbers, 0 or more.
        aweights: the weight of each observation, 0 or more.

    Raises:
        ShapeError: x has more than two axes, or there is not one weight for each observation.
        DTypeError: x holds strings.
        ArgumentError: `rowvar` is not a bool, or `correction` not a number.
        ArgumentValueError: `correction` is not finite.
    """
    x = as_supported_dtype(x, unary.sqrt, "cov")
    if x.ndim > 2:
        raise ShapeError(f"cov: x of shape {x.shape} must be a matrix or a vector")
    correction = check_finite(correction, "cov", "correction")
    is_row = check_flag(rowvar, "cov", "rowvar") or x.ndim < 2
    matrix = x if x.ndim == 2 and is_row else x.mT if x.ndim == 2 else x.reshape(1, -1)
    counts = _observation_weights("cov", "fweights", fweights, matrix)
    shares = _observation_weights("cov", "aweights", aweights, matrix)
    weights = counts if shares is None else shares if counts is None else counts * shares
    if weights is None:
        mean = reduction.mean(matrix, axis=(1,), keep_dims=True)
        freedom: Any = matrix.shape[1] - correction
        weighted = centred = matrix - mean
    else:
        total = sum(weights)
        centred = matrix - sum(matrix * weights, axis=1, keepdims=True) / total
        weighted = centred * weights
        freedom = total
        if correction:
            squares = weights if shares is None else weights * shares
            freedom = total - correction * sum(squares) / total
    products = linalg.matmul(weighted, conj(centred), transpose_b=True)
    found = divide(products, freedom)
    return found if x.ndim == 2 and found.size != 1 else found.reshape(()) if found.size else found


def corrcoef(x: TensorLike, *, rowvar: bool = True) -> Tensor:
    """The correlation coefficients of variables: their covariances divided by both standard deviations.

    >>> plugrad.corrcoef([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]])
    tensor([[ 1., -1.],
            [-1.,  1.]], dtype=float32)

    Arguments, shape and dtype are as for `cov`. They lie between -1 and 1, and are NaN for a variable that does
    not vary.

    Raises:
        ShapeError, DTypeError, ArgumentError: as for `cov`.
    """
    found = cov(as_supported_dtype(x, unary.sqrt, "corrcoef"), rowvar=rowvar)
    if found.ndim < 2:
        return divide(found, found)
    own = eye(found.shape[0], dtype=bool_, device=found.backend)
    deviations = sqrt(real(sum(where(own, found, 0), axis=1)))
    found = found / deviations.reshape(-1, 1).astype(found.dtype)
    return found / deviations.reshape(1, -1).astype(found.dtype)


def _observation_weights(
    op: str, argument_name: str, weights: TensorLike | None, x: Tensor
) -> Tensor | None:
    """Return the weights of observations, one for each column of x, in the dtype of x."""
    if weights is None:
        return None
    given = as_tensor(weights, op, argument_name, backend=x.backend)
    if given.shape != x.shape[1:]:
        raise ShapeError(
            f"{op}: {argument_name} of shape {given.shape} must have one number for each of the {x.shape[1]} "
            "observations"
        )
    return cast(given, x.dtype, op)


@explain_wrong_calls
def count_nonzero(x: TensorLike, *, axis: AxisLike = None, keepdims: bool = False) -> Tensor:
    """The number of elements along axes that are not 0, or True, as int32.

    >>> plugrad.count_nonzero([[0.0, 2.0], [3.0, 4.0]], axis=0)
    tensor([1, 2], dtype=int32)

    The axes disappear, or remain with size 1 if `keepdims`.

    Raises:
        AxisError: an axis is out of range or named twice.
        DTypeError: x holds strings.
        ArgumentError: `keepdims` is not a bool.
    """
    keepdims = check_flag(keepdims, "count_nonzero", "keepdims")
    is_counted = cast(as_tensor(x, "count_nonzero"), bool_, "count_nonzero")
    return sum(is_counted, axis=axis, keepdims=keepdims)


@explain_wrong_calls
def diff(
    x: TensorLike,
    n: int = 1,
    *,
    axis: int = -1,
    prepend: TensorLike | None = None,
    append: TensorLike | None = None,
) -> Tensor:
    """The differences of neighbouring elements along an axis, taken `n` times.

    >>> plugrad.diff([1, 4, 9, 16])
    tensor([3, 5, 7], dtype=int32)
    >>> plugrad.diff([1, 4, 9, 16], prepend=0)
    tensor([1, 3, 5, 7], dtype=int32)

    Each difference is an element minus the one before it. The dtype is the one to which x, `prepend`
    and `append` promote.

    Args:
        x: numbers of any shape but 0-d.
        n: how many times to take differences.
        axis: the axis along which to subtract; it becomes shorter by `n`.
        prepend: elements to put before x first: one number, or a tensor that differs in shape from
            x on the axis only.
        append: elements to put after x first.

    Raises:
        AxisError: the axis is out of range.
        ArgumentError: `n` is not an integer.
        ArgumentValueError: `n` is negative.
        ShapeError: `prepend` or `append` does not fit x.
        DTypeError: x holds bools or strings, or the dtypes do not combine.
    """
    n = check_integer(n, "diff", "n", least=0)
    x = as_supported_dtype(x, binary.subtract, "diff")
    axis = normalize_axis(axis, x.ndim, name="diff: axis")
    before = _as_prepended_or_appended(prepend, x, axis)
    after = _as_prepended_or_appended(append, x, axis)
    parts = [part for part in (before, x, after) if part is not None]
    if len(parts) > 1:
        x = movement.concat(*promote_to_one_dtype(parts, "diff"), axis=axis)
    y = alias(x)
    for _ in range(min(n, x.shape[axis])):
        y = _drop_one(y, axis, 1) - _drop_one(y, axis, 0)
    return y


@explain_wrong_calls
def log_sum_exp(x: TensorLike, *, axis: AxisLike = None, keepdims: bool = False) -> Tensor:
    """The logarithm of the sum of exponentials along axes, ``log(sum(exp(x)))``, without overflow.

    >>> plugrad.log_sum_exp([1000.0, 1000.0])
    tensor(1000.6932, dtype=float32)

    The result for no elements, or for only minus infinity, is minus infinity. The dtype is that of
    x; integers and bools become float32. The axes disappear, or remain with size 1 if `keepdims`.

    Raises:
        AxisError: an axis is out of range or named twice.
        DTypeError: x holds complex numbers or strings.
        ArgumentError: `keepdims` is not a bool.
    """
    x = _as_real_floats(x, "log_sum_exp")
    axes = normalize_axes(axis, x.ndim, name="log_sum_exp: axis")
    if x.size:
        largest = with_attributes(
            reduction.max, _without_gradient(x), reduction_indices=axes, keep_dims=True
        )
        shift = where(isfinite(largest), largest, 0)  # infinity minus infinity is NaN
    else:
        shift = reduction.sum(x, axis=axes, keep_dims=True)
    keepdims = check_flag(keepdims, "log_sum_exp", "keepdims")
    total = with_attributes(reduction.sum, exp(x - shift), axis=axes, keep_dims=keepdims)
    if total.node is None and not is_traced(total):
        return log(total) + with_attributes(movement.reshape, shift, shape=total.shape)
    is_zero = equal(total, 0)
    # The gradient of log at 0 is infinite, that of the exponentials there is 0: their product is NaN.
    logarithm = where(is_zero, -inf, log(where(is_zero, 1, total)))
    return logarithm + movement.reshape(shift, shape=total.shape)


@explain_wrong_calls
def euclidean_norm(x: TensorLike, *, axis: AxisLike = None, keepdims: bool = False) -> Tensor:
    """The Euclidean norm along axes: the square root of the sum of squares.

    >>> plugrad.euclidean_norm([[3.0, 4.0], [5.0, 12.0]], axis=1)
    tensor([ 5., 13.], dtype=float32)

    The gradient at a vector of zeros, which has no limit, is 0. The dtype is that of x; integers
    and bools become float32. The axes disappear, or remain with size 1 if `keepdims`.

    Raises:
        AxisError: an axis is out of range or named twice.
        DTypeError: x holds complex numbers or strings.
        ArgumentError: `keepdims` is not a bool.
    """
    x = _as_real_floats(x, "euclidean_norm")
    return run_reduction(x, reduction.euclidean_norm, "euclidean_norm", axis, keepdims)


def _without_gradient(x: Tensor) -> Tensor:
    """Return x as a constant for gradients, also in a trace that is differentiated later."""
    return stop_gradient(x) if x.node is not None or is_traced(x) else x


def _as_real_floats(x: TensorLike, op: str) -> Tensor:
    """Return x as real floats."""
    return as_supported_dtype(x, normalization.softmax, op)


def _variance(op: str, x: Tensor, axis: AxisLike, correction: float, keepdims: bool) -> Tensor:
    """Return the variance."""
    variance = run_reduction(x, reduction.variance, op, axis, keepdims)
    correction = check_finite(correction, op, "correction")
    if not correction:
        return variance
    shape = x.array.shape
    count = count_elements(tuple([shape[i] for i in normalize_axes(axis, len(shape))]))
    freedom = count - correction
    return variance * (count / freedom if freedom > 0 else nan)


def _as_prepended_or_appended(values: TensorLike | None, x: Tensor, axis: int) -> Tensor | None:
    """Return the elements to put before or after x along an axis; a single number is repeated on the other axes."""
    if values is None:
        return None
    _, tensor = promote_operands(x, values, binary.subtract, "diff")
    if tensor.ndim == 0:
        shape = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
        return movement.broadcast_to(tensor, shape=shape)
    if tensor.ndim != x.ndim:
        raise ShapeError(
            f"diff: shapes {tensor.shape} and {x.shape} must differ on axis {axis} only"
        )
    return tensor


def _drop_one(x: Tensor, axis: int, first_kept: int) -> Tensor:
    """Return x without one element along an axis: the last one, or the first one if `first_kept` is 1."""
    begin = tuple(first_kept if i == axis else 0 for i in range(x.ndim))
    size = tuple(length - (i == axis) for i, length in enumerate(x.shape))
    return movement.slice(x, begin=begin, size=size)
