"""Unary and binary kernels against NumPy and the math module, in every dtype."""

import math

import ml_dtypes
import numpy as np
import pytest

from plugrad.extend import DTypeError, ShapeError, UnsupportedDtype, as_dtype, bool_, float32

INF, NAN = np.inf, np.nan
INTEGER_DTYPES = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
DTYPES = ["bool", "float32", "float64", *INTEGER_DTYPES]
SPECIAL_VALUES = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    INF,
    -INF,
    NAN,
    1e-40,
    -1e-40,
    3e38,
    -3e38,
    88.7,
    -103.0,
]
SELU_SCALE, SELU_ALPHA = 1.0507009873554805, 1.6732632423543772

erf = np.vectorize(math.erf, otypes=[float])

# registry name: reference in double, domain
UNARY_FUNCTIONS = {
    "Abs": (np.abs, (-9, 9)),
    "Neg": (np.negative, (-9, 9)),
    "Square": (np.square, (-9, 9)),
    "Sign": (np.sign, (-9, 9)),
    "Reciprocal": (np.reciprocal, (-9, 9)),
    "Sqrt": (np.sqrt, (0, 99)),
    "Rsqrt": (lambda x: 1 / np.sqrt(x), (0.01, 99)),
    "Ceil": (np.ceil, (-9, 9)),
    "Floor": (np.floor, (-9, 9)),
    "Round": (np.round, (-9, 9)),
    "Trunc": (np.trunc, (-9, 9)),
    "Exp": (np.exp, (-87, 88)),
    "Expm1": (np.expm1, (-2, 20)),
    "Log": (np.log, (1e-3, 1e3)),
    "Log1p": (np.log1p, (-0.9, 9)),
    "Log2": (np.log2, (1e-3, 1e3)),
    "Log10": (np.log10, (1e-3, 1e3)),
    "Sin": (np.sin, (-1e5, 1e5)),
    "Cos": (np.cos, (-1e5, 1e5)),
    "Tan": (np.tan, (-1e5, 1e5)),
    "Asin": (np.arcsin, (-1, 1)),
    "Acos": (np.arccos, (-1, 1)),
    "Atan": (np.arctan, (-50, 50)),
    "Sinh": (np.sinh, (-80, 80)),
    "Cosh": (np.cosh, (-80, 80)),
    "Tanh": (np.tanh, (-9, 9)),
    "Asinh": (np.arcsinh, (-50, 50)),
    "Acosh": (np.arccosh, (1, 50)),
    "Atanh": (np.arctanh, (-0.999, 0.999)),
    "Erf": (erf, (-4, 4)),
    "Relu": (lambda x: np.maximum(x, 0), (-9, 9)),
    "Relu6": (lambda x: np.clip(x, 0, 6), (-9, 9)),
    "Elu": (lambda x: np.where(x < 0, np.expm1(x), x), (-9, 9)),
    "Selu": (
        lambda x: SELU_SCALE * np.where(x < 0, SELU_ALPHA * np.expm1(x), x),
        (-9, 9),
    ),
    "Sigmoid": (lambda x: 1 / (1 + np.exp(-x)), (-87, 87)),
    "Softplus": (lambda x: np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0), (-80, 80)),
}
TOLERANCE_IN_ULPS = {"float32": 4, "float64": 4}  # units in the last place


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", UNARY_FUNCTIONS)
def test_functions_are_within_a_few_units_in_the_last_place(run, rng, name, dtype):
    reference, domain = UNARY_FUNCTIONS[name]
    for count in (0, 1, 3, 4, 1001):
        x = rng.uniform(*domain, count).astype(dtype)
        expected = reference(x.astype(np.float64)).astype(dtype)
        units = np.abs(run(name, x).astype(np.float64) - expected) / np.spacing(np.abs(expected))
        assert np.all(units <= TOLERANCE_IN_ULPS[dtype]), (x[units.argmax()], units.max())


