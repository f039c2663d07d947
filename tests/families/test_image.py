"""Crops, rotations, flips and projective transforms of images."""

import numpy as np
import pytest

import plugrad
from families import images as references
from families.case import FLOAT_DTYPES, REAL_DTYPES, Case, ErrorCase
from families.domains import Domain, constant, integers, uniform
from plugrad import image
from plugrad.errors import ArgumentValueError, DTypeError, ShapeError, TensorIndexError
from plugrad.kernels import image as kernels
from plugrad.testing import check_gradient

INTEGER_DTYPES = [dtype for dtype in REAL_DTYPES if dtype not in FLOAT_DTYPES]
INTERPOLATION_METHODS = ("bilinear", "nearest")
FILL_MODES = ("constant", "reflect", "wrap", "nearest")
SHAPES = [(2, 5, 4, 3), (1, 4, 7, 1), (2, 1, 1, 2), (3, 1, 6, 1), (1, 6, 1, 2), (0, 3, 4, 1)]


def transforms_near_identity(spread=0.3, tilt=0.02, shift=2.0):
    """Projective transforms that rotate, scale, translate and tilt a little."""

    def draw(rng, shape, dtype):
        scale = np.array([spread, spread, shift, spread, spread, shift, tilt, tilt])
        return ([1, 0, 0, 0, 1, 0, 0, 0] + scale * rng.uniform(-1, 1, shape)).astype(dtype)

    return Domain(draw)


def with_fixed_dtype(domain, dtype):
    return Domain(lambda rng, shape, _: domain.draw(rng, shape, dtype), dtype)


def crop_case(shape, boxes, size, **attrs):
    domains = [uniform(-2, 2), uniform(-0.3, 1.3), integers(0, max(shape[0] - 1, 0))]
    return Case(
        image.crop_and_resize,
        references.crop_and_resize,
        *(domains, [shape, (boxes, 4), (boxes,)], {"crop_size": size, **attrs}),
    )


