"""Tests of what is specific to this backend: groups become expressions of numexpr."""

import numexpr
import numpy as np
import pytest

import plugrad


@pytest.fixture(autouse=True)
def active():
    """Run every test on the backend."""
    with plugrad.use("acme_numexpr") as selection:
        yield selection.backend


@pytest.fixture
def evaluated(monkeypatch):
    """The expressions that numexpr has computed."""
    texts = []
    evaluate = numexpr.evaluate

    def noted(text, *arguments):
        texts.append(text)
        return evaluate(text, *arguments)

    monkeypatch.setattr(numexpr, "evaluate", noted)
    return texts


def test_a_group_is_one_expression(evaluated):
    x = plugrad.asarray(np.linspace(-2.0, 2.0, 1000))
    function = plugrad.jit(lambda x: plugrad.sum(plugrad.exp(plugrad.sin(x) * x) + 1.0))
    assert function(x).item() == plugrad.sum(plugrad.exp(plugrad.sin(x) * x) + 1.0).item()
    assert sum("exp" in text and "sin" in text for text in evaluated) == 1


def test_loops_and_gradients(evaluated):
    def rounds(x):
        last, _ = plugrad.scan(lambda y, _: (plugrad.cos(y) * x + 0.5, None), x, length=5)
        return plugrad.sum(last)

    x = plugrad.asarray(np.linspace(0.1, 1.0, 50))
    np.testing.assert_array_equal(plugrad.jit(plugrad.grad(rounds))(x), plugrad.grad(rounds)(x))
    assert any("cos" in text and "+" in text for text in evaluated)


def test_values_inside_a_group_take_no_memory(active):
    x = plugrad.asarray(np.ones(100_000))
    function = plugrad.jit(lambda x: plugrad.exp(plugrad.sin(x) + x) * x)
    y = function(x)
    active.allocator.peak = active.memory().bytes
    z = function(x)
    assert active.memory().peak - active.memory().bytes == 0
    assert z.tolist() == y.tolist()
