"""Steps of optimizers in compiled graphs: variables change where they lie, all at once, and nobody else sees it."""

import threading
from itertools import pairwise

import numpy as np
import pytest

import plugrad
from plugins.comparing import random_tensor
from plugrad.discovery.loading import open_backend
from plugrad.extend import host_value
from plugrad.transforms.variable import get_array
from plugrad_cpu.memory import pool

variants = pytest.importorskip("plugrad_native.variants")
if not variants.has_any_variant():
    pytest.skip("there is no native code for this platform", allow_module_level=True)
open_backend("cpu")

OPTIMIZER_FACTORIES = {
    "SGD": lambda: plugrad.optimizers.SGD(0.1),
    "momentum": lambda: plugrad.optimizers.Momentum(0.1),
    "Nesterov": lambda: plugrad.optimizers.Momentum(0.1, nesterov=True),
    "Adam": lambda: plugrad.optimizers.Adam(0.01),
    "AdamW": lambda: plugrad.optimizers.AdamW(0.01),
    "Adamax": lambda: plugrad.optimizers.Adamax(0.01),
    "RMSprop": lambda: plugrad.optimizers.RMSProp(0.01, momentum=0.5),
    "centered": lambda: plugrad.optimizers.RMSProp(0.01, centered=True),
    "Adagrad": lambda: plugrad.optimizers.Adagrad(0.01),
    "Adadelta": lambda: plugrad.optimizers.Adadelta(0.01),
}


class TwoVariableTraining:
    """A training step of an optimizer with two variables."""

    def __init__(self, make, *, is_traced, dtype="float32", middle=lambda loss: loss):
        w = plugrad.Variable(random_tensor(40, 7, dtype=dtype), name="w")
        b = plugrad.Variable(random_tensor(7, dtype=dtype, seed=1), name="b")
        self.variables, self.optimizer = [w, b], make()
        self.x = random_tensor(5, 40, dtype=dtype, seed=2)

        def step(x):
            def loss():
                return middle(plugrad.mean(plugrad.tanh(x @ w + b) ** 2))

            return self.optimizer.minimize(loss, self.variables)

        self.step = plugrad.jit(step) if is_traced else step

    def run(self, count):
        return [self.step(self.x).numpy().tobytes() for _ in range(count)]

    def values(self):
        return [v.numpy().copy() for v in self.variables]

    def arrays(self):
        return [id(get_array(v)) for v in self.variables]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", OPTIMIZER_FACTORIES)
def test_the_bits_match_an_untraced_step(name, dtype):
    traced = TwoVariableTraining(OPTIMIZER_FACTORIES[name], is_traced=True, dtype=dtype)
    untraced = TwoVariableTraining(OPTIMIZER_FACTORIES[name], is_traced=False, dtype=dtype)
    assert traced.run(2) == untraced.run(2)
    before = traced.arrays()
    assert traced.run(3) == untraced.run(3)
    assert traced.arrays() == before
    for x, y in zip(traced.values(), untraced.values(), strict=True):
        assert x.tobytes() == y.tobytes()


OTHER_REFERENCES = {
    "a tensor": plugrad.asarray,
    "another variable": plugrad.Variable,
    "a view of NumPy": lambda v: v.numpy()[1:],
    "a buffer": lambda v: memoryview(v.numpy()),
    "a slice": lambda v: v[1:],
    "another shape": lambda v: plugrad.reshape(v, (-1,)),
}


@pytest.mark.parametrize("name", OTHER_REFERENCES)
def test_arrays_referenced_elsewhere_are_not_updated_in_place(name):
    def read(x):
        return np.asarray(x.numpy() if hasattr(x, "numpy") else x).tobytes()

    traced = TwoVariableTraining(OPTIMIZER_FACTORIES["Adam"], is_traced=True)
    untraced = TwoVariableTraining(OPTIMIZER_FACTORIES["Adam"], is_traced=False)
    traced.run(3)
    untraced.run(3)
    held = [OTHER_REFERENCES[name](v) for v in traced.variables]
    values = [read(x) for x in held]
    assert traced.run(2) == untraced.run(2)
    assert [read(x) for x in held] == values
    del held
    traced.run(1)
    before = traced.arrays()
    traced.run(1)
    assert traced.arrays() == before


