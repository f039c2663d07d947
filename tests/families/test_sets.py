"""Set functions: unique elements, membership and differences."""

import numpy as np
import pytest

import plugrad
from families.case import REAL_AND_BOOL_DTYPES, Case, ErrorCase
from families.domains import distinct, uniform
from plugrad.errors import DTypeError, ShapeError

UNIQUE_ALL_FIELDS = ("values", "indices", "inverse_indices", "counts")


def unique_all_field(name):
    """Return an op that returns one field of `unique_all`, and the reference."""

    def op(x):
        return getattr(plugrad.unique_all(x), name)

    def reference(x):
        found = dict(
            zip(UNIQUE_ALL_FIELDS, np.unique(x, True, True, True, equal_nan=False), strict=True)
        )
        return found[name].reshape(x.shape) if name == "inverse_indices" else found[name]

    op.__name__ = name
    return op, reference


SHAPES = [(9,), (4, 5), (2, 3, 4), (), (1,), (0,), (3, 0)]
UNIQUE_ALL_CASES = [
    Case(
        *(
            *unique_all_field(name),
            [uniform(-3, 3)],
            [shape],
            {},
            (*REAL_AND_BOOL_DTYPES, "complex64"),
        ),
        *(("" if name == "values" else "int32"),),
    )
    for name in UNIQUE_ALL_FIELDS
    for shape in SHAPES
]
ISIN_CASES = [
    Case(
        *(plugrad.isin, np.isin, [uniform(-4, 4), uniform(-2, 6)], shapes, {"invert": invert}),
        *((*REAL_AND_BOOL_DTYPES, "complex64"), "bool"),
    )
    for shapes in [
        ((9,), (4,)),
        ((2, 5), (3, 2)),
        ((), (4,)),
        ((3,), ()),
        ((0,), (3,)),
        ((3,), (0,)),
    ]
    for invert in (False, True)
]
DIFFERENCE_CASES = [
    Case(op, reference, [uniform(-4, 4), uniform(-2, 6)], shapes, {}, REAL_AND_BOOL_DTYPES, result)
    for op, reference, result in [
        (lambda x, y: plugrad.setdiff1d(x, y).values, lambda x, y: x[~np.isin(x, y)], ""),
        (
            lambda x, y: plugrad.setdiff1d(x, y).indices,
            lambda x, y: np.flatnonzero(~np.isin(x, y)),
            "int32",
        ),
    ]
    for shapes in [((9,), (4,)), ((5,), (0,)), ((0,), (3,))]
]
CASES = [*UNIQUE_ALL_CASES, *ISIN_CASES, *DIFFERENCE_CASES]


def case_id(case):
    return f"{case} {' '.join(map(str, case.shapes))}".replace(", ", ",")


@pytest.mark.rows("case", CASES, ids=case_id)
def test_values(case, backend, rng):
    case.check_values(rng)
    case.check_values_of_other_dtypes(rng)


@pytest.mark.rows(
    "case",
    [UNIQUE_ALL_CASES[1], UNIQUE_ALL_CASES[15], ISIN_CASES[2], DIFFERENCE_CASES[0]],
    ids=case_id,
)
def test_values_of_views(case, backend, rng):
    case.check_values_of_views(rng)


def test_fields_of_unique_results(backend):
    x = [[3.0, 1.0], [3.0, 2.0]]
    found = plugrad.unique_all(x)
    assert found._fields == UNIQUE_ALL_FIELDS
    assert plugrad.unique_counts(x)._fields == ("values", "counts")
    assert plugrad.unique_inverse(x)._fields == ("values", "inverse_indices")
    assert plugrad.unique_counts(x).counts.tolist() == found.counts.tolist() == [1, 1, 2]
    assert plugrad.unique_inverse(x).inverse_indices.tolist() == [[2, 0], [2, 1]]
    assert plugrad.unique_values(x).tolist() == [1, 2, 3]


def test_nan_differs_from_itself_and_zeros_do_not(backend):
    x = plugrad.asarray([np.nan, -0.0, np.nan, 0.0, np.inf, -np.inf])
    found = plugrad.unique_all(x)
    expected = np.array([-np.inf, 0, np.inf, np.nan, np.nan], "float32")
    np.testing.assert_array_equal(found.values, expected)
    assert found.counts.tolist() == [1, 2, 1, 1, 1]
    assert found.inverse_indices.tolist() == [3, 1, 4, 1, 2, 0]
    assert plugrad.isin(x, [np.nan, 0.0]).tolist() == [False, True, False, True, False, False]
    assert plugrad.setdiff1d(x, [np.nan, 0.0]).indices.tolist() == [0, 2, 4, 5]


def test_members_of_another_dtype(backend):
    assert plugrad.isin(plugrad.asarray([1, 2]), [2.0, 3.5]).tolist() == [False, True]
    assert plugrad.isin(plugrad.asarray([1.0, 2.0]), 2).tolist() == [False, True]
    left = plugrad.setdiff1d(plugrad.asarray([1, 2]), [2.0, 3.5])
    assert (left.values.tolist(), left.values.dtype) == ([1], "int32")


def test_gradient_goes_to_the_first_of_equal_elements(backend, rng):
    x = plugrad.asarray([3.0, 1.0, 3.0])
    weights = plugrad.asarray([1.0, 2.0])
    dx = plugrad.grad(lambda x: plugrad.sum(weights * plugrad.unique_values(x)))(x)
    assert dx.tolist() == [2, 1, 0]
    Case(plugrad.unique_values, None, [distinct()], [(3, 4)]).check_gradient(rng, backend)


ERROR_CASES = [
    ErrorCase(lambda: plugrad.setdiff1d([[1]], [1]), ShapeError, ["setdiff1d", "x", "(1, 1)"]),
    ErrorCase(
        lambda: plugrad.setdiff1d([1], 1), ShapeError, ["setdiff1d", "y", "()", "reshape(-1)"]
    ),
]


@pytest.mark.rows("error_case", ERROR_CASES, ids=str)
def test_bad_input(error_case, backend):
    error_case.check()


# Only the cpu stores these dtypes on every machine.
DTYPE_ERROR_CASES = [
    ErrorCase(lambda: plugrad.unique_all(["a"]), DTypeError, ["unique_all", "string"]),
    ErrorCase(lambda: plugrad.isin(["a"], [1]), DTypeError, ["string", "int32"]),
]


@pytest.mark.rows("error_case", DTYPE_ERROR_CASES, ids=str)
def test_unsupported_dtypes_are_rejected(error_case):
    with plugrad.use("cpu"):
        error_case.check()
