"""Activations.

They add a function of the positive part of x and one of the negative part. `np.where` takes several
times as long, because the processor cannot predict which branch comes next.
"""

from collections.abc import Callable
from math import pi, sqrt
from typing import Any

import numpy as np

from plugrad.extend import broadcast
from plugrad.kernels import activation
from plugrad_cpu.declare import Array, accumulation_dtype, table
from plugrad_cpu.kernels.binary import select, zero_where_false

SELU_SCALE = 1.0507009873554805
"""The factor of selu (Klambauer et al., 2017)."""
SELU_ALPHA = 1.6732632423543772
"""The negative of selu's limit for negative numbers, before it is scaled."""


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


SIGMOID_SATURATION_LIMIT = 800
"""The absolute value beyond which sigmoid is 0 or 1 in every dtype: infinity is not multiplied by 0."""


def silu(x: Array) -> Array:
    """Return x times its sigmoid."""
    return np.maximum(x, -SIGMOID_SATURATION_LIMIT) * sigmoid(x)


def silu_gradient(dy: Array, x: Array) -> Array:
    """Return dy s (1 + x (1 - s)), where s is the sigmoid of x."""
    s = sigmoid(x)
    x = np.clip(x, -SIGMOID_SATURATION_LIMIT, SIGMOID_SATURATION_LIMIT)
    return dy * (s * (x * (1 - s) + 1))


def elu(x: Array, alpha: float = 1.0) -> Array:
    """Return x where x > 0, else alpha * (exp(x) - 1). It has the sign of x, which the sum loses for -0."""
    y = np.maximum(x, 0) + alpha * np.expm1(np.minimum(x, 0))
    return np.copysign(y, x)


def softplus(x: Array) -> Array:
    """Return log(1 + exp(x)) in a form in which exp does not overflow."""
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


GELU_SLOPE = 2 * sqrt(2 / pi)
"""The factor of x in the exponent of the approximation of gelu by tanh."""
GELU_CUBIC = 0.044715
"""The factor of x^3, relative to that of x, in the approximation of gelu by tanh."""
BLOCK_ELEMENTS = 65_536
"""The number of elements computed at a time: intermediate results stay in the cache, and calls are few."""
# Where gelu has reached 0 or x, and its slope 0 or 1, in each precision: infinity is not multiplied by 0.
GELU_ZERO_BEYOND = {np.dtype(np.float32): 14.5, np.dtype(np.float64): 40.0}
"""By dtype: the absolute value beyond which gelu is 0 or x."""
GELU_TANH_ZERO_BEYOND = 40
"""The absolute value beyond which the approximation of gelu by tanh is 0 or x."""
# P(-m) = exp(-m^2 / 2) p(t) / (m + k), where t = (m - k) / (m + k), for 0 <= m up to these limits. For each
# precision, k and the polynomial p with the least relative error, the highest power first. The other backends use
# the same ones.
NORMAL_TAIL_POLYNOMIALS: dict[np.dtype[Any], tuple[int, list[float]]] = {
    np.dtype(np.float32): (
        4,
        [
            -0.0001235153559,
            0.0001935910708,
            0.001568784782,
            -0.003523051908,
            -0.007526833246,
            0.0604064176,
            -0.1865230677,
            0.3871366799,
            -0.6078966037,
            0.7552851385,
        ],
    ),
    np.dtype(np.float64): (
        6,
        [
            2.74939182610010595e-9,
            2.27871102717622372e-10,
            -3.77816564629587916e-8,
            1.24650612702751983e-8,
            3.04596480536068656e-7,
            -4.35534213216657667e-7,
            -1.79629291688064992e-6,
            6.80045157779861814e-6,
            1.07441238205911918e-6,
            -0.0000647536961202941844,
            0.000181360657341464736,
            0.0000328704572900531207,
            -0.00213160523618629576,
            0.0100298205711239414,
            -0.0309853155064862378,
            0.0751719156753218431,
            -0.152680232064472745,
            0.267974245841355142,
            -0.413903585775592664,
            0.568968891814789236,
            -0.701009029590865525,
            0.777351771893362174,
        ],
    ),
}
"""By dtype: k and the coefficients of p, the highest power first."""
UPPER_HALF_BIT_MASK = {np.dtype(np.float32): ~0xFFF, np.dtype(np.float64): ~0x7FFFFFF}
"""By dtype: a mask for the bits of a number without the lower half of its digits."""


