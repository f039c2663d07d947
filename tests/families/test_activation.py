"""The activations, element by element."""

import numpy as np
import pytest

import plugrad
from families.case import REALS, VIEWS, Case, Refusal, rows
from families.domains import uniform
from plugrad.errors import ArgumentError, DTypeError, ShapeError
from plugrad.kernels import activation

SELU_SCALE, SELU_ALPHA = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717


def np_elu(x):
    return np.where(x > 0, x, np.expm1(x))


def np_selu(x):
    return SELU_SCALE * np.where(x > 0, x, SELU_ALPHA * np.expm1(x))


def np_leaky_relu(x, alpha=0.2):
    return np.where(x > 0, x, alpha * x)


def np_sigmoid(x):
    return 1 / (1 + np.exp(-x))


def np_softplus(x):
    return np.logaddexp(x, 0)


def np_log_sigmoid(x):
    return -np.logaddexp(-x, 0)


def np_elu_gradient(dy, y):
    return np.where(y >= 0, dy, dy * (y + 1))


any_number = uniform(-3, 3)
away_from_0 = uniform(-3, 3, avoid=(0,))

UNARY = [
    Case(plugrad.sigmoid, np_sigmoid, [any_number]),
    Case(plugrad.softplus, np_softplus, [any_number]),
    Case(plugrad.log_sigmoid, np_log_sigmoid, [any_number]),
    Case(plugrad.relu, lambda x: np.maximum(x, 0), [away_from_0], dtypes=REALS),
    Case(plugrad.relu6, lambda x: np.clip(x, 0, 6), [uniform(-3, 9, avoid=(0, 6))], dtypes=REALS),
    Case(plugrad.elu, np_elu, [away_from_0]),
    Case(plugrad.selu, np_selu, [away_from_0]),
    Case(plugrad.leaky_relu, np_leaky_relu, [away_from_0]),
    Case(plugrad.leaky_relu, np_leaky_relu, [away_from_0], attrs={"alpha": 0.5}),
]
BINARY = [
    Case(plugrad.prelu, np_leaky_relu, [away_from_0, any_number]),
    Case(activation.elu_gradient, np_elu_gradient, [any_number, uniform(-0.9, 3, avoid=(0,))]),
]
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


@pytest.mark.parametrize("case", UNARY, ids=str)
def test_values(case, backend, rng):
    for shape in [(3, 5), (7,), (), (1, 1), (0,), (2, 0, 3), (70_001,)]:
        case.with_shapes(shape).check_values(rng)


@pytest.mark.parametrize("case", BINARY, ids=str)
def test_values_with_broadcasting(case, backend, rng):
    for shapes in BROADCAST:
        case.with_shapes(*shapes).check_values(rng)


@pytest.mark.parametrize("case", [*UNARY, *BINARY], ids=str)
def test_values_of_other_dtypes(case, backend, rng):
    case.check_values_of_other_dtypes(rng)


@pytest.mark.parametrize("case", [c for c in UNARY if c.dtypes != REALS], ids=str)
def test_whole_numbers_become_float32(case, backend):
    whole = np.array([0, 1, 2, 3], "int32")
    result = case.op(plugrad.asarray(whole), **case.attrs)
    case.compare(result, case.reference(whole.astype("float64"), **case.attrs), "float32")


@pytest.mark.parametrize("layout", VIEWS)
@pytest.mark.parametrize("case", [*UNARY, *BINARY], ids=str)
def test_values_of_views(case, layout, backend, rng):
    case.check_values(rng, layout=layout)


@pytest.mark.parametrize("case", UNARY, ids=str)
def test_special_values(case, backend):
    case.check_values_of([SPECIALS])


@pytest.mark.parametrize("case", BINARY, ids=str)
def test_special_values_of_two(case, backend):
    case.check_values_of([SPECIALS[:, None], SPECIALS])


@pytest.mark.parametrize("case", UNARY, ids=str)
def test_large_arguments(case, backend):
    case.check_values_of([EXTREMES])


@pytest.mark.parametrize("case", UNARY, ids=str)
def test_small_arguments(case, backend):
    result = case.op(plugrad.asarray(TINY), **case.attrs).numpy()
    expected = case.reference(TINY.astype("float64"), **case.attrs)
    np.testing.assert_allclose(result, expected, rtol=2e-6)


@pytest.mark.parametrize("case", rows(UNARY, "float64"), ids=str)
def test_complex_numbers(case, rng):
    """Only the cpu has them, and only the logistic function has a meaning for them."""
    with plugrad.use("cpu"):
        x = plugrad.asarray(any_number.draw(rng, (3, 5), "complex64"))
        if case.op is plugrad.sigmoid:
            expected = np_sigmoid(x.numpy().astype("complex128"))
            case.compare(plugrad.sigmoid(x), expected, "complex64")
            return
        with pytest.raises(DTypeError, match="complex64"):
            case.op(x, **case.attrs)


@pytest.mark.parametrize("case", [*UNARY, *BINARY], ids=str)
def test_gradient(case, backend, rng):
    case.check_gradient(rng, backend)


@pytest.mark.parametrize("shapes", [((2, 3), (3,)), ((2, 1), (1, 3)), ((), (2, 3))], ids=str)
@pytest.mark.parametrize("case", BINARY, ids=str)
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
