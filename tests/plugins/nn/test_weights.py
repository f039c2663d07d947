"""Weights of examples and classes, labels that do not count, and gradients of several batches."""

from functools import partial

import numpy as np
import pytest

import plugrad
import plugrad_nn as nn
from plugrad.extend import ArgumentError, ArgumentValueError, ShapeError

SPARSE_CROSS_ENTROPY = nn.losses.sparse_softmax_cross_entropy
MEAN_CROSS_ENTROPY = partial(SPARSE_CROSS_ENTROPY, reduction="mean")
"""The mean that torch computes with the weights of classes: the divisor is their sum."""
MODEL = nn.Dense(3, kernel_initializer=nn.initializers.zeros)
CLASS_WEIGHTS = np.array([1.0, 0.25, 3.0])


@pytest.fixture
def inputs_and_labels(rng):
    x = rng.normal(size=(23, 4)).astype(np.float32)
    y = rng.integers(0, 3, 23).astype(np.int32)
    return x, y, rng.uniform(0, 2, 23).astype(np.float32) * (np.arange(23) % 4 > 0)


def fit_softmax_regression(x, y=None, *, rate=0.5, model=MODEL, **options):
    params = model.init(0, (x.shape[-1],) if isinstance(x, np.ndarray) else (4,))
    optimizer = plugrad.optimizers.SGD(rate)
    results = nn.fit(
        model, params, x, y, **{"loss": SPARSE_CROSS_ENTROPY, "optimizer": optimizer} | options
    )
    return params["kernel"].numpy(), results, optimizer


def reference_first_step(x, y, example_weights, divisor, rate=0.5):
    """Return the weighted loss of softmax regression whose kernel is zero, and the kernel after one step of SGD."""
    gradient = x.T.astype(np.float64) @ (
        (np.full((len(x), 3), 1 / 3) - np.eye(3)[y]) * example_weights[:, None]
    )
    return np.log(3) * example_weights.sum() / divisor, -rate * gradient / divisor


@pytest.mark.parametrize(
    ("loss", "by_weights"), [(SPARSE_CROSS_ENTROPY, False), (MEAN_CROSS_ENTROPY, True)]
)
def test_a_step_has_the_weighted_mean_of_the_losses(loss, by_weights, inputs_and_labels, backend):
    x, y, weights = inputs_and_labels
    both = weights * CLASS_WEIGHTS[y]
    expected, kernel = reference_first_step(
        x, y, both, both.sum() if by_weights else (both > 0).sum()
    )
    options = {"loss": loss, "batch_size": 23, "class_weight": dict(enumerate(CLASS_WEIGHTS))}
    found, results, _ = fit_softmax_regression(x, y, sample_weight=weights, **options)
    np.testing.assert_allclose(found, kernel, rtol=1e-4, atol=1e-5)
    assert results[0]["loss"] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("loss", [SPARSE_CROSS_ENTROPY, MEAN_CROSS_ENTROPY])
@pytest.mark.parametrize("jit", [True, False])
def test_accumulated_batches_are_one_large_batch(loss, jit, inputs_and_labels, backend):
    """Steps of 3, 3 and 1 batches of size 3 or 2, with different sums of weights."""
    x, y, weights = inputs_and_labels
    options = {
        "loss": loss,
        "class_weight": [1.0, 0.25, 3.0],
        "sample_weight": weights,
        "epochs": 2,
    }
    found, results, optimizer = fit_softmax_regression(
        x, y, batch_size=3, accumulate=3, jit=jit, **options
    )
    whole, wanted, _ = fit_softmax_regression(x, y, batch_size=9, jit=jit, **options)
    np.testing.assert_allclose(found, whole, rtol=1e-4, atol=1e-5)
    assert optimizer.iterations == 6
    for a, b in zip(results, wanted, strict=True):
        assert a["loss"] == pytest.approx(b["loss"], rel=1e-5)


