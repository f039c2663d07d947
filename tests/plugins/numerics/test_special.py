"""Special functions: within 4 units in the last place of mpmath on cpu, near it elsewhere, with gradients."""

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import scipy.special

import plugrad
from plugrad.errors import ArgumentError, AxisError, DTypeError
from plugrad.testing import check_gradient
from plugrad_numerics import special

RECORDED_VALUES = json.loads((Path(__file__).parent / "special_values.json").read_text("utf-8"))
"""What mpmath gives; `record_special.py` records it."""
RECORDED_VALUES_OF_SEVERAL_ARGUMENTS = json.loads(
    (Path(__file__).parent / "special_values_of_several.json").read_text("utf-8")
)
RECORDED_VALUES_OF_ORDERS = json.loads(
    (Path(__file__).parent / "special_values_of_orders.json").read_text("utf-8")
)


@pytest.mark.parametrize("name", RECORDED_VALUES)
def test_values_are_within_four_units_in_the_last_place(name):
    x, expected, size = (np.array(RECORDED_VALUES[name][key]) for key in ("x", "value", "size"))
    with plugrad.use("cpu"):
        found = getattr(special, name)(x)
    assert found.dtype == "float64"
    units = np.abs(found.numpy() - expected) / np.spacing(size)
    assert units.max() <= 4, f"{name}({x[units.argmax()]!r}) is off by {units.max():.1f} units"


@pytest.mark.parametrize("name", RECORDED_VALUES_OF_SEVERAL_ARGUMENTS)
def test_functions_of_several_numbers_are_within_four_units_in_the_last_place(name):
    arguments, expected = map(np.array, RECORDED_VALUES_OF_SEVERAL_ARGUMENTS[name].values())
    with plugrad.use("cpu"):
        found = getattr(special, name)(*arguments)
    assert found.dtype == "float64"
    is_normal = np.abs(expected) > 1e-290
    units = np.where(is_normal, np.abs(found.numpy() - expected) / np.spacing(np.abs(expected)), 0)
    worst = units.argmax()
    assert units.max() <= 4, f"{name}{tuple(arguments[:, worst])} is off by {units.max():.1f} units"


VALUES_AT_THE_ENDS_OF_FLOAT64 = [
    ("erfcinv", (4.9e-17,), 5.931968775228484),
    ("erfcinv", (1e-19,), 6.42685825015982),
    ("erfcinv", (1e-40,), 9.448789766720859),
    ("erfcinv", (1e-111,), 15.882298408760768),
    ("erfcinv", (1e-300,), 26.209469960516124),
    ("ndtri", (4.9e-17,), -8.307183908264438),
    ("ndtri", (1e-19,), -9.013271153126674),
    ("ndtri", (1e-111,), -22.430141474474848),
    ("ndtri", (1e-300,), -37.0470962993612),
    ("gamma", (-1e-19,), -1e19),
    ("gamma", (-4.6e-275,), -2.173913043478261e274),
    ("gamma", (3e-300,), 3.333333333333333e299),
    ("gamma", (-1.5e-08,), -66666667.24388235),
    ("gammainc", (266.0, 1e-05), 0.0),
    ("gammainc", (725.0, 0.6), 0.0),
    ("gammainc", (9.5, 1e-31), 2.790380272848642e-301),
    ("gammaincc", (0.2, 772.0), 0.0),
    ("gammaincc", (0.2, 700.0), 1.1360472110212617e-307),
    ("gammaincc", (145.0, 1373.0), 0.0),
    ("betainc", (71.0, 17.5, 1e-11), 0.0),
    ("betainc", (1522.0, 1493.0, 0.065), 0.0),
    ("betainc", (5.0, 5.0, 1e-60), 1.26e-298),
    ("beta", (5476.0, 5758.0), 0.0),
    ("beta", (446.0, 767193.0), 0.0),
]
"""A function, its arguments, and what mpmath gives, where a part of the computation is below or above float64."""


