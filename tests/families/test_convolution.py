"""Convolutions of images."""

from dataclasses import replace

import numpy as np
import pytest

import plugrad
from families import windows
from families.case import Case, CustomTolerance, ErrorCase
from families.domains import uniform
from families.sliding import gradient_cases, kernel_attributes, with_channels_first
from plugrad.errors import ArgumentError, ArgumentValueError, DTypeError, ShapeError
from plugrad.extend import sliding_window
from plugrad.kernels import convolution

LONG_SUM_REASON = "each element is a sum of hundreds of products"

TWO_NUMBER_DOMAINS = [uniform(-2, 2), uniform(-2, 2)]
IMAGES, FILTERS = (2, 6, 7, 3), (3, 2, 3, 4)
WINDOW_ATTRIBUTES = [
    {},
    {"padding": "same"},
    {"strides": 2},
    {"strides": 2, "padding": "same"},
    {"strides": (1, 3), "padding": "same"},
    {"strides": (3, 2), "padding": "valid"},
    {"padding": 1},
    {"padding": 3},
    {"padding": ((1, 0), (0, 2))},
    {"padding": ((0, 2), (3, 1)), "strides": 2},
    {"dilations": 2},
    {"dilations": (2, 3), "padding": "same"},
    {"dilations": (1, 2), "padding": ((2, 1), (0, 1))},
    {"strides": 2, "padding": 1, "dim_rounding_mode": "ceil"},
    {"strides": (3, 4), "padding": 1, "dim_rounding_mode": "round"},
    {"strides": 2, "padding": 1, "dim_rounding_mode": "round"},
    {"strides": 4, "padding": ((1, 0), (0, 1)), "dim_rounding_mode": "floor"},
    {"strides": (2, 3), "dim_rounding_mode": "ceil"},
]
CASES = [
    Case(
        plugrad.conv2d, windows.convolve, TWO_NUMBER_DOMAINS, (IMAGES, FILTERS), attrs, is_sum=True
    )
    for attrs in WINDOW_ATTRIBUTES
]
OTHER_SHAPES = [
    ((1, 1, 1, 1), (1, 1, 1, 1)),
    ((2, 5, 5, 3), (1, 1, 3, 5)),
    ((1, 4, 9, 1), (3, 3, 1, 1)),
    ((1, 2, 3, 2), (5, 4, 2, 1)),
    ((3, 8, 8, 4), (3, 3, 4, 8)),
    ((1, 7, 5, 5), (2, 5, 5, 17)),
]


def gradient_cases_of(case):
    """Return the cases of both gradients of a convolution."""
    kernels = convolution.conv2d_input_gradient, convolution.conv2d_filter_gradient
    references = windows.convolve_input_gradient, windows.convolve_filter_gradient
    return gradient_cases(case, kernels, references, "NHWC")


CHANNELS_FIRST_CASES = [with_channels_first(case) for case in CASES]
GRADIENT_CASES = [
    kernel for case in (*CASES, *CHANNELS_FIRST_CASES[3:12:4]) for kernel in gradient_cases_of(case)
]


def reference_conv1d(
    x, filter, *, stride=1, padding="valid", data_format="NWC", dilation=1, dim_rounding_mode=None
):
    """Return the cross-correlation of sequences by definition."""
    return windows.convolve(
        *(x, filter),
        strides=(stride,),
        padding=padding if isinstance(padding, str) else windows.padding_pairs(padding, 1),
        data_format=data_format,
        dilations=(dilation,),
        dim_rounding_mode=dim_rounding_mode,
    )


CONV1D_CASES = [
    Case(
        plugrad.conv1d,
        reference_conv1d,
        TWO_NUMBER_DOMAINS,
        ((2, 9, 3), (4, 3, 2)),
        attrs,
        is_sum=True,
    )
    for attrs in (
        {},
        {"padding": "same"},
        {"stride": 2, "padding": "same"},
        {"stride": 3, "padding": 2},
        {"padding": ((1, 0),)},
        {"dilation": 2},
        {"dilation": 2, "padding": ((0, 3),)},
        {"stride": 2, "padding": 1, "dim_rounding_mode": "ceil"},
    )
]
CONV1D_CASES += [
    Case(
        *(plugrad.conv1d, reference_conv1d, TWO_NUMBER_DOMAINS, ((2, 3, 9), (4, 3, 2))),
        {**case.attrs, "data_format": "NCW"},
        is_sum=True,
    )
    for case in CONV1D_CASES[2:6]
]


