"""Pooling over windows of images (batch, spatial axes …, channels)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from plugrad.extend import Window, count_elements, int32
from plugrad.kernels import pooling
from plugrad_wasm.bits import fill
from plugrad_wasm.declare import ELEMENTWISE_PART_STEPS, ExportNames, choose_items_per_part, table
from plugrad_wasm.memory import WasmArray, WasmView
from plugrad_wasm.windows import (
    IMAGES,
    MAX_SPATIAL_AXES,
    RESULTS,
    run_windows,
    select_axes,
    split_image_calls,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

Sizes = tuple[int, ...]
"""The type of shapes and other integers, one for each axis."""

MAX_POOL_EXPORTS = ExportNames("max_pool")
"""The exports of max pooling, by dtype."""
MAX_POOL_GRADIENT_EXPORTS = ExportNames("max_pool_gradient")
"""The exports of the gradient of max pooling, by dtype."""
MAX_POOL_WITH_ARGMAX_EXPORTS = ExportNames("max_pool_with_argmax")
"""The exports of max pooling that also write the index of each maximum, by dtype."""
AVERAGE_POOL_EXPORTS = ExportNames("avg_pool")
"""The exports of average pooling, by dtype."""
AVERAGE_POOL_GRADIENT_EXPORTS = ExportNames("avg_pool_gradient")
"""The exports of the gradient of average pooling, by dtype."""


def run_pooling(
    export_names: ExportNames,
    arrays_and_kinds: Sequence[tuple[WasmArray, int]],
    result_shape: Sizes,
    window: Window,
    image_shape: Sizes,
    *attributes: int,
    result_kind: int = RESULTS,
    trailing_arrays: Sequence[tuple[WasmArray, int]] = (),
) -> WasmArray:
    """Return the result of a pooling export for a `Window` over images of a shape.

    Args:
        export_names: the exports.
        arrays_and_kinds: the inputs, and the kind of each: `IMAGES` or `RESULTS`.
        result_shape: the shape of the result.
        window: the windows.
        image_shape: the shape of the images.
        attributes: further arguments.
        result_kind: the kind of the result: `IMAGES` for gradients, else `RESULTS`.
        trailing_arrays: the arrays behind the descriptor, and the kind of each.
    """
    first = arrays_and_kinds[0][0]
    memory = first.memory
    if 0 in (*image_shape, *window.out):
        return fill(memory, result_shape, first.dtype, 0)
    out = memory.empty(result_shape, first.dtype)
    work = (
        image_shape[0] * image_shape[-1] * count_elements(window.out) * count_elements(window.size)
    )
    most = choose_items_per_part(memory.store, work, work, ELEMENTWISE_PART_STEPS)
    if result_kind == IMAGES:  # a gradient looks at all cells of a window, so an image is not split
        most = max(most, -(-work // image_shape[0]))
    chains = split_image_calls(image_shape, window, image_shape[-1], work, most, False)
    arrays = (*arrays_and_kinds, (out, result_kind))
    run_windows(
        first,
        export_names[first.dtype],
        arrays,
        chains,
        *attributes,
        work=work,
        trailing_arrays=trailing_arrays,
    )
    return out


def pool_all_axes(export_names: ExportNames, x: WasmArray, window: Window) -> WasmArray:
    """Return the result of `max_pool` or `avg_pool` for a `Window` over any number of axes.

    A window over many axes is summarized along the last three, and then along the others, because
    the largest element and the average of a box are those of its slices.
    """
    batch, size, channels = x.shape[0], x.shape[1:-1], x.shape[-1]
    rest = len(size) - MAX_SPATIAL_AXES
    if rest <= 0:
        places = ((x, IMAGES),)
        return run_pooling(export_names, places, (batch, *window.out, channels), window, x.shape)
    slices = WasmView(x, (batch * count_elements(size[:rest]), *size[rest:], channels))
    y = pool_all_axes(export_names, slices, select_axes(window, slice(rest, None)))
    merged = WasmView(y, (batch, *size[:rest], count_elements(window.out[rest:]) * channels))
    y = pool_all_axes(export_names, merged, select_axes(window, slice(rest)))
    return WasmView(y, (batch, *window.out, channels))


def pool_windows(export_names: ExportNames, x: WasmArray, *, window: Window) -> WasmArray:
    """Return the maximum or the average, as the exports compute, of each window of a `Window`."""
    return pool_all_axes(export_names, x, window)


max_pool: Final = partial(pool_windows, MAX_POOL_EXPORTS)
"""The implementation of `max_pool`."""
avg_pool: Final = partial(pool_windows, AVERAGE_POOL_EXPORTS)
"""The implementation of `avg_pool`."""


def max_pool_gradient(
    dy: WasmArray, input: WasmArray, output: WasmArray, *, window: Window
) -> WasmArray:
    """Return `dy` at the first maximum of each window."""
    places = (dy, RESULTS), (input, IMAGES), (output, RESULTS)
    return run_pooling(
        MAX_POOL_GRADIENT_EXPORTS, places, input.shape, window, input.shape, result_kind=IMAGES
    )


def avg_pool_gradient(dy: WasmArray, input: WasmArray, *, window: Window) -> WasmArray:
    """Return `dy` distributed evenly over each window."""
    places = ((dy, RESULTS),)
    return run_pooling(
        AVERAGE_POOL_GRADIENT_EXPORTS, places, input.shape, window, input.shape, result_kind=IMAGES
    )


@table.implements(pooling.max_pool_with_argmax)
def max_pool_with_argmax(
    x: WasmArray, *, window: Window, include_batch_in_index: bool
) -> tuple[WasmArray, WasmArray]:
    """Return the maximum of each window and the index of its first cell; NaN counts as the maximum."""
    shape = (x.shape[0], *window.out, x.shape[-1])
    positions = x.memory.empty(shape, int32)
    image, offset = x.shape, -count_elements(x.shape[1:])
    if include_batch_in_index:
        offset = 0
        if (
            x.shape[0] > 1
        ):  # positions count from the first image, so all images make one of more axes
            image = (1, *image)
            size, strides, padding, dilations, out = window
            window = Window(
                *((1, *size), (1, *strides), ((0, 0), *padding), (1, *dilations)),
                (x.shape[0], *out),
            )
    places, behind = ((x, IMAGES),), ((positions, RESULTS),)
    y = run_pooling(
        MAX_POOL_WITH_ARGMAX_EXPORTS, places, shape, window, image, offset, trailing_arrays=behind
    )
    return y, positions


@table.implements(pooling.pool)
def pool(input: WasmArray, *, window: Window, pooling_type: pooling.PoolingType) -> WasmArray:
    """Return the maxima or the averages of dilated windows."""
    return pool_all_axes(
        MAX_POOL_EXPORTS if pooling_type == "max" else AVERAGE_POOL_EXPORTS, input, window
    )


table.update(
    {
        pooling.max_pool: max_pool,
        pooling.max_pool_gradient: max_pool_gradient,
        pooling.avg_pool: avg_pool,
        pooling.avg_pool_gradient: avg_pool_gradient,
    }
)
