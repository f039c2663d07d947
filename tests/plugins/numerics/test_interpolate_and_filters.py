"""Interpolation and filters, against SciPy, with gradients."""

import numpy as np
import pytest
import scipy.interpolate
import scipy.ndimage
import scipy.signal

import plugrad
from plugrad.errors import ArgumentValueError, AxisError, DTypeError, ShapeError
from plugrad.testing import check_gradient
from plugrad_numerics import filters, interpolate

SAMPLE_POINTS = np.array([0.0, 0.7, 1.5, 3.0, 3.4, 5.0])
SAMPLE_VALUES = np.array([1.0, 3.0, 2.0, 2.2, 5.0, -1.0])
QUERY_POINTS = np.array([[0.0, 0.3, 1.5], [2.2, 3.1, 5.0]])
INTERPOLATIONS = {
    "interp": (
        lambda x, y, at: interpolate.interp(at, x, y),
        lambda x, y, at: np.interp(at, x, y),
    ),
    **{
        kind: (
            lambda x, y, at, kind=kind: interpolate.CubicSpline(x, y, bc_type=kind)(at),
            lambda x, y, at, kind=kind: scipy.interpolate.CubicSpline(x, y, bc_type=kind)(at),
        )
        for kind in ("not-a-knot", "natural", "clamped")
    },
    "pchip": (
        lambda x, y, at: interpolate.PchipInterpolator(x, y)(at),
        lambda x, y, at: scipy.interpolate.PchipInterpolator(x, y)(at),
    ),
}


@pytest.mark.parametrize("name", INTERPOLATIONS)
def test_interpolated_curves_match_scipy(name, backend):
    function, reference = INTERPOLATIONS[name]
    for at in (QUERY_POINTS, np.array([-1.0, 6.0])):
        found = function(*(z.astype("float32") for z in (SAMPLE_POINTS, SAMPLE_VALUES, at)))
        assert (found.dtype, found.shape) == ("float32", at.shape)
        np.testing.assert_allclose(
            found, reference(SAMPLE_POINTS, SAMPLE_VALUES, at), rtol=2e-4, atol=2e-4
        )


@pytest.mark.parametrize("name", INTERPOLATIONS)
def test_gradients_of_curves(name):
    with plugrad.use("cpu"):
        arguments = [
            plugrad.asarray(z) for z in (SAMPLE_POINTS, SAMPLE_VALUES, np.array([0.3, 2.2, 4.1]))
        ]
        np.testing.assert_allclose(
            INTERPOLATIONS[name][0](*arguments),
            INTERPOLATIONS[name][1](SAMPLE_POINTS, SAMPLE_VALUES, [0.3, 2.2, 4.1]),
            rtol=1e-12,
        )
        check_gradient(INTERPOLATIONS[name][0], *arguments)


def test_interpolation_of_few_points(backend):
    assert interpolate.interp([1.0, 3.0], [2.0], [7.0]).tolist() == [7, 7]
    assert interpolate.PchipInterpolator([0.0, 2.0], [1.0, 3.0])(1.0).item() == 2
    assert interpolate.CubicSpline([0.0, 2.0], [1.0, 3.0], bc_type="natural")(1.0).item() == 2


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("m", [1, 3, 4])
def test_convolutions(m, mode, backend, rng):
    x, kernel = rng.normal(size=(2, 9)).astype("float32"), rng.normal(size=m).astype("float32")
    expected = np.stack([scipy.signal.convolve(row, kernel, mode) for row in x])
    np.testing.assert_allclose(
        filters.convolve(x, kernel, mode=mode), expected, rtol=1e-4, atol=1e-5
    )
    found = filters.convolve(x.T, kernel, mode=mode, axis=0)
    np.testing.assert_allclose(found, expected.T, rtol=1e-4, atol=1e-5)


def test_recursive_filters(backend, rng):
    x = rng.normal(size=(2, 12)).astype("float32")
    b, a = (c.astype("float32") for c in scipy.signal.butter(3, 0.3))
    np.testing.assert_allclose(
        filters.lfilter(b, a, x), scipy.signal.lfilter(b, a, x), rtol=1e-3, atol=1e-4
    )
    np.testing.assert_allclose(
        filters.lfilter(2 * b, a[:2], x, axis=0),
        scipy.signal.lfilter(2 * b, a[:2], x, axis=0),
        rtol=1e-3,
        atol=1e-4,
    )
    np.testing.assert_allclose(filters.lfilter([3.0], [2.0], x), 1.5 * x, rtol=1e-6)
    sections = scipy.signal.butter(4, 0.3, output="sos").astype("float32")
    found = plugrad.jit(lambda x: filters.sosfilt(sections, x))(plugrad.asarray(x))
    np.testing.assert_allclose(found, scipy.signal.sosfilt(sections, x), rtol=1e-3, atol=1e-4)