CROP_CASES = [
    crop_case(shape, boxes, size, method=method, extrapolation_value=-1.5)
    for method in INTERPOLATION_METHODS
    for shape, boxes, size in [
        ((2, 5, 4, 3), 5, (3, 4)),
        ((2, 5, 4, 3), 3, (7, 6)),
        ((1, 4, 7, 1), 4, (1, 3)),
        ((1, 4, 7, 2), 4, (3, 1)),
        ((3, 1, 1, 2), 3, 3),
        ((2, 1, 6, 1), 3, (2, 5)),
        ((2, 3, 3, 1), 0, (2, 2)),
        ((0, 3, 3, 1), 0, (2, 2)),
        ((2, 3, 3, 0), 2, (2, 2)),
    ]
]
CROP_CASES_OF_INTEGERS = [
    Case(
        image.crop_and_resize,
        references.crop_and_resize,
        [uniform(-9, 9), with_fixed_dtype(uniform(-0.3, 1.3), "float32"), integers(0, 1)],
        [(2, 5, 4, 3), (5, 4), (5,)],
        {"crop_size": (3, 4), "method": method},
        INTEGER_DTYPES,
        result="float32",
    )
    for method in INTERPOLATION_METHODS
]
TRANSFORM_CASES = [
    Case(
        image.transform,
        references.transform,
        [uniform(-2, 2), transforms_near_identity()],
        [shape, (count, 8)],
        {"interpolation": method, "fill_mode": mode, **attrs},
    )
    for mode in FILL_MODES
    for method in INTERPOLATION_METHODS
    for shape, count, attrs in [
        ((2, 5, 4, 3), 2, {"fill_value": (0.5, -1.0, 2.5)}),
        ((2, 5, 4, 3), 1, {"fill_value": 0.5}),
        ((1, 4, 7, 1), 1, {"output_shape": (3, 9)}),
        ((2, 1, 1, 2), 2, {"output_shape": 4}),
        ((3, 1, 6, 1), 1, {}),
        ((0, 3, 4, 1), 1, {}),
    ]
]
DISTANT_TRANSFORM_CASES = [  # many times beyond the image
    Case(
        image.transform,
        references.transform,
        [uniform(-2, 2), transforms_near_identity(0.5, 0.0, 100.0)],
        [(2, 3, 5, 1), (2, 8)],
        {"interpolation": method, "fill_mode": mode, "output_shape": (9, 9)},
    )
    for mode in FILL_MODES
    for method in INTERPOLATION_METHODS
]
ROTATION_CASES = [
    Case(
        image.rotate_with_offset,
        references.rotate_with_offset,
        *([uniform(-2, 2)], [shape], {"radians": radians, **attrs}),
    )
    for shape in SHAPES
    for radians, attrs in [
        (0.3, {}),
        (-2.1, {"center": 0.3}),
        (1.234, {"fill_value": -1.0, "center": (0.9, 0.2)}),
        (0.0, {}),
    ]
]
ROTATION_CASES.append(
    Case(
        image.rotate_with_offset,
        references.rotate_with_offset,
        *([uniform(-2, 2)], [(2, 5, 4, 3)], {"radians": 0.7, "fill_value": (0.5, -1.0, 2.5)}),
    )
)
FLIP_CASES = [
    Case(image.flip_left_right, lambda x: np.flip(x, 2), [uniform(-9, 9)], [shape], {}, REAL_DTYPES)
    for shape in [*SHAPES, (2, 3, 0, 1)]
]
CROP_GRADIENT_CASES = [
    Case(
        kernels.crop_and_resize_image_gradient,
        lambda dy, boxes, box_ind, image_shape, method: references.transpose_linear_function(
            lambda x: references.crop_and_resize(x, boxes, box_ind, dy.shape[1:3], method),
            *(image_shape, dy),
        ),
        [uniform(-2, 2), uniform(-0.3, 1.3), integers(0, shape[0] - 1)],
        [(boxes, *size, shape[3]), (boxes, 4), (boxes,)],
        {"image_shape": shape, "method": method},
    )
    for method in INTERPOLATION_METHODS
    for shape, boxes, size in [
        ((2, 3, 4, 2), 4, (3, 5)),
        ((1, 4, 1, 1), 2, (1, 3)),
        ((2, 3, 2, 1), 0, (2, 2)),
    ]
]
TRANSFORM_GRADIENT_CASES = [
    Case(
        kernels.transform_image_gradient,
        lambda dy, transforms, image_shape, **attrs: references.transpose_linear_function(
            lambda x: references.transform(x, transforms, output_shape=dy.shape[1:3], **attrs),
            *(image_shape, dy),
        ),
        [uniform(-2, 2), transforms_near_identity()],
        [(2, 4, 5, 2), (count, 8)],
        {"image_shape": (2, 3, 4, 2), "interpolation": method, "fill_mode": mode},
        undifferentiated_inputs=(1,),
    )
    for mode in FILL_MODES
    for method in INTERPOLATION_METHODS
    for count in (1, 2)
]
ROTATION_GRADIENT_CASES = [
    Case(
        kernels.rotate_with_offset_gradient,
        lambda dy, **attrs: references.transpose_linear_function(
            lambda x: references.rotate_with_offset(x, **attrs), dy.shape, dy
        ),
        *([uniform(-2, 2)], [(2, 4, 3, 2)], {"radians": radians, "center": center}),
    )
    for radians, center in [(0.3, (0.5, 0.5)), (2.5, (0.2, 0.9)), (-1.0, (0.5, 0.1))]
]
GRADIENT_CASES = [*CROP_GRADIENT_CASES, *TRANSFORM_GRADIENT_CASES, *ROTATION_GRADIENT_CASES]
CASES = [
    *CROP_CASES,
    *TRANSFORM_CASES,
    *DISTANT_TRANSFORM_CASES,
    *ROTATION_CASES,
    *FLIP_CASES,
    *GRADIENT_CASES,
]


def case_id(case):
    return f"{case} {case.shapes[0]}".replace(", ", ",")


@pytest.mark.rows("case", CASES, ids=case_id)
def test_values(case, backend, rng):
    case.check_values(rng)


