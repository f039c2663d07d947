"""Resized images and grid samples, compared with sums over pixels that follow the definitions."""

import math

import numpy as np
import pytest

import plugrad
from families.case import Case, ErrorCase
from families.domains import Domain, uniform
from plugrad.errors import ArgumentError, ArgumentValueError, DTypeError, ShapeError

number_domain = uniform(-2, 2)


def linear_kernel(distance, a):
    return max(0.0, 1 - abs(distance))


def cubic_kernel(distance, a):
    d = abs(distance)
    if d <= 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0


def resize_axis(x, axis, count, method, align_corners, antialias, a):
    """Return images resized along one axis, pixel by pixel."""
    n = x.shape[axis]
    scale = n / count
    if align_corners:
        scale = (n - 1) / (count - 1) if count > 1 else 0.0
    x, kernel = np.moveaxis(x, axis, 0), linear_kernel if method == "linear" else cubic_kernel
    result = []
    for i in range(count):
        center = i * scale if align_corners and not antialias else (i + 0.5) * scale - 0.5
        if method == "nearest":
            result.append(x[min(max(math.floor(center + 0.5), 0), n - 1)])
            continue
        wide = max(scale, 1.0) if antialias else 1.0
        reach = range(math.floor(center - 2 * wide) - 1, math.ceil(center + 2 * wide) + 2)
        if antialias:  # the kernel ends at the border
            reach = [k for k in reach if 0 <= k < n]
        weights = [kernel((k - center) / wide, a) for k in reach]
        total = sum(weights) if antialias else 1.0
        pixels = [x[min(max(k, 0), n - 1)] for k in reach]
        result.append(sum(w * p for w, p in zip(weights, pixels, strict=True)) / total)
    return np.moveaxis(np.array(result), 0, axis)


def reference_resize(
    x, *, size, method="linear", align_corners=False, antialias=False, cubic_coefficient=None
):
    a = cubic_coefficient or (-0.5 if antialias else -0.75)
    for axis, count in enumerate(size, 1):
        if x.shape[axis] != count:
            x = resize_axis(x, axis, count, method, align_corners, antialias, a)
    return x


SHAPES_AND_SIZES = [((2, 5, 6, 3), (8, 3)), ((1, 7, 4, 1), (1, 9)), ((1, 1, 5, 2), (4, 5))]
RESIZE_ATTRIBUTES = [
    {"method": "nearest"},
    {"method": "nearest", "align_corners": True},
    {"method": "linear"},
    {"method": "linear", "antialias": True},
    {"method": "linear", "antialias": True, "align_corners": True},
    {"method": "cubic"},
    {"method": "cubic", "align_corners": True},
    {"method": "cubic", "antialias": True},
    {"method": "cubic", "cubic_coefficient": -0.5},
]
RESIZE_CASES = [
    Case(
        plugrad.image.resize,
        reference_resize,
        [number_domain],
        [shape],
        {"size": size, **way},
        is_sum=True,
    )
    for way in RESIZE_ATTRIBUTES
    for shape, size in SHAPES_AND_SIZES
]
RESIZE_CASES += [
    Case(
        plugrad.image.resize,
        reference_resize,
        [number_domain],
        [shape],
        {"size": size, "method": m},
        is_sum=True,
    )
    for shape, size in (((2, 6, 2), (4,)), ((1, 3, 4, 2, 2), (5, 2, 3)))
    for m in ("nearest", "linear", "cubic")
]


@pytest.mark.rows("case", RESIZE_CASES, ids=lambda case: f"{case} {case.shapes[0]}")
def test_resized_images(case, backend, rng):
    case.check_values(rng)


@pytest.mark.rows("case", RESIZE_CASES[9:27:6], ids=str)
def test_sizes_of_other_dtypes(case, backend, rng):
    case.check_values_of_other_dtypes(rng)


@pytest.mark.rows("case", [*RESIZE_CASES[:27:3], *RESIZE_CASES[28::2]], ids=str)
def test_gradient_of_sizes(case, backend, rng):
    case.check_gradient(rng, backend)


def test_long_axes_are_resized_in_blocks(backend, rng):
    for size in ((700, 2), (100, 2)):
        case = Case(
            *(plugrad.image.resize, reference_resize, [number_domain], [(1, 300, 3, 1)]),
            {"size": size, "method": "cubic", "antialias": True},
            is_sum=True,
        )
        case.check_values(rng)


def test_whole_numbers_become_floats_unless_pixels_are_kept(backend):
    image = np.array([[[0], [8], [4]]], "int32")
    assert plugrad.image.resize(image, (1, 6), "nearest").dtype == "int32"
    y = plugrad.image.resize(image, (1, 6), "cubic")
    assert (y.dtype, y.shape) == ("float32", (1, 6, 1))
    assert plugrad.image.resize(np.zeros((0, 2, 2, 1), "float32"), 4, "cubic").shape == (0, 4, 4, 1)
    assert plugrad.image.resize(np.zeros((1, 2, 2, 0), "float32"), 4, "cubic").shape == (1, 4, 4, 0)


