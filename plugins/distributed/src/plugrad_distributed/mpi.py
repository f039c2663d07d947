"""The collective of programs that mpiexec, srun or another launcher of MPI has started."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, Final, NoReturn

import numpy as np

from plugrad.extend import is_interruption
from plugrad_distributed.collective import Collective
from plugrad_distributed.errors import CollectiveFailed, CollectiveTimeout, CollectiveUnavailable
from plugrad_distributed.messages import describe_missing_ranks

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

LAUNCHER_VARIABLES: Final = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK")
"""The environment variables that launchers of MPICH, Open MPI, Intel MPI and MVAPICH set in each process."""
BUSY_POLL_SECONDS: Final = 1e-4
"""The seconds for which a request is tested without pause, before the thread begins to sleep between tests."""
POLL_INTERVAL_SECONDS: Final = 2e-5
"""The seconds between later tests of a request. MPI's own waiting takes a whole core, which computations may need."""
BARRIER_MIN_BYTES: Final = 1 << 16
"""The bytes of an exchange before which ranks meet: MPI moves bytes only while requests are tested."""
BUSY_POLL_SECONDS_PER_BYTE: Final = 1e-8
"""The seconds to add to `BUSY_POLL_SECONDS` for each byte of an exchange."""
MISSING_RANKS_WAIT_SECONDS: Final = 2.0
"""The seconds in which ranks that wait tell each other that they do."""
_yield_processor: Final[Callable[[], None]] = getattr(os, "sched_yield", lambda: time.sleep(0))
"""Gives the core to another thread that is ready, if there is one."""


class MPI(Collective):
    """A collective on MPI, through mpi4py; requests are polled, so that a wait can time out and spares the core."""

    name = "mpi"
    library = "mpi4py"
    remedy = 'pip install "plugrad[mpi]"'

    def __init__(self) -> None:
        """Connect.

        Raises:
            CollectiveUnavailable: mpi4py is not installed, or finds no MPI.
        """
        try:
            import mpi4py

            mpi4py.rc.finalize = False  # to finalize waits for all, and a rank that fails must not
            from mpi4py import MPI
        except (ImportError, RuntimeError) as error:
            if is_interruption(error):
                raise
            raise CollectiveUnavailable(
                f"mpi: mpi4py cannot be used ({error}); install it with an MPI, as in {self.remedy}"
            ) from error
        self._mpi: Any = MPI
        self._world: Any = MPI.COMM_WORLD.Dup()
        self._control: Any = MPI.COMM_WORLD.Dup()
        """For what waiting ranks tell each other: in the world itself, it would be taken for the exchange."""
        self.rank = self._world.Get_rank()
        self.size = self._world.Get_size()
        node = self._world.Split_type(MPI.COMM_TYPE_SHARED)
        self.local_rank = node.Get_rank()
        node.Free()
        self._count = 0

    @classmethod
    def is_launched(cls) -> bool:
        """Return whether an MPI launcher has started this process."""
        return any(name in os.environ for name in LAUNCHER_VARIABLES)

    def all_reduce(self, array: NDArray[Any], *, timeout: float) -> None:
        """Replace an array by its sum over all ranks."""
        start = self._world.Iallreduce
        self._exchange(
            "all_reduce", lambda: start(self._mpi.IN_PLACE, array), array.nbytes, timeout
        )

    def all_gather(self, array: NDArray[Any], *, timeout: float) -> NDArray[Any]:
        """Return the arrays of all ranks as rows."""
        rows = np.empty((self.size, *array.shape), array.dtype)
        self._exchange(
            "all_gather", lambda: self._world.Iallgather(array, rows), rows.nbytes, timeout
        )
        return rows

    def broadcast(self, array: NDArray[Any], *, root: int, timeout: float) -> None:
        """Replace an array by the array of rank `root`."""
        self._exchange("broadcast", lambda: self._world.Ibcast(array, root), array.nbytes, timeout)

    def abort(self, status: int = 1) -> NoReturn:
        """End all ranks."""
        self._mpi.COMM_WORLD.Abort(status)
        os._exit(status)

    def close(self) -> None:
        """Wait for the others, and finalize MPI."""
        self._mpi.Finalize()

    def _exchange(
        self, operation: str, start_exchange: Callable[[], Any], nbytes: int, timeout: float
    ) -> None:
        """Start a non-blocking exchange and wait for its end.

        Raises:
            CollectiveTimeout: it takes longer than `timeout` seconds.
            CollectiveFailed: MPI reports an error.
        """
        self._count += 1
        try:
            has_ended = True
            if nbytes >= BARRIER_MIN_BYTES:
                has_ended = self._wait_for_requests(
                    [self._world.Ibarrier()], BUSY_POLL_SECONDS, timeout
                )
            eager = BUSY_POLL_SECONDS + nbytes * BUSY_POLL_SECONDS_PER_BYTE
            has_ended = has_ended and self._wait_for_requests([start_exchange()], eager, timeout)
        except self._mpi.Exception as error:
            raise CollectiveFailed(
                f"mpi: {operation} failed on rank {self.rank}: {error}"
            ) from error
        if not has_ended:
            missing = self._find_missing_ranks()
            raise CollectiveTimeout(
                f"mpi: rank {self.rank} has waited {timeout:g} s in exchange number {self._count} ({operation}) for "
                f"{describe_missing_ranks(missing)}"
            )

    def _wait_for_requests(
        self, requests: list[Any], busy_poll_seconds: float, timeout: float
    ) -> bool:
        """Return whether requests end within the timeout; for the first `busy_poll_seconds` seconds they are polled."""
        start = time.monotonic()
        while not self._mpi.Request.Testall(requests):
            waited = time.monotonic() - start
            if waited > timeout:
                return False
            if waited > busy_poll_seconds:
                time.sleep(POLL_INTERVAL_SECONDS)
            else:
                _yield_processor()
        return True

    def _find_missing_ranks(self) -> list[int]:
        """Return the ranks that are not waiting in the same exchange; the waiting ones send a message to all others."""
        others = [rank for rank in range(self.size) if rank != self.rank]
        mine = np.array([self._count])
        heard = np.zeros((self.size, 1), mine.dtype)
        sent = [self._control.Isend(mine, rank) for rank in others]
        received = [self._control.Irecv(heard[rank], rank) for rank in others]
        self._wait_for_requests(sent + received, BUSY_POLL_SECONDS, MISSING_RANKS_WAIT_SECONDS)
        return [rank for rank in others if heard[rank, 0] != self._count]
