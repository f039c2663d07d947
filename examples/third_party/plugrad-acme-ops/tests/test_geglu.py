"""Tests of a kernel that is only a body of ops, on every backend."""

import math

import numpy as np
import pytest
from plugrad_acme_ops import geglu

import plugrad
from plugrad.errors import ShapeError
from plugrad.testing import check_gradient

RNG = np.random.default_rng(0)
GATE, UP = RNG.uniform(-4, 4, (2, 3, 5)).astype(np.float32)


def reference(gate, up):
    below = np.vectorize(lambda x: (1 + math.erf(x / math.sqrt(2))) / 2)(gate.astype(np.float64))
    return gate * below * up


def test_values(backend):
    result = geglu(plugrad.asarray(GATE), plugrad.asarray(UP))
    assert result.device.startswith(backend)
    np.testing.assert_allclose(result, reference(GATE, UP), rtol=1e-5, atol=1e-6)


def test_no_plugin_implements_geglu(backend):
    geglu(plugrad.asarray(GATE), plugrad.asarray(UP))
    assert plugrad.get_kernel("AcmeGeGLU", backend) is None


def test_the_body_is_differentiated(backend):
    check_gradient(geglu, GATE, UP, dtype="float32")


def test_to_second_order_in_double_precision():
    with plugrad.use("cpu"):
        check_gradient(geglu, GATE, UP, order=2, dtype="float64")


def test_shapes_that_do_not_fit_are_refused(backend):
    with pytest.raises(ShapeError, match="do not broadcast"):
        geglu(plugrad.asarray(GATE), plugrad.asarray(GATE[:, :4]))
