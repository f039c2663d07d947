"""Integrals of functions whose values are known at some points."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import plugrad
from plugrad.extend import ShapeError, explain_wrong_calls, normalize_axis
from plugrad_numerics.tables import as_floats

if TYPE_CHECKING:
    from plugrad import Tensor


@explain_wrong_calls
def trapezoid(y: Any, x: Any = None, *, dx: float = 1.0, axis: int = -1) -> Tensor:
    """The integral along an axis of lines between the values.

    >>> integrate.trapezoid([1.0, 2.0, 4.0])
    tensor(4.5, dtype=float32)

    Args:
        y: values; the axis disappears.
        x: their places, a vector or in the shape of y; None for equal distances.
        dx: the distance without x.
        axis: along which to integrate.

    Raises:
        AxisError: the axis is out of range.
        ShapeError: x does not fit y.
        DTypeError: y or x holds complex numbers or strings.
    """
    values, steps = _prepare_values_and_steps("trapezoid", y, x, dx, axis)
    return plugrad.sum((values[..., 1:] + values[..., :-1]) * steps, axis=-1) / 2


@explain_wrong_calls
def cumulative_trapezoid(
    y: Any, x: Any = None, *, dx: float = 1.0, axis: int = -1, initial: float | None = None
) -> Tensor:
    """The integrals along an axis from the first place to each of the others.

    >>> integrate.cumulative_trapezoid([1.0, 2.0, 4.0])
    tensor([1.5, 4.5], dtype=float32)

    Args:
        y: values; the axis becomes shorter by 1 unless `initial` is given.
        x: their places, a vector or in the shape of y; None for equal distances.
        dx: the distance without x.
        axis: along which to integrate.
        initial: a number to put in front, mostly 0.

    Raises:
        AxisError, ShapeError, DTypeError: as for `trapezoid`.
    """
    values, steps = _prepare_values_and_steps("cumulative_trapezoid", y, x, dx, axis)
    found = plugrad.cumulative_sum((values[..., 1:] + values[..., :-1]) * steps / 2, axis=-1)
    if initial is not None:
        first = plugrad.full(
            (*found.shape[:-1], 1), initial, dtype=found.dtype, device=found.device
        )
        found = plugrad.concat([first, found], axis=-1)
    return plugrad.moveaxis(found, -1, axis)


@explain_wrong_calls
def simpson(y: Any, x: Any = None, *, dx: float = 1.0, axis: int = -1) -> Tensor:
    """The integral along an axis of parabolas through three values each.

    >>> integrate.simpson([0.0, 1.0, 4.0])
    tensor(2.6666667, dtype=float32)

    If the number of values is even, the last part is that of the parabola through the last three (Cartwright, 2017);
    two values give the trapezoid.

    Args:
        y: values; the axis disappears.
        x: their places, a vector or in the shape of y; None for equal distances.
        dx: the distance without x.
        axis: along which to integrate.

    Raises:
        AxisError, ShapeError, DTypeError: as for `trapezoid`.
    """
    values, steps = _prepare_values_and_steps("simpson", y, x, dx, axis)
    n = values.shape[-1]
    if n < 3:
        return plugrad.sum((values[..., 1:] + values[..., :-1]) * steps, axis=-1) / 2
    steps = plugrad.broadcast_to(steps, (*values.shape[:-1], n - 1))
    end = n if n % 2 else n - 1
    a, b, c = values[..., 0 : end - 2 : 2], values[..., 1 : end - 1 : 2], values[..., 2:end:2]
    h, k = steps[..., 0 : end - 2 : 2], steps[..., 1 : end - 1 : 2]
    parts = (h + k) / 6 * (a * (2 - k / h) + b * (h + k) ** 2 / (h * k) + c * (2 - h / k))
    total = plugrad.sum(parts, axis=-1)
    if n % 2:
        return total
    a, b, c = values[..., -3], values[..., -2], values[..., -1]
    h, k = steps[..., -2], steps[..., -1]
    last = c * (2 * k**2 + 3 * h * k) / (6 * (h + k)) + b * (k**2 + 3 * h * k) / (6 * h)
    return total + last - a * k**3 / (6 * h * (h + k))


def _prepare_values_and_steps(
    op: str, y: Any, x: Any, dx: float, axis: int
) -> tuple[Tensor, Tensor]:
    """Return the values with the axis at the end, and the distances between sample points."""
    (values,) = as_floats(op, y) if x is None else as_floats(op, y, x)[:1]
    axis = normalize_axis(axis, values.ndim, name=f"{op}: axis")
    moved = plugrad.moveaxis(values, axis, -1)
    if x is None:
        return moved, plugrad.full((1,), dx, dtype=values.dtype, device=values.device)
    places = as_floats(op, y, x)[1]
    if places.ndim > 1 and places.shape == values.shape:
        places = plugrad.moveaxis(places, axis, -1)
    if places.shape not in ((moved.shape[-1],), moved.shape):
        raise ShapeError(
            f"{op}: x of shape {places.shape} must have {moved.shape[-1]} elements, or the shape of y, {values.shape}"
        )
    return moved, places[..., 1:] - places[..., :-1]
