"""The workloads without gradients in NumPy, whose times are the least that the cpu backend can reach."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import workloads
from workloads import Peer, Workload

if TYPE_CHECKING:
    from collections.abc import Callable


def peers() -> list[Peer]:
    """Return NumPy as a peer."""
    return [Peer("numpy", np.__version__, STEPS)]


def many_small_additions() -> Workload:
    """Return the workload of many small additions (D1)."""
    a, b = workloads.small_pair()

    def run() -> None:
        for _ in range(workloads.OPS_PER_RUN):
            a + b

    return Workload(run, lambda: [float((a + b).sum())], workloads.OPS_PER_RUN)


def read_back() -> Workload:
    """Return the workload of a thousand additions and a read-back."""
    a, b = np.zeros(1024, np.float32), np.ones(1024, np.float32)

    def run() -> Any:
        return workloads.add_repeatedly(a, b)

    return Workload(run, lambda: [float(run().sum())])


STEPS: dict[str, Callable[[], Workload]] = {
    "D1": many_small_additions,
    "adds": read_back,
    **workloads.large_workloads(np, lambda x: x),
}
