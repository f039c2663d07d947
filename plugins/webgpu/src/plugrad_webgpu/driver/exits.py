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

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

PAUSE: Final = 0.25
"""Seconds: far more than the interpreter needs from its last exit function to the end of other threads."""

_is_ending = False


def expect(lock: AbstractContextManager[object]) -> None:
    """Let the calls that hold a lock end, when the interpreter begins to end."""
    atexit.register(_begin, lock, os.getpid())


def _begin(lock: AbstractContextManager[object], process: int) -> None:
    global _is_ending
    if os.getpid() == process:  # in a forked child, nobody would release the lock
        with lock:
            _is_ending = True


def pause() -> None:
    """Let a thread wait if the interpreter has begun to end, except the thread that ends it."""
    if _is_ending and threading.get_ident() != threading.main_thread().ident:
        sleep(PAUSE)