def error_in_ulps(actual, expected):
    """Return the largest error in units in the last place; equal infinities, and two NaN, count as equal."""
    rounded = expected.astype(actual.dtype)
    finite = np.isfinite(rounded)
    np.testing.assert_array_equal(actual[~finite], rounded[~finite])
    np.testing.assert_array_equal(
        np.signbit(actual[rounded == 0]), np.signbit(rounded[rounded == 0])
    )
    error = np.abs(actual[finite].astype(expected.dtype) - expected[finite])
    return (error / np.spacing(np.abs(rounded[finite]))).max(initial=0)


EXPONENTS = [2, 3, 4, 1, 0, -1, -2, 0.5, -0.5, 5, 1.5, -3]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("dtype", "logarithm"), [("float32", 88), ("float64", 709)])
def test_powers_are_within_two_units_in_the_last_place(run, rng, dtype, logarithm):
    """Cases: random, near 1, out of range, a constant exponent, and special values."""
    special = np.array([*SPECIAL_VALUES, -2.0, 3.0, -3.0, 1e20, 1e-20, 1 + 2**-23, 1e-300], dtype)
    a = np.exp(rng.uniform(-80, 80, 10_001)).astype(dtype)
    b = (rng.uniform(-logarithm, logarithm, a.size) / np.log(a)).astype(dtype)
    near = rng.uniform(0.5, 2, a.size).astype(dtype)
    pairs = [(a, b), (-a, np.round(b)), [x.ravel() for x in np.meshgrid(special, special)]]
    pairs += [(near, (rng.uniform(-logarithm, logarithm, a.size) / np.log(near)).astype(dtype))]
    pairs += [(a, 1000 * b), (a[:5], b[:1])]
    pairs += [(special, np.array(constant, dtype)) for constant in EXPONENTS]
    for x, y in pairs:
        exact = np.power(x.astype(np.longdouble), y.astype(np.longdouble))
        assert error_in_ulps(run("Pow", x, y), exact) <= 2


def test_angles_are_within_three_units_in_the_last_place(run, rng):
    special = np.float32(SPECIAL_VALUES)
    pairs = [*rng.standard_normal((5, 2, 2001)).astype(np.float32), np.meshgrid(special, special)]
    for y, x in pairs:
        assert error_in_ulps(run("Atan2", y, x), np.arctan2(y.astype(float), x.astype(float))) <= 3


@pytest.mark.parametrize("name", ["Sin", "Cos"])
def test_angles_near_multiples_of_half_pi(run, name):
    n = np.arange(-5000, 5000)
    x = np.concatenate([n * (np.pi / 2), n * 0.37]).astype(np.float32)
    expected = UNARY_FUNCTIONS[name][0](x.astype(float)).astype(np.float32)
    np.testing.assert_allclose(run(name, x), expected, rtol=5e-7)


