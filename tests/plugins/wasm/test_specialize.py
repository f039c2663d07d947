"""Implementations for the shapes of a replay: the same bits as untraced, as long as nothing else is in effect."""

import gc
from importlib import import_module
from itertools import groupby

import numpy as np
import pytest

import plugrad
from plugins.comparing import random_tensor as numbers_on
from plugins.specializing import assert_specialized_rows_keep_bits
from plugrad.discovery.loading import open_backend
from plugrad.extend import Shaped, float32, get_kernel, host_value
from plugrad.testing.tables import rows

wasmtime = pytest.importorskip("wasmtime")
specialize = import_module("plugrad_wasm.programs.specialize").specialize


@pytest.fixture(autouse=True)
def _replay_on_wasm():
    with plugrad.use("wasm"), plugrad.config.override("jit", "replay"):
        yield


def random_wasm_tensor(*shape, **options):
    return numbers_on(*shape, device="wasm", **options)


def specialize_kernel(kernel, *specs, free=(), **attrs):
    """Return the specialized function of a float32 kernel for given shapes, or None."""
    backend = open_backend("wasm")
    given = [Shaped(shape, float32) for shape in specs]
    function = get_kernel(kernel, "wasm").kernel_func.function
    return backend.specialize(kernel, function, given, attrs, free)


@pytest.mark.parametrize(
    "family", [name for name, _ in groupby(rows(), lambda row: row.kernel.family)]
)
def test_specialized_rows_keep_their_bits(family):
    """The second call of a traced function runs the implementation that was specialized in the first."""
    assert_specialized_rows_keep_bits(family, "wasm")


def test_specialized_kernels_match_general_ones():
    add = specialize_kernel("Add", (2, 3), (3,))
    x, y = random_wasm_tensor(2, 3), random_wasm_tensor(3, seed=1)
    np.testing.assert_array_equal(
        open_backend("wasm").to_numpy(add(x.array, y.array)), x.numpy() + y.numpy()
    )


def test_results_in_lists_and_what_reads_addresses_in_memory():
    x = random_wasm_tensor(5, 4)
    step = specialize_kernel("ApplyGradientDescent", (1,), (5, 4), (5, 4))
    (made,) = step(plugrad.asarray([0.5]).array, x.array, x.array)
    backend = open_backend("wasm")
    np.testing.assert_array_equal(backend.to_numpy(made), x.numpy() * np.float32(0.5))


@pytest.mark.parametrize(
    ("kernel", "shape", "attrs"),
    [("Reshape", (4, 3), {"shape": (12,)}), ("Transpose", (90, 80), {"perm": (1, 0)})],
)
def test_views_stay_views(kernel, shape, attrs):
    assert specialize_kernel(kernel, shape, **attrs) is None


def test_lazy_views_are_read_in_place():
    """Reading a few elements of a lazily transposed matrix does not copy all of it."""
    x, y = random_wasm_tensor(300, 310), random_wasm_tensor(310, 300, seed=1)
    add = specialize_kernel("Add", (310, 300), (310, 300))
    some = specialize_kernel("Slice", (310, 300), begin=(1, 2), size=(3, 4), drop=())
    transposed = x.T.array
    read = open_backend("wasm").to_numpy
    np.testing.assert_array_equal(read(add(x.T.array, y.array)), x.numpy().T + y.numpy())
    np.testing.assert_array_equal(read(some(transposed)), x.numpy().T[1:4, 2:6])
    assert transposed.strided_view is not None


def test_results_overwrite_inputs_without_other_references():
    negative, add = (
        specialize_kernel("Neg", (3,), free=[0]),
        specialize_kernel("Add", (3,), (3,), free=[0, 1]),
    )
    x = random_wasm_tensor(3).array
    assert negative(x) is x
    other = x
    assert negative(x) is not other
    del other
    y = open_backend("wasm").functions["Reshape"](x, shape=(1, 3))
    assert negative(x) is not x
    del y
    assert add(x, x) is not x
    y = random_wasm_tensor(3).array
    assert add(x, y) is x
    assert specialize_kernel("Neg", (3,))(x) is not x
    assert specialize_kernel("Less", (3,), (3,), free=[0])(x, y) is not x
    assert (
        specialize_kernel("Add", (2, 3), (3,), free=[1])(random_wasm_tensor(2, 3).array, x) is not x
    )


def test_inputs_read_later_are_not_overwritten():
    def function(x):
        y = x * 2
        flat = y.reshape(-1)
        turned = plugrad.permute_dims(y, (1, 0))
        z = plugrad.relu(y + 1)
        return flat, turned, z, z * z, plugrad.negative(z), plugrad.exp(plugrad.exp(x))

    x = random_wasm_tensor(70, 80)
    f, before = plugrad.jit(function), x.numpy().copy()
    kept = []
    for _ in range(4):
        kept.append(f(x))
        for results in kept:
            for y, expected in zip(results, function(x), strict=True):
                np.testing.assert_array_equal(y.numpy(), expected.numpy())
        np.testing.assert_array_equal(x.numpy(), before)


