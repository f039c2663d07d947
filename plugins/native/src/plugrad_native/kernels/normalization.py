"""Normalizations along an axis and of batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from plugrad.extend import size_of
from plugrad.kernels import normalization
from plugrad_native.declare import (
    FLOAT32,
    FLOATS,
    LANES,
    LIMIT,
    dense,
    exports,
    in_numpy,
    table,
    walk,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad.extend import Kernel
    from plugrad_native.declare import Array


def along_axis(kernel: Kernel[..., Any], name: str, axis_name: str) -> Callable[..., Array]:
    """Return an implementation with functions for rows, which are contiguous, and for columns of float32."""
    rows, columns = exports(name, *FLOATS), exports(f"{name}_columns", "float32")
    numpy_function = in_numpy(kernel)

    def along(x: Array, axis: int) -> Array:
        length, inner = x.shape[axis], size_of(x.shape[axis + 1 :])
        if inner != 1 and (x.dtype != FLOAT32 or inner < LANES):
            moved = along(np.moveaxis(x, axis, -1), x.ndim - 1)
            return np.ascontiguousarray(np.moveaxis(moved, -1, axis))
        out = np.empty(x.shape, x.dtype)
        outer = x.size // (length * inner)
        if inner == 1:
            rows[x.dtype](dense(x), out, outer, length)
        else:
            columns[x.dtype](dense(x), out, outer, length, inner)
        return out

    def implementation(x: Array, axis: int) -> Array:
        if x.dtype not in rows or not 0 < x.size < LIMIT:
            return numpy_function(x, **{axis_name: axis})
        return along(x, axis % x.ndim)

    return implementation


softmax_along = along_axis(normalization.softmax, "softmax", "dim")
log_softmax_along = along_axis(normalization.log_softmax, "log_softmax", "axis")


@table.implements(normalization.softmax)
def softmax(logits: Array, *, dim: int) -> Array:
    """Return ``exp(x) / sum(exp(x))`` along an axis."""
    return softmax_along(logits, dim)


@table.implements(normalization.log_softmax)
def log_softmax(logits: Array, *, axis: int) -> Array:
    """Return ``x - log(sum(exp(x)))`` along an axis."""
    return log_softmax_along(logits, axis)


BATCH_NORM = exports("batch_norm", *FLOATS)

numpy_batch_norm = in_numpy(normalization.batch_norm)


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
    if x.dtype not in BATCH_NORM or not 0 < x.size < LIMIT:
        return numpy_batch_norm(x, mean, variance, offset, scale, variance_epsilon=variance_epsilon)
    factor = 1 / np.sqrt(variance + variance_epsilon)
    if scale is not None:
        factor = factor * scale
    shift = np.zeros((), x.dtype) if offset is None else offset
    parts = [dense(np.asarray(part, x.dtype)) for part in (mean, factor, shift)]
    out = np.empty(x.shape, x.dtype)
    BATCH_NORM[x.dtype](dense(x), *parts, out, walk(x.shape, *(part.shape for part in parts)))
    return out
