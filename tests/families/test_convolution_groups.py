"""Convolutions of groups of channels, with strides and dilations at once, and transposed ones with output padding."""

from itertools import product

import numpy as np
import pytest

import plugrad
from families import windows
from families.case import Case, Refusal
from families.domains import uniform
from plugrad.errors import ArgumentError, ArgumentValueError, ShapeError

numbers = [uniform(-2, 2), uniform(-2, 2)]
SIZES = {1: (9,), 2: (7, 6), 3: (4, 5, 4)}
CELLS = {1: (3,), 2: (3, 2), 3: (2, 1, 2)}
CONVOLUTIONS = {1: plugrad.conv1d, 2: plugrad.conv2d, 3: plugrad.conv3d}
TRANSPOSES = {1: plugrad.conv1d_transpose, 2: plugrad.conv2d_transpose, 3: plugrad.conv3d_transpose}
FORMATS = {1: "NCW", 2: "NCHW", 3: "NCDHW"}


def steps(attrs, count):
    """Return strides, padding and dilations as NumPy's loops take them."""
    return {
        "strides": windows.each(attrs.get("strides", attrs.get("stride", 1)), count),
        "padding": windows.pairs(attrs.get("padding", "valid"), count),
        "dilations": windows.each(attrs.get("dilations", attrs.get("dilation", 1)), count),
    }


def convolve(x, filter, *, groups=1, data_format="C", **attrs):
    x = windows.in_order(x, data_format)
    parts = zip(np.split(x, groups, -1), np.split(filter, groups, -1), strict=True)
    how = steps(attrs, x.ndim - 2)
    y = np.concatenate([windows.convolve(*part, **how) for part in parts], -1)
    return windows.as_asked(y, data_format)


def transpose(x, filter, *, groups=1, output_padding=0, data_format="C", **attrs):
    """Add the product of each element and the filters to a window, and cut off the padding."""
    x = windows.in_order(x, data_format)
    count = x.ndim - 2
    how = steps(attrs, count)
    extra = windows.each(output_padding, count)
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
    return windows.as_asked(y[:, *inner], data_format)


def names(attrs, count):
    """Return the attributes under the names that sequences have for them."""
    singular = {"strides": "stride", "dilations": "dilation"}
    return {singular.get(k, k): v for k, v in attrs.items()} if count == 1 else attrs


