"""Threads that share the calls of long work; each thread has an instance of the module.

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

    from plugrad_wasm.runtime import CallChain, ExportFunction, HasMemoryAddress

HELPER_POLL_SECONDS: Final = 1.0
"""The seconds between two checks whether helper threads still work."""


class ChainJob:
    """A list of call chains of one function, from which each thread takes the next one."""

    __slots__ = ("chains", "ended", "export", "failure", "held", "is_over", "running", "scratch")

    def __init__(
        self,
        export: str | Sequence[ExportFunction],
        chains: Sequence[CallChain],
        held: Sequence[object],
        scratch: Sequence[HasMemoryAddress],
    ) -> None:
        """Begin with all chains; `Workers.run_in_threads` explains the arguments."""
        self.export: str | list[ExportFunction] = export if isinstance(export, str) else [*export]
        self.chains: list[CallChain] = [*reversed(chains)]
        self.held: Sequence[object] = (*held, *scratch)
        self.scratch: list[int] = [block.address for block in scratch]
        self.is_over: bool = False
        self.failure: BaseException | None = None
        self.running: list[Sequence[object]] = []  # what the threads that help need, once for each
        self.ended: SimpleQueue[None] = SimpleQueue()

    def run_chains(self, exports: Mapping[str, ExportFunction]) -> None:
        """Run chains with the exports of this thread until none is left or the job is cancelled."""
        run = exports[self.export] if isinstance(self.export, str) else self.export.pop()
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

    def run_chains_as_helper(self, exports: Mapping[str, ExportFunction]) -> None:
        """Run chains in a helper thread; a failure is passed to the caller's thread."""
        self.running.append(self.held)
        try:
            self.run_chains(exports)
        except BaseException as failure:
            self.failure = failure
            self.is_over = True
        self.running.pop()
        self.ended.put(None)

    def wait_for_helpers(self) -> None:
        """Wait until no helper thread works on the job or refers to it."""
        self.held = ()
        while self.running:
            with suppress(Empty):
                self.ended.get(timeout=HELPER_POLL_SECONDS)


class HelperThread:
    """A thread with a WebAssembly instance of its own, which makes calls for others; it ends with this object."""

    __slots__ = ("__del__", "jobs")

    def __init__(self, calls: Mapping[str, ExportFunction]) -> None:
        """Start the thread."""
        self.jobs: SimpleQueue[ChainJob | None] = SimpleQueue()
        self.__del__: Callable[[], None] = partial(self.jobs.put, None)
        arguments = self.jobs, calls
        threading.Thread(
            target=serve_jobs, args=arguments, name="plugrad-wasm worker", daemon=True
        ).start()


def serve_jobs(jobs: SimpleQueue[ChainJob | None], exports: Mapping[str, ExportFunction]) -> None:
    """Run jobs from a queue, one after another, in a helper thread."""
    while (job := jobs.get()) is not None:
        job.run_chains_as_helper(exports)
        del job  # its arrays must not wait for the next one


class Workers:
    """The helper threads of a store, started on first use."""

    def __init__(
        self,
        threads: int,
        calls: Mapping[str, ExportFunction],
        new_calls: Callable[[], Mapping[str, ExportFunction]],
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
        self._workers: list[HelperThread] = []

    def run_in_threads(
        self,
        export: str | Sequence[ExportFunction],
        chains: Sequence[CallChain],
        kept_objects: Sequence[object],
        scratch_blocks: Sequence[HasMemoryAddress] = (),
    ) -> None:
        """Run all chains of calls, in several threads if there are several chains.

        Args:
            export: the name of the function, or functions that do the same, one for each thread.
            chains: each is made by one thread, in order. They must not write to the same places.
            kept_objects: what must not be released before the last call ends.
            scratch_blocks: memory whose address is the last argument of each call, for each thread; it is held, too.
        """
        job = ChainJob(export, chains, kept_objects, scratch_blocks)
        try:
            for worker in self._take_helpers(min(len(chains), self.threads) - 1):
                worker.jobs.put(job)
            job.run_chains(self._calls)
            job.wait_for_helpers()
        except BaseException:
            job.is_over = True
            job.wait_for_helpers()
            raise
        failure, job.failure = job.failure, None
        if failure is not None:
            try:
                raise failure
            finally:
                del failure  # its traceback has this frame, and so the arrays of the callers

    def _take_helpers(self, max_helpers: int) -> list[HelperThread]:
        """Return up to `max_helpers` helper threads, starting them if necessary."""
        if self._process != os.getpid():  # a child has none of the threads of its parent
            self._process, self._workers = os.getpid(), []
        if len(self._workers) < max_helpers:
            # At the end of a program no thread can start; the caller then works alone.
            with self._lock, suppress_failures(RuntimeError):
                while len(self._workers) < max_helpers:
                    self._workers.append(HelperThread(self._new_calls()))
        return self._workers[:max_helpers] if max_helpers > 0 else []