def test_values_at_the_ends_of_float64():
    for backend in ("cpu", "wasm"):
        for name, arguments, expected in VALUES_AT_THE_ENDS_OF_FLOAT64:
            with plugrad.use(backend):
                found = float(getattr(special, name)(*(np.array(a) for a in arguments)))
            units = abs(found - expected) / np.spacing(abs(expected))
            assert units <= 4, f"{name}{arguments} is {found} on {backend}, not {expected}"


def test_derivatives_near_0():
    x = np.array([0.0, -0.0, -1e-300, -1e-16, -1e-13, 1e-15])
    with plugrad.use("cpu"):
        found = plugrad.grad(lambda x: plugrad.sum(special.zeta(x)))(x)
        steep = plugrad.grad(lambda x: plugrad.sum(special.trigamma(x)))(np.array([1e-100]))
    np.testing.assert_allclose(found, np.full(6, -0.5 * np.log(2 * np.pi)), rtol=1e-12)
    np.testing.assert_allclose(steep, [-2e300], rtol=1e-12)


@pytest.mark.parametrize(
    ("name", "n"),
    [(name, n) for name, of in RECORDED_VALUES_OF_ORDERS.items() for n in of["values"]],
)
def test_functions_of_whole_orders_are_within_four_units_in_the_last_place(name, n):
    recorded = RECORDED_VALUES_OF_ORDERS[name]
    x, expected = np.array(recorded["x"]), np.array(recorded["values"][n])
    with plugrad.use("cpu"):
        found = getattr(special, name)(int(n), x)
    assert found.dtype == "float64"
    units = np.abs(found.numpy() - expected) / np.spacing(np.abs(expected))
    assert units.max() <= 4, f"{name}({n}, {x[units.argmax()]}) is off by {units.max():.1f} units"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("n", [0, 1, 2, 3, 12, 40])
@pytest.mark.parametrize("name", ["polygamma", "expn"])
def test_whole_orders_in_single_precision(name, n, backend):
    x = np.array([*EDGE_VALUES, -2.3, 1e-2, 0.4, 0.9, 7.5, 40.0], "float32")
    expected = getattr(scipy.special, name)(n, x.astype("float64"))
    fits = ~(np.abs(expected) > 1e38) | np.isinf(expected)
    found = getattr(special, name)(n, x)
    assert found.dtype == "float32"
    np.testing.assert_allclose(found.numpy()[fits], expected[fits], rtol=2e-4, atol=1e-36)
    np.testing.assert_allclose(plugrad.jit(lambda x: getattr(special, name)(n, x))(x), found)


def test_refined_whole_orders_in_wasm():
    with plugrad.use("wasm"):
        for name, recorded in RECORDED_VALUES_OF_ORDERS.items():
            found = getattr(special, name)(3, np.array(recorded["x"][::8]))
            np.testing.assert_allclose(found, recorded["values"]["3"][::8], rtol=9e-16)


def test_wrong_orders():
    for n in (-1, 1.0, True, 2000, None):
        with pytest.raises(ArgumentError, match="must be an integer from 0 to 100"):
            special.polygamma(n, 1.0)
        with pytest.raises(ArgumentError, match="must be an integer from 0 to 1000"):
            special.expn(n, 1.0)
    with pytest.raises(DTypeError, match="expn does not take complex64"):
        special.expn(2, [1j])


@pytest.mark.parametrize("axis", [0, -1])
def test_logcumsumexp(axis, backend, rng):
    x = rng.normal(0, 100, (5, 13)).astype("float32")
    x[2, :4], x[3, 5], x[4, 3] = -np.inf, np.inf, np.nan
    with np.errstate(invalid="ignore"):
        expected = np.logaddexp.accumulate(x.astype("float64"), axis=axis)
    found = special.logcumsumexp(x, axis=axis)
    assert found.dtype == "float32"
    np.testing.assert_allclose(found, expected, rtol=2e-6, atol=2e-5)
    traced = plugrad.jit(lambda x: special.logcumsumexp(x, axis=axis))(x)
    np.testing.assert_allclose(traced, found, rtol=2e-6, atol=2e-5)
    rows = plugrad.vmap(special.logcumsumexp)(x)
    np.testing.assert_allclose(rows, special.logcumsumexp(x), rtol=2e-6, atol=2e-5)


