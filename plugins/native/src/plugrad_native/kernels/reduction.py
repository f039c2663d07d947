"""Reductions of adjacent axes. Sums of floats are added in double precision, block by block."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from plugrad.extend import reduced, size_of
from plugrad.kernels import reduction
from plugrad_cpu.extend import empty, numpy_implementation, track_allocation, tracked
from plugrad_native.declare import (
    FEW,
    FLOATS,
    INT32,
    INTEGERS,
    LIMIT,
    SHARED,
    dense,
    exports,
    in_parts,
    table,
)
from plugrad_native.kernels.indexing import is_served, segment_sums
from plugrad_native.kernels.unary import narrowed, widened
from plugrad_native.variants import variant

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad.extend import Kernel, Shape
    from plugrad_native.declare import Array

MANY_COLUMNS = 512
MANY = 1 << 20
"""The columns, and the elements in all, from which on NumPy reduces the first axis as fast."""
ROWS = 8
"""Short rows that C reduces side by side."""


@lru_cache(maxsize=4096)
def fold(shape: Shape, axes: Shape, keep_dims: bool) -> tuple[Shape, int, int, int] | None:
    """Return the shape of a reduction, and the sizes before, of and behind its sorted axes.

    None where NumPy is as fast, or the axes are not adjacent.
    """
    if not axes or axes[-1] - axes[0] + 1 != len(axes) or not 0 < size_of(shape) < LIMIT:
        return None
    first, last = axes[0], axes[-1] + 1
    outer, inner = size_of(shape[:first]), size_of(shape[last:])
    if outer == 1 and inner >= MANY_COLUMNS and size_of(shape) >= MANY:
        return None
    return reduced(shape, axes, keep_dims), outer, size_of(shape[first:last]), inner


def folded(
    kernel: Kernel[..., Any], name: str, *dtypes: str, attribute: str = "axis"
) -> Callable[..., Array]:
    """Return the function of x, axis and keep_dims that reduces the axes with functions of C."""
    functions, numpy_function = exports(name, *dtypes), numpy_implementation(kernel)

    @tracked
    def implementation(x: Array, *, axis: Shape, keep_dims: bool) -> Array:
        run = functions.get(x.dtype)
        plan = fold(x.shape, axis, keep_dims) if x.flags.c_contiguous else None
        if run is None or plan is None:
            if x.dtype.char == "e" and 0 < x.size < LIMIT:
                return narrowed(implementation(widened(x), axis=axis, keep_dims=keep_dims))
            return track_allocation(numpy_function(x, **{attribute: axis}, keep_dims=keep_dims))
        shape, outer, length, inner = plan
        out = (np.empty if x.size < FEW else empty)(shape, x.dtype)
        if x.size < SHARED:
            run(x, out, outer, length, inner)
        else:
            places = (x, length * inner), (out, inner)
            in_parts(run, places, outer, length, inner, work=x.size, multiple=ROWS)
        return out

    return implementation


greatest: Final = folded(reduction.max, "max", *FLOATS, *INTEGERS, attribute="reduction_indices")


@table.implements(reduction.max)
@tracked
def max(x: Array, *, reduction_indices: Shape, keep_dims: bool) -> Array:
    """Return the largest elements along axes."""
    return greatest(x, axis=reduction_indices, keep_dims=keep_dims)


table.update(
    {
        reduction.sum: folded(reduction.sum, "sum", *FLOATS, *INTEGERS),
        reduction.prod: folded(reduction.prod, "prod", *FLOATS, *INTEGERS),
        reduction.mean: folded(reduction.mean, "mean", *FLOATS),
        reduction.min: folded(reduction.min, "min", *FLOATS, *INTEGERS),
    }
)


COUNT_IDS = variant().kernel("count_ids")

numpy_bincount: Final = numpy_implementation(reduction.bincount)


@table.implements(reduction.bincount)
def bincount(x: Array, weights: Array | None, *, size: int) -> Array:
    """Return the counts of all elements, or the sums of their weights."""
    if x.dtype != np.int32 or not 0 < x.size < LIMIT or not 0 < size < LIMIT:
        return numpy_bincount(x, weights, size=size)
    if weights is None:
        counts = empty((size,), INT32)
        COUNT_IDS(dense(x), counts, 1, x.size, size, False)
        return counts
    if not is_served(weights, x, (size,)):
        return numpy_bincount(x, weights, size=size)
    return segment_sums(weights, dense(x), (size,))
