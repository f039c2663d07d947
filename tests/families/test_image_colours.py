"""Gray images and images in colours."""

import numpy as np
import pytest

import plugrad
from families.case import FLOAT_DTYPES, REAL_DTYPES, Case, ErrorCase
from families.domains import uniform
from plugrad import image
from plugrad.errors import ArgumentValueError, DTypeError, ShapeError

INTEGER_DTYPES = [dtype for dtype in REAL_DTYPES if dtype not in FLOAT_DTYPES]


def np_grayscale(image):
    return image @ np.array([[0.2989], [0.5870], [0.1140]])


def np_rounded_grayscale(image):
    return np.rint(np_grayscale(image))


def np_grayscale_to_rgb(image):
    return np.concatenate([image] * 3, -1)


def np_threshold(image, method="binary", inverted=False, thresh_value=0.5):
    """Reference for image.threshold: try each level; the best one maximizes the variance between classes."""
    gray = np_grayscale(image) if image.shape[2] == 3 else image.astype(float)
    level = 255 * thresh_value
    if method == "otsu":
        level, largest = -1, 0
        pixels = np.rint(gray)
        for candidate in range(256):
            dark, bright = pixels[pixels <= candidate], pixels[pixels > candidate]
            if dark.size and bright.size:
                between = dark.size * bright.size * (dark.mean() - bright.mean()) ** 2
                if between > largest * (1 + 1e-12):
                    level, largest = candidate, between
    return np.where((gray > level) != inverted, 255, 0)


GRAYSCALE_CASES = [
    *[
        Case(image.rgb_to_grayscale, np_grayscale, [uniform(-2, 2)], [shape], {}, FLOAT_DTYPES)
        for shape in [(4, 5, 3), (2, 4, 5, 3), (7, 3), (1, 1, 1, 1, 2, 3), (0, 3)]
    ],
    *[
        Case(
            image.rgb_to_grayscale,
            np_rounded_grayscale,
            [uniform(0, 120)],
            [shape],
            {},
            INTEGER_DTYPES,
        )
        for shape in [(4, 5, 3), (2, 4, 5, 3)]
    ],
    *[
        Case(
            image.grayscale_to_rgb,
            np_grayscale_to_rgb,
            [uniform(-9, 9)],
            [shape],
            {},
            [*REAL_DTYPES, "bool"],
        )
        for shape in [(4, 5, 1), (2, 4, 5, 1), (7, 1), (0, 1)]
    ],
]
THRESHOLD_CASES = [
    Case(
        image.threshold,
        np_threshold,
        *([uniform(0, 255)], [shape], attrs, ["float32", "float64", "int32", "uint8"]),
        result="int32",
    )
    for shape in [(6, 7, 1), (6, 7, 3), (40, 30, 3)]
    for attrs in [
        {},
        {"thresh_value": 0.3},
        {"inverted": True},
        {"method": "otsu"},
        {"method": "otsu", "inverted": True},
    ]
]


@pytest.mark.rows("case", [*GRAYSCALE_CASES, *THRESHOLD_CASES], ids=str)
def test_values(case, backend, rng):
    has = plugrad.which().backend.dtypes()
    for dtype in case.dtypes:
        if dtype in has:
            case.check_values(rng, dtype)


def test_white_stays_white(backend):
    assert image.rgb_to_grayscale([[255, 255, 255], [0, 0, 0]]).tolist() == [[255], [0]]


@pytest.mark.rows("case", [*GRAYSCALE_CASES[:4], *GRAYSCALE_CASES[7:9]], ids=str)
def test_gradient(case, backend, rng):
    case.check_gradient(rng, backend)


def test_otsu_separates_two_groups(backend, rng):
    dark, bright = rng.integers(20, 60, 500), rng.integers(140, 240, 300)
    pixels = rng.permutation(np.concatenate([dark, bright])).reshape(20, 40, 1)
    for dtype in ("float32", "int32"):
        y = image.threshold(plugrad.asarray(pixels.astype(dtype)), "otsu")
        assert y.tolist() == np.where(pixels > 100, 255, 0).tolist()


def test_otsu_cannot_separate_equal_pixels(backend):
    for inverted, expected in ((False, 255), (True, 0)):
        y = image.threshold(plugrad.full((2, 2, 1), 7.0), "otsu", inverted)
        assert y.tolist() == np.full((2, 2, 1), expected).tolist()


def test_images_without_pixels(backend):
    for method in ("binary", "otsu"):
        assert image.threshold(plugrad.zeros((0, 2, 1)), method).shape == (0, 2, 1)


def ones(*shape):
    return plugrad.ones(shape)


ERROR_CASES = [
    ErrorCase(lambda: image.grayscale_to_rgb(ones(1)), ShapeError, ["grayscale_to_rgb", "(1,)"]),
    ErrorCase(
        lambda: image.grayscale_to_rgb(ones(2, 2)), ShapeError, ["grayscale_to_rgb", "(2, 2)"]
    ),
    ErrorCase(
        lambda: image.rgb_to_grayscale(ones(2, 4)), ShapeError, ["rgb_to_grayscale", "(2, 4)"]
    ),
    ErrorCase(
        lambda: image.rgb_to_grayscale(ones(1, 1, 1, 1, 1, 1, 3)),
        ShapeError,
        ["rgb_to_grayscale", "2 to 6 axes"],
    ),
    ErrorCase(
        lambda: image.rgb_to_grayscale(ones(2, 3) > 0), DTypeError, ["rgb_to_grayscale", "bool"]
    ),
    ErrorCase(lambda: image.threshold(ones(2, 2)), ShapeError, ["threshold", "(2, 2)"]),
    ErrorCase(lambda: image.threshold(ones(2, 2, 2)), ShapeError, ["threshold", "1 or 3 channels"]),
    ErrorCase(lambda: image.threshold(ones(2, 2, 1) > 0), DTypeError, ["threshold", "bool"]),
    ErrorCase(
        lambda: image.threshold(ones(2, 2, 1), "mean"),
        ArgumentValueError,
        ["threshold", "method='mean'", "'binary' or 'otsu'"],
    ),
]


@pytest.mark.rows("error_case", ERROR_CASES, ids=str)
def test_bad_input(error_case, backend):
    error_case.check()
