"""Grayscale dilation of images."""

from dataclasses import replace

import numpy as np
import pytest

import plugrad
from families import windows
from families.case import REAL_DTYPES, Case, ErrorCase
from families.domains import Domain, distinct, uniform
from families.sliding import kernel_attributes
from plugrad.errors import ArgumentValueError, DTypeError, ShapeError
from plugrad.kernels import morphology


def windows_of_images(x, filter, attrs):
    """Return the window positions of a filter over NHWC images, and the elements in each window."""
    attrs = kernel_attributes(attrs, 2, "NHWC")
    return windows.windows_of_images(
        x, filter.shape, attrs["strides"], attrs["padding"], attrs["dilations"], None
    )


def reference_dilation2d(x, filter, **attrs):
    data_format = attrs.get("data_format", "NHWC")
    x = windows.to_channels_last(x, data_format)
    out, seen = windows_of_images(x, filter, attrs)
    y = np.zeros((x.shape[0], *out, x.shape[3]), x.dtype)
    for stop, cells in seen.items():
        y[:, *stop] = np.max([x[:, *place] + filter[cell] for cell, place in cells], axis=0)
    return windows.from_channels_last(y, data_format)


def iter_window_maxima(x, filter, attrs):
    """Yield (image, position, channel, filter element, image element) of the first largest sum in each window."""
    _, seen = windows_of_images(x, filter, attrs)
    for stop, cells in seen.items():
        for image, channel in np.ndindex(x.shape[0], x.shape[3]):
            sums = [x[image, *place, channel] + filter[*cell, channel] for cell, place in cells]
            yield image, stop, channel, *cells[int(np.argmax(sums))]


def reference_input_gradient(x, filter, dy, **attrs):
    dx = np.zeros(x.shape, x.dtype)
    for image, stop, channel, _, place in iter_window_maxima(x, filter, attrs):
        dx[image, *place, channel] += dy[image, *stop, channel]
    return dx


def reference_filter_gradient(x, filter, dy, **attrs):
    dw = np.zeros(filter.shape, x.dtype)
    for image, stop, channel, cell, _ in iter_window_maxima(x, filter, attrs):
        dw[*cell, channel] += dy[image, *stop, channel]
    return dw


IMAGES, FILTER = (2, 6, 7, 3), (3, 2, 3)
WINDOW_ATTRIBUTES = [
    {},
    {"padding": "same"},
    {"strides": 2},
    {"strides": (3, 1), "padding": "same"},
    {"padding": 1},
    {"padding": ((1, 0), (0, 1)), "strides": (1, 2)},
    {"dilations": 2},
    {"dilations": (1, 3), "padding": "same"},
    {"dilations": 2, "strides": 2, "padding": "same"},
]
SMALL_NUMBERS = uniform(-3, 3)
CASES = [
    Case(
        plugrad.dilation2d,
        reference_dilation2d,
        [distinct(), SMALL_NUMBERS],
        (IMAGES, FILTER),
        attrs,
        REAL_DTYPES,
    )
    for attrs in WINDOW_ATTRIBUTES
]
CHANNELS_FIRST_CASES = [
    Case(
        *(
            plugrad.dilation2d,
            reference_dilation2d,
            [distinct(), SMALL_NUMBERS],
            ((2, 3, 6, 7), FILTER),
        ),
        {**attrs, "data_format": "NCHW"},
    )
    for attrs in WINDOW_ATTRIBUTES[1::3]
]


def gradient_cases(attrs, images=IMAGES, filter=FILTER):
    """Return the cases of both gradients."""
    attrs = kernel_attributes(attrs, 2, "NHWC")
    attrs = {name: attrs[name] for name in ("strides", "padding", "dilations")}
    result = reference_dilation2d(np.zeros(images), np.zeros(filter), **attrs).shape
    domains = [distinct(), SMALL_NUMBERS, SMALL_NUMBERS]
    shapes = images, filter, result
    return [
        Case(
            windows.run_kernel_by_name(kernel),
            reference,
            domains,
            shapes,
            attrs,
            REAL_DTYPES,
            is_sum=True,
        )
        for kernel, reference in (
            (morphology.dilation2d_input_gradient, reference_input_gradient),
            (morphology.dilation2d_filter_gradient, reference_filter_gradient),
        )
    ]