def transpose_case(case):
    """Return the case of the transposed convolution; its filters have the output channels first."""
    gradient, _ = gradient_cases_of(case)
    shape = gradient.attrs["input_shape"]

    def reference(x, filter, *, output_shape, **attrs):
        attrs = kernel_attributes(attrs, 2, "NHWC")
        return windows.convolve_input_gradient(x, filter, input_shape=output_shape, **attrs)

    attrs = {"output_shape": shape, **case.attrs}
    return Case(
        *(plugrad.conv2d_transpose, reference, TWO_NUMBER_DOMAINS, gradient.shapes, attrs),
        is_sum=True,
    )


TRANSPOSE_CASES = [transpose_case(case) for case in (*CASES, *CHANNELS_FIRST_CASES[3:12:4])]


@pytest.mark.rows(
    "case",
    [*CASES, *CHANNELS_FIRST_CASES, *GRADIENT_CASES, *CONV1D_CASES, *TRANSPOSE_CASES],
    ids=str,
)
def test_values(case, backend, rng):
    case.check_values(rng)


@pytest.mark.parametrize("shapes", OTHER_SHAPES, ids=str)
def test_values_of_other_shapes(shapes, backend, rng):
    case = Case(plugrad.conv2d, windows.convolve, TWO_NUMBER_DOMAINS, shapes, {"padding": "same"})
    case.check_values(rng)
    for kernel in gradient_cases_of(case):
        kernel.check_values(rng)


@pytest.mark.rows("case", [*CASES[:6], *GRADIENT_CASES[:6]], ids=str)
def test_values_of_other_dtypes(case, backend, rng):
    case.check_values_of_other_dtypes(rng)


def test_values_of_other_dtypes_with_many_channels(backend, rng):
    case = Case(
        *(plugrad.conv2d, windows.convolve, TWO_NUMBER_DOMAINS, ((1, 5, 6, 70), (2, 2, 70, 6))),
        is_sum=True,
    )
    for each in (case, *gradient_cases_of(case)):
        each.check_values_of_other_dtypes(rng)


@pytest.mark.rows("case", [*CASES[:6], *CHANNELS_FIRST_CASES[:4], *GRADIENT_CASES[:6]], ids=str)
def test_values_of_views(case, backend, rng):
    case.check_values_of_views(rng)


def test_large_images(backend, rng):
    loose = dict.fromkeys(["cpu", "wasm", "webgpu"], CustomTolerance(1e-5, LONG_SUM_REASON))
    shapes = (3, 47, 53, 9), (3, 3, 9, 11)
    case = Case(
        plugrad.conv2d,
        windows.convolve,
        TWO_NUMBER_DOMAINS,
        shapes,
        {"padding": "same"},
        is_sum=True,
    )
    for each in [case, *gradient_cases_of(case)]:
        replace(each, tolerance=loose).check_values(rng)


def test_images_without_a_batch_axis(backend, rng):
    x, filters = (
        d.draw(rng, s, "float32")
        for d, s in zip(TWO_NUMBER_DOMAINS, (IMAGES, FILTERS), strict=True)
    )
    alone = plugrad.conv2d(plugrad.asarray(x[0]), filters, 2, "same")
    together = plugrad.conv2d(plugrad.asarray(x), filters, 2, "same")
    assert alone.shape == together.shape[1:]
    np.testing.assert_allclose(alone.numpy(), together[0].numpy(), rtol=1e-6, atol=1e-6)


