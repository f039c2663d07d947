"""Complex numbers: their parts, and gradients through them."""

import math

import numpy as np
import pytest

import plugrad
from families.case import ErrorCase, conformance_cases, unsupported_dtypes
from plugrad.errors import DTypeError, ShapeError
from plugrad.testing import check_gradient

CASES = conformance_cases("complex")


def expand_shapes(case):
    return case.expand_shapes(
        *[[shape] * len(case.domains) for shape in [(3, 5), (), (7, 1), (0, 2)]]
    )


@pytest.mark.rows("case", CASES, ids=str)
def test_values(case, backend, rng):
    for shaped in expand_shapes(case):
        for dtype in case.dtypes:
            if dtype in plugrad.which().backend.dtypes():
                shaped.check_values(rng, dtype)


@pytest.mark.rows("case", CASES, ids=str)
def test_values_of_views(case, backend, rng):
    for shaped in expand_shapes(case):
        shaped.check_values_of_views(rng, case.main_dtype)


def require_complex64():
    if missing := unsupported_dtypes(["complex64"]):
        pytest.skip(f"the backend does not store {missing}")


def test_special_values(backend):
    """Infinite and NaN parts stay in place; the absolute value does not overflow."""
    require_complex64()
    parts = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0], np.float32)
    z = plugrad.complex(parts, parts[::-1].copy())
    np.testing.assert_array_equal(plugrad.real(z).numpy(), parts)
    np.testing.assert_array_equal(plugrad.imag(z).numpy(), parts[::-1])
    assert plugrad.abs(plugrad.asarray(3e38 + 3e38j)).item() == np.inf
    assert plugrad.abs(plugrad.asarray(2e38 + 1e38j)).item() == pytest.approx(2.236e38, rel=1e-3)
    assert np.signbit(plugrad.conj(plugrad.asarray(1 + 0j)).numpy().imag)


def test_expm1_of_numbers_with_a_part_that_is_no_number(backend):
    """Results follow the array API standard; NumPy makes both parts NaN."""
    require_complex64()
    inf, nan = math.inf, math.nan
    cases = [
        (complex(nan, 0), complex(nan, 0)),
        (complex(nan, 1), complex(nan, nan)),
        (complex(1, nan), complex(nan, nan)),
        (complex(inf, 0), complex(inf, 0)),
        (complex(inf, 2), complex(-inf, inf)),
        (complex(inf, nan), complex(inf, nan)),
        (complex(-inf, 1), complex(-1, 0)),
        (complex(-inf, nan), complex(-1, 0)),
    ]
    z, expected = np.array(cases, np.complex64).T
    np.testing.assert_array_equal(plugrad.expm1(plugrad.asarray(z)).numpy(), expected)
    assert plugrad.expm1(plugrad.asarray(z[0])).numpy().imag == 0
    zeros = plugrad.expm1(
        plugrad.asarray(np.array([complex(-0.0, 0), complex(-0.0, -0.0)], np.complex64))
    ).numpy()
    assert not np.signbit(zeros.real).any()
    assert np.signbit(zeros.imag).tolist() == [False, True]


def test_sign_of_zeros_and_at_infinity(backend):
    """An infinite part dominates a finite one, as in NumPy; the sign of zero is zero, as in the standard."""
    require_complex64()
    zeros = np.array([complex(a, b) for a in (0.0, -0.0) for b in (0.0, -0.0)], np.complex64)
    assert not np.signbit(plugrad.sign(plugrad.asarray(zeros)).numpy().view(np.float32)).any()
    inf = math.inf
    parts = [(inf, 1), (-inf, 0), (2, -inf), (inf, -inf), (3, -4)]
    z = np.array([complex(*pair) for pair in parts], np.complex64)
    np.testing.assert_allclose(plugrad.sign(plugrad.asarray(z)).numpy(), np.sign(z), rtol=1e-6)


def test_real_tensors_are_their_own_real_part_and_conjugate():
    x = plugrad.asarray([1.0, -2.0])
    assert plugrad.real(x).array is x.array
    assert plugrad.conj(x).array is x.array


def test_reshaping_leaves_the_original_alone():
    z = plugrad.asarray(np.arange(6, dtype=np.complex64))
    plugrad.reshape(z, (2, 3))
    assert (z.shape, plugrad.real(z).shape, plugrad.imag(z).shape) == ((6,), (6,), (6,))


