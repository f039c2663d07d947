"""Roots and minima, with implicit gradients."""

import numpy as np
import pytest
import scipy.optimize

import plugrad
from plugrad.errors import ArgumentError, GradientLost, ShapeError
from plugrad.testing import check_gradient
from plugrad_numerics import integrate, optimize


def two_equations(x, a):
    return plugrad.stack([x[0] ** 2 + x[1] - a[0], x[1] ** 3 - a[1]])


def rosenbrock(x):
    return (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2


def test_roots_of_functions(backend):
    found = optimize.root(two_equations, [1.0, 1.0], [3.0, 2.0])
    y = 2 ** (1 / 3)
    np.testing.assert_allclose(found, [np.sqrt(3 - y), y], rtol=1e-5)
    traced = plugrad.jit(lambda a: optimize.root(lambda x, a: x * x - a, 1.0, a))
    assert traced(plugrad.asarray(9.0)).item() == pytest.approx(3)
    assert np.isnan(optimize.root(lambda x: x * x + 1, 0.5, max_steps=20).item())


def test_roots_of_each_element(backend):
    a = plugrad.asarray([3.0, -2.0, 125.0])
    found = optimize.bisect(lambda x, a: x**3 - a, 0.0, 5.0, a).numpy()
    np.testing.assert_allclose(found, [3 ** (1 / 3), np.nan, 5], rtol=1e-5)


@pytest.mark.parametrize(
    "function",
    [
        lambda a: optimize.root(
            lambda x, a: two_equations(x, a + 2), np.array([1.0, 1.0]), a, tol=1e-12
        ),
        lambda a: optimize.bisect(lambda x, a: x**3 - a, np.array(0.0), 5.0, a),
        lambda a: (
            optimize.minimize(
                lambda x, a: plugrad.sum(plugrad.cosh(x - a) + 0.1 * x**4),
                np.array([0.1, 0.2]),
                a,
                tol=1e-11,
            ).x
        ),
    ],
    ids=["root", "bisect", "minimize"],
)
def test_implicit_gradients(function):
    with plugrad.use("cpu"):
        check_gradient(function, plugrad.asarray(np.array([0.5, 0.9])))


def test_minima_of_functions(backend):
    found = optimize.minimize(rosenbrock, [-1.2, 1.0], tol=1e-3)
    np.testing.assert_allclose(found.x, [1, 1], atol=2e-2)
    traced = plugrad.jit(
        lambda a: optimize.minimize(lambda x, a: plugrad.sum((x - a) ** 2), [0.0, 0.0], a).x
    )
    np.testing.assert_allclose(traced(plugrad.asarray([1.0, 2.0])), [1, 2], atol=1e-4)


def test_minima_in_double_precision():
    with plugrad.use("cpu"):
        found = optimize.minimize(rosenbrock, np.array([-1.2, 1.0]), tol=1e-9)
    expected = scipy.optimize.minimize(numpy_rosenbrock, [-1.2, 1.0], tol=1e-9).x
    np.testing.assert_allclose(found.x, expected, rtol=1e-4)
    np.testing.assert_allclose(found.x, [1, 1], rtol=1e-8)
    assert found.fun.item() < 1e-15


def numpy_rosenbrock(x):
    return (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2


@pytest.mark.parametrize(
    "function",
    [
        lambda w: optimize.root(lambda x: w * x * x - 2.0, np.array(1.0)),
        lambda w: optimize.minimize(lambda x: plugrad.sum(w * x**3 / 3 - 2 * x), np.ones(1)).x[0],
    ],
    ids=["root", "minimize"],
)
def test_derivatives_for_tensors_that_functions_read(function):
    """The result is ``sqrt(2 / w)``."""
    derivatives = [function]
    for _ in range(3):
        derivatives.append(plugrad.grad(derivatives[-1]))
    traced = [plugrad.jit(f) for f in derivatives[1:]]
    outside = [plugrad.grad(plugrad.jit(f)) for f in derivatives[:3]]
    with plugrad.use("cpu"):
        w = plugrad.asarray(np.array(2.0))
        for found in (derivatives[1:], traced, outside):
            values = [f(w).item() for f in found]
            np.testing.assert_allclose(values, [-0.25, 0.1875, -0.234375], rtol=1e-6)


def test_a_minimum_with_a_singular_hessian_and_tensors_that_the_function_reads():
    factor = plugrad.asarray(2.0)
    found = optimize.minimize(lambda x: plugrad.sum(factor * x * 0), [1.0])
    assert found.x.tolist() == [1]


@pytest.mark.parametrize(
    "function",
    [
        lambda w: optimize.root(lambda x, a: x * x - a * w, 1.0, 1.0 * w),
        lambda w: optimize.minimize(lambda x, a: plugrad.sum((x - a * w) ** 2), [0.0], 1.0 * w).x[
            0
        ],
    ],
    ids=["root", "minimize"],
)
def test_gradients_of_what_functions_do_not_take_are_not_lost_silently(function):
    for transform in (lambda f: f, plugrad.jit):
        with pytest.raises(GradientLost, match="pass it as one of args"):
            transform(plugrad.grad(function))(plugrad.asarray(0.7))


START = plugrad.asarray(1.0, dtype="float64")
"""The value from which the solvers start."""
SQUARE_ROOTS = {
    "root": lambda a: optimize.root(lambda x: x * x - a, START, tol=1e-12),
    "root with an argument": lambda a: optimize.root(lambda x, a: x * x - a, START, a, tol=1e-12),
    "bisect": lambda a: optimize.bisect(lambda x: x * x - a, 0 * START, 4 * START),
    "minimize": lambda a: optimize.minimize(
        lambda x: plugrad.sum((x * x - a) ** 2), START[None], tol=1e-10
    ).x[0],
}
"""By name: a function that finds the square root of a number with a solver."""


@pytest.mark.parametrize("square_root", SQUARE_ROOTS.values(), ids=SQUARE_ROOTS)
def test_implicit_derivatives_have_any_order(square_root):
    derivative, expected = square_root, np.sqrt(2.0)
    for order in range(5):
        derivative = plugrad.grad(derivative)
        expected *= (0.5 - order) / 2
        assert derivative(2 * START).item() == pytest.approx(expected, 1e-9)
    shared = plugrad.vmap(lambda x: plugrad.grad(plugrad.grad(square_root))(2 * x))
    assert shared(START[None]).item() == pytest.approx(-0.25 * 2**-1.5, 1e-9)


@pytest.mark.parametrize(
    "solve",
    [
        lambda read, a: optimize.root(lambda x, a: x**3 + read() * x - a, 1.0, a),
        lambda read, a: integrate.odeint(lambda y, t: -read() * y * y, a, [0.0, 1.0])[-1],
    ],
    ids=["root", "odeint"],
)
def test_functions_may_close_over_the_variable_of_a_loop(solve):
    def solve_in_turn(x, read):
        for factor in (0.5, 1.0, 2.0):
            x = solve(read(factor), x) if read else solve(lambda: factor, x)  # noqa: B023
        return x

    late = plugrad.grad(lambda x: solve_in_turn(x, None))
    early = plugrad.grad(lambda x: solve_in_turn(x, lambda factor: lambda: factor))
    assert late(1.2).item() == pytest.approx(early(1.2).item(), 1e-5)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: optimize.root(3, 1.0), ArgumentError),
        (lambda: optimize.root(lambda x: plugrad.stack([x, x]), 1.0), ShapeError),
        (lambda: optimize.root(lambda x, a: 1.0, 1.0, 2.0), ArgumentError),
        (lambda: optimize.root(lambda x: [x], 1.0), ArgumentError),
        (lambda: optimize.bisect("f", 0.0, 1.0), ArgumentError),
        (lambda: optimize.minimize(None, 1.0), ArgumentError),
    ],
)
def test_bad_input(call, error, backend):
    with pytest.raises(error):
        call()
