"""Exceptions that come from outside the code in which they appear: Ctrl-C, handlers of signals, other threads.

They pass through plugrad unchanged. They are no failures of the backend or the plugin that was running.
"""

from __future__ import annotations

import sys
from collections import deque
from functools import partial
from itertools import starmap
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from types import FrameType, TracebackType

_RAISE_INSTRUCTION_NAMES: Final = ("RAISE_VARARGS", "RERAISE")
"""The instructions of a ``raise``, and of the end of a ``finally`` or ``except``."""
_SIGNAL_CHECKING_INSTRUCTION_NAMES: Final = ("JUMP_BACKWARD", "RESUME")
"""Instructions that raise nothing themselves; the interpreter looks there for what came from outside."""
VARARGS_CODE_FLAG: Final = 4
"""The flag of functions that take any number of arguments; `inspect` takes long to import."""

run_uninterrupted: Final = partial(deque[object], maxlen=0)
"""Run an iterator to its end, between two instructions of Python if it only calls functions in C, as `map` does.

No handler of a signal and no exception of another thread comes before it has ended: its effects are all there, or none.
"""


class _SafeLock:
    """A lock whose ``with`` block no interruption leaves locked; see `hold_safely`."""

    __slots__ = ("__exit__", "_acquire")

    def __init__(self, lock: Any) -> None:
        self._acquire = lock.acquire
        self.__exit__ = (
            lock.__exit__
        )  # a function in C: nothing comes before it has released the lock

    def __enter__(self) -> None:
        """Acquire the lock by an instruction after which Python runs no signal handler."""
        taking = starmap(self._acquire, ((),))
        _ = [*taking]


def hold_safely(lock: Any) -> AbstractContextManager[object]:
    """Return a context manager that holds a lock of `threading` and releases it, whatever interrupts the block.

    >>> from threading import Lock
    >>> from plugrad.extend import hold_safely
    >>> lock = Lock()
    >>> held = hold_safely(lock)
    >>> with held:
    ...     lock.locked()
    True

    From Python 3.14 on, the interpreter looks for signals between the function that takes a lock and the block. What
    the handler of Ctrl-C raises there would leave the lock locked for ever. Before, the lock itself is enough.
    """
    return (
        cast("AbstractContextManager[object]", _SafeLock(lock))
        if _CHECKS_SIGNALS_AFTER_ENTER
        else lock
    )


_CHECKS_SIGNALS_AFTER_ENTER: Final = sys.version_info >= (3, 14)
"""Whether this Python may call a handler of signals between a lock's ``__enter__`` and the block."""


def is_interruption(error: BaseException) -> bool:
    """Return whether an exception came from outside the code in which it appeared, so that no code may suppress it.

    >>> import signal
    >>> from plugrad.extend import is_interruption
    >>> def stop(number, frame):
    ...     raise TimeoutError
    >>> before = signal.signal(signal.SIGINT, stop)
    >>> try:
    ...     signal.raise_signal(signal.SIGINT)
    ... except Exception as error:
    ...     print(is_interruption(error))
    True
    >>> _ = signal.signal(signal.SIGINT, before)

    Of these it is true:

    * `KeyboardInterrupt`;
    * `GeneratorExit`, by which the interpreter closes a suspended generator, such as a block that was never entered;
    * what a function raises that received the frame of its caller: the interpreter calls handlers of signals and
      trace functions so;
    * what appears at an instruction that does not raise, as what another thread raises here with
      ``PyThreadState_SetAsyncExc``. During a call of compiled code, only an exception whose class no compiled code
      has can be told from a failure: one of a program or of a package without compiled modules.
    """
    if was_raised_by_signal_handler(error):
        return True
    trace = error.__traceback__
    if trace is None:
        return False
    while trace.tb_next is not None:
        trace = trace.tb_next
    instruction = _instruction_at(trace)
    if isinstance(error, GeneratorExit):
        return instruction not in _RAISE_INSTRUCTION_NAMES
    if instruction in _SIGNAL_CHECKING_INSTRUCTION_NAMES:
        return True
    return instruction not in (*_RAISE_INSTRUCTION_NAMES, "") and not _may_be_compiled(type(error))


class suppress_failures:  # noqa: N801 - it is called, as contextlib.suppress is
    """Suppress exceptions of some classes, as `contextlib.suppress` does, except those raised by a handler of signals.

    Handlers of alarms mostly raise `TimeoutError`, which is an `OSError`.

    >>> import os
    >>> from plugrad.extend import suppress_failures
    >>> with suppress_failures(OSError):
    ...     os.remove("/no/such/file")
    """

    __slots__ = ("_kinds",)

    def __init__(self, *kinds: type[BaseException]) -> None:
        self._kinds = kinds

    def __enter__(self) -> None:
        """Do nothing: the block starts at once."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        """Return whether the exception is suppressed."""
        return isinstance(error, self._kinds) and not is_interruption(error)


def was_raised_by_signal_handler(error: BaseException) -> bool:
    """Return whether an exception came from a handler of signals, or from a trace function."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        if _has_caller(trace.tb_next.tb_frame, trace.tb_frame):
            return True
        trace = trace.tb_next
    return isinstance(error, KeyboardInterrupt)


def _has_caller(frame: FrameType, caller: FrameType) -> bool:
    """Return whether one of a function's arguments is its caller's frame, as signal handlers get it."""
    code, variables = frame.f_code, frame.f_locals
    count = code.co_argcount
    names = code.co_varnames[:count]
    if code.co_flags & VARARGS_CODE_FLAG:
        names += (code.co_varnames[count + code.co_kwonlyargcount],)
    values = [variables.get(name) for name in names]
    return any(
        value is caller or (type(value) is tuple and any(item is caller for item in value))
        for value in values
    )


def _instruction_at(traceback: TracebackType) -> str:
    """Return the name of the instruction at which an exception appeared, or "" if it was no Python code."""
    from opcode import opname  # rarely needed

    code = traceback.tb_frame.f_code.co_code
    if not 0 <= traceback.tb_lasti < len(code):
        return ""
    name = opname[code[traceback.tb_lasti]]
    is_generators = name == "RESUME" and code[traceback.tb_lasti + 1] != 0
    # Exceptions may be thrown into a generator there; into that of an expression, which nobody holds, hardly.
    if is_generators and traceback.tb_frame.f_code.co_name != "<genexpr>":
        return ""
    return name


def _may_be_compiled(exception_class: type[BaseException]) -> bool:
    """Return whether compiled code may raise exceptions of a class."""
    package = exception_class.__module__.partition(".")[0]
    if package == "builtins" or package in sys.stdlib_module_names:
        return True
    return any(
        name.partition(".")[0] == package
        and not (getattr(module, "__file__", None) or ".py").endswith((".py", ".pyc"))
        for name, module in list(sys.modules.items())
    )
