"""The activations, element by element."""

import numpy as np
import pytest

import plugrad
from families.case import Case, Refusal, from_table
from families.domains import uniform
from plugrad.errors import ArgumentError, DTypeError, ShapeError
from plugrad.kernels import activation

any_number = uniform(-3, 3)
EXTRAS = [
    Case(plugrad.log_sigmoid, lambda x: -np.logaddexp(-x, 0), [any_number]),
    Case(
        plugrad.leaky_relu,
        lambda x: np.where(x > 0, x, 0.2 * x),
        [uniform(-3, 3, avoid=(0,))],
        name="leaky_relu without alpha",
    ),
]
CASES = [*from_table("activation"), *EXTRAS]
OF_ONE = [case for case in CASES if len(case.domains) == 1]
OF_TWO = [case for case in CASES if len(case.domains) == 2]
SHAPES = [[(3, 5)], [(7,)], [()], [(1, 1)], [(0,)], [(2, 0, 3)], [(70_001,)]]
SPECIALS = np.array([np.nan, np.inf, -np.inf, 0.0, 1.0, -1.0, 2.5, -2.5, 6.0], "float32")
EXTREMES = np.array([-200, -100, -89, -60, -30, -15, 15, 30, 60, 89, 100, 200], "float32")
TINY = np.array([-1e-2, -3e-4, -1e-5, -1e-8, 1e-8, 1e-5, 3e-4, 1e-2], "float32")
BROADCAST = [
    ((3, 5), (3, 5)),
    ((3, 5), (5,)),
    ((5,), (3, 5)),
    ((3, 1), (1, 5)),
    ((2, 3, 4, 5), (3, 1, 5)),
    ((), (3, 5)),
    ((), ()),
    ((0, 5), (5,)),
]


@pytest.mark.parametrize("case", OF_ONE, ids=str)
def test_values(case, backend, rng):
    for shaped in case.in_shapes(*SHAPES):
        shaped.check_values(rng)


@pytest.mark.parametrize("case", OF_TWO, ids=str)
def test_values_with_broadcasting(case, backend, rng):
    for shaped in case.in_shapes(*BROADCAST):
        shaped.check_values(rng)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_values_of_other_dtypes(case, backend, rng):
    case.check_values_of_other_dtypes(rng)


@pytest.mark.parametrize("case", [c for c in OF_ONE if c.wants_floats], ids=str)
def test_whole_numbers_become_float32(case, backend):
    whole = np.array([0, 1, 2, 3], "int32")
    result = case.op(plugrad.asarray(whole), **case.attrs)
    case.compare(result, case.reference(whole.astype("float64"), **case.attrs), "float32")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_values_of_views(case, backend, rng):
    case.check_values_of_views(rng)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_special_values(case, backend):
    case.check_special_values(SPECIALS)


@pytest.mark.parametrize("case", OF_ONE, ids=str)
def test_large_arguments(case, backend):
    case.check_values_of([EXTREMES])


@pytest.mark.parametrize("case", OF_ONE, ids=str)
def test_small_arguments(case, backend):
    result = case.op(plugrad.asarray(TINY), **case.attrs).numpy()
    expected = case.reference(TINY.astype("float64"), **case.attrs)
    np.testing.assert_allclose(result, expected, rtol=2e-6)


@pytest.mark.parametrize("case", [c for c in OF_ONE if "complex64" not in c.dtypes], ids=str)
def test_complex_numbers_are_refused(case, rng):
    """Only the cpu has them, and only the logistic function has a meaning for them."""
    with plugrad.use("cpu"):
        x = plugrad.asarray(any_number.draw(rng, (3, 5), "complex64"))
        with pytest.raises(DTypeError, match="complex64"):
            case.op(x, **case.attrs)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_gradient(case, backend, rng):
    case.check_gradient(rng, backend)


@pytest.mark.parametrize("shapes", [((2, 3), (3,)), ((2, 1), (1, 3)), ((), (2, 3))], ids=str)
@pytest.mark.parametrize("case", OF_TWO, ids=str)
def test_gradient_under_broadcasting(case, shapes, backend, rng):
    case.with_shapes(*shapes).check_gradient(rng, backend)


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        (plugrad.relu, 0),
        (plugrad.relu6, 0),
        (plugrad.leaky_relu, 0.2),
        (plugrad.softplus, 0.5),
        (plugrad.sigmoid, 0.25),
        (plugrad.log_sigmoid, 0.5),
    ],
)
def test_gradient_at_0(op, expected, backend):
    assert plugrad.grad(op)(plugrad.asarray(0.0)).item() == pytest.approx(expected)


def test_sigmoid_far_below_0_keeps_its_digits(backend):
    x = np.array([-8, -20, -50, -80], "float32")
    np.testing.assert_allclose(plugrad.sigmoid(x).numpy(), np.exp(-np.logaddexp(0, -x)), rtol=1e-5)


def test_gradient_of_relu6_at_6(backend):
    assert plugrad.grad(plugrad.relu6)(plugrad.asarray(6.0)).item() == 0


REFUSALS = [
    Refusal(lambda: plugrad.relu([True]), DTypeError, ["relu", "bool", "float32", "astype"]),
    Refusal(lambda: plugrad.relu(None), ArgumentError, ["relu", "NoneType", "tensor"]),
    Refusal(
        lambda: plugrad.prelu(plugrad.zeros((2, 3)), plugrad.zeros((4,))),
        ShapeError,
        ["(2, 3)", "(4,)", "do not broadcast"],
    ),
    Refusal(
        lambda: activation.elu_gradient.infer(plugrad.asarray([1]), plugrad.asarray([1])),
        DTypeError,
        ["EluGrad", "int32", "astype"],
    ),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_bad_input(refusal, backend):
    refusal.check()
