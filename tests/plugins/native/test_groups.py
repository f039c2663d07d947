"""Groups of elementwise calls: numbers that are repeated are read where they are, and nothing else changes."""

from importlib import import_module

import numpy as np
import pytest

import plugrad
from plugins.comparing import assert_same_when_traced, random_tensor
from plugrad_cpu.threads import thread_pool

compiler = import_module("plugrad_native.programs.compile")
selection = import_module("plugrad_native.programs.selection")
lowering = import_module("plugrad_native.programs.groups")


def broadcast_number(number, x):
    return plugrad.broadcast_to(number, x.shape)


FUSED_FUNCTIONS = {
    "the gradient of a sum": plugrad.grads(lambda x, y: plugrad.sum(x * y - plugrad.exp(-y))),
    "the gradient of a mean": plugrad.grads(lambda x, y: plugrad.mean((x - y) ** 2 / 3)),
    "a repeated number is a result": lambda x, y: (
        broadcast_number(y[:1, 0], x) * x,
        broadcast_number(y[0, 0], x),
    ),
    "a function of a repeated number": lambda x, y: plugrad.exp(broadcast_number(y[0, 0], x)) - x,
    "a function of it is a result": lambda x, y: (
        plugrad.tanh(broadcast_number(y[0, 0], x)),
        x + y,
    ),
    "arithmetic of repeated numbers": lambda x, y: (
        x * (-broadcast_number(y[0, 0], x) * 2 + 1) / 3 - y
    ),
    "arithmetic of them is a result": lambda x, y: (x + y, -broadcast_number(y[0, 0], x) * 2),
    "a power of repeated numbers": lambda x, y: (
        plugrad.abs(x) ** broadcast_number(plugrad.abs(y[0, 0]), x)
    ),
    "a power of numbers alone": lambda x, y: (
        x + broadcast_number(plugrad.abs(y[0, 0]), x) ** broadcast_number(plugrad.abs(y[0, 1]), x)
    ),
    "a choice of numbers alone": lambda x, y: (
        plugrad.where(
            broadcast_number(y[0, 0] > 0, x),
            broadcast_number(y[0, 0], x),
            broadcast_number(y[0, 1], x),
        )
        * y
    ),
    "a choice": lambda x, y: (
        plugrad.where(broadcast_number(y[0, 0] > 0, x), x, broadcast_number(y[0, 1], x)) * y
    ),
    "a factor of 1": lambda x, y: (x + y) * plugrad.broadcast_to(plugrad.asarray(1.0), x.shape) - y,
    "a factor of 1 and a result": lambda x, y: (
        (x + y) * broadcast_number(plugrad.asarray(1.0), x),
        x + y,
    ),
    "an argument times 1": lambda x, y: (
        plugrad.exp(x * broadcast_number(plugrad.asarray(1.0), x)) + y
    ),
    "sums of repeated numbers": lambda x, y: plugrad.sum(broadcast_number(y[0, 0], x) * x, axis=1),
    "rows of repeated numbers": lambda x, y: (
        plugrad.sum(broadcast_number(y[0, 0], x), axis=1, keepdims=True)
        + plugrad.max(x - y, axis=1, keepdims=True)
    ),
    "integers": lambda x, y: (
        plugrad.broadcast_to(7, x.shape) * x.astype("int32") - y.astype("int32")
    ),
}


@pytest.mark.parametrize("function", FUSED_FUNCTIONS.values(), ids=FUSED_FUNCTIONS)
@pytest.mark.rows("shape", [(1, 2), (3, 5), (40, 100), (300, 700)])
@pytest.mark.parametrize("threads", [1, 2])
def test_fused_groups_have_the_bits_of_untraced_calls(function, shape, threads, monkeypatch):
    monkeypatch.setattr(thread_pool, "count", threads)
    assert_same_when_traced(function, random_tensor(*shape), random_tensor(*shape, seed=1))


@pytest.mark.parametrize("threads", [1, 2])
def test_the_gradient_of_a_sum_is_not_replayed(threads, monkeypatch):
    """Threads once got a broadcast view of a number, which no program accepts."""
    monkeypatch.setattr(thread_pool, "count", threads)
    monkeypatch.setattr(
        compiler._LoopwiseReplay, "__call__", lambda *given: pytest.fail("it is replayed")
    )
    x = random_tensor(600, 700)
    function = plugrad.grad(lambda x: plugrad.sum(plugrad.exp(-x) * x))
    np.testing.assert_array_equal(plugrad.jit(function)(x).numpy(), function(x).numpy())


def test_a_result_takes_no_memory_that_is_read_later(monkeypatch):
    """A product with 1 is computed in the loop, and overwrites nothing."""
    monkeypatch.setattr(thread_pool, "count", 1)
    w = random_tensor(200, 200, seed=2)

    def function(x):
        a = x @ w
        b = a * plugrad.broadcast_to(plugrad.asarray(1.0), a.shape)
        c = a + 1.0
        return c, b * c, plugrad.cumulative_sum(b * c + c, axis=0)

    assert_same_when_traced(function, random_tensor(200, 200))


def test_lowered_group_drops_broadcasts_and_unit_products():
    """Loops broadcast numbers themselves, and a product with 1 disappears."""

    def function(x):
        ones = plugrad.broadcast_to(plugrad.asarray(1.0), x.shape)
        return plugrad.exp(x) * ones * -ones

    graph = plugrad.jit(function).graph(random_tensor(200, 20))
    (step,) = selection.CompiledStepSelector(graph).prepare(graph).steps
    found = lowering.lower_group(step.body, graph.specs)
    assert [call.function for call in found.setup_calls] == ["negative_float32"]
    assert [call.function for call in found.loop_calls] == ["exp_float32", "multiply_float32"]


@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (5,), (3000,), (7, 1), (1, 7), (40, 70)])
def test_complex_numbers_of_double_precision_are_computed_by_programs(shape, rng):
    x = plugrad.asarray(rng.normal(size=shape) + 1j * rng.normal(size=shape))
    y = plugrad.asarray(rng.normal(size=shape[-1:]) + 1j * rng.normal(size=shape[-1:]))

    def mix(x, y):
        z = x * x + (0.5 - 2j) * x
        first = y[:1] if y.shape else y
        return plugrad.exp(z / (x - 3)) * y, plugrad.abs(z), plugrad.sum(z * y, axis=()), z + first

    results = plugrad.jit(mix)(x, y)
    for found, wanted in zip(results, mix(x, y), strict=True):
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal([found.numpy().tobytes()], [wanted.numpy().tobytes()])
