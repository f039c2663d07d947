"""Sections that no handler of a signal may cut in two.

Python calls handlers after any call in the main thread, and what they raise, such as `KeyboardInterrupt`, comes out
there. Between the end of a batch and its submission, that would lose all work that was recorded, among it the
values of tensors that live on. In a callback of the library it would be lost itself.
"""

# `_signal` has no type stubs.
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

# The functions of `signal` turn numbers into members of enumerations and back. That takes ten times as long as the
# calls themselves, and every read-back makes several.
import _signal
import sys
import threading
from typing import TYPE_CHECKING, Any, Final

from plugrad.extend import is_interruption

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType, TracebackType

DEFERRED_SIGNALS: Final[list[int]] = sorted(_signal.valid_signals())
"""The numbers of the signals that an uninterruptible block holds back."""


class Uninterruptible:
    """A block during which signals are held back; their handlers run at its end, once for each signal.

    Blocks may be nested, and other threads, in which Python calls no handlers, may enter them as well.
    """

    def __init__(self) -> None:
        """Begin outside any block."""
        self._depth = 0
        self._found: list[Any] = []
        self._places: list[int] = []
        """Where in `DEFERRED_SIGNALS` those with a handler stand; most blocks find the same."""
        self._replaced: dict[int, Any] = {}
        self._waiting: dict[int, Any] = {}
        self._cut_threads: set[int] = set()
        """The threads in which an exception from outside came out of a block."""

    def __enter__(self) -> None:
        """Hold signals back from here on."""
        if threading.get_ident() != threading.main_thread().ident:
            return
        if self._depth == 0:
            found = list(map(_signal.getsignal, DEFERRED_SIGNALS))
            if found != self._found:
                self._places = [i for i, handler in enumerate(found) if callable(handler)]
                self._found = found
            try:
                for i in self._places:
                    self._replaced[DEFERRED_SIGNALS[i]] = found[i]
                    _signal.signal(DEFERRED_SIGNALS[i], self._defer_signal)
            except BaseException:  # raised by a handler that was not replaced yet
                self._run_deferred_handlers()
                raise
        self._depth += 1

    def reset(self) -> bool:
        """Leave all uninterruptible blocks of this thread that an exception cut off; return whether there was one."""
        thread = threading.get_ident()
        was_cut = thread in self._cut_threads
        self._cut_threads.discard(thread)
        if thread == threading.main_thread().ident and self._depth:
            was_cut, self._depth = True, 0
            self._run_deferred_handlers()
        return was_cut

    @property
    def has_deferred_signal(self) -> bool:
        """Whether a signal is held back, so that long work should stop.

        An inner block may go on; its end is not the end of the wait.
        """
        if not self._waiting or self._depth != 1:
            return False
        return threading.get_ident() == threading.main_thread().ident

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Run the handlers of held-back signals; record whether an exception from outside ends the block."""
        # Ctrl-C waits as all signals do. What records and uploads can begin again after any line.
        # Errors of wgpu look as if they came from outside: they carry the traceback of the call, not of the `raise`.
        # They are known by their module: who imports this package need not import wgpu.
        is_of_wgpu = type(error).__module__.partition(".")[0] == "wgpu"
        if isinstance(error, Exception) and not is_of_wgpu and is_interruption(error):
            self._cut_threads.add(threading.get_ident())
        if threading.get_ident() != threading.main_thread().ident:
            return
        self._depth -= 1
        if self._depth == 0:
            self._run_deferred_handlers()

    def _run_deferred_handlers(self) -> None:
        """Restore the handlers, and run those of held-back signals.

        Signals that arrive meanwhile wait as well, until the last handler is back. Nothing is called between the two
        halves of the assignment, so none is added to what is handled.
        """
        try:
            self._restore_handlers()
        finally:
            waiting, self._waiting = self._waiting, {}
            _run_signal_handlers(iter(waiting.items()))

    def _defer_signal(self, signal_number: int, frame: FrameType | None) -> None:
        """Remember a signal and its handler, in whose place Python calls this method."""
        self._waiting[signal_number] = self._replaced[signal_number]

    def _restore_handlers(self) -> None:
        """Restore the handlers, even if one of them raises meanwhile."""
        try:
            for number, handler in list(self._replaced.items()):
                _signal.signal(number, handler)
                del self._replaced[number]
        finally:
            if self._replaced:
                self._restore_handlers()


def _run_signal_handlers(deferred_signals: Iterator[tuple[int, Any]]) -> None:
    """Run the handlers of signals that were held back, even if one of them raises."""
    for number, handler in deferred_signals:
        try:
            # As the interpreter does: with the frame that it interrupts.
            handler(number, sys._getframe())  # pyright: ignore[reportPrivateUsage]
        finally:
            _run_signal_handlers(deferred_signals)


uninterruptible: Final = Uninterruptible()
"""The only instance of the class, because a process has one handler for each signal."""
