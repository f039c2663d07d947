"""The functions between the layers of a network."""

import numpy as np

from plugrad.kernels import activation
from plugrad.testing.rows import Row, numbers

SCALE, ALPHA = 1.0507009873554805, 1.6732632423543772  # Klambauer and others, 2017

away_from_0 = numbers(avoid=(0,))

ROWS = [
    Row(activation.relu, lambda x: np.maximum(x, 0), [away_from_0]),
    Row(activation.relu6, lambda x: np.clip(x, 0, 6), [numbers(-3, 9, avoid=(0, 6))]),
    Row(activation.elu, lambda x: np.where(x > 0, x, np.expm1(x)), [away_from_0]),
    Row(
        activation.selu,
        lambda x: SCALE * np.where(x > 0, x, ALPHA * np.expm1(x)),
        [away_from_0],
    ),
    Row(activation.sigmoid, lambda x: 1 / (1 + np.exp(-x)), [numbers()]),
    Row(activation.softplus, lambda x: np.logaddexp(x, 0), [numbers()]),
    *(
        Row(
            activation.leaky_relu,
            lambda x, a=alpha: np.where(x > 0, x, a * x),
            [away_from_0],
            {"alpha": alpha},
        )
        for alpha in (0.2, -0.5)
    ),
    Row(activation.prelu, lambda x, alpha: np.where(x > 0, x, alpha * x), [away_from_0, numbers()]),
    Row(
        activation.elu_gradient,
        lambda dy, y: np.where(y >= 0, dy, dy * (y + 1)),
        [numbers(), away_from_0],
    ),
]
