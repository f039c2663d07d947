"""Reductions of random arrays agree with NumPy's, on any axes, also of empty and 0-d arrays."""

import math

import hypothesis.extra.numpy as arrays
import numpy as np
import pytest
from hypothesis import given, settings, strategies as some

import plugrad

fixed_examples = settings(derandomize=True, deadline=None, max_examples=100)

FLOATS = ("float32", "float64")
REALS = (*FLOATS, "int8", "int32", "int64", "uint8", "uint32")
REALS_AND_BOOL = (*REALS, "bool")
SHAPES = arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
SUM_DTYPE_OF_DTYPE = {
    "bool": "int32",
    "int8": "int32",
    "uint8": "uint32",
}  # of what; others keep their dtype
TOLERANCES = {"float32": 1e-5, "float64": 1e-12}


@pytest.fixture(autouse=True, scope="module")
def on_cpu():
    """Run the test on the cpu; tests/families covers the other backends."""
    with plugrad.use("cpu"):
        yield


def random_arrays(dtypes, low=-3, high=3, shapes=SHAPES):
    """Strategies for arrays of numbers that do not overflow, about half of them views."""

    def of(dtype):
        if dtype == "bool":
            elements = some.booleans()
        elif dtype in FLOATS:
            elements = some.floats(low, high, width=32)
        else:
            elements = some.integers(max(low, 0) if dtype.startswith("u") else low, high)
        return arrays.arrays(dtype, shapes, elements=elements)

    any_array = some.sampled_from(dtypes).flatmap(of)
    return some.one_of(any_array, any_array.map(lambda x: x.T))


def draw_axis_and_keepdims(data, x):
    """Draw the axis, which may be None, one or several, and keepdims."""
    several = some.permutations(range(-x.ndim, 0)).flatmap(
        lambda order: some.integers(0, x.ndim).map(lambda n: tuple(order[:n]))
    )
    one = [some.integers(-x.ndim, x.ndim - 1)] if x.ndim else []
    return {
        "axis": data.draw(some.one_of(some.none(), several, *one), "axis"),
        "keepdims": data.draw(some.booleans(), "keepdims"),
    }


def count_reduced_elements(x, axis):
    """Return the number of elements that are reduced to one."""
    axes = range(x.ndim) if axis is None else np.atleast_1d(axis).astype(int)
    return math.prod(x.shape[i] for i in axes)


def assert_same(actual, expected, dtype):
    """Raise unless shape and dtype are equal, and values up to rounding."""
    values, expected = actual.numpy(), np.asarray(expected)
    assert (values.shape, str(values.dtype)) == (expected.shape, dtype)
    near = TOLERANCES.get(dtype, 0)
    np.testing.assert_allclose(values, expected, rtol=near, atol=near)


def expected_sum_dtype(dtype):
    return SUM_DTYPE_OF_DTYPE.get(str(dtype), str(dtype))


@fixed_examples
@given(random_arrays(REALS_AND_BOOL), some.data())
def test_sum(x, data):
    attrs = draw_axis_and_keepdims(data, x)
    dtype = expected_sum_dtype(x.dtype)
    assert_same(plugrad.sum(x, **attrs), np.sum(x, **attrs, dtype="float64"), dtype)
    wide = data.draw(some.sampled_from(["float64", "int64"]), "dtype")
    assert_same(plugrad.sum(x, **attrs, dtype=wide), np.sum(x.astype(wide), **attrs), wide)


@fixed_examples
@given(random_arrays(REALS_AND_BOOL, -2, 2), some.data())
def test_prod(x, data):
    attrs = draw_axis_and_keepdims(data, x)
    dtype = expected_sum_dtype(x.dtype)
    assert_same(plugrad.prod(x, **attrs), np.prod(x.astype(dtype), **attrs, dtype=dtype), dtype)


@fixed_examples
@given(random_arrays(REALS_AND_BOOL), some.data())
def test_mean(x, data):
    attrs = draw_axis_and_keepdims(data, x)
    dtype = str(x.dtype) if str(x.dtype) in FLOATS else "float32"
    y = plugrad.mean(x, **attrs)
    if count_reduced_elements(x, attrs["axis"]):
        assert_same(y, np.mean(x, **attrs, dtype="float64"), dtype)
    else:
        assert np.isnan(y.numpy()).all()
        assert y.shape == np.sum(x, **attrs).shape