HOLOMORPHIC_FUNCTIONS = [
    "square",
    "reciprocal",
    "sqrt",
    "rsqrt",
    "exp",
    "expm1",
    "log",
    "log1p",
    "negative",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
    "sigmoid",
]
COMPLEX_MATRIX = np.array([[0.4 + 0.3j, -0.6 + 0.5j], [0.7 - 0.4j, -0.3 - 0.8j]])
OTHER_COMPLEX_MATRIX = np.array([[1.1 - 0.3j, 0.6 + 0.9j], [-0.7 + 0.4j, 0.8 + 0.2j]])


@pytest.mark.parametrize("name", HOLOMORPHIC_FUNCTIONS)
def test_gradients_of_functions_of_a_complex_number(name):
    check_gradient(getattr(plugrad, name), COMPLEX_MATRIX)


@pytest.mark.parametrize(
    "function",
    [
        plugrad.add,
        plugrad.subtract,
        plugrad.multiply,
        plugrad.divide,
        plugrad.pow,
        plugrad.squared_difference,
        plugrad.matmul,
    ],
    ids=lambda function: function.__name__,
)
def test_gradients_of_functions_of_two_complex_numbers(function):
    check_gradient(function, COMPLEX_MATRIX, OTHER_COMPLEX_MATRIX)
    check_gradient(
        function,
        COMPLEX_MATRIX,
        OTHER_COMPLEX_MATRIX[0] if function is not plugrad.matmul else OTHER_COMPLEX_MATRIX,
    )


@pytest.mark.parametrize("name", HOLOMORPHIC_FUNCTIONS)
def test_values_and_gradients_in_single_precision(name, backend):
    require_complex64()
    z = np.concatenate([COMPLEX_MATRIX.ravel(), [3 + 4j, -2.5 - 1e-3j]]).astype("complex64")
    function = getattr(plugrad, name)
    values = function(plugrad.asarray(z)).numpy()
    with plugrad.use("cpu"):
        exact = function(plugrad.asarray(z.astype("complex128"))).numpy()
    np.testing.assert_allclose(values, exact, rtol=2e-6)
    check_gradient(function, COMPLEX_MATRIX.astype("complex64"), order=1, dtype="float32")


@pytest.mark.rows("case", [case for case in CASES if case.is_differentiable], ids=str)
def test_gradients_of_the_kernels(case, backend, rng):
    require_complex64()
    shaped = case if case.shapes else case.with_shapes(*[(3, 5)] * len(case.domains))
    shaped.check_gradient(rng, backend)


@pytest.mark.parametrize("name", ["real", "imag", "abs", "conj", "sum", "mean", "prod"])
def test_gradients_of_parts_and_sums(name):
    check_gradient(getattr(plugrad, name), COMPLEX_MATRIX)


def test_gradients_of_complex_numbers_made_of_parts(rng):
    check_gradient(plugrad.complex, rng.normal(size=(2, 3)), rng.normal(size=(2, 3)))
    scaled = lambda x, z: plugrad.astype(x, "complex128") * z  # noqa: E731
    check_gradient(scaled, rng.normal(size=(2, 2)), COMPLEX_MATRIX)


def test_gradient_points_where_the_value_grows_fastest():
    """The gradient of a real value is d/dx + i d/dy, as in TensorFlow and PyTorch."""
    z = plugrad.asarray(COMPLEX_MATRIX)
    square_of_radius = lambda z: plugrad.sum(plugrad.real(z * plugrad.conj(z)))  # noqa: E731
    np.testing.assert_allclose(plugrad.grad(square_of_radius)(z).numpy(), 2 * COMPLEX_MATRIX)
    linear = plugrad.grad(lambda z: plugrad.real(plugrad.sum(z * OTHER_COMPLEX_MATRIX)))(z)
    np.testing.assert_allclose(linear.numpy(), np.conj(OTHER_COMPLEX_MATRIX))
    radius = plugrad.grad(lambda z: plugrad.sum(plugrad.abs(z)))(z)
    np.testing.assert_allclose(radius.numpy(), COMPLEX_MATRIX / np.abs(COMPLEX_MATRIX))
    assert plugrad.grad(plugrad.abs)(plugrad.asarray(0j)).item() == 0


def test_absolute_value_has_no_slope_and_no_curvature_at_0():
    length = lambda x: plugrad.abs(plugrad.complex(x, 2 * x))  # noqa: E731
    assert plugrad.grad(length)(0.0).item() == plugrad.hessian(length)(0.0).item() == 0.0