def reflect_coordinate(c, low, span):
    """Return a coordinate, reflected until it lies between two borders."""
    if span == 0:
        return 0.0
    while not low <= c <= low + span:
        c = 2 * low - c if c < low else 2 * (low + span) - c
    return c


def pixel_with_padding(image, place, padding_mode, align_corners):
    """Return the pixel at integer coordinates, or the padding outside of the image."""
    found = []
    for c, n in zip(place, image.shape[:-1], strict=True):
        if padding_mode == "zeros" and not 0 <= c < n:
            return np.zeros(image.shape[-1])
        if padding_mode == "reflection":
            c = reflect_coordinate(c, *((0, n - 1) if align_corners else (-0.5, n)))
        found.append(int(min(max(c, 0), n - 1)))
    return image[tuple(found)]


def reference_grid_sample(
    images, grid, *, method="linear", padding_mode="zeros", align_corners=False
):
    images, grid = images.astype(float), grid.astype(float)
    y = np.zeros((*grid.shape[:-1], images.shape[-1]))
    sizes = images.shape[1:-1]
    for where in np.ndindex(*grid.shape[:-1]):
        place = []
        for g, n in zip(grid[where][::-1], sizes, strict=True):
            c = (g + 1) / 2 * (n - 1) if align_corners else ((g + 1) * n - 1) / 2
            if method != "cubic" and padding_mode == "border":
                c = min(max(c, 0), n - 1)
            if method != "cubic" and padding_mode == "reflection":
                c = reflect_coordinate(c, *((0, n - 1) if align_corners else (-0.5, n)))
                c = min(max(c, 0), n - 1)
            place.append(c)
        ends = padding_mode, align_corners
        if method == "nearest":
            y[where] = pixel_with_padding(images[where[0]], np.round(place), *ends)
            continue
        low, taps = np.floor(place), 2 if method == "linear" else 4
        kernel = linear_kernel if method == "linear" else cubic_kernel
        for tap in np.ndindex(*(taps,) * len(sizes)):
            cell = low + np.array(tap) - (method == "cubic")
            parts = [kernel(c - k, -0.75) for c, k in zip(place, cell, strict=True)]
            y[where] += math.prod(parts) * pixel_with_padding(images[where[0]], cell, *ends)
    return y


coordinates_between_pixels = Domain(  # of images with three pixels along each axis
    lambda rng, shape, dtype: (
        (rng.integers(-5, 5, shape) + rng.uniform(0.3, 0.7, shape)).astype(dtype) / 3
    )
)
GRID_SAMPLE_CASES = [
    Case(
        *(plugrad.image.grid_sample, reference_grid_sample, [number_domain, uniform(-1.7, 1.7)]),
        *([(2, 4, 5, 2), (2, 3, 4, 2)], {"method": m, "padding_mode": edge, "align_corners": al}),
        is_sum=True,
    )
    for m in ("nearest", "linear", "cubic")
    for edge in ("zeros", "border", "reflection")
    for al in (False, True)
]
GRID_SAMPLE_CASES += [
    Case(
        *(
            plugrad.image.grid_sample,
            reference_grid_sample,
            [number_domain, uniform(-1.7, 1.7)],
            shapes,
        ),
        *({"method": m, "padding_mode": "reflection"},),
        is_sum=True,
    )
    for shapes in (
        [(1, 3, 2, 4, 2), (1, 2, 2, 3, 3)],
        [(2, 5, 1), (2, 3, 1)],
        [(1, 1, 3, 1), (1, 2, 2, 2)],
    )
    for m in ("nearest", "linear", "cubic")
]


@pytest.mark.rows("case", GRID_SAMPLE_CASES, ids=lambda case: f"{case} {case.shapes[0]}")
def test_grid_samples(case, backend, rng):
    case.check_values(rng)


@pytest.mark.rows("case", [*GRID_SAMPLE_CASES[:18:5], GRID_SAMPLE_CASES[19]], ids=str)
def test_gradient_of_points(case, backend, rng):
    if case.attrs["method"] == "nearest":
        grid = rng.uniform(-1, 1, (1, 2, 3, 2)).astype("float32")

        def grid_sample_at(images, **attrs):
            points = plugrad.asarray(grid.astype(str(images.dtype)), device=images.device)
            return plugrad.image.grid_sample(images, points, **attrs)

        Case(
            grid_sample_at, grid_sample_at, [number_domain], [(1, 3, 4, 2)], case.attrs
        ).check_gradient(rng, backend)
        return
    axes = len(case.shapes[0]) - 2
    shapes = (1, *(3,) * axes, 1), (1, *(2,) * axes, axes)
    smooth = Case(
        case.op, case.reference, [number_domain, coordinates_between_pixels], shapes, case.attrs
    )
    smooth.check_gradient(rng, backend)


