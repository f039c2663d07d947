"""The interface through which `fit` trains in several processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from plugrad import Tensor, Variable
    from plugrad.optimizers import Optimizer
    from plugrad_nn.layer import MomentsFunction


class DistributedSteps(Protocol):
    """An optimizer interface whose steps use the gradients of all processes, and the optimizer's loss scale."""

    @property
    def iterations(self) -> int:
        """The number of steps taken."""
        ...

    def prepare(self, variables: Sequence[Variable]) -> None:
        """Give the variables equal values in all processes, which continue with the optimizer's state."""
        ...

    def get_state(self, variables: Collection[Variable]) -> dict[str, Any]:
        """Return the optimizer's state of the variables; all processes call it."""
        ...

    def minimize(self, function: Callable[[], Tensor], variables: Collection[Variable]) -> Tensor:
        """Take one step, and return the mean of the function over its examples, those of all processes and batches."""
        ...

    def accumulate(self, function: Callable[[], Tensor], variables: Collection[Variable]) -> Tensor:
        """Accumulate gradients for the next step, and return the value of the function in this process."""
        ...


class Strategy(Protocol):
    """The interface for training in several processes, such as ``dist.DataParallel()`` of plugrad-distributed."""

    @property
    def is_first(self) -> bool:
        """Whether this is the first process, which draws the progress bar and writes files and logs."""
        ...

    @property
    def moments(self) -> MomentsFunction | None:
        """The function that computes batch statistics over all processes; see `Training`."""
        ...

    @property
    def examples(self) -> float | None:
        """The number of examples that count in this process's current batch, or None if all do."""
        ...

    def count(self, examples: float) -> None:
        """Set the number of examples that count in this process's current batch."""
        ...

    def with_optimizer(self, optimizer: Optimizer) -> DistributedSteps:
        """Return an object that takes an optimizer's steps in all processes."""
        ...

    def shard(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield this process's part of each batch."""
        ...

    def seed(self, seed: int) -> int:
        """Return a seed that differs in each process."""
        ...

    def sum(self, numbers: Sequence[float]) -> list[float]:
        """Return the sums of numbers over all processes."""
        ...
