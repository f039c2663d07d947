"""Test rows of the activation functions."""

import math
from functools import partial
from typing import Final

import numpy as np

import plugrad
from plugrad.kernels import activation
from plugrad.testing.definitions import Array
from plugrad.testing.rows import Row, numbers

SELU_SCALE, SELU_ALPHA = 1.0507009873554805, 1.6732632423543772  # Klambauer and others, 2017

SQRT_2_OVER_PI = math.sqrt(2 / math.pi)


def silu(x: Array) -> Array:
    """Return x times its sigmoid."""
    return np.where(x == -np.inf, 0, x / (1 + np.exp(-x)))


def silu_derivative(x: Array) -> Array:
    """Return the derivative of `silu`."""
    x = np.clip(x, -800, 800)
    s = 1 / (1 + np.exp(-x))
    return s * (1 + x * (1 - s))


def normal_cdf(x: Array) -> Array:
    """Return the probability that a standard normal number is at most x."""
    return 0.5 * np.vectorize(math.erfc, otypes=[float])(-x / math.sqrt(2))


def gelu(x: Array) -> Array:
    """Return x times the probability that a standard normal number is at most x."""
    return np.where(x == -np.inf, 0, x * normal_cdf(x))


def gelu_derivative(x: Array) -> Array:
    """Return the derivative of `gelu`."""
    x = np.clip(x, -100, 100)
    return normal_cdf(x) + x * np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)


def gelu_tanh(x: Array) -> Array:
    """Return the approximation of GELU with tanh."""
    return np.where(
        x == -np.inf, 0, 0.5 * x * (1 + np.tanh(SQRT_2_OVER_PI * (x + 0.044715 * x**3)))
    )


def gelu_tanh_derivative(x: Array) -> Array:
    """Return the derivative of `gelu_tanh`."""
    x = np.clip(x, -100, 100)
    t = np.tanh(SQRT_2_OVER_PI * (x + 0.044715 * x**3))
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * SQRT_2_OVER_PI * (1 + 3 * 0.044715 * x * x)


numbers_away_from_0: Final = numbers(avoid=(0,))
"""An input of numbers that are not near 0."""

TEST_ROWS = [
    Row(activation.relu, lambda x: np.maximum(x, 0), [numbers_away_from_0]),
    Row(activation.relu6, lambda x: np.clip(x, 0, 6), [numbers(-3, 9, avoid=(0, 6))]),
    Row(activation.elu, lambda x: np.where(x > 0, x, np.expm1(x)), [numbers_away_from_0]),
    Row(
        activation.selu,
        lambda x: SELU_SCALE * np.where(x > 0, x, SELU_ALPHA * np.expm1(x)),
        [numbers_away_from_0],
    ),
    Row(activation.sigmoid, lambda x: 1 / (1 + np.exp(-x)), [numbers()]),
    Row(activation.silu, silu, [numbers()]),
    Row(activation.softplus, lambda x: np.logaddexp(x, 0), [numbers()]),
    *(
        Row(
            activation.leaky_relu,
            lambda x, a=alpha: np.where(x > 0, x, a * x),
            [numbers_away_from_0],
            {"alpha": alpha},
        )
        for alpha in (0.2, -0.5)
    ),
    Row(
        activation.prelu,
        lambda x, alpha: np.where(x > 0, x, alpha * x),
        [numbers_away_from_0, numbers()],
    ),
    Row(activation.gelu, gelu, [numbers(-5, 5)]),
    Row(
        activation.gelu_tanh,
        gelu_tanh,
        [numbers(-5, 5)],
        op=partial(plugrad.gelu, approximate=True),
    ),
    Row(
        activation.gelu_gradient, lambda dy, x: dy * gelu_derivative(x), [numbers(), numbers(-5, 5)]
    ),
    Row(
        activation.gelu_tanh_gradient,
        lambda dy, x: dy * gelu_tanh_derivative(x),
        [numbers(), numbers(-5, 5)],
    ),
    Row(
        activation.relu6_gradient,
        lambda dy, y: np.where((y == 0) | (y == 6), 0, dy),
        [numbers(), numbers(0, 6, allowed_range=(0, 6))],
    ),
    Row(
        activation.sigmoid_gradient,
        lambda dy, y: dy * y * (1 - y),
        [numbers(), numbers(0, 1, allowed_range=(0, 1))],
    ),
    Row(activation.silu_gradient, lambda dy, x: dy * silu_derivative(x), [numbers(), numbers()]),
    Row(
        activation.elu_gradient,
        lambda dy, y: np.where(y >= 0, dy, dy * (y + 1)),
        [numbers(), numbers(-1, 3, avoid=(0,), allowed_range=(-1, np.inf))],
    ),
]
