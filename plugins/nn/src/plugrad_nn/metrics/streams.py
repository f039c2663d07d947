"""Metrics that add up over batches."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

import plugrad
from plugrad.extend import ArgumentError, ArgumentValueError
from plugrad_nn.arguments import check_choice, check_integer
from plugrad_nn.losses import sparse_softmax_cross_entropy
from plugrad_nn.metrics.scores import (
    are_among_largest,
    check_binary_predictions,
    check_classes,
    label_weights,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from plugrad import Tensor, Variable

AverageKind: TypeAlias = Literal["macro", "micro", "weighted", "none"]
"""How results of classes are combined: their mean, the result of all decisions, or a mean weighted by labels."""


class Metric(ABC):
    """Sums over batches and the result computed from them; the base class of metrics that add up.

    A subclass names its sums and their shapes, returns those of a batch from `measure`, and the result from `compute`:

    >>> class MeanError(nn.metrics.Metric):
    ...     sums = {"errors": (), "count": ()}
    ...
    ...     def measure(self, labels, predictions, weights=None):
    ...         errors = plugrad.abs(plugrad.asarray(labels) - predictions)
    ...         return {"errors": plugrad.sum(errors), "count": errors.size}
    ...
    ...     def compute(self, errors, count):
    ...         return errors / count
    >>> metric = MeanError()
    >>> metric.update([1.0, 2.0], [1.5, 2.0])
    >>> metric.result()
    tensor(0.25, dtype=float32)
    """

    sums: dict[str, tuple[int, ...]]
    """The shapes of the sums by name."""

    def __init__(self) -> None:
        """Begin with sums of zero; a subclass calls this when its `sums` are known."""
        self.variables: Final[dict[str, Variable]] = {
            name: plugrad.Variable(plugrad.zeros(shape), trainable=False, name=name)
            for name, shape in self.sums.items()
        }
        """The sums, on the device that is active when the object is made."""

    @abstractmethod
    def measure(self, labels: Any, predictions: Any, weights: Any = None) -> dict[str, Any]:
        """Return the contributions of a batch to the sums."""

    @abstractmethod
    def compute(self, **sums: Any) -> Tensor:
        """Compute the result from the sums."""

    def update(self, labels: Any, predictions: Any, weights: Any = None) -> None:
        """Add the contributions of a batch to the sums.

        Args:
            labels: the right answers.
            predictions: the logits of a model.
            weights: how much each label counts; see `plugrad_nn.metrics`.

        Raises:
            ShapeError: the shapes do not fit.
        """
        for name, value in self.measure(labels, predictions, weights).items():
            total = self.variables[name]
            total.assign(total + plugrad.astype(value, plugrad.float32))

    def result(self) -> Tensor:
        """Return the result for all batches since the beginning or the last `reset`."""
        return self.compute(**{name: +total for name, total in self.variables.items()})

    def add_up(self, sum_over_processes: Callable[[list[float]], list[float]]) -> None:
        """Replace the sums by their totals over processes, which a function of a list of numbers computes."""
        flat = plugrad.concat([total.reshape(-1) for total in self.variables.values()])
        found = sum_over_processes(flat.tolist())
        start = 0
        for total in self.variables.values():
            values = plugrad.asarray(found[start : start + total.size], device=total.backend)
            total.assign(values.reshape(total.shape))
            start += total.size

    def reset(self) -> None:
        """Forget all examples seen so far, as at the start of an epoch."""
        for total in self.variables.values():
            total.assign(plugrad.zeros_like(total))


class Accuracy(Metric):
    """The fraction of examples whose label is among the k largest logits; see `top_k_accuracy`.

    >>> metric = nn.metrics.Accuracy()
    >>> metric.update([0, 1], [[2.0, 1.0], [3.0, 0.0]])
    >>> metric.result()
    tensor(0.5, dtype=float32)

    Without examples the result is NaN. Among equal logits all count, for any k.

    Args:
        k: how many logits.
        ignore_index: a label that does not count.

    Raises:
        ArgumentError, ArgumentValueError: an argument is not an integer, or `k` is less than 1.
    """

    sums = {"right": (), "count": ()}  # noqa: RUF012 - nobody changes it

    def __init__(self, k: int = 1, *, ignore_index: int | None = None) -> None:
        """Check the arguments."""
        self.k = check_integer("Accuracy", "k", k, 1)
        self.ignore_index = ignore_index
        super().__init__()

    def measure(self, labels: Any, predictions: Any, weights: Any = None) -> dict[str, Any]:
        """Return the total weight of correct examples, and of all examples."""
        labels, logits = check_classes("Accuracy", labels, predictions)
        counted = _broadcast_label_weights("Accuracy", labels, weights, self.ignore_index)
        right = plugrad.where(are_among_largest(labels, logits, self.k), counted, 0.0)
        return {"right": plugrad.sum(right), "count": plugrad.sum(counted)}

    def compute(self, **sums: Any) -> Tensor:
        """Return the weight of the correct examples divided by the weight of all examples."""
        return sums["right"] / sums["count"]


class ConfusionMatrix(Metric):
    """The number of examples for each label (row) and predicted class (column), that of the largest logit.

    >>> metric = nn.metrics.ConfusionMatrix(2)
    >>> metric.update([0, 0, 1], [[2.0, 1.0], [0.0, 3.0], [0.0, 1.0]])
    >>> metric.result().tolist()
    [[1.0, 1.0], [0.0, 1.0]]

    Args:
        classes: the number of classes.
        ignore_index: a label that does not count; labels that are no class do not either.

    Raises:
        ArgumentError, ArgumentValueError: an argument is not an integer, or there are no classes.
    """

    def __init__(self, classes: int, *, ignore_index: int | None = None) -> None:
        """Check the arguments."""
        self.classes = check_integer("ConfusionMatrix", "classes", classes, 1)
        self.ignore_index = ignore_index
        self.sums = {"matrix": (classes, classes)}
        super().__init__()

    def measure(self, labels: Any, predictions: Any, weights: Any = None) -> dict[str, Any]:
        """Return the confusion matrix of a batch."""
        truth, predicted = _one_hot_classes("ConfusionMatrix", self, labels, predictions, weights)
        return {"matrix": plugrad.matrix_transpose(truth) @ predicted}

    def compute(self, **sums: Any) -> Tensor:
        """Return the confusion matrix."""
        return sums["matrix"]

    def plot(
        self, path: str | os.PathLike[str] | None = None, *, names: Sequence[str] | None = None
    ) -> Any:
        """Plot the matrix with colours that show fractions of each row, and return the figure.

        Args:
            path: where to write it, as PNG, SVG or another format that matplotlib takes; None for nowhere.
            names: the names of the classes; their numbers by default.

        Raises:
            ArgumentError: matplotlib is not installed, which draws it.
            ArgumentValueError: there are not as many names as classes.
        """
        names = [str(i) for i in range(self.classes)] if names is None else list(names)
        if len(names) != self.classes:
            raise ArgumentValueError(
                f"ConfusionMatrix.plot: there are {len(names)} names for {self.classes} classes"
            )
        figures = _import_optional("ConfusionMatrix.plot", "matplotlib.figure", "matplotlib")
        matrix = self.result().numpy()
        rows = matrix.sum(1, keepdims=True)
        figure = figures.Figure(figsize=(1.5 + 0.6 * self.classes,) * 2, layout="constrained")
        axes = figure.subplots()
        shares = matrix / rows.clip(1e-30)
        axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
        for row, column in ((i, j) for i in range(self.classes) for j in range(self.classes)):
            axes.text(
                column,
                row,
                f"{matrix[row, column]:g}",
                ha="center",
                va="center",
                color="white" if shares[row, column] > 0.5 else "black",
            )
        places = range(self.classes)
        axes.set(xticks=places, yticks=places, xlabel="predicted", ylabel="label")
        axes.set_xticklabels(names, rotation=45, ha="right")
        axes.set_yticklabels(names)
        if path is not None:
            figure.savefig(os.fspath(path))
        return figure


class _PrecisionRecallMetric(Metric):
    """A ratio of true positives, positive labels and positive predictions."""

    def __init__(
        self,
        classes: int | None = None,
        *,
        average: AverageKind = "macro",
        ignore_index: int | None = None,
    ) -> None:
        """Check the arguments."""
        owner = type(self).__name__
        if classes is not None:
            classes = check_integer(owner, "classes", classes, 1)
        elif ignore_index is not None:
            raise ArgumentError(f"{owner}: ignore_index is for classes; give weights of 0 instead")
        check_choice(owner, "average", average, get_args(AverageKind))
        self.classes, self.average, self.ignore_index = classes, average, ignore_index
        self.sums = dict.fromkeys(("both", "true", "made"), () if classes is None else (classes,))
        super().__init__()

    def measure(self, labels: Any, predictions: Any, weights: Any = None) -> dict[str, Any]:
        """Return the counts of a batch."""
        owner = type(self).__name__
        if self.classes is None:
            truth, decided = check_binary_predictions(owner, labels, predictions)
            counted = _broadcast_label_weights(owner, truth, weights, None)
            true = plugrad.where(truth, counted, 0.0)
            made = plugrad.where(decided, counted, 0.0)
            both = plugrad.where(decided, true, 0.0)
            return {"both": plugrad.sum(both), "true": plugrad.sum(true), "made": plugrad.sum(made)}
        true, decided = _one_hot_classes(owner, self, labels, predictions, weights)
        counted = plugrad.sum(true, axis=1, keepdims=True)
        rows = {"both": true * decided, "true": true, "made": decided * counted}
        return {name: plugrad.sum(row, axis=0) for name, row in rows.items()}

    @abstractmethod
    def divide(
        self, true_positives: Tensor, positive_labels: Tensor, positive_predictions: Tensor
    ) -> Tensor:
        """Return the ratio; 0 where the divisor is 0."""

    def compute(self, **sums: Any) -> Tensor:
        """Return the ratio, or its average over classes, or the list for all classes."""
        both, true, made = sums["both"], sums["true"], sums["made"]
        if self.classes is not None and self.average == "micro":
            both, true, made = plugrad.sum(both), plugrad.sum(true), plugrad.sum(made)
        found = self.divide(both, true, made)
        if self.classes is None or self.average in ("micro", "none"):
            return found
        if self.average == "macro":
            return plugrad.mean(found)
        return plugrad.div_no_nan(plugrad.sum(found * true), plugrad.sum(true))


class Precision(_PrecisionRecallMetric):
    """The fraction of predictions of a class that are right; 0 if there is none.

    >>> metric = nn.metrics.Precision()
    >>> metric.update([1, 0, 1], [2.0, 1.0, -3.0])
    >>> metric.result()
    tensor(0.5, dtype=float32)

    Args:
        classes: the number of classes, which the logits have in their last axis. None: labels are 0 and 1, or bools,
            and a positive logit is a decision for 1.
        average: what becomes of the results of classes: "macro" is their mean, "weighted" that by numbers of labels,
            "micro" takes all decisions together, and "none" leaves them as they are.
        ignore_index: a label that does not count, of classes.

    Raises:
        ArgumentError, ArgumentValueError: an argument is none of the above.
    """

    def divide(
        self, true_positives: Tensor, positive_labels: Tensor, positive_predictions: Tensor
    ) -> Tensor:
        """Return true positives / positive predictions."""
        return plugrad.div_no_nan(true_positives, positive_predictions)


class Recall(_PrecisionRecallMetric):
    """The fraction of labels of a class that were predicted; 0 if there is none.

    >>> metric = nn.metrics.Recall()
    >>> metric.update([1, 0, 1], [2.0, 1.0, 3.0])
    >>> metric.result()
    tensor(1., dtype=float32)

    Arguments and errors are as for `Precision`.
    """

    def divide(
        self, true_positives: Tensor, positive_labels: Tensor, positive_predictions: Tensor
    ) -> Tensor:
        """Return true positives / positive labels."""
        return plugrad.div_no_nan(true_positives, positive_labels)


class F1(_PrecisionRecallMetric):
    """The harmonic mean of precision and recall; 0 if both are.

    >>> metric = nn.metrics.F1(classes=2, average="none")
    >>> metric.update([0, 1, 1], [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> metric.result()
    tensor([0.6666667, 0.6666667], dtype=float32)

    Arguments and errors are as for `Precision`.
    """

    def divide(
        self, true_positives: Tensor, positive_labels: Tensor, positive_predictions: Tensor
    ) -> Tensor:
        """Return 2 · true positives / (positive labels + positive predictions)."""
        return plugrad.div_no_nan(2 * true_positives, positive_labels + positive_predictions)


class AUC(Metric):
    """The area under the ROC curve, from histograms of the probabilities of labels 0 and 1.

    >>> metric = nn.metrics.AUC()
    >>> metric.update([0, 0, 1, 1], [-2.0, 1.0, 0.5, 3.0])
    >>> metric.result()
    tensor(0.75, dtype=float32)

    Probabilities in one bin count as equal, so the result differs from `roc_auc` of all examples at most by half of the
    pairs that share one. Where all labels are equal, it is NaN.

    Args:
        bins: into how many equal bins probabilities from 0 to 1, the sigmoids of logits, are sorted.

    Raises:
        ArgumentError, ArgumentValueError: the number is not an integer, or less than 2.
    """

    def __init__(self, bins: int = 2000) -> None:
        """Check the argument."""
        self.bins = check_integer("AUC", "bins", bins, 2)
        self.sums = {"true": (self.bins,), "false": (self.bins,)}
        super().__init__()

    def measure(self, labels: Any, predictions: Any, weights: Any = None) -> dict[str, Any]:
        """Return the histograms of a batch."""
        truth, _ = check_binary_predictions("AUC", labels, predictions)
        counted = _broadcast_label_weights("AUC", truth, weights, None).reshape(-1)
        scaled = plugrad.sigmoid(plugrad.asarray(predictions).reshape(-1)) * self.bins
        places = plugrad.clip(
            plugrad.astype(plugrad.floor(scaled), plugrad.int32), 0, self.bins - 1
        )
        true = plugrad.where(truth.reshape(-1), counted, 0.0)
        return {
            "true": plugrad.unsorted_segment_sum(true, places, self.bins),
            "false": plugrad.unsorted_segment_sum(counted - true, places, self.bins),
        }

    def compute(self, **sums: Any) -> Tensor:
        """Return the area under the ROC curve."""
        true, false = sums["true"], sums["false"]
        below = plugrad.cumulative_sum(false) - false / 2
        return plugrad.sum(true * below) / (plugrad.sum(true) * plugrad.sum(false))


class Perplexity(Metric):
    """The exponential of the mean cross-entropy. Smaller is better.

    >>> metric = nn.metrics.Perplexity()
    >>> metric.update([[0, 1]], plugrad.zeros((1, 2, 5)))
    >>> round(metric.result().item(), 4)
    5.0

    Negative labels do not count.

    Args:
        ignore_index: another label that does not count, such as that of padding.
    """

    sums = {"loss": (), "count": ()}  # noqa: RUF012 - nobody changes it

    def __init__(self, *, ignore_index: int | None = None) -> None:
        """Store the argument."""
        self.ignore_index = ignore_index
        super().__init__()

    def measure(self, labels: Any, predictions: Any, weights: Any = None) -> dict[str, Any]:
        """Return the weighted sum of losses, and the sum of weights."""
        labels, logits = check_classes("Perplexity", labels, predictions)
        counted = _broadcast_label_weights("Perplexity", labels, weights, self.ignore_index)
        counted = plugrad.where(labels >= 0, counted, 0.0)
        loss = sparse_softmax_cross_entropy(labels, logits, counted, reduction="sum")
        return {"loss": loss, "count": plugrad.sum(counted)}

    def compute(self, **sums: Any) -> Tensor:
        """Return the exponential of the mean cross-entropy."""
        return plugrad.exp(sums["loss"] / sums["count"])


class BLEU:
    """The BLEU score of translations, from 0 to 100, computed by sacrebleu: ``pip install sacrebleu``.

    >>> metric = nn.metrics.BLEU(lowercase=True)
    >>> metric.update(
    ...     references=["The cat sat on the mat."], translations=["the cat sat on a mat."]
    ... )
    >>> metric.result()  # doctest: +SKIP
    48.89

    It compares texts, and so is not for `fit` and `evaluate`.

    Args:
        options: arguments of ``sacrebleu.corpus_bleu``, such as ``tokenize="char"``.

    Raises:
        ArgumentError: in `result`, sacrebleu is not installed.
    """

    def __init__(self, **options: Any) -> None:
        """Begin without texts."""
        self.options = options
        self.references: list[list[str]] = []
        self.translations: list[str] = []

    def update(
        self, references: Sequence[str | Sequence[str]], translations: Sequence[str]
    ) -> None:
        """Add a batch of translations and their references.

        Args:
            references: for each translation a right one, or several.
            translations: texts.

        Raises:
            ArgumentValueError: there are not as many references as translations.
        """
        if len(references) != len(translations):
            raise ArgumentValueError(
                f"BLEU: there are {len(references)} references for {len(translations)} translations"
            )
        self.references += [[r] if isinstance(r, str) else list(r) for r in references]
        self.translations += translations

    def result(self) -> float:
        """Return the score of all translations together."""
        library = _import_optional("BLEU", "sacrebleu", "sacrebleu")
        most = max(map(len, self.references), default=0)
        columns = [[r[i] if i < len(r) else None for r in self.references] for i in range(most)]
        return float(library.corpus_bleu(self.translations, columns, **self.options).score)

    def reset(self) -> None:
        """Forget all translations added so far."""
        self.references.clear()
        self.translations.clear()


def _broadcast_label_weights(
    owner: str, labels: Tensor, weights: Any, ignore_index: int | None
) -> Tensor:
    """Return the weight of each label, in the shape of the labels."""
    found = label_weights(owner, labels, weights, ignore_index)
    return plugrad.ones_like(labels, dtype=plugrad.float32) if found is None else found


def _one_hot_classes(
    owner: str, metric: Any, labels: Any, predictions: Any, weights: Any
) -> tuple[Tensor, Tensor]:
    """Return one-hot labels times weights, and one-hot predicted classes.

    Raises:
        ArgumentValueError: there are not as many logits as classes.
    """
    labels, logits = check_classes(owner, labels, predictions)
    if logits.shape[-1] != metric.classes:
        raise ArgumentValueError(
            f"{owner}: there are {logits.shape[-1]} logits, and classes={metric.classes}"
        )
    counted = _broadcast_label_weights(owner, labels, weights, metric.ignore_index)
    truth = plugrad.one_hot(labels.reshape(-1), metric.classes) * counted.reshape(-1, 1)
    decided = plugrad.argmax(logits, axis=-1).reshape(-1)
    return truth, plugrad.one_hot(decided, metric.classes)


def _import_optional(owner: str, module_name: str, distribution: str) -> Any:
    """Return an optional module, importing it on first use, or raise with the command that installs it.

    Raises:
        ArgumentError: the library is not installed.
    """
    try:
        return import_module(module_name)
    except ImportError as error:
        raise ArgumentError(
            f"{owner}: {distribution} is needed: pip install {distribution}"
        ) from error
