"""Gradients on every backend equal those on cpu in double precision, which other tests check by differences."""

import numpy as np
import pytest

import plugrad
from plugrad_numerics import distributions, filters, integrate, interpolate, optimize

VALUES = np.array([0.3, -1.2, 2.1, 0.7, -0.4, 1.6])
MATRIX = np.array([[2.0, 0.3, -0.4], [0.1, 1.5, 0.6], [-0.2, 0.4, 1.2]])
TALL_MATRIX = np.array([[2.0, 0.3], [0.1, 1.5], [-0.2, 0.4]])
SAMPLE_POINTS = np.array([0.0, 0.7, 1.3, 2.2, 3.1, 4.0])
QUERY_POINTS = np.array([0.2, 1.1, 2.9])


def tensor_like(y, numbers):
    return plugrad.asarray(numbers, dtype=y.dtype)


FUNCTIONS_AND_INPUTS = {
    "trapezoid": (integrate.trapezoid, VALUES),
    "simpson": (integrate.simpson, VALUES),
    "cumulative_trapezoid": (integrate.cumulative_trapezoid, VALUES),
    "odeint": (
        lambda y: integrate.odeint(lambda y, t: -0.5 * y * t, y, np.array([0.0, 1.0], y.dtype)),
        VALUES,
    ),
    "root": (lambda a: optimize.root(lambda x, a: x * x - a, a * 0 + 1.0, a), np.abs(VALUES)),
    "minimize": (
        lambda a: optimize.minimize(lambda x, a: plugrad.sum((x - a) ** 2), a * 0, a).x,
        VALUES,
    ),
    "interp": (
        lambda y: interpolate.interp(
            tensor_like(y, QUERY_POINTS), tensor_like(y, SAMPLE_POINTS), y
        ),
        VALUES,
    ),
    "CubicSpline": (
        lambda y: interpolate.CubicSpline(tensor_like(y, SAMPLE_POINTS), y)(
            tensor_like(y, QUERY_POINTS)
        ),
        VALUES,
    ),
    "PchipInterpolator": (
        lambda y: interpolate.PchipInterpolator(tensor_like(y, SAMPLE_POINTS), y)(
            tensor_like(y, QUERY_POINTS)
        ),
        VALUES,
    ),
    "convolve": (lambda x: filters.convolve(x, [0.2, 0.5, -0.3]), VALUES),
    "lfilter": (lambda x: filters.lfilter([0.2, 0.3], [1.0, -0.4], x), VALUES),
    "sosfilt": (lambda x: filters.sosfilt([[0.2, 0.3, 0.1, 1.0, -0.4, 0.2]], x), VALUES),
    "gaussian_filter1d": (lambda x: filters.gaussian_filter1d(x, 0.7), VALUES),
    "savgol_filter": (lambda x: filters.savgol_filter(x, 3, 1), VALUES),
    "savgol_filter of a continuation": (
        lambda x: filters.savgol_filter(x, 3, 1, mode="wrap"),
        VALUES,
    ),
    "expm": (plugrad.linalg.expm, MATRIX),
    "sqrtm": (plugrad.linalg.sqrtm, MATRIX),
    "solve_sylvester": (
        lambda a: plugrad.linalg.solve_sylvester(
            a, tensor_like(a, MATRIX.T), tensor_like(a, MATRIX)
        ),
        MATRIX,
    ),
    "logm": (plugrad.linalg.logm, MATRIX),
    "fractional_matrix_power": (lambda x: plugrad.linalg.fractional_matrix_power(x, 0.3), MATRIX),
    "lu": (lambda x: plugrad.linalg.lu(x)[2], MATRIX),
    "cond": (plugrad.linalg.cond, MATRIX),
    "pinv": (plugrad.linalg.pinv, TALL_MATRIX),
    "lstsq": (
        lambda a: plugrad.linalg.lstsq(a, np.array([1.0, -0.5, 2.0], a.dtype))[0],
        TALL_MATRIX,
    ),
    "solve_triangular": (
        lambda a: plugrad.linalg.solve_triangular(
            a, np.array([1.0, -0.5, 2.0], a.dtype), lower=True
        ),
        MATRIX,
    ),
    "quantile": (lambda x: plugrad.quantile(x, 0.3), VALUES),
    "median": (plugrad.median, VALUES),
    "nanmean": (plugrad.nanmean, VALUES),
    "nanstd": (plugrad.nanstd, VALUES),
    "nanmedian": (plugrad.nanmedian, VALUES),
    "nansum": (plugrad.nansum, VALUES),
    "nanprod": (plugrad.nanprod, VALUES),
    "nanmax": (plugrad.nanmax, VALUES),
    "nanmin": (plugrad.nanmin, VALUES),
    "nanvar": (plugrad.nanvar, VALUES),
    "nanquantile": (lambda x: plugrad.nanquantile(x, 0.3), VALUES),
    "eigvals": (lambda x: plugrad.real(plugrad.sum(plugrad.linalg.eigvals(x) ** 3)), MATRIX),
    "eig": (lambda x: plugrad.sum(plugrad.abs(plugrad.linalg.eig(x).eigenvectors) ** 4), MATRIX),
    "bisect": (
        lambda a: optimize.bisect(lambda x, a: x**3 - a, a * 0, 5.0, a),
        np.abs(VALUES),
    ),
    "Categorical": (
        lambda z: distributions.Categorical(plugrad.reshape(z, (2, 3))).log_prob([0, 2]),
        VALUES,
    ),
    "Dirichlet": (
        lambda c: distributions.Dirichlet(c).log_prob(
            tensor_like(c, [0.1, 0.2, 0.15, 0.25, 0.1, 0.2])
        ),
        np.abs(VALUES),
    ),
    "MultivariateNormal": (
        lambda c: distributions.MultivariateNormal(c[0], c + c.mT).log_prob(
            tensor_like(c, [0.3, 0.7, 1])
        ),
        MATRIX,
    ),
    "cov": (plugrad.cov, TALL_MATRIX),
    "corrcoef": (plugrad.corrcoef, MATRIX),
}


@pytest.mark.parametrize("name", FUNCTIONS_AND_INPUTS)
def test_gradients_on_every_backend_are_those_in_double_precision(name, backend):
    function, x = FUNCTIONS_AND_INPUTS[name]

    def gradient(x):
        def loss(x):
            y = function(x)
            return plugrad.sum(
                y * plugrad.reshape(plugrad.arange(1, y.size + 1, dtype=y.dtype), y.shape)
            )

        return plugrad.grad(loss)(plugrad.asarray(x)).numpy()

    found = gradient(x.astype(np.float32))
    with plugrad.use("cpu"):
        expected = gradient(x)
    np.testing.assert_allclose(found, expected, rtol=2e-3, atol=2e-3)
