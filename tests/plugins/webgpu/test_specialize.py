"""Implementations for the shapes of a replay: the same bits as untraced, as long as nothing else is in effect."""

from itertools import groupby

import numpy as np
import pytest

import plugrad
from plugins.comparing import random_tensor as numbers_on
from plugins.specializing import assert_specialized_rows_keep_bits
from plugrad.discovery.loading import open_backend
from plugrad.extend import Shaped, float32, get_kernel
from plugrad.kernels import decomposition, normalization
from plugrad.testing.tables import rows

pytestmark = pytest.mark.usefixtures("run", "webgpu")  # which skip where there is no device


@pytest.fixture(autouse=True)
def _use_replay():
    with plugrad.config.override("jit", "replay"):
        yield


def random_tensor(*shape, **options):
    return numbers_on(*shape, device="webgpu", **options)


def specialize_kernel(kernel, *specs, **attrs):
    """Return the specialized function of a float32 kernel for given shapes, or None."""
    function = get_kernel(kernel, "webgpu").kernel_func
    given = [spec and Shaped(spec, float32) for spec in specs]
    return open_backend("webgpu").specialize(kernel, function, given, attrs, ())


@pytest.mark.parametrize(
    "family", [name for name, _ in groupby(rows(), lambda row: row.kernel.family)]
)
def test_specialized_rows_keep_their_bits(family):
    """The second call of a traced function runs the implementation that was specialized in the first."""
    assert_specialized_rows_keep_bits(family, "webgpu", one_of_each_kernel=True)


def test_specialized_kernels_match_general_ones():
    x, y, read = random_tensor(40, 30), random_tensor(30, seed=1), open_backend("webgpu").to_numpy
    add = specialize_kernel("Add", (40, 30), (30,))
    np.testing.assert_array_equal(read(add(x.array, y.array)), x.numpy() + y.numpy())
    product = specialize_kernel(
        "BatchMatMul", (40, 30), (40, 30), transpose_a=True, transpose_b=False
    )
    made = product(x.array, x.array)
    assert (made.shape, made.dtype) == ((30, 30), float32)
    np.testing.assert_allclose(read(made), x.numpy().T @ x.numpy(), rtol=1e-5, atol=1e-5)
    gradient = specialize_kernel(
        normalization.layer_norm_gradient.name, (40, 30), (40, 30), None, axis=1, variance_epsilon=1
    )
    _, offset, _ = gradient(x.array, x.array, None)
    np.testing.assert_allclose(read(offset), x.numpy().sum(0), rtol=1e-5, atol=1e-5)


def test_absent_inputs_tables_and_results_that_share_the_buffer_of_an_input():
    x, read = random_tensor(40, 30), open_backend("webgpu").to_numpy
    normal = specialize_kernel("LayerNorm", (40, 30), None, None, axis=1, variance_epsilon=1e-5)
    expected = plugrad.layer_norm(x).numpy()
    np.testing.assert_array_equal(read(normal(x.array, None, None)), expected)
    flat = specialize_kernel("Reshape", (40, 30), shape=(1200,))(x.array)
    assert flat.buffer is x.array.buffer
    assert flat.shape == (1200,)


def test_implementations_that_read_values_are_not_specialized():
    assert specialize_kernel(decomposition.qr.name, (30, 30), full_matrices=False) is None
    assert specialize_kernel("Concat", (40, 30), (40, 30), axis=0) is None  # it fills an array
    assert specialize_kernel("Add", (2, 3), (4, 5)) is None


def test_small_arrays_stay_on_the_host():
    backend = open_backend("webgpu")
    hosting = backend.active_device.hosting
    before, hosting.most = hosting.most, 1000
    try:
        assert specialize_kernel("Transpose", (20, 30), perm=(1, 0)) is None
        assert specialize_kernel("Transpose", (200, 30), perm=(1, 0)) is not None
        add = specialize_kernel("Add", (3,), (3,))
        made = add(plugrad.asarray([1.0, 2.0, 3.0]).array, plugrad.ones(3).array)
        assert type(made.buffer).__name__ == "HostBuffer"
    finally:
        hosting.most = before


def test_other_implementations_are_called():
    """An override takes effect from the next call, and ends with its block."""
    f = plugrad.jit(lambda x: plugrad.abs(x) + 1)
    x = random_tensor(40, 30)
    for _ in range(3):
        np.testing.assert_array_equal(f(x).numpy(), np.abs(x.numpy()) + 1)
    with plugrad.override_kernel("Abs", "webgpu", lambda x: x):
        for _ in range(3):
            np.testing.assert_array_equal(f(x).numpy(), x.numpy() + 1)
    assert specialize_kernel("Abs", (40, 30)) is not None
    with plugrad.override_kernel("Abs", "webgpu", lambda x: x):
        assert specialize_kernel("Abs", (40, 30)) is None
    np.testing.assert_array_equal(f(x).numpy(), np.abs(x.numpy()) + 1)


def test_a_replay_joins_products_to_bias_and_activation():
    def f(x, w, b):
        return plugrad.relu(x @ w + b)

    x, w, b = random_tensor(40, 30), random_tensor(30, 50, seed=1), random_tensor(50, seed=2)
    traced = plugrad.jit(f)
    for _ in range(3):
        assert traced(x, w, b).numpy().tobytes() == f(x, w, b).numpy().tobytes()
    with plugrad.profile() as measured:
        traced(x, w, b)
    assert {event.kernel for event in measured.kernels} == {"_FusedMatMul"}


def test_intermediate_memory_is_released_as_in_untraced_calls():
    """An implementation with several calls needs no more memory when traced."""
    f = plugrad.jit(lambda x, y: plugrad.einsum("jia,jka->ki", x, y))
    x, y = random_tensor(50, 40, 3), random_tensor(50, 30, 3, seed=1)
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
