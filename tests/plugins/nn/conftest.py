"""Parameters for tests of layers."""

import numpy as np
import pytest

import plugrad
import plugrad_nn as nn


def randomize(params, rng):
    """Give each parameter random values, so that no bias is 0 and variances stay positive."""
    for variable in nn.leaves(params):
        values = rng.uniform(-1, 1, variable.shape)
        values = values + 2 if variable.name.endswith("variance") else values
        variable.assign(plugrad.asarray(values.astype(str(variable.dtype))))


def as_numpy(tree):
    """Return nested dicts of float64 arrays."""
    return {
        name: as_numpy(part) if isinstance(part, dict) else part.numpy().astype(np.float64)
        for name, part in tree.items()
    }


@pytest.fixture
def make_params(rng):
    """A function that returns random parameters for a layer."""

    def make(layer, shape, dtype="float32"):
        params = layer.init(0, shape, dtype)
        randomize(params, rng)
        return params

    return make
