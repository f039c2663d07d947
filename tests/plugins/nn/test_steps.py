"""Attention that continues sequences: steps with a state compute what one call for the whole does."""

import numpy as np
import pytest

import plugrad
import plugrad_nn as nn
from plugrad.extend import ArgumentError, ShapeError

ATTENTION_LAYERS = {
    "plain": nn.MultiHeadAttention(2, 4, causal=True),
    "rotary": nn.MultiHeadAttention(2, 4, causal=True, positions="rotary"),
    "alibi": nn.MultiHeadAttention(3, 2, causal=True, positions="alibi"),
    "shared": nn.MultiHeadAttention(4, 2, causal=True, num_kv_heads=2, positions="rotary"),
    "block": nn.TransformerEncoderBlock(2, 16, causal=True),
    "block, norm first": nn.TransformerEncoderBlock(2, 16, plugrad.gelu, norm_first=True, causal=True),
}  # fmt: skip


def run_in_steps(step, params, x, state, cuts):
    """Return the concatenated results of steps over the parts of x."""
    found = []
    for start, end in zip((0, *cuts), (*cuts, x.shape[1]), strict=True):
        y, state = step(params, x[:, start:end], state)
        found.append(y.numpy())
    return np.concatenate(found, axis=1), state


@pytest.mark.parametrize("name", ATTENTION_LAYERS)
def test_attention_in_steps_matches_one_call(name, make_params, rng, backend):
    layer = ATTENTION_LAYERS[name]
    params = make_params(layer, (9, 8))
    x = plugrad.asarray(rng.normal(size=(2, 9, 8)).astype(np.float32))
    expected = layer(params, x).numpy()
    for cuts in ((1, 2, 3, 4, 5, 6, 7, 8), (4,), (3, 4, 7), ()):
        state = layer.initial_state(params, 2, 12)
        found, state = run_in_steps(layer.step, params, x, state, cuts)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=2e-5)
        assert state[2].item() == 9


def test_steps_of_one_shape_are_traced_once(make_params, rng, backend):
    layer, traces = ATTENTION_LAYERS["rotary"], []
    params = make_params(layer, (9, 8))

    @plugrad.jit
    def step(x, state):
        traces.append(x.shape)
        return layer.step(params, x, state)

    x = plugrad.asarray(rng.normal(size=(1, 9, 8)).astype(np.float32))
    state = layer.initial_state(params, 1, 9)
    found, _ = run_in_steps(lambda params, x, state: step(x, state), params, x, state, range(1, 9))
    np.testing.assert_allclose(found, layer(params, x).numpy(), rtol=1e-5, atol=2e-5)
    assert traces == [(1, 1, 8)]


def test_gradients_of_steps(make_params, rng):
    """The gradients of a sequence processed in steps equal those of the whole sequence."""
    layer = ATTENTION_LAYERS["plain"]
    with plugrad.use("cpu"):
        params = make_params(layer, (4, 8), "float64")
        x = plugrad.asarray(rng.normal(size=(1, 4, 8)))

        def whole(x):
            return plugrad.sum(plugrad.square(layer(params, x)))

        def continued(x):
            state, total = layer.initial_state(params, 1, 4), plugrad.zeros((), dtype="float64")
            for i in range(4):
                y, state = layer.step(params, x[:, i : i + 1], state)
                total = total + plugrad.sum(plugrad.square(y))
            return total

        np.testing.assert_allclose(
            plugrad.grad(continued)(x).numpy(), plugrad.grad(whole)(x).numpy(), atol=1e-12
        )


def test_a_state_has_the_dtype_of_the_parameters(make_params):
    with plugrad.use("cpu"):
        params = make_params(ATTENTION_LAYERS["plain"], (4, 8), "float64")
        keys, values, count = ATTENTION_LAYERS["plain"].initial_state(params, 3, 5)
    assert keys.shape == values.shape == (3, 2, 5, 4)
    assert keys.dtype == values.dtype == plugrad.float64
    assert count.item() == 0


def test_invalid_attention_steps_are_rejected(make_params):
    with plugrad.use("cpu"):
        layer = ATTENTION_LAYERS["plain"]
        params = make_params(layer, (4, 8))
        state = layer.initial_state(params, 2, 4)
        with pytest.raises(ArgumentError, match="needs causal=True"):
            nn.MultiHeadAttention(2, 4).step(params, np.ones((2, 1, 8), "f"), state)
        with pytest.raises(ShapeError, match=r"the state has shapes .* here \(1, 2, 4, 4\)"):
            layer.step(params, np.ones((1, 1, 8), "f"), state)
        with pytest.raises(ShapeError, match="must be"):
            layer.step(params, np.ones((2, 8), "f"), state)
        with pytest.raises(ArgumentError, match="'key'"):
            layer.initial_state({}, 2, 4)
