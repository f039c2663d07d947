"""Test rows of crops, flips, rotations and projective transforms of images."""

# What references take is an array, which a lambda has no place to say.
# pyright: basic

from typing import Any

import numpy as np

from plugrad.kernels import image
from plugrad.testing.definitions import sample_image, transpose_linear_map
from plugrad.testing.rows import FLOATING_DTYPES, Array, Row, arbitrary_numbers, fixed_values
from plugrad.types.specs import Shape

IMAGE_BATCH_SHAPE = (2, 4, 5, 2)
BOX_CORNERS = [[0, 0, 1, 1], [0.2, 0.1, 0.7, 0.8], [0.9, 0.6, 0.3, 0.2], [-0.2, 0.4, 0.6, 1.3]]
"""The corners (y, x, y, x) of boxes, as parts of an image's size."""
IMAGE_INDEX_OF_BOX = [0, 1, 1, 0]
"""The index of the image out of which each box is cropped."""


def crop_boxes(
    images: Array, boxes: Array, image_indices: Array, size: Shape, method: str, fill: float
) -> Array:
    """Return the images in boxes, resized; points outside an image have the fill value."""
    found: list[Array] = []
    for (top, left, bottom, right), image_index in zip(boxes, image_indices, strict=True):
        height, width = images.shape[1:3]
        rows = evenly_spaced_points(top, bottom, size[0]) * (height - 1)
        columns = evenly_spaced_points(left, right, size[1]) * (width - 1)
        rows, columns = np.meshgrid(rows, columns, indexing="ij")
        outside = (rows < 0) | (rows > height - 1) | (columns < 0) | (columns > width - 1)
        points = np.where(outside, np.nan, rows), np.where(outside, np.nan, columns)
        found.append(sample_image(images[image_index], *points, method, "nearest", fill))
    return np.stack(found)


def evenly_spaced_points(first: float, last: float, point_count: int) -> Array:
    """Return points from the first to the last one, or the middle if there is only one."""
    return (
        np.linspace(first, last, point_count) if point_count > 1 else np.array([(first + last) / 2])
    )


def rotate_images(images: Array, radians: float, fill: Any, center: tuple[float, float]) -> Array:
    """Return rotated images, sampled at positions that are rotated in the complex plane."""
    height, width = images.shape[1:3]
    across, down = center[0] * width, center[1] * height
    y, x = np.mgrid[:height, :width]
    came_from = ((x + 0.5 - across) - 1j * (y + 0.5 - down)) * np.exp(-1j * radians)
    columns, rows = came_from.real + across - 0.5, -came_from.imag + down - 0.5
    return np.stack([sample_image(i, rows, columns, "nearest", "constant", fill) for i in images])


def transform_images(
    images: Array, transforms: Array, method: str, mode: str, fill: Any, size: Shape
) -> Array:
    """Return images after projective transforms, as 3 × 3 matrices of homogeneous coordinates."""
    y, x = np.mgrid[: size[0], : size[1]]
    points = np.stack([x, y, np.ones_like(x)])
    found: list[Array] = []
    for picture, eight in zip(images, np.broadcast_to(transforms, (len(images), 8)), strict=True):
        matrix = np.append(eight, 1).reshape(3, 3)
        x, y, depth = np.einsum("ij,jhw->ihw", matrix, points)
        found.append(sample_image(picture, y / depth, x / depth, method, mode, fill))
    return np.stack(found)


ROTATIONS = [
    (0.7, 0.0, (0.5, 0.5)),
    (-2.1, 3.0, (0.2, 0.6)),
    (np.pi / 2 + 0.01, (1.0, -1.0), (0.5, 0.5)),
]
"""Angle in radians, fill value and centre of each case."""
TRANSFORMS = [
    ([[1, 0.1, 0.3, -0.2, 0.9, 0.4, 0.01, 0.02]], "bilinear", "constant", 0.5, (4, 5)),
    ([[1, 0.1, 1.3, -0.2, 1.9, -0.4, 0, 0]], "bilinear", "reflect", 0.0, (3, 6)),
    ([[0.7, 0.1, 2.3, 0.2, 1.1, -3.4, 0, 0]] * 2, "bilinear", "wrap", 0.0, (4, 5)),
    ([[1, 0.1, 2.3, -0.2, 0.9, -0.4, 0, 0]], "nearest", "nearest", 0.0, (4, 5)),
    ([[1.1, 0.1, 2.3, -0.2, 0.9, -0.4, 0, 0]], "nearest", "constant", (1.0, 2.0), (5, 2)),
]
"""Projective transforms, interpolation, fill mode, fill value and output size of each case."""