@pytest.mark.parametrize("name", UNARY_FUNCTIONS)
def test_functions_of_special_values(run, name):
    x = np.array(SPECIAL_VALUES, np.float32)
    with np.errstate(all="ignore"):
        expected = UNARY_FUNCTIONS[name][0](x.astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(run(name, x), expected, rtol=5e-7, atol=1.5e-45)


def test_denormal_results_of_exp_are_kept(run):
    x = np.array([-87.5, -95.0, -103.2, -104.5], np.float32)
    np.testing.assert_allclose(run("Exp", x), np.exp(x.astype(float)), atol=1.5e-45, rtol=1e-6)
    assert np.all(run("Exp", x[:3]) > 0)


@pytest.mark.parametrize("dtype", INTEGER_DTYPES)
def test_unary_kernels_of_integers(run, dtype):
    info = np.iinfo(dtype)
    x = np.array([0, 1, 5, 7, 100, info.min, info.max], dtype)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(run("Abs", x), np.abs(x))
        np.testing.assert_array_equal(run("Neg", x), np.negative(x))
        np.testing.assert_array_equal(run("Square", x), np.square(x))
    np.testing.assert_array_equal(run("Sign", x), np.sign(x))
    np.testing.assert_array_equal(run("Relu6", x), np.clip(x, 0, 6))
    np.testing.assert_array_equal(run("Round", x), x)
    np.testing.assert_array_equal(run("Step", x, alpha=0.0), (x > 0).astype(dtype))
    clipped = run("ClipByValue", x, clip_value_min=2, clip_value_max=9)
    np.testing.assert_array_equal(clipped, np.clip(x, 2, 9))
    assert not run("IsNan", x).any()
    assert run("IsFinite", x).all()


def test_predicates_and_identity(run):
    x = np.array([1, -INF, INF, NAN, 0], np.float32)
    np.testing.assert_array_equal(run("IsInf", x), np.isinf(x))
    np.testing.assert_array_equal(run("IsNan", x), np.isnan(x))
    np.testing.assert_array_equal(run("IsFinite", x), np.isfinite(x))
    np.testing.assert_array_equal(run("Identity", x), x)


def test_kernels_with_attributes_pass_nan_on(run):
    x = np.array([-2, 0, 3, NAN, INF], np.float32)
    np.testing.assert_array_equal(run("Step", x, alpha=0.25), np.float32([0.25, 0.25, 1, NAN, 1]))
    np.testing.assert_array_equal(run("LeakyRelu", x, alpha=0.5), np.float32([-1, 0, 3, NAN, INF]))
    clipped = run("ClipByValue", x, clip_value_min=-1.0, clip_value_max=1e300)
    np.testing.assert_array_equal(clipped, np.float32([-1, 0, 3, NAN, INF]))


@pytest.mark.rows("target", DTYPES)
@pytest.mark.parametrize("source", DTYPES)
def test_elementwise_casts(run, source, target):
    x = np.array([0, 1, 5, 100.75], "float64").astype(source)
    np.testing.assert_array_equal(run("Cast", x, dtype=as_dtype(target)), x.astype(target))


@pytest.mark.parametrize("target", INTEGER_DTYPES)
@pytest.mark.parametrize("source", ["float32", "float64"])
@pytest.mark.parametrize("count", [1, 4, 1003])
def test_casts_of_floats_saturate(run, source, target, count):
    limits = np.iinfo(target)
    edges = [float(n + d) for n in (limits.min, limits.max) for d in (-1, 0, 1)]
    x = np.array([NAN, INF, -INF, 1e30, -1e30, -0.9, 0.9, *edges], source)
    expected = [limits.max if value > 0 else limits.min for value in x]
    for i, value in enumerate(x):
        if np.isnan(value):
            expected[i] = 0
        elif np.isfinite(value) and limits.min <= int(value) <= limits.max:
            expected[i] = int(value)
    x, expected = np.resize(x, count), np.resize(np.array(expected, target), count)
    np.testing.assert_array_equal(run("Cast", x, dtype=as_dtype(target)), expected)


@pytest.mark.rows("target", INTEGER_DTYPES)
@pytest.mark.parametrize("source", INTEGER_DTYPES)
def test_casts_of_integers_wrap_around(run, rng, source, target):
    limits = np.iinfo(source)
    x = rng.integers(limits.min, limits.max, 333, source, endpoint=True)
    np.testing.assert_array_equal(run("Cast", x, dtype=as_dtype(target)), x.astype(target))


def test_every_float_but_0_is_true(run):
    x = np.array([NAN, INF, -INF, 1e-45, 0.5, 0.0, -0.0], np.float32)
    assert run("Cast", x, dtype=bool_).tolist() == [True] * 5 + [False] * 2


ARITHMETIC_KERNELS = {
    "Add": np.add,
    "Sub": np.subtract,
    "Multiply": np.multiply,
    "Maximum": np.maximum,
    "Minimum": np.minimum,
    "FloorDiv": np.floor_divide,
    "Mod": np.remainder,
    "SquaredDifference": lambda a, b: np.square(np.subtract(a, b)),
}
COMPARISON_KERNELS = {
    "Equal": np.equal,
    "NotEqual": np.not_equal,
    "Greater": np.greater,
    "GreaterEqual": np.greater_equal,
    "Less": np.less,
    "LessEqual": np.less_equal,
}
FLOATING_KERNELS = {
    "RealDiv": np.divide,
    "Atan2": np.arctan2,
    "Pow": np.power,
    "Hypot": np.hypot,
    "LogAddExp": np.logaddexp,
    "NextAfter": np.nextafter,
}


@pytest.mark.rows("dtype", ["float32", "float64", *INTEGER_DTYPES])
@pytest.mark.parametrize("name", ARITHMETIC_KERNELS | COMPARISON_KERNELS)
def test_arithmetic_and_comparisons(run, rng, name, dtype):
    reference = (ARITHMETIC_KERNELS | COMPARISON_KERNELS)[name]
    a, b = (rng.integers(0, 100, 333).astype(dtype) for _ in range(2))
    if not dtype.startswith("u"):
        a, b = a - np.array(50, dtype), b - np.array(50, dtype)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(run(name, a, b), reference(a, b))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ARITHMETIC_KERNELS | COMPARISON_KERNELS | FLOATING_KERNELS)
