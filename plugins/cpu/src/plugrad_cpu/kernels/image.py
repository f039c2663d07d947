"""Geometric transformations: each pixel of a result shows a point of an image, interpolated between pixels.

All images together are one list of pixels. The forward pass takes weighted pixels from the list; a gradient adds
weighted gradients to it.
"""

import math
from typing import NamedTuple

import numpy as np

from plugrad.extend import Shape, TensorIndexError
from plugrad.kernels import image as kernels
from plugrad.kernels.image import FillMode, FillValue, Interpolation
from plugrad_cpu.declare import Array, table


class SampledPixels(NamedTuple):
    """The image pixels that the result's pixels show: positions, weights, and whether they lie inside the image."""

    positions: Array
    """The indices of pixels, with all images flattened to one axis."""
    weights: Array
    """The factors of the pixels in the interpolation."""
    is_inside: Array
    """Whether each pixel lies inside the image."""


@table.implements(kernels.crop_and_resize)
def crop_and_resize(
    image: Array,
    boxes: Array,
    box_ind: Array,
    *,
    crop_size: Shape,
    method: Interpolation,
    extrapolation_value: float,
) -> Array:
    """Return the contents of boxes in images, resized."""
    pixels = image if image.dtype.kind == "f" else image.astype(np.float32)
    shown = _sample_boxes(image.shape, boxes, box_ind, crop_size, method)
    return _weighted_sum(pixels, shown, extrapolation_value)


@table.implements(kernels.crop_and_resize_image_gradient)
def crop_and_resize_image_gradient(
    dy: Array, boxes: Array, box_ind: Array, *, image_shape: Shape, method: Interpolation
) -> Array:
    """Return the gradient for the images: dy added to the pixels that the boxes show."""
    return _scatter_to_images(
        dy, _sample_boxes(image_shape, boxes, box_ind, dy.shape[1:3], method), image_shape
    )


@table.implements(kernels.flip_left_right)
def flip_left_right(image: Array) -> Array:
    """Return images with their columns reversed."""
    return image[:, :, ::-1]


@table.implements(kernels.rotate_with_offset)
def rotate_with_offset(
    image: Array, *, radians: float, fill_value: FillValue, center: tuple[float, ...]
) -> Array:
    """Return the rotated images."""
    return _weighted_sum(image, _sample_rotated(image.shape, radians, center), fill_value)


@table.implements(kernels.rotate_with_offset_gradient)
def rotate_with_offset_gradient(dy: Array, *, radians: float, center: tuple[float, ...]) -> Array:
    """Return the gradient for the images: dy added to the pixels that the rotated images show."""
    return _scatter_to_images(dy, _sample_rotated(dy.shape, radians, center), dy.shape)


@table.implements(kernels.transform)
def transform(
    image: Array,
    transforms: Array,
    *,
    interpolation: Interpolation,
    fill_mode: FillMode,
    fill_value: FillValue,
    output_shape: Shape,
) -> Array:
    """Return the images, seen through projective transforms of their coordinates."""
    shown = _sample_transformed(image.shape, transforms, output_shape, interpolation, fill_mode)
    return _weighted_sum(image, shown, fill_value)


@table.implements(kernels.transform_image_gradient)
def transform_image_gradient(
    dy: Array,
    transforms: Array,
    *,
    image_shape: Shape,
    interpolation: Interpolation,
    fill_mode: FillMode,
) -> Array:
    """Return the gradient for the images: dy added to the pixels that the transformed images show."""
    shown = _sample_transformed(image_shape, transforms, dy.shape[1:3], interpolation, fill_mode)
    return _scatter_to_images(dy, shown, image_shape)


# --- the points that are shown, in double precision for images of any dtype -------------------------


def _sample_boxes(
    images: Shape, boxes: Array, box_ind: Array, size: Shape, method: Interpolation
) -> list[SampledPixels]:
    """Return the pixels of images of a shape that crops of a size show.

    Raises:
        TensorIndexError: the image of a box does not exist.
    """
    count, height, width, _ = images
    wrong = box_ind[(box_ind < -count) | (box_ind >= count)]
    if wrong.size:
        raise TensorIndexError(
            f"CropAndResize: box_ind {wrong[0]} is not in [{-count}, {count}), the range for {count} images"
        )
    top, left, bottom, right = boxes.astype(np.float64).T
    rows = _sample_points(top, bottom, size[0], height)[:, :, None]
    columns = _sample_points(left, right, size[1], width)[:, None, :]
    is_inside = (rows >= 0) & (rows <= height - 1) & (columns >= 0) & (columns <= width - 1)
    numbers = np.where(box_ind < 0, box_ind + count, box_ind).astype(np.intp)
    return _sample_pixels(images, numbers, rows, columns, is_inside, method, "nearest")


def _sample_points(
    start_fraction: Array, end_fraction: Array, point_count: int, axis_length: int
) -> Array:
    """Return equally spaced coordinates between two fractions of an axis; a single one is in the middle."""
    shares = np.linspace(0, 1, point_count) if point_count > 1 else np.array([0.5])
    return (start_fraction[:, None] * (1 - shares) + end_fraction[:, None] * shares) * (
        axis_length - 1
    )


