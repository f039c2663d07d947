"""Images that are cut, flipped and warped: the module computes the source position of each pixel of a result."""

from __future__ import annotations

from math import cos, sin
from typing import TYPE_CHECKING, NamedTuple, get_args

import numpy as np

from plugrad.extend import FLOATING, DType, Pair, Shape, count_elements, float32, float64
from plugrad.kernels import image as kernels
from plugrad.kernels.image import FillMode, FillValue, Interpolation
from plugrad_wasm.bits import fill
from plugrad_wasm.declare import (
    ELEMENTWISE_PART_STEPS,
    ExportNames,
    iter_part_ranges,
    run_call_chains,
    table,
)
from plugrad_wasm.kernels.indexing import as_int32_positions
from plugrad_wasm.kernels.movement import reverse
from plugrad_wasm.kernels.unary import cast

if TYPE_CHECKING:
    from plugrad_wasm.memory import LinearMemory, WasmArray

CROP_EXPORTS = ExportNames("crop_and_resize")
"""The exports that cut boxes out of images, by dtype."""
CROP_GRADIENT_EXPORTS = ExportNames("crop_and_resize_gradient")
"""The exports of the gradient of cutting boxes, by dtype."""
TRANSFORM_EXPORTS = ExportNames("transform")
"""The exports that transform images, by dtype."""
TRANSFORM_GRADIENT_EXPORTS = ExportNames("transform_gradient")
"""The exports of the gradient of transforming images, by dtype."""
FILL_MODES: tuple[FillMode, ...] = get_args(FillMode)
"""The names of the fill modes, whose indices exports take."""


class SamplePoints(NamedTuple):
    """The points of images that results show: coordinates for each result, and further arguments of exports."""

    coordinates: WasmArray
    """The corners of boxes or the transforms, one after another for the results."""
    stride_between_results: int
    """The number of elements of `coordinates` from one result to the next."""
    per_result_arrays: tuple[WasmArray, ...] = ()
    """Arrays with one element for each result."""
    export_arguments: tuple[int, ...] = ()
    """Further arguments of the export."""
    has_one_result_per_image: bool = False
    """Whether each result shows the image with the same index."""


def describe_sampling(
    image_shape: Shape, result_size: Shape, interpolation: Interpolation, fill_mode: FillMode
) -> Shape:
    """Return the fields of ``sampling_descriptor`` in csrc/image.c without its rows."""
    return (*image_shape, *result_size, interpolation == "bilinear", FILL_MODES.index(fill_mode))


def make_border_pixels(
    linear_memory: LinearMemory, fill_value: FillValue, channels: int, dtype: DType
) -> WasmArray:
    """Return two pixels: one of `fill_value`, for points outside of images, and one of zeros."""
    pixels = np.zeros((2, channels))
    pixels[0] = fill_value
    with np.errstate(over="ignore"):
        return linear_memory.from_numpy(pixels.astype(dtype), dtype)


def sample_images(
    export_names: ExportNames,
    images: WasmArray,
    sampling_fields: Shape,
    fill_value: FillValue,
    result_count: int,
    points: SamplePoints,
) -> WasmArray:
    """Return images sampled at points, `result_count` of them; points outside of images give `fill_value`."""
    memory = images.memory
    *_, channels, height, width, _, _ = sampling_fields
    out = memory.empty((result_count, height, width, channels), images.dtype)
    if out.size:
        border = make_border_pixels(memory, fill_value, channels, images.dtype)
        run_image_rows(
            export_names, out, images, sampling_fields, points, border, is_gradient=False
        )
    return out


def scatter_to_images(
    export_names: ExportNames, dy: WasmArray, sampling_fields: Shape, points: SamplePoints
) -> WasmArray:
    """Return the gradient for the images: dy added to the sampled pixels in double precision."""
    dx = fill(dy.memory, sampling_fields[:4], float64, 0)
    if dy.size:
        run_image_rows(export_names, dy, dx, sampling_fields, points, None, is_gradient=True)
    return cast(dx, dtype=dy.dtype)


def run_image_rows(
    export_names: ExportNames,
    results: WasmArray,
    images: WasmArray,
    sampling_fields: Shape,
    points: SamplePoints,
    border_pixels: WasmArray | None,
    *,
    is_gradient: bool,
) -> None:
    """Call an export for rows of results, in parts; it reads images, or adds gradients to them in a fixed order."""
    memory = results.memory
    count, height, width, channels = results.shape
    image_size = count_elements(images.shape[1:])
    work = 4 * results.size
    calls: list[tuple[int, ...]] = []
    held: list[object] = [
        results,
        images,
        points.coordinates,
        *points.per_result_arrays,
        border_pixels,
    ]
    for (n, some), (row, rows) in iter_part_ranges(
        (count, height), work, ELEMENTWISE_PART_STEPS.maximum
    ):
        batch = some if points.has_one_result_per_image else sampling_fields[0]
        descriptor = memory.store.descriptor((batch, *sampling_fields[1:], row, row + rows))
        held.append(descriptor)
        image = n * image_size if points.has_one_result_per_image else 0
        calls.append(
            (
                results.address + (n * height + row) * width * channels * results.dtype.itemsize,
                images.address + image * images.dtype.itemsize,
                descriptor.address,
                points.coordinates.address
                + n * points.stride_between_results * points.coordinates.dtype.itemsize,
                *(x.address + n * x.dtype.itemsize for x in points.per_result_arrays),
                *(() if points.has_one_result_per_image else (some,)),
                *points.export_arguments,
                0 if border_pixels is None else border_pixels.address,
            )
        )
    chains = [calls] if is_gradient else [[arguments] for arguments in calls]
    # Room for the places of the columns and the taps of a row: at most five of 16 bytes a column
    run_call_chains(
        results, export_names[results.dtype], chains, held, work, 5 * 16 * sampling_fields[5]
    )


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
    """Return the contents of boxes resized; a box in no image gives zeros."""
    images = image if image.dtype in FLOATING else cast(image, dtype=float32)
    boxes, numbers = cast(boxes, dtype=float64), as_int32_positions(box_ind)
    fields, count = describe_sampling(images.shape, crop_size, method, "nearest"), numbers.size
    return sample_images(
        CROP_EXPORTS, images, fields, extrapolation_value, count, SamplePoints(boxes, 4, (numbers,))
    )


