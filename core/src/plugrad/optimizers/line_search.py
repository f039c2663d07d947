"""A line search for the strong Wolfe conditions (Nocedal and Wright, Numerical Optimization, 2006, chapter 3)."""

from __future__ import annotations

from math import copysign, inf, isfinite, sqrt
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad.tensor.tensor import Tensor

WOLFE_SUFFICIENT_DECREASE: Final = 1e-4
"""c1: the part of the decrease of the tangent that a step must bring."""
WOLFE_CURVATURE: Final = 0.9
"""c2: the part of the first slope below which that of a step must be, in absolute value."""
MAX_EVALUATIONS: Final = 25
"""How many points of a line are evaluated, as by torch."""
INTERPOLATION_MARGIN: Final = 0.1
"""How far from the ends of an interval the next step must be, as a part of its length."""
STEP_GROWTH_FACTOR: Final = 10.0
"""The largest step as a multiple of the one before it."""


class LinePoint(NamedTuple):
    """The value, slope and gradient of the objective at one step along a line."""

    step: float
    """The distance from the start, as a multiple of the direction."""
    value: float
    """The objective function at the point, as a number."""
    slope: float
    """The derivative of the value by the step."""
    gradient: Tensor

    @property
    def is_finite(self) -> bool:
        """Whether the value and the slope at the point are finite."""
        return isfinite(self.value) and isfinite(self.slope)


def search_line(
    evaluate: Callable[[float], LinePoint],
    start_point: LinePoint,
    step: float,
    *,
    min_interval: float,
    evaluations_left: int = MAX_EVALUATIONS,
) -> LinePoint:
    """Return a point along a line that satisfies the strong Wolfe conditions (algorithm 3.5).

    If none is found, it is the lowest point that was, which may be the start.

    Args:
        evaluate: returns the point at a step.
        start_point: the point at step 0, whose slope is negative.
        step: the first step to try.
        min_interval: the length of an interval of steps below which the search ends.
        evaluations_left: the most points to evaluate.
    """
    before = start_point
    while evaluations_left > 0:
        point = evaluate(step)
        evaluations_left -= 1
        if _violates_sufficient_decrease(point, start_point) or (
            before is not start_point and point.value >= before.value
        ):
            return _zoom_interval(
                evaluate, start_point, before, point, evaluations_left, min_interval
            )
        if abs(point.slope) <= -WOLFE_CURVATURE * start_point.slope:
            return point
        if point.slope >= 0:
            return _zoom_interval(
                evaluate, start_point, point, before, evaluations_left, min_interval
            )
        least, most = (
            point.step + INTERPOLATION_MARGIN * (point.step - before.step),
            STEP_GROWTH_FACTOR * point.step,
        )
        is_steeper = point.slope < before.slope  # so that no minimum is in sight
        step = most if is_steeper else min(max(_cubic_minimizer(before, point), least), most)
        before = point
    return before


def _zoom_interval(
    evaluate: Callable[[float], LinePoint],
    start_point: LinePoint,
    best_point: LinePoint,
    other_end: LinePoint,
    evaluations_left: int,
    min_interval: float,
) -> LinePoint:
    """Return a point that satisfies the conditions between the best point so far and another end (algorithm 3.6)."""
    while evaluations_left > 0 and abs(other_end.step - best_point.step) > min_interval:
        length = other_end.step - best_point.step
        part = (_cubic_minimizer(best_point, other_end) - best_point.step) / length
        point = evaluate(
            best_point.step
            + length * min(max(part, INTERPOLATION_MARGIN), 1 - INTERPOLATION_MARGIN)
        )
        evaluations_left -= 1
        if _violates_sufficient_decrease(point, start_point) or point.value >= best_point.value:
            other_end = point
            continue
        if abs(point.slope) <= -WOLFE_CURVATURE * start_point.slope:
            return point
        if point.slope * length >= 0:
            other_end = best_point
        best_point = point
    return best_point


def _violates_sufficient_decrease(point: LinePoint, start_point: LinePoint) -> bool:
    """Return whether a point violates the sufficient decrease (3.7a), or is not finite."""
    if not point.is_finite:
        return True
    return (
        point.value > start_point.value + WOLFE_SUFFICIENT_DECREASE * point.step * start_point.slope
    )


def _cubic_minimizer(point: LinePoint, other_point: LinePoint) -> float:
    """Return the step that minimizes the cubic through the values and slopes at two points, or the midpoint."""
    middle = (point.step + other_point.step) / 2
    if not (point.is_finite and other_point.is_finite):
        return middle
    length = other_point.step - point.step
    first = (
        point.slope
        + other_point.slope
        - 3 * (point.value - other_point.value) / (point.step - other_point.step)
    )
    square = first * first - point.slope * other_point.slope
    if not 0 <= square < inf:
        return middle
    second = copysign(sqrt(square), length)
    divisor = other_point.slope - point.slope + 2 * second
    return (
        other_point.step - length * (other_point.slope + second - first) / divisor
        if divisor
        else middle
    )
