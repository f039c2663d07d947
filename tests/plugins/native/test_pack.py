"""Decisions of the pack before a call: NumPy or C, the number of threads, and the memory of results."""

import inspect
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from importlib import import_module

import numpy as np
import pytest

import plugrad
from plugrad.discovery.loading import open_backend
from plugrad_cpu.memory import RUNS_THREADS_AT_ONCE, TRACKED_MIN_BYTES, pool
from plugrad_cpu.threads import ThreadPool, thread_count, thread_pool

variants = pytest.importorskip("plugrad_native.variants")
if not variants.has_any_variant():
    pytest.skip("there is no native code for this platform", allow_module_level=True)
declare = import_module("plugrad_native.declare")
kernels = import_module("plugrad_native.kernels")
reduction = import_module("plugrad_native.kernels.reduction")
open_backend("cpu")

TOO_MANY_ELEMENTS = 2**31


@pytest.fixture
def many_threads():
    before = thread_pool.count
    thread_pool.count = 4
    yield
    thread_pool.count = before


def random_array(*shape, dtype="float32"):
    return np.random.default_rng(1).normal(size=shape).astype(dtype)


def random_int32(*shape):
    return np.random.default_rng(1).integers(-9, 9, shape).astype(np.int32)


def attention_inputs(xp, rows=99):
    return [xp.asarray(random_array(9, rows, 40)) for _ in range(3)]


CALLS_WITH_THREADS = {
    "sigmoid": lambda xp: xp.sigmoid(xp.asarray(random_array(300_001))),
    "add": lambda xp: xp.add(
        *(xp.asarray(random_array(300_001, dtype="float16")) for _ in range(2))
    ),
    "add a number": lambda xp: xp.add(
        xp.asarray(random_array(300_001, dtype="float16")), xp.asarray(np.float16(0.1))
    ),
    "adam": lambda xp: plugrad.kernels.optimizers.adam(
        *(xp.asarray(np.abs(random_array(n))) for n in (7, 99_999, 30_001, *(99_999, 30_001) * 3))
    )[0],
    "remainder": lambda xp: xp.remainder(
        xp.asarray(random_array(300_001)), xp.asarray(random_array(300_001) ** 2)
    ),
    "power": lambda xp: xp.asarray(random_array(300_001)) ** 3,
    "where": lambda xp: xp.where(
        xp.asarray(random_array(300_001)) > 0, 1.5, xp.asarray(random_array(300_001))
    ),
    "erf in double precision": lambda xp: xp.erf(
        xp.asarray(random_array(300_001, dtype="float64"))
    ),
    "softmax": lambda xp: xp.softmax(xp.asarray(random_array(301, 999))),
    "short rows": lambda xp: xp.softmax(xp.asarray(random_array(99_999, 10))),
    "columns": lambda xp: xp.softmax(xp.asarray(random_array(301, 99, 9)), axis=1),
    "layer_norm": lambda xp: xp.layer_norm(xp.asarray(random_array(301, 999))),
    "sum of rows": lambda xp: xp.sum(xp.asarray(random_array(301, 999)), axis=1),
    "sum of short rows": lambda xp: xp.sum(xp.asarray(random_array(30_001, 9)), axis=1),
    "sum of middle axes": lambda xp: xp.sum(xp.asarray(random_array(31, 99, 99)), axis=1),
    "cumsum": lambda xp: xp.cumulative_sum(xp.asarray(random_array(301, 999)), axis=1),
    "take_along_axis": lambda xp: xp.take_along_axis(
        xp.asarray(random_array(301, 999)),
        xp.asarray(np.random.default_rng(2).integers(-999, 999, (301, 999)).astype(np.int32)),
        axis=1,
    ),
    "its gradient": lambda xp: xp.grad(
        lambda x: xp.sum(xp.take_along_axis(x, np.arange(90300).reshape(301, 300) % 7, axis=1))
    )(xp.asarray(random_array(301, 999))),
    "rfft": lambda xp: xp.fft.rfft(xp.asarray(random_array(301, 999))),
    "gradient of resizing": lambda xp: xp.grad(
        lambda x: xp.sum(xp.image.resize_bilinear(x, (90, 80)))
    )(xp.asarray(random_array(9, 60, 50, 3))),
    "product": lambda xp: xp.asarray(random_int32(301, 301)) @ xp.asarray(random_int32(301, 301)),
    "products": lambda xp: xp.matmul(*(xp.asarray(random_int32(9, 101, 101)) for _ in range(2))),
    "inverse": lambda xp: xp.linalg.inv(xp.asarray(random_array(9, 65, 65))),
    "equations": lambda xp: xp.linalg.solve(
        xp.asarray(random_array(9, 65, 65, dtype="float64")),
        xp.asarray(random_array(65, 30, dtype="float64")),
    ),
    "convolution": lambda xp: xp.conv2d(
        xp.asarray(random_array(5, 33, 33, 16)), xp.asarray(random_array(3, 3, 16, 32)), 1, "same"
    ),
    "depthwise convolution": lambda xp: xp.depthwise_conv2d(
        xp.asarray(random_array(7, 57, 57, 40)), xp.asarray(random_array(3, 3, 40, 1)), 1, "same"
    ),
    "attention": lambda xp: xp.attention(*attention_inputs(xp)),
    "gradient of attention": lambda xp: xp.grad(
        lambda q: xp.sum(xp.attention(q, *attention_inputs(xp)[1:]))
    )(attention_inputs(xp)[0]),
    "attention of many queries": lambda xp: xp.attention(*attention_inputs(xp, 299)),
    "gradient of attention of many queries": lambda xp: xp.grad(
        lambda q: xp.sum(xp.attention(q, *attention_inputs(xp, 299)[1:]))
    )(attention_inputs(xp, 299)[0]),
}