def test_sequences_and_transposes_without_a_batch_axis(backend, rng):
    x = rng.uniform(-2, 2, (2, 9, 3)).astype("float32")
    filters = rng.uniform(-2, 2, (4, 3, 2)).astype("float32")
    for data_format, together in (("NWC", x), ("NCW", x.transpose(0, 2, 1))):
        attrs = {"stride": 2, "padding": "same", "data_format": data_format}
        y = plugrad.conv1d(together, filters, **attrs)
        alone = plugrad.conv1d(together[1], filters, **attrs)
        assert alone.shape == y.shape[1:]
        np.testing.assert_allclose(alone.numpy(), y[1].numpy(), rtol=1e-6, atol=1e-6)
    images, filters = x[:, :, None], filters.transpose(0, 2, 1)[:, None]
    y = plugrad.conv2d_transpose(images, filters, (2, 18, 3, 2), (2, 3), "same")
    alone = plugrad.conv2d_transpose(images[1], filters, (18, 3, 2), (2, 3), "same")
    assert alone.shape == y.shape[1:]
    np.testing.assert_allclose(alone.numpy(), y[1].numpy(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("images", [(0, 6, 7, 3), (2, 6, 7, 0)], ids=str)
def test_batches_of_zero_images(images, backend, rng):
    shapes = images, (3, 2, images[3], 4)
    case = Case(plugrad.conv2d, windows.convolve, TWO_NUMBER_DOMAINS, shapes, {"padding": "same"})
    case.check_values(rng)
    for kernel in gradient_cases_of(case):
        kernel.check_values(rng)


def test_nan_reaches_only_the_windows_that_see_it(backend):
    x = np.zeros((1, 5, 5, 1), "float32")
    x[0, 1, 1] = np.nan
    y = plugrad.conv2d(plugrad.asarray(x), plugrad.ones((2, 2, 1, 1))).numpy()[0, :, :, 0]
    expected = np.zeros((4, 4), bool)
    expected[:2, :2] = True
    np.testing.assert_array_equal(np.isnan(y), expected)


@pytest.mark.rows("case", [*CASES, *CHANNELS_FIRST_CASES[:12:4]], ids=str)
def test_gradient(case, backend, rng):
    images, filters = (1, 5, 4, 2), (3, 2, 2, 2)
    if case.attrs.get("data_format") == "NCHW":
        images = (1, 2, 5, 4)
    if (
        windows.per_axis(case.attrs.get("dilations", 1))[0] == 2
        and case.attrs.get("padding") is None
    ):
        filters = (2, 2, 2, 2)
    case.with_shapes(images, filters).check_gradient(rng, backend)


@pytest.mark.rows("case", [*CONV1D_CASES[2::3], *TRANSPOSE_CASES[4::6]], ids=str)
def test_gradient_of_sequences_and_transposes(case, backend, rng):
    case.check_gradient(rng, backend)


@pytest.mark.rows("case", [*GRADIENT_CASES[:8], *GRADIENT_CASES[-4:]], ids=str)
def test_gradient_of_gradients(case, backend, rng):
    case.check_gradient(rng, backend)


def ones_images(*shape):
    return plugrad.ones(shape)


def ones_filters(*shape):
    return plugrad.ones(shape)


ERROR_CASES = [
    ErrorCase(
        lambda: plugrad.conv2d(ones_images(1, 4, 4, 3), ones_filters(2, 2, 4, 1)),
        ShapeError,
        ["3 channels", "expect 4"],
    ),
    ErrorCase(
        lambda: plugrad.conv2d(ones_images(1, 2, 2, 1), ones_filters(3, 3, 1, 1)),
        ShapeError,
        ["window of (3, 3)", "image of (2, 2)", "padding='same'"],
    ),
    ErrorCase(
        lambda: plugrad.conv2d(ones_images(4, 4), ones_filters(3, 3, 1, 1)),
        ShapeError,
        ["conv2d", "(4, 4)"],
    ),
    ErrorCase(
        lambda: plugrad.conv2d(ones_images(1, 4, 4, 1), ones_filters(3, 3, 1)),
        ShapeError,
        ["(3, 3, 1)", "4"],
    ),
    ErrorCase(
        lambda: plugrad.conv2d(ones_images(1, 4, 4, 1), ones_filters(2, 2, 1, 1), strides=0),
        ArgumentValueError,
        ["conv2d", "strides=0", "at least 1"],
    ),
    ErrorCase(
        lambda: plugrad.conv2d(ones_images(1, 4, 4, 1), ones_filters(2, 2, 1, 1), padding="some"),
        ArgumentValueError,
        ["padding='some'", "'same'", "'valid'"],
    ),
    ErrorCase(
        lambda: plugrad.conv2d(ones_images(1, 4, 4, 1), ones_filters(2, 2, 1, 1), padding=-1),
        ArgumentValueError,
        ["padding=-1", "'same'"],
    ),
    ErrorCase(
        lambda: plugrad.conv2d(
            ones_images(1, 4, 4, 1), ones_filters(2, 2, 1, 1), data_format="CHWN"
        ),
        ArgumentValueError,
        ["data_format='CHWN'", "'NHWC'", "'NCHW'"],
    ),
    ErrorCase(
        lambda: plugrad.conv2d(
            ones_images(1, 4, 4, 1), ones_filters(2, 2, 1, 1), strides=3, dim_rounding_mode="up"
        ),
        ArgumentValueError,
        ["dim_rounding_mode='up'", "'floor'", "'ceil'", "'round'"],
    ),
    ErrorCase(
        lambda: plugrad.conv2d(
            ones_images(1, 4, 4, 1),
            ones_filters(2, 2, 1, 1),
            padding="same",
            dim_rounding_mode="ceil",
        ),
        ArgumentValueError,
        ["conv2d: dim_rounding_mode='ceil'", "padding='same'", "omit it"],
    ),
    ErrorCase(
        lambda: plugrad.conv2d(np.ones((1, 4, 4, 1), "uint8"), ones_filters(2, 2, 1, 1)),
        DTypeError,
        ["conv2d: x is uint8", "a float", "plugrad.astype(x, 'float32')", "scale"],
    ),
    ErrorCase(
        lambda: plugrad.conv2d(ones_images(1, 4, 4, 1), None), ArgumentError, ["conv2d", "NoneType"]
    ),
    ErrorCase(
        lambda: windows.run_kernel_by_name(convolution.conv2d)(
            ones_images(1, 4, 4, 1) > 0, ones_filters(2, 2, 1, 1), strides=(1, 1), padding="valid"
        ),
        DTypeError,
        ["Conv2D", "bool", "float32"],
    ),
    ErrorCase(
        lambda: plugrad.conv1d(ones_images(4), ones_filters(3, 1, 1)),
        ShapeError,
        ["conv1d", "(4,)", "2 or"],
    ),
    ErrorCase(
        lambda: plugrad.conv1d(ones_images(1, 4, 3), ones_filters(3, 2, 1)),
        ShapeError,
        ["(1, 1, 4, 3)", "3 channels", "expect 2"],
    ),
    ErrorCase(
        lambda: plugrad.conv1d(ones_images(1, 4, 1), ones_filters(2, 1, 1), data_format="NHWC"),
        ArgumentValueError,
        ["conv1d", "data_format='NHWC'", "'NWC'", "'NCW'"],
    ),
    ErrorCase(
        lambda: plugrad.conv1d(ones_images(1, 4, 1), ones_filters(2, 1, 1), stride=0),
        ArgumentValueError,
        ["conv1d: stride=0", "at least 1"],
    ),
    ErrorCase(
        lambda: plugrad.conv1d(
            ones_images(1, 4, 1), ones_filters(2, 1, 1), padding=((0, 0), (1, 1))
        ),
        ArgumentValueError,
        ["conv1d", "padding=((0, 0), (1, 1))"],
    ),
    ErrorCase(
        lambda: plugrad.conv2d_transpose(
            ones_images(1, 2, 2, 1), ones_filters(2, 2, 1, 1), (3, 3, 1)
        ),
        ShapeError,
        ["conv2d_transpose", "output_shape=(3, 3, 1)", "(1, 2, 2, 1)"],
    ),
    ErrorCase(
        lambda: plugrad.conv2d_transpose(
            ones_images(1, 2, 2, 1), ones_filters(2, 2, 3, 1), (1, 3, 3, 1)
        ),
        ShapeError,
        ["(1, 3, 3, 1)", "1 channels", "expect 3"],
    ),
    ErrorCase(
        lambda: plugrad.conv2d_transpose(
            ones_images(1, 2, 2, 1), ones_filters(2, 2, 1, 1), (1, 4, 4, 1)
        ),
        ShapeError,
        ["(1, 2, 2, 1)", "(1, 4, 4, 1)", "(1, 3, 3, 1)"],
    ),
    ErrorCase(
        lambda: plugrad.conv2d_transpose(
            ones_images(1, 2, 2, 1), ones_filters(2, 2, 1, 1), (1, -3, 3, 1)
        ),
        ShapeError,
        ["conv2d_transpose: output_shape=(1, -3, 3, 1)", "negative"],
    ),
    ErrorCase(
        lambda: windows.run_kernel_by_name(convolution.conv2d)(
            ones_images(1, 4, 4, 1), ones_filters(2, 2, 1, 1), strides=(1,), padding="valid"
        ),
        ArgumentValueError,
        ["Conv2D: strides=(1,)", "one or 2"],
    ),
    ErrorCase(
        lambda: convolution.conv2d(
            ones_images(1, 5, 4, 1),
            ones_filters(2, 2, 1, 1),
            window=sliding_window((4, 4), (2, 2), (1, 1), "valid"),
        ),
        ShapeError,
        ["Conv2D: ", "out=(3, 3)", "(1, 5, 4, 1)", "(4, 3) positions", "sliding_window"],
    ),
    ErrorCase(
        lambda: convolution.conv2d(
            ones_images(1, 4, 4, 1),
            ones_filters(3, 2, 1, 1),
            window=sliding_window((4, 4), (2, 2), (1, 1), "valid"),
        ),
        ShapeError,
        ["Conv2D: filters of shape (3, 2, 1, 1)", "size=(2, 2)"],
    ),
    ErrorCase(
        lambda: convolution.conv2d(
            ones_images(1, 4, 4, 1), ones_filters(2, 2, 1, 1), window=(1, 1)
        ),
        ArgumentError,
        ["Conv2D: window=(1, 1)", "must be a Window"],
    ),
    ErrorCase(
        lambda: plugrad.run_kernel(
            "Conv2D",
            {"x": ones_images(1, 4, 4, 1), "filter": ones_filters(2, 2, 1, 1)},
            {"strides": 1},
        ),
        ArgumentError,
        ["Conv2D: ", "'window' is missing", "['pad']", "TensorFlow.js"],
    ),
    ErrorCase(
        lambda: windows.run_kernel_by_name(convolution.conv2d)(
            *(ones_images(1, 4, 4, 1), ones_filters(2, 2, 1, 1)),
            strides=(1, 1),
            padding="valid",
            data_format="NDHWC",
        ),
        ArgumentValueError,
        ["Conv2D", "data_format='NDHWC'", "'NHWC'"],
    ),
    ErrorCase(
        lambda: windows.run_kernel_by_name(convolution.conv2d_input_gradient)(
            ones_images(1, 4, 4, 1),
            ones_filters(2, 2, 1, 1),
            input_shape=(1, 4, 4, 1),
            strides=(1, 1),
            padding="valid",
        ),
        ShapeError,
        ["Conv2DBackpropInput", "(1, 4, 4, 1)", "(1, 3, 3, 1)"],
    ),
    ErrorCase(
        lambda: windows.run_kernel_by_name(convolution.conv2d_filter_gradient)(
            ones_images(1, 4, 4, 1),
            ones_images(1, 4, 4, 1),
            filter_shape=(2, 2, 1, 1),
            strides=(1, 1),
            padding="valid",
        ),
        ShapeError,
        ["Conv2DBackpropFilter", "(1, 4, 4, 1)", "(1, 3, 3, 1)"],
    ),
]


@pytest.mark.rows("error_case", ERROR_CASES, ids=str)
def test_bad_input(error_case, backend):
    error_case.check()
