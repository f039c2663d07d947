"""Work in a thread of its own, which its caller stops after a deadline or when a signal handler raises.

The caller waits in Python, where handlers of signals run at once. The thread has a stack of a known size: the
caller's may be smaller than what foreign code is allowed to use.
"""

from __future__ import annotations

import _thread
import os
import threading
from time import monotonic
from typing import TYPE_CHECKING, Final, Generic, TypeVar, cast

from plugrad.extend import KernelFailed, hold_safely, is_interruption

if TYPE_CHECKING:
    from collections.abc import Callable

THREAD_STACK_BYTES: Final = 2 << 20
"""The stack of the thread that runs the work."""
SIGNAL_POLL_SECONDS: Final = 0.05
"""The seconds between two interruptions of a wait: some systems run handlers of signals only then."""

Result = TypeVar("Result")
"""The type of what the work returns."""


def run_stoppable(
    function: Callable[[], Result], stop: Callable[[], None], deadline: float
) -> Result:
    """Call a function in another thread until a deadline, a monotonic time; return its result, or raise its error.

    Args:
        function: runs in another thread.
        stop: makes the function end soon. It is called once, when nobody waits for the result any more.
        deadline: the time, by `time.monotonic`, until which the function may take.

    Raises:
        TimeoutError: it took longer, and was stopped.
        KernelFailed: no thread can start, because there are too many or the program ends.
    """
    task = ThreadTask(function)
    try:
        task.start()
        while not task.wait(min(SIGNAL_POLL_SECONDS, max(0.0, deadline - monotonic()))):
            if monotonic() >= deadline:
                raise TimeoutError
    except BaseException:
        task.cancel(stop)
        raise
    return task.result()


class ThreadTask(Generic[Result]):
    """Work that runs once, in a thread."""

    __slots__ = ("_ended", "_failure", "_is_cancelled", "_result", "_running", "_work")

    def __init__(self, work: Callable[[], Result]) -> None:
        """Prepare the work."""
        self._work = work
        self._ended = threading.Lock()  # held until the work has ended
        self._ended.acquire()
        self._running: list[bool] = []  # a thread adds to it first, and asks then whether to work
        self._is_cancelled = False
        self._result: Result | None = None
        self._failure: BaseException | None = None

    def start(self) -> None:
        """Start the thread.

        Raises:
            KernelFailed: that is not possible.
        """
        with _stack_size_lock:
            usual = threading.stack_size()
            try:
                threading.stack_size(THREAD_STACK_BYTES)
                _thread.start_new_thread(self._run, ())
            except RuntimeError as error:
                if is_interruption(error):
                    raise
                raise KernelFailed(
                    f"wasm: a foreign module has no thread to run in: {error}"
                ) from None
            finally:
                threading.stack_size(usual)

    def _run(self) -> None:
        """Do the work, unless it has been cancelled, and keep its result or its error."""
        self._running.append(True)
        try:
            if not self._is_cancelled:
                self._result = self._work()
        except BaseException as failure:
            self._failure = failure
        finally:
            self._running.clear()
            self._ended.release()

    def wait(self, seconds: float) -> bool:
        """Wait up to a number of seconds; return whether the work has ended."""
        return self._ended.acquire(timeout=seconds)

    def cancel(self, stop: Callable[[], None]) -> None:
        """Stop the work by the function `stop` and wait for its end; raise the error of a signal handler, if any."""
        self._is_cancelled = True
        interrupt: BaseException | None = None
        stopped = False
        while self._running:
            try:
                if not stopped:
                    stopped = True
                    stop()
                self.wait(SIGNAL_POLL_SECONDS)
            except BaseException as raised:
                interrupt = raised
        if interrupt is not None:
            raise interrupt

    def result(self) -> Result:
        """Return the result of the work, or raise its error."""
        if self._failure is not None:
            try:
                raise self._failure
            finally:
                self._failure = None  # it would refer to itself by its traceback
        return cast("Result", self._result)


_stack_size_lock = hold_safely(threading.Lock())
"""The lock to hold while the size of new threads' stacks, which the whole process shares, is changed."""


def _renew_stack_size_lock() -> None:
    """Replace the lock in a forked child, because another thread of the parent may have held it."""
    global _stack_size_lock
    _stack_size_lock = hold_safely(threading.Lock())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_stack_size_lock)