@pytest.mark.parametrize("call", CALLS_WITH_THREADS.values(), ids=CALLS_WITH_THREADS)
def test_results_do_not_depend_on_the_number_of_threads(call, monkeypatch):
    with plugrad.use("cpu"):
        monkeypatch.setattr(thread_pool, "count", 1)
        alone = call(plugrad).numpy()
        parts = []
        count_parts = thread_pool.count_parts

        def count_and_note(*given):
            parts.append(count_parts(*given))
            return parts[-1]

        monkeypatch.setattr(thread_pool, "count_parts", count_and_note)
        monkeypatch.setattr(thread_pool, "count", 3)
        np.testing.assert_array_equal(call(plugrad).numpy().view(np.uint8), alone.view(np.uint8))
        assert max(parts) > 1


def test_the_pool_of_threads_is_left_to_one_caller_at_a_time():
    pool_of_two = ThreadPool()
    pool_of_two.count = 2
    names, inner = [], []

    def outer_call():
        names.append(threading.current_thread().name)
        pool_of_two.run([(lambda: inner.append(threading.current_thread()),)] * 2)

    pool_of_two.run([(outer_call,)] * 2)
    assert len(names) == 2
    assert len(inner) == 4
    with pytest.raises(ValueError, match="invalid literal"):
        pool_of_two.run([(int, "x")] * 9)
    met = threading.Barrier(2)
    pool_of_two.run([(met.wait, 60)] * 2)  # it is free again: two threads meet


class CallData:
    """Data of a call, to which weak references are possible."""


def test_finished_calls_keep_no_references():
    pool_of_two = ThreadPool()
    pool_of_two.count = 2
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # the caller goes on as soon as it can
    try:
        for _ in range(100):
            used = CallData()
            dead = weakref.ref(used)
            pool_of_two.run([(bool,), (id, used), (id, used)])
            del used
            assert dead() is None
    finally:
        sys.setswitchinterval(interval)


@pytest.mark.parametrize("fails_elsewhere", [False, True])
def test_arguments_of_a_failed_call_are_freed_at_once(without_garbage_collection, fails_elsewhere):
    pool_of_two = ThreadPool()
    pool_of_two.count = 2
    met, caller, dead = threading.Barrier(2), threading.get_ident(), []

    def compute():
        used = CallData()
        dead.append(weakref.ref(used))

        def call():
            met.wait(60)
            if (threading.get_ident() != caller) is fails_elsewhere:
                raise ValueError(id(used))

        pool_of_two.run([(call,)] * 2)

    with pytest.raises(ValueError, match=r"\d"):
        compute()
    # Without a lock of Python's, the thread that made an object counts its references, when it next looks at them.
    for _ in range(100 if RUNS_THREADS_AT_ONCE else 0):
        time.sleep(0.01)
    assert dead[0]() is None


def test_an_interrupt_comes_after_the_calls_that_have_begun():
    pool_of_two = ThreadPool()
    pool_of_two.count = 2
    done, has_begun, caller = [], threading.Event(), threading.get_ident()

    def call():
        if threading.get_ident() == caller:
            has_begun.wait(60)
            raise KeyboardInterrupt
        has_begun.set()
        time.sleep(0.05)
        done.append(True)

    with pytest.raises(KeyboardInterrupt):
        pool_of_two.run([(call,)] * 9)
    assert done == [True]  # no other has begun


STOPPED_POOL_PROGRAM = """
import sys, threading
from itertools import count
from plugrad_cpu.threads import ThreadPool

class Stop(BaseException):
    pass

def stop_after(left):
    def profile(frame, event, argument):
        nonlocal left
        left -= event in ("call", "c_return")  # where Python raises what handlers of signals raise
        if left == 0:
            raise Stop

    return profile

def meet():
    met = threading.Barrier(2)
    pool.run([(met.wait, 20)] * 2)

pool = ThreadPool()
pool.count = 2
for place in count(1):
    meet()
    sys.setprofile(stop_after(place))
    try:
        pool.run([(bool,)] * 3)
        break
    except Stop:
        pass
    finally:
        sys.setprofile(None)
print(place)
"""


