"""Prefetching: a thread reads the items of an iterable ahead of the program that uses them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sized
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Final

from plugrad.extend import ArgumentError, hold_safely
from plugrad_nn.arguments import check_integer

if TYPE_CHECKING:
    from collections.abc import Generator

THREAD_JOIN_TIMEOUT_SECONDS: Final = 1.0
"""How long a reader that ends waits for its thread, which may itself wait for data."""


def prefetch(iterable: Iterable[Any], size: int = 2) -> Iterable[Any]:
    """Return an iterable of the same items, which a thread produces ahead of time.

    >>> [x * 10 for x in nn.prefetch(range(3))]
    [0, 10, 20]

    It is for batches that take time to be read or made: ``nn.fit(model, params, nn.prefetch(loader), …)``. Where an
    iterable begins anew, its result does too, with a thread of its own; a generator goes on where it was.

    An error in the thread is raised where its item would have come. The thread ends with the items, or when the loop
    over them does, as by an error or an interrupt; it is a daemon, so that a program may end before. It computes with
    the backend and the settings that are active where the loop begins.

    Args:
        iterable: what is to be read.
        size: how many items may be ready, 1 or more.

    Raises:
        ArgumentError, ArgumentValueError: an argument is none of the above.
    """
    if not isinstance(iterable, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance] - people pass anything
        raise ArgumentError(f"prefetch: {iterable!r:.80} must be an iterable")
    size = check_integer("prefetch", "size", size, 1)
    if isinstance(iterable, Iterator):
        return _read_ahead(iterable, size)
    return (
        _SizedPrefetchedIterable(iterable, size)
        if isinstance(iterable, Sized)
        else _PrefetchedIterable(iterable, size)
    )


class _PrefetchedIterable(Iterable[Any]):
    """An iterable that starts anew, in its own thread, for each iteration."""

    def __init__(self, iterable: Iterable[Any], size: int) -> None:
        self.iterable = iterable
        self.size = size

    def __iter__(self) -> Iterator[Any]:
        return _read_ahead(iter(self.iterable), self.size)


class _SizedPrefetchedIterable(_PrefetchedIterable):
    """A prefetched iterable whose length is known."""

    def __len__(self) -> int:
        return len(self.iterable)  # pyright: ignore[reportArgumentType] - it is sized


def _read_ahead(items: Iterator[Any], buffer_size: int) -> Generator[Any]:
    """Yield the items of an iterator, which a thread reads."""
    buffer = _ClosableQueue(buffer_size)
    run = copy_context().run
    thread = threading.Thread(target=run, args=(buffer.fill, items), name="prefetch", daemon=True)
    thread.start()
    try:
        yield from buffer
    finally:
        buffer.close()
        thread.join(THREAD_JOIN_TIMEOUT_SECONDS)


class _ClosableQueue:
    """A queue between two threads, which either of them can end."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._items: deque[Any] = deque()
        lock = threading.Lock()
        self._held = hold_safely(lock)
        self._changed = threading.Condition(lock)
        self._is_closed = False
        self._is_complete = False
        self._error: BaseException | None = None

    def fill(self, items: Iterator[Any]) -> None:
        """Put the items of an iterator into the buffer until the iterator ends or the buffer is closed."""
        try:
            for item in items:
                with self._held:
                    self._changed.wait_for(lambda: self._is_closed or len(self._items) < self._size)
                    if self._is_closed:
                        return
                    self._items.append(item)
                    self._changed.notify_all()
        except BaseException as error:  # the other thread raises it
            self._error = error
        finally:
            with self._held:
                self._is_complete = True
                self._changed.notify_all()

    def __iter__(self) -> Iterator[Any]:
        """Yield the items, and raise the error that ended them."""
        while True:
            with self._held:
                self._changed.wait_for(lambda: self._items or self._is_complete)
                if not self._items:
                    break
                item = self._items.popleft()
                self._changed.notify_all()
            yield item
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """Make the thread that fills the buffer end after its current item."""
        with self._held:
            self._is_closed = True
            self._items.clear()
            self._changed.notify_all()
