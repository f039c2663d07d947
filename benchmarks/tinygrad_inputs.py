"""The arrays that plugrad and tinygrad get in `against_tinygrad.py`, and what their cases have in common."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import workloads

CASES_WITH_READ_BACK: Final = ("10 adds", "10 adds/dev", "W1", "W2")
"""The names of the cases that end when their value is on the host."""


class Inputs(NamedTuple):
    """An array for each argument of the cases, in NumPy or in a framework."""

    left: Any
    right: Any
    bias: Any
    rows: Any
    scale: Any
    offset: Any
    million: Any
    ten_million: Any
    logits: Any
    image: Any
    """A batch of images with channels last."""
    filter: Any
    first: Any
    """The first of two arrays of four numbers, which are added."""
    second: Any
    """The second of them."""


def make_inputs() -> Inputs:
    """Return the arrays in NumPy."""
    uniform = workloads.random_uniform
    return Inputs(
        left=uniform(1, (512, 512)),
        right=workloads.random_weight(2, (512, 512), 512),
        bias=uniform(3, (512,)),
        rows=uniform(4, (1000, 1000)),
        scale=uniform(5, (1000,)),
        offset=uniform(6, (1000,)),
        million=uniform(7, (1_000_000,)),
        ten_million=uniform(8, (10_000_000,)),
        logits=uniform(9, (1024, 1024)),
        image=uniform(10, (1, 64, 64, 32)),
        filter=workloads.random_weight(11, (3, 3, 32, 32), 288),
        first=uniform(14, (4,)),
        second=uniform(15, (4,)),
    )
