"""The world of this process: its rank, the thread of its exchanges, and the check that ranks agree on each of them."""

from __future__ import annotations

import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import blake2b
from math import inf
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import numpy as np

from plugrad.extend import report_event
from plugrad_distributed.errors import RanksDisagree

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from plugrad_distributed.collective import Collective

Result = TypeVar("Result")
MAX_RECORDED_EXCHANGES: Final = 10_000
"""How many exchanges a world remembers."""


class Exchange(NamedTuple):
    """One exchange of a rank: operation, bytes, and start and end in nanoseconds of `time.perf_counter_ns`."""

    operation: str
    """The name of the exchange, such as ``all_reduce``."""
    nbytes: int
    """The bytes of this rank's array."""
    start: int
    """The time of `time.perf_counter_ns` at the start."""
    end: int
    """The time of `time.perf_counter_ns` at the end."""


class ExchangeDescription(NamedTuple):
    """A text that describes an upcoming exchange; ranks compare digests of it."""

    lines: tuple[str, ...]
    digest: int

    @classmethod
    def from_lines(cls, *lines: str) -> ExchangeDescription:
        """Return the description that consists of these lines."""
        found = blake2b("\n".join(lines).encode(), digest_size=8).digest()
        return cls(lines, int.from_bytes(found, "little", signed=True))