def test_interrupts_leave_the_thread_pool_usable():
    done = subprocess.run(
        [sys.executable, "-c", STOPPED_POOL_PROGRAM],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) > 10


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.usefixtures("many_threads")
def test_a_forked_child_starts_threads_of_its_own():
    x = random_array(300_001)
    with plugrad.use("cpu"):
        expected = plugrad.sigmoid(plugrad.asarray(x)).numpy()
        child = os.fork()
        if child == 0:
            signal.alarm(20)  # a child that hangs dies of it
            y = plugrad.sigmoid(plugrad.asarray(x)).numpy()
            os._exit(0 if np.array_equal(y, expected) else 1)
        _, status = os.waitpid(child, 0)
    assert status == 0


def test_thread_count_follows_the_setting(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3,2")
    assert thread_count({}) == 3
    assert thread_count({"threads": 2}) == 2
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert thread_count({}) >= 1
    with pytest.raises(plugrad.errors.BackendUnavailable, match=r"0 threads; set cpu\.threads"):
        thread_count({"threads": 0})


def test_results_use_memory_of_the_pool():
    x = random_array(TRACKED_MIN_BYTES)
    with plugrad.use("cpu"):
        results = [
            plugrad.sigmoid(x),
            plugrad.softmax(x.reshape(8, -1)),
            plugrad.cumulative_sum(x),
            plugrad.max_pool(x.reshape(1, 512, 256, 1), 2, 1, "same"),
            plugrad.conv2d(x.reshape(1, 128, 256, 4), random_array(3, 3, 4, 4), 1, "same"),
            plugrad.reshape(plugrad.permute_dims(x.reshape(256, -1), (1, 0)), (-1,)),
        ]
        leased = [lease() for lease in pool._leases.values()]
        places = {x.ctypes.data for x in leased if x is not None}
        assert {y.numpy().ctypes.data for y in results} <= places


# --- more elements than 32 bits count ----------------------------------------------------------------


def test_numpy_computes_what_is_too_large_for_c(monkeypatch):
    x = np.broadcast_to(np.float32(1), (TOO_MANY_ELEMENTS,))
    from_numpy = np.zeros(1)
    monkeypatch.setattr(declare, "numpy_implementation", lambda _: lambda *_: from_numpy)
    monkeypatch.setattr(declare, "register_small_result_functions", lambda *_, **options: None)
    kernel = plugrad.kernels.activation.prelu
    fail = {np.dtype("float32"): lambda *_: pytest.fail("C was called")}
    assert declare.make_unary_kernel(kernel, fail)(x) is from_numpy
    assert declare.make_binary_kernel(kernel, fail)(x, x) is from_numpy
    half = np.broadcast_to(np.float32(1), (2**16, 1)), np.broadcast_to(np.float32(1), (1, 2**15))
    assert declare.make_binary_kernel(kernel, fail, fail)(*half) is from_numpy
    assert reduction.find_reduction_layout((4, TOO_MANY_ELEMENTS // 4), (1,), False) is None
    assert reduction.find_reduction_layout((4, TOO_MANY_ELEMENTS // 4 - 1), (1,), False) == (
        (4,),
        4,
        TOO_MANY_ELEMENTS // 4 - 1,
        1,
    )


@pytest.mark.parametrize("call", CALLS_WITH_THREADS.values(), ids=CALLS_WITH_THREADS)
def test_every_kernel_asks_for_the_size_before_it_calls_c(call, monkeypatch):
    with plugrad.use("cpu"):
        expected = call(plugrad).numpy()
        for module in (declare, *filter(inspect.ismodule, vars(kernels).values())):
            if hasattr(module, "MAX_ELEMENTS"):
                monkeypatch.setattr(module, "MAX_ELEMENTS", 2)
            if hasattr(module, "empty"):  # for what C writes to
                monkeypatch.setattr(module, "empty", lambda *_: pytest.fail("C was called"))
        reduction.find_reduction_layout.cache_clear()
        found = call(plugrad).numpy()
        reduction.find_reduction_layout.cache_clear()
    np.testing.assert_allclose(found, expected, rtol=2e-3, atol=1e-4)


def test_the_extension_refuses_numbers_beyond_32_bits():
    x = np.zeros(4, np.float32)
    with pytest.raises(OverflowError, match="does not fit in 32 bits"):
        variants.current_variant().kernel("relu_float32")(x, x, TOO_MANY_ELEMENTS)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("count", [1, 9, 1000])
def test_gelu_of_zeros_keeps_their_sign(dtype, count):
    with plugrad.use("cpu"):
        for zero in (0.0, -0.0):
            y = plugrad.gelu(plugrad.full((count,), zero, dtype=dtype)).numpy()
            assert (y == 0).all()
            assert (np.signbit(y) == np.signbit(zero)).all()
