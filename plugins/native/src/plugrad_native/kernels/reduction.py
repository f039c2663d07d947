"""Reductions of adjacent axes. Sums of floats are added in double precision, block by block."""

from __future__ import annotations

from functools import lru_cache
from math import sqrt
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from plugrad.extend import count_elements, reduced_shape
from plugrad.kernels import reduction
from plugrad_cpu.extend import (
    PARTS_PER_THREAD,
    empty,
    mark_results_tracked,
    numpy_implementation,
    thread_pool,
    track_allocation,
)
from plugrad_native.declare import (
    BOOL,
    CACHE_LINE_FLOATS,
    FLOAT_DTYPES,
    INT32,
    INTEGER_DTYPES,
    MAX_ELEMENTS,
    UNTRACKED_MAX_ELEMENTS,
    as_contiguous,
    find_c_functions,
    parallel_for,
    register_small_result_functions,
    table,
)
from plugrad_native.kernels.indexing import compute_segment_sums, is_segment_sum_supported
from plugrad_native.kernels.unary import DTYPE_CHARS, cast_to_float16, cast_to_float32
from plugrad_native.variants import current_variant

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad.extend import Implementation, Kernel, Shape
    from plugrad_native.declare import Array, CFunction, CFunctionsByDtype

ROWS_REDUCED_TOGETHER = 8
"""The number of short rows that C reduces side by side."""
LONG_ROW_PART_ELEMENTS: Final = 1 << 17
"""The elements in each part of a long row, as in csrc/reduction.c."""
UNSHARED_MAX_COLUMNS: Final = 16
"""The maximum columns of a matrix that threads do not share: C reduces several rows of so few at a time."""
COLUMNS_REDUCED_TOGETHER: Final = 64
"""The number of columns that C reduces side by side."""
REDUCED_BY_RUNS_MIN_ELEMENTS: Final = 1 << 15
"""The minimum elements of an array whose axes are ordered as in memory, which takes about 10 microseconds."""
REDUCED_IN_COPIES_MIN_ELEMENTS: Final = 1 << 11
"""The minimum elements for which C computes variances of a copy faster than NumPy, which makes two copies."""


@lru_cache(maxsize=1024)
def find_reduction_layout(
    shape: Shape, axes: Shape, keep_dims: bool
) -> tuple[Shape, int, int, int] | None:
    """Return the result's shape, and the numbers of elements before, in and after the sorted reduced axes.

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


def split_into_runs(axes: list[int]) -> list[Shape]:
    """Return the runs of adjacent axes in a sorted list.

    >>> split_into_runs([0, 2, 3])
    [(0,), (2, 3)]
    """
    runs: list[Shape] = []
    for axis in axes:
        if runs and runs[-1][-1] == axis - 1:
            runs[-1] += (axis,)
        else:
            runs.append((axis,))
    return runs


def reduce_in_memory_order(
    reduce_adjacent_axes: Callable[..., Array],
    x: Array,
    axes: Shape,
    keep_dims: bool,
    *,
    is_stepwise_exact: bool,
) -> Array | None:
    """Return the reduction of axes that are not adjacent, taken in memory order, or None if NumPy is as fast.

    NumPy does so with small arrays, with those that repeat elements, of which a copy may be large, and with those that
    have gaps, unless it makes copies itself: it does if the reduction of some axes and then of the others is not the
    reduction of all of them (`is_stepwise_exact`). Then this function copies as well, if axes or elements are not
    adjacent.
    """
    least = REDUCED_BY_RUNS_MIN_ELEMENTS if is_stepwise_exact else REDUCED_IN_COPIES_MIN_ELEMENTS
    if not least <= x.size < MAX_ELEMENTS or 0 in x.strides:
        return None
    flips = tuple([slice(None, None, -1 if stride < 0 else 1) for stride in x.strides])
    x = x[flips]  # the elements of axes that run backwards are the same ones
    # Axes of one element come first, where they do not separate others.
    order = sorted(range(x.ndim), key=lambda axis: (x.shape[axis] > 1, -x.strides[axis]))
    runs = split_into_runs(sorted(map(order.index, axes)))
    if not is_stepwise_exact and len(runs) > 1:
        order = [axis for axis in order if axis not in axes] + [a for a in order if a in axes]
        runs = split_into_runs(sorted(map(order.index, axes)))
    found = x.transpose(order)
    if not found.flags.c_contiguous:
        if is_stepwise_exact:
            return None
        found = as_contiguous(found)
    for run in reversed(runs):  # long rows first
        found = reduce_adjacent_axes(found, axis=run, keep_dims=True)
    found = found.transpose(sorted(range(x.ndim), key=order.__getitem__))[flips]
    return found if keep_dims else found.squeeze(axes)


C_SUM_ROWS, C_SUM_COLUMNS = (
    {
        DTYPE_CHARS[half]: current_variant().kernel(f"sum_{lines}_{half}")
        for half in ("float16", "bfloat16")
    }
    for lines in ("rows", "columns")
)
"""C functions by NumPy's letters for the dtypes of halves: sums along the last or other axes, divided by a number."""


