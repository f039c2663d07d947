"""Gradients of the activation functions; at a kink, the gradient from the left."""

from plugrad.kernels import activation
from plugrad.ops.activation import sigmoid
from plugrad.ops.binary import greater, less, where
from plugrad.ops.unary import step
from plugrad.tape.rules import gradient

# Some derivatives follow from the result `out` alone: relu(x) is positive where x is, and the derivative
# of the sigmoid is out * (1 - out).
gradient(activation.relu, x=lambda dy, out: dy * step(out))
gradient(activation.relu6, x=lambda dy, x: dy * step(x) * step(6 - x))
gradient(activation.leaky_relu, x=lambda dy, x, alpha: dy * step(x, alpha))
gradient(activation.elu, x=lambda dy, out: activation.elu_gradient(dy, out))
gradient(activation.sigmoid, x=lambda dy, out: dy * out * (1 - out))
gradient(activation.softplus, x=lambda dy, x: dy * sigmoid(x))

SELU_SCALE = 1.0507009873554805
SELU_ALPHA = 1.6732632423543772
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
# dy * (y + 1) where y < 0, else dy
gradient(
    activation.elu_gradient,
    dy=lambda dy, y: activation.elu_gradient(dy, y),
    y=lambda dy, dy_input, y: where(less(y, 0), dy * dy_input, 0),
)
