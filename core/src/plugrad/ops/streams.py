"""Streams of random numbers: a key, and a counter that each draw advances.

The counter lives on the host. A draw takes the next numbers of it, atomically, and hands them with the key to a kernel
as six words (`plugrad.kernels.random`). They are host values, so that a traced program takes new ones in each of its
calls.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from os import urandom
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast
from weakref import ref

import numpy as np

from plugrad.errors import ArgumentError, ArgumentValueError, short_repr
from plugrad.host.fingerprint import fingerprint64
from plugrad.host.random import random_bits
from plugrad.interruptions import hold_safely
from plugrad.kernels.random import STATE_WORDS
from plugrad.ops.transfer import host_value
from plugrad.tensor.effects import undo_on_failure
from plugrad.tensor.tracer import Tracer, current_tracer, recording_or_target_backend
from plugrad.types.dtype import int32

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from typing import TypeAlias

    from numpy.typing import NDArray

    from plugrad.tensor.backend import Backend
    from plugrad.tensor.tensor import Tensor

    Key: TypeAlias = int | Callable[[], int]
    """The key of a stream, or a function that computes it anew in each call of a traced program."""
    Position: TypeAlias = tuple[Key | None, int, ref[Backend] | None, object]
    """The key and the counter of a stream, and the backend and the run in which it was restarted."""

ALGORITHM_NAME: Final = "Philox4x32-10"
"""The name of the random number generator in saved states."""
KEY_BITS: Final = 64
"""The number of bits of the key of a stream."""
COUNTER_BITS: Final = 128
"""The number of bits of the counter of a stream."""
BLOCK_WORDS: Final = 4
"""The number of 32-bit random words that one counter value gives."""
_lock: Final = hold_safely(Lock())
"""The lock that is held while a stream's key or counter changes."""
_Result = TypeVar("_Result")
"""The type of a result that both runs of a function get."""
repeated_run: Final[ContextVar[RepeatedRun | None]] = ContextVar(
    "plugrad_repeated_run", default=None
)
"""The innermost run in this context of a function that runs twice; see `checkpoint`."""


class RepeatedRun:
    """A run of a function that runs twice and must draw the same numbers, and count the same steps, in both runs.

    The first run records what it draws. The second run takes that instead of new numbers.
    """

    __slots__ = ("_replayed", "_results", "identity", "is_traced_again", "outer", "tracer")

    def __init__(self, first_run: RepeatedRun | None = None) -> None:
        """Begin a first run, or the second run after a first one."""
        self.outer = repeated_run.get()
        self.tracer = current_tracer() if first_run is None else first_run.tracer
        """The tracer on whose level numbers are drawn. Those of tracers inside the function draw from it."""
        self.identity = object()
        """What a stream that the run has started refers to: a stream may live longer than the run's tracer."""
        self._results: list[Any] = []
        """The results of `repeat`, in order."""
        self._replayed = None if first_run is None else iter(first_run._results)
        is_second_in_trace = first_run is not None and current_tracer() is not None
        is_inside_of_one = self.outer is not None and self.outer.is_traced_again
        self.is_traced_again: bool = is_second_in_trace or is_inside_of_one
        """Whether the program that is being traced has steps for the first run, too, or for one around this one.

        Then only those move streams. A program that is traced within an untraced second run moves them again.
        """

    def draw(self, stream: RandomStream, draw_anew: Callable[[], _Result]) -> _Result:
        """Return the draw of the first run, or, in a first run, the result of `draw_anew`."""
        value, counter = self.repeat(lambda: (stream.draw_repeatably(draw_anew), stream.counter))
        if self._replayed is not None and stream.restarted_by is self.identity:
            stream.set_counter(counter)
        return value

    def repeat(self, compute: Callable[[], _Result]) -> _Result:
        """Return the result of `compute` and record it in a first run; return the recorded result in the second run.

        `compute` runs in the function's outer run, which may record its result as well.

        Raises:
            ArgumentError: the second run asks for more results than the first one.
        """
        if self._replayed is None:
            token = repeated_run.set(self.outer)
            try:
                value = compute()
            finally:
                repeated_run.reset(token)
            self._results.append(value)
            return value
        try:
            return next(self._replayed)
        except StopIteration:
            raise ArgumentError(
                "checkpoint: the function draws more random numbers when it runs again for the gradient, or takes more "
                "steps of optimizers; both runs must do the same"
            ) from None


