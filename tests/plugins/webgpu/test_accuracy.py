"""The functions of accurate.wgsl and complex.wgsl against float64, in units in the last place."""

import math

import numpy as np
import pytest

from plugrad.kernels import activation, binary, unary

ERF = np.vectorize(math.erf)
TRIGONOMETRIC = [(unary.sin, np.sin), (unary.cos, np.cos), (unary.tan, np.tan)]
FAR = [(4000, 5000), (-1e6, 1e6), (-3e38, 3e38)]

CASES = [
    (unary.exp, np.exp, (-87, 88), 2),
    (unary.expm1, np.expm1, (-5, 5), 5),
    (unary.log, np.log, (1e-6, 100), 2),
    (unary.log, np.log, (0.5, 1.5), 2),
    (unary.log1p, np.log1p, (-0.9, 3), 4),
    (unary.log2, np.log2, (1e-6, 100), 3),
    (unary.log2, np.log2, (0.5, 1.5), 4),
    (unary.log10, np.log10, (1e-6, 100), 3),
    (unary.log10, np.log10, (0.5, 1.5), 4),
    (unary.sin, np.sin, (-30, 30), 4),
    (unary.cos, np.cos, (-30, 30), 4),
    (unary.tan, np.tan, (-1.5, 1.5), 5),
    *((kernel, reference, domain, 5) for kernel, reference in TRIGONOMETRIC for domain in FAR),
    (unary.sinh, np.sinh, (-20, 20), 5),
    (unary.cosh, np.cosh, (-20, 20), 5),
    (unary.tanh, np.tanh, (-5, 5), 5),
    (unary.tanh, np.tanh, (-1e-3, 1e-3), 4),
    (unary.asinh, np.arcsinh, (-100, 100), 4),
    (unary.acosh, np.arccosh, (1, 100), 4),
    (unary.atanh, np.arctanh, (-0.99, 0.99), 5),
    (unary.asin, np.arcsin, (-1, 1), 4),
    (unary.acos, np.arccos, (-1, 1), 3),
    (unary.atan, np.arctan, (-10, 10), 4),
    (unary.erf, ERF, (-4, 4), 3),
    (activation.sigmoid, lambda x: 1 / (1 + np.exp(-x)), (-20, 20), 5),
    (activation.softplus, lambda x: np.logaddexp(x, 0), (-20, 20), 5),
    (unary.rsqrt, lambda x: 1 / np.sqrt(x), (0.01, 100), 3),
]


def units_in_last_place(actual, expected):
    return (np.abs(actual - expected) / np.spacing(np.abs(expected).astype(np.float32))).max()


@pytest.mark.parametrize(
    ("kernel", "reference", "domain", "units"), CASES, ids=lambda v: getattr(v, "name", "")
)
def test_unary(run, rng, kernel, reference, domain, units):
    x = rng.uniform(*domain, 50_000).astype(np.float32)
    assert units_in_last_place(run(kernel, x), reference(x.astype(np.float64))) < units


COMPLEX = [
    (unary.square, np.square, 2),
    (unary.reciprocal, np.reciprocal, 3),
    (unary.sqrt, np.sqrt, 3),
    (unary.rsqrt, lambda z: 1 / np.sqrt(z), 4),
    (unary.exp, np.exp, 4),
    (unary.expm1, lambda z: 2 * np.exp(z / 2) * np.sinh(z / 2), 5),
    (unary.log, np.log, 5),
    (unary.log1p, lambda z: 2 * np.arctanh(z / (2 + z)), 5),
    (unary.sin, np.sin, 5),
    (unary.cos, np.cos, 5),
    (unary.tan, np.tan, 6),
    (unary.asin, np.arcsin, 4),
    (unary.acos, np.arccos, 4),
    (unary.atan, np.arctan, 4),
    (unary.sinh, np.sinh, 5),
    (unary.cosh, np.cosh, 5),
    (unary.tanh, np.tanh, 6),
    (unary.asinh, np.arcsinh, 5),
    (unary.acosh, np.arccosh, 4),
    (unary.atanh, np.arctanh, 4),
]


@pytest.mark.parametrize(
    ("kernel", "reference", "units"), COMPLEX, ids=lambda v: getattr(v, "name", "")
)
def test_unary_of_complex_numbers(run, rng, kernel, reference, units):
    """The error of both parts together, in units of the absolute value, for sizes of all magnitudes."""
    x, y = 10.0 ** rng.uniform(-6, 1.5, (2, 50_000)) * rng.choice([-1, 1], (2, 50_000))
    z = (x + 1j * y).astype(np.complex64)
    assert units_in_last_place(run(kernel, z), reference(z.astype(np.complex128))) < units


def test_quotients_of_complex_numbers_of_any_size(run, rng):
    x, y, u, v = 10.0 ** rng.uniform(-30, 30, (4, 50_000)) * rng.choice([-1, 1], (4, 50_000))
    a, b = (x + 1j * y).astype(np.complex64), (u + 1j * v).astype(np.complex64)
    expected = a.astype(np.complex128) / b
    is_normal = (np.abs(expected) > 1e-37) & (np.abs(expected) < 1e38)
    actual = run(binary.divide, a, b)
    assert units_in_last_place(actual[is_normal], expected[is_normal]) < 4


@pytest.mark.parametrize(
    ("bases", "exponents", "units"),
    [((0.01, 10), (-5, 5), 6), ((0.5, 3), (-60, 60), 60), ((1e-3, 100), (0.5, 0.5), 4)],
)
def test_power(run, rng, bases, exponents, units):
    x = rng.uniform(*bases, 50_000).astype(np.float32)
    y = rng.uniform(*exponents, 50_000).astype(np.float32)
    expected = np.power(x.astype(np.float64), y.astype(np.float64))
    assert units_in_last_place(run(binary.power, x, y), expected) < units


def test_hypot(run, rng):
    x, y = rng.uniform(-1, 1, (2, 50_000)) * 10.0 ** rng.integers(-18, 18, 50_000)
    x, y = x.astype(np.float32), y.astype(np.float32)
    expected = np.hypot(x.astype(np.float64), y.astype(np.float64))
    assert units_in_last_place(run(binary.hypot, x, y), expected) < 3


def test_integer_powers_of_negative_numbers(run):
    x = np.float32([-3, -2, -0.5, 7])[:, None]
    y = np.float32([0, 1, 2, 3, 5, 8, -1, -2])
    np.testing.assert_allclose(run(binary.power, x, y), x**y, rtol=5e-7)


def test_remainders(run, rng):
    x = rng.uniform(-100, 100, 50_000).astype(np.float32)
    y = rng.uniform(0.01, 3, 50_000).astype(np.float32)
    np.testing.assert_array_equal(run(binary.remainder, x, y), np.remainder(x, y))
    np.testing.assert_array_equal(run(binary.floor_divide, x, y), np.floor_divide(x, y))
