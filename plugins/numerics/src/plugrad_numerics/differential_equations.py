"""Ordinary differential equations by Dormand's and Prince's method, with gradients by the adjoint equation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import plugrad
from plugrad.extend import ArgumentError, ShapeError, bind_closure, explain_wrong_calls
from plugrad_numerics.captures import check_captures, check_is_tensor, flatten_dicts
from plugrad_numerics.tables import as_floats

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from plugrad import Tensor

    Derivative = Callable[..., Tensor]
    """The derivative of y, from y, the time and further arguments."""

# The method of orders 5 and 4 (Dormand and Prince, 1980).
RUNGE_KUTTA_NODES: Final = (0, 1 / 5, 3 / 10, 4 / 5, 8 / 9, 1)
RUNGE_KUTTA_STAGE_WEIGHTS: Final = (
    (),
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
)
FIFTH_ORDER_WEIGHTS: Final = (35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84)
ERROR_WEIGHTS: Final = (71 / 57600, 0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40)


@explain_wrong_calls
def odeint(
    function: Derivative,
    y0: Any,
    t: Any,
    *args: Any,
    rtol: float = 1e-5,
    atol: float = 1e-7,
    max_steps: int = 1000,
) -> Tensor:
    """The solution of ``dy/dt = function(y, t, *args)`` from y0 on, at each of some times.

    >>> y = integrate.odeint(lambda y, t, rate: rate * y, 1.0, [0.0, 1.0], -1.0)
    >>> abs(y[1] - 0.36788) < 1e-5
    tensor(True, dtype=bool)

    Steps are as long as the error allows, which is estimated by the difference of methods of orders 5 and 4
    (Dormand and Prince, 1980). The gradients for y0, the times and the tensors among `args` solve the adjoint equation
    backwards in time (Pontryagin; Chen and others, 2018), so they need no more memory for more steps, and
    have about the accuracy of the solution. It works in `plugrad.jit`.

    Args:
        function: the derivative, a tensor in the shape of y, of y, the time and `args`.
        y0: a tensor of any shape, the value at the first time.
        t: a vector of ascending or descending times.
        args: tensors, numbers, which become tensors, or nested dicts of them, such as the parameters of a model.
        rtol: the error that is allowed, as a part of y.
        atol: the error that is allowed besides.
        max_steps: of how many steps it may take to the next time; more give NaN.

    Returns:
        the values in the shape ``(times, *y0.shape)``.

    Raises:
        ShapeError: t is not a vector of at least one time, or the derivative has another shape than y.
        DTypeError: an argument holds complex numbers or strings.
        ArgumentError: `function` is not callable, or does not return a tensor.
        GradientLost: it reads a differentiated tensor that is not among its arguments.
    """
    if not callable(function):
        raise ArgumentError(f"odeint: function={function!r} must be callable")
    leaves, with_leaves = flatten_dicts(args)
    y, times, *parameters = as_floats("odeint", y0, t, *leaves)
    if times.ndim != 1 or not times.size:
        raise ShapeError(f"odeint: t of shape {times.shape} must be a vector of times")
    options = {"rtol": rtol, "atol": atol, "max_steps": max_steps}

    def derivative(y: Tensor, t: Tensor, *args: Tensor) -> Tensor:
        found = check_is_tensor("odeint", function(y, t, *with_leaves(args)))
        if found.shape != y.shape:
            raise ShapeError(
                f"odeint: the derivative has shape {found.shape}; it must be that of y, {y.shape}"
            )
        return found

    check_captures("odeint", derivative, y, times[0], *parameters)
    return _solve(derivative, options, y, times, parameters)


def _solve(
    function: Derivative, options: dict[str, Any], y: Tensor, t: Tensor, args: Sequence[Tensor]
) -> Tensor:
    """Return the solution, with the gradients of the adjoint equation."""
    bound = bind_closure(function)

    @plugrad.custom_grad
    def solution(y: Tensor, t: Tensor, *rest: Any) -> Any:
        *args, save = rest
        values = _integrate(function, options, y, t, args)
        save(values, t, *args)

        def vjp(dy: Tensor, saved: list[Tensor]) -> list[Tensor]:
            return _adjoint_gradients(bound, options, dy, saved)

        return values, vjp

    return solution(y, t, *args)


def _integrate(
    function: Derivative, options: dict[str, Any], y: Tensor, t: Tensor, args: Sequence[Tensor]
) -> Tensor:
    """Return the solution y at all times."""
    if t.shape[0] == 1:
        return y[None]

    def integrate_to_next_time(y: Tensor, ends: Tensor) -> tuple[Tensor, Tensor]:
        y = _integrate_interval(function, options, y, ends[0], ends[1], args)
        return y, y

    _, found = plugrad.scan(integrate_to_next_time, y, plugrad.stack([t[:-1], t[1:]], axis=1))
    return plugrad.concat([y[None], found], axis=0)


def _integrate_interval(
    function: Derivative,
    options: dict[str, Any],
    y: Tensor,
    start_time: Tensor,
    end_time: Tensor,
    args: Sequence[Tensor],
) -> Tensor:
    """Return y at the end of an interval."""
    rtol, atol, most = options["rtol"], options["atol"], options["max_steps"]
    direction = plugrad.sign(end_time - start_time)

    def has_steps_left(carry: Any) -> Tensor:
        _, t, _, count = carry
        return ((end_time - t) * direction > 0) & (count < most)

    def take_step(carry: Any) -> Any:
        y, t, h, count = carry
        is_last = h >= plugrad.abs(end_time - t)
        step = plugrad.where(is_last, end_time - t, direction * h)
        following, error = _runge_kutta_step(function, y, t, step, args)
        scale = atol + rtol * plugrad.maximum(plugrad.abs(y), plugrad.abs(following))
        ratio = plugrad.sqrt(plugrad.mean((error / scale) ** 2)) if y.size else 0 * t
        is_bad = ~plugrad.isfinite(ratio)
        is_accepted = (ratio <= 1) & ~is_bad
        factor = 0.9 * plugrad.maximum(plugrad.where(is_bad, 1.0, ratio), 1e-8) ** -0.2
        factor = plugrad.where(is_bad, 0.1, plugrad.clip(factor, 0.2, 10.0))
        arrived = plugrad.where(is_last, end_time, t + step)
        return (
            plugrad.where(is_accepted, following, y),
            plugrad.where(is_accepted, arrived, t),
            plugrad.abs(step) * factor,
            count + 1,
        )

    first = _choose_first_step(function, options, y, start_time, end_time, args)
    count = plugrad.zeros((), dtype="int32", device=y.device)
    y, t, _, _ = plugrad.while_loop(has_steps_left, take_step, (y, start_time + 0, first, count))
    return plugrad.where((end_time - t) * direction > 0, plugrad.nan, y)


def _choose_first_step(
    function: Derivative,
    options: dict[str, Any],
    y: Tensor,
    start_time: Tensor,
    end_time: Tensor,
    args: Sequence[Tensor],
) -> Tensor:
    """Return the first step size, in which y changes by about a hundredth (Hairer, Nørsett and Wanner, II.4)."""
    whole = plugrad.abs(end_time - start_time)
    if not y.size:
        return whole
    scale = options["atol"] + options["rtol"] * plugrad.abs(y)
    size = plugrad.sqrt(plugrad.mean((y / scale) ** 2))
    speed = plugrad.sqrt(plugrad.mean((function(y, start_time, *args) / scale) ** 2))
    is_known = (size > 1e-5) & (speed > 1e-5) & plugrad.isfinite(speed)
    guess = plugrad.where(is_known, 0.01 * size / plugrad.where(is_known, speed, 1), 1e-3 * whole)
    return plugrad.minimum(guess, whole)


def _runge_kutta_step(
    function: Derivative, y: Tensor, t: Tensor, h: Tensor, args: Sequence[Tensor]
) -> tuple[Tensor, Tensor]:
    """Return y after one step, and an estimate of its error."""
    slopes: list[Tensor] = []
    for node, weights in zip(RUNGE_KUTTA_NODES, RUNGE_KUTTA_STAGE_WEIGHTS, strict=True):
        place = y + h * _weighted_sum(weights, slopes) if slopes else y
        slopes.append(function(place, t + node * h, *args))
    following = y + h * _weighted_sum(FIFTH_ORDER_WEIGHTS, slopes)
    slopes.append(function(following, t + h, *args))
    return following, h * _weighted_sum(ERROR_WEIGHTS, slopes)


def _weighted_sum(weights: Sequence[float], parts: Sequence[Tensor]) -> Tensor:
    terms = [w * part for w, part in zip(weights, parts, strict=True) if w]
    return plugrad.add_n(terms)


def _adjoint_gradients(
    function: Derivative, options: dict[str, Any], dy: Tensor, saved: list[Tensor]
) -> list[Tensor]:
    """Return the gradients for y0, the times and the arguments."""
    values, t, *args = saved
    shape, size = values.shape[1:], values[0].size
    parts = [size, size, *(x.size for x in args)]
    ends = [sum(parts[: i + 1]) for i in range(len(parts))]

    def split_state(state: Tensor) -> list[Tensor]:
        shapes = [shape, shape, *(x.shape for x in args)]
        starts = [0, *ends[:-1]]
        return [
            plugrad.reshape(state[a:b], s) for a, b, s in zip(starts, ends, shapes, strict=True)
        ]

    def flatten_state(parts: Sequence[Tensor]) -> Tensor:
        return plugrad.concat([plugrad.reshape(x, (-1,)) for x in parts], axis=0)

    def adjoint_derivative(state: Tensor, t: Tensor, *args: Tensor) -> Tensor:
        y, weight, *_ = split_state(state)
        slope, pull = plugrad.vjp(lambda y, *rest: function(y, t, *rest), y, *args)
        d_y, *d_args = pull(weight)
        return flatten_state([slope, -d_y, *(-d for d in d_args)])

    weight = dy[-1]
    d_args = [plugrad.zeros_like(x) for x in args]
    d_times: list[Tensor] = []
    for i in range(t.shape[0] - 1, 0, -1):
        slope = function(values[i], t[i], *args)
        d_times.append(plugrad.sum(slope * dy[i]))
        start = flatten_state([values[i], weight, *d_args])
        pair = plugrad.stack([t[i], t[i - 1]])
        _, weight, *d_args = split_state(_solve(adjoint_derivative, options, start, pair, args)[1])
        # What a later time adds, an earlier one takes away: the first time moves all others.
        weight = weight + dy[i - 1]
    slope = function(values[0], t[0], *args)
    d_times.append(plugrad.sum(slope * (dy[0] - weight)))
    return [weight, plugrad.stack(d_times[::-1]), *d_args]
