"""Optimizer steps: a formula for one variable, and its application to lists of arrays.

A formula takes a variable v, its gradient g, what is kept for it, and the coefficients of the kernel. It returns the
next value of the variable and of what is kept. It runs on arrays with numbers, and on tensors with 0-d tensors, which
NumPy's functions take, too. The values of tensors are not looked at. The papers are named in `plugrad.optimizers`.
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from plugrad.contract.kernel import Kernel
from plugrad.kernels import binary, optimizers

Array = NDArray[Any]
"""A NumPy array of any dtype and shape."""
Coefficient: TypeAlias = Any  # a float beside arrays, a 0-d tensor beside tensors
"""A coefficient of a formula, such as the learning rate."""
Formula: TypeAlias = Callable[..., tuple[Any, ...]]
"""A function of a variable, its gradient, its slots and the coefficients, which returns the new variable and slots."""


def gradient_descent(v: Any, g: Any, rate: Coefficient) -> tuple[Any, ...]:
    """Return the variable v after a step of stochastic gradient descent with the gradient g."""
    return (v - g * rate,)


def momentum(
    v: Any, g: Any, a: Any, rate: Coefficient, momentum: Coefficient, is_nesterov: Coefficient
) -> tuple[Any, ...]:
    """Return the variable v and the velocity a after a step with the gradient g; `is_nesterov` is 0 or 1."""
    a = g + a * momentum
    return v - _select_by_flag(is_nesterov, lambda: g + a * momentum, a) * rate, a


def adagrad(v: Any, g: Any, a: Any, rate: Coefficient, epsilon: Coefficient) -> tuple[Any, ...]:
    """Return the variable v and the sum a of squares after a step with the gradient g."""
    a = a + g * g
    return v - g / (np.sqrt(a) + epsilon) * rate, a


def adadelta(
    v: Any,
    g: Any,
    s: Any,
    u: Any,
    rate: Coefficient,
    rho: Coefficient,
    one_minus_rho: Coefficient,
    epsilon: Coefficient,
) -> tuple[Any, ...]:
    """Return the variable v, and the averages s of squares of gradients g and u of squares of steps, after a step."""
    s = s * rho + g * g * one_minus_rho
    d = g * np.sqrt((u + epsilon) / (s + epsilon))
    return v - d * rate, s, u * rho + d * d * one_minus_rho


def rmsprop(
    v: Any,
    g: Any,
    s: Any,
    a: Any,
    rate: Coefficient,
    decay: Coefficient,
    one_minus_decay: Coefficient,
    momentum: Coefficient,
    epsilon: Coefficient,
) -> tuple[Any, ...]:
    """Return the variable v, the average s of squares and the velocity a, after a step with the gradient g."""
    s = s * decay + g * g * one_minus_decay
    a = g / (np.sqrt(s) + epsilon) + a * momentum
    return v - a * rate, s, a


def centered_rmsprop(
    v: Any,
    g: Any,
    s: Any,
    a: Any,
    mean: Any,
    rate: Coefficient,
    decay: Coefficient,
    one_minus_decay: Coefficient,
    momentum: Coefficient,
    epsilon: Coefficient,
) -> tuple[Any, ...]:
    """Return the variable v, the average s of squares, the velocity a and the mean gradient, after a step."""
    s = s * decay + g * g * one_minus_decay
    mean = mean * decay + g * one_minus_decay
    variance = np.maximum(s - mean * mean, 0)  # rounding may make it negative
    a = g / (np.sqrt(variance) + epsilon) + a * momentum
    return v - a * rate, s, a, mean


def adam(
    v: Any,
    g: Any,
    m: Any,
    s: Any,
    rate: Coefficient,
    kept_fraction: Coefficient,
    beta1: Coefficient,
    one_minus_beta1: Coefficient,
    beta2: Coefficient,
    one_minus_beta2: Coefficient,
    epsilon: Coefficient,
) -> tuple[Any, ...]:
    """Return the variable v and the averages m of gradients and s of their squares, after a step with gradient g.

    `kept_fraction` is what weight decay leaves of v, and the names `one_minus_…` say what the others are.
    """
    m = m * beta1 + g * one_minus_beta1
    s = s * beta2 + g * g * one_minus_beta2
    return _scale(v, kept_fraction) - m / (np.sqrt(s) + epsilon) * rate, m, s


def adamax(
    v: Any,
    g: Any,
    m: Any,
    u: Any,
    rate: Coefficient,
    beta1: Coefficient,
    one_minus_beta1: Coefficient,
    beta2: Coefficient,
    epsilon: Coefficient,
) -> tuple[Any, ...]:
    """Return the variable v, the average m of gradients and their decayed maximum u, after a step with gradient g."""
    m = m * beta1 + g * one_minus_beta1
    u = np.maximum(u * beta2, np.abs(g) + epsilon)
    return v - m / u * rate, m, u


def _select_by_flag(flag: Coefficient, compute: Callable[[], Any], otherwise: Any) -> Any:
    """Return the result of `compute` if the flag is not 0, else `otherwise`."""
    if isinstance(flag, float):
        return compute() if flag else otherwise
    return binary.select(flag != 0, compute(), otherwise)


def _scale(x: Any, factor: Coefficient) -> Any:
    """Return ``x * factor``, or x itself if the factor is the number 1."""
    return x if isinstance(factor, float) and factor == 1.0 else x * factor


FORMULAS: Final[dict[Kernel[..., Any], Formula]] = {
    optimizers.gradient_descent: gradient_descent,
    optimizers.momentum: momentum,
    optimizers.adagrad: adagrad,
    optimizers.adadelta: adadelta,
    optimizers.rmsprop: rmsprop,
    optimizers.centered_rmsprop: centered_rmsprop,
    optimizers.adam: adam,
    optimizers.adamax: adamax,
}
"""By kernel, the formula for one variable."""


def apply_to_lists(kernel: Kernel[..., Any], formula: Formula) -> Callable[..., list[Array]]:
    """Return a kernel body that applies a formula to each variable of the lists."""

    def body(coefficients: Array, *tensors: Array) -> list[Array]:
        numbers = coefficients.tolist()
        count = len(tensors) // optimizers.LIST_COUNT_OF_KERNEL[kernel]
        moved = [formula(*tensors[i::count], *numbers) for i in range(count)]
        return [np.asarray(x) for values in zip(*moved, strict=True) for x in values]

    return body


HOST_IMPLEMENTATIONS: Final = {
    kernel: apply_to_lists(kernel, formula) for kernel, formula in FORMULAS.items()
}
"""By kernel, the NumPy function that computes it."""
