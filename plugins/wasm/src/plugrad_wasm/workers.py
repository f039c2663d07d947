"""Threads that share the calls of long work; each has an instance of the module of its own.

The caller works, too. Between two calls, each thread looks whether the job is over, so an interrupt
in the caller stops all of them. What the calls read and write stays alive until the last one ends,
also if the caller cannot wait for it, and no longer. Threads that are busy elsewhere come too late and
find nothing left to do, so nobody waits for them, and the job that they find keeps nothing alive.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final

from plugrad.extend import suppress_failures

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from plugrad_wasm.runtime import Call, Chain, Located

POLL_SECONDS: Final = 1.0  # seconds between two looks whether others still work


class Job:
    """Chains of calls of one function, from which each thread takes the next one."""

    __slots__ = ("chains", "ended", "export", "failure", "held", "is_over", "running", "scratch")

    def __init__(
        self,
        export: str | Sequence[Call],
        chains: Sequence[Chain],
        held: Sequence[object],
        scratch: Sequence[Located],
    ) -> None:
        """Begin with all chains; `Workers.perform` explains the arguments."""
        self.export: str | list[Call] = export if isinstance(export, str) else [*export]
        self.chains: list[Chain] = [*reversed(chains)]
        self.held: Sequence[object] = (*held, *scratch)
        self.scratch: list[int] = [block.address for block in scratch]
        self.is_over: bool = False
        self.failure: BaseException | None = None
        self.running: list[Sequence[object]] = []  # what the threads that help need, once for each
        self.ended: SimpleQueue[None] = SimpleQueue()

    def work(self, calls: Mapping[str, Call]) -> None:
        """Run chains until none is left or the job is cancelled."""
        run = calls[self.export] if isinstance(self.export, str) else self.export.pop()
        scratch = [self.scratch.pop()] if self.scratch else []
        while not self.is_over:
            try:
                chain = self.chains.pop()
            except IndexError:
                return
            for arguments in chain:
                if self.is_over:
                    return
                run(*arguments, *scratch)

    def help(self, calls: Mapping[str, Call]) -> None:
        """Run chains in a helper thread; a failure is passed to the caller's thread."""
        self.running.append(self.held)
        try:
            self.work(calls)
        except BaseException as failure:
            self.failure = failure
            self.is_over = True
        self.running.pop()
        self.ended.put(None)

    def finish(self) -> None:
        """Wait until no helper thread works on the job or refers to it."""
        self.held = ()
        while self.running:
            with suppress(Empty):
                self.ended.get(timeout=POLL_SECONDS)


class Worker:
    """A thread with its own instance, which ends when this object is deleted."""

    __slots__ = ("__del__", "jobs")

    def __init__(self, calls: Mapping[str, Call]) -> None:
        """Start the thread."""
        self.jobs: SimpleQueue[Job | None] = SimpleQueue()
        self.__del__: Callable[[], None] = partial(self.jobs.put, None)
        arguments = self.jobs, calls
        threading.Thread(
            target=serve, args=arguments, name="plugrad-wasm worker", daemon=True
        ).start()


def serve(jobs: SimpleQueue[Job | None], calls: Mapping[str, Call]) -> None:
    """Help with jobs from a queue, one after another."""
    while (job := jobs.get()) is not None:
        job.help(calls)
        del job  # its arrays must not wait for the next one


class Workers:
    """The helper threads of a store, started on first use."""

    def __init__(
        self,
        threads: int,
        calls: Mapping[str, Call],
        new_calls: Callable[[], Mapping[str, Call]],
        lock: AbstractContextManager[object],
    ) -> None:
        """Compute in at most `threads` threads, that of the caller included.

        Args:
            threads: their number.
            calls: the exports for the caller.
            new_calls: makes the exports for another thread.
            lock: is held while threads start.
        """
        self.threads = threads
        self._calls = calls
        self._new_calls = new_calls
        self._lock = lock
        self._process = os.getpid()
        self._workers: list[Worker] = []

    def perform(
        self,
        export: str | Sequence[Call],
        chains: Sequence[Chain],
        held: Sequence[object],
        scratch: Sequence[Located] = (),
    ) -> None:
        """Run all chains of calls, in several threads if there are several chains.

        Args:
            export: the name of the function, or functions that do the same, one for each thread.
            chains: each is made by one thread, in order. They must not write to the same places.
            held: what must not be released before the last call ends.
            scratch: memory whose address is the last argument of each call, for each thread; it is held, too.
        """
        job = Job(export, chains, held, scratch)
        try:
            for worker in self._helpers(min(len(chains), self.threads) - 1):
                worker.jobs.put(job)
            job.work(self._calls)
            job.finish()
        except BaseException:
            job.is_over = True
            job.finish()
            raise
        failure, job.failure = job.failure, None
        if failure is not None:
            try:
                raise failure
            finally:
                del failure  # its traceback has this frame, and so the arrays of the callers

    def _helpers(self, count: int) -> list[Worker]:
        """Return up to `count` workers, starting them if necessary."""
        if self._process != os.getpid():  # a child has none of the threads of its parent
            self._process, self._workers = os.getpid(), []
        if len(self._workers) < count:
            # At the end of a program no thread can start; the caller then works alone.
            with self._lock, suppress_failures(RuntimeError):
                while len(self._workers) < count:
                    self._workers.append(Worker(self._new_calls()))
        return self._workers[:count] if count > 0 else []
