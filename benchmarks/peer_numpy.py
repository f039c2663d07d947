"""The workloads that NumPy has without gradients: the floor of the cpu backend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import workloads
from workloads import Peer, Step

if TYPE_CHECKING:
    from collections.abc import Callable


def peers() -> list[Peer]:
    """Return NumPy as a peer."""
    return [Peer("numpy", np.__version__, STEPS)]


def adds() -> Step:
    """Return the workload of many small additions (D1)."""
    a, b = workloads.pair()

    def run() -> None:
        for _ in range(workloads.CALLS):
            a + b

    return Step(run, lambda: [float((a + b).sum())], workloads.CALLS)


def read_back() -> Step:
    """Return the workload of a thousand additions and a read-back."""
    a, b = np.zeros(1024, np.float32), np.ones(1024, np.float32)

    def run() -> Any:
        return workloads.total(a, b)

    return Step(run, lambda: [float(run().sum())])


STEPS: dict[str, Callable[[], Step]] = {
    "D1": adds,
    "adds": read_back,
    **workloads.large(np, lambda x: x),
}
