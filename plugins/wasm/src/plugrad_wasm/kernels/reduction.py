"""Reductions: x is brought to the form (outer, reduced, inner) first."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from plugrad.extend import COMPLEX, HALVES, count_elements, float32, float64, int32, reduced_shape
from plugrad.kernels import reduction
from plugrad_wasm.declare import (
    ELEMENTWISE_PART_STEPS,
    PART_MULTIPLE_ELEMENTS,
    RELEASE_GIL_MIN_ELEMENTS,
    ExportNames,
    choose_items_per_part,
    run_call_chains,
    run_over_items,
    select_export,
    table,
)
from plugrad_wasm.kernels.indexing import as_int32_positions, compute_segment_sums
from plugrad_wasm.kernels.movement import transpose
from plugrad_wasm.kernels.unary import cast
from plugrad_wasm.memory import WasmArray, WasmView, measure_block

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad.extend import DType
    from plugrad_wasm.runtime import CallChain

Axes = tuple[int, ...]
"""The type of axes, or of sizes: a tuple of integers."""


class ReductionLayout(NamedTuple):
    """The geometry of a reduction of adjacent axes: (outer, reduced, inner)."""

    outer_size: int
    """The number of elements before the reduced axes."""
    reduced_size: int
    """The number of elements of the reduced axes."""
    inner_size: int
    """The number of elements after the reduced axes."""


@lru_cache(maxsize=1024)
def plan_adjacent_reduction(shape: Axes, axes: Axes) -> ReductionLayout:
    """Return the geometry for the reduction of adjacent axes."""
    first, last = (axes[0], axes[-1] + 1) if axes else (len(shape), len(shape))
    return ReductionLayout(
        count_elements(shape[:first]),
        count_elements(shape[first:last]),
        count_elements(shape[last:]),
    )


@lru_cache(maxsize=1024)
def group_adjacent_axes(axes: Axes) -> list[Axes]:
    """Return sorted axes as groups of adjacent axes.

    >>> group_adjacent_axes((0, 2, 3))
    [(0,), (2, 3)]
    """
    found: list[Axes] = []
    for axis in axes:
        if found and found[-1][-1] + 1 == axis:
            found[-1] += (axis,)
        else:
            found.append((axis,))
    return found or [()]


class ReductionPlan(NamedTuple):
    """A reduction: the axes reduced first, the geometry of the last pass, and the shape of the result."""

    axes_reduced_first: list[Axes]
    """The groups of axes that are reduced before the last pass."""
    layout: ReductionLayout
    """The geometry of the last pass."""
    shape: Axes
    """The shape of the result."""


@lru_cache(maxsize=1024)
def plan_reduction(shape: Axes, axes: Axes, keep_dims: bool) -> ReductionPlan:
    """Plan a reduction: each group of adjacent axes takes one pass over the result of the previous pass."""
    first, *before = group_adjacent_axes(axes)
    left = reduced_shape(shape, tuple(axis for group in before for axis in group), True)
    return ReductionPlan(
        before, plan_adjacent_reduction(left, first), reduced_shape(shape, axes, keep_dims)
    )


class ShortReductionCall(NamedTuple):
    """The one call of an export that reduces few elements, and the block of its result."""

    shape: Axes
    """The shape of the result."""
    size: int
    """The number of elements of the result."""
    capacity: int
    """The bytes of the result's block."""
    export: str
    """The name of the export."""
    outer_size: int
    """The number of elements before the reduced axes."""
    reduced_size: int
    """The number of elements of the reduced axes."""
    inner_size: int
    """The number of elements after the reduced axes."""


def can_sum_halves(shape: Axes, plan: ReductionPlan) -> bool:
    """Return whether an export sums float16 or bfloat16 along the axes of a plan without a cast."""
    outer, length, inner = plan.layout
    if plan.axes_reduced_first:
        return False
    if inner == 1:
        return length <= ROW_PART_ELEMENTS
    return (
        outer == 1
        and inner > MAX_COLUMNS_IN_ONE_PART
        and count_elements(shape) >= RELEASE_GIL_MIN_ELEMENTS
    )


