"""Tests of what is specific to this backend: groups become expressions of numexpr."""

import numexpr
import numpy as np
import pytest

import plugrad


@pytest.fixture(autouse=True)
def active_backend():
    """Run every test on the backend."""
    with plugrad.use("acme_numexpr") as selection:
        yield selection.backend


@pytest.fixture
def evaluated_expressions(monkeypatch):
    """The expressions that numexpr has computed."""
    texts = []
    evaluate = numexpr.evaluate

    def record_and_evaluate(text, *arguments):
        texts.append(text)
        return evaluate(text, *arguments)

    monkeypatch.setattr(numexpr, "evaluate", record_and_evaluate)
    return texts


def test_a_group_is_one_expression(evaluated_expressions):
    x = plugrad.asarray(np.linspace(-2.0, 2.0, 1000))
    function = plugrad.jit(lambda x: plugrad.sum(plugrad.exp(plugrad.sin(x) * x) + 1.0))
    assert function(x).item() == plugrad.sum(plugrad.exp(plugrad.sin(x) * x) + 1.0).item()
    assert sum("exp" in text and "sin" in text for text in evaluated_expressions) == 1


def test_loops_and_gradients(evaluated_expressions):
    def rounds(x):
        last, _ = plugrad.scan(lambda y, _: (plugrad.cos(y) * x + 0.5, None), x, length=5)
        return plugrad.sum(last)

    x = plugrad.asarray(np.linspace(0.1, 1.0, 50))
    np.testing.assert_array_equal(plugrad.jit(plugrad.grad(rounds))(x), plugrad.grad(rounds)(x))
    assert any("cos" in text and "+" in text for text in evaluated_expressions)


def test_values_inside_a_group_take_no_memory(active_backend):
    x = plugrad.asarray(np.ones(100_000))
    function = plugrad.jit(lambda x: plugrad.exp(plugrad.sin(x) + x) * x)
    y = function(x)
    active_backend.allocator.peak = active_backend.memory().bytes
    z = function(x)
    assert active_backend.memory().peak - active_backend.memory().bytes == 0
    assert z.tolist() == y.tolist()
