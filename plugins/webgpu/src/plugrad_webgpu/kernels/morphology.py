"""Grayscale morphology: the largest sums of pixels and weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugrad.extend import int8, int16, int64, uint8, uint16
from plugrad.kernels import morphology
from plugrad_webgpu.algorithms.windows import reduce_to_filter_gradient, split_filter
from plugrad_webgpu.declare import table
from plugrad_webgpu.kernels.pooling import (
    IS_LARGER_EXPRESSIONS,
    MAXIMUM_GRADIENT_REDUCTIONS_BY_DTYPE,
    argmax_over_parts,
    make_argmax_reductions,
    make_gradient_reductions,
    make_maximum_reductions,
    max_over_parts,
    sum_over_pieces,
)
from plugrad_webgpu.kernels.unary import cast
from plugrad_webgpu.memory.buffers import as_words
from plugrad_webgpu.shaders.elements import NUMBER_DTYPES

if TYPE_CHECKING:
    from plugrad.extend import Window
    from plugrad_webgpu.kernels.pooling import WindowPartAndInputs
    from plugrad_webgpu.memory.buffers import GpuArray

SUM_EXPRESSIONS = dict.fromkeys(NUMBER_DTYPES, "input[at] + filters[weight]") | {
    int8: "((input[at] + filters[weight]) << Bits(24u)) >> Bits(24u)",
    int16: "((input[at] + filters[weight]) << Bits(16u)) >> Bits(16u)",
    uint8: "(input[at] + filters[weight]) & Bits(0xffu)",
    uint16: "(input[at] + filters[weight]) & Bits(0xffffu)",
    int64: "sum_i64(input[at], filters[weight])",
}
"""The WGSL sum of a pixel and a weight of the filter, by dtype."""
MAXIMUM_REDUCTIONS_BY_DTYPE = make_maximum_reductions(SUM_EXPRESSIONS, "input", "filters")
"""The window reductions that find the largest sum in a window."""
ARGMAX_REDUCTIONS_BY_DTYPE = make_argmax_reductions(
    SUM_EXPRESSIONS, IS_LARGER_EXPRESSIONS, "input", "filters"
)
"""The window reductions that find the index of the pixel with the largest sum."""
FILTER_GRADIENT_REDUCTIONS_BY_DTYPE = make_gradient_reductions(
    "select(Element(), dy[stop], found[stop] == positions(at, image))"
)
"""The window reductions that sum the gradients of windows whose maximum is at a cell."""


@table.implements(morphology.dilation2d)
def dilation2d(x: GpuArray, filter: GpuArray, *, window: Window) -> GpuArray:
    """Return the maximum of window plus filter at each position."""
    return max_over_parts(MAXIMUM_REDUCTIONS_BY_DTYPE[x.dtype], split_windows(x, filter, window))


@table.implements(morphology.dilation2d_input_gradient)
def dilation2d_input_gradient(
    x: GpuArray, filter: GpuArray, dy: GpuArray, *, window: Window
) -> GpuArray:
    """Return dy added at the pixel of each window that has the first maximum."""
    added = as_words(dy)
    inputs = added, dilation_argmax(x, filter, window)
    total = sum_over_pieces(
        MAXIMUM_GRADIENT_REDUCTIONS_BY_DTYPE[added.dtype], inputs, window, x.shape
    )
    return cast(total, dtype=dy.dtype)


@table.implements(morphology.dilation2d_filter_gradient)
def dilation2d_filter_gradient(
    x: GpuArray, filter: GpuArray, dy: GpuArray, *, window: Window
) -> GpuArray:
    """Return the sums of dy at the cell of the filter that has the first maximum."""
    added = as_words(dy)
    inputs = added, dilation_argmax(x, filter, window)
    total = reduce_to_filter_gradient(
        FILTER_GRADIENT_REDUCTIONS_BY_DTYPE[added.dtype], inputs, window, x.shape
    )
    return cast(total, dtype=dy.dtype)


def dilation_argmax(x: GpuArray, filter: GpuArray, window: Window) -> GpuArray:
    """Return the flat index of the pixel with the first maximum of each window."""
    parts = split_windows(x, filter, window)
    return argmax_over_parts(
        ARGMAX_REDUCTIONS_BY_DTYPE[x.dtype], MAXIMUM_REDUCTIONS_BY_DTYPE[x.dtype], parts
    )


def split_windows(x: GpuArray, filter: GpuArray, window: Window) -> list[WindowPartAndInputs]:
    """Return the parts into which a window is split, each with the images and its part of the filter."""
    parts = split_filter(filter, window, x.shape[1:-1], "cells")
    return [(part, (x, own)) for part, own in parts]
