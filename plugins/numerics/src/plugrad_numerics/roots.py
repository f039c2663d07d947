"""Roots of functions, with implicit gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import plugrad
from plugrad.extend import (
    ArgumentError,
    ShapeError,
    bind_closure,
    differentiation_depth,
    explain_wrong_calls,
)
from plugrad_numerics.captures import check_captures, check_is_tensor
from plugrad_numerics.tables import as_floats

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from plugrad import Tensor


@explain_wrong_calls
def root(
    function: Callable[..., Tensor], x0: Any, *args: Any, tol: float = 1e-6, max_steps: int = 50
) -> Tensor:
    """The x near x0 for which ``function(x, *args)`` is 0, by Newton's method.

    >>> optimize.root(lambda x, a: x * x - a, 1.0, 9.0)
    tensor(3., dtype=float32)

    The gradient for `args` is ``-inverse(J) @ dF``, with the derivatives J for x and dF for `args` at the root; that
    for x0 is 0. Without `args`, other tensors that `function` reads have derivatives. It works in `plugrad.jit`.

    Args:
        function: returns as many numbers as x has.
        x0: where to begin.
        args: tensors or numbers, which become tensors.
        tol: the method ends when no number of x changes by more than that.
        max_steps: after so many steps without an end, the result is NaN.

    Raises:
        ArgumentError: `function` is not callable, or does not return a tensor.
        ShapeError: it returns a tensor of another size than x.
        DTypeError: an argument holds complex numbers or strings.
        ArgumentValueError: J is singular.
        GradientLost: there are `args`, and `function` reads a differentiated tensor that is not among them.
    """
    if not callable(function):
        raise ArgumentError(f"root: function={function!r} must be callable")
    start, *parameters = as_floats("root", x0, *args)
    shape = start.shape

    def evaluate_flat(x: Tensor, *args: Tensor) -> Tensor:
        """Return the values of the function as a vector, at a vector x."""
        found = check_is_tensor("root", function(plugrad.reshape(x, shape), *args))
        if found.size != x.size:
            raise ShapeError(
                f"root: the function returns shape {found.shape}; it must have the size of x, {shape}"
            )
        return plugrad.reshape(found, (-1,))

    def find_root(x: Tensor, args: Sequence[Tensor]) -> Tensor:
        def should_continue(carry: Any) -> Tensor:
            _, change, count = carry
            return (change > tol) & (count < max_steps)

        def take_newton_step(carry: Any) -> Any:
            x, _, count = carry
            slopes = plugrad.jacobian(evaluate_flat)(x, *args)
            change = plugrad.linalg.solve(slopes, evaluate_flat(x, *args))
            return x - change, plugrad.max(plugrad.abs(change)), count + 1

        change = plugrad.full((), plugrad.inf, dtype=x.dtype, device=x.device)
        count = plugrad.zeros((), dtype="int32", device=x.device)
        x, change, _ = plugrad.while_loop(should_continue, take_newton_step, (x, change, count))
        return plugrad.where(change <= tol, x, plugrad.nan)

    flat_start = plugrad.stop_gradient(plugrad.reshape(start, (-1,)))
    return plugrad.reshape(
        implicit_function(find_root, evaluate_flat, flat_start, parameters, "root"), shape
    )


def implicit_function(
    find_root: Callable[[Tensor, Sequence[Tensor]], Tensor],
    function: Callable[..., Tensor],
    x0: Tensor,
    args: Sequence[Tensor],
    op: str,
) -> Tensor:
    """Return the root x of ``function(x, *args)``, differentiable with respect to `args`; errors name `op`.

    Raises:
        GradientLost: there are `args`, and the function reads another tensor that is being differentiated.
    """
    if not args:
        x = plugrad.stop_gradient(find_root(x0, []))
        for _ in range(differentiation_depth(function(x))):
            x = _attach_gradient(x, function)  # one more derivative each time
        return x
    check_captures(op, function, x0, *args)
    bound = bind_closure(function)

    @plugrad.custom_grad
    def solution(*args_and_save: Any) -> Any:
        """Return the root, and the function that computes the gradients of the arguments."""
        *args, save = args_and_save
        x = find_root(x0, args)
        save(x, *args)

        def vjp_of_solution(dy: Tensor, saved: list[Tensor]) -> list[Tensor]:
            # Solved again, so that the root itself has a gradient in derivatives of higher order.
            args = saved[1:]
            x = implicit_function(
                lambda _, __: plugrad.stop_gradient(saved[0]), bound, x0, args, op
            )
            slopes = plugrad.jacobian(bound)(x, *args)
            weight = plugrad.linalg.solve(plugrad.matrix_transpose(slopes), -dy)
            _, back = plugrad.vjp(lambda *rest: bound(x, *rest), *args)
            return list(back(weight))

        return x, (lambda dy, saved: vjp_of_solution(dy, saved)[0]) if len(
            args
        ) == 1 else vjp_of_solution

    return solution(*args)


def _attach_gradient(root: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
    """Return a root with the derivatives of a Newton step for all tensors that the function reads.

    If the root has its first n derivatives, the result has one more.
    """
    bound = bind_closure(function)

    @plugrad.custom_grad
    def solution(root: Tensor, value: Tensor, save: Callable[..., None]) -> Any:
        """Return the root; its gradient for the value of the function there is ``-inverse(J)``."""
        save(root)

        def vjp_of_solution(dy: Tensor, saved: list[Tensor]) -> tuple[Tensor, Tensor]:
            slopes = plugrad.jacobian(bound)(saved[0])
            return dy, plugrad.linalg.solve(plugrad.matrix_transpose(slopes), -dy)

        return plugrad.reshape(root, root.shape), vjp_of_solution

    return solution(root, function(root))


@explain_wrong_calls
def bisect(
    function: Callable[..., Tensor], low: Any, high: Any, *args: Any, steps: int | None = None
) -> Tensor:
    """For each element, the x between two ends at which ``function(x, *args)`` changes its sign.

    >>> optimize.bisect(lambda x, a: x * x - a, 0.0, 4.0, 9.0)
    tensor(3., dtype=float32)

    The function is elementwise: each element of its result depends on the same element of x. Where it has the same
    sign at both ends, the result is NaN. The gradient for `args` is implicit, as for `root`; the ends have none.

    Args:
        function: continuous between the ends.
        low: one end, which broadcasts with the other one.
        high: the other end.
        args: tensors or numbers, which become tensors.
        steps: how often the interval is halved; by default 30 times in single precision and 60 in double.

    Raises:
        ArgumentError: `function` is not callable.
        DTypeError: an argument holds complex numbers or strings.
    """
    if not callable(function):
        raise ArgumentError(f"bisect: function={function!r} must be callable")
    a, b, *parameters = as_floats("bisect", low, high, *args)
    constants = [plugrad.stop_gradient(p) for p in parameters]
    a, b = plugrad.broadcast_arrays(plugrad.stop_gradient(a), plugrad.stop_gradient(b))
    at_a = plugrad.stop_gradient(function(a, *constants))
    at_b = plugrad.stop_gradient(function(b, *constants))
    is_enclosed = plugrad.sign(at_a) * plugrad.sign(at_b) <= 0
    sign = plugrad.where(at_a == 0, -plugrad.sign(at_b), plugrad.sign(at_a))
    for _ in range(steps or (60 if a.dtype == "float64" else 30)):
        middle = a + (b - a) / 2
        is_left = plugrad.sign(plugrad.stop_gradient(function(middle, *constants))) == sign
        a, b = plugrad.where(is_left, middle, a), plugrad.where(is_left, b, middle)
    x = plugrad.where(is_enclosed, b, plugrad.nan)
    # Steps of Newton's method stay at the root; n of them have its first 2**n - 1 derivatives.
    for _ in range(max(2, differentiation_depth(function(x, *parameters)).bit_length())):
        value, pull = plugrad.vjp(lambda x: function(x, *parameters), x)
        (slope,) = pull(plugrad.ones_like(x))
        is_flat = slope == 0
        x = x - plugrad.where(is_flat, 0, value) / plugrad.where(is_flat, 1, slope)
    return x