def test_batches_of_a_step_have_dropout_of_their_own(inputs_and_labels):
    x, y, _ = inputs_and_labels
    seen = []

    def model(params, x, mode):
        seen.append(mode.generator().uniform(()).item())
        return MODEL(params, x)

    params = MODEL.init(0, (4,))
    with plugrad.use("cpu"):
        options = {"optimizer": plugrad.optimizers.SGD(0.1), "jit": False, "batch_size": 8}
        nn.fit(model, params, x, y, loss=SPARSE_CROSS_ENTROPY, accumulate=2, **options)
        nn.fit(model, params, x, y, loss=SPARSE_CROSS_ENTROPY, initial_epoch=0, **options)
    assert len(set(seen[:3])) == 3
    assert seen[0] not in seen[3:]  # the steps of the second training go on from the first


def test_ignored_labels_do_not_affect_the_loss(inputs_and_labels, backend):
    """Padded sequences, in batches with different numbers of valid labels."""
    x, y, _ = inputs_and_labels
    x, y = np.stack([x[:20]] * 3, 1), np.stack([y[:20], *[np.full(20, 2, np.int32)] * 2], 1)
    y[:7, 1] = 1
    keep = y.reshape(-1) != 2
    options = {"epochs": 2, "ignore_index": 2}
    expected, wanted, _ = fit_softmax_regression(
        x.reshape(-1, 4)[keep], y.reshape(-1)[keep], batch_size=60, epochs=2
    )
    found, results, _ = fit_softmax_regression(x, y, batch_size=6, accumulate=4, **options)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert results[1]["loss"] == pytest.approx(wanted[1]["loss"], rel=1e-5)

    logits = plugrad.asarray(x @ expected)
    flat = logits.numpy().reshape(-1, 3)[keep], y.reshape(-1)[keep]
    assert SPARSE_CROSS_ENTROPY(y, logits, ignore_index=2).item() == pytest.approx(
        SPARSE_CROSS_ENTROPY(flat[1], flat[0]).item(), 1e-5
    )
    hinges = [
        nn.losses.sparse_hinge_loss(y, logits, ignore_index=2).item(),
        nn.losses.sparse_hinge_loss(flat[1], flat[0]).item(),
    ]
    assert hinges[0] == pytest.approx(hinges[1], 1e-5)
    for metric in (nn.metrics.accuracy, partial(nn.metrics.top_k_accuracy, k=2)):
        ignored = metric(y, logits, ignore_index=2).item()
        assert ignored == pytest.approx(metric(flat[1], flat[0]).item(), rel=1e-6)
    assert np.isnan(nn.metrics.accuracy([2, 2], [[1.0, 2.0, 3.0]] * 2, ignore_index=2).item())


def test_weighted_results_of_batches_match_those_of_all_examples(inputs_and_labels, backend, rng):
    x, y, weights = inputs_and_labels
    params = nn.Dense(3).init(0, (4,))
    logits = nn.Dense(3)(params, x).numpy().astype(np.float64)
    right, counted = logits.argmax(1) == y, y != 1
    log = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    each = -np.take_along_axis(log, y[:, None], 1)[:, 0] * weights
    options = {"batch_size": 5, "metrics": {"accuracy": nn.metrics.accuracy}}
    found = nn.evaluate(nn.Dense(3), params, x, y, weights, loss=SPARSE_CROSS_ENTROPY, **options)
    assert found["loss"] == pytest.approx(each.sum() / (weights > 0).sum(), rel=1e-5)
    assert found["accuracy"] == pytest.approx((right * weights).sum() / weights.sum(), rel=1e-5)
    parts = [(x[i : i + 9], y[i : i + 9], weights[i : i + 9]) for i in range(0, 23, 9)]
    found = nn.evaluate(
        nn.Dense(3), params, parts, loss=MEAN_CROSS_ENTROPY, ignore_index=1, **options
    )
    total = (weights * counted).sum()
    assert found["loss"] == pytest.approx((each * counted).sum() / total, rel=1e-5)
    assert found["accuracy"] == pytest.approx((right * weights * counted).sum() / total, rel=1e-5)


