"""Python's garbage collection while a tape grows: full collections are rare, because each walks over the whole tape.

Python makes one when the objects that stay have grown by a quarter. A tape is made of objects that all stay, so a
recorded op would take two or three times as long as its part in all collections is worth: there is nothing to find.
"""

from __future__ import annotations

import gc
from typing import Final

from plugrad.tape.nodes import open_leaves

FACTOR: Final = 100
"""How much rarer full collections are: with Python's thresholds, one for about 7 million new objects."""
_Thresholds = tuple[int, int, int]
_usual_thresholds: Final[dict[_Thresholds, _Thresholds]] = {}
"""The thresholds in force before, by those that were put in their place."""


class _RareCollections:
    """A block in which full collections are rare, in all threads; it may be entered again inside and by other threads.

    When no function is being recorded any more, the thresholds are those of before, unless the program has set others
    meanwhile. An interruption at the beginning leaves them to the next block that ends.
    """

    def __enter__(self) -> None:
        usual = gc.get_threshold()
        if usual not in _usual_thresholds:
            first, second, third = usual
            rare = first, second, third * FACTOR + 1  # one more, which hardly any program chooses
            _usual_thresholds[rare] = usual
            gc.set_threshold(*rare)

    def __exit__(self, *_: object) -> None:
        if not open_leaves:
            usual = _usual_thresholds.get(gc.get_threshold())
            if usual is not None:
                gc.set_threshold(*usual)


rare_collections: Final = _RareCollections()
