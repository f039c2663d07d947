"""Bessel functions of any order: within 4 units in the last place of mpmath on cpu, with gradients."""

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.special

import plugrad
from plugrad.errors import ArgumentError, DTypeError, ShapeError
from plugrad.testing import check_gradient
from plugrad_numerics import special

RECORDED_VALUES = json.loads((Path(__file__).parent / "bessel_values.json").read_text("utf-8"))
"""What mpmath gives; `record_special.py` records it."""
NAMES_AND_ORDERS = [(name, order) for name in RECORDED_VALUES for order in RECORDED_VALUES[name]]
NAMES = ("jv", "yv", "iv", "kv", "ive", "kve")


@pytest.mark.parametrize(("name", "order"), NAMES_AND_ORDERS)
def test_values_are_within_four_units_in_the_last_place(name, order):
    x, expected, size = (
        np.array(RECORDED_VALUES[name][order][key]) for key in ("x", "value", "size")
    )
    with plugrad.use("cpu"):
        found = getattr(special, name)(float(order), x)
    assert found.dtype == "float64"
    units = np.abs(found.numpy() - expected) / np.spacing(size)
    assert units.max() <= 4, f"{name} of {x[units.argmax()]!r}: {units.max():.1f} units"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.rows(("name", "order"), NAMES_AND_ORDERS)
def test_values_in_single_precision(name, order, backend):
    x, size = (np.array(RECORDED_VALUES[name][order][key]) for key in ("x", "size"))
    known = (size > 1e-30) & (size < 1e30)
    x, size = x[known].astype("float32"), size[known]
    found = getattr(special, name)(float(order), x)
    assert found.dtype == "float32"
    with plugrad.use("cpu"):
        expected = getattr(special, name)(float(order), x.astype("float64")).numpy()
    # Without float64, sines of 500 and powers of small numbers are rounded by more.
    allowed = 1.2e-7 if plugrad.float64 in plugrad.which().backend.dtypes() else 2e-4
    np.testing.assert_array_less(np.abs(found.numpy() - expected), allowed * size + 1e-37)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.rows("order", [0, 1, 2, 0.5, 2.5, -0.5, -1, -2, -2.5])
@pytest.mark.parametrize("name", NAMES)
def test_edge_cases_match_scipy(name, order, backend):
    x = np.array([0.0, 1.0, np.inf, np.nan, 3.0], "float32")
    expected = getattr(scipy.special, name)(order, x.astype("float64"))
    found = getattr(special, name)(order, x).numpy()
    if name in ("jv", "yv"):  # SciPy says NaN, and the limit is 0
        expected[2] = 0
    if name == "iv":  # SciPy says NaN
        expected[2] = np.inf
    if name in ("ive", "kve"):  # SciPy says NaN
        expected[2] = 0
    if name == "ive" and order in (-0.5, -2.5):  # SciPy says NaN
        expected[0] = np.copysign(np.inf, scipy.special.iv(order, 1e-9))
    if name == "yv" and order in (-0.5, -2.5):  # SciPy says -inf, but it is J of the opposite order
        expected[0] = 0
    np.testing.assert_allclose(found, expected, rtol=5e-5, atol=1e-30)


@pytest.mark.parametrize("name", NAMES)
def test_negative_arguments(name, backend):
    x = np.array([-0.4, -2.0, -40.0], "float32")
    for order in (0, 1, 2, -1, -2, 0.5, -0.5):
        expected = getattr(scipy.special, name)(order, x.astype("float64"))
        found = getattr(special, name)(order, x).numpy()
        np.testing.assert_allclose(found, expected, rtol=2e-4)


@pytest.mark.parametrize("name", NAMES)
def test_orders_close_to_integers(name):
    x = np.array([0.01, 0.5, 3.0, 20.0, 50.0])
    with plugrad.use("cpu"):
        at = getattr(special, name)(2, x).numpy()
        for order in (2 + 1e-13, 2 - 1e-13, np.float64(2), np.int32(2)):
            np.testing.assert_allclose(getattr(special, name)(order, x).numpy(), at, rtol=5e-12)