@table.implements(kernels.crop_and_resize_image_gradient)
def crop_and_resize_image_gradient(
    dy: WasmArray,
    boxes: WasmArray,
    box_ind: WasmArray,
    *,
    image_shape: Shape,
    method: Interpolation,
) -> WasmArray:
    """Return the gradient for the images: dy added to the sampled pixels."""
    boxes, numbers = cast(boxes, dtype=float64), as_int32_positions(box_ind)
    fields = describe_sampling(image_shape, dy.shape[1:3], method, "nearest")
    return scatter_to_images(CROP_GRADIENT_EXPORTS, dy, fields, SamplePoints(boxes, 4, (numbers,)))


@table.implements(kernels.flip_left_right)
def flip_left_right(image: WasmArray) -> WasmArray:
    """Return images with their columns reversed."""
    return reverse(image, dims=(2,))


def rotation_transform(x: WasmArray, radians: float, center: tuple[float, ...]) -> WasmArray:
    """Return the transform that rotates images around a center given as fractions of their size."""
    _, height, width, _ = x.shape
    sine, cosine = sin(radians), cos(radians)
    middle_x, middle_y = center[0] * width - 0.5, center[1] * height - 0.5
    across = middle_x - middle_x * cosine + middle_y * sine
    down = middle_y - middle_x * sine - middle_y * cosine
    values = np.array([cosine, -sine, across, sine, cosine, down, 0, 0])
    return x.memory.from_numpy(values, float64)


@table.implements(kernels.rotate_with_offset)
def rotate_with_offset(
    image: WasmArray, *, radians: float, fill_value: FillValue, center: tuple[float, ...]
) -> WasmArray:
    """Return the rotated images."""
    turn, shape = rotation_transform(image, radians, center), image.shape
    fields = describe_sampling(shape, shape[1:3], "nearest", "constant")
    return sample_images(
        TRANSFORM_EXPORTS,
        image,
        fields,
        fill_value,
        shape[0],
        make_transform_points(turn, 0, is_rounded=True),
    )


@table.implements(kernels.rotate_with_offset_gradient)
def rotate_with_offset_gradient(
    dy: WasmArray, *, radians: float, center: tuple[float, ...]
) -> WasmArray:
    """Return the gradient for the images: dy added to the sampled pixels."""
    turn, shape = rotation_transform(dy, radians, center), dy.shape
    fields = describe_sampling(shape, shape[1:3], "nearest", "constant")
    return scatter_to_images(
        TRANSFORM_GRADIENT_EXPORTS, dy, fields, make_transform_points(turn, 0, is_rounded=True)
    )


@table.implements(kernels.transform)
def transform(
    image: WasmArray,
    transforms: WasmArray,
    *,
    interpolation: Interpolation,
    fill_mode: FillMode,
    fill_value: FillValue,
    output_shape: Pair,
) -> WasmArray:
    """Return the images that projective transforms show."""
    fields = describe_sampling(image.shape, output_shape, interpolation, fill_mode)
    points = make_transform_points(
        cast(transforms, dtype=float64),
        find_stride_between_transforms(transforms),
        is_rounded=False,
    )
    return sample_images(TRANSFORM_EXPORTS, image, fields, fill_value, image.shape[0], points)


@table.implements(kernels.transform_image_gradient)
def transform_image_gradient(
    dy: WasmArray,
    transforms: WasmArray,
    *,
    image_shape: Shape,
    interpolation: Interpolation,
    fill_mode: FillMode,
) -> WasmArray:
    """Return the gradient for the images: dy added to the sampled pixels."""
    fields = describe_sampling(image_shape, dy.shape[1:3], interpolation, fill_mode)
    points = make_transform_points(
        cast(transforms, dtype=float64),
        find_stride_between_transforms(transforms),
        is_rounded=False,
    )
    return scatter_to_images(TRANSFORM_GRADIENT_EXPORTS, dy, fields, points)


def make_transform_points(
    transforms: WasmArray, stride_between_transforms: int, *, is_rounded: bool
) -> SamplePoints:
    """Return the sampling points of transformed images."""
    return SamplePoints(
        transforms,
        stride_between_transforms,
        (),
        (stride_between_transforms, is_rounded),
        has_one_result_per_image=True,
    )


def find_stride_between_transforms(transforms: WasmArray) -> int:
    """Return the number of elements between the transforms of consecutive images."""
    return 8 if transforms.shape[0] > 1 else 0
