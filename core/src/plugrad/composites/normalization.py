"""Normalizations that other kernels compute."""

from plugrad.engine.composites import composite
from plugrad.kernels import normalization, reduction, unary
from plugrad.tensor.tensor import Tensor


@composite(normalization.batch_norm)
def batch_norm(
    x: Tensor,
    mean: Tensor,
    variance: Tensor,
    offset: Tensor | None = None,
    scale: Tensor | None = None,
    *,
    variance_epsilon: float,
) -> Tensor:
    """Return ``(x - mean) * factor + offset``, where the factor has the shape of the variance."""
    factor = 1 / unary.sqrt(variance + variance_epsilon)
    y = (x - mean) * (factor if scale is None else factor * scale)
    return y if offset is None else y + offset


@composite(normalization.layer_norm)
def layer_norm(
    x: Tensor,
    offset: Tensor | None = None,
    scale: Tensor | None = None,
    *,
    axis: int,
    variance_epsilon: float,
) -> Tensor:
    """Return the standardized rows, times the scale, plus the offset."""
    axes = tuple(range(axis, x.ndim))
    y = x - reduction.mean(x, axis=axes, keep_dims=True)
    variance = reduction.mean(y * y, axis=axes, keep_dims=True)
    y = y / unary.sqrt(variance + variance_epsilon)
    y = y if scale is None else y * scale
    return y if offset is None else y + offset