@pytest.mark.parametrize("order", [0, 2, 0.3, -1.7])
@pytest.mark.parametrize("name", NAMES)
def test_gradients(name, order):
    def function(x):
        return getattr(special, name)(order, x)

    with plugrad.use("cpu"):
        check_gradient(
            function, plugrad.asarray(np.array([0.3, 1.7, 7.2, 40.0])[: 4 - (name == "iv")])
        )


def test_gradients_are_the_identities_of_neighbouring_orders():
    with plugrad.use("cpu"):
        x = plugrad.asarray(np.array([0.2, 3.0, 11.0, 45.0]))
        for name, sign, both in (("jv", 1, -1), ("yv", 1, -1), ("iv", 1, 1), ("kv", -1, 1)):
            function = getattr(special, name)
            found = plugrad.grad(lambda x, f=function: plugrad.sum(f(1, x)))(x).numpy()
            expected = sign * (function(0, x) + both * function(2, x)) / 2  # DLMF 10.6.1, 10.29.1
            np.testing.assert_allclose(found, expected.numpy(), rtol=1e-11)


def test_gradients_at_0_are_finite():
    with plugrad.use("cpu"):
        for order, slope in ((0, 0), (1, 0.5), (2, 0), (3, 0)):
            for function in (special.jv, special.iv):
                found = plugrad.grad(lambda x, f=function, v=order: f(v, x))(0.0).item()
                assert found == pytest.approx(slope, abs=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_traced_and_batched(name, backend):
    def function(x):
        return getattr(special, name)(2.5, x)

    x = plugrad.asarray([[0.3, 1.7], [4.0, 40.0]])
    expected = function(x).numpy()
    np.testing.assert_allclose(plugrad.jit(function)(x), expected, rtol=1e-5)
    np.testing.assert_allclose(plugrad.vmap(function)(x), expected, rtol=1e-5)


def test_dtypes_and_bad_orders(backend):
    assert special.jv(2, 3).dtype == special.kv(2, [1, 2]).dtype == "float32"
    assert special.yv(2, np.zeros((0, 2), "float32")).shape == (0, 2)
    with pytest.raises(DTypeError, match="jv does not take complex64"):
        special.jv(2, [1j])
    for order in (
        65,
        -65.0,
        np.nan,
        np.inf,
        True,
        "2",
        [1, 65],
        [0.5, np.nan],
        [True],
        [1j],
        [[1], 2],
    ):
        with pytest.raises(ArgumentError, match="must be a number from -64 to 64, or an array"):
            special.iv(order, 1.0)
    with pytest.raises(ArgumentError, match="is a tensor; pass numbers or a NumPy array"):
        special.iv(plugrad.asarray(2.0), 1.0)
    with pytest.raises(ShapeError):
        special.iv([1, 2], [1.0, 2.0, 3.0])


@pytest.mark.parametrize("name", NAMES)
def test_arrays_of_orders(name, backend):
    function, peer = getattr(special, name), getattr(scipy.special, name)
    orders, x = np.array([[0.0], [2.5], [-3.0]]), np.array([0.3, 4.0, 40.0], "float32")
    found = function(orders, x)
    assert (found.dtype, found.shape) == ("float32", (3, 3))
    np.testing.assert_allclose(found, peer(orders, x.astype("float64")), rtol=2e-4, atol=2e-6)
    assert function([0, 2], 1.5).shape == (2,)
    assert function(np.zeros((0, 1)), x).shape == (0, 3)
    rows = plugrad.jit(lambda x: function(orders, x))(plugrad.asarray(x))
    np.testing.assert_allclose(rows, found, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", NAMES)
def test_gradients_of_arrays_of_orders(name):
    with plugrad.use("cpu"):
        function = getattr(special, name)
        check_gradient(
            lambda x: function([0, 2.5, -3], x), plugrad.asarray(np.array([0.3, 1.7, 7.2]))
        )
        # 0 is a pole of no order but the second one.
        gradient = plugrad.grad(lambda x: function([2, 0.5], x)[0])(plugrad.asarray(np.array(1.5)))
        alone = plugrad.grad(lambda x: function(2, x))(plugrad.asarray(np.array(1.5)))
        assert gradient.item() == pytest.approx(alone.item(), rel=1e-13)
