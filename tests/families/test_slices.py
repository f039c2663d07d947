"""Slices and strided slices with TensorFlow's arguments, compared with Python's slices."""

import numpy as np
import pytest

import plugrad
from families.case import REAL_AND_BOOL_DTYPES, Case, ErrorCase
from families.domains import uniform
from plugrad.errors import ArgumentValueError, ShapeError, TensorIndexError


def make_case(op, reference, name="", **attrs):
    return Case(
        op, reference, [uniform(-3, 3)], [(3, 4, 5)], attrs, REAL_AND_BOOL_DTYPES, name=name
    )


CASES = [
    *(
        make_case(
            plugrad.slice, lambda x, begin, size=None, part=part: x[part], begin=begin, size=size
        )
        for begin, size, part in [
            ((1, 0, 2), (2, 4, 1), np.s_[1:, :, 2:3]),
            ((1, 0, 2), (-1, 2, -1), np.s_[1:, :2, 2:]),
            (1, None, np.s_[1:]),
            ((0, 3), 2, np.s_[:2, 3:]),
            ((3, 1), None, np.s_[3:, 1:]),
        ]
    ),
    *(
        make_case(
            plugrad.strided_slice,
            lambda x, part=part, **_: x[part],
            name=f"strided_slice {part}",
            **dict(zip(("begin", "end", "strides"), numbers, strict=False)),
            **masks,
        )
        for numbers, masks, part in [
            (([1, 0], [3, 4]), {}, np.s_[1:3, :4]),
            (([-1, -1, 4], [-9, 0, 0], [-1, -2, -3]), {}, np.s_[::-1, -1:0:-2, 4:0:-3]),
            (([1, 1], [2, 2], [1, 1]), {"begin_mask": 1, "end_mask": 2}, np.s_[:2, 1:]),
            (([2, 0, 1], [3, 0, 2]), {"ellipsis_mask": 2}, np.s_[2:3, ..., 1:2]),
            (([0, 1, 0], [0, 2, 3]), {"new_axis_mask": 5}, np.s_[None, 1:2, None]),
            (([1, -1], [9, 9]), {"shrink_axis_mask": 3}, np.s_[1, -1]),
            (
                ([1, 0, 2], [2, 0, 3]),
                {"ellipsis_mask": 2, "new_axis_mask": 3, "shrink_axis_mask": 7},
                np.s_[None, ..., 2],
            ),
        ]
    ),
]


@pytest.mark.rows("case", CASES, ids=str)
def test_values(case, backend, rng):
    case.check_values(rng)


@pytest.mark.rows("case", CASES, ids=str)
def test_values_of_other_dtypes(case, backend, rng):
    case.check_values_of_other_dtypes(rng)


@pytest.mark.rows("case", CASES, ids=str)
def test_values_of_views(case, backend, rng):
    case.check_values_of_views(rng)


@pytest.mark.rows("case", CASES, ids=str)
def test_gradient(case, backend, rng):
    case.check_gradient(rng, backend)


def test_empty_tensors(backend):
    assert plugrad.slice(plugrad.zeros((0, 3)), (0, 1)).shape == (0, 2)
    assert plugrad.slice(plugrad.asarray(2.5), ()).tolist() == 2.5
    assert plugrad.strided_slice(plugrad.zeros((0, 3)), [0], [5], [2]).shape == (0, 3)


def test_shape_that_is_ensured(backend):
    x = plugrad.zeros((2, 3))
    assert plugrad.ensure_shape(x, (None, 3)).array is x.array


def zeros(*shape):
    return plugrad.zeros(shape)


ERROR_CASES = [
    ErrorCase(lambda: plugrad.ensure_shape(zeros(2, 3), (5, 3)), ShapeError, ["(2, 3)", "(5, 3)"]),
    ErrorCase(
        lambda: plugrad.ensure_shape(zeros(2, 3), (None,)), ShapeError, ["(2, 3)", "(None,)"]
    ),
    ErrorCase(lambda: plugrad.slice(zeros(2, 2), (-1, 1), (1, 1)), ShapeError, ["begin=(-1, 1)"]),
    ErrorCase(lambda: plugrad.slice(zeros(2, 2), (0, 1), (2, 2)), ShapeError, ["size=(2, 2)"]),
    ErrorCase(lambda: plugrad.slice(zeros(2), (0, 1)), ShapeError, ["slice", "(0, 1)", "(2,)"]),
    ErrorCase(
        lambda: plugrad.strided_slice(zeros(2), [0], [1], [0]),
        ArgumentValueError,
        ["strided_slice", "strides=[0]"],
    ),
    ErrorCase(
        lambda: plugrad.strided_slice(zeros(2), [0, 1], [1]), ArgumentValueError, ["one length"]
    ),
    ErrorCase(
        lambda: plugrad.strided_slice(zeros(2), [0], [1], [-1], shrink_axis_mask=1),
        ArgumentValueError,
        ["strides[0]=-1", "positive"],
    ),
    ErrorCase(
        lambda: plugrad.strided_slice(zeros(2), [2], [3], shrink_axis_mask=1),
        TensorIndexError,
        ["2", "out of range"],
    ),
    ErrorCase(
        lambda: plugrad.strided_slice(zeros(2), [0, 0], [1, 1], ellipsis_mask=3),
        TensorIndexError,
        ["ellipsis"],
    ),
    ErrorCase(
        lambda: plugrad.strided_slice(zeros(2), [0, 0], [1, 1]), TensorIndexError, ["2 ind", "(2,)"]
    ),
]


@pytest.mark.rows("error_case", ERROR_CASES, ids=str)
def test_bad_input(error_case, backend):
    error_case.check()