def cases(count):
    """Return convolutions and transposes with so many spatial axes."""
    ways = [
        {"groups": 2},
        {"groups": 3, "padding": 1, "strides": 2},
        {"groups": 2, "strides": 2, "dilations": 2, "padding": 2},
        {"strides": 2, "dilations": 2, "padding": 1},
        {"strides": 3, "dilations": 2, "padding": "same"},
    ]
    shape = (2, *SIZES[count], 6)
    for attrs in ways:
        named = names(attrs, count)
        filter = (*CELLS[count], 6 // attrs.get("groups", 1), 6)
        yield Case(CONVOLUTIONS[count], convolve, numbers, (shape, filter), named, is_sum=True)
    own = (*CELLS[count], 1, 12)  # filters for each channel
    attrs = names({"groups": 6, "strides": 2, "dilations": 2, "padding": 1}, count)
    yield Case(CONVOLUTIONS[count], convolve, numbers, (shape, own), attrs, is_sum=True)
    first = {"groups": 2, "data_format": FORMATS[count]}
    shapes = (2, 6, *SIZES[count]), (*CELLS[count], 3, 4)
    yield Case(CONVOLUTIONS[count], convolve, numbers, shapes, first, is_sum=True)

    small = (2, *(3,) * count, 6)
    ways = [
        {},
        {"groups": 2, "strides": 2, "output_padding": 1},
        {"groups": 3, "strides": 3, "padding": 1, "output_padding": 2},
        {"strides": 2, "dilations": 3, "padding": 1, "output_padding": 2},
        {"groups": 2, "strides": 1, "dilations": 3, "output_padding": 2},
    ]
    for attrs in ways:
        named = names(attrs, count)
        filter = (*CELLS[count], 2, 6)
        yield Case(TRANSPOSES[count], transpose, numbers, (small, filter), named, is_sum=True)
    attrs = names({"groups": 6, "strides": 2, "output_padding": 1, "padding": 1}, count)
    own = (*CELLS[count], 1, 6)
    yield Case(TRANSPOSES[count], transpose, numbers, (small, own), attrs, is_sum=True)
    first = names({"groups": 2, "strides": 2, "data_format": FORMATS[count]}, count)
    shapes = (2, 6, *(3,) * count), (*CELLS[count], 2, 6)
    yield Case(TRANSPOSES[count], transpose, numbers, shapes, first, is_sum=True)


CASES = [case for count in (1, 2, 3) for case in cases(count)]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_values(case, backend, rng):
    case.check_values(rng)


@pytest.mark.parametrize("case", CASES[1::5], ids=str)
def test_values_of_other_dtypes(case, backend, rng):
    case.check_values_of_other_dtypes(rng)


@pytest.mark.parametrize("case", [CASES[2], CASES[5], CASES[8], *CASES[16:28:3]], ids=str)
def test_gradient(case, backend, rng):
    images, filters = case.shapes
    case.with_shapes((1, *images[1:]), filters).check_gradient(rng, backend)


def test_empty_batches_and_channels(backend, rng):
    for shape, filter, groups in [((0, 7, 6, 6), (3, 2, 3, 4), 2), ((2, 7, 6, 0), (3, 2, 0, 4), 2)]:
        case = Case(plugrad.conv2d, convolve, numbers, (shape, filter), {"groups": groups})
        case.check_values(rng)
    y = plugrad.conv2d_transpose(np.ones((0, 3, 3, 4), "float32"), np.ones((2, 2, 1, 4), "float32"))
    assert y.shape == (0, 4, 4, 1)
    assert plugrad.conv2d_transpose(
        plugrad.ones((1, 0, 3, 1)), plugrad.ones((2, 2, 1, 1))
    ).shape == (*(1, 0, 4, 1),)


def test_the_default_shape_is_the_one_that_the_convolution_undoes(backend):
    for count, n, stride, cells in product((1, 2, 3), (3, 4), (1, 2), (1, 3)):
        x, filter = plugrad.ones((1, *(n,) * count, 1)), plugrad.ones((*(cells,) * count, 1, 1))
        how = names({"strides": stride, "padding": "same"}, count)
        y = TRANSPOSES[count](x, filter, **how)
        assert y.shape == (1, *(n * stride,) * count, 1)
        assert CONVOLUTIONS[count](y, filter, **how).shape == x.shape


def test_examples_are_batched(backend, rng):
    x = rng.uniform(-2, 2, (3, 1, 5, 4, 4)).astype("float32")
    filters = rng.uniform(-2, 2, (3, 2, 2, 2, 6)).astype("float32")

    def f(x, filter):
        return plugrad.conv2d(x, filter, 2, 1, dilations=2, groups=2)

    together = plugrad.vmap(f)(plugrad.asarray(x), plugrad.asarray(filters)).numpy()
    alone = np.stack([f(a, b).numpy() for a, b in zip(x, filters, strict=True)])
    np.testing.assert_allclose(together, alone, rtol=1e-5, atol=1e-5)


def conv(groups, filter=(2, 2, 2, 4), **attrs):
    return plugrad.conv2d(plugrad.ones((1, 4, 4, 4)), plugrad.ones(filter), groups=groups, **attrs)


def transposed(filter=(2, 2, 1, 4), **attrs):
    return plugrad.conv2d_transpose(plugrad.ones((1, 3, 3, 4)), plugrad.ones(filter), **attrs)


REFUSALS = [
    Refusal(lambda: conv(3), ArgumentValueError, ["conv2d: groups=3", "4 channels", "divide"]),
    Refusal(lambda: conv(0), ArgumentValueError, ["conv2d: groups=0", "at least 1"]),
    Refusal(lambda: conv(2.5), ArgumentError, ["groups=2.5", "integer"]),
    Refusal(lambda: conv(2, (2, 2, 2, 3)), ArgumentValueError, ["groups=2", "the 3 channels"]),
    Refusal(lambda: conv(2, (2, 2, 4, 4)), ShapeError, ["have 4 channels", "2 groups expect 8"]),
    Refusal(lambda: conv(4, (5, 5, 1, 4)), ShapeError, ["conv2d", "does not fit"]),
    Refusal(
        lambda: plugrad.conv1d(plugrad.ones((1, 4, 4)), plugrad.ones((2, 1, 4)), groups=2),
        ShapeError,
        ["conv1d: x of shape (1, 4, 4)", "have 4 channels", "2 groups expect 2"],
    ),
    Refusal(
        lambda: transposed(output_padding=1),
        ArgumentValueError,
        ["output_padding=(1, 1)", "less than the stride"],
    ),
    Refusal(lambda: transposed(output_padding=-1), ArgumentValueError, ["output_padding=-1"]),
    Refusal(
        lambda: transposed(output_shape=(1, 4, 4, 1), output_padding=1),
        ArgumentValueError,
        ["output_padding=1", "output_shape=(1, 4, 4, 1)", "one of them"],
    ),
    Refusal(
        lambda: transposed(strides=2, padding="same", output_padding=1),
        ArgumentValueError,
        ["padding='same'", "output_padding=(1, 1)", "cells"],
    ),
    Refusal(lambda: transposed(padding=2), ShapeError, ["padding=((2, 2), (2, 2))", "nothing"]),
    Refusal(lambda: transposed((2, 2, 1, 2)), ShapeError, ["4"]),
    Refusal(lambda: transposed((2, 2, 1, 2), groups=2), ShapeError, ["4 channels", "expect 2"]),
    Refusal(
        lambda: transposed((2, 2, 2, 4), groups=2, output_shape=(1, 4, 4, 3)),
        ShapeError,
        ["(1, 4, 4, 3)", "3 channels", "2 groups give 4"],
    ),
    Refusal(
        lambda: transposed((2, 2, 1, 4), groups=4, output_shape=(1, 4, 4, 3)),
        ShapeError,
        ["(1, 4, 4, 3)", "3 channels"],
    ),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_refusals(refusal, backend):
    refusal.check()
