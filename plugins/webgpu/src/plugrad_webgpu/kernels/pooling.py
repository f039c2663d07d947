"""Pooling over windows of images (batch, spatial axes …, channels)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from plugrad.extend import float32, int8, int32, int64, pool_window, size_of, uint8, uint32
from plugrad.kernels import pooling
from plugrad_webgpu.buffers import shared
from plugrad_webgpu.declare import table
from plugrad_webgpu.elements import NUMBERS
from plugrad_webgpu.windows import MOST_AXES, SUM, Fold, along, over_cells, over_stops

if TYPE_CHECKING:
    from collections.abc import Mapping

    from plugrad.extend import DType, Padding, Pair, Rounding, Shape, Window
    from plugrad_webgpu.buffers import GpuArray

LEAST = {
    float32: "-infinity()",
    int32: "bitcast<i32>(0x80000000u)",
    uint32: "0u",
    int8: "-128",
    uint8: "0u",
    int64: "vec2u(0u, 0x80000000u)",
}
IS_LARGER = dict.fromkeys(LEAST, "(value > best)") | {int64: "is_less_i64(best, value)"}


def largest_of(values: Mapping[DType, str], *inputs: str) -> dict[DType, Fold]:
    """Return how to find the largest value of a window of the inputs, by dtype: NaN if there is one."""
    larger = IS_LARGER | {float32: "(value > best) | are_nan(value)"}
    return {
        dtype: Fold(
            f"var best = Element({LEAST[dtype]});",
            f"let value = {value}; best = select(best, value, {larger[dtype]});",
            "best",
            inputs,
        )
        for dtype, value in values.items()
    }


def first_largest_of(
    values: Mapping[DType, str], is_larger: Mapping[DType, str], *inputs: str
) -> dict[DType, Fold]:
    """Return how to find the position of the first largest value of a window of the inputs; -1 without one."""
    return {
        dtype: Fold(
            "var best = Element(); var found = Integers(-1);",
            f"let value = {value}; let is_better = (found < Integers()) | {is_larger[dtype]};"
            " best = select(best, value, is_better);"
            " found = select(found, positions(at, image), is_better);",
            "found",
            inputs,
        )
        for dtype, value in values.items()
    }


def sums_of(value: str) -> dict[DType, Fold]:
    """Return how to add up a `value` of the gradients dy and of the positions found, by dtype."""
    steps = dict.fromkeys(NUMBERS, f"sum += {value};") | {int64: f"sum = sum_i64(sum, {value});"}
    return {
        dtype: Fold(SUM, step, "sum", ("dy", "found"), "found") for dtype, step in steps.items()
    }


PIXELS = dict.fromkeys(LEAST, "input[at]")
LARGER_OR_NAN = "(value > best) | (are_nan(value) & !are_nan(best))"
LARGEST = largest_of(PIXELS, "input")
FIRST_LARGEST = first_largest_of(PIXELS, IS_LARGER | {float32: LARGER_OR_NAN}, "input")
AT_THE_LARGEST = sums_of("select(Element(), dy[at], found[at] == own)")
AVERAGE = Fold(SUM, "sum += input[at];", "sum / f32(inside)", ("input",))
SHARES = Fold(SUM, "sum += dy[at] / f32(inside);", "sum", ("dy",))


def max_pool(
    x: GpuArray, *, filter_size: Shape, strides: Shape, pad: Padding, dim_rounding_mode: Rounding
) -> GpuArray:
    """Return the largest element of each window; NaN if the window contains NaN."""
    return largest(x, pool_window(x.shape, filter_size, strides, pad, dim_rounding_mode))


def max_pool_gradient(
    dy: GpuArray,
    input: GpuArray,
    output: GpuArray,
    *,
    filter_size: Shape,
    strides: Shape,
    pad: Padding,
    dim_rounding_mode: Rounding,
) -> GpuArray:
    """Return the gradient for the images: that of each window goes to its first largest element."""
    window = pool_window(input.shape, filter_size, strides, pad, dim_rounding_mode)
    found = over_cells(FIRST_LARGEST[input.dtype], (input,), window, int32)
    return over_stops(AT_THE_LARGEST[dy.dtype], (dy, found), window, input.shape)


def avg_pool(
    x: GpuArray, *, filter_size: Shape, strides: Shape, pad: Padding, dim_rounding_mode: Rounding
) -> GpuArray:
    """Return the average of each window, over the cells that are not padding."""
    return average(x, pool_window(x.shape, filter_size, strides, pad, dim_rounding_mode))


def avg_pool_gradient(
    dy: GpuArray,
    input: GpuArray,
    *,
    filter_size: Shape,
    strides: Shape,
    pad: Padding,
    dim_rounding_mode: Rounding,
) -> GpuArray:
    """Return the gradient for the images: that of each window is spread evenly over its cells."""
    window = pool_window(input.shape, filter_size, strides, pad, dim_rounding_mode)
    return over_stops(SHARES, (dy,), window, input.shape)


@table.implements(pooling.max_pool_with_argmax)
def max_pool_with_argmax(
    x: GpuArray, *, filter_size: Pair, strides: Pair, pad: Padding, include_batch_in_index: bool
) -> tuple[GpuArray, GpuArray]:
    """Return the largest elements and the position of the first cell with each; NaN is the largest."""
    window = pool_window(x.shape, filter_size, strides, pad)
    image_step = 0 if include_batch_in_index else math.prod(x.shape[1:])
    y = largest(x, window)
    return y, over_cells(FIRST_LARGEST[x.dtype], (x,), window, int32, image_step)


@table.implements(pooling.pool)
def pool(
    input: GpuArray,
    *,
    window_shape: Shape,
    pooling_type: pooling.PoolingType,
    pad: Padding,
    dilations: Shape,
    strides: Shape,
    dim_rounding_mode: Rounding,
) -> GpuArray:
    """Return the largest elements or the averages of windows of dilated cells."""
    window = pool_window(input.shape, window_shape, strides, pad, dim_rounding_mode, dilations)
    return largest(input, window) if pooling_type == "max" else average(input, window)


def largest(x: GpuArray, window: Window) -> GpuArray:
    """Return the largest element of each window."""
    return summary(LARGEST[x.dtype], x, window)


def average(x: GpuArray, window: Window) -> GpuArray:
    """Return the average over the cells of each window that lie in the image."""
    return summary(AVERAGE, x, window)


def summary(fold: Fold, x: GpuArray, window: Window) -> GpuArray:
    """Return the largest elements or the averages of windows over any number of axes.

    A window over many axes is summarized along the last three, and then along the others, because
    the largest element and the average of a box are those of its slices.
    """
    batch, size, channels = x.shape[0], x.shape[1:-1], x.shape[-1]
    rest = len(size) - MOST_AXES
    if rest <= 0:
        return over_cells(fold, (x,), window, x.dtype)
    slices = shared(x, (batch * size_of(size[:rest]), *size[rest:], channels))
    y = summary(fold, slices, along(window, slice(rest, None)))
    merged = shared(y, (batch, *size[:rest], size_of(window.out[rest:]) * channels))
    y = summary(fold, merged, along(window, slice(rest)))
    return shared(y, (batch, *window.out, channels))


table.update(
    {
        pooling.max_pool: max_pool,
        pooling.max_pool_gradient: max_pool_gradient,
        pooling.avg_pool: avg_pool,
        pooling.avg_pool_gradient: avg_pool_gradient,
    }
)
