"""plugrad answers as array-api-strict does: values, shapes and dtypes, wherever the standard decides.

What array-api-strict refuses is open in the standard, and not compared.
"""

from itertools import product
from operator import attrgetter

import array_api_strict as standard
import numpy as np
import pytest

import plugrad
from consistency.test_array_api import STANDARD_FUNCTIONS, parameter_id

pytestmark = pytest.mark.filterwarnings("ignore")  # NumPy's, for special values on purpose
RANDOM_MATRIX = np.random.default_rng(0).normal(size=(3, 4)) * 2
INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
FLOATS = ["float32", "float64"]
DTYPES = ["bool", *INTEGERS, *FLOATS, "complex64", "complex128"]
# array-api-strict's default dtypes have 64 bits.
DTYPE_WITHOUT_X64 = {
    "int64": "int32",
    "uint64": "uint32",
    "float64": "float32",
    "complex128": "complex64",
}
UNARY_FUNCTIONS = (
    *("abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "bitwise_invert", "ceil", "conj"),
    *("cos", "cosh", "exp", "expm1", "floor", "imag", "isfinite", "isinf", "isnan", "log", "log1p"),
    *("log2", "log10", "logical_not", "negative", "positive", "real", "reciprocal", "round"),
    *("sign", "signbit", "sin", "sinh", "square", "sqrt", "tan", "tanh", "trunc"),
)
BINARY_FUNCTIONS = (
    *("add", "atan2", "bitwise_and", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift"),
    *("bitwise_xor", "copysign", "divide", "equal", "floor_divide", "greater", "greater_equal"),
    *("hypot", "less", "less_equal", "logaddexp", "logical_and", "logical_or", "logical_xor"),
    *("maximum", "minimum", "multiply", "nextafter", "not_equal", "pow", "remainder", "subtract"),
)
REDUCTIONS = ("all", "any", "max", "min", "mean", "prod", "sum", "std", "var", "count_nonzero")
FUNCTIONS_WITH_DEFAULT_DTYPE = {
    *("sum", "prod", "cumulative_sum", "cumulative_prod", "count_nonzero", "argmax", "argmin"),
    *("argsort", "nonzero", "searchsorted", "unique_all", "unique_counts", "unique_inverse"),
    *("linalg.trace", "linalg.matrix_rank", "arange", "linspace", "eye", "empty", "full", "ones"),
    *("zeros", "fft.fftfreq", "fft.rfftfreq"),
}


def make_elements(dtype, shape=(3, 4)):
    """Return small numbers of a dtype, of both signs if the dtype has them."""
    values = np.resize(RANDOM_MATRIX, shape)
    if dtype.startswith("complex"):
        return (values + 1j * np.flip(values)).astype(dtype)
    return np.abs(values).astype(dtype) if dtype.startswith("u") else values.astype(dtype)


def square_part(x):
    return x[:, :3]


def positive_definite_part(x):
    return (square_part(x) @ square_part(x).conj().T + 3 * np.eye(3)).astype(x.dtype)


def hermitian_part(x):
    return (square_part(x) + square_part(x).conj().T).astype(x.dtype)


def sorted_elements(x):
    return np.sort(x.ravel())


def make_calls(*argument_lists, keywords=({},)):
    """Return the calls of a function for an array: each list of arguments with each dict of keywords."""
    return argument_lists, keywords


REDUCTION_KEYWORDS = [
    {},
    {"axis": 0},
    {"axis": -1},
    {"axis": (0, 1)},
    {"axis": 1, "keepdims": True},
]
SUM_KEYWORDS = [
    *REDUCTION_KEYWORDS,
    {"keepdims": True},
    {"dtype": "float64"},
    {"dtype": "int64", "axis": 0},
]
SCAN_KEYWORDS = [
    {"axis": 0},
    {"axis": 1, "include_initial": True},
    {"axis": -1, "dtype": "float64"},
]
SORT_KEYWORDS = [{}, {"axis": 0}, {"descending": True}]
VECTOR_NORM_KEYWORDS = [
    {},
    {"ord": 1, "axis": 0},
    {"ord": np.inf, "keepdims": True},
    {"ord": 0, "axis": (0, 1)},
]
MATRIX_NORM_KEYWORDS = [
    {},
    {"ord": "nuc"},
    {"ord": 2, "keepdims": True},
    {"ord": -1},
    {"ord": np.inf},
]
FFT_KEYWORDS = [{}, {"n": 6, "axis": 0, "norm": "ortho"}, {"n": 2, "norm": "forward"}]
FFTN_KEYWORDS = [{}, {"s": (2, 6), "axes": (0, 1)}, {"axes": (1,), "norm": "ortho"}]
CALLS_OF_ONE_ARRAY = {
    **dict.fromkeys(REDUCTIONS, make_calls(lambda x: [x], keywords=REDUCTION_KEYWORDS)),
    **dict.fromkeys(("sum", "prod"), make_calls(lambda x: [x], keywords=SUM_KEYWORDS)),
    **dict.fromkeys(
        ("std", "var"),
        make_calls(lambda x: [x], keywords=[*REDUCTION_KEYWORDS, {"correction": 1.0, "axis": 0}]),
    ),
    **dict.fromkeys(
        ("argmax", "argmin"),
        make_calls(lambda x: [x], keywords=[{}, {"axis": 0, "keepdims": True}]),
    ),
    **dict.fromkeys(
        ("cumulative_sum", "cumulative_prod"), make_calls(lambda x: [x], keywords=SCAN_KEYWORDS)
    ),
    **dict.fromkeys(("sort", "argsort"), make_calls(lambda x: [x], keywords=SORT_KEYWORDS)),
    **dict.fromkeys(
        ("tril", "triu"), make_calls(lambda x: [x], keywords=[{}, {"k": 1}, {"k": -2}])
    ),
    **dict.fromkeys(("zeros_like", "ones_like"), make_calls(lambda x: [x])),
    **dict.fromkeys(
        ("unique_all", "unique_counts", "unique_inverse", "unique_values", "nonzero"),
        make_calls(lambda x: [x]),
    ),
    **dict.fromkeys(
        ("fft.fft", "fft.ifft", "fft.rfft"), make_calls(lambda x: [x], keywords=FFT_KEYWORDS)
    ),
    **dict.fromkeys(
        ("fft.irfft", "fft.hfft", "fft.ihfft"), make_calls(lambda x: [x], keywords=FFT_KEYWORDS)
    ),
    **dict.fromkeys(
        ("fft.fftn", "fft.ifftn", "fft.rfftn", "fft.irfftn"),
        make_calls(lambda x: [x], keywords=FFTN_KEYWORDS),
    ),
    **dict.fromkeys(
        ("fft.fftshift", "fft.ifftshift"), make_calls(lambda x: [x], keywords=[{}, {"axes": 1}])
    ),
    **dict.fromkeys(
        ("matmul", "linalg.matmul"),
        make_calls(
            lambda x: [x, x.T.copy()], lambda x: [x[0], x[1]], lambda x: [x[None], x.T.copy()]
        ),
    ),
    **dict.fromkeys(
        ("tensordot", "linalg.tensordot"),
        make_calls(lambda x: [x, x], keywords=[{}, {"axes": ((0, 1), (0, 1))}, {"axes": 0}]),
    ),
    **dict.fromkeys(
        ("vecdot", "linalg.vecdot"), make_calls(lambda x: [x, x], keywords=[{}, {"axis": -2}])
    ),
    **dict.fromkeys(("matrix_transpose", "linalg.matrix_transpose"), make_calls(lambda x: [x])),
    **dict.fromkeys(("linalg.det", "linalg.slogdet"), make_calls(lambda x: [square_part(x)])),
    "broadcast_arrays": make_calls(lambda x: [x, x[:, :1]]),
    "broadcast_to": make_calls(lambda x: [x, (2, 3, 4)]),
    "clip": make_calls(lambda x: [x], keywords=[{"min": 0, "max": 2}, {"min": 1}, {"max": 1}]),
    "concat": make_calls(lambda x: [[x, x]], keywords=[{}, {"axis": None}, {"axis": -1}]),
    "diff": make_calls(lambda x: [x], keywords=[{}, {"n": 2, "axis": 0}]),
    "expand_dims": make_calls(lambda x: [x], keywords=[{"axis": -1}, {"axis": 0}]),
    "flip": make_calls(lambda x: [x], keywords=[{}, {"axis": (0, -1)}]),
    "full_like": make_calls(lambda x: [x, 1]),
    "meshgrid": make_calls(lambda x: [x[0], x[:, 0]], keywords=[{}, {"indexing": "ij"}]),
    "moveaxis": make_calls(lambda x: [x, 0, 1], lambda x: [x[None], (0, 1), (-1, 0)]),
    "permute_dims": make_calls(lambda x: [x, (1, 0)]),
    "repeat": make_calls(lambda x: [x, 2], lambda x: [x, 0], keywords=[{}, {"axis": 1}]),
    "reshape": make_calls(lambda x: [x, (2, -1)], keywords=[{}, {"copy": True}]),
    "roll": make_calls(lambda x: [x, 1], keywords=[{}, {"axis": -1}]),
    "searchsorted": make_calls(
        lambda x: [sorted_elements(x), x],
        keywords=[{}, {"side": "right"}, {"sorter": np.arange(12)}],
    ),
    "squeeze": make_calls(lambda x: [x[None, :, None], (0, 2)]),
    "stack": make_calls(lambda x: [[x, x]], keywords=[{}, {"axis": -1}]),
    "take": make_calls(lambda x: [x, np.array([0, 2, -1])], keywords=[{"axis": 0}, {"axis": 1}]),
    "take_along_axis": make_calls(lambda x: [x, np.array([[0], [2], [1]])]),
    "tile": make_calls(lambda x: [x, (2, 1)], lambda x: [x, (2,)], lambda x: [x, (2, 1, 1)]),
    "unstack": make_calls(lambda x: [x], keywords=[{}, {"axis": -1}]),
    "where": make_calls(lambda x: [x == x[0], x, x[:1]]),
    "linalg.cholesky": make_calls(
        lambda x: [positive_definite_part(x)], keywords=[{}, {"upper": True}]
    ),
    "linalg.cross": make_calls(lambda x: [square_part(x), square_part(x)[::-1].copy()]),
    "linalg.diagonal": make_calls(lambda x: [x], keywords=[{}, {"offset": -1}]),
    "linalg.eigvalsh": make_calls(lambda x: [hermitian_part(x)]),
    "linalg.inv": make_calls(lambda x: [positive_definite_part(x)]),
    "linalg.matrix_norm": make_calls(lambda x: [x], keywords=MATRIX_NORM_KEYWORDS),
    "linalg.matrix_power": make_calls(
        *(lambda x, n=n: [positive_definite_part(x), n] for n in (0, 3, -2))
    ),
    "linalg.matrix_rank": make_calls(lambda x: [x], keywords=[{}, {"rtol": 0.5}]),
    "linalg.outer": make_calls(lambda x: [x[0], x[1]]),
    "linalg.pinv": make_calls(lambda x: [x], keywords=[{}, {"rtol": 0.5}]),
    "linalg.solve": make_calls(
        lambda x: [positive_definite_part(x), x], lambda x: [positive_definite_part(x), x[:, 0]]
    ),
    "linalg.svdvals": make_calls(lambda x: [x]),
    "linalg.trace": make_calls(lambda x: [x], keywords=[{}, {"offset": 1}, {"dtype": "float64"}]),
    "linalg.vector_norm": make_calls(lambda x: [x], keywords=VECTOR_NORM_KEYWORDS),
}
CALLS_WITHOUT_ARRAYS = {
    "arange": [((5,), {}), ((1, 5, 2), {}), ((5, 1, -2), {}), ((1.0, 3.0, 0.5), {})],
    "linspace": [((0, 1, 5), {}), ((0, 1, 5), {"endpoint": False}), ((0, 1j, 3), {})],
    "eye": [((3,), {}), ((3, 4), {"k": 1}), ((3, 4), {"k": -5, "dtype": "int8"})],
    "full": [(((2, 3), value), {}) for value in (1, 1.5, True, 1j)],
    "ones": [((3,), {}), (((),), {"dtype": "bool"})],
    "zeros": [(((2, 3),), {}), (((0, 2),), {"dtype": "complex128"})],
    "fft.fftfreq": [((5,), {}), ((4,), {"d": 0.5})],
    "fft.rfftfreq": [((5,), {}), ((4,), {"d": 0.5})],
}
FUNCTIONS_COMPARED_BY_OTHER_TESTS = {
    **dict.fromkeys(("asarray", "from_dlpack", "astype"), "tests/core, tests/families"),
    **dict.fromkeys(("empty", "empty_like"), "what they hold is open"),
    **dict.fromkeys(
        ("can_cast", "finfo", "iinfo", "isdtype", "result_type"),
        "test_dtype_functions_match_array_api_strict below",
    ),
    **dict.fromkeys(("linalg.eigh", "linalg.qr", "linalg.svd"), "signs are open: tests/families"),
    **dict.fromkeys(("broadcast_shapes", "isin"), "standards after 2024.12: tests/families"),
}


def as_package_argument(package, value):
    """Return an argument for a package: arrays become arrays of the package, and dtypes its dtypes."""
    if isinstance(value, np.ndarray):
        return package.asarray(value)
    if isinstance(value, list):
        return [as_package_argument(package, part) for part in value]
    return value


def list_arrays(result):
    """Return the arrays of a result."""
    if isinstance(result, list | tuple):
        return [array for part in result for array in list_arrays(part)]
    return [result.numpy() if isinstance(result, plugrad.Tensor) else np.asarray(result)]


def result_or_error(package, name, args, keywords):
    """Return the arrays that a package returns for a call, or the error that it raises."""
    keywords = {n: as_package_argument(package, v) for n, v in keywords.items()}
    if "dtype" in keywords:
        keywords["dtype"] = getattr(package, keywords["dtype"])
    try:
        return list_arrays(
            attrgetter(name)(package)(*(as_package_argument(package, x) for x in args), **keywords)
        )
    except Exception as error:
        return error


def compare_packages(name, args, keywords=None):
    """Compare the results of both packages for a call; return whether the standard defines one."""
    keywords = keywords or {}
    right = result_or_error(standard, name, args, keywords)
    if isinstance(right, Exception):
        return False
    ours = result_or_error(plugrad, name, args, keywords)
    call = f"{name}(*{args}, **{keywords})"
    assert not isinstance(ours, Exception), f"{call}: {ours!r}"
    assert len(ours) == len(right), call
    for y, expected in zip(ours, right, strict=True):
        dtypes = {str(expected.dtype)}
        if name in FUNCTIONS_WITH_DEFAULT_DTYPE:
            dtypes.add(DTYPE_WITHOUT_X64.get(str(expected.dtype), ""))
        assert y.shape == expected.shape, call
        assert str(y.dtype) in dtypes, f"{call}: {y.dtype} instead of {dtypes}"
        tolerance = 1e-4 if str(y.dtype) in ("float32", "complex64") else 1e-9
        np.testing.assert_allclose(y, expected, tolerance, tolerance, err_msg=call)
    return True


@pytest.fixture(autouse=True)
def on_cpu():
    """Run the test on the cpu, which has every dtype; tests/families compares the other backends with NumPy."""
    with plugrad.use("cpu"):
        yield


@pytest.mark.parametrize("name", UNARY_FUNCTIONS)
def test_functions_of_one_array(name):
    shapes = [(3, 4), (), (0, 2)]
    cases = [compare_packages(name, [make_elements(d, shape)]) for d in DTYPES for shape in shapes]
    assert any(cases)


@pytest.mark.parametrize("name", BINARY_FUNCTIONS)
def test_functions_of_two_arrays(name):
    def second_operand(dtype, shape):
        x = make_elements(dtype, shape)
        is_natural = name == "pow" or name.endswith("shift")  # others are open in the standard
        return np.abs(x) if is_natural and "int" in dtype else x

    shapes = [((3, 4), (3, 4)), ((3, 1), (4,)), ((), (2,)), ((0, 3), (1,))]
    cases = [
        compare_packages(name, [make_elements(d, left), second_operand(e, other)])
        for d, e in product(DTYPES, DTYPES)
        for left, other in shapes
    ]
    assert any(cases)


@pytest.mark.parametrize("name", BINARY_FUNCTIONS)
def test_functions_of_an_array_and_a_number(name):
    numbers = {
        "bool": (True,),
        **dict.fromkeys(INTEGERS, (2,)),
        **dict.fromkeys(FLOATS, (2, 1.5)),
        **dict.fromkeys(("complex64", "complex128"), (2, 1.5, 1 + 2j)),
    }
    places = [(make_elements(d), number) for d, those in numbers.items() for number in those]
    cases = [compare_packages(name, [x, number]) for x, number in places]
    if name != "pow" and not name.endswith("shift"):
        cases += [compare_packages(name, [number, x]) for x, number in places]
    assert any(cases)


SPECIAL_VALUES = np.array(
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


FUNCTIONS_WITHOUT_FLOATS = ("bitwise", "logical_", "imag")
FUNCTIONS_WITHOUT_COMPLEX = ("bitwise", "logical_not", "ceil", "floor", "signbit", "trunc")


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    "name",
    [
        name
        for name in [*UNARY_FUNCTIONS, *BINARY_FUNCTIONS]
        if not name.startswith(FUNCTIONS_WITHOUT_FLOATS)
    ],
)
def test_special_values(name, dtype):
    x = SPECIAL_VALUES.astype(dtype)
    args = [x] if name in UNARY_FUNCTIONS else [x[:, None], x]
    assert compare_packages(name, args)
    theirs, ours = (
        result_or_error(standard, name, args, {})[0],
        result_or_error(plugrad, name, args, {})[0],
    )
    known = ~np.isnan(theirs)
    np.testing.assert_array_equal(np.signbit(ours)[known], np.signbit(theirs)[known])


@pytest.mark.parametrize(
    "name", [name for name in UNARY_FUNCTIONS if not name.startswith(FUNCTIONS_WITHOUT_COMPLEX)]
)
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
    assert compare_packages(name, [x])
    theirs, ours = (
        result_or_error(standard, name, [x], {})[0],
        result_or_error(plugrad, name, [x], {})[0],
    )
    np.testing.assert_allclose(ours.real, theirs.real, 1e-9)
    np.testing.assert_allclose(ours.imag, theirs.imag, 1e-9)


@pytest.mark.parametrize("name", CALLS_OF_ONE_ARRAY)
def test_functions_with_individual_arguments(name):
    argument_lists, keywords = CALLS_OF_ONE_ARRAY[name]
    cases = [
        compare_packages(name, arguments(make_elements(dtype)), options)
        for dtype in DTYPES
        for arguments in argument_lists
        for options in keywords
    ]
    assert any(cases)


@pytest.mark.parametrize("name", sorted({*REDUCTIONS, "cumulative_sum", "cumulative_prod"}))
def test_functions_of_empty_arrays(name):
    cases = [
        compare_packages(name, [make_elements(d, (0, 3))], {"axis": axis})
        for d in DTYPES
        for axis in (0, 1)
    ]
    assert any(cases)


@pytest.mark.parametrize("name", CALLS_WITHOUT_ARRAYS)
def test_creation_functions(name):
    assert all(
        compare_packages(name, args, keywords) for args, keywords in CALLS_WITHOUT_ARRAYS[name]
    )


def test_dtype_functions_match_array_api_strict():
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
    compared = {*UNARY_FUNCTIONS, *BINARY_FUNCTIONS, *CALLS_OF_ONE_ARRAY, *CALLS_WITHOUT_ARRAYS}
    assert not compared & FUNCTIONS_COMPARED_BY_OTHER_TESTS.keys()
    assert {
        parameter_id(place) for place in STANDARD_FUNCTIONS
    } == compared | FUNCTIONS_COMPARED_BY_OTHER_TESTS.keys()
