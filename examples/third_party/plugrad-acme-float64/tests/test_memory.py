"""Tests of what is specific to this backend: every byte is counted, and float64 is the only floating-point dtype."""

import numpy as np
import pytest

import plugrad
from plugrad.errors import OutOfMemory, UnsupportedDtype


@pytest.fixture(autouse=True)
def active_backend():
    """Run every test on the backend."""
    with plugrad.use("acme_float64") as selection:
        yield selection.backend


def test_every_byte_is_counted(active_backend):
    before = active_backend.memory()
    x = plugrad.asarray(np.zeros(1000))
    y = plugrad.sum(x)
    after = active_backend.memory()
    assert (after.bytes - before.bytes, after.buffers - before.buffers) == (8008, 2)
    del x, y
    assert active_backend.memory()[:2] == before[:2]


def test_results_beyond_the_limit_are_rejected_before_computation(active_backend):
    x = plugrad.asarray(np.zeros((1000, 1)))
    y = plugrad.permute_dims(x, (1, 0))
    before = active_backend.memory()
    active_backend.set_memory_limit(before.bytes + 7_000_000)
    try:
        with pytest.raises(OutOfMemory, match="8,000,000 more would exceed its limit"):
            x + y
        assert active_backend.memory().peak == before.peak
    finally:
        active_backend.set_memory_limit(None)


def test_gradients_are_as_precise_as_differences_can_tell():
    x = np.array([0.5, 1.0, 2.0])
    gradient = plugrad.grad(lambda x: plugrad.sum(plugrad.exp(x) * plugrad.sin(x)))(x)
    np.testing.assert_allclose(gradient, np.exp(x) * (np.sin(x) + np.cos(x)), rtol=1e-15)


def test_single_precision_is_refused():
    with pytest.raises(UnsupportedDtype, match="acme_float64"):
        plugrad.asarray([1.0], dtype=plugrad.float32)
