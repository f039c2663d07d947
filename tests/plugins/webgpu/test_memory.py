"""The pool: size classes, memory in use, limits, reuse, trimming."""

import ctypes
import gc
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import plugrad
from plugrad.extend import KERNELS, BackendUnavailable, OutOfMemory, UnsupportedDtype, float32
from plugrad.kernels import binary, creation, movement, signal
from plugrad_webgpu import backend
from plugrad_webgpu.memory.buffers import Buffer, BufferReference, max_pooled_bytes
from plugrad_webgpu.shaders.layout import size_class


@pytest.fixture
def buffer_pool(run):
    gc.collect()
    run.backend.synchronize()
    yield run.device.pool
    run.backend.set_memory_limit(None)


@pytest.mark.parametrize("nbytes", [0, 1, 256, 257, 4096, 5000, (1 << 20) - 1, 1 << 20, 3_000_001])
def test_size_classes_hold_their_bytes_in_whole_vectors(nbytes):
    size = size_class(nbytes)
    assert size >= max(nbytes, 1)
    assert size % 16 == 0
    assert size_class(size) == size


def test_memory_in_use_returns_to_where_it_was(run, buffer_pool):
    before = run.backend.memory()
    x = run.to_device(np.zeros(1000, np.float32))
    y = run.call(binary.add, x, x)
    during = run.backend.memory()
    assert during.buffers == before.buffers + 2
    assert during.bytes == before.bytes + 2 * 4096
    assert during.peak >= during.bytes
    del x, y
    after = run.backend.memory()
    assert (after.buffers, after.bytes) == (before.buffers, before.bytes)


def test_buffer_deleted_before_it_is_counted_leaks_no_memory(run, buffer_pool):
    before = run.backend.memory()
    buffer = Buffer()
    lease = BufferReference(buffer, buffer_pool._dead.append)  # an interrupt may come here
    del buffer
    assert buffer_pool._dead[-1] is lease
    run.to_device(np.zeros(1000, np.float32))
    assert run.backend.memory().buffers == before.buffers
    assert not buffer_pool._dead or buffer_pool._dead[0] is not lease


def test_new_buffers_hold_poison(run):
    """The other tests of kernels rely on it: elements that no kernel writes must be wrong."""
    for _ in range(2):
        run.device.flush()  # recorded work may use the buffer of the round before
        assert np.isnan(run.to_host(run.device.empty((10,), float32))).all()


def test_arrays_that_share_a_buffer_count_once(run, buffer_pool):
    before = run.backend.memory().buffers
    x = run.to_device(np.zeros(1000, np.float32))
    y = run.call(movement.reshape, x, shape=(10, 100))
    assert run.backend.memory().buffers == before + 1
    del x
    assert run.backend.memory().buffers == before + 1
    del y
    assert run.backend.memory().buffers == before


def test_a_chain_reuses_two_buffers(run, buffer_pool):
    x = run.to_device(np.ones(5000, np.float32))
    y = run.call(binary.add, x, x)
    run.to_host(y)
    created = buffer_pool.usage.created_buffers
    for _ in range(300):
        y = run.call(binary.add, y, x)
    assert buffer_pool.usage.created_buffers <= created + 2
    assert run.to_host(y)[0] == 302


def test_limit_raises_and_leaves_the_device_usable(run, buffer_pool):
    limit = run.backend.memory().bytes + (1 << 20)
    run.backend.set_memory_limit(limit)
    with pytest.raises(OutOfMemory, match=r"memory limit of \d+ bytes"):
        run.call(creation.fill, run.backend, shape=(1 << 20,), value=1.0, dtype=float32)
    assert run(binary.add, np.float32([1]), np.float32([2])) == [3]
    assert run.backend.memory().limit == limit


def test_pooled_buffers_make_room_under_a_limit(run, buffer_pool):
    buffer_pool.trim()
    run.backend.set_memory_limit(run.backend.memory().bytes + (3 << 20))
    for count in (1 << 18, 1 << 19, 1 << 18, 1 << 19):  # 1 and 2 MiB, never both live
        run.call(creation.fill, run.backend, shape=(count,), value=1.0, dtype=float32)
        assert buffer_pool.usage.in_use + buffer_pool.usage.pooled <= run.backend.memory().limit


