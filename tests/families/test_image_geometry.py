"""The geometry of crops, rotations and transforms: where pixels go for given parameters."""

import math

import numpy as np
import pytest

import plugrad
from plugrad import image
from plugrad.kernels import image as kernels

INTERPOLATION_METHODS = ("bilinear", "nearest")
FILL_MODES = ("constant", "reflect", "wrap", "nearest")


def image_of_distinct_pixels(*sizes):
    """Return an image of one channel with a different number in each pixel."""
    return np.arange(1, 1 + np.prod(sizes), dtype="float32").reshape(1, *sizes, 1)


def nested_list_of_pixels(x):
    return x.numpy()[0, :, :, 0].tolist()


@pytest.mark.parametrize("turns", [-1, 0, 1, 2, 3, 4])
def test_quarter_turns_are_counterclockwise_and_lose_nothing(turns, backend):
    for size in (2, 3, 4, 5):
        x = image_of_distinct_pixels(size, size)
        y = image.rotate_with_offset(x, turns * np.pi / 2)
        assert nested_list_of_pixels(y) == np.rot90(x[0, :, :, 0], turns).tolist()


@pytest.mark.parametrize("turns", [-1, 1, 3])
def test_quarter_turns_of_any_size_tear_nothing(turns, backend):
    """Each rotated pixel lies exactly between two pixels of the image, and takes the second of them."""
    direction = (turns + 1) % 4 - 1
    for height, width in ((5, 4), (4, 7), (1, 6)):
        x = image_of_distinct_pixels(height, width)
        middle_y, middle_x = (height - 1) / 2, (width - 1) / 2
        expected = np.zeros((height, width))
        for row, column in np.ndindex(height, width):
            i = math.floor(middle_y + direction * (column - middle_x) + 0.5)
            j = math.floor(middle_x - direction * (row - middle_y) + 0.5)
            if 0 <= i < height and 0 <= j < width:
                expected[row, column] = x[0, i, j, 0]
        assert (
            nested_list_of_pixels(image.rotate_with_offset(x, turns * np.pi / 2))
            == expected.tolist()
        )


def test_half_turn_of_any_size(backend):
    for height, width in ((2, 3), (1, 4), (3, 2)):
        x = image_of_distinct_pixels(height, width)
        assert (
            nested_list_of_pixels(image.rotate_with_offset(x, np.pi))
            == x[0, ::-1, ::-1, 0].tolist()
        )


def test_center_of_a_rotation_counts_from_the_left_and_from_above(backend):
    x = image_of_distinct_pixels(4, 4)
    upper_right = image.rotate_with_offset(x, np.pi / 2, center=(0.75, 0.25), fill_value=0)
    assert nested_list_of_pixels(upper_right)[:2] == [[0, 0, 4, 8], [0, 0, 3, 7]]


@pytest.mark.rows("columns", [-9, -3, -1, 0, 1, 2, 5, 14])
@pytest.mark.parametrize("interpolation", INTERPOLATION_METHODS)
def test_fill_modes_match_numpy_padding(interpolation, columns, backend):
    """A window far outside of the image shows the values that np.pad gives."""
    x = image_of_distinct_pixels(3, 4)
    shift = [[1, 0, columns, 0, 1, -2, 0, 0]]
    for mode, theirs in (
        ("constant", "constant"),
        ("reflect", "symmetric"),
        ("wrap", "wrap"),
        ("nearest", "edge"),
    ):
        padded = np.pad(x[0, :, :, 0], ((2, 2), (20, 20)), theirs)
        expected = padded[0:3, 20 + columns : 24 + columns]
        assert (
            nested_list_of_pixels(image.transform(x, shift, interpolation, mode))
            == expected.tolist()
        )


def test_transform_maps_points_of_the_result_to_points_of_the_image(backend):
    x = image_of_distinct_pixels(2, 4)
    half_size = [[2, 0, 0, 0, 1, 0, 0, 0]]
    assert nested_list_of_pixels(image.transform(x, half_size, output_shape=(2, 2))) == [
        [1, 3],
        [5, 7],
    ]
    exchanged = [[0, 1, 0, 1, 0, 0, 0, 0]]
    assert (
        nested_list_of_pixels(image.transform(x, exchanged, output_shape=(4, 2)))
        == x[0, :, :, 0].T.tolist()
    )


