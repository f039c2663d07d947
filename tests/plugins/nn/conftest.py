"""Parameters for tests of layers."""

import numpy as np
import pytest

import plugrad
import plugrad_nn as nn


def randomized(params, rng):
    """Give each parameter random values, so that no bias is 0; variances stay positive."""
    for variable in nn.leaves(params):
        values = rng.uniform(-1, 1, variable.shape)
        values = values + 2 if variable.name.endswith("variance") else values
        variable.assign(plugrad.asarray(values.astype(str(variable.dtype))))


def as_numpy(tree):
    """Return nested dicts with arrays in double precision."""
    return {
        name: as_numpy(part) if isinstance(part, dict) else part.numpy().astype(np.float64)
        for name, part in tree.items()
    }


@pytest.fixture
def made(rng):
    """A function that makes random parameters for a layer."""

    def make(layer, shape, dtype="float32"):
        params = layer.init(0, shape, dtype)
        randomized(params, rng)
        return params

    return make
