"""Functions of one tensor, element by element."""

import numpy as np
import pytest

import plugrad
from families.case import (
    REAL_AND_BOOL_DTYPES,
    REAL_DTYPES,
    Case,
    ErrorCase,
    cases_with_dtype,
    conformance_cases,
)
from families.domains import uniform
from plugrad.errors import ArgumentValueError, DTypeError, ShapeError, UnsupportedDtype

any_number = uniform(-3, 3)
EXTRA_CASES = [
    Case(
        plugrad.positive,
        np.positive,
        [any_number],
        dtypes=(*REAL_DTYPES, "complex64", "complex128"),
    ),
    Case(plugrad.clip, np.clip, [uniform(-3, 3, avoid=(1,))], attrs={"min": 1}, dtypes=REAL_DTYPES),
    Case(plugrad.clip, np.clip, [uniform(-3, 3, avoid=(1,))], attrs={"max": 1}, dtypes=REAL_DTYPES),
    Case(plugrad.clip, np.clip, [any_number], dtypes=REAL_DTYPES),
]
CASES = [*conformance_cases("unary"), *EXTRA_CASES]
CAST_CASES = [
    Case(
        plugrad.astype,
        lambda x, dtype: x.astype(dtype),
        [any_number],
        [shape],
        {"dtype": dtype},
        REAL_AND_BOOL_DTYPES,
        dtype,
        is_differentiable=dtype == "float64",  # others lose digits
    )
    for dtype in REAL_AND_BOOL_DTYPES
    for shape in ([(3, 5), (), (7, 1)] if dtype == "float64" else [(3, 5)])
]

SHAPES = [[(3, 5)], [(7,)], [()], [(1, 1)], [(0,)], [(2, 0, 3)]]
SPECIAL_VALUES = np.array([np.nan, np.inf, -np.inf, 0.0, 1.0, -1.0, 2.5, -2.5, 6.0], "float32")
LARGE_VALUES = np.array([-200, -100, -89, -60, -30, -15, 15, 30, 60, 89, 100, 200], "float32")
SMALL_VALUES = np.array([-1e-2, -3e-4, -1e-5, -1e-8, 1e-8, 1e-5, 3e-4, 1e-2], "float32")
OPS_TESTED_FOR_LARGE_VALUES = {  # they approach a limit, or leave the range of floats
    plugrad.exp,
    plugrad.expm1,
    plugrad.sinh,
    plugrad.cosh,
    plugrad.tanh,
    plugrad.erf,
    plugrad.atan,
    plugrad.asinh,
}
OPS_TESTED_FOR_SMALL_VALUES = {  # x, to first order: the relative error counts
    plugrad.expm1,
    plugrad.log1p,
    plugrad.sin,
    plugrad.tan,
    plugrad.asin,
    plugrad.atan,
    plugrad.sinh,
    plugrad.tanh,
    plugrad.asinh,
    plugrad.atanh,
    plugrad.erf,
}
# They have a meaning of their own: see test_complex.py and below.
REAL_OPS_FOR_COMPLEX_NUMBERS = {plugrad.abs, plugrad.sign, plugrad.round}


@pytest.mark.rows("case", CASES, ids=str)
def test_values(case, backend, rng):
    for shaped in case.expand_shapes(*SHAPES):
        shaped.check_values(rng, case.main_dtype)


@pytest.mark.rows("case", CASES, ids=str)
def test_values_of_other_dtypes(case, backend, rng):
    case.check_values_of_other_dtypes(rng)


@pytest.mark.rows("case", [c for c in CASES if c.converts_integers_to_floats], ids=str)
def test_whole_numbers_become_float32(case, backend, rng):
    whole = rng.integers(0, 4, (3, 5), "int32")
    with np.errstate(all="ignore"):
        result = case.op(plugrad.asarray(whole), **case.attrs)
        expected = case.reference(whole.astype("float64"), **case.attrs)
    (dtype,) = case.result_dtypes([whole.astype("float32")], "float32")
    case.compare(result, expected, dtype)


@pytest.mark.rows("case", CASES, ids=str)
def test_values_of_views(case, backend, rng):
    case.check_values_of_views(rng, case.main_dtype)


@pytest.mark.rows("case", [c for c in cases_with_dtype(CASES) if c.is_special], ids=str)
def test_special_values(case, backend):
    case.check_special_values(SPECIAL_VALUES)


