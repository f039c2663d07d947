"""Reductions that ignore NaN, against NumPy, with gradients."""

import warnings

import numpy as np
import pytest

import plugrad
from plugrad.errors import AxisError, DTypeError, ShapeError
from plugrad.testing import check_gradient

NAN_FUNCTIONS = ("nansum", "nanprod", "nanmax", "nanmin", "nanmean", "nanvar", "nanstd")
AXES = [None, 0, -1, (0, 2), ()]


def random_numbers_with_nans(rng, dtype):
    y = rng.normal(size=(3, 4, 5)).astype(dtype)
    y[0, 0] = y[1, 2, 3] = y[2, :, 1] = np.nan
    return y


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.rows("axis", AXES, ids=str)
@pytest.mark.parametrize("name", NAN_FUNCTIONS)
def test_values(name, axis, keepdims, backend, rng):
    for dtype in ("float32", "float64"):
        if dtype not in plugrad.which().backend.dtypes():
            continue
        y = random_numbers_with_nans(rng, dtype)
        with warnings.catch_warnings(action="ignore"):
            expected = getattr(np, name)(y, axis=axis, keepdims=keepdims)
        found = getattr(plugrad, name)(y, axis=axis, keepdims=keepdims)
        assert (found.dtype, found.shape) == (dtype, expected.shape)
        allowed = 2e-5 if dtype == "float32" else 1e-13
        np.testing.assert_allclose(found, expected, rtol=allowed, atol=allowed)


def test_corrections_of_variances(backend):
    x = np.array([[1.0, np.nan, 4.0, 9.0], [np.nan, 2.0, np.nan, np.nan]], "float32")
    with warnings.catch_warnings(action="ignore"):
        expected = np.nanvar(x, axis=1, ddof=1)
    np.testing.assert_allclose(plugrad.nanvar(x, axis=1, correction=1), expected, rtol=1e-6)
    np.testing.assert_allclose(
        plugrad.nanstd(x, axis=1, correction=1), np.sqrt(expected), rtol=1e-6
    )


def test_nan_functions_of_other_dtypes(backend):
    x = plugrad.asarray([1, 2, 5])
    assert plugrad.nansum(x).dtype == plugrad.nanmax(x).dtype == "int32"
    assert plugrad.nanmean(x).dtype == plugrad.nanstd(x).dtype == "float32"
    assert plugrad.nansum([True, True]).item() == 2
    assert plugrad.nansum(np.array([1j, complex(np.nan, 1)], "complex64")).item() == 1j
    assert plugrad.nanmax([-np.inf, np.nan]).item() == -np.inf


def test_reductions_of_nans_only_and_of_empty_tensors(backend):
    x = plugrad.asarray([np.nan, np.nan])
    assert plugrad.nansum(x).item() == 0
    assert plugrad.nanprod(x).item() == 1
    for name in NAN_FUNCTIONS[2:]:
        assert np.isnan(getattr(plugrad, name)(x).item())
    assert plugrad.nansum([]).item() == 0
    assert np.isnan(plugrad.nanmean([]).item())
    with pytest.raises(ShapeError):
        plugrad.nanmax([])
    with pytest.raises(AxisError):
        plugrad.nansum(x, axis=1)
    with pytest.raises(DTypeError):
        plugrad.nanmean([1j])


@pytest.mark.parametrize("axis", [None, 0, -1], ids=str)
@pytest.mark.parametrize("name", ["nancumsum", "nancumprod"])
def test_running_sums_and_products(name, axis, backend, rng):
    x = random_numbers_with_nans(rng, "float32")
    expected = getattr(np, name)(x, axis=axis)
    found = getattr(plugrad, name)(x, axis=axis)
    assert (found.dtype, found.shape) == ("float32", expected.shape)
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [None, 0, -1], ids=str)
@pytest.mark.parametrize("name", ["nanargmax", "nanargmin"])
def test_positions_of_extremes_that_are_not_nan(name, axis, keepdims, backend, rng):
    x = np.round(2 * random_numbers_with_nans(rng, "float32"))  # with equal elements
    x[0, 0, :2] = np.inf, -np.inf
    expected = getattr(np, name)(x, axis=axis, keepdims=keepdims)
    found = getattr(plugrad, name)(x, axis=axis, keepdims=keepdims)
    assert found.dtype == "int32"
    np.testing.assert_array_equal(found, expected)


def test_positions_and_running_sums_at_edges(backend):
    x = plugrad.asarray([[np.nan, np.nan], [np.nan, -np.inf]])
    assert plugrad.nanargmax(x, axis=1).tolist() == plugrad.nanargmin(x, axis=1).tolist() == [-1, 1]
    assert plugrad.nanargmax([3, 5]).item() == plugrad.nanargmin(np.nan).item() + 2 == 1
    assert plugrad.nancumsum(np.nan).tolist() == [0]
    assert plugrad.nancumsum([]).shape == plugrad.nancumprod(np.zeros((0, 3), "float32")).shape
    assert plugrad.nancumsum([True, True]).tolist() == [1, 2]
    assert plugrad.nancumprod([1, 2], dtype="float32").dtype == "float32"
    assert plugrad.nancumsum(np.array([1j, np.nan], "complex64")).tolist() == [1j, 1j]
    with pytest.raises(ShapeError):
        plugrad.nanargmax([])
    with pytest.raises(AxisError):
        plugrad.nancumsum(x, axis=2)
    with pytest.raises(DTypeError):
        plugrad.nanargmin([1j])


@pytest.mark.parametrize("name", [*NAN_FUNCTIONS, "nancumsum", "nancumprod"])
def test_gradients(name, rng):
    y = random_numbers_with_nans(rng, "float64")
    some = y[1:2]
    function = getattr(plugrad, name)
    with plugrad.use("cpu"):
        check_gradient(
            lambda x: function(plugrad.where(np.isnan(some), np.nan, x), axis=1),
            plugrad.asarray(rng.normal(size=some.shape)),
        )
        gradient = plugrad.grad(lambda x: plugrad.sum(function(x, axis=1)))(plugrad.asarray(y))
    assert not gradient.numpy()[np.isnan(y)].any()
    assert np.isfinite(gradient.numpy()[1]).all()
