"""Grayscale morphology: the largest sums of pixels and weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugrad.extend import Window, count_elements
from plugrad.kernels import morphology
from plugrad_wasm.bits import fill
from plugrad_wasm.declare import ELEMENTWISE_PART_STEPS, ExportNames, choose_items_per_part, table
from plugrad_wasm.windows import FILTERS, IMAGES, RESULTS, run_windows, split_image_calls

if TYPE_CHECKING:
    from plugrad_wasm.memory import WasmArray

Sizes = tuple[int, ...]
"""The type of shapes and other integers, one for each axis."""

DILATION_EXPORTS = ExportNames("dilation")
"""The exports of dilations, by dtype."""
DILATION_GRADIENT_EXPORTS = ExportNames("dilation_gradient")
"""The exports of gradients of dilations, by dtype."""


def run_dilation(
    export_names: ExportNames,
    inputs: tuple[WasmArray, ...],
    result_shape: Sizes,
    window: Window,
    *attributes: int,
) -> WasmArray:
    """Return a dilation for a `Window` or one of its gradients; the first two inputs are images and the filter."""
    x, filter = inputs[:2]
    memory = x.memory
    if 0 in (*x.shape, *window.out):
        return fill(memory, result_shape, x.dtype, 0)
    work = x.shape[0] * count_elements(window.out) * filter.size
    if attributes:  # a gradient, to which all parts add, in order
        out = fill(memory, result_shape, x.dtype, 0)
        parts = split_image_calls(
            x.shape, window, x.shape[-1], work, ELEMENTWISE_PART_STEPS.maximum, False
        )
        chains = [[part for (part,) in parts]]
        kinds = (IMAGES, FILTERS, RESULTS, FILTERS if attributes[0] else IMAGES)
    else:
        out = memory.empty(result_shape, x.dtype)
        most = choose_items_per_part(memory.store, work, work, ELEMENTWISE_PART_STEPS)
        chains = split_image_calls(x.shape, window, x.shape[-1], work, most, False)
        kinds = (IMAGES, FILTERS, RESULTS)
    places = [*zip((*inputs, out), kinds, strict=True)]
    run_windows(x, export_names[x.dtype], places, chains, *attributes, work=work)
    return out


@table.implements(morphology.dilation2d)
def dilation2d(x: WasmArray, filter: WasmArray, *, window: Window) -> WasmArray:
    """Return for each window of a `Window` the maximum of pixels plus weights."""
    return run_dilation(
        DILATION_EXPORTS, (x, filter), (x.shape[0], *window.out, x.shape[3]), window
    )


@table.implements(morphology.dilation2d_input_gradient)
def dilation2d_input_gradient(
    x: WasmArray, filter: WasmArray, dy: WasmArray, *, window: Window
) -> WasmArray:
    """Return dy added at the pixel of each window that has the first maximum."""
    return run_dilation(DILATION_GRADIENT_EXPORTS, (x, filter, dy), x.shape, window, False)


@table.implements(morphology.dilation2d_filter_gradient)
def dilation2d_filter_gradient(
    x: WasmArray, filter: WasmArray, dy: WasmArray, *, window: Window
) -> WasmArray:
    """Return the sums of dy at the cell of the filter that has the first maximum."""
    return run_dilation(DILATION_GRADIENT_EXPORTS, (x, filter, dy), filter.shape, window, True)
