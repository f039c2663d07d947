"""L-BFGS against torch.optim.LBFGS, and its line search against the conditions of Wolfe."""

import math

import numpy as np
import pytest

import plugrad
from core.test_optimizers import TORCH_RECORD
from plugrad import optimizers
from plugrad.errors import ArgumentError, ArgumentValueError, DTypeError
from plugrad.optimizers.line_search import LinePoint, search_line

STARTING_POINTS = {"rosenbrock": [-1.2, 1.0], "regression": [0.0, 0.0, 0.0]}
REGRESSION_INPUTS = np.sin(np.arange(36) * 1.7).reshape(12, 3)
REGRESSION_LABELS = (np.arange(12) % 3 > 0).astype(float)


def rosenbrock_loss(w):
    return (1 - w[0]) ** 2 + 100 * (w[1] - w[0] ** 2) ** 2


def regression_loss(w):
    dtype = str(w.dtype)
    loss = plugrad.losses.sigmoid_cross_entropy(
        REGRESSION_LABELS.astype(dtype), REGRESSION_INPUTS.astype(dtype) @ w
    )
    return loss + 0.01 * plugrad.sum(w * w)


LOSS_FUNCTIONS = {"rosenbrock": rosenbrock_loss, "regression": regression_loss}


@pytest.mark.parametrize("is_traced", [False, True])
@pytest.mark.parametrize("name", STARTING_POINTS)
def test_the_minimum_matches_torch(name, is_traced, backend):
    """In single precision, rounding hides the lowest point before the step is as small as the tolerance."""
    is_double = plugrad.float64 in plugrad.which().backend.dtypes()
    dtype, near, lower = ("float64", 1e-6, 1e-12) if is_double else ("float32", 2e-3, 1e-6)
    w, expected = (
        plugrad.Variable(np.array(STARTING_POINTS[name], dtype)),
        TORCH_RECORD["minima"][name],
    )
    function = lambda: LOSS_FUNCTIONS[name](w)  # noqa: E731
    optimizer = optimizers.LBFGS(max_iterations=100, tolerance_change=1e-14)
    first = function().item()
    before = optimizer.minimize(plugrad.jit(function) if is_traced else function, [w])
    assert before.item() == pytest.approx(first)
    np.testing.assert_allclose(w.numpy(), expected["place"], atol=near)
    assert function().item() <= expected["value"] + lower
    if is_double:
        assert optimizer.has_converged
        assert optimizer.evaluations <= 1.2 * expected["evaluations"] + 1


def test_float32_variables_of_several_shapes(backend):
    """A least-squares fit, compared with NumPy's solution."""
    kernel, bias = plugrad.Variable(np.zeros((3, 1), np.float32)), plugrad.Variable([0.0])
    x, y = (
        REGRESSION_INPUTS.astype(np.float32),
        (REGRESSION_INPUTS @ [[1.0], [-2.0], [0.5]] + 3 + REGRESSION_LABELS[:, None]).astype(
            np.float32
        ),
    )
    optimizer = optimizers.LBFGS(max_iterations=30)
    loss = plugrad.jit(lambda: plugrad.mean((x @ kernel + bias - y) ** 2))
    optimizer.minimize(loss, [kernel, bias])
    solution = np.linalg.lstsq(np.c_[REGRESSION_INPUTS, np.ones(12)], y.astype(float), rcond=None)[
        0
    ][:, 0]
    found = [*kernel.numpy()[:, 0], bias.item()]
    np.testing.assert_allclose(found, solution, rtol=2e-3, atol=2e-3)
    assert kernel.dtype is plugrad.float32


def test_next_minimize_call_reuses_the_curvature_history():
    w, v = plugrad.Variable(np.array([-1.2, 1.0])), plugrad.Variable(np.array([-1.2, 1.0]))
    short, forgetful = (
        optimizers.LBFGS(max_iterations=3),
        lambda: optimizers.LBFGS(max_iterations=3),
    )
    for _ in range(14):
        short.minimize(lambda: rosenbrock_loss(w), [w])
        forgetful().minimize(lambda: rosenbrock_loss(v), [v])
    assert rosenbrock_loss(w).item() < 1e-9 < rosenbrock_loss(v).item()
    assert short.iterations <= 42
    other = plugrad.Variable(np.array([2.0]))
    short.minimize(lambda: plugrad.sum(other**2), [other])  # of another size
    assert abs(other.item()) < 1e-6


def test_lbfgs_stops_after_max_evaluations():
    w, calls = plugrad.Variable(np.array([-1.2, 1.0])), []
    optimizer = optimizers.LBFGS(max_iterations=50, max_evaluations=7)
    optimizer.minimize(lambda: calls.append(1) or rosenbrock_loss(w), [w])
    assert 7 <= len(calls) == optimizer.evaluations < 12  # a step that has begun ends
    assert not optimizer.has_converged


