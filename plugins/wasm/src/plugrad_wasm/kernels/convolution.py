"""Convolutions and their gradients over any number of axes; the module has the channels at the end."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

from plugrad.extend import Window, count_elements, float32
from plugrad.kernels import convolution
from plugrad_wasm.bits import fill
from plugrad_wasm.declare import (
    ExportNames,
    choose_items_per_part,
    matmul_part_steps,
    select_export,
    table,
)
from plugrad_wasm.kernels.linalg import NO_EPILOGUE, Epilogue, MatmulPlan, plan_matmul, run_matmul
from plugrad_wasm.kernels.movement import reverse, transpose
from plugrad_wasm.windows import (
    FILTERS,
    IMAGES,
    RESULTS,
    reverse_window,
    run_windows,
    split_channel_calls,
    split_filter_calls,
    split_image_calls,
    window_descriptor,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plugrad_wasm.memory import WasmArray

Sizes = tuple[int, ...]
"""The type of shapes and other integers, one for each axis."""

CONVOLUTION_EXPORTS = ExportNames("convolution")
"""The exports of convolutions, by dtype."""
WINOGRAD_EXPORT = "convolution_winograd_float32"
"""The name of the export of convolutions in csrc/winograd.c."""
WINOGRAD_FILTER_GRADIENT_EXPORT = "convolution_winograd_filter_gradient_float32"
"""The name of the export of gradients for filters in csrc/winograd.c."""
WINOGRAD_INPUT_GRADIENT_EXPORT = "convolution_winograd_input_gradient_float32"
"""The name of the export of gradients for images in csrc/winograd.c."""
INPUT_GRADIENT_EXPORTS = ExportNames("convolution_input_gradient")
"""The exports of gradients for images, by dtype."""
FILTER_GRADIENT_EXPORTS = ExportNames("convolution_filter_gradient")
"""The exports of gradients for filters, by dtype."""


def run_convolution(
    export_names: ExportNames,
    a: WasmArray,
    b: WasmArray,
    out_shape: Sizes,
    window: Window,
    *,
    image: Sizes,
    filter: Sizes,
    epilogue: Epilogue = NO_EPILOGUE,
    is_gradient: bool = False,
) -> WasmArray:
    """Return a convolution for a `Window` or one of its gradients; `image` and `filter` are shapes, channels last.

    An `epilogue` is for `CONVOLUTION_EXPORTS` in float32, and so is `is_gradient`: the images are gradients of results,
    and what is beside them is not padding.
    """
    memory = a.memory
    store = memory.store
    work = image[0] * count_elements(window.out) * count_elements(filter)
    select_export(
        a, export_names[a.dtype], work
    )  # refuses a dtype without an export, of empty images too
    if 0 in (*image, *window.out, *filter):
        return fill(memory, out_shape, a.dtype, 0)
    turns = export_names is FILTER_GRADIENT_EXPORTS, export_names is INPUT_GRADIENT_EXPORTS
    plan = plan_pointwise_matmul(image, window, a.shape, b.shape, out_shape, turns)
    if plan is not None:
        ends = export_names is CONVOLUTION_EXPORTS and a.dtype is float32
        return run_matmul(a, b, plan, epilogue if ends else None)
    whole = window_descriptor(image, window)
    in_tiles = (
        export_names is CONVOLUTION_EXPORTS
        and a.dtype is float32
        and uses_winograd(image[0], window, filter)
    )
    kind = "winograd_scratch" if in_tiles else "chunk_scratch"
    scratch = store.scratch_size(kind, whole, filter[-1]) * a.dtype.itemsize
    portion = matmul_part_steps(a)
    behind, attributes = (), (filter[-1],)
    if export_names is FILTER_GRADIENT_EXPORTS:
        weights = image[-1] * filter[-1]
        chains = split_filter_calls(
            image, window, filter[-1], weights, work, portion, store.threads
        )
        out = fill(memory, out_shape, a.dtype, 0)
        places = (a, IMAGES), (b, RESULTS), (out, FILTERS)
    else:
        of_cells = export_names is INPUT_GRADIENT_EXPORTS
        most = choose_items_per_part(store, work, work, portion)
        multiple = winograd_tile_size(window) if in_tiles else 1
        chains = split_image_calls(image, window, filter[-1], work, most, of_cells, multiple)
        out = memory.empty(out_shape, a.dtype)
        given, result = (RESULTS, IMAGES) if of_cells else (IMAGES, RESULTS)
        places = (a, given), (b, FILTERS), (out, result)
        if export_names is CONVOLUTION_EXPORTS and a.dtype is float32:
            behind, attributes = epilogue_arguments(epilogue, filter[-1])
        if in_tiles:
            attributes = *attributes, is_gradient
    export = WINOGRAD_EXPORT if in_tiles else export_names[a.dtype]
    run_windows(
        a,
        export,
        places,
        chains,
        *attributes,
        work=work,
        scratch_bytes=scratch,
        trailing_arrays=behind,
    )
    return out


def epilogue_arguments(
    epilogue: Epilogue, *attributes: int
) -> tuple[Sequence[tuple[WasmArray, int]], tuple[float, ...]]:
    """Return the arguments of an export for an epilogue (a bias and limits), before further `attributes`.

    The arrays come first, each with the number of its elements per position, then the numbers.
    """
    bias, *limits = epilogue
    if bias is None:
        return (), (0, *limits, *attributes)
    return ((bias, FILTERS),), (*limits, *attributes)


WINOGRAD_MAX_CHANNELS: dict[Sizes, float] = {
    (3, 3): math.inf,
    (5, 5): 64,
    (1, 3): math.inf,
    (1, 5): math.inf,
}
"""By filter size: the maximum channels for csrc/winograd.c; sums of more products would lose digits."""
WINOGRAD_MIN_CHANNELS = 16
"""The minimum channels of images and of results for csrc/winograd.c."""
WINOGRAD_MIN_OUTPUT_SIZE = 4
"""The minimum number of results along an axis for csrc/winograd.c, to be multiplied by the dilation."""
WINOGRAD_MIN_POSITIONS = 64
"""The minimum window positions for which csrc/winograd.c saves more time than its transforms take."""
WINOGRAD_STRIDED_OUTPUT_SIZE = 4
"""The number of results along an axis of a tile in csrc/winograd.c for strides of 2."""
WINOGRAD_MIN_STRIDED_POSITIONS = 256
"""The minimum window positions for strides of 2, where tiles in csrc/winograd.c save fewer products."""


def uses_winograd(batch: int, window: Window, filter: Sizes) -> bool:
    """Return whether csrc/winograd.c computes a float32 convolution for a `Window`, given the filter's shape."""
    *cells, channels, out_channels = filter
    return (
        max(channels, out_channels) <= WINOGRAD_MAX_CHANNELS.get(tuple(cells), 0)
        and (window.strides == (1, 1) or saves_strided_products(batch, window, filter))
        and channels % 4 == out_channels % 4 == 0
        and min(channels, out_channels) >= WINOGRAD_MIN_CHANNELS
        and all(
            size >= WINOGRAD_MIN_OUTPUT_SIZE * step
            for cell, size, step in zip(cells, window.out, window.dilations, strict=True)
            if cell > 1
        )
        and batch * count_elements(window.out) >= WINOGRAD_MIN_POSITIONS
    )