def _sample_rotated(
    images: Shape, radians: float, center: tuple[float, ...]
) -> list[SampledPixels]:
    """Return the pixels of images of a shape that rotated images show."""
    count, height, width, _ = images
    middle_x, middle_y = center[0] * width - 0.5, center[1] * height - 0.5
    y: Array = np.arange(height)[:, None] - middle_y
    x: Array = np.arange(width) - middle_x
    sine, cosine = math.sin(radians), math.cos(radians)
    # Rounded, because the cosine of a quarter turn is not exactly 0, which decides between two pixels.
    rows = np.round(x * sine + y * cosine + middle_y, 9)
    columns = np.round(x * cosine - y * sine + middle_x, 9)
    is_inside = np.ones((1, 1, 1), bool)
    return _sample_pixels(images, np.arange(count), rows, columns, is_inside, "nearest", "constant")


def _sample_transformed(
    images: Shape,
    transforms: Array,
    size: Shape,
    interpolation: Interpolation,
    fill_mode: FillMode,
) -> list[SampledPixels]:
    """Return the pixels of images of a shape that transformed images of a size show."""
    y, x = np.arange(size[0])[:, None], np.arange(size[1])
    a, b, c, d, e, f, g, h = transforms.astype(np.float64).T[:, :, None, None]
    depth = g * x + h * y + 1
    rows, columns = (d * x + e * y + f) / depth, (a * x + b * y + c) / depth
    is_known = np.isfinite(rows) & np.isfinite(columns)
    return _sample_pixels(
        images, np.arange(images[0]), rows, columns, is_known, interpolation, fill_mode
    )


# --- the pixels around points -----------------------------------------------------------------------


def _sample_pixels(
    images: Shape,
    image_indices: Array,
    row_coordinates: Array,
    column_coordinates: Array,
    is_inside: Array,
    interpolation: Interpolation,
    fill_mode: FillMode,
) -> list[SampledPixels]:
    """Return the pixels around points, given by image indices and coordinates, for images of a shape.

    They are the nearest pixel, or the four pixels around; for a point on a row, both rows are this one.
    """
    _, height, width, _ = images
    row_coordinates, column_coordinates = (
        np.where(is_inside, row_coordinates, 0),
        np.where(is_inside, column_coordinates, 0),
    )
    if interpolation == "nearest":
        weighted = [
            (np.floor(row_coordinates + 0.5), np.floor(column_coordinates + 0.5), np.ones(1))
        ]
    else:
        top, left = np.floor(row_coordinates), np.floor(column_coordinates)
        down, right = row_coordinates - top, column_coordinates - left
        bottom, end = np.ceil(row_coordinates), np.ceil(column_coordinates)
        weighted = [
            (top, left, (1 - down) * (1 - right)),
            (top, end, (1 - down) * right),
            (bottom, left, down * (1 - right)),
            (bottom, end, down * right),
        ]
    shown: list[SampledPixels] = []
    for row, column, weights in weighted:
        inner_row, inner_column = (
            _extend_positions(row, height, fill_mode),
            _extend_positions(column, width, fill_mode),
        )
        positions = (image_indices[:, None, None] * height + inner_row) * width + inner_column
        is_pixel = (row == inner_row) & (column == inner_column) | (fill_mode != "constant")
        shown.append(SampledPixels(positions, weights, is_inside & is_pixel))
    return shown


def _extend_positions(positions: Array, length: int, fill_mode: FillMode) -> Array:
    """Return positions on an axis of a length for those beyond its ends, as the fill mode says."""
    if fill_mode == "wrap":
        positions = np.mod(positions, length)
    elif fill_mode == "reflect":
        positions = np.mod(positions, 2 * length)
        positions = np.minimum(positions, 2 * length - 1 - positions)
    return np.clip(positions, 0, length - 1).astype(np.intp)


def _weighted_sum(
    image: Array, sampled_pixels: list[SampledPixels], fill_value: FillValue
) -> Array:
    """Return the sum of the weighted pixels of an image, with `fill_value` for those outside."""
    count, height, width, channels = image.shape
    pixels = image.reshape(count * height * width, channels)
    filling = np.asarray(fill_value, image.dtype)
    parts: list[Array] = []
    for positions, weights, is_inside in sampled_pixels:
        weights = weights.astype(image.dtype)[..., None]
        outside = np.where(weights == 0, 0, filling)  # it may be infinite or NaN
        parts.append(np.where(is_inside[..., None], pixels[positions], outside) * weights)
    total = parts[0]
    for part in parts[1:]:
        total += part
    return total


def _scatter_to_images(dy: Array, sampled_pixels: list[SampledPixels], image_shape: Shape) -> Array:
    """Return images in which each pixel is the weighted sum of dy over the results that show it."""
    channels, size = image_shape[3], int(np.prod(image_shape))
    total = np.zeros(size)
    for positions, weights, is_inside in sampled_pixels:
        places = positions[..., None] * channels + np.arange(channels)
        parts = dy * (weights * is_inside)[..., None]
        total += np.bincount(places.ravel(), parts.ravel(), size)
    return total.reshape(image_shape).astype(dy.dtype)