def test_step_to_a_nonfinite_value_is_shortened():
    w = plugrad.Variable(np.array([5.0]))
    optimizer = optimizers.LBFGS(30.0, max_iterations=30, max_evaluations=90)
    optimizer.minimize(lambda: plugrad.sum(w - plugrad.log(w)), [w])  # NaN where w < 0
    assert w.item() == pytest.approx(1.0, abs=1e-5)


def test_an_error_keeps_the_variables_of_the_last_step():
    w, places = plugrad.Variable(np.array([-1.2, 1.0])), []

    def function():
        places.append(plugrad.stop_gradient(w).tolist())
        if len(places) == 9:
            raise ZeroDivisionError
        return rosenbrock_loss(w)

    optimizer = optimizers.LBFGS(max_iterations=50)
    with pytest.raises(ZeroDivisionError):
        optimizer.minimize(function, [w])
    assert w.tolist() in places[:8]
    assert w.tolist() != places[0]
    assert optimizer.evaluations == 9


def test_minimize_may_start_at_the_minimum():
    w, optimizer = plugrad.Variable(np.array([1.0, 1.0])), optimizers.LBFGS()
    assert optimizer.minimize(lambda: rosenbrock_loss(w), [w]).item() == 0
    assert (optimizer.iterations, optimizer.evaluations, optimizer.has_converged) == (0, 1, True)


def test_untrainable_variables_stay_unchanged():
    w, fixed = plugrad.Variable([3.0]), plugrad.Variable([2.0], trainable=False)
    optimizers.LBFGS().minimize(lambda: plugrad.sum((w - fixed) ** 2), [w, fixed])
    assert (w.item(), fixed.item()) == (pytest.approx(2.0), 2.0)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: optimizers.LBFGS(-1.0), ArgumentValueError, r"LBFGS: learning_rate=-1.0 must be"),
        (lambda: optimizers.LBFGS(max_iterations=0), ArgumentValueError, "max_iterations=0"),
        (lambda: optimizers.LBFGS(history_size=2.5), ArgumentError, "history_size=2.5"),
        (lambda: optimizers.LBFGS(lr=1), ArgumentError, "LBFGS: it has no argument 'lr'"),
        (
            lambda: optimizers.LBFGS().minimize(
                lambda: None, [plugrad.Variable([1.0]), plugrad.Variable(np.float64(1))]
            ),
            DTypeError,
            "the variables are float32, float64; they must have one floating dtype",
        ),
    ],
)
def test_lbfgs_rejects_invalid_arguments(call, error, message):
    with pytest.raises(error, match=message):
        call()


# --- the line search ------------------------------------------------------------------------------

LINE_FUNCTIONS = {
    "parabola": (lambda a: (a - 3) ** 2, lambda a: 2 * (a - 3)),
    "far": (lambda a: (a - 300) ** 2, lambda a: 2 * (a - 300)),
    "more_thuente": (lambda a: -a / (a * a + 2), lambda a: (a * a - 2) / (a * a + 2) ** 2),
    "steep": (
        lambda a: (a + 0.004) ** 5 - 2 * (a + 0.004) ** 4,
        lambda a: 5 * (a + 0.004) ** 4 - 8 * (a + 0.004) ** 3,
    ),
    "wavy": (lambda a: a * a / 50 - math.sin(a), lambda a: a / 25 - math.cos(a)),
    "wall": (
        lambda a: -math.sqrt(9 - a) - a if a < 9 else math.nan,
        lambda a: 0.5 / math.sqrt(9 - a) - 1 if a < 9 else math.nan,
    ),
}


@pytest.mark.parametrize("first", [1e-3, 0.1, 1.0, 20.0])
@pytest.mark.parametrize("name", LINE_FUNCTIONS)
def test_steps_satisfy_the_wolfe_conditions(name, first):
    value, slope = LINE_FUNCTIONS[name]
    calls = []

    def evaluate(step):
        calls.append(step)
        return LinePoint(step, value(step), slope(step), None)

    start = LinePoint(0.0, value(0.0), slope(0.0), None)
    found = search_line(evaluate, start, first, min_interval=0.0)
    assert found.value <= start.value + 1e-4 * found.step * start.slope
    assert abs(found.slope) <= 0.9 * abs(start.slope)
    assert found.step > 0
    assert len(calls) < 25


def test_a_line_search_that_ends_early_returns_the_lowest_point():
    value, slope = LINE_FUNCTIONS["far"]
    points = []

    def evaluate(step):
        points.append(LinePoint(step, value(step), slope(step), None))
        return points[-1]

    start = LinePoint(0.0, value(0.0), slope(0.0), None)
    found = search_line(evaluate, start, 1e-3, evaluations_left=3, min_interval=0.0)
    assert found.value == min(p.value for p in points)
    rising = LinePoint(0.0, 0.0, -1.0, None)
    up = search_line(
        lambda a: LinePoint(a, 1.0 + a, 1.0, None),
        rising,
        1.0,
        evaluations_left=5,
        min_interval=0.0,
    )
    assert up is rising
