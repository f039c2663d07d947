"""plugrad answers as array-api-strict does: values, shapes and dtypes, wherever the standard decides.

What array-api-strict refuses is open in the standard, and not compared.
"""

from itertools import product
from operator import attrgetter

import array_api_strict as standard
import numpy as np
import pytest

import plugrad
from consistency.test_array_api import FUNCTIONS, label

pytestmark = pytest.mark.filterwarnings("ignore")  # NumPy's, for special values on purpose
FIRST = np.random.default_rng(0).normal(size=(3, 4)) * 2
INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
FLOATS = ["float32", "float64"]
DTYPES = ["bool", *INTEGERS, *FLOATS, "complex64", "complex128"]
# array-api-strict's default dtypes have 64 bits.
DEFAULTS = {"int64": "int32", "uint64": "uint32", "float64": "float32", "complex128": "complex64"}
UNARY = (
    *("abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "bitwise_invert", "ceil", "conj"),
    *("cos", "cosh", "exp", "expm1", "floor", "imag", "isfinite", "isinf", "isnan", "log", "log1p"),
    *("log2", "log10", "logical_not", "negative", "positive", "real", "reciprocal", "round"),
    *("sign", "signbit", "sin", "sinh", "square", "sqrt", "tan", "tanh", "trunc"),
)
BINARY = (
    *("add", "atan2", "bitwise_and", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift"),
    *("bitwise_xor", "copysign", "divide", "equal", "floor_divide", "greater", "greater_equal"),
    *("hypot", "less", "less_equal", "logaddexp", "logical_and", "logical_or", "logical_xor"),
    *("maximum", "minimum", "multiply", "nextafter", "not_equal", "pow", "remainder", "subtract"),
)
REDUCTIONS = ("all", "any", "max", "min", "mean", "prod", "sum", "std", "var", "count_nonzero")
WITH_DEFAULT_DTYPE = {
    *("sum", "prod", "cumulative_sum", "cumulative_prod", "count_nonzero", "argmax", "argmin"),
    *("argsort", "nonzero", "searchsorted", "unique_all", "unique_counts", "unique_inverse"),
    *("linalg.trace", "linalg.matrix_rank", "arange", "linspace", "eye", "empty", "full", "ones"),
    *("zeros", "fft.fftfreq", "fft.rfftfreq"),
}


def elements(dtype, shape=(3, 4)):
    """Return numbers of a dtype: few, small ones of both signs, if it has any."""
    values = np.resize(FIRST, shape)
    if dtype.startswith("complex"):
        return (values + 1j * np.flip(values)).astype(dtype)
    return np.abs(values).astype(dtype) if dtype.startswith("u") else values.astype(dtype)


def square(x):
    return x[:, :3]


def definite(x):
    return (square(x) @ square(x).conj().T + 3 * np.eye(3)).astype(x.dtype)


def hermitian(x):
    return (square(x) + square(x).conj().T).astype(x.dtype)


def in_order(x):
    return np.sort(x.ravel())


def calls(*argument_lists, keywords=({},)):
    """Return how to call a function for an array: with each list of arguments, and each of keywords."""
    return argument_lists, keywords


ROWS = [{}, {"axis": 0}, {"axis": -1}, {"axis": (0, 1)}, {"axis": 1, "keepdims": True}]
SUMS = [*ROWS, {"keepdims": True}, {"dtype": "float64"}, {"dtype": "int64", "axis": 0}]
SCANS = [{"axis": 0}, {"axis": 1, "include_initial": True}, {"axis": -1, "dtype": "float64"}]
SORTS = [{}, {"axis": 0}, {"descending": True}]
ORDERS = [{}, {"ord": 1, "axis": 0}, {"ord": np.inf, "keepdims": True}, {"ord": 0, "axis": (0, 1)}]
NORMS = [{}, {"ord": "nuc"}, {"ord": 2, "keepdims": True}, {"ord": -1}, {"ord": np.inf}]
TRANSFORMS = [{}, {"n": 6, "axis": 0, "norm": "ortho"}, {"n": 2, "norm": "forward"}]
GRIDS = [{}, {"s": (2, 6), "axes": (0, 1)}, {"axes": (1,), "norm": "ortho"}]
OF_ONE = {
    **dict.fromkeys(REDUCTIONS, calls(lambda x: [x], keywords=ROWS)),
    **dict.fromkeys(("sum", "prod"), calls(lambda x: [x], keywords=SUMS)),
    **dict.fromkeys(
        ("std", "var"), calls(lambda x: [x], keywords=[*ROWS, {"correction": 1.0, "axis": 0}])
    ),
    **dict.fromkeys(
        ("argmax", "argmin"), calls(lambda x: [x], keywords=[{}, {"axis": 0, "keepdims": True}])
    ),
    **dict.fromkeys(("cumulative_sum", "cumulative_prod"), calls(lambda x: [x], keywords=SCANS)),
    **dict.fromkeys(("sort", "argsort"), calls(lambda x: [x], keywords=SORTS)),
    **dict.fromkeys(("tril", "triu"), calls(lambda x: [x], keywords=[{}, {"k": 1}, {"k": -2}])),
    **dict.fromkeys(("zeros_like", "ones_like"), calls(lambda x: [x])),
    **dict.fromkeys(
        ("unique_all", "unique_counts", "unique_inverse", "unique_values", "nonzero"),
        calls(lambda x: [x]),
    ),
    **dict.fromkeys(("fft.fft", "fft.ifft", "fft.rfft"), calls(lambda x: [x], keywords=TRANSFORMS)),
    **dict.fromkeys(
        ("fft.irfft", "fft.hfft", "fft.ihfft"), calls(lambda x: [x], keywords=TRANSFORMS)
    ),
    **dict.fromkeys(
        ("fft.fftn", "fft.ifftn", "fft.rfftn", "fft.irfftn"), calls(lambda x: [x], keywords=GRIDS)
    ),
    **dict.fromkeys(
        ("fft.fftshift", "fft.ifftshift"), calls(lambda x: [x], keywords=[{}, {"axes": 1}])
    ),
    **dict.fromkeys(
        ("matmul", "linalg.matmul"),
        calls(lambda x: [x, x.T.copy()], lambda x: [x[0], x[1]], lambda x: [x[None], x.T.copy()]),
    ),
    **dict.fromkeys(
        ("tensordot", "linalg.tensordot"),
        calls(lambda x: [x, x], keywords=[{}, {"axes": ((0, 1), (0, 1))}, {"axes": 0}]),
    ),
    **dict.fromkeys(
        ("vecdot", "linalg.vecdot"), calls(lambda x: [x, x], keywords=[{}, {"axis": -2}])
    ),
    **dict.fromkeys(("matrix_transpose", "linalg.matrix_transpose"), calls(lambda x: [x])),
    **dict.fromkeys(("linalg.det", "linalg.slogdet"), calls(lambda x: [square(x)])),
    "broadcast_arrays": calls(lambda x: [x, x[:, :1]]),
    "broadcast_to": calls(lambda x: [x, (2, 3, 4)]),
    "clip": calls(lambda x: [x], keywords=[{"min": 0, "max": 2}, {"min": 1}, {"max": 1}]),
    "concat": calls(lambda x: [[x, x]], keywords=[{}, {"axis": None}, {"axis": -1}]),
    "diff": calls(lambda x: [x], keywords=[{}, {"n": 2, "axis": 0}]),
    "expand_dims": calls(lambda x: [x], keywords=[{"axis": -1}, {"axis": 0}]),
    "flip": calls(lambda x: [x], keywords=[{}, {"axis": (0, -1)}]),
    "full_like": calls(lambda x: [x, 1]),
    "meshgrid": calls(lambda x: [x[0], x[:, 0]], keywords=[{}, {"indexing": "ij"}]),
    "moveaxis": calls(lambda x: [x, 0, 1], lambda x: [x[None], (0, 1), (-1, 0)]),
    "permute_dims": calls(lambda x: [x, (1, 0)]),
    "repeat": calls(lambda x: [x, 2], lambda x: [x, 0], keywords=[{}, {"axis": 1}]),
    "reshape": calls(lambda x: [x, (2, -1)], keywords=[{}, {"copy": True}]),
    "roll": calls(lambda x: [x, 1], keywords=[{}, {"axis": -1}]),
    "searchsorted": calls(
        lambda x: [in_order(x), x], keywords=[{}, {"side": "right"}, {"sorter": np.arange(12)}]
    ),
    "squeeze": calls(lambda x: [x[None, :, None], (0, 2)]),
    "stack": calls(lambda x: [[x, x]], keywords=[{}, {"axis": -1}]),
    "take": calls(lambda x: [x, np.array([0, 2, -1])], keywords=[{"axis": 0}, {"axis": 1}]),
    "take_along_axis": calls(lambda x: [x, np.array([[0], [2], [1]])]),
    "tile": calls(lambda x: [x, (2, 1)], lambda x: [x, (2,)], lambda x: [x, (2, 1, 1)]),
    "unstack": calls(lambda x: [x], keywords=[{}, {"axis": -1}]),
    "where": calls(lambda x: [x == x[0], x, x[:1]]),
    "linalg.cholesky": calls(lambda x: [definite(x)], keywords=[{}, {"upper": True}]),
    "linalg.cross": calls(lambda x: [square(x), square(x)[::-1].copy()]),
    "linalg.diagonal": calls(lambda x: [x], keywords=[{}, {"offset": -1}]),
    "linalg.eigvalsh": calls(lambda x: [hermitian(x)]),
    "linalg.inv": calls(lambda x: [definite(x)]),
    "linalg.matrix_norm": calls(lambda x: [x], keywords=NORMS),
    "linalg.matrix_power": calls(*(lambda x, n=n: [definite(x), n] for n in (0, 3, -2))),
    "linalg.matrix_rank": calls(lambda x: [x], keywords=[{}, {"rtol": 0.5}]),
    "linalg.outer": calls(lambda x: [x[0], x[1]]),
    "linalg.pinv": calls(lambda x: [x], keywords=[{}, {"rtol": 0.5}]),
    "linalg.solve": calls(lambda x: [definite(x), x], lambda x: [definite(x), x[:, 0]]),
    "linalg.svdvals": calls(lambda x: [x]),
    "linalg.trace": calls(lambda x: [x], keywords=[{}, {"offset": 1}, {"dtype": "float64"}]),
    "linalg.vector_norm": calls(lambda x: [x], keywords=ORDERS),
}
OF_NONE = {
    "arange": [((5,), {}), ((1, 5, 2), {}), ((5, 1, -2), {}), ((1.0, 3.0, 0.5), {})],
    "linspace": [((0, 1, 5), {}), ((0, 1, 5), {"endpoint": False}), ((0, 1j, 3), {})],
    "eye": [((3,), {}), ((3, 4), {"k": 1}), ((3, 4), {"k": -5, "dtype": "int8"})],
    "full": [(((2, 3), value), {}) for value in (1, 1.5, True, 1j)],
    "ones": [((3,), {}), (((),), {"dtype": "bool"})],
    "zeros": [(((2, 3),), {}), (((0, 2),), {"dtype": "complex128"})],
    "fft.fftfreq": [((5,), {}), ((4,), {"d": 0.5})],
    "fft.rfftfreq": [((5,), {}), ((4,), {"d": 0.5})],
}
ELSEWHERE = {
    **dict.fromkeys(("asarray", "from_dlpack", "astype"), "tests/core, tests/families"),
    **dict.fromkeys(("empty", "empty_like"), "what they hold is open"),
    **dict.fromkeys(("can_cast", "finfo", "iinfo", "isdtype", "result_type"), "test_dtypes below"),
    **dict.fromkeys(("linalg.eigh", "linalg.qr", "linalg.svd"), "signs are open: tests/families"),
    **dict.fromkeys(("broadcast_shapes", "isin"), "standards after 2024.12: tests/families"),
}


def given(package, value):
    """Return an argument as a package takes it."""
    if isinstance(value, np.ndarray):
        return package.asarray(value)
    if isinstance(value, list):
        return [given(package, part) for part in value]
    return value


def arrays(result):
    """Return the arrays of a result."""
    if isinstance(result, list | tuple):
        return [array for part in result for array in arrays(part)]
    return [result.numpy() if isinstance(result, plugrad.Tensor) else np.asarray(result)]


def answer(package, name, args, keywords):
    """Return the arrays with which a package answers, or its error."""
    keywords = {n: given(package, v) for n, v in keywords.items()}
    if "dtype" in keywords:
        keywords["dtype"] = getattr(package, keywords["dtype"])
    try:
        return arrays(attrgetter(name)(package)(*(given(package, x) for x in args), **keywords))
    except Exception as error:
        return error


def is_compared(name, args, keywords=None):
    """Compare both answers to a call; return whether the standard has one."""
    keywords = keywords or {}
    right = answer(standard, name, args, keywords)
    if isinstance(right, Exception):
        return False
    ours = answer(plugrad, name, args, keywords)
    call = f"{name}(*{args}, **{keywords})"
    assert not isinstance(ours, Exception), f"{call}: {ours!r}"
    assert len(ours) == len(right), call
    for y, expected in zip(ours, right, strict=True):
        dtypes = {str(expected.dtype)}
        if name in WITH_DEFAULT_DTYPE:
            dtypes.add(DEFAULTS.get(str(expected.dtype), ""))
        assert y.shape == expected.shape, call
        assert str(y.dtype) in dtypes, f"{call}: {y.dtype} instead of {dtypes}"
        tolerance = 1e-4 if str(y.dtype) in ("float32", "complex64") else 1e-9
        np.testing.assert_allclose(y, expected, tolerance, tolerance, err_msg=call)
    return True


@pytest.fixture(autouse=True)
def on_cpu():
    """It has every dtype; tests/families compare the backends with NumPy."""
    with plugrad.use("cpu"):
        yield


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_array(name):
    shapes = [(3, 4), (), (0, 2)]
    cases = [is_compared(name, [elements(d, shape)]) for d in DTYPES for shape in shapes]
    assert any(cases)


@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_arrays(name):
    def right(dtype, shape):
        x = elements(dtype, shape)
        is_natural = name == "pow" or name.endswith("shift")  # others are open in the standard
        return np.abs(x) if is_natural and "int" in dtype else x

    shapes = [((3, 4), (3, 4)), ((3, 1), (4,)), ((), (2,)), ((0, 3), (1,))]
    cases = [
        is_compared(name, [elements(d, left), right(e, other)])
        for d, e in product(DTYPES, DTYPES)
        for left, other in shapes
    ]
    assert any(cases)


@pytest.mark.parametrize("name", BINARY)
def test_functions_of_an_array_and_a_number(name):
    numbers = {
        "bool": (True,),
        **dict.fromkeys(INTEGERS, (2,)),
        **dict.fromkeys(FLOATS, (2, 1.5)),
        **dict.fromkeys(("complex64", "complex128"), (2, 1.5, 1 + 2j)),
    }
    places = [(elements(d), number) for d, those in numbers.items() for number in those]
    cases = [is_compared(name, [x, number]) for x, number in places]
    if name != "pow" and not name.endswith("shift"):
        cases += [is_compared(name, [number, x]) for x, number in places]
    assert any(cases)


SPECIAL = np.array(
    [
        np.nan,
        np.inf,
        -np.inf,
        0.0,
        -0.0,
        1,
        -1,
        0.5,
        -0.5,
        1.5,
        2.5,
        -2.5,
        3,
        -3,
        1e30,
        -1e30,
        1e-30,
    ]
)


NOT_OF_FLOATS = ("bitwise", "logical_", "imag")
NOT_OF_COMPLEX = ("bitwise", "logical_not", "ceil", "floor", "signbit", "trunc")


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    "name", [name for name in [*UNARY, *BINARY] if not name.startswith(NOT_OF_FLOATS)]
)
def test_special_values(name, dtype):
    x = SPECIAL.astype(dtype)
    args = [x] if name in UNARY else [x[:, None], x]
    assert is_compared(name, args)
    theirs, ours = answer(standard, name, args, {})[0], answer(plugrad, name, args, {})[0]
    known = ~np.isnan(theirs)
    np.testing.assert_array_equal(np.signbit(ours)[known], np.signbit(theirs)[known])


@pytest.mark.parametrize("name", [name for name in UNARY if not name.startswith(NOT_OF_COMPLEX)])
def test_special_complex_values(name):
    part = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1, -1, 2.5, -0.5])
    x = np.empty((9, 9), complex)
    x.real, x.imag = part[:, None], part
    if name == "expm1":
        # NumPy's is NaN elsewhere. What the standard says of it is in tests/families/test_complex.py.
        regular = (x.imag != 0) & (np.isfinite(x.imag) | np.isnan(x.real))
        x = x[np.isfinite(x.real) | regular]
    if name == "sign":
        x = x[~np.isinf(x)]  # there plugrad's is that of NumPy
    assert is_compared(name, [x])
    theirs, ours = answer(standard, name, [x], {})[0], answer(plugrad, name, [x], {})[0]
    np.testing.assert_allclose(ours.real, theirs.real, 1e-9)
    np.testing.assert_allclose(ours.imag, theirs.imag, 1e-9)


