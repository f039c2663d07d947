"""Labels are classes: the losses and the training say where they are not."""

import numpy as np
import pytest

import plugrad
import plugrad_nn as nn
from plugrad.extend import ArgumentValueError

SPARSE_LOSSES = [nn.losses.sparse_softmax_cross_entropy, nn.losses.sparse_hinge_loss]
ERROR_PATTERN = r"label 3 is none of the 3 classes of the logits.* from 0 to 2; a negative label"


@pytest.mark.parametrize("loss", SPARSE_LOSSES)
@pytest.mark.parametrize("form", [list, np.array, lambda x: np.array(x, "uint32"), plugrad.asarray])
def test_losses_refuse_labels_that_are_no_classes(loss, form, backend):
    logits, labels = plugrad.zeros((3, 3)), form([0, 3, 1])
    if isinstance(labels, plugrad.Tensor) and backend != "cpu":
        assert loss(labels, logits, reduction="none")[1].item() == 0  # a look at it would wait
        with (
            plugrad.config.override("debug", True),
            pytest.raises(ArgumentValueError, match=ERROR_PATTERN),
        ):
            loss(labels, logits)
        return
    with pytest.raises(ArgumentValueError, match=f"{loss.__name__}: {ERROR_PATTERN}"):
        loss(labels, logits)
    with pytest.raises(ArgumentValueError, match=ERROR_PATTERN):
        plugrad.grad(lambda x: loss(labels, x))(logits)


@pytest.mark.parametrize("loss", SPARSE_LOSSES)
def test_labels_that_a_traced_function_closes_over(loss, backend):
    logits, labels = plugrad.asarray([[1.0, 2.0, 0.5], [0.1, 0.2, 0.3]]), plugrad.asarray([2, 0])
    found = plugrad.jit(lambda x: loss(labels, x))(logits)
    assert abs(found.item() - loss(labels, logits).item()) < 1e-6
    if backend == "cpu":
        wrong = plugrad.asarray([2, 3])
        with pytest.raises(ArgumentValueError, match=ERROR_PATTERN):
            plugrad.jit(lambda x: loss(wrong, x))(logits)


@pytest.mark.parametrize("loss", SPARSE_LOSSES)
def test_losses_ignore_negative_labels(loss, backend):
    logits = plugrad.asarray([[1.0, 2.0], [5.0, 0.5]])
    alone = loss([1], logits[:1]).item()
    for labels in ([1, -1], np.array([1, -100])):
        assert abs(loss(labels, logits).item() - alone) < 1e-6


def examples_with_labels(labels):
    x = np.random.default_rng(0).normal(size=(len(labels), 2)).astype("float32")
    return x, labels


def fit_dense(x, y, loss, **options):
    model = nn.Dense(3)
    params = model.init(0, (2,))
    before = params["kernel"].numpy().copy()
    try:
        nn.fit(
            model,
            params,
            x,
            y,
            loss=loss,
            optimizer=plugrad.optimizers.SGD(0.1),
            batch_size=2,
            **options,
        )
    finally:
        fit_dense.changed = not np.array_equal(before, params["kernel"].numpy())


@pytest.mark.parametrize(
    "loss",
    [
        SPARSE_LOSSES[0],
        lambda labels, x: nn.losses.sparse_softmax_cross_entropy(labels, x, label_smoothing=0.1),
    ],
)
@pytest.mark.parametrize("form", [list, np.array, plugrad.asarray])
def test_fit_refuses_a_data_set_before_the_first_step(loss, form, backend):
    x, y = examples_with_labels(
        [1, 2, 1, 2, 1, 2, 1, 3]
    )  # from 1 on, where classes are numbered from 0 on
    with pytest.raises(ArgumentValueError, match=ERROR_PATTERN):
        fit_dense(x, form(y), loss)
    assert not fit_dense.changed
    fit_dense(x, form([k - 1 for k in y]), loss)
    assert fit_dense.changed
    with pytest.raises(ArgumentValueError, match=ERROR_PATTERN):
        fit_dense(x, form([0] * 8), loss, validation_data=(x, form(y)))
    with pytest.raises(ArgumentValueError, match=ERROR_PATTERN):
        nn.evaluate(nn.Dense(3), nn.Dense(3).init(0, (2,)), x, form(y), loss=loss)


