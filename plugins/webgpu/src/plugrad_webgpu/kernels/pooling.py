"""Pooling over windows of images (batch, spatial axes …, channels)."""

from __future__ import annotations

import math
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from plugrad.extend import count_elements, float32, int8, int16, int32, int64, uint8, uint16, uint32
from plugrad.kernels import pooling
from plugrad_webgpu.algorithms.expressions import elementwise
from plugrad_webgpu.algorithms.windows import (
    MAX_SPATIAL_AXES,
    SUM_INITIAL_STATEMENT,
    WindowReduction,
    reduce_covering_windows,
    reduce_each_window,
    select_window_axes,
    split_window,
)
from plugrad_webgpu.declare import table
from plugrad_webgpu.kernels.binary import MAXIMUM_EXPRESSIONS, add
from plugrad_webgpu.memory.buffers import reinterpret
from plugrad_webgpu.shaders.elements import NUMBER_DTYPES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from plugrad.extend import DType, Shape, Window
    from plugrad_webgpu.memory.buffers import GpuArray

WindowPartAndInputs = tuple["Window", tuple["GpuArray", ...]]
"""A part of a window, and the inputs of the reduction over it."""

LOWEST_VALUE_WGSL = {
    float32: "-infinity()",
    int32: "bitcast<i32>(0x80000000u)",
    uint32: "0u",
    int8: "-128",
    int16: "-32768",
    uint8: "0u",
    uint16: "0u",
    int64: "vec2u(0u, 0x80000000u)",
}
"""The WGSL of the value that is not larger than any other one, by dtype."""
IS_LARGER_EXPRESSIONS = dict.fromkeys(LOWEST_VALUE_WGSL, "(value > best)") | {
    int64: "is_less_i64(best, value)"
}
"""The WGSL comparison of `value` with the `best` one before it, by dtype."""


def make_maximum_reductions(
    value_expressions: Mapping[DType, str], *input_names: str
) -> dict[DType, WindowReduction]:
    """Return by dtype the window reduction that finds the maximum of a window; NaN if it contains NaN."""
    larger = IS_LARGER_EXPRESSIONS | {float32: "(value > best) | are_nan(value)"}
    return {
        dtype: WindowReduction(
            f"var best = Element({LOWEST_VALUE_WGSL[dtype]});",
            f"let value = {value}; best = select(best, value, {larger[dtype]});",
            "best",
            input_names,
        )
        for dtype, value in value_expressions.items()
    }


def make_argmax_reductions(
    value_expressions: Mapping[DType, str],
    is_larger_expressions: Mapping[DType, str],
    *input_names: str,
) -> dict[DType, WindowReduction]:
    """Return by dtype the window reduction that finds the index of the first maximum of a window; -1 without one."""
    return {
        dtype: WindowReduction(
            "var best = Element(); var found = Integers(-1);",
            f"let value = {value}; let is_better = (found < Integers()) | {is_larger_expressions[dtype]};"
            " best = select(best, value, is_better);"
            " found = select(found, positions(at, image), is_better);",
            "found",
            input_names,
        )
        for dtype, value in value_expressions.items()
    }


def make_gradient_reductions(gradient_expression: str) -> dict[DType, WindowReduction]:
    """Return by dtype the window reduction that sums WGSL in the gradients `dy` and the `found` indices of maxima."""
    steps = dict.fromkeys(NUMBER_DTYPES, f"sum += {gradient_expression};") | {
        int64: f"sum = sum_i64(sum, {gradient_expression});"
    }
    return {
        dtype: WindowReduction(SUM_INITIAL_STATEMENT, step, "sum", ("dy", "found"), "found")
        for dtype, step in steps.items()
    }


PIXEL_EXPRESSIONS_BY_DTYPE = dict.fromkeys(LOWEST_VALUE_WGSL, "input[at]")
"""The WGSL that reads the pixel under a cell of a window."""
IS_LARGER_OR_NAN_WGSL = "(value > best) | (are_nan(value) & !are_nan(best))"
"""The WGSL comparison in which NaN is larger than any number."""
MAXIMUM_REDUCTIONS_BY_DTYPE = make_maximum_reductions(PIXEL_EXPRESSIONS_BY_DTYPE, "input")
"""The window reductions that find the largest pixel of a window."""
ARGMAX_REDUCTIONS_BY_DTYPE = make_argmax_reductions(
    PIXEL_EXPRESSIONS_BY_DTYPE, IS_LARGER_EXPRESSIONS | {float32: IS_LARGER_OR_NAN_WGSL}, "input"
)
"""The window reductions that find the index of the largest pixel of a window."""
MAXIMUM_GRADIENT_REDUCTIONS_BY_DTYPE = make_gradient_reductions(
    "select(Element(), dy[at], found[at] == own)"
)
"""The window reductions that sum the gradients of windows whose maximum is at a pixel."""
AVERAGE_WINDOW_REDUCTION = WindowReduction(
    SUM_INITIAL_STATEMENT, "sum += input[at];", "sum / f32(inside)", ("input",)
)
"""The reduction that averages the pixels of a window, without padding."""
SUM_WINDOW_REDUCTION = WindowReduction(
    SUM_INITIAL_STATEMENT, "sum += input[at];", "sum", ("input",)
)
"""The reduction that sums the pixels of a window."""
AVERAGE_GRADIENT_WINDOW_REDUCTION = WindowReduction(
    SUM_INITIAL_STATEMENT, "sum += dy[at] / f32(inside);", "sum", ("dy",)
)
"""The reduction that sums, for a pixel, its share of the gradients of averages."""
SUM_GRADIENT_WINDOW_REDUCTION = WindowReduction(
    SUM_INITIAL_STATEMENT, "sum += dy[at];", "sum", ("dy",)
)
"""The reduction that sums, for a pixel, the gradients of sums."""

