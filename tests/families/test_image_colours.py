"""Gray images and images in colours."""

import numpy as np
import pytest

import plugrad
from families.case import FLOATS, REALS, Case, Refusal
from families.domains import uniform
from plugrad import image
from plugrad.errors import ArgumentValueError, DTypeError, ShapeError

INTEGERS = [dtype for dtype in REALS if dtype not in FLOATS]


def np_gray(image):
    return image @ np.array([[0.2989], [0.5870], [0.1140]])


def np_rounded_gray(image):
    return np.rint(np_gray(image))


def np_three_times(image):
    return np.concatenate([image] * 3, -1)


def np_threshold(image, method="binary", inverted=False, thresh_value=0.5):
    """Try every level; the best has the largest variance between the two parts."""
    gray = np_gray(image) if image.shape[2] == 3 else image.astype(float)
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


GRAY = [
    *[
        Case(image.rgb_to_grayscale, np_gray, [uniform(-2, 2)], [shape], {}, FLOATS)
        for shape in [(4, 5, 3), (2, 4, 5, 3), (7, 3), (1, 1, 1, 1, 2, 3), (0, 3)]
    ],
    *[
        Case(image.rgb_to_grayscale, np_rounded_gray, [uniform(0, 120)], [shape], {}, INTEGERS)
        for shape in [(4, 5, 3), (2, 4, 5, 3)]
    ],
    *[
        Case(
            image.grayscale_to_rgb, np_three_times, [uniform(-9, 9)], [shape], {}, [*REALS, "bool"]
        )
        for shape in [(4, 5, 1), (2, 4, 5, 1), (7, 1), (0, 1)]
    ],
]
THRESHOLDS = [
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


@pytest.mark.parametrize("case", [*GRAY, *THRESHOLDS], ids=str)
def test_values(case, backend, rng):
    has = plugrad.which().backend.dtypes()
    for dtype in case.dtypes:
        if dtype in has:
            case.check_values(rng, dtype)


def test_white_stays_white(backend):
    assert image.rgb_to_grayscale([[255, 255, 255], [0, 0, 0]]).tolist() == [[255], [0]]


@pytest.mark.parametrize("case", [*GRAY[:4], *GRAY[7:9]], ids=str)
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


def test_no_pixels(backend):
    for method in ("binary", "otsu"):
        assert image.threshold(plugrad.zeros((0, 2, 1)), method).shape == (0, 2, 1)


def ones(*shape):
    return plugrad.ones(shape)


REFUSALS = [
    Refusal(lambda: image.grayscale_to_rgb(ones(1)), ShapeError, ["grayscale_to_rgb", "(1,)"]),
    Refusal(lambda: image.grayscale_to_rgb(ones(2, 2)), ShapeError, ["grayscale_to_rgb", "(2, 2)"]),
    Refusal(lambda: image.rgb_to_grayscale(ones(2, 4)), ShapeError, ["rgb_to_grayscale", "(2, 4)"]),
    Refusal(
        lambda: image.rgb_to_grayscale(ones(1, 1, 1, 1, 1, 1, 3)),
        ShapeError,
        ["rgb_to_grayscale", "2 to 6 axes"],
    ),
    Refusal(
        lambda: image.rgb_to_grayscale(ones(2, 3) > 0), DTypeError, ["rgb_to_grayscale", "bool"]
    ),
    Refusal(lambda: image.threshold(ones(2, 2)), ShapeError, ["threshold", "(2, 2)"]),
    Refusal(lambda: image.threshold(ones(2, 2, 2)), ShapeError, ["threshold", "1 or 3 channels"]),
    Refusal(lambda: image.threshold(ones(2, 2, 1) > 0), DTypeError, ["threshold", "bool"]),
    Refusal(
        lambda: image.threshold(ones(2, 2, 1), "mean"),
        ArgumentValueError,
        ["threshold", "method='mean'", "'binary' or 'otsu'"],
    ),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_bad_input(refusal, backend):
    refusal.check()