def test_pairs_of_special_values(run, name, dtype):
    values = np.array([*SPECIAL_VALUES, 7.0, -7.0, 2.5], dtype)
    a, b = np.meshgrid(values, values)
    with np.errstate(all="ignore"):
        expected = (ARITHMETIC_KERNELS | COMPARISON_KERNELS | FLOATING_KERNELS)[name](a, b)
    np.testing.assert_allclose(run(name, a, b), expected, rtol=5e-7)


@pytest.mark.parametrize("dtype", ["int32", "int64", "int8"])
def test_integers_divide_without_traps(run, dtype):
    least = np.iinfo(dtype).min
    a, b = np.array([5, -5, least, 7, -7], dtype), np.array([0, 0, -1, -2, 2], dtype)
    np.testing.assert_array_equal(run("FloorDiv", a, b), np.array([0, 0, least, -4, -4], dtype))
    np.testing.assert_array_equal(run("Mod", a, b), np.array([0, 0, 0, -1, 1], dtype))


def test_powers_of_integers(run):
    a = np.array([2, -3, 0, 1, -1, 5], np.int32)
    b = np.array([10, 3, 0, -4, -3, -1], np.int32)
    np.testing.assert_array_equal(run("Pow", a, b), np.int32([1024, -27, 1, 1, -1, 0]))


def test_bools_compare_and_combine(run):
    a, b = np.array([False, False, True, True]), np.array([False, True, False, True])
    for name, reference in COMPARISON_KERNELS.items():
        np.testing.assert_array_equal(run(name, a, b), reference(a, b))
    np.testing.assert_array_equal(run("LogicalAnd", a, b), a & b)
    np.testing.assert_array_equal(run("LogicalOr", a, b), a | b)
    np.testing.assert_array_equal(run("LogicalXor", a, b), a ^ b)
    np.testing.assert_array_equal(run("LogicalNot", a), ~a)


BROADCAST_SHAPES = [
    ((5,), ()),
    ((), (5,)),
    ((), ()),
    ((4, 5), (5,)),
    ((5,), (4, 5)),
    ((4, 5), (4, 1)),
    ((4, 1), (1, 5)),
    ((2, 1, 4, 1), (3, 1, 5)),
    ((2, 3, 4), (2, 1, 4)),
    ((1, 1), (3,)),
    ((0, 3), (3,)),
    ((2, 0), (1, 1)),
    ((1, 3, 1, 5, 1), (2, 1, 4, 1, 6)),
]