TEST_ROWS = [
    *(
        row
        for size, method, fill in [
            ((3, 4), "bilinear", 0.5),
            ((2, 2), "nearest", 0),
            ((1, 3), "bilinear", 0),
        ]
        for row in [
            Row(
                image.crop_and_resize,
                lambda x, b, i, s=size, m=method, f=fill: crop_boxes(x, b, i, s, m, f),
                [
                    arbitrary_numbers(*IMAGE_BATCH_SHAPE),
                    fixed_values(BOX_CORNERS, "float32"),
                    fixed_values(IMAGE_INDEX_OF_BOX, "int32"),
                ],
                {"crop_size": size, "method": method, "extrapolation_value": fill},
                dtypes=("float32", "float64", "int32"),
            ),
            Row(
                image.crop_and_resize_image_gradient,
                lambda dy, b, i, s=size, m=method: transpose_linear_map(
                    lambda x: crop_boxes(x, b, i, s, m, 0), IMAGE_BATCH_SHAPE, dy
                ),
                [
                    arbitrary_numbers(len(BOX_CORNERS), *size, IMAGE_BATCH_SHAPE[3]),
                    fixed_values(BOX_CORNERS, "float32"),
                    fixed_values(IMAGE_INDEX_OF_BOX, "int32"),
                ],
                {"image_shape": IMAGE_BATCH_SHAPE, "method": method},
                dtypes=FLOATING_DTYPES[:2],
            ),
        ]
    ),
    Row(image.flip_left_right, lambda x: x[:, :, ::-1], [arbitrary_numbers(*IMAGE_BATCH_SHAPE)]),
    *(
        Row(
            image.rotate_with_offset,
            lambda x, r=radians, f=fill, c=center: rotate_images(x, r, f, c),
            [arbitrary_numbers(*IMAGE_BATCH_SHAPE)],
            {"radians": radians, "fill_value": fill, "center": center},
        )
        for radians, fill, center in ROTATIONS
    ),
    *(
        Row(
            image.rotate_with_offset_gradient,
            lambda dy, r=radians, c=center: transpose_linear_map(
                lambda x: rotate_images(x, r, 0, c), dy.shape, dy
            ),
            [arbitrary_numbers(*IMAGE_BATCH_SHAPE)],
            {"radians": radians, "center": center},
        )
        for radians, _, center in ROTATIONS
    ),
    *(
        row
        for transforms, method, mode, fill, size in TRANSFORMS
        for row in [
            Row(
                image.transform,
                lambda x, t, a=(method, mode, fill, size): transform_images(x, t, *a),
                [arbitrary_numbers(*IMAGE_BATCH_SHAPE), fixed_values(transforms, "float32")],
                {
                    "interpolation": method,
                    "fill_mode": mode,
                    "fill_value": fill,
                    "output_shape": size,
                },
                dtypes=FLOATING_DTYPES[:2],
                tolerance_factor=10,  # where a float stands for a place
            ),
            Row(
                image.transform_image_gradient,
                lambda dy, t, a=(method, mode, 0, size): transpose_linear_map(
                    lambda x: transform_images(x, t, *a), IMAGE_BATCH_SHAPE, dy
                ),
                [
                    arbitrary_numbers(IMAGE_BATCH_SHAPE[0], *size, IMAGE_BATCH_SHAPE[3]),
                    fixed_values(transforms, "float32"),
                ],
                {"image_shape": IMAGE_BATCH_SHAPE, "interpolation": method, "fill_mode": mode},
                dtypes=FLOATING_DTYPES[:2],
                tolerance_factor=10,
            ),
        ]
    ),
]
