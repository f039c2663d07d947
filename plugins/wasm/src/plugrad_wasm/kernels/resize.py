"""Resizing of images, and its gradients: the module computes the source position of each pixel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugrad.extend import FLOATING, Pair, Shape, float32
from plugrad.kernels import resize
from plugrad_wasm.bits import fill
from plugrad_wasm.declare import (
    ELEMENTWISE_PART_STEPS,
    ExportNames,
    iter_part_ranges,
    run_call_chains,
    table,
)
from plugrad_wasm.kernels.unary import cast

if TYPE_CHECKING:
    from plugrad_wasm.memory import WasmArray

BILINEAR_EXPORTS = ExportNames("resize_bilinear")
"""The exports of bilinear resizing, by dtype."""
RESIZE_GRADIENT_EXPORTS = ExportNames("resize_gradient")
"""The exports of the gradients of both kinds of resizing, by dtype."""
SCRATCH_BYTES_PER_COLUMN = 16
"""The bytes of scratch memory for each column of the result: a struct ``place`` of csrc/resize.c."""


def run_resize(
    export: str,
    x: WasmArray,
    out_shape: Shape,
    image_shape: Shape,
    result_size: Pair,
    align_corners: bool,
    half_pixel_centers: bool,
    *is_nearest: bool,
) -> WasmArray:
    """Return images resized to a height and a width by the export with this name, or the gradient for images."""
    memory, itemsize, is_gradient = x.memory, x.dtype.itemsize, bool(is_nearest)
    out = fill(memory, out_shape, x.dtype, 0) if is_gradient else memory.empty(out_shape, x.dtype)
    if not out.size:
        return out
    batch, height, width, channels = image_shape
    chains: list[list[tuple[int, ...]]] = []
    held: list[object] = [x, out]
    work = x.size + out.size
    for (n, count), (row, rows) in iter_part_ranges(
        (batch, result_size[0]), work, ELEMENTWISE_PART_STEPS.maximum
    ):
        fields = (height, width, channels, *result_size, align_corners, half_pixel_centers)
        descriptor = memory.store.descriptor((*fields, row, row + rows))
        held.append(descriptor)
        image = n * height * width * channels
        result = (n * result_size[0] + row) * result_size[1] * channels
        starts = (result, image) if is_gradient else (image, result)
        addresses = (y.address + at * itemsize for y, at in zip((x, out), starts, strict=True))
        if row == 0 or not is_gradient:  # the rows of a gradient are added to one image, in order
            chains.append([])
        chains[-1].append((*addresses, count, descriptor.address, *is_nearest))
    run_call_chains(
        x,
        export,
        chains,
        held,
        work,
        SCRATCH_BYTES_PER_COLUMN * result_size[1] + width * channels * itemsize,
    )
    return out


@table.implements(resize.resize_bilinear)
def resize_bilinear(
    images: WasmArray, *, size: Pair, align_corners: bool, half_pixel_centers: bool
) -> WasmArray:
    """Return images resized to a height and a width, interpolated between rows, then between columns."""
    x = images if images.dtype in FLOATING else cast(images, dtype=float32)
    shape = (x.shape[0], *size, x.shape[3])
    return run_resize(
        BILINEAR_EXPORTS[x.dtype], x, shape, x.shape, size, align_corners, half_pixel_centers
    )


@table.implements(resize.resize_bilinear_gradient)
def resize_bilinear_gradient(
    images: WasmArray, dy: WasmArray, *, size: Pair, align_corners: bool, half_pixel_centers: bool
) -> WasmArray:
    """Return the gradient for the images: dy distributed to columns, then to rows."""
    how = (size, align_corners, half_pixel_centers, False)
    return run_resize(RESIZE_GRADIENT_EXPORTS[dy.dtype], dy, images.shape, images.shape, *how)


@table.implements(resize.resize_nearest_neighbor)
def resize_nearest_neighbor(
    images: WasmArray, *, size: Pair, align_corners: bool, half_pixel_centers: bool
) -> WasmArray:
    """Return images resized to a height and a width by nearest neighbours."""
    export, shape = f"resize_nearest_{images.dtype.itemsize}", images.shape
    out = (shape[0], *size, shape[3])
    return run_resize(export, images, out, shape, size, align_corners, half_pixel_centers)


@table.implements(resize.resize_nearest_neighbor_gradient)
def resize_nearest_neighbor_gradient(
    images: WasmArray, dy: WasmArray, *, size: Pair, align_corners: bool, half_pixel_centers: bool
) -> WasmArray:
    """Return the gradient for the images: for each pixel the sum of dy over the pixels that show it."""
    how = (size, align_corners, half_pixel_centers, True)
    return run_resize(RESIZE_GRADIENT_EXPORTS[dy.dtype], dy, images.shape, images.shape, *how)
