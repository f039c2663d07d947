"""Losses of masks, distributions, embeddings and alignments against formulas in NumPy."""

import itertools

import numpy as np
import pytest

import plugrad
import plugrad_nn as nn
from plugrad.extend import ArgumentError, ArgumentValueError, DTypeError, ShapeError
from plugrad.testing import check_gradient


def random_float32(rng, *shape):
    return rng.normal(size=shape).astype(np.float32)


def random_distributions(rng, *shape):
    x = np.exp(random_float32(rng, *shape))
    return x / x.sum(-1, keepdims=True)


@pytest.mark.parametrize("alpha", [None, 0.25])
def test_focal_losses(alpha, backend, rng):
    labels, logits = (rng.random((3, 4)) < 0.5).astype(np.float32), 3 * random_float32(rng, 3, 4)
    p = 1 / (1 + np.exp(-np.where(labels, logits, -logits).astype(float)))
    weight = 1 if alpha is None else np.where(labels, alpha, 1 - alpha)
    expected = -weight * (1 - p) ** 1.5 * np.log(p)

    def loss(logits):
        return nn.losses.binary_focal_loss(labels, logits, gamma=1.5, alpha=alpha, reduction="none")

    np.testing.assert_allclose(loss(logits), expected, rtol=1e-4, atol=1e-7)
    check_gradient(loss, logits)
    plain = nn.losses.binary_focal_loss(labels, logits, gamma=0.0).item()
    assert plain == pytest.approx(
        plugrad.losses.sigmoid_cross_entropy(labels, logits).item(), rel=1e-5
    )


def test_dice_losses(backend, rng):
    labels, p = (rng.random((2, 3, 4)) < 0.5).astype(np.float32), rng.random((2, 3, 4))
    p = p.astype(np.float32)
    both, total = (labels * p).sum((1, 2)), labels.sum((1, 2)) + p.sum((1, 2))
    expected = (1 - (2 * both + 0.5) / (total + 0.5)).mean()
    assert nn.losses.dice_loss(labels, p, smooth=0.5).item() == pytest.approx(expected, rel=1e-5)
    check_gradient(lambda p: nn.losses.dice_loss(labels, p), p)


def test_divergences(backend, rng):
    labels, p = random_distributions(rng, 3, 4), random_distributions(rng, 3, 4)
    labels[0, 1] = 0
    terms = np.where(labels > 0, labels * np.log(np.where(labels > 0, labels, 1) / p), 0)
    found = nn.losses.kl_divergence(labels, p, reduction="none")
    np.testing.assert_allclose(found, terms.sum(-1), rtol=1e-4, atol=1e-6)
    check_gradient(lambda p: nn.losses.kl_divergence(labels, p), p)
    gradient = plugrad.grad(lambda x: nn.losses.kl_divergence(x, p))(labels)
    assert np.isfinite(gradient.numpy()).all()


def test_contrastive_losses(backend, rng):
    labels, distances = np.array([1, 0, 0, 1], np.float32), np.array([0.5, 0.25, 3, 2], np.float32)
    expected = np.mean([0.25, 1.25**2, 0, 4])
    found = nn.losses.contrastive_loss(labels, distances, margin=1.5)
    assert found.item() == pytest.approx(expected, rel=1e-6)
    check_gradient(lambda d: nn.losses.contrastive_loss(labels, d, margin=1.5), distances)


def test_triplet_losses(backend, rng):
    a, p, n = (random_float32(rng, 5, 3) for _ in range(3))
    near, far = np.linalg.norm(a - p, axis=-1), np.linalg.norm(a - n, axis=-1)
    expected = np.maximum(near - far + 0.75, 0).mean()
    found = nn.losses.triplet_loss(a, p, n, margin=0.75)
    assert found.item() == pytest.approx(expected, rel=1e-5)
    check_gradient(lambda a, p, n: nn.losses.triplet_loss(a, p, n, margin=0.75), a, p, n)
    gradient = plugrad.grad(lambda a: nn.losses.triplet_loss(a, p, n))(p)  # a distance of 0
    assert np.isfinite(gradient.numpy()).all()


def ctc_collapse(path, blank):
    """Return the labels of an alignment: repeated labels count once, and blanks are dropped."""
    return [label for label, _ in itertools.groupby(path) if label != blank]


def reference_ctc_loss(labels, logits, blank):
    """Return the CTC loss of one example as a sum over all alignments."""
    p = np.exp(logits.astype(float))
    p /= p.sum(-1, keepdims=True)
    total = 0.0
    for path in itertools.product(range(p.shape[1]), repeat=len(p)):
        if ctc_collapse(path, blank) == labels:
            total += np.prod([p[t, label] for t, label in enumerate(path)])
    return -np.log(total) if total else np.inf


@pytest.mark.parametrize("blank", [0, 2])
def test_ctc_losses(blank, backend, rng):
    one, other = (1, 2) if blank == 0 else (0, 1)
    labels = np.array([[one, other, 0], [one, one, 1], [other, 0, 0], [0, 0, 0], [one, one, one]])
    label_lengths, logit_lengths = np.array([2, 2, 1, 0, 3]), np.array([5, 4, 2, 3, 4])
    logits = random_float32(rng, 5, 5, 3)
    expected = [
        reference_ctc_loss(row[:n].tolist(), x[:t], blank)
        for row, n, x, t in zip(labels, label_lengths, logits, logit_lengths, strict=True)
    ]
    assert np.isinf(expected[4])  # three equal labels need two blanks between them

    def loss(logits):
        return nn.losses.ctc_loss(labels, logits, label_lengths, logit_lengths, blank=blank)

    np.testing.assert_allclose(loss(logits), expected, rtol=1e-5)
    check_gradient(lambda x: loss(x)[:4], logits)


def test_ctc_losses_of_empty_labels(backend):
    nothing = nn.losses.ctc_loss(np.zeros((2, 0), int), plugrad.zeros((2, 0, 3)), [0, 0], [0, 0])
    assert nothing.tolist() == [0, 0]
    too_short = nn.losses.ctc_loss([[1]], plugrad.zeros((1, 0, 3)), [1], [0])
    assert too_short.tolist() == [float("inf")]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: nn.losses.dice_loss([1.0], [0.5, 0.5]), ShapeError, "must be equal"),
        (
            lambda: nn.losses.binary_focal_loss([1.0], [0.5], gamma=-1.0),
            ArgumentValueError,
            "gamma=-1.0",
        ),
        (
            lambda: nn.losses.contrastive_loss([1.0], [0.5], margin="1"),
            ArgumentError,
            "margin='1'",
        ),
        (
            lambda: nn.losses.ctc_loss([[1]], plugrad.zeros((1, 2, 3)), [1], [2], blank=3),
            ArgumentValueError,
            "none of the 3 classes",
        ),
        (
            lambda: nn.losses.ctc_loss([1], plugrad.zeros((1, 2, 3)), [1], [2]),
            ShapeError,
            r"labels have shape \(1,\)",
        ),
        (
            lambda: nn.losses.ctc_loss([[1.0]], plugrad.zeros((1, 2, 3)), [1], [2]),
            DTypeError,
            "labels are float32",
        ),
    ],
)
def test_invalid_loss_arguments_are_rejected(call, error, message):
    with pytest.raises(error, match=message):
        call()
