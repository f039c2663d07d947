"""Max pooling and average pooling of volumes."""

import numpy as np
import pytest

import plugrad
from families import windows
from families.case import FLOAT_DTYPES, REAL_DTYPES, Case, ErrorCase
from families.domains import distinct, uniform
from families.pools import check_gradient_kernel, gradient_cases
from plugrad.errors import ArgumentValueError, DTypeError, ShapeError
from plugrad.extend import pool_window
from plugrad.kernels import pooling3d

VOLUMES_SHAPE = (2, 4, 5, 3, 2)
WINDOW_ATTRIBUTES = [
    {"window_size": 2},
    {"window_size": (1, 3, 2), "strides": 1},
    {"window_size": (3, 1, 2), "strides": (1, 2, 1)},
    {"window_size": 1, "strides": 3, "padding": "same"},
    {"window_size": 3, "strides": 2, "padding": "same"},
    {"window_size": (2, 3, 1), "strides": 2, "padding": ((1, 0), (0, 2), (0, 0))},
    {"window_size": 2, "strides": 3, "padding": 1, "dim_rounding_mode": "ceil"},
    {"window_size": 2, "strides": (2, 3, 2), "dim_rounding_mode": "round"},
]
MAX_POOL_CASES = [
    Case(plugrad.max_pool3d, windows.max_pool, [distinct()], [VOLUMES_SHAPE], attrs, REAL_DTYPES)
    for attrs in WINDOW_ATTRIBUTES
]
AVERAGE_POOL_CASES = [
    Case(
        plugrad.avg_pool3d, windows.avg_pool, [uniform(-2, 2)], [VOLUMES_SHAPE], attrs, FLOAT_DTYPES
    )
    for attrs in WINDOW_ATTRIBUTES
]
CASES = [*MAX_POOL_CASES, *AVERAGE_POOL_CASES]
GRADIENT_KERNELS = (pooling3d.max_pool3d_gradient, pooling3d.avg_pool3d_gradient)
GRADIENT_CASES = [
    kernel
    for attrs in WINDOW_ATTRIBUTES
    for kernel in gradient_cases(GRADIENT_KERNELS, attrs, VOLUMES_SHAPE)
]
CASES_WITH_TIES = [
    gradient_cases(GRADIENT_KERNELS, attrs, VOLUMES_SHAPE, ties=True)[0]
    for attrs in WINDOW_ATTRIBUTES
]


@pytest.mark.rows("case", [*CASES, *GRADIENT_CASES], ids=str)
def test_values(case, backend, rng):
    case.check_values(rng)


@pytest.mark.rows("case", CASES_WITH_TIES, ids=str)
def test_the_first_of_equal_elements_gets_the_gradient(case, backend, rng):
    case.check_values(rng)


@pytest.mark.rows("case", [*CASES, *GRADIENT_CASES[:6]], ids=str)
def test_values_of_other_dtypes(case, backend, rng):
    case.check_values_of_other_dtypes(rng)


@pytest.mark.rows(
    "case", [*MAX_POOL_CASES[::3], *AVERAGE_POOL_CASES[1::3], *GRADIENT_CASES[::5]], ids=str
)
def test_values_of_views(case, backend, rng):
    case.check_values_of_views(rng)


@pytest.mark.rows("case", CASES, ids=str)
def test_gradient(case, backend, rng):
    case.with_shapes((1, 3, 4, 3, 1)).check_gradient(rng, backend)


@pytest.mark.parametrize("attrs", WINDOW_ATTRIBUTES, ids=str)
def test_gradient_of_gradients(attrs, backend, rng):
    for case in gradient_cases(GRADIENT_KERNELS, attrs, (1, 3, 4, 3, 1)):
        check_gradient_kernel(case, rng, backend)


@pytest.mark.parametrize("op", [plugrad.max_pool3d, plugrad.avg_pool3d])
def test_images_without_a_batch_axis_and_no_images(op, backend, rng):
    x = rng.uniform(-2, 2, VOLUMES_SHAPE[1:]).astype("float32")
    assert op(x, 2).tolist() == op(x[None], 2)[0].tolist()
    assert op(plugrad.zeros((0, 4, 4, 4, 2)), 2).shape == (0, 2, 2, 2, 2)


def test_special_values(backend):
    x = np.arange(64, dtype="float32").reshape(1, 4, 4, 4, 1)
    x[0, 1, 1, 1], x[0, 0, 0, 2], x[0, 2, 0, 0] = np.nan, np.inf, -np.inf
    for op, reference in [
        (plugrad.max_pool3d, windows.max_pool),
        (plugrad.avg_pool3d, windows.avg_pool),
    ]:
        Case(op, reference, [], attrs={"window_size": 2}).check_values_of_arrays([x])


def ones_volume(*shape):
    return plugrad.ones(shape)


cubic_window_attributes = {"window_size": (2,) * 3, "strides": (2,) * 3, "padding": "valid"}
ERROR_CASES = [
    ErrorCase(
        lambda: plugrad.max_pool3d(ones_volume(2, 2, 2), 2),
        ShapeError,
        ["max_pool3d", "(2, 2, 2)", "4 or 5 axes", "depth"],
    ),
    ErrorCase(
        lambda: plugrad.avg_pool3d(ones_volume(2, 2, 2, 1), 3),
        ShapeError,
        ["(3, 3, 3)", "padding='same'"],
    ),
    ErrorCase(
        lambda: plugrad.avg_pool3d(ones_volume(2, 2, 2, 1), (2, 2)),
        ArgumentValueError,
        ["avg_pool3d: window_size=(2, 2)", "one or 3"],
    ),
    ErrorCase(
        lambda: plugrad.max_pool3d(ones_volume(2, 2, 2, 1), 2, padding=((1, 1), (0, 0))),
        ArgumentValueError,
        ["max_pool3d", "padding=", "3 spatial axes"],
    ),
    ErrorCase(
        lambda: plugrad.max_pool3d(ones_volume(2, 2, 2, 1), 2, padding=2),
        ShapeError,
        ["in the padding"],
    ),
    ErrorCase(
        lambda: plugrad.max_pool3d(ones_volume(2, 2, 2, 1) > 0, 2),
        DTypeError,
        ["max_pool3d", "bool"],
    ),
    ErrorCase(
        lambda: windows.run_kernel_by_name(pooling3d.max_pool3d_gradient)(
            *[ones_volume(1, 4, 4, 4, 1)] * 3, **cubic_window_attributes
        ),
        ShapeError,
        ["MaxPool3DGrad", "(1, 4, 4, 4, 1)", "(1, 2, 2, 2, 1)"],
    ),
    ErrorCase(
        lambda: windows.run_kernel_by_name(pooling3d.avg_pool3d_gradient)(
            *[ones_volume(1, 4, 4, 4, 1)] * 2, **cubic_window_attributes
        ),
        ShapeError,
        ["AvgPool3DGrad", "(1, 2, 2, 2, 1)"],
    ),
    ErrorCase(
        lambda: pooling3d.avg_pool3d(
            ones_volume(1, 4, 4, 1), window=pool_window((4, 4), (2, 2), (2, 2), "valid")
        ),
        ShapeError,
        ["3 spatial"],
    ),
]


@pytest.mark.rows("error_case", ERROR_CASES, ids=str)
def test_bad_input(error_case, backend):
    error_case.check()
