"""Activations.

They add a function of the positive part of x and one of the negative part. `np.where` takes several
times as long, because the processor cannot predict which branch comes next.
"""

from collections.abc import Callable
from math import pi, sqrt

import numpy as np

from plugrad.extend import broadcast
from plugrad.kernels import activation
from plugrad_cpu.declare import Array, accumulation_dtype, table
from plugrad_cpu.kernels.binary import select, zero_where_false
from plugrad_cpu.kernels.unary import erf

SELU_SCALE = 1.0507009873554805
SELU_ALPHA = 1.6732632423543772


def relu(x: Array, out: Array | None = None) -> Array:
    """Return the positive part of x."""
    return np.maximum(x, 0, out=out)


def relu6(x: Array, out: Array | None = None) -> Array:
    """Return the positive part of x, at most 6; the sum makes -0 a 0."""
    return np.add(np.clip(x, 0, 6, out=out), 0, out=out)


def sigmoid(x: Array, out: Array | None = None) -> Array:
    """Return 1 / (1 + exp(-x)); exp may be infinite."""
    y = np.exp(np.negative(x, out=out), out=out)
    return np.divide(1, np.add(1, y, out=out), out=out)


def sigmoid_gradient(dy: Array, y: Array, out: Array | None = None) -> Array:
    """Return dy y (1 - y)."""
    z = np.multiply(np.subtract(1, y, out=out), y, out=out)
    return np.multiply(z, dy, out=out)


def elu(x: Array, alpha: float = 1.0) -> Array:
    """Return x where x > 0, else alpha * (exp(x) - 1). It has the sign of x, which the sum loses for -0."""
    y = np.maximum(x, 0) + alpha * np.expm1(np.minimum(x, 0))
    return np.copysign(y, x)


def softplus(x: Array) -> Array:
    """Return log(1 + exp(x)) in a form in which exp does not overflow."""
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


GELU_SLOPE = 2 * sqrt(2 / pi)
GELU_CUBIC = 0.044715
BLOCK_ELEMENTS = 65_536  # elements: intermediate results stay in the cache, and calls are few
# Where gelu has reached 0 or x, and its slope 0 or 1, in each precision: infinity is not multiplied by 0.
GELU_ZERO_BEYOND = {np.dtype(np.float32): 14.5, np.dtype(np.float64): 40.0}
GELU_TANH_ZERO_BEYOND = 40
# The polynomial for log P(-x) in single precision for 0 <= x <= 14.5, the highest power first, with the least
# error of x P(-x). The webgpu backend uses the same one.
LOG_TAIL_COEFFICIENTS = np.array(
    [
        -1.1751507544843776e-9,
        6.266601104698566e-8,
        -1.3195261772125377e-6,
        1.330792838416528e-5,
        -4.9230573495151475e-5,
        -3.08788672555238e-4,
        5.193829070776701e-3,
        -3.660059720277786e-2,
        -3.182281255722046e-1,
        -7.978938221931458e-1,
        -6.931470036506653e-1,
    ],
    np.float32,
)


def in_blocks(formula: Callable[..., Array]) -> Callable[..., Array]:
    """Return a function that computes a formula in blocks, whose many intermediate results stay in the cache."""

    def compute(*arrays: Array) -> Array:
        shape, dtype = arrays[0].shape, arrays[0].dtype
        wide = accumulation_dtype(dtype)
        if any(x.shape != shape for x in arrays):
            shape = broadcast(*[x.shape for x in arrays])
            arrays = tuple(np.broadcast_to(x, shape) for x in arrays)
        parts = [x.reshape(-1) for x in arrays]
        y = np.empty(parts[0].size, dtype)
        for start in range(0, y.size, BLOCK_ELEMENTS):
            block = slice(start, start + BLOCK_ELEMENTS)
            y[block] = formula(*[part[block].astype(wide, copy=False) for part in parts])
        return y.reshape(shape)

    return compute


