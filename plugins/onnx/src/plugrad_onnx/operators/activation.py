"""Activations."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import plugrad
from plugrad_onnx.operators.common import number_like
from plugrad_onnx.registry import operator

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad import Tensor


@operator("Relu", layout="elementwise")
def relu(x: Tensor) -> Tensor:
    """Return max(x, 0)."""
    return plugrad.relu(x)


@operator("Sigmoid", layout="elementwise")
def sigmoid(x: Tensor) -> Tensor:
    """Return 1 / (1 + exp(−x))."""
    return plugrad.sigmoid(x)


@operator("Tanh", layout="elementwise")
def tanh(x: Tensor) -> Tensor:
    """Return the hyperbolic tangent."""
    return plugrad.tanh(x)


@operator("Softplus", layout="elementwise")
def softplus(x: Tensor) -> Tensor:
    """Return log(1 + exp(x))."""
    return plugrad.softplus(x)


@operator("Softsign", layout="elementwise")
def softsign(x: Tensor) -> Tensor:
    """Return x / (1 + |x|)."""
    return plugrad.divide(x, plugrad.add(plugrad.abs(x), number_like(1, x)))


@operator("Elu", layout="elementwise")
def elu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """Return x where positive, else alpha · (exp(x) − 1)."""
    if alpha == 1:
        return plugrad.elu(x)
    return _where_positive(x, plugrad.multiply(_expm1(x), number_like(alpha, x)))


@operator("Celu", layout="elementwise")
def celu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """Return x where positive, else alpha · (exp(x / alpha) − 1)."""
    below = plugrad.multiply(
        _expm1(plugrad.divide(x, number_like(alpha, x))), number_like(alpha, x)
    )
    return _where_positive(x, below)


@operator("Selu", layout="elementwise")
def selu(
    x: Tensor, *, alpha: float = 1.67326319217681884765625, gamma: float = 1.05070102214813232421875
) -> Tensor:
    """Return gamma · Elu(x)."""
    return plugrad.multiply(elu(x, alpha=alpha), number_like(gamma, x))


@operator("LeakyRelu", layout="elementwise")
def leaky_relu(x: Tensor, *, alpha: float = 0.01) -> Tensor:
    """Return x where positive, else alpha · x."""
    return plugrad.leaky_relu(x, alpha)


@operator("PRelu")
def prelu(x: Tensor, slope: Tensor, *, opset: int) -> Tensor:
    """Return x where positive, else slope · x."""
    if opset < 7 and slope.ndim == 1 and slope.shape[0] > 1:
        slope = plugrad.reshape(slope, (-1,) + (1,) * (x.ndim - 2))
    return plugrad.where(plugrad.less(x, number_like(0, x)), plugrad.multiply(x, slope), x)


@operator("ThresholdedRelu", layout="elementwise")
def thresholded_relu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """Return x where x > alpha, else 0."""
    return plugrad.where(plugrad.greater(x, number_like(alpha, x)), x, number_like(0, x))


@operator("HardSigmoid", layout="elementwise")
def hard_sigmoid(x: Tensor, *, alpha: float = 0.2, beta: float = 0.5) -> Tensor:
    """Return alpha · x + beta clipped to [0, 1]."""
    line = plugrad.add(plugrad.multiply(x, number_like(alpha, x)), number_like(beta, x))
    return plugrad.clip(line, 0, 1)


@operator("HardSwish", layout="elementwise")
def hard_swish(x: Tensor) -> Tensor:
    """Return x · HardSigmoid(x) with a slope of 1/6."""
    return plugrad.multiply(x, hard_sigmoid(x, alpha=1 / 6))


@operator("Swish", layout="elementwise")
def swish(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """Return x · sigmoid(alpha · x)."""
    if alpha == 1:
        return plugrad.silu(x)
    return plugrad.multiply(x, plugrad.sigmoid(plugrad.multiply(x, number_like(alpha, x))))


@operator("Mish", layout="elementwise")
def mish(x: Tensor) -> Tensor:
    """Return x · tanh(softplus(x))."""
    return plugrad.multiply(x, plugrad.tanh(plugrad.softplus(x)))


@operator("Gelu", layout="elementwise")
def gelu(x: Tensor, *, approximate: str = "none") -> Tensor:
    """Return x · Φ(x), where Φ is the normal distribution function, or its tanh approximation."""
    return plugrad.gelu(x, approximate=approximate == "tanh")


@operator("Shrink", layout="elementwise")
def shrink(x: Tensor, *, bias: float = 0.0, lambd: float = 0.5) -> Tensor:
    """Return x + bias below −lambd, x − bias above lambd, and 0 between."""
    above = plugrad.where(
        plugrad.greater(x, number_like(lambd, x)),
        plugrad.subtract(x, number_like(bias, x)),
        number_like(0, x),
    )
    return plugrad.where(
        plugrad.less(x, number_like(-lambd, x)), plugrad.add(x, number_like(bias, x)), above
    )


@operator("Hardmax")
def flattened_hardmax(x: Tensor, *, axis: int = 1) -> Tensor:
    """Return 1 at the maximum over `axis` and all later axes together, else 0."""
    return _apply_to_rows(_hardmax, x, axis)


@operator("Hardmax", since=13)
def hardmax(x: Tensor, *, axis: int = -1) -> Tensor:
    """Return 1 at the maximum along an axis, else 0."""
    last = _hardmax(plugrad.moveaxis(x, axis, -1))
    return plugrad.moveaxis(last, -1, axis)


@operator("Softmax")
def flattened_softmax(x: Tensor, *, axis: int = 1) -> Tensor:
    """Return the softmax over `axis` and all later axes together."""
    return _apply_to_rows(plugrad.softmax, x, axis)


@operator("Softmax", since=13)
def softmax(x: Tensor, *, axis: int = -1) -> Tensor:
    """Return the softmax along an axis."""
    return plugrad.softmax(x, axis=axis)


@operator("LogSoftmax")
def flattened_log_softmax(x: Tensor, *, axis: int = 1) -> Tensor:
    """Return the logarithm of the softmax over `axis` and all later axes together."""
    return _apply_to_rows(plugrad.log_softmax, x, axis)


@operator("LogSoftmax", since=13)
def log_softmax(x: Tensor, *, axis: int = -1) -> Tensor:
    """Return the logarithm of the softmax along an axis."""
    return plugrad.log_softmax(x, axis=axis)


def _where_positive(x: Tensor, negative_values: Tensor) -> Tensor:
    """Return x where it is positive, else the other values."""
    return plugrad.where(plugrad.greater(x, number_like(0, x)), x, negative_values)


def _expm1(x: Tensor) -> Tensor:
    """Return exp(x) − 1 for negative x; values and gradients stay finite for large x."""
    return plugrad.expm1(plugrad.minimum(x, number_like(0, x)))


def _hardmax(x: Tensor) -> Tensor:
    """Return 1 at the first maximum along the last axis, else 0."""
    return plugrad.one_hot(plugrad.argmax(x, axis=-1), x.shape[-1], dtype=x.dtype)


def _apply_to_rows(function: Callable[..., Tensor], x: Tensor, axis: int) -> Tensor:
    """Apply a function to the rows of x as a matrix whose columns are `axis` and all later axes."""
    axis = axis % max(x.ndim, 1)
    rows = (math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))
    return plugrad.reshape(function(plugrad.reshape(x, rows)), x.shape)