GRADIENT_CASES = [kernel for attrs in WINDOW_ATTRIBUTES for kernel in gradient_cases(attrs)]


few_multiples_of_half = Domain(
    lambda rng, shape, dtype: (rng.integers(0, 3, shape) / 2).astype(dtype)
)
CASES_WITH_TIES = [
    replace(kernel, domains=[few_multiples_of_half, few_multiples_of_half, SMALL_NUMBERS])
    for kernel in GRADIENT_CASES
]


CASES_WITH_MANY_CHANNELS = [
    case
    for channels in (8, 70)
    for case in [
        CASES[1].with_shapes((2, 4, 5, channels), (3, 2, channels)),
        *gradient_cases({"padding": "same"}, (2, 4, 5, channels), (3, 2, channels)),
    ]
]


@pytest.mark.rows(
    "case", [*CASES, *CHANNELS_FIRST_CASES, *GRADIENT_CASES, *CASES_WITH_MANY_CHANNELS], ids=str
)
def test_values(case, backend, rng):
    case.check_values(rng)


@pytest.mark.rows("case", CASES_WITH_TIES, ids=str)
def test_the_first_of_equal_sums_gets_the_gradient(case, backend, rng):
    case.check_values(rng)


@pytest.mark.rows("case", [*CASES[:6], *GRADIENT_CASES[:4]], ids=str)
def test_values_of_other_dtypes(case, backend, rng):
    case.check_values_of_other_dtypes(rng)


@pytest.mark.rows("case", [*CASES[:4], *GRADIENT_CASES[:4]], ids=str)
def test_values_of_views(case, backend, rng):
    case.check_values_of_views(rng)


def test_images_without_a_batch_axis(backend, rng):
    x, filter = CASES[0].draw(rng, "float32")
    for data_format, images in (("NHWC", x), ("NCHW", x.transpose(0, 3, 1, 2))):
        together = plugrad.dilation2d(images, filter, 2, "same", data_format=data_format)
        alone = plugrad.dilation2d(images[1], filter, 2, "same", data_format=data_format)
        assert alone.tolist() == together[1].tolist()


def test_batches_of_zero_images(backend):
    filter = plugrad.zeros((2, 2, 3))
    assert plugrad.dilation2d(plugrad.zeros((0, 4, 4, 3)), filter).shape == (0, 3, 3, 3)
    x = plugrad.zeros((1, 4, 4, 0))
    assert plugrad.dilation2d(x, plugrad.zeros((2, 2, 0))).shape == (1, 3, 3, 0)


def test_special_values(backend):
    x = np.arange(36, dtype="float32").reshape(1, 6, 6, 1)
    x[0, 1, 1], x[0, 0, 4], x[0, 4, 0] = np.nan, np.inf, -np.inf
    filter = np.array([[0, 2], [-1, -np.inf]], "float32")[..., None]
    Case(plugrad.dilation2d, reference_dilation2d, []).check_values_of_arrays([x, filter])


def test_padding_is_never_the_largest(backend):
    for dtype in ("float32", "int32"):
        x = plugrad.full((1, 2, 2, 1), -5, dtype=dtype)
        y = plugrad.dilation2d(x, plugrad.zeros((3, 3, 1), dtype=dtype), 1, 1)
        assert y.numpy().max() == -5


def test_infinite_gradient_reaches_one_pixel(backend):
    x, filter = plugrad.asarray([[[[1.0], [3.0]]]]), plugrad.zeros((1, 2, 1))
    gradient = plugrad.grad(lambda x: plugrad.dilation2d(x, filter) * plugrad.inf)
    assert gradient(x).tolist() == [[[[0.0], [plugrad.inf]]]]


@pytest.mark.rows("case", [*CASES, CHANNELS_FIRST_CASES[0]], ids=str)
def test_gradient(case, backend, rng):
    images = (1, 2, 5, 4) if case.attrs.get("data_format") == "NCHW" else (1, 5, 4, 2)
    case.with_shapes(images, (2, 2, 2)).check_gradient(rng, backend)


