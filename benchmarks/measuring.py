"""Interleaved timing: all peers take turns in one process, under the same load of the machine."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from math import exp, log
from typing import Any, NamedTuple

TURN_SECONDS = 0.01
"""The minimum seconds of one turn: after other code has run, the processor's caches are cold."""
Clock = Callable[[], float]
"""Returns the time in seconds."""


class Times(NamedTuple):
    """The minimum and the median milliseconds of a call."""

    minimum: float
    median: float


class Side(NamedTuple):
    """A function to measure, the context in which it runs, and a function that waits for its work."""

    run: Callable[[], Any]
    make_context: Callable[[], AbstractContextManager[Any]] = nullcontext
    finish: Callable[[], None] = lambda: None

    def seconds(self, call_count: int, clock: Clock) -> float:
        """Return the seconds of one of so many calls."""
        start = clock()
        for _ in range(call_count):
            self.run()
        self.finish()
        return (clock() - start) / call_count


def take_turns(
    sides: Mapping[str, Side],
    rounds: int,
    clock: Clock = time.perf_counter,
    turn_seconds: float = TURN_SECONDS,
) -> dict[str, Times]:
    """Return the times of functions, called in turn for `turn_seconds` each; 0 means one call."""
    repeats: dict[str, int] = {}
    for name, side in sides.items():
        with side.make_context():
            once = min(side.seconds(1, time.perf_counter) for _ in range(4 if turn_seconds else 1))
            repeats[name] = max(1, min(1000, round(turn_seconds / once)))
    spent: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, side in sides.items():
            with side.make_context():
                if turn_seconds:
                    side.seconds(1 + repeats[name] // 8, clock)
                spent[name].append(side.seconds(repeats[name], clock) * 1e3)
    return {name: Times(min(times), statistics.median(times)) for name, times in spent.items()}


def geometric_mean(ratios: list[float]) -> float:
    """Return the geometric mean of ratios."""
    return exp(sum(map(log, ratios)) / len(ratios))
