"""Normalizations. FusedBatchNorm and LayerNorm are composites: plugrad composes them of other kernels."""

import torch

from plugrad.kernels import normalization
from plugrad_torch.declare import Array, implements, update

update(
    {
        normalization.softmax: lambda logits, *, dim: torch.softmax(logits, dim),
        normalization.log_softmax: lambda logits, *, axis: torch.log_softmax(logits, axis),
    }
)


@implements(normalization.layer_norm_gradient)
def layer_norm_gradient(
    dy: Array, x: Array, scale: Array | None, *, axis: int, variance_epsilon: float
) -> list[Array]:
    """Return the gradients for x, for the offset and for the scale."""
    row, lead = tuple(range(axis, x.ndim)), tuple(range(axis))
    h, inverse = _standardize(x, row, variance_epsilon)
    g = dy if scale is None else dy * scale
    dx = inverse * (g - _mean(g, row) - h * _mean(g * h, row))
    return [dx, *(_total(part, lead) for part in (dy, dy * h))]


@implements(normalization.batch_norm_training)
def batch_norm_training(
    x: Array, offset: Array | None, scale: Array | None, *, axis: int, variance_epsilon: float
) -> list[Array]:
    """Return the standardized channels, times the scale, plus the offset; and the means and the variances."""
    others = tuple(i for i in range(x.ndim) if i != axis)
    mean = _mean(x, others)
    variance = _mean(torch.square(x - mean), others)
    y = (x - mean) / torch.sqrt(variance + variance_epsilon)
    y = y if scale is None else y * _broadcast_channels(scale, x, axis)
    y = y if offset is None else y + _broadcast_channels(offset, x, axis)
    return [y, mean.reshape(-1), variance.reshape(-1)]


@implements(normalization.batch_norm_gradient)
def batch_norm_gradient(
    dy: Array,
    x: Array,
    mean: Array,
    variance: Array,
    scale: Array | None,
    *,
    axis: int,
    variance_epsilon: float,
) -> list[Array]:
    """Return the gradients for x, for the offset and for the scale."""
    others = tuple(i for i in range(x.ndim) if i != axis)
    inverse = 1 / torch.sqrt(_broadcast_channels(variance, x, axis) + variance_epsilon)
    h = (x - _broadcast_channels(mean, x, axis)) * inverse
    dx = inverse * (dy - _mean(dy, others) - h * _mean(dy * h, others))
    dx = dx if scale is None else dx * _broadcast_channels(scale, x, axis)
    return [dx, *(_total(part, others) for part in (dy, dy * h))]


def _mean(x: Array, axes: tuple[int, ...]) -> Array:
    """Return the means over axes, which stay with size 1."""
    return x.mean(axes, keepdim=True) if axes else x


def _total(x: Array, axes: tuple[int, ...]) -> Array:
    """Return the sums over axes, which are dropped."""
    return x.sum(axes) if axes else x


def _broadcast_channels(channels: Array, image: Array, axis: int) -> Array:
    """Return a vector of channels in the shape in which it broadcasts."""
    return channels.reshape(-1, *[1] * (image.ndim - 1 - axis))


def _standardize(x: Array, axes: tuple[int, ...], epsilon: float) -> tuple[Array, Array]:
    """Return x with mean 0 and variance 1 over axes, and the factor: 1 / its standard deviation."""
    h = x - _mean(x, axes)
    inverse = 1 / torch.sqrt(_mean(h * h, axes) + epsilon)
    return h * inverse, inverse


def _sum_neighbours(x: Array, radius: int) -> Array:
    """Return, for each element, the sum of the elements at most `radius` away along the last axis."""
    total = x.clone()
    for distance in range(1, min(radius + 1, x.shape[-1])):
        total[..., distance:] += x[..., :-distance]
        total[..., :-distance] += x[..., distance:]
    return total


@implements(normalization.local_response_normalization)
def local_response_normalization(
    x: Array, *, depth_radius: int, bias: float, alpha: float, beta: float
) -> Array:
    """Return x divided by a power of the sum of squares in its neighbourhood."""
    return x * (bias + alpha * _sum_neighbours(x * x, depth_radius)) ** -beta


@implements(normalization.local_response_normalization_gradient)
def local_response_normalization_gradient(
    x: Array, y: Array, dy: Array, *, depth_radius: int, bias: float, alpha: float, beta: float
) -> Array:
    """Return the gradient for x, which acts directly and as a neighbour of other elements."""
    norm = bias + alpha * _sum_neighbours(x * x, depth_radius)
    through_norms = _sum_neighbours(dy * y / norm, depth_radius)
    return dy * norm**-beta - 2 * alpha * beta * x * through_norms
