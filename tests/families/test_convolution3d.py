"""Convolutions of volumes."""

import numpy as np
import pytest

import plugrad
from families import windows
from families.case import Case, ErrorCase
from families.domains import uniform
from families.sliding import gradient_cases, kernel_attributes, with_channels_first
from plugrad.errors import ArgumentValueError, DTypeError, ShapeError
from plugrad.kernels import convolution3d

TWO_NUMBER_DOMAINS = [uniform(-2, 2), uniform(-2, 2)]
VOLUMES, FILTERS = (2, 4, 5, 6, 2), (2, 3, 2, 2, 3)
WINDOW_ATTRIBUTES = [
    {},
    {"padding": "same"},
    {"strides": 2},
    {"strides": (2, 1, 3), "padding": "same"},
    {"strides": (3, 4, 3), "padding": "same"},  # filters that do not reach the next stop
    {"padding": 2},
    {"padding": ((1, 0), (0, 2), (3, 1)), "strides": (1, 2, 2)},
    {"dilations": 2},
    {"dilations": (1, 2, 3), "padding": "same"},
    {"dilations": (2, 1, 1), "padding": ((0, 2), (1, 1), (0, 0))},
    {"strides": 2, "padding": 1, "dim_rounding_mode": "ceil"},
    {"strides": (3, 2, 4), "padding": 1, "dim_rounding_mode": "round"},
]
CASES = [
    Case(
        plugrad.conv3d, windows.convolve, TWO_NUMBER_DOMAINS, (VOLUMES, FILTERS), attrs, is_sum=True
    )
    for attrs in WINDOW_ATTRIBUTES
]
CHANNELS_FIRST_CASES = [with_channels_first(case) for case in CASES[1::2]]
OTHER_SHAPES = [
    ((1, 1, 1, 1, 1), (1, 1, 1, 1, 1)),
    ((1, 3, 1, 5, 2), (3, 3, 1, 2, 7)),
    ((1, 5, 5, 5, 4), (1, 1, 1, 4, 8)),
    ((2, 3, 4, 3, 8), (2, 2, 2, 8, 3)),
    ((0, 4, 5, 6, 2), (2, 3, 2, 2, 3)),
    ((2, 4, 5, 6, 0), (2, 3, 2, 0, 3)),
    ((2, 4, 5, 6, 2), (2, 3, 2, 2, 0)),
]


def gradient_cases_of(case):
    """Return the cases of both gradients of a convolution."""
    kernels = convolution3d.conv3d_input_gradient, convolution3d.conv3d_filter_gradient
    references = windows.convolve_input_gradient, windows.convolve_filter_gradient
    return gradient_cases(case, kernels, references, "NDHWC")


def transpose_case(case):
    """Return the case of the transposed convolution; its filters have the output channels first."""
    gradient, _ = gradient_cases_of(case)

    def reference(x, filter, *, output_shape, **attrs):
        attrs = kernel_attributes(attrs, 3, "NDHWC")
        return windows.convolve_input_gradient(x, filter, input_shape=output_shape, **attrs)

    attrs = {"output_shape": gradient.attrs["input_shape"], **case.attrs}
    return Case(
        *(plugrad.conv3d_transpose, reference, TWO_NUMBER_DOMAINS, gradient.shapes, attrs),
        is_sum=True,
    )


GRADIENT_CASES = [
    kernel for case in (*CASES, *CHANNELS_FIRST_CASES[::2]) for kernel in gradient_cases_of(case)
]
TRANSPOSE_CASES = [transpose_case(case) for case in (*CASES[::2], *CHANNELS_FIRST_CASES[1::2])]


@pytest.mark.rows(
    "case", [*CASES, *CHANNELS_FIRST_CASES, *GRADIENT_CASES, *TRANSPOSE_CASES], ids=str
)
def test_values(case, backend, rng):
    case.check_values(rng)


@pytest.mark.parametrize("shapes", OTHER_SHAPES, ids=str)
def test_values_of_other_shapes(shapes, backend, rng):
    case = Case(
        plugrad.conv3d,
        windows.convolve,
        TWO_NUMBER_DOMAINS,
        shapes,
        {"padding": "same"},
        is_sum=True,
    )
    for each in (case, *gradient_cases_of(case)):
        each.check_values(rng)