def saves_strided_products(batch: int, window: Window, filter: Sizes) -> bool:
    """Return whether csrc/winograd.c is faster for a `Window` with strides of 2, given the filter's shape."""
    if (window.size, window.strides, window.dilations) != ((3, 3), (2, 2), (1, 1)):
        return False
    length, positions = WINOGRAD_STRIDED_OUTPUT_SIZE, count_elements(window.out)
    tiles = math.prod(-(-size // length) for size in window.out)
    products = tiles * (2 * length + 1) ** 2 / (9 * positions)  # for one of the definition
    transforms = 4 / min(filter[2:])
    return products + transforms <= 0.9 and batch * positions >= WINOGRAD_MIN_STRIDED_POSITIONS


def winograd_tile_size(window: Window) -> int:
    """Return the rows of results, or the columns of a single row, that a tile of csrc/winograd.c covers for a `Window`.

    Parts consist of whole tiles.
    """
    if window.strides != (1, 1):
        return WINOGRAD_STRIDED_OUTPUT_SIZE
    axis = 0 if window.out[0] > 1 else 1  # along which the results are split
    cells = window.size[axis]
    return (7 - cells if cells > 1 else 1) * window.dilations[axis]


@lru_cache(maxsize=1024)
def plan_pointwise_matmul(
    image: Sizes, window: Window, a: Sizes, b: Sizes, out: Sizes, transposes: tuple[bool, bool]
) -> MatmulPlan | None:
    """Return the convolution of arrays of these shapes as a matrix product if windows are pixels, else None."""
    is_dense = window.out == image[1:-1] and not any(before for before, _ in window.padding)
    if not is_dense or count_elements(window.size) != 1:
        return None
    matrices = ((count_elements(shape[:-1]), shape[-1]) for shape in (a, b))
    return plan_matmul(*matrices, *transposes)._replace(shape=out)


def correlate(x: WasmArray, filter: WasmArray, *, window: Window) -> WasmArray:
    """Return the cross-correlation of images with filters for a `Window`."""
    return correlate_with_epilogue(x, filter, window)


def correlate_with_epilogue(
    x: WasmArray, filter: WasmArray, window: Window, epilogue: Epilogue = NO_EPILOGUE
) -> WasmArray:
    """Return the cross-correlation for a `Window`; in float32, an epilogue adds a bias and limits results."""
    shape = (x.shape[0], *window.out, filter.shape[-1])
    return run_convolution(
        CONVOLUTION_EXPORTS,
        x,
        filter,
        shape,
        window,
        image=x.shape,
        filter=filter.shape,
        epilogue=epilogue,
    )


def input_gradient(
    dy: WasmArray, filter: WasmArray, *, input_shape: Sizes, window: Window
) -> WasmArray:
    """Return the gradient of `correlate`, for a `Window`, with respect to its images."""
    image = input_shape
    is_in_tiles = dy.dtype is float32 and uses_winograd(image[0], window, filter.shape)
    if is_in_tiles and window.strides != (1, 1):
        return strided_input_gradient(dy, turn_filters(filter), image, window)
    if is_in_tiles:
        back = reverse_window(image[1:-1], window)  # dy slides under the reversed filters
        if uses_winograd(image[0], back, filter.shape):
            turned = turn_filters(filter)
            return run_convolution(
                CONVOLUTION_EXPORTS,
                dy,
                turned,
                image,
                back,
                image=dy.shape,
                filter=turned.shape,
                is_gradient=True,
            )
    return run_convolution(
        INPUT_GRADIENT_EXPORTS, dy, filter, image, window, image=image, filter=filter.shape
    )


def turn_filters(filter: WasmArray) -> WasmArray:
    """Return the filters reversed along both spatial axes, with input and output channels exchanged."""
    return transpose(reverse(filter, dims=(0, 1)), perm=(0, 1, 3, 2))


def strided_input_gradient(
    dy: WasmArray, turned: WasmArray, image: Sizes, window: Window
) -> WasmArray:
    """Return the gradient for images of shape `image` and a `Window` with strides of 2, given turned filters."""
    store = dy.memory.store
    work = image[0] * count_elements(window.out) * turned.size
    most = choose_items_per_part(store, work, work, matmul_part_steps(dy))
    channels = turned.shape[2]
    chains = split_image_calls(
        image, window, channels, work, most, True, 2 * WINOGRAD_STRIDED_OUTPUT_SIZE
    )
    scratch = store.scratch_size(
        "winograd_input_gradient_scratch", window_descriptor(image, window), channels
    )
    out = dy.memory.empty(image, float32)
    run_windows(
        dy,
        WINOGRAD_INPUT_GRADIENT_EXPORT,
        ((dy, RESULTS), (turned, FILTERS), (out, IMAGES)),
        chains,
        channels,
        work=work,
        scratch_bytes=scratch * float32.itemsize,
    )
    return out


def filter_gradient(
    x: WasmArray, dy: WasmArray, *, filter_shape: Sizes, window: Window
) -> WasmArray:
    """Return the gradient of `correlate`, for a `Window`, with respect to its filters."""
    if dy.dtype is float32 and uses_winograd(x.shape[0], window, filter_shape):
        return filter_gradient_in_tiles(x, dy, filter_shape, window)
    return run_convolution(
        FILTER_GRADIENT_EXPORTS, x, dy, filter_shape, window, image=x.shape, filter=filter_shape
    )


def filter_gradient_in_tiles(
    x: WasmArray, dy: WasmArray, filter_shape: Sizes, window: Window
) -> WasmArray:
    """Return the gradient for the filters and a `Window` by csrc/winograd.c; threads share the result channels."""
    store = x.memory.store
    channels = filter_shape[-1]
    work = x.shape[0] * count_elements(window.out) * count_elements(filter_shape)
    limits = matmul_part_steps(x)
    is_shared = store.threads > 1 and work >= 2 * limits.minimum
    parts = next(
        n for n in range(store.threads if is_shared else 1, 0, -1) if channels % (4 * n) == 0
    )
    columns = channels // parts
    chains = split_channel_calls(
        x.shape,
        window,
        channels,
        work,
        limits.maximum,
        columns,
        winograd_tile_size(window),
    )
    descriptor = window_descriptor(x.shape, window)
    scratch = store.scratch_size("winograd_gradient_scratch", descriptor, columns)
    out = fill(x.memory, filter_shape, float32, 0)
    run_windows(
        x,
        WINOGRAD_FILTER_GRADIENT_EXPORT,
        ((x, IMAGES), (dy, RESULTS), (out, FILTERS)),
        chains,
        channels,
        columns,
        work=work,
        scratch_bytes=scratch * float32.itemsize,
    )
    return out


table.update(
    {
        convolution.conv2d: correlate,
        convolution.conv2d_input_gradient: input_gradient,
        convolution.conv2d_filter_gradient: filter_gradient,
    }
)
