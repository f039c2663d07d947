"""Interleaved timing: all peers take turns in one process, under the same load of the machine."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from math import exp, log
from typing import Any, NamedTuple

TURN_SECONDS = 0.01
"""Seconds that one turn takes at least: after other code has run, the caches of the processor are cold."""
Clock = Callable[[], float]


class Times(NamedTuple):
    """The minimum and the median milliseconds of a call."""

    least: float
    median: float


class Side(NamedTuple):
    """A function to measure, the context in which it runs, and a function that waits for its work."""

    run: Callable[[], Any]
    make_context: Callable[[], AbstractContextManager[Any]] = nullcontext
    finish: Callable[[], None] = lambda: None

    def seconds(self, repeats: int, clock: Clock) -> float:
        """Return the seconds of one call."""
        start = clock()
        for _ in range(repeats):
            self.run()
        self.finish()
        return (clock() - start) / repeats


def take_turns(
    sides: Mapping[str, Side],
    rounds: int,
    clock: Clock = time.perf_counter,
    turn: float = TURN_SECONDS,
) -> dict[str, Times]:
    """Return the times of functions, called in turn for `turn` seconds each; 0 means one call."""
    repeats: dict[str, int] = {}
    for name, side in sides.items():
        with side.make_context():
            once = min(side.seconds(1, time.perf_counter) for _ in range(4 if turn else 1))
            repeats[name] = max(1, min(1000, round(turn / once)))
    spent: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, side in sides.items():
            with side.make_context():
                if turn:
                    side.seconds(1 + repeats[name] // 8, clock)
                spent[name].append(side.seconds(repeats[name], clock) * 1e3)
    return {name: Times(min(times), statistics.median(times)) for name, times in spent.items()}


def geometric_mean(ratios: list[float]) -> float:
    """Return the geometric mean of ratios."""
    return exp(sum(map(log, ratios)) / len(ratios))