@pytest.mark.rows("case", [*CASES[:4], *GRADIENT_CASES[:4]], ids=str)
def test_values_of_other_dtypes(case, backend, rng):
    case.check_values_of_other_dtypes(rng)


def test_float16_stays_float16(backend, rng):
    if "float16" not in plugrad.which().backend.dtypes():
        pytest.skip(f"{backend} has no float16")
    for case in (CASES[1], *GRADIENT_CASES[:2]):
        arrays = case.draw(rng, "float16")
        y = case.op(*map(plugrad.asarray, arrays), **case.attrs)
        assert y.dtype == "float16"
        exact = case.reference(*(x.astype("float64") for x in arrays), **case.attrs)
        np.testing.assert_allclose(y.numpy(), exact, rtol=0.02, atol=0.02 * np.abs(exact).max())


@pytest.mark.rows("case", [*CASES[:4:3], *CHANNELS_FIRST_CASES[:2], *GRADIENT_CASES[:4]], ids=str)
def test_values_of_views(case, backend, rng):
    case.check_values_of_views(rng)


def test_volumes_without_a_batch_axis(backend, rng):
    x, filters = CASES[0].draw(rng, "float32")
    y = plugrad.conv3d(x, filters, 2, "same")
    alone = plugrad.conv3d(x[1], filters, 2, "same")
    assert alone.shape == y.shape[1:]
    np.testing.assert_allclose(alone.numpy(), y[1].numpy(), rtol=1e-6, atol=1e-6)
    turned = filters.swapaxes(3, 4)
    y = plugrad.conv3d_transpose(x, turned, (2, 8, 10, 12, 3), 2, "same")
    alone = plugrad.conv3d_transpose(x[1], turned, (8, 10, 12, 3), 2, "same")
    assert alone.shape == y.shape[1:]
    np.testing.assert_allclose(alone.numpy(), y[1].numpy(), rtol=1e-6, atol=1e-6)


def test_nan_reaches_only_the_windows_that_see_it(backend):
    x = np.zeros((1, 3, 3, 3, 1), "float32")
    x[0, 0, 0, 0] = np.nan
    y = plugrad.conv3d(x, plugrad.ones((2, 2, 2, 1, 1))).numpy()[0, ..., 0]
    assert np.isnan(y[0, 0, 0])
    assert np.isnan(y).sum() == 1


def with_small_inputs(case):
    """Return the case with few elements."""
    volumes, filters = (1, 3, 4, 3, 2), (2, 2, 1, 2, 2)
    if case.attrs.get("data_format") == "NCDHW":
        volumes = (1, 2, 3, 4, 3)
    return case.with_shapes(volumes, filters)


SMALL_GRADIENT_CASES = [
    kernel
    for case in (CASES[0], CASES[3], CASES[6], CASES[8], CASES[10], CHANNELS_FIRST_CASES[1])
    for kernel in gradient_cases_of(with_small_inputs(case))
]


@pytest.mark.rows("case", [*CASES, *CHANNELS_FIRST_CASES[::2]], ids=str)
def test_gradient(case, backend, rng):
    with_small_inputs(case).check_gradient(rng, backend)


@pytest.mark.rows("case", SMALL_GRADIENT_CASES, ids=str)
def test_gradient_of_gradients(case, backend, rng):
    case.check_gradient(rng, backend)


def test_gradient_of_a_transpose(backend, rng):
    attrs = {"output_shape": (1, 4, 3, 3, 2), "strides": (2, 1, 2), "padding": "same"}
    shapes = (1, 2, 3, 2, 1), (2, 2, 1, 2, 1)
    case = Case(
        plugrad.conv3d_transpose, TRANSPOSE_CASES[0].reference, TWO_NUMBER_DOMAINS, shapes, attrs
    )
    case.check_gradient(rng, backend)


def ones(*shape):
    return plugrad.ones(shape)


