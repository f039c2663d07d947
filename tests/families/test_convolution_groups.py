"""Convolutions of groups of channels, with strides and dilations at once, and transposed ones with output padding."""

from itertools import product

import numpy as np
import pytest

import plugrad
from families import windows
from families.case import Case, ErrorCase
from families.domains import uniform
from plugrad.errors import ArgumentError, ArgumentValueError, ShapeError

TWO_NUMBER_DOMAINS = [uniform(-2, 2), uniform(-2, 2)]
SPATIAL_SIZES = {1: (9,), 2: (7, 6), 3: (4, 5, 4)}
FILTER_SIZES = {1: (3,), 2: (3, 2), 3: (2, 1, 2)}
CONVOLUTION_OPS = {1: plugrad.conv1d, 2: plugrad.conv2d, 3: plugrad.conv3d}
TRANSPOSE_OPS = {
    1: plugrad.conv1d_transpose,
    2: plugrad.conv2d_transpose,
    3: plugrad.conv3d_transpose,
}
CHANNELS_FIRST_FORMATS = {1: "NCW", 2: "NCHW", 3: "NCDHW"}


def window_arguments(attrs, count):
    """Return strides, padding and dilations as the reference takes them."""
    return {
        "strides": windows.per_axis(attrs.get("strides", attrs.get("stride", 1)), count),
        "padding": windows.padding_pairs(attrs.get("padding", "valid"), count),
        "dilations": windows.per_axis(attrs.get("dilations", attrs.get("dilation", 1)), count),
    }


def reference_convolution(x, filter, *, groups=1, data_format="C", **attrs):
    x = windows.to_channels_last(x, data_format)
    parts = zip(np.split(x, groups, -1), np.split(filter, groups, -1), strict=True)
    how = window_arguments(attrs, x.ndim - 2)
    y = np.concatenate([windows.convolve(*part, **how) for part in parts], -1)
    return windows.from_channels_last(y, data_format)


def reference_transpose(x, filter, *, groups=1, output_padding=0, data_format="C", **attrs):
    """Add the product of each element and the filters to the window of the result, and cut off the padding."""
    x = windows.to_channels_last(x, data_format)
    count = x.ndim - 2
    how = window_arguments(attrs, count)
    extra = windows.per_axis(output_padding, count)
    pads = [(0, 0)] * count if how["padding"] == "valid" else how["padding"]
    sides = list(
        zip(
            x.shape[1:-1], filter.shape, how["strides"], how["dilations"], pads, extra, strict=False
        )
    )
    whole = [(n - 1) * s + (c - 1) * d + 1 + more for n, c, s, d, _, more in sides]
    y = np.zeros((len(x), *whole, filter.shape[-2] * groups))
    parts = list(zip(np.split(x, groups, -1), np.split(filter, groups, -1), strict=True))
    for cell in np.ndindex(*filter.shape[:count]):
        place = tuple(
            slice(i * d, i * d + (n - 1) * s + 1, s)
            for i, (n, _, s, d, _, _) in zip(cell, sides, strict=True)
        )
        y[:, *place] += np.concatenate([a @ f[cell].T for a, f in parts], -1)
    inner = [slice(a, n - b) for n, (a, b) in zip(whole, pads, strict=True)]
    return windows.from_channels_last(y[:, *inner], data_format)


def attributes_for_op(attrs, count):
    """Return the attributes by the parameter names of the op for so many spatial axes."""
    singular = {"strides": "stride", "dilations": "dilation"}
    return {singular.get(k, k): v for k, v in attrs.items()} if count == 1 else attrs


