"""Image kernels from their definitions: a loop over pixels, or SciPy, which knows how an image goes on.

Images are (batch, height, width, channels), in double precision.
"""

from fractions import Fraction
from math import floor

import numpy as np
import scipy

SCIPY_MODES = {
    "constant": "grid-constant",
    "wrap": "grid-wrap",
    "reflect": "reflect",
    "nearest": "nearest",
}
HALF = Fraction(1, 2)


def sample_image(image, rows, columns, interpolation, fill_mode, fill_value=0):
    """Return the pixels of an image at (rows, columns); a point outside of the image gets the fill value."""
    is_known = np.isfinite(rows) & np.isfinite(columns)
    rows, columns = np.where(is_known, rows, 0), np.where(is_known, columns, 0)
    if interpolation == "nearest":
        rows, columns = np.floor(rows + 0.5), np.floor(columns + 0.5)
    channels = image.shape[2]
    parts = [
        np.where(
            is_known,
            scipy.ndimage.map_coordinates(
                pixels, [rows, columns], order=1, mode=SCIPY_MODES[fill_mode], cval=fill
            ),
            fill,
        )
        for pixels, fill in zip(
            np.moveaxis(image.astype(float), 2, 0),
            np.broadcast_to(np.asarray(fill_value, float), channels),
            strict=True,
        )
    ]
    return np.stack(parts, -1) if parts else np.zeros((*rows.shape, 0))


def transform(
    image,
    transforms,
    interpolation="nearest",
    fill_mode="constant",
    fill_value=0,
    output_shape=None,
):
    """Reference for image.transform: multiply homogeneous coordinates by a 3 × 3 matrix for each image."""
    height, width = np.broadcast_to(output_shape or image.shape[1:3], 2)
    y, x = np.mgrid[:height, :width]
    points = np.stack([x, y, np.ones_like(x)])
    result = []
    for picture, numbers in zip(image, np.broadcast_to(transforms, (len(image), 8)), strict=True):
        matrix = np.append(numbers, 1).reshape(3, 3).astype(float)
        x, y, depth = np.einsum("ij,jhw->ihw", matrix, points)
        with np.errstate(divide="ignore", invalid="ignore"):
            rows, columns = y / depth, x / depth
        result.append(sample_image(picture, rows, columns, interpolation, fill_mode, fill_value))
    return np.stack(result) if result else np.zeros((0, height, width, image.shape[3]))


def rotate_with_offset(image, radians, fill_value=0, center=0.5):
    """Reference for image.rotate_with_offset: rotate in the complex plane, whose imaginary axis points up."""
    height, width = image.shape[1:3]
    across, down = np.broadcast_to(center, 2) * (width, height)
    y, x = np.mgrid[:height, :width]
    to_point = (x + 0.5 - across) - 1j * (y + 0.5 - down)
    came_from = to_point * np.exp(-1j * radians)
    columns, rows = came_from.real + across - 0.5, -came_from.imag + down - 0.5
    pictures = [sample_image(p, rows, columns, "nearest", "constant", fill_value) for p in image]
    return np.stack(pictures) if pictures else image


def crop_and_resize(image, boxes, box_ind, crop_size, method="bilinear", extrapolation_value=0):
    """Reference for image.crop_and_resize: interpolate each pixel of each crop by itself."""
    crop_size = np.broadcast_to(crop_size, 2)
    _, height, width, channels = image.shape
    result = np.full((len(boxes), *crop_size, channels), extrapolation_value, float)
    for number, ((top, left, bottom, right), index) in enumerate(zip(boxes, box_ind, strict=True)):
        for i, j in np.ndindex(*crop_size):
            row = interpolate_position(top, bottom, i, crop_size[0]) * (height - 1)
            column = interpolate_position(left, right, j, crop_size[1]) * (width - 1)
            if 0 <= row <= height - 1 and 0 <= column <= width - 1:
                point = np.array([row]), np.array([column])
                result[number, i, j] = sample_image(image[index], *point, method, "nearest")[0]
    return result


def interpolate_position(first, last, step, count):
    """Return the position of a step from the first to the last position."""
    return first + (last - first) * step / (count - 1) if count > 1 else (first + last) / 2


def source_position(step, length, count, align_corners, half_pixel_centers):
    """Return the exact position in the input image of a row of the resized image."""
    if align_corners and count > 1:
        return Fraction(step * (length - 1), count - 1)
    if half_pixel_centers:
        return (step + HALF) * Fraction(length, count) - HALF
    return Fraction(step * length, count)


def resize_bilinear(images, size, align_corners=False, half_pixel_centers=False):
    """Reference for resize_bilinear: interpolate between the nearest pixels; the border is repeated."""
    size = np.broadcast_to(size, 2)
    places = [
        np.array(
            [
                float(source_position(i, length, count, align_corners, half_pixel_centers))
                for i in range(count)
            ]
        )
        for length, count in zip(images.shape[1:3], size, strict=True)
    ]
    points = np.meshgrid(*places, indexing="ij")
    result = [sample_image(picture, *points, "bilinear", "nearest") for picture in images]
    return np.stack(result) if result else np.zeros((0, *size, images.shape[3]))


def resize_nearest_neighbor(images, size, align_corners=False, half_pixel_centers=False):
    """Reference for resize_nearest_neighbor: copy the pixel that contains the source position."""
    size = np.broadcast_to(size, 2)
    # With half-pixel centers, pixel i reaches from i - 1/2 to i + 1/2; so it does with aligned
    # corners, unless there is one row, which is the first.
    middle = HALF if align_corners or half_pixel_centers else 0
    rows, columns = (
        [
            floor(source_position(i, length, count, align_corners, half_pixel_centers) + middle)
            for i in range(count)
        ]
        for length, count in zip(images.shape[1:3], size, strict=True)
    )
    return images[:, rows][:, :, columns]


def transpose_linear_function(forward, images_shape, dy):
    """Return the gradient of a linear function of images, computed from its result for each single pixel."""
    result = np.zeros(images_shape)
    for pixel in np.ndindex(images_shape):
        alone = np.zeros(images_shape)
        alone[pixel] = 1
        result[pixel] = np.sum(forward(alone) * dy)
    return result
