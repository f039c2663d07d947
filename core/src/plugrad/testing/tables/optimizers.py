"""Test rows of optimizer steps, compared with the formulas of the papers."""

# What references take is an array, which a lambda has no place to say.
# pyright: basic

from collections.abc import Callable
from typing import Any

import numpy as np

from plugrad.contract.kernel import Kernel
from plugrad.kernels import optimizers
from plugrad.testing.rows import Array, Input, Row, arbitrary_numbers, fixed_values, numbers
from plugrad.types.specs import Shape

VARIABLE_SHAPES: tuple[Shape, ...] = ((3, 5), ())


def nonnegative_averages(*shape: int) -> Input:
    """Return an input of nonnegative numbers, as averages of squares are."""
    return numbers(0.5, 2, shape=shape)


def rows(
    kernel: Kernel[..., Any],
    formula: Callable[..., tuple[Array, ...]],
    coefficients: list[float],
    *state_inputs: Callable[..., Input],
) -> list[Row]:
    """Return rows of a kernel's step of two variables, of one, and of one that is empty, compared with `formula`."""

    def reference(numbers: Array, *tensors: Array) -> list[Array]:
        count = len(tensors) // (2 + len(state_inputs))
        each = [formula(*tensors[i::count], *numbers) for i in range(count)]
        return [x for values in zip(*each, strict=True) for x in values]

    lists = (arbitrary_numbers, arbitrary_numbers, *state_inputs)
    return [
        Row(
            kernel,
            reference,
            [fixed_values(coefficients), *(draw(*shape) for draw in lists for shape in shapes)],
            is_edge=shapes != VARIABLE_SHAPES,
        )
        for shapes in (VARIABLE_SHAPES, ((70,),), ((0, 2),))
    ]


def reference_centered_rmsprop(v, g, s, a, mean, rate, decay, one_minus_decay, momentum, epsilon):
    """Return the variable v, and the averages s, a and mean, after a step of centered RMSProp with the gradient g."""
    s, mean = decay * s + one_minus_decay * g**2, decay * mean + one_minus_decay * g
    a = momentum * a + g / (np.sqrt(np.maximum(s - mean**2, 0)) + epsilon)
    return v - rate * a, s, a, mean


def rmsprop(v, g, s, a, rate, decay, one_minus_decay, momentum, epsilon):
    """Return the variable v, and the averages s and a, after a step of RMSProp with the gradient g."""
    s = decay * s + one_minus_decay * g**2
    a = momentum * a + g / (np.sqrt(s) + epsilon)
    return v - rate * a, s, a


def adadelta(v, g, s, u, rate, rho, one_minus_rho, epsilon):
    """Return the variable v, and the averages s and u, after a step of Adadelta with the gradient g."""
    s = rho * s + one_minus_rho * g**2
    d = np.sqrt(u + epsilon) / np.sqrt(s + epsilon) * g
    return v - rate * d, s, rho * u + one_minus_rho * d**2


def adam(v, g, m, s, rate, kept_fraction, beta1, one_minus_beta1, beta2, one_minus_beta2, epsilon):
    """Return the variable v, and the averages m and s, after a step of Adam with the gradient g."""
    m, s = beta1 * m + one_minus_beta1 * g, beta2 * s + one_minus_beta2 * g**2
    return kept_fraction * v - rate * m / (np.sqrt(s) + epsilon), m, s


def adamax(v, g, m, u, rate, beta1, one_minus_beta1, beta2, epsilon):
    """Return the variable v, and the averages m and u, after a step of Adamax with the gradient g."""
    m, u = beta1 * m + one_minus_beta1 * g, np.maximum(beta2 * u, np.abs(g) + epsilon)
    return v - rate * m / u, m, u


TEST_ROWS = [
    *rows(optimizers.gradient_descent, lambda v, g, rate: (v - rate * g,), [0.25]),
    *rows(
        optimizers.momentum,
        lambda v, g, a, rate, m, _: (v - rate * (m * a + g), m * a + g),
        [0.25, 0.75, 0],
        arbitrary_numbers,
    ),
    *rows(
        optimizers.momentum,
        lambda v, g, a, rate, m, _: (v - rate * (g + m * (m * a + g)), m * a + g),
        [0.25, 0.75, 1],
        arbitrary_numbers,
    ),
    *rows(
        optimizers.adagrad,
        lambda v, g, a, rate, epsilon: (v - rate * g / (np.sqrt(a + g**2) + epsilon), a + g**2),
        [0.25, 0.125],
        nonnegative_averages,
    ),
    *rows(
        optimizers.adadelta,
        adadelta,
        [0.5, 0.75, 0.25, 0.125],
        nonnegative_averages,
        nonnegative_averages,
    ),
    *rows(
        optimizers.rmsprop,
        rmsprop,
        [0.25, 0.75, 0.25, 0.5, 0.125],
        nonnegative_averages,
        arbitrary_numbers,
    ),
    *rows(
        optimizers.centered_rmsprop,
        reference_centered_rmsprop,
        [0.25, 0.75, 0.25, 0.5, 0.125],
        nonnegative_averages,
        arbitrary_numbers,
        arbitrary_numbers,
    ),
    *rows(
        optimizers.adam,
        adam,
        [0.25, 0.875, 0.75, 0.25, 0.5, 0.5, 0.125],
        arbitrary_numbers,
        nonnegative_averages,
    ),
    *rows(
        optimizers.adamax,
        adamax,
        [0.25, 0.75, 0.25, 0.5, 0.125],
        arbitrary_numbers,
        nonnegative_averages,
    ),
]
