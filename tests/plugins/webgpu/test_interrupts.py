"""Ctrl-C: it never comes between the steps that belong together, and what follows is right."""

import ctypes
import os
import signal
import time
from threading import Thread, Timer, get_ident

import numpy as np
import pytest
import wgpu

import plugrad
from plugrad.errors import DeviceLost
from plugrad_webgpu.driver import native
from plugrad_webgpu.driver.interrupts import Uninterruptible

pytestmark = pytest.mark.usefixtures("run", "raising_handler")


@pytest.fixture
def raising_handler():
    """Let SIGINT raise KeyboardInterrupt, also in a test worker, which ignores it."""
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, handler)


def send_sigint():
    os.kill(os.getpid(), signal.SIGINT)


def test_an_interrupt_waits_until_the_outer_block_ends():
    whole, reached = Uninterruptible(), []
    handler = signal.getsignal(signal.SIGINT)

    def work():
        with whole:
            with whole:
                send_sigint()
                reached.append("inner")
            reached.append("outer")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert reached == ["inner", "outer"]
    assert signal.getsignal(signal.SIGINT) is handler


def test_uninterruptible_block_without_a_signal_restores_the_handlers():
    whole = Uninterruptible()
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(ZeroDivisionError), whole:
        _ = 1 / 0
    assert signal.getsignal(signal.SIGINT) is handler


def test_no_signal_is_lost_or_late_at_the_end_of_a_block():
    whole, calls = Uninterruptible(), []
    before = signal.signal(signal.SIGALRM, lambda number, frame: calls.append(number))
    try:
        for _ in range(20):
            signal.setitimer(signal.ITIMER_REAL, 1e-5, 2e-5)
            for _ in range(50):
                with whole:
                    pass
            signal.setitimer(signal.ITIMER_REAL, 0)
            time.sleep(0.005)  # the last one may be on its way
            count = len(calls)
            with whole:
                pass
            assert len(calls) == count  # a late one would come at the end of the next block
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        time.sleep(
            0.1
        )  # a thread of the driver on a busy machine may still hold one, which needs its handler
        signal.signal(signal.SIGALRM, before)
    assert calls


def test_an_interrupt_that_is_ignored_stays_ignored():
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Uninterruptible():
            send_sigint()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, handler)


def test_blocks_in_other_threads_let_interrupts_pass():
    whole = Uninterruptible()
    handler = signal.getsignal(signal.SIGINT)
    found = []

    def work():
        with whole:
            found.append(signal.getsignal(signal.SIGINT))

    thread = Thread(target=work)
    thread.start()
    thread.join()
    assert found == [handler]


def record_uninterrupted(op, x):
    """Call an op, which records or defers its work, while signals are delayed."""
    y = op(x)
    y.backend.synchronize()


@pytest.mark.parametrize(
    ("function", "op"),
    [
        ("set_pipeline", plugrad.exp),
        ("set_immediates", plugrad.matrix_transpose),  # the same program with other parameters
        ("set_bind_group", plugrad.exp),
    ],
)
def test_an_interrupted_recording_does_not_spoil_the_next_call(function, op, monkeypatch):
    """The next call uses the same program and parameters as the call before the interrupted one."""
    call = getattr(native, function)

    def interrupted(*arguments):
        call(*arguments)
        raise KeyboardInterrupt

    x = np.arange(12, dtype="float32").reshape(3, 4)
    with plugrad.use("webgpu"):
        # No upload comes between the calls: it would begin another batch.
        a, b, other = plugrad.asarray(x), plugrad.asarray(x + 1), plugrad.ones((5, 2))
        op(other).numpy()
        plugrad.matrix_transpose(a).numpy()
        first = plugrad.matrix_transpose(a)
        with monkeypatch.context() as patch:
            patch.setattr(native, function, interrupted)
            with pytest.raises(KeyboardInterrupt):
                record_uninterrupted(op, other)
        second = plugrad.matrix_transpose(b)
        np.testing.assert_array_equal(second.numpy(), (x + 1).T)
        np.testing.assert_array_equal(first.numpy(), x.T)


