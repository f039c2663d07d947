"""The collective of a process that is alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from plugrad_distributed.collective import Collective

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Single(Collective):
    """A world of one rank, whose exchanges change nothing."""

    name = "single"
    rank = 0
    """The number of this process, the only one."""
    size = 1
    """The number of processes."""
    local_rank = 0
    """The number of this process on its machine."""

    @classmethod
    def is_launched(cls) -> bool:
        """Return False: it is the fallback if no other collective was launched."""
        return False

    def all_reduce(self, array: NDArray[Any], *, timeout: float) -> None:
        """Leave the array unchanged."""

    def all_gather(self, array: NDArray[Any], *, timeout: float) -> NDArray[Any]:
        """Return a copy with one row."""
        return array[None].copy()

    def broadcast(self, array: NDArray[Any], *, root: int, timeout: float) -> None:
        """Leave the array unchanged."""

    def close(self) -> None:
        """Do nothing."""
