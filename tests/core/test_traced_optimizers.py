"""Optimizers under `plugrad.jit`: steps that are traced equal those that are not."""

import numpy as np
import pytest

import plugrad
from core.traced_values import count_traces
from plugrad import optimizers
from plugrad.errors import ArgumentValueError, KernelFailed

OPTIMIZER_FACTORIES = {
    "SGD": optimizers.SGD,
    "Momentum": optimizers.Momentum,
    "Nesterov": lambda rate: optimizers.Momentum(rate, nesterov=True),
    "Adagrad": optimizers.Adagrad,
    "Adadelta": optimizers.Adadelta,
    "RMSProp": lambda rate: optimizers.RMSProp(rate, momentum=0.5),
    "centered": lambda rate: optimizers.RMSProp(rate, centered=True),
    "Adam": optimizers.Adam,
    "AdamW": optimizers.AdamW,
    "Adamax": optimizers.Adamax,
    "Lion": optimizers.Lion,
    "NAdam": optimizers.NAdam,
    "RAdam": optimizers.RAdam,
}
STEP_COUNT = 50


def schedule(step):
    return 0.05 / (1 + step)


class LineFit:
    """Two variables and an optimizer, whose step fits a line."""

    def __init__(self, make, rate=schedule, dtype="float32"):
        self.optimizer = make(rate)
        self.variables = [
            plugrad.Variable(np.ones((3, 4), dtype), name="w"),
            plugrad.Variable(np.zeros(4, dtype), name="b"),
        ]
        self.x = plugrad.asarray(np.linspace(-1, 1, 6).reshape(2, 3).astype(dtype))

    def step(self, x):
        w, b = self.variables
        return self.optimizer.minimize(lambda: plugrad.sum((x @ w + b - 1) ** 2), [w, b])

    def arrays(self):
        states = self.optimizer.get_state(self.variables)["variables"]
        slots = [np.asarray(x) for state in states for x in state.values()]
        return [*(v.numpy() for v in self.variables), *slots]


def assert_same_state(a, b, backend):
    """Compare the states of two trainings: bit by bit on the cpu, to 1e-6 on devices."""
    for x, y in zip(a.arrays(), b.arrays(), strict=True):
        if backend == "cpu":
            assert x.tobytes() == y.tobytes()
        else:
            np.testing.assert_allclose(x, y, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", OPTIMIZER_FACTORIES)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_traced_steps_equal_untraced_ones(name, dtype, backend):
    if dtype not in plugrad.which().backend.dtypes():
        pytest.skip(f"{backend} has no {dtype}")
    plain, traced = (LineFit(OPTIMIZER_FACTORIES[name], dtype=dtype) for _ in range(2))
    step = plugrad.jit(traced.step)
    for _ in range(STEP_COUNT if backend == "cpu" else 10):
        expected, found = plain.step(plain.x), step(traced.x)
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-6, atol=1e-6)
    assert_same_state(plain, traced, backend)
    assert plain.optimizer.iterations == traced.optimizer.iterations


@pytest.mark.parametrize("name", OPTIMIZER_FACTORIES)
def test_a_traced_program_goes_on_from_a_restored_state(name):
    plain, traced = (LineFit(OPTIMIZER_FACTORIES[name]) for _ in range(2))
    step = plugrad.jit(traced.step)
    for _ in range(3):
        step(traced.x)
        plain.step(plain.x)
    saved = plain.optimizer.get_state(plain.variables), [v.numpy() for v in plain.variables]
    for _ in range(2):
        step(traced.x)
    traced.optimizer.set_state(traced.variables, saved[0])
    for variable, value in zip(traced.variables, saved[1], strict=True):
        variable.assign(value)
    assert_same_state(plain, traced, "cpu")
    step(traced.x)
    plain.step(plain.x)
    assert_same_state(plain, traced, "cpu")


def test_coefficients_may_change_between_calls():
    make = lambda rate: optimizers.Momentum(rate, momentum=0.5)  # noqa: E731
    plain, traced = (LineFit(make) for _ in range(2))
    step = plugrad.jit(traced.step)
    for change in (
        {},
        {"learning_rate": 0.01},
        {"momentum": 0.9},
        {"nesterov": True},
        {"learning_rate": schedule},
    ):
        for program in (plain, traced):
            for name, value in change.items():
                setattr(program.optimizer, name, value)
        step(traced.x)
        plain.step(plain.x)
        assert_same_state(plain, traced, "cpu")


def test_failing_schedule_leaves_the_state_unchanged():
    program = LineFit(optimizers.Adam)
    step = plugrad.jit(program.step)
    step(program.x)
    before = [x.tobytes() for x in program.arrays()]
    program.optimizer.learning_rate = lambda step: -1.0
    with pytest.raises(ArgumentValueError, match="learning_rate=-1"):
        step(program.x)
    assert [x.tobytes() for x in program.arrays()] == before
    assert program.optimizer.iterations == 1
    program.optimizer.learning_rate = schedule
    step(program.x)
    assert program.optimizer.iterations == 2