def make_reduction(kernel: str) -> Callable[..., WasmArray]:
    """Return the implementation of the reduction with this name by its exports; its attribute is `axis`."""
    names, pitched_names = ExportNames(kernel), ExportNames(f"{kernel}_pitched")

    @lru_cache(maxsize=1024)
    def plan_short_call(
        shape: Axes, axes: Axes, keep_dims: bool, dtype: DType
    ) -> ShortReductionCall | None:
        """Return the one call that reduces few elements, or None if it takes more."""
        plan = plan_reduction(shape, axes, keep_dims)
        if plan.axes_reduced_first or 0 in plan.shape:
            return None
        if count_elements(shape) >= RELEASE_GIL_MIN_ELEMENTS:
            return None
        if dtype in HALVES and not can_sum_halves(shape, plan):
            return None
        block = measure_block(plan.shape, dtype.itemsize)
        return ShortReductionCall(plan.shape, *block, names[dtype], *plan.layout)

    def reduce_axes(x: WasmArray, *, axis: Axes, keep_dims: bool) -> WasmArray:
        """Return the reduction of x along axes."""
        short = plan_short_call(x.shape, axis, keep_dims, x.dtype)
        if short is not None:
            shape, size, capacity, export, outer, length, inner = short
            memory = x.memory
            out = WasmArray(memory, shape, x.dtype, size, capacity)
            run = memory.store.exports_holding_gil[export]
            run(x.address, out.address, outer, length, inner)
            return out
        plan = plan_reduction(x.shape, axis, keep_dims)
        if x.dtype in HALVES and not can_sum_halves(x.shape, plan):
            return cast(
                reduce_axes(cast(x, dtype=float32), axis=axis, keep_dims=keep_dims), dtype=x.dtype
            )
        before, layout, shape = plan
        for group in before:
            x = reduce_axes(x, axis=group, keep_dims=True)
        outer, length, inner = layout
        out = x.memory.empty(shape, x.dtype)
        if 0 in shape:  # the loops in C end only where there are columns
            return out
        if x.size < RELEASE_GIL_MIN_ELEMENTS:
            x.memory.store.exports_holding_gil[names[x.dtype]](x.address, out.address, *layout)
            return out
        if outer == inner == 1 and x.size > ROW_PART_ELEMENTS and x.dtype in (float32, float64):
            if kernel in PARTIAL_REDUCTIONS:
                reduce_single_row(kernel, x, out)
                return out
        elif (
            outer == 1
            and inner > MAX_COLUMNS_IN_ONE_PART
            and kernel not in ("all", "any")
            and x.dtype not in COMPLEX
        ):
            places = (x, 1), (out, 1)
            run_over_items(
                x,
                pitched_names[x.dtype],
                inner,
                places,
                *(length, inner),
                work=x.size,
                part_size_multiple=PART_MULTIPLE_ELEMENTS,
            )
            return out
        places = (x, length * inner), (out, inner)
        run_over_items(x, names[x.dtype], outer, places, length, inner, work=x.size)
        return out

    return reduce_axes


ROW_PART_ELEMENTS: Final = 1 << 17
"""The number of elements of a long row that are reduced at a time, as in csrc/reduction.c."""
MAX_COLUMNS_IN_ONE_PART: Final = 16
"""The maximum columns of a matrix that threads do not share: C reduces several rows of so few at a time."""
PARTIAL_REDUCTIONS: Final = {"sum": "sum", "mean": "sum", "prod": "prod"}
"""The reduction of the parts of a long row of floats, in double precision, by the name of the whole reduction."""