def test_gradient_of_a_complex_value_is_that_of_its_real_part():
    z = plugrad.asarray(COMPLEX_MATRIX)
    by_default = plugrad.grad(lambda z: plugrad.sum(plugrad.exp(z)))(z)
    np.testing.assert_allclose(by_default.numpy(), np.conj(np.exp(COMPLEX_MATRIX)))


def test_custom_gradients_use_the_same_complex_convention():
    @plugrad.custom_grad
    def doubled(z, save):
        return z * (2 + 1j), lambda dy, saved: dy * (2 - 1j)

    z = plugrad.asarray(COMPLEX_MATRIX)
    own = plugrad.grad(lambda z: plugrad.real(plugrad.sum(doubled(z) * z)))(z)
    rules = plugrad.grad(lambda z: plugrad.real(plugrad.sum(z * (2 + 1j) * z)))(z)
    np.testing.assert_allclose(own.numpy(), rules.numpy())


# What C99 demands where a part is NaN or infinite; arguments and values
NAN_CASES = [
    (plugrad.asin, complex(0, np.nan), complex(0, np.nan)),
    (plugrad.asin, complex(np.nan, 0), complex(np.nan, np.nan)),
    (plugrad.asin, complex(1e-10, np.nan), complex(np.nan, np.nan)),
    (plugrad.acos, complex(0, np.nan), complex(np.pi / 2, np.nan)),
    (plugrad.acos, complex(np.nan, 0), complex(np.nan, np.nan)),
    (plugrad.acos, complex(-1e-10, np.nan), complex(np.nan, np.nan)),
    (plugrad.atan, complex(np.nan, 0), complex(np.nan, 0)),
    (plugrad.asinh, complex(np.nan, 0), complex(np.nan, 0)),
    (plugrad.atanh, complex(0, np.nan), complex(0, np.nan)),
    (plugrad.atanh, complex(np.nan, 1e10), complex(np.nan, np.nan)),
    (plugrad.sign, complex(np.nan, np.inf), complex(np.nan, np.nan)),
    (plugrad.tan, complex(np.nan, 0), complex(np.nan, 0)),
    (plugrad.tanh, complex(0, np.nan), complex(0, np.nan)),
    (plugrad.expm1, complex(np.nan, 0), complex(np.nan, 0)),
    (plugrad.expm1, complex(np.inf, 0), complex(np.inf, 0)),
    (plugrad.expm1, complex(np.inf, np.inf), complex(np.inf, np.nan)),
    (plugrad.expm1, complex(np.inf, np.nan), complex(np.inf, np.nan)),
    (plugrad.expm1, complex(-np.inf, np.inf), complex(-1, 0)),
    (plugrad.expm1, complex(-np.inf, np.nan), complex(-1, 0)),
]


@pytest.mark.rows(("op", "z", "expected"), NAN_CASES, ids=lambda v: getattr(v, "__name__", str(v)))
def test_a_part_that_is_nan_spoils_only_what_depends_on_it(backend, op, z, expected):
    # As an array: Python's arithmetic would spoil both parts.
    result = op(plugrad.asarray(np.array([z], "complex64"))).numpy()[0]
    np.testing.assert_allclose(result.real, expected.real, rtol=1e-6)
    np.testing.assert_allclose(result.imag, expected.imag, rtol=1e-6)


@pytest.mark.parametrize("y", [1e-300, 1.0, 1e154, 1e308])
def test_inverse_tangents_of_nan_and_any_other_part(y, backend):
    if plugrad.complex128 not in plugrad.which().backend.dtypes():
        pytest.skip(f"{backend} has no complex128")
    z = np.array([complex(np.nan, y), complex(y, np.nan)])
    for op in (plugrad.atanh, plugrad.atan):
        found = op(plugrad.asarray(z)).numpy()
        assert np.isnan(found.real).all()
        assert np.isnan(found.imag).all()


