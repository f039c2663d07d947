"""Functions through given points, with gradients for the points and for the places where they are evaluated."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import plugrad
from plugrad.extend import ArgumentValueError, ShapeError
from plugrad_numerics.tables import as_floats

if TYPE_CHECKING:
    from plugrad import Tensor

    BoundaryCondition = Literal["not-a-knot", "natural", "clamped"]


def interp(x: Any, xp: Any, fp: Any) -> Tensor:
    """The value at x of lines through the points (xp, fp); the first and the last value outside of them.

    >>> interpolate.interp([0.5, 3.0], [0.0, 1.0, 2.0], [0.0, 10.0, 30.0])
    tensor([ 5., 30.], dtype=float32)

    Args:
        x: numbers of any shape.
        xp: an ascending vector.
        fp: a vector of as many values.

    Raises:
        ShapeError: xp and fp are not vectors of one size of 1 or more.
        DTypeError: an argument holds complex numbers or strings.
    """
    x, places, values = as_floats("interp", x, xp, fp)
    _check_points("interp", places, values, 1)
    if places.shape[0] == 1:
        return plugrad.where(plugrad.isnan(x), x, values[0])
    left, low, high = _find_neighbours(places, plugrad.clip(x, places[0], places[-1]))
    inside = plugrad.clip(x, places[0], places[-1])
    share = (inside - low) / (high - low)
    a, b = plugrad.take(values, left), plugrad.take(values, left + 1)
    return a + (b - a) * share


def _find_neighbours(points: Tensor, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the index of the point before each x, and the points before and after it."""
    flat = plugrad.reshape(plugrad.stop_gradient(x), (-1,))
    after = plugrad.searchsorted(plugrad.stop_gradient(points), flat, side="right")
    left = plugrad.reshape(plugrad.clip(after - 1, 0, points.shape[0] - 2), x.shape)
    return left, plugrad.take(points, left), plugrad.take(points, left + 1)


def _check_points(op: str, x: Tensor, y: Tensor, min_count: int) -> None:
    """Raise unless x and y are vectors of one length of at least `min_count`."""
    if x.ndim != 1 or y.shape != x.shape or x.shape[0] < min_count:
        raise ShapeError(
            f"{op}: places of shape {x.shape} and values of shape {y.shape} must be vectors of one size, "
            f"{min_count} or more"
        )


@dataclass(frozen=True)
class _PiecewiseCubic:
    """Cubic polynomials between points, given by values and slopes."""

    x: Any
    y: Any
    slopes: Any = field(init=False, default=None)

    def __post_init__(self) -> None:
        places, values = as_floats(type(self).__name__, self.x, self.y)
        _check_points(type(self).__name__, places, values, 2)
        object.__setattr__(self, "x", places)
        object.__setattr__(self, "y", values)
        object.__setattr__(self, "slopes", self._find_slopes())

    def _find_slopes(self) -> Tensor:
        """Return the slope of the curve at each point."""
        raise NotImplementedError

    def __call__(self, x: Any) -> Tensor:
        """Return the values at x; outside of the points those of the first or the last polynomial."""
        x = x if isinstance(x, plugrad.Tensor) else plugrad.asarray(x, device=self.x.device)
        x = x.astype(self.x.dtype)
        left, low, high = _find_neighbours(self.x, x)
        width = high - low
        t = (x - low) / width
        a, b = plugrad.take(self.y, left), plugrad.take(self.y, left + 1)
        c, d = (width * plugrad.take(self.slopes, left + i) for i in (0, 1))
        return a + t * (c + t * (3 * (b - a) - 2 * c - d + t * (2 * (a - b) + c + d)))