def test_free_buffers_take_no_more_than_their_budget(run, buffer_pool, monkeypatch):
    """Sixty-four sizes are in use briefly; without a budget, the pool would keep all of their buffers."""
    monkeypatch.setattr(buffer_pool, "budget", 8 << 20)
    buffer_pool.trim()
    x = run.to_device(np.ones(4, np.float32))
    for mebibytes in range(1, 65):
        y = run.call(movement.broadcast_to, x, shape=(mebibytes << 16, 4))
        run.call(binary.add, y, x)
        memory = run.backend.memory()
        assert memory.details["pooled_bytes"] <= max(8 << 20, memory.bytes)
    assert memory.bytes >= 64 << 20
    del y
    memory = run.backend.memory()
    assert memory.details["pooled_bytes"] <= max(8 << 20, memory.bytes)
    np.testing.assert_array_equal(run.to_host(run.call(binary.add, x, x)), [2, 2, 2, 2])


def test_the_budget_of_gpus():
    """If the budget is too small, each step of a large network allocates its buffers again."""
    assert max_pooled_bytes(1 << 32, is_software=False) == 1 << 30
    assert max_pooled_bytes(1 << 32, is_software=True) == max_pooled_bytes(
        1 << 28, is_software=False
    )


def test_buffers_of_the_batch_that_go_to_the_driver(run, buffer_pool, monkeypatch):
    """Recorded work may use a buffer that the pool has already returned."""
    monkeypatch.setattr(buffer_pool, "budget", 0)
    x = run.to_device(np.arange(70_000, dtype=np.float32))
    kept = run.to_device(np.arange(2, dtype=np.float32))
    for _ in range(5):
        y = run.call(binary.add, run.call(binary.add, x, x), x)
        assert buffer_pool.memory().details["pooled_bytes"] <= buffer_pool.usage.in_use
    np.testing.assert_array_equal(run.to_host(y), np.arange(70_000) * 3)
    np.testing.assert_array_equal(run.to_host(kept), [0, 1])


def test_an_array_of_another_device_is_refused(run, buffer_pool):
    """This holds even if buffers of both devices have the same numbers; recorded work is not lost."""
    other = type(run)()
    x, y = run.to_device(np.ones(50, np.float32)), other.to_device(np.ones(50, np.float32))
    recorded = run.call(binary.add, x, x)
    with pytest.raises(BackendUnavailable, match=r"an array of another device.*x\.to"):
        run.call(binary.add, x, y)
    np.testing.assert_array_equal(run.to_host(recorded), np.full(50, 2))
    np.testing.assert_array_equal(other.to_host(other.call(binary.add, y, y)), np.full(50, 2))
    other.backend.close()
    with pytest.raises(BackendUnavailable, match="or of one that is closed"):
        run.call(binary.add, x, y)


def test_trimming_in_the_middle_of_a_batch(run, buffer_pool):
    x = run.to_device(np.ones(3000, np.float32))
    y = run.call(binary.add, x, x)
    run.call(binary.add, y, x)  # its result is free at once
    buffer_pool.trim()
    assert buffer_pool.usage.pooled == 0
    np.testing.assert_array_equal(run.to_host(run.call(binary.add, y, x)), np.full(3000, 3))


def test_an_array_larger_than_a_buffer_is_an_error(run):
    with pytest.raises(OutOfMemory, match="the largest buffer of this device"):
        run.call(creation.fill, run.backend, shape=(1 << 40,), value=1.0, dtype=float32)


def test_tables_are_made_once_and_are_no_memory_in_use(run, buffer_pool):
    x = np.zeros((2, 360), np.complex64)
    run(signal.fft, x)
    before, created = run.backend.memory(), buffer_pool.usage.created_buffers
    for _ in range(3):
        run(signal.fft, x)
    after = run.backend.memory()
    assert (after.buffers, after.bytes, buffer_pool.usage.created_buffers) == (
        before.buffers,
        before.bytes,
        created,
    )


