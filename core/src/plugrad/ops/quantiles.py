"""Quantiles along axes, the median among them, composed of other ops.

`axis` is one axis, several, or None for all; negative axes count from the end. These axes disappear
from the shape; with ``keepdims=True`` they remain, with size 1.
"""

from __future__ import annotations

from math import nan
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np

from plugrad.errors import ArgumentError, ArgumentValueError, ShapeError, short_repr
from plugrad.kernels import movement, normalization
from plugrad.ops.arguments import as_supported_dtype, cast, host_array
from plugrad.ops.attributes import check_choice, check_flag
from plugrad.ops.binary import equal, maximum, where
from plugrad.ops.creation import asarray
from plugrad.ops.indexing import take, take_along_axis
from plugrad.ops.reduction import sum
from plugrad.ops.sorting import sort
from plugrad.ops.transfer import stop_gradient
from plugrad.ops.unary import floor, isfinite, isnan, logical_not, round
from plugrad.types.arguments import explain_wrong_calls
from plugrad.types.dtype import float32, int32
from plugrad.types.shapes import count_elements, normalize_axes, reduced_shape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plugrad.tensor.tensor import Tensor, TensorLike
    from plugrad.types.specs import AxisLike

    Levels: TypeAlias = float | Sequence[float] | np.ndarray[Any, Any]
    """One or several levels of quantiles, from 0 to 1."""

QuantileMethod: TypeAlias = Literal["linear", "lower", "higher", "midpoint", "nearest"]
"""How a quantile that lies between two elements is computed."""
QUANTILE_METHODS: Final = ("linear", "lower", "higher", "midpoint", "nearest")


@explain_wrong_calls
def quantile(
    x: TensorLike,
    q: Levels,
    *,
    axis: AxisLike = None,
    keepdims: bool = False,
    method: QuantileMethod = "linear",
) -> Tensor:
    """The quantiles along axes: the number below which a part q of the elements lies.

    >>> plugrad.quantile([1.0, 2.0, 3.0, 10.0], [0.0, 0.5, 1.0])
    tensor([ 1. ,  2.5, 10. ], dtype=float32)

    The sorted elements are numbered from 0 to n - 1, and the quantile is the element of number ``q * (n - 1)``. If
    there is NaN among them, the result is NaN. The dtype is that of x; integers and bools become float32. The
    gradient goes to the elements of which the result is made, if some are equal in the order in which they stand.

    Args:
        x: real numbers.
        q: a number from 0 to 1; several numbers give the result a first axis, or as many as they have.
        axis: the axes that disappear; None for all.
        keepdims: whether the axes remain, with size 1.
        method: what is between two elements: "linear" interpolates; "lower", "higher" and "nearest" take one of
            them, "nearest" the even one of two equally near; "midpoint" takes their mean.

    Raises:
        AxisError: an axis is out of range or named twice.
        ShapeError: there are no elements along the axes.
        DTypeError: x holds complex numbers or strings.
        ArgumentError: `q` is a tensor or holds no numbers, or `keepdims` is not a bool.
        ArgumentValueError: a number of `q` is not from 0 to 1, or the method is unknown.
    """
    x, levels, keepdims, shape = _prepare_quantile_inputs("quantile", x, q, axis, keepdims, method)
    places = levels * (x.shape[-1] - 1)
    below, part = _split_positions(places, method)
    values = sort(x, axis=-1)
    above = np.minimum(below + 1, x.shape[-1] - 1)
    found = _interpolate_quantile(take(values, below, axis=-1), take(values, above, axis=-1), part)
    has_nan = isnan(stop_gradient(values[..., -1:]))  # NaN comes last
    return _move_levels_to_front(where(has_nan, nan, found), levels, shape)


@explain_wrong_calls
def median(x: TensorLike, *, axis: AxisLike = None, keepdims: bool = False) -> Tensor:
    """The median along axes: the middle of the sorted elements, or the mean of both in the middle.

    >>> plugrad.median([[1.0, 3.0, 9.0], [4.0, 2.0, 8.0]], axis=1)
    tensor([3., 4.], dtype=float32)

    Dtype, gradient and NaN are as for `quantile`.

    Raises:
        AxisError, ShapeError, DTypeError, ArgumentError: as for `quantile`.
    """
    return quantile(x, 0.5, axis=axis, keepdims=keepdims)


@explain_wrong_calls
def nanquantile(
    x: TensorLike,
    q: Levels,
    *,
    axis: AxisLike = None,
    keepdims: bool = False,
    method: QuantileMethod = "linear",
) -> Tensor:
    """The quantiles along axes of the elements that are not NaN; NaN where all are.

    >>> plugrad.nanquantile([[1.0, 2.0, plugrad.nan], [1.0, 2.0, 6.0]], 0.5, axis=1)
    tensor([1.5, 2. ], dtype=float32)

    Arguments, dtype and gradient are as for `quantile`.

    Raises:
        AxisError, ShapeError, DTypeError, ArgumentError, ArgumentValueError: as for `quantile`.
    """
    x, levels, keepdims, shape = _prepare_quantile_inputs(
        "nanquantile", x, q, axis, keepdims, method
    )
    is_number = logical_not(isnan(stop_gradient(x)))
    count = sum(is_number.astype(int32), axis=-1, keepdims=True)
    last = maximum(count - 1, 0)
    flat = asarray(levels.reshape(-1), dtype=x.dtype, device=x.backend)
    places = last.astype(x.dtype) * flat
    below, part = _split_traced_positions(places, method)
    values = sort(x, axis=-1)
    above = where(below + 1 < last, below + 1, last)
    lower, upper = (take_along_axis(values, p, axis=-1) for p in (below, above))
    return _move_levels_to_front(_interpolate_quantile(lower, upper, part), levels, shape)


