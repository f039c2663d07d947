"""Depthwise convolutions and their gradients; the exports of the module have one filter for each channel."""

from __future__ import annotations

from plugrad.extend import Window, count_elements
from plugrad.kernels import depthwise
from plugrad_wasm.bits import fill
from plugrad_wasm.declare import (
    ELEMENTWISE_PART_STEPS,
    ExportNames,
    choose_items_per_part,
    select_export,
    table,
)
from plugrad_wasm.kernels.convolution import epilogue_arguments
from plugrad_wasm.kernels.linalg import NO_EPILOGUE, Epilogue
from plugrad_wasm.kernels.movement import read_strided, reverse
from plugrad_wasm.kernels.reduction import sum_over_axes
from plugrad_wasm.memory import WasmArray, WasmView
from plugrad_wasm.strides import contiguous_strides
from plugrad_wasm.windows import (
    FILTERS,
    IMAGES,
    RESULTS,
    reverse_window,
    run_windows,
    split_filter_calls,
    split_image_calls,
)

Sizes = tuple[int, ...]
"""The type of shapes and other integers, one for each axis."""

DEPTHWISE_EXPORTS = ExportNames("depthwise")
"""The exports of depthwise convolutions, by dtype."""
INPUT_GRADIENT_EXPORTS = ExportNames("depthwise_input_gradient")
"""The exports of gradients for images, by dtype."""
FILTER_GRADIENT_EXPORTS = ExportNames("depthwise_filter_gradient")
"""The exports of gradients for filters, by dtype."""


def repeat_channels(x: WasmArray, multiplier: int) -> WasmArray:
    """Return channels-last images with each channel repeated `multiplier` times."""
    if multiplier == 1:
        return x
    copies = read_strided(x, (*x.shape, multiplier), (*contiguous_strides(x.shape), 0))
    return WasmView(copies, (*x.shape[:-1], x.shape[-1] * multiplier))


def run_depthwise(
    export_names: ExportNames,
    a: WasmArray,
    b: WasmArray,
    out_shape: Sizes,
    window: Window,
    image_shape: Sizes,
    epilogue: Epilogue = NO_EPILOGUE,
) -> WasmArray:
    """Return a depthwise convolution for a `Window`, or one of its gradients, on images with repeated channels.

    An `epilogue` is for `DEPTHWISE_EXPORTS`.
    """
    memory = a.memory
    store = memory.store
    cells, channels = count_elements(window.size), image_shape[3]
    work = image_shape[0] * count_elements(window.out) * cells * channels
    select_export(
        a, export_names[a.dtype], work
    )  # refuses a dtype without an export, of empty images too
    if 0 in (*image_shape, *window.out):
        return fill(memory, out_shape, a.dtype, 0)
    scratch = None
    behind, attributes = (), ()
    if export_names is FILTER_GRADIENT_EXPORTS:
        chains = split_filter_calls(
            image_shape, window, channels, channels, work, ELEMENTWISE_PART_STEPS, store.threads
        )
        out = fill(memory, out_shape, a.dtype, 0)
        places = (a, IMAGES), (b, RESULTS), (out, FILTERS)
    else:
        of_cells = export_names is INPUT_GRADIENT_EXPORTS
        most = choose_items_per_part(store, work, work, ELEMENTWISE_PART_STEPS)
        if window.out[0] == 1:  # a row is not split: its windows are computed in groups
            most = max(most, -(-work // image_shape[0]))
        chains = split_image_calls(image_shape, window, channels, work, most, of_cells)
        out = memory.empty(out_shape, a.dtype)
        given, result = (RESULTS, IMAGES) if of_cells else (IMAGES, RESULTS)
        places = (a, given), (b, FILTERS), (out, result)
        if export_names is DEPTHWISE_EXPORTS:
            # A pointer for each row and each cell of the filter, and a row of zeros.
            scratch = (window.size[0] + cells + 1 + image_shape[2] * channels) * a.dtype.itemsize
            behind, attributes = epilogue_arguments(epilogue)
    run_windows(
        a,
        export_names[a.dtype],
        places,
        chains,
        *attributes,
        work=work,
        scratch_bytes=scratch,
        trailing_arrays=behind,
    )
    return out


@table.implements(depthwise.depthwise_conv2d)
def depthwise_conv2d(x: WasmArray, filter: WasmArray, *, window: Window) -> WasmArray:
    """Return the cross-correlation of each channel of images with its own filters, for a `Window`."""
    return correlate_with_epilogue(x, filter, window)


def correlate_with_epilogue(
    x: WasmArray, filter: WasmArray, window: Window, epilogue: Epilogue = NO_EPILOGUE
) -> WasmArray:
    """Return the depthwise convolution for a `Window`; an epilogue adds a bias and limits results."""
    x = repeat_channels(x, filter.shape[3])
    shape = (x.shape[0], *window.out, x.shape[3])
    return run_depthwise(DEPTHWISE_EXPORTS, x, filter, shape, window, x.shape, epilogue)


@table.implements(depthwise.depthwise_conv2d_input_gradient)
def depthwise_conv2d_input_gradient(
    dy: WasmArray, filter: WasmArray, *, input_shape: Sizes, window: Window
) -> WasmArray:
    """Return the gradient of `depthwise_conv2d`, for a `Window`, with respect to its images."""
    batch, height, width, channels = input_shape
    image = (batch, height, width, dy.shape[3])
    if window.strides == (1, 1):  # dy slides under the reversed filters, which is faster
        back = reverse_window((height, width), window)
        dx = run_depthwise(
            DEPTHWISE_EXPORTS, dy, reverse(filter, dims=(0, 1)), image, back, dy.shape
        )
    else:
        dx = run_depthwise(INPUT_GRADIENT_EXPORTS, dy, filter, image, window, image)
    if filter.shape[3] != 1:
        copies = WasmView(dx, (batch, height, width, channels, filter.shape[3]))
        dx = sum_over_axes(copies, axis=(4,), keep_dims=False)
    return dx


@table.implements(depthwise.depthwise_conv2d_filter_gradient)
def depthwise_conv2d_filter_gradient(
    x: WasmArray, dy: WasmArray, *, filter_shape: Sizes, window: Window
) -> WasmArray:
    """Return the gradient of `depthwise_conv2d`, for a `Window`, with respect to its filters."""
    x = repeat_channels(x, filter_shape[3])
    return run_depthwise(FILTER_GRADIENT_EXPORTS, x, dy, filter_shape, window, x.shape)
