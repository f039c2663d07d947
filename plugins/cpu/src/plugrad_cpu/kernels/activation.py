"""The activations."""

import numpy as np

from plugrad.kernels import activation
from plugrad_cpu.declare import Array, table

SELU_SCALE = 1.0507009873554805
SELU_ALPHA = 1.6732632423543772


def sigmoid(x: Array) -> Array:
    """Return 1 / (1 + exp(-x)) through tanh, which cannot overflow."""
    return np.tanh(x * 0.5) * 0.5 + 0.5


def sigmoid_real_or_complex(x: Array) -> Array:
    """Return the logistic function; complex numbers by its definition."""
    return 1 / (1 + np.exp(-x)) if x.dtype.kind == "c" else sigmoid(x)


def elu(x: Array) -> Array:
    """Return x where x > 0, else exp(x) - 1."""
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0)))


table.update(
    {
        activation.relu: lambda x: np.maximum(x, 0),
        activation.relu6: lambda x: np.minimum(np.maximum(x, 0), 6),
        activation.elu: elu,
        activation.selu: lambda x: (
            SELU_SCALE * np.where(x > 0, x, SELU_ALPHA * np.expm1(np.minimum(x, 0)))
        ),
        activation.sigmoid: sigmoid_real_or_complex,
        activation.softplus: lambda x: np.logaddexp(x, 0),
        activation.prelu: lambda x, alpha: np.where(x > 0, x, x * alpha),
        activation.elu_gradient: lambda dy, y: np.where(y >= 0, dy, dy * (y + 1)),
    }
)


@table.implements(activation.leaky_relu)
def leaky_relu(x: Array, *, alpha: float) -> Array:
    """Return x where x > 0, else alpha * x."""
    return np.where(x > 0, x, x * alpha)
