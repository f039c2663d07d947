"""Binary ops of any two dtypes, or of a tensor and a Python number, in any shapes that broadcast.

The dtype is the array API standard's where it has one (array-api-strict tells), else that of the later kind
among bool, integer, floating and complex: see docs/notes/0004. Values are NumPy's in that dtype.
"""

import array_api_strict as standard
import hypothesis.extra.numpy as arrays
import numpy as np
import pytest
from hypothesis import given, settings, strategies as some

import plugrad
from plugrad.errors import ArgumentValueError, DTypeError

fixed_examples = settings(derandomize=True, deadline=None, max_examples=250)

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "float32", "float64")
COMPLEX = ("complex64", "complex128")
DTYPES = ("bool", *INTEGERS, *FLOATS, *COMPLEX)
REALS = (*INTEGERS, *FLOATS)
NUMBERS = (*REALS, *COMPLEX)

# By name of the op: NumPy's function, the dtypes it takes, and the dtype of the result if it is always the same.
OPS = {
    "add": (np.add, NUMBERS, ""),
    "subtract": (np.subtract, NUMBERS, ""),
    "multiply": (np.multiply, NUMBERS, ""),
    "maximum": (np.maximum, REALS, ""),
    "minimum": (np.minimum, REALS, ""),
    "equal": (np.equal, DTYPES, "bool"),
    "not_equal": (np.not_equal, DTYPES, "bool"),
    "less": (np.less, ("bool", *REALS), "bool"),
    "greater_equal": (np.greater_equal, ("bool", *REALS), "bool"),
    "logical_xor": (np.logical_xor, ("bool",), "bool"),
}
OPS_ON_TRUTH_VALUES = {"logical_xor"}
"""Of all numbers, these ops take whether they are 0, as NumPy's do."""


@pytest.fixture(autouse=True, scope="module")
def on_cpu():
    """Run the test on the cpu, which has all dtypes."""
    with plugrad.use("cpu"):
        yield


def kind_rank(dtype):
    """Return the rank of a dtype's kind; signed and unsigned integers have the same kind."""
    return "biufc".index(np.dtype(dtype).kind.replace("u", "i"))


def standard_dtype(*parts):
    """Return the dtype that the array API standard promotes dtypes and Python numbers to, or None if undefined."""
    if "float16" in parts:
        return None
    try:
        operands = [
            standard.ones((), dtype=getattr(standard, p)) if type(p) is str else p for p in parts
        ]
        return str(standard.result_type(*operands)).removeprefix("array_api_strict.")
    except TypeError:
        return None


def common_dtype(a, b):
    """Return the promoted dtype of two dtypes, or None if there is none."""
    if dtype := standard_dtype(a, b):
        return dtype
    if kind_rank(a) == kind_rank(b) == kind_rank("int8"):
        return None  # uint64 and a signed integer
    return max(a, b, key=lambda dtype: (kind_rank(dtype), np.dtype(dtype).itemsize))


def dtype_with_scalar(dtype, scalar):
    """Return the promoted dtype of a tensor and a Python number."""
    if known := standard_dtype(dtype, scalar):
        return known
    default = {bool: "bool", int: "int32", float: "float32", complex: "complex64"}[type(scalar)]
    return max(dtype, default, key=lambda d: (kind_rank(d), d == dtype))


def small_integers(dtype):
    """Strategies for small integers, which each dtype can represent."""
    if dtype == "bool":
        return some.booleans()
    return some.integers(0 if dtype.startswith("u") else -5, 5)


def check_against_numpy(op, operands, dtype):
    """Compare an op with NumPy's, after both operands are cast to the given dtype."""
    function, accepts, result = OPS[op]
    if dtype not in accepts:
        with pytest.raises(DTypeError):
            getattr(plugrad, op)(*operands)
        return
    y = getattr(plugrad, op)(*operands)
    expected = function(*(np.asarray(x).astype(dtype) for x in operands))
    assert y.dtype == (result or dtype) == expected.dtype
    np.testing.assert_array_equal(y.numpy(), expected)


@pytest.mark.parametrize("a", DTYPES)
def test_common_dtype(a):
    for b in DTYPES:
        if common_dtype(a, b) is None:
            with pytest.raises(DTypeError, match="no common integer dtype"):
                plugrad.result_type(a, b)
        else:
            assert plugrad.result_type(a, b) == common_dtype(a, b)


@fixed_examples
@given(
    some.sampled_from(sorted(OPS)),
    some.sampled_from(DTYPES),
    some.sampled_from(DTYPES),
    arrays.mutually_broadcastable_shapes(num_shapes=2, max_dims=4, min_side=0, max_side=4),
    some.data(),
)
def test_promotion_of_two_tensors(op, a, b, shapes, data):
    x, y = (
        data.draw(arrays.arrays(dtype, shape, elements=small_integers(dtype)))
        for dtype, shape in zip((a, b), shapes.input_shapes, strict=True)
    )
    dtype = "bool" if op in OPS_ON_TRUTH_VALUES else common_dtype(a, b)
    if dtype is None:
        with pytest.raises(DTypeError, match="no common integer dtype"):
            getattr(plugrad, op)(plugrad.asarray(x), plugrad.asarray(y))
        return
    check_against_numpy(op, (plugrad.asarray(x), plugrad.asarray(y)), dtype)
    check_against_numpy(op, (plugrad.asarray(x), y), dtype)
    check_against_numpy(op, (x, plugrad.asarray(y)), dtype)


@fixed_examples
@given(
    some.sampled_from(sorted(OPS)),
    some.sampled_from(DTYPES),
    arrays.array_shapes(min_dims=0, min_side=0, max_side=4),
    some.sampled_from([True, 0, 3, 0.0, 2.0, -2.0, 1j]),
    some.data(),
)
def test_tensor_and_python_number(op, dtype, shape, scalar, data):
    x = plugrad.asarray(data.draw(arrays.arrays(dtype, shape, elements=small_integers(dtype))))
    expected = dtype_with_scalar(dtype, scalar)
    assert plugrad.result_type(dtype, scalar) == expected
    dtype = "bool" if op in OPS_ON_TRUTH_VALUES else expected
    check_against_numpy(op, (x, scalar), dtype)
    check_against_numpy(op, (scalar, x), dtype)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_a_python_number_that_does_not_fit(dtype):
    limits = np.iinfo(dtype)
    x = plugrad.ones(2, dtype=dtype)
    for number in (int(limits.min), int(limits.max)):
        assert plugrad.minimum(x, number).dtype == dtype
    for number in (int(limits.min) - 1, int(limits.max) + 1):
        with pytest.raises(ArgumentValueError, match=f"does not fit {dtype}"):
            plugrad.add(x, number)


@fixed_examples
@given(
    some.sampled_from((*INTEGERS, *FLOATS)),
    some.sampled_from((*INTEGERS, *FLOATS)),
    arrays.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, min_side=0, max_side=4),
)
def test_whole_numbers_divide_as_floats(a, b, shapes):
    dtype = common_dtype(a, b)
    if dtype is None:
        return  # uint64 and a signed integer
    x, y = (
        plugrad.ones(shape, dtype=d) for d, shape in zip((a, b), shapes.input_shapes, strict=True)
    )
    quotient = plugrad.divide(x, y)
    assert quotient.dtype == (dtype if dtype in FLOATS else "float32")
    assert quotient.shape == shapes.result_shape
