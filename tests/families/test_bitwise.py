"""Bitwise functions of integers and bools."""

import operator

import numpy as np
import pytest

import plugrad
from families.case import Case, ErrorCase, conformance_cases
from families.domains import bools, uniform
from plugrad.errors import DTypeError, ShapeError

BIT_WIDTHS = {"int8": 8, "uint8": 8, "int32": 32, "uint32": 32, "int64": 64}
CASES = conformance_cases("bitwise")
SHAPES = {
    1: [[(3, 5)], [(7,)], [()], [(2, 0, 3)], [(70_001,)]],
    2: [
        [(3, 5), (3, 5)],
        [(3, 5), (5,)],
        [(5,), (3, 5)],
        [(3, 1), (1, 5)],
        [(2, 3, 4, 5), (3, 1, 5)],
        [(), (3, 5)],
        [(), ()],
        [(0, 5), (5,)],
        [(70_001,), (70_001,)],
    ],
}


@pytest.mark.rows("case", CASES, ids=str)
def test_values(case, backend, rng):
    for shaped in case.expand_shapes(*SHAPES[len(case.domains)]):
        shaped.check_values(rng, "int32")


@pytest.mark.rows("case", CASES, ids=str)
def test_values_of_other_dtypes(case, backend, rng):
    case.check_values_of_other_dtypes(rng)


@pytest.mark.rows("case", CASES, ids=str)
def test_values_of_views(case, backend, rng):
    case.check_values_of_views(rng, "int32")


@pytest.mark.parametrize("dtype", BIT_WIDTHS)
def test_extreme_numbers(dtype, backend):
    if dtype not in plugrad.which().backend.dtypes():
        pytest.skip(f"{backend} has no {dtype}")
    info = np.iinfo(dtype)
    x = np.array([info.min, info.max, 0, 1, info.max - 1], dtype)
    for case in CASES:
        if "bool" in case.dtypes:  # it does not shift
            case.check_values_of_arrays([x, x[::-1].copy()][: len(case.domains)], dtype)


@pytest.mark.parametrize("dtype", BIT_WIDTHS)
def test_shifts_by_all_the_bits_and_more(dtype, backend):
    """The result is 0, or the sign for a right shift; in C and WGSL such shifts are undefined."""
    if dtype not in plugrad.which().backend.dtypes():
        pytest.skip(f"{backend} has no {dtype}")
    width, info = BIT_WIDTHS[dtype], np.iinfo(dtype)
    x = plugrad.asarray(np.array([info.min, info.max, 1, 77], dtype))
    for count in (width, width + 1, 2 * width - 1, 2 * width, 127):
        counts = plugrad.asarray(np.array([count] * 4, dtype))
        assert plugrad.bitwise_left_shift(x, counts).tolist() == [0] * 4
        assert plugrad.bitwise_right_shift(x, counts).tolist() == [-(info.min < 0), 0, 0, 0]
    for count in (width - 2, width - 1):
        arrays = [x.numpy(), np.array([count] * 4, dtype)]
        for case in CASES:
            if "bool" not in case.dtypes:
                case.check_values_of_arrays(arrays, dtype)


def test_a_negative_count_does_not_trap(backend):
    """The result of such a shift is undefined."""
    counts = plugrad.asarray([-1, -32, -(2**31)])
    for op in (plugrad.bitwise_left_shift, plugrad.bitwise_right_shift):
        assert op(plugrad.asarray([1, -5, 7]), counts).shape == (3,)


BITWISE_OPERATORS = [operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift]


@pytest.mark.parametrize("symbol", BITWISE_OPERATORS)
def test_operators(symbol, backend, rng):
    case = Case(symbol, symbol, [uniform(0, 100), uniform(0, 7)], dtypes=("int32",))
    case.check_values(rng, "int32")
    x = plugrad.asarray([1, 6, 12])
    assert symbol(x, 3).tolist() == [symbol(n, 3) for n in (1, 6, 12)]
    assert symbol(3, x).tolist() == [symbol(3, n) for n in (1, 6, 12)]
    assert symbol(x, 3).dtype == "int32"


@pytest.mark.parametrize("symbol", BITWISE_OPERATORS[:3])
def test_operators_of_bools(symbol, backend, rng):
    Case(symbol, symbol, [bools(), bools()], dtypes=("bool",)).check_values(rng, "bool")
    assert symbol(True, plugrad.asarray([True, False])).dtype == "bool"


def test_inversion_operator(backend):
    assert (~plugrad.asarray([0, 5, -1])).tolist() == [-1, -6, 0]
    assert (~plugrad.asarray([True, False])).tolist() == [False, True]


def test_dtypes_are_promoted(backend):
    result = plugrad.asarray([True, False]) | plugrad.asarray([2, 4])
    assert (result.dtype, result.tolist()) == ("int32", [3, 4])


def test_whole_numbers_have_no_gradients(backend):
    x = plugrad.asarray([1.5, 2.5])
    gradient = plugrad.grad(lambda x: plugrad.sum(x * (x.astype("int32") & 1)))(x)
    assert gradient.tolist() == [1, 0]


ERROR_CASES = [
    ErrorCase(
        lambda: plugrad.bitwise_and([1.0], [2]), DTypeError, ["bitwise_and", "float32", "int32"]
    ),
    ErrorCase(lambda: plugrad.bitwise_invert(1.5), DTypeError, ["bitwise_invert", "float32"]),
    ErrorCase(
        lambda: plugrad.bitwise_left_shift([True], [True]),
        DTypeError,
        ["bitwise_left_shift", "bool", "int32", "astype"],
    ),
    ErrorCase(lambda: plugrad.asarray([1.0]) >> 1, DTypeError, ["bitwise_right_shift", "float32"]),
    ErrorCase(
        lambda: plugrad.bitwise_xor([1, 2, 3], [1, 2]),
        ShapeError,
        ["(3,)", "(2,)", "do not broadcast"],
    ),
]


@pytest.mark.rows("error_case", ERROR_CASES, ids=str)
def test_bad_input(error_case, backend):
    error_case.check()
