"""The end of the interpreter, while daemon threads may still compute.

Python ends a daemon thread where it next asks for the interpreter's lock. In a callback of wgpu, that
would unwind the frames of the library, which aborts the process. So from the moment the interpreter
begins to end, other threads wait before they call what may call back. They do not wait for ever,
because a program may join them in a function that it gave to `atexit`.
"""

from __future__ import annotations

import atexit
import os
import threading
from time import sleep
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

EXIT_POLL_SECONDS: Final = 0.25
"""How long a thread sleeps at exit: far longer than the interpreter takes to end the process."""

_is_exiting = False
"""Whether the interpreter has begun to exit."""


def register_exit_wait(lock: AbstractContextManager[object]) -> None:
    """Register a lock: the exit of the interpreter waits for calls that hold it."""
    _processes_by_lock[lock] = os.getpid()


_processes_by_lock: Final[WeakKeyDictionary[AbstractContextManager[object], int]] = (
    WeakKeyDictionary()
)
"""The id of the process that has registered each lock."""


@atexit.register
def _wait_for_locks_at_exit() -> None:
    """Wait for the calls that hold registered locks of this process, and stop later ones."""
    global _is_exiting
    for lock, process in list(_processes_by_lock.items()):
        if os.getpid() == process:  # in a forked child, nobody would release the lock
            with lock:
                _is_exiting = True


def pause_thread_if_exiting() -> None:
    """Pause a thread forever if the interpreter is exiting, except the exiting thread."""
    if _is_exiting and threading.get_ident() != threading.main_thread().ident:
        sleep(EXIT_POLL_SECONDS)