class World:
    """The processes that train together, as seen from this one.

    All exchanges run in one thread, in the order in which they are asked for, so that they go on while the program
    computes. Each begins with 24 bytes from every rank: the digest of what it is about to exchange, how many exchanges
    it has made, and a number. Where they differ, all ranks raise `RanksDisagree` before anything is reduced.
    """

    def __init__(
        self, collective: Collective, *, timeout: float, attempt: str = "", reason: str = ""
    ) -> None:
        """Take a connected collective."""
        self.collective = collective
        self.rank: Final = collective.rank
        self.size: Final = collective.size
        self.local_rank: Final = collective.local_rank
        self.timeout: Final = timeout
        self.attempt: Final = attempt
        """What tells this start of a job from earlier ones, whose messages must not be taken for those of this one."""
        self.reason: Final = reason
        """Why this collective was chosen."""
        self.devices: tuple[str, ...] = ()
        """The device of each rank."""
        self.examples: float | None = None
        """How many examples of this rank's present batch count; None if nobody has said so."""
        self.is_padding = False
        """Whether this rank's present batch only fills an empty share; see `dist.shard`."""
        self.exchanges: deque[Exchange] = deque(maxlen=MAX_RECORDED_EXCHANGES)
        self.waited = 0
        """The nanoseconds for which the program has waited for exchanges of gradients."""
        self.failure: BaseException | None = None
        self._count = 0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="plugrad-distributed")

    @property
    def is_uniform(self) -> bool:
        """Whether all ranks compute on the same kind of device, so that equal inputs give equal bits."""
        return len({device.partition(":")[0] for device in self.devices}) <= 1

    def __repr__(self) -> str:
        return f"<rank {self.rank} of {self.size}, {self.collective.name}>"

    # --- the thread ------------------------------------------------------------------------------

    def submit(self, function: Callable[..., Result], *args: Any) -> Future[Result]:
        """Run a function in the exchange thread after all that were submitted before; return its future.

        After one has failed, the others fail with the same error.
        """
        return self._thread.submit(self._run, function, args)

    def _run(self, function: Callable[..., Result], args: tuple[Any, ...]) -> Result:
        if self.failure is not None:
            raise self.failure
        try:
            return function(*args)
        except BaseException as error:
            self.failure = error
            raise

    def close(self) -> None:
        """Leave the world when all ranks do.

        Raises:
            RanksDisagree: another rank goes on with the program.
        """
        self._thread.shutdown()  # Python has done so already where the program ends
        if self.size > 1 and self.failure is None:
            self._run(
                self.check_agreement,
                (ExchangeDescription.from_lines("the end of the program"), 0.0, inf),
            )
        if self.failure is None:
            self.collective.close()

    # --- exchanges: they run in the thread -------------------------------------------------------

    def check_agreement(
        self, description: ExchangeDescription, number: float = 0.0, timeout: float | None = None
    ) -> NDArray[np.float64]:
        """Return one number from each rank, after a check that all describe the same exchange.

        Raises:
            RanksDisagree: they are about to exchange something else.
        """
        self._count += 1
        own = np.zeros(3, np.int64)
        own[0], own[1] = description.digest ^ self._digest_of_attempt, self._count
        own[2:].view(np.float64)[0] = number
        found = self._time_exchange("agree", own, self.collective.all_gather, timeout=timeout)
        if (found[:, :2] != own[:2]).any():
            raise RanksDisagree(self._find_difference(description))
        return found[:, 2].copy().view(np.float64)

    @property
    def _digest_of_attempt(self) -> int:
        """Return a number that is equal on ranks of the same attempt."""
        return ExchangeDescription.from_lines(self.attempt).digest

    def _find_difference(self, description: ExchangeDescription) -> str:
        """Return the first line in which the descriptions of two ranks differ; all ranks call it."""
        lines = [
            f"exchange number {self._count} of attempt {self.attempt or '1'}",
            *description.lines,
        ]
        texts = ["\n".join(lines).encode()]
        texts = self._gather_bytes(texts[0])
        mine, theirs = texts[0].split("\n"), texts[0].split("\n")
        other = 0
        for rank, text in enumerate(texts):
            if text != texts[0]:
                other, theirs = rank, text.split("\n")
                break
        for i in range(max(len(mine), len(theirs))):
            a, b = (part[i] if i < len(part) else "nothing more" for part in (mine, theirs))
            if a != b:
                return (
                    f"the ranks exchange different things: rank 0 has {a!r} where rank {other} has {b!r}, in "
                    f"{mine[1]!r} and {theirs[1]!r}; let all ranks run the same program, with the same variables in "
                    "the same order"
                )
        raise AssertionError("the digests differ, but not the texts")

    def _gather_bytes(self, text: bytes) -> list[str]:
        """Return the encoded texts of all ranks."""
        timeout = self.timeout
        sizes = self.collective.all_gather(np.array([len(text)]), timeout=timeout)[:, 0]
        padded = np.zeros(sizes.max(), np.uint8)
        padded[: len(text)] = np.frombuffer(text, np.uint8)
        rows = self.collective.all_gather(padded, timeout=timeout)
        return [
            row[:size].tobytes().decode() for row, size in zip(rows, sizes.tolist(), strict=True)
        ]

    def gather_texts(self, text: str) -> list[str]:
        """Return the texts of all ranks, which may differ."""
        self.check_agreement(ExchangeDescription.from_lines("texts of all ranks"))
        return self._gather_bytes(text.encode())

    def sum(self, array: NDArray[Any]) -> None:
        """Replace an array by its sum over all ranks, whose arrays must have equal shapes and dtypes.

        Half precision is summed in float32, and complex numbers as pairs.
        """
        if array.dtype == np.float16:
            wide = array.astype(np.float32)
            self.sum(wide)
            array[...] = wide
            return
        flat = array.reshape(-1)
        if flat.dtype.kind == "c":
            flat = flat.view(np.dtype(f"f{flat.dtype.itemsize // 2}"))
        self._time_exchange("all_reduce", flat, self.collective.all_reduce)

    def gather(self, array: NDArray[Any]) -> NDArray[Any]:
        """Return the arrays of all ranks, which must have agreed on them, as rows."""
        return self._time_exchange("all_gather", array, self.collective.all_gather)

    def broadcast(self, array: NDArray[Any], root: int) -> None:
        """Replace an array by the array of rank `root`."""
        flat = array.reshape(-1).view(np.uint8)
        self._time_exchange("broadcast", flat, self.collective.broadcast, root=root)

    def _time_exchange(
        self,
        operation: str,
        array: NDArray[Any],
        function: Any,
        *,
        timeout: float | None = None,
        **options: Any,
    ) -> Any:
        """Call a method of the collective and record the exchange with its times."""
        start = time.perf_counter_ns()
        limit = min(self.timeout if timeout is None else timeout, 86400.0 * 365)
        result = function(array, timeout=limit, **options)
        end = time.perf_counter_ns()
        self.exchanges.append(Exchange(operation, array.nbytes, start, end))
        place = self.collective.name
        report_event(operation, place=place, nbytes=array.nbytes, start=start, end=end)
        return result


def describe_arrays(operation: str, arrays: Sequence[Any]) -> ExchangeDescription:
    """Describe an exchange of arrays or tensors."""
    return ExchangeDescription.from_lines(operation, *(f"{x.dtype}{list(x.shape)}" for x in arrays))
