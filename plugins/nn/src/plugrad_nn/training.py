"""A training loop, for those who do not want to write their own."""

from __future__ import annotations

import math
import warnings
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from tqdm import tqdm

import plugrad
from plugrad.extend import ArgumentError, ShapeError
from plugrad_nn.arguments import (
    check_choice,
    check_flag,
    check_function,
    check_integer,
    check_number,
)
from plugrad_nn.callbacks import Run, read_result
from plugrad_nn.data import batches, iter_leaves, make_batches
from plugrad_nn.labels import batch_labels, largest_label
from plugrad_nn.layer import INFERENCE, Training
from plugrad_nn.parameters import assign, leaves

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from plugrad import Tensor
    from plugrad.optimizers import Optimizer
    from plugrad_nn.callbacks import Callback
    from plugrad_nn.parameters import Params
    from plugrad_nn.strategy import Steps, Strategy


@dataclass(frozen=True)
class EarlyStopping:
    """When `fit` stops: after `patience` epochs in which a result has not improved.

    >>> nn.EarlyStopping(patience=3).monitor
    'val_loss'

    Args:
        monitor: the name of the result: "loss", "val_loss", or ``"val_"`` and the name of a metric.
        min_delta: how much better a result must be to count as an improvement.
        patience: the number of epochs without improvement after which `fit` stops; with 0 it stops
            after the first.
        mode: whether smaller results are better, "min", or larger ones, "max".
        restore_best_weights: whether the parameters get the values of the best epoch at the end.

    Raises:
        ArgumentError, ArgumentValueError: an argument is none of the above.
    """

    monitor: str = "val_loss"
    min_delta: float = 0.0
    patience: int = 0
    mode: Literal["min", "max"] = "min"
    restore_best_weights: bool = False

    def __post_init__(self) -> None:
        check_number("EarlyStopping", "min_delta", self.min_delta, least=0)
        check_integer("EarlyStopping", "patience", self.patience)
        check_choice("EarlyStopping", "mode", self.mode, ("min", "max"))
        check_flag("EarlyStopping", "restore_best_weights", self.restore_best_weights)