@pytest.mark.parametrize("name", OF_ONE)
def test_other_functions(name):
    argument_lists, keywords = OF_ONE[name]
    cases = [
        is_compared(name, arguments(elements(dtype)), options)
        for dtype in DTYPES
        for arguments in argument_lists
        for options in keywords
    ]
    assert any(cases)


@pytest.mark.parametrize("name", sorted({*REDUCTIONS, "cumulative_sum", "cumulative_prod"}))
def test_empty_arrays(name):
    cases = [
        is_compared(name, [elements(d, (0, 3))], {"axis": axis}) for d in DTYPES for axis in (0, 1)
    ]
    assert any(cases)


@pytest.mark.parametrize("name", OF_NONE)
def test_functions_that_create(name):
    assert all(is_compared(name, args, keywords) for args, keywords in OF_NONE[name])


def test_dtypes():
    for d, e in product(DTYPES, DTYPES):
        theirs, ours = ([getattr(p, n) for n in (d, e)] for p in (standard, plugrad))
        assert plugrad.can_cast(*ours) == standard.can_cast(*theirs), (d, e)
        try:
            promoted = standard.result_type(*theirs)
        except TypeError:
            continue
        assert plugrad.result_type(*ours) == getattr(plugrad, str(promoted).rpartition(".")[2])
    kinds = ("bool", "signed integer", "unsigned integer", "integral", "real floating", "numeric")
    for d, kind in product(DTYPES, (*kinds, "complex floating")):
        theirs, ours = (p.isdtype(getattr(p, d), kind) for p in (standard, plugrad))
        assert theirs == ours, (d, kind)
    for d in INTEGERS:
        theirs, ours = (p.iinfo(getattr(p, d)) for p in (standard, plugrad))
        assert (ours.bits, ours.min, ours.max) == (theirs.bits, theirs.min, theirs.max)
    for d in FLOATS:
        theirs, ours = (p.finfo(getattr(p, d)) for p in (standard, plugrad))
        for field in ("bits", "eps", "max", "min", "smallest_normal"):
            assert getattr(ours, field) == getattr(theirs, field), (d, field)


def test_every_function_of_the_standard_is_compared():
    compared = {*UNARY, *BINARY, *OF_ONE, *OF_NONE}
    assert not compared & ELSEWHERE.keys()
    assert {label(place) for place in FUNCTIONS} == compared | ELSEWHERE.keys()
