"""The interface of collectives: the exchanges of NumPy arrays within one group of processes."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Collective(ABC):
    """The connection of this process, its *rank*, with the other processes of its world.

    A distribution brings one by an entry point of the group ``plugrad.collectives``, which names the class. Importing
    the module must not import the library that does the work. `dist.init` calls the class without arguments; then all
    ranks call the same methods in the same order. They are called by one thread at a time, not always the same one.

    Arrays are contiguous and writable, of real numbers in the machine's order of bytes. Every exchange ends with the
    same bits on all ranks. A rank that waits longer than `timeout` seconds raises `CollectiveTimeout`, whose message
    names the ranks that did not come. After an error, a collective is only aborted or closed.
    """

    name: ClassVar[str]
    """The name under which it is found, such as "mpi"."""
    library: ClassVar[str] = ""
    """The module that does the work, which is imported when the collective starts; empty if there is none."""
    remedy: ClassVar[str] = ""
    """What to do where the library is missing, such as a command of pip."""
    rank: int
    """The number of this process, from 0 on."""
    size: int
    """How many processes there are."""
    local_rank: int
    """The number of this process among those of its machine, which decides about its device."""

    @classmethod
    @abstractmethod
    def is_launched(cls) -> bool:
        """Return whether environment variables say that this process was started as a rank of such a world."""

    @abstractmethod
    def all_reduce(self, array: NDArray[Any], *, timeout: float) -> None:
        """Replace a one-dimensional array by its sum over all ranks, whose arrays have equal sizes and dtypes."""

    @abstractmethod
    def all_gather(self, array: NDArray[Any], *, timeout: float) -> NDArray[Any]:
        """Return the arrays of all ranks, of equal sizes, as rows in rank order."""

    @abstractmethod
    def broadcast(self, array: NDArray[Any], *, root: int, timeout: float) -> None:
        """Replace a one-dimensional array by the array of rank `root`."""

    def barrier(self, *, timeout: float) -> None:
        """Wait until all ranks have called this."""
        import numpy as np

        self.all_gather(np.zeros(1, np.uint8), timeout=timeout)

    def abort(self, status: int = 1) -> NoReturn:
        """End this process at once and the others as soon as possible; nothing runs after it."""
        os._exit(status)

    @abstractmethod
    def close(self) -> None:
        """Leave the world in an orderly way; called once, after all exchanges have ended."""
