"""Losses, metrics and schedules against formulas in NumPy."""

import numpy as np
import pytest

import plugrad
import plugrad_nn as nn
from core.test_optimizers import TORCH_RECORD
from plugrad.extend import ArgumentError, ArgumentValueError, DTypeError, ShapeError
from plugrad.testing import check_gradient

LABELS_WITH_INVALID_ONES = np.array([[0, 3, -1], [1, -7, 2]], np.int32)  # -1 and -7 are no classes
VALID_MASK = np.array([[1, 1, 0], [1, 0, 1]])


@pytest.fixture
def logits(rng):
    return rng.normal(size=(2, 3, 4)).astype(np.float32)


def reference_cross_entropies(logits, smoothing=0.0):
    x = logits.astype(np.float64)
    log_probabilities = x - np.log(np.exp(x).sum(-1, keepdims=True))
    targets = np.eye(4)[LABELS_WITH_INVALID_ONES.clip(0, 3)] * (1 - smoothing) + smoothing / 4
    return -(targets * log_probabilities).sum(-1) * VALID_MASK


def reference_hinge_losses(logits):
    own = np.take_along_axis(logits, LABELS_WITH_INVALID_ONES.clip(0, 3)[..., None], -1)
    others = np.where(np.eye(4, dtype=bool)[LABELS_WITH_INVALID_ONES.clip(0, 3)], -np.inf, logits)
    return np.maximum(1 + others.max(-1) - own[..., 0], 0) * VALID_MASK


@pytest.mark.parametrize(
    ("loss", "formula"),
    [
        (nn.losses.sparse_softmax_cross_entropy, reference_cross_entropies),
        (nn.losses.sparse_hinge_loss, reference_hinge_losses),
    ],
)
def test_losses(loss, formula, backend, logits):
    each = formula(logits)
    np.testing.assert_allclose(
        loss(LABELS_WITH_INVALID_ONES, logits, reduction="none"), each, rtol=1e-5, atol=1e-6
    )
    assert abs(loss(LABELS_WITH_INVALID_ONES, logits).item() - each.sum() / VALID_MASK.sum()) < 1e-5
    weights = np.array([[2.0], [0.5]], np.float32)
    assert (
        abs(
            loss(LABELS_WITH_INVALID_ONES, logits, weights, reduction="sum").item()
            - (each * weights).sum()
        )
        < 1e-5
    )
    labels = plugrad.asarray(LABELS_WITH_INVALID_ONES)
    with plugrad.use("cpu"):
        check_gradient(lambda x: loss(LABELS_WITH_INVALID_ONES, x, reduction="none"), logits)
    found = plugrad.grad(lambda x: loss(labels, x))(logits).numpy()
    assert not found[VALID_MASK == 0].any()
    with plugrad.use("cpu"):
        expected = plugrad.grad(lambda x: loss(LABELS_WITH_INVALID_ONES, x))(logits).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def test_smoothed_labels(backend, logits):
    found = nn.losses.sparse_softmax_cross_entropy(
        LABELS_WITH_INVALID_ONES, logits, label_smoothing=0.25, reduction="none"
    )
    np.testing.assert_allclose(found, reference_cross_entropies(logits, 0.25), rtol=1e-5)


@pytest.mark.parametrize("options", [{}, {"label_smoothing": 0.25}, {"ignore_index": 7}], ids=str)
@pytest.mark.parametrize("reduction", ["none", "sum", "mean", "sum_by_nonzero_weights"])
@pytest.mark.parametrize("classes", [8, 2500])
def test_cross_entropies_match_one_hot_labels(classes, options, reduction, backend, rng):
    logits = plugrad.asarray(rng.normal(size=(2, 3, classes)).astype(np.float32))
    labels = np.array([[0, classes - 1, -1], [7, -7, 7]], np.int32)
    counted = plugrad.asarray(((labels >= 0) & (labels != options.get("ignore_index"))).astype("f"))

    def expected(x):
        return plugrad.losses.softmax_cross_entropy(
            plugrad.one_hot(labels, classes),
            x,
            counted,
            label_smoothing=options.get("label_smoothing", 0.0),
            reduction=reduction,
        )

    def found(x):
        return nn.losses.sparse_softmax_cross_entropy(labels, x, reduction=reduction, **options)

    direction = plugrad.asarray(rng.normal(size=logits.shape).astype(np.float32))

    def slope(loss):
        return lambda x: plugrad.sum(plugrad.grad(lambda x: plugrad.sum(loss(x)))(x) * direction)

    for of in (lambda loss: loss, lambda loss: plugrad.grad(lambda x: plugrad.sum(loss(x)))):
        np.testing.assert_allclose(
            of(found)(logits).numpy(), of(expected)(logits).numpy(), rtol=1e-6, atol=1e-7
        )
    np.testing.assert_allclose(
        plugrad.grad(slope(found))(logits).numpy(),
        plugrad.grad(slope(expected))(logits).numpy(),
        rtol=1e-4,
        atol=1e-6,
    )
    traced = plugrad.jit(plugrad.value_and_grad(lambda x: plugrad.sum(found(x))))
    for _ in range(2):
        value, gradient = traced(logits)
        assert value.item() == pytest.approx(plugrad.sum(found(logits)).item(), rel=1e-6)
        np.testing.assert_allclose(
            gradient.numpy(),
            plugrad.grad(lambda x: plugrad.sum(found(x)))(logits).numpy(),
            rtol=1e-6,
            atol=1e-7,
        )