@pytest.mark.rows("case", [*CASES, *CROP_CASES_OF_INTEGERS], ids=case_id)
def test_values_of_other_dtypes(case, backend, rng):
    case.check_values_of_other_dtypes(rng)


@pytest.mark.rows(
    "case",
    [
        *CROP_CASES[::9],
        *TRANSFORM_CASES[::6],
        *ROTATION_CASES[:4],
        *FLIP_CASES[:1],
        *GRADIENT_CASES[::4],
    ],
    ids=case_id,
)
def test_values_of_views(case, backend, rng):
    case.check_values_of_views(rng)


# --- gradients ---------------------------------------------------------------------------------------

# Boxes and transforms whose points stay away from the pixels' middles, where the gradient jumps.
BOXES = [[0.12, 0.07, 0.91, 0.93], [0.87, 0.1, -0.4, 1.43], [0.43, 0.52, 0.61, 0.58]]
PROJECTIVE_TRANSFORMS = [
    [0.93, 0.11, -1.37, -0.13, 1.07, 1.41, 0.011, -0.017],
    [1.1, -0.07, 0.29, 0.17, 0.9, -0.63, -0.013, 0.019],
]
BOX_INDICES = Domain(lambda *_: np.array([0, -1, 1], "int32"), "int32")
SMOOTH_CASES = [
    *[
        Case(
            image.crop_and_resize,
            references.crop_and_resize,
            [uniform(-2, 2), constant(BOXES), BOX_INDICES],
            [(2, 5, 4, 2), (3, 4), (3,)],
            {"crop_size": size, "extrapolation_value": 0.5},
        )
        for size in [(3, 2), (1, 4), (4, 1)]
    ],
    *[
        Case(
            image.transform,
            references.transform,
            [uniform(-2, 2), constant(PROJECTIVE_TRANSFORMS[:count])],
            [(2, 4, 3, 2), (count, 8)],
            {"interpolation": "bilinear", "fill_mode": mode, "fill_value": (0.5, -0.7), **attrs},
        )
        for mode in FILL_MODES
        for count, attrs in ((2, {}), (1, {}), (2, {"output_shape": (2, 5)}))
    ],
]
NEAREST_CASES = [  # differentiated for the images only: where pixels change places, there are jumps
    *[case for case in CROP_CASES[9:13] if case.attrs["method"] == "nearest"],
    *[case for case in TRANSFORM_CASES if case.attrs["interpolation"] == "nearest"],
    *[case for case in ROTATION_CASES if case.shapes[0] in ((2, 5, 4, 3), (1, 6, 1, 2))],
    *FLIP_CASES[:2],
]


@pytest.mark.rows("case", SMOOTH_CASES, ids=case_id)
def test_gradient(case, backend, rng):
    """In double precision; the finite steps of single precision would cross the boundaries of pixels."""
    if "float64" in plugrad.which().backend.dtypes():
        check_gradient(*case.differentiable_function(case.draw(rng, "float64")))
    else:
        case.check_derivatives_against_cpu(case.draw(rng, "float32"))


@pytest.mark.rows("case", [*NEAREST_CASES, *GRADIENT_CASES], ids=case_id)
def test_gradient_of_the_first_input(case, backend, rng):
    """`test_gradient` checks the second derivatives with respect to boxes and transforms."""
    fixed = case.draw(rng, "float64")[1:]

    def run_with_first_input(x, **attrs):
        rest = [y.astype(x.dtype) if y.dtype.kind == "f" else y for y in fixed]
        return case.op(x, *[plugrad.asarray(y, device=x.device) for y in rest], **attrs)

    alone = Case(
        run_with_first_input, run_with_first_input, case.domains[:1], case.shapes[:1], case.attrs
    )
    alone.check_gradient(rng, backend)


def test_nearest_pixels_do_not_change_with_boxes_and_transforms(backend):
    x = plugrad.ones((1, 3, 3, 1))
    for op, where in (
        (lambda boxes: image.crop_and_resize(x, boxes, [0], 2, "nearest"), BOXES[:1]),
        (lambda transforms: image.transform(x, transforms, "nearest"), PROJECTIVE_TRANSFORMS[:1]),
    ):
        gradient = plugrad.grad(lambda x, op=op: plugrad.sum(op(x)))(plugrad.asarray(where))
        assert gradient.tolist() == np.zeros((1, len(where[0]))).tolist()