def test_trim_releases_tables_until_their_next_use(run, buffer_pool):
    x = np.arange(37, dtype=np.complex64)
    before = run.backend.memory()
    first = run(signal.fft, x)
    buffer_pool.trim()
    assert buffer_pool.usage.pooled == 0
    np.testing.assert_array_equal(run(signal.fft, x), first)
    after = run.backend.memory()
    assert (after.buffers, after.bytes) == (before.buffers, before.bytes)


def test_tables_beyond_the_budget_are_forgotten(run, buffer_pool, monkeypatch):
    monkeypatch.setattr("plugrad_webgpu.device.device.CACHED_CONSTANTS_MAX_BYTES", 4096)
    for n in (300, 360, 400, 300):
        x = np.zeros(n, np.complex64)
        x[1] = 1
        np.testing.assert_allclose(run(signal.fft, x), np.fft.fft(x), atol=1e-6)


def test_training_steps_leak_no_memory(run):
    """After a while, a step allocates no new buffer and leaves none in use."""

    def loss(weights):
        return plugrad.mean((plugrad.tanh(x @ weights[0]) @ weights[1] - y) ** 2)

    with plugrad.use("webgpu"):
        x, y = plugrad.ones((32, 16)), plugrad.zeros((32, 1))
        weights = [plugrad.ones((16, 8)) / 16, plugrad.ones((8, 1)) / 8]
        step = plugrad.value_and_grad(loss)
        found = []
        for count in range(200):
            value, gradients = step(weights)
            weights = [w - 0.01 * g for w, g in zip(weights, gradients, strict=True)]
            if count % 20 == 0:
                value.numpy()
                memory = x.backend.memory()
                found.append((memory.buffers, memory.bytes, memory.details["created_buffers"]))
    assert len(set(found[5:])) == 1, found


def resident_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
@pytest.mark.parametrize("has_survivor", [False, True])
def test_closed_device_keeps_no_buffers(has_survivor):
    """A lavapipe device takes 4 MB, a SwiftShader device 30; the garbage collector may delay the release of three."""
    x, sizes = np.arange(3_000, dtype=np.float32), []
    for _ in range(24):
        opened = backend()
        functions = {config.kernel_name: config.kernel_func for config in opened.open("")}
        large = opened.from_numpy(np.ones(1 << 19, np.float32))  # not copied as small ones are
        y = functions["Add"](opened.from_numpy(x), opened.from_numpy(x))
        assert opened.to_numpy(y).sum() == 2 * x.sum()
        if not has_survivor:
            del y
        del large
        opened.close()
        sizes.append(resident_bytes())
    assert max(sizes[8:]) - max(sizes[:8]) < 24 << 20


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="needs glibc")
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_shaders_are_given_back_with_their_device_though_an_array_lives_on(run):
    """The library frees released objects only when later work completes, which a closed device has none of."""
    if not run.device.is_software:
        pytest.skip("the driver of a GPU keeps the memory of shaders for the next device")
    opened = backend()
    functions = {KERNELS[config.kernel_name]: config.kernel_func for config in opened.open("")}
    x = opened.from_numpy(np.ones(3, np.float32))
    for kernel, function in functions.items():
        if kernel.family == "unary" and not kernel.attributes:
            with suppress(UnsupportedDtype):
                opened.to_numpy(function(x))
    before = resident_bytes()
    opened.close()
    ctypes.CDLL(None).malloc_trim(0)
    assert before - resident_bytes() > 8 << 20  # it is 24 MB
    assert x.shape == (3,)


def test_an_array_outlives_its_device(run):
    """Compiled programs are released with the device, and compiled again when needed."""
    opened = backend()
    functions = {config.kernel_name: config.kernel_func for config in opened.open("")}
    x = functions["Sqrt"](opened.from_numpy(np.float32([1, 4, 9])))
    device = opened.active_device
    opened.close()
    again = functions["Add"](x, x)
    out = np.empty(3, np.float32)
    device.download(again, out, out.dtype)
    assert out.tolist() == [2, 4, 6]
