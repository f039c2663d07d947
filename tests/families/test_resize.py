"""Resized images."""

import numpy as np
import pytest
from PIL import Image

import plugrad
from families import images as references
from families.case import FLOAT_DTYPES, REAL_DTYPES, Case, ErrorCase
from families.domains import uniform
from plugrad import image
from plugrad.errors import ArgumentValueError, DTypeError, ShapeError
from plugrad.kernels import resize

IMAGES_SHAPE = (2, 5, 4, 3)
INTEGER_DTYPES = [dtype for dtype in REAL_DTYPES if dtype not in FLOAT_DTYPES]
ALIGNMENT_FLAGS = [{}, {"align_corners": True}, {"half_pixel_centers": True}]
SHAPES_AND_SIZES = [
    (IMAGES_SHAPE, (7, 9)),  # larger
    (IMAGES_SHAPE, (3, 2)),  # smaller
    (IMAGES_SHAPE, (8, 2)),
    (IMAGES_SHAPE, (5, 4)),  # the same
    (IMAGES_SHAPE, (1, 3)),
    (IMAGES_SHAPE, (3, 1)),
    (IMAGES_SHAPE, 6),
    ((1, 1, 1, 2), (3, 4)),
    ((1, 1, 4, 1), (2, 8)),
    ((1, 6, 1, 1), (3, 3)),
    ((1, 13, 2, 1), (7, 3)),
]
BILINEAR, NEAREST = (
    [
        Case(op, reference, [uniform(-2, 2)], [shape], {"size": size, **flags}, dtypes)
        for shape, size in SHAPES_AND_SIZES
        for flags in ALIGNMENT_FLAGS
    ]
    for op, reference, dtypes in (
        (image.resize_bilinear, references.resize_bilinear, FLOAT_DTYPES),
        (image.resize_nearest_neighbor, references.resize_nearest_neighbor, REAL_DTYPES),
    )
)
INTEGER_CASES = [
    Case(
        image.resize_bilinear,
        references.resize_bilinear,
        *([uniform(-9, 9)], [IMAGES_SHAPE], {"size": (4, 7), **flags}, INTEGER_DTYPES),
        result="float32",
    )
    for flags in ALIGNMENT_FLAGS
]


def gradient_reference(reference):
    def transposed(images, dy, **attrs):
        return references.transpose_linear_function(
            lambda x: reference(x, **attrs), images.shape, dy
        )

    return transposed


GRADIENT_CASES = [
    Case(
        kernel,
        gradient_reference(reference),
        [uniform(-2, 2), uniform(-2, 2)],
        [shape, (shape[0], *size, shape[3])],
        {"size": size, **flags},
    )
    for kernel, reference in (
        (resize.resize_bilinear_gradient, references.resize_bilinear),
        (resize.resize_nearest_neighbor_gradient, references.resize_nearest_neighbor),
    )
    for shape, size in [
        ((2, 3, 4, 2), (5, 7)),
        ((1, 5, 4, 1), (2, 3)),
        ((1, 3, 5, 2), (7, 2)),
        ((1, 1, 1, 2), (2, 3)),
        ((1, 4, 3, 1), (1, 1)),
    ]
    for flags in ALIGNMENT_FLAGS
]
CASES = [*BILINEAR, *NEAREST, *GRADIENT_CASES]


def case_id(case):
    return f"{case} {case.shapes[0]}".replace(", ", ",")


@pytest.mark.rows("case", CASES, ids=case_id)
def test_values(case, backend, rng):
    case.check_values(rng)


@pytest.mark.rows("case", CASES, ids=case_id)
def test_values_of_other_dtypes(case, backend, rng):
    case.check_values_of_other_dtypes(rng)


@pytest.mark.rows("case", INTEGER_CASES, ids=str)
def test_interpolated_integers_are_float32(case, backend, rng):
    case.check_values_of_other_dtypes(rng)


@pytest.mark.rows("case", [*BILINEAR[:6], *NEAREST[:6], *GRADIENT_CASES[:9:4]], ids=case_id)
def test_values_of_views(case, backend, rng):
    case.check_values_of_views(rng)


def test_resize_with_half_pixel_centers_matches_pillow(backend, rng):
    x = rng.uniform(0, 1, (5, 7)).astype("float32")
    theirs = np.asarray(Image.fromarray(x).resize((14, 15), Image.Resampling.BILINEAR))
    ours = image.resize_bilinear(x[..., None], (15, 14), half_pixel_centers=True)
    np.testing.assert_allclose(ours.numpy()[..., 0], theirs, atol=1e-6)


