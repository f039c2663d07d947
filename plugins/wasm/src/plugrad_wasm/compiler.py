"""The compiler of other packages' modules, in a process of its own, which can be stopped at any time."""

from __future__ import annotations

import atexit
import os
import subprocess
from multiprocessing import spawn
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Final

import wasmtime

from plugrad.extend import KernelFailed, is_interruption, suppress_failures
from plugrad_wasm.compile_server import COMPILED_MESSAGE, LENGTH_STRUCT, READY_MESSAGE
from plugrad_wasm.stoppable import run_stoppable

if TYPE_CHECKING:
    from typing import IO

MAX_PROCESS_START_SECONDS: Final = 60.0
"""The maximum seconds that the process takes to start."""
MAX_PROCESS_MEMORY_BYTES: Final = 4 << 30
"""The maximum size of the process's address space, in bytes."""
MAX_IDLE_PROCESSES: Final = 1
"""The maximum number of processes that wait for the next module."""


class ModuleCompilationError(Exception):
    """The error for a module that cannot be compiled; the message says why."""


def take_idle_compiler() -> CompilerProcess:
    """Return a compiler process that waits for a module, or start one.

    Raises:
        KernelFailed: none can be started.
    """
    while _idle_compilers:
        compiler = _idle_compilers.pop()
        if compiler.process_id == os.getpid():
            return compiler
        compiler.close()  # it is a parent's
    return CompilerProcess()


class CompilerProcess:
    """A process that runs compile_server.py and compiles one module at a time."""

    def __init__(self) -> None:
        """Start the process, and wait until it has started.

        Raises:
            KernelFailed: that is not possible.
        """
        self.process_id: int = os.getpid()
        script = Path(__file__).with_name("compile_server.py")
        folder = Path(wasmtime.__file__).parents[1]
        executable = os.fsdecode(spawn.get_executable() or "python")
        try:
            self._process = subprocess.Popen(
                [executable, "-I", "-S", script, folder, str(MAX_PROCESS_MEMORY_BYTES)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C in the terminal is for this process
            )
        except OSError as error:
            if is_interruption(error):
                raise
            raise KernelFailed(
                f"wasm: {executable!r} cannot be started to compile a module: {error}; a program that embeds Python "
                "names an interpreter by multiprocessing.set_executable"
            ) from error
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests: IO[bytes] = self._process.stdin
        self._answers: IO[bytes] = self._process.stdout

        begun = b""
        with suppress_failures(TimeoutError):
            deadline = monotonic() + MAX_PROCESS_START_SECONDS
            begun = run_stoppable(lambda: self._answers.read(1), self.stop, deadline)
        if begun != READY_MESSAGE:
            raise KernelFailed(
                f"wasm: the process that compiles modules did not start; it runs {executable!r} with at most "
                f"{MAX_PROCESS_MEMORY_BYTES >> 30} GB of addresses"
            )

    def compile(self, source: bytes, deadline: float) -> bytes:
        """Return the machine code of a module in text or binary form; raise after the deadline, a monotonic time.

        Raises:
            ModuleCompilationError: it is not valid, or needs too much memory.
            TimeoutError: that takes longer than until the deadline, by `time.monotonic`.
        """
        try:
            kind, answer = run_stoppable(lambda: self._request(source), self.stop, deadline)
        except BaseException:
            self.close()
            raise
        if len(_idle_compilers) < MAX_IDLE_PROCESSES:
            _idle_compilers.append(self)
        else:
            self.close()
        if kind != COMPILED_MESSAGE:
            raise ModuleCompilationError(answer.decode(errors="replace"))
        return answer

    def _request(self, source: bytes) -> tuple[bytes, bytes]:
        """Send a module to the process, and return the first byte and the rest of its answer.

        Raises:
            ModuleCompilationError: the process ended.
        """
        with suppress_failures(OSError):
            self._requests.write(LENGTH_STRUCT.pack(len(source)) + source)
            self._requests.flush()
            kind, head = self._answers.read(1), self._answers.read(LENGTH_STRUCT.size)
            if len(head) == LENGTH_STRUCT.size:
                (size,) = LENGTH_STRUCT.unpack(head)
                answer = self._answers.read(size)
                if len(answer) == size:
                    return kind, answer
        raise ModuleCompilationError(
            f"the compiler failed; perhaps it needs more than {MAX_PROCESS_MEMORY_BYTES >> 30} GB of memory"
        )

    def stop(self) -> None:
        """Kill the process."""
        self._process.kill()

    def close(self) -> None:
        """End the compiler process, unless this is a forked child that does not own it."""
        if self.process_id == os.getpid():
            self._process.kill()
            self._process.wait()
        for pipe in (self._requests, self._answers):
            with suppress_failures(OSError):
                pipe.close()


_idle_compilers: Final[list[CompilerProcess]] = []
"""The processes that wait for a module."""


@atexit.register
def _close_idle_compilers() -> None:
    """End the processes that wait for a module."""
    while _idle_compilers:
        _idle_compilers.pop().close()