def replace_poll(monkeypatch, poll):
    """Replace the library's poll function by `poll`, which gets the original one."""

    class Library:
        def __getattr__(self, name):
            return getattr(library, name)

        def wgpuDevicePoll(self, *arguments):  # noqa: N802 - the name in C
            return poll(lambda: library.wgpuDevicePoll(*arguments))

    library = native.lib
    monkeypatch.setattr(native, "lib", Library())


def test_a_wait_that_takes_as_long_as_the_last_one_polls_seldom(monkeypatch):
    """Here a batch of three dispatches takes 4 ms, and other ones 0.05 ms, by a clock that only sleep moves on."""
    now = 0.0

    def sleep(seconds):
        nonlocal now
        now += seconds

    def count_polls(dispatches, needed):
        start, polls = now, []

        def late(poll):
            polls.append(now)
            sleep(1e-5)
            while now - start > needed and native._stagings_awaiting_callback:
                poll()

        with monkeypatch.context() as patch:
            replace_poll(patch, late)
            total = x
            for _ in range(dispatches):
                total = total @ x
            x.backend.synchronize()
        return len(polls), now - start

    with plugrad.use("webgpu"):
        x = plugrad.eye(64) @ plugrad.eye(64)  # so that products are compiled
        x.backend.synchronize()
        monkeypatch.setattr(native, "sleep", sleep)
        monkeypatch.setattr(native, "perf_counter", lambda: now)
        for dispatches in (
            2,
            3,
        ):  # waits of other tests may have taken longer; each wait is half as long as the one before
            for _ in range(20):
                count_polls(dispatches, 5e-5)
        first, _ = count_polls(3, 4e-3)
        assert count_polls(2, 5e-5)[1] < 1e-4
        again, seconds = count_polls(3, 4e-3)
        assert again < first / 2
        assert seconds < 4e-3 * (1 + 1 / 16) + 1e-4
        assert count_polls(3, 5e-5)[1] < 2e-3  # an end half as long as the last one, or earlier


@pytest.mark.parametrize("wait", [lambda x: x.numpy(), lambda x: x.backend.synchronize()])
def test_an_interrupt_ends_a_wait(monkeypatch, wait):
    """The device never responds here, so a wait without interrupts would not end."""
    with plugrad.use("webgpu"):
        x = plugrad.ones(1000)
        y = x * 2
        with monkeypatch.context() as patch:
            replace_poll(patch, lambda poll: send_sigint())
            for _ in range(3):
                with pytest.raises(KeyboardInterrupt):
                    wait(y)
        np.testing.assert_array_equal(y.numpy(), np.full(1000, 2))
        np.testing.assert_array_equal((x * 3).numpy(), np.full(1000, 3))


def test_an_interrupt_ends_a_read_of_many_parts(monkeypatch):
    monkeypatch.setattr("plugrad_webgpu.device.device.TRANSFER_MAX_BYTES", 4096)
    with plugrad.use("webgpu"):
        x = plugrad.arange(5000, dtype="float32")
        for _ in range(3):
            parts = x.backend.read([x.array])
            next(parts)
            with monkeypatch.context() as patch:
                replace_poll(patch, lambda poll: send_sigint())
                with pytest.raises(KeyboardInterrupt):
                    list(parts)
        values = np.concatenate([part.copy() for part in x.backend.read([x.array])])
        np.testing.assert_array_equal(values, np.arange(5000))


def test_a_wait_goes_on_if_the_handler_of_the_interrupt_returns(monkeypatch):
    counted = []
    signal.signal(signal.SIGINT, lambda *_: counted.append(1))

    def interrupted_twice(poll):
        if len(counted) < 2:
            send_sigint()
        else:
            poll()

    with plugrad.use("webgpu"):
        y = plugrad.ones(1000) * 2
        replace_poll(monkeypatch, interrupted_twice)
        np.testing.assert_array_equal(y.numpy(), np.full(1000, 2))
    assert len(counted) == 2


