"""Quantiles and medians against NumPy, with gradients."""

import warnings

import numpy as np
import pytest

import plugrad
from plugrad.errors import ArgumentError, ArgumentValueError, AxisError, DTypeError, ShapeError
from plugrad.testing import check_gradient

QUANTILE_METHODS = ("linear", "lower", "higher", "midpoint", "nearest")
AXES = [None, 0, -1, (0, 2)]


def stored_dtypes():
    return [d for d in ("float32", "float64") if d in plugrad.which().backend.dtypes()]


def tolerances(dtype):
    allowed = 1e-5 if dtype == "float32" else 1e-13
    return {"rtol": allowed, "atol": allowed}


def numbers_with_and_without_nans(rng, dtype):
    """Return random numbers, and the same numbers with some NaN."""
    x = rng.normal(size=(3, 4, 5)).astype(dtype)
    y = x.copy()
    y[0, 0] = y[1, 2, 3] = y[2, :, 1] = np.nan
    return x, y


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.rows("axis", AXES, ids=str)
@pytest.mark.parametrize("method", QUANTILE_METHODS)
def test_quantiles(method, axis, keepdims, backend, rng):
    options = {"axis": axis, "keepdims": keepdims, "method": method}
    for dtype in stored_dtypes():
        x, y = numbers_with_and_without_nans(rng, dtype)
        for q in (0.3, [0, 0.25, 1]):
            for values, function in [(x, "quantile"), (y, "quantile"), (y, "nanquantile")]:
                with warnings.catch_warnings(action="ignore"):
                    expected = getattr(np, function)(values, q, **options)
                found = getattr(plugrad, function)(values, q, **options)
                assert (found.dtype, found.shape) == (dtype, expected.shape)
                np.testing.assert_allclose(found, expected, **tolerances(dtype))


@pytest.mark.parametrize("axis", AXES, ids=str)
def test_medians(axis, backend, rng):
    for dtype in stored_dtypes():
        x, y = numbers_with_and_without_nans(rng, dtype)
        with warnings.catch_warnings(action="ignore"):
            np.testing.assert_allclose(
                plugrad.median(x, axis=axis, keepdims=True),
                np.median(x, axis=axis, keepdims=True),
                **tolerances(dtype),
            )
            expected = np.nanmedian(y, axis=axis)
        np.testing.assert_allclose(plugrad.nanmedian(y, axis=axis), expected, **tolerances(dtype))


def test_levels_of_two_axes_and_whole_numbers(backend):
    x = np.arange(12).reshape(3, 4)
    q = [[0.1, 0.9], [0.5, 0.7]]
    found = plugrad.quantile(x.astype("int32"), q, axis=1)
    assert (found.dtype, found.shape) == ("float32", (2, 2, 3))
    np.testing.assert_allclose(found, np.quantile(x, q, axis=1), rtol=1e-6)
    assert plugrad.median(x.astype("float32"), axis=()).tolist() == x.tolist()
    assert plugrad.median(3).item() == 3


def test_quantiles_of_infinities(backend):
    inf, nan = np.inf, np.nan
    x = [[inf, inf, inf], [1.0, 2.0, inf], [-inf, inf, inf], [-inf, -inf, 1.0]]
    assert plugrad.quantile(x, 0.5, axis=1).tolist() == [inf, 2, inf, -inf]
    assert plugrad.quantile(x, 0.75, axis=1).tolist() == [inf, inf, inf, -inf]
    assert plugrad.median([-inf, 1.0]).item() == -inf
    np.testing.assert_array_equal(plugrad.median([-inf, inf]), nan)


def test_gradients(rng):
    x, y = rng.normal(size=(3, 4)), rng.normal(size=(3, 4))
    y[0, 1] = y[2, 2] = np.nan
    with plugrad.use("cpu"):
        for method in ("linear", "nearest"):
            check_gradient(
                lambda x, m=method: plugrad.quantile(x, [0.3, 0.9], axis=1, method=m),
                plugrad.asarray(x),
            )
            check_gradient(
                lambda x, m=method: plugrad.nanquantile(
                    plugrad.where(np.isnan(y), np.nan, x), [0.3, 0.9], axis=1, method=m
                ),
                plugrad.asarray(x),
            )
        gradient = plugrad.grad(lambda x: plugrad.sum(plugrad.nanmedian(x, axis=1)))
        expected = [[0, 0, 1, 0], [0, 0, 1, 0]]
        x = plugrad.asarray([[4.0, np.nan, 3.0, 1.0], [np.nan, np.nan, 2.0, np.nan]])
        assert gradient(x).tolist() == expected


def test_traced_and_batched(backend, rng):
    x, y = numbers_with_and_without_nans(rng, "float32")
    for function, values in [(plugrad.median, x), (plugrad.nanmedian, y)]:
        expected = [function(row).item() for row in values]
        np.testing.assert_allclose(
            plugrad.jit(lambda x, f=function: f(x, axis=(1, 2)))(plugrad.asarray(values)),
            expected,
            rtol=1e-6,
        )
        np.testing.assert_allclose(
            plugrad.vmap(function)(plugrad.asarray(values)), expected, rtol=1e-6
        )


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: plugrad.quantile([1.0], 1.5), ArgumentValueError),
        (lambda: plugrad.quantile([1.0], np.nan), ArgumentValueError),
        (lambda: plugrad.quantile([1.0], "half"), ArgumentError),
        (lambda: plugrad.quantile([1.0], plugrad.asarray(0.5)), ArgumentError),
        (lambda: plugrad.quantile([1.0], [True]), ArgumentError),
        (lambda: plugrad.quantile([1.0], 0.5, method="best"), ArgumentValueError),
        (lambda: plugrad.quantile([1.0], 0.5, axis=1), AxisError),
        (lambda: plugrad.median([]), ShapeError),
        (lambda: plugrad.nanmedian(np.zeros((2, 0), "float32"), axis=1), ShapeError),
        (lambda: plugrad.median([1j]), DTypeError),
    ],
)
def test_bad_input(call, error, backend):
    with pytest.raises(error):
        call()
