import numpy as np
import pytest

import plugrad
from passes.checking import check_pass, kernel_names
from plugrad.discovery.loading import open_backend
from plugrad.errors import KernelFailed
from plugrad.extend import host_value
from plugrad.passes.constants import FOLDED_MAX_BYTES, fold_constants

VECTOR = plugrad.asarray(np.array([-1.5, 0.0, 2.5], "float32"))


def kernel_names_after_pass(function, *args):
    return kernel_names(check_pass(fold_constants, function, *args))


def test_calls_with_constant_inputs_are_made_once():
    graph = check_pass(
        fold_constants, lambda x: x * plugrad.exp(VECTOR + 1) + plugrad.full((3,), 2.0), VECTOR
    )
    assert kernel_names(graph) == ["Multiply", "Add"]
    first = graph.steps[0].inputs[1]
    assert graph.constants[first].tobytes() == plugrad.exp(VECTOR + 1).numpy().tobytes()


def test_several_outputs_and_optional_inputs():
    rows = plugrad.asarray(np.arange(6.0, dtype="float32").reshape(3, 2))
    assert kernel_names_after_pass(lambda x: x[:2] + plugrad.unstack(rows)[1], VECTOR) == [
        "Slice",
        "Add",
    ]


def test_large_results_are_not_folded():
    count = FOLDED_MAX_BYTES // 4
    x = plugrad.asarray(np.ones(1, "float32"))
    assert kernel_names_after_pass(lambda x: x + plugrad.zeros(count), x) == ["Add"]
    assert kernel_names_after_pass(lambda x: x + plugrad.zeros(count + 1), x) == ["Fill", "Add"]
    large = plugrad.zeros(10 * count)
    assert kernel_names_after_pass(lambda x: x + plugrad.sum(large + 1), x) == ["Add", "Sum", "Add"]
    assert kernel_names_after_pass(lambda x: x + plugrad.sum(large), x) == ["Add"]


def test_a_shape_is_enough_for_ones_and_zeros():
    assert kernel_names_after_pass(lambda x: x + plugrad.ones_like(x), VECTOR) == ["Add"]
    rows = plugrad.ones((2, 2))  # whose ones might lie in the order of its axes in memory
    assert kernel_names_after_pass(lambda x: plugrad.zeros_like(x) + x, rows) == [
        "ZerosLike",
        "Add",
    ]


def test_a_call_that_fails_fails_when_the_program_runs():
    def fail(x):
        raise ValueError("never")

    with plugrad.override_kernel("Exp", "cpu", fail):
        traced = plugrad.jit(lambda x: x + plugrad.exp(VECTOR))
        assert kernel_names(traced.graph(VECTOR)) == ["Exp", "Add"]
        with pytest.raises(KernelFailed, match="Exp"):
            traced(VECTOR)


def test_an_overridden_kernel_computes_the_constants():
    traced = plugrad.jit(lambda x: x + plugrad.exp(VECTOR))
    plain = traced(VECTOR).numpy()
    with plugrad.override_kernel("Exp", "cpu", lambda x: x * 0):
        assert np.array_equal(traced(VECTOR).numpy(), VECTOR.numpy())
    assert np.array_equal(traced(VECTOR).numpy(), plain)


def test_host_values_and_variables_are_no_constants():
    v = plugrad.Variable(VECTOR)
    numbers = iter(range(9))

    def f():
        return plugrad.exp(v) + host_value(lambda: np.float32(next(numbers)))

    traced = plugrad.jit(f)
    first = traced().numpy()
    v.assign(VECTOR + 1)
    assert not np.array_equal(traced().numpy(), first)


def test_strings_are_not_folded():
    words = plugrad.asarray(np.array(["a b", "c"], np.dtypes.StringDType()))
    traced = plugrad.jit(lambda x: (x, plugrad.concat([words, words])))
    assert kernel_names(traced.graph(VECTOR)) == []
    assert traced(VECTOR)[1].numpy().tolist() == ["a b", "c", "a b", "c"]


def test_constants_on_every_backend(backend):
    x = plugrad.asarray(np.array([1.0, -2.0], "float32"))

    def f(y):
        return y * (plugrad.exp(x) + 1)

    traced = plugrad.jit(f)
    assert kernel_names(traced.graph(x)) == ["Multiply"]
    assert traced.graph(x).backend is open_backend(backend)
    np.testing.assert_allclose(traced(x).numpy(), f(x).numpy(), rtol=1e-6)