def sum_halves(x: Array, axis: Shape, keep_dims: bool, *, is_mean: bool) -> Array | None:
    """Return the sums or the means of halves along adjacent axes, or None for other axes."""
    plan = find_reduction_layout(x.shape, axis, keep_dims) if x.flags.c_contiguous else None
    if plan is None:
        return None
    shape, outer, length, inner = plan
    out = empty(shape, x.dtype)
    divisor = float(length) if is_mean else 1.0
    places = (x, length * inner), (out, inner)
    if inner == 1:
        parallel_for(C_SUM_ROWS[x.dtype.char], places, outer, length, divisor, work=x.size)
    else:
        run = C_SUM_COLUMNS[x.dtype.char]
        parallel_for(run, places, outer, length, inner, divisor, work=x.size)
    return out


def make_reduction(
    kernel: Kernel[..., Any], c_name: str, *dtypes: str, axes_attribute: str = "axis"
) -> Implementation:
    """Return the implementation in C of a kernel that reduces the axes in its attribute `axes_attribute`."""
    functions, numpy_function = find_c_functions(c_name, *dtypes), numpy_implementation(kernel)
    columns = find_c_functions(f"{c_name}_pitched", *dtypes)
    part = PARTIAL_REDUCTION_BY_NAME.get(c_name)
    parts: CFunctionsByDtype = find_c_functions(f"{part}_parts", *FLOAT_DTYPES) if part else {}
    combine: CFunctionsByDtype = find_c_functions(f"{part}_total", *FLOAT_DTYPES) if part else {}

    @mark_results_tracked
    def implementation(x: Array, *, keep_dims: bool, **axes: Shape) -> Array:
        """Return the reduction of x along the axes in the attribute."""
        axis = axes[axes_attribute]
        run = functions.get(x.dtype)
        plan = find_reduction_layout(x.shape, axis, keep_dims) if x.flags.c_contiguous else None
        if run is None or plan is None:
            if x.dtype.char == "e" and 0 < x.size < MAX_ELEMENTS:
                if c_name in ("sum", "mean"):
                    found = sum_halves(x, axis, keep_dims, is_mean=c_name == "mean")
                    if found is not None:
                        return found
                return cast_to_float16(
                    implementation(cast_to_float32(x), keep_dims=keep_dims, **axes)
                )
            if run is not None and axis:
                found = reduce_in_memory_order(reduce, x, axis, keep_dims, is_stepwise_exact=True)
                if found is not None:
                    return found
            return track_allocation(numpy_function(x, keep_dims=keep_dims, **axes))
        shape, outer, length, inner = plan
        out = empty(shape, x.dtype)
        if x.size < thread_pool.part_min_work:
            run(x, out, outer, length, inner)
        elif outer == inner == 1:
            if x.dtype in parts:
                both = parts[x.dtype], combine[x.dtype]
                reduce_long_row_by_parts(run, both, x, out, length if c_name == "mean" else 1)
            else:
                reduce_long_row_in_any_order(run, x, out)
        elif outer == 1 and inner > UNSHARED_MAX_COLUMNS:
            places, how = ((x, 1), (out, 1)), (length, inner)
            reduce_columns = columns[x.dtype]
            parallel_for(
                reduce_columns,
                places,
                inner,
                *how,
                work=x.size,
                part_size_multiple=COLUMNS_REDUCED_TOGETHER,
            )
        else:
            places = (x, length * inner), (out, inner)
            parallel_for(
                run,
                places,
                outer,
                length,
                inner,
                work=x.size,
                part_size_multiple=ROWS_REDUCED_TOGETHER,
            )
        return out

    def reduce(x: Array, *, axis: Shape, keep_dims: bool) -> Array:
        """Return the reduction of x along the axes."""
        return implementation(x, keep_dims=keep_dims, **{axes_attribute: axis})

    register_small_result_functions(kernel, "axes", functions, axes_attribute)
    return implementation


