"""Threads that share long calls of compiled functions, which let other threads of Python run.

A pack may have threads of its own that need no interpreter; those of Python make the calls that it does not take.
The caller works, too. Threads that are busy elsewhere come too late and find nothing left to do, so nobody
waits for them. Nobody waits for an object of `threading` or `concurrent.futures` either: Ctrl-C in the
moment when Python code has taken a lock leaves it locked for good. A `SimpleQueue` is compiled code.
"""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import pairwise
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

from plugrad.extend import BackendUnavailable, suppress_failures

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

Call: TypeAlias = tuple[Any, ...]
"""The type of a call: a function, followed by its arguments."""

PARTS_PER_THREAD: Final = 3
"""The number of parts per thread into which work is divided: a thread that starts late does fewer."""
PART_MIN_STEPS: Final = 1 << 16
"""The minimum work of a part, in additions, for which a second thread saves more time than it costs."""
WAIT_POLL_SECONDS: Final = 1.0
"""The seconds that a thread waits before it checks again whether other threads still work."""


class Job:
    """A list of calls that several threads take one by one."""

    __slots__ = ("calls", "ended", "failure", "helping")

    def __init__(self, calls: Sequence[Call]) -> None:
        """Begin with all calls."""
        self.calls: list[Call] = [*reversed(calls)]
        self.failure: BaseException | None = None
        self.helping: list[None] = []  # one for each thread but the caller's
        self.ended: SimpleQueue[None] = SimpleQueue()

    def work(self) -> None:
        """Make the calls of the job until none is left."""
        while True:
            try:
                function, *arguments = self.calls.pop()
            except IndexError:
                return
            function(*arguments)

    def work_as_helper(self) -> None:
        """Make calls in a thread other than the caller's, and hand over a failure to the caller."""
        self.helping.append(None)
        try:
            self.work()
        except BaseException as failure:
            self.failure = failure
            self.calls.clear()
        self.helping.pop()
        self.ended.put(None)

    def finish(self) -> None:
        """Drop the calls that have not begun, and return when all others have ended."""
        self.calls.clear()
        while self.helping:
            with suppress(Empty):
                self.ended.get(timeout=WAIT_POLL_SECONDS)


class CompiledThreads(NamedTuple):
    """Functions of a kernel pack that run calls in threads without the interpreter, and return whether they did."""

    run_calls: Callable[[tuple[Call, ...], int], bool]
    """Makes a list of calls in at most a given number of threads; returns whether it knows the functions."""
    run_in_parts: Callable[..., bool]
    """Divides a call like `ThreadPool.run_in_parts`; returns whether it knows the function."""


class ThreadPool:
    """Threads that start when they are first needed, and go on until the program ends."""

    def __init__(self) -> None:
        """Compute in the thread of the caller alone."""
        self.count = 1
        """How many threads compute, that of the caller included."""
        self.part_min_work = PART_MIN_STEPS
        self.compiled: CompiledThreads | None = None
        """What makes the calls of functions that it knows; a pack may set it."""
        self.reset()

    def count_parts(self, work: int, most: int, per_thread: int = 1) -> int:
        """Return the number of parts for `work`, in additions: at most `most`, and some per thread."""
        if self.count == 1:
            return 1
        return max(1, min(self.count * per_thread, most, work // self.part_min_work))

    def reset(self) -> None:
        """Forget the threads, which a forked child does not have, and the queue that one may have been using."""
        self._is_used = False
        self._jobs: SimpleQueue[Job] = SimpleQueue()
        self._size = 0  # how many threads have started

    def run(self, calls: Sequence[Call]) -> None:
        """Make calls, in several threads unless the threads are busy, and return after the last call.

        An interrupt is raised when the calls that have begun are done. Nothing keeps the calls then.

        Args:
            calls: tuples of a function and its arguments.
        """
        if (
            len(calls) > 1 < self.count
            and self.compiled
            and self.compiled.run_calls(tuple(calls), self.count)
        ):
            return
        if len(calls) == 1 or self.count == 1 or self._is_used:
            for function, *arguments in calls:
                function(*arguments)
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

    def run_in_parts(
        self,
        function: Callable[..., object],
        arguments: tuple[Any, ...],
        argument_steps: tuple[int, ...],
        count_position: int,
        item_count: int,
        *,
        parts: int,
        part_size_multiple: int = 1,
    ) -> None:
        """Call a function for `item_count` items in parts, in several threads, with slices of the arguments.

        Args:
            function: what is called for each part.
            arguments: of the whole call. Arrays that are divided are dense.
            argument_steps: a number for each argument: n for an array with n elements for each `part_size_multiple`
                items, -n if each part has n elements for itself, 0 for what all parts share.
            count_position: which argument is the number of items, or -1; or a vector of integers one of which is that
                number: the first one of a window, the second one of a descriptor. Then only compiled threads divide the
                call, and the arrays may have any strides.
            item_count: the number of items.
            parts: the number of parts.
            part_size_multiple: all parts but the last have a multiple of so many items.
        """
        if self.compiled and self.compiled.run_in_parts(
            function,
            arguments,
            argument_steps,
            count_position,
            item_count,
            part_size_multiple,
            parts,
            self.count,
        ):
            return
        if count_position >= 0 and isinstance(arguments[count_position], np.ndarray):
            function(*arguments)
            return
        flat = [x.reshape(-1) if n else x for x, n in zip(arguments, argument_steps, strict=True)]
        multiple = part_size_multiple
        bounds = [
            *(item_count * i // parts // multiple * multiple for i in range(parts)),
            item_count,
        ]
        calls: list[Call] = []
        for part, (first, last) in enumerate(pairwise(bounds)):
            if first == last:
                continue
            some = [
                x[n * (first // multiple) : n * -(-last // multiple)]
                if n > 0
                else x[-n * part : -n * (part + 1)]
                if n
                else x
                for x, n in zip(flat, argument_steps, strict=True)
            ]
            if count_position >= 0:
                some[count_position] = last - first
            calls.append((function, *some))
        self.run(calls)

    def _ask_for_help(self, job: Job, count: int) -> None:
        """Give a job to `count` threads of the pool, which are started if necessary."""
        # At the end of a program no thread starts; the caller works alone.
        with suppress_failures(RuntimeError):
            while self._size < count:
                Thread(
                    target=_help_with_jobs,
                    args=(self._jobs,),
                    name="plugrad-cpu worker",
                    daemon=True,
                ).start()
                self._size += 1
        for _ in range(count):
            self._jobs.put(job)


def _help_with_jobs(jobs: SimpleQueue[Job]) -> None:
    """Make the calls of one job after another; the function that each thread of the pool runs."""
    while True:
        jobs.get().work_as_helper()


def thread_count(options: Mapping[str, int | None]) -> int:
    """Return the number of threads that the setting `cpu.threads` in `options` asks for.

    Without it, as many as OMP_NUM_THREADS, which also limits those of NumPy's BLAS, or else one for each
    processor that this process may use.

    Raises:
        BackendUnavailable: the setting is not positive.
    """
    asked = options.get("threads")
    if asked is None:
        limit = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
        return int(limit) if limit.isdecimal() and int(limit) else count_processors()
    if asked < 1:
        raise BackendUnavailable(
            f"the cpu backend cannot compute in {asked} threads; set cpu.threads, or "
            "PLUGRAD_CPU_THREADS, to 1 or more"
        )
    return asked


def count_processors() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


thread_pool: Final = ThreadPool()
"""The threads of this process."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=thread_pool.reset)