def test_boxes_with_image_indices_out_of_range(backend):
    """The cpu raises; a backend that would have to wait for its device reads zeros and writes nothing."""
    x, boxes = plugrad.ones((2, 2, 2, 1)), [[0.0, 0, 1, 1]] * 4

    def crops(x, method):
        numbers = plugrad.asarray(np.array([2, -2, -3, 2**31 - 1], "int32"))
        return image.crop_and_resize(x, boxes, numbers, 2, method, 7)

    for method in INTERPOLATION_METHODS:
        with plugrad.config.override("debug", True), pytest.raises(TensorIndexError, match=r" 2 "):
            crops(x, method)
        if backend == "cpu":
            with pytest.raises(TensorIndexError, match=r"box_ind 2 .* 2 images"):
                crops(x, method)
        else:
            assert crops(x, method)[:, 0, 0, 0].tolist() == [0, 1, 0, 0]
            gradient = plugrad.grad(lambda x, m=method: plugrad.sum(crops(x, m)))(x)
            assert plugrad.sum(gradient, axis=(1, 2, 3)).tolist() == [4, 0]


def test_gradient_of_boxes_of_integers(backend):
    """Integer images have no gradient, but the positions of their boxes have one."""
    x = plugrad.asarray(np.arange(12, dtype="int32").reshape(1, 3, 4, 1))

    def total(boxes):
        return plugrad.sum(image.crop_and_resize(x, boxes, [0], 1))

    gradient = plugrad.grad(total)(plugrad.asarray([[0.1, 0.2, 0.5, 0.7]]))
    np.testing.assert_allclose(gradient.tolist(), [[4.0, 1.5, 4.0, 1.5]], rtol=1e-6)


# --- bad input ---------------------------------------------------------------------------------------


def ones(*shape):
    return plugrad.ones(shape)


WHOLE_IMAGE_BOX = [[0.0, 0.0, 1.0, 1.0]]
IDENTITY_TRANSFORM = [[1.0, 0, 0, 0, 1, 0, 0, 0]]


def crop_error_case(
    error, *words, x=(1, 2, 2, 1), boxes=WHOLE_IMAGE_BOX, box_ind=(0,), size=2, method="nearest"
):
    return ErrorCase(
        lambda: image.crop_and_resize(ones(*x), boxes, list(box_ind), size, method), error, words
    )


def transform_error_case(error, *words, x=(1, 2, 2, 1), transforms=IDENTITY_TRANSFORM, **attrs):
    return ErrorCase(lambda: image.transform(ones(*x), transforms, **attrs), error, words)


