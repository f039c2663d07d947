"""Blocks of linear memory: accounting, reuse, limits and the end of the address space."""

import gc
import itertools
import sys
import time
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

from plugrad.extend import (
    OutOfMemory,
    ShapeError,
    bool_,
    float32,
    pool_window,
    sliding_window,
    uint8,
)
from plugrad_wasm.memory import (
    ADDRESS_SPACE_BYTES,
    TRIM_AFTER_ALLOCATIONS,
    CachedBlock,
    round_up_to_size_class,
)

MEGABYTE = 1 << 20


def memory_usage(fresh):
    memory = fresh.backend.memory()
    return memory.buffers, memory.bytes


@pytest.mark.parametrize(
    "size", [0, 1, 63, 64, 65, 1000, 1025, 4097, 2**20, 2**20 + 1, 4 * 10**6, 2**31 - 1]
)
def test_size_classes_are_aligned_and_waste_little(size):
    block = round_up_to_size_class(size)
    assert block >= max(size, 64)
    assert block % 64 == 0
    assert block == round_up_to_size_class(block)
    assert block <= max(size * 9 / 8 + 64, 64)


def test_usage_is_exact_and_returns_to_where_it_was(fresh_runner, rng):
    assert memory_usage(fresh_runner) == (0, 0)
    x = fresh_runner.put(np.zeros(1024, np.float32))
    assert memory_usage(fresh_runner) == (1, 4096)
    y = fresh_runner.functions["Reshape"](x, shape=(32, 32))
    assert memory_usage(fresh_runner) == (1, 4096)
    z = fresh_runner.functions["Add"](y, y)
    assert memory_usage(fresh_runner) == (2, 8192)
    del x, z
    assert memory_usage(fresh_runner) == (1, 4096)
    del y
    assert memory_usage(fresh_runner) == (0, 0)
    assert fresh_runner.backend.memory().peak == 8192


def test_kernels_release_scratch_and_descriptors(fresh_runner, rng):
    x = rng.standard_normal((2, 8, 8, 3)).astype(np.float32)
    fresh_runner("Transpose", x, perm=(3, 1, 0, 2))
    fresh_runner("Softmax", x, dim=1)
    fresh_runner("Sum", x, axis=(0, 2), keep_dims=False)
    fresh_runner("MaxPool", x, window=pool_window((8, 8), (2, 2), (2, 2), "same"))
    window = sliding_window((8, 8), (3, 3), (1, 1), "same")
    fresh_runner("Conv2D", x, np.ones((3, 3, 3, 2), np.float32), window=window)
    assert memory_usage(fresh_runner) == (0, 0)


def test_blocks_are_used_again(fresh_runner):
    x = fresh_runner.backend.linear_memory.empty((100,), float32)
    address = x.address
    del x
    assert fresh_runner.backend.linear_memory.empty((98,), float32).address == address


def test_live_blocks_never_overlap(fresh_runner, rng):
    arrays = {}
    for step in range(3000):
        if arrays and rng.random() < 0.45:
            del arrays[list(arrays)[rng.integers(len(arrays))]]
        else:
            arrays[step] = fresh_runner.backend.linear_memory.empty(
                (int(rng.integers(0, 3000)),), bool_
            )
    spans = sorted((x.address, x.address + x.capacity) for x in arrays.values())
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))
    assert memory_usage(fresh_runner) == (len(arrays), sum(x.capacity for x in arrays.values()))
    arrays.clear()
    gc.collect()
    assert memory_usage(fresh_runner) == (0, 0)


def test_the_limit_is_kept_and_survives_a_failure(fresh_runner):
    backend = fresh_runner.backend
    backend.set_memory_limit(10_000)
    x = fresh_runner.put(np.zeros(1024, np.float32))
    with pytest.raises(OutOfMemory, match="limit of 10000"):
        fresh_runner.functions["Add"](x, fresh_runner.functions["Add"](x, x))
    gc.collect()
    assert memory_usage(fresh_runner) == (1, 4096)
    backend.set_memory_limit(None)
    fresh_runner.functions["Add"](x, fresh_runner.functions["Add"](x, x))
    backend.set_memory_limit(100)  # below what is in use: only growing is refused
    np.testing.assert_array_equal(fresh_runner.get(x), 0)
    with pytest.raises(OutOfMemory):
        fresh_runner.functions["Abs"](x)