@pytest.mark.rows("case", [c for c in CASES if c.op in OPS_TESTED_FOR_LARGE_VALUES], ids=str)
def test_large_arguments(case, backend):
    case.check_values_of_arrays([LARGE_VALUES])


@pytest.mark.rows("case", [c for c in CASES if c.op in OPS_TESTED_FOR_SMALL_VALUES], ids=str)
def test_small_arguments(case, backend):
    result = case.op(plugrad.asarray(SMALL_VALUES)).numpy()
    np.testing.assert_allclose(result, case.reference(SMALL_VALUES.astype("float64")), rtol=2e-6)


def test_many_elements(backend, rng):
    Case(plugrad.tanh, np.tanh, [uniform(-3, 3)], shapes=[(70_001,)]).check_values(rng)


UNUSUAL_VALUES = [
    *(np.nan, np.inf, -np.inf, -0.0, 1e-45, 1e30, -1e30, -7268322.0, -12582912.0),
    *(
        16.5,
        -16.5,
        22.4,
        -22.4,
        44.4,
        -44.4,
        86.9,
        -86.9,
        87.1,
        88.7,
        88.8,
        -87.4,
        -88.1,
        -103.2,
        -104.5,
    ),
]
"""Where the ways to compute exp change, and beyond: 2**n is normal up to 88.7, and not below -87.3."""


@pytest.mark.rows("unusual", UNUSUAL_VALUES)
def test_exp_of_one_unusual_number_among_others(unusual, backend, rng):
    rows = np.tile(rng.uniform(-8, 8, 36).astype("float32"), (36, 1))
    np.fill_diagonal(rows, unusual)  # at every place of a vector
    with np.errstate(over="ignore"):
        expected = np.exp(rows.astype("float64")).astype("float32")
    for x, right in [(rows, expected), *zip(rows, expected, strict=True)]:
        found = plugrad.exp(plugrad.asarray(x)).numpy()
        np.testing.assert_allclose(found, right, rtol=5e-7, atol=2e-38)  # denormals may be 0


def test_signs_that_comparisons_do_not_see(backend):
    x = np.array([0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf], "float32")
    assert plugrad.signbit(plugrad.asarray(x)).tolist() == np.signbit(x).tolist()


def test_rounding_keeps_the_sign_of_0(backend):
    x = plugrad.asarray([-0.3, -0.0, 0.3])
    for op in (plugrad.trunc, plugrad.round):
        assert plugrad.signbit(op(x)).tolist() == [True, True, False]


def test_logarithms_of_powers(backend):
    x = 2.0 ** np.arange(-126, 128).astype("float32")
    assert plugrad.log2(plugrad.asarray(x)).tolist() == list(range(-126, 128))
    assert plugrad.log10([1.0, 1e2, 1e5, 1e10]).numpy() == pytest.approx([0, 2, 5, 10], rel=2e-7)


@pytest.mark.parametrize(("op", "reference"), [(plugrad.log2, np.log2), (plugrad.log10, np.log10)])
def test_logarithms_of_tiny_and_huge_numbers(op, reference, backend):
    x = np.array([1.2e-38, 3e-20, 0.9999999, 1.0000001, 1e20, 3e38], "float32")
    result = op(plugrad.asarray(x)).numpy()
    np.testing.assert_allclose(result, reference(x.astype("float64")), rtol=1e-6)


@pytest.mark.parametrize(("op", "reference"), [(plugrad.log2, np.log2), (plugrad.log10, np.log10)])
def test_logarithms_of_denormal_doubles(op, reference, backend):
    require_dtypes(backend, "float64")
    x = np.array([5.8e-309, 1.98241424e-316, 9e-320, 5e-324])
    np.testing.assert_allclose(op(plugrad.asarray(x)), reference(x), rtol=4e-16)


def test_halves_are_rounded_to_even(backend):
    x = plugrad.asarray([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.5])
    assert plugrad.round(x).tolist() == [-2, -2, 0, 0, 2, 2, 4]


def test_both_parts_of_a_complex_number_are_rounded():
    x = np.array([0.5 + 1.5j, -2.6 - 0.4j, np.nan + 3.2j], "complex64")
    rounded = plugrad.round(plugrad.asarray(x, device="cpu"))
    np.testing.assert_array_equal(rounded.numpy(), np.round(x))
    gradient = plugrad.grad(lambda z: plugrad.sum(plugrad.real(plugrad.round(z) * z)))
    np.testing.assert_array_equal(gradient(plugrad.asarray(x[:2])).numpy(), np.round(x[:2]).conj())


