"""Grayscale morphology: the largest sums of pixels and weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugrad.extend import int32, sliding_window
from plugrad.kernels import morphology
from plugrad_webgpu.declare import table
from plugrad_webgpu.elements import NUMBERS, require
from plugrad_webgpu.kernels.pooling import AT_THE_LARGEST, first_largest_of, largest_of
from plugrad_webgpu.windows import SUM, Fold, over_cells, over_stops, over_weights

if TYPE_CHECKING:
    from plugrad.extend import Padding, Pair, Shape, Window
    from plugrad_webgpu.buffers import GpuArray

LARGEST = largest_of("input[at] + filters[weight]", "input", "filters")
FIRST_LARGEST = first_largest_of(
    "input[at] + filters[weight]", "(value > best)", "input", "filters"
)
FOR_THE_LARGEST = Fold(
    SUM,
    "sum += select(Element(), dy[stop], found[stop] == positions(at, image));",
    "sum",
    ("dy", "found"),
    "found",
)


def window_of(images: Shape, filter: Shape, strides: Pair, pad: Padding, dilations: Pair) -> Window:
    """Return the windows of NHWC images."""
    return sliding_window(images[1:3], filter[:2], strides, pad, dilations)


@table.implements(morphology.dilation2d)
def dilation2d(
    x: GpuArray, filter: GpuArray, *, strides: Pair, pad: Padding, dilations: Pair
) -> GpuArray:
    """Return the largest sum of each window."""
    require(x.dtype, NUMBERS, "the webgpu kernel Dilation2D")
    window = window_of(x.shape, filter.shape, strides, pad, dilations)
    return over_cells(LARGEST[x.dtype], (x, filter), window, x.dtype)


@table.implements(morphology.dilation2d_input_gradient)
def dilation2d_input_gradient(
    x: GpuArray, filter: GpuArray, dy: GpuArray, *, strides: Pair, pad: Padding, dilations: Pair
) -> GpuArray:
    """Return dy at the first pixel with the largest sum of each window."""
    window = window_of(x.shape, filter.shape, strides, pad, dilations)
    found = over_cells(FIRST_LARGEST, (x, filter), window, int32)
    return over_stops(AT_THE_LARGEST, (dy, found), window, x.shape)


@table.implements(morphology.dilation2d_filter_gradient)
def dilation2d_filter_gradient(
    x: GpuArray, filter: GpuArray, dy: GpuArray, *, strides: Pair, pad: Padding, dilations: Pair
) -> GpuArray:
    """Return the sums of dy at the first cell with the largest sum of each window."""
    window = window_of(x.shape, filter.shape, strides, pad, dilations)
    found = over_cells(FIRST_LARGEST, (x, filter), window, int32)
    return over_weights(FOR_THE_LARGEST, (dy, found), window, x.shape)