def test_point_at_infinity_is_filled(backend):
    for mode in FILL_MODES:
        for interpolation in INTERPOLATION_METHODS:
            y = image.transform(
                image_of_distinct_pixels(2, 3), [[1, 0, 0, 0, 1, 0, -1, 0]], interpolation, mode, 9
            )
            assert [row[1] for row in nested_list_of_pixels(y)] == [9, 9]


def test_nan_fill_value_does_not_spread_into_the_image(backend):
    x = image_of_distinct_pixels(3, 3)
    identity = [[1, 0, 0, 0, 1, 0, 0, 0]]
    y = image.transform(x, identity, "bilinear", fill_value=np.nan)
    assert nested_list_of_pixels(y) == x[0, :, :, 0].tolist()
    y = image.crop_and_resize(x, [[0, 0, 2, 1]], [0], (3, 3), extrapolation_value=np.inf)
    assert nested_list_of_pixels(y) == [[1, 2, 3], [7, 8, 9], [np.inf] * 3]


def test_whole_image_as_a_box_reaches_its_last_pixel(backend, rng):
    x = rng.uniform(1, 2, (1, 30, 50, 1)).astype("float32")
    for size in range(2, 60):
        y = image.crop_and_resize(x, [[0.0, 0, 1, 1]], [0], (size, size)).numpy()
        assert y[0, -1, -1] == x[0, -1, -1]
        assert y.min() >= 1  # nothing is outside


def test_reversed_box_mirrors_the_crop(backend):
    x = image_of_distinct_pixels(3, 4)
    y = image.crop_and_resize(x, [[1.0, 1, 0, 0]], [0], (3, 4))
    np.testing.assert_allclose(nested_list_of_pixels(y), x[0, ::-1, ::-1, 0], rtol=1e-6)


def test_crops_of_nan_and_infinite_boxes_have_the_extrapolation_value(backend):
    boxes = [[np.nan, 0, 1, 1], [0, -np.inf, 1, np.inf]]
    for method in INTERPOLATION_METHODS:
        y = image.crop_and_resize(image_of_distinct_pixels(1, 3), boxes, [0, 0], (2, 2), method, 7)
        assert y.tolist() == np.full((2, 2, 2, 1), 7).tolist()


def test_large_images_show_the_pixels_that_double_precision_finds(backend, rng):
    """Single precision cannot tell which of two pixels of a large image is nearer."""
    x = rng.uniform(-2, 2, (1, 301, 207, 2)).astype("float32")
    slanted = np.array([[0.7, 0.1, 2.3, 0.2, 1.1, -3.4, 1e-3, -2e-3]], "float32")
    boxes = rng.uniform(-0.2, 1.2, (9, 4)).astype("float32")
    for op in (
        *(lambda r=radians: image.rotate_with_offset(x, r) for radians in (np.pi / 6, 1.5, 2.0)),
        *(lambda m=mode: image.transform(x, slanted, "nearest", m, 3) for mode in FILL_MODES),
        lambda: image.crop_and_resize(x, boxes, [0] * 9, (57, 33), "nearest", 7),
    ):
        with plugrad.use("cpu"):
            expected = op().numpy()
        np.testing.assert_array_equal(op(), expected)


def test_gradients_of_pixels_that_many_points_show(backend, rng):
    """Sums are deterministic, and as precise as in double precision, whatever the magnitudes."""
    to_one_pixel = plugrad.asarray([[0.0, 0, 1, 0, 0, 1, 0, 0]])
    dy = rng.normal(size=(1, 300, 200, 3)) * [1e-30, 1, 1e30]
    dy[0, 0, 0] *= 1e6
    dy = plugrad.asarray(dy.astype("float32"))
    attrs = {"image_shape": (1, 2, 3, 3), "interpolation": "bilinear", "fill_mode": "constant"}
    first, second = (
        kernels.transform_image_gradient(dy, to_one_pixel, **attrs).numpy() for _ in range(2)
    )
    np.testing.assert_array_equal(first, second)
    expected = np.zeros((1, 2, 3, 3))
    expected[0, 1, 1] = dy.numpy().astype("float64").sum((0, 1, 2))
    np.testing.assert_allclose(first, expected, rtol=1e-6)