def test_a_class_that_is_impossible_adds_nothing_to_other_labels(backend):
    """Logits of minus infinity exclude classes."""
    logits = np.array([[0, 0, -np.inf, -np.inf]], "f")
    value, gradient = plugrad.value_and_grad(
        lambda x: nn.losses.sparse_softmax_cross_entropy([1], x)
    )(logits)
    assert value.item() == pytest.approx(np.log(2))
    np.testing.assert_allclose(gradient.numpy(), [[0.5, -0.5, 0, 0]], rtol=1e-6)
    assert nn.losses.sparse_hinge_loss([1], logits).item() == 1
    ranked = [[1.0, 2.0, -np.inf], [3.0, 0.0, 1.0]]
    for k, expected in ((1, 0.0), (2, 0.5), (3, 1.0)):
        assert nn.metrics.top_k_accuracy([0, 1], ranked, k).item() == expected


def test_losses_without_examples(backend):
    nothing = np.zeros((0,), np.int32), np.zeros((0, 4), np.float32)
    assert nn.losses.sparse_softmax_cross_entropy(*nothing).item() == 0
    assert nn.losses.sparse_softmax_cross_entropy([-1], [[1.0, 2.0]]).item() == 0
    assert np.isnan(nn.metrics.accuracy(*nothing).item())


def test_metrics(backend, rng):
    logits = rng.permuted(np.linspace(-1, 1, 60)).reshape(3, 4, 5).astype(np.float32)
    labels = rng.integers(-1, 5, (3, 4)).astype(np.int32)
    ranks = (-logits).argsort(-1)
    for k in (1, 2, 3):
        expected = (ranks[..., :k] == labels[..., None]).any(-1).mean()
        assert abs(nn.metrics.top_k_accuracy(labels, logits, k).item() - expected) < 1e-6
    assert abs(nn.metrics.accuracy(labels, logits).item() - (ranks[..., 0] == labels).mean()) < 1e-6

    truth, scores = rng.random(50) < 0.4, rng.normal(size=50).astype(np.float32)
    positive = scores > 0
    right = (truth & positive).sum()
    for given in (truth, truth.astype(np.int32), truth.astype(np.float32)):
        assert (
            abs(nn.metrics.binary_accuracy(given, scores).item() - (truth == positive).mean())
            < 1e-6
        )
        assert abs(nn.metrics.precision(given, scores).item() - right / positive.sum()) < 1e-6
        assert abs(nn.metrics.recall(given, scores).item() - right / truth.sum()) < 1e-6
        f1 = 2 * right / (positive.sum() + truth.sum())
        assert abs(nn.metrics.f1_score(given, scores).item() - f1) < 1e-6
    for metric in (nn.metrics.precision, nn.metrics.recall, nn.metrics.f1_score):
        assert metric([0, 0], [-1.0, -1.0]).item() == 0