def test_logarithms_of_sums_are_within_four_units_in_the_last_place(rng):
    x = rng.uniform(-5, 20, (60, 50))
    expected = np.log(np.cumsum(np.exp(x.astype(np.longdouble)), axis=1)).astype("float64")
    with plugrad.use("cpu"):
        running = special.logcumsumexp(x).numpy()
        total = plugrad.log_sum_exp(plugrad.asarray(x), axis=1).numpy()
    assert (np.abs(running - expected) <= 4 * np.spacing(np.abs(expected))).all()
    assert (np.abs(total - expected[:, -1]) <= 4 * np.spacing(expected[:, -1])).all()


def test_logcumsumexp_at_edges(backend):
    assert special.logcumsumexp(np.zeros((2, 0), "float32")).shape == (2, 0)
    assert special.logcumsumexp([3]).tolist() == [3]
    gradient = plugrad.grad(lambda x: plugrad.sum(special.logcumsumexp(x)))([-np.inf, 0.0, 0.0])
    np.testing.assert_allclose(gradient, [1, 1.5, 0.5], rtol=1e-5)
    with pytest.raises(AxisError):
        special.logcumsumexp([1.0], axis=1)
    with pytest.raises(DTypeError, match="logcumsumexp does not take complex64"):
        special.logcumsumexp([1j])


@pytest.mark.parametrize("name", ["gammainc", "betainc", "betaln", "kl_div"])
def test_refined_values_traced_batched_and_in_wasm(name):
    recorded = RECORDED_VALUES_OF_SEVERAL_ARGUMENTS[name]
    arguments = [np.array(a[:60:6]) for a in recorded["arguments"]]
    expected = np.array(recorded["value"][:60:6])
    function = getattr(special, name)
    for change in (plugrad.jit, plugrad.vmap):
        with plugrad.use("cpu"):
            np.testing.assert_allclose(change(function)(*arguments), expected, rtol=9e-16)
    with plugrad.use("wasm"):
        np.testing.assert_allclose(function(*arguments), expected, rtol=9e-16)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", RECORDED_VALUES)
def test_values_in_single_precision(name, backend):
    x, size = (np.array(RECORDED_VALUES[name][key]) for key in ("x", "size"))
    known = np.isfinite(size.astype("float32")) & (size > 1e-30)
    x = x[known].astype("float32")
    found = getattr(special, name)(x)
    assert found.dtype == "float32"
    with plugrad.use("cpu"):
        expected = getattr(special, name)(x.astype("float64")).numpy()
    allowed = 1.2e-7 if plugrad.float64 in plugrad.which().backend.dtypes() else 2e-5
    if name in ("gamma", "i0", "i1", "erfcx", "expi") and allowed > 1e-6:
        allowed = 1e-4  # an exponential of a large number magnifies what it is rounded by
    finite = np.isfinite(expected) & (np.abs(expected) < 3e38)
    error = np.abs(found.numpy() - expected)[finite]
    size = size[known]
    if name in ("gammaln", "digamma", "expi"):  # a rounded number may be farther from a root
        size = np.maximum(size, np.abs(expected))
    if name == "digamma":  # below -32, terms of this size cancel; float64 numbers are refined there
        size = np.where(x < -32, np.log(np.abs(x)), size)
    size = size[finite]
    np.testing.assert_array_less(error, allowed * size + 1e-37)


