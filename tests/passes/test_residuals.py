import numpy as np
import pytest

import plugrad
from passes.checking import kernel_names, recorded_graph
from plugrad.extend import Scan
from plugrad.passes import residuals, simplify
from plugrad.passes.residuals import keep_residuals

WEIGHTS = plugrad.asarray(np.random.default_rng(0).normal(size=(5, 5)).astype("float32") / 3)
BIAS = plugrad.asarray(np.random.default_rng(1).normal(size=5).astype("float32"))
SEQUENCES = plugrad.asarray(np.random.default_rng(2).normal(size=(7, 3, 5)).astype("float32"))


def make_recurrent_loss(activation, reverse=False):
    """Return the loss of a recurrent layer, whose gates are parts of one product."""

    def loss(w, b, xs):
        def step(h, x):
            gates = plugrad.concat([x @ w + b, h @ w], axis=1)
            h = activation(gates[:, :5]) * h + activation(gates[:, 5:]) * 0.5
            return h, h

        last, hs = plugrad.scan(step, xs[0], xs, reverse=reverse)
        return plugrad.sum(hs * hs) + plugrad.sum(last)

    return plugrad.grads(loss)


def loops_of(graph):
    return [step for step in graph.steps if isinstance(step, Scan)]


def count_products(function, *args):
    """Return how many products the bodies of loops have before and after the pass."""
    graph = recorded_graph(function, *args)
    return [
        sum(kernel_names(loop.body).count("BatchMatMul") for loop in loops_of(each))
        for each in (graph, keep_residuals(graph))
    ]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("activation", [plugrad.tanh, plugrad.sigmoid, plugrad.relu, plugrad.gelu])
def test_the_gradient_of_a_loop_makes_no_product_again(activation, reverse, backend, monkeypatch):
    function = make_recurrent_loss(activation, reverse)
    args = [plugrad.asarray(x.numpy()) for x in (WEIGHTS, BIAS, SEQUENCES)]
    assert count_products(function, *args) == [2 + 2 + 4, 2 + 4]
    found = plugrad.jit(function)(*args)
    others = [each for each in simplify.SIMPLIFICATION_PASSES if each is not keep_residuals]
    monkeypatch.setattr(simplify, "SIMPLIFICATION_PASSES", others)
    for x, y in zip(found, plugrad.jit(lambda *given: function(*given))(*args), strict=True):
        assert x.numpy().tobytes() == y.numpy().tobytes()


def test_second_derivatives():
    def second(w, b, xs):
        first = make_recurrent_loss(plugrad.tanh)
        return plugrad.grads(lambda *given: sum(plugrad.sum(g * g) for g in first(*given)))(
            w, b, xs
        )

    for x, y in zip(
        plugrad.jit(second)(WEIGHTS, BIAS, SEQUENCES), second(WEIGHTS, BIAS, SEQUENCES), strict=True
    ):
        np.testing.assert_allclose(x.numpy(), y.numpy(), rtol=2e-5, atol=2e-5)


def test_cheap_calls_are_recomputed_instead_of_stored():
    def loss(x, xs):
        return plugrad.sum(plugrad.scan(lambda a, b: (a * b * (a + b), None), x, xs)[0])

    graph = recorded_graph(plugrad.grads(loss), SEQUENCES[0], SEQUENCES)
    assert keep_residuals(graph) is graph


def test_no_more_is_kept_than_the_limit(monkeypatch):
    function = make_recurrent_loss(plugrad.tanh)
    kept = 7 * (3 * 10) * 4  # both activations of each round
    monkeypatch.setattr(residuals, "KEPT_VALUES_MAX_BYTES", kept - 1)
    before, after = count_products(function, WEIGHTS, BIAS, SEQUENCES)
    assert before == after
    monkeypatch.setattr(residuals, "KEPT_VALUES_MAX_BYTES", kept)
    before, after = count_products(function, WEIGHTS, BIAS, SEQUENCES)
    assert before > after


def test_loops_of_different_lengths_are_not_joined():
    def two(xs):
        def step(h, x):
            return plugrad.tanh(h @ WEIGHTS), plugrad.tanh(x @ WEIGHTS)

        return plugrad.scan(step, xs[0], xs)[1], plugrad.scan(step, xs[0], xs[:5])[1]

    graph = recorded_graph(two, SEQUENCES)
    assert keep_residuals(graph) is graph


def test_loops_with_different_constants_or_attributes_are_not_joined():
    def two(xs):
        def run(number):
            return plugrad.scan(lambda h, x: (h, plugrad.tanh(x * number)), xs[0], xs)[1]

        return run(0.5), run(0.25), plugrad.sum(run(-0.0)), run(0.0)

    graph = recorded_graph(two, SEQUENCES)
    assert keep_residuals(graph) is graph


def test_each_loop_draws_its_own_random_numbers():
    def noise(h, x):
        return h, plugrad.tanh(x) + plugrad.random.normal(x.shape)

    def two(xs):
        return plugrad.scan(noise, xs[0], xs)[1], plugrad.scan(noise, xs[0], xs)[1]

    first, second = plugrad.jit(two)(SEQUENCES)
    assert not np.array_equal(first.numpy(), second.numpy())