def test_results_and_closures_keep_what_they_were():
    v = plugrad.Variable(random_tensor(6))
    optimizer = plugrad.optimizers.SGD(0.1)

    @plugrad.jit
    def step():
        before = plugrad.reshape(v, (2, 3))
        optimizer.minimize(lambda: plugrad.sum(v * v), [v])
        return before, plugrad.asarray(v)

    found = [step() for _ in range(4)]
    values = [(x.numpy().reshape(-1), y.numpy()) for x, y in found]
    for (_, after), (before, _) in pairwise(values):
        np.testing.assert_array_equal(after, before)
    f = plugrad.jit(lambda x: x + plugrad.asarray(v))
    now, zeros = v.numpy().copy(), plugrad.zeros(6)
    assert f(zeros).numpy().tobytes() == now.tobytes()
    step()
    assert f(zeros).numpy().tobytes() == v.numpy().tobytes() != now.tobytes()


def test_failing_step_leaves_variables_unchanged():
    is_failing = [False]

    def fail_if_asked():
        if is_failing[0]:
            raise RuntimeError("as asked")
        return np.float32(1)

    def middle(loss):
        return loss * host_value(fail_if_asked)

    training = TwoVariableTraining(OPTIMIZER_FACTORIES["Adam"], is_traced=True, middle=middle)
    twin = TwoVariableTraining(OPTIMIZER_FACTORIES["Adam"], is_traced=False)
    training.run(2)
    before, is_failing[0] = training.values(), True
    for _ in range(3):
        with pytest.raises(RuntimeError, match="as asked"):
            training.run(1)
    for x, y in zip(training.values(), before, strict=True):
        np.testing.assert_array_equal(x, y)
    assert int(training.optimizer.iterations) == 2
    is_failing[0] = False
    training.run(2)
    twin.run(4)
    for x, y in zip(training.values(), twin.values(), strict=True):
        assert x.tobytes() == y.tobytes()


def test_other_threads_see_no_half_of_a_step():
    """All elements of both variables are always equal; the variables are large enough to show a half-done step."""
    a, b = (plugrad.Variable(np.full(1 << 19, 3, "f4")) for _ in range(2))
    optimizer, stopped, wrong = plugrad.optimizers.SGD(0.25), threading.Event(), []

    @plugrad.jit
    def step():
        return optimizer.minimize(lambda: plugrad.sum(a * a + b * b) * 0.5, [a, b])

    def read():
        while not stopped.is_set():
            for v in (a, b):
                values = plugrad.asarray(v).numpy()
                if values.min() != values.max():
                    wrong.append(values)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for _ in range(60):
        step()
    stopped.set()
    for reader in readers:
        reader.join()
    assert not wrong
    np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_a_step_takes_no_memory_for_variables():
    """Only the gradient and the values that it is computed from remain."""
    v = plugrad.Variable(np.ones(1 << 18, "f4"))
    optimizer = plugrad.optimizers.Adam(0.1)

    @plugrad.jit
    def step():
        return optimizer.minimize(lambda: plugrad.sum(plugrad.tanh(v)), [v])

    for _ in range(3):
        step()
    pool.trim()
    pool._collect_dead()
    held = pool._peak = pool._bytes
    step()
    measured = pool._peak - held
    planned = plugrad.make_graph(step, fused=True)().peak_bytes
    assert measured == pytest.approx(planned, rel=0.05)
    assert measured <= 2 * v.nbytes


@pytest.mark.parametrize(
    "take_part",
    [
        lambda x: plugrad.reshape(x, (5, 2)),
        lambda x: x[1],
        lambda x: plugrad.split(x, 2)[0],
        plugrad.matrix_transpose,
    ],
)
def test_a_tensor_of_which_a_variable_is_a_part_does_not_change(take_part):
    """The memory of a view has no reference to the view, so it was written over with the variable."""
    x = plugrad.asarray(np.ones((2, 5), "float32"))
    v = plugrad.Variable(take_part(x))
    optimizer = plugrad.optimizers.SGD(0.1)
    step = plugrad.jit(lambda: optimizer.minimize(lambda: plugrad.sum(v * v), [v]))
    for _ in range(3):
        step()
    np.testing.assert_allclose(v.numpy(), np.full(v.shape, 0.8**3), rtol=1e-6)
    np.testing.assert_array_equal(x.numpy(), np.ones((2, 5)))


@pytest.mark.parametrize(
    "make",
    [lambda: plugrad.arange(5, dtype="float32"), lambda: plugrad.linspace(0, 4, 5)],
    ids=["arange", "linspace"],
)
def test_training_a_variable_of_counted_numbers_does_not_change_the_next_ones(make):
    v = plugrad.Variable(make())
    optimizer = plugrad.optimizers.SGD(0.1)
    step = plugrad.jit(lambda: optimizer.minimize(lambda: plugrad.sum(v * v), [v]))
    for _ in range(3):
        step()
    np.testing.assert_array_equal(make().numpy(), np.arange(5))
