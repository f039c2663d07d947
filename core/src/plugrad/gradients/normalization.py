"""Gradients of the normalization kernels."""

from plugrad.kernels import creation, movement, normalization
from plugrad.ops.binary import less_equal
from plugrad.ops.linalg import matmul
from plugrad.ops.reduction import sum
from plugrad.ops.unary import abs, exp, rsqrt
from plugrad.tape.rules import gradient
from plugrad.tensor.tensor import Tensor
from plugrad.types.dtype import int32

# With s = softmax(x), ∂s_i/∂x_j = s_i (δ_ij - s_j); for its logarithm, δ_ij - s_j.
gradient(
    normalization.softmax,
    logits=lambda dy, out, dim: out * (dy - sum(dy * out, axis=dim, keepdims=True)),
)
gradient(
    normalization.log_softmax,
    logits=lambda dy, out, axis: dy - exp(out) * sum(dy, axis=axis, keepdims=True),
)


# --- batch_norm: the tape sums each gradient to its input's shape ---------------------------------


def _scaled(dy: Tensor, variance: Tensor, scale: Tensor | None, variance_epsilon: float) -> Tensor:
    """Return the gradient for x: dy divided by the standard deviation and multiplied by the scale."""
    dx = dy * rsqrt(variance + variance_epsilon)
    return dx if scale is None else dx * scale


def _through_variance(
    dy: Tensor,
    x: Tensor,
    mean: Tensor,
    variance: Tensor,
    scale: Tensor | None,
    variance_epsilon: float,
) -> Tensor:
    """Return the gradient for the variance v: ``(v + ε)**-0.5`` has the derivative ``-0.5 * (v + ε)**-1.5``."""
    dx = _scaled(dy, variance, scale, variance_epsilon)
    return dx * (mean - x) / (2 * (variance + variance_epsilon))


gradient(
    normalization.batch_norm,
    x=_scaled,
    mean=lambda dy, variance, scale, variance_epsilon: (
        -_scaled(dy, variance, scale, variance_epsilon)
    ),
    variance=_through_variance,
    offset=lambda dy: dy,
    scale=lambda dy, x, mean, variance, variance_epsilon: (
        dy * (x - mean) * rsqrt(variance + variance_epsilon)
    ),
)


# --- local_response_normalization -----------------------------------------------------------------
#
# Let W be the sum over neighbours, whose matrix is symmetric, n = bias + alpha * W(x²), and
# y = x / n**beta. Then LRNGrad is  g = dy / n**beta - 2 alpha beta x W(dy y / n).  Its gradients follow
# from the product rule, with W as its own transpose.


def _sum_of_neighbours(x: Tensor, radius: int) -> Tensor:
    """Return W(x): along the last axis, the product with a matrix that has ones in a band around its diagonal."""
    channels = x.shape[-1]
    positions = creation.range.on(x.backend, start=0, stop=channels, step=1, dtype=int32)
    distances = abs(movement.reshape(positions, shape=(channels, 1)) - positions)
    band = less_equal(distances, radius).astype(x.dtype)
    rows = movement.reshape(x, shape=(x.size // max(channels, 1), channels))
    return movement.reshape(matmul(rows, band), shape=x.shape)


def _norm(x: Tensor, depth_radius: int, bias: float, alpha: float) -> Tensor:
    return bias + alpha * _sum_of_neighbours(x * x, depth_radius)


def _gradient_for_x(
    dy: Tensor,
    x: Tensor,
    y: Tensor,
    dy_input: Tensor,
    depth_radius: int,
    bias: float,
    alpha: float,
    beta: float,
) -> Tensor:
    """Return the gradient of g for x, which occurs in g directly and in n."""
    norm = _norm(x, depth_radius, bias, alpha)
    share = dy_input * y / norm
    direct = -2 * alpha * beta * dy * _sum_of_neighbours(share, depth_radius)
    through_norm = 2 * alpha * beta * share / norm * _sum_of_neighbours(
        dy * x, depth_radius
    ) - beta * dy * dy_input * norm ** (-beta - 1)
    return direct + 2 * alpha * x * _sum_of_neighbours(through_norm, depth_radius)


def _gradient_for_y(
    dy: Tensor,
    x: Tensor,
    dy_input: Tensor,
    depth_radius: int,
    bias: float,
    alpha: float,
    beta: float,
) -> Tensor:
    norm = _norm(x, depth_radius, bias, alpha)
    return -2 * alpha * beta * dy_input / norm * _sum_of_neighbours(dy * x, depth_radius)


def _gradient_for_dy(
    dy: Tensor, x: Tensor, y: Tensor, depth_radius: int, bias: float, alpha: float, beta: float
) -> Tensor:
    norm = _norm(x, depth_radius, bias, alpha)
    neighbours = _sum_of_neighbours(dy * x, depth_radius)
    return dy * norm**-beta - 2 * alpha * beta * y / norm * neighbours


gradient(
    normalization.local_response_normalization,
    x=lambda dy, x, out, attrs: normalization.local_response_normalization_gradient(
        x, out, dy, **attrs
    ),
)
gradient(
    normalization.local_response_normalization_gradient,
    x=_gradient_for_x,
    y=_gradient_for_y,
    dy=_gradient_for_dy,
)
