"""Gradients of the activation functions; at a kink, the gradient from the left."""

from math import pi, sqrt

from plugrad.kernels import activation, unary
from plugrad.ops.activation import SIGMOID_SATURATION_LIMIT, sigmoid
from plugrad.ops.binary import greater, less, maximum, minimum, where
from plugrad.ops.unary import exp
from plugrad.tape.rules import gradient
from plugrad.tensor.tensor import Tensor


def sigmoid_vjp(dy: Tensor, y: Tensor) -> Tensor:
    """Return the gradient for the argument of a sigmoid with the result y, which may be complex."""
    if y.dtype.kind == "complex":
        return dy * y * (1 - y)
    return activation.sigmoid_gradient(dy, y)


# Some derivatives follow from the result `out` alone: relu(x) is positive where x is.
gradient(activation.relu, x=lambda dy, out: dy * unary.step(out, alpha=0.0))
gradient(activation.relu6, x=lambda dy, out: activation.relu6_gradient(dy, out))
gradient(activation.leaky_relu, x=lambda dy, x, alpha: dy * unary.step(x, alpha=alpha))
gradient(activation.elu, x=lambda dy, out: activation.elu_gradient(dy, out))
gradient(activation.sigmoid, x=lambda dy, out: sigmoid_vjp(dy, out))
gradient(activation.silu, x=lambda dy, x: activation.silu_gradient(dy, x))
gradient(activation.softplus, x=lambda dy, x: dy * sigmoid(x))

SELU_SCALE = 1.0507009873554805
"""The factor of both branches of selu."""
SELU_ALPHA = 1.6732632423543772
"""The factor of ``exp(x) - 1`` in selu for negative x, before `SELU_SCALE` multiplies the result."""
# For x <= 0, out = scale * alpha * (exp(x) - 1), so the derivative is out + scale * alpha.
gradient(
    activation.selu,
    x=lambda dy, x, out: dy * where(greater(x, 0), SELU_SCALE, out + SELU_SCALE * SELU_ALPHA),
)
gradient(
    activation.prelu,
    x=lambda dy, x, alpha: dy * where(greater(x, 0), 1, alpha),
    alpha=lambda dy, x: where(greater(x, 0), 0, dy * x),
)
# It does not change smoothly with y.
gradient(activation.relu6_gradient, dy=lambda dy, y: activation.relu6_gradient(dy, y))
gradient(
    activation.sigmoid_gradient,
    dy=lambda dy, y: activation.sigmoid_gradient(dy, y),
    y=lambda dy, dy_input, y: dy * dy_input * (1 - 2 * y),
)


def _silu_second_derivative(x: Tensor) -> Tensor:
    """Return ``s' (2 + x (1 - 2 s))``, because the sigmoid s has the derivative ``s' = s (1 - s)``."""
    s = sigmoid(x)
    x = minimum(maximum(x, -SIGMOID_SATURATION_LIMIT), SIGMOID_SATURATION_LIMIT)
    # 1 - s is sigmoid(-x), which keeps its digits where s is close to 1.
    return s * sigmoid(-x) * (2 + x * (1 - 2 * s))


gradient(
    activation.silu_gradient,
    dy=lambda dy, x: activation.silu_gradient(dy, x),
    x=lambda dy, dy_input, x: dy * dy_input * _silu_second_derivative(x),
)
# dy * (y + 1) where y < 0, else dy
gradient(
    activation.elu_gradient,
    dy=lambda dy, y: activation.elu_gradient(dy, y),
    y=lambda dy, dy_input, y: where(less(y, 0), dy * dy_input, 0),
)

# --- gelu, with the distribution P and the density p of a standard normal number: (x P)' = P + x p ----

gradient(activation.gelu, x=lambda dy, x: activation.gelu_gradient(dy, x))
gradient(activation.gelu_tanh, x=lambda dy, x: activation.gelu_tanh_gradient(dy, x))


def _clip_to_gelu_curvature(x: Tensor) -> Tensor:
    """Clip x to the range where gelu's second derivative is not 0, which avoids 0 times infinity outside."""
    return minimum(
        maximum(x, -GELU_SECOND_DERIVATIVE_ZERO_BEYOND), GELU_SECOND_DERIVATIVE_ZERO_BEYOND
    )


def _gelu_second_derivative(x: Tensor) -> Tensor:
    """Return ``p (2 - x^2)``, because ``p' = -x p``."""
    x = _clip_to_gelu_curvature(x)
    square = x * x
    return exp(-0.5 * square) * (2 - square) / sqrt(2 * pi)


def _gelu_tanh_second_derivative(x: Tensor) -> Tensor:
    """Return ``2 s' + x s''`` of the sigmoid ``s = sigmoid(v)``, with ``v = 2 sqrt(2 / pi) (x + a x^3)``."""
    x = _clip_to_gelu_curvature(x)
    square = x * x
    v = GELU_SLOPE * x * (1 + GELU_CUBIC * square)
    s = sigmoid(v)
    slope = GELU_SLOPE * (1 + 3 * GELU_CUBIC * square)
    bend = 6 * GELU_SLOPE * GELU_CUBIC * x
    # 1 - s is sigmoid(-v), which keeps its digits where s is close to 1.
    return s * sigmoid(-v) * (2 * slope + x * (bend + slope * slope * (1 - 2 * s)))


GELU_SECOND_DERIVATIVE_ZERO_BEYOND = 25
"""The absolute value of x beyond which the second derivative of gelu is 0 in every dtype."""
GELU_SLOPE = 2 * sqrt(2 / pi)
"""gelu is about ``x * sigmoid(GELU_SLOPE * (x + GELU_CUBIC * x**3))``."""
GELU_CUBIC = 0.044715
"""The coefficient of the cube in the approximation of gelu; see `GELU_SLOPE`."""
gradient(
    activation.gelu_gradient,
    dy=lambda dy, x: activation.gelu_gradient(dy, x),
    x=lambda dy, dy_input, x: dy * dy_input * _gelu_second_derivative(x),
)
gradient(
    activation.gelu_tanh_gradient,
    dy=lambda dy, x: activation.gelu_tanh_gradient(dy, x),
    x=lambda dy, dy_input, x: dy * dy_input * _gelu_tanh_second_derivative(x),
)
