"""A training loop, for those who do not want to write their own."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import plugrad
from plugrad.extend import ArgumentError, explain_wrong_calls
from plugrad_nn.arguments import check_flag, check_function, check_integer
from plugrad_nn.batching import make_batches, to_tensors
from plugrad_nn.callbacks import Callback, Run
from plugrad_nn.counting import BatchCount, MeanLoss, count_and_yield_batches, report_local_examples
from plugrad_nn.evaluation import check_metrics, check_strategy, evaluate
from plugrad_nn.labels import largest_label
from plugrad_nn.parameters import assign, check_nested_dict
from plugrad_nn.progress import make_progress_bar
from plugrad_nn.steps import Steps, derive_seed
from plugrad_nn.stopping import EarlyStopping, EarlyStoppingMonitor
from plugrad_nn.weighting import make_weighting

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from plugrad import Tensor
    from plugrad.extend import DType
    from plugrad.optimizers import Optimizer
    from plugrad_nn.metrics.streams import Metric
    from plugrad_nn.parameters import Params
    from plugrad_nn.strategy import Strategy


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
    accumulate = check_integer("fit", "accumulate", accumulate, 1)
    if steps_per_epoch is not None:
        steps_per_epoch = check_integer("fit", "steps_per_epoch", steps_per_epoch, 1)
    check_flag("fit", "jit", jit)
    _check_validation(validation_data, metrics)
    _check_callbacks(callbacks)
    if early_stopping is not None and not isinstance(early_stopping, EarlyStopping):  # pyright: ignore[reportUnnecessaryIsInstance] - people pass anything
        raise ArgumentError(
            f"fit: early_stopping={early_stopping!r:.80} must be an object such as nn.EarlyStopping(patience=3)"
        )
    if on_epoch_end is not None:
        check_function("fit", "on_epoch_end", on_epoch_end)
    check_strategy("fit", strategy)
    _check_optimizer(optimizer)
    check_nested_dict("fit", params)
    weighting = make_weighting("fit", class_weight, ignore_index)
    if _is_float16(autocast) and optimizer.loss_scale is None:
        optimizer.with_loss_scale(plugrad.optimizers.LossScale())

    # Labels or weights say how many examples of a share count. To read them on a device would wait in each batch.
    on_host = () if strategy is None else (1, 2) if weighting.needs_labels else (2,)
    data = make_batches(
        "fit",
        x,
        y,
        sample_weight,
        batch_size=batch_size,
        steps_per_epoch=steps_per_epoch,
        on_host=on_host,
    )
    steps = Steps(
        model,
        params,
        loss=loss,
        optimizer=optimizer,
        seed=seed,
        batches_per_step=accumulate,
        max_label=largest_label(y),
        autocast=autocast,
        strategy=strategy,
        jit=jit,
    )
    results: list[dict[str, float]] = []
    is_first = strategy is None or strategy.is_first
    training = Run(
        params, optimizer, epochs, results, is_first=is_first, distributed=steps.distributed
    )
    callbacks = [c for c in callbacks if is_first or not c.only_in_first_process]
    monitor = None if early_stopping is None else EarlyStoppingMonitor(early_stopping)
    for callback in callbacks:
        callback.on_train_begin(training)
    for epoch in range(initial_epoch + 1, epochs + 1):
        for callback in callbacks:
            callback.on_epoch_begin(training, epoch)
        mean_loss = _train_epoch(
            steps,
            weighting.weigh(data.batches(derive_seed(seed, epoch - 1))),
            batch_count=data.steps,
            title=f"epoch {epoch}/{epochs}",
            progress=progress,
            on_batch_end=[partial(callback.on_batch_end, training) for callback in callbacks],
        )
        found = {"loss": mean_loss}
        if validation_data is not None:
            with steps.mixed_precision():
                validated = evaluate(
                    model,
                    params,
                    *validation_data,
                    loss=loss,
                    metrics=metrics,
                    batch_size=batch_size,
                    ignore_index=ignore_index,
                    strategy=strategy,
                )
            found |= {f"val_{name}": result for name, result in validated.items()}
        results.append(found)
        if on_epoch_end is not None:
            on_epoch_end(epoch, dict(found))
        for callback in callbacks:
            callback.on_epoch_end(training, epoch, dict(found))
        if monitor is not None and monitor.should_stop(found, params):
            break
        if training.is_stopped:
            break
    if monitor is not None and monitor.best is not None:
        assign(params, monitor.best)
    for callback in callbacks:
        callback.on_train_end(training)
    return results


def _train_epoch(
    steps: Steps,
    batches: Iterator[tuple[Any, ...]],
    *,
    batch_count: int | None,
    title: str,
    progress: bool | None,
    on_batch_end: Sequence[Callable[[int, Tensor], None]],
) -> float:
    """Train with the batches of one epoch, and return the mean loss over its examples."""
    strategy, loss = steps.strategy, steps.loss
    counts: deque[BatchCount] = deque()
    counted = count_and_yield_batches(batches, counts, loss, steps.batches_per_step)
    bar = make_progress_bar(
        counted if strategy is None else strategy.shard(counted),
        batch_count=batch_count,
        title=title,
        is_shown=progress if strategy is None or strategy.is_first else False,
    )
    mean = MeanLoss(is_per_step=strategy is not None)
    for number, batch in enumerate(bar, 1):
        count = counts.popleft()
        if strategy is not None:
            report_local_examples(strategy, batch, loss)
            batch = to_tensors(batch)
        batch_loss = steps.train_on_batch(batch, count)
        mean.add(batch_loss, count)
        if not bar.disable:
            bar.set_postfix_str(f"loss {batch_loss.item():.4f}")
        for function in on_batch_end:
            function(number, batch_loss)
    return mean.result()


def _check_validation(
    validation_data: Any, metrics: Mapping[str, Callable[..., Tensor] | Metric] | None
) -> None:
    """Raise an ArgumentError unless the validation data is a tuple, or None without metrics."""
    check_metrics("fit", metrics)
    if metrics and validation_data is None:
        raise ArgumentError("fit: metrics are computed with validation_data, which is None")
    if validation_data is None:
        return
    if not isinstance(validation_data, tuple | list):
        raise ArgumentError(
            f"fit: validation_data must be a tuple, such as (x, y), and not a {type(validation_data).__name__}"
        )
    if not validation_data:
        raise ArgumentError("fit: validation_data is empty; give a tuple, such as (x, y), or None")
    if isinstance(validation_data[0], Iterator):
        raise ArgumentError(
            "fit: validation_data has a generator, which can be read once; give a list or another iterable that begins "
            "anew for each epoch"
        )


def _check_callbacks(callbacks: Any) -> None:
    """Raise an ArgumentError unless the callbacks are a list or tuple of callbacks."""
    is_sequence = isinstance(callbacks, tuple | list)
    given = cast("Sequence[object]", callbacks if is_sequence else [callbacks])
    for callback in given:
        if isinstance(callback, EarlyStopping):
            raise ArgumentError(f"fit: write early_stopping={callback!r}, which is no callback")
        if not (is_sequence and isinstance(callback, Callback)):
            raise ArgumentError(
                f"fit: callbacks={callbacks!r:.80} must be a list of objects of nn.Callback"
            )


def _check_optimizer(optimizer: object) -> None:
    """Raise an ArgumentError unless the optimizer is one that takes a step for each batch."""
    if isinstance(optimizer, plugrad.optimizers.LBFGS):
        raise ArgumentError(
            "fit: LBFGS takes all examples in each call of the function; write a function of them, and call "
            "optimizer.minimize(function, nn.leaves(params))"
        )
    if not isinstance(optimizer, plugrad.optimizers.Optimizer):
        raise ArgumentError(
            f"fit: optimizer={optimizer!r:.80} must be one of plugrad.optimizers, such as Adam()"
        )


def _is_float16(autocast: DType | str | None) -> bool:
    """Check the dtype of mixed precision, and return whether it is float16, which needs a scaled loss."""
    if autocast is None:
        return False
    with plugrad.autocast(autocast):  # which raises for a dtype that it does not take
        return plugrad.as_dtype(autocast) == "float16"