def fit(
    model: Callable[..., Tensor],
    params: Params,
    x: Any,
    y: Any = None,
    *,
    loss: Callable[[Any, Tensor], Tensor],
    optimizer: Optimizer,
    epochs: int = 1,
    batch_size: int = 32,
    steps_per_epoch: int | None = None,
    seed: int = 0,
    validation_data: tuple[Any, Any] | None = None,
    metrics: Mapping[str, Callable[[Any, Tensor], Tensor]] | None = None,
    early_stopping: EarlyStopping | None = None,
    initial_epoch: int = 0,
    on_epoch_end: Callable[[int, dict[str, float]], Any] | None = None,
    callbacks: Sequence[Callback] = (),
    progress: bool | None = None,
    jit: bool = True,
    strategy: Strategy | None = None,
) -> list[dict[str, float]]:
    """Train the parameters of a model in place, and return the results of every epoch.

    >>> x = np.random.default_rng(0).normal(size=(64, 2)).astype(np.float32)
    >>> y = (x[:, 0] > x[:, 1]).astype(np.int32)
    >>> model = nn.Dense(2)
    >>> params = model.init(0, (2,))
    >>> results = nn.fit(
    ...     model,
    ...     params,
    ...     x,
    ...     y,
    ...     loss=nn.losses.sparse_softmax_cross_entropy,
    ...     optimizer=plugrad.optimizers.Adam(0.1),
    ...     epochs=10,
    ...     validation_data=(x, y),
    ...     metrics={"accuracy": nn.metrics.accuracy},
    ... )
    >>> sorted(results[-1]), results[-1]["val_accuracy"] > 0.9
    (['loss', 'val_accuracy', 'val_loss'], True)

    It does what a loop over `batches` with `Training`, `minimize` and `commit` does, and nothing else.
    Batches and dropout are determined by the seed, the epoch and the optimizer's `iterations`: a
    training that continues with ``initial_epoch``, after the parameters and the optimizer's state were
    saved and loaded, gives the results of one that was not interrupted.

    Args:
        model: a layer, or a function of (params, x, mode).
        params: what `init` returned.
        x: the inputs, as `batches` takes them, or dicts and tuples of them for a model that takes those. Without `y`,
            an iterable of batches: pairs (inputs, labels), as a list, a function's generator or a data loader of
            another library yields them. It is read anew for each epoch, and what it yields becomes tensors.
        y: the labels, likewise.
        loss: a function of labels and predictions, such as those in `plugrad_nn.losses` and
            `plugrad.losses`.
        optimizer: an optimizer of `plugrad.optimizers`.
        epochs: the number of the last epoch; each sees all examples once, in another order.
        batch_size: the number of examples in a step, if `x` and `y` are arrays.
        steps_per_epoch: the number of steps after which an epoch ends; by default all batches are taken. A generator
            goes on in the next epoch where it was.
        seed: an integer, 0 or more.
        validation_data: inputs and labels that are not trained with; `evaluate` gives the results whose
            names begin with ``"val_"``.
        metrics: functions of labels and predictions, by name; see `evaluate`.
        early_stopping: when to stop before the last epoch.
        initial_epoch: the number of epochs that were trained before.
        on_epoch_end: a function of the number of the epoch, from 1 on, and its results; it may save the
            parameters.
        callbacks: objects whose methods are called before, between and after; see `Callback`.
        progress: whether to draw a progress bar; by default only on a terminal.
        jit: whether to trace the step with `plugrad.jit`. If it cannot be traced, because the model or the loss
            needs values, a warning says why once, and the steps run untraced.
        strategy: how several processes train together, such as ``dist.DataParallel()``: each computes its part of every
            batch, and all end with the same parameters and results, which are those of one process. All call `fit`
            with the same arguments, and `on_epoch_end` runs in all of them.

    Raises:
        ArgumentError, ArgumentValueError, ShapeError: an argument is none of the above, or a label is no class.
        GradientNotFound: the loss does not depend on a trainable parameter.
    """
    check_function("fit", "model", model)
    check_function("fit", "loss", loss)
    epochs = check_integer("fit", "epochs", epochs)
    initial_epoch = check_integer("fit", "initial_epoch", initial_epoch)
    seed = check_integer("fit", "seed", seed)
    batch_size = check_integer("fit", "batch_size", batch_size, 1)
    if metrics and validation_data is None:
        raise ArgumentError("fit: metrics are computed with validation_data, which is None")
    if not isinstance(optimizer, plugrad.optimizers.Optimizer):  # pyright: ignore[reportUnnecessaryIsInstance] - people pass anything
        raise ArgumentError(
            f"fit: optimizer={optimizer!r:.80} must be one of plugrad.optimizers, such as Adam()"
        )
    variables = leaves(params)
    watch = None if early_stopping is None else _EarlyStoppingMonitor(early_stopping)
    results: list[dict[str, float]] = []
    jit = check_flag("fit", "jit", jit)
    steps: Steps = optimizer
    moments = None
    if strategy is not None:
        strategy.prepare(variables)
        steps, moments = strategy.with_optimizer(optimizer), strategy.moments
        progress = progress if strategy.is_first else False
    data = make_batches("fit", x, y, size=batch_size, steps_per_epoch=steps_per_epoch)
    # Once: reading labels of each batch would wait for the device.
    largest = _largest_label(y)
    going_on = Run(params, optimizer, epochs, results)

    def step_seed() -> int:
        own = _derive_seed(seed, steps.iterations)
        return own if strategy is None else strategy.seed(own)

    def step(inputs: Tensor, labels: Tensor) -> Tensor:
        training = Training(step_seed, moments=moments)

        def value() -> Tensor:
            predictions = model(params, inputs, training)
            with batch_labels(labels, largest):
                return loss(labels, predictions)

        before = steps.minimize(value, variables)
        training.commit(params)
        return before

    run = _trace_if_possible(step) if jit else step
    for callback in callbacks:
        callback.on_train_begin(going_on)
    for epoch in range(initial_epoch, epochs):
        for callback in callbacks:
            callback.on_epoch_begin(going_on, epoch + 1)
        total, count = None, 0
        sizes: deque[int] = deque()
        found_batches = _count_examples(data.batches(_derive_seed(seed, epoch)), sizes)
        bar = tqdm(
            found_batches if strategy is None else strategy.shard(found_batches),
            total=data.steps,
            desc=f"epoch {epoch + 1}/{epochs}",
            unit="step",
            disable=None if progress is None else not progress,
        )
        for number, (inputs, labels) in enumerate(bar, 1):
            before = run(inputs, labels)
            # Added on the device: reading each loss would wait for it.
            size = sizes.popleft()
            weighted = before * size
            total = weighted if total is None else total + weighted
            count += size
            if not bar.disable:
                bar.set_postfix_str(f"loss {before.item():.4f}")
            for callback in callbacks:
                callback.on_batch_end(going_on, number, before)
        found = {"loss": math.nan if total is None else total.item() / count}
        if validation_data is not None:
            theirs = evaluate(
                model,
                params,
                *validation_data,
                loss=loss,
                metrics=metrics,
                batch_size=batch_size,
                strategy=strategy,
            )
            found |= {f"val_{name}": result for name, result in theirs.items()}
        results.append(found)
        if on_epoch_end is not None:
            on_epoch_end(epoch + 1, dict(found))
        for callback in callbacks:
            callback.on_epoch_end(going_on, epoch + 1, dict(found))
        if going_on.is_stopped or (watch is not None and watch.should_stop(found, params)):
            break
    if watch is not None and watch.best is not None:
        assign(params, watch.best)
    for callback in callbacks:
        callback.on_train_end(going_on)
    return results