@pytest.mark.rows("flags", ALIGNMENT_FLAGS, ids=str)
@pytest.mark.parametrize("length", [49, 93, 98, 107])
def test_rounding_does_not_move_pixels(length, flags, backend):
    """In floating point, 49 * (1 / 49) is less than 1."""
    x = np.arange(length, dtype="float32").reshape(1, 1, length, 1)
    for size in (2 * length, 3 * length, 10 * length):
        case = Case(
            image.resize_nearest_neighbor,
            references.resize_nearest_neighbor,
            *([], [], {"size": (1, size), **flags}),
        )
        case.check_values_of_arrays([x])


def test_images_without_a_batch_axis(backend, rng):
    x = rng.uniform(-2, 2, IMAGES_SHAPE[1:]).astype("float32")
    for op in (image.resize_bilinear, image.resize_nearest_neighbor):
        assert op(x, (3, 7)).tolist() == op(x[None], (3, 7))[0].tolist()


def test_batches_of_zero_images(backend):
    for op in (image.resize_bilinear, image.resize_nearest_neighbor):
        for shape in ((0, 2, 3, 1), (2, 2, 3, 0)):
            expected = (shape[0], 4, 5, shape[3])
            y, pull = plugrad.vjp(lambda x, op=op: op(x, (4, 5)), plugrad.zeros(shape))
            assert y.shape == expected
            assert pull(plugrad.zeros(expected))[0].shape == shape


def test_nan_affects_only_neighbouring_pixels(backend):
    x = np.zeros((1, 4, 4, 1), "float32")
    x[0, 1, 1] = np.nan
    assert np.isnan(image.resize_nearest_neighbor(x, 8).numpy()).sum() == 4
    y = np.isnan(image.resize_bilinear(x, 8).numpy()[0, :, :, 0])
    assert not y[4:].any()
    assert not y[:, 4:].any()


@pytest.mark.rows("case", [*BILINEAR, *NEAREST], ids=case_id)
def test_gradient(case, backend, rng):
    case.check_gradient(rng, backend)


@pytest.mark.rows("case", GRADIENT_CASES, ids=case_id)
def test_gradient_of_gradients(case, backend, rng):
    """Gradients are linear in dy; of the images, only the shape matters."""
    images = np.zeros(case.shapes[0])

    def gradient_kernel_of_dy(dy, **attrs):
        return case.op(plugrad.asarray(images.astype(dy.dtype), device=dy.device), dy, **attrs)

    Case(
        gradient_kernel_of_dy, gradient_kernel_of_dy, case.domains[1:], case.shapes[1:], case.attrs
    ).check_gradient(rng, backend)


def ones(*shape):
    return plugrad.ones(shape)


ERROR_CASES = [
    ErrorCase(
        lambda: image.resize_bilinear(ones(2, 2), 3),
        ShapeError,
        ["resize_bilinear", "(2, 2)", "3 or 4 axes"],
    ),
    ErrorCase(
        lambda: image.resize_nearest_neighbor(ones(1, 1, 2, 2, 1), 3),
        ShapeError,
        ["resize_nearest_neighbor", "(1, 1, 2, 2, 1)", "3 or 4 axes"],
    ),
    ErrorCase(
        lambda: image.resize_bilinear(ones(1, 0, 2, 1), 3),
        ShapeError,
        ["ResizeBilinear", "(1, 0, 2, 1)", "at least one pixel"],
    ),
    ErrorCase(
        lambda: image.resize_bilinear(ones(2, 2, 1), (1, 2, 3)),
        ArgumentValueError,
        ["resize_bilinear", "size=(1, 2, 3)", "one or 2"],
    ),
    ErrorCase(
        lambda: image.resize_nearest_neighbor(ones(2, 2, 1), (0, 2)),
        ArgumentValueError,
        ["resize_nearest_neighbor", "size=(0, 2)", "at least 1"],
    ),
    ErrorCase(
        lambda: image.resize_bilinear(
            ones(2, 2, 1), 3, align_corners=True, half_pixel_centers=True
        ),
        ArgumentValueError,
        ["resize_bilinear", "align_corners", "half_pixel_centers", "choose one"],
    ),
    ErrorCase(
        lambda: image.resize_nearest_neighbor(ones(2, 2, 1) > 0, 3),
        DTypeError,
        ["resize_nearest_neighbor", "bool", "astype"],
    ),
    ErrorCase(
        lambda: resize.resize_bilinear_gradient(ones(1, 2, 3, 1), ones(1, 4, 4, 1), size=(4, 5)),
        ShapeError,
        ["ResizeBilinearGrad", "(1, 4, 4, 1)", "(1, 4, 5, 1)"],
    ),
    ErrorCase(
        lambda: resize.resize_nearest_neighbor_gradient(
            ones(1, 2, 3, 1), ones(2, 4, 5, 1), size=(4, 5)
        ),
        ShapeError,
        ["ResizeNearestNeighborGrad", "(2, 4, 5, 1)", "(1, 4, 5, 1)"],
    ),
]


@pytest.mark.rows("error_case", ERROR_CASES, ids=str)
def test_bad_input(error_case, backend):
    error_case.check()