def test_points_that_are_no_numbers(backend):
    image = plugrad.reshape(plugrad.arange(1.0, 10.0), (1, 3, 3, 1))
    grid = np.array([[[[np.nan, np.nan], [np.inf, 0], [-np.inf, np.inf], [1e30, -1e30]]]], "f4")
    for method in ("nearest", "linear", "cubic"):
        y = plugrad.image.grid_sample(image, grid, method, align_corners=True).numpy().ravel()
        assert y.tolist() == [1, 0, 0, 0]
        y = plugrad.image.grid_sample(image, grid, method, padding_mode="border").numpy().ravel()
        # A cubic curve passes beyond the pixels half a pixel from the border.
        np.testing.assert_allclose(y, [0.625 if method == "cubic" else 1, 6, 7, 3], rtol=1e-5)
        y = plugrad.image.grid_sample(image, grid, method, padding_mode="reflection").numpy()
        assert np.isfinite(y).all()


def test_pixels_outside_do_not_spread(backend):
    image = np.full((1, 2, 2, 1), np.nan, "float32")
    grid = np.array([[[[3.0, 3.0]]]], "float32")
    assert plugrad.image.grid_sample(image, grid).numpy().item() == 0


def test_batches_of_zero_images_and_zero_points(backend):
    sample = plugrad.image.grid_sample
    assert sample(plugrad.zeros((0, 2, 2, 3)), plugrad.zeros((0, 4, 5, 2))).shape == (0, 4, 5, 3)
    assert sample(plugrad.zeros((1, 2, 2, 3)), plugrad.zeros((1, 0, 5, 2))).shape == (1, 0, 5, 3)


def test_examples_are_batched(backend, rng):
    x = rng.uniform(-1, 1, (3, 1, 4, 4, 2)).astype("float32")
    grid = rng.uniform(-1, 1, (3, 1, 2, 3, 2)).astype("float32")
    for f in (plugrad.image.grid_sample, lambda x, _: plugrad.image.resize(x, (3, 7), "cubic")):
        together = plugrad.vmap(f)(plugrad.asarray(x), plugrad.asarray(grid)).numpy()
        alone = np.stack([f(a, b).numpy() for a, b in zip(x, grid, strict=True)])
        np.testing.assert_allclose(together, alone, rtol=1e-5, atol=1e-6)


IMAGE = np.ones((1, 3, 3, 1), "float32")
ERROR_CASES = [
    ErrorCase(
        lambda: plugrad.image.resize(IMAGE, 2, "bilinear"),
        ArgumentValueError,
        ["resize: method='bilinear'", "'linear'"],
    ),
    ErrorCase(
        lambda: plugrad.image.resize(IMAGE, 2, "nearest", antialias=True),
        ArgumentValueError,
        ["resize: antialias=True", "method='nearest'"],
    ),
    ErrorCase(lambda: plugrad.image.resize(IMAGE, 0), ArgumentValueError, ["resize: size=0"]),
    ErrorCase(
        lambda: plugrad.image.resize(IMAGE, (2,) * 4), ShapeError, ["resize", "(1, 3, 3, 1)"]
    ),
    ErrorCase(
        lambda: plugrad.image.resize(IMAGE[:, :0], 2), ShapeError, ["(1, 0, 3, 1)", "no pixels"]
    ),
    ErrorCase(
        lambda: plugrad.image.resize(IMAGE, 2, antialias="yes"),
        ArgumentError,
        ["resize: antialias='yes'"],
    ),
    ErrorCase(
        lambda: plugrad.image.resize(IMAGE, 2, "cubic", cubic_coefficient="sharp"),
        ArgumentError,
        ["cubic_coefficient='sharp'"],
    ),
    ErrorCase(
        lambda: plugrad.image.grid_sample(IMAGE, np.ones((1, 2, 2, 3), "float32")),
        ShapeError,
        ["grid_sample", "(1, 3, 3, 1)", "(1, 2, 2, 3)"],
    ),
    ErrorCase(
        lambda: plugrad.image.grid_sample(IMAGE, np.ones((2, 2, 2, 2), "float32")),
        ShapeError,
        ["grid_sample", "a grid for each", "(2, 2, 2, 2)"],
    ),
    ErrorCase(
        lambda: plugrad.image.grid_sample(IMAGE, np.ones((1, 2, 2, 2), "int32")),
        DTypeError,
        ["grid_sample: grid is int32"],
    ),
    ErrorCase(
        lambda: plugrad.image.grid_sample(
            IMAGE, np.ones((1, 2, 2, 2), "float32"), padding_mode="wrap"
        ),
        ArgumentValueError,
        ["grid_sample: padding_mode='wrap'", "'border'"],
    ),
]


@pytest.mark.rows("error_case", ERROR_CASES, ids=str)
def test_invalid_sampling_arguments(error_case, backend):
    error_case.check()