EDGE_VALUES = [0.0, -0.0, 1.0, -1.0, -2.0, np.inf, -np.inf, np.nan, 0.5, -0.5, 2.0, 300.0]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name",
    [
        *(
            "gammaln",
            "gamma",
            "digamma",
            "erfcx",
            "erfc",
            "erfinv",
            "erfcinv",
            "j0",
            "j1",
            "i0e",
            "i1e",
        ),
        *(
            "k0e",
            "k1e",
            "k0",
            "k1",
            "i0",
            "i1",
            "exp1",
            "expi",
            "ndtr",
            "log_ndtr",
            "ndtri",
            "expit",
        ),
        *("log_expit", "logit", "entr"),
    ],
)
def test_edge_cases_match_scipy(name, backend):
    x = np.array(EDGE_VALUES, "float32")
    expected = getattr(scipy.special, name)(x.astype("float64"))
    expected = expected.astype("float32")
    found = getattr(special, name)(x).numpy()
    if name in ("j0", "j1"):  # SciPy says NaN, and the limit is 0
        assert not found[np.isinf(x)].any()
        expected[np.isinf(x)] = 0
    if name == "gamma":  # SciPy's sign at poles differs between versions
        found, expected = found[3 + 2 :], expected[3 + 2 :]
        found, expected = np.delete(found, 1), np.delete(expected, 1)
    np.testing.assert_allclose(found, expected, rtol=5e-5, atol=1e-30)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["xlogy", "xlog1py", "rel_entr", "kl_div", "beta", "betaln"])
def test_functions_of_two_arguments(name, backend, rng):
    x = np.r_[rng.uniform(0.1, 5, 8), 0.0, 1.0].astype("float32")
    y = np.r_[rng.uniform(0.1, 5, 8), 1.0, 0.5].astype("float32")
    expected = getattr(scipy.special, name)(x.astype("float64"), y)
    if name.startswith("beta"):
        x, y, expected = x[:8], y[:8], expected[:8]
    np.testing.assert_allclose(getattr(special, name)(x, y), expected, rtol=3e-5, atol=1e-6)


def test_entropy_functions_outside_of_their_domain(backend):
    assert (
        special.rel_entr([0.0, 1.0, -1.0, 0.0], [0.0, 0.0, 1.0, -1.0]).tolist()
        == [0] + [np.inf] * 3
    )
    assert np.isnan(special.rel_entr(np.nan, 1.0).item())
    assert np.isnan(special.xlogy(0.0, np.nan).item())
    assert special.log1mexp([0.0, -np.inf]).tolist() == [-np.inf, 0]


@pytest.mark.parametrize("d", [1, 2, 3, 7])
def test_gamma_functions_of_several_dimensions(d, backend):
    """The gradient is a sum of digamma functions."""
    is_double = plugrad.float64 in plugrad.which().backend.dtypes()
    dtype, allowed = ("float64", 1e-14) if is_double else ("float32", 2e-5)
    a = ((d - 1) / 2 + np.array([1e-3, 0.1, 0.6, 1.4, 9.0, 300.0, 1e5])).astype(dtype)
    wide = a.astype("float64")
    terms = [wide - j / 2 for j in range(d)]
    size = sum(np.abs(scipy.special.gammaln(x)) for x in terms) + d * d
    found = special.multigammaln(a, d)
    assert found.dtype == dtype
    error = np.abs(found.numpy() - scipy.special.multigammaln(wide, d))
    np.testing.assert_array_less(error, allowed * size)
    slope = plugrad.grad(lambda a: plugrad.sum(special.multigammaln(a, d)))(a)
    expected = sum(map(scipy.special.digamma, terms))
    np.testing.assert_allclose(slope, expected, rtol=20 * allowed)


