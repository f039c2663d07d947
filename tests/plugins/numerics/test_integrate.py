"""Integrals of samples and differential equations, against SciPy, with gradients."""

import numpy as np
import pytest
import scipy.integrate

import plugrad
from plugrad.errors import ArgumentError, AxisError, DTypeError, GradientLost, ShapeError
from plugrad.testing import check_gradient
from plugrad_numerics import integrate


@pytest.mark.parametrize("n", [2, 3, 6, 7])
@pytest.mark.parametrize("name", ["trapezoid", "simpson"])
def test_integrals_of_samples_match_scipy(name, n, backend, rng):
    y = rng.normal(size=(3, n, 2)).astype("float32")
    places = np.cumsum(rng.uniform(0.5, 2, n)).astype("float32")
    function, reference = getattr(integrate, name), getattr(scipy.integrate, name)
    for options in ({"x": places}, {"dx": 0.5}):
        expected = reference(y.astype("float64"), axis=1, **options)
        np.testing.assert_allclose(function(y, axis=1, **options), expected, rtol=1e-4, atol=1e-4)
    with plugrad.use("cpu"):
        check_gradient(
            lambda y, x: function(y, x),
            plugrad.asarray(rng.normal(size=(2, n))),
            plugrad.asarray(places.astype("float64")),
        )


def test_integrals_up_to_each_place(backend, rng):
    y = rng.normal(size=(4, 3)).astype("float32")
    found = integrate.cumulative_trapezoid(y, axis=0, initial=0)
    expected = scipy.integrate.cumulative_trapezoid(y, axis=0, initial=0)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    with plugrad.use("cpu"):
        check_gradient(
            lambda y: integrate.cumulative_trapezoid(y, dx=0.5, axis=0),
            plugrad.asarray(rng.normal(size=(4, 3))),
        )


def damped_oscillator(y, t, k):
    return plugrad.stack([y[1], -k * y[0] - 0.1 * t * y[1]])


OUTPUT_TIMES = [0.0, 1.0, 2.5, 3.0]


def scipy_solution(times):
    return scipy.integrate.solve_ivp(
        lambda t, y: [y[1], -2 * y[0] - 0.1 * t * y[1]],
        (times[0], times[-1]),
        [1, 0.5],
        t_eval=times,
        rtol=1e-11,
        atol=1e-13,
    ).y.T


@pytest.mark.parametrize("times", [OUTPUT_TIMES, OUTPUT_TIMES[::-1]])
def test_odeint_matches_scipy(times, backend):
    found = integrate.odeint(damped_oscillator, [1.0, 0.5], times, 2.0)
    assert (found.dtype, found.shape) == ("float32", (4, 2))
    np.testing.assert_allclose(found, scipy_solution(times), rtol=2e-3, atol=1e-4)
    traced = plugrad.jit(lambda y: integrate.odeint(damped_oscillator, y, times, 2.0))
    np.testing.assert_allclose(traced(plugrad.asarray([1.0, 0.5])), found, rtol=1e-4, atol=1e-5)


def solve_precisely(y, t, k):
    return integrate.odeint(damped_oscillator, y, t, k, rtol=1e-10, atol=1e-12)


def test_adjoint_gradients():
    with plugrad.use("cpu"):
        y, t, k = (plugrad.asarray(np.array(x)) for x in ([1.0, 0.5], OUTPUT_TIMES, 2.0))
        np.testing.assert_allclose(
            solve_precisely(y, t, k), scipy_solution(OUTPUT_TIMES), rtol=1e-8
        )
        check_gradient(solve_precisely, y, t, k, order=1)
        loss = lambda k: plugrad.sum(solve_precisely(y, t, k))  # noqa: E731
        eager, traced = plugrad.grad(loss)(k), plugrad.jit(plugrad.grad(loss))(k)
        assert traced.item() == pytest.approx(eager.item(), rel=1e-12)


def test_second_derivatives():
    with plugrad.use("cpu"):
        check_gradient(
            lambda y, k: integrate.odeint(
                lambda y, t, k: -k * y * y, y, np.array([0.0, 1.0]), k, rtol=1e-10, atol=1e-12
            ),
            *(plugrad.asarray(np.array(x)) for x in ([1.0], 0.7)),
        )


def test_solutions_that_end_early_are_nan(backend):
    found = integrate.odeint(lambda y, t: y * y, 1.0, [0.0, 2.0], max_steps=60).numpy()
    assert found[0] == 1
    assert np.isnan(found[1])
    assert integrate.odeint(lambda y, t: y, [2.0], [0.0]).tolist() == [[2.0]]


DERIVATIVE_TRANSFORMS = {
    "grad": plugrad.grad,
    "traced grad": lambda f: plugrad.jit(plugrad.grad(f)),
    "grad of traced": lambda f: plugrad.grad(plugrad.jit(f)),
}


@pytest.mark.parametrize("transform", DERIVATIVE_TRANSFORMS.values(), ids=DERIVATIVE_TRANSFORMS)
def test_gradients_of_what_odeint_does_not_take_are_not_lost_silently(transform):
    def final_value(rate):
        return integrate.odeint(lambda y, t: rate * y, 1.0 * rate, [0.0, 1.0])[-1]

    def final_values(rate):
        def solve(y0):
            return integrate.odeint(lambda y, t: rate * y, y0, [0.0, 1.0])[-1]

        return plugrad.sum(plugrad.vmap(solve)(plugrad.ones(3) * rate))

    for f in (final_value, final_values):
        with pytest.raises(GradientLost, match=r"odeint: .* pass it as one of args"):
            transform(f)(plugrad.asarray(0.7))


def test_odeint_takes_nested_dicts_of_parameters():
    def derivative(y, t, params, factor):
        return factor * (params["rates"]["linear"] * y + params["offset"])

    def final_value(params):
        return integrate.odeint(derivative, 1.0, [0.0, 1.0], params, 0.5)[-1]

    params = {"rates": {"linear": plugrad.asarray(0.7)}, "offset": plugrad.Variable(0.2)}
    rate, offset = 0.35, 0.1  # y' = rate y + offset, y(0) = 1
    grown = np.exp(rate)
    assert final_value(params).item() == pytest.approx(grown + offset / rate * (grown - 1), 1e-4)
    gradients = plugrad.grad(final_value)(params)
    assert gradients["offset"].item() == pytest.approx(0.5 * (grown - 1) / rate, 1e-4)
    expected = 0.5 * (grown + offset / rate * grown - offset / rate**2 * (grown - 1))
    assert gradients["rates"]["linear"].item() == pytest.approx(expected, 1e-4)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: integrate.odeint(3, 1.0, [0.0]), ArgumentError),
        (lambda: integrate.odeint(lambda y, t: y, 1.0, 0.0), ShapeError),
        (lambda: integrate.odeint(lambda y, t: plugrad.stack([y, y]), 1.0, [0.0, 1.0]), ShapeError),
        (lambda: integrate.trapezoid([1.0, 2.0], [1.0]), ShapeError),
        (lambda: integrate.simpson([1.0, 2.0], axis=1), AxisError),
        (lambda: integrate.trapezoid([1j]), DTypeError),
        (lambda: integrate.odeint(lambda y, t: 1.0, 1.0, [0.0, 1.0]), ArgumentError),
    ],
)
def test_bad_input(call, error, backend):
    with pytest.raises(error):
        call()
