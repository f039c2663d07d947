"""The thread that stops foreign modules: when they take too long, and on Ctrl-C.

While foreign code runs in the main thread, Python notes a signal but runs no handler. It also writes
the signal's number to a file descriptor, where the watchdog reads it. The watchdog then moves the
epoch of the module's engine on, at which the module traps, and Python runs the handler.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from signal import SIGINT
from time import monotonic
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Generator

    import wasmtime

TICK_SECONDS: Final = 0.05  # seconds between two looks at the clock
IDLE_TICKS: Final = 40  # ticks without a module after which the watchdog sleeps until there is one


@dataclass(eq=False)
class GuardedRun:
    """A running module, and what the watchdog has done to it."""

    engine: wasmtime.Engine
    deadline: float
    is_main: bool
    is_late: bool = False
    is_interrupted: bool = False

    @property
    def is_stopped(self) -> bool:
        """Whether the epoch has moved on."""
        return self.is_late or self.is_interrupted


class Watchdog:
    """A thread, started when it is first needed, that watches all running modules of this process."""

    def __init__(self) -> None:
        """Begin with nothing to watch."""
        self._process = 0
        self._running: list[GuardedRun] = []
        self._sleeps = False
        self._previous = -1  # whoever else wants to know of signals, such as asyncio

    @contextmanager
    def guard(self, engine: wasmtime.Engine, seconds: float) -> Generator[GuardedRun]:
        """Stop the module that runs in this block after some seconds, and on Ctrl-C."""
        if self._process != os.getpid():  # there is no watchdog yet, or only the parent has one
            self._start()
        is_main = threading.current_thread() is threading.main_thread()
        guarded = GuardedRun(engine, monotonic() + seconds, is_main)
        self._running.append(guarded)
        if self._sleeps:
            self._writer.send(b"\0")
        previous = -1
        try:
            if is_main:
                previous = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
                self._previous = previous
            yield guarded
        finally:
            if is_main:
                signal.set_wakeup_fd(previous)
            self._running.remove(guarded)

    def _start(self) -> None:
        self._process = os.getpid()
        self._running = []
        self._sleeps = False
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        threading.Thread(target=self._watch, name="plugrad-wasm watchdog", daemon=True).start()

    def _watch(self) -> None:
        idle = 0
        while True:
            idle = 0 if self._running else idle + 1
            self._sleeps = idle > IDLE_TICKS
            timeout = None if self._sleeps and not self._running else TICK_SECONDS
            if select.select([self._reader], [], [], timeout)[0]:
                self._forward_signals(self._reader.recv(4096))
            now = monotonic()
            for guarded in list(self._running):
                if now > guarded.deadline and not guarded.is_stopped:
                    guarded.is_late = True
                    guarded.engine.increment_epoch()

    def _forward_signals(self, signals: bytes) -> None:
        """Stop the module in the main thread if there was a SIGINT; tell others of all signals."""
        if SIGINT in signals:
            for guarded in list(self._running):
                if guarded.is_main and not guarded.is_stopped:
                    guarded.is_interrupted = True
                    guarded.engine.increment_epoch()
        others = signals.replace(b"\0", b"")
        if others and self._previous != -1:
            with suppress(OSError):
                os.write(self._previous, others)


watchdog: Final = Watchdog()
"""The one of this process."""
