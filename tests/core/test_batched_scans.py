"""Scans under vmap and jit are one step of the graph, with the values and the gradients of plain loops."""

import numpy as np
import pytest

import plugrad
from plugrad.extend import Scan

RNG = np.random.default_rng(0)
EXAMPLES = RNG.normal(size=(3, 4))
WEIGHTS = RNG.normal(size=4)


def as_float64_tensor(array):
    return plugrad.asarray(np.asarray(array, np.float64))


def scan_over_x(x, w, reverse=False):
    """A loop over x that closes over both arguments, counts its iterations, and stacks results."""

    def cell(carry, part):
        y, count = carry
        after = plugrad.tanh(y * part + plugrad.sum(w * x))
        return (after, count + 1), (y * w, count)

    (last, _), (results, counts) = plugrad.scan(
        cell, (x[0], plugrad.asarray(0)), x, reverse=reverse
    )
    return last + plugrad.sum(results) + plugrad.sum(plugrad.astype(counts, x.dtype) * x)


def nested_scans(x, w):
    """A loop in a loop; the bodies close over variables outside of the loops."""

    def outer(carry, part):
        def inner(c, _):
            return plugrad.sin(c * w[0] + part) + carry, c

        last, seen = plugrad.scan(inner, carry * x[1], length=2)
        return last, plugrad.sum(seen)

    last, sums = plugrad.scan(outer, x[0], x)
    return last + plugrad.sum(sums)


def scan_with_vmap(x, w):
    """A loop whose body calls `vmap` of a loop."""

    def cell(carry, _):
        def row(r):
            inner = lambda a, b: (plugrad.sin(a * b + plugrad.sum(carry)), a)  # noqa: E731
            return plugrad.scan(inner, r[0], r)[0]

        y = plugrad.vmap(row)(x)
        return carry * 0.5 + plugrad.sum(y) * 0.1, y

    last, seen = plugrad.scan(cell, w, length=3)
    return plugrad.sum(last) + plugrad.sum(seen)


def scan_with_while_and_cond(x, w):
    """A loop whose body contains a conditional and a while loop."""

    def cell(carry, part):
        grown = plugrad.while_loop(lambda y: y < 2, lambda y: y * 2 + 0.1, plugrad.abs(carry) + 0.1)
        return plugrad.cond(part > 0, lambda c: c * part, lambda c: c - w[0], grown), carry

    last, seen = plugrad.scan(cell, x[0], x)
    return last + plugrad.sum(seen)


def vmap_over_x(f):
    return plugrad.vmap(f, in_axes=(0, None))


def vmap_over_x_and_w(f):
    """Return a function batched over both arguments: each example of x with each of w."""
    pairs = plugrad.vmap(plugrad.vmap(f, in_axes=(0, None)), in_axes=(None, 0))
    return lambda x, w: pairs(x, plugrad.stack([w, w * 2, -w]))


def sum_of_result(f):
    return lambda *args: plugrad.sum(f(*args))


BATCHED_FUNCTIONS = {
    "value": vmap_over_x(scan_over_x),
    "reverse": vmap_over_x(lambda x, w: scan_over_x(x, w, reverse=True)),
    "gradient inside": vmap_over_x(plugrad.grad(scan_over_x, 0)),
    "gradient inside of what is closed over": vmap_over_x(plugrad.grad(scan_over_x, 1)),
    "gradient outside": plugrad.grad(sum_of_result(vmap_over_x(scan_over_x)), 1),
    "gradients inside and outside": plugrad.grad(
        sum_of_result(vmap_over_x(plugrad.grad(scan_over_x, 0))), 1
    ),
    "second order inside": vmap_over_x(plugrad.hessian(scan_over_x)),
    "batches in batches": vmap_over_x_and_w(plugrad.grad(scan_over_x, 1)),
    "outside of batches in batches": plugrad.grad(sum_of_result(vmap_over_x_and_w(scan_over_x)), 1),
    "loops in loops": vmap_over_x(plugrad.grad(nested_scans, 1)),
    "checkpoint": plugrad.grad(sum_of_result(vmap_over_x(plugrad.checkpoint(scan_over_x))), 1),
    "batches in loops": plugrad.grad(scan_with_vmap, 1),
    "choices and loops in loops": vmap_over_x(scan_with_while_and_cond),
    "outside of loops in loops": plugrad.grad(sum_of_result(vmap_over_x(nested_scans)), 0),
}


@pytest.mark.parametrize("name", BATCHED_FUNCTIONS)
def test_batched_scans_match_loops_in_value_and_gradient(name):
    function, args = (
        BATCHED_FUNCTIONS[name],
        (as_float64_tensor(EXAMPLES), as_float64_tensor(WEIGHTS)),
    )
    expected = function(*args).numpy()
    np.testing.assert_allclose(plugrad.jit(function)(*args).numpy(), expected, 1e-11, 1e-12)


def test_batched_scans_on_each_backend(backend):
    x, w = (plugrad.asarray(a.astype("f4"), device=backend) for a in (EXAMPLES, WEIGHTS))
    function = vmap_over_x(plugrad.grad(scan_over_x, 1))
    np.testing.assert_allclose(plugrad.jit(function)(x, w).numpy(), function(x, w), 1e-4, 1e-5)


def find_scans(graph):
    inner = [scan for step in graph.steps for body in step.graphs for scan in find_scans(body)]
    return [step for step in graph.steps if isinstance(step, Scan)] + inner


def test_the_graph_does_not_grow_with_the_number_of_rounds():
    def steps(length):
        function = plugrad.jit(vmap_over_x(plugrad.grad(scan_over_x, 1)))
        graph = function.graph(as_float64_tensor(np.ones((3, length))), as_float64_tensor(1.0))
        assert len(find_scans(graph)) == 2
        return len(graph.steps)

    assert steps(3) == steps(50)


def test_batched_scans_read_variables():
    v, x = plugrad.Variable(WEIGHTS), as_float64_tensor(EXAMPLES)

    def outside(x):
        loss = lambda: plugrad.sum(plugrad.vmap(lambda x: scan_over_x(x, v))(x))  # noqa: E731
        return plugrad.variable_grads(loss, [v])[1][0]

    def inside(x):
        return plugrad.variable_grads(lambda: scan_over_x(x, v), [v])[1][0]

    def both(x):
        loss = lambda: plugrad.sum(plugrad.vmap(inside)(x))  # noqa: E731
        return plugrad.variable_grads(loss, [v])[1][0]

    for function in (outside, plugrad.vmap(inside), both):
        expected = function(x).numpy()
        np.testing.assert_allclose(plugrad.jit(function)(x).numpy(), expected, 1e-11, 1e-12)


def random_scan(x):
    def cell(carry, part):
        return plugrad.tanh(carry * plugrad.random.normal((), dtype="float64") + part), carry

    last, seen = plugrad.scan(cell, x[0], x)
    return last + plugrad.sum(seen)


@pytest.mark.parametrize("randomness", ["different", "same"])
@pytest.mark.parametrize("wrap", [lambda f: f, plugrad.grad], ids=["value", "gradient"])
def test_random_numbers_in_batched_scans(wrap, randomness):
    function = plugrad.vmap(wrap(random_scan), randomness=randomness)
    found = []
    for run in (function, plugrad.jit(function)):
        plugrad.random.seed(7)
        found.append([run(as_float64_tensor(EXAMPLES)).numpy() for _ in range(2)])
    np.testing.assert_allclose(found[0], found[1], 1e-11, 1e-12)
    assert not np.isin(*found[0]).any()
