"""The pool: size classes, memory in use, limits, reuse, trimming."""

import gc

import numpy as np
import pytest

from plugrad.extend import OutOfMemory, float32
from plugrad.kernels import binary, creation, signal
from plugrad_webgpu.layout import size_class


@pytest.fixture
def pool(run):
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


def test_memory_in_use_returns_to_where_it_was(run, pool):
    before = run.backend.memory()
    x = run.up(np.zeros(1000, np.float32))
    y = run.call(binary.add, x, x)
    during = run.backend.memory()
    assert during.buffers == before.buffers + 2
    assert during.bytes == before.bytes + 2 * 4096
    assert during.peak >= during.bytes
    del x, y
    after = run.backend.memory()
    assert (after.buffers, after.bytes) == (before.buffers, before.bytes)


def test_arrays_that_share_a_buffer_count_once(run, pool):
    from plugrad.kernels import movement

    before = run.backend.memory().buffers
    x = run.up(np.zeros(1000, np.float32))
    y = run.call(movement.reshape, x, shape=(10, 100))
    assert run.backend.memory().buffers == before + 1
    del x
    assert run.backend.memory().buffers == before + 1
    del y
    assert run.backend.memory().buffers == before


def test_a_chain_reuses_two_buffers(run, pool):
    x = run.up(np.ones(5000, np.float32))
    y = run.call(binary.add, x, x)
    created = pool.usage.created
    for _ in range(300):
        y = run.call(binary.add, y, x)
    assert pool.usage.created <= created + 2
    assert run.down(y)[0] == 302


def test_limit_raises_and_leaves_the_device_usable(run, pool):
    limit = run.backend.memory().bytes + (1 << 20)
    run.backend.set_memory_limit(limit)
    with pytest.raises(OutOfMemory, match=r"memory limit of \d+ bytes"):
        run.call(creation.fill, run.backend, shape=(1 << 20,), value=1.0, dtype=float32)
    assert run(binary.add, np.float32([1]), np.float32([2])) == [3]
    assert run.backend.memory().limit == limit


def test_pooled_buffers_make_room_under_a_limit(run, pool):
    pool.trim()
    run.backend.set_memory_limit(run.backend.memory().bytes + (3 << 20))
    for count in (1 << 18, 1 << 19, 1 << 18, 1 << 19):  # 1 and 2 MiB, never both live
        run.call(creation.fill, run.backend, shape=(count,), value=1.0, dtype=float32)
        assert pool.usage.in_use + pool.usage.pooled <= run.backend.memory().limit


def test_trimming_in_the_middle_of_a_batch(run, pool):
    x = run.up(np.ones(3000, np.float32))
    y = run.call(binary.add, x, x)
    run.call(binary.add, y, x)  # its result is free at once
    pool.trim()
    assert pool.usage.pooled == 0
    np.testing.assert_array_equal(run.down(run.call(binary.add, y, x)), np.full(3000, 3))


def test_an_array_larger_than_a_binding_is_an_error(run):
    with pytest.raises(OutOfMemory, match="can bind at once"):
        run.call(creation.fill, run.backend, shape=(1 << 40,), value=1.0, dtype=float32)


def test_tables_are_made_once_and_are_no_memory_in_use(run, pool):
    x = np.zeros((2, 360), np.complex64)
    run(signal.fft, x)
    before, created = run.backend.memory(), pool.usage.created
    for _ in range(3):
        run(signal.fft, x)
    after = run.backend.memory()
    assert (after.buffers, after.bytes, pool.usage.created) == (
        before.buffers,
        before.bytes,
        created,
    )


def test_tables_go_with_a_trim_and_come_back(run, pool):
    x = np.arange(37, dtype=np.complex64)
    before = run.backend.memory()
    first = run(signal.fft, x)
    pool.trim()
    assert pool.usage.pooled == 0
    np.testing.assert_array_equal(run(signal.fft, x), first)
    after = run.backend.memory()
    assert (after.buffers, after.bytes) == (before.buffers, before.bytes)


def test_tables_beyond_the_budget_are_forgotten(run, pool, monkeypatch):
    monkeypatch.setattr("plugrad_webgpu.device.CONSTANT_BYTES", 4096)
    for n in (300, 360, 400, 300):
        x = np.zeros(n, np.complex64)
        x[1] = 1
        np.testing.assert_allclose(run(signal.fft, x), np.fft.fft(x), atol=1e-6)
