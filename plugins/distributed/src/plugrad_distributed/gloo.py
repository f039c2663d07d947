"""The collective of torch.distributed on the processor: gloo, for programs that torchrun or Ray have started."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from plugrad.extend import is_interruption
from plugrad_distributed.collective import Collective
from plugrad_distributed.errors import CollectiveFailed, CollectiveTimeout, CollectiveUnavailable
from plugrad_distributed.messages import describe_missing_ranks

if TYPE_CHECKING:
    from numpy.typing import NDArray

LAUNCHER_VARIABLES: Final = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
"""The environment variables that torchrun and similar launchers set in each process."""
MISSING_RANKS_WAIT_SECONDS: Final = 2.0
"""The seconds in which ranks that wait tell each other that they do."""
STAR_EXCHANGE_MAX_BYTES: Final = 1 << 16
"""The most bytes, of all ranks but one together, that go through rank 0.

A ring of N ranks sends as many bytes, in N times as many messages, of which each has some 650 bytes of headers,
announcements and receipts.
"""
STAR_EXCHANGE_MAX_RANKS: Final = 8
"""The most ranks whose exchanges go through rank 0, which sends and receives as many times as there are others."""
START_TIMEOUT_SECONDS: Final = 120.0
"""The seconds in which all processes must have started."""


class Gloo(Collective):
    """A collective on gloo, through torch.distributed over TCP."""

    name = "gloo"
    library = "torch"
    """The name of the package that the transport imports."""
    remedy = "pip install torch, of which the build for the processor is enough"

    def __init__(self) -> None:
        """Connect.

        Raises:
            CollectiveUnavailable: torch is not installed, or the processes do not find each other.
        """
        try:
            torch: Any = import_module("torch")
            distributed: Any = import_module("torch.distributed")
        except (ImportError, OSError) as error:
            if is_interruption(error):
                raise
            raise CollectiveUnavailable(
                f"gloo: torch cannot be imported ({error}); {self.remedy}"
            ) from error
        missing = [name for name in LAUNCHER_VARIABLES if name not in os.environ]
        if missing:
            raise CollectiveUnavailable(
                f"gloo: {', '.join(missing)} must be set in the environment; start the program with torchrun or Ray"
            )
        self._torch = torch
        self._distributed = distributed
        self.rank = int(os.environ["RANK"])
        self.size = int(os.environ["WORLD_SIZE"])
        self.local_rank = int(os.environ.get("LOCAL_RANK", self.rank))
        limit = timedelta(seconds=START_TIMEOUT_SECONDS)
        try:
            store, _, _ = next(distributed.rendezvous("env://", timeout=limit))
            self._store: Any = distributed.PrefixStore("plugrad", store)
            if distributed.is_initialized():  # by the program, for something else
                self._group: Any = distributed.new_group(backend="gloo", timeout=limit)
            else:
                distributed.init_process_group(
                    "gloo", store=self._store, rank=self.rank, world_size=self.size, timeout=limit
                )
                self._group = distributed.group.WORLD
        except (RuntimeError, ValueError) as error:
            if is_interruption(error):
                raise
            raise CollectiveUnavailable(
                f"gloo: rank {self.rank} of {self.size} has not found the others at {os.environ['MASTER_ADDR']}:"
                f"{os.environ['MASTER_PORT']} within {START_TIMEOUT_SECONDS:g} s: {error}"
            ) from error
        self._count = 0

    @classmethod
    def is_launched(cls) -> bool:
        """Return whether the environment holds the address of the world."""
        return all(name in os.environ for name in LAUNCHER_VARIABLES)

    def all_reduce(self, array: NDArray[Any], *, timeout: float) -> None:
        """Replace an array by its sum over all ranks."""
        self._count += 1
        if self._is_small(array):
            rows = self._gather("all_reduce", array, timeout)
            if rows is not None:
                np.sum(rows, axis=0, dtype=array.dtype, out=array)
            self._broadcast("all_reduce", array, 0, timeout)
            return
        tensor = self._torch.from_numpy(array)
        self._exchange("all_reduce", timeout, self._distributed.all_reduce, tensor)

    def all_gather(self, array: NDArray[Any], *, timeout: float) -> NDArray[Any]:
        """Return the arrays of all ranks as rows."""
        self._count += 1
        rows = np.empty((self.size, *array.shape), array.dtype)
        if self._is_small(rows):
            found = self._gather("all_gather", array, timeout)
            rows = rows if found is None else found
            self._broadcast("all_gather", rows, 0, timeout)
            return rows
        targets = [self._torch.from_numpy(row) for row in rows]
        source = self._torch.from_numpy(array)
        self._exchange("all_gather", timeout, self._distributed.all_gather, targets, source)
        return rows

    def broadcast(self, array: NDArray[Any], *, root: int, timeout: float) -> None:
        """Replace an array by the array of rank `root`."""
        self._count += 1
        self._broadcast("broadcast", array, root, timeout)

    def close(self) -> None:
        """Leave the group."""
        self._distributed.destroy_process_group(self._group)
        self._group = self._store = None  # its threads end here, and not while Python does

    def _is_small(self, array: NDArray[Any]) -> bool:
        """Return whether the exchange of an array goes through rank 0."""
        return array.nbytes <= STAR_EXCHANGE_MAX_BYTES and 1 < self.size <= STAR_EXCHANGE_MAX_RANKS

    def _gather(self, operation: str, array: NDArray[Any], timeout: float) -> NDArray[Any] | None:
        """Return the arrays of all ranks as rows on rank 0, and None on the others."""
        rows: NDArray[Any] | None = None
        targets: list[Any] | None = None
        if self.rank == 0:
            rows = np.empty((self.size, *array.shape), array.dtype)
            targets = [self._torch.from_numpy(row) for row in rows]
        source = self._torch.from_numpy(array)
        self._exchange(operation, timeout, self._distributed.gather, source, targets, 0)
        return rows

    def _broadcast(self, operation: str, array: NDArray[Any], root: int, timeout: float) -> None:
        """Replace an array by the array of rank `root`, as a part of an exchange."""
        tensor = self._torch.from_numpy(array)
        self._exchange(operation, timeout, self._distributed.broadcast, tensor, root)

    def _exchange(self, operation: str, timeout: float, function: Any, *args: Any) -> None:
        """Start an exchange, or a part of one, and wait for its end.

        Raises:
            CollectiveTimeout: it takes longer than `timeout` seconds.
            CollectiveFailed: a connection has ended, or gloo reports another error.
        """
        start = time.monotonic()
        try:
            work = function(*args, group=self._group, async_op=True)
            work.wait(timedelta(seconds=timeout))
        except RuntimeError as error:
            if is_interruption(error):
                raise
            if time.monotonic() - start < timeout:
                raise CollectiveFailed(
                    f"gloo: {operation} failed on rank {self.rank}, mostly because another rank has ended: {error}"
                ) from error
            raise CollectiveTimeout(
                f"gloo: rank {self.rank} has waited {timeout:g} s in exchange number {self._count} ({operation}) for "
                f"{describe_missing_ranks(self._find_missing_ranks())}"
            ) from error

    def _find_missing_ranks(self) -> list[int]:
        """Return the ranks that are not waiting in the same exchange; the waiting ones say so in the store."""
        keys = {rank: f"waiting/{self._count}/{rank}" for rank in range(self.size)}
        try:
            self._store.set(keys[self.rank], "1")
            time.sleep(MISSING_RANKS_WAIT_SECONDS)
            return [rank for rank, key in keys.items() if not self._store.check([key])]
        except RuntimeError as error:
            if is_interruption(error):
                raise
            return [0]  # which keeps the store