@dataclass(frozen=True)
class CubicSpline(_PiecewiseCubic):
    """The function of cubic polynomials between points whose first and second derivatives are continuous.

    >>> spline = interpolate.CubicSpline([0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 8.0, 27.0])
    >>> spline(2.0)
    tensor(8., dtype=float32)

    Args:
        x: an ascending vector.
        y: a vector of as many values.
        bc_type: what holds at both ends: "not-a-knot" for one polynomial in the first two and the last two intervals,
            "natural" for second derivatives of 0, "clamped" for first derivatives of 0.

    Raises:
        ShapeError: x and y are not vectors of one size: 2 or more, for "not-a-knot" 4.
        ArgumentValueError: `bc_type` is unknown.
        DTypeError: an argument holds complex numbers or strings.
    """

    bc_type: BoundaryCondition = "not-a-knot"

    def _find_slopes(self) -> Tensor:
        n = self.x.shape[0]
        if self.bc_type not in ("not-a-knot", "natural", "clamped"):
            raise ArgumentValueError(
                f"CubicSpline: bc_type={self.bc_type!r} must be 'not-a-knot', 'natural' or 'clamped'"
            )
        if self.bc_type == "not-a-knot":
            _check_points("CubicSpline", self.x, self.y, 4)
        width = self.x[1:] - self.x[:-1]
        rise = (self.y[1:] - self.y[:-1]) / width
        first, last = self._find_boundary_rows(width, rise)
        h, k = width[:-1, None], width[1:, None]
        eye = plugrad.eye(n, dtype=self.x.dtype, device=self.x.device)
        inner = eye[:-2] * k + eye[1:-1] * (2 * (h + k)) + eye[2:] * h
        right = 3 * (width[1:] * rise[:-1] + width[:-1] * rise[1:])
        matrix = plugrad.concat([first[0][None], inner, last[0][None]], axis=0)
        values = plugrad.concat([first[1][None], right, last[1][None]], axis=0)
        return plugrad.linalg.solve(matrix, values)

    def _find_boundary_rows(self, widths: Tensor, slopes: Tensor) -> tuple[Any, Any]:
        """Return the first and the last row of the linear system of slopes, with their right-hand sides."""
        eye = plugrad.eye(self.x.shape[0], dtype=self.x.dtype, device=self.x.device)
        if self.bc_type == "clamped":
            return (eye[0], 0 * slopes[0]), (eye[-1], 0 * slopes[0])
        if self.bc_type == "natural":
            return (2 * eye[0] + eye[1], 3 * slopes[0]), (2 * eye[-1] + eye[-2], 3 * slopes[-1])

        def make_not_a_knot_row(
            first_unit: Any,
            second_unit: Any,
            first_width: Tensor,
            second_width: Tensor,
            first_slope: Tensor,
            second_slope: Tensor,
        ) -> Any:
            """Return the row for a third derivative without a jump at the second point, and its right-hand side."""
            total = first_width + second_width
            value = (
                (first_width + 2 * total) * second_width * first_slope
                + first_width * first_width * second_slope
            ) / total
            return second_width * first_unit + total * second_unit, value

        return (
            make_not_a_knot_row(eye[0], eye[1], widths[0], widths[1], slopes[0], slopes[1]),
            make_not_a_knot_row(eye[-1], eye[-2], widths[-1], widths[-2], slopes[-1], slopes[-2]),
        )


@dataclass(frozen=True)
class PchipInterpolator(_PiecewiseCubic):
    """The function of cubic polynomials between points that rises and falls only where the points do.

    >>> curve = interpolate.PchipInterpolator([0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 1.0, 5.0])
    >>> curve(1.5)
    tensor(1., dtype=float32)

    Slopes are weighted harmonic means of those of the neighbouring lines (Fritsch and Butland, 1984).

    Args:
        x: an ascending vector.
        y: a vector of as many values.

    Raises:
        ShapeError: x and y are not vectors of one size of 2 or more.
        DTypeError: an argument holds complex numbers or strings.
    """

    def _find_slopes(self) -> Tensor:
        width = self.x[1:] - self.x[:-1]
        rise = (self.y[1:] - self.y[:-1]) / width
        if self.x.shape[0] == 2:
            return plugrad.concat([rise, rise], axis=0)
        h, k, before, after = width[:-1], width[1:], rise[:-1], rise[1:]
        is_even = before * after > 0
        first, second = 2 * k + h, k + 2 * h
        safe_before, safe_after = (plugrad.where(is_even, z, 1) for z in (before, after))
        mean = (first + second) / (first / safe_before + second / safe_after)
        inner = plugrad.where(is_even, mean, 0)
        ends = [
            self._find_boundary_slope(width[0], width[1], rise[0], rise[1]),
            self._find_boundary_slope(width[-1], width[-2], rise[-1], rise[-2]),
        ]
        return plugrad.concat([ends[0][None], inner, ends[1][None]], axis=0)

    def _find_boundary_slope(
        self, first_width: Tensor, second_width: Tensor, first_slope: Tensor, second_slope: Tensor
    ) -> Tensor:
        """Return the slope at an end: that of a parabola, limited so that the curve keeps its direction."""
        slope = ((2 * first_width + second_width) * first_slope - first_width * second_slope) / (
            first_width + second_width
        )
        is_turned = plugrad.sign(slope) != plugrad.sign(first_slope)
        is_steep = (plugrad.sign(first_slope) != plugrad.sign(second_slope)) & (
            plugrad.abs(slope) > 3 * plugrad.abs(first_slope)
        )
        return plugrad.where(is_turned, 0, plugrad.where(is_steep, 3 * first_slope, slope))