def test_zeros_of_tangents_at_infinity_have_the_sign_of_the_argument(backend):
    # as the array API asks; NumPy and C99 take the sign of sin(2 y)
    parts = np.array([-2, -0.0, 0, 2, 100], "float32")
    z = np.empty((2, 5), "complex64")
    z.real, z.imag = [[np.inf], [-np.inf]], parts
    turned = np.empty_like(z)
    turned.real, turned.imag = parts, z.real
    hyperbolic, circular = (
        plugrad.tanh(plugrad.asarray(z)).numpy(),
        plugrad.tan(plugrad.asarray(turned)).numpy(),
    )
    np.testing.assert_array_equal(hyperbolic.real, [[1] * 5, [-1] * 5])
    np.testing.assert_array_equal(circular.imag, [[1] * 5, [-1] * 5])
    for zeros in (hyperbolic.imag, circular.real):
        np.testing.assert_array_equal(zeros, np.zeros((2, 5)))
        np.testing.assert_array_equal(np.signbit(zeros), np.signbit([parts, parts]))
    assert not np.signbit(plugrad.tanh(plugrad.asarray(z[0, 3])).numpy().imag)  # 0-d


ERROR_CASES = [
    ErrorCase(
        lambda: plugrad.complex(plugrad.ones(2), plugrad.ones(3)),
        ShapeError,
        ["complex", "(2,)", "(3,)", "must be equal"],
    ),
    ErrorCase(
        lambda: plugrad.complex(plugrad.asarray(1j), 1.0), DTypeError, ["complex", "complex64"]
    ),
    ErrorCase(lambda: plugrad.imag(1.0), DTypeError, ["imag", "float32", "astype"]),
    ErrorCase(
        lambda: plugrad.run_kernel("Real", {"input": plugrad.ones(2)}),
        DTypeError,
        ["Real", "float32"],
    ),
    ErrorCase(
        lambda: plugrad.run_kernel("Complex", {"real": plugrad.ones(2), "imag": plugrad.ones(1)}),
        ShapeError,
        ["Complex", "(2,)", "(1,)"],
    ),
]


@pytest.mark.rows("error_case", ERROR_CASES, ids=str)
def test_bad_input(error_case):
    error_case.check()


EXTREME_VALUES = np.array(
    [
        1e200 + 1e200j,
        1e-200 + 1e-200j,
        1e300 - 1e-300j,
        1e160 + 1j,
        -1e200 + 3e199j,
        3e-170 - 1e-180j,
    ]
)
"""Doubles whose squares overflow or vanish."""


@pytest.mark.parametrize(
    "name",
    [
        *("abs", "sqrt", "log", "log2", "reciprocal", "asin", "acos", "atan"),
        *("asinh", "acosh", "atanh"),
    ],
)
def test_doubles_whose_squares_are_out_of_range(name, backend):
    if plugrad.complex128 not in plugrad.which().backend.dtypes():
        pytest.skip("the backend does not have complex128")
    numpys = (
        {"a": "arc"}.get(name[0], "") + name[1:] if name[1:4] in ("sin", "cos", "tan") else name
    )
    expected = getattr(np, numpys)(EXTREME_VALUES)
    found = getattr(plugrad, name)(plugrad.asarray(EXTREME_VALUES)).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_quotients_of_doubles_whose_products_are_out_of_range(backend):
    if plugrad.complex128 not in plugrad.which().backend.dtypes():
        pytest.skip("the backend does not have complex128")
    divisors = EXTREME_VALUES * (0.5 - 2j)
    found = plugrad.asarray(EXTREME_VALUES) / plugrad.asarray(divisors)
    np.testing.assert_allclose(found.numpy(), np.full(6, 1 / (0.5 - 2j)), rtol=1e-15)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_signs_and_logarithms_of_the_largest_and_smallest_numbers(dtype, backend):
    """Absolute values of the largest numbers are infinite, and those of the smallest have few digits."""
    if plugrad.as_dtype(dtype) not in plugrad.which().backend.dtypes():
        pytest.skip(f"{backend} has no {dtype}")
    largest, smallest = (
        float(x) for x in (np.finfo(dtype).max, np.finfo(dtype).smallest_subnormal)
    )
    directions = np.array([1, 1j, -1 - 1j, 1 + 1j])
    units = directions / np.abs(directions)
    # GPUs may take denormal numbers for 0.
    sizes = (largest, float(np.finfo(dtype).tiny), *([] if backend == "webgpu" else [smallest]))
    for size in sizes:
        z = plugrad.asarray(size * directions, dtype=dtype)
        np.testing.assert_allclose(plugrad.sign(z).numpy(), units, rtol=1e-6)
    z = plugrad.asarray(largest * directions, dtype=dtype)
    expected = np.log(largest) + np.log(directions)
    np.testing.assert_allclose(plugrad.log1p(z).numpy(), expected, rtol=1e-6)