def reduce_single_row(kernel: str, x: WasmArray, out: WasmArray) -> None:
    """Write the reduction of all elements, by the name of its kernel, to `out`, in parts that threads share."""
    name, size = PARTIAL_REDUCTIONS[kernel], x.size
    count = -(-size // ROW_PART_ELEMENTS)
    totals = x.memory.empty((count,), float64)
    length = choose_items_per_part(x.memory.store, count, size, ELEMENTWISE_PART_STEPS)
    chains: list[CallChain] = []
    for first in range(0, count, length):
        start = first * ROW_PART_ELEMENTS
        source = x.address + start * x.dtype.itemsize
        target = totals.address + first * totals.dtype.itemsize
        chains.append([(source, target, min(length * ROW_PART_ELEMENTS, size - start))])
    run_call_chains(x, f"{name}_parts_{x.dtype}", chains, (x, totals), size)
    divisor = size if kernel == "mean" else 1
    select_export(x, f"{name}_total_{x.dtype}", count)(totals.address, out.address, count, divisor)


def declare_adjacent_reduction(kernel: str) -> Callable[..., WasmArray]:
    """Return a reduction for any axes, by the name of its kernel, that makes axes adjacent by a transposition."""
    function = make_reduction(kernel)

    def implementation(x: WasmArray, *, axis: Axes, keep_dims: bool) -> WasmArray:
        """Return the reduction of x along axes."""
        if len(group_adjacent_axes(axis)) == 1:
            return function(x, axis=axis, keep_dims=keep_dims)
        kept = tuple([i for i in range(len(x.shape)) if i not in axis])
        moved = transpose(x, perm=(*kept, *axis))
        last = tuple(range(len(kept), len(x.shape)))
        out = function(moved, axis=last, keep_dims=False)
        return WasmView(out, reduced_shape(x.shape, axis, keep_dims))

    return implementation


max_over_axes: Final = make_reduction("max")
"""The function that returns maxima along axes."""
sum_over_axes: Final = make_reduction("sum")
"""The function that returns sums along axes; halves are summed in float32, and rounded once."""


@table.implements(reduction.max)
def max(x: WasmArray, *, reduction_indices: Axes, keep_dims: bool) -> WasmArray:
    """Return the maxima along axes."""
    return max_over_axes(x, axis=reduction_indices, keep_dims=keep_dims)


def make_arg_reduction(kernel: str) -> Callable[..., WasmArray]:
    """Return the implementation of `argmax` or `argmin`, given by name, by its exports."""
    names = ExportNames(kernel)

    def implementation(x: WasmArray, *, axis: int) -> WasmArray:
        """Return the index of the first extreme value along an axis."""
        out = x.memory.empty(reduced_shape(x.shape, (axis,), keep_dims=False), int32)
        outer, length, inner = plan_adjacent_reduction(x.shape, (axis,))
        places = (x, length * inner), (out, inner)
        run_over_items(x, names[x.dtype], outer, places, length, inner, work=x.size)
        return out

    return implementation


@table.implements(reduction.bincount)
def bincount(x: WasmArray, weights: WasmArray | None, *, size: int) -> WasmArray:
    """Return how often each integer from 0 to size - 1 occurs in x, or the sum of the weights where it does."""
    return count_values_in_bins(x, weights, (size,))


@table.implements(reduction.dense_bincount)
def dense_bincount(
    x: WasmArray, weights: WasmArray | None, *, size: int, binary_output: bool
) -> WasmArray:
    """Return counts, or sums of weights, of each integer below `size` in each row, or whether it occurs."""
    shape = (*x.shape[:-1], size)
    if not binary_output:
        return count_values_in_bins(x, weights, shape)
    found = count_values_in_bins(x, None, shape, is_binary=True)
    return found if weights is None else cast(found, dtype=weights.dtype)


def count_values_in_bins(
    x: WasmArray, weights: WasmArray | None, shape: Axes, *, is_binary: bool = False
) -> WasmArray:
    """Return how often each integer occurs, or sums of weights; bins are the last axis of `shape`."""
    ids = as_int32_positions(x)
    batch, size = count_elements(shape[:-1]), shape[-1]
    if weights is not None:
        return compute_segment_sums(weights, ids, shape, size, batch)
    out = x.memory.empty(shape, int32)
    count = ids.size // (batch or 1)
    places = (ids, count), (out, size)
    run_over_items(x, "count_ids", batch, places, count, size, is_binary, work=ids.size + out.size)
    return out


table.update(
    {
        reduction.sum: sum_over_axes,
        reduction.prod: make_reduction("prod"),
        reduction.mean: make_reduction("mean"),
        reduction.variance: declare_adjacent_reduction("variance"),
        reduction.euclidean_norm: declare_adjacent_reduction("norm"),
        reduction.min: make_reduction("min"),
        reduction.all: make_reduction("all"),
        reduction.any: make_reduction("any"),
        reduction.argmax: make_arg_reduction("argmax"),
        reduction.argmin: make_arg_reduction("argmin"),
    }
)
