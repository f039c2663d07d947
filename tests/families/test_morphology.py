"""The largest sums of pixels and weights."""

from dataclasses import replace

import numpy as np
import pytest

import plugrad
from families import windows
from families.case import REALS, Case, Refusal
from families.domains import Domain, different, uniform
from families.sliding import complete
from plugrad.errors import ArgumentValueError, DTypeError, ShapeError
from plugrad.kernels import morphology


def slid(x, filter, attrs):
    """Return the stops of a filter over NHWC images, and what it sees there."""
    attrs = complete(attrs, 2, "NHWC")
    return windows.slid(
        x, filter.shape, attrs["strides"], attrs["padding"], attrs["dilations"], None
    )


def dilation2d(x, filter, **attrs):
    data_format = attrs.get("data_format", "NHWC")
    x = windows.in_order(x, data_format)
    out, seen = slid(x, filter, attrs)
    y = np.zeros((x.shape[0], *out, x.shape[3]), x.dtype)
    for stop, cells in seen.items():
        y[:, *stop] = np.max([x[:, *place] + filter[cell] for cell, place in cells], axis=0)
    return windows.as_asked(y, data_format)


def largest(x, filter, attrs):
    """Yield (image, stop, channel, cell, place) of the first largest sum in each window."""
    _, seen = slid(x, filter, attrs)
    for stop, cells in seen.items():
        for image, channel in np.ndindex(x.shape[0], x.shape[3]):
            sums = [x[image, *place, channel] + filter[*cell, channel] for cell, place in cells]
            yield image, stop, channel, *cells[int(np.argmax(sums))]


def input_gradient(x, filter, dy, **attrs):
    dx = np.zeros(x.shape, x.dtype)
    for image, stop, channel, _, place in largest(x, filter, attrs):
        dx[image, *place, channel] += dy[image, *stop, channel]
    return dx


def filter_gradient(x, filter, dy, **attrs):
    dw = np.zeros(filter.shape, x.dtype)
    for image, stop, channel, cell, _ in largest(x, filter, attrs):
        dw[*cell, channel] += dy[image, *stop, channel]
    return dw


