"""The results of a model on data that it is not trained with."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import plugrad
from plugrad.extend import ArgumentError, ShapeError, explain_wrong_calls
from plugrad_nn.arguments import check_function, check_integer
from plugrad_nn.batching import iter_inputs, make_batches
from plugrad_nn.counting import as_float, count_rows, multiply_by_count
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
    from collections.abc import Callable, Sequence

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
    check_strategy("evaluate", strategy)
    streams = {name: m for name, m in (metrics or {}).items() if isinstance(m, Metric)}
    for stream in streams.values():
        stream.reset()
    max_label = largest_label(y)
    means = [_Mean("loss", loss, divides_by_weights(loss), max_label)]
    for name, metric in (metrics or {}).items():
        if not isinstance(metric, Metric):
            means.append(_Mean(name, metric, True, max_label))
    weighting = make_weighting("evaluate", None, ignore_index)
    source = make_batches("evaluate", x, y, sample_weight, batch_size=batch_size, is_read_once=True)
    weighed = weighting.weigh(source.batches(None))
    for batch in weighed if strategy is None else strategy.shard(weighed):
        inputs, labels, *weights = batch
        predictions = model(params, inputs, INFERENCE)
        own = None if strategy is None else strategy.examples
        example_count = count_rows(inputs) if own is None else own
        if example_count == 0:
            continue  # the share of this process is empty
        for mean in means:
            mean.add(batch, predictions, example_count)
        for stream in streams.values():
            stream.update(labels, predictions, *weights)
    sums = [as_float(x) for mean in means for x in (mean.total, mean.count)]
    if strategy is not None:
        sums = strategy.sum(sums)
    found = {
        mean.name: total / count if count else math.nan
        for mean, total, count in zip(means, sums[::2], sums[1::2], strict=True)
    }
    for name, stream in streams.items():
        if strategy is not None:
            stream.add_up(strategy.sum)
        found[name] = as_float(stream.result())
    return {name: found[name] for name in ("loss", *(metrics or {}))}


@explain_wrong_calls
def predict(model: Callable[..., Any], params: Params, x: Any, *, batch_size: int = 32) -> Any:
    """Return the outputs of a model in inference mode, computed batch by batch.

    >>> model = nn.Dense(2)
    >>> nn.predict(model, model.init(0, (3,)), np.ones((100, 3), np.float32)).shape
    (100, 2)

    Arguments and errors are as for `fit`. A model that returns a tuple or a dict gives a tuple or a dict.

    Raises:
        ShapeError: there are no inputs.
    """
    check_function("predict", "model", model)
    size = check_integer("predict", "batch_size", batch_size, 1)
    found = [model(params, inputs, INFERENCE) for inputs in iter_inputs("predict", x, size)]
    if not found:
        raise ShapeError("predict: x has no inputs")
    return _concat_outputs(found)


def _concat_outputs(outputs: Sequence[Any]) -> Any:
    """Return the outputs for batches as one output, which may be a nested tuple or dict of tensors."""
    first = outputs[0]
    if isinstance(first, dict):
        return {name: _concat_outputs([output[name] for output in outputs]) for name in first}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(first, tuple | list):
        return tuple(_concat_outputs(part) for part in zip(*outputs, strict=True))
    return plugrad.concat(outputs)


def check_metrics(owner: str, metrics: object) -> None:
    """Raise an ArgumentError unless the metrics have names."""
    if not isinstance(metrics, Mapping | None):
        raise ArgumentError(
            f"{owner}: metrics={metrics!r:.80} must be a dict of functions by name, such as "
            '{"accuracy": nn.metrics.accuracy}'
        )
    if metrics is not None and "loss" in metrics:
        raise ArgumentError(f"{owner}: a metric is called 'loss', as the loss is; rename it")


def check_strategy(owner: str, strategy: object) -> None:
    """Raise an ArgumentError unless the strategy is None or an object that shards batches."""
    if strategy is None or (hasattr(strategy, "shard") and not isinstance(strategy, type)):
        return
    raise ArgumentError(
        f"{owner}: strategy={strategy!r:.80} must be an object such as dist.DataParallel() of plugrad_distributed"
    )


class _Mean:
    """The mean of a loss or of a metric over examples, summed on the device."""

    def __init__(
        self,
        name: str,
        function: Callable[..., Tensor],
        divides_by_weights: bool,
        max_label: int | None,
    ) -> None:
        check_function("evaluate", name, function)
        self.name = name
        self.function = function
        self.divides_by_weights = divides_by_weights
        self.max_label = max_label
        self.total: Any = 0.0
        self.count: Any = 0.0

    def add(self, batch: tuple[Any, ...], predictions: Tensor, example_count: float) -> None:
        """Add the mean over a batch, multiplied by the number or the weights of its examples."""
        _, labels, *weights = batch
        if weights:
            check_takes_weights("evaluate", self.name, self.function)
        with batch_labels(labels, self.max_label):
            mean = self.function(labels, predictions, *weights)
        count = count_examples(batch, example_count, sums_weights=self.divides_by_weights)
        self.total = self.total + multiply_by_count(mean, count)
        self.count = self.count + count
