"""A training loop, for those who do not want to write their own."""

from __future__ import annotations

import math
import warnings
from collections import deque
from collections.abc import Mapping
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import plugrad
from plugrad.extend import ArgumentError, ShapeError, explain_wrong_calls
from plugrad_nn.accumulation import AccumulatingOptimizer
from plugrad_nn.arguments import check_flag, check_function, check_integer
from plugrad_nn.batching import batches, iter_leaves, make_batches, to_tensors
from plugrad_nn.callbacks import Callback, Run
from plugrad_nn.labels import batch_labels, largest_label
from plugrad_nn.layer import INFERENCE, Training
from plugrad_nn.metrics.streams import Metric
from plugrad_nn.parameters import assign, check_nested_dict, leaves
from plugrad_nn.progress import make_progress_bar
from plugrad_nn.stopping import EarlyStopping, EarlyStoppingMonitor
from plugrad_nn.weighting import (
    check_takes_weights,
    count_examples,
    divides_by_weights,
    make_weighting,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from plugrad import Tensor
    from plugrad.extend import DType
    from plugrad.optimizers import Optimizer
    from plugrad_nn.parameters import Params
    from plugrad_nn.strategy import DistributedSteps, Strategy


@explain_wrong_calls
def fit(
    model: Callable[..., Tensor],
    params: Params,
    x: Any,
    y: Any = None,
    *,
    loss: Callable[..., Tensor],
    optimizer: Optimizer,
    epochs: int = 1,
    batch_size: int = 32,
    steps_per_epoch: int | None = None,
    seed: int = 0,
    sample_weight: Any = None,
    class_weight: Mapping[int, float] | Sequence[float] | None = None,
    ignore_index: int | None = None,
    accumulate: int = 1,
    validation_data: tuple[Any, ...] | None = None,
    metrics: Mapping[str, Callable[..., Tensor] | Metric] | None = None,
    early_stopping: EarlyStopping | None = None,
    initial_epoch: int = 0,
    on_epoch_end: Callable[[int, dict[str, float]], Any] | None = None,
    callbacks: Sequence[Callback] = (),
    progress: bool | None = None,
    jit: bool = True,
    strategy: Strategy | None = None,
    autocast: DType | str | None = None,
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

    Where examples have weights, the loss and the metrics are called with these as a third argument. The losses of
    plugrad then return ``sum(weights * losses) / n``, with n the number of weights that are not 0; it is the mean that
    Keras computes, but examples of weight 0 do not count. Torch divides by the sum of the weights, and so does
    ``loss=functools.partial(…, reduction="mean")``. Averages over batches, accumulated gradients and strategies have
    the same divisor, and so the batches give what one large batch would.

    Args:
        model: a layer, or a function of (params, x, mode).
        params: what `init` returned.
        x: the inputs, as `batches` takes them, or dicts and tuples of them for a model that takes those. Without
            `y`, an iterable of batches: pairs (inputs, labels) or triples (inputs, labels, weights), as a list, a
            function's generator or a data loader of another library yields them. It is read anew for each epoch, and
            what it yields becomes tensors.
        y: the labels, likewise.
        loss: a function of labels and predictions, such as those in `plugrad_nn.losses` and
            `plugrad.losses`.
        optimizer: an optimizer of `plugrad.optimizers`.
        epochs: the number of the last epoch; each sees all examples once, in another order.
        batch_size: the number of examples in a step, if `x` and `y` are arrays.
        steps_per_epoch: the number of steps after which an epoch ends; by default all batches are taken. A generator
            goes on in the next epoch where it was.
        seed: an integer, 0 or more.
        sample_weight: how much each example counts, an array of numbers of 0 or more in a shape that broadcasts to that
            of the losses; a mask has 0 and 1. For integer labels, it may have fewer axes than these.
        class_weight: how much the examples of each class count, as a dict or a list; a class that is not there has 1.
            The labels must be integers. All weights of an example are multiplied.
        ignore_index: an integer label that does not count.
        accumulate: the number of batches whose gradients are added up for one step, which takes their mean over all
            examples; the last step of an epoch may have fewer.
        validation_data: inputs, labels and maybe weights that are not trained with; `evaluate` gives the results whose
            names begin with ``"val_"``, for which classes have no weights.
        metrics: functions of labels and predictions, or objects that add up over batches, by name; see `evaluate`.
        early_stopping: when to stop before the last epoch.
        initial_epoch: the number of epochs that were trained before.
        on_epoch_end: a function of the number of the epoch, from 1 on, and its results; it may save the
            parameters.
        callbacks: objects whose methods are called before, between and after; see `Callback`.
        progress: whether to draw a progress bar; by default only on a terminal and in a notebook.
        jit: whether to trace the step with `plugrad.jit`. If it cannot be traced, because the model or the loss
            needs values, a warning says why once, and the steps run untraced.
        strategy: how several processes train together, such as ``dist.DataParallel()``: each computes its part of every
            batch, and all end with the same parameters and results, which are those of one process. All call `fit`
            with the same arguments, and `on_epoch_end` and callbacks run in all of them, unless a callback says
            otherwise. An iterable should then yield weights as NumPy arrays: tensors on a device have to be waited for
            in each batch.
        autocast: "bfloat16" or "float16" for mixed precision: the model and the loss run inside of a
            `plugrad.autocast` block, also for `validation_data`. The parameters stay float32. With "float16", an
            optimizer without a `plugrad.optimizers.LossScale` gets one, which is part of its state.

    Raises:
        ArgumentError, ArgumentValueError, ShapeError: an argument is none of the above, a label is no class, or there
            are weights and the loss does not take them.
        GradientNotFound: the loss does not depend on a trainable parameter.
    """
    check_function("fit", "model", model)
    check_function("fit", "loss", loss, "plugrad.losses.mean_squared_error")
    epochs = check_integer("fit", "epochs", epochs)
    initial_epoch = check_integer("fit", "initial_epoch", initial_epoch)
    seed = check_integer("fit", "seed", seed)
    batch_size = check_integer("fit", "batch_size", batch_size, 1)
    _check_metrics("fit", metrics)
    if metrics and validation_data is None:
        raise ArgumentError("fit: metrics are computed with validation_data, which is None")
    if validation_data is not None and not isinstance(validation_data, tuple | list):  # pyright: ignore[reportUnnecessaryIsInstance] - people pass anything
        raise ArgumentError(
            f"fit: validation_data must be a tuple, such as (x, y), and not a {type(validation_data).__name__}"
        )
    _check_callbacks(callbacks)
    if isinstance(optimizer, plugrad.optimizers.LBFGS):
        raise ArgumentError(
            "fit: LBFGS takes all examples in each call of the function; write a function of them, and call "
            "optimizer.minimize(function, nn.leaves(params))"
        )
    if not isinstance(optimizer, plugrad.optimizers.Optimizer):  # pyright: ignore[reportUnnecessaryIsInstance] - people pass anything
        raise ArgumentError(
            f"fit: optimizer={optimizer!r:.80} must be one of plugrad.optimizers, such as Adam()"
        )
    accumulate = check_integer("fit", "accumulate", accumulate, 1)
    with plugrad.autocast(autocast or plugrad.float32):  # which checks the dtype
        pass
    if (
        autocast is not None
        and plugrad.as_dtype(autocast) == "float16"
        and optimizer.loss_scale is None
    ):
        optimizer.with_loss_scale(plugrad.optimizers.LossScale())
    weighting = make_weighting("fit", class_weight, ignore_index)
    check_nested_dict("fit", params)
    variables = leaves(params)
    watch = None if early_stopping is None else EarlyStoppingMonitor(early_stopping)
    results: list[dict[str, float]] = []
    jit = check_flag("fit", "jit", jit)
    steps: Optimizer | AccumulatingOptimizer | DistributedSteps = (
        optimizer if accumulate == 1 else AccumulatingOptimizer(optimizer)
    )
    moments = distributed = None
    if strategy is not None:
        steps = distributed = strategy.with_optimizer(optimizer)
        distributed.prepare(variables)
        moments = strategy.moments
        callbacks = [c for c in callbacks if strategy.is_first or not c.only_in_first_process]
        progress = progress if strategy.is_first else False
    # What says how many examples of a share count: reading it on a device would wait, in each batch.
    counted = () if strategy is None else (1, 2) if weighting.needs_labels else (2,)
    data = make_batches(
        "fit",
        x,
        y,
        sample_weight,
        batch_size=batch_size,
        steps_per_epoch=steps_per_epoch,
        on_host=counted,
    )
    # Once: reading labels of each batch would wait for the device.
    largest = _largest_label(y)
    is_first = strategy is None or strategy.is_first
    going_on = Run(params, optimizer, epochs, results, is_first=is_first, distributed=distributed)
    position = 0  # among the batches of one step
    mixed = nullcontext if autocast is None else partial(plugrad.autocast, autocast)

    def step_seed() -> int:
        """Return the seed of the next step."""
        own = _derive_seed(seed, steps.iterations) + (position << 128)
        return own if strategy is None else strategy.seed(own)

    def step(batch: tuple[Any, ...], examples: Tensor | None, is_last: bool) -> Tensor:
        """Take or accumulate a step with a batch, and return its loss."""
        training = Training(step_seed, moments=moments)
        inputs, labels, *weights = batch
        factor = None
        if optimizer.loss_scale is not None and isinstance(steps, AccumulatingOptimizer):
            factor = plugrad.stop_gradient(optimizer.loss_scale.factor_on(variables[0].backend))

        def compute_loss() -> Tensor:
            with mixed():
                predictions = model(params, inputs, training)
                with batch_labels(labels, largest):
                    found = loss(labels, predictions, *weights)
            return found if factor is None else found.astype(plugrad.float32) * factor

        if isinstance(steps, AccumulatingOptimizer):
            take = steps.minimize if is_last else steps.accumulate
            assert examples is not None
            before = take(compute_loss, variables, examples)
        elif is_last or isinstance(steps, plugrad.optimizers.Optimizer):
            before = steps.minimize(compute_loss, variables)
        else:
            before = steps.accumulate(compute_loss, variables)
        training.commit(params)
        return before if factor is None else before / factor

    run = _trace_if_possible(step) if jit else step
    for callback in callbacks:
        callback.on_train_begin(going_on)
    for epoch in range(initial_epoch, epochs):
        for callback in callbacks:
            callback.on_epoch_begin(going_on, epoch + 1)
        mean = _MeanLoss(strategy if accumulate > 1 else None)
        notes: deque[_BatchCount] = deque()
        found_batches = _count_and_yield_batches(
            weighting.weigh(data.batches(_derive_seed(seed, epoch))), notes, loss, accumulate
        )
        bar = make_progress_bar(
            found_batches if strategy is None else strategy.shard(found_batches),
            batch_count=data.steps,
            title=f"epoch {epoch + 1}/{epochs}",
            is_shown=progress,
        )
        for number, batch in enumerate(bar, 1):
            note = notes.popleft()
            own = note.examples
            if strategy is not None:
                own = _count_local_examples(strategy, batch, loss)
                batch = to_tensors(batch)
            examples = (
                _as_scalar(note.examples) if isinstance(steps, AccumulatingOptimizer) else None
            )
            before = run(batch, examples, note.is_last)
            position = 0 if note.is_last else position + 1
            mean.add(before, note, own)
            if not bar.disable:
                bar.set_postfix_str(f"loss {before.item():.4f}")
            for callback in callbacks:
                callback.on_batch_end(going_on, number, before)
        found = {"loss": mean.result()}
        if validation_data is not None:
            with mixed():
                theirs = evaluate(
                    model,
                    params,
                    *validation_data,
                    loss=loss,
                    metrics=metrics,
                    batch_size=batch_size,
                    ignore_index=ignore_index,
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


def _check_metrics(owner: str, metrics: object) -> None:
    """Raise an ArgumentError unless the metrics have names."""
    if not isinstance(metrics, Mapping | None):
        raise ArgumentError(
            f"{owner}: metrics={metrics!r:.80} must be a dict of functions by name, such as "
            '{"accuracy": nn.metrics.accuracy}'
        )


def _check_callbacks(callbacks: Any) -> None:
    """Raise an ArgumentError unless the callbacks are a list or tuple of callbacks."""
    is_sequence = isinstance(callbacks, tuple | list)
    given: Sequence[object] = callbacks if is_sequence else [callbacks]
    for callback in given:
        if isinstance(callback, EarlyStopping):
            raise ArgumentError(f"fit: write early_stopping={callback!r}, which is no callback")
        if not (is_sequence and isinstance(callback, Callback)):
            raise ArgumentError(
                f"fit: callbacks={callbacks!r:.80} must be a list of objects of nn.Callback"
            )


@explain_wrong_calls
def evaluate(
    model: Callable[..., Tensor],
    params: Params,
    x: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    loss: Callable[..., Tensor],
    metrics: Mapping[str, Callable[..., Tensor] | Metric] | None = None,
    batch_size: int = 32,
    ignore_index: int | None = None,
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

    The results of batches are averaged with their numbers of examples, or with their weights: the loss is that of
    `fit`, and metrics are divided by the sum of the weights, as those of Keras and scikit-learn. A metric may also be
    an object of `plugrad_nn.metrics`, such as ``nn.metrics.F1(classes=10)``, which begins anew and is given each batch.
    Arguments and errors are as for `fit`. Without examples, results are NaN.
    """
    _check_metrics("evaluate", metrics)
    streams = {name: m for name, m in (metrics or {}).items() if isinstance(m, Metric)}
    functions: dict[str, Callable[..., Tensor]] = {"loss": loss}
    functions |= {name: m for name, m in (metrics or {}).items() if not isinstance(m, Metric)}
    for name, metric in functions.items():
        check_function("evaluate", name, metric)
    for stream in streams.values():
        stream.reset()
    weighting = make_weighting("evaluate", None, ignore_index)
    source = make_batches("evaluate", x, y, sample_weight, batch_size=batch_size)
    by_weights = {name: name != "loss" or divides_by_weights(loss) for name in functions}
    totals: dict[str, Any] = dict.fromkeys(functions, 0.0)
    counts: dict[str, Any] = dict.fromkeys(functions, 0.0)
    largest = _largest_label(y)
    whole = weighting.weigh(source.batches(None))
    for batch in whole if strategy is None else strategy.shard(whole):
        inputs, labels, *weights = batch
        predictions = model(params, inputs, INFERENCE)
        own = None if strategy is None else strategy.examples
        size = _count_batch_examples(inputs) if own is None else own
        if size == 0:
            continue  # the share of this process is empty
        for name, metric in functions.items():
            if weights:
                check_takes_weights("evaluate", name, metric)
            with batch_labels(labels, largest):
                value = metric(labels, predictions, *weights)
            count = count_examples(batch, size, sums_weights=by_weights[name])
            totals[name] = totals[name] + _multiply_by_count(value, count)
            counts[name] = counts[name] + count
        for stream in streams.values():
            stream.update(labels, predictions, *weights)
    numbers = [_as_float(x) for x in (*totals.values(), *counts.values())]
    sums = numbers if strategy is None else strategy.sum(numbers)
    found = {
        name: total / count if count else math.nan
        for name, total, count in zip(functions, sums, sums[len(functions) :], strict=False)
    }
    for name, stream in streams.items():
        if strategy is not None:
            stream.add_up(strategy.sum)
        found[name] = _as_float(stream.result())
    return {name: found[name] for name in ("loss", *(metrics or {}))}


@explain_wrong_calls
def predict(
    model: Callable[..., Tensor], params: Params, x: Any, *, batch_size: int = 32
) -> Tensor:
    """Return the outputs of a model in inference mode, computed batch by batch.

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
    """Return the largest label of a data set, or None for an iterable or several outputs."""
    return None if labels is None or isinstance(labels, dict | tuple) else largest_label(labels)


def _count_batch_examples(inputs: Any) -> int:
    """Return the number of examples in a batch."""
    return next(iter_leaves(inputs)).shape[0]


class _BatchCount(NamedTuple):
    """The number of examples in one process's batch, and whether the batch ends a step; processes exchange them."""

    examples: Any
    """The number of examples that count, by which the sum of losses is divided: a number or a 0-d tensor."""
    is_last: bool
    """Whether the batch ends a step."""


def _count_and_yield_batches(
    batches: Iterable[tuple[Any, ...]],
    batch_counts: deque[_BatchCount],
    loss: Callable[..., Tensor],
    batches_per_step: int,
) -> Iterator[tuple[Any, ...]]:
    """Yield batches, and record the number of examples of each and whether it ends a step."""
    by_weights = divides_by_weights(loss)
    waiting: list[tuple[Any, ...]] = []
    position = 0

    def record_batch(batch: tuple[Any, ...], *, is_last: bool) -> None:
        """Record the number of examples of a batch, and whether it ends a step."""
        examples = count_examples(batch, _count_batch_examples(batch[0]), sums_weights=by_weights)
        batch_counts.append(_BatchCount(examples, is_last))

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


def _count_local_examples(
    strategy: Strategy, batch: tuple[Any, ...], loss: Callable[..., Tensor]
) -> Any:
    """Return the number of examples that count in this process's share, and tell it to the strategy."""
    own = _count_batch_examples(batch[0]) if strategy.examples is None else strategy.examples
    if len(batch) > 2 and own:
        own = _as_float(count_examples(batch, own, sums_weights=divides_by_weights(loss)))
        strategy.count(own)
    return own


class _MeanLoss:
    """The mean loss of an epoch, summed on the device because reading each loss would wait for it."""

    def __init__(self, strategy: Strategy | None) -> None:
        """Begin without losses; with a strategy, `result` sums those that processes have not yet exchanged."""
        self.strategy = strategy
        self.total: Any = 0.0
        self.own_total: Any = 0.0
        self.count: Any = 0.0

    def add(self, loss: Tensor, batch_count: _BatchCount, local_examples: Any) -> None:
        """Add the loss of a batch, of which this process has `local_examples` examples."""
        if self.strategy is None or batch_count.is_last:
            self.total = self.total + loss * batch_count.examples
        else:
            self.own_total = self.own_total + loss * local_examples
        self.count = self.count + batch_count.examples

    def result(self) -> float:
        """Return the mean over all examples."""
        total, count = _as_float(self.total), _as_float(self.count)
        if self.strategy is not None:
            total += self.strategy.sum([_as_float(self.own_total)])[0]
        return total / count if count else math.nan


def _multiply_by_count(mean: Any, count: Any) -> Any:
    """Return a mean times the count that it was divided by; a mean of nothing may be NaN, and gives 0."""
    if isinstance(count, plugrad.Tensor):
        return plugrad.where(count == 0, 0.0, mean * count)
    return mean * count if count else 0.0


def _as_float(x: Any) -> float:
    """Return a number or a 0-d tensor as a float."""
    return float(x.item()) if isinstance(x, plugrad.Tensor) else float(x)


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
            current = (
                step  # nothing has changed: variables get new values when a call has succeeded
            )
            warnings.warn(
                "fit: the steps run untraced, which takes longer; fit(…, jit=False) says so without this warning: "
                f"{error}",
                stacklevel=3,
            )
            return step(batch, examples, is_last)

    return run


def _derive_seed(seed: int, number: int) -> int:
    """Derive a seed from a run's seed and a number, different for each."""
    return seed * 2**32 + number