def test_new_values_reuse_the_memory_of_gradients():
    step = specialize_kernel("ApplyMomentum", (3,), *[(4,)] * 6, free=[3, 4, 5])
    v, w, g, h, a, b = (random_wasm_tensor(4, seed=i).array for i in range(6))
    coefficients = plugrad.asarray([0.5, 0.5, 0.0]).array
    function = get_kernel("ApplyMomentum", "wasm").kernel_func.function
    expected = function(coefficients, v, w, g, h, a, b)
    read = open_backend("wasm").to_numpy
    other = h
    found = step(coefficients, v, w, g, h, a, b)
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_array_equal(read(x), read(y))
    assert found[0] is g
    assert not any(x is y for x in found[1:] for y in (v, w, g, h, a, b))
    assert other is h


def test_other_implementations_are_called():
    """An override, a registration or a watching wrapper takes effect from the next call."""
    f = plugrad.jit(lambda x: plugrad.abs(x) + 1)
    x = random_wasm_tensor(3)
    expected = np.abs(x.numpy()) + 1
    for _ in range(3):
        np.testing.assert_array_equal(f(x).numpy(), expected)
    with plugrad.profile() as measured:
        np.testing.assert_array_equal(f(x).numpy(), expected)
    assert {event.kernel for event in measured.kernels} == {"Abs", "Add"}
    with plugrad.override_kernel("Abs", "wasm", lambda x: x):
        for _ in range(3):
            np.testing.assert_array_equal(f(x).numpy(), x.numpy() + 1)
    np.testing.assert_array_equal(f(x).numpy(), expected)
    with plugrad.config.override("debug", True):
        np.testing.assert_array_equal(f(x).numpy(), expected)


def test_second_call_runs_the_specialized_functions(monkeypatch):
    """From the second call on, implementations make no decisions."""
    f = plugrad.jit(lambda x: plugrad.sum(plugrad.relu(x * x), axis=0))
    x = random_wasm_tensor(6, 5)
    f(x)
    f(x)
    counted = []
    names = import_module("plugrad_wasm.declare")
    for name in ("binary_layout", "choose_items_per_part", "is_done_in_one_call", "count_elements"):
        monkeypatch.setattr(names, name, counted.append)
    np.testing.assert_array_equal(f(x).numpy(), np.sum(x.numpy() ** 2, axis=0))
    assert not counted


def test_failed_call_specializes_no_function():
    f = plugrad.jit(lambda x: x * x)
    x = random_wasm_tensor(1000)
    plugrad.set_memory_limit(1)
    try:
        for _ in range(3):
            with pytest.raises(plugrad.errors.OutOfMemory):
                f(x)
    finally:
        plugrad.set_memory_limit(None)
    for _ in range(3):
        np.testing.assert_array_equal(f(x).numpy(), x.numpy() ** 2)
    plugrad.set_memory_limit(1)
    try:
        with pytest.raises(plugrad.errors.OutOfMemory) as caught:
            f(x)
    finally:
        plugrad.set_memory_limit(None)
    assert "It was traced at" in "".join(caught.value.__notes__)


def test_intermediate_memory_is_released_as_in_untraced_calls():
    """An implementation with several calls needs no more memory when traced."""
    f = plugrad.jit(lambda x, y: plugrad.einsum("jia,jka->ki", x, y))
    x, y = random_wasm_tensor(50, 40, 3), random_wasm_tensor(50, 30, 3, seed=1)
    for _ in range(2):
        f(x, y)
    limit = plugrad.memory().bytes
    while True:  # the least with which the untraced call runs
        limit += 1000
        plugrad.set_memory_limit(limit)
        try:
            plugrad.einsum("jia,jka->ki", x, y)
        except plugrad.errors.OutOfMemory:
            continue
        break
    try:
        f(x, y)
    finally:
        plugrad.set_memory_limit(None)


def test_a_program_that_is_dropped_takes_its_functions_with_it():
    f = plugrad.jit(lambda x: plugrad.relu(x) * 2)
    x = random_wasm_tensor(10)
    f(x)
    f(x)
    gc.collect()
    before = plugrad.memory().buffers
    del f
    gc.collect()
    assert plugrad.memory().buffers <= before


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "float16"])
def test_host_values_of_each_dtype(dtype):
    counted = iter([2, 0, 1])
    f = plugrad.jit(lambda: host_value(lambda: [next(counted)] * 2, shape=(2,), dtype=dtype))
    for expected in (2, 0, 1):
        found = f().numpy()
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, np.array([expected] * 2).astype(dtype))
