"""Large buffers are reused, except those that a live array still references."""

import gc
import sys
from threading import Barrier, Thread

import numpy as np
import pytest

import plugrad
from plugrad.errors import OutOfMemory
from plugrad_cpu import memory
from plugrad_cpu.memory import (
    SOLE_REFERENCE_COUNT,
    TRACKED_MIN_BYTES,
    Block,
    Pool,
    SharedPool,
    allocate_aligned,
    empty_like,
)

FLOAT32 = np.dtype("float32")
ELEMENT_COUNT = TRACKED_MIN_BYTES // 2  # elements of an array that is large


@pytest.fixture
def buffer_pool():
    return Pool()


def memory_address(array):
    return array.__array_interface__["data"][0]


def free_bytes(pool):
    """Return the bytes of the blocks that no array uses."""
    return pool.memory().details["pooled_bytes"]


def test_the_buffer_of_a_dead_array_is_used_again(buffer_pool):
    x = buffer_pool.empty((ELEMENT_COUNT,), FLOAT32)
    first = memory_address(x)
    y = buffer_pool.empty((ELEMENT_COUNT,), FLOAT32)
    assert memory_address(y) != first
    del x
    z = buffer_pool.empty((2, ELEMENT_COUNT // 2), FLOAT32)
    assert memory_address(z) == first
    assert z.flags.c_contiguous
    assert z.flags.writeable


VIEWS = {
    "view": lambda x: x[3:],
    "view of a view": lambda x: x[3:].reshape(-1, 1)[1:],
    "other dtype": lambda x: x.view("int32"),
    "transposed": lambda x: x.reshape(2, -1).T,
    "broadcast": lambda x: np.broadcast_to(x, (2, x.size)),
    "strided": lambda x: np.lib.stride_tricks.as_strided(x, (3,), (4,)),
    "diagonal": lambda x: np.diagonal(x.reshape(2, -1)),
    "subclass": lambda x: x.view(np.matrix),
    "part of a subclass": lambda x: np.asarray(x.view(np.matrix)[:, 1:]),
    "memoryview": lambda x: np.asarray(memoryview(x)[4:]),
    "frombuffer": lambda x: np.frombuffer(x, "uint8"),
    "dlpack": lambda x: np.from_dlpack(x),
    "iterator": lambda x: x.flat,
    "ndarray": lambda x: np.ndarray((3,), FLOAT32, x),
    "block": lambda x: x.base,
    "part of the block": lambda x: x.base[1:],
    "block as an array": lambda x: x.base.view(np.ndarray),
}


@pytest.mark.parametrize("see", VIEWS.values(), ids=VIEWS)
def test_blocks_with_live_views_are_not_reused(see, buffer_pool):
    x = buffer_pool.empty((ELEMENT_COUNT,), FLOAT32)
    x.fill(7)
    seen = see(x)
    before = np.array(seen, copy=True)
    del x
    others = [buffer_pool.empty((ELEMENT_COUNT,), FLOAT32) for _ in range(3)]
    for other in others:
        other.fill(9)
    np.testing.assert_array_equal(np.array(seen, copy=True), before)
    del seen, before, other, others
    assert buffer_pool.memory().buffers == 0


def test_arrays_that_a_program_reads_stay_unchanged():
    with plugrad.use("cpu"):
        x = plugrad.ones(ELEMENT_COUNT) + 1
        exported, through_dlpack, view = x.numpy(), np.from_dlpack(x), x[5:].numpy()
        _, pull = plugrad.vjp(lambda t: plugrad.exp(t) * t, x)  # its tape keeps x and more
        del x
        for _ in range(3):
            _ = plugrad.ones(ELEMENT_COUNT) * 5 + 1
        for seen in (exported, through_dlpack, view):
            np.testing.assert_array_equal(seen, np.full_like(seen, 2))
        (gradient,) = pull(plugrad.ones(ELEMENT_COUNT))
        np.testing.assert_allclose(gradient.numpy(), 3 * np.exp(np.float32(2)), rtol=1e-6)


def test_training_makes_no_blocks_after_its_first_steps(rng, monkeypatch):
    made = []
    monkeypatch.setattr(
        memory, "allocate_aligned", lambda size: made.append(size) or allocate_aligned(size)
    )
    with plugrad.use("cpu"):
        images = plugrad.asarray(rng.normal(size=(8, 28, 28, 1)).astype("float32"))
        filters = plugrad.Variable(rng.normal(size=(3, 3, 1, 8)).astype("float32"))
        weights = plugrad.Variable(rng.normal(size=(14 * 14 * 8, 16)).astype("float32"))

        def loss():
            y = plugrad.max_pool(
                plugrad.relu(plugrad.conv2d(images, filters, padding="same") + 1), 2
            )
            return plugrad.mean(plugrad.softmax(y.reshape(8, -1) @ weights) ** 2)

        sgd = plugrad.optimizers.SGD(0.1)
        for step in range(8):
            sgd.minimize(loss, [filters, weights])
            if step == 4:
                made.clear()
    assert made == []


def test_repeated_program_causes_no_page_faults():
    """The C library returns such memory to the system at once, so that new arrays cause page faults."""
    resource = pytest.importorskip("resource")  # which Windows does not have
    with plugrad.use("cpu"):
        x = plugrad.zeros(10_000_000)

        def count_page_faults():
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            _ = plugrad.negative(x)
            return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

        count_page_faults()
        assert min(count_page_faults() for _ in range(3)) < 50


@pytest.mark.parametrize("stored", [(300,), (200, 1, 1), (1,), (200, 1, 300)])
def test_views_that_repeat_elements_are_computed_once(rng, stored):
    shape = (200, 2, 300)
    x = rng.normal(size=stored).astype("float32")
    y = rng.normal(size=shape).astype("float32")
    expected = np.broadcast_to(x, shape)
    with plugrad.use("cpu"):
        view = plugrad.broadcast_to(x, shape)
        np.testing.assert_array_equal((view - 2).numpy(), expected - 2)
        np.testing.assert_array_equal((view * view).numpy(), expected * expected)
        np.testing.assert_array_equal((plugrad.asarray(y) - view).numpy(), y - expected)
        np.testing.assert_array_equal(plugrad.square(view).numpy(), np.square(expected))
        assert (view > 0).numpy().flags.c_contiguous


# --- sizes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((0,), "f4"), ((), "f4"), ((7, 0, 3), "f8"), ((TRACKED_MIN_BYTES - 1,), "b")],
)
def test_small_arrays_come_from_numpy(shape, dtype, buffer_pool):
    x = buffer_pool.empty(shape, np.dtype(dtype))
    assert (x.shape, x.dtype, x.base) == (shape, np.dtype(dtype), None)
    assert buffer_pool.memory().buffers == 0


def test_strings_come_from_numpy(buffer_pool):
    x = buffer_pool.empty((TRACKED_MIN_BYTES,), np.dtypes.StringDType())
    assert x.base is None
    assert x[0] == ""


@pytest.mark.parametrize(
    "size",
    [TRACKED_MIN_BYTES, TRACKED_MIN_BYTES + 1, 5 * TRACKED_MIN_BYTES // 4, 200_003, (1 << 20) - 1],
)
def test_blocks_are_at_most_a_quarter_larger(size, buffer_pool):
    x = buffer_pool.empty((size,), np.dtype("uint8"))
    assert size <= x.base.nbytes <= size * 1.25
    assert x.ctypes.data % 64 == 0
    assert buffer_pool.memory().bytes == size


def test_larger_free_block_is_preferred_to_new_memory(buffer_pool):
    x = buffer_pool.empty((64 * TRACKED_MIN_BYTES,), np.dtype("uint8"))
    block = x.base
    assert sys.getrefcount(block) == SOLE_REFERENCE_COUNT + 2  # x and the pool
    first = id(block)
    del x, block
    y = buffer_pool.empty((TRACKED_MIN_BYTES,), np.dtype("uint8"))
    assert id(y.base) == first
    assert free_bytes(buffer_pool) == 63 * TRACKED_MIN_BYTES
    z = buffer_pool.empty(
        (TRACKED_MIN_BYTES,), np.dtype("uint8")
    )  # two blocks: still less than was needed once
    assert z.base.nbytes == TRACKED_MIN_BYTES


def test_small_free_blocks_are_released_for_a_large_one(buffer_pool):
    few = [buffer_pool.empty((TRACKED_MIN_BYTES,), np.dtype("uint8")) for _ in range(8)]
    few.clear()
    x = buffer_pool.empty((4 * TRACKED_MIN_BYTES,), np.dtype("uint8"))
    assert free_bytes(buffer_pool) == 4 * TRACKED_MIN_BYTES
    del x
    assert free_bytes(buffer_pool) == 8 * TRACKED_MIN_BYTES


def test_results_keep_the_memory_layout_of_inputs(rng):
    x = np.empty((5, 3, 4, 2), "float32").transpose(2, 0, 3, 1)
    y = empty_like(x)
    assert (y.shape, y.strides, y.dtype) == (x.shape, x.strides, x.dtype)
    with plugrad.use("cpu"):
        values = rng.normal(size=(200, 300)).astype("float32")
        z = plugrad.asarray(values).mT + 1
    assert z.array.flags.f_contiguous
    np.testing.assert_array_equal(z.numpy(), values.T + 1)


# --- giving back ----------------------------------------------------------------------------------


def test_blocks_that_nobody_needs_are_freed(buffer_pool, monkeypatch):
    monkeypatch.setattr(memory, "ARRAYS_BETWEEN_TRIMS", 10)
    some = [buffer_pool.empty((ELEMENT_COUNT,), FLOAT32) for _ in range(5)]
    some.clear()
    for _ in range(25):
        x = buffer_pool.empty((ELEMENT_COUNT,), FLOAT32)
        del x
    assert free_bytes(buffer_pool) == 4 * ELEMENT_COUNT


def test_blocks_stay_within_the_budget(buffer_pool, monkeypatch):
    monkeypatch.setattr(memory, "POOL_MAX_BYTES", 3 * 4 * ELEMENT_COUNT)
    some = [buffer_pool.empty((ELEMENT_COUNT,), FLOAT32) for _ in range(5)]
    assert [type(x.base) for x in some] == [Block] * 3 + [type(None)] * 2
    assert buffer_pool.memory().bytes == 5 * 4 * ELEMENT_COUNT
    some.clear()
    assert (buffer_pool.memory().buffers, buffer_pool.memory().bytes) == (0, 0)
    assert free_bytes(buffer_pool) == 3 * 4 * ELEMENT_COUNT


def test_trim_frees_all_waiting_blocks(buffer_pool):
    x = buffer_pool.empty((ELEMENT_COUNT,), FLOAT32)
    del x
    assert free_bytes(buffer_pool) == 4 * ELEMENT_COUNT
    buffer_pool.trim()
    assert free_bytes(buffer_pool) == 0


def test_memory_limit_counts_waiting_blocks(buffer_pool):
    x = buffer_pool.empty((ELEMENT_COUNT,), FLOAT32)
    del x
    buffer_pool.limit = 6 * ELEMENT_COUNT
    buffer_pool.make_room(4 * ELEMENT_COUNT)
    assert free_bytes(buffer_pool) == 0
    with pytest.raises(OutOfMemory, match="uses 0 bytes and 458,752 more would exceed"):
        buffer_pool.make_room(7 * ELEMENT_COUNT)


def test_failed_allocation_is_retried(buffer_pool, monkeypatch):
    x = buffer_pool.empty((ELEMENT_COUNT,), FLOAT32)
    del x
    left = [MemoryError()]

    def fail_then_allocate(size):
        if left:
            raise left.pop()
        return allocate_aligned(size)

    monkeypatch.setattr(memory, "allocate_aligned", fail_then_allocate)
    y = buffer_pool.empty((ELEMENT_COUNT * 8,), FLOAT32)
    assert y.size == ELEMENT_COUNT * 8
    assert free_bytes(buffer_pool) == 0


def test_threads_do_not_share_blocks(buffer_pool):
    wrong = []

    def work(number):
        rng = np.random.default_rng(number)
        kept = []
        for _ in range(400):
            x = buffer_pool.empty((int(rng.integers(ELEMENT_COUNT, 3 * ELEMENT_COUNT)),), FLOAT32)
            x.fill(number)
            kept.append(x[1:])
            if len(kept) > 5:
                y = kept.pop(int(rng.integers(5)))
                if not (y == number).all():
                    wrong.append(number)

    threads = [Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    used = buffer_pool.memory()
    assert (used.buffers, used.bytes) == (0, 0)
    buffer_pool.trim()
    assert free_bytes(buffer_pool) == 0


def test_pool_counts_stay_correct_under_concurrent_threads():
    shared = SharedPool()
    start, wrong = Barrier(4), []

    def work(seed):
        start.wait()
        kept = []
        for i in range(500):
            array = shared.empty((TRACKED_MIN_BYTES + 4096 * (i % 7),), np.dtype(np.uint8))
            array.fill(seed)
            kept.append(array)
            if len(kept) > 3:
                wrong.extend(set(kept.pop(0).tolist()[:3]) - {seed})
            if shared.memory().bytes < 0:
                wrong.append("bytes")

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    gc.collect()
    assert not wrong
    shared.trim()
    assert (shared.memory().bytes, shared.memory().buffers) == (0, 0)