ERROR_CASES = [
    crop_error_case(ShapeError, "CropAndResize", "(2, 2, 1)", "channels", x=(2, 2, 1)),
    crop_error_case(ShapeError, "CropAndResize", "(1, 0, 2, 1)", "no pixels", x=(1, 0, 2, 1)),
    crop_error_case(ShapeError, "CropAndResize", "(1, 3)", "(number, 4)", boxes=[[0.0, 0, 1]]),
    crop_error_case(ShapeError, "CropAndResize", "(1, 4)", "(2,)", box_ind=(0, 0)),
    crop_error_case(TensorIndexError, "crop_and_resize", "index 1 ", "size 1", box_ind=(1,)),
    crop_error_case(TensorIndexError, "crop_and_resize", "index -2 ", "size 1", box_ind=(-2,)),
    crop_error_case(ShapeError, "crop_and_resize", "0-d", "channels", x=()),
    crop_error_case(DTypeError, "crop_and_resize", "box_ind", "float32", box_ind=(0.5,)),
    crop_error_case(DTypeError, "crop_and_resize", "boxes", "bool", boxes=[[True] * 4]),
    crop_error_case(ArgumentValueError, "crop_and_resize", "crop_size=0", "at least 1", size=0),
    crop_error_case(ArgumentValueError, "crop_size=(1, 2, 3)", "one or 2", size=(1, 2, 3)),
    crop_error_case(
        ArgumentValueError, "method='cubic'", "'bilinear' or 'nearest'", method="cubic"
    ),
    ErrorCase(
        lambda: image.crop_and_resize(ones(1, 2, 2, 1) > 0, WHOLE_IMAGE_BOX, [0], 2),
        DTypeError,
        ["crop_and_resize", "bool", "astype"],
    ),
    ErrorCase(
        lambda: kernels.crop_and_resize_image_gradient(
            *(ones(1, 2, 2, 3), plugrad.asarray(WHOLE_IMAGE_BOX), plugrad.asarray([0])),
            image_shape=(1, 4, 4, 2),
        ),
        ShapeError,
        ["CropAndResizeGradImage", "(1, 2, 2, 3)", "(1, 2, 2, 2)"],
    ),
    ErrorCase(
        lambda: image.flip_left_right(ones(2, 2, 1)), ShapeError, ["FlipLeftRight", "(2, 2, 1)"]
    ),
    ErrorCase(
        lambda: image.rotate_with_offset(ones(2, 2, 1), 1),
        ShapeError,
        ["RotateWithOffset", "(2, 2, 1)", "channels"],
    ),
    ErrorCase(
        lambda: image.rotate_with_offset(ones(1, 2, 2, 2), 1, fill_value=(1, 2, 3)),
        ArgumentValueError,
        ["RotateWithOffset", "fill_value=(1.0, 2.0, 3.0)", "2 channels"],
    ),
    ErrorCase(
        lambda: image.rotate_with_offset(ones(1, 2, 2, 2), 1, center=(0.5, 0.5, 0.5)),
        ArgumentValueError,
        ["rotate_with_offset", "center=(0.5, 0.5, 0.5)", "x and y"],
    ),
    ErrorCase(
        lambda: kernels.rotate_with_offset_gradient(ones(2, 2, 1), radians=1.0, center=(0.5, 0.5)),
        ShapeError,
        ["RotateWithOffsetGrad", "(2, 2, 1)"],
    ),
    transform_error_case(ShapeError, "transform", "(2, 2)", "channels", x=(2, 2)),
    transform_error_case(ShapeError, "Transform", "(1, 2, 0, 1)", "no pixels", x=(1, 2, 0, 1)),
    transform_error_case(
        ShapeError, "Transform", "(1, 6)", "(1, 8) or (1, 8)", transforms=[[0.0] * 6]
    ),
    transform_error_case(
        ShapeError,
        "Transform",
        "(2, 8)",
        "(3, 8)",
        x=(3, 2, 2, 1),
        transforms=IDENTITY_TRANSFORM * 2,
    ),
    transform_error_case(DTypeError, "transform", "transforms", "bool", transforms=[[True] * 8]),
    transform_error_case(
        ArgumentValueError,
        "interpolation='cubic'",
        "'bilinear' or 'nearest'",
        interpolation="cubic",
    ),
    transform_error_case(
        ArgumentValueError,
        "fill_mode='mirror'",
        "'constant', 'reflect', 'wrap' or 'nearest'",
        fill_mode="mirror",
    ),
    transform_error_case(
        ArgumentValueError, "Transform", "fill_value=(1.0, 2.0)", "1 channels", fill_value=(1, 2)
    ),
    transform_error_case(
        ArgumentValueError, "transform", "output_shape=(1, 2, 3)", "2", output_shape=(1, 2, 3)
    ),
    ErrorCase(
        lambda: kernels.transform_image_gradient(
            *(ones(2, 2, 2, 3), plugrad.asarray(IDENTITY_TRANSFORM)),
            image_shape=(1, 4, 4, 3),
            interpolation="nearest",
            fill_mode="wrap",
        ),
        ShapeError,
        ["TransformGrad", "(2, 2, 2, 3)", "(1, 2, 2, 3)"],
    ),
]


@pytest.mark.rows("error_case", ERROR_CASES, ids=str)
def test_bad_input(error_case, backend):
    error_case.check()
