"""Normalizations."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

import plugrad
from plugrad_onnx.operators.common import cast_like_input, number_like, reshape_to_channels
from plugrad_onnx.registry import operator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plugrad import Tensor


@operator("BatchNormalization", layout="images")
def legacy_batch_normalization(
    x: Tensor,
    scale: Tensor,
    offset: Tensor,
    mean: Tensor,
    variance: Tensor,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    spatial: int = 1,
    is_test: int = 0,
) -> Tensor:
    """Normalize channels with running statistics."""
    return _normalize(x, scale, offset, mean, variance, epsilon)


@operator("BatchNormalization", since=14, layout="images")
def batch_normalization(
    x: Tensor,
    scale: Tensor,
    offset: Tensor,
    mean: Tensor,
    variance: Tensor,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    training_mode: int = 0,
) -> Any:
    """Normalize channels with running statistics, or in training mode with those of the batch."""
    if not training_mode:
        return _normalize(x, scale, offset, mean, variance, epsilon)
    now, spread = plugrad.moments(x, axis=tuple(range(x.ndim - 1)))
    running = [
        plugrad.add(plugrad.multiply(old, number_like(momentum, old)), new * (1 - momentum))
        for old, new in ((mean, now), (variance, spread))
    ]
    return _normalize(x, scale, offset, now, spread, epsilon), *running


def _normalize(
    x: Tensor, scale: Tensor, offset: Tensor, mean: Tensor, variance: Tensor, epsilon: float
) -> Tensor:
    """Normalize channels, which are the last axis, with given statistics, computed in the widest dtype."""
    factor = plugrad.multiply(
        scale, plugrad.rsqrt(plugrad.add(variance, number_like(epsilon, variance)))
    )
    shift = plugrad.subtract(offset, plugrad.multiply(mean, factor))
    return cast_like_input(plugrad.add(plugrad.multiply(x, factor), shift), x)


@operator("InstanceNormalization")
def instance_normalization(
    x: Tensor, scale: Tensor, offset: Tensor, *, epsilon: float = 1e-5
) -> Tensor:
    """Normalize each channel of each image."""
    normal = _standardize(x, tuple(range(2, x.ndim)), epsilon)
    return normal * reshape_to_channels(scale, x.ndim) + reshape_to_channels(offset, x.ndim)


@operator("GroupNormalization", since=18)
def group_normalization_by_group(
    x: Tensor, scale: Tensor, offset: Tensor, *, num_groups: int, epsilon: float = 1e-5
) -> Tensor:
    """Normalize groups of channels, with one scale and offset per group."""
    count = x.shape[1] // num_groups
    scale, offset = (plugrad.repeat(v, count, axis=0) for v in (scale, offset))
    return group_normalization(x, scale, offset, num_groups=num_groups, epsilon=epsilon)


@operator("GroupNormalization", since=21)
def group_normalization(
    x: Tensor,
    scale: Tensor,
    offset: Tensor,
    *,
    num_groups: int,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> Tensor:
    """Normalize groups of channels, with one scale and offset per channel."""
    groups = plugrad.reshape(x, (x.shape[0], num_groups, -1))
    normal = plugrad.reshape(_standardize(groups, (2,), epsilon), x.shape)
    return normal * reshape_to_channels(scale, x.ndim) + reshape_to_channels(offset, x.ndim)


@operator("LayerNormalization")
def layer_normalization(
    x: Tensor,
    scale: Tensor,
    offset: Tensor | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
    output_count: int,
) -> Any:
    """Normalize over `axis` and all later axes; also return mean and reciprocal deviation if they are used."""
    if output_count == 1 and axis in (-1, x.ndim - 1) and scale.shape == x.shape[-1:]:
        zeros = offset if offset is not None else plugrad.zeros_like(scale)
        return plugrad.layer_norm(x, offset=zeros, scale=scale, variance_epsilon=epsilon)
    axes = tuple(range(axis % x.ndim, x.ndim))
    mean, variance = plugrad.moments(x, axis=axes, keepdims=True)
    inverse = plugrad.rsqrt(plugrad.add(variance, number_like(epsilon, variance)))
    normal = (x - mean) * inverse * scale
    normal = normal if offset is None else normal + offset
    return (normal, mean, inverse)[:output_count] if output_count > 1 else normal


@operator("RMSNormalization")
def rms_normalization(
    x: Tensor, scale: Tensor, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Tensor:
    """Divide by the root mean square over `axis` and all later axes."""
    axes = tuple(range(axis % x.ndim, x.ndim))
    square = plugrad.mean(plugrad.square(x), axis=axes, keepdims=True)
    return x * plugrad.rsqrt(plugrad.add(square, number_like(epsilon, square))) * scale


@operator("LpNormalization")
def lp_normalization(x: Tensor, *, axis: int = -1, p: int = 2) -> Tensor:
    """Divide by the norm along an axis; where the norm is 0, return 0."""
    if p == 1:
        norm = plugrad.sum(plugrad.abs(x), axis=axis, keepdims=True)
    else:
        norm = plugrad.sqrt(plugrad.sum(plugrad.square(x), axis=axis, keepdims=True))
    return plugrad.div_no_nan(x, norm)


@operator("MeanVarianceNormalization")
def mean_variance_normalization(x: Tensor, *, axes: Sequence[int] = (0, 2, 3)) -> Tensor:
    """Subtract the mean and divide by the standard deviation over axes."""
    mean, variance = plugrad.moments(x, axis=tuple(axes), keepdims=True)
    deviation = plugrad.sqrt(variance)
    return (x - mean) / plugrad.add(deviation, number_like(1e-9, deviation))


@operator("LRN")
def local_response_normalization(
    x: Tensor, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0
) -> Tensor:
    """Divide by a power of the mean square over neighbouring channels."""
    before = (size - 1) // 2
    sides = [[0, 0] for _ in x.shape]
    sides[1] = [before, size - 1 - before]
    square = plugrad.pad(plugrad.square(x), sides)
    parts = [square[:, first : first + x.shape[1]] for first in range(size)]
    total = plugrad.add(reduce(plugrad.add, parts) * (alpha / size), number_like(bias, x))
    return plugrad.divide(x, plugrad.pow(total, number_like(beta, x)))


def _standardize(x: Tensor, axes: tuple[int, ...], epsilon: float) -> Tensor:
    """Return x with the mean 0 and the variance 1 over axes."""
    mean, variance = plugrad.moments(x, axis=axes, keepdims=True)
    return (x - mean) * plugrad.rsqrt(plugrad.add(variance, number_like(epsilon, variance)))
