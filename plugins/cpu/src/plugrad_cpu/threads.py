"""Threads that share long calls of compiled functions, which let other threads of Python run."""

from __future__ import annotations

import os
from threading import Lock
from typing import TYPE_CHECKING, Final

from plugrad.extend import BackendUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from concurrent.futures import Future, ThreadPoolExecutor


class ThreadPool:
    """Threads that start when they are first needed."""

    def __init__(self) -> None:
        """Compute in the thread of the caller alone."""
        self.count = 1
        """How many threads compute, that of the caller included."""
        self.reset()

    def reset(self) -> None:
        """Forget the threads: a forked child has none, and another one may have held the lock."""
        self._is_used = Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._size = 0  # for how many threads the pool is

    def run(self, calls: Sequence[Callable[[], object]]) -> None:
        """Make calls, in several threads unless those are busy, and return after the last one."""
        if len(calls) == 1 or self.count == 1 or not self._is_used.acquire(blocking=False):
            for call in calls:
                call()
            return
        try:
            futures = [self._submit(call) for call in calls[1:]]
            calls[0]()
            for future in futures:
                if future is not None:
                    future.result()
        finally:
            self._is_used.release()

    def _submit(self, call: Callable[[], object]) -> Future[object] | None:
        """Return the future of a call; None if it was made here, because the program ends."""
        if self._pool is None or self._size != self.count:
            from concurrent.futures import ThreadPoolExecutor  # not at the top: it takes 5 ms

            self._pool = ThreadPoolExecutor(self.count - 1, thread_name_prefix="plugrad-cpu")
            self._size = self.count
        try:
            return self._pool.submit(call)
        except RuntimeError:
            call()
            return None


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
