"""Depthwise and separable convolutions of images."""

from dataclasses import replace

import numpy as np
import pytest

import plugrad
from families import windows
from families.case import Case, ErrorCase
from families.domains import uniform
from families.sliding import gradient_cases, kernel_attributes, with_channels_first
from plugrad.errors import ArgumentValueError, DTypeError, ShapeError
from plugrad.kernels import depthwise


def reference_depthwise_convolution(x, filter, **attrs):
    """Return the convolutions of each channel with its own filters, concatenated along the channels."""
    attrs = kernel_attributes(attrs, 2, "NHWC")
    x = windows.to_channels_last(x, attrs["data_format"])
    parts = [
        windows.convolve(
            x[..., c : c + 1], filter[:, :, c : c + 1], **{**attrs, "data_format": "C"}
        )
        for c in range(x.shape[3])
    ]
    return windows.from_channels_last(np.concatenate(parts, axis=-1), attrs["data_format"])


def channels_from(dy, c, count):
    """Return the output channels that were computed from input channel c."""
    return dy[..., c * count : (c + 1) * count]


def reference_input_gradient(dy, filter, *, input_shape, **attrs):
    data_format = attrs["data_format"]
    dy = windows.to_channels_last(dy, data_format)
    dx = windows.to_channels_last(np.zeros(input_shape), data_format)
    attrs = {**attrs, "data_format": "C", "input_shape": (*dx.shape[:3], 1)}
    for c in range(dx.shape[3]):
        part, cells = channels_from(dy, c, filter.shape[3]), filter[:, :, c : c + 1]
        dx[..., c : c + 1] = windows.convolve_input_gradient(part, cells, **attrs)
    return windows.from_channels_last(dx, data_format)


def reference_filter_gradient(x, dy, *, filter_shape, **attrs):
    x, dy = (windows.to_channels_last(images, attrs["data_format"]) for images in (x, dy))
    dw = np.zeros(filter_shape)
    attrs = {**attrs, "data_format": "C", "filter_shape": (*filter_shape[:2], 1, filter_shape[3])}
    for c in range(x.shape[3]):
        part = channels_from(dy, c, filter_shape[3])
        dw[:, :, c : c + 1] = windows.convolve_filter_gradient(x[..., c : c + 1], part, **attrs)
    return dw


TWO_NUMBER_DOMAINS = [uniform(-2, 2), uniform(-2, 2)]
IMAGES, FILTERS = (2, 6, 7, 3), (3, 2, 3, 2)
WINDOW_ATTRIBUTES = [
    {},
    {"padding": "same"},
    {"strides": 2},
    {"strides": 2, "padding": "same"},
    {"strides": (1, 3), "padding": "same"},
    {"strides": (4, 3), "padding": "same"},
    {"padding": 3},
    {"padding": ((0, 2), (3, 1)), "strides": 2},
    {"dilations": 2},
    {"dilations": (2, 3), "padding": "same"},
    {"dilations": (1, 2), "padding": ((2, 1), (0, 1))},
    {"strides": 2, "padding": 1, "dim_rounding_mode": "ceil"},
    {"strides": (3, 4), "padding": 1, "dim_rounding_mode": "round"},
]
CASES = [
    Case(
        plugrad.depthwise_conv2d,
        reference_depthwise_convolution,
        TWO_NUMBER_DOMAINS,
        (IMAGES, FILTERS),
        attrs,
        is_sum=True,
    )
    for attrs in WINDOW_ATTRIBUTES
]
CHANNELS_FIRST_CASES = [with_channels_first(case) for case in CASES[1::2]]
OTHER_SHAPES = [
    ((1, 1, 1, 1), (1, 1, 1, 1)),
    ((2, 5, 5, 3), (1, 1, 3, 1)),
    ((1, 4, 9, 1), (3, 3, 1, 5)),
    ((2, 5, 6, 8), (3, 2, 8, 1)),
    ((1, 5, 4, 2), (2, 3, 2, 4)),
    ((1, 7, 5, 17), (2, 5, 17, 1)),
    ((2, 4, 11, 21), (3, 3, 21, 1)),
    ((1, 5, 13, 3), (3, 3, 3, 7)),
    ((0, 6, 7, 3), (3, 2, 3, 2)),
    ((2, 6, 7, 3), (3, 2, 3, 0)),
]