def test_more_axes_than_numpy_has_are_an_error(fresh_runner):
    x = fresh_runner.functions["Reshape"](
        fresh_runner.put(np.zeros(1, np.float32)), shape=(1,) * 65
    )
    with pytest.raises(ShapeError, match=r"65 axes.*at most 64; reshape"):
        fresh_runner.get(x)


def test_one_array_has_at_most_two_gigabytes(fresh_runner):
    with pytest.raises(OutOfMemory, match="one array"):
        fresh_runner.backend.linear_memory.empty((2**31,), uint8)
    assert memory_usage(fresh_runner) == (0, 0)


def test_the_address_space_can_be_filled_and_used_again(fresh_runner):
    linear = fresh_runner.backend.linear_memory
    arrays = []

    def exhaust():
        while True:
            arrays.append(linear.empty((256 * MEGABYTE,), uint8))

    with pytest.raises(OutOfMemory, match="4 GiB"):
        exhaust()
    assert len(arrays) >= 14
    assert fresh_runner.backend.memory().details["linear_memory"] <= ADDRESS_SPACE_BYTES
    high = arrays[-1]
    assert high.address > 2**31  # addresses above 2 GiB reach the kernels
    small = fresh_runner.put(np.float32([1, 2, 3]))
    del small
    view = linear.numpy_view((3,), np.dtype(np.float32), high.address)
    view[...] = 1, 2, 3
    total = fresh_runner.functions["Sum"](float32_view(high, (3,)), axis=(0,), keep_dims=False)
    assert fresh_runner.get(total) == 6
    arrays.clear()
    del high
    # Free blocks of one class merge into room for another.
    assert linear.empty((1800 * MEGABYTE,), uint8).capacity >= 1800 * MEGABYTE


def float32_view(array, shape):
    """Return a float32 view of the first elements of an array."""
    from plugrad_wasm.memory import WasmView

    view = WasmView(array, shape)
    view.dtype, view.size = float32, int(np.prod(shape))
    return view


def test_memory_is_merged_before_it_grows_for_every_new_size(fresh_runner):
    for megabytes in range(1, 120):
        fresh_runner.backend.linear_memory.empty((megabytes * MEGABYTE,), uint8)
    memory = fresh_runner.backend.memory()
    assert memory.bytes == 0
    assert memory.details["linear_memory"] < 3 * 120 * MEGABYTE


def test_memory_does_not_keep_the_most_blocks_that_each_size_ever_had(fresh_runner, rng):
    """A program uses arrays of all sizes; free blocks of one size are used for other sizes."""
    linear = fresh_runner.backend.linear_memory
    begin = linear.store.memory_size()
    live = []
    for _ in range(6000):
        live.append(linear.empty((int(2 ** rng.uniform(0, 20)),), uint8))
        while len(live) > 24 + rng.integers(24):
            del live[rng.integers(len(live))]
    memory = fresh_runner.backend.memory()
    assert memory.details["linear_memory"] - begin < 2.2 * memory.peak


def test_the_collector_may_free_arrays_while_one_is_made(fresh_runner):
    class Holder:
        pass

    for size in range(1, 2000):
        holder = Holder()
        holder.itself, holder.array = (
            holder,
            fresh_runner.backend.linear_memory.empty((size,), float32),
        )
    del holder
    gc.collect()
    assert memory_usage(fresh_runner) == (0, 0)


class Cycle:
    """An object that only the collector frees, with what it owns."""

    def __init__(self, owned):
        self.itself, self.owned = self, owned


