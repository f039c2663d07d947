"""Numbers, and comparisons of traced functions with untraced ones."""

import numpy as np

import plugrad
from plugrad.tensor.trees import iter_tensors
from plugrad.types.bits import comparable_bits


def random_tensor(*shape, dtype="float32", seed=0, device="cpu"):
    values = np.random.default_rng(seed).normal(size=shape)
    return plugrad.asarray((values * 3).astype(dtype), device=device)


def assert_same_when_traced(function, *args):
    """Check that a function returns the same bits traced and untraced."""
    traced = plugrad.jit(function)
    for _ in range(2):
        found, expected = traced(*args), function(*args)
        for x, y in zip(iter_tensors(found), iter_tensors(expected), strict=True):
            assert x.dtype is y.dtype
            assert x.shape == y.shape
            assert comparable_bits(x.numpy()) == comparable_bits(y.numpy())


def assert_close_when_traced(function, *args):
    """Check that a function returns nearly the same numbers traced and untraced; sums may have another order."""
    for x, y in zip(plugrad.jit(function)(*args), function(*args), strict=True):
        scale = np.abs(y.numpy()).max()
        np.testing.assert_allclose(x.numpy(), y.numpy(), rtol=1e-4, atol=1e-5 * scale)
