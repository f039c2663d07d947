"""Tests of what is specific to this backend."""

import numpy as np
import pytest

import plugrad
from plugrad.errors import TensorIndexError
from plugrad.testing import check_gradient


@pytest.fixture(autouse=True)
def active_backend():
    """Run every test on the backend."""
    with plugrad.use("torch") as selection:
        yield selection.backend


def test_views_share_their_memory(active_backend):
    before = active_backend.memory()
    x = plugrad.asarray(np.zeros((100, 10), np.float32))
    y = plugrad.permute_dims(x, (1, 0))[3:]
    assert active_backend.memory().bytes - before.bytes == 4000
    del x
    assert active_backend.memory().bytes - before.bytes == 4000
    del y
    assert active_backend.memory()[:2] == before[:2]


def test_backend_implements_at_least_200_kernels():
    assert len(plugrad.get_kernels_for_backend("torch")) >= 200


def test_composites_run_and_are_differentiated():
    x = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    w = np.ones((4, 2), np.float32)
    assert plugrad.get_kernel("_FusedMatMul", "torch") is None
    y = plugrad.fused.matmul(x, w, bias=[1.0, -1.0], activation="relu")
    np.testing.assert_allclose(y, np.maximum(x @ w + [1, -1], 0), rtol=1e-5)
    check_gradient(
        lambda x, w: plugrad.fused.matmul(x, w, activation="sigmoid"), x, w, dtype="float32"
    )
    check_gradient(plugrad.selu, x, dtype="float32")


def test_positions_out_of_range_are_named():
    with pytest.raises(TensorIndexError, match="index 7 is out of range for axis 0 of size 3"):
        plugrad.take(plugrad.zeros(3), plugrad.asarray([7]))
