"""Gradients of the normalization kernels."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from plugrad.kernels import creation, movement, normalization
from plugrad.ops.binary import less_equal
from plugrad.ops.linalg import matmul
from plugrad.ops.reduction import mean, sum
from plugrad.ops.unary import abs, exp, rsqrt
from plugrad.tape.rules import GradientConfig, gradient, register_gradient
from plugrad.tensor.tensor import Tensor
from plugrad.types.dtype import int32
from plugrad.types.shapes import count_elements

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


def _batch_norm_x_vjp(
    dy: Tensor, variance: Tensor, scale: Tensor | None, variance_epsilon: float
) -> Tensor:
    """Return the gradient for x: dy divided by the standard deviation and multiplied by the scale."""
    dx = dy * rsqrt(variance + variance_epsilon)
    return dx if scale is None else dx * scale


def _batch_norm_variance_vjp(
    dy: Tensor,
    x: Tensor,
    mean: Tensor,
    variance: Tensor,
    scale: Tensor | None,
    variance_epsilon: float,
) -> Tensor:
    """Return the gradient for the variance v: ``(v + ε)**-0.5`` has the derivative ``-0.5 * (v + ε)**-1.5``."""
    dx = _batch_norm_x_vjp(dy, variance, scale, variance_epsilon)
    return dx * (mean - x) / (2 * (variance + variance_epsilon))


gradient(
    normalization.batch_norm,
    x=_batch_norm_x_vjp,
    mean=lambda dy, variance, scale, variance_epsilon: (
        -_batch_norm_x_vjp(dy, variance, scale, variance_epsilon)
    ),
    variance=_batch_norm_variance_vjp,
    offset=lambda dy: dy,
    scale=lambda dy, x, mean, variance, variance_epsilon: (
        dy * (x - mean) * rsqrt(variance + variance_epsilon)
    ),
)


# --- layer_norm -----------------------------------------------------------------------------------
#
# Along a row of n elements, let h = (x - M(x)) s with s = (M((x - M(x))²) + ε)**-0.5, where M is the mean. Its
# derivative is the symmetric matrix J = s (1 - 11ᵀ/n - hhᵀ/n), and the gradients are J g with g = dy scale,
# and the sums over the rows of dy and of dy h. The gradient of u·(J g) for x is
# -s² h (M(ug) - M(u) M(g) - M(uh) M(gh)) - s (M(gh) J u + M(uh) J g).

GradientThunks = dict[str, Callable[[], Tensor]]
"""By input, the function that computes its gradient when it is called."""
Attrs = Mapping[str, Any]
"""The attributes of a call by name."""


def _layer_norm_thunks(dy: Tensor, saved: list[Any], attrs: Attrs) -> GradientThunks:
    """Return functions that compute the gradients of `layer_norm` for each input, when they are called."""
    x, scale = saved
    found = cache(lambda: normalization.layer_norm_gradient(dy, x, scale, **attrs))
    return {"x": lambda: found()[0], "offset": lambda: found()[1], "scale": lambda: found()[2]}


def _multiply_by_scale(x: Tensor, scale: Tensor | None) -> Tensor:
    """Return x times the scale, or x if there is no scale."""
    return x if scale is None else x * scale


def _layer_norm_gradient_thunks(dys: Any, saved: list[Any], attrs: Attrs) -> GradientThunks:
    """Return functions for the second derivatives of `layer_norm`, given the gradients of its three gradients."""
    u, v, w = dys
    dy, x, scale = saved
    axis, epsilon = attrs["axis"], attrs["variance_epsilon"]
    axes = tuple(range(axis, x.ndim))

    def average(x: Tensor) -> Tensor:
        return mean(x, axis=axes, keepdims=True)

    def project(g: Tensor) -> Tensor:
        """Return J g, where J is the Jacobian of the standardized rows; it is symmetric."""
        return normalization.layer_norm_gradient(g, x, **attrs)[0]

    h = cache(lambda: normalization.layer_norm(x, **attrs))

    def dy_gradient() -> Tensor:
        return _multiply_by_scale(project(u), scale) + v + w * h()

    def x_gradient() -> Tensor:
        g, through_scale = _multiply_by_scale(dy, scale), project(w * dy)
        centred = x - average(x)
        s = rsqrt(average(centred * centred) + epsilon)
        along_u, along_g = average(u * h()), average(g * h())
        curved = average(u * g) - average(u) * average(g) - along_u * along_g
        return through_scale - s * (s * h() * curved + along_g * project(u) + along_u * project(g))

    return {"dy": dy_gradient, "x": x_gradient, "scale": lambda: dy * project(u)}


register_gradient(GradientConfig(normalization.layer_norm.name, _layer_norm_thunks, ("x", "scale")))
register_gradient(
    GradientConfig(
        normalization.layer_norm_gradient.name, _layer_norm_gradient_thunks, ("dy", "x", "scale")
    )
)


# --- batch_norm_training --------------------------------------------------------------------------
#
# For a channel of n elements let h = (x - mean) s with s = (variance + ε)**-0.5, and M the mean over it.
# The gradients are  f = a (dy - M(dy) - h M(dy h))  with a = scale s, and the sums of dy and of dy h, where
# mean and variance are inputs of their own. So  u·f = n a (M(u dy) - M(u) M(dy) - M(u h) M(dy h)),  whose
# derivative for h is  -a (u M(dy h) + dy M(u h));  h depends on x, on the mean and, like a, on s.


class _ChannelAxis:
    """The channel axis of x: sums and averages per channel, and vectors reshaped to broadcast with x."""

    def __init__(self, x: Tensor, axis: int) -> None:
        self.axes = tuple(i for i in range(x.ndim) if i != axis)
        self.shape = tuple(n if i == axis else 1 for i, n in enumerate(x.shape))
        self.size = count_elements(x.shape) // max(x.shape[axis], 1)

    def sum_per_channel(self, x: Tensor) -> Tensor:
        return sum(x, axis=self.axes)

    def average_per_channel(self, x: Tensor) -> Tensor:
        return mean(x, axis=self.axes)

    def broadcast_to_x(self, vector: Tensor) -> Tensor:
        return movement.reshape(vector, shape=self.shape)


def _batch_norm_thunks(dys: Any, saved: list[Any], attrs: Attrs) -> GradientThunks:
    """Return functions for the gradients of x, offset and scale, given the gradients of the three results."""
    x, scale, means, variances = saved

    found = cache(
        lambda: normalization.batch_norm_gradient(dys[0], x, means, variances, scale, **attrs)
    )

    def x_gradient() -> Tensor:
        if {1, 2} <= dys.absent:
            return found()[0]
        channels = _ChannelAxis(x, attrs["axis"])
        spread = 2 * channels.broadcast_to_x(dys[2]) * (x - channels.broadcast_to_x(means))
        through = (channels.broadcast_to_x(dys[1]) + spread) / channels.size
        return through if 0 in dys.absent else found()[0] + through

    return {"x": x_gradient, "offset": lambda: found()[1], "scale": lambda: found()[2]}


def _batch_norm_gradient_thunks(dys: Any, saved: list[Any], attrs: Attrs) -> GradientThunks:
    """Return functions for the second derivatives of `batch_norm_training`, given the gradients of its gradients."""
    u, v, w = dys
    dy, x, means, variances, scale = saved
    channels = _ChannelAxis(x, attrs["axis"])
    beside, average = channels.broadcast_to_x, channels.average_per_channel
    inverse = rsqrt(variances + attrs["variance_epsilon"])
    factor = _multiply_by_scale(inverse, scale)
    h = (x - beside(means)) * beside(inverse)
    along_u, along_dy = average(u * h), average(dy * h)

    def gradient_of_x(scale: Tensor | None) -> Tensor:
        return normalization.batch_norm_gradient(u, x, means, variances, scale, **attrs)[0]

    def x_gradient() -> Tensor:
        through_h = u * beside(factor * along_dy) + dy * beside(factor * along_u)
        return beside(inverse) * (beside(w) * dy - through_h)

    def variance_gradient() -> Tensor:
        terms = average(u * dy) - average(u) * average(dy) - 3 * along_u * along_dy
        return -0.5 * channels.size * inverse * inverse * (factor * terms + w * along_dy)

    return {
        "dy": lambda: gradient_of_x(scale) + beside(v) + beside(w) * h,
        "x": x_gradient,
        "mean": lambda: -channels.sum_per_channel(x_gradient()),
        "variance": variance_gradient,
        "scale": lambda: channels.sum_per_channel(dy * gradient_of_x(None)),
    }


register_gradient(
    GradientConfig(
        normalization.batch_norm_training.name,
        _batch_norm_thunks,
        ("x", "scale"),
        (False, True, True),
    )
)
register_gradient(
    GradientConfig(
        normalization.batch_norm_gradient.name,
        _batch_norm_gradient_thunks,
        normalization.batch_norm_gradient.inputs,
    )
)


# --- local_response_normalization -----------------------------------------------------------------
#
# Let W be the sum over neighbours, whose matrix is symmetric, n = bias + alpha * W(x²), and
# y = x / n**beta. Then LRNGrad is  g = dy / n**beta - 2 alpha beta x W(dy y / n).  Its gradients follow
# from the product rule, with W as its own transpose.


def _sum_neighbours(x: Tensor, radius: int) -> Tensor:
    """Return for each element of the last axis the sum over all elements within a radius."""
    channels = x.shape[-1]
    positions = creation.range.on(x.backend, start=0, stop=channels, step=1, dtype=int32)
    distances = abs(movement.reshape(positions, shape=(channels, 1)) - positions)
    band = less_equal(distances, radius).astype(x.dtype)
    rows = movement.reshape(x, shape=(x.size // max(channels, 1), channels))
    return movement.reshape(matmul(rows, band), shape=x.shape)


def _local_response_normalizer(x: Tensor, depth_radius: int, bias: float, alpha: float) -> Tensor:
    """Return the divisor of local response normalization, before it is raised to the power beta."""
    return bias + alpha * _sum_neighbours(x * x, depth_radius)


def _lrn_gradient_x(
    dy: Tensor,
    x: Tensor,
    y: Tensor,
    dy_input: Tensor,
    depth_radius: int,
    bias: float,
    alpha: float,
    beta: float,
) -> Tensor:
    """Return the gradient for x of the kernel `local_response_normalization_gradient`, whose input dy is `dy_input`."""
    norm = _local_response_normalizer(x, depth_radius, bias, alpha)
    share = dy_input * y / norm
    direct = -2 * alpha * beta * dy * _sum_neighbours(share, depth_radius)
    through_norm = 2 * alpha * beta * share / norm * _sum_neighbours(
        dy * x, depth_radius
    ) - beta * dy * dy_input * norm ** (-beta - 1)
    return direct + 2 * alpha * x * _sum_neighbours(through_norm, depth_radius)


def _lrn_gradient_y(
    dy: Tensor,
    x: Tensor,
    dy_input: Tensor,
    depth_radius: int,
    bias: float,
    alpha: float,
    beta: float,
) -> Tensor:
    """Return the gradient for y of the kernel `local_response_normalization_gradient`, whose input dy is `dy_input`."""
    norm = _local_response_normalizer(x, depth_radius, bias, alpha)
    return -2 * alpha * beta * dy_input / norm * _sum_neighbours(dy * x, depth_radius)


def _lrn_gradient_dy(
    dy: Tensor, x: Tensor, y: Tensor, depth_radius: int, bias: float, alpha: float, beta: float
) -> Tensor:
    """Return the gradient for dy of the kernel `local_response_normalization_gradient`, which is linear in dy."""
    norm = _local_response_normalizer(x, depth_radius, bias, alpha)
    neighbours = _sum_neighbours(dy * x, depth_radius)
    return dy * norm**-beta - 2 * alpha * beta * y / norm * neighbours


gradient(
    normalization.local_response_normalization,
    x=lambda dy, x, out, attrs: normalization.local_response_normalization_gradient(
        x, out, dy, **attrs
    ),
)
gradient(
    normalization.local_response_normalization_gradient,
    x=_lrn_gradient_x,
    y=_lrn_gradient_y,
    dy=_lrn_gradient_dy,
)
