"""Tests of values, special values, gradients to second order, errors and examples, on every backend."""

import doctest

import numpy as np
import plugrad_acme_ops.ops
import pytest
from plugrad_acme_ops import geglu, swiglu

import plugrad
from plugrad.errors import DTypeError, ShapeError
from plugrad.testing import check_gradient

RNG = np.random.default_rng(0)
GATE, UP = RNG.uniform(-4, 4, (2, 3, 5)).astype(np.float32)


def reference(gate, up):
    gate = np.asarray(gate, np.float64)
    with np.errstate(all="ignore"):
        return gate / (1 + np.exp(-gate)) * up


def test_values(backend):
    result = swiglu(plugrad.asarray(GATE), plugrad.asarray(UP))
    assert result.device.startswith(backend)
    np.testing.assert_allclose(result, reference(GATE, UP), rtol=2e-6, atol=1e-7)


def test_one_kernel_runs(backend):
    kernel = plugrad.get_kernel("AcmeSwiGLU", backend)
    if kernel is None:
        pytest.skip(f"the body runs on {backend}: no plugin brings AcmeSwiGLU for it")
    ran = []

    def watched(gate, up):
        ran.append(gate.shape)
        return kernel.kernel_func(gate, up)

    with plugrad.override_kernel("AcmeSwiGLU", backend, watched):
        swiglu(plugrad.asarray(GATE), plugrad.asarray(UP))
    assert ran == [(3, 5)]


@pytest.mark.parametrize("shapes", [((3, 1), (1, 5)), ((5,), (2, 5)), ((), ()), ((0, 3), (1, 3))])
def test_shapes_are_broadcast(shapes, backend):
    gate, up = (RNG.uniform(-4, 4, shape).astype(np.float32) for shape in shapes)
    result = swiglu(plugrad.asarray(gate), plugrad.asarray(up))
    np.testing.assert_allclose(result, reference(gate, up), rtol=2e-6, atol=1e-7)


def test_far_from_zero(backend):
    gate = np.array([-300, -88, -20, -1e-6, 0, 1e-6, 20, 88, 300, np.inf, np.nan], np.float32)
    result = swiglu(plugrad.asarray(gate), plugrad.asarray(np.ones_like(gate)))
    np.testing.assert_allclose(result, reference(gate, 1), rtol=2e-6, atol=1e-30)


def test_many_examples_at_once(backend):
    gate, up = plugrad.asarray(GATE), plugrad.asarray(UP)
    for op in (swiglu, geglu):
        np.testing.assert_allclose(plugrad.vmap(op)(gate, up), op(gate, up), rtol=2e-6, atol=1e-7)
        shared = plugrad.vmap(op, (0, None))(gate, up[0])
        np.testing.assert_allclose(shared, op(gate, up[:1]), rtol=2e-6, atol=1e-7)


def test_gradient_to_second_order(backend):
    check_gradient(swiglu, GATE, UP, order=2, dtype="float32")


def test_gradient_in_double_precision():
    with plugrad.use("cpu"):
        check_gradient(swiglu, GATE, UP, order=3, dtype="float64")


def test_shapes_and_dtypes_that_do_not_fit_are_refused(backend):
    with pytest.raises(ShapeError, match="do not broadcast"):
        swiglu(plugrad.asarray(GATE), plugrad.asarray(GATE[:, :4]))
    with pytest.raises(DTypeError, match="AcmeSwiGLU does not take int32"):
        swiglu(plugrad.asarray([1]), plugrad.asarray([1]))


def test_plugrad_finds_the_pack_and_its_kernel(backend):
    assert plugrad.op_pack("acme").swiglu is swiglu
    x = plugrad.asarray(GATE)
    by_name = plugrad.run_kernel("AcmeSwiGLU", {"gate": x, "up": x})
    np.testing.assert_array_equal(by_name, swiglu(x, x))


@pytest.mark.parametrize("module", [plugrad_acme_ops, plugrad_acme_ops.ops])
def test_examples(module):
    with plugrad.use("cpu"):
        assert doctest.testmod(module).failed == 0
