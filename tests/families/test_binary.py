"""Functions of two tensors, element by element: shapes are broadcast."""

import numpy as np
import pytest

import plugrad
from families.case import FLOAT_DTYPES, Case, ErrorCase, cases_with_dtype, conformance_cases
from families.domains import constant, distinct, integers, uniform
from plugrad.errors import ArgumentError, ArgumentValueError, DTypeError, ShapeError
from plugrad.kernels import binary


def np_div_no_nan(a, b):
    with np.errstate(all="ignore"):
        return np.where(b == 0, 0, a / b)


any_number = uniform(-3, 3)
away_from_0 = uniform(-3, 3, avoid=(0,))
two_numbers = [any_number, any_number]

CLIP_CASE = Case(
    lambda x, low, high: plugrad.clip(x, low, high),
    np.clip,
    [uniform(-3, 3, avoid=(-1.2, 1.2), margin=0.3), uniform(-1.4, -1), uniform(1, 1.4)],
    dtypes=FLOAT_DTYPES,
    name="clip between tensors",
    is_special=False,  # the bounds would be in the wrong order
)
EXTRA_CASES = [
    Case(plugrad.div_no_nan, np_div_no_nan, [any_number, uniform(0.4, 3)]),
    Case(plugrad.copysign, np.copysign, [away_from_0, away_from_0]),
    CLIP_CASE,
]
CASES = [*conformance_cases("binary"), *EXTRA_CASES]
DIFFERENTIABLE_CASES = [case for case in CASES if case.is_differentiable]

SHAPES = {
    2: [
        ((3, 5), (3, 5)),
        ((3, 5), (5,)),
        ((5,), (3, 5)),
        ((3, 5), (3, 1)),
        ((3, 1), (1, 5)),
        ((), (3, 5)),
        ((3, 5), (1, 1)),
        ((2, 3, 4, 5), (3, 1, 5)),
        ((2, 1, 4, 1), (3, 1, 5)),
        ((7,), (7,)),
        ((), ()),
        ((0, 5), (5,)),
        ((3, 1), (1, 0)),
        ((2, 0), (2, 0)),
    ],
    3: [
        ((3, 5), (3, 5), (3, 5)),
        ((3, 5), (), (5,)),
        ((5,), (3, 1), ()),
        ((), (3, 5), (3, 5)),
        ((3, 1), (1, 5), ()),
        ((7,), (7,), (7,)),
        ((), (), ()),
        ((2, 0), (2, 0), (2, 0)),
    ],
}
BROADCAST_SHAPES = {
    2: [((2, 3), (3,)), ((2, 1), (1, 3)), ((), (2, 3)), ((2, 3), (1,)), ((1, 2, 1), (3, 1, 2))],
    3: [((3, 4), (), (4,)), ((4,), (3, 1), ()), ((), (3, 4), (3, 4))],
}
SPECIAL_VALUES = np.array([np.nan, np.inf, -np.inf, 0.0, 1.0, -1.0, 2.5, -2.5], "float32")


def supports_broadcasting(case):
    return case.kernel is not binary.add_n


def input_shape_choices(case):
    """Return the choices of input shapes for a case."""
    if supports_broadcasting(case):
        return SHAPES[len(case.domains)]
    return [[shape] * len(case.domains) for shape in [(3, 5), (7,), (), (2, 0)]]


@pytest.mark.rows("case", CASES, ids=str)
def test_values(case, backend, rng):
    for shapes in input_shape_choices(case):
        case.with_shapes(*shapes).check_values(rng, case.main_dtype)


@pytest.mark.rows("case", CASES, ids=str)
def test_values_of_other_dtypes(case, backend, rng):
    case.check_values_of_other_dtypes(rng)


@pytest.mark.rows("case", CASES, ids=str)
def test_values_of_views(case, backend, rng):
    is_pair = len(case.domains) == 2 and supports_broadcasting(case)
    choices = [((3, 5), (3, 5)), ((4, 3, 5), (3, 1)), ((5,), (3, 5))]
    for shapes in choices if is_pair else [[(3, 5)] * len(case.domains)]:
        case.with_shapes(*shapes).check_values_of_views(rng, case.main_dtype)


@pytest.mark.rows("case", [c for c in cases_with_dtype(CASES) if c.is_special], ids=str)
def test_special_values(case, backend):
    case.check_special_values(SPECIAL_VALUES)


