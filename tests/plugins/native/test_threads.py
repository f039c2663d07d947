"""C threads compute each part of a call exactly once, for any number of threads and callers."""

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest

import plugrad
from plugrad.extend import Window
from plugrad.kernels import random
from plugrad_cpu.extend import empty, thread_pool
from plugrad_cpu.threads import ThreadPool
from plugrad_native.declare import parallel_for
from plugrad_native.sharing import use_compiled_threads
from plugrad_native.variants import current_variant
from plugrad_native.windows import describe_window

use_compiled_threads()  # as the pack does when the backend is loaded
EXP_FUNCTION = current_variant().kernel("exp_float32")
ADD_FUNCTION = current_variant().kernel("add_float32")
RUN_CALLS = thread_pool.compiled.run_calls
RUN_IN_PARTS = thread_pool.compiled.run_in_parts


def random_float32(count, seed=0):
    return np.random.default_rng(seed).normal(size=count).astype("f4")


def parallel_exp(x):
    y = np.empty_like(x)
    EXP_FUNCTION(x, y, x.size)
    return y


@pytest.mark.parametrize("threads", [1, 2, 7])
@pytest.mark.parametrize("parts", [1, 2, 5, 40])
def test_each_call_is_made_once(threads, parts):
    x = random_float32(parts * 1000)
    y = np.zeros_like(x)
    cuts = [slice(i, i + 1000) for i in range(0, x.size, 1000)]
    for _ in range(20):
        y[:] = 0
        assert RUN_CALLS(tuple((np.add, y[c], x[c], y[c]) for c in cuts), threads)
        np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize("threads", [1, 2, 7])
@pytest.mark.parametrize("count", [1, 999, 4096, 100_001])
@pytest.mark.parametrize("parts", [1, 3, 8])
def test_a_call_in_parts_has_the_same_bits(threads, count, parts):
    x = random_float32(count)
    y = np.zeros_like(x)
    assert RUN_IN_PARTS(EXP_FUNCTION, (x, y, count), (256, 256, 0), 2, count, 256, parts, threads)
    np.testing.assert_array_equal(y, parallel_exp(x))
    total = np.zeros_like(x)
    assert RUN_IN_PARTS(np.add, (x, y, total), (16, 16, 16), -1, count, 16, parts, threads)
    np.testing.assert_array_equal(total, x + y)
    assert RUN_IN_PARTS(np.add, (x, x[:1], total), (16, 0, 16), -1, count, 16, parts, threads)
    np.testing.assert_array_equal(total, x + x[0])


@pytest.mark.parametrize("compiled", [False, True])
def test_each_part_has_memory_for_itself(compiled):
    """Each part writes its last count of items into its memory."""
    pool = ThreadPool()
    pool.count, pool.compiled = 3, thread_pool.compiled if compiled else None
    x, scratch = random_float32(1000), np.zeros(5 * 250, "f4")
    pool.run_in_parts(
        EXP_FUNCTION, (x, scratch, 1000), (10, -250, 0), 2, 1000, parts=5, part_size_multiple=10
    )
    np.testing.assert_array_equal(scratch.reshape(5, 250)[:, :200], parallel_exp(x).reshape(5, 200))
    assert not scratch.reshape(5, 250)[:, 200:].any()


@pytest.mark.parametrize("compiled", [False, True])
def test_each_part_sums_its_own_items(compiled):
    """Each part of 2^17 elements has one sum."""
    pool = ThreadPool()
    pool.count, pool.compiled = 3, thread_pool.compiled if compiled else None
    size, count = 1 << 17, 700_000
    x, sums = random_float32(count), np.zeros(6)
    run = current_variant().kernel("sum_parts_float32")
    pool.run_in_parts(
        run, (x, sums, count), (size, 1, 0), 2, count, parts=4, part_size_multiple=size
    )
    expected = [x[first : first + size].sum(dtype="f8") for first in range(0, count, size)]
    np.testing.assert_allclose(sums, expected, rtol=0, atol=1e-3)


