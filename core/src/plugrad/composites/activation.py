"""Activations and their gradients that other kernels compute."""

from plugrad.engine.composites import composite
from plugrad.kernels import activation, unary
from plugrad.ops.activation import SIGMOID_SATURATION_LIMIT
from plugrad.ops.binary import maximum, minimum, where
from plugrad.tensor.tensor import Tensor

SELU_SCALE = 1.0507009873554805
"""The factor of both branches of selu."""
SELU_ALPHA = 1.6732632423543772
"""The further factor of the branch of selu for negative x."""


@composite(activation.selu)
def selu(x: Tensor) -> Tensor:
    """Return scale * x where x > 0, else scale * alpha * (exp(x) - 1)."""
    y = activation.elu(x)
    return where(x > 0, x, y * SELU_ALPHA) * SELU_SCALE


@composite(activation.leaky_relu)
def leaky_relu(x: Tensor, *, alpha: float) -> Tensor:
    """Return x where x > 0, else ``alpha * x``."""
    return x * unary.step(x, alpha=alpha)


@composite(activation.prelu)
def prelu(x: Tensor, alpha: Tensor) -> Tensor:
    """Return x where x > 0, else ``alpha * x``."""
    return where(x > 0, x, x * alpha)


@composite(activation.relu6_gradient)
def relu6_gradient(dy: Tensor, y: Tensor) -> Tensor:
    """Return 0 where y is 0 or 6, else dy."""
    return where((y <= 0) | (y >= 6), 0, dy)


@composite(activation.sigmoid_gradient)
def sigmoid_gradient(dy: Tensor, y: Tensor) -> Tensor:
    """Return ``dy * y * (1 - y)``."""
    return dy * y * (1 - y)


@composite(activation.silu, is_traced=True)
def silu(x: Tensor) -> Tensor:
    """Return ``x * sigmoid(x)``, of x that is limited where the sigmoid is 0."""
    return maximum(x, -SIGMOID_SATURATION_LIMIT) * activation.sigmoid(x)


@composite(activation.silu_gradient, is_traced=True)
def silu_gradient(dy: Tensor, x: Tensor) -> Tensor:
    """Return ``dy * s * (1 + x * (1 - s))``, where s is the sigmoid of x, which is limited where s is 0 or 1."""
    s = activation.sigmoid(x)
    x = minimum(maximum(x, -SIGMOID_SATURATION_LIMIT), SIGMOID_SATURATION_LIMIT)
    return dy * (s * (x * (1 - s) + 1))


@composite(activation.elu_gradient)
def elu_gradient(dy: Tensor, y: Tensor) -> Tensor:
    """Return dy where y >= 0, else ``dy * (y + 1)``."""
    return where(y >= 0, dy, dy * (y + 1))