@pytest.mark.parametrize(
    "shapes",
    [((70_001,), (70_001,)), ((263, 251), (251,)), ((263, 251), (263, 1)), ((), (66_013,))],
)
def test_many_elements(shapes, backend, rng):
    case = Case(plugrad.squared_difference, lambda a, b: (a - b) ** 2, two_numbers, shapes)
    case.check_values(rng)


@pytest.mark.parametrize(
    "shapes",
    [
        ((1100, 3), (3,)),
        ((3,), (1100, 3)),
        ((40, 1, 3), (1, 50, 3)),
        ((1, 50, 16), (40, 1, 16)),
        ((7, 400, 2), (7, 1, 2)),
        ((90, 1), (1, 70)),
        ((2100, 1), (2,)),
    ],
    ids=str,
)
def test_short_rows_and_outer_results_have_the_values_of_materialized_operands(
    shapes, backend, rng
):
    dtypes = [dtype for dtype in FLOAT_DTYPES if dtype in plugrad.which().backend.dtypes()]
    for op in (plugrad.add, plugrad.subtract, plugrad.multiply, plugrad.divide):
        for dtype in dtypes:
            a, b = (plugrad.asarray(rng.uniform(1, 3, shape).astype(dtype)) for shape in shapes)
            whole_a, whole_b = (plugrad.asarray(x.numpy()) for x in plugrad.broadcast_arrays(a, b))
            expected = op(whole_a, whole_b).numpy()
            np.testing.assert_array_equal(op(a, b).numpy(), expected)


def test_where_with_a_broadcast_condition(backend, rng):
    t, e = (rng.normal(size=(5, 3, 64, 40)).astype("float32") for _ in range(2))
    for shape in [(5, 1, 1, 1), (5, 3, 1, 1), (1, 3, 1, 1), (1, 1, 1, 1)]:
        condition = rng.uniform(size=shape) > 0.5
        result = plugrad.where(condition, plugrad.flip(plugrad.asarray(t), axis=2), e)
        np.testing.assert_array_equal(result.numpy(), np.where(condition, t[:, :, ::-1], e))


def test_clip_between_tensors(backend, rng):
    for shapes in [((3, 5), (5,), ()), ((5,), (3, 1), (3, 5)), ((3, 5), (), (3, 1))]:
        CLIP_CASE.with_shapes(*shapes).check_values(rng)
    x = plugrad.asarray([-3, 0, 5])
    assert plugrad.clip(x, plugrad.asarray([-1, 1, 9]), 7).tolist() == [-1, 1, 7]
    assert plugrad.clip(x, min=[-1, -2, -3]).tolist() == [-1, 0, 5]


def test_where_of_two_numbers_is_on_the_device_of_the_condition(backend):
    is_set = plugrad.asarray([True, False])
    with plugrad.use("cpu"):
        chosen = plugrad.where(is_set, 1, 0.5)
    assert (chosen.device, chosen.dtype, chosen.tolist()) == (f"{backend}:0", "float32", [1, 0.5])


def test_nextafter_is_exact(backend):
    x = np.array([1, 1, -1, 3e38, -3e38, 1.5, 2, np.inf, -np.inf, np.nan, 1, 0, 5], "float32")
    y = np.array([2, 0, 5, np.inf, -np.inf, 1.5, 1, 0, 0, 1, np.nan, -0.0, -5], "float32")
    result = plugrad.nextafter(plugrad.asarray(x), plugrad.asarray(y)).numpy()
    expected = np.nextafter(x, y)
    np.testing.assert_array_equal(result, expected)
    np.testing.assert_array_equal(np.signbit(result), np.signbit(expected))


def test_hypot_and_logaddexp_do_not_overflow(backend):
    assert plugrad.hypot(3e30, 4e30).item() == pytest.approx(5e30)
    assert plugrad.hypot(3e-30, 4e-30).item() == pytest.approx(5e-30)
    x = plugrad.asarray([1000.0, -1000.0, 1000.0])
    y = plugrad.asarray([1000.0, -1000.0, -1000.0])
    expected = [1000 + np.log(2), np.log(2) - 1000, 1000]
    np.testing.assert_allclose(plugrad.logaddexp(x, y).numpy(), expected, rtol=1e-6)


