"""Signs and digits of activations that the values of other tests do not show."""

import numpy as np
import pytest


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("name", ["Gelu", "Silu"])
def test_zeros_keep_their_sign(run, name, dtype):
    y = run(name, np.array([0, -0.0, 1, -1, 0, -0.0, 0, 2, -0.0], dtype))
    assert np.signbit(y).tolist() == [False, True, False, True, False, True, False, False, True]


@pytest.mark.parametrize("domain", [(-17, -16), (-22, -20), (-9, -8)], ids=str)
def test_sigmoid_keeps_its_digits_far_below_0(run, domain):
    """The figure is that of the page on accuracy, which is measured with few numbers."""
    x = np.linspace(*domain, 400_000, dtype=np.float32)
    right = 1 / (1 + np.exp(-x.astype(float)))
    error = np.abs(run("Sigmoid", x) - right) / np.spacing(right.astype(np.float32))
    assert error.max() <= 3
