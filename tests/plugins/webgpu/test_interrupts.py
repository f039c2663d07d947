"""Ctrl-C: it never comes between the steps that belong together, and what follows is right."""

import os
import signal
from threading import Thread

import numpy as np
import pytest

import plugrad
from plugrad_webgpu import native
from plugrad_webgpu.interrupts import Whole

pytestmark = pytest.mark.usefixtures("run", "handled")


@pytest.fixture
def handled():
    """Let interrupts raise, also in a worker of the tests, which ignores them."""
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, handler)


def interrupt():
    os.kill(os.getpid(), signal.SIGINT)


def test_an_interrupt_waits_until_the_outer_block_ends():
    whole, reached = Whole(), []
    handler = signal.getsignal(signal.SIGINT)

    def work():
        with whole:
            with whole:
                interrupt()
                reached.append("inner")
            reached.append("outer")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert reached == ["inner", "outer"]
    assert signal.getsignal(signal.SIGINT) is handler


def test_a_block_without_an_interrupt_changes_nothing():
    whole = Whole()
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(ZeroDivisionError), whole:
        _ = 1 / 0
    assert signal.getsignal(signal.SIGINT) is handler


def test_an_interrupt_that_is_ignored_stays_ignored():
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Whole():
            interrupt()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, handler)


def test_blocks_in_other_threads_let_interrupts_pass():
    whole = Whole()
    handler = signal.getsignal(signal.SIGINT)
    found = []

    def work():
        with whole:
            found.append(signal.getsignal(signal.SIGINT))

    thread = Thread(target=work)
    thread.start()
    thread.join()
    assert found == [handler]


@pytest.mark.parametrize(
    ("function", "op"),
    [
        ("set_pipeline", plugrad.exp),
        ("set_immediates", plugrad.matrix_transpose),  # the same program with other parameters
        ("set_bind_group", plugrad.exp),
    ],
)
def test_an_interrupted_recording_does_not_spoil_the_next_call(function, op, monkeypatch):
    """The next call has the program and the parameters of the one before the interrupted call."""
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
                op(other)
        second = plugrad.matrix_transpose(b)
        np.testing.assert_array_equal(second.numpy(), (x + 1).T)
        np.testing.assert_array_equal(first.numpy(), x.T)


def test_an_interrupt_during_a_read_back_is_raised_after_it(monkeypatch):
    with plugrad.use("webgpu"):
        x = plugrad.ones(1000)
        poll = native.lib.wgpuDevicePoll

        class Library:
            def __getattr__(self, name):
                return getattr(library, name)

            def wgpuDevicePoll(self, *arguments):  # noqa: N802 - the name in C
                interrupt()
                return poll(*arguments)

        library = native.lib
        monkeypatch.setattr(native, "lib", Library())
        with pytest.raises(KeyboardInterrupt):
            (x * 2).numpy()
        monkeypatch.undo()
        np.testing.assert_array_equal((x * 3).numpy(), np.full(1000, 3))