def test_copysign_takes_the_sign_of_0_and_nan(backend):
    x = np.array([1, -1, 0, np.nan, np.inf], "float32")[:, None]
    y = np.array([0.0, -0.0, np.nan, -np.nan, -np.inf], "float32")
    result = plugrad.copysign(plugrad.asarray(x), plugrad.asarray(y)).numpy()
    np.testing.assert_array_equal(result, np.copysign(x, y))
    np.testing.assert_array_equal(np.signbit(result), np.signbit(np.copysign(x, y)))


def test_whole_numbers_are_divided_as_float32(backend, rng):
    case = Case(plugrad.divide, np.divide, [integers(-9, 9), integers(1, 5)], result="float32")
    case.check_values(rng)


def test_a_whole_number_floor_divided_by_0_is_0(backend):
    with np.errstate(all="ignore"):
        assert plugrad.floor_divide(plugrad.asarray([7, -7, 0]), 0).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("scalar", "dtype", "result"),
    [
        (2, "float32", "float32"),
        (2.5, "float32", "float32"),
        (2, "int32", "int32"),
        (2.5, "int32", "float32"),
        (True, "int32", "int32"),
        (2, "bool", "int32"),
    ],
)
def test_python_scalars(scalar, dtype, result, backend, rng):
    x = uniform(-3, 3).draw(rng, (3, 5), dtype)
    expected = np.multiply(x, scalar, dtype="float64")
    for y in (plugrad.asarray(x) * scalar, scalar * plugrad.asarray(x)):
        Case(plugrad.multiply, np.multiply, []).compare(y, expected, result)


@pytest.mark.parametrize(
    ("a", "b", "result"),
    [
        ("bool", "int32", "int32"),
        ("int32", "float32", "float32"),
        ("bool", "float32", "float32"),
        ("int8", "uint8", "int16"),
        ("int64", "float32", "float32"),
        ("float32", "float64", "float64"),
    ],
)
def test_dtypes_are_promoted(a, b, result, backend, rng):
    if {a, b, result} - plugrad.which().backend.dtypes():
        pytest.skip(f"{backend} has not all of {a}, {b} and {result}")
    x, y = (uniform(0, 3).draw(rng, (3, 5), dtype) for dtype in (a, b))
    for left, right in [(x, y), (y, x)]:
        got = plugrad.add(plugrad.asarray(left), plugrad.asarray(right))
        Case(plugrad.add, np.add, []).compare(got, np.add(left, right, dtype="float64"), result)


@pytest.mark.rows("case", DIFFERENTIABLE_CASES, ids=str)
def test_gradient(case, backend, rng):
    case.check_gradient(rng, backend)


@pytest.mark.rows("case", [c for c in DIFFERENTIABLE_CASES if supports_broadcasting(c)], ids=str)
def test_gradient_under_broadcasting(case, backend, rng):
    for shapes in BROADCAST_SHAPES[len(case.domains)]:
        case.with_shapes(*shapes).check_gradient(rng, backend)


@pytest.mark.parametrize("op", [plugrad.maximum, plugrad.minimum, plugrad.squared_difference])
@pytest.mark.rows("shapes", BROADCAST_SHAPES[2], ids=str)
def test_gradient_of_mixed_operands_under_broadcasting(op, shapes, backend, rng):
    """Some elements of each operand are larger than those of the other."""
    size = int(np.prod(shapes[0]))
    both = distinct().draw(rng, (size + int(np.prod(shapes[1])),), "float64") * 0.3
    a, b = both[:size].reshape(shapes[0]), both[size:].reshape(shapes[1])
    Case(op, op, [constant(a), constant(b)]).check_gradient(rng, backend)


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        (plugrad.maximum, [1, 0]),
        (plugrad.minimum, [1, 0]),
        (plugrad.squared_difference, [0, 0]),
    ],
)
def test_gradient_of_equal_operands(op, expected, backend):
    x, y = plugrad.asarray(2.0), plugrad.asarray(2.0)
    assert [g.item() for g in plugrad.grad(op, argnums=(0, 1))(x, y)] == expected


def test_a_negative_exponent_leaves_the_other_powers_of_whole_numbers(backend):
    a, b = plugrad.asarray([3, 7, 2, -1, -1, 1, 0]), plugrad.asarray([29, 0, -2, -3, -2, -5, -1])
    assert plugrad.pow(a, b).tolist() == [3**29 % 2**32, 1, 0, -1, 1, 1, 0]