@pytest.mark.parametrize(("a_shape", "b_shape"), BROADCAST_SHAPES)
def test_binary_kernels_broadcast(run, rng, a_shape, b_shape):
    a = np.asarray(rng.standard_normal(a_shape), np.float32)
    b = np.asarray(rng.standard_normal(b_shape), np.float32)
    np.testing.assert_array_equal(run("Sub", a, b), a - b)
    np.testing.assert_array_equal(run("Less", a, b), np.less(a, b))
    condition = np.asarray(a > 0)
    np.testing.assert_array_equal(run("Select", condition, a, b), np.where(condition, a, b))


@pytest.mark.parametrize("dtype", INTEGER_DTYPES)
def test_shifts_by_any_count(run, dtype):
    limits = np.iinfo(dtype)
    values = np.array([limits.min, limits.max, limits.max // 3, 1, 0], dtype)
    counts = np.array([0, 1, 7, 8, 31, 32, 63, 64, 100], dtype)
    a, b = np.meshgrid(values, counts)
    np.testing.assert_array_equal(run("RightShift", a, b), np.right_shift(a, b))
    np.testing.assert_array_equal(run("LeftShift", a, b), np.left_shift(a, b))


def test_gradients_and_sums_of_many(run, rng):
    a, b, c = rng.standard_normal((3, 7)).astype(np.float32)
    np.testing.assert_allclose(run("EluGrad", a, b), np.where(b >= 0, a, a * (b + 1)), rtol=1e-6)
    np.testing.assert_allclose(run("Prelu", a, b), np.where(a > 0, a, a * b), rtol=1e-6)
    np.testing.assert_allclose(run("AddN", a, b, c), a + b + c, rtol=1e-6)
    np.testing.assert_array_equal(run("AddN", a), a)


@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 255, 256, 257, 1003])
def test_gelu_of_an_element_does_not_depend_on_its_place(run, rng, count):
    x = (4 * rng.standard_normal(2000)).astype(np.float32)
    x[:9] = [0, -0.0, INF, -INF, NAN, 14.6, -14.6, 1e-40, -1e-40]
    dy = rng.standard_normal(2000).astype(np.float32)
    y, dx = run("Gelu", x), run("GeluGrad", dy, x)
    for part in (slice(count), slice(2, 2 + count)):
        np.testing.assert_array_equal(run("Gelu", x[part]).view("i4"), y[part].view("i4"))
        found = run("GeluGrad", dy[part], x[part])
        np.testing.assert_array_equal(found.view("i4"), dx[part].view("i4"))
        found = run("GeluGrad", np.float32(1.5), x[part])
        expected = run("GeluGrad", np.full(count, 1.5, np.float32), x[part])
        np.testing.assert_array_equal(found, expected)
    finite = x[np.isfinite(x)].astype(float)
    reference = finite * (1 + erf(finite / math.sqrt(2))) / 2
    np.testing.assert_allclose(y[np.isfinite(x)], reference, rtol=2e-5, atol=1e-6)


def test_operands_that_are_views_are_read_where_they_are(run, rng):
    x, row = rng.normal(size=(6, 400, 300)), rng.normal(size=(400, 300))
    cases = [
        (x[1:5, 7:, :299], "Slice", {"begin": (1, 7, 0), "size": (4, 393, 299), "drop": ()}),
        (x.transpose(1, 0, 2), "Transpose", {"perm": (1, 0, 2)}),
        (x.transpose(2, 1, 0), "Transpose", {"perm": (2, 1, 0)}),
        (x[::-1, :, ::-1], "Reverse", {"dims": (0, 2)}),
    ]
    whole = run.put(x)
    for expected, kernel, attributes in cases:
        part = run.functions[kernel](whole, **attributes)
        other = run.put(expected)
        for operands in ((part, other), (other, part), (part, part)):
            y = run.functions["Sub"](*operands)
            np.testing.assert_array_equal(run.get(y), np.zeros(expected.shape))
        y = run.functions["Sub"](part, run.put(np.float64(3)))
        np.testing.assert_array_equal(run.get(y), expected - 3)
    wide = run.functions["BroadcastTo"](run.put(row), shape=x.shape)
    for operands, expected in (((wide, whole), row - x), ((whole, wide), x - row)):
        np.testing.assert_array_equal(run.get(run.functions["Sub"](*operands)), expected)
    spread = run.functions["BroadcastTo"](run.put(np.float64(2)), shape=x.shape)
    np.testing.assert_array_equal(run.get(run.functions["Sub"](spread, whole)), 2 - x)
    np.testing.assert_array_equal(run.get(run.functions["Sub"](spread, spread)), np.zeros(x.shape))


