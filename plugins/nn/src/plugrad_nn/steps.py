"""The steps of `fit`, each of which moves the parameters by the gradients of one batch or of several."""

from __future__ import annotations

import warnings
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import plugrad
from plugrad_nn.accumulation import AccumulatingOptimizer
from plugrad_nn.labels import batch_labels
from plugrad_nn.layer import Training
from plugrad_nn.parameters import leaves

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad import Tensor
    from plugrad.extend import DType
    from plugrad.optimizers import Optimizer
    from plugrad_nn.counting import BatchCount
    from plugrad_nn.parameters import Params
    from plugrad_nn.strategy import DistributedSteps, Strategy


class Steps:
    """The steps of one training, each with the mean gradient over one batch or several.

    Args:
        model: a function of (params, inputs, mode).
        params: the parameters.
        loss: a function of labels, predictions and maybe weights.
        optimizer: the optimizer.
        seed: the seed of the training, from which each batch gets its own.
        batches_per_step: the number of batches whose gradients make a step.
        max_label: the largest label of the data set, if it is known.
        autocast: the dtype of mixed precision, if any.
        strategy: how several processes train together, if they do.
        jit: whether to trace the computation, if that is possible.
    """

    def __init__(
        self,
        model: Callable[..., Tensor],
        params: Params,
        *,
        loss: Callable[..., Tensor],
        optimizer: Optimizer,
        seed: int,
        batches_per_step: int,
        max_label: int | None,
        autocast: DType | str | None,
        strategy: Strategy | None,
        jit: bool,
    ) -> None:
        self.model = model
        self.params = params
        self.variables = leaves(params)
        self.loss = loss
        self.optimizer = optimizer
        self.seed = seed
        self.batches_per_step = batches_per_step
        self.max_label = max_label
        self.autocast = autocast
        self.strategy = strategy
        self.position = 0
        """The number of batches of the current step that were taken before."""
        self.distributed: DistributedSteps | None = None
        self.accumulating: AccumulatingOptimizer | None = None
        if strategy is not None:
            self.distributed = strategy.with_optimizer(optimizer)
            self.distributed.prepare(self.variables)
        elif batches_per_step > 1:
            self.accumulating = AccumulatingOptimizer(optimizer)
        self._run = _trace_if_possible(self._train) if jit else self._train

    def train_on_batch(self, batch: tuple[Any, ...], count: BatchCount) -> Tensor:
        """Train on a batch, and return its loss."""
        # The count is an input of the traced function; without accumulation, it is not needed.
        examples = None if self.accumulating is None else _as_scalar(count.examples)
        found = self._run(batch, examples, count.is_last)
        self.position = 0 if count.is_last else self.position + 1
        return found

    def mixed_precision(self) -> AbstractContextManager[None]:
        """Return the context manager in which the model and the loss run."""
        return nullcontext() if self.autocast is None else plugrad.autocast(self.autocast)

    def _train(self, batch: tuple[Any, ...], examples: Tensor | None, is_last: bool) -> Tensor:
        """Use the gradients of a batch, take the step that ends with it, if any, and return the loss."""
        moments = None if self.strategy is None else self.strategy.moments
        training = Training(self._batch_seed, moments=moments)
        inputs, labels, *weights = batch
        scale = self._loss_scale()

        def compute_loss() -> Tensor:
            with self.mixed_precision():
                predictions = self.model(self.params, inputs, training)
                with batch_labels(labels, self.max_label):
                    found = self.loss(labels, predictions, *weights)
            return found if scale is None else found.astype(plugrad.float32) * scale

        found = self._update(compute_loss, examples, is_last)
        training.commit(self.params)
        return found if scale is None else found / scale

    def _update(
        self, compute_loss: Callable[[], Tensor], examples: Tensor | None, is_last: bool
    ) -> Tensor:
        """Take a step or accumulate gradients for it, and return the loss."""
        if self.accumulating is not None:
            assert examples is not None
            take = self.accumulating.minimize if is_last else self.accumulating.accumulate
            return take(compute_loss, self.variables, examples)
        if self.distributed is not None:
            take = self.distributed.minimize if is_last else self.distributed.accumulate
            return take(compute_loss, self.variables)
        return self.optimizer.minimize(compute_loss, self.variables)

    def _loss_scale(self) -> Tensor | None:
        """Return the factor of the loss scale, or None if there is none or if `minimize` multiplies the loss by it."""
        scale = self.optimizer.loss_scale
        if scale is None or self.accumulating is None:
            return None
        return plugrad.stop_gradient(scale.factor_on(self.variables[0].backend))

    def _batch_seed(self) -> int:
        """Return the seed of the current batch."""
        seed = derive_seed(self.seed, self.optimizer.iterations) + (self.position << 128)
        return seed if self.strategy is None else self.strategy.seed(seed)


def derive_seed(seed: int, number: int) -> int:
    """Derive a seed from a run's seed and a number, different for each."""
    return seed * 2**32 + number


def _as_scalar(x: Any) -> Tensor:
    """Return a number as a 0-d tensor."""
    return x if isinstance(x, plugrad.Tensor) else plugrad.asarray(float(x))


def _trace_if_possible(step: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return a traced step, or the step itself if its first call shows that it cannot be traced."""
    current: Callable[..., Tensor] = plugrad.jit(step)

    def run(batch: tuple[Any, ...], examples: Tensor | None, is_last: bool) -> Tensor:
        nonlocal current
        try:
            return current(batch, examples, is_last)
        except plugrad.errors.TracingError as error:
            if current is step:
                raise
            # Nothing has changed: variables get new values when a call has succeeded.
            current = step
            warnings.warn(
                "fit: the steps run untraced, which takes longer; fit(…, jit=False) says so without this warning: "
                f"{error}",
                stacklevel=4,
            )
            return step(batch, examples, is_last)

    return run
