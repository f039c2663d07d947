"""Optimizers against their formulas, computed in NumPy float64."""

import numpy as np
import pytest

import plugrad
from plugrad import optimizers
from plugrad.errors import ArgumentError, ArgumentValueError, ShapeError

TARGET = np.array([0.5, -1.5, 3.0])
START = np.array([2.0, 1.0, -1.0])


def slope(v):
    """Return the gradient of sum((v - target)^2 * [1, 2, 3])."""
    return 2 * (v - TARGET) * [1.0, 2.0, 3.0]


def loss(w):
    return plugrad.sum((w - TARGET) * (w - TARGET) * np.array([1.0, 2.0, 3.0]))


def sgd(steps, lr=0.05):
    v = START.copy()
    for _ in range(steps):
        v = v - lr * slope(v)
    return v


def momentum(steps, lr=0.02, m=0.8, nesterov=False):
    v, a = START.copy(), np.zeros(3)
    for _ in range(steps):
        g = slope(v)
        a = m * a + g
        v = v - lr * (g + m * a if nesterov else a)
    return v


def adam(steps, lr=0.1, b1=0.8, b2=0.95, epsilon=1e-3):
    v, m, s = START.copy(), np.zeros(3), np.zeros(3)
    for t in range(1, steps + 1):
        g = slope(v)
        m = b1 * m + (1 - b1) * g
        s = b2 * s + (1 - b2) * g * g
        v = v - lr * (m / (1 - b1**t)) / (np.sqrt(s / (1 - b2**t)) + epsilon)
    return v


@pytest.mark.parametrize("steps", [1, 2, 25])
@pytest.mark.parametrize(
    ("optimizer", "reference"),
    [
        (lambda: optimizers.SGD(0.05), sgd),
        (lambda: optimizers.Momentum(0.02, 0.8), momentum),
        (
            lambda: optimizers.Momentum(0.02, 0.8, nesterov=True),
            lambda n: momentum(n, nesterov=True),
        ),
        (lambda: optimizers.Adam(0.1, 0.8, 0.95, 1e-3), adam),
        (lambda: optimizers.Adam(), lambda n: adam(n, 0.001, 0.9, 0.999, 1e-8)),
    ],
    ids=["SGD", "Momentum", "Nesterov", "Adam", "Adam-defaults"],
)
def test_optimizer_follows_its_formula(optimizer, reference, steps):
    optimizer, w = optimizer(), plugrad.Variable(START)
    values = [optimizer.minimize(lambda: loss(w), [w]).item() for _ in range(steps)]
    assert w.dtype is plugrad.float64
    assert w.numpy() == pytest.approx(reference(steps), rel=1e-10)
    assert optimizer.iterations == steps
    assert values[0] == pytest.approx(((START - TARGET) ** 2 * [1, 2, 3]).sum())
    assert values == sorted(values, reverse=True) or steps > 2


def test_float32_variables_stay_float32():
    w = plugrad.Variable([1.0, 2.0])
    for optimizer in (optimizers.SGD(0.1), optimizers.Momentum(0.1), optimizers.Adam(0.1)):
        optimizer.minimize(lambda: plugrad.sum(w * w), [w])
        assert w.dtype is plugrad.float32


def test_state_belongs_to_each_variable():
    """A variable that joins later starts with its own first step."""
    early, late = plugrad.Variable(START), plugrad.Variable(START)
    optimizer = optimizers.Adam(0.1, 0.8, 0.95, 1e-3)
    optimizer.minimize(lambda: loss(early), [early])
    optimizer.minimize(lambda: loss(early) + loss(late), [early, late])
    assert early.numpy() == pytest.approx(adam(2))
    assert late.numpy() == pytest.approx(adam(1))


def test_gradients_may_come_from_elsewhere():
    w = plugrad.Variable([1.0, 2.0])
    optimizers.SGD(0.5).apply_gradients([(w, plugrad.asarray([2.0, -2.0]))])
    assert w.tolist() == [0.0, 3.0]


def test_learning_rate_may_change():
    w = plugrad.Variable([1.0])
    optimizer = optimizers.SGD(0.5)
    optimizer.learning_rate = 0.1
    optimizer.apply_gradients([(w, plugrad.asarray([1.0]))])
    assert w.item() == pytest.approx(0.9)


@pytest.mark.parametrize(
    ("pairs", "error", "message"),
    [
        (lambda w: [(w, 1.0)], ArgumentError, "pairs of a Variable and a Tensor"),
        (lambda w: [(w * 1, w * 1)], ArgumentError, "pairs of a Variable and a Tensor"),
        (
            lambda w: [(w, plugrad.ones(3))],
            ShapeError,
            r"'w' has shape \(2,\), its gradient \(3,\)",
        ),
    ],
)
def test_wrong_gradients_move_nothing(pairs, error, message):
    w, v = plugrad.Variable([1.0, 2.0], name="w"), plugrad.Variable([5.0])
    optimizer = optimizers.SGD(0.1)
    with pytest.raises(error, match=message):
        optimizer.apply_gradients([(v, plugrad.ones(1)), *pairs(w)])
    assert (w.tolist(), v.tolist(), optimizer.iterations) == ([1.0, 2.0], [5.0], 0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: optimizers.SGD(-0.1), "SGD: learning_rate=-0.1 must be 0 or more"),
        (lambda: optimizers.SGD(float("nan")), "learning_rate=nan"),
        (lambda: optimizers.Adam(beta1=1.0), "beta1=1.0"),
        (lambda: optimizers.Adam(beta2=-0.5), "beta2=-0.5"),
    ],
)
def test_coefficients_must_make_sense(make, message):
    with pytest.raises(ArgumentValueError, match=message):
        make()


def test_steps_leave_no_tape_behind():
    w = plugrad.Variable([1.0, 2.0])
    optimizer = optimizers.Adam()
    optimizer.minimize(lambda: plugrad.sum(w * w), [w])
    before = plugrad.memory().tensors
    for _ in range(5):
        optimizer.minimize(lambda: plugrad.sum(w * w), [w])
    assert plugrad.memory().tensors == before