def step_second_variable(program):
    b = program.variables[1]
    program.optimizer.apply_gradients([(b, plugrad.ones_like(b))])


@pytest.mark.parametrize("name", OPTIMIZER_FACTORIES)
def test_variables_that_no_longer_take_steps_together(name):
    """A trace is valid only as long as the same variables have taken equally many steps."""
    plain, traced = (LineFit(OPTIMIZER_FACTORIES[name]) for _ in range(2))
    step = plugrad.jit(traced.step)
    for alone in (False, True, False, True):
        for program in (plain, traced) if alone else ():
            step_second_variable(program)
        plain.step(plain.x)
        step(traced.x)
        assert_same_state(plain, traced, "cpu")
    assert [s["steps"] for s in traced.optimizer.get_state(traced.variables)["variables"]] == [4, 6]
    assert count_traces(step) == 2


def test_two_steps_in_one_program():
    """In the second step, one of the variables has taken one more step than the other."""
    plain, traced = (LineFit(optimizers.Adam) for _ in range(2))

    def twice(program):
        step_second_variable(program)
        return program.step(program.x)

    step = plugrad.jit(lambda: twice(traced))
    for _ in range(3):
        twice(plain)
        step()
        assert_same_state(plain, traced, "cpu")
    assert count_traces(step) == 1


def test_options_that_choose_another_kernel_are_seen_after_a_trace():
    plain, traced = (LineFit(OPTIMIZER_FACTORIES["RMSProp"]) for _ in range(2))
    step = plugrad.jit(traced.step)
    for centered in (False, True, False):
        for program in (plain, traced):
            program.optimizer.centered = centered
        step(traced.x)
        plain.step(plain.x)
        assert_same_state(plain, traced, "cpu")
    assert count_traces(step) == 2


def test_variables_that_are_frozen_after_a_trace_no_longer_move():
    program = LineFit(optimizers.SGD)
    step = plugrad.jit(program.step)
    step(program.x)
    w, b = program.variables
    w.trainable, before = False, w.numpy().tobytes()
    step(program.x)
    assert w.numpy().tobytes() == before
    w.trainable, b.trainable = True, False
    step(program.x)
    assert w.numpy().tobytes() != before
    assert count_traces(step) == 3
    w.trainable = b.trainable = True
    assert "not traced again" in step.explain(program.x)
    program.optimizer.apply_gradients([(w, plugrad.zeros_like(w))])
    assert "a static value is another one" in step.explain(program.x)


def test_failing_kernel_undoes_the_counted_step():
    program, fails = LineFit(optimizers.Adam), [False]

    def step(x):
        loss = program.step(x + plugrad.random.normal(x.shape))
        return plugrad.exp(loss * 0)

    def exp(x):
        if fails[0]:
            raise RuntimeError("out of order")
        return np.exp(x)

    with plugrad.override_kernel("Exp", "cpu", exp):
        traced = plugrad.jit(step)
        traced(program.x)
        before = program.optimizer.get_state(program.variables), plugrad.random.default.state
        fails[0] = True
        with pytest.raises(KernelFailed, match="out of order"):
            traced(program.x)
        after = program.optimizer.get_state(program.variables), plugrad.random.default.state
    np.testing.assert_equal(after, before)


def test_traced_steps_without_gradients_are_counted():
    optimizer = optimizers.SGD(0.1)
    step = plugrad.jit(lambda: optimizer.apply_gradients([]))
    for _ in range(3):
        step()
    assert optimizer.iterations == 3


def test_clipped_gradients_are_traced():
    plain, traced = (LineFit(optimizers.Adam) for _ in range(2))

    def clipped(program):
        def step(x):
            w, b = program.variables
            _, gradients = plugrad.variable_grads(lambda: plugrad.sum((x @ w + b) ** 2), [w, b])
            gradients = optimizers.clip_by_value(gradients, 0.5)
            gradients = optimizers.clip_by_global_norm(gradients, 0.1)
            program.optimizer.apply_gradients(zip([w, b], gradients, strict=True))

        return step

    step = plugrad.jit(clipped(traced))
    for _ in range(5):
        step(traced.x)
        clipped(plain)(plain.x)
    assert_same_state(plain, traced, "cpu")


def test_slots_are_made_beside_variables_that_random_numbers_have_moved():
    """Creating a slot in the first trace keeps the random draws of the step."""

    def train(jit):
        w, b = plugrad.Variable(plugrad.ones(3)), plugrad.Variable(plugrad.ones(3))
        generator, optimizer = plugrad.random.Generator(1), optimizers.Momentum(0.1, 0.5)

        def step():
            noise = generator.normal((3,))
            w.assign(w + noise)
            optimizer.minimize(lambda: plugrad.sum(w * b + noise), [w, b])

        run = plugrad.jit(step) if jit else step
        for _ in range(3):
            run()
        return w.tolist(), b.tolist()

    with plugrad.use("cpu"):
        assert train(jit=True) == train(jit=False)