def test_smoothing_filters_match_scipy(backend, rng):
    x = rng.normal(size=(2, 15)).astype("float32")
    np.testing.assert_allclose(
        filters.gaussian_filter1d(x, 1.3),
        scipy.ndimage.gaussian_filter1d(x, 1.3),
        rtol=1e-3,
        atol=1e-5,
    )
    short = x[:, :3]  # than half of the curve
    np.testing.assert_allclose(
        filters.gaussian_filter1d(short, 1.3),
        scipy.ndimage.gaussian_filter1d(short, 1.3),
        rtol=1e-3,
        atol=1e-5,
    )


@pytest.mark.parametrize("mode", ["interp", "mirror", "nearest", "wrap", "constant"])
def test_polynomials_of_windows(mode, backend, rng):
    x = rng.normal(size=(2, 15, 3)).astype("float32")
    for window, order, axis in ((5, 2, 1), (7, 3, -2), (3, 1, 2), (1, 0, 0), (15, 4, 1)):
        found = filters.savgol_filter(x, window, order, axis=axis, mode=mode, cval=1.5)
        # In single precision SciPy fits the ends with errors of 1e-5.
        expected = scipy.signal.savgol_filter(
            x.astype("float64"), window, order, axis=axis, mode=mode, cval=1.5
        )
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    if mode != "interp":
        short = x[:, :2]
        found = filters.savgol_filter(short, 7, 2, axis=1, mode=mode)
        expected = scipy.signal.savgol_filter(short, 7, 2, axis=1, mode=mode)
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5)
    check_gradient(lambda x: filters.savgol_filter(x, 5, 2, mode=mode, cval=1.5), x[:, :6, 0])


def test_gradients_of_filters(rng):
    with plugrad.use("cpu"):
        x = plugrad.asarray(rng.normal(size=(2, 6)))
        b, a = (plugrad.asarray(c) for c in scipy.signal.butter(2, 0.3))
        check_gradient(filters.lfilter, b, a, x)
        check_gradient(lambda x, k: filters.convolve(x, k, mode="same"), x, b)
        check_gradient(lambda x: filters.gaussian_filter1d(x, 0.6), x)
        check_gradient(lambda x: filters.savgol_filter(x, 3, 2), x)
        sections = plugrad.asarray(scipy.signal.butter(4, 0.3, output="sos"))
        check_gradient(filters.sosfilt, sections, x)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: interpolate.interp(1.0, [1.0, 2.0], [1.0]), ShapeError),
        (lambda: interpolate.CubicSpline([0.0, 1.0, 2.0], [0.0, 1.0, 2.0]), ShapeError),
        (
            lambda: interpolate.CubicSpline([0.0, 1.0], [0.0, 1.0], bc_type="free"),
            ArgumentValueError,
        ),
        (lambda: filters.convolve([1.0], [1.0, 2.0], mode="valid"), ShapeError),
        (lambda: filters.convolve([1.0], [1.0], mode="some"), ArgumentValueError),
        (lambda: filters.convolve([1.0], [1.0], axis=1), AxisError),
        (lambda: filters.lfilter([], [1.0], [1.0]), ShapeError),
        (lambda: filters.sosfilt([[1.0, 2.0]], [1.0]), ShapeError),
        (lambda: filters.gaussian_filter1d([1.0], 0.0), ArgumentValueError),
        (lambda: filters.savgol_filter([1.0], 4, 1), ArgumentValueError),
        (lambda: filters.savgol_filter([1.0], 5, 1), ShapeError),
        (lambda: filters.savgol_filter([], 1, 0, mode="wrap"), ShapeError),
        (lambda: filters.savgol_filter([1.0], 1, 0, mode="reflect"), ArgumentValueError),
        (lambda: filters.convolve([1j], [1.0]), DTypeError),
    ],
)
def test_bad_input(call, error, backend):
    with pytest.raises(error):
        call()
