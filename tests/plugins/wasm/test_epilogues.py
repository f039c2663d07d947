"""Biases and activations behind products and convolutions: one call of C, with the bits of several."""

from importlib import import_module

import numpy as np
import pytest

import plugrad
from plugrad.discovery.loading import open_backend
from plugrad.extend import active_functions, fuse_epilogues
from plugrad.types.bits import comparable_bits

pytest.importorskip("wasmtime")
programs = import_module("plugrad_wasm.programs.compile")
record = import_module("plugrad_wasm.programs.recording").record_graph


@pytest.fixture(autouse=True)
def _use_wasm():
    with plugrad.use("wasm"):
        yield


def random_array(*shape, seed=0):
    values = np.random.default_rng(seed).standard_normal(shape).astype("float32")
    values.flat[:4] = np.nan, np.inf, -np.inf, -0.0
    return plugrad.asarray(values)


def called_exports(function, *args):
    """Return the wasm exports that a compiled function calls."""
    graph = plugrad.make_graph(function)(*args)
    backend = open_backend("wasm")
    is_included = programs.RecordabilityCheck(graph, backend.linear_memory).is_single_pass
    fused = fuse_epilogues(graph, is_included)
    return [
        call.export
        for call in record(fused, backend.linear_memory, active_functions(backend)).calls
    ]


def assert_same_when_traced(function, *args):
    expected = function(*args)
    jitted = plugrad.jit(function)
    for _ in range(2):
        assert comparable_bits(jitted(*args).numpy()) == comparable_bits(expected.numpy())


MATMUL_SIZES = [
    (2, 1, 2),
    (3, 5, 7),
    (64, 128, 10),
    (5, 512, 8),
    (97, 513, 33),
    (130, 1100, 24),
    (4, 16, 16),
]


@pytest.mark.parametrize("turned", ["", "a", "b", "ab"])
@pytest.mark.parametrize(("rows", "depth", "columns"), MATMUL_SIZES)
def test_products_of_each_form(rows, depth, columns, turned):
    x = random_array(*((depth, rows) if "a" in turned else (rows, depth)))
    w = random_array(*((columns, depth) if "b" in turned else (depth, columns)), seed=1)
    b = random_array(columns, seed=2)

    def product(x, w):
        return plugrad.matmul(x, w, transpose_a="a" in turned, transpose_b="b" in turned)

    for function in (
        lambda x, w, b: plugrad.relu(product(x, w) + b),
        lambda x, w, b: plugrad.relu6(product(x, w)),
        lambda x, w, b: b + product(x, w),
    ):
        assert called_exports(function, x, w, b) == ["matmul_within_float32"]
        assert_same_when_traced(function, x, w, b)


CONVOLUTION_SIZES = {
    "groups": (4, 3, 1),
    "copied": (3, 3, 1),
    "strided": (4, 3, 2),
    "pixels": (8, 1, 1),
    "many channels": (32, 3, 1),
}


@pytest.mark.parametrize("name", CONVOLUTION_SIZES)
def test_convolutions_of_each_form(name):
    channels, size, stride = CONVOLUTION_SIZES[name]
    x, b = random_array(2, 9, 9, channels), random_array(40, seed=2)
    w = random_array(size, size, channels, 40, seed=1)

    def function(x, w, b):
        return plugrad.relu(plugrad.conv2d(x, w, stride, "same") + b)

    assert len(called_exports(function, x, w, b)) == 1
    assert_same_when_traced(function, x, w, b)
    deep = random_array(size, size, channels, 1, seed=3)
    assert_same_when_traced(
        lambda x, w, b: plugrad.relu6(plugrad.depthwise_conv2d(x, w, stride, "same") + b),
        *(x, deep, b[:channels]),
    )


def test_epilogues_that_need_another_pass_are_left_to_groups():
    x, w = random_array(6, 5), random_array(5, 4)
    for bias in (random_array(1), random_array(6, 4)):
        found = called_exports(lambda x, w, b: plugrad.relu(x @ w + b), x, w, bias)
        assert [name.partition("_")[0] for name in found] == ["matmul", "add", "relu"]
    found = called_exports(lambda x, w, b: plugrad.gelu(x @ w + b), x, w, random_array(4))
    assert found[0] == "matmul_within_float32"
    assert called_exports(lambda x, w: plugrad.elu(x @ w), x, w)[0] == "matmul_float32"
    assert (
        called_exports(lambda x, w, b: x @ w + b, x[:1], w, random_array(4))[0] == "matmul_float32"
    )
    stack = random_array(3, 6, 5)
    assert (
        called_exports(lambda x, w, b: x @ w + b, stack, w, random_array(4))[0] == "matmul_float32"
    )


@pytest.mark.parametrize("kernel", ["BatchMatMul", "Add", "Relu", "_FusedMatMul"])
def test_kernels_that_are_replaced_are_not_joined(kernel):
    def run_and_note(*arrays, **attrs):
        calls.append(kernel)
        return own(*arrays, **attrs)

    calls = []
    own = plugrad.get_kernel(kernel, "wasm").kernel_func
    x, w, b = random_array(3, 4), random_array(4, 5, seed=1), random_array(5, seed=2)
    with plugrad.override_kernel(kernel, "wasm", run_and_note):
        assert_same_when_traced(lambda x, w, b: plugrad.relu(x @ w + b), x, w, b)
    assert bool(calls) is (kernel != "_FusedMatMul")


def test_a_replay_joins_calls_unless_each_is_looked_at():
    x, w, b = random_array(3, 4), random_array(4, 5, seed=1), random_array(5, seed=2)

    def layer(x, w, b):
        return plugrad.relu(x @ w + b)

    def kernels():
        jitted = plugrad.jit(layer)
        with plugrad.profile() as measured:
            found = jitted(x, w, b)
        assert comparable_bits(found.numpy()) == comparable_bits(layer(x, w, b).numpy())
        return {event.kernel for event in measured.kernels}  # their order is that of their times

    with plugrad.config.override("jit", "replay"):
        assert kernels() == {"_FusedMatMul"}
        x, w, b = (plugrad.ones_like(y) for y in (x, w, b))
        with plugrad.config.override("check_finite", True):
            assert kernels() == {"BatchMatMul", "Add", "Relu"}
        with plugrad.override_kernel("Relu", "wasm", lambda x: x):
            assert kernels() == {"_FusedMatMul", "Relu"}
