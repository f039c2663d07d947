"""Elements scaled to a common measure along an axis."""

import numpy as np
import pytest
from scipy import special

import plugrad
from families.case import VIEWS, Case, Refusal
from families.domains import uniform, whole
from plugrad.errors import AxisError, DTypeError
from plugrad.kernels import normalization

PAIRS = [
    (plugrad.softmax, special.softmax),
    (plugrad.log_softmax, special.log_softmax),
]
CASES = [
    Case(op, reference, [uniform(-3, 3)], [shape], {"axis": axis})
    for op, reference in PAIRS
    for shape in [(3, 5), (2, 3, 7)]
    for axis in (-1, 0, 1)
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case} {case.shapes[0]}")
def test_values(case, backend, rng):
    case.check_values(rng)


@pytest.mark.parametrize("shape", [(1,), (5,), (67,), (3, 1), (1, 300), (4, 5, 1, 3)], ids=str)
@pytest.mark.parametrize(("op", "reference"), PAIRS)
def test_values_of_other_shapes(op, reference, shape, backend, rng):
    case = Case(op, lambda x: reference(x, axis=-1), [uniform(-3, 3)], [shape])
    case.check_values(rng)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_values_of_other_dtypes(case, backend, rng):
    case.check_values_of_other_dtypes(rng)


@pytest.mark.parametrize(("op", "reference"), PAIRS)
def test_whole_numbers_become_float32(op, reference, backend, rng):
    case = Case(op, lambda x: reference(x, axis=-1), [whole(-3, 3)], result="float32")
    case.check_values(rng)


@pytest.mark.parametrize("layout", VIEWS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case} {case.shapes[0]}")
def test_values_of_views(case, layout, backend, rng):
    case.check_values(rng, layout=layout)


@pytest.mark.parametrize("shape", [(66_001,), (263, 251), (2, 129, 257)], ids=str)
@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize(("op", "reference"), PAIRS)
def test_many_elements(op, reference, axis, shape, backend, rng):
    Case(op, reference, [uniform(-3, 3)], [shape], {"axis": axis}).check_values(rng)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(("op", "reference"), PAIRS)
def test_large_numbers_do_not_overflow(op, reference, axis, backend):
    x = np.array([[1000, 1001, -1000], [3e38, -3e38, 0], [-1e30, -1e30, -1e30]], "float32")
    with np.errstate(over="ignore"):
        Case(op, reference, [], attrs={"axis": axis}).check_values_of([x])


@pytest.mark.parametrize(("op", "reference"), PAIRS)
def test_special_values(op, reference, backend):
    x = np.array([[0, 1, -np.inf], [np.nan, 1, 2]], "float32")
    Case(op, lambda x: reference(x, axis=1), []).check_values_of([x])


@pytest.mark.parametrize("op", [plugrad.softmax, plugrad.log_softmax])
def test_infinity_leaves_nothing_to_compare_with(op, backend):
    with np.errstate(invalid="ignore"):
        y = op(plugrad.asarray([[np.inf, 1, 2], [-np.inf, -np.inf, -np.inf], [0, 0, 0]]))
    assert np.isnan(y.numpy()).tolist() == [[True] * 3, [True] * 3, [False] * 3]


@pytest.mark.parametrize(("op", "reference"), PAIRS)
def test_nothing(op, reference, backend):
    for shape in [(0, 3), (3, 0)]:
        y = op(plugrad.zeros(shape))
        assert (y.shape, y.dtype) == (shape, "float32")


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case} {case.shapes[0]}")
def test_gradient(case, backend, rng):
    case.check_gradient(rng, backend)


REFUSALS = [
    Refusal(lambda: plugrad.softmax([1.0], axis=1), AxisError, ["axis=1", "rank 1", "-1 to 0"]),
    Refusal(lambda: plugrad.log_softmax(1.0), AxisError, ["axis=-1", "0-d"]),
    Refusal(
        lambda: normalization.softmax(plugrad.asarray([1]), dim=0),
        DTypeError,
        ["Softmax", "int32", "float32", "astype"],
    ),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_bad_input(refusal, backend):
    refusal.check()
