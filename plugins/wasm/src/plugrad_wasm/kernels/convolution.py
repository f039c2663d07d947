"""Convolutions and their gradients; the exports of the module compute in NHWC."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugrad.extend import DataFormat, Padding, Pair, Rounding, Window, geometry, size_of
from plugrad.kernels import convolution
from plugrad_wasm.bits import fill
from plugrad_wasm.declare import ExportNames, call, table
from plugrad_wasm.kernels.movement import transpose
from plugrad_wasm.windows import window_descriptor

if TYPE_CHECKING:
    from plugrad_wasm.memory import WasmArray

Sizes = tuple[int, ...]

FORWARD = ExportNames("conv2d")
INPUT_GRADIENT = ExportNames("conv2d_input_gradient")
FILTER_GRADIENT = ExportNames("conv2d_filter_gradient")


def channels_last(x: WasmArray, data_format: DataFormat) -> WasmArray:
    """Return images of a data format as NHWC."""
    return x if data_format == "NHWC" else transpose(x, perm=(0, 2, 3, 1))


def formatted(x: WasmArray, data_format: DataFormat) -> WasmArray:
    """Return NHWC images in a data format."""
    return x if data_format == "NHWC" else transpose(x, perm=(0, 3, 1, 2))


def convolved(
    names: ExportNames,
    a: WasmArray,
    b: WasmArray,
    out_shape: Sizes,
    window: Window,
    *,
    image: Sizes,
    filter: Sizes,
) -> WasmArray:
    """Return the result of one of the three kernels for images of an NHWC shape."""
    memory = a.memory
    work = image[0] * size_of(window.out) * size_of(filter)
    run = call(a, names[a.dtype], work)  # refuses a dtype without an export, of empty images too
    if 0 in (*image, *window.out, *filter):
        return fill(memory, out_shape, a.dtype, 0)
    out = memory.empty(out_shape, a.dtype)
    fields = window_descriptor(image, window)
    descriptor = memory.store.descriptor(fields)
    kind = "conv2d_scratch" if names is FORWARD else "conv2d_gradient_scratch"
    size = memory.store.scratch_size(kind, fields, filter[3])
    scratch = memory.empty((size,), a.dtype)
    run(a.address, b.address, out.address, descriptor.address, filter[3], scratch.address)
    return out


@table.implements(convolution.conv2d)
def conv2d(
    x: WasmArray,
    filter: WasmArray,
    *,
    strides: Pair,
    pad: Padding,
    data_format: DataFormat,
    dilations: Pair,
    dim_rounding_mode: Rounding,
) -> WasmArray:
    """Return the cross-correlation of images with filters."""
    batch, _, window = geometry(
        x.shape, filter.shape, strides, pad, data_format, dilations, dim_rounding_mode
    )
    x = channels_last(x, data_format)
    shape = (batch, *window.out, filter.shape[3])
    out = convolved(FORWARD, x, filter, shape, window, image=x.shape, filter=filter.shape)
    return formatted(out, data_format)


@table.implements(convolution.conv2d_input_gradient)
def conv2d_input_gradient(
    dy: WasmArray,
    filter: WasmArray,
    *,
    input_shape: Sizes,
    strides: Pair,
    pad: Padding,
    data_format: DataFormat,
    dilations: Pair,
    dim_rounding_mode: Rounding,
) -> WasmArray:
    """Return the gradient of `conv2d` with respect to its images."""
    batch, channels, window = geometry(
        input_shape, filter.shape, strides, pad, data_format, dilations, dim_rounding_mode
    )
    dy = channels_last(dy, data_format)
    size = input_shape[1:3] if data_format == "NHWC" else input_shape[2:]
    image = (batch, *size, channels)
    dx = convolved(INPUT_GRADIENT, dy, filter, image, window, image=image, filter=filter.shape)
    return formatted(dx, data_format)


@table.implements(convolution.conv2d_filter_gradient)
def conv2d_filter_gradient(
    x: WasmArray,
    dy: WasmArray,
    *,
    filter_shape: Sizes,
    strides: Pair,
    pad: Padding,
    data_format: DataFormat,
    dilations: Pair,
    dim_rounding_mode: Rounding,
) -> WasmArray:
    """Return the gradient of `conv2d` with respect to its filters."""
    _, _, window = geometry(
        x.shape, filter_shape, strides, pad, data_format, dilations, dim_rounding_mode
    )
    x, dy = channels_last(x, data_format), channels_last(dy, data_format)
    return convolved(
        FILTER_GRADIENT, x, dy, filter_shape, window, image=x.shape, filter=filter_shape
    )
