"""Minima of functions by the method of Broyden, Fletcher, Goldfarb and Shanno, with implicit gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import plugrad
from plugrad.extend import ArgumentError, explain_wrong_calls
from plugrad_numerics.roots import implicit_function
from plugrad_numerics.tables import as_floats

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from plugrad import Tensor

MAX_STEP_HALVINGS: Final = 30
"""How often a step is halved at most until the function falls enough (Armijo, 1966)."""


class OptimizeResult(NamedTuple):
    """The result of `minimize`."""

    x: Tensor
    fun: Tensor


@explain_wrong_calls
def minimize(
    function: Callable[..., Tensor], x0: Any, *args: Any, tol: float = 1e-5, max_steps: int = 200
) -> OptimizeResult:
    """A local minimum of ``function(x, *args)`` near x0: the place and the value.

    >>> optimize.minimize(lambda x, a: plugrad.sum((x - a) ** 2), [0.0, 0.0], [1.0, 2.0]).x
    tensor([1., 2.], dtype=float32)

    The method is that of Broyden, Fletcher, Goldfarb and Shanno, with steps that are halved until the function falls.
    The gradient of the place for `args` is implicit: ``-inverse(H) @ d(gradient)`` with the Hessian H at the minimum,
    which must be regular; that for x0 is 0. Without `args`, the place has derivatives for other tensors that
    `function` reads. It works in `plugrad.jit`.

    Args:
        function: returns one number.
        x0: where to begin.
        args: tensors or numbers, which become tensors.
        tol: the method ends when no element of the gradient is larger, or when no step lets the function fall.
        max_steps: after so many steps the method ends, too.

    Raises:
        ArgumentError: `function` is not callable.
        DTypeError: an argument holds complex numbers or strings.
        ArgumentValueError: H is singular, and a gradient is asked for.
        GradientLost: there are `args`, and `function` reads a differentiated tensor that is not among them.
    """
    if not callable(function):
        raise ArgumentError(f"minimize: function={function!r} must be callable")
    start, *parameters = as_floats("minimize", x0, *args)
    shape = start.shape

    def evaluate_flat(x: Tensor, *args: Tensor) -> Tensor:
        """Return the value of the function at a vector x."""
        return plugrad.sum(function(plugrad.reshape(x, shape), *args))

    def gradient_of_function(x: Tensor, *args: Tensor) -> Tensor:
        """Return the gradient of the function at a vector x."""
        return plugrad.grad(evaluate_flat)(x, *args)

    def find_minimum(x: Tensor, args: Sequence[Tensor]) -> Tensor:
        return _minimize_by_descent(evaluate_flat, gradient_of_function, x, args, tol, max_steps)

    flat_start = plugrad.stop_gradient(plugrad.reshape(start, (-1,)))
    x = plugrad.reshape(
        implicit_function(find_minimum, gradient_of_function, flat_start, parameters, "minimize"),
        shape,
    )
    return OptimizeResult(x, function(x, *parameters))


def _minimize_by_descent(
    function: Callable[..., Tensor],
    gradient_function: Callable[..., Tensor],
    x: Tensor,
    args: Sequence[Tensor],
    tol: float,
    max_steps: int,
) -> Tensor:
    """Return the x at which BFGS steps end."""
    unit = plugrad.eye(x.shape[0], dtype=x.dtype, device=x.device)

    def should_continue(carry: Any) -> Tensor:
        _, gradient, _, is_stuck, count = carry
        return (plugrad.max(plugrad.abs(gradient)) > tol) & ~is_stuck & (count < max_steps)

    def take_step(carry: Any) -> Any:
        x, gradient, inverse, _, count = carry
        direction = -plugrad.matmul(inverse, gradient)
        fall = plugrad.sum(direction * gradient)
        is_down = fall < 0
        direction = plugrad.where(is_down, direction, -gradient)
        fall = plugrad.where(is_down, fall, -plugrad.sum(gradient * gradient))
        before = function(x, *args)

        def is_step_too_long(search: Any) -> Tensor:
            size, tries = search
            value = function(x + size * direction, *args)
            return ~(value <= before + 1e-4 * size * fall) & (tries < MAX_STEP_HALVINGS)

        one = plugrad.ones((), dtype=x.dtype, device=x.device)
        size, tries = plugrad.while_loop(
            is_step_too_long, lambda search: (search[0] / 2, search[1] + 1), (one, count * 0)
        )
        is_stuck = tries >= MAX_STEP_HALVINGS
        step = plugrad.where(is_stuck, 0.0, size) * direction
        following = gradient_function(x + step, *args)
        change = following - gradient
        product = plugrad.sum(step * change)
        is_curved = product > 0
        rho = 1 / plugrad.where(is_curved, product, 1)
        left = unit - rho * step[:, None] * change[None]
        updated = left @ inverse @ left.mT + rho * step[:, None] * step[None]
        inverse = plugrad.where(is_curved, updated, unit)
        return x + step, following, inverse, is_stuck, count + 1

    count = plugrad.zeros((), dtype="int32", device=x.device)
    is_stuck = plugrad.zeros((), dtype="bool", device=x.device)
    carry = (x, gradient_function(x, *args), unit, is_stuck, count)
    return plugrad.while_loop(should_continue, take_step, carry)[0]
