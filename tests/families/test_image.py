"""Images cut, turned and transformed, and their colours."""

import numpy as np
import pytest

import plugrad
from families import images as references
from families.case import FLOATS, REALS, Case, Refusal
from families.domains import Domain, these, uniform, whole
from plugrad import image
from plugrad.errors import ArgumentValueError, DTypeError, ShapeError, TensorIndexError
from plugrad.kernels import image as kernels
from plugrad.testing import check_gradient

INTEGERS = [dtype for dtype in REALS if dtype not in FLOATS]
METHODS = ("bilinear", "nearest")
MODES = ("constant", "reflect", "wrap", "nearest")
SHAPES = [(2, 5, 4, 3), (1, 4, 7, 1), (2, 1, 1, 2), (3, 1, 6, 1), (1, 6, 1, 2), (0, 3, 4, 1)]


def near_identity(spread=0.3, tilt=0.02, shift=2.0):
    """Transforms that turn, scale, move and tilt a little."""

    def draw(rng, shape, dtype):
        scale = np.array([spread, spread, shift, spread, spread, shift, tilt, tilt])
        return ([1, 0, 0, 0, 1, 0, 0, 0] + scale * rng.uniform(-1, 1, shape)).astype(dtype)

    return Domain(draw)


def of_dtype(domain, dtype):
    return Domain(lambda rng, shape, _: domain.draw(rng, shape, dtype), dtype)


def crop(shape, boxes, size, **attrs):
    domains = [uniform(-2, 2), uniform(-0.3, 1.3), whole(0, max(shape[0] - 1, 0))]
    return Case(
        image.crop_and_resize,
        references.crop_and_resize,
        *(domains, [shape, (boxes, 4), (boxes,)], {"crop_size": size, **attrs}),
    )


