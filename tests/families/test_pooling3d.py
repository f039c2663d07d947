"""The largest element and the average of windows with a depth."""

import numpy as np
import pytest

import plugrad
from families import windows
from families.case import FLOATS, REALS, Case, Refusal
from families.domains import different, uniform
from families.pools import check_second_order, gradient_cases
from plugrad.errors import ArgumentValueError, DTypeError, ShapeError
from plugrad.extend import pool_window
from plugrad.kernels import pooling3d

IMAGES = (2, 4, 5, 3, 2)
SLIDING = [
    {"window_size": 2},
    {"window_size": (1, 3, 2), "strides": 1},
    {"window_size": (3, 1, 2), "strides": (1, 2, 1)},
    {"window_size": 1, "strides": 3, "padding": "same"},
    {"window_size": 3, "strides": 2, "padding": "same"},
    {"window_size": (2, 3, 1), "strides": 2, "padding": ((1, 0), (0, 2), (0, 0))},
    {"window_size": 2, "strides": 3, "padding": 1, "dim_rounding_mode": "ceil"},
    {"window_size": 2, "strides": (2, 3, 2), "dim_rounding_mode": "round"},
]
LARGEST = [
    Case(plugrad.max_pool3d, windows.max_pool, [different()], [IMAGES], attrs, REALS)
    for attrs in SLIDING
]
AVERAGE = [
    Case(plugrad.avg_pool3d, windows.avg_pool, [uniform(-2, 2)], [IMAGES], attrs, FLOATS)
    for attrs in SLIDING
]
CASES = [*LARGEST, *AVERAGE]
GRADIENTS = (pooling3d.max_pool3d_gradient, pooling3d.avg_pool3d_gradient)
KERNELS = [kernel for attrs in SLIDING for kernel in gradient_cases(GRADIENTS, attrs, IMAGES)]
WITH_TIES = [gradient_cases(GRADIENTS, attrs, IMAGES, ties=True)[0] for attrs in SLIDING]


@pytest.mark.parametrize("case", [*CASES, *KERNELS], ids=str)
def test_values(case, backend, rng):
    case.check_values(rng)


@pytest.mark.parametrize("case", WITH_TIES, ids=str)
def test_the_first_of_equal_elements_gets_the_gradient(case, backend, rng):
    case.check_values(rng)


@pytest.mark.parametrize("case", [*CASES, *KERNELS[:6]], ids=str)
def test_values_of_other_dtypes(case, backend, rng):
    case.check_values_of_other_dtypes(rng)


@pytest.mark.parametrize("case", [*LARGEST[::3], *AVERAGE[1::3], *KERNELS[::5]], ids=str)
def test_values_of_views(case, backend, rng):
    case.check_values_of_views(rng)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_gradient(case, backend, rng):
    case.with_shapes((1, 3, 4, 3, 1)).check_gradient(rng, backend)


@pytest.mark.parametrize("attrs", SLIDING, ids=str)
def test_gradient_of_gradients(attrs, backend, rng):
    for case in gradient_cases(GRADIENTS, attrs, (1, 3, 4, 3, 1)):
        check_second_order(case, rng, backend)


@pytest.mark.parametrize("op", [plugrad.max_pool3d, plugrad.avg_pool3d])
def test_images_without_a_batch_axis_and_no_images(op, backend, rng):
    x = rng.uniform(-2, 2, IMAGES[1:]).astype("float32")
    assert op(x, 2).tolist() == op(x[None], 2)[0].tolist()
    assert op(plugrad.zeros((0, 4, 4, 4, 2)), 2).shape == (0, 2, 2, 2, 2)


def test_special_values(backend):
    x = np.arange(64, dtype="float32").reshape(1, 4, 4, 4, 1)
    x[0, 1, 1, 1], x[0, 0, 0, 2], x[0, 2, 0, 0] = np.nan, np.inf, -np.inf
    for op, reference in [
        (plugrad.max_pool3d, windows.max_pool),
        (plugrad.avg_pool3d, windows.avg_pool),
    ]:
        Case(op, reference, [], attrs={"window_size": 2}).check_values_of([x])


def image(*shape):
    return plugrad.ones(shape)


cube = {"window_size": (2,) * 3, "strides": (2,) * 3, "padding": "valid"}
REFUSALS = [
    Refusal(
        lambda: plugrad.max_pool3d(image(2, 2, 2), 2),
        ShapeError,
        ["max_pool3d", "(2, 2, 2)", "4 or 5 axes", "depth"],
    ),
    Refusal(
        lambda: plugrad.avg_pool3d(image(2, 2, 2, 1), 3),
        ShapeError,
        ["(3, 3, 3)", "padding='same'"],
    ),
    Refusal(
        lambda: plugrad.avg_pool3d(image(2, 2, 2, 1), (2, 2)),
        ArgumentValueError,
        ["avg_pool3d: window_size=(2, 2)", "one or 3"],
    ),
    Refusal(
        lambda: plugrad.max_pool3d(image(2, 2, 2, 1), 2, padding=((1, 1), (0, 0))),
        ArgumentValueError,
        ["max_pool3d", "padding=", "3 spatial axes"],
    ),
    Refusal(
        lambda: plugrad.max_pool3d(image(2, 2, 2, 1), 2, padding=2), ShapeError, ["in the padding"]
    ),
    Refusal(
        lambda: plugrad.max_pool3d(image(2, 2, 2, 1) > 0, 2), DTypeError, ["max_pool3d", "bool"]
    ),
    Refusal(
        lambda: windows.by_name(pooling3d.max_pool3d_gradient)(*[image(1, 4, 4, 4, 1)] * 3, **cube),
        ShapeError,
        ["MaxPool3DGrad", "(1, 4, 4, 4, 1)", "(1, 2, 2, 2, 1)"],
    ),
    Refusal(
        lambda: windows.by_name(pooling3d.avg_pool3d_gradient)(*[image(1, 4, 4, 4, 1)] * 2, **cube),
        ShapeError,
        ["AvgPool3DGrad", "(1, 2, 2, 2, 1)"],
    ),
    Refusal(
        lambda: pooling3d.avg_pool3d(
            image(1, 4, 4, 1), window=pool_window((4, 4), (2, 2), (2, 2), "valid")
        ),
        ShapeError,
        ["3 spatial"],
    ),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_bad_input(refusal, backend):
    refusal.check()