@pytest.mark.parametrize(
    ("base", "exponent", "for_base", "for_exponent"),
    [(0.0, 2.0, 0.0, 0.0), (0.0, 1.0, 1.0, 0.0), (0.0, 0.0, 0.0, 0.0), (-2.0, 3.0, 12.0, 0.0)],
)
def test_gradient_of_pow_without_logarithm(base, exponent, for_base, for_exponent, backend):
    gradients = plugrad.grad(plugrad.pow, argnums=(0, 1))(base, exponent)
    assert [g.item() for g in gradients] == [for_base, for_exponent]


def test_gradient_of_remainder_where_the_quotient_is_rounded_up(backend):
    a, b = plugrad.asarray(1.0), plugrad.asarray(0.1)  # a / b is 10, and yet 0.1 remains of 9 * b
    assert plugrad.grad(plugrad.remainder, argnums=1)(a, b).item() == -9


def test_mixed_derivatives_of_pow_agree_at_the_exponent_0(backend):
    (_, mixed), (swapped, _) = plugrad.hessian(plugrad.pow, argnums=(0, 1))(4.0, 0.0)
    assert mixed.item() == swapped.item() == 0.25


def test_mixed_derivatives_of_pow_under_vmap_agree_at_the_exponent_0(backend):
    slopes = plugrad.vmap(plugrad.grad(lambda a, b: a**b), (0, None))
    bases = plugrad.asarray([2.0, 4.0])
    # the derivative of b * a**(b - 1) is 1 / a at b = 0
    assert plugrad.grad(lambda b: plugrad.sum(slopes(bases, b)))(0.0).item() == pytest.approx(0.75)


def test_constant_power_of_tiny_numbers_is_differentiated_twice(backend):
    for exponent, expected in [(0, 0.0), (1, 0.0), (2, 2.0)]:
        second = plugrad.grad(plugrad.grad(lambda x, n=exponent: x**n))
        assert [second(x).item() for x in (0.0, 1e-25, -1e-25)] == [expected] * 3


def test_gradients_where_a_formula_would_divide_0_by_0(backend):
    zero, infinite = plugrad.asarray(0.0), plugrad.asarray(-np.inf)
    for op, x, y, expected in [
        (plugrad.hypot, zero, zero, [0, 0]),
        (plugrad.div_no_nan, plugrad.asarray(2.0), zero, [0, 0]),
        (plugrad.logaddexp, infinite, infinite, [0.5, 0.5]),
        (plugrad.logaddexp, infinite, zero, [0, 1]),
        (plugrad.copysign, zero, plugrad.asarray(-1.0), [-1, 0]),
    ]:
        gradients = plugrad.grad(op, argnums=(0, 1), allow_unused=True)(x, y)
        assert [g.item() for g in gradients] == expected


ERROR_CASES = [
    ErrorCase(
        lambda: plugrad.add(plugrad.zeros((2, 3)), plugrad.zeros((4,))),
        ShapeError,
        ["(2, 3)", "(4,)", "do not broadcast", "equal or 1"],
    ),
    ErrorCase(
        lambda: plugrad.where([1.0, 0.0], 1.0, 2.0),
        DTypeError,
        ["condition", "float32", "bool"],
    ),
    ErrorCase(lambda: plugrad.logical_and(["a"], True), DTypeError, ["logical_and", "string"]),
    ErrorCase(lambda: plugrad.add([True], [False]), DTypeError, ["add", "bool", "astype"]),
    ErrorCase(lambda: plugrad.add(None, 1), ArgumentError, ["add", "NoneType", "tensor"]),
    ErrorCase(lambda: plugrad.add_n([]), ArgumentValueError, ["add_n", "empty", "at least one"]),
    ErrorCase(
        lambda: plugrad.add_n([plugrad.zeros((2,)), plugrad.zeros((3,))]),
        ShapeError,
        ["AddN", "(2,)", "(3,)"],
    ),
    ErrorCase(
        lambda: plugrad.where([True, False], plugrad.zeros((3,)), 0.0),
        ShapeError,
        ["(2,)", "(3,)", "do not broadcast"],
    ),
]


@pytest.mark.rows("error_case", ERROR_CASES, ids=str)
def test_bad_input(error_case, backend):
    error_case.check()
