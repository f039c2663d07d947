"""Elementwise groups read slices where they are, with the bits of untraced calls."""

import numpy as np
import pytest

import plugrad
from plugrad.extend import Fused
from plugrad_cpu.extend import thread_pool
from plugrad_native.programs import compile as compiler
from plugrad_native.programs.selection import CompiledStepSelector


@pytest.fixture(autouse=True)
def one_thread(monkeypatch):
    monkeypatch.setattr(thread_pool, "count", 1)
    with plugrad.use("cpu"):
        yield


def random_tensor(*shape, dtype="f4", seed=0):
    x = np.random.default_rng(seed).normal(size=shape) * 20
    return plugrad.asarray(x.astype(dtype))


def find_fused_steps(function, *args):
    """Return the steps of the groups of a function, as the pack compiles it."""
    graph = plugrad.make_graph(function)(*args)
    steps = CompiledStepSelector(graph).prepare(graph).steps
    return [step.body.steps for step in steps if isinstance(step, Fused)]


def count_python_steps(function, *args):
    """Return the number of steps that Python runs, programs included."""
    return len(compiler.compile_graph(plugrad.make_graph(function)(*args)).graph.steps)


def assert_same_bits(function, *args):
    expected, found = function(*args), plugrad.jit(function)(*args)
    assert found.dtype == expected.dtype
    assert found.numpy().tobytes() == expected.numpy().tobytes()


def shortest_paths(x):
    for k in range(x.shape[0]):
        x = plugrad.minimum(x, x[:, k, None] + x[None, k])
    return x


def diffuse(x):
    x = plugrad.asarray(x, copy=True)
    for _ in range(3):
        inner = x[1:-1, 1:-1]
        flow = x[2:, 1:-1] + x[:-2, 1:-1] + x[1:-1, 2:] + x[1:-1, :-2] - 4 * inner
        x[1:-1, 1:-1] = inner + 0.2 * flow
    return x


@pytest.mark.parametrize("shape", [(5, 5), (40, 40), (70, 70)])
@pytest.mark.parametrize("function", [shortest_paths, diffuse])
def test_slices_of_results_need_no_python(function, shape):
    x = random_tensor(*shape)
    assert_same_bits(function, x)
    assert count_python_steps(function, x) == 1


SLICES = {
    "rows": lambda x: x[3:9] - x[4:10] * 2,
    "columns": lambda x: x[:, 1:] + x[:, :-1],
    "one column": lambda x: x[:, 2] * 3 - x[:, 5],
    "a column and a row": lambda x: x[:, 4:5] * x[7] + x,
    "one number": lambda x: x[2, 3] * x,
    "every second": lambda x: x[1::2, ::3] * 2 - x[::2, 1::3],
    "backwards": lambda x: x[::-1, ::-2] + x[:, ::2],
    "slices of slices": lambda x: x[2:, 3:][:-4, 1:-2] * x[4:-2, 4:-2],
    "other shapes": lambda x: x[2:8].reshape(3, 2, -1)[1] + plugrad.expand_dims(x[3], 0),
    "a row of a reshape": lambda x: plugrad.exp(x).reshape(-1, 4) - x.reshape(-1, 4)[:1],
    "a transposed slice": lambda x: plugrad.sum(x[2:12, 3:13].T + x[:10, :10], axis=0),
    "bools": lambda x: plugrad.where(x[1:] > x[:-1], x[1:], -x[:-1]),
    "functions of C": lambda x: plugrad.exp(x[:, 2:-1]) + plugrad.sigmoid(x[:, 1:-2]),
    "functions of NumPy": lambda x: plugrad.sin(x[:, 2:-1]) + plugrad.atan2(x[:, 1:-2], 2.0),
    "sums of what is made": lambda x: plugrad.sum(x[:, 1:] * x[:, :-1], axis=0),
    "a result that replaces its base": lambda x: (y := x * 2) - y[:, ::-1],
    "repeated columns": lambda x: plugrad.broadcast_to(x[:, 3:4], x.shape) + x,
    "split columns": lambda x: (y := plugrad.split(x, 4, axis=1))[0] * y[3] - y[1] * 2 + y[2],
    "unstacked columns": lambda x: (y := plugrad.unstack(x, axis=1))[4] * 2 - y[7],
    "unstacked vector": lambda x: (y := plugrad.unstack(x[:, 3]))[4] * x - y[7],
    "padded": lambda x: plugrad.pad(x[1:-1, 1:-1] * 2, [(1, 1), (1, 1)]) + x,
}
"""By what they slice: elementwise functions of slices of a matrix."""


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8", "u1", "f2", "c8", "c16"])
@pytest.mark.parametrize("name", SLICES)
def test_slices_have_the_bits_of_untraced_calls(name, dtype):
    function = SLICES[name]
    x = random_tensor(16, 20, dtype="f4").numpy().astype(dtype)
    if x.dtype.kind == "f":
        x[::5, ::3], x[1::5, ::4], x[2::7, 1::3] = np.nan, np.inf, -0.0
    x = plugrad.asarray(x)
    try:
        function(x)
    except plugrad.errors.PlugradError as error:  # such as sigmoid of integers
        with pytest.raises(type(error)):
            plugrad.jit(function)(x)
        return
    assert_same_bits(function, x)
    assert_same_bits(lambda x: function(x + x), x)


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_threads_share_groups_that_slice(threads, monkeypatch):
    monkeypatch.setattr(thread_pool, "count", threads)
    x = random_tensor(700, 900)
    assert_same_bits(lambda x: x[1:, 1:] * 2 - x[:-1, :-1] + x[1:, :1] * x[0, 1:], x)


