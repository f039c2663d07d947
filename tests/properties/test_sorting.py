"""Orders, searches, sets and scans of random arrays agree with NumPy's."""

import hypothesis.extra.numpy as arrays
import numpy as np
import pytest
from hypothesis import given, settings, strategies as some

import plugrad

fixed_examples = settings(derandomize=True, deadline=None, max_examples=60)

DTYPES = ("float32", "float64", "int8", "int32", "int64", "uint8", "uint64", "bool")
INTEGER_VALUES = (-100, -2, -1, 0, 1, 2, 3, 100)
SHAPES = arrays.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=5)


@pytest.fixture(autouse=True, scope="module")
def on_cpu():
    """Run the test on the cpu."""
    with plugrad.use("cpu"):
        yield


def elements(dtype, with_nan=True):
    """Strategies for few distinct values, so that there are ties."""
    if dtype.startswith("float"):
        return some.sampled_from(
            [*INTEGER_VALUES, 0.5, -0.0, np.inf, -np.inf, *[np.nan] * with_nan]
        )
    if dtype == "bool":
        return some.booleans()
    return some.sampled_from([n for n in INTEGER_VALUES if n >= 0 or not dtype.startswith("u")])


@some.composite
def array_and_axis(draw, shape=SHAPES, with_nan=True):
    """Strategies for an array and one of its axes."""
    dtype = draw(some.sampled_from(DTYPES))
    x = draw(arrays.arrays(dtype, shape, elements=elements(dtype, with_nan)))
    return x, draw(some.integers(-x.ndim, x.ndim - 1))


def ranks(x):
    """Return integers in the order of the elements; NaN is the largest."""
    return np.unique(x, return_inverse=True)[1].reshape(x.shape)


def assert_same(actual, expected):
    np.testing.assert_array_equal(actual, expected)
    assert actual.dtype == expected.dtype


@fixed_examples
@given(array_and_axis(), some.booleans())
def test_sort(array_and_axis, descending):
    x, axis = array_and_axis
    expected = np.sort(x, axis)
    assert_same(
        plugrad.sort(x, axis=axis, descending=descending),
        np.flip(expected, axis) if descending else expected,
    )


@fixed_examples
@given(array_and_axis(), some.booleans())
def test_argsort_is_stable(array_and_axis, descending):
    x, axis = array_and_axis
    order = np.argsort(-ranks(x) if descending else ranks(x), axis, kind="stable")
    assert_same(plugrad.argsort(x, axis=axis, descending=descending), order.astype("int32"))


@fixed_examples
@given(array_and_axis(), some.data())
def test_top_k(array_and_axis, data):
    x, _ = array_and_axis
    k = data.draw(some.integers(0, x.shape[-1]))
    order = np.argsort(-ranks(x), kind="stable")[..., :k]
    found = plugrad.top_k(x, k)
    assert_same(found.values, np.take_along_axis(x, order, -1))
    assert_same(found.indices, order.astype("int32"))


@fixed_examples
@given(array_and_axis(arrays.array_shapes(max_dims=1, min_side=0)), some.data())
def test_searchsorted(array_and_axis, data):
    x, _ = array_and_axis
    values = data.draw(arrays.arrays(x.dtype, SHAPES, elements=elements(x.dtype.name)))
    for side, bound in [("left", plugrad.lower_bound), ("right", plugrad.upper_bound)]:
        places = np.searchsorted(np.sort(x), values, side).astype("int32")
        assert_same(plugrad.searchsorted(np.sort(x), values, side=side), places)
        assert_same(plugrad.searchsorted(x, values, side=side, sorter=np.argsort(x)), places)
        assert_same(bound(np.sort(x), values), places)


@fixed_examples
@given(array_and_axis(with_nan=False), some.data())
def test_searchsorted_in_rows(array_and_axis, data):
    x, _ = array_and_axis
    x = np.sort(x)
    count = data.draw(some.integers(0, 3))
    values = data.draw(
        arrays.arrays(x.dtype, (*x.shape[:-1], count), elements=elements(x.dtype.name, False))
    )
    less = (x[..., None, :] < values[..., None]).sum(-1)
    not_greater = (x[..., None, :] <= values[..., None]).sum(-1)
    assert_same(plugrad.searchsorted(x, values), less.astype("int32"))
    assert_same(plugrad.searchsorted(x, values, side="right"), not_greater.astype("int32"))


@fixed_examples
@given(array_and_axis())
def test_unique_elements(array_and_axis):
    x, _ = array_and_axis
    values, indices, inverse, counts = np.unique(x, True, True, True, equal_nan=False)
    found = plugrad.unique_all(x)
    assert_same(found.values, values)
    assert_same(found.indices, indices.astype("int32"))
    assert_same(found.inverse_indices, inverse.astype("int32").reshape(x.shape))
    assert_same(found.counts, counts.astype("int32"))
    assert_same(plugrad.unique_values(x), values)
    for part in (plugrad.unique_counts(x), plugrad.unique_inverse(x)):
        for name, values in part._asdict().items():
            assert_same(values, getattr(found, name).numpy())


@fixed_examples
@given(array_and_axis())
def test_unique_slices(array_and_axis):
    x, axis = array_and_axis
    found = plugrad.unique(x, axis=axis)
    kinds = found.inverse_indices.numpy()
    assert_same(plugrad.take(found.values, kinds, axis=axis), x)
    lines = np.moveaxis(ranks(x), axis, 0)
    pairs = (lines[:, None] == lines[None]).all(tuple(range(2, x.ndim + 1)))
    np.testing.assert_array_equal(kinds[:, None] == kinds[None], pairs)
    _, first = np.unique(kinds, return_index=True)
    np.testing.assert_array_equal(first, np.sort(first))  # numbered by first appearance
    assert found.values.shape[axis] == len(first)


@fixed_examples
@given(array_and_axis(), some.data())
def test_membership(array_and_axis, data):
    x, _ = array_and_axis
    among = data.draw(arrays.arrays(x.dtype, SHAPES, elements=elements(x.dtype.name)))
    expected = np.isin(x, among, kind="sort")
    assert_same(plugrad.isin(x, among), expected)
    assert_same(plugrad.isin(x, among, invert=True), ~expected)
    found = plugrad.setdiff1d(x.ravel(), among.ravel())
    assert_same(found.values, x[~expected])
    assert_same(found.indices, np.flatnonzero(~expected).astype("int32"))


@fixed_examples
@given(array_and_axis(), some.sampled_from(["initial", "exclusive", "plain"]), some.booleans())
def test_scans(array_and_axis, way, reverse):
    x, axis = array_and_axis
    if x.dtype.kind in "biu" and x.dtype.itemsize < 4:  # as array API says, not as NumPy does
        x = x.astype("uint32" if x.dtype.kind == "u" else "int32")
    turned = np.flip(x, axis) if reverse else x
    for op, scan, nothing in [
        (plugrad.cumulative_sum, np.cumsum, 0),
        (plugrad.cumulative_prod, np.cumprod, 1),
    ]:
        with np.errstate(all="ignore"):  # infinities meet, and products leave the range
            expected = scan(turned, axis, dtype=x.dtype)
            found = op(
                x,
                axis=axis,
                include_initial=way == "initial",
                exclusive=way == "exclusive",
                reverse=reverse,
            )
        if way != "plain":
            shape = [n if i != axis % x.ndim else 1 for i, n in enumerate(x.shape)]
            expected = np.concatenate([np.full(shape, nothing, x.dtype), expected], axis)
        if way == "exclusive":
            expected = np.take(expected, range(x.shape[axis]), axis)
        assert_same(found, np.flip(expected, axis) if reverse else expected)
