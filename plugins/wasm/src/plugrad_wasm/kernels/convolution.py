"""Convolutions and their gradients over any number of axes; the module has the channels at the end."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from plugrad.extend import Window, float32, size_of
from plugrad.kernels import convolution
from plugrad_wasm.bits import fill
from plugrad_wasm.declare import ExportNames, call, part_of, products_of, table
from plugrad_wasm.kernels.linalg import UNLIMITED, Ending, Product, multiplied, product
from plugrad_wasm.kernels.movement import reverse, transpose
from plugrad_wasm.windows import (
    FILTERS,
    IMAGES,
    RESULTS,
    filter_chains,
    image_chains,
    reversed_window,
    run_windows,
    window_descriptor,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plugrad_wasm.memory import WasmArray

Sizes = tuple[int, ...]

FORWARD = ExportNames("convolution")
WINOGRAD = "convolution_winograd_float32"
INPUT_GRADIENT = ExportNames("convolution_input_gradient")
FILTER_GRADIENT = ExportNames("convolution_filter_gradient")


def convolved(
    names: ExportNames,
    a: WasmArray,
    b: WasmArray,
    out_shape: Sizes,
    window: Window,
    *,
    image: Sizes,
    filter: Sizes,
    ending: Ending = UNLIMITED,
) -> WasmArray:
    """Return the result of one of the three kernels for images with the channels at the end.

    An `ending` is for `FORWARD` in float32.
    """
    memory = a.memory
    store = memory.store
    work = image[0] * size_of(window.out) * size_of(filter)
    call(a, names[a.dtype], work)  # refuses a dtype without an export, of empty images too
    if 0 in (*image, *window.out, *filter):
        return fill(memory, out_shape, a.dtype, 0)
    turns = names is FILTER_GRADIENT, names is INPUT_GRADIENT
    plan = pointwise(image, window, a.shape, b.shape, out_shape, turns)
    if plan is not None:
        ends = names is FORWARD and a.dtype is float32
        return multiplied(a, b, plan, ending if ends else None)
    whole = window_descriptor(image, window)
    in_tiles = names is FORWARD and a.dtype is float32 and takes_tiles(image[0], window, filter)
    kind = "winograd_scratch" if in_tiles else "chunk_scratch"
    scratch = store.scratch_size(kind, whole, filter[-1]) * a.dtype.itemsize
    portion = products_of(a)
    behind, attributes = (), (filter[-1],)
    if names is FILTER_GRADIENT:
        weights = image[-1] * filter[-1]
        chains = filter_chains(image, window, filter[-1], weights, work, portion, store.threads)
        out = fill(memory, out_shape, a.dtype, 0)
        places = (a, IMAGES), (b, RESULTS), (out, FILTERS)
    else:
        of_cells = names is INPUT_GRADIENT
        most = part_of(store, work, work, portion)
        multiple = TILE if in_tiles else 1
        chains = image_chains(image, window, filter[-1], work, most, of_cells, multiple)
        out = memory.empty(out_shape, a.dtype)
        given, result = (RESULTS, IMAGES) if of_cells else (IMAGES, RESULTS)
        places = (a, given), (b, FILTERS), (out, result)
        if names is FORWARD and a.dtype is float32:
            behind, attributes = arguments_of(ending, filter[-1])
    export = WINOGRAD if in_tiles else names[a.dtype]
    run_windows(a, export, places, chains, *attributes, work=work, scratch=scratch, behind=behind)
    return out


def arguments_of(
    ending: Ending, *attributes: int
) -> tuple[Sequence[tuple[WasmArray, int]], tuple[float, ...]]:
    """Return the arrays and the attributes that tell a kernel of windows what becomes of sums."""
    bias, *limits = ending
    if bias is None:
        return (), (0, *limits, *attributes)
    return ((bias, FILTERS),), (*limits, *attributes)


TILE = 2
"""Results of the tiles in csrc/winograd.c, along an axis. Parts consist of whole tiles."""
LEAST_CHANNELS = 16
LEAST_SIZE = 4
LEAST_POSITIONS = 64
"""From these on, the fewer products of tiles save more time than their transforms take."""


def takes_tiles(batch: int, window: Window, filter: Sizes) -> bool:
    """Return whether csrc/winograd.c computes a convolution of so many images in float32."""
    *cells, channels, out_channels = filter
    return (
        cells == [3, 3]
        and window.strides == window.dilations == (1, 1)
        and channels % 4 == out_channels % 4 == 0
        and min(channels, out_channels) >= LEAST_CHANNELS
        and min(window.out) >= LEAST_SIZE
        and batch * size_of(window.out) >= LEAST_POSITIONS
    )


@lru_cache(maxsize=4096)
def pointwise(
    image: Sizes, window: Window, a: Sizes, b: Sizes, out: Sizes, turns: tuple[bool, bool]
) -> Product | None:
    """Return the product of matrices if each position of the window is one pixel, or None."""
    is_dense = window.out == image[1:-1] and not any(before for before, _ in window.padding)
    if not is_dense or size_of(window.size) != 1:
        return None
    matrices = ((size_of(shape[:-1]), shape[-1]) for shape in (a, b))
    return product(*matrices, *turns)._replace(shape=out)


def correlate(x: WasmArray, filter: WasmArray, *, window: Window) -> WasmArray:
    """Return the cross-correlation of images with filters."""
    return correlated(x, filter, window)


def correlated(
    x: WasmArray, filter: WasmArray, window: Window, ending: Ending = UNLIMITED
) -> WasmArray:
    """Return the cross-correlation of images with filters; an `ending` is for float32."""
    shape = (x.shape[0], *window.out, filter.shape[-1])
    return convolved(
        FORWARD, x, filter, shape, window, image=x.shape, filter=filter.shape, ending=ending
    )


def input_gradient(
    dy: WasmArray, filter: WasmArray, *, input_shape: Sizes, window: Window
) -> WasmArray:
    """Return the gradient of `correlate` with respect to its images."""
    image = input_shape
    if dy.dtype is float32 and takes_tiles(image[0], window, filter.shape):
        back = reversed_window(image[1:-1], window)  # dy slides under the reversed filters
        turned = transpose(reverse(filter, dims=(0, 1)), perm=(0, 1, 3, 2))
        return convolved(FORWARD, dy, turned, image, back, image=dy.shape, filter=turned.shape)
    return convolved(INPUT_GRADIENT, dy, filter, image, window, image=image, filter=filter.shape)


def filter_gradient(
    x: WasmArray, dy: WasmArray, *, filter_shape: Sizes, window: Window
) -> WasmArray:
    """Return the gradient of `correlate` with respect to its filters."""
    return convolved(
        FILTER_GRADIENT, x, dy, filter_shape, window, image=x.shape, filter=filter_shape
    )


table.update(
    {
        convolution.conv2d: correlate,
        convolution.conv2d_input_gradient: input_gradient,
        convolution.conv2d_filter_gradient: filter_gradient,
    }
)