def evaluate(
    model: Callable[..., Tensor],
    params: Params,
    x: Any,
    y: Any = None,
    *,
    loss: Callable[[Any, Tensor], Tensor],
    metrics: Mapping[str, Callable[[Any, Tensor], Tensor]] | None = None,
    batch_size: int = 32,
    strategy: Strategy | None = None,
) -> dict[str, float]:
    """Return the loss and the metrics of a model, averaged over the examples.

    >>> model = nn.Dense(2, kernel_initializer=nn.initializers.zeros)
    >>> x, y = np.ones((3, 1), np.float32), np.zeros(3, np.int32)
    >>> loss = nn.losses.sparse_softmax_cross_entropy
    >>> nn.evaluate(
    ...     model, model.init(0, (1,)), x, y, loss=loss, metrics={"accuracy": nn.metrics.accuracy}
    ... )
    {'loss': 0.6931471824645996, 'accuracy': 1.0}

    The results of batches are averaged with their numbers of examples. Arguments and errors are as for
    `fit`. Without examples, results are NaN.
    """
    functions = {"loss": loss, **(metrics or {})}
    for name, metric in functions.items():
        check_function("evaluate", name, metric)
    totals: dict[str, Tensor] = {}
    count = 0
    largest = _largest_label(y)
    whole = make_batches("evaluate", x, y, size=batch_size).batches(None)
    for inputs, labels in whole if strategy is None else strategy.shard(whole):
        predictions = model(params, inputs, INFERENCE)
        own = None if strategy is None else strategy.examples
        size = _count(inputs) if own is None else own
        count += size
        if size == 0:
            continue  # the share of this process is empty
        for name, metric in functions.items():
            with batch_labels(labels, largest):
                weighted = metric(labels, predictions) * size
            totals[name] = totals[name] + weighted if name in totals else weighted
    numbers = [float(count), *(totals[n].item() if n in totals else 0.0 for n in functions)]
    everything, *sums = numbers if strategy is None else strategy.sum(numbers)
    return {
        name: total / everything if everything else math.nan
        for name, total in zip(functions, sums, strict=True)
    }


def predict(
    model: Callable[..., Tensor], params: Params, x: Any, *, batch_size: int = 32
) -> Tensor:
    """Return the results of a model in inference, computed batch by batch.

    >>> model = nn.Dense(2)
    >>> nn.predict(model, model.init(0, (3,)), np.ones((100, 3), np.float32)).shape
    (100, 2)

    Arguments and errors are as for `fit`.

    Raises:
        ShapeError: there are no inputs.
    """
    check_function("predict", "model", model)
    parts = [model(params, inputs, INFERENCE) for (inputs,) in batches(x, size=batch_size)]
    if not parts:
        raise ShapeError("predict: x has no inputs")
    return plugrad.concat(parts)


def _largest_label(labels: Any) -> int | None:
    """Return the largest label of a data set, None for an iterable or for several kinds of labels."""
    return None if labels is None or isinstance(labels, dict | tuple) else largest_label(labels)


def _count(inputs: Any) -> int:
    """Return the number of examples in a batch."""
    return next(iter_leaves(inputs)).shape[0]


def _count_examples(
    found: Iterator[tuple[Any, Any]], sizes: deque[int]
) -> Iterator[tuple[Any, Any]]:
    """Yield batches, and note the number of examples in each."""
    for inputs, labels in found:
        sizes.append(_count(inputs))
        yield inputs, labels


def _trace_if_possible(step: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    """Return a step that is traced, unless its first call shows that it cannot be."""
    current: Callable[[Tensor, Tensor], Tensor] = plugrad.jit(step)

    def run(inputs: Tensor, labels: Tensor) -> Tensor:
        nonlocal current
        try:
            return current(inputs, labels)
        except plugrad.errors.TracingError as error:
            if current is step:
                raise
            current = (
                step  # nothing has changed: variables get new values when a call has succeeded
            )
            warnings.warn(
                "fit: the steps run untraced, which takes longer; fit(…, jit=False) says so without this warning: "
                f"{error}",
                stacklevel=3,
            )
            return step(inputs, labels)

    return run


class _EarlyStoppingMonitor:
    """The history of the result that early stopping monitors."""

    def __init__(self, rule: EarlyStopping) -> None:
        self.rule = rule
        self.record = math.inf
        self.waited = 0
        self.best: Params | None = None

    def should_stop(self, found: Mapping[str, float], params: Params) -> bool:
        """Note the results of one epoch, and return whether to stop."""
        value = read_result("EarlyStopping", self.rule.monitor, found)
        value *= 1 if self.rule.mode == "min" else -1
        if value < self.record - self.rule.min_delta:
            self.record = value
            self.waited = 0
            if self.rule.restore_best_weights:
                self.best = _copy_values(params)
            return False
        self.waited += 1
        return self.waited >= self.rule.patience


def _copy_values(params: Mapping[str, Any]) -> Params:
    """Return the present values of variables as tensors of their own."""
    return {
        name: _copy_values(part) if isinstance(part, dict) else plugrad.asarray(part, copy=True)
        for name, part in params.items()
    }


def _derive_seed(seed: int, number: int) -> int:
    """Derive a seed from a run's seed and a number, different for each."""
    return seed * 2**32 + number