@pytest.mark.parametrize("parts", [1, 2, 3, 5])
def test_images_under_windows_are_divided(parts):
    images = random_float32(5 * 8 * 6 * 3).reshape(5, 8, 6, 3)
    two = (2, 2)
    window = describe_window(images.shape, Window(two, two, ((0, 0), (0, 0)), (1, 1), (4, 3)))
    expected, out = (np.zeros((5, 4, 3, 3), "f4") for _ in range(2))
    run = current_variant().kernel("max_pool_float32")
    run(images, expected, window)
    assert RUN_IN_PARTS(run, (images, out, window), (8 * 6 * 3, 36, 0), 2, 5, 1, parts, 2)
    np.testing.assert_array_equal(out, expected)
    assert window[0] == 5
    for place, count in ((2, 4), (0, 5)):  # not the images, and no integers
        with pytest.raises(ValueError, match="a place"):
            RUN_IN_PARTS(run, (images, out, window), (144, 36, 0), place, count, 1, parts, 2)


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "i4", "i8", "u8", "f4", "f8", "c8", "c16"])
def test_functions_of_numpy_of_any_dtype(dtype):
    x, y = (random_float32(1000, seed).astype(dtype) for seed in (1, 2))
    out = np.empty_like(x)
    assert RUN_IN_PARTS(np.multiply, (x, y, out), (1, 1, 1), -1, 1000, 1, 4, 2)
    np.testing.assert_array_equal(out, x * y)
    strided = np.repeat(x, 2)[::2]
    assert RUN_CALLS(((np.multiply, strided, y, out), (np.equal, x, y, np.empty(1000, bool))), 2)
    np.testing.assert_array_equal(out, x * y)


def test_calls_unknown_to_c_threads_are_refused():
    x, out = random_float32(10), np.empty(10, "f4")
    unknown = [
        (len, [1, 2]),
        (partial(EXP_FUNCTION, x, out, 10),),
        (np.add, x, x.astype("f8"), out),  # a conversion
        (np.add, x.reshape(2, 5), x.reshape(2, 5), out.reshape(2, 5)),
        (np.add, x, x[:3], out),
        (np.divmod, x, x, out, np.empty_like(out)),
        (np.add, x, x),
    ]
    for call in unknown:
        out[:] = 0
        assert not RUN_CALLS(((EXP_FUNCTION, x, out, 10), call), 2)
        assert not out.any()
    assert not RUN_IN_PARTS(len, (x,), (1,), -1, 10, 1, 2, 2)


def test_wrong_calls_are_errors():
    x, out = random_float32(10), np.empty(10, "f4")
    with pytest.raises(TypeError, match="exp_float32 takes 3 arguments"):
        RUN_CALLS(((EXP_FUNCTION, x, out),), 2)
    with pytest.raises((BufferError, ValueError)):
        RUN_CALLS(((EXP_FUNCTION, x[::2], out, 5),), 2)
    with pytest.raises(TypeError):
        RUN_CALLS(((EXP_FUNCTION, x, "text", 5),), 2)
    with pytest.raises(ValueError, match="a step"):
        RUN_IN_PARTS(EXP_FUNCTION, (x, out, 10), (1, 1, 1), 2, 10, 1, 2, 2)
    with pytest.raises(ValueError, match="a place"):
        RUN_IN_PARTS(EXP_FUNCTION, (x, out, 10), (1, 1, 0), 1, 10, 1, 2, 2)
    with pytest.raises(ValueError, match="for each"):
        RUN_IN_PARTS(EXP_FUNCTION, (x, out, 10), (1, 1), 2, 10, 1, 2, 2)
    for numbers_out_of_range in ((-2, 10, 1, 2), (2, -1, 1, 2), (2, 10, 0, 2), (2, 10, 1, 0)):
        with pytest.raises(ValueError, match="out of range"):
            RUN_IN_PARTS(EXP_FUNCTION, (x, out, 10), (1, 1, 0), *numbers_out_of_range, 2)


def test_memory_of_each_part_begins_at_a_cache_line(monkeypatch):
    """Sanitizers check the alignment of 8-byte numbers in it."""
    given = []
    monkeypatch.setattr(thread_pool, "count", 3)
    monkeypatch.setattr(thread_pool, "run_in_parts", lambda *call, **_: given.append(call))
    x = random_float32(1_000_000)
    parallel_for(EXP_FUNCTION, ((x, 1),), x.size, work=x.size, scratch_floats=17)
    ((_, arguments, steps, *_),) = given
    assert steps[-1] == -32
    assert arguments[-1].size == 32 * 9


def test_helper_threads_sleep_between_rare_calls():
    """A helper that waited awake after each call would burn 50 µs of processor time or more."""
    x = random_float32(2000)
    y = np.empty_like(x)

    def call():
        RUN_IN_PARTS(EXP_FUNCTION, (x, y, x.size), (256, 256, 0), 2, x.size, 256, 2, 2)

    for _ in range(20):
        time.sleep(0.002)
        call()
    begin, calls = time.process_time() - time.thread_time(), 200
    for _ in range(calls):
        time.sleep(0.002)
        call()
    by_helpers = time.process_time() - time.thread_time() - begin
    assert by_helpers / calls < 30e-6


