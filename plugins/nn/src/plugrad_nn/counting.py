"""How many examples of a batch count, and means over the batches of an epoch."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import plugrad
from plugrad.extend import HALVES
from plugrad_nn.batching import iter_leaves
from plugrad_nn.weighting import check_takes_weights, count_examples, divides_by_weights

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable, Iterable, Iterator

    from plugrad import Tensor
    from plugrad_nn.strategy import Strategy


class BatchCount(NamedTuple):
    """The number of examples in the batch of all processes, and whether the batch ends a step."""

    examples: Any
    """The number of examples that count, by which the sum of losses is divided: a number or a 0-d tensor."""
    is_last: bool
    """Whether the batch ends a step."""


def count_and_yield_batches(
    batches: Iterable[tuple[Any, ...]],
    batch_counts: deque[BatchCount],
    loss: Callable[..., Tensor],
    batches_per_step: int,
) -> Iterator[tuple[Any, ...]]:
    """Yield batches, and append the number of examples of each and whether it ends a step to `batch_counts`.

    Raises:
        ArgumentError: there are weights, and the loss does not take them.
    """
    by_weights = divides_by_weights(loss)
    waiting: list[tuple[Any, ...]] = []
    position = 0

    def record_batch(batch: tuple[Any, ...], *, is_last: bool) -> None:
        """Record the number of examples of a batch, and whether it ends a step."""
        examples = count_examples(batch, count_rows(batch[0]), sums_weights=by_weights)
        batch_counts.append(BatchCount(examples, is_last))

    for batch in batches:
        if len(batch) > 2:
            check_takes_weights("fit", "loss", loss)
        # A batch that may be the last of all waits for the one after it.
        for earlier in waiting:
            record_batch(earlier, is_last=False)
            yield earlier
        waiting.clear()
        position = (position + 1) % batches_per_step
        if position == 0:
            record_batch(batch, is_last=True)
            yield batch
        else:
            waiting.append(batch)
    for last in waiting:
        record_batch(last, is_last=True)
        yield last


def report_local_examples(
    strategy: Strategy, batch: tuple[Any, ...], loss: Callable[..., Tensor]
) -> None:
    """Tell the strategy how many examples count in this process's share, where they have weights."""
    own = count_rows(batch[0]) if strategy.examples is None else strategy.examples
    if len(batch) > 2 and own:
        strategy.count(as_float(count_examples(batch, own, sums_weights=divides_by_weights(loss))))


def count_rows(inputs: Any) -> int:
    """Return the number of examples in the inputs of a batch, with or without weights."""
    return next(iter_leaves(inputs)).shape[0]


class MeanLoss:
    """The mean loss of an epoch, summed on the device because reading each loss would wait for it."""

    def __init__(self, *, is_per_step: bool) -> None:
        """Begin without losses.

        Args:
            is_per_step: whether the loss of the last batch of a step is the mean over all batches of the step, as
                `DistributedSteps.minimize` returns it.
        """
        self.is_per_step = is_per_step
        self.total: Any = 0.0
        self.count: Any = 0.0
        self.step_count: Any = 0.0
        """The number of examples in the batches of a step that has not ended."""

    def add(self, loss: Tensor, batch_count: BatchCount) -> None:
        """Add the loss of a batch, or of the step that ends with it."""
        self.count = self.count + batch_count.examples
        self.step_count = self.step_count + batch_count.examples
        if batch_count.is_last or not self.is_per_step:
            self.total = self.total + multiply_by_count(loss, self.step_count)
            self.step_count = 0.0

    def result(self) -> float:
        """Return the mean over all examples."""
        total, count = as_float(self.total), as_float(self.count)
        return total / count if count else math.nan


def multiply_by_count(mean: Any, count: Any) -> Any:
    """Return a mean times the count that it was divided by; a mean of nothing may be NaN, and gives 0.

    That of a half is float32: sums over many examples would be infinite in float16, and round in bfloat16.
    """
    if isinstance(mean, plugrad.Tensor) and mean.dtype in HALVES:
        mean = mean.astype(plugrad.float32)
    if isinstance(count, plugrad.Tensor):
        return plugrad.where(count == 0, 0.0, mean * count)
    return mean * count if count else 0.0


def as_float(x: Any) -> float:
    """Return a number or a 0-d tensor as a float."""
    return float(x.item()) if isinstance(x, plugrad.Tensor) else float(x)
