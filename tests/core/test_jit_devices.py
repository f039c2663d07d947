"""Traced functions on devices, in threads, and in the memory."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import plugrad
from core.traced_values import VECTOR_X, VECTOR_Y, assert_identical, count_traces
from plugrad.errors import (
    BackendMismatch,
    DisposedTensor,
    PlugradError,
)

# --- devices, memory, threads ---------------------------------------------------------------------


def test_tensors_on_two_devices_are_an_error(fake_backend_name):
    there = plugrad.asarray([1.0, 2.0, 3.0], device=fake_backend_name)
    with pytest.raises(BackendMismatch, match=r"jit: .*cpu:0.*fake_device"):
        plugrad.jit(lambda x, y: x + y)(VECTOR_X, there)
    with pytest.raises(BackendMismatch, match=r"jit: .*not among"):
        plugrad.jit(lambda x: x + there)(VECTOR_X)


def test_without_tensors_the_function_runs_where_its_variables_live(fake_backend_name):
    v = plugrad.Variable(plugrad.asarray([1.0, 2.0], device=fake_backend_name))
    f = plugrad.jit(lambda: v * v)
    assert f().device.startswith(fake_backend_name)
    assert f().tolist() == [1.0, 4.0]


def test_a_device_with_few_kernels_falls_back(fake_backend_name):
    x = plugrad.asarray([1.0, 2.0], device=fake_backend_name)
    with plugrad.config.override("fallback", "silent"):
        f = plugrad.jit(lambda x: plugrad.sin(x) + plugrad.relu(x))
        np.testing.assert_allclose(f(x).numpy(), np.sin([1, 2]) + np.array([1, 2]), rtol=1e-6)
        assert f(x).device.startswith(fake_backend_name)


def test_tidy_releases_only_the_results_of_a_traced_call():
    f = plugrad.jit(lambda x: (x + 1, VECTOR_Y, x))
    with plugrad.tidy():
        first, closed_over, _ = f(VECTOR_X)
    assert first.is_disposed
    assert closed_over.is_disposed
    assert_identical(f(VECTOR_X)[1], VECTOR_Y)
    assert_identical(VECTOR_X + 0, VECTOR_X)


def test_tensors_that_are_disposed_are_an_error():
    f = plugrad.jit(lambda x: x + 1)
    x = plugrad.asarray([1.0, 2.0])
    f(x)
    x.dispose()
    with pytest.raises(DisposedTensor):
        f(x)


def test_a_disposed_tensor_from_outside_is_an_error_when_it_is_returned():
    x = plugrad.asarray([1.0, 2.0])
    x.dispose()
    with pytest.raises(DisposedTensor):
        plugrad.jit(lambda y: x)(plugrad.ones(2))


def test_a_variable_that_is_disposed_is_an_error():
    v = plugrad.Variable(VECTOR_X)
    f = plugrad.jit(lambda: v + 1)
    f()
    v.dispose()
    with pytest.raises(DisposedTensor):
        f()


def test_traced_functions_of_strings():
    words = plugrad.asarray(np.array(["a", "bc"], np.dtypes.StringDType()))
    f = plugrad.jit(lambda x: (plugrad.concat([x, words]), x[::-1]))
    assert f(words)[0].tolist() == ["a", "bc", "a", "bc"]
    assert f(words)[1].tolist() == ["bc", "a"]


def test_one_function_runs_in_four_threads():
    f = plugrad.jit(lambda x, k: plugrad.sum(x * k))
    barrier = threading.Barrier(4)

    def work(number):
        barrier.wait()
        return [f(plugrad.full((n % 3 + 1,), float(number)), number % 2).item() for n in range(60)]

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(work, range(4)))
    for number, values in enumerate(found):
        assert values == [(n % 3 + 1) * number * (number % 2) for n in range(60)]
    assert count_traces(f) == 6


def test_a_trace_is_not_seen_by_other_threads():
    inside, done = threading.Event(), threading.Event()

    def f(x):
        y = plugrad.exp(x)
        inside.set()
        assert done.wait(20)
        return y * 2

    traced = plugrad.jit(f)
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(traced, VECTOR_X)
        assert inside.wait(20)
        try:
            v = plugrad.Variable(VECTOR_X)
            v.assign(v + 1)
            assert (VECTOR_X + v).numpy().tolist() == (VECTOR_X + VECTOR_X + 1).numpy().tolist()
            assert plugrad.grad(plugrad.sum)(VECTOR_X).shape == (3,)
            assert_identical(plugrad.jit(lambda x: x + 1)(VECTOR_X), VECTOR_X + 1)
        finally:
            done.set()
        assert_identical(future.result(), plugrad.exp(VECTOR_X) * 2)


def test_debug_mode_checks_kernel_results_in_traces():
    f = plugrad.jit(plugrad.exp)
    with (
        plugrad.override_kernel("Exp", "cpu", lambda x: x[:1]),
        plugrad.config.override("debug", True),
        pytest.raises(PlugradError, match=r"Exp.*\(1,\)"),
    ):
        f(VECTOR_X)
    assert_identical(f(VECTOR_X), plugrad.exp(VECTOR_X))


def test_the_graph_of_a_call_is_the_one_that_runs():
    f = plugrad.jit(lambda x: plugrad.exp(x))
    graph = f.graph(VECTOR_X)
    f(VECTOR_X)
    assert count_traces(f) == 1
    assert f.graph(VECTOR_X) is graph
    assert plugrad.make_graph(f)(VECTOR_X) is graph
    assert [step.kernel.name for step in graph.steps] == ["Exp"]