@fixed_examples
@given(random_arrays(REALS), some.data())
def test_max_and_min(x, data):
    attrs = draw_axis_and_keepdims(data, x)
    for op, reference in [(plugrad.max, np.max), (plugrad.min, np.min)]:
        if count_reduced_elements(x, attrs["axis"]):
            assert_same(op(x, **attrs), reference(x, **attrs), str(x.dtype))
        else:
            with pytest.raises(plugrad.errors.ShapeError):
                op(x, **attrs)


@fixed_examples
@given(random_arrays(REALS_AND_BOOL), some.data())
def test_all_any_and_count_nonzero(x, data):
    attrs = draw_axis_and_keepdims(data, x)
    assert_same(plugrad.all(x, **attrs), np.all(x, **attrs), "bool")
    assert_same(plugrad.any(x, **attrs), np.any(x, **attrs), "bool")
    assert_same(plugrad.count_nonzero(x, **attrs), np.count_nonzero(x, **attrs), "int32")


@fixed_examples
@given(random_arrays(REALS, -1, 1), some.data())
def test_argmax_and_argmin(x, data):
    axis = data.draw(some.sampled_from([None, *range(-x.ndim, x.ndim)]), "axis")
    keepdims = data.draw(some.booleans(), "keepdims")
    for op, reference in [(plugrad.argmax, np.argmax), (plugrad.argmin, np.argmin)]:
        if count_reduced_elements(x, axis):
            expected = reference(x, axis=axis, keepdims=keepdims)
            assert_same(op(x, axis=axis, keepdims=keepdims), expected, "int32")
        else:
            with pytest.raises(plugrad.errors.ShapeError):
                op(x, axis=axis, keepdims=keepdims)


@fixed_examples
@given(random_arrays(FLOATS), some.data())
def test_var_and_std(x, data):
    attrs = draw_axis_and_keepdims(data, x)
    correction = data.draw(some.sampled_from([0, 1, 0.5]), "correction")
    for op, reference in [(plugrad.var, np.var), (plugrad.std, np.std)]:
        y = op(x, **attrs, correction=correction)
        if count_reduced_elements(x, attrs["axis"]) > correction:
            # The root of a rounding error is larger than that.
            exact = reference(x, **attrs, correction=correction, dtype="float64")
            near = TOLERANCES[str(x.dtype)] ** (0.5 if op is plugrad.std else 1)
            assert (y.shape, str(y.dtype)) == (exact.shape, str(x.dtype))
            np.testing.assert_allclose(y.numpy(), exact, rtol=near, atol=near)
        else:
            assert np.isnan(y.numpy()).all()
            assert y.shape == np.sum(x, **attrs).shape


@fixed_examples
@given(
    random_arrays(REALS, shapes=arrays.array_shapes(max_dims=3, min_side=0, max_side=4)),
    some.data(),
)
def test_diff(x, data):
    axis = data.draw(some.integers(-x.ndim, x.ndim - 1), "axis")
    n = data.draw(some.integers(0, 5), "n")
    width = data.draw(some.integers(0, 2), "width")
    shape = [width if i == axis % x.ndim else size for i, size in enumerate(x.shape)]
    more = np.ones(shape, x.dtype)
    attrs = {"axis": axis, "n": n}
    assert_same(plugrad.diff(x, **attrs), np.diff(x, **attrs), str(x.dtype))
    if n:  # without a difference NumPy puts nothing before or behind
        expected = np.diff(x, **attrs, prepend=more, append=more)
        assert_same(plugrad.diff(x, **attrs, prepend=more, append=more), expected, str(x.dtype))


@fixed_examples
@given(random_arrays(FLOATS), some.data())
def test_moments_and_log_sum_exp(x, data):
    attrs = draw_axis_and_keepdims(data, x)
    mean, variance = plugrad.moments(x, **attrs)
    np.testing.assert_array_equal(mean.numpy(), plugrad.mean(x, **attrs).numpy())
    np.testing.assert_array_equal(variance.numpy(), plugrad.var(x, **attrs).numpy())
    with np.errstate(divide="ignore"):
        expected = np.log(np.sum(np.exp(x.astype("float64")), **attrs))
    assert_same(plugrad.log_sum_exp(x, **attrs), expected, str(x.dtype))
