"""Python's garbage collection while objects pile up that all stay: full collections are rare.

Python makes a full collection, a walk over all objects, when those that stay have grown by a quarter. A tape grows by
objects that all stay, so that an op of a long function took three times as long, in collections that found nothing.
"""

from __future__ import annotations

from gc import get_threshold, set_threshold
from typing import Final

FACTOR: Final = 100
"""How much rarer full collections are: with Python's thresholds, one for about 7 million new objects."""
_usual_thresholds: Final[dict[int, int]] = {}
"""The third thresholds that programs had set, by those that were put in their place."""
_are_rare = False


def collect_rarely() -> None:
    """Make full collections rare, in all threads, until `collect_as_before` is called."""
    global _are_rare
    _are_rare = True
    first, second, usual = get_threshold()
    if usual not in _usual_thresholds:
        rare = usual * FACTOR + 1  # one more, which hardly any program chooses
        _usual_thresholds[rare] = usual
        set_threshold(first, second, rare)


def collect_as_before() -> None:
    """Put the threshold back that was in force before, unless the program has set another one meanwhile."""
    global _are_rare
    if _are_rare:
        _are_rare = False
        first, second, rare = get_threshold()
        if rare in _usual_thresholds:
            set_threshold(first, second, _usual_thresholds[rare])
