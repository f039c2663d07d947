"""Gradients of the normalizations."""

from plugrad.kernels import creation, movement, normalization
from plugrad.ops.binary import less_equal
from plugrad.ops.linalg import matmul
from plugrad.ops.reduction import sum
from plugrad.ops.unary import abs, exp, rsqrt
from plugrad.tape.rules import gradient
from plugrad.tensor.tensor import Tensor
from plugrad.types.dtype import int32

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
    """Return the gradient of x: dy divided by the deviation and multiplied with the scale."""
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
# With W the sum of neighbours, which is its own transpose, n = bias + alpha * W(x²) and y = x / n**beta,
# LRNGrad is  g = dy / n**beta - 2 alpha beta x W(dy y / n).


def _sum_of_neighbours(x: Tensor, radius: int) -> Tensor:
    """Return W(x): along the last axis, a product with a matrix that has ones around its diagonal."""
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
    """Return what a change of x means for g: directly, and through n."""
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