def gradient_cases_of(case):
    """Return the cases of both gradients of a convolution."""
    kernels = (
        depthwise.depthwise_conv2d_input_gradient,
        depthwise.depthwise_conv2d_filter_gradient,
    )
    return gradient_cases(
        case, kernels, (reference_input_gradient, reference_filter_gradient), "NHWC"
    )


def reference_separable_convolution(x, filter, mix, **attrs):
    data_format = attrs.get("data_format", "NHWC")
    return windows.convolve(
        reference_depthwise_convolution(x, filter, **attrs), mix, data_format=data_format
    )


GRADIENT_CASES = [
    kernel for case in (*CASES, *CHANNELS_FIRST_CASES[::2]) for kernel in gradient_cases_of(case)
]
# The op takes one of them only.
GRADIENT_CASES += gradient_cases_of(
    replace(CASES[0], attrs={"dilations": (2, 3), "strides": (4, 2), "padding": 3})
)
SEPARABLE_CASES = [
    Case(
        *(
            plugrad.separable_conv2d,
            reference_separable_convolution,
            [*TWO_NUMBER_DOMAINS, uniform(-2, 2)],
        ),
        (*case.shapes, (1, 1, 6, 4)),
        case.attrs,
        is_sum=True,
    )
    for case in (*CASES[::3], *CHANNELS_FIRST_CASES[::3])
]


@pytest.mark.rows(
    "case", [*CASES, *CHANNELS_FIRST_CASES, *GRADIENT_CASES, *SEPARABLE_CASES], ids=str
)
def test_values(case, backend, rng):
    case.check_values(rng)


@pytest.mark.parametrize("shapes", OTHER_SHAPES, ids=str)
@pytest.mark.parametrize("strides", [1, 2])
def test_values_of_other_shapes(shapes, strides, backend, rng):
    attrs = {"strides": strides, "padding": "same"}
    case = Case(
        plugrad.depthwise_conv2d,
        reference_depthwise_convolution,
        TWO_NUMBER_DOMAINS,
        shapes,
        attrs,
        is_sum=True,
    )
    for each in (case, *gradient_cases_of(case)):
        each.check_values(rng)


@pytest.mark.rows("case", [*CASES[:4], *GRADIENT_CASES[:4], *SEPARABLE_CASES[:2]], ids=str)
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


def test_float16_goes_on_beyond_2048(backend):
    if "float16" not in plugrad.which().backend.dtypes():
        pytest.skip(f"{backend} has no float16")
    x, filter = (plugrad.ones(shape, dtype="float16") for shape in ((1, 64, 64, 2), (64, 64, 2, 1)))
    assert plugrad.depthwise_conv2d(x, filter).tolist() == [[[[4096, 4096]]]]
    small = plugrad.ones((1, 1, 2, 1), dtype="float16")
    slope = plugrad.grad(lambda f: plugrad.sum(plugrad.depthwise_conv2d(x, f)))(small)
    assert slope.tolist() == [[[[4096], [4096]]]]


@pytest.mark.rows("case", [*CASES[:4:3], *CHANNELS_FIRST_CASES[:2], *GRADIENT_CASES[:4]], ids=str)
def test_values_of_views(case, backend, rng):
    case.check_values_of_views(rng)


def test_images_without_a_batch_axis(backend, rng):
    x, filters, mix = SEPARABLE_CASES[0].draw(rng, "float32")
    for op in (
        lambda x: plugrad.depthwise_conv2d(x, filters, 2, "same"),
        lambda x: plugrad.separable_conv2d(x, filters, mix, 2, "same"),
    ):
        alone, together = op(x[1]), op(x)
        assert alone.shape == together.shape[1:]
        np.testing.assert_allclose(alone.numpy(), together[1].numpy(), rtol=1e-6, atol=1e-6)


