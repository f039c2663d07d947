"""Kernels that reduce arrays along axes, or count their elements in bins."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from plugrad.extend import bool_, complex64, float32, int32, int64, uint32
from plugrad.kernels import reduction as contracts
from plugrad_webgpu.algorithms.product import sum_over_axes
from plugrad_webgpu.algorithms.reduce import arg_reduction, reduction
from plugrad_webgpu.declare import table
from plugrad_webgpu.kernels.binary import (
    MAXIMUM_EXPRESSIONS,
    MINIMUM_EXPRESSIONS,
    PRODUCT_EXPRESSIONS,
)
from plugrad_webgpu.kernels.indexing import (
    SUMMABLE_DTYPES,
    as_32_bit_indices,
    count_labels,
    sum_segments,
)
from plugrad_webgpu.kernels.unary import cast
from plugrad_webgpu.memory.buffers import as_complex, as_float_pairs
from plugrad_webgpu.shaders.elements import (
    HIGHEST_VALUES_BY_DTYPE,
    LOWEST_VALUES_BY_DTYPE,
    require_dtype,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad.extend import Kernel, Shape
    from plugrad_webgpu.memory.buffers import GpuArray


def with_complex_parts(reduce: Callable[..., GpuArray]) -> Callable[..., GpuArray]:
    """Return a reduction that also takes complex numbers and reduces their parts separately."""

    def reduce_any(x: GpuArray, axes: tuple[int, ...], keep_dims: bool) -> GpuArray:
        """Return an array of real or complex numbers reduced over axes."""
        if x.dtype != complex64:
            return reduce(x, axes, keep_dims)
        return as_complex(reduce(as_float_pairs(x), axes, keep_dims))

    return reduce_any


AXIS_REDUCTIONS = {
    contracts.sum: with_complex_parts(sum_over_axes),
    contracts.prod: reduction(PRODUCT_EXPRESSIONS, dict.fromkeys(PRODUCT_EXPRESSIONS, 1)),
    contracts.mean: with_complex_parts(
        reduction("a + b", {float32: 0}, finish="value / parameters.divisor")
    ),
    contracts.min: reduction(
        MINIMUM_EXPRESSIONS,
        {dtype: HIGHEST_VALUES_BY_DTYPE[dtype] for dtype in MINIMUM_EXPRESSIONS},
    ),
    contracts.all: reduction("a & b", {bool_: 1}),
    contracts.any: reduction("a | b", {bool_: 0}),
}
"""The functions that reduce an array over axes, by kernel."""
max_along: Final = reduction(
    MAXIMUM_EXPRESSIONS, {dtype: LOWEST_VALUES_BY_DTYPE[dtype] for dtype in MAXIMUM_EXPRESSIONS}
)
"""The function that finds the maximum of an array over axes; NaN if there is one."""


def declare_reduction(kernel: Kernel[..., object], reduce: Callable[..., GpuArray]) -> None:
    """Declare a function that reduces an array over axes as the implementation of a kernel."""

    @table.implements(kernel)
    def implementation(x: GpuArray, *, axis: tuple[int, ...], keep_dims: bool) -> GpuArray:
        return reduce(x, axis, keep_dims)


for _contract, _function in AXIS_REDUCTIONS.items():
    declare_reduction(_contract, _function)


@table.implements(contracts.max)
def max(x: GpuArray, *, reduction_indices: tuple[int, ...], keep_dims: bool) -> GpuArray:
    """Return the maximum along the axes; NaN if there is one."""
    return max_along(x, reduction_indices, keep_dims)


def make_arg_reduction(operator: str, int64_comparison: str) -> Callable[[GpuArray, int], GpuArray]:
    """Return a function that finds the first extreme element's index by WGSL comparisons; NaN counts as extreme."""
    ordered = f"value {operator} best"
    return arg_reduction(
        {
            float32: f"!is_nan(best) && (is_nan(value) || {ordered})",
            int32: ordered,
            uint32: ordered,
            int64: int64_comparison,
        }
    )


argmax_along: Final = make_arg_reduction(">", "is_less_i64(best, value)")
"""The function that finds the index of the first maximum along an axis."""
argmin_along: Final = make_arg_reduction("<", "is_less_i64(value, best)")
"""The function that finds the index of the first minimum along an axis."""


@table.implements(contracts.argmax)
def argmax(x: GpuArray, *, axis: int) -> GpuArray:
    """Return the index of the first maximum."""
    return argmax_along(x, axis)


@table.implements(contracts.argmin)
def argmin(x: GpuArray, *, axis: int) -> GpuArray:
    """Return the index of the first minimum."""
    return argmin_along(x, axis)


@table.implements(contracts.bincount)
def bincount(x: GpuArray, weights: GpuArray | None, *, size: int) -> GpuArray:
    """Return how often each number below `size` occurs in x, or the sums of its weights."""
    return count_in_bins(x, weights, (size,))


@table.implements(contracts.dense_bincount)
def dense_bincount(
    x: GpuArray, weights: GpuArray | None, *, size: int, binary_output: bool
) -> GpuArray:
    """Return how often each number below `size` occurs in each row of x, or whether it occurs."""
    shape = (*x.shape[:-1], size)
    if not binary_output:
        return count_in_bins(x, weights, shape)
    found = count_in_bins(x, None, shape, is_binary=True)
    return found if weights is None else cast(found, dtype=weights.dtype)


def count_in_bins(
    x: GpuArray, weights: GpuArray | None, shape: Shape, *, is_binary: bool = False
) -> GpuArray:
    """Return counts or sums of weights in bins, which are the last axis of `shape`."""
    x = as_32_bit_indices(x, "webgpu, for the numbers of bins,")
    rows, size = math.prod(shape[:-1]), shape[-1]
    if weights is not None:
        require_dtype(weights.dtype, SUMMABLE_DTYPES, "the weights of webgpu's bins")
        return sum_segments(weights, x, shape, size, rows)
    return count_labels(x, shape, size, rows, is_binary=is_binary)
