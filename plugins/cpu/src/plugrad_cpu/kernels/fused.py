"""Products and convolutions with a bias and an activation, which are applied in place."""

from collections.abc import Callable

import numpy as np

from plugrad.extend import Window
from plugrad.kernels import fused
from plugrad_cpu.declare import Array, table
from plugrad_cpu.kernels import activation as activations, convolution, depthwise, linalg

ACTIVATIONS_IN_PLACE: dict[str, Callable[[Array], Array]] = {
    "linear": lambda y: y,
    "relu": lambda y: np.maximum(y, 0, out=y),
    "relu6": lambda y: np.clip(y, 0, 6, out=y),
    "elu": activations.elu,
    "sigmoid": activations.sigmoid,
}
"""By name of an activation: a function that may write its result over its argument."""


def add_bias_and_activate(
    y: Array,
    bias: Array | None,
    weights: Array | None,
    activation: str,
    leakyrelu_alpha: float,
) -> Array:
    """Return the activation of y plus the bias; `weights` are PReLU's; y is overwritten."""
    if bias is not None:
        y += bias
    if weights is not None:
        return np.where(y > 0, y, y * weights)
    if activation == "leakyrelu":
        return activations.leaky_relu(y, alpha=leakyrelu_alpha)
    return ACTIVATIONS_IN_PLACE[activation](y)


@table.implements(fused.matmul)
def matmul(
    a: Array,
    b: Array,
    bias: Array | None,
    prelu_activation_weights: Array | None,
    *,
    transpose_a: bool,
    transpose_b: bool,
    activation: str,
    leakyrelu_alpha: float,
) -> Array:
    """Return the matrix product plus a bias, after an activation."""
    y = linalg.matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b)
    return add_bias_and_activate(y, bias, prelu_activation_weights, activation, leakyrelu_alpha)


@table.implements(fused.conv2d)
def conv2d(
    x: Array,
    filter: Array,
    bias: Array | None,
    prelu_activation_weights: Array | None,
    *,
    window: Window,
    activation: str,
    leakyrelu_alpha: float,
) -> Array:
    """Return the convolution for a `Window` plus a bias, after an activation."""
    y = convolution.correlate(x, filter, window=window)
    return add_bias_and_activate(y, bias, prelu_activation_weights, activation, leakyrelu_alpha)


@table.implements(fused.depthwise_conv2d)
def depthwise_conv2d(
    x: Array,
    filter: Array,
    bias: Array | None,
    prelu_activation_weights: Array | None,
    *,
    window: Window,
    activation: str,
    leakyrelu_alpha: float,
) -> Array:
    """Return the depthwise convolution for a `Window` plus a bias, after an activation."""
    y = depthwise.depthwise_conv2d(x, filter, window=window)
    return add_bias_and_activate(y, bias, prelu_activation_weights, activation, leakyrelu_alpha)