@pytest.mark.parametrize("name", ["gammainc", "gammaincc", "betainc"])
def test_incomplete_functions(name, rng):
    a, b, x = rng.uniform(0.1, 60, (3, 200))
    arguments = [a, b, rng.uniform(0, 1, 200)] if name == "betainc" else [a, x * 1.5]
    expected = getattr(scipy.special, name)(*arguments)
    with plugrad.use("cpu"):
        found = getattr(special, name)(*arguments).numpy()
    near = expected > 1e-13 if name != "betainc" else (expected > 1e-13) & (expected < 1 - 1e-13)
    np.testing.assert_allclose(found[near], expected[near], rtol=1e-10, atol=1e-14)


def test_gamma_functions_below_0_in_wasm_and_traced():
    for name in ("gammaln", "digamma"):
        x, expected = (np.array(RECORDED_VALUES[name][key])[-40:] for key in ("x", "value"))
        with plugrad.use("wasm"):
            np.testing.assert_allclose(getattr(special, name)(x), expected, rtol=9e-16)
        with plugrad.use("cpu"):
            for change in (plugrad.jit, plugrad.vmap):
                found = change(getattr(special, name))(x)
                np.testing.assert_allclose(found, expected, rtol=9e-16)


def test_derivatives_of_gammaln_below_0():
    x = np.array([-2.457, -2.6, -3.1436, -4.04, -5.5])
    trigamma = (np.pi / np.sin(np.pi * x)) ** 2 - scipy.special.polygamma(1, 1 - x)
    with plugrad.use("cpu"):
        slope = plugrad.grad(lambda x: plugrad.sum(special.gammaln(x)))
        np.testing.assert_allclose(slope(x), scipy.special.digamma(x), rtol=1e-11)
        second = plugrad.grad(lambda x: plugrad.sum(slope(x)))
        np.testing.assert_allclose(second(x), trigamma, rtol=1e-9)


def test_incomplete_functions_in_single_precision(backend):
    a, x = np.array([0.5, 2, 9, 40], "float32"), np.array([0.1, 3, 9.5, 30], "float32")
    expected = scipy.special.gammainc(a.astype("float64"), x)
    np.testing.assert_allclose(special.gammainc(a, x), expected, rtol=1e-4)
    np.testing.assert_allclose(
        special.betainc(a, 3.0, x / 100),
        scipy.special.betainc(a.astype("float64"), 3, x / 100),
        rtol=1e-4,
    )
    a, x = np.array([250, 2e3, 1e5], "float32"), np.array([250, 1950, 100200], "float32")
    for name in ("gammainc", "gammaincc"):
        expected = getattr(scipy.special, name)(a.astype("float64"), x)
        np.testing.assert_allclose(getattr(special, name)(a, x), expected, rtol=1e-5)
    assert special.gammainc(2.0, [0.0, np.inf]).tolist() == [0, 1]
    assert np.isnan(special.gammainc([-1.0, 2.0], [1.0, -1.0]).numpy()).all()
    assert special.betainc(2.0, 2.0, [0.0, 1.0]).tolist() == [0, 1]


GRADIENT_POINTS = {
    "gammaln": [0.3, 1.4, 7.2, 30.0, -1.3, -2.457, -2.6, -2.95, -3.1436, -3.6, -4.1, -5.5, -40.3],
    "gamma": [0.3, 1.4, 7.2, -1.3],
    "digamma": [0.3, 1.4, 7.2, 30.0, -0.504, -1.4, -2.61, -20.73, -40.3],
    "trigamma": [0.3, 1.4, 7.2, 30.0],
    "erfcx": [-0.7, 0.3, 2.2, 9.0],
    "erfc": [-0.7, 0.3, 2.2],
    "erfinv": [-0.4, 0.3, 0.9],
    "erfcinv": [0.1, 0.8, 1.9],
    "j0": [0.3, 7.2, 40.0],
    "j1": [0.3, 7.2, -40.0],
    "y0": [0.3, 7.2, 40.0],
    "y1": [0.3, 7.2, 40.0],
    "i0e": [0.3, 7.2, 20.0],
    "i1e": [0.3, 7.2, 20.0],
    "k0": [0.3, 2.2, 9.0],
    "k1": [0.3, 2.2, 9.0],
    "k0e": [0.3, 2.2],
    "k1e": [0.3, 2.2],
    "i0": [0.3, 3.0],
    "i1": [0.3, 3.0],
    "exp1": [0.3, 2.2, 9.0],
    "expi": [0.3, 0.38, 7.2, -2.2],
    "zeta": [0.3, 2.2, 20.0, -1.4],
    "ndtr": [-2.0, 0.3],
    "log_ndtr": [-9.0, 0.3],
    "ndtri": [0.05, 0.6],
    "entr": [0.3, 2.0],
    "logit": [0.1, 0.6],
    "log1mexp": [-2.0, -0.1],
    "expit": [0.3],
    "log_expit": [0.3],
}