def cases_of_rank(count):
    """Return the cases of convolutions and transposed convolutions with so many spatial axes."""
    ways = [
        {"groups": 2},
        {"groups": 3, "padding": 1, "strides": 2},
        {"groups": 2, "strides": 2, "dilations": 2, "padding": 2},
        {"strides": 2, "dilations": 2, "padding": 1},
        {"strides": 3, "dilations": 2, "padding": "same"},
    ]
    shape = (2, *SPATIAL_SIZES[count], 6)
    for attrs in ways:
        named = attributes_for_op(attrs, count)
        filter = (*FILTER_SIZES[count], 6 // attrs.get("groups", 1), 6)
        yield Case(
            CONVOLUTION_OPS[count],
            reference_convolution,
            TWO_NUMBER_DOMAINS,
            (shape, filter),
            named,
            is_sum=True,
        )
    own = (*FILTER_SIZES[count], 1, 12)  # filters for each channel
    attrs = attributes_for_op({"groups": 6, "strides": 2, "dilations": 2, "padding": 1}, count)
    yield Case(
        CONVOLUTION_OPS[count],
        reference_convolution,
        TWO_NUMBER_DOMAINS,
        (shape, own),
        attrs,
        is_sum=True,
    )
    first = {"groups": 2, "data_format": CHANNELS_FIRST_FORMATS[count]}
    shapes = (2, 6, *SPATIAL_SIZES[count]), (*FILTER_SIZES[count], 3, 4)
    yield Case(
        CONVOLUTION_OPS[count],
        reference_convolution,
        TWO_NUMBER_DOMAINS,
        shapes,
        first,
        is_sum=True,
    )

    small = (2, *(3,) * count, 6)
    ways = [
        {},
        {"groups": 2, "strides": 2, "output_padding": 1},
        {"groups": 3, "strides": 3, "padding": 1, "output_padding": 2},
        {"strides": 2, "dilations": 3, "padding": 1, "output_padding": 2},
        {"groups": 2, "strides": 1, "dilations": 3, "output_padding": 2},
    ]
    for attrs in ways:
        named = attributes_for_op(attrs, count)
        filter = (*FILTER_SIZES[count], 2, 6)
        yield Case(
            TRANSPOSE_OPS[count],
            reference_transpose,
            TWO_NUMBER_DOMAINS,
            (small, filter),
            named,
            is_sum=True,
        )
    attrs = attributes_for_op({"groups": 6, "strides": 2, "output_padding": 1, "padding": 1}, count)
    own = (*FILTER_SIZES[count], 1, 6)
    yield Case(
        TRANSPOSE_OPS[count],
        reference_transpose,
        TWO_NUMBER_DOMAINS,
        (small, own),
        attrs,
        is_sum=True,
    )
    first = attributes_for_op(
        {"groups": 2, "strides": 2, "data_format": CHANNELS_FIRST_FORMATS[count]}, count
    )
    shapes = (2, 6, *(3,) * count), (*FILTER_SIZES[count], 2, 6)
    yield Case(
        TRANSPOSE_OPS[count], reference_transpose, TWO_NUMBER_DOMAINS, shapes, first, is_sum=True
    )


CASES = [case for count in (1, 2, 3) for case in cases_of_rank(count)]


@pytest.mark.rows("case", CASES, ids=str)
def test_values(case, backend, rng):
    case.check_values(rng)


@pytest.mark.rows("case", CASES[1::5], ids=str)
def test_values_of_other_dtypes(case, backend, rng):
    case.check_values_of_other_dtypes(rng)


@pytest.mark.rows("case", [CASES[2], CASES[5], CASES[8], *CASES[16:28:3]], ids=str)
def test_gradient(case, backend, rng):
    images, filters = case.shapes
    case.with_shapes((1, *images[1:]), filters).check_gradient(rng, backend)


def test_empty_batches_and_channels(backend, rng):
    for shape, filter, groups in [((0, 7, 6, 6), (3, 2, 3, 4), 2), ((2, 7, 6, 0), (3, 2, 0, 4), 2)]:
        case = Case(
            plugrad.conv2d,
            reference_convolution,
            TWO_NUMBER_DOMAINS,
            (shape, filter),
            {"groups": groups},
        )
        case.check_values(rng)
    y = plugrad.conv2d_transpose(np.ones((0, 3, 3, 4), "float32"), np.ones((2, 2, 1, 4), "float32"))
    assert y.shape == (0, 4, 4, 1)
    assert plugrad.conv2d_transpose(
        plugrad.ones((1, 0, 3, 1)), plugrad.ones((2, 2, 1, 1))
    ).shape == (*(1, 0, 4, 1),)


def test_the_default_shape_is_the_one_that_the_convolution_undoes(backend):
    for count, n, stride, cells in product((1, 2, 3), (3, 4), (1, 2), (1, 3)):
        x, filter = plugrad.ones((1, *(n,) * count, 1)), plugrad.ones((*(cells,) * count, 1, 1))
        how = attributes_for_op({"strides": stride, "padding": "same"}, count)
        y = TRANSPOSE_OPS[count](x, filter, **how)
        assert y.shape == (1, *(n * stride,) * count, 1)
        assert CONVOLUTION_OPS[count](y, filter, **how).shape == x.shape


def test_examples_are_batched(backend, rng):
    x = rng.uniform(-2, 2, (3, 1, 5, 4, 4)).astype("float32")
    filters = rng.uniform(-2, 2, (3, 2, 2, 2, 6)).astype("float32")

    def f(x, filter):
        return plugrad.conv2d(x, filter, 2, 1, dilations=2, groups=2)

    together = plugrad.vmap(f)(plugrad.asarray(x), plugrad.asarray(filters)).numpy()
    alone = np.stack([f(a, b).numpy() for a, b in zip(x, filters, strict=True)])
    np.testing.assert_allclose(together, alone, rtol=1e-5, atol=1e-5)


def grouped_conv2d(groups, filter=(2, 2, 2, 4), **attrs):
    return plugrad.conv2d(plugrad.ones((1, 4, 4, 4)), plugrad.ones(filter), groups=groups, **attrs)


def grouped_conv2d_transpose(filter=(2, 2, 1, 4), **attrs):
    return plugrad.conv2d_transpose(plugrad.ones((1, 3, 3, 4)), plugrad.ones(filter), **attrs)


ERROR_CASES = [
    ErrorCase(
        lambda: grouped_conv2d(3), ArgumentValueError, ["conv2d: groups=3", "4 channels", "divide"]
    ),
    ErrorCase(lambda: grouped_conv2d(0), ArgumentValueError, ["conv2d: groups=0", "at least 1"]),
    ErrorCase(lambda: grouped_conv2d(2.5), ArgumentError, ["groups=2.5", "integer"]),
    ErrorCase(
        lambda: grouped_conv2d(2, (2, 2, 2, 3)), ArgumentValueError, ["groups=2", "the 3 channels"]
    ),
    ErrorCase(
        lambda: grouped_conv2d(2, (2, 2, 4, 4)),
        ShapeError,
        ["have 4 channels", "2 groups expect 8"],
    ),
    ErrorCase(lambda: grouped_conv2d(4, (5, 5, 1, 4)), ShapeError, ["conv2d", "does not fit"]),
    ErrorCase(
        lambda: plugrad.conv1d(plugrad.ones((1, 4, 4)), plugrad.ones((2, 1, 4)), groups=2),
        ShapeError,
        ["conv1d: x of shape (1, 4, 4)", "have 4 channels", "2 groups expect 2"],
    ),
    ErrorCase(
        lambda: grouped_conv2d_transpose(output_padding=1),
        ArgumentValueError,
        ["output_padding=(1, 1)", "less than the stride"],
    ),
    ErrorCase(
        lambda: grouped_conv2d_transpose(output_padding=-1),
        ArgumentValueError,
        ["output_padding=-1"],
    ),
    ErrorCase(
        lambda: grouped_conv2d_transpose(output_shape=(1, 4, 4, 1), output_padding=1),
        ArgumentValueError,
        ["output_padding=1", "output_shape=(1, 4, 4, 1)", "one of them"],
    ),
    ErrorCase(
        lambda: grouped_conv2d_transpose(strides=2, padding="same", output_padding=1),
        ArgumentValueError,
        ["padding='same'", "output_padding=(1, 1)", "cells"],
    ),
    ErrorCase(
        lambda: grouped_conv2d_transpose(padding=2),
        ShapeError,
        ["padding=((2, 2), (2, 2))", "nothing"],
    ),
    ErrorCase(lambda: grouped_conv2d_transpose((2, 2, 1, 2)), ShapeError, ["4"]),
    ErrorCase(
        lambda: grouped_conv2d_transpose((2, 2, 1, 2), groups=2),
        ShapeError,
        ["4 channels", "expect 2"],
    ),
    ErrorCase(
        lambda: grouped_conv2d_transpose((2, 2, 2, 4), groups=2, output_shape=(1, 4, 4, 3)),
        ShapeError,
        ["(1, 4, 4, 3)", "3 channels", "2 groups give 4"],
    ),
    ErrorCase(
        lambda: grouped_conv2d_transpose((2, 2, 1, 4), groups=4, output_shape=(1, 4, 4, 3)),
        ShapeError,
        ["(1, 4, 4, 3)", "3 channels"],
    ),
]


@pytest.mark.rows("error_case", ERROR_CASES, ids=str)
def test_invalid_convolution_groups(error_case, backend):
    error_case.check()
