"""Pooling over windows of images (batch, spatial axes …, channels)."""

from __future__ import annotations

from functools import partial

from plugrad.extend import Padding, Pair, Rounding, Window, int32, pool_window, size_of
from plugrad.kernels import pooling
from plugrad_wasm.bits import fill
from plugrad_wasm.declare import ExportNames, call, table
from plugrad_wasm.memory import WasmArray, WasmView
from plugrad_wasm.windows import MOST_AXES, along, window_descriptor

Sizes = tuple[int, ...]

MAX_POOL = ExportNames("max_pool")
MAX_POOL_GRADIENT = ExportNames("max_pool_gradient")
MAX_POOL_WITH_ARGMAX = ExportNames("max_pool_with_argmax")
AVERAGE_POOL = ExportNames("avg_pool")
AVERAGE_POOL_GRADIENT = ExportNames("avg_pool_gradient")


def pooled(
    names: ExportNames,
    inputs: tuple[WasmArray, ...],
    shape: Sizes,
    window: Window,
    image: Sizes,
    *attributes: int,
) -> WasmArray:
    """Return the result of a pooling kernel for images of a shape."""
    first = inputs[0]
    memory = first.memory
    if 0 in (*image, *window.out):
        return fill(memory, shape, first.dtype, 0)
    out = memory.empty(shape, first.dtype)
    descriptor = memory.store.descriptor(window_descriptor(image, window))
    work = image[0] * image[-1] * size_of(window.out) * size_of(window.filter)
    addresses = [x.address for x in inputs]
    run = call(first, names[first.dtype], work)
    run(*addresses, out.address, descriptor.address, *attributes)
    return out


def summary(names: ExportNames, x: WasmArray, window: Window) -> WasmArray:
    """Return the result of `max_pool` or `avg_pool` for windows over any number of axes.

    A window over many axes is summarized along the last three, and then along the others, because
    the largest element and the average of a box are those of its slices.
    """
    batch, size, channels = x.shape[0], x.shape[1:-1], x.shape[-1]
    rest = len(size) - MOST_AXES
    if rest <= 0:
        return pooled(names, (x,), (batch, *window.out, channels), window, x.shape)
    slices = WasmView(x, (batch * size_of(size[:rest]), *size[rest:], channels))
    y = summary(names, slices, along(window, slice(rest, None)))
    merged = WasmView(y, (batch, *size[:rest], size_of(window.out[rest:]) * channels))
    y = summary(names, merged, along(window, slice(rest)))
    return WasmView(y, (batch, *window.out, channels))


def pool_of(
    names: ExportNames,
    x: WasmArray,
    *,
    filter_size: Sizes,
    strides: Sizes,
    pad: Padding,
    dim_rounding_mode: Rounding,
) -> WasmArray:
    """Return the largest element or the average of each window."""
    return summary(names, x, pool_window(x.shape, filter_size, strides, pad, dim_rounding_mode))


max_pool = partial(pool_of, MAX_POOL)
avg_pool = partial(pool_of, AVERAGE_POOL)


def max_pool_gradient(
    dy: WasmArray,
    input: WasmArray,
    output: WasmArray,
    *,
    filter_size: Sizes,
    strides: Sizes,
    pad: Padding,
    dim_rounding_mode: Rounding,
) -> WasmArray:
    """Return `dy` at the first largest element of each window."""
    window = pool_window(input.shape, filter_size, strides, pad, dim_rounding_mode)
    return pooled(MAX_POOL_GRADIENT, (dy, input, output), input.shape, window, input.shape)


def avg_pool_gradient(
    dy: WasmArray,
    input: WasmArray,
    *,
    filter_size: Sizes,
    strides: Sizes,
    pad: Padding,
    dim_rounding_mode: Rounding,
) -> WasmArray:
    """Return `dy` spread evenly over each window."""
    window = pool_window(input.shape, filter_size, strides, pad, dim_rounding_mode)
    return pooled(AVERAGE_POOL_GRADIENT, (dy,), input.shape, window, input.shape)


@table.implements(pooling.max_pool_with_argmax)
def max_pool_with_argmax(
    x: WasmArray, *, filter_size: Pair, strides: Pair, pad: Padding, include_batch_in_index: bool
) -> tuple[WasmArray, WasmArray]:
    """Return the largest elements and the position of the first cell with each; NaN is the largest."""
    window = pool_window(x.shape, filter_size, strides, pad)
    shape = (x.shape[0], *window.out, x.shape[3])
    positions = x.memory.empty(shape, int32)
    offset = 0 if include_batch_in_index else -size_of(x.shape[1:])
    attributes = positions.address, offset
    y = pooled(MAX_POOL_WITH_ARGMAX, (x,), shape, window, x.shape, *attributes)
    return y, positions


@table.implements(pooling.pool)
def pool(
    input: WasmArray,
    *,
    window_shape: Sizes,
    pooling_type: pooling.PoolingType,
    pad: Padding,
    dilations: Sizes,
    strides: Sizes,
    dim_rounding_mode: Rounding,
) -> WasmArray:
    """Return the largest elements or the averages of windows of dilated cells."""
    window = pool_window(input.shape, window_shape, strides, pad, dim_rounding_mode, dilations)
    return summary(MAX_POOL if pooling_type == "max" else AVERAGE_POOL, input, window)


table.update(
    {
        pooling.max_pool: max_pool,
        pooling.max_pool_gradient: max_pool_gradient,
        pooling.avg_pool: avg_pool,
        pooling.avg_pool_gradient: avg_pool_gradient,
    }
)