def compute_in_blocks(formula: Callable[..., Array]) -> Callable[..., Array]:
    """Return an implementation that computes an elementwise formula in blocks, so that results stay in the cache."""

    def compute(*arrays: Array) -> Array:
        """Return the formula of arrays, broadcast to one shape."""
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


def normal_tail_factor(m: Array) -> Array:
    """Return P(-m) / exp(-m^2 / 2) of m >= 0, where P is the distribution of a normal number."""
    centre, terms = NORMAL_TAIL_POLYNOMIALS[m.dtype]
    inverse = m + centre
    np.reciprocal(inverse, out=inverse)
    t = m - centre
    t *= inverse
    y = t * m.dtype.type(terms[0])
    for term in terms[1:-1]:
        y += term
        y *= t
    y += terms[-1]
    y *= inverse
    return y


def gaussian(m: Array) -> Array:
    """Return exp(-m^2 / 2), times a factor that corrects the rounding error of the square."""
    upper = (m.view(f"i{m.itemsize}") & UPPER_HALF_BIT_MASK[m.dtype]).view(m.dtype)
    y = m * m
    rest = upper * upper
    rest -= y
    rest += (m - upper) * (m + upper)
    rest *= -0.5
    rest += 1
    y *= -0.5
    np.exp(y, out=y)
    y *= rest
    return y


def gelu(x: Array) -> Array:
    """Return x P(x), which is max(x, 0) - |x| P(-|x|), where P is the distribution of a normal number."""
    m = np.clip(np.abs(x), 0, GELU_ZERO_BEYOND[x.dtype])
    below = normal_tail_factor(m)
    below *= m
    below *= gaussian(m)
    return np.subtract(np.where(x > 0, x, x.dtype.type(-0.0)), below, out=below)


def gelu_gradient(dy: Array, x: Array) -> Array:
    """Return dy (P(x) + x p(x)), where p is the derivative of P."""
    m = np.clip(np.abs(x), 0, GELU_ZERO_BEYOND[x.dtype])
    # m p(m) - P(-m) is the slope minus 1 of positive x, and minus the slope of others.
    slope = m * m.dtype.type(1 / sqrt(2 * pi))
    slope -= normal_tail_factor(m)
    slope *= gaussian(m)
    is_positive = (x > 0).astype(x.dtype)
    slope *= 2 * is_positive - 1
    slope += is_positive
    slope *= dy
    return slope


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
        activation.silu: silu,
        activation.softplus: softplus,
        activation.prelu: lambda x, alpha: select(x > 0, x, x * alpha),
        activation.gelu: compute_in_blocks(gelu),
        activation.gelu_tanh: compute_in_blocks(gelu_tanh),
        activation.gelu_gradient: compute_in_blocks(gelu_gradient),
        activation.gelu_tanh_gradient: compute_in_blocks(gelu_tanh_gradient),
        activation.relu6_gradient: lambda dy, y: zero_where_false(dy, ~((y <= 0) | (y >= 6))),
        activation.sigmoid_gradient: sigmoid_gradient,
        activation.silu_gradient: silu_gradient,
        activation.elu_gradient: lambda dy, y: select(y >= 0, dy, dy * (y + 1)),
    }
)


@table.implements(activation.leaky_relu)
def leaky_relu(x: Array, *, alpha: float) -> Array:
    """Return x where x > 0, else alpha * x."""
    if 0 < alpha <= 1:
        return np.maximum(x, x * alpha)
    return np.maximum(x, 0) + np.minimum(x, 0) * alpha
