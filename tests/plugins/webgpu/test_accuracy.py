"""Functions of accurate.wgsl and complex.wgsl at arguments that the page of accuracy does not have."""

import numpy as np
import pytest

from plugrad.kernels import binary, unary
from plugrad_webgpu.kernels.normalization import layer_norm

TRIGONOMETRIC_KERNELS = [(unary.sin, np.sin), (unary.cos, np.cos), (unary.tan, np.tan)]


def units_in_last_place(actual, expected):
    return (np.abs(actual - expected) / np.spacing(np.abs(expected).astype(np.float32))).max()


@pytest.mark.parametrize(
    ("kernel", "reference"), TRIGONOMETRIC_KERNELS, ids=lambda v: getattr(v, "name", "")
)
def test_angles_next_to_whole_quarters(run, kernel, reference):
    """Nearly all digits of such an angle cancel in the range reduction."""
    quarters = (np.arange(1, 60_000) * (np.pi / 2)).astype(np.float32)
    for x in (np.nextafter(quarters, 0), quarters, np.nextafter(quarters, np.float32(1e9))):
        assert units_in_last_place(run(kernel, x), reference(x.astype(np.float64))) < 4


def test_quotients_of_complex_numbers_of_any_size(run, rng):
    x, y, u, v = 10.0 ** rng.uniform(-30, 30, (4, 50_000)) * rng.choice([-1, 1], (4, 50_000))
    a, b = (x + 1j * y).astype(np.complex64), (u + 1j * v).astype(np.complex64)
    expected = a.astype(np.complex128) / b
    # A device may flush a part below 1.2e-38 to zero.
    is_normal = (np.abs(expected) > 1e-30) & (np.abs(expected) < 1e38)
    actual = run(binary.divide, a, b)
    assert units_in_last_place(actual[is_normal], expected[is_normal]) < 4


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


@pytest.mark.parametrize("size", [1, 3, 4, 15, 16, 18, 1023, 4096])
def test_deviations_of_rows_that_one_invocation_finds_in_one_pass(run, rng, monkeypatch, size):
    monkeypatch.setattr(run.device, "is_software", True)

    def normalized(x):
        return run.to_host(layer_norm(run.to_device(x), None, None, axis=1, variance_epsilon=1e-5))

    noise = rng.standard_normal((24, size)).astype(np.float32)
    rows = {
        "near zero": noise,
        "far from zero": 30 * noise + np.float32(1e5),
        "beginning elsewhere": np.where(np.arange(size) < 16, 0, noise + 1000).astype(np.float32),
        "growing": noise * np.exp(np.linspace(-10, 10, size, dtype=np.float32)),
    }
    limits = {"near zero": 1e-6, "far from zero": 5e-3}  # the mean is rounded
    for name, x in rows.items():
        centred = x - x.mean(1, keepdims=True, dtype=np.float64)
        expected = centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5)
        np.testing.assert_allclose(
            normalized(x),
            expected,
            rtol=0,
            atol=limits.get(name, 1e-5) * max(1, np.abs(expected).max()),
            err_msg=name,
        )
    equal = np.full((24, size), np.float32(0.1))
    np.testing.assert_array_equal(normalized(equal), np.zeros_like(equal))
