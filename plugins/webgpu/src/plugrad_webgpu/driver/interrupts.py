"""Sections that Ctrl-C may not cut in two.

Python raises `KeyboardInterrupt` after any call in the main thread. Between the end of a batch and its
submission, that would lose all work that was recorded, among it the values of tensors that live on.
"""

# `_signal` has no type stubs.
# pyright: reportMissingImports=false, reportUnknownMemberType=false

from __future__ import annotations

# The functions of `signal` turn numbers into members of enumerations and back. That takes ten times as long as the
# calls themselves, and every read-back makes several.
import _signal
import threading
from signal import SIGINT
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from types import FrameType, TracebackType


class Uninterruptible:
    """A block during which interrupts wait: the last one is handled at the end of the block.

    Blocks may be nested, and other threads, which Python never interrupts, may enter them as well.
    """

    def __init__(self) -> None:
        """Begin outside any block."""
        self._depth = 0
        self._handler: Any = None
        self._waiting: tuple[int, FrameType | None] | None = None

    def __enter__(self) -> None:
        """Let interrupts wait from here on."""
        if threading.get_ident() != threading.main_thread().ident:
            return
        if self._depth == 0:
            self._waiting = None
            self._handler = _signal.getsignal(SIGINT)
            if callable(self._handler):
                _signal.signal(SIGINT, self._wait)  # from here on, no call is interrupted
        self._depth += 1

    @property
    def must_end(self) -> bool:
        """Whether an interrupt waits for the end of the block: what takes long stops for it.

        An inner block may go on; its end is not the end of the wait.
        """
        if self._waiting is None or self._depth != 1:
            return False
        return threading.get_ident() == threading.main_thread().ident

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Handle the interrupt that waits."""
        if threading.get_ident() != threading.main_thread().ident:
            return
        self._depth -= 1
        if self._depth == 0 and callable(self._handler):
            _signal.signal(SIGINT, self._handler)
            if self._waiting is not None:
                self._handler(*self._waiting)

    def _wait(self, number: int, frame: FrameType | None) -> None:
        self._waiting = number, frame


uninterruptible: Final = Uninterruptible()
"""The one object of this class, because a process has one handler of interrupts."""
