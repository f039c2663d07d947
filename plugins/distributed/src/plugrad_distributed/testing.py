"""The conformance kit of collectives: what every rank of a world calls to test the one that connects it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from plugrad_distributed.errors import CollectiveTimeout

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad_distributed.collective import Collective

CHECKED_DTYPES: Final = ("float32", "float64", "int32", "int64", "uint8")
"""The dtypes of the arrays that are exchanged."""
CHECKED_ELEMENT_COUNTS: Final = (1, 3, 1000, 100_003)
"""How many elements the arrays have that are exchanged."""
SHORT_TIMEOUT_SECONDS: Final = 0.5
"""The seconds that the test of timeouts waits."""


def check_collective(collective: Collective, *, timeout: float = 60.0) -> list[str]:
    """Check a collective and return the names of the checks passed; each rank of its world calls this once.

    >>> from plugrad_distributed.single import Single
    >>> from plugrad_distributed.testing import check_collective
    >>> len(check_collective(Single()))
    6

    The last check lets exchanges time out where there are several ranks: use the collective for nothing after it.

    Args:
        collective: a connected collective.
        timeout: the seconds that an exchange may take.

    Raises:
        AssertionError: a check failed; the message says which, and what came instead.
    """
    passed: list[str] = []
    for check in COLLECTIVE_CHECKS:
        check(collective, timeout)
        passed.append(check.__name__.removeprefix("_check_"))
    return passed


def _check_rank_and_size(collective: Collective, timeout: float) -> None:
    _expect("name", bool(collective.name), collective.name)
    _expect("rank", 0 <= collective.rank < collective.size, (collective.rank, collective.size))
    _expect("local_rank", 0 <= collective.local_rank < collective.size, collective.local_rank)
    ranks = collective.all_gather(
        np.array([collective.rank, collective.size]), timeout=timeout
    ).tolist()
    _expect(
        "all_gather of ranks",
        ranks == [[i, collective.size] for i in range(collective.size)],
        ranks,
    )


def _check_all_reduce(collective: Collective, timeout: float) -> None:
    for dtype in CHECKED_DTYPES:
        for size in CHECKED_ELEMENT_COUNTS:
            own = (np.arange(size) % 7 + collective.rank).astype(dtype)
            expected = sum((np.arange(size) % 7 + r).astype(dtype) for r in range(collective.size))
            collective.all_reduce(own, timeout=timeout)
            _expect(f"all_reduce of {dtype}[{size}]", np.array_equal(own, expected), own[:5])


def _check_same_bits_everywhere(collective: Collective, timeout: float) -> None:
    """Check that a sum of floats, which depends on its order, has the same bits on all ranks."""
    for size in (5, 100_003):
        own = np.random.default_rng(collective.rank).standard_normal(size).astype(np.float32)
        collective.all_reduce(own, timeout=timeout)
        rows = collective.all_gather(own, timeout=timeout)
        same = all(row.tobytes() == rows[0].tobytes() for row in rows)
        _expect(f"the bits of all_reduce of float32[{size}]", same, rows[:, :3])


def _check_all_gather(collective: Collective, timeout: float) -> None:
    for dtype in CHECKED_DTYPES:
        own = np.full((2, 3), collective.rank, dtype)
        rows = collective.all_gather(own, timeout=timeout)
        right = rows.shape == (collective.size, 2, 3) and rows.dtype == own.dtype
        right = right and all((rows[r] == r).all() for r in range(collective.size))
        _expect(f"all_gather of {dtype}[2, 3]", right, rows)
        rows[:] = 0  # it may be changed
        _expect("the array that was given to all_gather", bool((own == collective.rank).all()), own)


def _check_broadcast(collective: Collective, timeout: float) -> None:
    for root in range(collective.size):
        for size in CHECKED_ELEMENT_COUNTS:
            own = np.full(size, collective.rank, np.uint8)
            collective.broadcast(own, root=root, timeout=timeout)
            _expect(
                f"broadcast of uint8[{size}] from rank {root}", bool((own == root).all()), own[:5]
            )


def _check_barrier_and_timeout(collective: Collective, timeout: float) -> None:
    start = time.monotonic()
    if collective.rank == collective.size - 1:
        time.sleep(SHORT_TIMEOUT_SECONDS)
    collective.barrier(timeout=timeout)
    waited = time.monotonic() - start
    _expect("the seconds in barrier", waited >= SHORT_TIMEOUT_SECONDS * 0.9, waited)
    if collective.size == 1:
        return
    late = collective.size - 1
    if collective.rank == late:
        time.sleep(
            SHORT_TIMEOUT_SECONDS * 6
        )  # longer than the others need to find out who is missing
        return
    try:
        collective.all_reduce(np.zeros(3, np.float32), timeout=SHORT_TIMEOUT_SECONDS)
    except CollectiveTimeout as error:
        _expect(f"the rank {late} in the message of a timeout", f"rank {late}" in str(error), error)
    else:
        _expect("CollectiveTimeout of all_reduce without the last rank", False, "none")
    time.sleep(SHORT_TIMEOUT_SECONDS)  # others may still need this rank to find out who is missing


COLLECTIVE_CHECKS: Final[tuple[Callable[[Collective, float], None], ...]] = (
    _check_rank_and_size,
    _check_all_reduce,
    _check_same_bits_everywhere,
    _check_all_gather,
    _check_broadcast,
    _check_barrier_and_timeout,
)


def _expect(description: str, is_right: bool, actual: Any) -> None:
    """Raise unless a result is right."""
    if not is_right:
        raise AssertionError(f"{description} is wrong: {actual}")