def test_a_result_does_not_overwrite_an_array_that_is_sliced():
    """A later element may be read where an earlier one would be written."""
    x = random_tensor(300, 300)
    assert_same_bits(lambda x: plugrad.sort((y := x * 2) + y[:, 7:8] * y[9]), x)
    assert_same_bits(lambda x: (y := plugrad.sort(x) * 2) - y[::-1], x)


def test_slices_that_others_read_are_made_once_more():
    x = random_tensor(30, 30)

    def function(x):
        part = x[1:, 1:]
        return plugrad.sum(part * 2) + plugrad.sum(part, axis=0)[0]

    assert_same_bits(function, x)


def test_loops_slice_what_they_carry():
    x = random_tensor(20, 30)

    def function(x):
        def step(carry, row):
            return carry[::-1] + row[1:11] * carry, carry[2:4] - row[:2]

        return plugrad.concat([plugrad.scan(step, x[0, :10], x)[1].reshape(-1), x[0]])

    assert_same_bits(function, x)


def test_groups_hold_the_slices_of_arrays_in_one_order():
    x = random_tensor(30, 40)
    (steps,) = find_fused_steps(lambda x: x[1:] * 2 - x[:-1], x)
    assert [step.kernel.name for step in steps].count("Slice") == 2
    found = find_fused_steps(lambda x: x[3:23, 4:24].T + 1.0, x)
    assert all(step.kernel.name != "Slice" for steps in found for step in steps)


def test_overridden_slices_are_called():
    x = random_tensor(5, 6)
    function = plugrad.jit(lambda x: x[:, 1:] * 2 - x[:, :-1])
    ones = np.ones((5, 5), "f4")
    with plugrad.override_kernel("Slice", "cpu", lambda x, *, begin, size, drop: ones):
        np.testing.assert_array_equal(function(x).numpy(), ones)
    np.testing.assert_array_equal(function(x).numpy(), (x[:, 1:] * 2 - x[:, :-1]).numpy())


def test_gates_of_cells_are_split_in_the_loop():
    x = random_tensor(8, 3, 16)

    def function(x):
        c = x[:, 0, :4]
        for inputs in plugrad.unstack(x, axis=1):
            i, f, g, o = plugrad.split(inputs, 4, axis=-1)
            c = plugrad.sigmoid(f) * c + plugrad.sigmoid(i) * plugrad.tanh(g) - plugrad.sigmoid(o)
        return c

    assert_same_bits(function, x)
    assert count_python_steps(function, x) == 1


UPDATES = {
    "of itself": lambda x: update(x, x[:-2, :-2] * 2),
    "by its own slice": lambda x: update(x, x[2:, 2:]),
    "by a number": lambda x: update(x * 2, x[0, 0]),
    "read later": lambda x: update(y := x * 2, x[1:-1, 2:]) + y,
    "twice": lambda x: update(update(x * 3, x[1:-1, 2:] + 1), x[:-2, 2:] - x[2:, 1:-1]),
    "before and after": lambda x: (
        (y := update(x * 2, x[2:, :-2])) - update(y, y[2:, 2:] * y[1:-1, 2:])
    ),
    "by a reshape of itself": lambda x: update(
        y := x + 1, y.reshape(-1)[: (y.shape[0] - 2) * (y.shape[1] - 2)].reshape(y.shape[0] - 2, -1)
    ),
}
"""By the source of the new elements: functions that replace the inner elements of a matrix."""


def update(x, inner):
    """Return a copy of x with other elements inside of its border."""
    y = plugrad.asarray(x, copy=True)
    y[1:-1, 1:-1] = inner
    return y


@pytest.mark.parametrize("name", UPDATES)
def test_updates_of_slices(name):
    function, x = UPDATES[name], random_tensor(150, 170)
    assert_same_bits(function, x)
    assert_same_bits(lambda x: plugrad.exp(function(plugrad.sort(x))), x)


@pytest.mark.parametrize("name", UPDATES)
def test_updates_of_slices_in_loops(name):
    function, x = UPDATES[name], random_tensor(15, 17)

    def repeat(x):
        def step(carry, row):
            last, other, total = carry
            return (function(last * 0.5), last, total + other), last[1] * row

        (last, other, total), rows = plugrad.scan(step, (x, x * 2, x), x)
        return plugrad.concat([last, other, total, rows])

    assert_same_bits(repeat, x)


def test_a_loop_updates_a_row_of_its_state():
    def function(x):
        def step(carry, row):
            new = plugrad.asarray(carry, copy=True)
            new[1:2] = carry[:1] * 0.5 + row
            return new, carry[2]

        state, rows = plugrad.scan(step, x, x)
        return state * 2 + rows

    assert_same_bits(function, random_tensor(30, 40))
    assert count_python_steps(function, random_tensor(30, 40)) == 1


def test_gradients_through_slices():
    x = random_tensor(12, 12)
    gradient = plugrad.grad(lambda x: plugrad.sum(diffuse(shortest_paths(x)) ** 2))
    assert_same_bits(gradient, x)
