"""Rarer full garbage collections while a program creates many objects that all stay alive.

Python makes a full collection, a walk over all objects, when those that stay have grown by a quarter. A tape grows by
objects that all stay, so that an op of a long function took three times as long, in collections that found nothing.
"""

from __future__ import annotations

from gc import get_threshold, set_threshold
from typing import Final

FULL_COLLECTION_FACTOR: Final = 100
"""How much rarer full collections are: with Python's thresholds, one for about 7 million new objects."""
_original_thresholds: Final[dict[int, int]] = {}
"""Thresholds of full collections that programs had set, by the larger ones that were put in their place."""
_are_collections_rare = False
"""Whether `make_full_collections_rare` is in force."""


def make_full_collections_rare() -> None:
    """Make full collections rare, in all threads, until `restore_full_collections` is called."""
    global _are_collections_rare
    _are_collections_rare = True
    first, second, usual = get_threshold()
    if usual not in _original_thresholds:
        rare = usual * FULL_COLLECTION_FACTOR + 1  # one more, which hardly any program chooses
        _original_thresholds[rare] = usual
        set_threshold(first, second, rare)


def restore_full_collections() -> None:
    """Put the threshold back that was in force before, unless the program has set another one meanwhile."""
    global _are_collections_rare
    if _are_collections_rare:
        _are_collections_rare = False
        first, second, rare = get_threshold()
        if rare in _original_thresholds:
            set_threshold(first, second, _original_thresholds[rare])
