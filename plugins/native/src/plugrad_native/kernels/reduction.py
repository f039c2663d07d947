"""Reductions of adjacent axes. Sums of floats are added in double precision, block by block."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from plugrad.extend import count_elements, reduced_shape
from plugrad.kernels import reduction
from plugrad_cpu.extend import (
    PARTS_PER_THREAD,
    empty,
    numpy_implementation,
    thread_pool,
    track_allocation,
    tracked,
)
from plugrad_native.declare import (
    FLOATS,
    INT32,
    INTEGERS,
    MAX_ELEMENTS,
    UNTRACKED_MAX_ELEMENTS,
    as_contiguous,
    divide_items,
    exports,
    parallel_for,
    table,
)
from plugrad_native.kernels.indexing import is_supported, segment_sums
from plugrad_native.kernels.unary import CHARACTERS, to_float16, to_float32
from plugrad_native.variants import current_variant

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad.extend import Kernel, Shape
    from plugrad_cpu.extend import Call
    from plugrad_native.declare import Array, Export, Exports

PARALLEL_ROWS = 8
"""Short rows that C reduces side by side."""
PART_ELEMENTS: Final = 1 << 17
"""The elements of a long row that are reduced at a time, as in csrc/reduction.c."""
FEW_COLUMNS: Final = 16
"""Up to so many columns, C reduces several rows of them at a time, which threads do not share."""
COLUMN_MULTIPLE: Final = 64
"""Columns that C reduces side by side."""


@lru_cache(maxsize=1024)
def reduction_layout(
    shape: Shape, axes: Shape, keep_dims: bool
) -> tuple[Shape, int, int, int] | None:
    """Return the result's shape, and the sizes before, of and after the sorted reduced axes.

    None if the axes are not adjacent, or the array is empty or very large.
    """
    if (
        not axes
        or axes[-1] - axes[0] + 1 != len(axes)
        or not 0 < count_elements(shape) < MAX_ELEMENTS
    ):
        return None
    first, last = axes[0], axes[-1] + 1
    outer, inner = count_elements(shape[:first]), count_elements(shape[last:])
    return reduced_shape(shape, axes, keep_dims), outer, count_elements(shape[first:last]), inner


SUM_ROWS, SUM_COLUMNS = (
    {
        CHARACTERS[half]: current_variant().kernel(f"sum_{lines}_{half}")
        for half in ("float16", "bfloat16")
    }
    for lines in ("rows", "columns")
)
"""Sums of halves along the last axis and along others, divided by a number, by the letters of dtypes."""


def sum_halves(x: Array, axis: Shape, keep_dims: bool, *, is_mean: bool) -> Array | None:
    """Return the sums or the means of halves along adjacent axes, or None for other axes."""
    plan = reduction_layout(x.shape, axis, keep_dims) if x.flags.c_contiguous else None
    if plan is None:
        return None
    shape, outer, length, inner = plan
    out = empty(shape, x.dtype)
    divisor = float(length) if is_mean else 1.0
    places = (x, length * inner), (out, inner)
    if inner == 1:
        parallel_for(SUM_ROWS[x.dtype.char], places, outer, length, divisor, work=x.size)
    else:
        run = SUM_COLUMNS[x.dtype.char]
        parallel_for(run, places, outer, length, inner, divisor, work=x.size)
    return out


def make_reduction(
    kernel: Kernel[..., Any], name: str, *dtypes: str, attribute: str = "axis"
) -> Callable[..., Array]:
    """Return the function (x, axis, keep_dims) that reduces axes with C functions."""
    functions, numpy_function = exports(name, *dtypes), numpy_implementation(kernel)
    columns = exports(f"{name}_pitched", *dtypes)
    part = PART_NAMES.get(name)
    parts: Exports = exports(f"{part}_parts", *FLOATS) if part else {}
    combine: Exports = exports(f"{part}_total", *FLOATS) if part else {}

    @tracked
    def implementation(x: Array, *, axis: Shape, keep_dims: bool) -> Array:
        run = functions.get(x.dtype)
        plan = reduction_layout(x.shape, axis, keep_dims) if x.flags.c_contiguous else None
        if run is None or plan is None:
            if x.dtype.char == "e" and 0 < x.size < MAX_ELEMENTS:
                if name in ("sum", "mean"):
                    found = sum_halves(x, axis, keep_dims, is_mean=name == "mean")
                    if found is not None:
                        return found
                return to_float16(implementation(to_float32(x), axis=axis, keep_dims=keep_dims))
            return track_allocation(numpy_function(x, **{attribute: axis}, keep_dims=keep_dims))
        shape, outer, length, inner = plan
        out = (np.empty if x.size < UNTRACKED_MAX_ELEMENTS else empty)(shape, x.dtype)
        if x.size < thread_pool.part_min_work:
            run(x, out, outer, length, inner)
        elif outer == inner == 1:
            if x.dtype in parts:
                both = parts[x.dtype], combine[x.dtype]
                reduce_row(run, both, x, out, length if name == "mean" else 1)
            else:
                reduce_exact_row(run, x, out)
        elif outer == 1 and inner > FEW_COLUMNS:
            places, how = ((x, 1), (out, 1)), (length, inner)
            reduce_columns = columns[x.dtype]
            parallel_for(reduce_columns, places, inner, *how, work=x.size, multiple=COLUMN_MULTIPLE)
        else:
            places = (x, length * inner), (out, inner)
            parallel_for(run, places, outer, length, inner, work=x.size, multiple=PARALLEL_ROWS)
        return out

    return implementation


PART_NAMES: Final = {"sum": "sum", "mean": "sum", "prod": "prod"}
"""What is computed of the parts of a long row of floats, in double precision, by the names of reductions."""


def reduce_row(
    run: Export, parts: tuple[Export, Export], x: Array, out: Array, divisor: int
) -> None:
    """Reduce all elements to one number by fixed parts, which threads share.

    Args:
        run: reduces rows.
        parts: reduce the parts of a row to floats in double precision, and these to one, divided.
        x: the elements.
        out: where the result goes.
        divisor: by what it is divided.
    """
    size, count = x.size, -(-x.size // PART_ELEMENTS)
    shares = thread_pool.count_parts(size, count, PARTS_PER_THREAD)
    if shares == 1:
        run(x, out, 1, size, 1)
        return
    run_parts, combine = parts
    totals = np.empty(count)
    places = (x, PART_ELEMENTS), (totals, 1)

    def make_call(x: Array, totals: Array, _: int) -> Call:
        return run_parts, x, totals, x.size

    thread_pool.run(divide_items(make_call, places, count, shares))
    combine(totals, out, count, divisor)


def reduce_exact_row(run: Export, x: Array, out: Array) -> None:
    """Reduce all elements to one number, where order does not matter, by parts that threads share."""
    size, x = x.size, x.reshape(-1)
    whole, rest = divmod(size, PART_ELEMENTS)
    totals = np.empty((whole + bool(rest),), x.dtype)
    parallel_for(run, ((x, PART_ELEMENTS), (totals, 1)), whole, PART_ELEMENTS, 1, work=size)
    if rest:
        run(x[whole * PART_ELEMENTS :], totals[whole:], 1, rest, 1)
    run(totals, out, 1, totals.size, 1)


max_along: Final = make_reduction(
    reduction.max, "max", *FLOATS, *INTEGERS, attribute="reduction_indices"
)


@table.implements(reduction.max)
@tracked
def max(x: Array, *, reduction_indices: Shape, keep_dims: bool) -> Array:
    """Return the maxima along axes."""
    return max_along(x, axis=reduction_indices, keep_dims=keep_dims)


table.update(
    {
        reduction.sum: make_reduction(reduction.sum, "sum", *FLOATS, *INTEGERS),
        reduction.prod: make_reduction(reduction.prod, "prod", *FLOATS, *INTEGERS),
        reduction.mean: make_reduction(reduction.mean, "mean", *FLOATS),
        reduction.min: make_reduction(reduction.min, "min", *FLOATS, *INTEGERS),
    }
)


def make_arg_reduction(kernel: Kernel[..., Any], name: str) -> Callable[..., Array]:
    """Return the implementation of a kernel that finds the position of an extreme value along an axis."""
    functions, numpy_function = exports(name, *FLOATS, "int32"), numpy_implementation(kernel)

    @tracked
    def implementation(x: Array, *, axis: int) -> Array:
        if x.size < UNTRACKED_MAX_ELEMENTS:  # a call of NumPy takes less than the decision
            return numpy_function(x, axis=axis)
        run = functions.get(x.dtype)
        plan = reduction_layout(x.shape, (axis,), False) if x.flags.c_contiguous else None
        if run is None or plan is None or plan[3] < FEW_COLUMNS:  # which NumPy is faster at
            return track_allocation(numpy_function(x, axis=axis))
        shape, outer, length, inner = plan
        if x.size < thread_pool.part_min_work:
            out = np.empty(shape, INT32)
            run(x, out, outer, length, inner)
            return out
        out = empty(shape, INT32)
        places = (x, length * inner), (out, inner)
        parallel_for(run, places, outer, length, inner, work=x.size)
        return out

    return implementation


table.update(
    {
        reduction.argmax: make_arg_reduction(reduction.argmax, "argmax"),
        reduction.argmin: make_arg_reduction(reduction.argmin, "argmin"),
    }
)


COUNT_IDS = current_variant().kernel("count_ids")

numpy_bincount: Final = numpy_implementation(reduction.bincount)


@table.implements(reduction.bincount)
def bincount(x: Array, weights: Array | None, *, size: int) -> Array:
    """Return the counts of all elements, or the sums of their weights."""
    if x.dtype != np.int32 or not 0 < x.size < MAX_ELEMENTS or not 0 < size < MAX_ELEMENTS:
        return numpy_bincount(x, weights, size=size)
    if weights is None:
        counts = empty((size,), INT32)
        COUNT_IDS(as_contiguous(x), counts, 1, x.size, size, False)
        return counts
    if not is_supported(weights, x, (size,)):
        return numpy_bincount(x, weights, size=size)
    return segment_sums(weights, as_contiguous(x), (size,))