@pytest.fixture
def collect_at(monkeypatch):
    """A function that calls another one and has Python collect garbage at a given allocation in it."""
    thresholds = gc.get_threshold()
    gc.disable()

    def call(allocation, function):
        # Python keeps freed tuples and a slice for new ones, which are allocations only when all of these are taken.
        kept = [(i,) * length for length in range(1, 8) for i in range(2100)]
        kept += [slice(i) for i in range(3)]
        gc.set_threshold(gc.get_count()[0] + allocation)
        gc.enable()
        try:
            return function()
        finally:
            gc.disable()

    yield call
    gc.set_threshold(*thresholds)
    gc.enable()


def check_that_blocks_are_apart(linear, live):
    """Check that no byte belongs to two of the live arrays, returned blocks, free blocks and spans."""
    free = [block for blocks in linear.free.values() for block in blocks]
    spans = [(x.address, x.capacity) for x in (*live, *linear.returned, *free)]
    spans = sorted(spans + linear._spans)
    assert all(a + size <= b for (a, size), (b, _) in itertools.pairwise(spans))


@pytest.mark.parametrize("are_returned", [True, False], ids=["returned", "free"])
@pytest.mark.parametrize("dying", ["array", "cached block"])
@pytest.mark.parametrize("taken", ["array", "cached block", "span"])
def test_blocks_die_in_collections_while_others_are_taken(
    fresh_runner, collect_at, taken, dying, are_returned
):
    linear = fresh_runner.backend.linear_memory
    take = {
        "array": lambda: linear.empty((128,), uint8),
        "cached block": lambda: CachedBlock(linear, 128),
        "span": linear._merge,
    }
    for allocation in range(16):
        spare = [linear.empty((128,), uint8) for _ in range(3)]
        cycle = Cycle(take[dying]())
        del spare, cycle
        if not are_returned:
            linear.reclaim_returned_blocks()
        first = collect_at(allocation, take[taken])
        live = [linear.empty((128,), uint8) for _ in range(6)]
        if taken == "array":
            live.append(first)
        check_that_blocks_are_apart(linear, live)
        gc.collect()  # the cycle, if the allocation did not come
        assert memory_usage(fresh_runner)[0] == len(live)
        del live, first
        assert memory_usage(fresh_runner) == (0, 0)


def test_new_blocks_hold_poison(fresh_runner):
    """The other tests of kernels rely on it: elements that no kernel writes must be wrong."""
    fresh_runner.put(np.zeros(10, np.float32))
    for _ in range(2):
        assert np.isnan(
            fresh_runner.get(fresh_runner.backend.linear_memory.empty((10,), float32))
        ).all()


def test_host_copies_outlive_the_backend(fresh_runner):
    x = fresh_runner.put(np.arange(5.0))
    host = fresh_runner.get(x)
    view = x.memory.numpy_view((5,), np.dtype(float), x.address)
    fresh_runner.backend.close()
    np.testing.assert_array_equal(host, np.arange(5.0))
    np.testing.assert_array_equal(
        fresh_runner.functions["Neg"](x).memory.to_numpy(x), np.arange(5.0)
    )
    fresh_runner.functions.clear()
    del x
    gc.collect()
    assert view.sum() == 10  # the view keeps the store


def test_large_values_are_read_without_a_copy_and_keep_their_block(fresh_runner):
    x = fresh_runner.put(np.arange(100_000, dtype=np.float32))
    values = fresh_runner.backend.to_numpy(x)
    assert values.__array_interface__["data"][0] == fresh_runner.store.host_address() + x.address
    del x
    assert memory_usage(fresh_runner)[0] == 1
    fresh_runner.put(np.zeros(100_000, np.float32))
    np.testing.assert_array_equal(values, np.arange(100_000))
    fresh_runner.backend.close()
    np.testing.assert_array_equal(values, np.arange(100_000))


def test_small_values_are_copied(fresh_runner):
    x = fresh_runner.put(np.arange(10, dtype=np.float32))
    values = fresh_runner.backend.to_numpy(x)
    del x
    assert memory_usage(fresh_runner) == (0, 0)
    fresh_runner.put(np.zeros(10, np.float32))
    np.testing.assert_array_equal(values, np.arange(10))


