"""Normalizations along an axis and of batches."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from plugrad.extend import count_elements
from plugrad.kernels import normalization
from plugrad_cpu.extend import empty, numpy_implementation, track_allocation, tracked
from plugrad_native.declare import (
    FLOAT16,
    FLOAT32,
    FLOATS,
    LANES,
    MAX_ELEMENTS,
    UNTRACKED_MAX_ELEMENTS,
    as_contiguous,
    broadcast_descriptor,
    exports,
    parallel_for,
    parallel_walk,
    table,
)
from plugrad_native.kernels.scan import sizes_around_axis
from plugrad_native.kernels.unary import to_float16, to_float32

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from plugrad.extend import Kernel, Shape
    from plugrad_native.declare import Array, Export

EXP_COST_IN_ADDITIONS = 4
"""The cost of an exponential, in additions."""


def along_axis(kernel: Kernel[..., Any], name: str, axis_name: str) -> Callable[..., Array]:
    """Return an implementation with functions for rows, which are contiguous, and for columns of float32."""
    rows, columns = exports(name, *FLOATS), exports(f"{name}_columns", "float32")
    numpy_function = numpy_implementation(kernel)

    def along(x: Array, axis: int) -> Array:
        outer, length, inner = sizes_around_axis(x.shape, axis)
        if inner != 1 and (x.dtype != FLOAT32 or inner < LANES):
            moved = along(np.moveaxis(x, axis, -1), x.ndim - 1)
            return as_contiguous(np.moveaxis(moved, -1, axis))
        out = empty(x.shape, x.dtype)
        if inner == 1 and x.size < UNTRACKED_MAX_ELEMENTS:
            rows[x.dtype](as_contiguous(x), out, outer, length)
            return out
        places = (as_contiguous(x), length * inner), (out, length * inner)
        if inner == 1:
            parallel_for(rows[x.dtype], places, outer, length, work=EXP_COST_IN_ADDITIONS * x.size)
        else:
            parallel_for(
                columns[x.dtype], places, outer, length, inner, work=EXP_COST_IN_ADDITIONS * x.size
            )
        return out

    def implementation(x: Array, axis: int) -> Array:
        if x.dtype in rows and 0 < x.size < MAX_ELEMENTS:
            return along(x, axis)
        if x.dtype == FLOAT16:
            return to_float16(implementation(to_float32(x), axis))
        return track_allocation(numpy_function(x, **{axis_name: axis}))

    return implementation


softmax_along: Final = along_axis(normalization.softmax, "softmax", "dim")
log_softmax_along: Final = along_axis(normalization.log_softmax, "log_softmax", "axis")


@table.implements(normalization.softmax)
@tracked
def softmax(logits: Array, *, dim: int) -> Array:
    """Return ``exp(x) / sum(exp(x))`` along an axis."""
    return softmax_along(logits, dim)


@table.implements(normalization.log_softmax)
@tracked
def log_softmax(logits: Array, *, axis: int) -> Array:
    """Return ``x - log(sum(exp(x)))`` along an axis."""
    return log_softmax_along(logits, axis)


BATCH_NORM = exports("batch_norm", *FLOATS)

numpy_batch_norm: Final = numpy_implementation(normalization.batch_norm)


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
    if x.dtype not in BATCH_NORM or not 0 < x.size < MAX_ELEMENTS:
        return numpy_batch_norm(x, mean, variance, offset, scale, variance_epsilon=variance_epsilon)
    factor = 1 / np.sqrt(variance + variance_epsilon)
    if scale is not None:
        factor = factor * scale
    shift = np.zeros((), x.dtype) if offset is None else offset
    parts = [as_contiguous(np.asarray(part, x.dtype)) for part in (mean, factor, shift)]
    out = empty(x.shape, x.dtype)
    descriptor = broadcast_descriptor(x.shape, *(part.shape for part in parts))
    places = (as_contiguous(x), 0), *zip(parts, (1, 2, 3), strict=True), (out, 0)
    parallel_walk(BATCH_NORM[x.dtype], places, descriptor, work=2 * x.size)
    return out


LAYER_NORM = exports("layer_norm", *FLOATS)
LAYER_NORM_GRADIENT = exports("layer_norm_gradient", *FLOATS)
LAYER_NORM_SUMS = exports("layer_norm_sums", *FLOATS)
BATCH_NORM_TRAINING = exports("batch_norm_training", *FLOATS)
BATCH_NORM_GRADIENT = exports("batch_norm_gradient", *FLOATS)

numpy_layer_norm: Final = numpy_implementation(normalization.layer_norm)
numpy_layer_norm_gradient: Final = numpy_implementation(normalization.layer_norm_gradient)
numpy_batch_norm_training: Final = numpy_implementation(normalization.batch_norm_training)
numpy_batch_norm_gradient: Final = numpy_implementation(normalization.batch_norm_gradient)


def as_offset_or_scale(x: Array, part: Array | None, shape: Shape, value: float) -> Array:
    """Return an offset or a scale as a dense array in the dtype of x; an absent one is filled with `value`."""
    if part is None:
        return constant_array(shape, value, x.dtype)
    return as_contiguous(part if part.dtype is x.dtype else np.asarray(part, x.dtype))


@lru_cache(maxsize=64)
def constant_array(shape: Shape, value: float, dtype: np.dtype[Any]) -> Array:
    """Return an array filled with one value, from a cache; it must not be written to."""
    return np.full(shape, value, dtype)


@table.implements(normalization.layer_norm)
def layer_norm(
    x: Array, offset: Array | None, scale: Array | None, *, axis: int, variance_epsilon: float
) -> Array:
    """Return the standardized rows, times the scale, plus the offset."""
    if x.dtype not in LAYER_NORM or not 0 < x.size < MAX_ELEMENTS:
        return numpy_layer_norm(x, offset, scale, axis=axis, variance_epsilon=variance_epsilon)
    row = x.shape[axis:]
    length = count_elements(row)
    out = empty(x.shape, x.dtype)
    parts = as_offset_or_scale(x, offset, row, 0), as_offset_or_scale(x, scale, row, 1)
    if x.size < UNTRACKED_MAX_ELEMENTS:
        count = x.size // length
        LAYER_NORM[x.dtype](as_contiguous(x), *parts, out, count, length, variance_epsilon)
        return out
    places = (as_contiguous(x), length), (parts[0], 0), (parts[1], 0), (out, length)
    run = LAYER_NORM[x.dtype]
    parallel_for(run, places, x.size // length, length, variance_epsilon, work=3 * x.size)
    return out


@table.implements(normalization.layer_norm_gradient)
def layer_norm_gradient(
    dy: Array, x: Array, scale: Array | None, *, axis: int, variance_epsilon: float
) -> list[Array]:
    """Return the gradients for x, row by row, and for the offset and the scale, column by column."""
    if x.dtype not in LAYER_NORM or not 0 < x.size < MAX_ELEMENTS:
        return numpy_layer_norm_gradient(dy, x, scale, axis=axis, variance_epsilon=variance_epsilon)
    row = x.shape[axis:]
    length = count_elements(row)
    count = x.size // length
    dy, x, factors = as_contiguous(dy), as_contiguous(x), as_offset_or_scale(x, scale, row, 1)
    dx, moments = empty(x.shape, x.dtype), empty((count, 2), x.dtype)
    places = (dy, length), (x, length), (factors, 0), (dx, length), (moments, 2)
    run = LAYER_NORM_GRADIENT[x.dtype]
    parallel_for(run, places, count, length, variance_epsilon, work=5 * x.size)
    sums = [empty(row, x.dtype) for _ in range(2)]
    columns = (dy, 1), (x, 1), (sums[0], 1), (sums[1], 1)
    parallel_for(
        LAYER_NORM_SUMS[x.dtype],
        columns,
        length,
        *(count, length, moments),
        work=2 * x.size,
        multiple=LINE_FLOATS,
    )
    return [dx, *sums]


def channel_layout(x: Array, axis: int) -> tuple[int, int, int, int]:
    """Return the number of channels and, as C takes them, how x is divided: (outer, channels, inner)."""
    channels, inner = x.shape[axis], count_elements(x.shape[axis + 1 :])
    return channels, x.size // (channels * inner), channels * inner, inner


LINE_FLOATS: Final = 16
"""The elements of float32 in a line of the cache, which threads should not share."""


def run_channels(
    run: Export, arrays: Sequence[Array], sizes: tuple[int, int, int, int], epsilon: float
) -> None:
    """Call a function for channels, which several threads share: those of images, and one number for each."""
    channels, outer, _, inner = sizes
    work = 3 * channels * outer * inner
    places = [(x, inner if x.ndim > 1 else 1) for x in arrays]
    multiple = LINE_FLOATS if inner == 1 else 1
    parallel_for(run, places, channels, *sizes[1:], epsilon, work=work, multiple=multiple)


@table.implements(normalization.batch_norm_training)
def batch_norm_training(
    x: Array, offset: Array | None, scale: Array | None, *, axis: int, variance_epsilon: float
) -> list[Array]:
    """Return the standardized channels, times the scale, plus the offset; and the means and the variances."""
    if x.dtype not in BATCH_NORM_TRAINING or not 0 < x.size < MAX_ELEMENTS:
        return numpy_batch_norm_training(
            x, offset, scale, axis=axis, variance_epsilon=variance_epsilon
        )
    sizes = channel_layout(x, axis)
    channels = sizes[:1]
    out, mean, variance = empty(x.shape, x.dtype), *(empty(channels, x.dtype) for _ in range(2))
    parts = as_offset_or_scale(x, offset, channels, 0), as_offset_or_scale(x, scale, channels, 1)
    arrays = as_contiguous(x), *parts, out, mean, variance
    run_channels(BATCH_NORM_TRAINING[x.dtype], arrays, sizes, variance_epsilon)
    return [out, mean, variance]


@table.implements(normalization.batch_norm_gradient)
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
    """Return the gradients for x, for the offset and for the scale, channel by channel."""
    if x.dtype not in BATCH_NORM_GRADIENT or not 0 < x.size < MAX_ELEMENTS:
        return numpy_batch_norm_gradient(
            dy, x, mean, variance, scale, axis=axis, variance_epsilon=variance_epsilon
        )
    sizes = channel_layout(x, axis)
    channels = sizes[:1]
    dx, *sums = empty(x.shape, x.dtype), *(empty(channels, x.dtype) for _ in range(2))
    parts = as_contiguous(mean), as_contiguous(variance), as_offset_or_scale(x, scale, channels, 1)
    arrays = as_contiguous(dy), as_contiguous(x), *parts, dx, *sums
    run_channels(BATCH_NORM_GRADIENT[x.dtype], arrays, sizes, variance_epsilon)
    return [dx, *sums]
