"""Images that are cut, flipped and warped: shaders compute the source position of each pixel of a result."""

from __future__ import annotations

import math
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import numpy as np

from plugrad.extend import float32, uint32
from plugrad.kernels import image as kernels
from plugrad.kernels.image import FillMode
from plugrad_webgpu.declare import table
from plugrad_webgpu.kernels.indexing import as_32_bit_indices
from plugrad_webgpu.kernels.movement import reverse
from plugrad_webgpu.kernels.unary import cast
from plugrad_webgpu.memory.copying import full
from plugrad_webgpu.memory.transfers import upload
from plugrad_webgpu.shaders.program import Program, plan
from plugrad_webgpu.shaders.sources import shader

if TYPE_CHECKING:
    from plugrad.extend import Pair, Shape
    from plugrad.kernels.image import FillValue, Interpolation
    from plugrad_webgpu.memory.buffers import CommandRecorder, GpuArray
    from plugrad_webgpu.shaders.program import Plan

FILL_MODES: tuple[FillMode, ...] = get_args(FillMode)
"""The names of the rules for pixels outside of the images."""
CHANNELS_PER_INVOCATION = 16
"""The largest number of channels that an invocation computes."""
ROTATION_COORDINATE_NUDGE = 0.5e-9
"""How many pixels are added to rotated coordinates, so that no rounding error chooses between two pixels."""

PointSourceName = Literal["boxes", "transforms", "rotation"]
"""What defines the sampling points: boxes, projective transforms or a rotation."""
POINT_ARRAY_DECLARATIONS: dict[PointSourceName, tuple[str, ...]] = {
    "boxes": ("boxes: array<f32>", "numbers: array<i32>"),
    "transforms": ("transforms: array<f32>",),
    "rotation": ("rotation: array<vec2f>",),
}
"""The WGSL declarations of the arrays from which a shader computes points, by what defines the points."""

SamplingPassName = Literal["forward", "measure", "add"]
"""The entry point: sampling, or for gradients the measuring of the largest terms and their addition."""
SCATTER_PASSES: tuple[SamplingPassName, ...] = ("measure", "add")
"""The passes of the gradient for images, in this order."""


class SamplingOptions(NamedTuple):
    """The options that determine the WGSL by which a shader finds sampling points."""

    point_source: PointSourceName
    """What defines the points: boxes, transforms or a rotation."""
    interpolation: Interpolation
    """The interpolation between pixels: "nearest" or "bilinear"."""
    fill_mode: FillMode
    """The name of the rule for pixels outside of the images."""
    transform_stride: int = 0
    """The distance in numbers between the transforms of two images; 0 if all share one."""
    coordinate_nudge: float = 0.0
    """How much is added to coordinates in pixels before the nearest pixel is chosen."""


class SamplingPoints(NamedTuple):
    """The points at which images are sampled: arrays that define them, and how a shader reads them."""

    arrays: tuple[GpuArray, ...]
    """The boxes, transforms or angles that define the points."""
    options: SamplingOptions
    """How a shader computes the points from the arrays."""


def box_sampling_points(
    boxes: GpuArray, box_ind: GpuArray, method: Interpolation
) -> SamplingPoints:
    """Return the sampling points of boxes in images."""
    numbers = as_32_bit_indices(box_ind, "the webgpu kernel CropAndResize (box_ind)")
    return SamplingPoints((boxes, numbers), SamplingOptions("boxes", method, "nearest"))


def transform_sampling_points(
    transforms: GpuArray, interpolation: Interpolation, fill_mode: FillMode
) -> SamplingPoints:
    """Return the sampling points of transforms, one for each image or one for all."""
    step = 8 if transforms.shape[0] > 1 else 0
    return SamplingPoints(
        (transforms,), SamplingOptions("transforms", interpolation, fill_mode, step)
    )


def rotation_sampling_points(
    x: GpuArray, radians: float, center: tuple[float, ...]
) -> SamplingPoints:
    """Return the sampling points of images rotated around a center, given as fractions of their size."""
    _, height, width, _ = x.shape
    sine, cosine = math.sin(radians), math.cos(radians)
    middle_x, middle_y = center[0] * width - 0.5, center[1] * height - 0.5
    across = middle_x - middle_x * cosine + middle_y * sine
    down = middle_y - middle_x * sine - middle_y * cosine
    exact = np.array([cosine, -sine, across, sine, cosine, down])
    numbers = exact.astype(np.float32)
    pairs = np.stack([numbers, (exact - numbers).astype(np.float32)], axis=1)
    turn = upload(x.buffer.device, pairs, float32)
    # The cosine of a quarter turn is not exactly 0, which would decide between two pixels.
    return SamplingPoints(
        (turn,), SamplingOptions("rotation", "nearest", "constant", 0, ROTATION_COORDINATE_NUDGE)
    )


# --- kernels ----------------------------------------------------------------------------------------


@table.implements(kernels.crop_and_resize)
def crop_and_resize(
    image: GpuArray,
    boxes: GpuArray,
    box_ind: GpuArray,
    *,
    crop_size: Pair,
    method: Interpolation,
    extrapolation_value: float,
) -> GpuArray:
    """Return the contents of boxes resized; a box in no image gives zeros."""
    shape = (boxes.shape[0], *crop_size, image.shape[3])
    view = box_sampling_points(boxes, box_ind, method)
    return sample_images(cast(image, dtype=float32), view, shape, extrapolation_value)