def test_many_callers_at_once():
    """One caller has the helper threads; the others compute alone."""
    x = random_float32(200_000)
    expected = parallel_exp(x)
    begins = threading.Barrier(6)

    def call(seed):
        begins.wait(60)
        y = np.empty_like(x)
        for _ in range(50):
            y[:] = 0
            assert RUN_IN_PARTS(
                EXP_FUNCTION, (x, y, x.size), (256, 256, 0), 2, x.size, 256, 2 + seed, 3
            )
            np.testing.assert_array_equal(y, expected)

    with ThreadPoolExecutor(6) as pool:
        for done in [pool.submit(call, seed) for seed in range(6)]:
            done.result(60)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_starts_threads_of_its_own_even_while_they_compute():
    x = random_float32(500_000)
    expected = parallel_exp(x)
    ends = threading.Event()

    def compute():
        y = np.empty_like(x)
        while not ends.is_set():
            RUN_IN_PARTS(EXP_FUNCTION, (x, y, x.size), (256, 256, 0), 2, x.size, 256, 8, 3)

    other = threading.Thread(target=compute)
    other.start()
    try:
        for _ in range(5):
            child = os.fork()
            if child == 0:
                signal.alarm(20)  # a child that hangs dies of it
                y = np.empty_like(x)
                for _ in range(20):
                    RUN_IN_PARTS(EXP_FUNCTION, (x, y, x.size), (256, 256, 0), 2, x.size, 256, 8, 3)
                os._exit(0 if np.array_equal(y, expected) else 1)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        ends.set()
        other.join()


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="this system has no such signals")
def test_an_interrupt_is_raised_after_the_call():
    """The signal handler runs when the caller's thread has the GIL again, after all parts are computed."""
    x = random_float32(4_000_000)
    y = np.zeros_like(x)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    caller = threading.get_ident()
    timer = threading.Timer(0.001, signal.pthread_kill, (caller, signal.SIGINT))

    def compute():
        RUN_IN_PARTS(EXP_FUNCTION, (x, y, x.size), (256, 256, 0), 2, x.size, 256, 8, 2)
        timer.start()  # which may have ended before the next call begins
        for _ in range(10_000):
            RUN_IN_PARTS(EXP_FUNCTION, (x, y, x.size), (256, 256, 0), 2, x.size, 256, 8, 2)

    try:
        with pytest.raises(KeyboardInterrupt):
            compute()
    finally:
        signal.signal(signal.SIGINT, before)
    np.testing.assert_array_equal(y, parallel_exp(x))
    assert RUN_IN_PARTS(EXP_FUNCTION, (x, y, x.size), (256, 256, 0), 2, x.size, 256, 8, 2)


def test_thread_calls_release_their_buffers():
    """Buffers of arrays are released, also by calls that raise."""
    x, y = bytearray(4000), bytearray(4000)
    assert RUN_IN_PARTS(EXP_FUNCTION, (x, y, 1000), (4, 4, 0), 2, 1000, 1, 4, 2)
    assert not RUN_CALLS(((EXP_FUNCTION, x, y, 1000), (len, "text")), 2)
    with pytest.raises(TypeError):
        RUN_CALLS(((EXP_FUNCTION, x, y, 1000), (EXP_FUNCTION, x, y)), 2)
    x.extend(b"x")  # which fails while somebody holds the buffer
    y.extend(b"x")
    assert empty((1,), np.dtype("f4")).size == 1


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("count", [1, 127, 1024, 100_003])
def test_dropout_uses_the_words_of_random_bits_with_any_number_of_threads(
    dtype, count, monkeypatch
):
    x = random_float32(count).astype(dtype)
    x[::7] = np.nan
    state = plugrad.asarray([1, 2, -3, -1, -1, 4], device="cpu")
    words = random.random_bits(state, shape=(count,)).numpy()
    expected = np.where(words < 2**31 - 2**30, x / np.array(0.75, dtype), 0)
    for threads in (1, 2, 7):
        monkeypatch.setattr(thread_pool, "count", threads)
        given = plugrad.asarray(x, device="cpu")
        found = random.dropout(given, state, rate=0.25, noise_shape=(count,)).numpy()
        np.testing.assert_array_equal(found, expected, strict=True)
