"""Formulas of activations in NumPy where rounding errors could grow."""

import numpy as np

from plugrad_cpu.kernels import activation


def test_gelu_tanh_keeps_the_digits_of_small_results():
    x = np.linspace(-5, 5, 1001, dtype=np.float32)
    wide = x.astype(np.float64)
    slope = np.sqrt(8 / np.pi) * (wide + 0.044715 * wide**3)
    expected = wide / (1 + np.exp(-slope))
    np.testing.assert_allclose(activation.gelu_tanh(x), expected, rtol=4e-6)


def test_gelu_tanh_of_extremes():
    x = np.array([-np.inf, -1e30, np.inf, 1e30, np.nan], np.float32)
    with np.errstate(over="ignore"):
        y = activation.gelu_tanh(x)
    np.testing.assert_array_equal(y, np.array([0, 0, np.inf, 1e30, np.nan], np.float32))