def normal_tail(m: Array) -> Array:
    """Return the probability that a standard normal number is at most -m, for numbers m that are not negative."""
    if m.dtype == np.float64:
        y = erf(m * -sqrt(0.5))
        y += 1
        y *= 0.5
        return y
    y = m * LOG_TAIL_COEFFICIENTS[0]
    for term in LOG_TAIL_COEFFICIENTS[1:-1]:
        y += term
        y *= m
    y += LOG_TAIL_COEFFICIENTS[-1]
    return np.exp(y, out=y)


def gelu(x: Array) -> Array:
    """Return x P(x), which is max(x, 0) - |x| P(-|x|), where P is the distribution of a normal number."""
    m = np.clip(np.abs(x), 0, GELU_ZERO_BEYOND[x.dtype])
    m *= normal_tail(m)
    return np.subtract(np.clip(x, 0, np.inf), m, out=m)


def gelu_gradient(dy: Array, x: Array) -> Array:
    """Return dy (P(x) + x p(x)), where p is the derivative of P."""
    m = np.clip(np.abs(x), 0, GELU_ZERO_BEYOND[x.dtype])
    density = m * m
    density *= -0.5
    np.exp(density, out=density)
    density *= m
    density *= 1 / sqrt(2 * pi)
    density -= normal_tail(
        m
    )  # m p(m) - P(-m), which is the slope minus 1 of positive x, and minus the slope of others
    is_positive = (x > 0).astype(x.dtype)
    density *= 2 * is_positive - 1
    density += is_positive
    density *= dy
    return density


def gelu_tanh(x: Array) -> Array:
    """Return x (1 + tanh(u)) / 2, where u is about x sqrt(2 / pi), as x / (1 + exp(-2 u)), which does not cancel."""
    x = np.maximum(x, -GELU_TANH_ZERO_BEYOND)
    y = x * x
    y *= -GELU_CUBIC * GELU_SLOPE
    y -= GELU_SLOPE
    y *= x
    np.exp(y, out=y)
    y += 1
    return np.divide(x, y, out=y)


def gelu_tanh_gradient(dy: Array, x: Array) -> Array:
    """Return dy (s + x s') with s' = 2 u' s (1 - s); s and 1 - s are e / (1 + e) and 1 / (1 + e), e = exp(-|2 u|)."""
    x = np.clip(x, -GELU_TANH_ZERO_BEYOND, GELU_TANH_ZERO_BEYOND)
    square = x * x
    e = square * -(GELU_CUBIC * GELU_SLOPE)
    e -= GELU_SLOPE
    e *= np.abs(x)
    np.exp(e, out=e)
    more = 1 / (1 + e)
    less = np.multiply(e, more, out=e)
    slope = square
    slope *= 3 * GELU_CUBIC * GELU_SLOPE
    slope += GELU_SLOPE
    slope *= x
    slope *= less
    slope *= more
    slope += less
    more -= less
    more *= x > 0
    slope += more
    slope *= dy
    return slope


table.update(
    {
        activation.relu: relu,
        activation.relu6: relu6,
        activation.elu: elu,
        activation.selu: lambda x: SELU_SCALE * elu(x, SELU_ALPHA),
        activation.sigmoid: sigmoid,
        activation.softplus: softplus,
        activation.prelu: lambda x, alpha: select(x > 0, x, x * alpha),
        activation.gelu: in_blocks(gelu),
        activation.gelu_tanh: in_blocks(gelu_tanh),
        activation.gelu_gradient: in_blocks(gelu_gradient),
        activation.gelu_tanh_gradient: in_blocks(gelu_tanh_gradient),
        activation.relu6_gradient: lambda dy, y: zero_where_false(dy, ~((y <= 0) | (y >= 6))),
        activation.sigmoid_gradient: sigmoid_gradient,
        activation.elu_gradient: lambda dy, y: select(y >= 0, dy, dy * (y + 1)),
    }
)


@table.implements(activation.leaky_relu)
def leaky_relu(x: Array, *, alpha: float) -> Array:
    """Return x where x > 0, else alpha * x."""
    if 0 < alpha <= 1:
        return np.maximum(x, x * alpha)
    return np.maximum(x, 0) + np.minimum(x, 0) * alpha
