"""All rows about validation rules, and how many rules there are."""

from collections import defaultdict
from functools import cache
from pathlib import Path

from consistency.rules.arithmetic import ARITHMETIC
from consistency.rules.creation import CREATION
from consistency.rules.images import ALL_IMAGE_RULES
from consistency.rules.matrices import MATRIX_RULES
from consistency.rules.movement import MOVEMENT_RULES
from consistency.rules.positions import INDEX_RULES
from consistency.rules.row import Rule
from consistency.rules.strings import STRING_RULES
from consistency.rules.windows import WINDOW_RULES

ALL_RULES: tuple[Rule, ...] = (
    *(
        *ARITHMETIC,
        *CREATION,
        *ALL_IMAGE_RULES,
        *MATRIX_RULES,
        *MOVEMENT_RULES,
        *INDEX_RULES,
        *STRING_RULES,
        *WINDOW_RULES,
    ),
)


@cache
def count_tfjs_rules() -> dict[str, int]:
    """Return how many validation rules each op of TensorFlow.js has."""
    found: dict[str, int] = {}
    for line in (Path(__file__).parent / "counts.txt").read_text("utf-8").splitlines():
        if line and not line.startswith("#"):
            count, *ops = line.split()
            found |= dict.fromkeys(ops, int(count))
    return found


@cache
def labels_by_op() -> dict[str, set[str]]:
    """Return the labels of the rules of each op."""
    found: dict[str, set[str]] = defaultdict(set)
    for row in ALL_RULES:
        for op in row.names:
            found[op].add(row.label)
    return found