@pytest.mark.parametrize("attrs", WINDOW_ATTRIBUTES, ids=str)
def test_gradient_of_gradients(attrs, backend, rng):
    """Both gradients are linear in dy, and constant in images and filter while the maxima stay the same."""
    for case in gradient_cases(attrs, (1, 5, 4, 2), (2, 2, 2)):
        x, filter, _ = case.draw(rng, "float64")

        def gradient_kernel_of_dy(dy, case=case, x=x, filter=filter, **attrs):
            fixed = [plugrad.asarray(part.astype(str(dy.dtype))) for part in (x, filter)]
            return case.op(*fixed, dy, **attrs)

        Case(
            gradient_kernel_of_dy,
            gradient_kernel_of_dy,
            case.domains[2:],
            case.shapes[2:],
            case.attrs,
        ).check_gradient(rng, backend)


def ones(*shape):
    return plugrad.ones(shape)


ERROR_CASES = [
    ErrorCase(
        lambda: plugrad.dilation2d(ones(1, 4, 4, 3), ones(2, 2, 4)),
        ShapeError,
        ["Dilation2D", "(1, 4, 4, 3)", "(2, 2, 4)", "same channels"],
    ),
    ErrorCase(
        lambda: plugrad.dilation2d(ones(1, 2, 2, 1), ones(3, 3, 1)),
        ShapeError,
        ["window of (3, 3)", "image of (2, 2)", "padding='same'"],
    ),
    ErrorCase(
        lambda: plugrad.dilation2d(ones(4, 4), ones(2, 2, 1)),
        ShapeError,
        ["dilation2d", "3 or 4 axes", "(4, 4)"],
    ),
    ErrorCase(
        lambda: plugrad.dilation2d(ones(1, 4, 4, 1), ones(2, 2, 1, 1)),
        ShapeError,
        ["dilation2d", "filter 3", "(2, 2, 1, 1)"],
    ),
    ErrorCase(
        lambda: plugrad.dilation2d(ones(1, 4, 4, 1) > 0, ones(2, 2, 1) > 0),
        DTypeError,
        ["dilation2d", "bool", "astype"],
    ),
    ErrorCase(
        lambda: plugrad.dilation2d(ones(1, 4, 4, 1), ones(2, 2, 1), 0),
        ArgumentValueError,
        ["dilation2d: strides=0", "at least 1"],
    ),
    ErrorCase(
        lambda: plugrad.dilation2d(ones(1, 4, 4, 1), ones(2, 2, 1), dilations=(1, 0)),
        ArgumentValueError,
        ["dilation2d: dilations=(1, 0)", "at least 1"],
    ),
    ErrorCase(
        lambda: plugrad.dilation2d(ones(1, 4, 4, 1), ones(2, 2, 1), padding=-1),
        ArgumentValueError,
        ["dilation2d: padding=-1", "'same'"],
    ),
    ErrorCase(
        lambda: plugrad.dilation2d(ones(1, 4, 4, 1), ones(2, 2, 1), data_format="CHW"),
        ArgumentValueError,
        ["dilation2d: data_format='CHW'", "'NCHW'"],
    ),
    ErrorCase(
        lambda: windows.run_kernel_by_name(morphology.dilation2d_input_gradient)(
            *(ones(1, 4, 4, 1), ones(2, 2, 1), ones(1, 4, 4, 1)), strides=(1, 1), padding="valid"
        ),
        ShapeError,
        ["Dilation2DBackpropInput", "(1, 4, 4, 1)", "(1, 3, 3, 1)"],
    ),
    ErrorCase(
        lambda: windows.run_kernel_by_name(morphology.dilation2d_filter_gradient)(
            *(ones(1, 4, 4, 1), ones(2, 2, 1), ones(1, 4, 4, 1)), strides=(1, 1), padding="valid"
        ),
        ShapeError,
        ["Dilation2DBackpropFilter", "(1, 4, 4, 1)", "(1, 3, 3, 1)"],
    ),
]


@pytest.mark.rows("error_case", ERROR_CASES, ids=str)
def test_bad_input(error_case, backend):
    error_case.check()
