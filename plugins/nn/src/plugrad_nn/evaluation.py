"""The results of a model on data that it is not trained with."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import plugrad
from plugrad.extend import ArgumentError, ShapeError, explain_wrong_calls
from plugrad_nn.arguments import check_function
from plugrad_nn.batching import batches, make_batches
from plugrad_nn.counting import as_float, count_rows
from plugrad_nn.labels import batch_labels, largest_label
from plugrad_nn.layer import INFERENCE
from plugrad_nn.metrics.streams import Metric
from plugrad_nn.weighting import (
    check_takes_weights,
    count_examples,
    divides_by_weights,
    make_weighting,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad import Tensor
    from plugrad_nn.parameters import Params
    from plugrad_nn.strategy import Strategy


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
    check_metrics("evaluate", metrics)
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
    largest = largest_label(y)
    whole = weighting.weigh(source.batches(None))
    for batch in whole if strategy is None else strategy.shard(whole):
        inputs, labels, *weights = batch
        predictions = model(params, inputs, INFERENCE)
        own = None if strategy is None else strategy.examples
        size = count_rows(inputs) if own is None else own
        if size == 0:
            continue  # the share of this process is empty
        for name, metric in functions.items():
            if weights:
                check_takes_weights("evaluate", name, metric)
            with batch_labels(labels, largest):
                value = metric(labels, predictions, *weights)
            count = count_examples(batch, size, sums_weights=by_weights[name])
            totals[name] = totals[name] + value * count
            counts[name] = counts[name] + count
        for stream in streams.values():
            stream.update(labels, predictions, *weights)
    numbers = [as_float(x) for x in (*totals.values(), *counts.values())]
    sums = numbers if strategy is None else strategy.sum(numbers)
    found = {
        name: total / count if count else math.nan
        for name, total, count in zip(functions, sums, sums[len(functions) :], strict=False)
    }
    for name, stream in streams.items():
        if strategy is not None:
            stream.add_up(strategy.sum)
        found[name] = as_float(stream.result())
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


def check_metrics(owner: str, metrics: object) -> None:
    """Raise an ArgumentError unless the metrics have names."""
    if not isinstance(metrics, Mapping | None):
        raise ArgumentError(
            f"{owner}: metrics={metrics!r:.80} must be a dict of functions by name, such as "
            '{"accuracy": nn.metrics.accuracy}'
        )
