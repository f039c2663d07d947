"""Test rows of the kernels that resize images."""

# What references take is an array, which a lambda has no place to say.
# pyright: basic

import numpy as np

from plugrad.kernels import resize
from plugrad.testing.definitions import resize_positions, sample_image, transpose_linear_map
from plugrad.testing.rows import Array, Row, arbitrary_numbers
from plugrad.types.specs import Shape

RESIZE_CASES = [
    ((2, 3, 4, 2), (5, 6), False, False),
    ((1, 5, 4, 1), (2, 3), False, True),
    ((1, 3, 4, 1), (7, 5), True, False),
    ((1, 4, 4, 2), (1, 8), True, False),
    ((1, 4, 6, 1), (8, 3), False, True),
    ((1, 3, 2, 3), (2, 5), True, False),
    ((1, 2, 3, 5), (3, 4), False, True),
]
"""Shape of the images, new size, `align_corners` and `half_pixel_centers`."""


def resize_bilinear(
    images: Array, size: Shape, align_corners: bool, half_pixel_centers: bool
) -> Array:
    """Return images resized to (height, width) by bilinear interpolation."""
    points = [
        resize_positions(n, out, align_corners, half_pixel_centers)
        for n, out in zip(images.shape[1:3], size, strict=True)
    ]
    rows, columns = np.meshgrid(*points, indexing="ij")
    return np.stack([sample_image(image, rows, columns, "bilinear", "nearest") for image in images])


def resize_nearest(
    images: Array, size: Shape, align_corners: bool, half_pixel_centers: bool
) -> Array:
    """Return images resized to (height, width) by nearest-neighbour interpolation."""
    middle = 0.5 if align_corners or half_pixel_centers else 0
    rows, columns = (
        np.floor(
            resize_positions(n, out, align_corners, half_pixel_centers) + middle + 1e-9
        ).astype(int)
        for n, out in zip(images.shape[1:3], size, strict=True)
    )
    return images[:, rows][:, :, columns]


TEST_ROWS = [
    row
    for forward, backward, reference in [
        (resize.resize_bilinear, resize.resize_bilinear_gradient, resize_bilinear),
        (resize.resize_nearest_neighbor, resize.resize_nearest_neighbor_gradient, resize_nearest),
    ]
    for shape, size, *how in RESIZE_CASES
    for attrs in [{"size": size, "align_corners": how[0], "half_pixel_centers": how[1]}]
    for row in [
        Row(
            forward,
            lambda x, f=reference, s=size, h=how: f(x, s, *h),
            [arbitrary_numbers(*shape)],
            attrs,
        ),
        Row(
            backward,
            lambda x, dy, f=reference, s=size, h=how: transpose_linear_map(
                lambda x: f(x, s, *h), x.shape, dy
            ),
            [arbitrary_numbers(*shape), arbitrary_numbers(shape[0], *size, shape[3])],
            attrs,
        ),
    ]
]
