"""Images that are cut, flipped and warped: the module computes which pixels each pixel of a result shows."""

from __future__ import annotations

from math import cos, sin
from typing import TYPE_CHECKING, get_args

import numpy as np

from plugrad.extend import FLOATING, DType, Pair, Shape, float32, float64, uint8
from plugrad.kernels import image as kernels
from plugrad.kernels.image import Fill, FillMode, Interpolation
from plugrad_wasm.bits import fill
from plugrad_wasm.declare import ExportNames, call, table
from plugrad_wasm.kernels.indexing import positions
from plugrad_wasm.kernels.movement import reverse
from plugrad_wasm.kernels.unary import cast

if TYPE_CHECKING:
    from plugrad_wasm.memory import LinearMemory, WasmArray

CROP = ExportNames("crop_and_resize")
CROP_GRADIENT = ExportNames("crop_and_resize_gradient")
TRANSFORM = ExportNames("transform")
TRANSFORM_GRADIENT = ExportNames("transform_gradient")
FILL_MODES: tuple[FillMode, ...] = get_args(FillMode)


def view(images: Shape, size: Shape, interpolation: Interpolation, mode: FillMode) -> Shape:
    """Return the fields of ``view`` in csrc/image.c."""
    return (*images, *size, interpolation == "bilinear", FILL_MODES.index(mode))


def filling(memory: LinearMemory, value: Fill, channels: int, dtype: DType) -> WasmArray:
    """Return a pixel outside of the images, and one of zeros."""
    pixels = np.zeros((2, channels))
    pixels[0] = value
    with np.errstate(over="ignore"):
        return memory.from_numpy(pixels.astype(dtype), dtype)


def scratch(memory: LinearMemory, fields: Shape) -> WasmArray:
    """Return room for the places of the columns and the taps of a row: at most five of 16 bytes a column."""
    return memory.empty((5 * 16 * fields[5],), uint8)


def shown(
    names: ExportNames, images: WasmArray, fields: Shape, outside: Fill, count: int, *points: int
) -> WasmArray:
    """Return `count` results that show points of images; `points` are what the export takes for them."""
    memory = images.memory
    *_, channels, height, width, _, _ = fields
    out = memory.empty((count, height, width, channels), images.dtype)
    if out.size:
        border, room = filling(memory, outside, channels, images.dtype), scratch(memory, fields)
        descriptor = memory.store.descriptor(fields)
        run = call(images, names[images.dtype], 4 * out.size)
        addresses = (out.address, images.address, descriptor.address)
        run(*addresses, *points, border.address, room.address)
    return out


def returned(names: ExportNames, dy: WasmArray, fields: Shape, *points: int) -> WasmArray:
    """Return the images' gradient: dy added to the pixels that were shown, in double precision."""
    memory = dy.memory
    dx = fill(memory, fields[:4], float64, 0)
    if dy.size:
        descriptor = memory.store.descriptor(fields)
        run = call(dy, names[dy.dtype], 4 * dy.size)
        room = scratch(memory, fields)
        run(dy.address, dx.address, descriptor.address, *points, 0, room.address)
    return cast(dx, dtype=dy.dtype)


@table.implements(kernels.crop_and_resize)
def crop_and_resize(
    image: WasmArray,
    boxes: WasmArray,
    box_ind: WasmArray,
    *,
    crop_size: Pair,
    method: Interpolation,
    extrapolation_value: float,
) -> WasmArray:
    """Return the contents of boxes in images, resized; a box in no image contains zeros."""
    images = image if image.dtype in FLOATING else cast(image, dtype=float32)
    boxes, numbers = cast(boxes, dtype=float64), positions(box_ind)
    fields, count = view(images.shape, crop_size, method, "nearest"), numbers.size
    points = (boxes.address, numbers.address, count)
    return shown(CROP, images, fields, extrapolation_value, count, *points)


@table.implements(kernels.crop_and_resize_image_gradient)
def crop_and_resize_image_gradient(
    dy: WasmArray,
    boxes: WasmArray,
    box_ind: WasmArray,
    *,
    image_shape: Shape,
    method: Interpolation,
) -> WasmArray:
    """Return the images' gradient: dy added to the pixels that its boxes show."""
    boxes, numbers = cast(boxes, dtype=float64), positions(box_ind)
    fields = view(image_shape, dy.shape[1:3], method, "nearest")
    return returned(CROP_GRADIENT, dy, fields, boxes.address, numbers.address, numbers.size)


@table.implements(kernels.flip_left_right)
def flip_left_right(image: WasmArray) -> WasmArray:
    """Return images with their columns reversed."""
    return reverse(image, dims=(2,))


def rotation(x: WasmArray, radians: float, center: tuple[float, ...]) -> WasmArray:
    """Return the transform that rotates images around a center, given in fractions of their size."""
    _, height, width, _ = x.shape
    sine, cosine = sin(radians), cos(radians)
    middle_x, middle_y = center[0] * width - 0.5, center[1] * height - 0.5
    across = middle_x - middle_x * cosine + middle_y * sine
    down = middle_y - middle_x * sine - middle_y * cosine
    values = np.array([cosine, -sine, across, sine, cosine, down, 0, 0])
    return x.memory.from_numpy(values, float64)


@table.implements(kernels.rotate_with_offset)
def rotate_with_offset(
    image: WasmArray, *, radians: float, fill_value: Fill, center: tuple[float, ...]
) -> WasmArray:
    """Return the rotated images."""
    turn, shape = rotation(image, radians, center), image.shape
    fields = view(shape, shape[1:3], "nearest", "constant")
    return shown(TRANSFORM, image, fields, fill_value, shape[0], turn.address, 0, True)


@table.implements(kernels.rotate_with_offset_gradient)
def rotate_with_offset_gradient(
    dy: WasmArray, *, radians: float, center: tuple[float, ...]
) -> WasmArray:
    """Return the images' gradient: dy added to the pixels that the result shows."""
    turn, shape = rotation(dy, radians, center), dy.shape
    fields = view(shape, shape[1:3], "nearest", "constant")
    return returned(TRANSFORM_GRADIENT, dy, fields, turn.address, 0, True)


@table.implements(kernels.transform)
def transform(
    image: WasmArray,
    transforms: WasmArray,
    *,
    interpolation: Interpolation,
    fill_mode: FillMode,
    fill_value: Fill,
    output_shape: Pair,
) -> WasmArray:
    """Return the transformed images."""
    fields = view(image.shape, output_shape, interpolation, fill_mode)
    each, step = cast(transforms, dtype=float64), stride(transforms)
    count = image.shape[0]
    return shown(TRANSFORM, image, fields, fill_value, count, each.address, step, False)


@table.implements(kernels.transform_image_gradient)
def transform_image_gradient(
    dy: WasmArray,
    transforms: WasmArray,
    *,
    image_shape: Shape,
    interpolation: Interpolation,
    fill_mode: FillMode,
) -> WasmArray:
    """Return the images' gradient: dy added to the pixels that the result shows."""
    fields = view(image_shape, dy.shape[1:3], interpolation, fill_mode)
    each, step = cast(transforms, dtype=float64), stride(transforms)
    return returned(TRANSFORM_GRADIENT, dy, fields, each.address, step, False)


def stride(transforms: WasmArray) -> int:
    """Return the number of elements from the transform of one image to that of the next."""
    return 8 if transforms.shape[0] > 1 else 0
