"""Metrics that add up over batches against those of scikit-learn for all examples at once."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn import metrics as sklearn

import plugrad
import plugrad_nn as nn
from plugrad.extend import ArgumentError, ArgumentValueError, ShapeError

CLASS_COUNT = 4


@pytest.fixture
def labels_and_predictions(rng):
    labels = rng.integers(0, CLASS_COUNT, 50).astype(np.int32)
    return (
        labels,
        rng.normal(size=(50, CLASS_COUNT)).astype(np.float32),
        rng.random(50).astype("f4"),
    )


def update_metric(metric, *arrays):
    """Return a metric after updates with batches of different sizes."""
    for part in (slice(0, 7), slice(7, 7), slice(7, 50)):
        metric.update(*(x[part] for x in arrays))
    return metric


@pytest.mark.parametrize("average", ["macro", "micro", "weighted", "none"])
@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        (nn.metrics.Precision, sklearn.precision_score),
        (nn.metrics.Recall, sklearn.recall_score),
        (nn.metrics.F1, sklearn.f1_score),
    ],
)
def test_precision_recall_and_f1_match_scikit_learn(
    metric, expected, average, backend, labels_and_predictions
):
    labels, logits, weights = labels_and_predictions
    options = {"average": None if average == "none" else average, "zero_division": 0}
    for given in ([], [weights]):
        found = update_metric(metric(CLASS_COUNT, average=average), labels, logits, *given).result()
        by = {"sample_weight": given[0]} if given else {}
        right = expected(labels, logits.argmax(-1), **options, **by)
        np.testing.assert_allclose(found, right, rtol=2e-6, atol=1e-7)
    truth, scores = labels % 2, logits[:, 0]
    found = update_metric(metric(), truth, scores, weights).result().item()
    right = expected(truth, scores > 0, sample_weight=weights, zero_division=0)
    assert found == pytest.approx(right, rel=2e-6)
    ignored = update_metric(
        metric(CLASS_COUNT, average=average, ignore_index=1), labels, logits
    ).result()
    left = update_metric(
        metric(CLASS_COUNT, average=average), labels, logits, np.float32(labels != 1)
    ).result()
    np.testing.assert_allclose(ignored, left, rtol=1e-6)


def test_precision_recall_and_f1_without_examples(backend):
    for metric in (nn.metrics.Precision, nn.metrics.Recall, nn.metrics.F1):
        assert metric().result().item() == 0
        assert metric(3, average="none").result().tolist() == [0, 0, 0]


@pytest.mark.parametrize("k", [1, 2])
def test_accuracies_over_batches(k, backend, labels_and_predictions):
    labels, logits, weights = labels_and_predictions
    found = update_metric(nn.metrics.Accuracy(k), labels, logits, weights).result().item()
    right = sklearn.top_k_accuracy_score(labels, logits, k=k, sample_weight=weights)
    assert found == pytest.approx(right, rel=1e-6)
    found = update_metric(nn.metrics.Accuracy(k, ignore_index=2), labels, logits).result().item()
    assert found == pytest.approx(
        nn.metrics.top_k_accuracy(labels, logits, k, ignore_index=2).item(), rel=1e-6
    )
    assert np.isnan(nn.metrics.Accuracy().result().item())


def test_impossible_classes_and_nan_are_not_among_the_largest(backend):
    """Minus infinity stands for a class that is impossible, and NaN comes from a model that has failed."""
    labels, inf, nan = [0, 1, 1, 0], np.inf, np.nan
    logits = np.float32([[0, 1, -inf], [0, 1, -inf], [nan, nan, nan], [1, nan, 0]])
    metric = nn.metrics.Accuracy()
    metric.update(labels, logits)
    assert metric.result().item() == 0.25
    assert nn.metrics.top_k_accuracy(labels, logits, 1).item() == 0.25
    assert nn.metrics.top_k_accuracy(labels, logits, 2).item() == 0.75


@pytest.mark.parametrize("weighted", [False, True])
def test_auc_matches_scikit_learn(weighted, backend, rng):
    truth = rng.integers(0, 2, 50)
    logits = np.round(rng.normal(size=50) + truth, 1).astype(np.float32)  # some are equal
    weights = [rng.random(50).astype(np.float32)] if weighted else []
    by = {"sample_weight": weights[0]} if weighted else {}
    right = sklearn.roc_auc_score(truth, logits, **by)
    assert len(set(logits)) < 50
    assert nn.metrics.roc_auc(truth, logits, *weights).item() == pytest.approx(right, rel=2e-6)
    found = update_metric(nn.metrics.AUC(bins=100_000), truth, logits, *weights).result().item()
    assert found == pytest.approx(right, rel=2e-6)
    coarse = update_metric(nn.metrics.AUC(bins=2), truth, logits).result().item()
    assert coarse == pytest.approx(sklearn.roc_auc_score(truth, logits >= 0), rel=2e-6)


@pytest.mark.parametrize("labels", [[1, 1], [0, 0], []])
def test_auc_of_a_single_class_is_nan(labels, backend):
    logits = plugrad.zeros(len(labels))
    assert np.isnan(nn.metrics.roc_auc(np.array(labels, np.int32), logits).item())
    metric = nn.metrics.AUC()
    metric.update(np.array(labels, np.int32), logits)
    assert np.isnan(metric.result().item())


def test_confusion_matrices_over_batches(backend, labels_and_predictions):
    labels, logits, weights = labels_and_predictions
    metric = update_metric(nn.metrics.ConfusionMatrix(CLASS_COUNT), labels, logits, weights)
    right = sklearn.confusion_matrix(labels, logits.argmax(-1), sample_weight=weights)
    np.testing.assert_allclose(metric.result(), right, rtol=2e-6, atol=1e-6)
    metric.reset()
    metric.update([-1, CLASS_COUNT, 2], np.eye(CLASS_COUNT, dtype=np.float32)[[0, 1, 3]])
    assert metric.result().numpy().sum() == metric.result()[2, 3].item() == 1
    sequences = nn.metrics.ConfusionMatrix(CLASS_COUNT)
    sequences.update(labels.reshape(5, 10), logits.reshape(5, 10, CLASS_COUNT))
    assert (
        sequences.result().tolist() == sklearn.confusion_matrix(labels, logits.argmax(-1)).tolist()
    )


def test_a_picture_of_a_confusion_matrix(tmp_path, monkeypatch, labels_and_predictions):
    metric = update_metric(nn.metrics.ConfusionMatrix(CLASS_COUNT), *labels_and_predictions[:2])
    figure = metric.plot(tmp_path / "matrix.png", names=["ant", "bee", "cow", "dog"])
    axes = figure.axes[0]
    texts = np.array([float(text.get_text()) for text in axes.texts]).reshape(
        CLASS_COUNT, CLASS_COUNT
    )
    np.testing.assert_array_equal(texts, metric.result().numpy())
    assert [label.get_text() for label in axes.get_yticklabels()] == ["ant", "bee", "cow", "dog"]
    assert (tmp_path / "matrix.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ArgumentValueError, match="1 names for 4 classes"):
        metric.plot(names=["ant"])
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ArgumentError, match="pip install matplotlib"):
        metric.plot()


def test_perplexities_over_batches(backend, labels_and_predictions):
    labels, logits, weights = labels_and_predictions
    labels = np.where(np.arange(50) % 5, labels, -1)
    x = logits.astype(np.float64)
    losses = np.log(np.exp(x).sum(-1)) - x[np.arange(50), labels]
    counted = weights * (labels >= 0) * (labels != 2)
    right = np.exp((losses * counted).sum() / counted.sum())
    found = (
        update_metric(nn.metrics.Perplexity(ignore_index=2), labels, logits, weights)
        .result()
        .item()
    )
    assert found == pytest.approx(right, rel=1e-5)


def test_bleu_metrics_call_the_library(monkeypatch):
    calls = []

    def score(*arguments, **options):
        calls.append((*arguments, options))
        return SimpleNamespace(score=12.5)

    monkeypatch.setitem(sys.modules, "sacrebleu", SimpleNamespace(corpus_bleu=score))
    metric = nn.metrics.BLEU(lowercase=True)
    metric.update(["a cat"], ["the cat"])
    metric.update([["a dog", "one dog"]], ["a dog"])
    assert metric.result() == 12.5
    assert calls == [
        (["the cat", "a dog"], [["a cat", "a dog"], [None, "one dog"]], {"lowercase": True})
    ]
    with pytest.raises(ArgumentValueError, match="2 references for 1 translations"):
        metric.update(["a", "b"], ["a"])
    metric.reset()
    assert metric.translations == []
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    with pytest.raises(ArgumentError, match="pip install sacrebleu"):
        metric.result()


def test_the_library_scores_translations():
    pytest.importorskip("sacrebleu", reason="sacrebleu is not installed")
    metric = nn.metrics.BLEU()
    metric.update(["the cat sat on the mat today"], ["the cat sat on the mat"])
    assert metric.result() == pytest.approx(84.6482, abs=1e-3)  # exp(1 - 7 / 6) of 100


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.metrics.F1(CLASS_COUNT),
        lambda: nn.metrics.Accuracy(2),
        lambda: nn.metrics.ConfusionMatrix(CLASS_COUNT),
        lambda: nn.metrics.Perplexity(),
    ],
)
def test_updates_are_traced(make, backend, labels_and_predictions):
    labels, logits, _ = labels_and_predictions
    traced, plain = make(), make()
    step = plugrad.jit(lambda labels, logits: traced.update(labels, logits))
    for i in range(0, 50, 10):
        step(plugrad.asarray(labels[i : i + 10]), plugrad.asarray(logits[i : i + 10]))
        plain.update(labels[i : i + 10], logits[i : i + 10])
    np.testing.assert_allclose(traced.result(), plain.result(), rtol=1e-6)


def test_auc_is_traced(backend, rng):
    truth, logits = rng.integers(0, 2, 9).astype(np.int32), rng.normal(size=9).astype(np.float32)
    found = plugrad.jit(nn.metrics.roc_auc)(plugrad.asarray(truth), plugrad.asarray(logits))
    assert found.item() == pytest.approx(sklearn.roc_auc_score(truth, logits), rel=1e-6)


def test_evaluate_and_fit_accept_metric_objects(backend, labels_and_predictions):
    labels, logits, weights = labels_and_predictions
    model = nn.Dense(CLASS_COUNT)
    params = model.init(0, (CLASS_COUNT,))
    predicted = model(params, logits).numpy().argmax(-1)
    options = {"loss": nn.losses.sparse_softmax_cross_entropy, "batch_size": 16}
    metrics = {"f1": nn.metrics.F1(CLASS_COUNT), "accuracy": nn.metrics.accuracy}
    for _ in range(2):  # it begins anew
        found = nn.evaluate(model, params, logits, labels, weights, metrics=metrics, **options)
        right = sklearn.f1_score(labels, predicted, average="macro", sample_weight=weights)
        assert found["f1"] == pytest.approx(right, rel=1e-5)
        assert [*found] == ["loss", "f1", "accuracy"]
    results = nn.fit(
        model,
        params,
        logits,
        labels,
        optimizer=plugrad.optimizers.SGD(0.1),
        validation_data=(logits, labels),
        metrics={"matrix_f1": nn.metrics.F1(CLASS_COUNT)},
        **options,
    )
    predicted = model(params, logits).numpy().argmax(-1)
    right = sklearn.f1_score(labels, predicted, average="macro")
    assert results[0]["val_matrix_f1"] == pytest.approx(right, rel=1e-5)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: nn.metrics.Accuracy(0), ArgumentValueError, "k=0 must be at least 1"),
        (lambda: nn.metrics.F1(average="mean"), ArgumentValueError, "average='mean'"),
        (lambda: nn.metrics.F1(ignore_index=1), ArgumentError, "ignore_index is for classes"),
        (lambda: nn.metrics.AUC(1), ArgumentValueError, "bins=1 must be at least 2"),
        (
            lambda: nn.metrics.F1(3).update([0], [[1.0, 2.0]]),
            ArgumentValueError,
            "F1: there are 2 logits, and classes=3",
        ),
        (lambda: nn.metrics.Recall().update([0, 1], [1.0]), ShapeError, "Recall: labels have"),
    ],
)
def test_streaming_metrics_reject_invalid_arguments(call, error, message):
    with pytest.raises(error, match=message):
        call()
