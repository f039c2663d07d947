"""The tables of the conformance kit: inputs of each kernel and NumPy's results for them, one module per family."""

from __future__ import annotations

import pkgutil
from collections import Counter
from dataclasses import replace
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from plugrad.testing.rows import Row


@cache
def rows() -> tuple[Row, ...]:
    """Return the rows of all families, numbered for each kernel."""
    found: list[Row] = []
    counts: Counter[str] = Counter()
    for module in pkgutil.iter_modules(__path__):
        for row in import_module(f"{__name__}.{module.name}").TEST_ROWS:
            counts[row.kernel.name] += 1
            found.append(replace(row, row_number=counts[row.kernel.name]))
    return tuple(found)