def test_nan_stays_in_its_channel_and_in_the_windows_that_see_it(backend):
    x = np.zeros((1, 3, 3, 2), "float32")
    x[0, 0, 0, 1] = np.nan
    y = np.isnan(plugrad.depthwise_conv2d(x, plugrad.ones((2, 2, 2, 1))).numpy())
    assert y[0, 0, 0].tolist() == [False, True]
    assert y.sum() == 1


def with_small_inputs(case):
    """Return the case with few elements."""
    images = (1, 2, 4, 3) if case.attrs.get("data_format") == "NCHW" else (1, 4, 3, 2)
    return case.with_shapes(images, (2, 2, 2, 2), *case.shapes[2:])


SMALL_GRADIENT_CASES = [
    kernel
    for case in (CASES[0], CASES[4], CASES[7], CASES[9], CASES[11], CHANNELS_FIRST_CASES[2])
    for kernel in gradient_cases_of(with_small_inputs(case))
]


@pytest.mark.rows("case", [*CASES, *CHANNELS_FIRST_CASES[::2]], ids=str)
def test_gradient(case, backend, rng):
    with_small_inputs(case).check_gradient(rng, backend)


@pytest.mark.rows("case", SEPARABLE_CASES[1::3], ids=str)
def test_gradient_of_separable_convolutions(case, backend, rng):
    images, filters, _ = with_small_inputs(case).shapes
    case.with_shapes(images, filters, (1, 1, 4, 2)).check_gradient(rng, backend)


@pytest.mark.rows("case", SMALL_GRADIENT_CASES, ids=str)
def test_gradient_of_gradients(case, backend, rng):
    case.check_gradient(rng, backend)


def ones(*shape):
    return plugrad.ones(shape)


