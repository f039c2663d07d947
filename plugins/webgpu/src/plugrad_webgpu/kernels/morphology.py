"""Grayscale morphology: the largest sums of pixels and weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugrad.extend import int8, int16, int64, uint8, uint16
from plugrad.kernels import morphology
from plugrad_webgpu.algorithms.windows import fold_filter_gradient, split_filter
from plugrad_webgpu.declare import table
from plugrad_webgpu.kernels.pooling import (
    AT_THE_LARGEST,
    IS_LARGER,
    argmax_fold,
    gradient_fold,
    max_fold,
    reduce_argmax_parts,
    reduce_max_parts,
    sum_over_pieces,
)
from plugrad_webgpu.kernels.unary import cast
from plugrad_webgpu.memory.buffers import as_words
from plugrad_webgpu.shaders.elements import NUMBERS

if TYPE_CHECKING:
    from plugrad.extend import Window
    from plugrad_webgpu.kernels.pooling import Part
    from plugrad_webgpu.memory.buffers import GpuArray

SUMS = dict.fromkeys(NUMBERS, "input[at] + filters[weight]") | {
    int8: "((input[at] + filters[weight]) << Bits(24u)) >> Bits(24u)",
    int16: "((input[at] + filters[weight]) << Bits(16u)) >> Bits(16u)",
    uint8: "(input[at] + filters[weight]) & Bits(0xffu)",
    uint16: "(input[at] + filters[weight]) & Bits(0xffffu)",
    int64: "sum_i64(input[at], filters[weight])",
}
LARGEST = max_fold(SUMS, "input", "filters")
FIRST_LARGEST = argmax_fold(SUMS, IS_LARGER, "input", "filters")
FOR_THE_LARGEST = gradient_fold("select(Element(), dy[stop], found[stop] == positions(at, image))")


@table.implements(morphology.dilation2d)
def dilation2d(x: GpuArray, filter: GpuArray, *, window: Window) -> GpuArray:
    """Return the maximum of window plus filter at each position."""
    return reduce_max_parts(LARGEST[x.dtype], split_windows(x, filter, window))


@table.implements(morphology.dilation2d_input_gradient)
def dilation2d_input_gradient(
    x: GpuArray, filter: GpuArray, dy: GpuArray, *, window: Window
) -> GpuArray:
    """Return dy added at the pixel of each window that has the first maximum."""
    added = as_words(dy)
    inputs = added, first_largest(x, filter, window)
    total = sum_over_pieces(AT_THE_LARGEST[added.dtype], inputs, window, x.shape)
    return cast(total, dtype=dy.dtype)


@table.implements(morphology.dilation2d_filter_gradient)
def dilation2d_filter_gradient(
    x: GpuArray, filter: GpuArray, dy: GpuArray, *, window: Window
) -> GpuArray:
    """Return the sums of dy at the cell of the filter that has the first maximum."""
    added = as_words(dy)
    inputs = added, first_largest(x, filter, window)
    total = fold_filter_gradient(FOR_THE_LARGEST[added.dtype], inputs, window, x.shape)
    return cast(total, dtype=dy.dtype)


def first_largest(x: GpuArray, filter: GpuArray, window: Window) -> GpuArray:
    """Return the flat index of the pixel with the first maximum of each window."""
    parts = split_windows(x, filter, window)
    return reduce_argmax_parts(FIRST_LARGEST[x.dtype], LARGEST[x.dtype], parts)


def split_windows(x: GpuArray, filter: GpuArray, window: Window) -> list[Part]:
    """Return the pieces of a window with their parts of a filter."""
    parts = split_filter(filter, window, x.shape[1:-1], "cells")
    return [(part, (x, own)) for part, own in parts]
