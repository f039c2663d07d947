"""Normalizations. Both softmaxes subtract the largest element first, so that exp does not overflow."""

import numpy as np

from plugrad.kernels import normalization
from plugrad_cpu.declare import Array, table
from plugrad_cpu.kernels.reduction import total_of


@table.implements(normalization.softmax)
def softmax(logits: Array, *, dim: int) -> Array:
    """Return exp(x) / sum(exp(x))."""
    if logits.size == 0:
        return logits
    y = np.exp(logits - logits.max(axis=dim, keepdims=True))
    y /= total_of(y, (dim,), keep_dims=True)
    return y


@table.implements(normalization.log_softmax)
def log_softmax(logits: Array, *, axis: int) -> Array:
    """Return x - log(sum(exp(x)))."""
    if logits.size == 0:
        return logits
    shifted = logits - logits.max(axis=axis, keepdims=True)
    total = total_of(np.exp(shifted), (axis,), keep_dims=True)
    return shifted - np.log(total).astype(logits.dtype, copy=False)


@table.implements(normalization.batch_norm)
def batch_norm(
    x: Array,
    mean: Array,
    variance: Array,
    offset: Array | None,
    scale: Array | None,
    *,
    variance_epsilon: float,
) -> Array:
    """Return (x - mean) * factor + offset, where the factor has the shape of the variance."""
    factor = 1 / np.sqrt(variance + variance_epsilon)
    if scale is not None:
        factor = factor * scale
    y = (x - mean) * factor
    return y if offset is None else y + offset


@table.implements(normalization.local_response_normalization)
def local_response_normalization(
    x: Array, *, depth_radius: int, bias: float, alpha: float, beta: float
) -> Array:
    """Return x divided by a power of the sum of squares in its neighbourhood."""
    return x * (bias + alpha * _sum_of_neighbours(x * x, depth_radius)) ** -beta


@table.implements(normalization.local_response_normalization_gradient)
def local_response_normalization_gradient(
    x: Array,
    y: Array,
    dy: Array,
    *,
    depth_radius: int,
    bias: float,
    alpha: float,
    beta: float,
) -> Array:
    """Return the gradient for x, which acts directly and as a neighbour of other elements."""
    norm = bias + alpha * _sum_of_neighbours(x * x, depth_radius)
    through_norms = _sum_of_neighbours(dy * y / norm, depth_radius)
    return dy * norm**-beta - 2 * alpha * beta * x * through_norms


def _sum_of_neighbours(x: Array, radius: int) -> Array:
    """Return, for each element, the sum of the elements at most `radius` away along the last axis."""
    total = x.copy()
    for distance in range(1, min(radius + 1, x.shape[-1])):
        total[..., distance:] += x[..., :-distance]
        total[..., :-distance] += x[..., distance:]
    return total
