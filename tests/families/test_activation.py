"""The activations, element by element."""

import numpy as np
import pytest
from scipy.special import expit

import plugrad
from families.case import Case, ErrorCase, conformance_cases
from families.domains import uniform
from plugrad.errors import ArgumentError, ArgumentValueError, AxisError, DTypeError, ShapeError
from plugrad.kernels import activation
from plugrad.testing import check_gradient

any_number = uniform(-3, 3)
EXTRA_CASES = [
    Case(plugrad.log_sigmoid, lambda x: -np.logaddexp(-x, 0), [any_number]),
    Case(
        plugrad.leaky_relu,
        lambda x: np.where(x > 0, x, 0.2 * x),
        [uniform(-3, 3, avoid=(0,))],
        name="leaky_relu without alpha",
    ),
    Case(plugrad.silu, lambda x: np.maximum(x, -1e4) * expit(x), [any_number]),
    Case(plugrad.mish, lambda x: np.maximum(x, -1e4) * np.tanh(np.logaddexp(0, x)), [any_number]),
    Case(plugrad.softsign, lambda x: np.sign(x) - np.sign(x) / (1 + np.abs(x)), [any_number]),
    Case(
        plugrad.celu,
        lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(x / alpha)),
        [any_number],
        attrs={"alpha": 1.5},
    ),
    Case(
        plugrad.hard_sigmoid,
        lambda x: np.clip(x + 3, 0, 6) / 6,
        [uniform(-5, 5, avoid=(-3, 3))],
    ),
    Case(
        plugrad.hard_silu,
        lambda x: np.maximum(x, -1e4) * np.clip(x + 3, 0, 6) / 6,
        [uniform(-5, 5, avoid=(-3, 3))],
    ),
    Case(plugrad.hard_tanh, lambda x: np.clip(x, -1, 1), [uniform(-3, 3, avoid=(-1, 1))]),
    Case(
        plugrad.hard_shrink,
        lambda x, threshold: np.where(np.abs(x) <= threshold, 0, x),
        [uniform(-3, 3, avoid=(-1, 1))],
        attrs={"threshold": 1.0},
    ),
    Case(
        plugrad.soft_shrink,
        lambda x, threshold: np.where(np.abs(x) <= threshold, 0, x - threshold * np.sign(x)),
        [uniform(-3, 3, avoid=(-1, 1))],
        attrs={"threshold": 1.0},
    ),
]
CASES = [*conformance_cases("activation"), *EXTRA_CASES]
UNARY_CASES = [case for case in CASES if len(case.domains) == 1]
BINARY_CASES = [case for case in CASES if len(case.domains) == 2]
SHAPES = [[(3, 5)], [(7,)], [()], [(1, 1)], [(0,)], [(2, 0, 3)], [(70_001,)]]
SPECIAL_VALUES = np.array([np.nan, np.inf, -np.inf, 0.0, 1.0, -1.0, 2.5, -2.5, 6.0], "float32")
LARGE_VALUES = np.array([-200, -100, -89, -60, -30, -15, 15, 30, 60, 89, 100, 200], "float32")
SMALL_VALUES = np.array([-1e-2, -3e-4, -1e-5, -1e-8, 1e-8, 1e-5, 3e-4, 1e-2], "float32")
BROADCAST_SHAPES = [
    ((3, 5), (3, 5)),
    ((3, 5), (5,)),
    ((5,), (3, 5)),
    ((3, 1), (1, 5)),
    ((2, 3, 4, 5), (3, 1, 5)),
    ((), (3, 5)),
    ((), ()),
    ((0, 5), (5,)),
]


@pytest.mark.rows("case", UNARY_CASES, ids=str)
def test_values(case, backend, rng):
    for shaped in case.expand_shapes(*SHAPES):
        shaped.check_values(rng)


@pytest.mark.rows("case", BINARY_CASES, ids=str)
def test_values_with_broadcasting(case, backend, rng):
    for shaped in case.expand_shapes(*BROADCAST_SHAPES):
        shaped.check_values(rng)


@pytest.mark.rows("case", CASES, ids=str)
def test_values_of_other_dtypes(case, backend, rng):
    case.check_values_of_other_dtypes(rng)


@pytest.mark.rows("case", [c for c in UNARY_CASES if c.converts_integers_to_floats], ids=str)
def test_whole_numbers_become_float32(case, backend):
    whole = np.array([0, 1, 2, 3], "int32")
    result = case.op(plugrad.asarray(whole), **case.attrs)
    case.compare(result, case.reference(whole.astype("float64"), **case.attrs), "float32")


@pytest.mark.rows("case", CASES, ids=str)
def test_values_of_views(case, backend, rng):
    case.check_values_of_views(rng)


@pytest.mark.rows("case", CASES, ids=str)
def test_special_values(case, backend):
    case.check_special_values(SPECIAL_VALUES)


