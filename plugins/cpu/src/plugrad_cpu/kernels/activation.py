"""Activations.

They add a function of the positive part of x and one of the negative part. `np.where` takes several
times as long, because the processor cannot predict which branch comes next.
"""

import numpy as np

from plugrad.kernels import activation
from plugrad_cpu.declare import Array, table
from plugrad_cpu.kernels.binary import select

SELU_SCALE = 1.0507009873554805
SELU_ALPHA = 1.6732632423543772


def sigmoid(x: Array) -> Array:
    """Return 1 / (1 + exp(-x)); exp may be infinite."""
    return 1 / (1 + np.exp(-x))


def elu(x: Array, alpha: float = 1.0) -> Array:
    """Return x where x > 0, else alpha * (exp(x) - 1)."""
    return np.maximum(x, 0) + alpha * np.expm1(np.minimum(x, 0))


def softplus(x: Array) -> Array:
    """Return log(1 + exp(x)) in a form in which exp does not overflow."""
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


table.update(
    {
        activation.relu: lambda x: np.maximum(x, 0),
        activation.relu6: lambda x: np.clip(x, 0, 6) + 0,  # which makes -0 a 0
        activation.elu: elu,
        activation.selu: lambda x: SELU_SCALE * elu(x, SELU_ALPHA),
        activation.sigmoid: sigmoid,
        activation.softplus: softplus,
        activation.prelu: lambda x, alpha: select(x > 0, x, x * alpha),
        activation.elu_gradient: lambda dy, y: select(y >= 0, dy, dy * (y + 1)),
    }
)


@table.implements(activation.leaky_relu)
def leaky_relu(x: Array, *, alpha: float) -> Array:
    """Return x where x > 0, else alpha * x."""
    if 0 < alpha <= 1:
        return np.maximum(x, x * alpha)
    return np.maximum(x, 0) + np.minimum(x, 0) * alpha