PARTIAL_REDUCTION_BY_NAME: Final = {"sum": "sum", "mean": "sum", "prod": "prod"}
"""By reduction: the reduction of each part of a long row of floats, in double precision."""


def reduce_long_row_by_parts(
    c_function: CFunction,
    part_functions: tuple[CFunction, CFunction],
    x: Array,
    out: Array,
    divisor: int,
) -> None:
    """Reduce all elements to one number, which is written to `out`, by parts of fixed size that threads share.

    The part functions reduce parts of a row to numbers in double precision, and these to one number, divided.
    """
    size, count = x.size, -(-x.size // LONG_ROW_PART_ELEMENTS)
    shares = thread_pool.count_parts(size, count, PARTS_PER_THREAD)
    if shares == 1:
        c_function(x, out, 1, size, 1)
        return
    run_parts, combine = part_functions
    totals = np.empty(count)
    thread_pool.run_in_parts(
        run_parts,
        (x, totals, size),
        (LONG_ROW_PART_ELEMENTS, 1, 0),
        2,
        size,
        parts=shares,
        part_size_multiple=LONG_ROW_PART_ELEMENTS,
    )
    combine(totals, out, count, divisor)


def reduce_long_row_in_any_order(c_function: CFunction, x: Array, out: Array) -> None:
    """Write the reduction of all elements, such as the maximum, to `out`; threads share parts of any size."""
    size, x = x.size, x.reshape(-1)
    whole, rest = divmod(size, LONG_ROW_PART_ELEMENTS)
    totals = np.empty((whole + bool(rest),), x.dtype)
    parallel_for(
        c_function,
        ((x, LONG_ROW_PART_ELEMENTS), (totals, 1)),
        whole,
        LONG_ROW_PART_ELEMENTS,
        1,
        work=size,
    )
    if rest:
        c_function(x[whole * LONG_ROW_PART_ELEMENTS :], totals[whole:], 1, rest, 1)
    c_function(totals, out, 1, totals.size, 1)


table.update(
    {
        reduction.sum: make_reduction(reduction.sum, "sum", *FLOAT_DTYPES, *INTEGER_DTYPES),
        reduction.prod: make_reduction(reduction.prod, "prod", *FLOAT_DTYPES, *INTEGER_DTYPES),
        reduction.mean: make_reduction(reduction.mean, "mean", *FLOAT_DTYPES),
        reduction.max: make_reduction(
            reduction.max, "max", *FLOAT_DTYPES, *INTEGER_DTYPES, axes_attribute="reduction_indices"
        ),
        reduction.min: make_reduction(reduction.min, "min", *FLOAT_DTYPES, *INTEGER_DTYPES),
    }
)

for _kernel, _name in ((reduction.all, "min_uint8"), (reduction.any, "max_uint8")):
    # bools are stored as 0 and 1
    register_small_result_functions(
        _kernel, "axes", {BOOL: current_variant().kernel(_name)}, "axis"
    )


# --- variances and norms -----------------------------------------------------------------------------

C_MOMENTS: Final = find_c_functions("moments", *FLOAT_DTYPES)
"""The C functions that sum the differences from a number and their squares, by dtype."""
MAX_SAFE_SQUARE_SUM: Final = 2.0**800
"""The maximum sum of squares in float64 that is taken without scaling, to be sure that none overflowed."""
OVERFLOW_GUARD_SCALE: Final = 2.0**700
"""The factor of float64 numbers whose squares would underflow, and the divisor of those that would overflow."""


def compute_row_moments(x: Array, start: float, scale: float = 1.0) -> tuple[float, float]:
    """Return the sum of ``(x - start) * scale`` and of its squares, where `start` is a number near the mean."""
    x = x.reshape(-1)
    totals = np.empty((-(-x.size // LONG_ROW_PART_ELEMENTS), 2))
    parts = [
        x[first : first + LONG_ROW_PART_ELEMENTS]
        for first in range(0, x.size, LONG_ROW_PART_ELEMENTS)
    ]
    thread_pool.run(
        [
            (C_MOMENTS[x.dtype], part, found, part.size, start, scale)
            for part, found in zip(parts, totals, strict=True)
        ]
    )
    total, squares = 0.0, 0.0
    for found in totals.tolist():  # in the order in which C adds
        total += found[0]
        squares += found[1]
    return total, squares


def compute_row_variance(x: Array) -> float:
    """Return the variance of a long row, as ``variance`` in csrc/moments.c does."""
    count, start = x.size, float(x.reshape(-1)[0])
    total, squares = compute_row_moments(x, start)
    if x.dtype.char == "d":
        total, squares = compute_row_moments(x, start + total / count)
    found = (squares - total * total / count) / count
    return 0.0 if found < 0 else found


def compute_row_norm(x: Array) -> float:
    """Return the Euclidean norm of a long row, as ``norm`` in csrc/moments.c does."""
    squares = compute_row_moments(x, 0.0)[1]
    if x.dtype.char != "d" or 1 / MAX_SAFE_SQUARE_SUM <= squares <= MAX_SAFE_SQUARE_SUM:
        return sqrt(squares)
    scale = 1 / OVERFLOW_GUARD_SCALE if squares > MAX_SAFE_SQUARE_SUM else OVERFLOW_GUARD_SCALE
    return sqrt(compute_row_moments(x, 0.0, scale)[1]) / scale


def make_moments(
    kernel: Kernel[..., Any], c_name: str, reduce_long_row: Callable[[Array], float]
) -> Implementation:
    """Return the implementation of a variance or a norm; `reduce_long_row` is for one row with many parts."""
    functions, numpy_function = (
        find_c_functions(c_name, *FLOAT_DTYPES),
        numpy_implementation(kernel),
    )
    columns = find_c_functions(f"{c_name}_pitched", *FLOAT_DTYPES)
    is_norm = c_name == "norm"  # the norm of norms is one

    @mark_results_tracked
    def implementation(x: Array, *, axis: Shape, keep_dims: bool) -> Array:
        """Return the variances or the norms along the axes."""
        run = functions.get(x.dtype)
        plan = find_reduction_layout(x.shape, axis, keep_dims) if x.flags.c_contiguous else None
        if run is None or plan is None:
            if x.dtype.char == "e" and 0 < x.size < MAX_ELEMENTS:
                return cast_to_float16(
                    implementation(cast_to_float32(x), axis=axis, keep_dims=keep_dims)
                )
            if run is not None and axis:
                found = reduce_in_memory_order(
                    implementation, x, axis, keep_dims, is_stepwise_exact=is_norm
                )
                if found is not None:
                    return found
            return track_allocation(numpy_function(x, axis=axis, keep_dims=keep_dims))
        shape, outer, length, inner = plan
        out = empty(shape, x.dtype)
        if outer == inner == 1 and length > LONG_ROW_PART_ELEMENTS:
            with np.errstate(over="ignore"):
                out.fill(reduce_long_row(x))
        elif outer == 1 and inner > UNSHARED_MAX_COLUMNS:
            places = (x, 1), (out, 1)
            run = columns[x.dtype]
            parallel_for(
                run,
                places,
                inner,
                length,
                inner,
                work=x.size,
                part_size_multiple=COLUMNS_REDUCED_TOGETHER,
            )
        else:
            places = (x, length * inner), (out, inner)
            parallel_for(run, places, outer, length, inner, work=x.size)
        return out

    register_small_result_functions(kernel, "axes", functions, "axis")
    return implementation


table.update(
    {
        reduction.variance: make_moments(reduction.variance, "variance", compute_row_variance),
        reduction.euclidean_norm: make_moments(reduction.euclidean_norm, "norm", compute_row_norm),
    }
)


def make_arg_reduction(kernel: Kernel[..., Any], c_name: str) -> Callable[..., Array]:
    """Return the implementation of a kernel that finds the index of an extreme value along an axis."""
    functions, columns = (
        find_c_functions(each, *FLOAT_DTYPES, "int32") for each in (c_name, f"{c_name}_pitched")
    )
    numpy_function = numpy_implementation(kernel)

    register_small_result_functions(kernel, "indices", functions, "axis", result_dtype=INT32)

    @mark_results_tracked
    def implementation(x: Array, *, axis: int) -> Array:
        """Return the index of the first extreme value along an axis."""
        if x.size < UNTRACKED_MAX_ELEMENTS:  # a call of NumPy takes less than the decision
            return numpy_function(x, axis=axis)
        run = functions.get(x.dtype)
        plan = find_reduction_layout(x.shape, (axis,), False) if x.flags.c_contiguous else None
        if (
            run is None or plan is None or plan[3] < UNSHARED_MAX_COLUMNS
        ):  # which NumPy is faster at
            return track_allocation(numpy_function(x, axis=axis))
        shape, outer, length, inner = plan
        if x.size < thread_pool.part_min_work:
            out = np.empty(shape, INT32)
            run(x, out, outer, length, inner)
            return out
        out = empty(shape, INT32)
        if outer == 1:
            places, how = ((x, 1), (out, 1)), (length, inner)
            run = columns[x.dtype]
            parallel_for(
                run, places, inner, *how, work=x.size, part_size_multiple=CACHE_LINE_FLOATS
            )
        else:
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


C_COUNT_IDS = current_variant().kernel("count_ids")
"""The C function that counts how often each id occurs."""
COUNT_COST_IN_ADDITIONS: Final = 4
"""The cost of counting one element, in additions."""

numpy_bincount: Final = numpy_implementation(reduction.bincount)
"""NumPy's implementation of the kernel `bincount`."""


def count_elements_by_value(x: Array, value_count: int) -> Array:
    """Return how many elements have each value below `value_count`; threads share the elements."""
    parts = thread_pool.count_parts(
        COUNT_COST_IN_ADDITIONS * x.size, x.size // value_count, PARTS_PER_THREAD
    )
    counts = empty((parts, value_count), INT32)
    thread_pool.run_in_parts(
        C_COUNT_IDS,
        (x.reshape(-1), counts.reshape(-1), 1, x.size, value_count, False),
        (1, -value_count, 0, 0, 0, 0),
        3,
        x.size,
        parts=parts,
    )
    return counts[0] if parts == 1 else counts.sum(0, dtype=INT32)


@table.implements(reduction.bincount)
def bincount(x: Array, weights: Array | None, *, size: int) -> Array:
    """Return how often each integer below `size` occurs among all elements, or the sums of their weights."""
    if x.dtype != np.int32 or not 0 < x.size < MAX_ELEMENTS or not 0 < size < MAX_ELEMENTS:
        return numpy_bincount(x, weights, size=size)
    if weights is None:
        return count_elements_by_value(as_contiguous(x), size)
    if not is_segment_sum_supported(weights, x, (size,)):
        return numpy_bincount(x, weights, size=size)
    return compute_segment_sums(weights, as_contiguous(x), (size,))
