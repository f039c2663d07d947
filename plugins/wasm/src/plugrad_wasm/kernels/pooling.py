"""Pooling over windows of images (batch, height, width, channels)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from plugrad.extend import INTEGER, DType, Padding, Pair, Rounding, Window, pool_window, size_of
from plugrad.kernels import pooling
from plugrad_wasm.bits import fill
from plugrad_wasm.declare import ExportNames, call, table
from plugrad_wasm.windows import window_descriptor

if TYPE_CHECKING:
    from plugrad_wasm.memory import WasmArray

Sizes = tuple[int, ...]

MAX_POOL = ExportNames("max_pool")
MAX_POOL_GRADIENT = ExportNames("max_pool_gradient")
AVERAGE_POOL = ExportNames("avg_pool")
AVERAGE_POOL_GRADIENT = ExportNames("avg_pool_gradient")


def pooled(
    names: ExportNames,
    inputs: tuple[WasmArray, ...],
    shape: Sizes,
    window: Window,
    image: Sizes,
    *attributes: float,
) -> WasmArray:
    """Return the result of a pooling kernel for images of an NHWC shape."""
    first = inputs[0]
    memory = first.memory
    if 0 in (*image, *window.out):
        return fill(memory, shape, first.dtype, 0)
    out = memory.empty(shape, first.dtype)
    descriptor = memory.store.descriptor(window_descriptor(image, window))
    work = image[0] * image[3] * size_of(window.out) * size_of(window.filter)
    addresses = [x.address for x in inputs]
    run = call(first, names[first.dtype], work)
    run(*addresses, out.address, descriptor.address, *attributes)
    return out


def least(dtype: DType) -> float:
    """Return the least number of a dtype."""
    return int(np.iinfo(dtype).min) if dtype in INTEGER else -np.inf


@table.implements(pooling.max_pool)
def max_pool(
    x: WasmArray, *, filter_size: Pair, strides: Pair, pad: Padding, dim_rounding_mode: Rounding
) -> WasmArray:
    """Return the largest element of each window."""
    window = pool_window(x.shape, filter_size, strides, pad, dim_rounding_mode)
    shape = (x.shape[0], *window.out, x.shape[3])
    return pooled(MAX_POOL, (x,), shape, window, x.shape, least(x.dtype))


@table.implements(pooling.max_pool_gradient)
def max_pool_gradient(
    dy: WasmArray,
    input: WasmArray,
    output: WasmArray,
    *,
    filter_size: Pair,
    strides: Pair,
    pad: Padding,
    dim_rounding_mode: Rounding,
) -> WasmArray:
    """Return `dy` at the first largest element of each window."""
    window = pool_window(input.shape, filter_size, strides, pad, dim_rounding_mode)
    return pooled(MAX_POOL_GRADIENT, (dy, input, output), input.shape, window, input.shape)


@table.implements(pooling.avg_pool)
def avg_pool(
    x: WasmArray, *, filter_size: Pair, strides: Pair, pad: Padding, dim_rounding_mode: Rounding
) -> WasmArray:
    """Return the average of each window."""
    window = pool_window(x.shape, filter_size, strides, pad, dim_rounding_mode)
    shape = (x.shape[0], *window.out, x.shape[3])
    return pooled(AVERAGE_POOL, (x,), shape, window, x.shape)


@table.implements(pooling.avg_pool_gradient)
def avg_pool_gradient(
    dy: WasmArray,
    input: WasmArray,
    *,
    filter_size: Pair,
    strides: Pair,
    pad: Padding,
    dim_rounding_mode: Rounding,
) -> WasmArray:
    """Return `dy` spread evenly over each window."""
    window = pool_window(input.shape, filter_size, strides, pad, dim_rounding_mode)
    return pooled(AVERAGE_POOL_GRADIENT, (dy,), input.shape, window, input.shape)
