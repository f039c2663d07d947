"""Optimizers against their formulas, computed in NumPy float64, and against torch.optim's steps."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

import plugrad
from plugrad import optimizers
from plugrad.errors import ArgumentError, ArgumentValueError, DTypeError, ShapeError

TARGET = np.array([0.5, -1.5, 3.0])
START = np.array([2.0, 1.0, -1.0])
# written by benchmarks/record_optimizers.py
TORCH_RECORD = json.loads((Path(__file__).parent / "torch_optim.json").read_text("utf-8"))
RECORDED_PATHS = TORCH_RECORD["paths"]
OPTIMIZERS_LIKE_TORCHS = {
    "SGD": lambda: optimizers.SGD(0.05),
    "Momentum": lambda: optimizers.Momentum(0.02, 0.8),
    "Nesterov": lambda: optimizers.Momentum(0.02, 0.8, nesterov=True),
    "Adagrad": lambda: optimizers.Adagrad(0.3, 0.1),
    "Adadelta": lambda: optimizers.Adadelta(1.0, 0.9, 1e-3),
    "RMSProp": lambda: optimizers.RMSProp(0.05, 0.9, epsilon=1e-4),
    "RMSProp momentum": lambda: optimizers.RMSProp(0.02, 0.8, 0.5, 1e-8),
    "RMSProp centered": lambda: optimizers.RMSProp(0.01, 0.9, epsilon=1e-8, centered=True),
    "Adam": lambda: optimizers.Adam(0.1, 0.8, 0.95, 1e-3),
    "AdamW": lambda: optimizers.AdamW(0.1, 0.8, 0.95, weight_decay=0.1),
    "NAdam": lambda: optimizers.NAdam(0.1, 0.8, 0.95, momentum_decay=0.02),
    "RAdam": lambda: optimizers.RAdam(0.1, 0.8, 0.95, 1e-3),
    "Adamax": lambda: optimizers.Adamax(0.1, 0.8, 0.95, 1e-3),
}


def loss_gradient(v):
    """Return the gradient of sum((v - target)^2 * [1, 2, 3])."""
    return 2 * (v - TARGET) * [1.0, 2.0, 3.0]


def loss(w):
    target, weights = (plugrad.asarray(x, dtype=w.dtype) for x in (TARGET, [1.0, 2.0, 3.0]))
    return plugrad.sum((w - target) * (w - target) * weights)


def sgd(steps, lr=0.05):
    v = START.copy()
    for _ in range(steps):
        v = v - lr * loss_gradient(v)
    return v


def momentum(steps, lr=0.02, m=0.8, nesterov=False):
    v, a = START.copy(), np.zeros(3)
    for _ in range(steps):
        g = loss_gradient(v)
        a = m * a + g
        v = v - lr * (g + m * a if nesterov else a)
    return v


def adam(steps, lr=0.1, b1=0.8, b2=0.95, epsilon=1e-3):
    v, m, s = START.copy(), np.zeros(3), np.zeros(3)
    for t in range(1, steps + 1):
        g = loss_gradient(v)
        m = b1 * m + (1 - b1) * g
        s = b2 * s + (1 - b2) * g * g
        v = v - lr * (m / (1 - b1**t)) / (np.sqrt(s / (1 - b2**t)) + epsilon)
    return v


def lion(steps, lr=0.02, b1=0.8, b2=0.95, decay=0.1):
    v, m = START.copy(), np.zeros(3)
    for _ in range(steps):
        g = loss_gradient(v)
        v = v - lr * (np.sign(b1 * m + (1 - b1) * g) + decay * v)
        m = b2 * m + (1 - b2) * g
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
        (lambda: optimizers.Lion(0.02, 0.8, 0.95, 0.1), lion),
        (lambda: optimizers.Adam(), lambda n: adam(n, 0.001, 0.9, 0.999, 1e-8)),
    ],
    ids=["SGD", "Momentum", "Nesterov", "Adam", "Lion", "Adam-defaults"],
)
def test_optimizer_follows_its_formula(optimizer, reference, steps):
    optimizer, w = optimizer(), plugrad.Variable(START)
    values = [optimizer.minimize(lambda: loss(w), [w]).item() for _ in range(steps)]
    assert w.dtype is plugrad.float64
    assert w.numpy() == pytest.approx(reference(steps), rel=1e-10)
    assert optimizer.iterations == steps
    assert values[0] == pytest.approx(((START - TARGET) ** 2 * [1, 2, 3]).sum())
    assert values == sorted(values, reverse=True) or steps > 2


def non_quadratic_loss(v, w):
    return loss(v) + plugrad.sum(plugrad.sin(v * w)) + w * w


@pytest.mark.parametrize("name", RECORDED_PATHS)
def test_optimizer_steps_where_torch_steps(name, backend):
    is_double = plugrad.float64 in plugrad.which().backend.dtypes()
    dtype, within = (np.float64, 1e-5) if is_double else (np.float32, 2e-4)
    optimizer = OPTIMIZERS_LIKE_TORCHS[name]()
    v, w = plugrad.Variable(START.astype(dtype)), plugrad.Variable(dtype(0.5))
    for place in RECORDED_PATHS[name]:
        optimizer.minimize(lambda: non_quadratic_loss(v, w), [v, w])
        assert [*v.tolist(), w.item()] == pytest.approx(place, rel=within, abs=within)


def test_every_optimizer_is_compared_with_torch():
    assert OPTIMIZERS_LIKE_TORCHS.keys() == RECORDED_PATHS.keys()
    made = {type(make()) for make in OPTIMIZERS_LIKE_TORCHS.values()}
    public = {
        c
        for c in vars(optimizers).values()
        if isinstance(c, type) and issubclass(c, optimizers.Optimizer)
    }
    assert made == public - {optimizers.Optimizer, optimizers.Lion}  # torch.optim has no Lion


@pytest.mark.parametrize("make", OPTIMIZERS_LIKE_TORCHS.values(), ids=OPTIMIZERS_LIKE_TORCHS.keys())
def test_float32_variables_stay_float32(make, backend):
    w = plugrad.Variable([1.0, 2.0])
    make().minimize(lambda: plugrad.sum(w * w), [w])
    assert w.dtype is plugrad.float32
    assert np.isfinite(w.numpy()).all()


@pytest.mark.parametrize("make", OPTIMIZERS_LIKE_TORCHS.values(), ids=OPTIMIZERS_LIKE_TORCHS.keys())
def test_optimizer_continues_from_a_saved_state(make):
    v, optimizer = plugrad.Variable(START), make()
    for _ in range(3):
        optimizer.minimize(lambda: loss(v), [v])
    saved, other = optimizer.get_state([v]), make()
    w = plugrad.Variable(v)
    other.set_state([w], saved)
    for _ in range(3):
        optimizer.minimize(lambda: loss(v), [v])
        other.minimize(lambda: loss(w), [w])
    assert w.tolist() == v.tolist()
    assert other.iterations == optimizer.iterations == 6


def test_state_saved_before_the_first_step_can_be_restored():
    w, v = plugrad.Variable([1.0, 2.0]), plugrad.Variable([1.0, 2.0])
    fresh, restored = optimizers.Adam(0.1), optimizers.Adam(0.1)
    restored.set_state([v], fresh.get_state([w]))
    for optimizer, x in ((fresh, w), (restored, v)):
        optimizer.apply_gradients([(x, plugrad.asarray([1.0, -3.0]))])
    assert v.tolist() == w.tolist() != [1.0, 2.0]


def test_state_of_another_optimizer_is_refused():
    w = plugrad.Variable([1.0, 2.0])
    adam = optimizers.Adam()
    adam.apply_gradients([(w, plugrad.ones(2))])
    with pytest.raises(
        ArgumentError, match=r"Momentum keeps \['momentum'\] for a variable, not 'm'"
    ):
        optimizers.Momentum(0.1).set_state([w], adam.get_state([w]))


def test_invalid_states_leave_the_optimizer_unchanged():
    v, optimizer = plugrad.Variable(START, name="v"), optimizers.Momentum(0.1)
    optimizer.minimize(lambda: loss(v), [v])
    saved = optimizer.get_state([v])
    with pytest.raises(ArgumentError, match="that of 1 variables, but 2 are given"):
        optimizer.set_state([v, v], saved)
    with pytest.raises(ArgumentError, match=r"'iterations' and 'variables'.*this one has \['m'\]"):
        optimizer.set_state([v], {"m": 1})
    wrong = {"iterations": 9, "variables": [{"steps": 1, "momentum": np.zeros(2)}]}
    with pytest.raises(ShapeError, match=r"'momentum' of variable 'v' has shape \(2,\)"):
        optimizer.set_state([v], wrong)
    assert optimizer.get_state([v])["iterations"] == 1
    np.testing.assert_array_equal(
        optimizer.get_state([v])["variables"][0]["momentum"], saved["variables"][0]["momentum"]
    )


def test_learning_rate_may_be_a_schedule():
    w, taken = plugrad.Variable([0.0]), []
    optimizer = optimizers.SGD(lambda step: 1.0 / (1 + step))
    for _ in range(3):
        before = w.item()
        optimizer.apply_gradients([(w, plugrad.ones(1))])
        taken.append(before - w.item())
    assert taken == pytest.approx([1, 1 / 2, 1 / 3])
    assert optimizer.rate == 0.25


def test_errors_describe_invalid_schedules():
    """An invalid result raises an error that names the schedule; an exception of the schedule is passed on."""
    w = plugrad.Variable([0.0])
    with pytest.raises(ArgumentError, match=r"SGD: learning_rate='fast' must be a number"):
        optimizers.SGD(lambda step: "fast")
    optimizer = optimizers.SGD(lambda step: 0.1 if step < 1 else None)
    optimizer.apply_gradients([(w, plugrad.ones(1))])
    with pytest.raises(ArgumentError, match=r"SGD: learning_rate=None must be a number"):
        optimizer.apply_gradients([(w, plugrad.ones(1))])
    assert (w.item(), optimizer.iterations) == (pytest.approx(-0.1), 1)
    optimizer.learning_rate = lambda step: -step
    with pytest.raises(ArgumentValueError, match="SGD: learning_rate=-1 must be 0 or more"):
        optimizer.apply_gradients([(w, plugrad.ones(1))])
    with pytest.raises(ZeroDivisionError):
        optimizers.SGD(lambda step: 1 / step)


def test_centered_rmsprop_stays_finite_with_a_large_epsilon():
    """The variance of a constant gradient is 0, and rounding must not make it negative."""
    w = plugrad.Variable([1.0])
    optimizer = optimizers.RMSProp(0.1, 0.5, epsilon=0.1, centered=True)
    for _ in range(50):
        optimizer.apply_gradients([(w, plugrad.asarray([3.0]))])
    assert np.isfinite(w.item())


def test_momentum_may_change_between_steps():
    w = plugrad.Variable([0.0])
    optimizer = optimizers.Momentum(1.0, momentum=0.9)
    optimizer.apply_gradients([(w, plugrad.ones(1))])
    optimizer.momentum = 0.0
    optimizer.apply_gradients([(w, plugrad.ones(1))])
    assert w.item() == -2.0


def test_slots_are_untrainable_variables():
    """A step and `set_state` assign to the slots as to the weights; they do not replace them."""
    w = plugrad.Variable([1.0, 2.0], name="dense.kernel")
    for make in OPTIMIZERS_LIKE_TORCHS.values():
        optimizer = make()
        optimizer.minimize(lambda: plugrad.sum(w * w), [w])
        slots = dict(optimizer._states[w])
        assert all(type(x) is plugrad.Variable and not x.trainable for x in slots.values())
        assert all(x.name == f"dense.kernel.{name}" for name, x in slots.items())
        first = optimizer.get_state([w])
        optimizer.minimize(lambda: plugrad.sum(w * w), [w])
        optimizer.set_state([w], first)
        assert all(optimizer._states[w][name] is x for name, x in slots.items())
        for name, x in slots.items():
            np.testing.assert_array_equal(x.numpy(), first["variables"][0][name])
        optimizer.set_state([w], make().get_state([w]))  # that of one which has not taken a step
        for name, x in slots.items():
            np.testing.assert_array_equal(x.numpy(), optimizer._initial_slot(w, name).numpy())


def test_slots_outlive_a_tidy_block():
    w, optimizer = plugrad.Variable([1.0, 2.0]), optimizers.Adam(0.1, 0.8, 0.95, 1e-3)
    for _ in range(3):
        with plugrad.tidy():
            optimizer.minimize(lambda: plugrad.sum(w * w), [w])
    assert optimizer.get_state([w])["variables"][0]["steps"] == 3


@pytest.mark.parametrize("make", OPTIMIZERS_LIKE_TORCHS.values(), ids=OPTIMIZERS_LIKE_TORCHS.keys())
def test_pickled_optimizers_continue(make):
    w, optimizer = plugrad.Variable(START), make()
    optimizer.minimize(lambda: loss(w), [w])
    v, other = pickle.loads(pickle.dumps((w, optimizer)))
    for x, each in ((w, optimizer), (v, other)):
        for _ in range(2):
            each.minimize(lambda x=x: loss(x), [x])
    assert v.tolist() == w.tolist()
    assert other.iterations == 3


def record_host_values(monkeypatch):
    """Return a list that collects the requested host values: the function, the shape, and the array."""
    backend, recorded = plugrad.which().backend, []
    compute = backend.host_value

    def host_value(function, shape, dtype):
        array = compute(function, shape, dtype)
        recorded.append((function, shape, array))
        return array

    monkeypatch.setattr(backend, "host_value", host_value)
    return recorded


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", OPTIMIZERS_LIKE_TORCHS)
def test_recorded_coefficients_are_those_of_the_next_step(name, dtype, monkeypatch):
    """The function that a traced program calls in each run counts the step, and calls the schedule once."""
    recorded, asked = record_host_values(monkeypatch), []

    def rate(step):
        asked.append(step)
        return 0.1 / (1 + step)

    def make():
        optimizer = OPTIMIZERS_LIKE_TORCHS[name]()
        optimizer.learning_rate = rate
        variables = [plugrad.Variable(START.astype(dtype)), plugrad.Variable(np.float64(1.0))]
        return optimizer, [(v, plugrad.ones_like(v)) for v in variables]

    untraced, pairs = make()
    untraced.apply_gradients(pairs)
    count = len(recorded)
    untraced.apply_gradients(pairs)
    expected = [array for *_, array in recorded[count:]]
    recorded.clear()

    traced, pairs = make()
    traced.apply_gradients(pairs)
    asked.clear()
    found = [
        np.asarray(function(), array.dtype).reshape(shape) for function, shape, array in recorded
    ]
    assert asked == [1]
    assert traced.iterations == 2
    assert [e["steps"] for e in traced.get_state([v for v, _ in pairs])["variables"]] == [2, 2]
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_step_without_gradients_is_counted(monkeypatch):
    recorded, optimizer = record_host_values(monkeypatch), optimizers.Adam()
    optimizer.apply_gradients([])
    ((function, shape, _),) = recorded
    assert shape == (0,)
    assert function() == []
    assert optimizer.iterations == 2


def test_failing_schedule_counts_no_step(monkeypatch):
    recorded, w = record_host_values(monkeypatch), plugrad.Variable([1.0])
    optimizer = optimizers.Adam(lambda step: 0.1 if step < 1 else None)
    optimizer.apply_gradients([(w, plugrad.ones(1))])
    before = w.item(), optimizer.get_state([w])
    with pytest.raises(ArgumentError, match="learning_rate=None"):
        recorded[0][0]()
    with pytest.raises(ArgumentError, match="learning_rate=None"):
        optimizer.apply_gradients([(w, plugrad.ones(1))])
    assert (w.item(), optimizer.get_state([w])) == before


def test_gradients_are_clipped_by_value(backend):
    clipped = optimizers.clip_by_value([plugrad.asarray([-3.0, 0.5]), plugrad.asarray(7.0)], 2.0)
    assert [g.tolist() for g in clipped] == [[-2.0, 0.5], 2.0]


@pytest.mark.parametrize("largest", [0.1, 5.0, 13.0, 20.0])
def test_gradients_are_clipped_by_their_common_norm(largest):
    gradients = [np.array([3.0, 4.0]), np.array([[12.0]])]
    clipped = optimizers.clip_by_global_norm([plugrad.asarray(g) for g in gradients], largest)
    for g, y in zip(gradients, clipped, strict=True):
        np.testing.assert_allclose(y.numpy(), g * min(1, largest / 13), rtol=1e-12)
    assert clipped[0].dtype is plugrad.float64


def test_zero_gradients_stay_zero_when_clipped():
    (clipped,) = optimizers.clip_by_global_norm([plugrad.zeros(2)], 1.0)
    assert clipped.tolist() == [0.0, 0.0]
    assert optimizers.clip_by_global_norm([], 1.0) == []


@pytest.mark.parametrize(
    ("gradient", "dtype", "largest", "expected"),
    [
        ([300.0, 400.0], "float16", 50.0, [30.0, 40.0]),
        ([3 + 4j, 0], "complex64", 1.0, [0.6 + 0.8j, 0]),
        ([3.0, 4.0], "float32", float("inf"), [3.0, 4.0]),
        ([3e30, 4e30], "float32", 1.0, [0.6, 0.8]),
        ([3e-30, 4e-30], "float32", 1e-30, [6e-31, 8e-31]),
    ],
)
def test_common_norm_of_every_dtype(gradient, dtype, largest, expected):
    (clipped,) = optimizers.clip_by_global_norm([plugrad.asarray(gradient, dtype=dtype)], largest)
    assert clipped.dtype == dtype
    np.testing.assert_allclose(clipped.numpy(), expected, rtol=1e-3)


def test_state_belongs_to_each_variable():
    """A variable that joins later starts with its own first step."""
    early, late = plugrad.Variable(START), plugrad.Variable(START)
    optimizer = optimizers.Adam(0.1, 0.8, 0.95, 1e-3)
    optimizer.minimize(lambda: loss(early), [early])
    optimizer.minimize(lambda: loss(early) + loss(late), [early, late])
    assert early.numpy() == pytest.approx(adam(2))
    assert late.numpy() == pytest.approx(adam(1))


def test_optimizer_applies_gradients_that_the_caller_computed():
    w = plugrad.Variable([1.0, 2.0])
    optimizers.SGD(0.5).apply_gradients([(w, plugrad.asarray([2.0, -2.0]))])
    assert w.tolist() == [0.0, 3.0]


def test_learning_rate_may_change_between_steps():
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
        (
            lambda w: [(w, plugrad.ones(2, dtype="float64"))],
            DTypeError,
            "'w' is float32, its gradient float64; cast it",
        ),
    ],
)
def test_invalid_gradients_leave_variables_unchanged(pairs, error, message):
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
        (lambda: optimizers.Momentum(0.1, -1), r"Momentum: momentum=-1 must be 0 or more"),
        (lambda: optimizers.Adagrad(0.1, -1), "initial_accumulator_value=-1"),
        (lambda: optimizers.Adadelta(rho=1.5), r"Adadelta: rho=1.5 must be in \[0, 1\)"),
        (lambda: optimizers.RMSProp(decay=-0.1), "decay=-0.1"),
        (lambda: optimizers.AdamW(weight_decay=-1), "weight_decay=-1"),
        (lambda: optimizers.SGD(lambda step: -1.0), "learning_rate=-1.0"),
        (lambda: optimizers.clip_by_value([], 0), "clip_by_value: limit=0 must be positive"),
        (lambda: optimizers.clip_by_global_norm([], -1), "max_norm=-1"),
        (lambda: optimizers.clip_by_norm([], 0.0), "clip_by_norm: max_norm=0.0 must be positive"),
    ],
)
def test_invalid_coefficients_are_rejected(make, message):
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


def test_coefficients_are_numbers():
    with pytest.raises(ArgumentError, match=r"SGD: learning_rate='fast' must be a number"):
        optimizers.SGD("fast")
    with pytest.raises(ArgumentError, match=r"Adam: beta1=tensor.*float\(\) reads a tensor"):
        optimizers.Adam(beta1=plugrad.ones(2))