@pytest.mark.parametrize("name", GRADIENT_POINTS)
def test_gradients(name):
    with plugrad.use("cpu"):
        check_gradient(getattr(special, name), plugrad.asarray(np.array(GRADIENT_POINTS[name])))


FUNCTIONS_AND_ARGUMENTS = [
    (special.gammainc, ([0.6, 2.3, 9.0, 300.0, 1e3], [0.4, 3.1, 5.0, 310.0, 980.0])),
    (special.betainc, ([0.6, 2.3], [1.4, 3.1], [0.3, 0.7])),
    (special.xlogy, ([0.6, 2.3], [1.4, 3.1])),
    (special.rel_entr, ([0.6, 2.3], [1.4, 3.1])),
    (special.kl_div, ([0.6, 2.3, 2.3], [1.4, 3.1, 0.4])),
    (special.beta, ([0.6, 20.0], [1.4, 3.1])),
    (partial(special.polygamma, 2), ([0.3, 7.2, 30.0, -1.3],)),
    (partial(special.polygamma, 5), ([0.3, 7.2, 30.0],)),
    (partial(special.expn, 2), ([0.3, 0.7, 2.2, 9.0],)),
    (partial(special.expn, 5), ([0.3, 0.7, 2.2],)),
    (special.logcumsumexp, ([0.6, 2.3, -1.4, 0.3, 5.0],)),
    (special.xlog1py, ([0.6, 2.3], [1.4, -0.3])),
    (special.betaln, ([0.6, 20.0], [1.4, 3.1])),
    (special.gammaincc, ([0.6, 2.3, 9.0, 300.0], [0.4, 3.1, 5.0, 310.0])),
    (partial(special.multigammaln, d=3), ([1.4, 7.2],)),
    *(
        (partial(getattr(special, name), order), ([0.3, 1.7, 7.2],))
        for name in ("jv", "yv", "iv", "kv", "ive", "kve")
        for order in (0, 2.5)
    ),
]
"""Functions of several numbers, or of one and an order."""


def function_id(function):
    return getattr(function, "__name__", None) or f"{function.func.__name__}-{function.args}"


@pytest.mark.parametrize(
    ("function", "arguments"), FUNCTIONS_AND_ARGUMENTS, ids=lambda x: callable(x) and function_id(x)
)
def test_gradients_for_all_arguments(function, arguments):
    with plugrad.use("cpu"):
        check_gradient(function, *(plugrad.asarray(np.array(x)) for x in arguments))


@pytest.mark.parametrize(
    ("function", "arguments"), FUNCTIONS_AND_ARGUMENTS, ids=lambda x: callable(x) and function_id(x)
)
def test_gradients_for_all_arguments_on_every_backend(function, arguments, backend):
    def gradients(dtype):
        xs = [plugrad.asarray(np.array(x, dtype)) for x in arguments]
        return plugrad.grads(lambda *xs: plugrad.sum(function(*xs)))(*xs)

    found = gradients("float32")
    with plugrad.use("cpu"):
        expected = gradients("float64")
    for mine, exact in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine.numpy(), exact.numpy(), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", GRADIENT_POINTS)