@pytest.mark.rows("case", CAST_CASES, ids=str)
def test_astype(case, backend):
    has = plugrad.which().backend.dtypes()
    if case.result not in has:
        with pytest.raises(
            UnsupportedDtype, match=f"{backend}.*does not have {case.result}.*dtype=.*cpu"
        ):
            plugrad.astype([1.0], case.result)
        return
    x = np.array([0, 0.3, 1, 2.7] if "u" in case.result else [-2.7, -1, -0.3, 0, 0.3, 1, 2.7])
    for source in REAL_AND_BOOL_DTYPES:
        if source in has:
            case.check_values_of_arrays([x.astype(source)], source)


def test_astype_returns_another_tensor(backend):
    x = plugrad.asarray([1.5])
    assert plugrad.astype(x, "float32", copy=False).array is x.array
    copied = plugrad.astype(x, "float32")
    x.dispose()
    assert copied.tolist() == [1.5]


def test_astype_to_another_device(backend):
    """Only one of the two devices needs to support the dtype."""
    x = plugrad.asarray([1.5, -2.5])
    moved = plugrad.astype(x, "float64", device="cpu")
    assert (moved.dtype, moved.device, moved.tolist()) == ("float64", "cpu:0", [1.5, -2.5])
    back = plugrad.astype(moved, "float32", device=backend)
    assert (back.dtype, back.device, back.tolist()) == ("float32", f"{backend}:0", [1.5, -2.5])
    gradient = plugrad.grad(lambda x: plugrad.astype(x, "float64", device="cpu").sum())(x)
    assert (gradient.dtype, gradient.device, gradient.tolist()) == (
        "float32",
        f"{backend}:0",
        [1, 1],
    )


def test_astype_of_complex_numbers():
    with plugrad.use("cpu"):
        x = plugrad.asarray([0, 1j, 2])
        assert x.astype("bool").tolist() == [False, True, True]
        assert x.astype("complex128").dtype == "complex128"
        for dtype in ("float32", "int32"):
            with pytest.raises(
                DTypeError, match=rf"complex64 does not become {dtype}.*plugrad\.real"
            ):
                x.astype(dtype)


INTEGER_DTYPES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


def cast_to_integer(value, dtype):
    """Return the integer of a dtype to which a float is cast: it saturates, and NaN becomes 0."""
    limits = np.iinfo(dtype)
    if np.isnan(value):
        return 0
    if np.isinf(value):
        return limits.max if value > 0 else limits.min
    return min(max(int(value), limits.min), limits.max)


def require_dtypes(backend, *dtypes):
    missing = set(dtypes) - set(plugrad.which().backend.dtypes())
    if missing:
        pytest.skip(f"{backend} does not have {' and '.join(sorted(missing))}")


@pytest.mark.rows("dtype", INTEGER_DTYPES)
@pytest.mark.parametrize("source", ["float16", "float32", "float64"])
def test_floats_saturate_at_the_limits_of_integers(source, dtype, backend):
    require_dtypes(backend, source, dtype)
    limits = np.iinfo(dtype)
    edges = [float(n + d) for n in (limits.min, limits.max) for d in (-129, -1, 0, 1, 129)]
    large = [np.nan, np.inf, -np.inf, 1e30, -1e30, 2147483520.0, 2147483648.0, -2147483904.0]
    small = [0.0, -0.0, 0.9, -0.9, 1.5, -1.5, 127.9, -128.9]
    with np.errstate(over="ignore"):
        x = np.array([*large, *edges, *small], source)
    for values in (x, x[:1], x[5:], np.tile(x, 50).reshape(50, -1), x[3], x[:0]):
        result = plugrad.asarray(values).astype(dtype)
        expected = [cast_to_integer(value, dtype) for value in values.ravel()]
        assert (result.dtype, result.shape) == (dtype, values.shape)
        assert result.numpy().ravel().tolist() == expected