def test_results_have_the_order_of_transposed_operands_in_memory(run, rng):
    x = rng.normal(size=(40, 50, 60))
    turned = run.functions["Transpose"](run.put(x), perm=(2, 0, 1))
    expected, row = x.transpose(2, 0, 1), x[0, :, 0]
    for y, values in (
        (run.functions["Neg"](turned), -expected),
        (run.functions["Add"](turned, turned), 2 * expected),
        (run.functions["Sub"](run.put(np.float64(1)), turned), 1 - expected),
        (run.functions["Multiply"](turned, run.put(row)), expected * row),
        (run.functions["Less"](turned, run.put(np.float64(0))), expected < 0),
    ):
        assert y.shape == values.shape
        assert y.strided_view.strides == (1, 3000, 60)
        again = run.functions["Transpose"](y, perm=(1, 2, 0))
        np.testing.assert_array_equal(run.get(again), values.transpose(1, 2, 0))
        np.testing.assert_array_equal(run.get(y), values)
    part = run.functions["Slice"](turned, begin=(1, 0, 0), size=(59, 40, 50), drop=())
    np.testing.assert_array_equal(run.get(run.functions["Neg"](part)), -expected[1:])


def test_calls_that_break_the_contract_raise(run):
    x, n = np.zeros(3, np.float32), np.zeros(3, np.int32)
    with pytest.raises(DTypeError):
        run("Add", x, n)
    with pytest.raises(DTypeError):
        run("Select", np.zeros(3, bool), x, n)
    with pytest.raises(ShapeError):
        run("Add", x, np.zeros(4, np.float32))
    with pytest.raises(UnsupportedDtype, match="sin for int32"):
        run("Sin", n)
    with pytest.raises(UnsupportedDtype, match="add for bool"):
        run("Add", np.zeros(3, bool), np.zeros(3, bool))


def test_an_input_is_not_changed(run, rng):
    x = run.put(rng.standard_normal(50).astype(np.float32))
    before = run.get(x)
    for name in UNARY_FUNCTIONS:
        run.functions[name](x)
    assert x.dtype is float32
    np.testing.assert_array_equal(run.get(x), before)


# --- float16 is stored in 16 bits and computed in float32 ---

ALL_FLOAT16_VALUES = np.arange(2**16, dtype=np.uint16).view(np.float16)  # all there are


def test_every_half_is_converted_to_float32(run):
    np.testing.assert_array_equal(
        run("Cast", ALL_FLOAT16_VALUES, dtype="float32"), ALL_FLOAT16_VALUES.astype("float32")
    )
    np.testing.assert_array_equal(
        run("Cast", ALL_FLOAT16_VALUES, dtype="float64"), ALL_FLOAT16_VALUES.astype("float64")
    )


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("source", ["float32", "float64"])
def test_narrowing_rounds_half_to_even(run, source):
    """Cases include midpoints of two half-precision numbers, their neighbours, and numbers out of range."""
    finite = np.sort(ALL_FLOAT16_VALUES[np.isfinite(ALL_FLOAT16_VALUES)].astype(np.float64))
    between = (finite[1:] + finite[:-1]) / 2
    far = [65519.99, 65520, 65536, 1e30, -1e300, 2.0**-25, 2.0**-26, INF, -INF, NAN]
    near = np.concatenate([finite, between, far]).astype(source)
    ends = np.array([-INF, INF], source)
    x = np.concatenate([near, *np.nextafter(near, ends[:, None])])
    y = run("Cast", x, dtype="float16")
    np.testing.assert_array_equal(y, x.astype(np.float16))
    zeros = y == 0
    np.testing.assert_array_equal(np.signbit(y[zeros]), np.signbit(x[zeros]))


