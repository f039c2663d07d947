"""`plugrad.optimizers.LossScale`: losses are multiplied, and steps whose gradients are not finite are skipped."""

import numpy as np
import pytest

import plugrad
from plugrad.errors import ArgumentError, ArgumentValueError
from plugrad.optimizers import SGD, Adam, LossScale


def take_steps(optimizer, w, factors, traced):
    """Take one step for each factor of the loss, and return the losses."""

    def step(factor):
        return optimizer.minimize(lambda: plugrad.sum(w * w) * factor, [w])

    run = plugrad.jit(step) if traced else step
    return [run(plugrad.asarray(factor, dtype="float32")).item() for factor in factors]


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("make", [lambda: SGD(0.125), lambda: Adam(0.1)])
def test_loss_scaling_does_not_change_steps(backend, make, traced):
    found = []
    for scale in (None, LossScale(1024.0)):
        w = plugrad.Variable([1.0, -2.0])
        optimizer = make().with_loss_scale(scale)
        found.append((take_steps(optimizer, w, [1, 1, 1], traced), w.tolist()))
    np.testing.assert_allclose(found[1][0], found[0][0], rtol=1e-6)
    np.testing.assert_allclose(found[1][1], found[0][1], rtol=1e-5)


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_steps_that_are_not_finite_are_skipped(backend, bad, traced):
    w, optimizer = plugrad.Variable([1.0, -2.0]), Adam(0.1).with_loss_scale(LossScale(8.0))
    take_steps(optimizer, w, [1], traced)
    before = w.numpy().copy(), optimizer.get_state([w])["variables"][0]
    take_steps(optimizer, w, [bad], traced)
    after = optimizer.get_state([w])["variables"][0]
    np.testing.assert_array_equal(w.numpy(), before[0])
    for name in before[1].keys() - {"steps"}:
        np.testing.assert_array_equal(after[name], before[1][name])
    assert optimizer.loss_scale.value == 4
    assert optimizer.iterations == 2
    assert np.isfinite(take_steps(optimizer, w, [1], traced)).all()
    assert (w.numpy() != before[0]).all()


def test_the_loss_scale_grows_and_shrinks(backend):
    scale = LossScale(4.0, growth_interval=3)
    w, optimizer = plugrad.Variable([1.0]), SGD(0.0).with_loss_scale(scale)
    values = []
    for factor in (1, 1, 1, 1, np.inf, 1, 1, 1, np.nan, np.nan, np.nan, np.nan):
        take_steps(optimizer, w, [factor], traced=False)
        values.append(scale.value)
    assert values == [4, 4, 8, 8, 4, 4, 4, 8, 4, 2, 1, 1]


def test_small_gradients_of_float16_are_not_lost(backend):
    """Unscaled, they are smaller than the smallest float16."""
    x = plugrad.full((1, 4), 1e-4)
    moved = []
    for scale in (None, LossScale(65536.0)):
        w = plugrad.Variable(plugrad.zeros((4, 1)))
        optimizer = SGD(1.0).with_loss_scale(scale)

        def loss(w=w):
            with plugrad.autocast("float16"):
                return plugrad.sum(x @ w) * 1e-5

        optimizer.minimize(loss, [w])
        moved.append(float(w.numpy().sum()))
    assert moved[0] == 0
    assert moved[1] == pytest.approx(-4e-9, rel=2e-3)


def test_states_contain_the_loss_scale(backend, tmp_path):
    def start():
        w = plugrad.Variable([1.0, 2.0])
        return w, Adam(0.1).with_loss_scale(LossScale(8.0, growth_interval=2))

    w, optimizer = start()
    take_steps(optimizer, w, [1, 1, np.inf, 1], traced=False)
    plugrad.save(tmp_path / "x.safetensors", (w, optimizer.get_state([w])))
    losses = take_steps(optimizer, w, [1, 1], traced=False)
    v, other = start()
    stored, state = plugrad.load(tmp_path / "x.safetensors")
    v.assign(stored)
    other.set_state([v], state)
    assert state["loss_scale"] == {"scale": 8.0, "good_steps": 1.0}
    assert take_steps(other, v, [1, 1], traced=False) == losses
    assert other.loss_scale.get_state() == optimizer.loss_scale.get_state()
    assert "loss_scale" not in Adam().get_state([])

    late = Adam(0.1)  # as before `fit`, which adds a loss scale
    late.set_state([v], state)
    assert late.loss_scale.get_state() == state["loss_scale"]


def test_losses_are_unscaled_without_a_loss_scale():
    with plugrad.use("cpu"):
        optimizer = SGD(0.5)
        assert optimizer.loss_scale is None
        w = plugrad.Variable([1.0])
        optimizer.apply_gradients([(w, plugrad.asarray([np.inf]))])
        assert w.tolist() == [-np.inf]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: LossScale(0.5), ArgumentValueError, "initial=0.5 must be from 1 to"),
        (lambda: LossScale(np.inf), ArgumentValueError, "must be from 1"),
        (lambda: LossScale("8"), ArgumentError, "initial"),
        (lambda: LossScale(8.0, 0), ArgumentValueError, "growth_interval"),
        (lambda: SGD(0.1).with_loss_scale(8.0), ArgumentError, "must be a LossScale, or None"),
        (lambda: LossScale().set_state({"scale": 1}), ArgumentError, "must have scale, good_steps"),
    ],
)
def test_loss_scale_rejects_invalid_arguments(call, error, message):
    with pytest.raises(error, match=message):
        call()