def repeat_result(compute: Callable[[], _Result]) -> _Result:
    """Return the result of `compute`, or its result in the first run of a function that runs twice."""
    run = repeated_run.get()
    if run is None or run.tracer is not current_tracer():
        return compute()
    return run.repeat(partial(repeat_result, compute))


_kept_positions: Final[ContextVar[dict[RandomStream, tuple[Position, Position]] | None]] = (
    ContextVar("plugrad_kept_positions", default=None)
)
"""For each stream that the innermost block of `keep_positions` has moved: where it was before, and is now."""


@contextmanager
def keep_positions() -> Generator[None, None, None]:
    """Restore, at the end of a block, the streams that it moved, unless another thread has moved them since.

    A function that runs once more for its gradient may restart them, but the program around it did not see that.
    """
    kept: dict[RandomStream, tuple[Position, Position]] = {}
    token = _kept_positions.set(kept)
    try:
        yield
    finally:
        _kept_positions.reset(token)
        with _lock:
            for stream, (before, after) in kept.items():
                if stream.position == after:
                    stream.position = before


class RandomStream:
    """The position in a stream of random numbers: a key, and the next number of its counter."""

    __slots__ = ("_key", "_started_in", "counter", "restarted_by")

    def __init__(self) -> None:
        """Start at the beginning of a fresh key."""
        self.position = None, 0, None, None

    @property
    def position(self) -> Position:
        """The key and the counter, and the backend and the run in which the stream was restarted."""
        return self._key, self.counter, self._started_in, self.restarted_by

    @position.setter
    def position(self, position: Position) -> None:
        key, counter, started_in, restarted_by = position
        self._key: Key | None = key  # None until the first draw, so that forked processes differ
        self.counter: int = counter
        self._started_in: ref[Backend] | None = started_in
        """The backend to which all inputs were transferred, as they are to the one that traces a program."""
        self.restarted_by: object = restarted_by
        """The run of a function that has moved the stream here, and will do so in its other run."""

    def restart(self, key: Key | None, counter: int = 0) -> None:
        """Move to a position: a key and a counter; None takes a fresh key from the operating system."""
        run = repeated_run.get()
        target = None if key is None else recording_or_target_backend()
        started_in = None if target is None else ref(target)
        restarted_by = None if key is None or run is None else run.identity
        with _lock:
            self._move_to((key, counter, started_in, restarted_by))
        if key is not None:
            _repeat_in_each_run(partial(self._move, key, counter))

    def _move(self, key: Key, counter: int) -> None:
        """Move to a key and a counter, as a step of a traced program."""
        with _lock:
            self._set_position(key, counter)

    def _move_to(self, position: Position) -> None:
        """Set the position, and note both for `keep_positions`; the caller holds the lock."""
        kept = _kept_positions.get()
        if kept is not None:
            before, _ = kept.get(self) or (self.position, None)
            kept[self] = before, position
        self.position = position

    def set_counter(self, counter: int) -> None:
        """Move to another value of the counter, with the same key."""
        with _lock:
            self._move_to((self._key, counter, self._started_in, self.restarted_by))

    def take_blocks(self, block_count: int) -> tuple[int, int]:
        """Return the key and the counter, and advance the counter by `block_count`.

        The second run of a function returns those of the first run; see `RepeatedRun`.
        """
        return self.draw_repeatably(partial(self._take_new_blocks, block_count))

    def _take_new_blocks(self, block_count: int) -> tuple[int, int]:
        """Return the key and the counter, and advance the counter by `block_count`."""
        with _lock:
            if self._key is None:
                self._key = int.from_bytes(urandom(KEY_BITS // 8), "little")
            key, counter = self._key, self.counter
            self._set_position(key, (counter + block_count) % (1 << COUNTER_BITS))
        return (key() if callable(key) else key), counter

    def draw_repeatably(self, draw_anew: Callable[[], _Result]) -> _Result:
        """Return the result of `draw_anew`, or its result in the first run of a function that runs twice."""
        run = repeated_run.get()
        if run is None or run.tracer is not current_tracer():
            return draw_anew()
        return run.draw(self, draw_anew)

    def _set_position(self, key: Key, counter: int) -> None:
        """Set the key and the counter; the caller holds the lock."""
        undo_on_failure(partial(self._restore_position, self._key, self.counter, counter))
        self._move_to((key, counter, self._started_in, self.restarted_by))

    def _restore_position(self, key: Key | None, old_counter: int, new_counter: int) -> None:
        """Go back to where the stream was, unless another thread has drawn since."""
        with _lock:
            if self.counter == new_counter:
                self._key, self.counter = key, old_counter

    def _advance_counter(self, block_count: int) -> int:
        """Return the counter, and advance it by `block_count`."""
        with _lock:
            counter = self.counter
            end = (counter + block_count) % (1 << COUNTER_BITS)
            self._move_to((self._key, end, self._started_in, self.restarted_by))
            return counter

    def next_state(self, word_count: int, backend: Backend) -> Tensor:
        """Return the key and the counter for a draw of `word_count` words, as a tensor of words on a backend.

        A traced program takes them anew in each of its calls. If it has itself restarted the stream, they are the same
        each time, as they are without a trace. Then a key that is a function is computed anew, and the counter stays.
        """
        compute = partial(self._compute_next_state, word_count, backend)
        return compute() if current_tracer() is None else self.draw_repeatably(compute)

    def _compute_next_state(self, word_count: int, backend: Backend) -> Tensor:
        """Return the state for a draw, as `next_state` does, but never that of an earlier run.

        Raises:
            ArgumentError: a traced loop or branch draws, in a function that runs twice in one trace.
        """
        tracer = current_tracer()
        state = None if tracer is None else tracer.provide_draw_state(word_count, self.next_state)
        if state is not None:
            return state
        run, target = repeated_run.get(), recording_or_target_backend()
        started_in = None if target is None or self._started_in is None else self._started_in()
        is_restarted_here = started_in is not None and started_in is target
        is_own = is_restarted_here and run is not None and run.identity is self.restarted_by
        if run and run.tracer not in (None, tracer) and not is_own:
            raise ArgumentError(
                "checkpoint: the function draws random numbers in a traced loop or branch, which would draw others "
                "when it runs again for the gradient; pass the function a seed as an argument, and draw from a "
                "plugrad.random.Generator(seed) that is made in the loop or branch"
            )
        blocks = -(-word_count // BLOCK_WORDS)
        if is_restarted_here:
            key = self._key
            assert key is not None  # it was restarted with one
            counter = self._advance_counter(blocks)
            is_again = run is not None and run.is_traced_again

            def take() -> tuple[int, int]:
                """Return the key and the counter of this draw; in a first run, move the stream behind it."""
                if not is_again:
                    self._move(key, (counter + blocks) % (1 << COUNTER_BITS))
                return (key() if callable(key) else key), counter
        else:
            if self._started_in is not None:  # a loop or branch moves it as often as it runs
                with _lock:
                    self._move_to((self._key, self.counter, None, self.restarted_by))
            take = partial(self.take_blocks, blocks)
        return host_value(
            lambda: state_words(*take()), shape=(STATE_WORDS,), dtype=int32, device=backend
        )

    def spawn(self, count: int) -> list[RandomStream]:
        """Return streams whose keys are the next numbers of this one.

        Raises:
            ArgumentError: a traced function that a function under `checkpoint` calls spawns from a stream outside both.
        """
        run = repeated_run.get()
        if run and run.tracer is not current_tracer() and run.identity is not self.restarted_by:
            raise ArgumentError(
                "checkpoint: a traced function spawns generators while it is traced, which happens in one of the two "
                "runs only; spawn them outside the traced function, and pass them on"
            )
        blocks, own = -(-2 * count // BLOCK_WORDS), self._key
        children = [RandomStream() for _ in range(count)]
        if callable(own):
            counter = self.draw_repeatably(partial(self._advance_counter, blocks))
            for i, child in enumerate(children):
                key = partial(_spawned_key, own, counter, i)
                child.position = key, 0, self._started_in, self.restarted_by
            return children

        def start_children() -> None:
            """Move the children to the next keys of this stream."""
            state = state_words(*self.take_blocks(blocks))
            keys = random_bits(state, shape=(2 * count,)).astype("<i4").view("<u8").tolist()
            for child, key in zip(children, keys, strict=True):
                child._move(key, 0)

        start_children()
        for child in children:
            child.restarted_by = self.restarted_by
        _repeat_in_each_run(start_children)
        return children


def _repeat_in_each_run(effect: Callable[[], None]) -> None:
    """Have a program that is being traced call a function at this point of each of its runs.

    A function that is traced again has a step there that does nothing, since a later trace counts the steps.
    """
    if isinstance(recording_or_target_backend(), Tracer):
        run = repeated_run.get()
        is_again = run is not None and run.is_traced_again
        host_value(lambda: () if is_again else effect() or (), shape=(0,))


def _spawned_key(compute_key: Callable[[], int], counter: int, index: int) -> int:
    """Return the key of stream number `index` of those that a stream spawned at a value of its counter."""
    place, part = divmod(index, BLOCK_WORDS // 2)
    state = state_words(compute_key(), (counter + place) % (1 << COUNTER_BITS))
    keys = random_bits(state, shape=(BLOCK_WORDS,)).astype("<i4").view("<u8")
    return int(keys[part])


def state_words(key: int, counter: int) -> NDArray[Any]:
    """Return the words of a key and a counter, lower ones first.

    >>> state_words(1, 2**32).tolist()
    [1, 0, 0, 1, 0, 0]
    """
    state = key | counter << KEY_BITS
    return np.frombuffer(state.to_bytes((KEY_BITS + COUNTER_BITS) // 8, "little"), "<i4")


def key_of_seed(seed: int) -> int:
    """Return a key: the seed itself, or for a large one its fingerprint.

    >>> key_of_seed(7)
    7
    """
    if seed < 1 << KEY_BITS:
        return seed
    return fingerprint64(seed.to_bytes(-(-seed.bit_length() // 8), "little"))


def check_state(state: Any) -> tuple[int, int]:
    """Return the key and the counter of a generator's state.

    Raises:
        ArgumentValueError: it is not one.
    """
    limits = {"key": KEY_BITS, "counter": COUNTER_BITS}
    if isinstance(state, dict):
        given = cast("dict[str, Any]", state)
        name = given.get("algorithm")
        if (
            given.keys() == {"algorithm", *limits}
            and isinstance(name, str)
            and name == ALGORITHM_NAME
        ):
            numbers = [given[part] for part in limits]
            if all(
                isinstance(number, int) and 0 <= number < 1 << bits
                for number, bits in zip(numbers, limits.values(), strict=True)
            ):
                return numbers[0], numbers[1]
    raise ArgumentValueError(
        f"Generator: state={short_repr(state)} is not the state of a generator, a dict with the algorithm "
        f"{ALGORITHM_NAME!r}, a key below 2**64 and a counter below 2**128. Sequences of other algorithms, such as "
        "that of earlier releases, cannot be continued; begin one with a seed"
    )
