"""All rows about validation rules, and how many rules there are."""

from collections import defaultdict
from functools import cache
from pathlib import Path

from consistency.rules.arithmetic import ARITHMETIC
from consistency.rules.creation import CREATION
from consistency.rules.images import IMAGES
from consistency.rules.matrices import MATRICES
from consistency.rules.movement import MOVEMENT
from consistency.rules.positions import POSITIONS
from consistency.rules.row import Rule
from consistency.rules.strings import STRINGS
from consistency.rules.windows import WINDOWS

RULES: tuple[Rule, ...] = (
    *(*ARITHMETIC, *CREATION, *IMAGES, *MATRICES, *MOVEMENT, *POSITIONS, *STRINGS, *WINDOWS),
)


@cache
def counts() -> dict[str, int]:
    """Return how many validation rules each op of TensorFlow.js has."""
    found: dict[str, int] = {}
    for line in (Path(__file__).parent / "counts.txt").read_text("utf-8").splitlines():
        if line and not line.startswith("#"):
            count, *ops = line.split()
            found |= dict.fromkeys(ops, int(count))
    return found


@cache
def labels() -> dict[str, set[str]]:
    """Return the labels of the rows about each op."""
    found: dict[str, set[str]] = defaultdict(set)
    for row in RULES:
        for op in row.names:
            found[op].add(row.label)
    return found