def test_labels_that_a_loss_slices_are_validated_on_the_host_or_with_debug(backend):
    x, y = examples_with_labels([0, 3, 1, 2])

    def loss(labels, logits):
        return SPARSE_LOSSES[0](labels[:, 0], logits)

    def fit():
        fit_dense(x, plugrad.asarray(y)[:, None], loss, jit=False)

    if backend == "cpu":
        with pytest.raises(ArgumentValueError, match=ERROR_PATTERN):
            fit()
        return
    fit()
    assert fit_dense.changed
    with (
        plugrad.config.override("debug", True),
        pytest.raises(ArgumentValueError, match=ERROR_PATTERN),
    ):
        fit()


def test_labels_are_read_once_per_data_set(backend, monkeypatch):
    """On a device, each read would wait for all pending work."""
    x, y = examples_with_labels([0, 1, 2, 0, 1, 2])
    labels, read = plugrad.asarray(y), []
    device = type(labels.backend)
    to_numpy = device.to_numpy
    monkeypatch.setattr(
        device, "to_numpy", lambda self, a: read.append(a.dtype) or to_numpy(self, a)
    )
    fit_dense(x, labels, SPARSE_LOSSES[0], epochs=3)
    assert sum(np.dtype(str(dtype)).kind == "i" for dtype in read) <= 1


def test_other_losses_take_any_labels(backend):
    x, _ = examples_with_labels([0] * 4)
    y = np.array([7, -3, 100, 2], "int32")
    model = nn.Dense(1)
    nn.fit(
        model,
        model.init(0, (2,)),
        x,
        y,
        loss=lambda labels, found: plugrad.losses.mean_squared_error(
            labels.astype("float32"), found[:, 0]
        ),
        optimizer=plugrad.optimizers.SGD(0.001),
    )
    two = np.stack([np.arange(4) % 2, np.arange(4)], 1).astype(
        "int32"
    )  # of two and of four classes
    model = nn.Dense(6)

    def both(labels, found):
        first = nn.losses.sparse_softmax_cross_entropy(labels[:, 0], found[:, :2])
        return first + nn.losses.sparse_softmax_cross_entropy(labels[:, 1], found[:, 2:])

    nn.fit(model, model.init(0, (2,)), x, two, loss=both, optimizer=plugrad.optimizers.SGD(0.1))


def test_the_labels_of_no_examples(backend):
    assert (
        nn.losses.sparse_softmax_cross_entropy(
            np.zeros(0, "int32"), np.zeros((0, 3), "float32")
        ).item()
        == 0
    )


def test_traced_labels_are_not_validated():
    """This holds with `debug` too, which also runs each call untraced."""
    loss = plugrad.jit(nn.losses.sparse_softmax_cross_entropy)
    for debug in (False, True):
        with plugrad.config.override("debug", debug):
            assert loss(plugrad.asarray([0, 1]), plugrad.ones((2, 3))).item() == pytest.approx(
                np.log(3)
            )


@pytest.mark.parametrize("label_smoothing", [0.0, 0.25])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_labels_that_do_not_count_hide_logits_that_are_not_finite(bad, label_smoothing, backend):
    logits, labels = plugrad.asarray([[1.0, 2.0], [bad, bad], [bad, 0.5]]), [1, 0, -1]

    def loss(x, reduction="sum_by_nonzero_weights"):
        return nn.losses.sparse_softmax_cross_entropy(
            labels, x, ignore_index=0, label_smoothing=label_smoothing, reduction=reduction
        )

    alone = nn.losses.sparse_softmax_cross_entropy([1], logits[:1], label_smoothing=label_smoothing)
    assert abs(loss(logits).item() - alone.item()) < 1e-6
    np.testing.assert_array_equal(loss(logits, "none").numpy()[1:], 0)
    gradient = plugrad.grad(loss)(logits).numpy()
    assert np.abs(gradient[0]).min() > 0.01
    np.testing.assert_array_equal(gradient[1:], 0)


def test_the_hinge_loss_ignores_logits_that_are_not_finite_at_labels_that_do_not_count(backend):
    logits = plugrad.asarray([[1.0, 1.5], [np.nan, np.inf]])
    loss, gradient = plugrad.value_and_grad(lambda x: nn.losses.sparse_hinge_loss([0, -1], x))(
        logits
    )
    assert loss.item() == 1.5
    np.testing.assert_array_equal(gradient.numpy(), [[-1, 1], [0, 0]])