_maximum_kernel = elementwise(MAXIMUM_EXPRESSIONS, ("a", "b"))
"""The elementwise kernel that returns the larger elements of two arrays."""
_division_kernel = elementwise("a / b", ("a", "b"))
"""The elementwise kernel that divides two arrays."""
_first_maximum_kernel = elementwise(
    {
        dtype: f"select(found, place, place >= 0 && (found < 0 || {larger}))"
        for dtype, larger in (
            IS_LARGER_EXPRESSIONS | {float32: "value > best || (is_nan(value) && !is_nan(best))"}
        ).items()
    },
    ("found", "place", "best", "value"),
    result=int32,
)
"""The elementwise kernel that keeps the index of the larger of two maxima, of equal ones the first."""


def max_pool(x: GpuArray, *, window: Window) -> GpuArray:
    """Return the maximum of each window; NaN if it contains NaN."""
    return window_maximum(x, window)


def max_pool_gradient(
    dy: GpuArray, input: GpuArray, output: GpuArray, *, window: Window
) -> GpuArray:
    """Return `dy` at the first maximum of each window."""
    inputs = dy, window_argmax(input, window)
    return sum_over_pieces(
        MAXIMUM_GRADIENT_REDUCTIONS_BY_DTYPE[dy.dtype], inputs, window, input.shape
    )


def avg_pool(x: GpuArray, *, window: Window) -> GpuArray:
    """Return the average of each window, over the cells that are not padding."""
    return window_average(x, window)


def avg_pool_gradient(dy: GpuArray, input: GpuArray, *, window: Window) -> GpuArray:
    """Return `dy` distributed evenly over each window."""
    if len(split_window(window, input.shape[1:-1], "stops")) == 1:
        return reduce_covering_windows(
            AVERAGE_GRADIENT_WINDOW_REDUCTION, (dy,), window, input.shape
        )
    shares = _division_kernel(dy, count_valid_cells(dy, window, input.shape[1:-1]))
    return sum_over_pieces(SUM_GRADIENT_WINDOW_REDUCTION, (shares,), window, input.shape)


@table.implements(pooling.max_pool_with_argmax)
def max_pool_with_argmax(
    x: GpuArray, *, window: Window, include_batch_in_index: bool
) -> tuple[GpuArray, GpuArray]:
    """Return the maximum of each window and the index of its first cell; NaN counts as the maximum."""
    positions_per_image = 0 if include_batch_in_index else math.prod(x.shape[1:])
    return window_maximum(x, window), window_argmax(x, window, positions_per_image)


@table.implements(pooling.pool)
def pool(input: GpuArray, *, window: Window, pooling_type: pooling.PoolingType) -> GpuArray:
    """Return the maxima or the averages of dilated windows."""
    return window_maximum(input, window) if pooling_type == "max" else window_average(input, window)


def window_maximum(x: GpuArray, window: Window) -> GpuArray:
    """Return the maximum of each window."""

    def pool_up_to_three_axes(x: GpuArray, window: Window) -> GpuArray:
        """Return the maximum of each window over up to three axes."""
        return max_over_parts(MAXIMUM_REDUCTIONS_BY_DTYPE[x.dtype], split_windows(x, window))

    return pool_all_axes(pool_up_to_three_axes, x, window)


def window_average(x: GpuArray, window: Window) -> GpuArray:
    """Return the average over those cells of each window that lie in the image."""

    def pool_up_to_three_axes(x: GpuArray, window: Window) -> GpuArray:
        """Return the average of each window over up to three axes."""
        size = x.shape[1:-1]
        if len(split_window(window, size, "cells")) == 1:
            return reduce_each_window(AVERAGE_WINDOW_REDUCTION, (x,), window, x.dtype)
        return _division_kernel(window_sums(x, window), count_valid_cells(x, window, size))

    return pool_all_axes(pool_up_to_three_axes, x, window)