ERROR_CASES = [
    ErrorCase(
        lambda: plugrad.conv3d(ones(1, 4, 4, 4, 3), ones(2, 2, 2, 4, 1)),
        ShapeError,
        ["(1, 4, 4, 4, 3)", "3 channels", "expect 4"],
    ),
    ErrorCase(
        lambda: plugrad.conv3d(ones(1, 2, 2, 2, 1), ones(3, 3, 3, 1, 1)),
        ShapeError,
        ["window of (3, 3, 3)", "image of (2, 2, 2)", "padding='same'"],
    ),
    ErrorCase(
        lambda: plugrad.conv3d(ones(4, 4, 4), ones(2, 2, 2, 1, 1)),
        ShapeError,
        ["conv3d", "4 or 5 axes", "(4, 4, 4)"],
    ),
    ErrorCase(
        lambda: plugrad.conv3d(ones(1, 4, 4, 4, 1), ones(2, 2, 1, 1)),
        ShapeError,
        ["conv3d", "filter 5", "(2, 2, 1, 1)"],
    ),
    ErrorCase(
        lambda: windows.run_kernel_by_name(convolution3d.conv3d)(
            ones(1, 4, 4, 4, 1) > 0, ones(2, 2, 2, 1, 1), strides=(1, 1, 1), padding="valid"
        ),
        DTypeError,
        ["Conv3D", "bool", "astype"],
    ),
    ErrorCase(
        lambda: plugrad.conv3d(ones(1, 4, 4, 4, 1), ones(2, 2, 2, 1, 1), strides=(1, 2)),
        ArgumentValueError,
        ["conv3d: strides=(1, 2)", "one or 3"],
    ),
    ErrorCase(
        lambda: plugrad.conv3d(ones(1, 4, 4, 4, 1), ones(2, 2, 2, 1, 1), dilations=0),
        ArgumentValueError,
        ["conv3d: dilations=0", "at least 1"],
    ),
    ErrorCase(
        lambda: plugrad.conv3d(ones(1, 4, 4, 4, 1), ones(2, 2, 2, 1, 1), padding=((1, 1), (1, 1))),
        ArgumentValueError,
        ["conv3d: padding=((1, 1), (1, 1))", "3 spatial axes"],
    ),
    ErrorCase(
        lambda: plugrad.conv3d(ones(1, 4, 4, 4, 1), ones(2, 2, 2, 1, 1), data_format="NHWC"),
        ArgumentValueError,
        ["conv3d: data_format='NHWC'", "'NDHWC'", "'NCDHW'"],
    ),
    ErrorCase(
        lambda: plugrad.conv3d(
            ones(1, 4, 4, 4, 1), ones(2, 2, 2, 1, 1), padding=1, dim_rounding_mode="up"
        ),
        ArgumentValueError,
        ["dim_rounding_mode='up'", "'floor'"],
    ),
    ErrorCase(
        lambda: plugrad.conv3d_transpose(ones(1, 2, 2, 2, 1), ones(2, 2, 2, 1, 1), (1, 3, 3, 1)),
        ShapeError,
        ["conv3d_transpose: output_shape=(1, 3, 3, 1)", "(1, 2, 2, 2, 1)"],
    ),
    ErrorCase(
        lambda: plugrad.conv3d_transpose(ones(1, 2, 2, 2, 1), ones(2, 2, 2, 1, 1), (1, 3, 3, 4, 1)),
        ShapeError,
        ["Conv3DBackpropInputV2", "(1, 2, 2, 2, 1)", "(1, 2, 2, 3, 1)"],
    ),
    ErrorCase(
        lambda: windows.run_kernel_by_name(convolution3d.conv3d_filter_gradient)(
            *(ones(1, 4, 4, 4, 1), ones(1, 4, 4, 4, 1)),
            filter_shape=(2, 2, 2, 1, 1),
            strides=(1, 1, 1),
            padding="valid",
        ),
        ShapeError,
        ["Conv3DBackpropFilterV2", "(1, 4, 4, 4, 1)", "(1, 3, 3, 3, 1)"],
    ),
]


@pytest.mark.rows("error_case", ERROR_CASES, ids=str)
def test_bad_input(error_case, backend):
    error_case.check()