@pytest.mark.rows("case", UNARY_CASES, ids=str)
def test_large_arguments(case, backend):
    case.check_values_of_arrays([LARGE_VALUES])


@pytest.mark.rows("case", UNARY_CASES, ids=str)
def test_small_arguments(case, backend):
    result = case.op(plugrad.asarray(SMALL_VALUES), **case.attrs).numpy()
    expected = case.reference(SMALL_VALUES.astype("float64"), **case.attrs)
    np.testing.assert_allclose(result, expected, rtol=2e-6)


@pytest.mark.rows("case", [c for c in UNARY_CASES if "complex64" not in c.dtypes], ids=str)
def test_complex_numbers_are_refused(case, rng):
    """Only the cpu supports complex numbers, and of the activations only sigmoid is defined for them."""
    with plugrad.use("cpu"):
        x = plugrad.asarray(any_number.draw(rng, (3, 5), "complex64"))
        with pytest.raises(DTypeError, match="complex64"):
            case.op(x, **case.attrs)


@pytest.mark.rows("case", CASES, ids=str)
def test_gradient(case, backend, rng):
    case.check_gradient(rng, backend)


@pytest.mark.parametrize("shapes", [((2, 3), (3,)), ((2, 1), (1, 3)), ((), (2, 3))], ids=str)
@pytest.mark.rows("case", BINARY_CASES, ids=str)
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


@pytest.mark.parametrize("axis", [-1, 1, 0])
def test_glu_is_a_half_gated_by_the_other(axis, backend, rng):
    x = rng.normal(size=(4, 6, 2)).astype("float32")
    a, b = np.split(x, 2, axis)
    np.testing.assert_allclose(plugrad.glu(x, axis), a * expit(b), rtol=2e-6)
    check_gradient(lambda x: plugrad.glu(x, axis), x)
    assert plugrad.glu(plugrad.zeros((0, 4))).shape == (0, 2)


def test_derivatives_of_silu_far_from_0(backend):
    x = plugrad.asarray(np.array([-np.inf, -1e30, -801, 801, 1e30, np.inf], "float32"))
    slope = plugrad.grad(lambda x: plugrad.sum(plugrad.silu(x)))
    assert slope(x).tolist() == [0, 0, 0, 1, 1, 1]
    assert plugrad.grad(lambda x: plugrad.sum(slope(x)))(x).tolist() == [0] * 6


def test_gradient_of_relu6_at_6(backend):
    assert plugrad.grad(plugrad.relu6)(plugrad.asarray(6.0)).item() == 0


ERROR_CASES = [
    ErrorCase(lambda: plugrad.relu([True]), DTypeError, ["relu", "bool", "float32", "astype"]),
    ErrorCase(lambda: plugrad.relu(None), ArgumentError, ["relu", "NoneType", "tensor"]),
    ErrorCase(
        lambda: plugrad.prelu(plugrad.zeros((2, 3)), plugrad.zeros((4,))),
        ShapeError,
        ["(2, 3)", "(4,)", "do not broadcast"],
    ),
    ErrorCase(lambda: plugrad.glu(plugrad.zeros((2, 3))), ShapeError, ["glu", "(2, 3)", "even"]),
    ErrorCase(lambda: plugrad.glu(plugrad.zeros((2, 3)), 2), AxisError, ["glu", "axis=2"]),
    ErrorCase(
        lambda: plugrad.hard_shrink([1.0], -1), ArgumentValueError, ["hard_shrink", "threshold=-1"]
    ),
    ErrorCase(lambda: plugrad.soft_shrink([1.0], "x"), ArgumentError, ["soft_shrink", "threshold"]),
    ErrorCase(lambda: plugrad.celu([1.0], 0), ArgumentValueError, ["celu", "alpha=0"]),
    ErrorCase(lambda: plugrad.silu("a"), DTypeError, ["silu", "string"]),
    ErrorCase(
        lambda: activation.elu_gradient.infer(plugrad.asarray([1]), plugrad.asarray([1])),
        DTypeError,
        ["EluGrad", "int32", "astype"],
    ),
]


@pytest.mark.rows("error_case", ERROR_CASES, ids=str)
def test_bad_input(error_case, backend):
    error_case.check()


@pytest.mark.parametrize("name", ["silu", "mish", "gelu", "hard_silu", "softplus", "elu", "celu"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_gradients_at_infinity_are_those_of_the_asymptotes(name, dtype, backend):
    x = plugrad.asarray([np.inf, -np.inf, 6e4, -6e4], dtype=dtype)
    found = plugrad.grad(lambda x: plugrad.sum(getattr(plugrad, name)(x)))(x)
    np.testing.assert_array_equal(found.numpy(), [1, 0, 1, 0])