@pytest.mark.parametrize("name", ["Neg", "Square", "Sqrt", "Floor", "Ceil", "Sign", "Relu"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_functions_of_all_halves(run, name):
    reference = UNARY_FUNCTIONS[name][0] if name in UNARY_FUNCTIONS else lambda x: np.maximum(x, 0)
    expected = reference(ALL_FLOAT16_VALUES.astype(np.float64)).astype(np.float16)
    np.testing.assert_array_equal(run(name, ALL_FLOAT16_VALUES), expected)


@pytest.mark.parametrize(
    ("name", "function"), [("Add", np.add), ("Sub", np.subtract), ("Multiply", np.multiply)]
)
@pytest.mark.parametrize("greatest", [INF, 8.0, 2e-2, 1e-6])
def test_vectors_of_halves_are_rounded_once(run, rng, name, function, greatest):
    # Eight at a time take a short way if all are finite, and no product is denormal.
    halves = np.arange(1 << 16, dtype="u2").view("f2")
    halves = halves[~(np.abs(halves) > greatest)][3:]
    a, b = rng.permutation(halves), rng.permutation(halves)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(run(name, a, b), function(a, b))
        for constant in np.float16([0.5, 3, -1e-4, 6e-8, INF, NAN]):
            found = run(name, constant[None], b), run(name, b, constant[None])
            np.testing.assert_array_equal(found[0], function(constant, b))
            np.testing.assert_array_equal(found[1], function(b, constant))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["Exp", "Sigmoid", "Silu", "Softplus", "Log1p"])
def test_bits_do_not_depend_on_neighbouring_elements(run, name, dtype):
    x = [0.5, -3, 20, 300, -0.0, 1e-42, 88.5, -0.25, 1, -90, NAN, 1.5, INF, 7, -7, 0.1, -709, 720]
    x = np.tile(np.array(x, dtype), 9)
    alone = np.concatenate([run(name, x[i : i + 1]) for i in range(len(x))])
    for first in range(5):
        np.testing.assert_array_equal(run(name, x[first:]), alone[first:])
    near = np.abs(x) < 10
    np.testing.assert_array_equal(run(name, x[near]), alone[near])


def test_log1p_of_the_largest_numbers(run):
    x = np.float32([3e38, 1.9e38, 1.7e38, 1e30, 2.0**24, 2.0**25, 3.4028235e38])
    np.testing.assert_allclose(run("Log1p", x), np.log1p(x.astype("f8")), 2e-7)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_binary_functions_of_halves(run, rng):
    a, b = rng.permutation(ALL_FLOAT16_VALUES), rng.permutation(ALL_FLOAT16_VALUES)
    operations = {
        "Add": np.add,
        "Sub": np.subtract,
        "Multiply": np.multiply,
        "RealDiv": np.divide,
        "NextAfter": np.nextafter,
    }
    for name, reference in (*operations.items(), *COMPARISON_KERNELS.items()):
        np.testing.assert_array_equal(run(name, a, b), reference(a, b))
        np.testing.assert_array_equal(run(name, a, b[:1]), reference(a, b[:1]))
        rows = a.reshape(-1, 64)
        np.testing.assert_array_equal(run(name, rows, b[:64]), reference(rows, b[:64]))


HALF_DTYPES = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
BINARY_FUNCTIONS = {
    "Add": np.add,
    "Sub": np.subtract,
    "Multiply": np.multiply,
    "RealDiv": np.divide,
    "Maximum": lambda a, b: np.where((a > b) | (a != a), a, b),
    "Minimum": lambda a, b: np.where((a < b) | (a != a), a, b),
}


def assert_same_numbers(y, expected):
    """Raise unless arrays are equal; NaN equals NaN, and -0 differs from 0."""
    is_nan = expected != expected
    np.testing.assert_array_equal(y != y, is_nan)
    np.testing.assert_array_equal(y.view("u2")[~is_nan], expected.view("u2")[~is_nan])


@pytest.mark.filterwarnings("ignore:.* encountered in:RuntimeWarning")
@pytest.mark.parametrize("dtype", HALF_DTYPES)
@pytest.mark.parametrize("name", BINARY_FUNCTIONS)
def test_pairs_of_halves_are_rounded_float_results(run, rng, name, dtype):
    kind = HALF_DTYPES[dtype]
    limits = ml_dtypes.finfo(kind)
    special = [0, -0.0, 1, -1, INF, -INF, NAN, -NAN, limits.max, limits.min, limits.tiny]
    special += [limits.smallest_subnormal, -float(limits.smallest_subnormal), 3]
    some = np.array(special, np.float64).astype(kind)
    every = np.arange(2**16, dtype=np.uint16).view(kind)

    def check(a, b):
        reference = BINARY_FUNCTIONS[name](a.astype(np.float32), b.astype(np.float32)).astype(kind)
        assert_same_numbers(run(name, a, b), reference)

    for number in some:
        check(every, number)
        check(number, every)
    check(*(x.ravel() for x in np.meshgrid(some, some)))
    check(every, rng.permutation(every))
    usual = rng.normal(size=(2, 50_001)).astype(kind)
    check(*usual)
    for count in (0, 1, 7, 8, 9, 100):
        check(*usual[:, :count])
        check(usual[0, :count], usual[1, 0])
        check(usual[0, 0], usual[1, :count])
    rows = usual[:, :700].reshape(2, 100, 7)
    check(rows[0], rows[1, 0])
    check(rows[0, :, :1], rows[1])


@pytest.mark.filterwarnings("ignore:.* encountered in:RuntimeWarning")
@pytest.mark.parametrize("dtype", HALF_DTYPES)
@pytest.mark.parametrize(
    ("name", "function"),
    [("Sqrt", np.sqrt), ("Relu", lambda x: np.where(x <= 0, np.float32(0), x))],
)
def test_functions_of_halves_are_rounded_float_results(run, name, function, dtype):
    every = np.arange(2**16, dtype=np.uint16).view(HALF_DTYPES[dtype])
    for count in (0, 1, 7, 8, 9, every.size):
        x = every[-count:] if count else every[:0]
        assert_same_numbers(run(name, x), function(x.astype(np.float32)).astype(x.dtype))


@pytest.mark.parametrize("dtype", HALF_DTYPES)
@pytest.mark.parametrize("name", ["Exp", "Sqrt", "Sigmoid", "Gelu", "Floor", "Softplus"])
def test_many_halves_have_the_bits_of_few(run, rng, name, dtype):
    # Of more than 2^18, the function is computed once for each of the 65,536 halves, and looked up.
    every = np.arange(2**16, dtype=np.uint16).view(HALF_DTYPES[dtype])
    few = run(name, every).view("u2")
    places = rng.integers(0, every.size, 2**18 + 5)
    np.testing.assert_array_equal(run(name, every[places]).view("u2"), few[places])


@pytest.mark.filterwarnings("ignore:.* encountered in:RuntimeWarning")
@pytest.mark.parametrize("number", [INF, -INF, NAN, 65520, 1e-7, 3e-5])
def test_narrowing_does_not_depend_on_neighbouring_special_values(run, rng, number):
    x = rng.normal(size=1001).astype("f4")
    x[::17] = number
    assert_same_numbers(run("Cast", x, dtype="float16"), x.astype("f2"))