@pytest.mark.parametrize("dtype", INTEGER_DTYPES)
@pytest.mark.rows("source", INTEGER_DTYPES)
def test_integers_wrap_around_in_another_integer_dtype(source, dtype, backend):
    require_dtypes(backend, source, dtype)
    limits = np.iinfo(source)
    x = np.array([limits.min, limits.max, limits.max // 3, 0, 1, 100], source)
    assert plugrad.asarray(x).astype(dtype).tolist() == x.astype(dtype).tolist()


@pytest.mark.parametrize("source", ["float16", "float32", "float64"])
def test_every_float_but_0_becomes_true(source, backend):
    require_dtypes(backend, source)
    x = np.array([np.nan, np.inf, -np.inf, 0.5, -6e-5, 0.0, -0.0], source)
    assert plugrad.asarray(x).astype("bool").tolist() == [True] * 5 + [False] * 2


def test_the_kernel_takes_the_real_part_of_complex_numbers():
    with plugrad.use("cpu"):
        x = plugrad.asarray(np.array([2.7 + 9j, np.nan, -1e30 + 1j, 300], "complex64"))
        for dtype, expected in [("uint8", [2, 0, 0, 255]), ("bool", [True] * 4)]:
            result = plugrad.run_kernel("Cast", {"x": x}, {"dtype": plugrad.as_dtype(dtype)})
            assert result.tolist() == expected


def rejects_complex(case):
    accepts = case.dtypes if case.kernel is None else case.kernel.accepts
    return "complex64" not in accepts and case.op not in REAL_OPS_FOR_COMPLEX_NUMBERS


@pytest.mark.rows("case", [c for c in cases_with_dtype(CASES) if rejects_complex(c)], ids=str)
def test_complex_numbers_are_refused(case, rng):
    """Only the cpu supports complex numbers."""
    with plugrad.use("cpu"):
        x = plugrad.asarray(any_number.draw(rng, (3, 5), "complex64"))
        with pytest.raises(DTypeError, match="complex64"):
            case.op(x, **case.attrs)


@pytest.mark.rows("case", [c for c in CASES if c.is_differentiable], ids=str)
def test_gradient(case, backend, rng):
    case.check_gradient(rng, backend)


def test_gradient_of_abs_at_0(backend):
    assert plugrad.grad(plugrad.abs)(plugrad.asarray(0.0)).item() == 0


def test_gradient_of_astype_between_floats(backend):
    if "float64" not in plugrad.which().backend.dtypes():
        pytest.skip(f"{backend} has no float64")
    x = plugrad.asarray([1.5, 2.5])
    gradient = plugrad.grad(lambda x: plugrad.sum(x.astype("float64") ** 2))(x)
    assert (gradient.dtype, gradient.tolist()) == ("float32", [3, 5])
    first = plugrad.grad(lambda x: plugrad.sum(x.astype("float64") ** 3))
    second = plugrad.grad(lambda x: plugrad.sum(first(x)))(x)
    assert (second.dtype, second.tolist()) == ("float32", [9, 15])


def test_gradient_of_astype_to_whole_numbers(backend):
    x = plugrad.asarray([1.5, 2.5])
    assert plugrad.grad(lambda x: plugrad.sum(x * x.astype("int32")))(x).tolist() == [1, 2]


ERROR_CASES = [
    ErrorCase(lambda: plugrad.logical_not(["a"]), DTypeError, ["logical_not", "string", "bool"]),
    ErrorCase(lambda: plugrad.abs([True]), DTypeError, ["abs", "bool", "float32", "astype"]),
    ErrorCase(
        lambda: plugrad.clip([1.0], 2, 1),
        ArgumentValueError,
        ["clip", "min=2", "max=1", "swap"],
    ),
    ErrorCase(
        lambda: plugrad.run_kernel(
            "ClipByValue", {"x": plugrad.ones(2)}, {"clip_value_min": 2, "clip_value_max": 1}
        ),
        ArgumentValueError,
        ["ClipByValue", "clip_value_min=2", "clip_value_max=1"],
    ),
    ErrorCase(
        lambda: plugrad.clip([1, 2], 0.5, 2),
        DTypeError,
        ["clip", "int32", "min", "float32", "astype"],
    ),
    ErrorCase(
        lambda: plugrad.clip(plugrad.zeros((3,)), max=plugrad.zeros((2,))),
        ShapeError,
        ["(3,)", "(2,)", "do not broadcast"],
    ),
    ErrorCase(lambda: plugrad.astype([1.0], "real"), DTypeError, ["'real'", "choose one of"]),
]


@pytest.mark.rows("error_case", ERROR_CASES, ids=str)
def test_bad_input(error_case, backend):
    error_case.check()