@explain_wrong_calls
def nanmedian(x: TensorLike, *, axis: AxisLike = None, keepdims: bool = False) -> Tensor:
    """The median along axes of the elements that are not NaN; NaN where all are.

    >>> plugrad.nanmedian([1.0, 3.0, 9.0, plugrad.nan])
    tensor(3., dtype=float32)

    Raises:
        AxisError, ShapeError, DTypeError, ArgumentError: as for `quantile`.
    """
    return nanquantile(x, 0.5, axis=axis, keepdims=keepdims)


def _prepare_quantile_inputs(
    op: str, x: TensorLike, q: Levels, axis: AxisLike, keepdims: bool, method: str
) -> tuple[Tensor, np.ndarray[Any, Any], bool, tuple[int, ...]]:
    """Return x with the reduced axes merged into the last one, the quantile levels, and the shape of the result."""
    check_choice(method, QUANTILE_METHODS, op, "method")
    keepdims = check_flag(keepdims, op, "keepdims")
    if not isinstance(q, float | int | list | tuple | np.ndarray | np.generic):
        raise ArgumentError(
            f"{op}: q={short_repr(q)} must be a number, or a list or an array of numbers"
        )
    host_array(q, op, "q")  # raises for what is not an array, but its floats are float32
    levels = np.asarray(q)
    if levels.dtype.kind not in "iuf":
        raise ArgumentError(
            f"{op}: q={short_repr(q)} must be a number, or a list or an array of numbers"
        )
    levels = levels.astype(np.float64)
    if not ((levels >= 0) & (levels <= 1)).all():
        raise ArgumentValueError(f"{op}: q={short_repr(q)} must be from 0 to 1")
    x = as_supported_dtype(x, normalization.softmax, op)
    if x.dtype.itemsize < float32.itemsize:
        x = cast(x, float32)
    axes = normalize_axes(axis, x.ndim, name=f"{op}: axis")
    others = [i for i in range(x.ndim) if i not in axes]
    count = count_elements(tuple([x.shape[i] for i in axes]))
    if not count:
        raise ShapeError(f"{op}: x of shape {x.shape} has no elements along axes {axes}")
    lead = tuple([x.shape[i] for i in others])
    shape = reduced_shape(x.shape, axes, keep_dims=True) if keepdims else lead
    turned = movement.transpose(x, perm=(*others, *axes))
    return movement.reshape(turned, shape=(*lead, count)), levels, keepdims, shape


def _split_positions(
    positions: np.ndarray[Any, Any], method: str
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return the index below each quantile's position, and the fraction of the way to the next index."""
    below = np.floor(positions)
    part = positions - below
    if method == "lower":
        part = np.zeros_like(part)
    elif method == "higher":
        part = np.ceil(part)
    elif method == "midpoint":
        part = np.where(part > 0, 0.5, 0.0)
    elif method == "nearest":
        part = np.rint(positions) - below
    return below.reshape(-1).astype(np.int32), part.reshape(-1)


def _split_traced_positions(positions: Tensor, method: str) -> tuple[Tensor, Tensor]:
    """Return the index below each position and the fraction, like `_split_positions`, computed on the device."""
    below = floor(positions)
    part = positions - below
    if method == "lower":
        part = part * 0
    elif method == "higher":
        part = where(part > 0, 1.0, part)
    elif method == "midpoint":
        part = where(part > 0, 0.5, part)
    elif method == "nearest":
        part = round(positions) - below
    return below.astype(int32), part


def _interpolate_quantile(a: Tensor, b: Tensor, fraction: Any) -> Tensor:
    """Interpolate between a and b; the result is a where the difference is not finite, as between equal infinities."""
    parts = asarray(fraction, dtype=a.dtype, device=a.backend)
    least, most = stop_gradient(a), stop_gradient(b)
    stays = equal(least, most) | equal(parts, 0) | (isfinite(most) & logical_not(isfinite(least)))
    step = where(stays, 0, b - a)
    return where(equal(parts, 1), b, a + step * parts)


def _move_levels_to_front(
    quantiles: Tensor, levels: np.ndarray[Any, Any], shape: tuple[int, ...]
) -> Tensor:
    """Return quantiles with the last axis, which holds the levels, moved to the front and in the levels' shape."""
    last = quantiles.ndim - 1
    turned = movement.transpose(quantiles, perm=(last, *range(last)))
    return movement.reshape(turned, shape=(*levels.shape, *shape))
