"""Threads that share long calls of compiled functions, which let other threads of Python run.

The caller works, too. Threads that are busy elsewhere come too late and find nothing left to do, so nobody
waits for them. Nobody waits for an object of `threading` or `concurrent.futures` either: Ctrl-C in the
moment when Python code has taken a lock leaves it locked for good. A `SimpleQueue` is compiled code.
"""

from __future__ import annotations

import os
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Final

from plugrad.extend import BackendUnavailable, suppress_failures

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

PART_MIN_WORK: Final = 1 << 17
"""The minimum work of a part, in steps such as additions: then a second thread saves more than it costs."""
POLL_SECONDS: Final = 1.0  # seconds between two looks whether others still work


class Job:
    """Calls, of which each thread makes the next one."""

    __slots__ = ("calls", "ended", "failure", "helping")

    def __init__(self, calls: Sequence[Callable[[], object]]) -> None:
        """Begin with all calls."""
        self.calls: list[Callable[[], object]] = [*reversed(calls)]
        self.failure: BaseException | None = None
        self.helping: list[None] = []  # one for each thread but the caller's
        self.ended: SimpleQueue[None] = SimpleQueue()

    def work(self) -> None:
        """Make calls until none is left."""
        while True:
            try:
                call = self.calls.pop()
            except IndexError:
                return
            call()

    def help(self) -> None:
        """Work on it in another thread than the caller's, which learns of a failure."""
        self.helping.append(None)
        try:
            self.work()
        except BaseException as failure:
            self.failure = failure
            self.calls.clear()
        self.helping.pop()
        self.ended.put(None)

    def finish(self) -> None:
        """Begin no other call, and return when those that have begun are done."""
        self.calls.clear()
        while self.helping:
            with suppress(Empty):
                self.ended.get(timeout=POLL_SECONDS)


class ThreadPool:
    """Threads that start when they are first needed, and go on until the program ends."""

    def __init__(self) -> None:
        """Compute in the thread of the caller alone."""
        self.count = 1
        """How many threads compute, that of the caller included."""
        self.part_min_work = PART_MIN_WORK
        self.reset()

    def count_parts(self, work: int, most: int) -> int:
        """Return into how many parts to divide work of so many steps, which has at most `most` parts."""
        return max(1, min(self.count, most, work // self.part_min_work))

    def reset(self) -> None:
        """Forget the threads: a forked child has none, and another one may have been using the queue."""
        self._is_used = False
        self._jobs: SimpleQueue[Job] = SimpleQueue()
        self._size = 0  # how many threads have started

    def run(self, calls: Sequence[Callable[[], object]]) -> None:
        """Make calls, in several threads unless those are busy, and return after the last one.

        An interrupt is raised when the calls that have begun are done. Nothing keeps the calls then.
        """
        if len(calls) == 1 or self.count == 1 or self._is_used:
            for call in calls:
                call()
            return
        self._is_used = True  # no other thread has run, and no interrupt was raised, since the test
        job = None
        try:
            job = Job(calls)
            self._ask_for_help(job, min(len(calls), self.count) - 1)
            job.work()
            job.finish()
        except BaseException:
            if job is not None:
                job.finish()
            raise
        finally:
            self._is_used = False
        failure, job.failure = job.failure, None
        if failure is not None:
            try:
                raise failure
            finally:
                del failure  # its traceback has this frame, and so the arrays of the callers

    def _ask_for_help(self, job: Job, count: int) -> None:
        """Give a job to so many threads."""
        # At the end of a program no thread starts; the caller works alone.
        with suppress_failures(RuntimeError):
            while self._size < count:
                Thread(
                    target=_serve, args=(self._jobs,), name="plugrad-cpu worker", daemon=True
                ).start()
                self._size += 1
        for _ in range(count):
            self._jobs.put(job)


def _serve(jobs: SimpleQueue[Job]) -> None:
    """Help with one job after the other."""
    while True:
        jobs.get().help()


def thread_count(options: Mapping[str, int | None]) -> int:
    """Return the number of threads from the setting `cpu.threads`.

    Without it, as many as OMP_NUM_THREADS, which also limits those of NumPy's BLAS, or else one for each
    processor that this process may use.

    Raises:
        BackendUnavailable: the setting is not positive.
    """
    asked = options.get("threads")
    if asked is None:
        limit = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
        return int(limit) if limit.isdecimal() and int(limit) else _count_processors()
    if asked < 1:
        raise BackendUnavailable(
            f"the cpu backend cannot compute in {asked} threads; set cpu.threads, or "
            "PLUGRAD_CPU_THREADS, to 1 or more"
        )
    return asked


def _count_processors() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


thread_pool: Final = ThreadPool()
"""The threads of this process."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=thread_pool.reset)