def test_gradients_on_every_backend_are_those_in_double_precision(name, backend):
    function = plugrad.grad(lambda x: plugrad.sum(getattr(special, name)(x)))
    points = np.array(GRADIENT_POINTS[name])[np.abs(GRADIENT_POINTS[name]) < 30].astype(np.float32)
    found = function(plugrad.asarray(points)).numpy()
    with plugrad.use("cpu"):
        expected = function(plugrad.asarray(points.astype(np.float64))).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_gradients_where_a_branch_is_not_taken_are_finite():
    x = plugrad.asarray(np.array([0.0, 1e-3, 0.5, 100.0]))
    with plugrad.use("cpu"):
        for function in (special.j0, special.i0e, special.erfcx, special.erfc, special.expit):
            gradient = plugrad.grad(lambda x, f=function: plugrad.sum(f(x)))(x)
            assert np.isfinite(gradient.numpy()).all()
        assert plugrad.grad(lambda x: special.xlogy(x, 0.5))(0.0).item() == 0


@pytest.mark.parametrize("name", ["gammaln", "j0", "erfcx"])
def test_traced_and_batched(name, backend):
    function = getattr(special, name)
    x = plugrad.asarray([[0.3, 1.7], [4.0, 30.0]])
    expected = function(x).numpy()
    np.testing.assert_allclose(plugrad.jit(function)(x), expected, rtol=1e-5)
    np.testing.assert_allclose(plugrad.vmap(function)(x), expected, rtol=1e-5)


def test_dtypes_of_special_functions(backend):
    assert special.gammaln(3).dtype == special.gammaln([1, 2]).dtype == "float32"
    assert special.erfc(np.zeros((0, 2), "float32")).shape == (0, 2)
    assert special.xlogy(2.0, plugrad.asarray([1.0, 2.0])).shape == (2,)
    with pytest.raises(DTypeError, match="gamma does not take complex64"):
        special.gamma([1j])
    with pytest.raises(ArgumentError, match="d=0 must be"):
        special.multigammaln(2.0, 0)


@pytest.mark.parametrize("name", ["i0", "i1", "expi"])
def test_gradients_of_growing_functions_overflow_with_them(name):
    """They are finite where exp(x) overflows and the function does not."""
    x = plugrad.asarray([713.0, 800.0], dtype="float64")
    found = plugrad.grad(lambda x: plugrad.sum(getattr(special, name)(x)))(x).numpy()
    scaled = {
        "i0": scipy.special.i1e(713.0),
        "i1": scipy.special.i0e(713.0) - scipy.special.i1e(713.0) / 713,
        "expi": 1 / 713,
    }[name]
    np.testing.assert_allclose(found, [np.exp(700) * (np.exp(13) * scaled), np.inf], rtol=1e-13)


def test_gradient_of_the_exponential_integral_at_infinity():
    assert plugrad.grad(special.expi)(plugrad.asarray(np.inf)).item() == np.inf


def test_second_derivatives_of_modified_functions_at_zero():
    for name, expected in (("i0", 0.5), ("i1", 0.0)):
        curvature = plugrad.grad(plugrad.grad(getattr(special, name)))(plugrad.asarray(0.0))
        assert curvature.item() == expected


def test_functions_of_the_second_kind_of_the_smallest_number():
    """Its half is 0."""
    x, found = plugrad.asarray(5e-324, dtype="float64"), {}
    for name in ("y0", "y1", "k0", "k1", "k0e", "k1e"):
        found[name] = getattr(special, name)(x).item()
    logarithm = np.log(5e-324) - np.log(2) + np.euler_gamma
    assert found["y0"] == pytest.approx(2 / np.pi * logarithm, 1e-15)
    assert found["k0"] == found["k0e"] == pytest.approx(-logarithm, 1e-15)
    assert found["y1"] == -np.inf
    assert found["k1"] == found["k1e"] == np.inf