IMAGES, FILTER = (2, 6, 7, 3), (3, 2, 3)
SLIDING = [
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
SMALL = uniform(-3, 3)
CASES = [
    Case(plugrad.dilation2d, dilation2d, [different(), SMALL], (IMAGES, FILTER), attrs, REALS)
    for attrs in SLIDING
]
FIRST = [
    Case(
        *(plugrad.dilation2d, dilation2d, [different(), SMALL], ((2, 3, 6, 7), FILTER)),
        {**attrs, "data_format": "NCHW"},
    )
    for attrs in SLIDING[1::3]
]


def gradient_kernels(attrs, images=IMAGES, filter=FILTER):
    """Return the cases of both gradients."""
    attrs = complete(attrs, 2, "NHWC")
    attrs = {name: attrs[name] for name in ("strides", "padding", "dilations")}
    result = dilation2d(np.zeros(images), np.zeros(filter), **attrs).shape
    domains = [different(), SMALL, SMALL]
    shapes = images, filter, result
    return [
        Case(windows.by_name(kernel), reference, domains, shapes, attrs, REALS, is_sum=True)
        for kernel, reference in (
            (morphology.dilation2d_input_gradient, input_gradient),
            (morphology.dilation2d_filter_gradient, filter_gradient),
        )
    ]


KERNELS = [kernel for attrs in SLIDING for kernel in gradient_kernels(attrs)]


halves = Domain(lambda rng, shape, dtype: (rng.integers(0, 3, shape) / 2).astype(dtype))
WITH_TIES = [replace(kernel, domains=[halves, halves, SMALL]) for kernel in KERNELS]


MANY_CHANNELS = [
    case
    for channels in (8, 70)
    for case in [
        CASES[1].with_shapes((2, 4, 5, channels), (3, 2, channels)),
        *gradient_kernels({"padding": "same"}, (2, 4, 5, channels), (3, 2, channels)),
    ]
]


@pytest.mark.parametrize("case", [*CASES, *FIRST, *KERNELS, *MANY_CHANNELS], ids=str)
def test_values(case, backend, rng):
    case.check_values(rng)


@pytest.mark.parametrize("case", WITH_TIES, ids=str)
def test_the_first_of_equal_sums_gets_the_gradient(case, backend, rng):
    case.check_values(rng)


@pytest.mark.parametrize("case", [*CASES[:6], *KERNELS[:4]], ids=str)
def test_values_of_other_dtypes(case, backend, rng):
    case.check_values_of_other_dtypes(rng)


@pytest.mark.parametrize("case", [*CASES[:4], *KERNELS[:4]], ids=str)
def test_values_of_views(case, backend, rng):
    case.check_values_of_views(rng)


def test_images_without_a_batch_axis(backend, rng):
    x, filter = CASES[0].draw(rng, "float32")
    for data_format, images in (("NHWC", x), ("NCHW", x.transpose(0, 3, 1, 2))):
        together = plugrad.dilation2d(images, filter, 2, "same", data_format=data_format)
        alone = plugrad.dilation2d(images[1], filter, 2, "same", data_format=data_format)
        assert alone.tolist() == together[1].tolist()


def test_no_images(backend):
    filter = plugrad.zeros((2, 2, 3))
    assert plugrad.dilation2d(plugrad.zeros((0, 4, 4, 3)), filter).shape == (0, 3, 3, 3)
    x = plugrad.zeros((1, 4, 4, 0))
    assert plugrad.dilation2d(x, plugrad.zeros((2, 2, 0))).shape == (1, 3, 3, 0)


def test_special_values(backend):
    x = np.arange(36, dtype="float32").reshape(1, 6, 6, 1)
    x[0, 1, 1], x[0, 0, 4], x[0, 4, 0] = np.nan, np.inf, -np.inf
    filter = np.array([[0, 2], [-1, -np.inf]], "float32")[..., None]
    Case(plugrad.dilation2d, dilation2d, []).check_values_of([x, filter])


def test_padding_is_never_the_largest(backend):
    for dtype in ("float32", "int32"):
        x = plugrad.full((1, 2, 2, 1), -5, dtype=dtype)
        y = plugrad.dilation2d(x, plugrad.zeros((3, 3, 1), dtype=dtype), 1, 1)
        assert y.numpy().max() == -5


def test_infinite_gradient_reaches_one_pixel(backend):
    x, filter = plugrad.asarray([[[[1.0], [3.0]]]]), plugrad.zeros((1, 2, 1))
    gradient = plugrad.grad(lambda x: plugrad.dilation2d(x, filter) * plugrad.inf)
    assert gradient(x).tolist() == [[[[0.0], [plugrad.inf]]]]


@pytest.mark.parametrize("case", [*CASES, FIRST[0]], ids=str)
def test_gradient(case, backend, rng):
    images = (1, 2, 5, 4) if case.attrs.get("data_format") == "NCHW" else (1, 5, 4, 2)
    case.with_shapes(images, (2, 2, 2)).check_gradient(rng, backend)


@pytest.mark.parametrize("attrs", SLIDING, ids=str)
def test_gradient_of_gradients(attrs, backend, rng):
    """Both are linear in dy; where images and filter change smoothly, the result does not change."""
    for case in gradient_kernels(attrs, (1, 5, 4, 2), (2, 2, 2)):
        x, filter, _ = case.draw(rng, "float64")

        def of_dy(dy, case=case, x=x, filter=filter, **attrs):
            fixed = [plugrad.asarray(part.astype(str(dy.dtype))) for part in (x, filter)]
            return case.op(*fixed, dy, **attrs)

        Case(of_dy, of_dy, case.domains[2:], case.shapes[2:], case.attrs).check_gradient(
            rng, backend
        )


def ones(*shape):
    return plugrad.ones(shape)


REFUSALS = [
    Refusal(
        lambda: plugrad.dilation2d(ones(1, 4, 4, 3), ones(2, 2, 4)),
        ShapeError,
        ["Dilation2D", "(1, 4, 4, 3)", "(2, 2, 4)", "same channels"],
    ),
    Refusal(
        lambda: plugrad.dilation2d(ones(1, 2, 2, 1), ones(3, 3, 1)),
        ShapeError,
        ["window of (3, 3)", "image of (2, 2)", "padding='same'"],
    ),
    Refusal(
        lambda: plugrad.dilation2d(ones(4, 4), ones(2, 2, 1)),
        ShapeError,
        ["dilation2d", "3 or 4 axes", "(4, 4)"],
    ),
    Refusal(
        lambda: plugrad.dilation2d(ones(1, 4, 4, 1), ones(2, 2, 1, 1)),
        ShapeError,
        ["dilation2d", "filter 3", "(2, 2, 1, 1)"],
    ),
    Refusal(
        lambda: plugrad.dilation2d(ones(1, 4, 4, 1) > 0, ones(2, 2, 1) > 0),
        DTypeError,
        ["dilation2d", "bool", "astype"],
    ),
    Refusal(
        lambda: plugrad.dilation2d(ones(1, 4, 4, 1), ones(2, 2, 1), 0),
        ArgumentValueError,
        ["dilation2d: strides=0", "at least 1"],
    ),
    Refusal(
        lambda: plugrad.dilation2d(ones(1, 4, 4, 1), ones(2, 2, 1), dilations=(1, 0)),
        ArgumentValueError,
        ["dilation2d: dilations=(1, 0)", "at least 1"],
    ),
    Refusal(
        lambda: plugrad.dilation2d(ones(1, 4, 4, 1), ones(2, 2, 1), padding=-1),
        ArgumentValueError,
        ["dilation2d: padding=-1", "'same'"],
    ),
    Refusal(
        lambda: plugrad.dilation2d(ones(1, 4, 4, 1), ones(2, 2, 1), data_format="CHW"),
        ArgumentValueError,
        ["dilation2d: data_format='CHW'", "'NCHW'"],
    ),
    Refusal(
        lambda: windows.by_name(morphology.dilation2d_input_gradient)(
            *(ones(1, 4, 4, 1), ones(2, 2, 1), ones(1, 4, 4, 1)), strides=(1, 1), padding="valid"
        ),
        ShapeError,
        ["Dilation2DBackpropInput", "(1, 4, 4, 1)", "(1, 3, 3, 1)"],
    ),
    Refusal(
        lambda: windows.by_name(morphology.dilation2d_filter_gradient)(
            *(ones(1, 4, 4, 1), ones(2, 2, 1), ones(1, 4, 4, 1)), strides=(1, 1), padding="valid"
        ),
        ShapeError,
        ["Dilation2DBackpropFilter", "(1, 4, 4, 1)", "(1, 3, 3, 1)"],
    ),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_bad_input(refusal, backend):
    refusal.check()