def window_sums(x: GpuArray, window: Window) -> GpuArray:
    """Return the sum of each window over up to three axes."""
    parts = split_window(window, x.shape[1:-1], "cells")
    return reduce(
        add, (reduce_each_window(SUM_WINDOW_REDUCTION, (x,), part, x.dtype) for part in parts)
    )


def sum_over_pieces(
    reduction: WindowReduction, inputs: tuple[GpuArray, ...], window: Window, image_shape: Shape
) -> GpuArray:
    """Return images of which each element is a sum over the windows that cover it."""
    parts = split_window(window, image_shape[1:-1], "stops")
    return reduce(
        add, (reduce_covering_windows(reduction, inputs, part, image_shape) for part in parts)
    )


def split_windows(x: GpuArray, window: Window) -> list[WindowPartAndInputs]:
    """Return the parts into which a window is split, each with the images as its input."""
    return [(part, (x,)) for part in split_window(window, x.shape[1:-1], "cells")]


def max_over_parts(
    maximum_reduction: WindowReduction, parts: list[WindowPartAndInputs]
) -> GpuArray:
    """Return the maximum of each window from the maxima of its parts."""
    found = (
        reduce_each_window(maximum_reduction, inputs, part, inputs[0].dtype)
        for part, inputs in parts
    )
    return reduce(_maximum_kernel, found)


def argmax_over_parts(
    argmax_reduction: WindowReduction,
    maximum_reduction: WindowReduction,
    parts: list[WindowPartAndInputs],
    positions_per_image: int = 0,
) -> GpuArray:
    """Return the index, in the image or the batch, of the first maximum of windows split into parts; -1 without one."""
    (window, inputs), *rest = parts
    found = reduce_each_window(argmax_reduction, inputs, window, int32, positions_per_image)
    if rest:
        best = max_over_parts(maximum_reduction, parts[:1])
        for window, inputs in rest:
            place = reduce_each_window(argmax_reduction, inputs, window, int32, positions_per_image)
            value = max_over_parts(maximum_reduction, [(window, inputs)])
            found, best = (
                _first_maximum_kernel(found, place, best, value),
                _maximum_kernel(best, value),
            )
    return found


def window_argmax(x: GpuArray, window: Window, positions_per_image: int = 0) -> GpuArray:
    """Return the index of the first maximum of each window, in the image or in the batch; -1 without one."""
    parts = split_windows(x, window)
    return argmax_over_parts(
        ARGMAX_REDUCTIONS_BY_DTYPE[x.dtype],
        MAXIMUM_REDUCTIONS_BY_DTYPE[x.dtype],
        parts,
        positions_per_image,
    )


def count_valid_cells(x: GpuArray, window: Window, image_size: Shape) -> GpuArray:
    """Return how many cells of each window lie in the image, on the device of x."""
    before = (start for start, _ in window.padding)
    numbers = (*image_size, *window.out, *before, *window.size, *window.strides, *window.dilations)
    return x.buffer.device.constant(_compute_valid_cell_counts, *numbers)


def _compute_valid_cell_counts(*window_numbers: int) -> NDArray[np.float32]:
    """Return valid cell counts, given sizes, outputs, paddings, cells, strides and dilations, each of all axes."""
    counts = np.ones((1,), np.float32)
    for n, out, before, cells, stride, dilation in np.reshape(window_numbers, (6, -1)).T:
        starts = np.arange(out, dtype=np.int64) * stride - before
        ends = np.minimum(-((starts - n) // dilation), cells)  # cells before the image's end
        along_axis = ends - np.maximum(-(starts // dilation), 0)
        counts = counts[..., None] * np.maximum(along_axis, 0).astype(np.float32)
    return counts[..., None]


def pool_all_axes(
    pool_few_axes: Callable[[GpuArray, Window], GpuArray], x: GpuArray, window: Window
) -> GpuArray:
    """Return maxima or averages of windows over any number of axes, by a function for up to three axes.

    A window over many axes or of many cells is summarized along the last axes, and then along the others,
    because the largest element and the average of a box are those of its slices.
    """
    batch, size, channels = x.shape[0], x.shape[1:-1], x.shape[-1]
    rest = len(size) - MAX_SPATIAL_AXES
    if rest <= 0:
        if len(size) == 1 or len(split_window(window, size, "cells")) == 1:
            return pool_few_axes(x, window)
        rest = len(size) - 1
    slices = reinterpret(x, (batch * count_elements(size[:rest]), *size[rest:], channels))
    y = pool_all_axes(pool_few_axes, slices, select_window_axes(window, slice(rest, None)))
    merged = reinterpret(y, (batch, *size[:rest], count_elements(window.out[rest:]) * channels))
    y = pool_all_axes(pool_few_axes, merged, select_window_axes(window, slice(rest)))
    return reinterpret(y, (batch, *window.out, channels))


table.update(
    {
        pooling.max_pool: max_pool,
        pooling.max_pool_gradient: max_pool_gradient,
        pooling.avg_pool: avg_pool,
        pooling.avg_pool_gradient: avg_pool_gradient,
    }
)