def test_a_batch_without_weight_does_not_change_metrics(backend):
    labels, weights = [0, 1, 0, 1], [0.0, 0.0, 3.0, 1.0]
    found = nn.evaluate(
        lambda params, x, mode: x,
        {},
        np.float32([[2, 1], [1, 2], [2, 1], [2, 1]]),
        labels,
        weights,
        loss=nn.losses.sparse_softmax_cross_entropy,
        metrics={"accuracy": nn.metrics.accuracy},
        batch_size=2,
    )
    assert found["accuracy"] == 0.75


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_results_of_halves_are_averaged_in_float32(dtype, backend):
    """Sums of float16 would be infinite here, and those of bfloat16 off by several percent."""
    x = plugrad.full((3000, 1), 30.0, dtype=dtype)
    w = plugrad.Variable(plugrad.zeros(1, dtype=dtype))
    (results,) = nn.fit(
        lambda params, x, mode: x * params["w"],
        {"w": w},
        x,
        x,
        loss=plugrad.losses.absolute_difference,
        optimizer=plugrad.optimizers.SGD(0.0),
        validation_data=(x, x),
        metrics={"label": lambda labels, predictions: labels[0, 0]},
    )
    assert results == {"loss": 30, "val_loss": 30, "val_label": 30}


@pytest.mark.parametrize("batch_size", [3, 4])
def test_a_weight_of_an_example_is_that_of_all_its_labels(batch_size, backend, rng):
    """Also in a batch of as many examples as each has labels."""
    logits, labels = rng.normal(size=(4, 3, 2)).astype(np.float32), rng.integers(0, 2, (4, 3))
    weights = np.float32([0, 1, 2, 3])
    found, expected = (
        nn.evaluate(
            lambda params, x, mode: x,
            {},
            logits,
            labels.astype(np.int32),
            each,
            loss=nn.losses.sparse_softmax_cross_entropy,
            metrics={"accuracy": nn.metrics.accuracy},
            batch_size=batch_size,
        )
        for each in (weights, np.repeat(weights[:, None], 3, axis=1))
    )
    assert found == pytest.approx(expected, rel=1e-5)


def test_metrics_have_weights(backend, rng):
    """The formulas are those of scikit-learn's sample_weight."""
    truth, scores = rng.random(30) < 0.4, rng.normal(size=30).astype(np.float32)
    weights, positive = rng.uniform(0, 2, 30).astype(np.float32), scores > 0
    both, true, found = (weights[x].sum() for x in (truth & positive, truth, positive))
    m = nn.metrics
    assert m.precision(truth, scores, weights).item() == pytest.approx(both / found, rel=1e-5)
    assert m.recall(truth, scores, weights).item() == pytest.approx(both / true, rel=1e-5)
    assert m.f1_score(truth, scores, weights).item() == pytest.approx(
        2 * both / (true + found), rel=1e-5
    )
    same = weights[truth == positive].sum() / weights.sum()
    assert m.binary_accuracy(truth, scores, weights).item() == pytest.approx(same, rel=1e-5)
    with pytest.raises(ShapeError, match=r"recall: weights of shape \(3,\) do not broadcast to"):
        m.recall(truth, scores, np.ones(3, np.float32))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"class_weight": 2.0},
            ArgumentError,
            "class_weight=2.0 must be a dict of weights by class",
        ),
        (
            {"class_weight": {"a": 1.0}},
            ArgumentError,
            "a class of class_weight='a' must be an integer",
        ),
        ({"class_weight": [1, -1]}, ArgumentValueError, r"a weight of class_weight=-1.0 must be"),
        ({"ignore_index": 0.5}, ArgumentError, "ignore_index=0.5 must be an integer"),
        ({"accumulate": 0}, ArgumentValueError, "accumulate=0 must be at least 1"),
        ({"sample_weight": np.ones(3)}, ShapeError, "the number of examples"),
        (
            {"sample_weight": np.ones(23), "loss": lambda y, p: SPARSE_CROSS_ENTROPY(y, p)},
            ArgumentError,
            r"fit: examples have weights, so loss must take three arguments .*its arguments are \(y, p\)",
        ),
        ({"y": np.ones((23, 3)), "class_weight": [1.0]}, ArgumentError, "are for integer labels"),
        ({"x": [], "y": None, "sample_weight": [1.0]}, ArgumentError, r"yields triples \(inputs,"),
    ],
)
def test_invalid_weights_are_rejected(options, error, message, inputs_and_labels):
    arguments = {
        "x": inputs_and_labels[0],
        "y": inputs_and_labels[1],
        "loss": SPARSE_CROSS_ENTROPY,
        **options,
    }
    with plugrad.use("cpu"), pytest.raises(error, match=message):
        nn.fit(MODEL, MODEL.init(0, (4,)), optimizer=plugrad.optimizers.SGD(0.1), **arguments)
