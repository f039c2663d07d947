"""Simulated all-reduce algorithms: the messages and bytes that they send, and how long that takes.

Nothing here exchanges anything between processes: MPI and gloo do. The ranks are arrays of one process, and each
message between two of them is counted, so that the numbers of the guide can be checked, also for worlds that nobody
has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray


class Traffic(NamedTuple):
    """The messages and bytes of an exchange for the busiest rank."""

    rounds: int
    """How many messages follow each other."""
    messages: int
    """How many messages the busiest rank sends."""
    bytes: int
    """How many bytes the busiest rank sends."""


class _SimulatedNetwork:
    """Counts the messages between ranks whose arrays are in one process."""

    def __init__(self, size: int) -> None:
        self.messages = [0] * size
        self.bytes = [0] * size
        self.rounds = 0

    def send(self, sender_rank: int, array: NDArray[Any]) -> NDArray[Any]:
        """Count a message and return a copy of it."""
        self.messages[sender_rank] += 1
        self.bytes[sender_rank] += array.nbytes
        return array.copy()

    @property
    def traffic(self) -> Traffic:
        return Traffic(self.rounds, max(self.messages), max(self.bytes))


def ring_all_reduce(arrays: Sequence[NDArray[Any]]) -> Traffic:
    """Sum arrays in place by a ring: each rank passes each of N parts to the next, first to add, then to copy.

    >>> from plugrad_distributed.simulation import ring_all_reduce
    >>> ranks = [np.full(8, r, np.float32) for r in range(4)]
    >>> ring_all_reduce(ranks)
    Traffic(rounds=6, messages=6, bytes=48)
    >>> ranks[2].tolist()
    [6.0, 6.0, 6.0, 6.0, 6.0, 6.0, 6.0, 6.0]

    It sends ``2 (N - 1) / N`` of the bytes, which is the least (Patarasuk and Yuan, 2009).
    """
    size = len(arrays)
    network = _SimulatedNetwork(size)
    parts = [np.array_split(array, size) for array in arrays]
    for phase in ("add", "copy"):
        for step in range(size - 1):
            network.rounds += 1
            shift = step if phase == "add" else step - 1
            sent = [network.send(r, parts[r][(r - shift) % size]) for r in range(size)]
            for r in range(size):
                target = parts[(r + 1) % size][(r - shift) % size]
                target[...] = target + sent[r] if phase == "add" else sent[r]
    return network.traffic


def recursive_doubling_all_reduce(arrays: Sequence[NDArray[Any]]) -> Traffic:
    """Sum arrays in place by recursive doubling: in each of log2 N rounds, pairs of ranks exchange their sums.

    >>> from plugrad_distributed.simulation import recursive_doubling_all_reduce
    >>> ranks = [np.full(8, r, np.float32) for r in range(4)]
    >>> recursive_doubling_all_reduce(ranks)
    Traffic(rounds=2, messages=2, bytes=64)

    It has the fewest rounds, and so is the fastest for small arrays.

    Raises:
        ValueError: the number of ranks is not a power of two.
    """
    size = len(arrays)
    if size & (size - 1):
        raise ValueError(f"tree: {size} ranks are not a power of two")
    network = _SimulatedNetwork(size)
    distance = 1
    while distance < size:
        network.rounds += 1
        sent = [network.send(r, arrays[r]) for r in range(size)]
        for r in range(size):
            arrays[r][...] += sent[r ^ distance]
        distance *= 2
    return network.traffic


def all_to_all_all_reduce(arrays: Sequence[NDArray[Any]]) -> Traffic:
    """Sum arrays in place, each rank sending its own to all others; return the traffic that this causes.

    >>> from plugrad_distributed.simulation import all_to_all_all_reduce
    >>> all_to_all_all_reduce([np.full(8, r, np.float32) for r in range(4)])
    Traffic(rounds=3, messages=3, bytes=96)
    """
    size = len(arrays)
    network = _SimulatedNetwork(size)
    own = [array.copy() for array in arrays]
    for step in range(1, size):
        network.rounds += 1
        for r in range(size):
            arrays[(r + step) % size][...] += network.send(r, own[r])
    return network.traffic


ALL_REDUCE_ALGORITHMS: Final[dict[str, Callable[[Sequence[NDArray[Any]]], Traffic]]] = {
    "ring": ring_all_reduce,
    "tree": recursive_doubling_all_reduce,
    "everybody": all_to_all_all_reduce,
}


def estimate_seconds(
    algorithm: str,
    rank_count: int,
    nbytes: int,
    *,
    latency_seconds: float = 30e-6,
    bytes_per_second: float = 1.25e9,
) -> float:
    """Estimate the seconds of an all-reduce: a latency per round, plus the busiest rank's bytes over bandwidth.

    >>> from plugrad_distributed.simulation import estimate_seconds
    >>> round(
    ...     estimate_seconds("ring", 32, 10_000_000) * 1e3, 1
    ... )  # milliseconds on 10 Gbit/s Ethernet
    17.4
    >>> round(estimate_seconds("everybody", 32, 10_000_000) * 1e3)
    249

    Args:
        algorithm: "ring", "tree" or "everybody".
        rank_count: the number of ranks.
        nbytes: the bytes of the array of each rank.
        latency_seconds: the seconds that a message takes, however small.
        bytes_per_second: the bytes that a rank sends in a second.
    """
    rounds, share = {
        "ring": (2 * (rank_count - 1), 2 * (rank_count - 1) / rank_count),
        "tree": ((rank_count - 1).bit_length(), (rank_count - 1).bit_length()),
        "everybody": (rank_count - 1, rank_count - 1),
    }[algorithm]
    return rounds * latency_seconds + share * nbytes / bytes_per_second