ERROR_CASES = [
    ErrorCase(
        lambda: plugrad.depthwise_conv2d(ones(1, 4, 4, 1), np.ones((2, 2, 1, 1), "uint8")),
        DTypeError,
        ["depthwise_conv2d: filter is uint8", "a float", "plugrad.astype(filter, 'float32')"],
    ),
    ErrorCase(
        lambda: plugrad.separable_conv2d(ones(1, 4, 4, 1), ones(2, 2, 1, 1), ones(1, 1, 1, 1) > 0),
        DTypeError,
        ["separable_conv2d: pointwise_filter is bool", "a float", "plugrad.astype"],
    ),
    ErrorCase(
        lambda: plugrad.depthwise_conv2d(ones(1, 4, 4, 3), ones(2, 2, 4, 1)),
        ShapeError,
        ["DepthwiseConv2dNative", "3 channels", "expect 4"],
    ),
    ErrorCase(
        lambda: plugrad.depthwise_conv2d(ones(1, 2, 2, 1), ones(3, 3, 1, 1)),
        ShapeError,
        ["window of (3, 3)", "image of (2, 2)", "padding='same'"],
    ),
    ErrorCase(
        lambda: plugrad.depthwise_conv2d(ones(4, 4), ones(2, 2, 1, 1)),
        ShapeError,
        ["depthwise_conv2d", "3 or 4 axes", "(4, 4)"],
    ),
    ErrorCase(
        lambda: plugrad.depthwise_conv2d(ones(1, 4, 4, 1), ones(2, 2, 1)),
        ShapeError,
        ["depthwise_conv2d", "filter 4", "(2, 2, 1)"],
    ),
    ErrorCase(
        lambda: windows.run_kernel_by_name(depthwise.depthwise_conv2d)(
            ones(1, 4, 4, 1) > 0, ones(2, 2, 1, 1), strides=(1, 1), padding="valid"
        ),
        DTypeError,
        ["DepthwiseConv2dNative", "bool", "astype"],
    ),
    ErrorCase(
        lambda: plugrad.depthwise_conv2d(ones(1, 4, 4, 1), ones(2, 2, 1, 1), 0),
        ArgumentValueError,
        ["depthwise_conv2d: strides=0", "at least 1"],
    ),
    ErrorCase(
        lambda: plugrad.depthwise_conv2d(ones(1, 4, 4, 1), ones(2, 2, 1, 1), padding="all"),
        ArgumentValueError,
        ["depthwise_conv2d: padding='all'", "'same'"],
    ),
    ErrorCase(
        lambda: plugrad.depthwise_conv2d(ones(1, 4, 4, 1), ones(2, 2, 1, 1), data_format="HW"),
        ArgumentValueError,
        ["depthwise_conv2d: data_format='HW'", "'NHWC'"],
    ),
    ErrorCase(
        lambda: plugrad.depthwise_conv2d(
            ones(1, 4, 4, 1), ones(2, 2, 1, 1), dim_rounding_mode="up"
        ),
        ArgumentValueError,
        ["dim_rounding_mode='up'", "'floor'"],
    ),
    ErrorCase(
        lambda: plugrad.separable_conv2d(ones(1, 4, 4, 2), ones(2, 2, 2, 2), ones(1, 1, 2, 3)),
        ShapeError,
        ["separable_conv2d: pointwise_filter", "(1, 1, 2, 3)", "(1, 1, 4, output channels)"],
    ),
    ErrorCase(
        lambda: plugrad.separable_conv2d(ones(1, 4, 4, 2), ones(2, 2, 2, 1), ones(2, 2, 2, 3)),
        ShapeError,
        ["separable_conv2d: pointwise_filter", "(2, 2, 2, 3)", "(1, 1, 2, output channels)"],
    ),
    ErrorCase(
        lambda: plugrad.separable_conv2d(ones(4, 4), ones(2, 2, 2, 1), ones(1, 1, 2, 3)),
        ShapeError,
        ["separable_conv2d", "3 or 4 axes", "(4, 4)"],
    ),
    ErrorCase(
        lambda: windows.run_kernel_by_name(depthwise.depthwise_conv2d_input_gradient)(
            *(ones(1, 3, 3, 1), ones(2, 2, 1, 2)),
            input_shape=(1, 4, 4, 1),
            strides=(1, 1),
            padding="valid",
        ),
        ShapeError,
        ["DepthwiseConv2dNativeBackpropInput", "(1, 3, 3, 1)", "(1, 3, 3, 2)"],
    ),
    ErrorCase(
        lambda: windows.run_kernel_by_name(depthwise.depthwise_conv2d_filter_gradient)(
            *(ones(1, 4, 4, 1), ones(1, 3, 3, 1)),
            filter_shape=(2, 2, 1, 2),
            strides=(1, 1),
            padding="valid",
        ),
        ShapeError,
        ["DepthwiseConv2dNativeBackpropFilter", "(1, 3, 3, 1)", "(1, 3, 3, 2)"],
    ),
]


@pytest.mark.rows("error_case", ERROR_CASES, ids=str)
def test_bad_input(error_case, backend):
    error_case.check()


def test_products_of_float16_are_not_rounded_before_they_are_added(backend):
    if "float16" not in plugrad.which().backend.dtypes():
        pytest.skip("the backend does not have float16")
    third = np.float16(1 / 3)
    wanted = np.float16(9 * float(third) ** 2)
    x, filter = np.full((1, 1, 9, 1), third), np.full((1, 9, 1, 1), third)
    assert plugrad.depthwise_conv2d(x, filter).numpy().item() == wanted
    x, filter = np.full((1, 1, 9, 2), third), np.full((1, 9, 1, 2), third)
    assert (plugrad.conv2d_transpose(x, filter, groups=2).numpy()[0, 0, 8] == wanted).all()