@pytest.mark.skipif(sys.platform != "linux", reason="pages are given back on Linux only")
@pytest.mark.parametrize("joined", [0, 200 * MEGABYTE])  # bytes of a block made of several others
def test_long_unused_memory_is_returned_to_the_system(fresh_runner, joined):
    linear = fresh_runner.backend.linear_memory
    kept = fresh_runner.put(np.arange(1000, dtype=np.float32))
    large = [fresh_runner.put(np.ones((64 * MEGABYTE,), np.uint8)) for _ in range(10)]
    full = resident_bytes()
    del large
    linear.empty((joined,), uint8)
    for size in itertools.islice(itertools.cycle([10, 1000, 3000]), 10 * TRIM_AFTER_ALLOCATIONS):
        linear.empty((size,), bool_)
    assert resident_bytes() < full - 600 * MEGABYTE
    np.testing.assert_array_equal(fresh_runner.get(kept), np.arange(1000))
    again = fresh_runner.put(np.ones((64 * MEGABYTE,), np.uint8))
    assert fresh_runner.get(again).all()


HUGE_PAGES_FOLDER = Path("/sys/kernel/mm/transparent_hugepage")


@pytest.mark.skipif(
    not HUGE_PAGES_FOLDER.exists(), reason="this system does not have pages of several sizes"
)
def test_only_large_memory_asks_for_huge_pages(fresh_runner):
    small, large = (fresh_runner.put(np.ones((size,), np.uint8)) for size in (1000, 32 * MEGABYTE))
    base = fresh_runner.backend.linear_memory.store.host_address()
    middle = large.address + 16 * MEGABYTE
    assert [has_huge_pages(base + place) for place in (small.address, middle)] == [False, True]


def has_huge_pages(address):
    """Return whether huge pages were requested for an address of this process."""
    is_here = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        head, *rest = line.split()
        if not head.endswith(":"):
            first, end = (int(bound, 16) for bound in head.split("-"))
            is_here = first <= address < end
        elif is_here and head == "VmFlags:":
            return "hg" in rest
    raise AssertionError(f"no mapping has {address:#x}")


def test_memory_that_a_loop_reuses_is_not_returned_to_the_system(fresh_runner):
    linear = fresh_runner.backend.linear_memory
    discarded = []
    linear.store.release_pages = lambda *span: discarded.append(span)
    for _ in range(TRIM_AFTER_ALLOCATIONS):
        large = [linear.empty((n * MEGABYTE,), uint8) for n in (100, 200, 300)]
        del large
        linear.empty((10,), bool_)
    assert discarded == []


def resident_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def test_threads_that_take_turns_all_the_time_get_blocks_of_their_own(fresh_runner):
    linear = fresh_runner.backend.linear_memory
    ends = time.monotonic() + 2
    kept, failures = [[] for _ in range(6)], []

    def work(mine, seed):
        random = np.random.default_rng(seed)
        try:
            while time.monotonic() < ends:
                mine.append(linear.empty((int(random.choice([10, 100, 3000, 20_000])),), bool_))
                if len(mine) > 20:
                    del mine[random.integers(20)]
                if random.random() < 0.01:
                    linear.memory_usage()
                    with linear.store.lock:
                        linear._merge()
        except BaseException as error:
            failures.append(error)

    threads = [Thread(target=work, args=(mine, seed)) for seed, mine in enumerate(kept)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert failures == []
    spans = sorted((x.address, x.address + x.capacity) for mine in kept for x in mine)
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))
    assert memory_usage(fresh_runner) == (len(spans), sum(end - start for start, end in spans))
    kept.clear()
    gc.collect()
    assert memory_usage(fresh_runner) == (0, 0)


def test_large_neighbours_begin_at_different_places_of_a_page(fresh_runner):
    arrays = [fresh_runner.put(np.zeros(10**6, np.float32)) for _ in range(3)]
    assert len({array.address % 4096 for array in arrays}) == 3
