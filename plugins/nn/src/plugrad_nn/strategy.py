"""What `fit` asks of whatever lets several processes train together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from plugrad import Tensor, Variable
    from plugrad.optimizers import Optimizer
    from plugrad_nn.layer import Moments


class Steps(Protocol):
    """What takes steps with the gradients of all processes."""

    @property
    def iterations(self) -> int:
        """The number of steps taken."""
        ...

    def minimize(self, function: Callable[[], Tensor], variables: Collection[Variable]) -> Tensor:
        """Take one step, and return the value of the function, averaged over the examples of all processes."""
        ...

    def accumulate(self, function: Callable[[], Tensor], variables: Collection[Variable]) -> Tensor:
        """Add up gradients for the next step, and return the value of the function in this process."""
        ...


class Strategy(Protocol):
    """How several processes train together; ``dist.DataParallel()`` of plugrad-distributed is one."""

    @property
    def is_first(self) -> bool:
        """Whether this is the process that draws the progress bar."""
        ...

    @property
    def moments(self) -> Moments | None:
        """How a batch of all processes is normalized; see `Training`."""
        ...

    @property
    def examples(self) -> float | None:
        """How many examples of the present batch count in this process; None for all."""
        ...

    def count(self, examples: float) -> None:
        """Say how many examples of the present batch count in this process."""
        ...

    def with_optimizer(self, optimizer: Optimizer) -> Steps:
        """Return what takes the steps of an optimizer in all processes."""
        ...

    def prepare(self, variables: Sequence[Variable]) -> None:
        """Give the variables the same values in all processes."""
        ...

    def shard(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield the part of each batch that this process computes."""
        ...

    def seed(self, seed: int) -> int:
        """Return a seed that is different in each process."""
        ...

    def sum(self, numbers: Sequence[float]) -> list[float]:
        """Return the sums of numbers over all processes."""
        ...