@table.implements(kernels.crop_and_resize_image_gradient)
def crop_and_resize_image_gradient(
    dy: GpuArray, boxes: GpuArray, box_ind: GpuArray, *, image_shape: Shape, method: Interpolation
) -> GpuArray:
    """Return the gradient for the images: dy added to the sampled pixels."""
    return scatter_to_images(dy, box_sampling_points(boxes, box_ind, method), image_shape)


@table.implements(kernels.flip_left_right)
def flip_left_right(image: GpuArray) -> GpuArray:
    """Return images with their columns reversed."""
    return reverse(image, dims=(2,))


@table.implements(kernels.rotate_with_offset)
def rotate_with_offset(
    image: GpuArray, *, radians: float, fill_value: FillValue, center: tuple[float, ...]
) -> GpuArray:
    """Return the rotated images."""
    return sample_images(
        image, rotation_sampling_points(image, radians, center), image.shape, fill_value
    )


@table.implements(kernels.rotate_with_offset_gradient)
def rotate_with_offset_gradient(
    dy: GpuArray, *, radians: float, center: tuple[float, ...]
) -> GpuArray:
    """Return the gradient for the images: dy added to the sampled pixels."""
    return scatter_to_images(dy, rotation_sampling_points(dy, radians, center), dy.shape)


@table.implements(kernels.transform)
def transform(
    image: GpuArray,
    transforms: GpuArray,
    *,
    interpolation: Interpolation,
    fill_mode: FillMode,
    fill_value: FillValue,
    output_shape: Pair,
) -> GpuArray:
    """Return images warped by projective transforms."""
    view = transform_sampling_points(transforms, interpolation, fill_mode)
    return sample_images(image, view, (image.shape[0], *output_shape, image.shape[3]), fill_value)


@table.implements(kernels.transform_image_gradient)
def transform_image_gradient(
    dy: GpuArray,
    transforms: GpuArray,
    *,
    image_shape: Shape,
    interpolation: Interpolation,
    fill_mode: FillMode,
) -> GpuArray:
    """Return the gradient for the images: dy added to the sampled pixels."""
    return scatter_to_images(
        dy, transform_sampling_points(transforms, interpolation, fill_mode), image_shape
    )


# --- one sampler for all ----------------------------------------------------------------------------


def sample_images(
    images: GpuArray, points: SamplingPoints, result_shape: Shape, fill_value: FillValue
) -> GpuArray:
    """Return images sampled at points; `fill_value` outside."""
    device = images.buffer.device
    filling = _fill_channels(device, fill_value, result_shape[3])
    step = _sampling_plan("forward", points.options, images.shape, result_shape)
    return device.launch(step, *points.arrays, images, filling)


def scatter_to_images(dy: GpuArray, points: SamplingPoints, image_shape: Shape) -> GpuArray:
    """Return images of which each pixel is the weighted sum of dy at the points that sample it.

    The sums do not depend on the order of the additions, which on a device is different each time.
    """
    device = dy.buffer.device
    sums = full(device, (*image_shape, 3), 0, uint32)
    for role in SCATTER_PASSES:
        step = _sampling_plan(role, points.options, image_shape, dy.shape)
        device.launch_into(step, sums, *points.arrays, dy)
    count = math.prod(image_shape)
    return device.launch(plan(_SCATTER_SUM_PROGRAM, (count,), count, image_shape, float32), sums)


def _fill_channels(device: CommandRecorder, value: FillValue, channels: int) -> GpuArray:
    """Return the array of the channels of a pixel outside of the images."""
    if not isinstance(value, tuple):
        return full(device, (channels,), value, float32)
    with np.errstate(over="ignore"):
        return upload(device, np.array(value).astype(np.float32), float32)


@lru_cache(maxsize=1024)
def _sampling_plan(
    pass_name: SamplingPassName, options: SamplingOptions, image_shape: Shape, result_shape: Shape
) -> Plan:
    """Return the plan with one invocation for each result pixel, or for some of its channels."""
    chunk = min(max(result_shape[3], 1), CHANNELS_PER_INVOCATION)
    chunks = -(-result_shape[3] // chunk)
    count = math.prod(result_shape[:3]) * chunks
    kind, interpolation, fill_mode, *numbers = options
    mode = FILL_MODES.index(fill_mode)
    parameters = (count, chunks, chunk, *image_shape, *result_shape[1:3], mode, 0, *numbers)
    return plan(
        _sampling_program(pass_name, kind, interpolation), parameters, count, result_shape, float32
    )


@cache
def _sampling_program(
    pass_name: SamplingPassName, point_source: PointSourceName, interpolation: Interpolation
) -> Program:
    """Return the program of one pass of sampling or of its gradient."""
    names = [*POINT_ARRAY_DECLARATIONS[point_source]]
    if pass_name == "forward":
        names += ["images: array<f32>", "filling: array<f32>"]
        output, files = "output: array<f32>", ["image_forward"]
    else:
        names += ["dy: array<f32>"]
        output, files = "sums: array<atomic<u32>>", ["sums", "image_gradient"]
    arrays = [*[f"var<storage, read> {n};" for n in names], f"var<storage, read_write> {output};"]
    source = partial(
        shader,
        *("image", f"image_{point_source}", *files),
        bindings="\n".join(f"@group(0) @binding({i}) {a}" for i, a in enumerate(arrays)),
        interpolation=interpolation,
        more="3" if interpolation == "bilinear" else "0",
        send=pass_name,
    )
    return Program(f"image {pass_name} {point_source}", source)


_SCATTER_SUM_PROGRAM = Program("total", partial(shader, "sums_total"))
"""The program that converts fixed-point sums of gradients to floats."""