def test_labels_and_logits_that_do_not_fit():
    for function in (
        nn.losses.sparse_softmax_cross_entropy,
        nn.losses.sparse_hinge_loss,
        nn.metrics.accuracy,
        nn.metrics.top_k_accuracy,
    ):
        with pytest.raises(ShapeError, match=r"labels have shape \(2,\) and logits \(2,\)"):
            function([0, 1], [1.0, 2.0])
    with pytest.raises(ShapeError, match="they must be equal"):
        nn.metrics.precision([0, 1], [1.0])
    with pytest.raises(DTypeError, match=r"labels are float32; they must be integers"):
        nn.losses.sparse_softmax_cross_entropy([0.5], [[1.0]])
    with pytest.raises(DTypeError, match="logits are int32"):
        nn.losses.sparse_softmax_cross_entropy([0], [[1]])
    with pytest.raises(ShapeError, match="two classes or more"):
        nn.losses.sparse_hinge_loss([0], [[1.0]])
    with pytest.raises(ArgumentValueError, match="k=0 must be at least 1"):
        nn.metrics.top_k_accuracy([0], [[1.0]], k=0)


def test_schedules_follow_their_formulas():
    steps = np.arange(0, 30)
    s = nn.schedules
    found = {
        s.ExponentialDecay(0.4, 10, 0.5): 0.4 * 0.5 ** (steps / 10),
        s.ExponentialDecay(0.4, 10, 0.5, staircase=True): 0.4 * 0.5 ** (steps // 10),
        s.InverseTimeDecay(0.4, 10, 2.0): 0.4 / (1 + 2.0 * steps / 10),
        s.PolynomialDecay(0.4, 10, 0.1, 2.0): 0.3 * (1 - np.minimum(steps / 10, 1)) ** 2 + 0.1,
        s.CosineDecay(0.4, 20, 0.25, 5): np.where(
            steps < 5,
            0.4 * steps / 5,
            0.4 * (0.25 + 0.75 * (1 + np.cos(np.pi * np.minimum((steps - 5) / 20, 1))) / 2),
        ),
        s.PiecewiseConstantDecay((5, 20), (0.4, 0.2, 0.1)): np.select(
            [steps <= 5, steps <= 20], [0.4, 0.2], 0.1
        ),
    }
    for schedule, expected in found.items():
        np.testing.assert_allclose([schedule(int(n)) for n in steps], expected, rtol=1e-12)
    w = plugrad.Variable([1.0])
    optimizer = plugrad.optimizers.SGD(s.PiecewiseConstantDecay((0,), (1.0, 0.5)))
    for left in (0.0, -0.5):
        optimizer.minimize(lambda: plugrad.sum(w), [w])
        assert w.item() == left


@pytest.mark.parametrize(
    "schedule",
    [
        nn.schedules.CosineDecayRestarts(0.5, 4, alpha=0.1),
        nn.schedules.OneCycle(0.5, 10, 0.3, 25.0, 100.0),
    ],
    ids=lambda schedule: type(schedule).__name__,
)
def test_schedules_match_torch(schedule, backend):
    """The traced step has gradient 1, so that a weight moves by the learning rate."""
    rates = TORCH_RECORD["schedules"][type(schedule).__name__]
    assert [schedule(n) for n in range(len(rates))] == pytest.approx(rates, rel=1e-12)
    w = plugrad.Variable([0.0])
    optimizer = plugrad.optimizers.SGD(schedule)
    step = plugrad.jit(lambda: optimizer.minimize(lambda: plugrad.sum(w), [w]))
    places = [(step(), w.item())[1] for _ in rates]
    np.testing.assert_allclose(places, -np.cumsum(rates), rtol=1e-5)


def test_one_cycle_stays_at_its_end():
    cycle = nn.schedules.OneCycle(0.5, 10, 0.3, 25.0, 100.0)
    assert cycle(9) == cycle(99) == pytest.approx(0.0002)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: nn.schedules.ExponentialDecay(-1.0, 1, 1.0), ArgumentValueError, "=-1.0"),
        (lambda: nn.schedules.InverseTimeDecay(0.1, 0, 1.0), ArgumentValueError, "decay_steps=0"),
        (lambda: nn.schedules.CosineDecay("1", 1), ArgumentError, "learning_rate='1'"),
        (lambda: nn.schedules.CosineDecayRestarts(0.1, 4, 0.5), ArgumentValueError, "t_mul=0.5"),
        (lambda: nn.schedules.OneCycle(0.1, 3, 0.2), ArgumentValueError, "more than one step"),
        (lambda: nn.schedules.PiecewiseConstantDecay((1,), (1.0,)), ArgumentValueError, "one more"),
        (
            lambda: nn.schedules.PiecewiseConstantDecay((2, 1), (1.0,) * 3),
            ArgumentValueError,
            "incr",
        ),
    ],
)
def test_invalid_schedule_arguments_are_rejected(call, error, message):
    with pytest.raises(error, match=message):
        call()