CROPPED = [
    crop(shape, boxes, size, method=method, extrapolation_value=-1.5)
    for method in METHODS
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
CROPPED_INTEGERS = [
    Case(
        image.crop_and_resize,
        references.crop_and_resize,
        [uniform(-9, 9), of_dtype(uniform(-0.3, 1.3), "float32"), whole(0, 1)],
        [(2, 5, 4, 3), (5, 4), (5,)],
        {"crop_size": (3, 4), "method": method},
        INTEGERS,
        result="float32",
    )
    for method in METHODS
]
TRANSFORMED = [
    Case(
        image.transform,
        references.transform,
        [uniform(-2, 2), near_identity()],
        [shape, (count, 8)],
        {"interpolation": method, "fill_mode": mode, **attrs},
    )
    for mode in MODES
    for method in METHODS
    for shape, count, attrs in [
        ((2, 5, 4, 3), 2, {"fill_value": (0.5, -1.0, 2.5)}),
        ((2, 5, 4, 3), 1, {"fill_value": 0.5}),
        ((1, 4, 7, 1), 1, {"output_shape": (3, 9)}),
        ((2, 1, 1, 2), 2, {"output_shape": 4}),
        ((3, 1, 6, 1), 1, {}),
        ((0, 3, 4, 1), 1, {}),
    ]
]
FAR = [  # many times beyond the image
    Case(
        image.transform,
        references.transform,
        [uniform(-2, 2), near_identity(0.5, 0.0, 100.0)],
        [(2, 3, 5, 1), (2, 8)],
        {"interpolation": method, "fill_mode": mode, "output_shape": (9, 9)},
    )
    for mode in MODES
    for method in METHODS
]
TURNED = [
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
TURNED.append(
    Case(
        image.rotate_with_offset,
        references.rotate_with_offset,
        *([uniform(-2, 2)], [(2, 5, 4, 3)], {"radians": 0.7, "fill_value": (0.5, -1.0, 2.5)}),
    )
)
MIRRORED = [
    Case(image.flip_left_right, lambda x: np.flip(x, 2), [uniform(-9, 9)], [shape], {}, REALS)
    for shape in [*SHAPES, (2, 3, 0, 1)]
]
CROP_GRADIENTS = [
    Case(
        kernels.crop_and_resize_image_gradient,
        lambda dy, boxes, box_ind, image_shape, method: references.transposed(
            lambda x: references.crop_and_resize(x, boxes, box_ind, dy.shape[1:3], method),
            *(image_shape, dy),
        ),
        [uniform(-2, 2), uniform(-0.3, 1.3), whole(0, shape[0] - 1)],
        [(boxes, *size, shape[3]), (boxes, 4), (boxes,)],
        {"image_shape": shape, "method": method},
    )
    for method in METHODS
    for shape, boxes, size in [
        ((2, 3, 4, 2), 4, (3, 5)),
        ((1, 4, 1, 1), 2, (1, 3)),
        ((2, 3, 2, 1), 0, (2, 2)),
    ]
]
TRANSFORM_GRADIENTS = [
    Case(
        kernels.transform_image_gradient,
        lambda dy, transforms, image_shape, **attrs: references.transposed(
            lambda x: references.transform(x, transforms, output_shape=dy.shape[1:3], **attrs),
            *(image_shape, dy),
        ),
        [uniform(-2, 2), near_identity()],
        [(2, 4, 5, 2), (count, 8)],
        {"image_shape": (2, 3, 4, 2), "interpolation": method, "fill_mode": mode},
        fixed=(1,),
    )
    for mode in MODES
    for method in METHODS
    for count in (1, 2)
]
ROTATION_GRADIENTS = [
    Case(
        kernels.rotate_with_offset_gradient,
        lambda dy, **attrs: references.transposed(
            lambda x: references.rotate_with_offset(x, **attrs), dy.shape, dy
        ),
        *([uniform(-2, 2)], [(2, 4, 3, 2)], {"radians": radians, "center": center}),
    )
    for radians, center in [(0.3, (0.5, 0.5)), (2.5, (0.2, 0.9)), (-1.0, (0.5, 0.1))]
]
GRADIENTS = [*CROP_GRADIENTS, *TRANSFORM_GRADIENTS, *ROTATION_GRADIENTS]
CASES = [*CROPPED, *TRANSFORMED, *FAR, *TURNED, *MIRRORED, *GRADIENTS]


def label(case):
    return f"{case} {case.shapes[0]}".replace(", ", ",")


@pytest.mark.parametrize("case", CASES, ids=label)
def test_values(case, backend, rng):
    case.check_values(rng)


@pytest.mark.parametrize("case", [*CASES, *CROPPED_INTEGERS], ids=label)
def test_values_of_other_dtypes(case, backend, rng):
    case.check_values_of_other_dtypes(rng)


@pytest.mark.parametrize(
    "case",
    [*CROPPED[::9], *TRANSFORMED[::6], *TURNED[:4], *MIRRORED[:1], *GRADIENTS[::4]],
    ids=label,
)
def test_values_of_views(case, backend, rng):
    case.check_values_of_views(rng)


# --- gradients ---------------------------------------------------------------------------------------

# Boxes and transforms whose points stay away from the pixels' middles, where the gradient jumps.
BOXES = [[0.12, 0.07, 0.91, 0.93], [0.87, 0.1, -0.4, 1.43], [0.43, 0.52, 0.61, 0.58]]
SLANTED = [
    [0.93, 0.11, -1.37, -0.13, 1.07, 1.41, 0.011, -0.017],
    [1.1, -0.07, 0.29, 0.17, 0.9, -0.63, -0.013, 0.019],
]
NUMBERS = Domain(lambda *_: np.array([0, -1, 1], "int32"), "int32")
SMOOTH = [
    *[
        Case(
            image.crop_and_resize,
            references.crop_and_resize,
            [uniform(-2, 2), these(BOXES), NUMBERS],
            [(2, 5, 4, 2), (3, 4), (3,)],
            {"crop_size": size, "extrapolation_value": 0.5},
        )
        for size in [(3, 2), (1, 4), (4, 1)]
    ],
    *[
        Case(
            image.transform,
            references.transform,
            [uniform(-2, 2), these(SLANTED[:count])],
            [(2, 4, 3, 2), (count, 8)],
            {"interpolation": "bilinear", "fill_mode": mode, "fill_value": (0.5, -0.7), **attrs},
        )
        for mode in MODES
        for count, attrs in ((2, {}), (1, {}), (2, {"output_shape": (2, 5)}))
    ],
]
NEAREST = [  # differentiated for the images only: where pixels change places, there are jumps
    *[case for case in CROPPED[9:13] if case.attrs["method"] == "nearest"],
    *[case for case in TRANSFORMED if case.attrs["interpolation"] == "nearest"],
    *[case for case in TURNED if case.shapes[0] in ((2, 5, 4, 3), (1, 6, 1, 2))],
    *MIRRORED[:2],
]


@pytest.mark.parametrize("case", SMOOTH, ids=label)
def test_gradient(case, backend, rng):
    """In double precision: the steps of single precision would reach the pixels' middles."""
    if "float64" in plugrad.which().backend.dtypes():
        check_gradient(*case.with_fixed(case.draw(rng, "float64")))
    else:
        case.check_derivatives_against_cpu(case.draw(rng, "float32"))


@pytest.mark.parametrize("case", [*NEAREST, *GRADIENTS], ids=label)
def test_gradient_of_the_first_input(case, backend, rng):
    """Of the gradients' own gradients for boxes and transforms, `test_gradient` takes care."""
    fixed = case.draw(rng, "float64")[1:]

    def run_on_first(x, **attrs):
        rest = [y.astype(x.dtype) if y.dtype.kind == "f" else y for y in fixed]
        return case.op(x, *[plugrad.asarray(y, device=x.device) for y in rest], **attrs)

    alone = Case(run_on_first, run_on_first, case.domains[:1], case.shapes[:1], case.attrs)
    alone.check_gradient(rng, backend)


def test_nearest_pixels_do_not_change_with_boxes_and_transforms(backend):
    x = plugrad.ones((1, 3, 3, 1))
    for op, where in (
        (lambda boxes: image.crop_and_resize(x, boxes, [0], 2, "nearest"), BOXES[:1]),
        (lambda transforms: image.transform(x, transforms, "nearest"), SLANTED[:1]),
    ):
        gradient = plugrad.grad(lambda x, op=op: plugrad.sum(op(x)))(plugrad.asarray(where))
        assert gradient.tolist() == np.zeros((1, len(where[0]))).tolist()


def test_boxes_in_images_that_do_not_exist(backend):
    """The cpu raises; a backend that would have to wait for its device reads zeros and writes nothing."""
    x, boxes = plugrad.ones((2, 2, 2, 1)), [[0.0, 0, 1, 1]] * 4

    def crops(x, method):
        numbers = plugrad.asarray(np.array([2, -2, -3, 2**31 - 1], "int32"))
        return image.crop_and_resize(x, boxes, numbers, 2, method, 7)

    for method in METHODS:
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
    """Whole numbers have no gradient; where their boxes are has."""
    x = plugrad.asarray(np.arange(12, dtype="int32").reshape(1, 3, 4, 1))

    def total(boxes):
        return plugrad.sum(image.crop_and_resize(x, boxes, [0], 1))

    gradient = plugrad.grad(total)(plugrad.asarray([[0.1, 0.2, 0.5, 0.7]]))
    np.testing.assert_allclose(gradient.tolist(), [[4.0, 1.5, 4.0, 1.5]], rtol=1e-6)


# --- bad input ---------------------------------------------------------------------------------------


def ones(*shape):
    return plugrad.ones(shape)


ONE = [[0.0, 0.0, 1.0, 1.0]]
IDENTITY = [[1.0, 0, 0, 0, 1, 0, 0, 0]]


def refused_crop(error, *words, x=(1, 2, 2, 1), boxes=ONE, box_ind=(0,), size=2, method="nearest"):
    return Refusal(
        lambda: image.crop_and_resize(ones(*x), boxes, list(box_ind), size, method), error, words
    )


def refused_transform(error, *words, x=(1, 2, 2, 1), transforms=IDENTITY, **attrs):
    return Refusal(lambda: image.transform(ones(*x), transforms, **attrs), error, words)


REFUSALS = [
    refused_crop(ShapeError, "CropAndResize", "(2, 2, 1)", "channels", x=(2, 2, 1)),
    refused_crop(ShapeError, "CropAndResize", "(1, 0, 2, 1)", "no pixels", x=(1, 0, 2, 1)),
    refused_crop(ShapeError, "CropAndResize", "(1, 3)", "(number, 4)", boxes=[[0.0, 0, 1]]),
    refused_crop(ShapeError, "CropAndResize", "(1, 4)", "(2,)", box_ind=(0, 0)),
    refused_crop(TensorIndexError, "crop_and_resize", "index 1 ", "size 1", box_ind=(1,)),
    refused_crop(TensorIndexError, "crop_and_resize", "index -2 ", "size 1", box_ind=(-2,)),
    refused_crop(ShapeError, "crop_and_resize", "0-d", "channels", x=()),
    refused_crop(DTypeError, "crop_and_resize", "box_ind", "float32", box_ind=(0.5,)),
    refused_crop(DTypeError, "crop_and_resize", "boxes", "bool", boxes=[[True] * 4]),
    refused_crop(ArgumentValueError, "crop_and_resize", "crop_size=0", "at least 1", size=0),
    refused_crop(ArgumentValueError, "crop_size=(1, 2, 3)", "one or 2", size=(1, 2, 3)),
    refused_crop(ArgumentValueError, "method='cubic'", "'bilinear' or 'nearest'", method="cubic"),
    Refusal(
        lambda: image.crop_and_resize(ones(1, 2, 2, 1) > 0, ONE, [0], 2),
        DTypeError,
        ["crop_and_resize", "bool", "astype"],
    ),
    Refusal(
        lambda: kernels.crop_and_resize_image_gradient(
            *(ones(1, 2, 2, 3), plugrad.asarray(ONE), plugrad.asarray([0])),
            image_shape=(1, 4, 4, 2),
        ),
        ShapeError,
        ["CropAndResizeGradImage", "(1, 2, 2, 3)", "(1, 2, 2, 2)"],
    ),
    Refusal(
        lambda: image.flip_left_right(ones(2, 2, 1)), ShapeError, ["FlipLeftRight", "(2, 2, 1)"]
    ),
    Refusal(
        lambda: image.rotate_with_offset(ones(2, 2, 1), 1),
        ShapeError,
        ["RotateWithOffset", "(2, 2, 1)", "channels"],
    ),
    Refusal(
        lambda: image.rotate_with_offset(ones(1, 2, 2, 2), 1, fill_value=(1, 2, 3)),
        ArgumentValueError,
        ["RotateWithOffset", "fill_value=(1.0, 2.0, 3.0)", "2 channels"],
    ),
    Refusal(
        lambda: image.rotate_with_offset(ones(1, 2, 2, 2), 1, center=(0.5, 0.5, 0.5)),
        ArgumentValueError,
        ["rotate_with_offset", "center=(0.5, 0.5, 0.5)", "x and y"],
    ),
    Refusal(
        lambda: kernels.rotate_with_offset_gradient(ones(2, 2, 1), radians=1.0, center=(0.5, 0.5)),
        ShapeError,
        ["RotateWithOffsetGrad", "(2, 2, 1)"],
    ),
    refused_transform(ShapeError, "transform", "(2, 2)", "channels", x=(2, 2)),
    refused_transform(ShapeError, "Transform", "(1, 2, 0, 1)", "no pixels", x=(1, 2, 0, 1)),
    refused_transform(
        ShapeError, "Transform", "(1, 6)", "(1, 8) or (1, 8)", transforms=[[0.0] * 6]
    ),
    refused_transform(
        ShapeError, "Transform", "(2, 8)", "(3, 8)", x=(3, 2, 2, 1), transforms=IDENTITY * 2
    ),
    refused_transform(DTypeError, "transform", "transforms", "bool", transforms=[[True] * 8]),
    refused_transform(
        ArgumentValueError,
        "interpolation='cubic'",
        "'bilinear' or 'nearest'",
        interpolation="cubic",
    ),
    refused_transform(
        ArgumentValueError,
        "fill_mode='mirror'",
        "'constant', 'reflect', 'wrap' or 'nearest'",
        fill_mode="mirror",
    ),
    refused_transform(
        ArgumentValueError, "Transform", "fill_value=(1.0, 2.0)", "1 channels", fill_value=(1, 2)
    ),
    refused_transform(
        ArgumentValueError, "transform", "output_shape=(1, 2, 3)", "2", output_shape=(1, 2, 3)
    ),
    Refusal(
        lambda: kernels.transform_image_gradient(
            *(ones(2, 2, 2, 3), plugrad.asarray(IDENTITY)),
            image_shape=(1, 4, 4, 3),
            interpolation="nearest",
            fill_mode="wrap",
        ),
        ShapeError,
        ["TransformGrad", "(2, 2, 2, 3)", "(1, 2, 2, 3)"],
    ),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_bad_input(refusal, backend):
    refusal.check()