def test_exceptions_of_signal_handlers_in_library_callbacks_are_raised(
    monkeypatch, without_garbage_collection
):
    class Alarm(BaseException):
        pass

    def ring(*arguments):
        raise Alarm

    def compute():
        x = y + y
        x.numpy()

    with plugrad.use("webgpu"):
        y = plugrad.ones(1000) * 2
        before = y.sum().item() and plugrad.memory()[:3]
        device = y.backend.active_device
        with monkeypatch.context() as patch:
            patch.setattr(device._raw, "_idle", [])
            patch.setattr(device._raw, "_late", [])
            patch.setattr(native.NativeStaging, "_on_mapped", ring)
            with pytest.raises(Alarm):
                compute()
            assert plugrad.memory()[:3] == before
        np.testing.assert_array_equal(y.numpy(), np.full(1000, 2))


def test_a_wait_of_another_thread_is_not_interrupted(monkeypatch):
    results = []

    def work():
        with plugrad.use("webgpu"):
            results.append((plugrad.ones(1000) * 2).numpy())

    polls = []

    def interrupted(poll):
        polls.append(1)
        if len(polls) == 1:
            send_sigint()
        poll()

    replace_poll(monkeypatch, interrupted)
    thread = Thread(target=work)

    def wait_for_results():
        while not results:  # an interrupted join may leave a running thread behind
            time.sleep(0.01)

    with pytest.raises(KeyboardInterrupt):
        thread.start(), wait_for_results()
    wait_for_results()
    np.testing.assert_array_equal(results[0], np.full(1000, 2))


def repeat_forever(work):
    while True:
        work()


def interrupt_from_thread(work):
    """Repeat some work until an exception that another thread raises in this one comes out of it."""

    class Stop(Exception):
        pass

    me = ctypes.c_ulong(get_ident())
    timer = Timer(0.05, ctypes.pythonapi.PyThreadState_SetAsyncExc, (me, ctypes.py_object(Stop)))
    timer.start()
    with pytest.raises(Stop):
        repeat_forever(work)
    timer.join()


def test_a_device_whose_work_another_thread_cut_in_two_is_lost_and_opened_again():
    before = plugrad.asarray([1.0, 2.0], device="webgpu")
    handler = signal.getsignal(signal.SIGINT)
    backend = before.backend
    interrupt_from_thread(lambda: (before + before).numpy())
    assert signal.getsignal(signal.SIGINT) is handler
    if not backend.lost:  # it came between two calls
        assert (before + 1).tolist() == [2.0, 3.0]
        return
    with pytest.raises(DeviceLost, match="raised has cut its work in two"):
        before.numpy()
    assert (plugrad.asarray([1.0, 2.0], device="webgpu") + 1).tolist() == [2.0, 3.0]


def test_other_threads_do_not_wait_for_a_device_whose_work_was_cut():
    x = plugrad.asarray([1.0], device="webgpu")
    x.backend._device._lock.acquire()  # and never released: the exception came before
    assert x.backend.handle_interruption(is_deferrable=False)
    seen = []

    def work():
        try:
            x.numpy()
        except DeviceLost as error:
            seen.append(error)

    thread = Thread(target=work)
    thread.start()
    thread.join(10)
    assert len(seen) == 1
    assert (plugrad.asarray([1.0], device="webgpu") + 1).tolist() == [2.0]


def test_an_error_of_wgpu_cuts_no_block():
    block = Uninterruptible()
    device = wgpu.gpu.request_adapter_sync().request_device_sync()
    with pytest.raises(wgpu.GPUError), block:
        device.create_buffer(size=2**62, usage=wgpu.BufferUsage.STORAGE)
    assert not block.reset()
